"""What a request and a replay come to, for people and as JSON: messages beside what they were made from, numbers."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

from attrs import asdict, frozen

from agentctx.core.changes import Change, Outcome, match
from agentctx.core.message import Media, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.core.report import View
from agentctx.replay import Step
from agentctx.retention import Retention
from agentctx.wire_format import Violation


@frozen
class Shown:
    """One message of a request, or one that was left out of it.

    Args:
        outcome: What became of it.
        given: Its index in the messages that the loop had; None for a message that a stage put in.
        sent: Its index in the request; None when it was left out.
        role: Its role.
        tokens: Its size in the request, or what leaving it out saved, in tokens.
        parts: What it says, part by part, as it would be sent; of a message that was left out, what it said.
        stage: The last stage that changed it, if any did.
        reason: Why.
    """

    outcome: Outcome
    given: int | None
    sent: int | None
    role: str
    tokens: int
    parts: tuple[str, ...]
    stage: str = ""
    reason: str = ""

    @property
    def text(self) -> str:
        """All that it says."""
        return "\n".join(self.parts)


def shown(view: View, given: Sequence[Message], count: Callable[[Message], int]) -> tuple[Shown, ...]:
    """Every message of the request in order, with those that were left out where they had stood."""
    after = view.context.messages
    found = match(given, after)
    made = {change.index: change for change in view.report.in_force if change.outcome is Outcome.ADDED}
    done = {change.index: change for change in view.report.in_force if change.outcome is not Outcome.ADDED}
    gone = iter((*found.dropped, len(given)))
    lost = next(gone)
    lines: list[Shown] = []
    for sent, message in enumerate(after):
        origin = found.origins[sent]
        while origin is not None and lost < origin:
            lines.append(_left_out(lost, given[lost], done.get(lost), count))
            lost = next(gone)
        lines.append(_sent(message, sent, origin, made if origin is None else done, count))
    lines += [_left_out(index, given[index], done.get(index), count) for index in (lost, *gone) if index < len(given)]
    return tuple(lines)


def _sent(
    message: Message, sent: int, origin: int | None, changes: Mapping[int, Change], count: Callable[[Message], int]
) -> Shown:
    change = changes.get(sent if origin is None else origin)
    outcome = change.outcome if change else (Outcome.ADDED if origin is None else Outcome.KEPT)
    why = (change.stage, change.reason) if change else ("", "")
    return Shown(outcome, origin, sent, message.role, count(message), part_texts(message), *why)


def _left_out(index: int, message: Message, change: Change | None, count: Callable[[Message], int]) -> Shown:
    outcome = change.outcome if change and change.outcome is not Outcome.EDITED else Outcome.DROPPED
    why = (change.stage, change.reason) if change else ("", "")
    return Shown(outcome, index, None, message.role, count(message), part_texts(message), *why)


def in_runs(lines: Sequence[Shown]) -> Iterator[tuple[Shown, ...]]:
    """The lines one by one, but neighbours that were left out by the same stage for the same reason together."""
    for key, run in groupby(lines, key=lambda line: (line.sent, line.stage, line.reason)):
        if key[0] is None:
            yield tuple(run)
        else:
            yield from ((line,) for line in run)


def part_texts(message: Message) -> tuple[str, ...]:
    """What a message says, part by part, for people; blank parts say nothing."""
    return tuple(filter(str.strip, map(_part_text, message.parts)))


def _part_text(part: Part) -> str:
    match part:
        case Text(text=text):
            return text
        case Thinking(text=text, encrypted=encrypted):
            return f"[thinking] {text}" if text else f"[thinking] {len(encrypted or ''):,} encrypted characters"
        case ToolCall(name=name, arguments=arguments):
            return f"[call] {name} {arguments}"
        case ToolResult(content=content, is_error=is_error):
            inner = "\n".join(map(_part_text, content))
            return f"[{'error' if is_error else 'result'}] {inner}"
        case Media(kind=kind, media_type=media_type, url=url):
            return f"[{kind}] {media_type or ''} {url or ''}".rstrip()
        case Opaque(kind=kind, data=data):
            return f"[{kind}] {json.dumps(data, default=str, ensure_ascii=False)}"


def view_json(view: View) -> dict[str, Any]:
    """The request as JSON values, with every change in force."""
    request = {"system": view.system, "tools": view.tools, "messages": view.messages}
    return {
        "request": {key: value for key, value in request.items() if value is not None},
        "report": view.report.to_dict(),
    }


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
    """What was left out, by stage, in the order in which the stages first acted; not who only set cache markers."""
    by_stage: dict[str, list[Change]] = {}
    for change in changes:
        if change.outcome in (Outcome.MARKED, Outcome.KEPT):
            continue
        by_stage.setdefault(change.stage, []).append(change)
    return tuple(_by_stage(stage, found) for stage, found in by_stage.items())


def _by_stage(stage: str, changes: Sequence[Change]) -> LeftOut:
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
    if not summary.steps:
        return "no model calls: there is no answer in it that something was sent for"
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


def retention_rows(found: Retention) -> list[tuple[str, str]]:
    """What later calls needed and what became of the user's messages, as pairs of a label and what there is to say."""
    if not found.values:
        values = "no call took a value from what stood before it"
    else:
        places = (("recallable", found.recallable), ("found by search", found.searchable), ("lost", found.lost))
        rest = "".join(f", {count:,} {what}" for what, count in places if count)
        values = f"{found.values:,}, {found.visible:,} visible ({found.visible_share:.1%}){rest}"
    silent = f", {found.silent:,} silently lost" if found.silent else ""
    said = f"{found.said:,} between the first and the last, {found.kept:,} kept in the last request{silent}"
    return [("values needed later", values), ("the user's messages", said)]


def _calls(summary: Summary) -> str:
    overflowed = f", {summary.overflowed} could not be sent" if summary.overflowed else ""
    return f"{summary.steps}, {summary.compactions} compacted (▼){overflowed}"


def _cached(summary: Summary) -> str:
    if not summary.tokens_sent:
        return ""
    return f", {summary.prefix_tokens / summary.tokens_sent:.0%} of what was sent: a provider's cache can hold it"
