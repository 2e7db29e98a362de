"""A replay as rows, a summary and JSON values."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from attrs import asdict, frozen

from agentctx.core.compare import Change, Outcome
from agentctx.replay import Step
from agentctx.wire_format import Violation

_GONE = {Outcome.DROPPED, Outcome.SUMMARISED, Outcome.OFFLOADED}


@frozen
class LeftOut:
    """What one stage left out.

    Args:
        stage: Its name.
        edited: Messages that it shortened or repaired.
        dropped: Messages that it took out.
        added: Messages that it put in.
        tokens: Tokens that this took off the requests (negative when it made them larger).
    """

    stage: str
    edited: int
    dropped: int
    added: int
    tokens: int

    def __str__(self) -> str:
        """One phrase: ``ClearToolResults 12 edited, 3 dropped -5,400``."""
        counts = (("edited", self.edited), ("dropped", self.dropped), ("added", self.added))
        return f"{self.stage} {', '.join(f'{count} {what}' for what, count in counts if count)} {-self.tokens:+,}"


@frozen
class Summary:
    """A whole replay in numbers; sizes are in tokens.

    Args:
        steps: Model calls.
        compactions: Calls at which older messages were changed or left out.
        tokens_given: All requests together, as the loop had them.
        tokens_sent: All requests together, as they would have been sent.
        peak_given: The largest request as the loop had it.
        peak_sent: The largest request that would have been sent.
        prefix_tokens: What of ``tokens_sent`` is an unchanged start of the request before, which a provider's cache
            can hold.
        valid: Calls whose request breaks no rule of the provider.
        fitting: Calls whose request is within the budget.
        overflowed: Calls for which nothing could be sent.
        left_out: What was left out, by stage.
        seconds: How long preparing all of it took.
    """

    steps: int
    compactions: int
    tokens_given: int
    tokens_sent: int
    peak_given: int
    peak_sent: int
    prefix_tokens: int
    valid: int
    fitting: int
    overflowed: int
    left_out: tuple[LeftOut, ...]
    seconds: float

    @property
    def clean(self) -> bool:
        """Whether every call could have been sent: valid, and within budget."""
        return self.valid == self.fitting == self.steps


def left_out(changes: Iterable[Change]) -> tuple[LeftOut, ...]:
    """What was left out, by stage, in the order in which the stages first acted."""
    by_stage: dict[str, list[Change]] = {}
    for change in changes:
        by_stage.setdefault(change.stage, []).append(change)
    return tuple(_left_out(stage, found) for stage, found in by_stage.items())


def _left_out(stage: str, changes: Sequence[Change]) -> LeftOut:
    return LeftOut(
        stage,
        edited=sum(change.outcome is Outcome.EDITED for change in changes),
        dropped=sum(change.outcome in _GONE for change in changes),
        added=sum(change.outcome is Outcome.ADDED for change in changes),
        tokens=sum(change.tokens_before - change.tokens_after for change in changes),
    )


def summarise(steps: Sequence[Step]) -> Summary:
    """The replay in numbers."""
    return Summary(
        steps=len(steps),
        compactions=sum(step.compacted for step in steps),
        tokens_given=sum(step.tokens_given for step in steps),
        tokens_sent=sum(step.tokens_sent for step in steps),
        peak_given=max((step.tokens_given for step in steps), default=0),
        peak_sent=max((step.tokens_sent for step in steps), default=0),
        prefix_tokens=sum(step.prefix_tokens for step in steps),
        valid=sum(step.valid for step in steps),
        fitting=sum(step.fits for step in steps),
        overflowed=sum(step.overflow is not None for step in steps),
        left_out=left_out(change for step in steps for change in step.changes),
        seconds=sum(step.seconds for step in steps),
    )


def step_json(step: Step) -> dict[str, Any]:
    """A step as JSON values, without the messages."""
    return {
        "call": step.number,
        "index": step.index,
        "messages_given": step.messages_given,
        "messages_sent": step.messages_sent,
        "tokens_given": step.tokens_given,
        "tokens_sent": step.tokens_sent,
        "limit": step.limit,
        "prefix_tokens": step.prefix_tokens,
        "prefix_share": round(step.prefix_share, 4),
        "compacted": step.compacted,
        "valid": step.valid,
        "within_budget": step.fits,
        "left_out": [asdict(item) for item in left_out(step.changes)],
        "changes": [asdict(change) for change in step.changes],
        "violations": [asdict(violation) for violation in step.violations],
        "overflow": None if step.overflow is None else str(step.overflow),
        "seconds": round(step.seconds, 6),
    }


def step_note(step: Step) -> str:
    """What there is to say about a step: what was left out by which stage, or why nothing could be sent."""
    if step.overflow is not None:
        return f"nothing sent: {step.overflow}"
    return "; ".join(map(str, left_out(step.changes)))


@frozen
class Fault:
    """One rule that requests of a replay break.

    Args:
        call: The number of the first call whose request breaks it.
        first: How that request breaks it.
        count: How often it is broken in all.
    """

    call: int
    first: Violation
    count: int

    def __str__(self) -> str:
        """One line: how often, and the first one in full."""
        times = "" if self.count == 1 else f", {self.count:,} in all"
        return f"call {self.call}{times}: {self.first}"


def faults(steps: Iterable[Step]) -> tuple[Fault, ...]:
    """The rules that the requests break, one entry each, in the order in which they are first broken."""
    found: dict[tuple[str, str], list[tuple[int, Violation]]] = {}
    for step in steps:
        for violation in step.violations:
            found.setdefault((violation.severity, violation.rule), []).append((step.number, violation))
    return tuple(Fault(*places[0], len(places)) for places in found.values())


def verdict(summary: Summary) -> str:
    """Whether every call could have been sent: ``valid 57/57, within budget 57/57``."""
    return f"valid {summary.valid}/{summary.steps}, within budget {summary.fitting}/{summary.steps}"


def summary_rows(summary: Summary) -> list[tuple[str, str]]:
    """A summary as pairs of a label and what there is to say."""
    rows = [
        ("model calls", _calls(summary)),
        ("tokens given", f"{summary.tokens_given:,} in all, {summary.peak_given:,} at most"),
        ("tokens sent", f"{summary.tokens_sent:,} in all, {summary.peak_sent:,} at most"),
        ("unchanged prefix", f"{summary.prefix_tokens:,}{_cached(summary)}"),
        ("time", f"{summary.seconds:.2f} s, {1000 * summary.seconds / max(1, summary.steps):.1f} ms a call"),
    ]
    for place, item in enumerate(summary.left_out):
        rows.append(("left out" if place == 0 else "", str(item) + " tokens"))
    return rows


def _calls(summary: Summary) -> str:
    overflowed = f", {summary.overflowed} could not be sent" if summary.overflowed else ""
    return f"{summary.steps}, {summary.compactions} compacted (▼){overflowed}"


def _cached(summary: Summary) -> str:
    if not summary.tokens_sent:
        return ""
    return f", {summary.prefix_tokens / summary.tokens_sent:.0%} of what was sent: a provider's cache can hold it"
