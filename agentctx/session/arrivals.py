"""What is new: read, counted, made legal, and treated by the stages for arrivals.

``take_in`` is the third phase of a step (``session/step.py``). What is new is read together with the tail, which is
read again. In nearly every step it can go out as it stands; else it is repaired, as one stage.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

from attrs import evolve

from agentctx.engine.cache_markers import LiftCacheMarkers, Marked, carries_refused, find_marked
from agentctx.engine.guarantee import let_answers_follow, refuse_empty
from agentctx.engine.reading import begins_at
from agentctx.engine.reasoning import DropForeignReasoning
from agentctx.engine.repair import Earlier, RepairHistory, cleaned, has_server_calls, is_legal, paired
from agentctx.engine.run_stages import Adjustment, Trail, mend, naming, run_stage
from agentctx.marks import SHOWN_AGAIN, WITHIN, may_say
from agentctx.message import Context, Message, Native
from agentctx.offload import is_much, offload
from agentctx.session.matching import answered_from, decided_until
from agentctx.session.record import (
    Record,
    Sizes,
    snapshots,
    with_instructions,
)
from agentctx.session.step_context import Given, Read, State, Step, StepContext
from agentctx.tokens.counting import characters_to_count
from agentctx.unit import knowing_the_recap
from agentctx.users_code import FAILURES


async def take_in(
    state: State, record: Record, given: Given, ctx: StepContext, now: float, *, remembered: bool = True
) -> Step:
    """Read, repair and treat what is new, with the tail before it; when nothing is new, there is nothing to read.

    Args:
        state: What is known of the conversation.
        record: The record to go on from.
        given: What the caller passes.
        ctx: What surrounds the step.
        now: Seconds since 1970.
        remembered: See ``take_step``.
    """
    at = state.last_request.at if ctx.model == state.model else None
    idle = None if at is None else max(0.0, now - at)
    nothing_new = record is state.record and 0 < len(given.messages) == len(record.seen)
    if nothing_new:
        step = _stand_still(ctx, record, given.messages, idle)
    else:
        step = await read_in(ctx, record, given.messages, idle, remembered=remembered)
    step.memo, step.marked_for = state.memo, state.marked_for
    if state.ctx is not ctx:
        step.reasoning_made_with = state.reasoning_made_with(ctx)
    if nothing_new or not remembered or not step.read.messages:
        return step
    if record is not state.record and ctx.plan.mending:  # the caller may have taken out what others refer to
        await mend(step.trail, ctx.context(tuple(state.record.view)), step.call(ctx.limit))
        new = step.read.messages
        if may_say(new, WITHIN) or may_say(new, SHOWN_AGAIN):  # or shows references to more than is left
            await mend(step.trail, ctx.context(tuple(ctx.reader.messages(given.messages))), step.call(ctx.limit))
    await _treat(step)
    return step


def _stand_still(ctx: StepContext, record: Record, natives: Sequence[Native], idle: float | None) -> Step:
    """The step when nothing is new: all that was decided stays, also about a round that is not finished."""
    tail_tokens = sum(map(ctx.reader.meter.message, record.view[record.final :]))
    size = ctx.head_tokens + record.view_tokens + tail_tokens
    trail = Trail(ctx.context(()), [], size, unbound_from=record.unbound_from, start=len(record.view))
    read = Read(list(record.tail), list(record.tail_origin), [], Sizes())
    return Step(ctx, record, natives, read, trail, idle, tail_from=next(iter(read.origins), None))


async def read_in(
    ctx: StepContext, record: Record, natives: Sequence[Native], idle: float | None, *, remembered: bool = True
) -> Step:
    """The step with what is new read, counted and made legal.

    Where something that is new answers an earlier call, all since that call is new.
    """
    meter, known = ctx.reader.meter, len(record.seen)
    found = await offload(partial(_read, ctx, record, natives, remembered=remembered), len(natives) - known)
    if found.answers_from is not None:
        record = decided_until(found.record, natives, found.answers_from, ctx, unchanged_until=known)
        known = len(record.seen)
        found = await offload(partial(_read, ctx, record, natives, remembered=remembered), len(natives) - known)
    record, new, seen, marked, _, sizes = found
    if sizes is None:
        sizes = await offload(partial(ctx.weigh, new), 0, characters_to_count(new))
    read = Read([*record.tail, *new], [*record.tail_origin, *range(known, known + len(new))], seen, sizes)
    size = ctx.head_tokens + record.view_tokens + sum(map(meter.message, record.tail)) + sum(sizes.tokens)
    context = Context(tuple(read.messages), ctx.system, ctx.tools)
    trail = Trail(context, [*read.origins], size, unbound_from=record.unbound_from, start=record.final)
    step = Step(ctx, record, natives, read, trail, idle, remembered, marked=marked)
    if read.messages:
        await _make_legal(step, as_it_stands=marked is not None)
    return step


class _Arrivals(NamedTuple):
    """What is new.

    Args:
        record: The record to go on from, the tail in it as it reads beside what is new.
        messages: As values.
        seen: What each looks like.
        marked: See ``_marked_if_legal``, of the tail and what is new.
        answers_from: The index of the first earlier call that they answer; None when there is none.
        sizes: The size of each where there are many: the thread that reads them counts them, too.
    """

    record: Record
    messages: list[Message]
    seen: list[Native]
    marked: Marked | None
    answers_from: int | None
    sizes: Sizes | None


def _read(ctx: StepContext, record: Record, natives: Sequence[Native], *, remembered: bool) -> _Arrivals:
    """Read what is new, and see whether it can go out as it stands: then it answers no call before the tail either.

    Where the place tells which call a result answers, a later result may tell that an earlier one answers another call.
    """
    known, reader, again = len(record.seen), ctx.reader, len(record.tail)
    arrived = natives[known:]
    if again and reader.wire.reads_places:
        read = reader.messages([*(each.source for each in record.tail), *arrived], known - again)
        ours = {place for place, message in enumerate(record.tail) if message.as_recap}
        read = [
            message if message.as_recap == (place in ours) else evolve(message, as_recap=place in ours)
            for place, message in enumerate(read)
        ]
        tail, new = read[:again], read[again:]
        record = record if tail == record.tail else evolve(record, tail=with_instructions(tail, record.instructions))
    else:
        new = reader.messages(arrived, known, record.tail)
    if not remembered:
        marked, sizes = _marked_if_legal(ctx, record, new, known), ctx.weigh(new) if is_much(len(new)) else None
        return _Arrivals(record, new, list(arrived), marked, None, sizes)
    if record.instructions:
        new = with_instructions(new, record.instructions)
    new = new if known else knowing_the_recap(new)
    earlier, seen = record.earlier(reader.wire), snapshots(arrived, known)
    first = record.tail_origin[0] if again else known
    marked = _marked_if_legal(ctx, record, [*record.tail, *new], first, earlier)
    answers_from = answered_from(record, natives, new, reader.wire) if marked is None else None
    sizes = ctx.weigh(new) if is_much(len(new)) else None
    return _Arrivals(record, new, seen, marked, answers_from, sizes)


async def _make_legal(step: Step, *, as_it_stands: bool) -> None:
    """Make what was read legal, and find where its tail begins. In nearly every step it is legal as it stands.

    Raises:
        InvalidInput: If the step works on the whole view, and nothing is left to send.
    """
    read, wire = step.read, step.ctx.reader.wire
    if as_it_stands:
        if step.remembered and read.messages[-1].role not in _ANSWERING:
            step.tail_from = begins_at(read.messages, read.origins)
    else:
        await _repair(step)
    if wire.minds_the_end:
        record, place = step.record, step.trail.start - 1
        standing_before = (record.view[place], record.origins[place]) if step.trail.start else None
        await let_answers_follow(step.trail, step.call(), step.role_at, standing_before)
    if step.trail.start == 0:
        refuse_empty(step.trail)


_ANSWERING = frozenset({"user", "tool"})


def _marked_if_legal(
    ctx: StepContext, record: Record, messages: Sequence[Message], first: int, earlier: Earlier | None = None
) -> Marked | None:
    """The cache markers of messages that can go out as they stand, by place; None where they may have to be repaired.

    Args:
        ctx: What surrounds the step.
        record: What stands before them: all of its view that is final.
        messages: The messages.
        first: The index of the first one in the history.
        earlier: What repair asks of what stands before them, where that is known.
    """
    wire, profile = ctx.reader.wire, ctx.reader.profile
    if record.foreign_count > first:  # reasoning of another model has to go
        return None
    markers = wire.cache_markers
    marked = {} if markers is None else find_marked(messages, markers)
    if marked and carries_refused(messages, wire, profile):
        return None
    return marked if is_legal(messages, wire, earlier or record.earlier(wire)) else None


async def _repair(step: Step) -> None:
    """Take off cache markers that the model refuses, and reasoning of another model; then repair, as one stage.

    Where the tail begins is found by what they are before repair, without what has to go, and paired.
    """
    ctx, call, read, trail = step.ctx, step.call(), step.read, step.trail
    wire = ctx.reader.wire
    if carries_refused(read.messages, wire, ctx.reader.profile):
        await run_stage(LiftCacheMarkers(), trail, call, by="fit", trusted=True)
    if step.record.foreign_count > read.origins[0]:
        foreign = DropForeignReasoning(read.origins, step.record.foreign_count)
        await run_stage(foreign, trail, call, by="fit", trusted=True)
    bare = trail.context.messages

    def looked() -> tuple[list[Message] | None, int | None]:
        earlier = step.record.earlier(wire)
        clean = cleaned(bare, call, wire, earlier)
        whole = paired(clean, call, wire, earlier=earlier)
        legal = None if whole is bare else list(whole)
        open_ = legal is not None or has_server_calls(bare) or any(each.role not in _ANSWERING for each in bare[-1:])
        return legal, begins_at(bare, trail.origins, clean, whole) if open_ and step.remembered else None

    legal, step.tail_from = await offload(looked, len(bare))
    if legal is None:
        return
    messages = tuple(legal)
    repaired = Adjustment(RepairHistory.__name__, lambda context, _call: context.with_messages(messages))
    await run_stage(repaired, trail, call, by="repair", trusted=True)


async def _treat(step: Step) -> None:
    """Run the stages that look at what is new, unless a glance tells that they would leave it alone."""
    ctx, trail, call = step.ctx, step.trail, None
    for stage, said in ctx.on_arrival:
        try:
            if not is_much(len(trail.context.messages)) and said.leaves_alone(trail.context.messages, ctx.bare_call):
                continue
        except FAILURES:
            with naming(said.name):
                raise
        call = step.call() if call is None else call
        await run_stage(stage, trail, call)
