"""One step of a session: look at what is new, act when the context has grown too large, commit at the end."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

from attrs import define, field, frozen

from agentctx.core.compare import Outcome
from agentctx.core.message import Context, Message, Tool
from agentctx.core.pace import paced
from agentctx.core.pairing import open_at_end, waits
from agentctx.core.report import StageReport
from agentctx.core.units import units
from agentctx.offload import MUCH, offload
from agentctx.plan import something_left
from agentctx.protocols import Call
from agentctx.runner import Trail, run_stage
from agentctx.session.cost import warmth_after
from agentctx.session.foreign import DropForeignReasoning
from agentctx.session.late import asked_at
from agentctx.session.record import Record, call_ids, rewound
from agentctx.session.snapshot import snapshot, snapshots
from agentctx.session.surroundings import Surroundings
from agentctx.session.weights import Weights
from agentctx.strategies.repair_history import has_server_calls, repair


@frozen
class Standing:
    """Where a step stands: what the stages did so far, and from which place of the record's view on.

    Args:
        trail: As of ``Step``.
        start: As of ``Step``.
    """

    trail: Trail
    start: int


@define
class Step:
    """What a step has worked out; nothing is remembered before ``commit``.

    Args:
        around: What the step knows beside the messages.
        record: What is known of the conversation.
        natives: Everything the caller passed.
        seen: What the messages that are new look like.
        trail: The part of the view that the step works on, and what the stages did.
        arrived: What the messages that are new weigh.
        start: From this place of the record's view on, the trail's messages replace it.
        raw: The new messages as they were read, with those of the unfinished round before them.
        raw_origin: The index in the history of each of ``raw``.
        idle: Seconds since the last request was prepared; None when there was none.
        open_from: Index in the history from which the last round is unfinished; None when it is finished.
        ids: The call ids that repair has seen in this step.
        quiet_until: See ``Record``.
        waiting: See ``Record``.
        bound_to: System prompt and tools that the reasoning so far was made with; None when they are those of now.
    """

    around: Surroundings
    record: Record
    natives: Sequence[Any]
    seen: list[Any]
    trail: Trail
    arrived: Weights
    start: int
    raw: list[Message]
    raw_origin: list[int]
    idle: float | None
    open_from: int | None = None
    ids: set[str] = field(factory=set)
    quiet_until: int = 0
    waiting: bool = False
    bound_to: tuple[Message | None, tuple[Tool, ...]] | None = None

    def standing(self) -> Standing:
        """Where the step stands now, to be restored."""
        return Standing(self.trail.copy(), self.start)

    def restore(self, standing: Standing) -> None:
        """Go back to where the step stood."""
        self.trail, self.start = standing.trail, standing.start

    def call(self, limit: int | None = None) -> Call:
        """What the stages are told, with the tokens to come down to."""
        around = self.around
        if limit is None and not around.plan.protect:
            return around.call(self.warmth)
        return around.plan.call(around.source, around.budget, limit, len(self.natives), self.message_at, self.warmth)

    @property
    def warmth(self) -> float:
        """The believed share of the last request that the provider's cache still holds."""
        return warmth_after(self.around.source.profile, self.idle)

    def message_at(self, index: int) -> Message | None:
        """The message that was read from the history at ``index``; None when it is gone."""
        record, trail = self.record, self.trail
        known = zip(
            (*record.view[: self.start], *trail.context.messages),
            (*record.origins[: self.start], *trail.origins),
            strict=True,
        )
        return next((message for message, origin in known if origin == index), None)

    @property
    def tokens(self) -> int:
        """Size of the request, in tokens."""
        return self.trail.tokens


async def take_in(around: Surroundings, record: Record, natives: Sequence[Any], idle: float | None) -> Step:
    """Read, repair and treat what is new, with the unfinished round before it.

    Args:
        around: What is known beside the messages.
        record: The record to go on from.
        natives: The whole history.
        idle: Seconds since the last request; None when there was none.
    """
    meter = around.source.meter
    fresh, seen, asked = await _read_new(around, record, natives)
    if asked is not None:
        record = rewound(record, asked, around.weigh(record.view))
        fresh, seen, _ = await _read_new(around, record, natives)
    known = len(record)
    await meter.settle(fresh)
    arrived = await offload(partial(around.weigh, fresh), len(fresh))
    raw = [*record.tail, *fresh]
    raw_origin = [*record.tail_origin, *range(known, known + len(fresh))]
    size = around.fixed + record.view_tokens + sum(map(meter.message, record.tail)) + sum(arrived.tokens)
    unbound, settled = record.unbound_from, record.settled
    trail = Trail(around.context(raw), list(raw_origin), size, unbound_from=unbound, offset=settled)
    step = Step(around, record, natives, seen, trail, arrived, settled, raw, raw_origin, idle)
    if raw:
        await _treat(step)
    return step


def stand_still(around: Surroundings, record: Record, natives: Sequence[Any], idle: float | None) -> Step:
    """The step when nothing is new: all that was decided stays, also about a round that is not finished."""
    provisional = sum(map(around.source.meter.message, record.view[record.settled :]))
    size = around.fixed + record.view_tokens + provisional
    trail = Trail(around.context(()), [], size, unbound_from=record.unbound_from)
    raw, origins = list(record.tail), list(record.tail_origin)
    return Step(
        around,
        record,
        natives,
        [],
        trail,
        Weights(),
        len(record.view),
        raw,
        origins,
        idle,
        open_from=origins[0] if origins else None,
    )


_New = tuple[list[Message], list[Any], int | None]
"""New messages as values, what they look like, and the index of an earlier call that they answer, if any."""


async def _read_new(around: Surroundings, record: Record, natives: Sequence[Any]) -> _New:
    return await offload(lambda: _read(around, record, natives), len(natives) - len(record))


def _read(around: Surroundings, record: Record, natives: Sequence[Any]) -> _New:
    new = natives[len(record) :]
    fresh = around.source.messages(new, len(record), record.tail)
    return fresh, snapshots(new, len(record)), asked_at(record, natives, fresh, around.source.wire)


def _open_from(raw: Sequence[Message], origins: Sequence[int]) -> int | None:
    """The index in the history where an unfinished last round begins; None when nothing is unfinished."""
    last = units(raw)[-1]
    messages = last.of(raw)
    if last.is_round and (waits(messages) or open_at_end(messages)):
        return origins[last.start]
    return None


async def _treat(step: Step) -> None:
    around, plan = step.around, step.around.plan
    call = step.call()
    wire = around.source.wire

    if step.record.foreign > step.raw_origin[0]:
        await run_stage(DropForeignReasoning(step.raw_origin, step.record.foreign), step.trail, call, trusted=True)
    last = step.record.view[step.start - 1] if step.start else None
    earlier, bare = step.record.ids, step.trail.context.messages

    def looked() -> tuple[list[Message] | None, int | None]:
        legal = repair(bare, call, wire, seen=step.ids, earlier=earlier, after=last)
        open_ = legal is not None or has_server_calls(step.raw)
        return legal, _open_from(step.raw, step.raw_origin) if open_ else None

    legal, step.open_from = await offload(looked, len(bare))
    if legal is not None:

        async def repaired(context: Context, _call: Call) -> Context:
            return context.with_messages(tuple(legal))

        repaired.__name__ = "RepairHistory"
        await run_stage(repaired, step.trail, call, trusted=True)
    if step.start == 0:
        something_left(step.trail)
    stages = plan.on_arrival
    if stages and plan.protect:
        call = _with_view_protection(step, call)
    for stage in stages:
        await run_stage(stage, step.trail, call)


def _with_view_protection(step: Step, call: Call) -> Call:
    """The caller's rules, judged on the whole view although a stage sees only what is new."""
    before = tuple(step.record.view[: step.start])
    rules = call.protect

    def on_arrivals(messages: Sequence[Message]) -> list[int]:
        whole = (*before, *messages)
        return [index - len(before) for rule in rules for index in rule(whole) if index >= len(before)]

    return call.protecting((on_arrivals,))


def widen(step: Step) -> None:
    """Let the trail be the whole view."""
    if step.start == 0:
        return
    record, trail = step.record, step.trail
    trail.context = step.around.context((*record.view[: step.start], *trail.context.messages))
    trail.origins = [*record.origins[: step.start], *trail.origins]
    trail.made = record.made | trail.made
    trail.intact = step.start
    step.start = trail.offset = 0


def narrow(step: Step) -> None:
    """After ``widen``: let the trail be no more than what stands in the record's view in another way."""
    trail, start = step.trail, step.trail.intact
    if not start:
        return
    trail.context = trail.context.with_messages(trail.context.messages[start:])
    trail.origins = trail.origins[start:]
    step.start += start
    trail.offset += start
    trail.intact = 0


async def commit_aside(step: Step) -> None:
    """``commit``; where it is about many messages, in a worker thread and on a copy of the record."""
    changes = sum(len(report.changes) for report in step.trail.reports)
    again = step.start == 0 or step.start < step.record.settled
    looked_at = len(step.seen) + changes + (len(step.trail.context.messages) if again else 0)
    if looked_at >= MUCH:
        step.record = step.record.copy()
    await offload(partial(_commit_and_let_go, step), looked_at)


def _commit_and_let_go(step: Step) -> None:
    """``commit``, and take apart here what the step need not know any more: of many messages that takes a while."""
    commit(step)
    for spent in (step.raw, step.seen):
        for _ in paced(range(len(spent))):
            spent.pop()


def commit(step: Step) -> None:
    """Make what the step worked out the state of the conversation. Nothing in it waits."""
    record, trail = step.record, step.trail
    messages = trail.context.messages
    known = dict(zip(map(id, record.view[step.start :]), range(step.start, len(record.view)), strict=True))
    places = [known.get(id(message)) for message in messages]
    written = _written(step, messages, places)  # first: what cannot be written leaves the record as it was
    record.remember(step.seen, step.raw[len(step.raw) - len(step.seen) :], step.arrived)
    _write_down(step)
    replaced = record.view[step.start :]
    record.shown[step.start :] = [
        _shown(record, message, native, origin) if place is None else record.shown[place]
        for message, native, origin, place in paced(zip(messages, written, trail.origins, places, strict=True))
    ]
    record.out[step.start :] = written
    record.view[step.start :] = messages
    record.note_made(trail.made, replaced, messages)
    record.origins[step.start :] = trail.origins
    record.forget_dropped(step.natives, _dropped(trail.reports))
    _settle(step, replaced[: max(0, record.settled - step.start)])
    record.quiet_until, record.waiting = step.quiet_until, step.waiting
    record.unbound_from = trail.unbound_from


def _shown(record: Record, message: Message, native: Any, origin: int | None) -> Any:  # noqa: ANN401 - native
    """What a message looks like that goes out: what was seen when it came in, unless it was edited."""
    return record.seen[origin] if origin is not None and message.untouched else snapshot(native)


def _dropped(reports: Sequence[StageReport]) -> Iterator[int]:
    """The indexes in the history of what was dropped in this step."""
    return (change.index for report in reports for change in report.changes if change.outcome is Outcome.DROPPED)


def _written(step: Step, messages: Sequence[Message], places: Sequence[int | None]) -> list[Any]:
    """The messages in the caller's format; one that stood at a place of the view before is the same object again."""
    out, write = step.record.out, step.around.source.wire.write_message
    pairs = paced(zip(messages, places, strict=True))
    return [write(message) if place is None else out[place] for message, place in pairs]


def _write_down(step: Step) -> None:
    """What this step did, instead of what was done before to the round that was treated again."""
    record, reports = step.record, step.trail.reports
    if record.tail_origin and step.seen:
        record.book = record.book.before(record.tail_origin[0])
    if reports:
        record.book.write(change for report in reports for change in report.changes)


def _settle(step: Step, replaced: Sequence[Message]) -> None:
    """Note which part of the view is final, and what it weighs without what was ``replaced`` of it."""
    record, around = step.record, step.around
    settled = len(record.view)
    record.tail, record.tail_origin = [], []
    if step.open_from is not None and _stands(step, step.open_from):
        settled, open_from = _unfinished(record.origins, min(step.start, record.settled), step.open_from)
        place = bisect_left(step.raw_origin, open_from)
        record.tail, record.tail_origin = step.raw[place:], step.raw_origin[place:]
    start = min(step.start, record.settled)
    if start < len(replaced):  # then less has to be weighed when it is all weighed again
        start, replaced, record.view_tokens, record.view_bytes = 0, record.view[:0], 0, 0
        record.ids = set() if around.source.wire.unique_ids else record.ids
    new, meter = record.view[start:settled], around.source.meter
    record.view_tokens += sum(map(meter.message, new)) - sum(map(meter.message, replaced))
    record.view_bytes += sum(map(meter.weight, new)) - sum(map(meter.weight, replaced))
    if around.source.wire.unique_ids:
        record.ids -= call_ids(replaced)
        record.ids |= call_ids(new)
    record.settled = settled


def _stands(step: Step, open_from: int) -> bool:
    """Whether the calls of the unfinished round are still in the view: what was left out once is not read again."""
    place = step.raw_origin.index(open_from)
    calling = {
        origin for origin, message in zip(step.raw_origin[place:], step.raw[place:], strict=True) if message.calls
    }
    return calling <= set(step.record.origins[min(step.start, step.record.settled) :])


def _unfinished(origins: Sequence[int | None], start: int, index: int) -> tuple[int, int]:
    """Where the unfinished part of the view begins, and from which index of the history on it was read.

    It holds all that was read from ``index`` on, and nothing older: where repair has moved an older message behind a
    newer one, both are read again. A made message before it is final: it may be the result of an older call.

    Args:
        origins: For each message of the view, its index in the history.
        start: A place of the view before which everything is final.
        index: The index in the history at which the unfinished round begins.
    """
    place = start
    while place < len(origins) and not _is_from(origins[place], index):
        place += 1
    oldest = min((origin for origin in origins[place:] if origin is not None), default=index)
    if oldest < index:
        return _unfinished(origins, start, oldest)
    return place, index


def _is_from(origin: int | None, index: int) -> bool:
    return origin is not None and origin >= index
