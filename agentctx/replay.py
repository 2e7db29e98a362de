"""A recorded agent session, call by call: what each model call would have been sent, and what that comes to.

``replay`` gives a step for each call, ``summarise`` adds them up, and ``shown`` has each message of one request beside
what it was made from.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from itertools import groupby
from time import perf_counter
from typing import Any

from attrs import asdict, evolve, field, frozen

from agentctx.changes import Change, Outcome, match
from agentctx.economics import Usage
from agentctx.engine.reading import Reader, as_list, reader
from agentctx.errors import ContextOverflow
from agentctx.message import Media, Message, Native, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.pipeline import Pipeline
from agentctx.reports import View
from agentctx.rules import find_violations
from agentctx.session.session import Session
from agentctx.wire_format import Violation


@frozen
class Billed:
    """What a provider billed for one model call of a recording.

    Args:
        index: Index of a message of the answer.
        usage: The tokens, as they were billed.
        model: The model that answered, when the recording names it.
        at: When, in seconds since 1970, when the recording says so.
        cost: What it cost in USD, when the recording itself says so.
    """

    index: int
    usage: Usage
    model: str | None = None
    at: float | None = None
    cost: float | None = None


@frozen
class Recording:
    """A recorded agent session, in its provider's own shape.

    Args:
        messages: The native messages, in order.
        system: The system prompt, where it is kept apart from the messages.
        tools: The native tool definitions.
        format: Name of the wire format; found out when not given.
        model: The model that was called, when the recording names it.
        id: The recording's name, when it has one.
        pending: Whether the messages were about to be sent, so that a last user message or tool result is one more
            model call.
        billed: What was billed for the model calls, in their order, as far as the recording says so.
    """

    messages: Sequence[Any] = field(repr=False)
    system: Native = field(default=None, repr=False)
    tools: Sequence[Any] | None = field(default=None, repr=False)
    format: str | None = None
    model: str | None = None
    id: str | None = None
    pending: bool = True
    billed: tuple[Billed, ...] = field(default=(), repr=False)


@frozen
class Step:
    """One model call of a recording, as it would have been sent.

    Args:
        number: The number of the call, from 1.
        index: How many messages of the recording the call saw: the answer stands at this index.
        fresh: Index of the first message that the call before had not seen.
        messages_given: Number of messages in the request as the loop had it.
        messages_sent: Number of messages that would have been sent; 0 when the request overflowed.
        tokens_given: Size of the request as the loop had it, in tokens.
        tokens_sent: Size of the request that would have been sent, in tokens; 0 when it overflowed.
        prefix_tokens: Tokens at the start of the request that equal those of the call before.
        limit: The most tokens that the request could have, or None when there is no budget.
        changes: What this step changed that the steps before had not.
        violations: The provider's rules that the request sent would break.
        seconds: How long preparing it took.
        overflow: Why nothing could be sent, when the request could not be made to fit.
        view: The request that would have been sent; None when it overflowed.
    """

    number: int
    index: int
    fresh: int
    messages_given: int
    messages_sent: int = 0
    tokens_given: int = 0
    tokens_sent: int = 0
    prefix_tokens: int = 0
    limit: int | None = None
    changes: tuple[Change, ...] = ()
    violations: tuple[Violation, ...] = ()
    seconds: float = 0.0
    overflow: ContextOverflow | None = None
    view: View | None = field(default=None, eq=False, repr=False)

    @property
    def prefix_share(self) -> float:
        """The share of the request sent, 0 to 1, that is an unchanged start of the one before."""
        return self.prefix_tokens / self.tokens_sent if self.tokens_sent else 0.0

    @property
    def compacted(self) -> bool:
        """Whether messages that an earlier call had seen were changed, or any were left out; cache markers aside."""
        said = (change for change in self.changes if change.outcome not in (Outcome.MARKED, Outcome.KEPT))
        return any(change.outcome is Outcome.DROPPED or change.index < self.fresh for change in said)

    @property
    def valid(self) -> bool:
        """Whether the provider would take the request: it breaks no rule with severity ``"error"``."""
        return self.overflow is None and not any(found.severity == "error" for found in self.violations)

    @property
    def fits(self) -> bool:
        """Whether the request that would have been sent is within the budget."""
        return self.overflow is None and (self.limit is None or self.tokens_sent <= self.limit)

    def without_view(self) -> Step:
        """The same numbers without the messages, so that a long replay can be kept."""
        return evolve(self, view=None)


async def replay(recording: Recording, pipeline: Pipeline, *, model: str | None = None) -> AsyncIterator[Step]:
    """Send a recording through a session of the pipeline, model call by model call.

    A call whose request cannot be made to fit is a step with ``overflow``; the replay goes on.

    Args:
        recording: What was recorded.
        pipeline: What to put between the loop and the model.
        model: The model to prepare for; without it, the recorded one.

    Yields:
        One step for each model call.

    Raises:
        InvalidInput: If a message cannot be read.
        AmbiguousFormat: If several formats fit and none is named.
    """
    source = reader_of(recording, model)
    session = pipeline.session(model=model or recording.model, format=source.wire.name, id=recording.id)
    walk = _Walk(recording, source, session)
    fresh = 0
    for number, index in enumerate(calls_of(recording, model=model), 1):
        yield await walk.step(number, index, fresh)
        fresh = index


def model_calls(messages: Sequence[Any], format: str | None = None) -> list[int]:  # noqa: A002 - the contract's name
    """Where the model was called: each index at which an assistant turn begins.

    The call saw the messages before the index. A turn may be several messages (or items) of the assistant in a row.
    A recording that begins with the assistant has no call for that turn, since nothing was sent.

    Args:
        messages: The native messages of a recording.
        format: Name of the wire format; found out when not given.

    Raises:
        InvalidInput: If a message cannot be read.
    """
    if not messages:
        return []
    return turns(reader(messages, format=format).messages(messages))


def turns(messages: Sequence[Message]) -> list[int]:
    """Each index at which a turn of the assistant begins that something was sent for."""
    speaking = [message.role == "assistant" for message in messages]
    return [index for index in range(1, len(speaking)) if speaking[index] and not speaking[index - 1]]


def calls_of(recording: Recording, *, model: str | None = None) -> list[int]:
    """The model calls of a recording, as ``model_calls``, with the one that it was about to make.

    Args:
        recording: The recording.
        model: The model, when it is not the recorded one.

    Raises:
        InvalidInput: If a message cannot be read.
    """
    given = reader_of(recording, model).messages(as_list(recording.messages))
    calls = turns(given)
    waits = given[-1].role != "assistant"
    return [*calls, len(given)] if waits and (recording.pending or not calls) else calls


def reader_of(recording: Recording, model: str | None = None) -> Reader:
    """Reads a recording: in its format, which is found out when it is not named, and as the model counts.

    Args:
        recording: The recording.
        model: The model, when it is not the recorded one.

    Raises:
        InvalidInput: If no format fits.
        AmbiguousFormat: If several formats fit and none is named.
    """
    return reader(
        as_list(recording.messages),
        system=recording.system,
        tools=recording.tools,
        format=recording.format,
        model=model or recording.model,
    )


@frozen
class _Walk:
    """What the steps of a replay share."""

    recording: Recording
    source: Reader
    session: Session

    async def step(self, number: int, index: int, fresh: int) -> Step:
        """The call that saw the first ``index`` messages, of which the call before had seen ``fresh``."""
        given = list(self.recording.messages[:index])
        started = perf_counter()
        try:
            view = await self.session.prepare(given, system=self.recording.system, tools=self.recording.tools)
        except ContextOverflow as overflow:
            return self.overflowed(Step(number, index, fresh, len(given)), given, overflow, perf_counter() - started)
        report, seconds = view.report, perf_counter() - started
        return Step(
            number=number,
            index=index,
            fresh=fresh,
            messages_given=report.messages_before,
            messages_sent=report.messages_after,
            tokens_given=report.tokens_before,
            tokens_sent=report.tokens_after,
            prefix_tokens=report.prefix_tokens,
            limit=report.limit,
            changes=report.changes,
            violations=self.violations(given, view),
            seconds=seconds,
            view=view,
        )

    def overflowed(self, step: Step, given: Sequence[Any], overflow: ContextOverflow, seconds: float) -> Step:
        """The step when nothing could be sent."""
        whole = self.source.context(given, self.recording.system, self.recording.tools)
        size = self.source.meter.size(whole)
        return evolve(step, tokens_given=size, limit=overflow.limit, overflow=overflow, seconds=seconds)

    def violations(self, given: Sequence[Any], view: View) -> tuple[Violation, ...]:
        """The provider's rules that the request sent would break."""
        wire, system = self.source.wire, self.recording.system
        request = wire.keys.request(view.messages, system, view.tools)
        before = wire.keys.request(given, system, self.recording.tools)
        return find_violations(wire, request, self.source.profile, before)


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


def summarise(steps: Sequence[Step]) -> Summary:
    """The replay in numbers.

    Args:
        steps: All of its steps; without their views they are small.

    Example:
        >>> from agentctx.presets import coding_agent
        >>> from agentctx.replay import Recording, replay, summarise
        >>> said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello."}]
        >>> steps = [step.without_view() async for step in replay(Recording(said), coding_agent(8_000))]
        >>> found = summarise(steps)
        >>> found.steps, found.compactions, found.clean
        (1, 0, True)
    """
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


_GONE = {Outcome.DROPPED, Outcome.SUMMARISED, Outcome.OFFLOADED}


def verdict(summary: Summary) -> str:
    """Whether every call could have been sent: ``valid 57/57, within budget 57/57``."""
    if not summary.steps:
        return "no model calls: there is no answer in it that something was sent for"
    return f"valid {summary.valid}/{summary.steps}, within budget {summary.fitting}/{summary.steps}"


def summary_rows(summary: Summary) -> list[tuple[str, str]]:
    """A summary as pairs of a label and what there is to say."""
    share = summary.prefix_tokens / max(1, summary.tokens_sent)
    cached = f", {share:.0%} of what was sent: a provider's cache can hold it" if summary.tokens_sent else ""
    overflowed = f", {summary.overflowed} could not be sent" if summary.overflowed else ""
    rows = [
        ("model calls", f"{summary.steps}, {summary.compactions} compacted (▼){overflowed}"),
        ("tokens given", f"{summary.tokens_given:,} in all, {summary.peak_given:,} at most"),
        ("tokens sent", f"{summary.tokens_sent:,} in all, {summary.peak_sent:,} at most"),
        ("unchanged prefix", f"{summary.prefix_tokens:,}{cached}"),
        ("time", f"{summary.seconds:.2f} s, {1000 * summary.seconds / max(1, summary.steps):.1f} ms a call"),
    ]
    for place, item in enumerate(summary.left_out):
        rows.append(("left out" if place == 0 else "", str(item) + " tokens"))
    return rows


def step_note(step: Step) -> str:
    """What there is to say about a step: what was left out by which stage, or why nothing could be sent."""
    if step.overflow is not None:
        return f"nothing sent: {step.overflow}"
    return "; ".join(map(str, left_out(step.changes)))


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
        changes = made if origin is None else done
        change = changes.get(sent if origin is None else origin)
        outcome = change.outcome if change else (Outcome.ADDED if origin is None else Outcome.KEPT)
        why = (change.stage, change.reason) if change else ("", "")
        lines.append(Shown(outcome, origin, sent, message.role, count(message), part_texts(message), *why))
    lines += [_left_out(index, given[index], done.get(index), count) for index in (lost, *gone) if index < len(given)]
    return tuple(lines)


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
