"""After a load: recognise the caller's history by the digests, and hold its own objects from then on."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile
from typing import Any

from attrs import evolve

from agentctx.core.message import Message
from agentctx.protocols import WireFormat
from agentctx.session.recognise import is_of_the_view
from agentctx.session.record import Record
from agentctx.session.snapshot import snapshot, snapshots


def link(record: Record, natives: Sequence[Any], wire: WireFormat) -> None:
    """Put the caller's messages in the place of digests and of plain copies, as far as they are the same.

    Nothing is decided by it: a record that was linked to one history is still what was dumped.

    Args:
        record: A record; one that was not loaded stays as it is.
        natives: The history, or the view and what came since.
        wire: Reads the messages that were edited, as they came.

    Raises:
        InvalidInput: If a message contains itself, or is nested too deep; names it.
    """
    if record.linked:
        return
    known, viewed = _shared(record.seen, natives), _shared(record.shown, natives)
    if known < len(record) and is_of_the_view(record, viewed, known):
        for place, look in enumerate(snapshots(natives[:viewed], 0)):
            origin = record.origins[place]
            if origin is not None and record.as_given(place):  # it stays so when the step fails
                record.seen[origin] = look
            record.shown[place] = look
        return
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
    record.linked = known == len(record)


def _made_of(message: Message, read: Message) -> Message:
    """A message that was edited, as made of what the caller passes: by way of another payload, or of that itself."""
    if message.given is not None:
        return evolve(message, given=read.source)
    return evolve(message, source=read.source, read_role=read.role, read_parts=read.parts)


def _shared(known: Sequence[Any], natives: Sequence[Any]) -> int:
    """How many messages at the start are the same in both."""
    pairs = zip(known, natives, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
