"""What of an event is told: names and numbers, what a step saved, and nothing of what is said in a conversation."""

from __future__ import annotations

from functools import singledispatch
from typing import Any

from attrs import asdict, frozen

from agentctx.core.report import (
    OverflowMet,
    SessionClosed,
    SessionOpened,
    SessionSaved,
    SilentTruncationSuspected,
    StageReport,
    StepPrepared,
    StepRefused,
    UsageRecorded,
)
from agentctx.economics.conditions import Request, compared
from agentctx.errors import ConfigError
from agentctx.models.table import find

STORES = ("Store", "Sessions")
"""Under these names a report says what could not be kept: of what was left out, of a session's state."""


@singledispatch
def facts(event: object, *, content: bool = False) -> dict[str, Any]:  # noqa: ARG001 - for those registered
    """An event as plain JSON values.

    Args:
        event: What a sink was told.
        content: Whether to tell also each change with its reason, and errors in their own words: these may quote what
            was said.
    """
    return {"event": type(event).__name__}


@facts.register
def _(event: StepPrepared, *, content: bool = False) -> dict[str, Any]:
    report = event.report
    told = {
        "event": "step_prepared",
        **_whose(event),
        "step": event.step,
        "format": event.format,
        "messages_before": report.messages_before,
        "messages_after": report.messages_after,
        "tokens_before": report.tokens_before,
        "tokens_after": report.tokens_after,
        "prefix_tokens": report.prefix_tokens,
        "rebilled_tokens": report.rebilled_tokens,
        "limit": report.limit,
        "first_changed": report.first_changed,
        "seconds": report.seconds,
        "cut": is_cut(event),
        "stages": [_stage(stage) for stage in report.stages if stage.acted],
        "store_failures": store_failures(event),
    }
    if content:
        told["changes"] = [asdict(change) | {"outcome": change.outcome.value} for change in report.changes]
        told["notes"] = [note for stage in report.stages for note in stage.notes]
    return told


@facts.register
def _(event: StepRefused, *, content: bool = False) -> dict[str, Any]:
    told = {"event": "step_refused", **_whose(event), "error": type(event.error).__name__}
    return told | ({"message": str(event.error)} if content else {})


@facts.register
def _(event: UsageRecorded, *, content: bool = False) -> dict[str, Any]:  # noqa: ARG001 - it has none
    return {"event": "usage_recorded", **_whose(event), "billed_tokens": event.billed, "sent_tokens": event.sent}


@facts.register
def _(event: OverflowMet, *, content: bool = False) -> dict[str, Any]:  # noqa: ARG001 - it has none
    told = {"sent_tokens": event.sent, "limit": event.limit, "recovered": event.recovered}
    return {"event": "overflow_met", **_whose(event), **told}


@facts.register
def _(event: SilentTruncationSuspected, *, content: bool = False) -> dict[str, Any]:  # noqa: ARG001 - it has none
    sizes = {"sent_tokens": event.sent, "billed_tokens": event.billed, "window": event.window}
    return {"event": "silent_truncation_suspected", "session": event.session, "step": event.step, **sizes}


@facts.register
def _(event: SessionOpened, *, content: bool = False) -> dict[str, Any]:  # noqa: ARG001 - it has none
    return {"event": "session_opened", "session": str(event.name), "loaded": event.loaded}


@facts.register
def _(event: SessionSaved, *, content: bool = False) -> dict[str, Any]:  # noqa: ARG001 - it has none
    sizes = {"written_bytes": event.written, "bytes": event.bytes}
    return {"event": "session_saved", "session": event.name, **sizes}


@facts.register
def _(event: SessionClosed, *, content: bool = False) -> dict[str, Any]:  # noqa: ARG001 - it has none
    return {"event": "session_closed", "session": str(event.name), "why": event.why}


def is_cut(event: StepPrepared) -> bool:
    """Whether the request does not begin with the one before, or, without a session, is less than what was given."""
    report = event.report
    if event.session is None and event.step is None:
        return report.tokens_after < report.tokens_before
    return report.acted and report.first_changed is not None


def store_failures(event: StepPrepared) -> int:
    """How much could not be kept in the pipeline's store at this step."""
    return sum(len(stage.notes) for stage in event.report.stages if stage.stage in STORES)


def _whose(event: StepPrepared | StepRefused | UsageRecorded | OverflowMet) -> dict[str, Any]:
    return {"session": event.session, "model": event.model}


def _stage(stage: StageReport) -> dict[str, Any]:
    return {
        "stage": stage.stage,
        "tokens_before": stage.tokens_before,
        "tokens_after": stage.tokens_after,
        "changes": len(stage.changes),
        "seconds": stage.seconds,
    }


@frozen
class Saved:
    """What one request takes less than the whole history would.

    Args:
        tokens: Input tokens that are not sent.
        usd: What the input costs less, in USD, while the prompt cache holds what the request before had sent; negative
            where a cut makes this call dearer, to make the later ones cheaper. None where no model was named, or its
            prices are not known.

    Example:
        >>> from agentctx.sinks import Saved
        >>> Saved(tokens=1_200, usd=0.0036).tokens
        1200
    """

    tokens: int
    usd: float | None


def saved(event: StepPrepared) -> Saved:
    """What the request of a step saved.

    Args:
        event: What a sink was told of the step.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.sinks import saved
        >>> def tell(event):
        ...     print(saved(event))
        >>> view = await Pipeline(sinks=[tell]).prepare([{"role": "user", "content": "Hello"}], model="gpt-5.4")
        Saved(tokens=0, usd=0.0)
    """
    report = event.report
    before, after = report.tokens_before, report.tokens_after - report.cleared_tokens
    known = event.known_tokens or report.prefix_tokens  # of a session that was loaded, what was sent is known alone
    whole, sent = Request(before, min(before, known)), Request(after, min(after, report.prefix_tokens))
    return Saved(before - after, _usd(event.model, whole, sent))


def _usd(name: str | None, whole: Request, sent: Request) -> float | None:
    model = None if name is None else find(name)
    if model is None:
        return None
    try:
        reckoned = compared(model, whole, sent)
    except ConfigError:  # it has no prices
        return None
    return reckoned.without - reckoned.with_cut
