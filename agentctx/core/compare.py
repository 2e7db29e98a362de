"""What happened to every message: computed from before and after, never told by the stage."""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence, Set as AbstractSet
from enum import StrEnum
from itertools import chain, compress, count
from operator import is_not, lt

from attrs import evolve, frozen

from agentctx.core.message import Message, Tool, is_marker, without_marker
from agentctx.core.pace import paced


class Outcome(StrEnum):
    """What became of a message.

    Example:
        >>> from agentctx import Outcome
        >>> Outcome.DROPPED == "dropped"
        True
    """

    KEPT = "kept"
    EDITED = "edited"
    MOVED = "moved"
    DROPPED = "dropped"
    SUMMARISED = "summarised"
    OFFLOADED = "offloaded"
    ADDED = "added"
    MARKED = "marked"
    """It says what it said, with other cache markers."""


_THERE = frozenset({Outcome.KEPT, Outcome.MARKED, Outcome.ADDED})


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

    Example:
        >>> from agentctx import Pipeline, TrimRounds
        >>> from agentctx.testing import assistant, transcript, user
        >>> turns = user("One?"), assistant("1."), user("Two?"), assistant("2."), user("Three?")
        >>> messages = transcript("openai-chat", *turns)
        >>> for change in (await Pipeline(TrimRounds(1)).prepare(messages)).report.changes:
        ...     print(change.index, change.role, change.outcome, change.stage)
        1 assistant dropped TrimRounds
    """

    index: int
    role: str
    outcome: Outcome
    stage: str
    reason: str = ""
    tokens_before: int = 0
    tokens_after: int = 0
    handle: str | None = None

    @property
    def is_gone(self) -> bool:
        """Whether nothing is left of a message that was passed in."""
        return not self.tokens_after and self.outcome not in _THERE

    def with_handle(self, handle: str) -> Change:
        """The same change, its original kept under ``handle``."""
        return evolve(self, handle=handle)


@frozen
class HeadChange:
    """What stands before the messages, where a stage did not leave it as it was.

    Args:
        place: ``"system"``, or a tool by its place in what the stage was given, as ``"tools[2]"``; an added tool by
            its place in what the stage returned.
        outcome: What became of it.
        stage: The stage that did it.
        reason: Why, in the stage's words.
        name: The tool's name; empty for the system prompt, and for tools that have none.
    """

    place: str
    outcome: Outcome
    stage: str
    reason: str
    name: str = ""


def compare_tools(before: Sequence[Tool], after: Sequence[Tool]) -> Iterator[tuple[int | None, int | None]]:
    """Pairs (place before, place after) of tools that are not the same objects: None for one that is not there.

    Tools are recognised by their name, and those of one name by their order.
    """
    stayed = set(map(id, before)).intersection(map(id, after))
    left: dict[str, deque[int]] = defaultdict(deque)
    for place, tool in enumerate(before):
        if id(tool) not in stayed:
            left[tool.name].append(place)
    for place, tool in enumerate(after):
        if id(tool) not in stayed:
            yield (left[tool.name].popleft() if left[tool.name] else None), place
    yield from ((place, None) for places in left.values() for place in places)


@frozen(repr=False)
class Matched:
    """Two lists of messages laid beside each other.

    Args:
        start: So many messages at the start say the same.
        later: For each message after, from ``start`` on, its position before; None for one that was not there.
        edited: Pairs (position before, position after) of messages that say something else now.
        dropped: Positions before of messages that are gone.
        moved: Pairs (position before, position after) of messages that say the same in another order.
        added: Positions after of messages that were not there.
        remade: Pairs (position before, position after) of other objects that say the same, such as with a marker.
        first_changed: The first position after at which the two differ, or None.
    """

    start: int
    later: tuple[int | None, ...]
    edited: tuple[tuple[int, int], ...]
    dropped: tuple[int, ...]
    moved: tuple[tuple[int, int], ...]
    added: tuple[int, ...]
    first_changed: int | None
    remade: tuple[tuple[int, int], ...] = ()

    @property
    def origins(self) -> tuple[int | None, ...]:
        """For each message after, its position before; None for one that was not there."""
        return (*range(self.start), *self.later)


def shared(before: Sequence[Message], after: Sequence[Message]) -> int:
    """How many messages at the start are the very same objects: a look at each without a step of Python's own."""
    return next(compress(count(), map(is_not, before, after)), min(len(before), len(after)))


def match(before: Sequence[Message], after: Sequence[Message], known: int | None = None) -> Matched:
    """Lay ``after`` beside ``before``: the same object is kept, the same native payload with other words is edited.

    A message made by hand, without a payload, is matched by identity. Objects that occur twice are told apart by
    their order.

    Args:
        before: The messages before.
        after: The messages after.
        known: What ``shared`` says of them, when it was asked already.
    """
    intact = shared(before, after) if known is None else known
    start = _start(before, after, intact)
    found, gone = _found(before, after, start)
    others = [
        (origin, position)
        for position, origin in enumerate(found, start)
        if origin is not None and before[origin] is not after[position]
    ]
    edited = tuple([pair for pair in others if not _same(before[pair[0]], after[pair[1]])])
    added = tuple([position for position, origin in enumerate(found, start) if origin is None])
    moved = _moved(found, start, {position for _, position in edited})
    other = set(edited)
    remade = (
        *[(place, place) for place in range(intact, start) if before[place] is not after[place]],
        *[pair for pair in others if pair not in other],
    )
    return Matched(start, tuple(found), edited, gone, moved, added, _changed(before, after, start), remade)


def first_changed(before: Sequence[Message], after: Sequence[Message]) -> int | None:
    """The first position after at which the two differ, or None: as ``match`` says, without all else that it says."""
    return _changed(before, after, _start(before, after, shared(before, after)))


def _start(before: Sequence[Message], after: Sequence[Message], intact: int) -> int:
    return _not_from_the_end(before, after, _same_until(before, after, intact))


def _changed(before: Sequence[Message], after: Sequence[Message], start: int) -> int | None:
    return start if start < max(len(before), len(after)) else None


def _found(before: Sequence[Message], after: Sequence[Message], start: int) -> tuple[list[int | None], tuple[int, ...]]:
    """For each message after, from ``start`` on, its position before; and the positions before that are left over."""
    places = {before[position].identity: position for position in paced(range(start, len(before)))}
    if len(places) < len(before) - start:
        return _told_apart(before, after, start)
    pairs = zip(before[start:], after[start:], strict=False)
    if len(before) == len(after) and all(one is other or one.identity == other.identity for one, other in pairs):
        return list(range(start, len(before))), ()
    found = [places.pop(after[position].identity, None) for position in paced(range(start, len(after)))]
    return found, tuple(places.values())


def _told_apart(
    before: Sequence[Message], after: Sequence[Message], start: int
) -> tuple[list[int | None], tuple[int, ...]]:
    """The same where a payload occurs twice: from the end on, since what is latest stays."""
    places = _places(before, start)
    gone = dict.fromkeys(range(start, len(before)))
    found = [_take(places, before, after[position], gone) for position in range(len(after) - 1, start - 1, -1)]
    return found[::-1], tuple(gone)


def _moved(found: Sequence[int | None], start: int, edited: AbstractSet[int]) -> tuple[tuple[int, int], ...]:
    """The fewest messages that must have moved so that the others stand in their old order."""
    origins = [origin for origin in found if origin is not None]
    if all(map(lt, origins, origins[1:])):
        return ()
    places = [(origin, position) for position, origin in enumerate(found, start) if origin is not None]
    still = _longest_rising(origins)
    return tuple(pair for pair in places if pair[0] not in still and pair[1] not in edited)


def _longest_rising(values: Sequence[int]) -> frozenset[int]:
    """The members of a longest rising subsequence (patience sorting)."""
    tails: list[int] = []
    before: dict[int, int | None] = {}
    for value in values:
        place = bisect_left(tails, value)
        before[value] = tails[place - 1] if place else None
        tails[place : place + 1] = [value]
    kept: list[int] = []
    last: int | None = tails[-1]
    while last is not None:
        kept.append(last)
        last = before[last]
    return frozenset(kept)


def _same(one: Message, other: Message) -> bool:
    if one is other:
        return True
    said_in_one = one.source is other.source or (
        one.identity == other.identity and without_marker(one.source) == without_marker(other.source)
    )
    return said_in_one and (one == other or _but_for_markers(one, other))


def _but_for_markers(one: Message, other: Message) -> bool:
    """Whether two messages say the same, where a cache marker is a part of its own."""
    if one.role != other.role or not any(map(is_marker, chain(one.parts, other.parts))):
        return False
    said, now = ([part for part in each.parts if not is_marker(part)] for each in (one, other))
    return said == now


def _same_until(before: Sequence[Message], after: Sequence[Message], start: int) -> int:
    end = min(len(before), len(after))
    others: set[int] | None = None
    for place in range(start, end):
        one, other = before[place], after[place]
        if one is other:
            continue
        if others is None:
            others = set(map(id, before[start:]))
        if id(other) in others or not _same(one, other):  # one payload may stand at many places: it is that object
            return place
    return end


def _not_from_the_end(before: Sequence[Message], after: Sequence[Message], start: int) -> int:
    """``start``, less what stands at the end of both, where one object stands many times and both would fit.

    Of a history that is shorter than it was, the first message and the last ones are there: what went is between.
    """
    if not 1 < start == len(after) < len(before) or before[-1] is not after[-1]:
        return start
    ends = zip(reversed(before), reversed(after[1:]), strict=False)
    return start - next((place for place, (one, other) in enumerate(ends) if one is not other), start - 1)


def _places(before: Sequence[Message], start: int) -> Mapping[int, deque[int]]:
    places: dict[int, deque[int]] = defaultdict(deque)
    for position in range(start, len(before)):
        places[before[position].identity].append(position)
    return places


def _take(
    places: Mapping[int, deque[int]], before: Sequence[Message], message: Message, gone: dict[int, None]
) -> int | None:
    """The position before of a message: its very object, else the last of the same payload that is left."""
    queue = places.get(message.identity)
    if not queue:
        return None
    origin = next((position for position in reversed(queue) if before[position] is message), queue[-1])
    queue.remove(origin)
    gone.pop(origin, None)
    return origin
