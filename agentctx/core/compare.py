"""What happened to every message: computed from before and after, never told by the stage."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping, Sequence
from enum import StrEnum

from attrs import evolve, frozen

from agentctx.core.message import Message


class Outcome(StrEnum):
    """What became of a message."""

    KEPT = "kept"
    EDITED = "edited"
    DROPPED = "dropped"
    SUMMARISED = "summarised"
    OFFLOADED = "offloaded"
    ADDED = "added"


@frozen
class Change:
    """One message that a stage did not leave as it was.

    Args:
        index: Its index in the messages that were passed in; for an added message, the index in the messages
            that came out.
        role: Its role.
        outcome: What became of it.
        stage: The stage that did it.
        reason: Why, in the stage's words.
        tokens_before: Its size before, in tokens; 0 when it was added.
        tokens_after: Its size after, in tokens; 0 when it is gone.
        handle: Where the original is kept in the store, when there is one.
    """

    index: int
    role: str
    outcome: Outcome
    stage: str
    reason: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    handle: str | None = None

    def with_handle(self, handle: str) -> Change:
        """The same change, its original kept under ``handle``."""
        return evolve(self, handle=handle)


@frozen
class Matched:
    """Two lists of messages laid beside each other.

    Args:
        origins: For each message after, its position before; None for one that was not there.
        edited: Pairs (position before, position after) of messages that say something else now.
        dropped: Positions before of messages that are gone.
        added: Positions after of messages that were not there.
        first_changed: The first position after at which the two differ, or None.
    """

    origins: tuple[int | None, ...]
    edited: tuple[tuple[int, int], ...]
    dropped: tuple[int, ...]
    added: tuple[int, ...]
    first_changed: int | None


def match(before: Sequence[Message], after: Sequence[Message]) -> Matched:
    """Lay ``after`` beside ``before``: the same object is kept, the same native payload with other words is edited.

    A message made by hand, without a payload, is matched by identity. Objects that occur twice are told apart by
    their order.
    """
    start = _shared_prefix(before, after)
    places = _places(before, start)
    gone = dict.fromkeys(range(start, len(before)))
    origins: list[int | None] = list(range(start))
    edited: list[tuple[int, int]] = []
    added: list[int] = []
    for position in range(start, len(after)):
        origin = _take(places, after[position], gone)
        origins.append(origin)
        if origin is None:
            added.append(position)
        elif not _same(before[origin], after[position]):
            edited.append((origin, position))
    changed = start if start < max(len(before), len(after)) else None
    return Matched(tuple(origins), tuple(edited), tuple(gone), tuple(added), changed)


def _same(one: Message, other: Message) -> bool:
    return one is other or (one.source is other.source and one == other)


def _shared_prefix(before: Sequence[Message], after: Sequence[Message]) -> int:
    length = min(len(before), len(after))
    return next((index for index in range(length) if not _same(before[index], after[index])), length)


def _key(message: Message) -> int:
    return id(message) if message.source is None else id(message.source)


def _places(before: Sequence[Message], start: int) -> Mapping[int, deque[int]]:
    places: dict[int, deque[int]] = defaultdict(deque)
    for position in range(start, len(before)):
        places[_key(before[position])].append(position)
    return places


def _take(places: Mapping[int, deque[int]], message: Message, gone: dict[int, None]) -> int | None:
    queue = places.get(_key(message))
    if not queue:
        return None
    origin = queue.popleft()
    gone.pop(origin, None)
    return origin
