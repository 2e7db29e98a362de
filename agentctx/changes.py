"""What happened to every message: computed from before and after, never told by the stage; and what of it still holds.

``match`` lays the messages before and after beside each other; ``ChangeLog`` keeps the changes in force small: messages
that left together are one line of it.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from enum import StrEnum
from itertools import chain, compress, count, pairwise
from operator import is_not, lt
from typing import Literal, get_args

from attrs import define, evolve, field, frozen

from agentctx.message import ROLES, Message, Tool, is_marker, without_marker


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


By = Literal["repair", "arrival", "step", "pressure", "fit"]
"""Why a message was changed.

``"repair"``: the history was illegal. ``"arrival"``, ``"step"`` and ``"pressure"``: by a stage that runs on new
messages, at every step, or when the context has grown too large (``When``). ``"fit"``: by the engine itself, which
makes the request fit the budget, satisfies the model, or keeps the recap and the cache breakpoints true.
"""

CAUSES: tuple[By, ...] = get_args(By)

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
        by: Who caused it.

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
    by: By = "pressure"

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
    places = {before[position].identity: position for position in range(start, len(before))}
    if len(places) < len(before) - start:
        return _told_apart(before, after, start)
    pairs = zip(before[start:], after[start:], strict=False)
    if len(before) == len(after) and all(one is other or one.identity == other.identity for one, other in pairs):
        return list(range(start, len(before))), ()
    found = [places.pop(after[position].identity, None) for position in range(start, len(after))]
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


@frozen
class Span:
    """Neighbouring messages of the history that left in the same way.

    Args:
        start: Index of the first.
        stop: Index after the last.
        outcome: What became of them.
        stage: The stage that did it.
        reason: Why.
        by: Who caused it.
    """

    start: int
    stop: int
    outcome: Outcome
    stage: str
    reason: str
    by: By = "pressure"


@frozen(eq=False, repr=False)
class ChangesInForce:
    """The changes in force at one moment.

    Args:
        changes: Those of messages that are still there, and of added ones.
        spans: Those of messages that are gone.
        sizes: Tokens of each message of the history, by its index.
        roles: The role of each message of the history, as its place in ``ROLES``.
        handles: Where originals are kept, by the index of the message.
    """

    changes: tuple[Change, ...] = ()
    spans: tuple[Span, ...] = ()
    sizes: Sequence[int] = field(default=(), repr=False)
    roles: Sequence[int] = field(default=(), repr=False)
    handles: Mapping[int, str] = field(factory=dict, repr=False)

    def __iter__(self) -> Iterator[Change]:
        """Each change, in the order of the messages."""
        gone = (self._gone(span, index) for span in self.spans for index in range(span.start, span.stop))
        return iter(sorted((*self.changes, *gone), key=lambda change: change.index))

    def __len__(self) -> int:
        """How many changes there are."""
        return len(self.changes) + sum(span.stop - span.start for span in self.spans)

    def _gone(self, span: Span, index: int) -> Change:
        role, size = ROLES[self.roles[index]], self.sizes[index]
        return Change(index, role, span.outcome, span.stage, span.reason, size, 0, self.handles.get(index), span.by)


@define
class ChangeLog:
    """The changes of a session, written down step by step.

    Args:
        changes: Those of messages that are still there.
        spans: Those of messages that are gone, by their first index.
        handles: Where originals of messages that are gone are kept.
        marks: Those of messages that are there with other cache markers, by index.
    """

    changes: list[Change] = field(factory=list)
    spans: list[Span] = field(factory=list)
    handles: dict[int, str] = field(factory=dict)
    marks: dict[int, Change] = field(factory=dict)

    @classmethod
    def of(cls, changes: Iterable[Change], spans: list[Span], handles: dict[int, str]) -> ChangeLog:
        """The log that holds these lines."""
        log = cls([], spans, handles)
        for change in changes:
            if change.outcome is Outcome.MARKED:
                log.marks[change.index] = change
            else:
                log.changes.append(change)
        return log

    def copy(self) -> ChangeLog:
        """The same lines, in a log of its own."""
        return ChangeLog(list(self.changes), list(self.spans), dict(self.handles), dict(self.marks))

    def write(self, new: Iterable[Change]) -> None:
        """Write down what a step did to messages of the history. A message that is gone has no other line."""
        gone: list[Change] = []
        for change in new:
            if change.outcome not in _THERE:
                (self.changes if change.tokens_after else gone).append(change)
            elif change.outcome is not Outcome.ADDED:
                self._mark(change)
        if gone:
            self._leave(gone)

    def _mark(self, change: Change) -> None:
        """Write down that a message carries other markers, or its own again."""
        if change.outcome is Outcome.KEPT:
            self.marks.pop(change.index, None)
            return
        earlier = self.marks.get(change.index)
        self.marks[change.index] = change if earlier is None else evolve(change, handle=earlier.handle)

    def _leave(self, gone: Sequence[Change]) -> None:
        """Write down that messages are gone, in the place of all that was said of them but for their handles."""
        left = {change.index: change for change in gone}
        for index in self.marks.keys() & left.keys():
            self.changes.append(self.marks.pop(index))  # for its handle
        earlier = {change.index: change.handle for change in self.changes if change.index in left and change.handle}
        self.changes = [each for each in self.changes if each.index not in left]
        self.handles |= {index: change.handle for index, change in left.items() if change.handle} | earlier
        self.spans = _joined(self.spans, gone)

    def recount(self, before: Sequence[int], after: Mapping[int | None, int]) -> None:
        """Put other sizes in the place of those that were counted for another model; what was between is in proportion.

        Args:
            before: Tokens of each message of the history.
            after: Tokens of those that are there now, by index.
        """
        chains: dict[int, list[Change]] = defaultdict(list)
        for change in self.lines():
            chains[change.index].append(change)
        anew = {index: _resized(each, before[index], after.get(index, 0)) for index, each in chains.items()}
        self.changes = [next(anew[change.index]) for change in self.changes]
        self.marks = {index: next(anew[index]) for index in self.marks}

    def before(self, index: int) -> ChangeLog:
        """The log as far as it tells of messages before ``index``."""
        spans = [evolve(span, stop=min(span.stop, index)) for span in self.spans if span.start < index]
        kept = {place: handle for place, handle in self.handles.items() if place < index}
        marks = {place: change for place, change in self.marks.items() if place < index}
        return ChangeLog([change for change in self.changes if change.index < index], spans, kept, marks)

    def snapshot(self, sizes: Sequence[int], roles: Sequence[int], added: Iterable[Change] = ()) -> ChangesInForce:
        """The changes in force now; ``sizes`` and ``roles`` may grow, but must not change.

        Args:
            sizes: Tokens of each message of the history.
            roles: The role of each message of the history, as its place in ``ROLES``.
            added: The messages that are there and were made by a stage.
        """
        changes = *self.changes, *self.marks.values(), *added
        return ChangesInForce(changes, tuple(self.spans), sizes, roles, dict(self.handles))

    def lines(self) -> list[Change]:
        """What is said of messages that are still there."""
        return [*self.changes, *self.marks.values()]


def _resized(changes: Sequence[Change], before: int, after: int) -> Iterator[Change]:
    """The changes of one message, one after the other, from a size to a size; between them in proportion."""
    ratio = before / max(1, changes[0].tokens_before)
    sizes = [before, *(round(change.tokens_after * ratio) for change in changes[:-1]), after]
    for change, (one, other) in zip(changes, pairwise(sizes), strict=True):
        yield evolve(change, tokens_before=one, tokens_after=other)


def _joined(spans: Iterable[Span], gone: Iterable[Change]) -> list[Span]:
    """The spans and the messages that are gone, in order, neighbours that say the same as one."""
    lines = [(span.start, span.stop, (span.outcome, span.stage, span.reason, span.by)) for span in spans]
    lines += [(each.index, each.index + 1, (each.outcome, each.stage, each.reason, each.by)) for each in gone]
    lines.sort(key=lambda line: line[0])
    joined: list[tuple[int, int, tuple[Outcome, str, str, By]]] = []
    for start, stop, said in lines:
        if joined and joined[-1][1] >= start and joined[-1][2] == said:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1]), said
        else:
            joined.append((start, stop, said))
    return [Span(start, stop, *said) for start, stop, said in joined]


def numbers(values: Iterable[int] = ()) -> array[int]:
    """Whole numbers in four bytes each: a history may be long."""
    return array("I", values)
