"""One step of a session: six phases, in this order.

``take_step`` has them all. It

1. **settles** what surrounds it: ``settle`` in ``session/step_context.py``
2. **matches** the history with what is known: ``match`` in ``session/matching.py``
3. **takes in** what is new: ``take_in`` in ``session/arrivals.py``; it reads, repairs, and runs the stages for arrivals
4. **brings to size** what is too large, and fits the budget in any case: ``_fitted``, by ``bring_to_size`` in
   ``session/compaction.py`` and ``guarantee`` in ``engine/guarantee.py``
5. **commits**: ``commit``, to the record of ``session/record.py``
6. **reports**: ``report_on``, and ``view_of`` with the report in it

``settle`` gives a value. So does ``match``, which may fill in, in the record that is known, what holds whatever becomes
of the step: what a load has left to be read, sizes, and the caller's own objects as they are now. ``take_in`` makes the
``Step``, which the phases after it bring up to date; where a store keeps originals, it has them before the step is
committed. ``commit`` alone changes what was decided. What cannot be made to fit is taken in once more with nothing
decided before (``_decided_anew``), as without a session.

Who holds what:

- ``State``: what is known of the conversation from step to step; its ``Record`` has what was decided of each message
- ``Given``: what the caller passes
- ``StepContext``, ``ctx``: what surrounds the step: plan, reader, budget, system prompt and tools
- ``Step``: where the step stands: its ``ctx``, the ``record`` to go on from, what was ``read`` anew, and the ``trail``
  of what stages made of that
- ``Committed``: what the step has become; ``Stepped``: what the session gets of it, the ``View`` and the next ``State``

``Pipeline.prepare`` is such a step from nothing, kept nowhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from time import perf_counter
from typing import Any, NamedTuple

from attrs import evolve

from agentctx.changes import ChangeLog, ChangesInForce, Outcome, first_changed
from agentctx.economics.costs import bill, found_again
from agentctx.engine.cache_markers import relief
from agentctx.engine.guarantee import is_go_on, refuse_empty
from agentctx.engine.reading import Viewed, naming_what_is_too_deep, place_of, tail_of, write_native
from agentctx.engine.run_stages import keep_originals
from agentctx.errors import ContextOverflow
from agentctx.formats.native import snapshot
from agentctx.message import ROLES, Message, Native
from agentctx.offload import is_much, offload
from agentctx.protocols import declared
from agentctx.reports import Report, View
from agentctx.session.arrivals import read_in, take_in
from agentctx.session.compaction import bring_to_size, run_at_once
from agentctx.session.matching import match
from agentctx.session.record import (
    Digest,
    LastRequest,
    Record,
    alike,
    instruction_digests,
    undecided,
)
from agentctx.session.step_context import Given, State, Step, StepContext, settle


class Stepped(NamedTuple):
    """What comes out of a step.

    Args:
        state: What is known of the conversation now.
        view: What the model shall be sent.
        new_tokens: Tokens of the request that the one before had not.
        undo: What was known before, unchanged, if that was asked for and a stage did anything.
    """

    state: State
    view: View
    new_tokens: int
    undo: State | None = None


async def take_step(
    state: State,
    given: Given,
    now: float,
    *,
    model: str | None = None,
    format_name: str | None = None,
    conversation: str | None = None,
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
        conversation: By what name a store knows the conversation; None: it belongs to none.
        remembered: Whether a later step goes on from this one. Else it is one from nothing, without a session: nothing
            is noted for later, and all stages run at once.
        undoable: Give back in ``undo`` what was known before a step in which a stage did anything.

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
        step = await take_in(state, record, given, ctx, now, remembered=remembered)
        step = await _fitted(step, given)
        undo = state if undoable and step.trail.reports else None
        done = await commit(state, step, given, now, on_copy=undo is not None)
        report = report_on(done, step, started)
        view = view_of(step, given, report)
    except RecursionError:
        with naming_what_is_too_deep(given.messages, given.system, given.tools):
            raise
    return Stepped(done.state, view, report.tokens_after - report.prefix_tokens, undo)


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


async def commit(state: State, step: Step, given: Given, now: float, *, on_copy: bool) -> Committed:
    """What is known once the step has succeeded.

    No step is ever half done: what was decided is changed by ``_enter`` alone, which does not wait; what a step does to
    the record before puts equal objects in the place of others, or fills a cache. Where ``_enter`` has much to do, a
    worker thread does it on a copy, and this waits for that before anything is taken over.

    Args:
        state: What was known before.
        step: The step.
        given: What the caller passed.
        now: Seconds since 1970.
        on_copy: Leave the record as it was.
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
    record = await _entered(step, on_copy=on_copy)
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


async def _entered(step: Step, *, on_copy: bool) -> Record:
    """The record with the step in it; a copy, filled in a worker thread, where it is about many messages."""
    trail = step.trail
    changes = sum(len(report.changes) for report in trail.reports) if trail.reports else 0
    again = trail.start == 0 or trail.start < step.record.final
    looked_at = len(step.read.seen) + changes + (len(trail.context.messages) if again else 0)
    if is_much(looked_at) or on_copy:
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
        record.unsaid = record.unsaid._replace(now=trail.unsaid.left_by(record.view))
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
        record.ids = set() if ctx.reader.wire.unique_ids else record.ids
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
    if wire.unique_ids or wire.names_items:
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
    anew = not step.remembered and any(declared(stage).moves_prefix for stage in ctx.plan.at_once)
    found = found_again(step.as_sent, done.first_changed, ctx.bare_call) if done.prefix or anew else 0
    return min(done.prefix, found), (found if anew else None)


def view_of(step: Step, given: Given, report: Report) -> View:
    """The view that a step made; system prompt and tools as the caller passed them where no stage touched them."""
    record, chosen, ctx = step.record, step.trail.context, step.ctx
    system, tools = given.system, given.tools
    if chosen.tools is not ctx.given_head.tools:
        tools = [tool.source for tool in chosen.tools]
    if chosen.system is not ctx.given_head.system:
        system = None if chosen.system is None else ctx.reader.wire.write_system(chosen.system)
    options = step.trail.asked or {}
    return View(list(record.out), system, tools, report, step.as_sent, options, tuple(record.origins))
