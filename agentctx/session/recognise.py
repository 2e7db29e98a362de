"""Recognise the conversation in what the caller passes: the same history, one that was changed, or the view."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import evolve

from agentctx.session.record import Record, rebased, rewound
from agentctx.session.snapshot import begins_with, shared_length
from agentctx.session.surroundings import Surroundings
from agentctx.wire.cache_markers import unmarked


def recognised(record: Record, natives: Sequence[Any], around: Surroundings) -> Record:
    """The record to go on from: the same one, or a new one when the caller has changed or replaced its history.

    Args:
        record: What is known of the conversation.
        natives: The history as the caller passes it now, or the last view and what came since.
        around: What is known beside the messages.
    """
    if not begins_with(natives, record.seen):
        record = _changed(record, natives, around)
    _refresh(record, natives)
    return record


def _changed(record: Record, natives: Sequence[Any], around: Surroundings) -> Record:
    """The record of what still stands of the conversation."""
    weights = around.weigh(record.view)
    in_view, in_history = shared_length(natives, record.shown), shared_length(natives, record.seen)
    if in_view > in_history:
        return rebased(record, natives, weights.first(in_view))
    return rewound(record, in_history, weights)


def _refresh(record: Record, natives: Sequence[Any]) -> None:
    """Hand back the caller's objects of today when it has rebuilt them with the same content.

    A few places tell whether it does so: an application that rebuilds one message rebuilds all of them.
    """
    if _current(record, 0, natives) and _current(record, -1, natives) and _current(record, -2, natives):
        return
    for place, origin in enumerate(record.origins):
        if origin is not None and record.as_given(place):
            record.out[place] = natives[origin]
    record.tail = [
        evolve(message, source=natives[origin]) for message, origin in zip(record.tail, record.tail_origin, strict=True)
    ]


def _current(record: Record, place: int, natives: Sequence[Any]) -> bool:
    if not -len(record.view) <= place < len(record.view):
        return True
    origin = record.origins[place]
    return origin is None or record.out[place] is natives[origin] or not record.as_given(place)


def shared_start(before: Sequence[Any], after: Sequence[Any]) -> int:
    """How many outgoing messages at the start are the same; cache markers are no part of a prefix."""
    pairs = zip(before, after, strict=False)
    differing = (place for place, (old, new) in enumerate(pairs) if old is not new and not _alike(old, new))
    return next(differing, min(len(before), len(after)))


def _alike(old: Any, new: Any) -> bool:  # noqa: ANN401 - native messages
    return bool(old == new) or bool(unmarked(old) == unmarked(new))
