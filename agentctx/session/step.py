"""One step of a session: six phases, each from value to value, in this order and in no other.

It **settles** what surrounds it, **matches** the history with what is known, **takes in** what is new, **compacts**, if
it is time, **commits**, and **reports**. ``Pipeline.prepare`` is such a step from nothing, kept nowhere.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from time import perf_counter
from typing import Any, NamedTuple

from attrs import evolve, frozen

from agentctx.core import compare
from agentctx.core.change_log import ChangesInForce
from agentctx.core.compare import Outcome
from agentctx.core.message import Context, Message, Native
from agentctx.core.pace import paced
from agentctx.core.report import Report, StageReport, View
from agentctx.core.units import iter_units, unfinished_from, units
from agentctx.core.untracked import untrack
from agentctx.economics.conditions import bill, warmth_after
from agentctx.engine.cache_markers import LiftCacheMarkers, carries_refused
from agentctx.engine.plan import is_go_on, let_answers_follow, refuse_empty, relief, since
from agentctx.engine.reading import naming_what_is_too_deep
from agentctx.engine.reasoning import DropForeignReasoning, options_of
from agentctx.engine.repair import Earlier, cleaned, has_server_calls, names_of, paired
from agentctx.engine.run_stages import Trail, keep_originals, run_stage
from agentctx.engine.unread import Unread, unread
from agentctx.errors import ContextOverflow
from agentctx.offload import MUCH, VERY_MUCH_TEXT, offload
from agentctx.protocols import Call, declared
from agentctx.session.compaction import compact, compact_at_once
from agentctx.session.fingerprint import Digest, snapshot, snapshots
from agentctx.session.matching import asked_at, match, shared_start
from agentctx.session.record import (
    REPAIR,
    LastRequest,
    Record,
    Sizes,
    call_ids,
    first_unanswered_call,
    instruction_digests,
    rewound,
    undecided,
    with_instructions,
)
from agentctx.session.step_context import Given, State, Step, StepContext, settle


class Stepped(NamedTuple):
    """What comes out of a step.

    Args:
        state: What is known of the conversation now.
        view: What the model shall be sent.
        fresh: Tokens of the request that the one before had not.
        before: What was known before, unchanged, if that was asked for and a stage did anything.
    """

    state: State
    view: View
    fresh: int
    before: State | None = None


async def take_step(
    state: State,
    given: Given,
    now: float,
    *,
    model: str | None = None,
    format_name: str | None = None,
    remembered: bool = True,
    undoable: bool = False,
) -> Stepped:
    """Prepare the next model call of a conversation.

    Args:
        state: What is known of it.
        given: What the caller passes.
        now: Seconds since 1970.
        model: The model that is called from now on; None: the one before.
        format_name: The wire format from now on; None: the one before.
        remembered: Whether a later step goes on from this one. Else it is one from nothing, without a session: nothing
            is noted for later, and all stages run at once.
        undoable: Give back in ``before`` what was known before a step in which a stage did anything.

    Raises:
        InvalidInput: If something cannot be read; names the message and the field.
        ContextOverflow: If what must stay is larger than the budget.
        StageError: If a stage broke a promise.
        UnknownModel: If the budget is the model's and the model table does not know it.
    """
    started = perf_counter()
    with naming_what_is_too_deep(given.messages, given.system, given.tools):
        ctx = await settle(state, given, model, format_name)
        record = await match(state, given, ctx)
        step = await take_in(state, record, given, ctx, now, remembered=remembered)
        step = await _compacted(step, given)
        await keep_originals(step.trail)
        before = state if undoable and step.trail.reports else None
        after = await commit(state, step, given, now, on_copy=before is not None)
        report = report_on(after, step, started)
        view = view_of(step, given, report)
    return Stepped(after.state, view, report.tokens_after - report.prefix_tokens, before)


async def _compacted(step: Step, given: Given) -> Step:
    """The step once it fits; with nothing decided before where it does not fit otherwise.

    What was decided for another model, limit or end of the history may be what does not fit now.
    """
    try:
        await compact(step)
    except ContextOverflow:
        # what a load brings back of the history is digests, which cannot be read again
        if given.loaded or not step.remembered:
            raise
        anew = await _decided_anew(step)
        if anew is None:
            raise
        return anew
    if not step.trail.start:
        refuse_empty(step.trail)
    return step


async def _decided_anew(refused: Step) -> Step | None:
    """The step with nothing decided before, as without a session; None when that does not fit either."""
    known = undecided(refused.record, binds_reasoning=refused.ctx.binds)
    # as without a session: nothing of the cache is worth sparing
    step = await _read_in(refused.ctx, known, refused.natives, 0.0)
    step.reasoning_made_with = refused.reasoning_made_with  # and no marked_for: this record has no view yet
    try:
        await compact_at_once(step)
    except ContextOverflow:
        return None
    step.warmth = refused.warmth
    return step


async def take_in(
    state: State, record: Record, given: Given, ctx: StepContext, now: float, *, remembered: bool = True
) -> Step:
    """Read, repair and treat what is new, with the unfinished round before it; nothing when nothing is new.

    Args:
        state: What is known of the conversation.
        record: The record to go on from.
        given: What the caller passes.
        ctx: What surrounds the step.
        now: Seconds since 1970.
        remembered: See ``take_step``.
    """
    idle = None if ctx.model != state.model else state.last_request.idle(now)
    warmth = warmth_after(ctx.source.profile, idle)
    if record is state.record and 0 < len(given.messages) == len(record.seen):
        step = _stand_still(ctx, record, given.messages, warmth)
    else:
        around = None if remembered else await _read_around(ctx, record, given.messages, warmth)
        step = around or await _read_in(ctx, record, given.messages, warmth, remembered=remembered)
        if remembered and step.raw:
            await _treat(step)
    step.reasoning_made_with, step.marked_for = state.reasoning_made_with(ctx), state.marked_for
    return step


async def _treat(step: Step) -> None:
    """Run the stages that look at what is new."""
    call = step.call()
    for stage in step.ctx.plan.on_arrival:
        await run_stage(stage, step.trail, call)


async def _read_in(
    ctx: StepContext, record: Record, natives: Sequence[Native], warmth: float, *, remembered: bool = True
) -> Step:
    """The step with what is new read and repaired."""
    meter = ctx.source.meter
    record, fresh, seen, asked = await _read_new(ctx, record, natives, remembered=remembered)
    if asked is not None:
        weights, known = ctx.weigh(record.view), len(record.seen)
        record = rewound(
            record, asked, weights, unchanged_until=known, history_length=len(natives), binds_reasoning=ctx.binds
        )
        record, fresh, seen, _ = await _read_new(ctx, record, natives, remembered=remembered)
    known = len(record.seen)
    await meter.settle(fresh)
    arrived = await offload(partial(ctx.weigh, fresh), len(fresh))
    raw = [*record.tail, *fresh]
    raw_origin = [*record.tail_origin, *range(known, known + len(fresh))]
    size = ctx.fixed + record.view_tokens + sum(map(meter.message, record.tail)) + sum(arrived.tokens)
    trail = Trail(ctx.context(raw), list(raw_origin), size, unbound_from=record.unbound_from, start=record.settled)
    step = Step(ctx, record, natives, seen, trail, arrived, raw, raw_origin, warmth, remembered)
    if raw:
        await _repair(step)
    return step


async def _read_around(ctx: StepContext, record: Record, natives: Sequence[Native], warmth: float) -> Step | None:
    """The step with what is around messages that need not be read; None where all have to be."""
    found = await _unread(ctx, natives)
    if found is None:
        return None
    raw, origins = list(found.around), found.origins
    arrived = ctx.weigh(raw)
    trail = Trail(ctx.context(raw), list(origins), ctx.fixed + sum(arrived.tokens))
    seen = [natives[origin] for origin in origins]
    step = Step(ctx, record, natives, seen, trail, arrived, raw, origins, warmth, remembered=False, unread=found)
    await _repair(step)
    return None if trail.reports else step


async def _unread(ctx: StepContext, natives: Sequence[Native]) -> Unread | None:
    """What the plan's stage would leave out whatever it says; None where something else may look at it."""
    plan, source, budget = ctx.plan, ctx.source, ctx.budget
    if len(natives) < MUCH or len(plan.at_once) != 1 or ctx.binds:
        return None
    if ctx.given.system is not ctx.system or ctx.given.tools is not ctx.tools:  # its markers were taken off
        return None
    if plan.pinned or plan.counting or plan.originals or source.wire.minds_the_end or source.wire.reads_places:
        return None
    call = plan.call(source, budget, None if budget is None else budget.limit, len(natives), lambda _index: None)
    stage = declared(plan.at_once[0])
    aim = stage.drops_oldest_above(call) if stage.concerns(call) else None
    if aim is None:
        return None
    work = partial(unread, natives, source, stage.name, aim, ctx.fixed)
    return await offload(work, len(natives), characters=VERY_MUCH_TEXT)


def _stand_still(ctx: StepContext, record: Record, natives: Sequence[Native], warmth: float) -> Step:
    """The step when nothing is new: all that was decided stays, also about a round that is not finished."""
    provisional = sum(map(ctx.source.meter.message, record.view[record.settled :]))
    size = ctx.fixed + record.view_tokens + provisional
    trail = Trail(ctx.context(()), [], size, unbound_from=record.unbound_from, start=len(record.view))
    raw, origins = list(record.tail), list(record.tail_origin)
    open_from = origins[0] if origins else None
    return Step(ctx, record, natives, [], trail, Sizes(), raw, origins, warmth, open_from=open_from)


_New = tuple[Record, list[Message], list[Any], int | None]
"""The record; new messages as values, what they look like, and the index of an earlier call that they answer."""


async def _read_new(ctx: StepContext, record: Record, natives: Sequence[Native], *, remembered: bool) -> _New:
    return await offload(lambda: _read(ctx, record, natives, remembered=remembered), len(natives) - len(record.seen))


def _read(ctx: StepContext, record: Record, natives: Sequence[Native], *, remembered: bool) -> _New:
    """What is new, and the record with the unfinished round as it reads beside that.

    Where the place tells which call a result answers, a later result may tell that an earlier one answers another call.
    """
    new, source, again = natives[len(record.seen) :], ctx.source, len(record.tail)
    if again and source.wire.reads_places:
        read = source.messages([*(each.source for each in record.tail), *new], len(record.seen) - again)
        tail, fresh = read[:again], read[again:]
        record = record if tail == record.tail else evolve(record, tail=with_instructions(tail, record.instructions))
    else:
        fresh = source.messages(new, len(record.seen), record.tail)
    if not remembered:
        return record, fresh, list(new), None
    fresh = with_instructions(fresh, record.instructions)
    return record, fresh, snapshots(new, len(record.seen)), asked_at(record, natives, fresh, source.wire)


def _open_from(trail: Trail, clean: Sequence[Message]) -> int | None:
    """The index in the history where the end begins that depends on what comes next; None when none does.

    Args:
        trail: The new messages, with those of the unfinished end before them.
        clean: The same, repaired but for their pairs.
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
    origins, starts = compare.match(bare, clean).origins, [unit.start for unit in units(clean)]
    while True:
        read = next(origin for origin in (*reversed(origins[: place + 1]), 0) if origin is not None)
        begins = origins.index(read) if read in origins else 0
        if begins >= place:
            return read
        place = starts[bisect_right(starts, begins) - 1]


async def _repair(step: Step) -> None:
    """Make what is new legal, and find where it is unfinished.

    Cache markers that the model refuses are lifted, and reasoning of another model goes; then the history is repaired,
    as one stage, so that ``open_from`` is found in what was repaired but not yet paired.

    Raises:
        InvalidInput: If the step works on the whole view, and nothing is left to send.
    """
    ctx, call = step.ctx, step.call()
    wire = ctx.source.wire

    if carries_refused(step.raw, wire, ctx.source.profile):
        await run_stage(LiftCacheMarkers(), step.trail, call, trusted=True)
    if step.record.foreign_count > step.raw_origin[0]:
        await run_stage(
            DropForeignReasoning(step.raw_origin, step.record.foreign_count), step.trail, call, trusted=True
        )
    last = step.record.view[step.trail.start - 1] if step.trail.start else None
    bare = step.trail.context.messages

    def looked() -> tuple[list[Message] | None, int | None]:
        earlier = Earlier(step.record.ids, _named(step), last, lambda: step.record.view[: step.trail.start])
        clean = cleaned(bare, call, wire, earlier)
        whole = paired(clean, call, wire, earlier=earlier)
        legal = None if whole is bare else list(whole)
        open_ = legal is not None or has_server_calls(bare) or any(each.role not in _ANSWERING for each in bare[-1:])
        return legal, _open_from(step.trail, clean) if open_ and step.remembered else None

    legal, step.open_from = await offload(looked, len(bare))
    if legal is not None:

        async def repaired(context: Context, _call: Call) -> Context:
            return context.with_messages(tuple(legal))

        repaired.__name__ = REPAIR
        await run_stage(repaired, step.trail, call, trusted=True)
    after = (
        (step.record.view[step.trail.start - 1], step.record.origins[step.trail.start - 1])
        if step.trail.start
        else None
    )
    await let_answers_follow(step.trail, call, step.role_at, after)
    if step.trail.start == 0:
        refuse_empty(step.trail)


_ANSWERING = frozenset({"user", "tool"})


def _named(step: Step) -> Mapping[str, Message]:
    """The settled messages that have a name of their own; looked up when the record does not know them."""
    record = step.record
    if record.items is None:
        record.items = names_of(record.view[: record.settled], step.ctx.source.wire)
    return record.items


@frozen
class Committed:
    """A step that has become what is known.

    Args:
        state: What is known now.
        record: The history, and the view that was made of it.
        in_force: The changes in force.
        first_changed: The first message that is not as it was; None when all that was sent is still there.
        prefix: Tokens at the start of the request that the one before had too.
        sent: Tokens of the request before.
    """

    state: State
    record: Record
    in_force: ChangesInForce
    first_changed: int | None
    prefix: int
    sent: int


async def commit(state: State, step: Step, given: Given, now: float, *, on_copy: bool) -> Committed:
    """What is known once the step has succeeded. Nothing waits once anything changes: no step is ever half done.

    Args:
        state: What was known before.
        step: The step.
        given: What the caller passed.
        now: Seconds since 1970.
        on_copy: Leave the record as it was.
    """
    if not step.remembered:
        return await offload(lambda: _committed_nowhere(state, step), len(step.raw))
    old, sent, ctx = state.record, state.last_request, step.ctx
    step.trail.narrow()
    same = step.record is old  # and not one of a history that was changed
    start = min(step.trail.start, sent.length) if same else 0
    before, grown = old.shown[start : sent.length], same and not old.tail and old.settled == len(old.view)
    same_fixed = _same_fixed(state, ctx, given)
    fixed = state.fixed if same_fixed and not isinstance(state.fixed, Digest) else given.fixed()
    await _enter_aside(step, on_copy=on_copy)
    record = step.record
    shared = min(sent.intact, start + shared_start(before, record.shown[start:]))
    first_changed, prefix = _prefix(state, step, shared, same_fixed=same_fixed)
    if ctx is not state.ctx:
        state.limits_by_model.keep(ctx.model, ctx.limits)
    in_force = record.in_force() if step.trail.reports or not grown or record is not old else state.in_force
    last_request = LastRequest(step.trail.tokens, len(record.out), len(record.out), now)
    known = State(
        state.plan,
        ctx.model,
        ctx.format,
        state.limits_by_model,
        ctx.limits,
        record,
        ctx,
        fixed,
        None,
        ctx.source.wire.name,
        last_request,
        state.steps + 1,
        given,
        in_force,
        ctx.source.meter,
        ctx.model,
    )
    return Committed(known, record, in_force, first_changed, prefix, sent.tokens)


def _committed_nowhere(state: State, step: Step) -> Committed:
    """What a step from nothing made, for the report; no later step goes on from it."""
    record, trail, left = step.record, step.trail, step.unread
    messages, meter = trail.context.messages, step.ctx.source.meter
    write, known = step.ctx.source.wire.write_message, zip(messages, trail.origins, strict=True)
    record.out = [
        step.natives[origin] if origin is not None and message.untouched else write(message)
        for message, origin in paced(known)
    ]
    record.remember(step.seen, step.raw, step.arrived)
    if left is not None:
        record.book.spans.append(left.span())
    record.book.write(change for report in trail.reports for change in report.changes)
    record.view, record.origins, record.settled = list(messages), trail.origins, len(messages)
    record.note_made(trail.made, (), messages)
    record.view_bytes = sum(map(meter.weight, messages))
    in_force = record.in_force() if left is None else left.in_force(record.in_force())
    return Committed(state, record, in_force, compare.match(step.raw, messages).first_changed, 0, 0)


def _same_fixed(state: State, ctx: StepContext, given: Given) -> bool:
    """Whether system prompt and tools are those of the step before."""
    last = state.ctx
    if ctx.model != state.model:  # another model has another cache
        return False
    if last is None:
        return state.steps > 0 and bool(state.fixed == [given.system, given.tools])
    return ctx.system is last.system and ctx.tools is last.tools


def _prefix(state: State, step: Step, shared: int, *, same_fixed: bool) -> tuple[int | None, int]:
    """The first changed message of a request that begins with ``shared`` of the last one, and the tokens of those."""
    sent, ctx = state.last_request, step.ctx
    if not same_fixed:
        return (0 if state.steps else None), 0
    if shared == sent.length:
        return None, sent.tokens
    tokens = ctx.fixed + sum(map(ctx.source.meter.message, step.record.view[:shared]))
    return (shared if state.steps else None), tokens


async def _enter_aside(step: Step, *, on_copy: bool = False) -> None:
    """``_enter``; where it is about many messages, in a worker thread and on a copy of the record."""
    changes = sum(len(report.changes) for report in step.trail.reports)
    again = step.trail.start == 0 or step.trail.start < step.record.settled
    looked_at = len(step.seen) + changes + (len(step.trail.context.messages) if again else 0)
    if looked_at >= MUCH or on_copy:
        step.record = step.record.copy()
    await offload(partial(_enter_and_let_go, step), looked_at)


def _enter_and_let_go(step: Step) -> None:
    """``_enter``, and take apart here what the step need not know any more: of many messages that takes a while."""
    _enter(step)
    for spent in (step.raw, step.seen) if len(step.raw) >= MUCH else ():
        for _ in paced(range(len(spent))):
            spent.pop()


def _enter(step: Step) -> None:
    """Make what the step worked out the state of the conversation. Nothing in it waits."""
    record, trail = step.record, step.trail
    start, messages, fresh = trail.start, trail.context.messages, step.fresh
    written, shown = _outgoing(step)  # first: what cannot be written leaves the record as it was
    for kept in paced(chain(step.seen, [message.parts for message in fresh])):
        untrack(kept)
    record.remember(step.seen, fresh, step.arrived)
    _enter_in_book(step)
    replaced = record.view[start:]
    record.shown[start:], record.out[start:] = shown, written
    record.view[start:], record.origins[start:] = messages, trail.origins
    if trail.made or record.made:
        record.note_made(trail.made, replaced, messages)
    if trail.reports:
        record.forget_dropped(step.natives, _dropped(trail.reports))
    _mark_final(step, replaced[: max(0, record.settled - start)])
    record.quiet_until, record.waiting = step.quiet_until, step.waiting
    record.unbound_from = trail.unbound_from
    record.instructions |= frozenset(instruction_digests(messages, written))


def _outgoing(step: Step) -> tuple[list[Native], list[Native]]:
    """The messages of the step in the caller's format, and what each looks like.

    One that stood at a place of the view before is the same object again. One that nobody has touched is the caller's
    object of this step, which may have been rebuilt since it was read, and looks as it came.
    """
    record, trail, natives, write = step.record, step.trail, step.natives, step.ctx.source.wire.write_message
    stood = {id(message): place for place, message in enumerate(record.view[trail.start :], trail.start)}
    known, written, shown = len(record.seen), [], []
    for message, origin in paced(zip(trail.context.messages, trail.origins, strict=True)):
        if (place := stood.get(id(message))) is not None:
            written.append(record.out[place])
            shown.append(record.shown[place])
        elif origin is not None and message.untouched:
            written.append(natives[origin])
            shown.append(record.seen[origin] if origin < known else step.seen[origin - known])
        else:
            written.append(write(message))
            shown.append(snapshot(written[-1]))
    return written, shown


def _dropped(reports: Sequence[StageReport]) -> Iterator[int]:
    """The indexes in the history of what was dropped in this step."""
    return (change.index for report in reports for change in report.changes if change.outcome is Outcome.DROPPED)


def _enter_in_book(step: Step) -> None:
    """What this step did, instead of what was done before to the round that was treated again."""
    record, reports = step.record, step.trail.reports
    if record.tail_origin and step.seen:
        record.book = record.book.before(record.tail_origin[0])
    if reports:
        record.book.write(change for report in reports for change in report.changes)
        record.note_decided(change for report in reports for change in report.changes)


def _mark_final(step: Step, replaced: Sequence[Message]) -> None:
    """Note which part of the view is final, and what it weighs without what was ``replaced`` of it."""
    record, ctx = step.record, step.ctx
    settled, place = _open_end(step, replaced)
    record.tail, record.tail_origin = step.raw[place:], step.raw_origin[place:]
    if settled and record.origins[settled - 1] is None and is_go_on(record.view[settled - 1]):
        settled -= 1  # it is added for this step only
    start = min(step.trail.start, record.settled)
    if start < len(replaced):  # then less has to be weighed when it is all weighed again
        start, replaced, record.view_tokens, record.view_bytes = 0, record.view[:0], 0, 0
        record.ids = set() if ctx.source.wire.unique_ids else record.ids
        record.items = None
    new, meter = record.view[start:settled], ctx.source.meter
    record.view_tokens += sum(map(meter.message, new)) - sum(map(meter.message, replaced))
    record.view_bytes += sum(map(meter.weight, new)) - sum(map(meter.weight, replaced))
    if ctx.source.wire.unique_ids:
        record.ids -= call_ids(replaced)
        record.ids |= call_ids(new)
    if record.items is not None:
        for name, gone in names_of(replaced, ctx.source.wire).items():
            if record.items.get(name) is gone:
                del record.items[name]
        record.items |= names_of(new, ctx.source.wire)
    record.settled = settled


def _open_end(step: Step, replaced: Sequence[Message]) -> tuple[int, int]:
    """Where the unfinished end begins: in the view, and among the messages that this step has read.

    There is none where a message that was final before stands within it, moved behind newer ones: it is not read again,
    so that it would be lost. ``asked_at`` finds what an answer to the end belongs to then.

    Args:
        step: The step.
        replaced: What stood in the view before in the place of the step's messages, as far as it was final.
    """
    record, nothing = step.record, (len(step.record.view), len(step.raw))
    open_from = None if step.open_from is None else _open_end_without_dropped_calls(step, step.open_from)
    if open_from is None:
        return nothing
    start, again = min(step.trail.start, record.settled), step.raw_origin[0]
    final = _final_places(record, start, again, replaced)
    settled, open_from = _where_view_is_open(record, start, open_from, again, final)
    if any(origin is not None and origin < again for origin in record.origins[settled:]):
        return nothing
    return settled, bisect_left(step.raw_origin, open_from)


def _final_places(record: Record, start: int, again: int, replaced: Sequence[Message]) -> set[int]:
    """The places of the view from ``start`` on of what was final before a step that reads from ``again`` on."""
    stood = set(map(id, replaced))
    places = zip(range(start, len(record.view)), record.view[start:], record.origins[start:], strict=True)
    return {
        place for place, message, origin in places if id(message) in stood or (origin is not None and origin < again)
    }


def _open_end_without_dropped_calls(step: Step, open_from: int) -> int | None:
    """From which index on all calls of the unfinished end are in the view: what was left out once is not read again.

    None when there is no such end.
    """
    place, there = (
        step.raw_origin.index(open_from),
        set(step.record.origins[min(step.trail.start, step.record.settled) :]),
    )
    gone = [at for at in range(place, len(step.raw)) if step.raw[at].calls and step.raw_origin[at] not in there]
    if not gone:
        return open_from
    later = iter_units(step.raw, place)
    return next((step.raw_origin[unit.start] for unit in later if unit.start > gone[-1]), None)


def _where_view_is_open(record: Record, start: int, index: int, again: int, final: Collection[int]) -> tuple[int, int]:
    """Where the unfinished part of the view begins, and from which index of the history on it was read.

    It holds all that was read from ``index`` on, and nothing older: where repair has moved an older message behind a
    newer one, both are read again, and so is a call whose result is in that part. A made message before it is final:
    it may be the result of an older call.

    Args:
        record: What is known of the conversation.
        start: A place of the view before which everything is final.
        index: The index in the history at which the unfinished round begins.
        again: The index in the history from which on this step has read.
        final: The places from ``start`` on of what was final before.
    """
    origins, place = record.origins, start
    while place < len(origins) and not _is_from(origins[place], index):
        place += 1
    asked = first_unanswered_call(record.view, origins, start, place, final)
    read = [origins[at] for at in range(asked, len(origins)) if at not in final]
    oldest = min((origin for origin in read if origin is not None), default=index)
    if asked < place and origins[asked] is None:  # no message before it is known: all is read again
        oldest = again
    if oldest < index:
        return _where_view_is_open(record, start, oldest, again, final)
    return asked, index


def _is_from(origin: int | None, index: int) -> bool:
    return origin is not None and origin >= index


def report_on(done: Committed, step: Step, started: float) -> Report:
    """The report on a step.

    Args:
        done: What the step has become.
        step: The step.
        started: When the step began, by the clock of ``plan.since``.
    """
    record, ctx, trail = done.record, step.ctx, step.trail
    tail = sum(map(ctx.source.meter.weight, record.view[record.settled :]))
    budget, reports = ctx.budget, trail.reports
    began = reports[0].tokens_before if reports else trail.tokens
    taken_off = relief(ctx.given, ctx.context(()), ctx.bare_call, began)
    billed = partial(
        bill, ctx.source.profile, sent=done.sent, prefix=done.prefix, size=trail.tokens, warmth=step.warmth
    )
    more = sum(stage.tokens_before - began for stage in taken_off)
    report = Report(
        stages=(*taken_off, *reports),
        in_force=done.in_force,
        messages_before=len(record.seen),
        messages_after=len(record.view),
        tokens_before=more + ctx.fixed + record.given_tokens,
        tokens_after=trail.tokens,
        bytes_before=ctx.fixed_bytes + record.given_bytes,
        bytes_after=ctx.fixed_bytes + record.view_bytes + tail,
        limit=None if budget is None else budget.limit,
        first_changed=done.first_changed,
        prefix_tokens=done.prefix,
        rebilled_tokens=max(0, done.sent - done.prefix),
        seconds=since(started),
        forecast=billed(given=began),
    )
    return report if step.unread is None else step.unread.told(report, lambda more: billed(given=began + more))


def view_of(step: Step, given: Given, report: Report) -> View:
    """The view that a step made; system prompt and tools as the caller passed them where no stage touched them."""
    record, chosen, ctx = step.record, step.trail.context, step.ctx
    system, tools = given.system, given.tools
    if chosen.tools is not ctx.given.tools:
        tools = [tool.source for tool in chosen.tools]
    if chosen.system is not ctx.given.system:
        system = None if chosen.system is None else ctx.source.wire.write_system(chosen.system)
    options, origins = options_of(step.trail, ctx.bare_call), tuple(record.origins)
    return View(list(record.out), system, tools, report, ctx.context(record.view), options, origins)
