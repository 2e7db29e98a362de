"""One step of a session: read, repair and treat what is new. See ``pressure`` and ``commit`` for what follows."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from attrs import define, evolve, frozen

from agentctx.core.compare import match
from agentctx.core.message import ROLES, Context, Message, Tool
from agentctx.core.units import unfinished_from, units
from agentctx.engine.cache_markers import LiftCacheMarkers, carries_refused
from agentctx.engine.plan import let_answers_follow, refuse_empty
from agentctx.engine.repair import Earlier, cleaned, has_server_calls, names_of, paired
from agentctx.engine.run_stages import Trail, run_stage
from agentctx.offload import offload
from agentctx.protocols import Call
from agentctx.session.cost import warmth_after
from agentctx.session.fingerprint import snapshots
from agentctx.session.foreign import DropForeignReasoning
from agentctx.session.matching import asked_at
from agentctx.session.record import REPAIR, Record, Weights, rewound, with_instructions
from agentctx.session.surroundings import Surroundings


@frozen
class StepSnapshot:
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
        quiet_until: See ``Record``.
        waiting: See ``Record``.
        reasoning_made_with: System prompt and tools that the reasoning so far was made with; None when they are those
            of now.
        marked_for: The model whose cache markers the record's view carries; None when it is not known.
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
    quiet_until: int = 0
    waiting: bool = False
    reasoning_made_with: tuple[Message | None, tuple[Tool, ...]] | None = None
    marked_for: str | None = None

    @property
    def fresh(self) -> list[Message]:
        """The new messages as they were read."""
        return self.raw[len(self.raw) - len(self.seen) :]

    @property
    def last_role(self) -> str:
        """The role of the last message of the history; empty when there is none."""
        if self.raw:
            return self.raw[-1].role
        return ROLES[self.record.roles[-1]] if self.record.roles else ""

    def role_at(self, index: int) -> str:
        """The role of the message of the history at an index."""
        known = len(self.record)
        return ROLES[self.record.roles[index]] if index < known else self.fresh[index - known].role

    def snapshot(self) -> StepSnapshot:
        """Where the step stands now, to be restored at most once."""
        return StepSnapshot(self.trail.copy(), self.start)

    def restore(self, snapshot: StepSnapshot) -> None:
        """Go back to where the step stood."""
        self.trail, self.start = snapshot.trail, snapshot.start

    def call(self, aim: int | None = None) -> Call:
        """What the stages are told, with the tokens to come down to."""
        around = self.around
        call = around.plan.call(around.source, around.budget, aim, len(self.natives), self.message_at, self.warmth)
        return evolve(call, before=lambda: tuple(self.record.view[: self.start]))

    def late(self) -> frozenset[int]:
        """The identities of the messages that came after the model's last one, wherever they stand now."""
        fresh = [index for index, message in enumerate(self.fresh, len(self.record)) if message.role == "assistant"]
        return self.trail.after(max([self.record.roles.rfind(ROLES.index("assistant")), *fresh]))

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


async def take_in(
    around: Surroundings, record: Record, natives: Sequence[Any], idle: float | None, *, whole: bool = False
) -> Step:
    """Read, repair and treat what is new, with the unfinished round before it.

    Args:
        around: What is known beside the messages.
        record: The record to go on from.
        natives: The whole history.
        idle: Seconds since the last request; None when there was none.
        whole: Whether all stages will run on the whole history: none runs on what is new then.
    """
    meter = around.source.meter
    record, fresh, seen, asked = await _read_new(around, record, natives)
    if asked is not None:
        weights, known = around.weigh(record.view), len(record)
        record = rewound(
            record, asked, weights, unchanged_until=known, history_length=len(natives), binds_reasoning=around.binds
        )
        record, fresh, seen, _ = await _read_new(around, record, natives)
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
        await _mend(step)
        if not whole:
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


_New = tuple[Record, list[Message], list[Any], int | None]
"""The record; new messages as values, what they look like, and the index of an earlier call that they answer."""


async def _read_new(around: Surroundings, record: Record, natives: Sequence[Any]) -> _New:
    return await offload(lambda: _read(around, record, natives), len(natives) - len(record))


def _read(around: Surroundings, record: Record, natives: Sequence[Any]) -> _New:
    """What is new, and the record with the unfinished round as it reads beside that.

    Where the place tells which call a result answers, a later result may tell that an earlier one answers another call.
    """
    new, source, again = natives[len(record) :], around.source, len(record.tail)
    if again and source.wire.reads_places:
        read = source.messages([*(each.source for each in record.tail), *new], len(record) - again)
        tail, fresh = read[:again], read[again:]
        record = record if tail == record.tail else evolve(record, tail=with_instructions(tail, record.instructions))
    else:
        fresh = source.messages(new, len(record), record.tail)
    fresh = with_instructions(fresh, record.instructions)
    return record, fresh, snapshots(new, len(record)), asked_at(record, natives, fresh, source.wire)


def _open_from(trail: Trail, clean: Sequence[Message]) -> int | None:
    """The index in the history where the end begins that depends on what comes next; None when none does.

    Args:
        trail: The new messages, with those of the unfinished end before them.
        clean: The same, mended but for their pairs.
    """
    bare = trail.context.messages
    found = [
        trail.origins[place] for place in (unfinished_from(bare), _unfinished_in(bare, clean)) if place < len(bare)
    ]
    return min((origin for origin in found if origin is not None), default=None)


def _unfinished_in(bare: Sequence[Message], clean: Sequence[Message]) -> int:
    """Where in ``bare`` the end begins that is unfinished in ``clean``, which was made of it.

    A message that was taken apart is read as a whole, with all of the unit that it begins in.
    """
    place = unfinished_from(clean)
    if place == len(clean):
        return len(bare)
    origins, starts = match(bare, clean).origins, [unit.start for unit in units(clean)]
    while True:
        read = next(origin for origin in (*reversed(origins[: place + 1]), 0) if origin is not None)
        begins = origins.index(read) if read in origins else 0
        if begins >= place:
            return read
        place = starts[bisect_right(starts, begins) - 1]


async def _mend(step: Step) -> None:
    """Make what is new legal, and find where it is unfinished.

    Cache markers that the model refuses are lifted, and reasoning of another model goes; then the history is repaired,
    as one stage, so that ``open_from`` is found in what was mended but not yet paired.

    Raises:
        InvalidInput: If the step works on the whole view, and nothing is left to send.
    """
    around, call = step.around, step.call()
    wire = around.source.wire

    if carries_refused(step.raw, wire, around.source.profile):
        await run_stage(LiftCacheMarkers(), step.trail, call, trusted=True)
    if step.record.foreign_count > step.raw_origin[0]:
        await run_stage(
            DropForeignReasoning(step.raw_origin, step.record.foreign_count), step.trail, call, trusted=True
        )
    last = step.record.view[step.start - 1] if step.start else None
    bare = step.trail.context.messages

    def looked() -> tuple[list[Message] | None, int | None]:
        earlier = Earlier(step.record.ids, _named(step), last, lambda: step.record.view[: step.start])
        clean = cleaned(bare, call, wire, earlier)
        whole = paired(clean, call, wire, earlier=earlier)
        legal = None if whole is bare else list(whole)
        open_ = legal is not None or has_server_calls(bare) or any(each.role not in _ANSWERING for each in bare[-1:])
        return legal, _open_from(step.trail, clean) if open_ else None

    legal, step.open_from = await offload(looked, len(bare))
    if legal is not None:

        async def repaired(context: Context, _call: Call) -> Context:
            return context.with_messages(tuple(legal))

        repaired.__name__ = REPAIR
        await run_stage(repaired, step.trail, call, trusted=True)
    after = (step.record.view[step.start - 1], step.record.origins[step.start - 1]) if step.start else None
    await let_answers_follow(step.trail, call, step.role_at, after)
    if step.start == 0:
        refuse_empty(step.trail)


async def _treat(step: Step) -> None:
    """Run the stages that look at what is new."""
    call = step.call()
    for stage in step.around.plan.on_arrival:
        await run_stage(stage, step.trail, call)


_ANSWERING = frozenset({"user", "tool"})


def _named(step: Step) -> Mapping[str, Message]:
    """The settled messages that have a name of their own; looked up when the record does not know them."""
    record = step.record
    if record.items is None:
        record.items = names_of(record.view[: record.settled], step.around.source.wire)
    return record.items


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
