"""Match what the caller shows with what is known, by place and value."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import compress, count
from operator import is_not
from typing import Any

from attrs import evolve

from agentctx.core.message import ROLES, Message
from agentctx.core.pace import paced
from agentctx.core.protection import knowing_the_recap, unread
from agentctx.core.recap import is_recap
from agentctx.core.units import awaits_next, units
from agentctx.engine.protect import Pins
from agentctx.engine.reasoning import understands
from agentctx.engine.repair import REPAIR
from agentctx.errors import InvalidInput
from agentctx.offload import offload
from agentctx.providers.native import snapshot
from agentctx.session.fingerprint import begins_with, shared_length, snapshots
from agentctx.session.loading import read_missing
from agentctx.session.record import Record, rebased, rewound, with_instructions
from agentctx.session.step_context import Given, State, StepContext
from agentctx.wire_format import WireFormat


async def match(state: State, given: Given, ctx: StepContext) -> Record:
    """The record to go on from: the known one, or a new one where the caller has changed or replaced its history.

    Args:
        state: What is known of the conversation.
        given: What the caller passes.
        ctx: What surrounds the step.
    """
    natives, record, meter, spoken = given.messages, state.record, ctx.reader.meter, ctx.reader.wire.name
    if not len(record.seen):
        return record
    if state.wire_name != spoken or (ctx.model != state.model and not understands(ctx.model, state.model)):
        other = (state.wire_name or "").partition("/")[0] != spoken.partition("/")[0]
        if other:
            return Record()
        unsaid = record.unsaid.at(len(record.seen))
        return Record(
            foreign_count=len(natives),
            instructions=record.instructions,
            unsaid=unsaid,
            uncounted=record.uncounted,
        )
    if record.missing is not None:
        link(record, natives, ctx.reader.wire)
    others = state.counted_by is not None or ctx.model != state.model  # and not only a load
    counted_anew = state.counted_by is not meter
    if counted_anew:
        if others:
            record = record.copy()  # the known one stays as it was counted, until the step has succeeded
        await meter.settle(record.view)
        record.weigh_view(ctx.weigh(record.view[: record.final]))
    if given.loaded:
        return record
    if not record.linked:
        link(record, natives, ctx.reader.wire)
    record = await recognised(record, natives, ctx)
    if counted_anew and others and len(record.seen):
        await offload(lambda: recount(record, natives, ctx), len(record.seen))
    return record


def legible(natives: Sequence[Any], index: int, wire: WireFormat) -> Iterator[Message]:
    """The message at ``index`` of the history; none where it was edited in place when nobody looked at it any more."""
    with suppress(InvalidInput):
        yield wire.read_message(natives[index], index)


async def recognised(record: Record, natives: Sequence[Any], ctx: StepContext) -> Record:
    """The record to go on from: the same one, or a new one when the caller has changed or replaced its history.

    Args:
        record: What is known of the conversation.
        natives: The history as the caller passes it now, or the last view and what came since.
        ctx: What is known beside the messages.
    """
    if not begins_with(natives, record.seen):
        record = await _changed(record, natives, ctx)
    elif lost := _pinned_since(record, natives, ctx) | _unread_since(record, natives, len(record.seen), ctx):
        record = decided_until(record, natives, min(lost), ctx, unchanged_until=len(record.seen))
    _refresh(record, natives)
    return record


def _pinned_since(record: Record, natives: Sequence[Any], ctx: StepContext) -> set[int]:
    """The indexes of messages that were cut, and are pinned now: a pin that counts from the end moves on."""
    if not ctx.plan.pinned:
        return set()
    pinned = {index for rule in ctx.plan.pinned if isinstance(rule, Pins) for index in rule.of(len(natives))}
    cut = {index for index in pinned if index < len(record.seen) and record.decided[index]}
    return cut and cut - record.whole()


def _unread_since(record: Record, natives: Sequence[Any], length: int, ctx: StepContext) -> set[int]:
    """The indexes of results that were cut, and that the model has not read although more follows now.

    They were cut because nothing else could be: not what the user had said last, who has said more since.

    Args:
        record: What is known of the conversation.
        natives: The history as the caller passes it now.
        length: How many messages of the history still stand.
        ctx: What is known beside the messages.
    """
    last = record.roles.rfind(ROLES.index("assistant"), 0, length)
    cut = [index for index in range(last + 1, length) if 0 < record.decided[index] < len(natives)]
    if not cut:
        return set()
    wire = ctx.reader.wire
    new = (message for index in range(length, len(natives)) for message in legible(natives, index, wire))
    if any(message.role == "assistant" for message in new):
        return set()
    told = {index for index in cut for message in legible(natives, index, wire) if message.results}
    lost = told and told - record.whole()
    return lost and lost & _cut_for_room(record, ctx)


def _cut_for_room(record: Record, ctx: StepContext) -> set[int]:
    """The indexes of what was cut for others to have room; what is done to all that arrives comes out alike."""
    return _cut_by_others(record, ctx.plan.named_on_arrival | {REPAIR})


def _cut_by_others(record: Record, names: Collection[str]) -> set[int]:
    """The indexes of what was cut by other stages than these."""
    gone = (range(span.start, span.stop) for span in record.log.spans if span.stage not in names)
    return {change.index for change in record.log.changes if change.stage not in names}.union(*gone)


async def _changed(record: Record, natives: Sequence[Any], ctx: StepContext) -> Record:
    """The record of what still stands of the conversation."""
    in_view, in_history = shared_length(natives, record.shown), shared_length(natives, record.seen)
    if is_of_the_view(record, in_view, in_history):
        weights = ctx.weigh(record.view).first(in_view)
        return _as_the_model_takes_it(rebased(record, natives, weights), natives, ctx)
    length = await _holds_until(record, natives, in_history, ctx)
    work = partial(decided_until, record, natives, length, ctx, unchanged_until=in_history)
    return _as_the_model_takes_it(await offload(work, len(natives)), natives, ctx)


def decided_until(
    record: Record, natives: Sequence[Any], length: int, ctx: StepContext, *, unchanged_until: int
) -> Record:
    """The record with nothing decided about the messages from ``length`` on, and the units that they belong to.

    Args:
        record: The record; it is not changed.
        natives: The history as the caller passes it now.
        length: How many messages keep what was decided about them, as far as they belong to none of the others.
        ctx: What is known beside the messages.
        unchanged_until: How many messages of the history still stand.
    """
    length = _told_until(record, _whole_until(record, natives, length, ctx), ctx)
    given, weights = len(natives), ctx.weigh(record.view)
    return rewound(
        record, length, weights, unchanged_until=unchanged_until, history_length=given, binds_reasoning=ctx.binds
    )


def _told_until(record: Record, length: int, ctx: StepContext) -> int:
    """The index up to ``length`` before a recap that tells of what is not left out any more; ``length`` when none does.

    It is decided anew with all that it stands for: what it says of the rest was chosen beside what has gone.
    """
    made = (place for place, origin in enumerate(record.origins) if origin is None and is_recap(record.view[place]))
    place = next(made, None)
    if place is None or max(_cut_for_room(record, ctx), default=-1) < length:
        return length
    before = (origin for origin in reversed(record.origins[:place]) if origin is not None)
    return min(length, next(before, 0))


def _whole_until(record: Record, natives: Sequence[Any], length: int, ctx: StepContext) -> int:
    """The index up to ``length`` at which no unit goes on of which something before was left out.

    What was left out was left out as a whole: it comes back as a whole, or stays out as one. Where each message of the
    assistant is a turn of its own, only results belong to another message, and those are found by their calls.
    """
    wire = ctx.reader.wire
    there = {origin for origin in record.origins if origin is not None and origin < length}
    gone = set(range(length)) - there
    if not gone or length >= len(natives) or not wire.merges_turns:
        return length
    if length - 1 in there and not wire.results_anywhere:
        return length
    read = [(index, each) for index in range(len(natives)) for each in legible(natives, index, wire)]
    groups = units([message for _, message in read])
    for places in reversed([[read[place][0] for place in unit.places] for unit in groups]):
        if places[0] < length <= places[-1] and not gone.isdisjoint(place for place in places if place < length):
            length = places[0]
    return length


def _as_the_model_takes_it(record: Record, natives: Sequence[Any], ctx: StepContext) -> Record:
    """The record up to the first message that cannot stand there any more, now that what came after it went."""
    given = len(natives)
    place = _wrong_now(record, given, ctx) if len(record.seen) else None
    if place is None:
        return record
    known = next((origin for origin in reversed(record.origins[: place + 1]) if origin is not None), 0)
    return decided_until(record, natives, known, ctx, unchanged_until=given)


def _wrong_now(record: Record, given: int, ctx: StepContext) -> int | None:
    """The place of the first message of the view that the model takes no more there, or not at the end; None: all."""
    wire, view = ctx.reader.wire, record.view
    if all(origin is None for origin in record.origins):  # whatever is left of the history was left out: decide anew
        return 0
    arranged = wire.arrange_for(view, ctx.reader.profile, lambda _message, _why: None)
    if arranged is not view:
        return next(compress(count(), map(is_not, view, arranged)), len(view) - 1)
    last = view[-1:] if len(record.seen) == given else []
    ends = not wire.names_items and any(message.role == "assistant" for message in last)
    return len(view) - 1 if ends and wire.repair(last, {}) else None


def is_of_the_view(record: Record, in_view: int, in_history: int) -> bool:
    """Whether what the caller passes goes on from the view, and not from the history.

    Where both can be meant it is the view: then all that is passed is there, and equal words that were left out at
    another place are not taken for it.

    Args:
        record: What is known of the conversation.
        in_view: How many messages at the start are those of the view.
        in_history: How many messages at the start are those of the history.
    """
    return in_view >= in_history or in_view == len(record.shown)


async def _holds_until(record: Record, natives: Sequence[Any], length: int, ctx: StepContext) -> int:
    """How many of the first ``length`` messages, which still stand, keep what was decided about them.

    What was decided when no more was known than what still stands is as true as it was. What was decided later holds
    up to the first message that is protected, unread or in the open round now, and is not there as it came in, or of
    which something is said that is not true any more; or, where all that is passed has room, that was cut for room.
    """
    since = _pinned_since(record, natives, ctx) | _unread_since(record, natives, length, ctx)
    moved = min((index for index in since if index < length), default=length)
    late = record.decided_later(length)
    if not late:
        return moved
    spare = late & _cut_for_size(record, ctx) if await _fits_whole(record, natives, length, ctx) else set()
    needed = await offload(lambda: _first_needed(record, natives, length, late, spare, ctx), len(natives))
    return min(moved, needed)


async def _fits_whole(record: Record, natives: Sequence[Any], length: int, ctx: StepContext) -> bool:
    """Whether the history has room below the trigger with nothing of it left out, but by stages for arrivals."""
    budget, meter = ctx.budget, ctx.reader.meter
    left = -1 if budget is None else budget.trigger_tokens - ctx.head_tokens - _on_arrival(record, length, ctx)
    if left < 0:
        return False
    new = ctx.reader.messages(natives)[length:]
    await meter.settle(new)
    return sum(map(meter.message, new)) <= left


def _on_arrival(record: Record, length: int, ctx: StepContext) -> int:
    """Tokens of the first messages of the history after repair and the stages for arrivals."""
    first, sizes = ctx.plan.named_on_arrival | {REPAIR}, record.sizes[:length]
    for change in record.log.changes:
        if change.stage in first and change.index < length:
            sizes[change.index] = change.tokens_after
    for span in record.log.spans:
        for index in range(span.start, min(span.stop, length) if span.stage in first else 0):
            sizes[index] = 0
    return sum(sizes)


def _cut_for_size(record: Record, ctx: StepContext) -> set[int]:
    """The indexes of what was cut for the request to get smaller, by stages that run for nothing else."""
    return _cut_by_others(record, ctx.plan.named_on_arrival | ctx.plan.named_at_every_step | {REPAIR})


def _first_needed(
    record: Record, natives: Sequence[Any], length: int, late: set[int], spare: set[int], ctx: StepContext
) -> int:
    messages = knowing_the_recap(with_instructions(ctx.reader.messages(natives), record.instructions))
    call = ctx.plan.call(ctx.reader, ctx.budget, None, len(messages), messages.__getitem__)
    heard = messages[: _heard(messages)]
    needed = call.protected(ctx.context(messages)).union(unread(heard))
    groups = units(messages)
    open_round = {index for unit in groups[-1:] if unit.is_round for index in unit.places}
    needed |= open_round.union(_answered_early(messages, open_round))
    needed &= late
    lost = (needed and needed - record.whole()) | _untrue(record, messages, late, ctx) | spare
    if not lost:
        return length
    return next(unit.start for unit in groups if unit.stop > min(lost))


def _answered_early(messages: Sequence[Message], asking: Collection[int]) -> set[int]:
    """The indexes of messages with results of calls that are asked only later, in the messages ``asking``."""
    early: dict[str, int] = {}
    found: set[int] = set()
    asked: set[str] = set()
    for index, message in enumerate(messages):
        early |= {result.call_id: index for result in message.results if result.call_id not in asked}
        asked.update(call.id for call in message.calls)
        if index in asking:
            found.update(early[call.id] for call in message.calls if call.id in early)
    return found


def _heard(messages: Sequence[Message]) -> int:
    """How many messages there are without reasoning at the end that nothing follows: the model has not answered yet."""
    stop = len(messages)
    while stop and awaits_next(messages[stop - 1]):
        stop -= 1
    return stop


def _untrue(record: Record, messages: Sequence[Message], late: set[int], ctx: StepContext) -> set[int]:
    """Those of the indexes ``late`` whose messages were edited to point to what is not there any more."""
    return {
        index
        for name, stage in ctx.plan.pointing.items()
        for index in late.intersection(change.index for change in record.log.changes if change.stage == name)
        - set(stage.true_at(messages) or ())
    }


def recount(record: Record, natives: Sequence[Any], ctx: StepContext) -> None:
    """Count the history anew, and what is said of it, when another model is called, whose tokens are others.

    Args:
        record: What is known of the conversation.
        natives: The history as the caller passes it now.
        ctx: What is known beside the messages; counts.
    """
    meter, wire = ctx.reader.meter, ctx.reader.wire
    for index in paced(range(len(record.seen))):
        try:
            record.sizes[index] = meter.message(wire.read_message(natives[index], index))
        except InvalidInput:  # it was left out, and is something else by now
            continue
    record.history_tokens = sum(record.sizes)
    there = {origin: meter.message(each) for each, origin in zip(record.view, record.origins, strict=True)}
    record.log.recount(record.sizes, there)
    for key, (message, change) in record.made.items():
        record.made[key] = message, evolve(change, tokens_after=meter.message(message))


def _refresh(record: Record, natives: Sequence[Any]) -> None:
    """Hand back the caller's objects of today where it has rebuilt them with the same content."""
    record.hand_back(natives)
    if any(message.source is not natives[at] for message, at in zip(record.tail, record.tail_origin, strict=True)):
        record.tail = [
            evolve(message, source=natives[origin])
            for message, origin in zip(record.tail, record.tail_origin, strict=True)
        ]


def link(record: Record, natives: Sequence[Any], wire: WireFormat) -> None:
    """Put the caller's messages in the place of digests and of plain copies, as far as they are the same.

    Nothing is decided by it: a record that was linked to one history is still what was dumped.

    Args:
        record: A record that was loaded.
        natives: The history, or the view and what came since.
        wire: Reads the messages that were edited, as they came.

    Raises:
        InvalidInput: If a message contains itself, or is nested too deep; names it.
    """
    known, viewed = shared_length(natives, record.seen), shared_length(natives, record.shown)
    if known < len(record.seen) and is_of_the_view(record, viewed, known):
        if record.missing is not None:
            read_missing(record, dict(enumerate(natives[:viewed])), (), wire)
        for place, look in enumerate(snapshots(natives[:viewed], 0)):
            origin = record.origins[place]
            if origin is not None and record.as_given(place):  # it stays so when the step fails
                record.seen[origin] = look
            record.shown[place] = look
        record.otherwise = None
        return
    if record.missing is not None:
        here = enumerate(record.origins)
        passed = {
            at: natives[index] for at, index in here if index is not None and index < known and record.as_given(at)
        }
        read_missing(record, passed, natives[:known], wire)
    in_view = {origin for origin in record.origins if origin is not None}
    copies = snapshots(natives[:known], 0)
    as_given = [record.as_given(place) for place in range(len(record.origins))]
    record.seen[:known] = [copies[index] if index in in_view else natives[index] for index in range(known)]
    for place, (origin, unedited) in enumerate(zip(record.origins, as_given, strict=True)):
        if origin is None:
            record.shown[place] = snapshot(record.out[place])
        elif origin < known and unedited:
            record.out[place], record.shown[place] = natives[origin], record.seen[origin]
            record.view[place] = evolve(record.view[place], source=natives[origin])
        elif origin < known:
            record.shown[place] = snapshot(record.out[place])
            record.view[place] = _made_of(record.view[place], wire.read_message(natives[origin], origin))
    record.otherwise, record.linked = None, known == len(record.seen)


def _made_of(message: Message, read: Message) -> Message:
    """A message that was edited, as made of what the caller passes: by way of another payload, or of that itself."""
    if message.given is not None:
        return evolve(message, given=read.source)
    return evolve(message, source=read.source, read_role=read.role, read_parts=read.parts)
