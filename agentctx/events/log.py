"""What happens, as lines: in the log for people, as JSON for machines; and what of an event is told at all.

That is names and numbers, what a step saved, and nothing of what is said in a conversation unless asked for.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable
from functools import singledispatch
from pathlib import Path
from threading import Lock
from time import time
from typing import Any, Protocol

from attrs import asdict, define, field, frozen

from agentctx.characters import printable
from agentctx.economics import Request, compared
from agentctx.errors import ConfigError
from agentctx.models.table import find
from agentctx.reports import (
    Event,
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
from agentctx.validators import CLOCK, TRUTH, MustBe, a, holds


@define(eq=False)
class LogEvents:
    """Writes each event to a logger, one line each: quiet steps as DEBUG, cuts as INFO, what went wrong as WARNING.

    Each record has the event's numbers as ``record.agentctx``, for handlers that write structured logs. Nothing of
    what was said is in it.

    Args:
        logger: The logger, or its name.

    Example:
        >>> import logging
        >>> from agentctx import Pipeline
        >>> from agentctx.events import LogEvents
        >>> logging.getLogger("steps").addFilter(lambda record: print(record.getMessage()))
        >>> logging.getLogger("steps").setLevel("DEBUG")
        >>> view = await Pipeline(subscribers=[LogEvents("steps")]).prepare([{"role": "user", "content": "Hello"}])
        prepared: 1 -> 1 messages, 8 -> 8 tokens
    """

    logger: logging.Logger | str = field(
        default="agentctx.events", validator=a((logging.Logger, str), "a logger, or its name")
    )

    def __call__(self, event: Event, /) -> None:
        """Write the event."""
        logger = logging.getLogger(self.logger) if isinstance(self.logger, str) else self.logger
        level = _level(event)
        if logger.isEnabledFor(level):
            # on one line: who names a conversation or a model writes no line of its own
            logger.log(level, "%s", printable(self._line(event)).replace("\n", "␊"), extra={"agentctx": _facts(event)})

    def _line(self, event: Event) -> str:
        told = _facts(event)
        whose = f" [{told['session']}]" if told.get("session") is not None else ""
        if not isinstance(event, StepPrepared):
            rest = ", ".join(f"{name} {value}" for name, value in told.items() if name not in ("event", "session"))
            return f"{told['event'].replace('_', ' ')}{whose}: {rest}"
        report, usd = event.report, saved(event).usd
        acted = [stage.stage for stage in report.stages if stage.acted and not stage.marks_only]
        by = f" by {', '.join(acted)}" if acted else ""
        less = f", ${usd:.4f} saved" if usd else ""
        return (
            f"{'cut' if is_cut(event) else 'prepared'}{whose}{by}: {report.messages_before} -> {report.messages_after} "
            f"messages, {report.tokens_before:,} -> {report.tokens_after:,} tokens{less}"
        )


def _level(event: Event) -> int:
    if isinstance(event, (StepRefused, OverflowMet, SilentTruncationSuspected)):
        return logging.WARNING
    if isinstance(event, StepPrepared):
        if store_failures(event):
            return logging.WARNING
        return logging.INFO if is_cut(event) else logging.DEBUG
    return logging.DEBUG


class Writable(Protocol):
    """What lines of text can be written to: an open file, ``sys.stdout``."""

    def write(self, text: str, /) -> object:
        """Take a line, with its end."""
        ...

    def flush(self) -> object:
        """Pass on what was taken."""
        ...


_PLACE = MustBe(
    "the path of a file in a folder that is there, or a file that is open for text",
    holds(
        lambda to: (
            Path(to).parent.is_dir() and not Path(to).is_dir()
            if isinstance(to, (str, os.PathLike))
            else callable(getattr(to, "write", None))
        )
    ),
)


@define(eq=False)
class JsonLines:
    """Writes each event as one JSON object on a line of its own, with the time in seconds since 1970.

    It has names, sizes and times, and nothing of what was said, unless ``content`` asks for it. A file is made
    readable for its owner alone, and written behind what it has; several processes may write to one.

    Args:
        to: The path of a file, or something open.
        content: Whether to write also each change with its reason, and errors in their own words.
        clock: Seconds since 1970.

    Raises:
        ConfigError: If ``to`` is neither a path nor something that can be written to, or the file's
            folder is not there.

    Example:
        >>> import io, json
        >>> from agentctx import Pipeline
        >>> from agentctx.events import JsonLines
        >>> lines = io.StringIO()
        >>> view = await Pipeline(subscribers=[JsonLines(lines)]).prepare([{"role": "user", "content": "Hello"}])
        >>> json.loads(lines.getvalue())["tokens_after"]
        8
    """

    to: str | os.PathLike[str] | Writable = field(validator=_PLACE)
    content: bool = field(default=False, validator=TRUTH, kw_only=True)
    clock: Callable[[], float] = field(default=time, validator=CLOCK, kw_only=True, repr=False)
    _guard: Lock = field(init=False, factory=Lock, repr=False)

    def __call__(self, event: Event, /) -> None:
        """Write the event."""
        told = {"time": round(self.clock(), 3), **_facts(event, content=self.content)}
        if isinstance(event, StepPrepared):
            less = saved(event)
            told |= {"saved_tokens": less.tokens, "saved_usd": less.usd}
        self._write(json.dumps(told, ensure_ascii=True, default=str) + "\n")

    def _write(self, line: str) -> None:
        if not isinstance(self.to, (str, os.PathLike)):
            with self._guard:
                self.to.write(line)
                self.to.flush()
            return
        file = os.open(Path(self.to), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode())  # at once, so that lines of several processes do not mix
        finally:
            os.close(file)


@frozen
class Saved:
    """What one request takes less than the whole history would.

    Args:
        tokens: Input tokens that are not sent.
        usd: What the input costs less, in USD, while the prompt cache holds what the request before had sent; negative
            where a cut makes this call dearer, to make the later ones cheaper. None where no model was named, or its
            prices are not known.

    Example:
        >>> from agentctx.events import Saved
        >>> Saved(tokens=1_200, usd=0.0036).tokens
        1200
    """

    tokens: int
    usd: float | None


def saved(event: StepPrepared) -> Saved:
    """What the request of a step saved.

    Args:
        event: What a subscriber was told of the step.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.events import saved
        >>> def tell(event):
        ...     print(saved(event))
        >>> view = await Pipeline(subscribers=[tell]).prepare([{"role": "user", "content": "Hello"}], model="gpt-5.4")
        Saved(tokens=0, usd=0.0)
    """
    report = event.report
    before, after = report.tokens_before, report.tokens_after
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


def is_cut(event: StepPrepared) -> bool:
    """Whether the request does not begin with the one before, or, without a session, is less than what was given."""
    report = event.report
    if event.session is None and event.step is None:
        return report.tokens_after < report.tokens_before
    return report.acted and report.first_changed is not None


def store_failures(event: StepPrepared) -> int:
    """How much could not be kept in the pipeline's store at this step."""
    return sum(len(stage.notes) for stage in event.report.stages if stage.stage in _STORES)


_STORES = ("Store", "Sessions")
"""Under these names a report says what could not be kept: of what was left out, of a session's state."""


@singledispatch
def _facts(event: object, *, content: bool = False) -> dict[str, Any]:  # noqa: ARG001 - for those registered
    """An event as plain JSON values; ``content`` adds reasons and errors in their own words, which may quote."""
    return {"event": type(event).__name__}


@_facts.register
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


@_facts.register
def _(event: StepRefused, *, content: bool = False) -> dict[str, Any]:
    told = {"event": "step_refused", **_whose(event), "error": type(event.error).__name__}
    return told | ({"message": str(event.error)} if content else {})


@_facts.register
def _(event: UsageRecorded, *, content: bool = False) -> dict[str, Any]:  # noqa: ARG001 - it has none
    return {"event": "usage_recorded", **_whose(event), "billed_tokens": event.billed, "sent_tokens": event.sent}


@_facts.register
def _(event: OverflowMet, *, content: bool = False) -> dict[str, Any]:  # noqa: ARG001 - it has none
    told = {"sent_tokens": event.sent, "limit": event.limit, "recovered": event.recovered}
    return {"event": "overflow_met", **_whose(event), **told}


@_facts.register
def _(event: SilentTruncationSuspected, *, content: bool = False) -> dict[str, Any]:  # noqa: ARG001 - it has none
    sizes = {"sent_tokens": event.sent, "billed_tokens": event.billed, "window": event.window}
    return {"event": "silent_truncation_suspected", "session": event.session, "step": event.step, **sizes}


@_facts.register
def _(event: SessionOpened, *, content: bool = False) -> dict[str, Any]:  # noqa: ARG001 - it has none
    return {"event": "session_opened", "session": str(event.name), "loaded": event.loaded}


@_facts.register
def _(event: SessionSaved, *, content: bool = False) -> dict[str, Any]:  # noqa: ARG001 - it has none
    sizes = {"written_bytes": event.written, "bytes": event.bytes}
    return {"event": "session_saved", "session": event.name, **sizes}


@_facts.register
def _(event: SessionClosed, *, content: bool = False) -> dict[str, Any]:  # noqa: ARG001 - it has none
    return {"event": "session_closed", "session": str(event.name), "why": event.why}


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
