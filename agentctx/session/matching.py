"""Match what the caller shows with what is known, by place and value.

In this order: the record to go on from (``match``); after a load, what the state leaves to the caller (``link``,
``read_missing``); and late answers, for which all since an old call is decided anew (``answered_from``).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from contextlib import suppress
from functools import partial
from itertools import chain, compress, count
from operator import is_not
from typing import Any

from attrs import evolve

from agentctx.changes import By
from agentctx.engine.cut import Pins
from agentctx.engine.guarantee import understands
from agentctx.engine.reading import with_calls_named
from agentctx.engine.repair import stands_in
from agentctx.errors import InvalidInput
from agentctx.formats.native import snapshot
from agentctx.marks import Recap, is_recap, marks_at_first_sight, stands_for
from agentctx.message import ROLES, Message, Native, ToolCall, ToolResult
from agentctx.protocols import Call
from agentctx.session.record import (
    Record,
    begins_with,
    call_ids,
    marked,
    marks_in_view,
    rebased,
    rewound,
    shared_length,
    snapshots,
    with_instructions,
)
from agentctx.session.step_context import Given, State, StepContext
from agentctx.unit import Unit, awaits_next, knowing_the_recap, units, unread
from agentctx.users_code import offload
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
            marks=marks_in_view(record, shared_length(natives, record.shown)),
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
    # what is done to all that arrives comes out alike
    return lost and lost & _cut_by_others(record, ("repair", "arrival"))


def _cut_by_others(record: Record, causes: Collection[By]) -> set[int]:
    """The indexes of messages that were cut for other causes than these."""
    gone = (range(span.start, span.stop) for span in record.log.spans if span.by not in causes)
    return {change.index for change in record.log.changes if change.by not in causes}.union(*gone)


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
    length = _told_until(record, _whole_until(record, natives, length, ctx))
    given, weights = len(natives), ctx.weigh(record.view)
    return rewound(
        record, length, weights, unchanged_until=unchanged_until, history_length=given, binds_reasoning=ctx.binds
    )


def _told_until(record: Record, length: int) -> int:
    """The index up to ``length`` before a recap that tells of what is not left out any more; ``length`` when none does.

    It is decided anew with all that it stands for: what it says of the rest was chosen beside what has gone.
    """
    made = (place for place, origin in enumerate(record.origins) if origin is None and is_recap(record.view[place]))
    place = next(made, None)
    if place is None or max(_cut_by_others(record, ("repair", "arrival")), default=-1) < length:
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
    if not gone or length >= len(natives) or not wire.rounds.merges_turns:
        return length
    if length - 1 in there and not wire.rounds.results_anywhere:
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
    ends = wire.item_name is None and any(message.role == "assistant" for message in last)
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
    up to the first message that is protected, unread or in the newest round now, and is not there as it came in, or of
    which something is said that is not true any more; or, where all that is passed has room, that was cut for room.
    """
    since = _pinned_since(record, natives, ctx) | _unread_since(record, natives, length, ctx)
    moved = min((index for index in since if index < length), default=length)
    late = record.decided_later(length)
    if not late:
        return moved
    spare: set[int] = set()
    if await _fits_whole(record, natives, length, ctx):
        spare = late & _cut_by_others(record, ("repair", "arrival", "step"))  # those ran for nothing but the size
    needed = await offload(lambda: _first_needed(record, natives, length, late, spare, ctx), len(natives))
    return min(moved, needed)


async def _fits_whole(record: Record, natives: Sequence[Any], length: int, ctx: StepContext) -> bool:
    """Whether the history has room below the trigger with nothing of it left out, but by stages for arrivals."""
    budget, meter = ctx.budget, ctx.reader.meter
    left = -1 if budget is None else budget.trigger_tokens - ctx.head_tokens - _on_arrival(record, length)
    if left < 0:
        return False
    new = ctx.reader.messages(natives)[length:]
    await meter.settle(new)
    return sum(map(meter.message, new)) <= left


def _on_arrival(record: Record, length: int) -> int:
    """Tokens of the first messages of the history after repair and the stages for arrivals."""
    first, sizes = ("repair", "arrival"), record.sizes[:length]
    for change in record.log.changes:
        if change.by in first and change.index < length:
            sizes[change.index] = change.tokens_after
    for span in record.log.spans:
        for index in range(span.start, min(span.stop, length) if span.by in first else 0):
            sizes[index] = 0
    return sum(sizes)


def _first_needed(
    record: Record, natives: Sequence[Any], length: int, late: set[int], spare: set[int], ctx: StepContext
) -> int:
    messages = knowing_the_recap(with_instructions(ctx.reader.messages(natives), record.instructions))
    call = ctx.plan.call(ctx.reader, ctx.budget, None, len(messages), messages.__getitem__)
    heard = messages[: _heard(messages)]
    needed = call.protected(ctx.context(messages)).union(unread(heard))
    groups = units(messages)
    open_round = {index for unit in groups[-1:] if unit.is_round for index in unit.places}
    needed |= open_round.union(_answered_early(messages, open_round), _newest_results(messages, groups))
    needed &= late
    lost = (needed and needed - record.whole()) | (late & _untrue(record, length, call, ctx)) | spare
    if not lost:
        return length
    return next(unit.start for unit in groups if unit.stop > min(lost))


def _untrue(record: Record, length: int, call: Call, ctx: StepContext) -> set[int]:
    """The indexes of the messages whose text refers to a message behind the first ``length``, which are gone."""
    pairs = zip(record.view, record.origins, strict=True)
    stays = [(view, at) for view, at in pairs if at is None or at < length]
    before, after = ctx.context(record.view), ctx.context([view for view, _ in stays])
    untrue: set[int] = set()
    for stage in ctx.plan.mending:
        mended = zip(stage.after_cut(before, after, call).messages, stays, strict=True)
        untrue |= {at for now, (view, at) in mended if now is not view and at is not None}
    return untrue


def _newest_results(messages: Sequence[Message], groups: Sequence[Unit]) -> Sequence[int]:
    """The indexes of the newest round with results: those that were newer when something of it was cut have gone."""
    told = (unit.places for unit in reversed(groups) if any(messages[index].results for index in unit.places))
    return next(told, ())


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


def recount(record: Record, natives: Sequence[Any], ctx: StepContext) -> None:
    """Count the history anew, and what is said of it, when another model is called, whose tokens are others.

    Args:
        record: What is known of the conversation.
        natives: The history as the caller passes it now.
        ctx: What is known beside the messages; counts.
    """
    meter, wire = ctx.reader.meter, ctx.reader.wire
    for index in range(len(record.seen)):
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
    if record.tail and any(
        message.source is not natives[at] for message, at in zip(record.tail, record.tail_origin, strict=True)
    ):
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


def answered_from(record: Record, natives: Sequence[Any], new: Sequence[Message], wire: WireFormat) -> int | None:
    """The index in the history of the first call that new results answer and that is not answered yet.

    Or of the first result that was left out for want of a call, where a new call has that id and no answer. None when
    there is neither, as in nearly every step: results answer the calls that they follow.

    Args:
        record: What is known of the conversation.
        natives: The whole history.
        new: The new messages.
        wire: The format of the history.
    """
    late, waiting = _open(record.tail, new)
    if late:  # repair may have spelled the id of the call as it will spell that of the result
        repaired = [made for _, made, _ in wire.repair(new, {}) if made is not None]
        late |= {each.call_id for message in repaired for each in message.results}
    found = _early(record, natives, waiting, wire) if waiting else []
    if late:
        # where the place tells which call a result answers, it may be any of that tool
        names = {each.name for message in new for each in message.results if each.call_id in late}
        found += _in_view(record, natives, late, wire, set() if wire.pair is None else names)
        gone = late - {call.id for message in record.view[: record.final] for call in message.calls}
        if gone and len(record.view) < len(record.seen):
            found += _among_dropped(record, natives, gone, wire)
    return min(found, default=None)


def _unanswered(tail: Sequence[Message]) -> dict[str, int]:
    """How many calls of each id wait for an answer at the end of the tail."""
    waiting: dict[str, int] = {}
    for call in [call for message in tail for call in message.calls]:
        waiting[call.id] = waiting.get(call.id, 0) + 1
    for result in [result for message in tail for result in message.results]:
        if waiting.get(result.call_id, 0) > 0:
            waiting[result.call_id] -= 1
    return waiting


def _open(tail: Sequence[Message], new: Iterable[Message]) -> tuple[set[str], set[str]]:
    """What is open since the last round that is whole: the ids of results without a call, and of calls without one."""
    waiting = _unanswered(tail) if tail else {}
    late: set[str] = set()
    for message in new:
        for part in message.parts:
            if isinstance(part, ToolCall):
                waiting[part.id] = waiting.get(part.id, 0) + 1
            elif isinstance(part, ToolResult):
                if waiting.get(part.call_id, 0) > 0:
                    waiting[part.call_id] -= 1
                else:
                    late.add(part.call_id)
    return late, {name for name, count in waiting.items() if count > 0} if any(waiting.values()) else set()


def _early(record: Record, natives: Sequence[Any], waiting: set[str], wire: WireFormat) -> list[int]:
    """The indexes of results of these calls that came before them and were left out."""
    return [
        index
        for index in _repaired(record)
        for message in legible(natives, index, wire)
        if any(result.call_id in waiting for result in message.results)
    ]


def _repaired(record: Record) -> Iterator[int]:
    """The indexes of what repair left out, or edited."""
    for span in record.log.spans:
        if span.by == "repair":
            yield from range(span.start, span.stop)
    yield from (change.index for change in record.log.changes if change.by == "repair")


def _in_view(
    record: Record, natives: Sequence[Any], late: set[str], wire: WireFormat, names: Collection[str | None]
) -> list[int]:
    """The indexes of calls in the final view that have no answer, or one that only holds its place."""
    open_calls: dict[str, deque[int]] = defaultdict(deque)
    found: list[int] = []
    for place, message in enumerate(record.view[: record.final]):
        origin = record.origins[place]
        if origin is not None:
            for name in _late_calls(record, place, natives, late, wire, names):
                open_calls[name].append(origin)
        for result in message.results:
            if open_calls.get(result.call_id):
                answered = open_calls[result.call_id].popleft()
                found += [answered] if origin is None or stands_in(result) else []
    return [*found, *chain.from_iterable(open_calls.values())]


def _late_calls(
    record: Record, place: int, natives: Sequence[Any], late: set[str], wire: WireFormat, names: Collection[str | None]
) -> Iterator[str]:
    """The ids of the calls at this place of the view that late results may be meant for.

    Repair may have given a call another id, so that no two have the same: results come with the one of the caller.
    """
    calls, origin = record.view[place].calls, record.origins[place]
    if not calls or origin is None:
        return iter(())
    given = (
        set() if record.as_given(place) else {each.id for read in legible(natives, origin, wire) for each in read.calls}
    )
    return (call.id for call in calls if call.id in late or call.name in names or not late.isdisjoint(given))


def _among_dropped(record: Record, natives: Sequence[Any], gone: set[str], wire: WireFormat) -> list[int]:
    """The indexes of calls that were left out of the view unanswered."""
    open_calls: dict[str, int] = {}
    for index in range(len(record.seen)):
        for message in legible(natives, index, wire):
            for call in message.calls:
                if call.id in gone:
                    open_calls[call.id] = index
            for result in message.results:
                open_calls.pop(result.call_id, None)
    return list(open_calls.values())


def read_missing(record: Record, passed: Mapping[int, Native], natives: Sequence[Native], wire: WireFormat) -> None:
    """Read the view of a loaded record whose state leaves out what the caller holds.

    Where the caller passes only a part of that, for example after going back, the rest stays missing: what is decided
    about it goes in this step.

    Args:
        record: The record.
        passed: The caller's messages, by their places in the view, as far as they are the same.
        natives: The history; empty where the caller passes views, which have the messages of the tail read again.
        wire: Their format.
    """
    assert record.missing is not None  # noqa: S101 - asked only then
    places = [place for place, native in enumerate(record.out) if native is not None or place in passed]
    out = {place: passed.get(place, record.out[place]) for place in places}
    read = with_calls_named(wire, [wire.read_message(out[place], place) for place in places])
    edited = ((place, message) for place, message in zip(places, read, strict=True) if not record.as_given(place))
    seen = {place: marks_at_first_sight(message) for place, message in edited}
    read = marked(read, places, seen | record.missing.marks)
    made = {place for place, message in enumerate(record.view) if id(message) in record.made}
    known = [
        message
        if record.as_given(place)
        else not_given(message, made=record.origins[place] is None, own=place in record.missing.payloads)
        for place, message in zip(places, read, strict=True)
    ]
    origins = [record.origins[place] for place in places]
    known = known_again(as_system(known, origins, record.missing.system), origins, record.stands_for)
    for place, message in zip(places, known, strict=True):
        before, record.out[place], record.view[place] = record.view[place], out[place], message
        if place in made:
            record.made[id(message)] = message, record.made.pop(id(before))[1]
    record.ids = call_ids(record.view[: record.final])
    if len(natives) >= len(record):
        ours = {origin for message, origin in zip(known, origins, strict=True) if message.as_recap}
        tail = with_calls_named(wire, [wire.read_message(natives[index], index) for index in record.tail_origin])
        tail = marked(tail, record.tail_origin, record.marks)
        record.tail = as_recap(as_system(tail, record.tail_origin, record.missing.system), record.tail_origin, ours)
    if len(places) == len(record.out) and (len(natives) >= len(record) or not record.tail):
        record.missing = None


def not_given(message: Message, *, made: bool, own: bool) -> Message:
    """A message of the view that the caller has not passed like that.

    Args:
        message: As it was sent.
        made: Whether a stage made it.
        own: Whether it has a payload other than the caller's, for example one that repair wrote.
    """
    if made:
        ours = Recap.read(message) is not None
        return evolve(message, as_recap=ours) if own else Message(message.role, message.parts, as_recap=ours)
    if own:  # until the caller passes its own
        return evolve(message, given=message.source)
    return Message(message.role, message.parts, source=message.source)


def as_system(messages: Sequence[Message], origins: Sequence[int | None], system: AbstractSet[int]) -> list[Message]:
    """The messages, those that were read from these places of the history as system messages."""
    pairs = zip(messages, origins, strict=True)
    return [evolve(message, as_system=True) if origin in system else message for message, origin in pairs]


def known_again(
    messages: list[Message], origins: Sequence[int | None], stood_for: Callable[[int], tuple[int, int]]
) -> list[Message]:
    """The messages, the recap among them as such; not one of which the record knows that it was the user's own.

    Args:
        messages: The messages of the view.
        origins: The index in the history of each; None when a stage made it.
        stood_for: Gives for how many messages, and with how many tool calls, one of the history stood.
    """
    pairs = zip(knowing_the_recap(messages), origins, strict=True)
    return [
        evolve(message, as_recap=False)
        if message.as_recap and origin is not None and stood_for(origin) != stands_for(message)
        else message
        for message, origin in pairs
    ]


def as_recap(messages: Sequence[Message], origins: Sequence[int], ours: AbstractSet[int | None]) -> list[Message]:
    """The messages, those that were read from these places of the history as recaps of ours."""
    pairs = zip(messages, origins, strict=True)
    return [evolve(message, as_recap=True) if origin in ours else message for message, origin in pairs]
