"""Recognise the conversation in what the caller passes: the same history, one that was changed, or the view."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import compress, count
from operator import is_not
from typing import Any

from attrs import evolve

from agentctx.core.ledger import ROLES
from agentctx.core.message import Message
from agentctx.core.pace import paced
from agentctx.core.pairing import leads_on
from agentctx.core.protection import unread
from agentctx.core.units import units
from agentctx.errors import InvalidInput
from agentctx.offload import offload
from agentctx.protocols import arranges_for_model, names_items
from agentctx.session.late import legible
from agentctx.session.record import REPAIR, Record, alike, rebased, rewound, with_instructions
from agentctx.session.snapshot import begins_with, shared_length
from agentctx.session.surroundings import Surroundings
from agentctx.strategies.protect import Pins


async def recognised(record: Record, natives: Sequence[Any], around: Surroundings) -> Record:
    """The record to go on from: the same one, or a new one when the caller has changed or replaced its history.

    Args:
        record: What is known of the conversation.
        natives: The history as the caller passes it now, or the last view and what came since.
        around: What is known beside the messages.
    """
    if not begins_with(natives, record.seen):
        record = await _changed(record, natives, around)
    elif lost := _pinned_since(record, natives, around) | _unread_since(record, natives, len(record), around):
        weights, known = around.weigh(record.view), len(record)
        record = rewound(
            record, min(lost), weights, unchanged_until=known, history_length=len(natives), binds_reasoning=around.binds
        )
    _refresh(record, natives)
    return record


def _pinned_since(record: Record, natives: Sequence[Any], around: Surroundings) -> set[int]:
    """The indexes of messages that were cut, and are pinned now: a pin that counts from the end moves on."""
    pinned = {index for rule in around.plan.pinned if isinstance(rule, Pins) for index in rule.of(len(natives))}
    cut = {index for index in pinned if index < len(record) and record.decided[index]}
    return cut and cut - record.whole()


def _unread_since(record: Record, natives: Sequence[Any], length: int, around: Surroundings) -> set[int]:
    """The indexes of results that were cut, and that the model has not read although more follows now.

    They were cut because nothing else could be: not what the user had said last, who has said more since.

    Args:
        record: What is known of the conversation.
        natives: The history as the caller passes it now.
        length: How many messages of the history still stand.
        around: What is known beside the messages.
    """
    last = record.roles.rfind(ROLES.index("assistant"), 0, length)
    cut = [index for index in range(last + 1, length) if 0 < record.decided[index] < len(natives)]
    wire = around.source.wire
    new = (message for index in range(length, len(natives)) for message in legible(natives, index, wire))
    if not cut or any(message.role == "assistant" for message in new):
        return set()
    told = {index for index in cut for message in legible(natives, index, wire) if message.results}
    lost = told and told - record.whole()
    return lost and lost & _cut_for_room(record, around)


def _cut_for_room(record: Record, around: Surroundings) -> set[int]:
    """The indexes of what was cut for others to have room; what is done to all that arrives comes out alike."""
    again = around.plan.named_on_arrival | {REPAIR}
    gone = (range(span.start, span.stop) for span in record.book.spans if span.stage not in again)
    return {change.index for change in record.book.changes if change.stage not in again}.union(*gone)


async def _changed(record: Record, natives: Sequence[Any], around: Surroundings) -> Record:
    """The record of what still stands of the conversation."""
    weights = around.weigh(record.view)
    in_view, in_history = shared_length(natives, record.shown), shared_length(natives, record.seen)
    if is_of_the_view(record, in_view, in_history):
        return _as_the_model_takes_it(rebased(record, natives, weights.first(in_view)), len(natives), around)
    length = await _holds_until(record, natives, in_history, around)
    left = rewound(
        record, length, weights, unchanged_until=in_history, history_length=len(natives), binds_reasoning=around.binds
    )
    return _as_the_model_takes_it(left, len(natives), around)


def _as_the_model_takes_it(record: Record, given: int, around: Surroundings) -> Record:
    """The record up to the first message that cannot stand there any more, now that what came after it went."""
    place = _wrong_now(record, given, around) if len(record) else None
    if place is None:
        return record
    known = next((origin for origin in reversed(record.origins[: place + 1]) if origin is not None), 0)
    weights = around.weigh(record.view)
    return rewound(record, known, weights, unchanged_until=given, history_length=given, binds_reasoning=around.binds)


def _wrong_now(record: Record, given: int, around: Surroundings) -> int | None:
    """The place of the first message of the view that the model takes no more there, or not at the end; None: all."""
    wire, view = around.source.wire, record.view
    if all(origin is None for origin in record.origins):  # whatever is left of the history was left out: decide anew
        return 0
    arranging = arranges_for_model(wire)
    if arranging is not None:
        arranged = arranging.arrange_for(view, around.source.profile, lambda _message, _why: None)
        if arranged is not view:
            return next(compress(count(), map(is_not, view, arranged)), len(view) - 1)
    last = view[-1:] if len(record) == given else []
    ends = names_items(wire) is None and any(message.role == "assistant" for message in last)
    return len(view) - 1 if ends and wire.mend(last) else None


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


async def _holds_until(record: Record, natives: Sequence[Any], length: int, around: Surroundings) -> int:
    """How many of the first ``length`` messages, which still stand, keep what was decided about them.

    What was decided when no more was known than what still stands is as true as it was. What was decided later holds
    up to the first message that is protected, unread or in the open round now, and is not there as it came in, or of
    which something is said that is not true any more.
    """
    since = _pinned_since(record, natives, around) | _unread_since(record, natives, length, around)
    moved = min((index for index in since if index < length), default=length)
    late = record.decided_later(length)
    if not late:
        return moved
    needed = await offload(lambda: _first_needed(record, natives, length, late, around), len(natives))
    return min(moved, needed)


def _first_needed(record: Record, natives: Sequence[Any], length: int, late: set[int], around: Surroundings) -> int:
    messages = with_instructions(around.source.messages(natives), record.instructions)
    call = around.plan.call(around.source, around.budget, None, len(messages), messages.__getitem__)
    heard = messages[: _heard(messages)]
    needed = call.protected(around.context(messages)).union(unread(heard))
    groups = units(messages)
    open_round = {index for unit in groups[-1:] if unit.is_round for index in range(unit.start, unit.stop)}
    needed |= open_round.union(_answered_early(messages, open_round))
    needed &= late
    lost = (needed and needed - record.whole()) | _untrue(record, messages, late, around)
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
    while stop and leads_on(messages[stop - 1]):
        stop -= 1
    return stop


def _untrue(record: Record, messages: Sequence[Message], late: set[int], around: Surroundings) -> set[int]:
    """Those of the indexes ``late`` whose messages were edited to point to what is not there any more."""
    return {
        index
        for name, stage in around.plan.pointing.items()
        for index in late.intersection(change.index for change in record.book.changes if change.stage == name)
        - set(stage.true_at(messages))
    }


def recount(record: Record, natives: Sequence[Any], around: Surroundings) -> None:
    """Count the history anew, and what is said of it, when another model is called, whose tokens are others.

    Args:
        record: What is known of the conversation.
        natives: The history as the caller passes it now.
        around: What is known beside the messages; counts.
    """
    meter, wire = around.source.meter, around.source.wire
    for index in paced(range(len(record))):
        try:
            record.sizes[index] = meter.message(wire.read_message(natives[index], index))
        except InvalidInput:  # it was left out, and is something else by now
            continue
    record.given_tokens = sum(record.sizes)
    there = {origin: meter.message(each) for each, origin in zip(record.view, record.origins, strict=True)}
    record.book.recount(record.sizes, there)
    for key, (message, change) in record.made.items():
        record.made[key] = message, evolve(change, tokens_after=meter.message(message))


def _refresh(record: Record, natives: Sequence[Any]) -> None:
    """Hand back the caller's objects of today where it has rebuilt them with the same content."""
    out, shown, seen = record.out, record.shown, record.seen
    for place, origin in enumerate(record.origins):  # at every step: nothing is called here
        if origin is not None and out[place] is not natives[origin] and shown[place] is seen[origin]:
            out[place] = natives[origin]
    record.tail = [
        message if message.source is natives[origin] else evolve(message, source=natives[origin])
        for message, origin in zip(record.tail, record.tail_origin, strict=True)
    ]


def shared_start(before: Sequence[Any], after: Sequence[Any]) -> int:
    """How many outgoing messages at the start are the same; cache markers are no part of a prefix."""
    pairs = zip(before, after, strict=False)
    differing = (place for place, (old, new) in enumerate(pairs) if old is not new and not alike(old, new))
    return next(differing, min(len(before), len(after)))
