"""What a step has worked out becomes what is known of the conversation: all of it, or nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from agentctx.core import compare
from agentctx.core.change_log import ChangesInForce
from agentctx.core.compare import Outcome
from agentctx.core.message import Message, Native
from agentctx.core.pace import paced
from agentctx.core.report import StageReport
from agentctx.core.untracked import untrack
from agentctx.engine.guarantee import is_go_on
from agentctx.engine.reading import place_of, write_native
from agentctx.engine.repair import names_of
from agentctx.engine.tail import Viewed, tail_of
from agentctx.offload import MUCH, offload
from agentctx.providers.native import snapshot
from agentctx.session.fingerprint import Digest
from agentctx.session.record import LastRequest, Record, alike, call_ids, instruction_digests
from agentctx.session.step_context import Given, State, Step, StepContext
from agentctx.wire_format import WireFormat


class Committed(NamedTuple):
    """A step that has become what is known.

    Args:
        state: What is known now.
        record: The history, and the view that was made of it.
        in_force: The changes in force.
        first_changed: The first message that is not as it was; None when all that was sent is still there.
        prefix: Tokens at the start of the request that the one before had too.
        tokens_before: Tokens of the request before.
    """

    state: State
    record: Record
    in_force: ChangesInForce
    first_changed: int | None
    prefix: int
    tokens_before: int


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
    step.trail.narrow()
    same = step.record is old  # and not one of a history that was changed
    start = min(step.trail.start, last.length) if same else 0
    shown = old.shown[start : last.length]  # a slice, and now: `_enter` changes this very list
    grown = same and not old.tail and old.final == len(old.view)
    same_head = _same_head(state, ctx, given)
    head_seen = state.head_seen if same_head and not isinstance(state.head_seen, Digest) else given.head_seen()
    record = await _entered(step, on_copy=on_copy)
    shared = min(last.intact, start + _shared_start(shown, record.shown[start:]))
    first_changed, prefix = _prefix(state, step, shared, same_head=same_head)
    if state.cleared_by_provider or step.cleared_by_provider:
        prefix = _read_alike(state, step, shared) if same_head else 0
    if ctx is not state.ctx:
        state.limits_by_model.keep(ctx.model, ctx.limits)
    in_force = record.in_force() if step.trail.reports or not grown or record is not old else state.in_force
    known = _known_after(state, step, given, now, head_seen, in_force)
    return Committed(
        known, record, in_force, first_changed, prefix, last.tokens - sum(state.cleared_by_provider.values())
    )


def _known_after(
    state: State, step: Step, given: Given, now: float, head_seen: Native, in_force: ChangesInForce
) -> State:
    """What is known after a step, whose record has it already."""
    ctx, record = step.ctx, step.record
    return State(
        state.plan,
        model=ctx.model,
        format=ctx.format,
        limits_by_model=state.limits_by_model,
        limits=ctx.limits,
        record=record,
        ctx=ctx,
        head_seen=head_seen,
        wire_name=ctx.reader.wire.name,
        last_request=LastRequest(step.trail.tokens, len(record.out), len(record.out), now),
        steps=state.steps + 1,
        last=given,
        in_force=in_force,
        counted_by=ctx.reader.meter,
        marked_for=ctx.model,
        asked=step.trail.asked is not None,
        said=step.said,
        cleared_by_provider=step.cleared_by_provider,
        memo=state.memo,
    )


def _committed_nowhere(state: State, step: Step) -> Committed:
    """What a step from nothing made, for the report; no later step goes on from it."""
    record, trail, read, left = step.record, step.trail, step.read, step.skipped
    messages, meter = trail.context.messages, step.ctx.reader.meter
    wire, known = step.ctx.reader.wire, enumerate(zip(messages, trail.origins, strict=True))
    record.out = [
        step.natives[origin]
        if origin is not None and message.untouched
        else write_native(wire, message, place_of(origin, place))
        for place, (message, origin) in paced(known)
    ]
    record.remember(read.seen, read.messages, read.sizes)
    if left is not None:
        record.log.spans.extend(left.spans())
    record.log.write(change for report in trail.reports for change in report.changes)
    record.view, record.origins, record.final = list(messages), trail.origins, len(messages)
    record.note_made(trail.made, (), messages)
    record.view_bytes = sum(map(meter.weight, messages))
    in_force = record.in_force() if left is None else left.in_force(record.in_force(), trail.reports)
    return Committed(state, record, in_force, compare.first_changed(read.messages, messages), 0, 0)


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


def _read_alike(state: State, step: Step, shared: int) -> int:
    """Tokens of the first ``shared`` messages, and of what precedes them, up to where the provider clears otherwise."""
    before, now, ctx = state.cleared_by_provider, step.cleared_by_provider, step.ctx
    otherwise = [place for place in before.keys() | now.keys() if before.get(place) != now.get(place)]
    end = min([shared, *otherwise])
    size = ctx.head_tokens + sum(map(ctx.reader.meter.message, step.record.view[:end]))
    return size - sum(tokens for place, tokens in now.items() if place < end)


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
    if looked_at >= MUCH or on_copy:
        step.record = step.record.copy()
    await offload(partial(_enter, step), looked_at)
    return step.record


def _enter(step: Step) -> None:
    """Make what the step worked out what is known of the conversation. Nothing in it waits."""
    record, trail, read = step.record, step.trail, step.read
    start, messages, new = trail.start, trail.context.messages, read.new
    written, shown = _outgoing(step)  # first: what cannot be written leaves the record as it was
    record.remember(read.seen, new, read.sizes)
    _log(step)
    replaced = record.view[start:]
    record.shown[start:], record.out[start:] = shown, written
    record.view[start:], record.origins[start:] = messages, trail.origins
    record.look_otherwise(start)
    if trail.made or record.made:
        record.note_made(trail.made, replaced, messages)
    if trail.reports:
        for message in paced(messages):
            untrack(message)  # those that a stage made
        record.forget_dropped(step.natives, _dropped(trail.reports))
    _mark_final(step, replaced[: max(0, record.final - start)])
    record.quiet_until, record.waiting = step.quiet_until, step.waiting
    if trail.unsaid is not None:
        record.unsaid = record.unsaid._replace(now=trail.unsaid.left_by(record.view))
    record.unbound_from = trail.unbound_from
    if found := frozenset(instruction_digests(messages, written)):
        record.instructions |= found
    for spent in (read.messages, read.seen) if len(read.messages) >= MUCH else ():
        for _ in paced(range(len(spent))):  # the step need not know them any more, and to take them apart takes a while
            spent.pop()


def _outgoing(step: Step) -> tuple[list[Native], list[Native]]:
    """The messages of the step in the caller's format, and what each looks like.

    One that stood at a place of the view before is the same object again. One that nobody has touched is the caller's
    object of this step, which may have been rebuilt since it was read, and looks as it came.
    """
    record, trail, natives, wire = step.record, step.trail, step.natives, step.ctx.reader.wire
    stood = {id(message): place for place, message in enumerate(record.view[trail.start :], trail.start)}
    known, written, shown = len(record.seen), [], []
    for message, origin in paced(zip(trail.context.messages, trail.origins, strict=True)):
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


def _dropped(reports: Sequence[StageReport]) -> Iterator[int]:
    """The indexes in the history of what was dropped in this step."""
    return (change.index for report in reports for change in report.changes if change.outcome is Outcome.DROPPED)


def _log(step: Step) -> None:
    """Note what this step did, instead of what was done before to the tail, which was treated again."""
    record, reports = step.record, step.trail.reports
    if record.tail_origin and step.read.seen:
        record.log = record.log.before(record.tail_origin[0])
    if reports:
        record.log.write(change for report in reports for change in report.changes)
        record.note_decided(change for report in reports for change in report.changes)


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
    record.view_tokens += sum(map(meter.message, new)) - sum(map(meter.message, replaced))
    record.view_bytes += sum(map(meter.weight, new)) - sum(map(meter.weight, replaced))
    record.final = final
    _note_names(record, ctx.reader.wire, replaced, new)


def _note_names(record: Record, wire: WireFormat, gone: Sequence[Message], new: Sequence[Message]) -> None:
    """Note the ids and the names that are taken in the final part of the view, and those that are not any more."""
    if wire.unique_ids:
        record.ids -= call_ids(gone)
        record.ids |= call_ids(new)
    if record.items is None or not wire.names_items:
        return
    for name, message in names_of(gone, wire).items():
        if record.items.get(name) is message:
            del record.items[name]
    record.items |= names_of(new, wire)
