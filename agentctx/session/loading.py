"""The view of a session that was loaded: what its state leaves out is read from what the caller passes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence, Set as AbstractSet

from attrs import evolve

from agentctx.core.message import Message, Native
from agentctx.core.protection import knowing_the_recap
from agentctx.core.recap import Recap, stands_for
from agentctx.session.record import Record, call_ids
from agentctx.wire_format import WireFormat


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
    read = wire.pair([wire.read_message(out[place], place) for place in places])
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
        tail = wire.pair([wire.read_message(natives[index], index) for index in record.tail_origin])
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
