"""One step, in its phases: settle, match (``matching.py``), take in, bring to size, commit, report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import chain, pairwise, takewhile
from time import perf_counter
from typing import Any, NamedTuple

from attrs import evolve

from agentctx.budget import Budget
from agentctx.changes import ChangeLog, ChangesInForce, Outcome, first_changed
from agentctx.economics import bill, found_again
from agentctx.engine.cut import lay_out
from agentctx.engine.guarantee import (
    DropForeignReasoning,
    LiftCacheMarkers,
    allowed,
    carries_refused,
    guarantee,
    is_go_on,
    refuse_empty,
    relief,
)
from agentctx.engine.reading import Viewed, begins_at, naming_what_is_too_deep, place_of, tail_of, write_native
from agentctx.engine.recap import reserved
from agentctx.engine.repair import (
    ASKING,
    GO_ON_MESSAGE,
    Earlier,
    RepairHistory,
    cleaned,
    has_server_calls,
    is_legal,
    lacks_end,
    paired,
)
from agentctx.engine.run_stages import Adjustment, Trail, keep_originals, mend, run_stage, writes_recap
from agentctx.errors import ContextOverflow
from agentctx.formats.native import Marked, find_marked, snapshot
from agentctx.marks import has_marks
from agentctx.message import ROLES, Context, Message, Native
from agentctx.protocols import Call, ContextStrategy, Phase, floor_of, inside
from agentctx.reports import Report, StageReport, View
from agentctx.session.matching import answered_from, decided_until, match
from agentctx.session.record import (
    Digest,
    LastRequest,
    Record,
    Sizes,
    alike,
    instruction_digests,
    snapshots,
    undecided,
)
from agentctx.session.step_context import Given, Read, State, Step, StepContext, settle
from agentctx.tokens.counting import characters_to_count
from agentctx.unit import is_user_turn, knowing_the_recap, open_at_end, signed
from agentctx.users_code import is_much, offload
from agentctx.wire_format import head_markers


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
        if has_marks(step.read.messages):  # or shows references to more than is left
            shown = record.as_passed(ctx.reader.messages(given.messages), 0)
            await mend(step.trail, ctx.context(tuple(shown)), step.call(ctx.limit))
    await _treat(step)
    return step


def _stand_still(ctx: StepContext, record: Record, natives: Sequence[Native], idle: float | None) -> Step:
    """The step when nothing is new: all that was decided stays, also about a round that is not finished."""
    tail_tokens = sum(map(ctx.reader.meter.message, record.view[record.final :]))
    size = ctx.head_tokens + record.view_tokens + tail_tokens
    trail = Trail(ctx.context(()), [], size, unbound_from=record.unbound_from, start=len(record.view))
    read = Read(list(record.tail), list(record.tail_origin), [], Sizes())
    return Step(ctx, record, natives, read, trail, idle, tail_from=next(iter(read.origins), None))


def _same_again(state: State, record: Record, given: Given, ctx: StepContext, now: float) -> Step | None:
    """The last step once more, where all that it went on from is as it was; else None."""
    sent = state.sent
    if sent is None or ctx is not state.ctx or record is not state.record or len(given.messages) != len(record.seen):
        return None
    if ctx.budget is not None and sent.tokens > ctx.budget.limit:
        return None
    step = _stand_still(ctx, record, given.messages, state.last_request.idle(now))
    step.trail = evolve(sent.copy(), start=len(record.view))
    step.quiet_until, step.waiting = record.quiet_until, record.waiting
    return step


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
    if again and reader.wire.pair is not None:
        read = reader.messages([*(each.source for each in record.tail), *arrived], known - again)
        read = record.as_passed(read, known - again)
        ours = {place for place, message in enumerate(record.tail) if message.as_recap}
        read = [
            message if message.as_recap == (place in ours) else evolve(message, as_recap=place in ours)
            for place, message in enumerate(read)
        ]
        tail, new = read[:again], read[again:]
        record = record if tail == record.tail else evolve(record, tail=tail)
    else:
        new = record.as_passed(reader.messages(arrived, known, record.tail), known)
    if not remembered:
        marked, sizes = _marked_if_legal(ctx, record, new, known), ctx.weigh(new) if is_much(len(new)) else None
        return _Arrivals(record, new, list(arrived), marked, None, sizes)
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
    read = step.read
    if as_it_stands:
        if step.remembered and read.messages[-1].role not in _ANSWERING:
            step.tail_from = begins_at(read.messages, read.origins)
    else:
        await _repair(step)
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
    """Run the stages that look at what is new."""
    stages = step.ctx.plan.due(Phase.ARRIVALS)
    call = inside(step.call(), phase=Phase.ARRIVALS) if stages else step.ctx.bare_call
    for stage in stages:
        await run_stage(stage, step.trail, call)


TAKEN_BACK_ABOVE = 0.9
"""A compaction that leaves more than this share of the context is taken back: it would break the cache for little."""


GROWTH = 1.1
"""After a compaction that did not get far enough the context must grow by this factor before the next try."""


async def bring_to_size(step: Step) -> None:
    """Run the stages whose time it is on the whole context, compact it under pressure, and make sure that it fits.

    Raises:
        ContextOverflow: If it cannot be made to fit.
    """
    if not step.remembered:
        await run_at_once(step)
        return
    budget, size = step.ctx.budget, step.trail.tokens
    at_target = budget is not None and size <= budget.target_tokens  # the caller itself may have come down to it
    step.quiet_until = 0 if at_target else step.record.quiet_until
    if budget is None:
        await _run_unless_it_must_wait(step, Phase.PRESSURE, None)
    elif size <= budget.limit and (size <= budget.trigger_tokens or size <= step.quiet_until):
        await _run_unless_it_must_wait(step, Phase.EVERY_STEP, budget.limit)
    elif size <= budget.limit and waits(step):
        _say_that_it_waits(step)
        await _run_unless_it_must_wait(step, Phase.EVERY_STEP, budget.limit)
    else:
        await _come_down_to_target(step, budget)


async def run_at_once(step: Step) -> None:
    """Run all stages on the whole history, as a call without a session does, and make sure that the request fits.

    Raises:
        ContextOverflow: If it cannot be made to fit.
    """
    await _run_and_guarantee(step, Phase.ONCE, step.ctx.limit)


async def _come_down_to_target(step: Step, budget: Budget) -> None:
    """Come down to the target; take it back when that freed next to nothing and the request fits anyway."""
    arrived, size = step.trail.copy(), step.trail.tokens
    step.widen()
    context, call = step.trail.context, step.call()
    aim = await offload(lambda: budget.target_above(floor_of(call, context)), len(context.messages))
    await _run_unless_it_must_wait(step, Phase.PRESSURE, aim)
    if step.trail.tokens > size * TAKEN_BACK_ABOVE and size <= budget.limit:
        said = [report for report in step.trail.reports[len(arrived.reports) :] if report.notes and not report.changes]
        step.trail.restore(arrived)
        step.trail.reports += said
        await _run_unless_it_must_wait(step, Phase.EVERY_STEP, budget.limit)
    stuck = step.trail.tokens > budget.trigger_tokens
    step.quiet_until = int(step.trail.tokens * GROWTH) if stuck else 0
    if stuck and not step.record.quiet_until:
        step.trail.reports.append(_floor_report(step, budget))


async def _run_unless_it_must_wait(step: Step, phase: Phase, aim: int | None) -> None:
    """Run a phase's stages and the guarantee; without the stages where the reasoning of the open round asks to wait."""
    budget = step.ctx.budget
    fits = budget is not None and step.trail.tokens <= budget.limit  # without a limit it would wait for ever
    arrived = step.trail.copy() if fits and step.ctx.due(phase) else None
    await _run_and_guarantee(step, phase, aim)
    if arrived is None or not step.trail.lost_open:
        return
    done = step.trail.copy()
    step.trail.restore(arrived)
    if waits(step):  # asked only now, since it may have to look far back
        _say_that_it_waits(step)
        await _run_and_guarantee(step, None, aim)
    else:
        step.trail.restore(done)


async def _run_and_guarantee(step: Step, phase: Phase | None, aim: int | None) -> None:
    """Run a phase's stages on the whole view and guarantee the fit; look at what is new alone where that is enough."""
    budget = step.ctx.budget
    stages = () if phase is None else step.ctx.due(phase)
    foreign = False
    if step.marked_for != step.ctx.model:  # the view may carry cache markers that this model does not take
        view, reader = step.record.view[: step.trail.start], step.ctx.reader
        foreign = await offload(lambda: carries_refused(view, reader.wire, reader.profile), len(view))
    if await _needs_whole_view(step, stages, foreign=foreign):
        step.widen()
    elif not step.trail.reports:
        return  # nothing new was touched, and `_needs_whole_view` has seen that it fits
    if foreign:
        await run_stage(LiftCacheMarkers(), step.trail, step.call(aim), by="fit", trusted=True)
    sees_all = step.trail.start == 0
    before = step.trail.copy() if sees_all else step.trail
    call = inside(step.call(aim), phase=phase or Phase.ONCE, late=step.late, given=partial(before.after, -1))
    if sees_all:
        left_out = partial(step.left_out, before.reports)
        call = inside(call, known=(before.context, before.tokens), start=before.context, left_out=left_out)
    telling = () if budget is None else step.ctx.plan.telling
    recaps = telling or any(map(writes_recap, stages))
    if recaps and (aim is None or step.trail.tokens > aim):  # else nothing is cut down to it
        call = inside(call, reserved=await reserved(stages, call))
    for stage in stages:
        await run_stage(stage, step.trail, call)
    untold = tuple(stage for stage in telling if step.ctx.plan.tells(stage, step.trail.told))
    view = step.record.view[: step.record.final] if step.trail.start == 0 else []
    system, tools = step.reasoning_made_with or (step.trail.context.system, step.ctx.tools)
    reasoned_on = Context((*view, *step.read.messages), system, tools)
    await guarantee(step.trail, call, budget, reasoned_on, step.last_role, step.ctx.most, untold)


async def _needs_whole_view(step: Step, stages: Sequence[ContextStrategy], *, foreign: bool) -> bool:
    """Whether the whole view has to be seen: a stage runs, or what is new does not fit, or may not stand, as it is."""
    if stages or foreign:  # what runs may change anything
        return True
    budget = step.ctx.budget
    if budget is not None and (budget.request_bytes is not None or budget.media.images is not None):
        return True  # these are limits of the whole request
    if budget is not None and step.trail.tokens > budget.limit:
        return True
    call, trail, view = step.ctx.bare_call, step.trail, step.record.view
    if step.reasoning_made_with is not None or trail.unbound_from is not None:
        return True  # where reasoning lost its prefix is a place of the whole view
    last = trail.context.messages[-1:] or view[trail.start - 1 : trail.start]
    if any(lacks_end(message, step.last_role, call) for message in last):
        return True  # the last of the history's messages stands further up
    return await offload(partial(_is_misplaced, step), len(step.read.messages))


def _is_misplaced(step: Step) -> bool:
    """Whether what is new, or a cache marker of it, may not stand where it does."""
    return _marks_too_much(step) or _stands_wrong(step)


def _marks_too_much(step: Step) -> bool:
    """Whether cache markers that are new are more than the provider takes beside those that are there."""
    ctx, start = step.ctx, step.trail.start
    markers = ctx.reader.wire.cache_markers
    if markers is None:
        return False
    new = step.marked
    if new is None:  # what repair took may have to move
        new = find_marked(step.read.messages if step.trail.reports else step.trail.context.messages, markers)
    if not new:
        return False
    earlier = find_marked(step.record.view[:start], markers)
    known = earlier | {start + place: found for place, found in new.items()}
    return not allowed(head_markers(ctx.context(()), markers), known, markers)


def _stands_wrong(step: Step) -> bool:
    """Whether new messages, or system messages before them, may not stand where they are for the model."""
    ctx, view, place = step.ctx, step.record.view, step.trail.start
    wire, new = ctx.reader.wire, step.trail.context.messages
    if not new:
        return False
    while place and view[place - 1].role == "system":
        place -= 1
    known = (*view[place : step.trail.start], *new)
    standing_before = view[place - 1] if place else None
    return wire.arrange_for(known, ctx.reader.profile, lambda _message, _why: None, standing_before) is not known


def waits(step: Step) -> bool:
    """Whether an edit has to wait: the open tool round holds reasoning that it would part from its prefix."""
    call, record = step.ctx.bare_call, step.record
    bound = call.profile is not None and call.profile.bound_thinking
    if call.internals.thinking != "postpone" or not bound or step.reasoning_made_with is not None:
        return False
    for message in chain(reversed(step.trail.context.messages), reversed(record.view[: step.trail.start])):
        if is_user_turn(message):
            return False
        if signed(message):
            return True
    return False


def _say_that_it_waits(step: Step) -> None:
    """Say it once: the steps until the end of the round wait for the same reason."""
    if not step.record.waiting:
        note = "postponed to the end of the open tool round, whose reasoning is bound to what stands before it"
        step.trail.reports.append(StageReport("Session", (), step.trail.tokens, step.trail.tokens, 0.0, (note,)))
    step.waiting = True


def _floor_report(step: Step, budget: Budget) -> StageReport:
    """Says once, with the arithmetic, why the session cannot get below its trigger; widens the step to see it."""
    step.widen()
    layout = lay_out(step.trail.context, step.call())
    head = step.ctx.head_tokens
    note = (
        f"the context stays above the trigger of {budget.trigger_tokens:,} tokens: {step.trail.tokens:,} = "
        f"{head:,} system and tools + {layout.floor - head:,} protected messages and open round + "
        f"{step.trail.tokens - layout.floor:,} that the stages left in; next try above {step.quiet_until:,}"
    )
    return StageReport("Session", (), step.trail.tokens, step.trail.tokens, 0.0, (note,))


class Stepped(NamedTuple):
    """What comes out of a step.

    Args:
        state: What is known of the conversation now.
        view: What the model shall be sent.
        new_tokens: Tokens of the request that the one before had not.
    """

    state: State
    view: View
    new_tokens: int


async def take_step(
    state: State,
    given: Given,
    now: float,
    *,
    model: str | None = None,
    format_name: str | None = None,
    conversation: str | None = None,
    remembered: bool = True,
) -> Stepped:
    """Prepare the next model call of a conversation.

    Args:
        state: What is known of it.
        given: What the caller passes.
        now: Seconds since 1970.
        model: The model that is called from now on; None: the one before.
        format_name: The wire format from now on; None: the one before.
        conversation: By what name a store knows the conversation; None: it belongs to none.
        remembered: Whether a later step goes on from this one. Else it is one from nothing, without a session: nothing
            is noted for later, and all stages run at once.

    Raises:
        InvalidInput: If something cannot be read; names the message and the field.
        ContextOverflow: If what must stay is larger than the budget.
        StageError: If a stage broke a promise.
        UnknownModel: If the budget is the model's and the model table does not know it.
    """
    started = perf_counter()
    try:
        ctx = await settle(state, given, model, format_name)
        ctx = ctx if ctx.conversation == conversation else evolve(ctx, conversation=conversation)
        record = await match(state, given, ctx)
        step = _same_again(state, record, given, ctx, now) if remembered else None
        if step is None:
            step = await take_in(state, record, given, ctx, now, remembered=remembered)
            step = await _fitted(step, given)
        done = await commit(state, step, given, now)
        report = report_on(done, step, started)
        view = view_of(step, given, report)
    except RecursionError:
        with naming_what_is_too_deep(given.messages, given.system, given.tools):
            raise
    return Stepped(done.state, view, report.tokens_after - report.prefix_tokens)


async def _fitted(step: Step, given: Given) -> Step:
    """The step brought to fit; when it cannot be, tried once more with nothing decided before.

    What was decided for another model, limit or end of the history may be what does not fit now.
    """
    try:
        await bring_to_size(step)
    except ContextOverflow:
        # what a load brings back of the history is digests, which cannot be read again
        if given.loaded or not step.remembered:
            raise
        anew = await _decided_anew(step)
        if anew is None:
            raise
        step = anew
    if not step.trail.start:
        refuse_empty(step.trail)
    if step.shelf is not None:
        await keep_originals(step.trail, step.shelf)
    return step


async def _decided_anew(refused: Step) -> Step | None:
    """The step with nothing decided before, as without a session; None when that does not fit either."""
    record = undecided(refused.record, binds_reasoning=refused.ctx.binds)
    # as without a session: nothing of the cache is worth sparing
    anew = await read_in(refused.ctx, record, refused.natives, None)
    step = evolve(anew, reasoning_made_with=refused.reasoning_made_with)  # no marked_for: this record has no view yet
    try:
        await run_at_once(step)
    except ContextOverflow:
        return None
    return evolve(step, idle=refused.idle)


class Committed(NamedTuple):
    """A step that has become what is known.

    Args:
        state: What is known now.
        record: The history, and the view that was made of it.
        in_force: The changes in force.
        first_changed: The first message that is not as it was; None when all that was sent is still there.
        prefix: Tokens at the start of the request that the one before had too.
        last_tokens: Tokens of the request before.
    """

    state: State
    record: Record
    in_force: ChangesInForce
    first_changed: int | None
    prefix: int
    last_tokens: int


async def commit(state: State, step: Step, given: Given, now: float) -> Committed:
    """What is known once the step has succeeded.

    No step is ever half done: what was decided is changed by ``_enter`` alone, which does not wait; what a step does to
    the record before puts equal objects in the place of others, or fills a cache. Where ``_enter`` has much to do, a
    worker thread does it on a copy, and this waits for that before anything is taken over.

    Args:
        state: What was known before.
        step: The step.
        given: What the caller passed.
        now: Seconds since 1970.
    """
    if not step.remembered:
        return await offload(partial(_committed_nowhere, state, step), len(step.read.messages))
    old, last, ctx = state.record, state.last_request, step.ctx
    if step.trail.intact:
        step.trail.narrow()
    same = step.record is old  # and not one of a history that was changed
    start = min(step.trail.start, last.length) if same else 0
    shown = old.shown[start : last.length]  # a slice, and now: `_enter` changes this very list
    grown = same and not old.tail and old.final == len(old.view)
    same_head = _same_head(state, ctx, given)
    head_seen = state.head_seen if same_head and not isinstance(state.head_seen, Digest) else given.head_seen()
    record = await _entered(step)
    shared = min(last.intact, start + (_shared_start(shown, record.shown[start:]) if shown else 0))
    changed, prefix = _prefix(state, step, shared, same_head=same_head)
    if ctx is not state.ctx:
        state.limits_by_model.keep(ctx.model, ctx.limits)
    in_force = record.in_force() if step.trail.reports or not grown or record is not old else state.in_force
    known = State(
        state.plan,
        model=ctx.model,
        format=ctx.format,
        limits_by_model=state.limits_by_model,
        limits=ctx.limits,
        record=record,
        ctx=ctx,
        sent=_sent(step.trail),
        head_seen=head_seen,
        wire_name=ctx.reader.wire.name,
        last_request=LastRequest(
            step.trail.tokens, len(record.out), len(record.out), now, step.trail.asked is not None
        ),
        steps=state.steps + 1,
        last=given,
        in_force=in_force,
        counted_by=ctx.reader.meter,
        marked_for=ctx.model,
        memo=state.memo,
    )
    return Committed(known, record, in_force, changed, prefix, last.tokens)


def _sent(trail: Trail) -> Trail:
    """What a request has beside its messages, and what was done to that."""
    head = [evolve(report, changes=(), notes=()) for report in trail.reports if report.head]
    return Trail(trail.context.with_messages(()), [], trail.tokens, head, asked=trail.asked)


def _committed_nowhere(state: State, step: Step) -> Committed:
    """What a step from nothing made, for the report; no later step goes on from it, so nothing else is noted."""
    record, trail, read, wire = step.record, step.trail, step.read, step.ctx.reader.wire
    messages, pairs = trail.context.messages, zip(trail.context.messages, trail.origins, strict=True)
    record.out = [
        step.natives[origin]
        if origin is not None and message.untouched
        else write_native(wire, message, place_of(origin, place))
        for place, (message, origin) in enumerate(pairs)
    ]
    record.seen, record.view, record.origins, record.final = read.seen, list(messages), trail.origins, len(messages)
    record.history_tokens, record.history_bytes = sum(read.sizes.tokens), sum(read.sizes.bytes)
    record.view_bytes = sum(map(step.ctx.reader.meter.weight, messages))
    if trail.made:
        record.note_made(trail.made, (), messages)
    log = ChangeLog()
    log.write(change for report in trail.reports for change in report.changes)
    in_force = log.snapshot(read.sizes.tokens, [ROLES.index(each.role) for each in read.messages], record.added())
    return Committed(state, record, in_force, first_changed(read.messages, messages), 0, 0)


def _same_head(state: State, ctx: StepContext, given: Given) -> bool:
    """Whether system prompt and tools are those of the step before."""
    last = state.ctx
    if ctx.model != state.model:  # another model has another cache
        return False
    if last is None:
        return state.steps > 0 and bool(state.head_seen == [given.system, given.tools])
    return ctx.system is last.system and ctx.tools is last.tools


def _prefix(state: State, step: Step, shared: int, *, same_head: bool) -> tuple[int | None, int]:
    """The first changed message of a request that begins with ``shared`` of the last one, and the tokens of those."""
    last, ctx = state.last_request, step.ctx
    if not same_head:
        return (0 if state.steps else None), 0
    if shared == last.length:
        return None, last.tokens
    tokens = ctx.head_tokens + sum(map(ctx.reader.meter.message, step.record.view[:shared]))
    return (shared if state.steps else None), tokens


def _shared_start(before: Sequence[Any], after: Sequence[Any]) -> int:
    """How many outgoing messages at the start are the same; cache markers are no part of a prefix."""
    pairs = zip(before, after, strict=False)
    differing = (place for place, (old, new) in enumerate(pairs) if old is not new and not alike(old, new))
    return next(differing, min(len(before), len(after)))


async def _entered(step: Step) -> Record:
    """The record with the step in it; a copy, filled in a worker thread, where it is about many messages."""
    trail = step.trail
    changes = sum(len(report.changes) for report in trail.reports) if trail.reports else 0
    again = trail.start == 0 or trail.start < step.record.final
    looked_at = len(step.read.seen) + changes + (len(trail.context.messages) if again else 0)
    if is_much(looked_at):
        step.record = step.record.copy()
    await offload(partial(_enter, step), looked_at)
    return step.record


def _enter(step: Step) -> None:
    """Make what the step worked out what is known of the conversation. Nothing in it waits."""
    record, trail, read = step.record, step.trail, step.read
    start, messages = trail.start, trail.context.messages
    written, shown = _outgoing(step)  # first: what cannot be written leaves the record as it was
    record.remember(read.seen, read.new, read.sizes)
    if record.tail_origin and read.seen:  # the tail was treated again: what was done to it before is no change any more
        record.log = record.log.before(record.tail_origin[0])
    if trail.reports:
        record.log.write(change for report in trail.reports for change in report.changes)
        record.note_decided(change for report in trail.reports for change in report.changes)
    replaced = record.view[start:]
    record.shown[start:], record.out[start:] = shown, written
    record.view[start:], record.origins[start:] = messages, trail.origins
    record.look_otherwise(start)
    if found := frozenset(instruction_digests(messages, written)):
        record.instructions |= found
    if trail.made or record.made:
        record.note_made(trail.made, replaced, messages)
    if trail.reports:
        changes = (change for report in trail.reports for change in report.changes)
        dropped = (change.index for change in changes if change.outcome is Outcome.DROPPED)
        record.forget_dropped(step.natives, dropped)
    _mark_final(step, replaced[: max(0, record.final - start)])
    record.quiet_until, record.waiting = step.quiet_until, step.waiting
    if trail.unsaid is not None:
        record.unsaid = evolve(record.unsaid, now=trail.unsaid.left_by(record.view))
    record.unbound_from = None
    if is_much(len(read.messages)):
        read.forget()


def _outgoing(step: Step) -> tuple[list[Native], list[Native]]:
    """The messages of the step in the caller's format, and what each looks like.

    One that stood at a place of the view before is the same object again. One that nobody has touched is the caller's
    object of this step, which may have been rebuilt since it was read, and looks as it came.
    """
    record, trail, natives, wire = step.record, step.trail, step.natives, step.ctx.reader.wire
    stood = {id(message): place for place, message in enumerate(record.view[trail.start :], trail.start)}
    known, written, shown = len(record.seen), [], []
    for message, origin in zip(trail.context.messages, trail.origins, strict=True):
        if (place := stood.get(id(message))) is not None:
            written.append(record.out[place])
            shown.append(record.shown[place])
        elif origin is not None and message.untouched:
            written.append(natives[origin])
            shown.append(record.seen[origin] if origin < known else step.read.seen[origin - known])
        else:
            written.append(write_native(wire, message, place_of(origin, trail.start + len(written))))
            shown.append(snapshot(written[-1]))
    return written, shown


def _mark_final(step: Step, replaced: Sequence[Message]) -> None:
    """Note which part of the view is final, and what it weighs without what was ``replaced`` of it."""
    record, ctx, read = step.record, step.ctx, step.read
    start = min(step.trail.start, record.final)
    final, again = len(record.view), len(read.messages)
    if step.tail_from is not None:
        viewed = Viewed(record.view, record.origins, start, read.messages, read.origins, replaced)
        final, again = tail_of(viewed, step.tail_from)
    record.tail, record.tail_origin = read.messages[again:], read.origins[again:]
    if final and record.origins[final - 1] is None and is_go_on(record.view[final - 1]):
        final -= 1  # it is added for this step only
    if start < len(replaced):  # then less has to be weighed when it is all weighed again
        start, replaced, record.view_tokens, record.view_bytes = 0, record.view[:0], 0, 0
        record.ids = set() if ctx.reader.wire.rounds.unique_ids else record.ids
        record.items = None
    new, meter = record.view[start:final], ctx.reader.meter
    if step.trail.reports or replaced or len(new) != len(read.seen):
        record.view_tokens += sum(map(meter.message, new)) - sum(map(meter.message, replaced))
        record.view_bytes += sum(map(meter.weight, new)) - sum(map(meter.weight, replaced))
    else:  # what is new, as it was read
        record.view_tokens += sum(read.sizes.tokens)
        record.view_bytes += sum(read.sizes.bytes)
    record.final = final
    wire = ctx.reader.wire
    if wire.rounds.unique_ids or wire.item_name is not None:
        record.note_names(wire, replaced, new)


def report_on(done: Committed, step: Step, started: float) -> Report:
    """The report on a step.

    Args:
        done: What the step has become.
        step: The step.
        started: When the step began, by ``perf_counter``.
    """
    record, ctx, trail = done.record, step.ctx, step.trail
    tail = sum(map(ctx.reader.meter.weight, record.view[record.final :])) if record.final < len(record.view) else 0
    reports = trail.reports
    began = reports[0].tokens_before if reports else trail.tokens
    taken_off = relief(ctx.given_head, ctx.context(()), ctx.bare_call, began) if ctx.relieved else ()
    found, moved = _found_again(done, step)
    forecast = partial(
        bill,
        ctx.reader.profile,
        sent=done.last_tokens,
        prefix=found,
        size=trail.tokens,
        idle=step.idle,
        moved=moved,
        given=began,
    )
    more = sum(stage.tokens_before - began for stage in taken_off) if taken_off else 0
    return Report(
        stages=(*taken_off, *reports),
        in_force=done.in_force,
        messages_before=len(record.seen),
        messages_after=len(record.view),
        tokens_before=more + ctx.head_tokens + record.history_tokens,
        tokens_after=trail.tokens,
        bytes_before=ctx.head_bytes + record.history_bytes,
        bytes_after=ctx.head_bytes + record.view_bytes + tail,
        limit=None if ctx.budget is None else ctx.budget.limit,
        first_changed=done.first_changed,
        prefix_tokens=done.prefix,
        rebilled_tokens=max(0, done.last_tokens - done.prefix),
        seconds=perf_counter() - started,
        forecast=forecast,
    )


def _found_again(done: Committed, step: Step) -> tuple[int, int | None]:
    """Tokens that this call finds in the provider's cache; and those that later ones find, where each is cut anew."""
    if done.first_changed is None:
        return done.prefix, None
    ctx = step.ctx
    anew = not step.remembered
    found = found_again(step.as_sent, done.first_changed, ctx.bare_call) if done.prefix or anew else 0
    return min(done.prefix, found), (found if anew else None)


def view_of(step: Step, given: Given, report: Report) -> View:
    """The view that a step made; system prompt and tools as the caller passed them where no stage touched them."""
    record, chosen, ctx = step.record, step.trail.context, step.ctx
    system, tools = given.system, given.tools
    if chosen.tools is not ctx.given_head.tools:
        tools = [tool.source for tool in chosen.tools] or None
    if chosen.system is not ctx.given_head.system:
        system = None if chosen.system is None else ctx.reader.wire.write_system(chosen.system)
    options = step.trail.asked or {}
    return View(list(record.out), system, tools, report, step.as_sent, options, tuple(record.origins))


async def let_answers_follow(
    trail: Trail, call: Call, role_at: Callable[[int], str], standing_before: tuple[Message, int | None] | None = None
) -> None:
    """Let the user speak before an answer of the assistant where what it answers stands further up by now, or is gone.

    When it was given, ``guarantee`` had put the same words there: reasoning may be bound to them.

    Args:
        trail: Where the step stands, repaired; brought up to date.
        call: What the stages are told; its ``before`` is asked only where the user may have to speak.
        role_at: The role of the message of the history at an index.
        standing_before: The last message before the trail's, with its index in the history.
    """
    new, start = trail.context.messages, 0 if standing_before is None else 1
    known = [*([] if standing_before is None else [standing_before]), *zip(new, trail.origins, strict=True)]
    answers = {
        id(message)
        for place, ((before, asked), (message, answered)) in enumerate(pairwise(known), 1 - start)
        if message.role == before.role == "assistant" and asked is not None and answered is not None
        if any(role_at(index) in ASKING for index in range(asked + 1, answered))
        if _ended((*(call.internals.before() if call.internals.before else ()), *new[:place]), call)
    }
    if not answers:
        return

    def parted(context: Context, call: Call) -> Context:
        out: list[Message] = []
        for message in context.messages:
            if id(message) in answers:
                out.append(Message(GO_ON_MESSAGE.role, GO_ON_MESSAGE.parts))
                call.note(out[-1], "the assistant answered what stands further up, or was left out")
            out.append(message)
        return context.with_messages(tuple(out))

    stage = Adjustment(RepairHistory.__name__, parted)
    await run_stage(stage, trail, call, by="repair", trusted=True)  # it follows from the history alone, too


def _ended(messages: Sequence[Message], call: Call) -> bool:
    """Whether messages end with a turn of the assistant that is over, and its model would not be asked with it last."""
    turn = takewhile(lambda message: message.role == "assistant", reversed(messages))
    calls = any(message.calls for message in turn)  # whose results stand behind the turn
    return not calls and not open_at_end(messages) and lacks_end(messages[-1], "user", call)
