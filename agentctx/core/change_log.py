"""Every change that holds now, kept small: messages that left together are one line of the log."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from attrs import define, evolve, field, frozen

from agentctx.core.compare import Change, Outcome
from agentctx.core.message import ROLES
from agentctx.core.pace import paced
from agentctx.core.untracked import untrack
from agentctx.lazy import Later


@frozen
class Span:
    """Neighbouring messages of the history that left in the same way.

    Args:
        start: Index of the first.
        stop: Index after the last.
        outcome: What became of them.
        stage: The stage that did it.
        reason: Why.
    """

    start: int
    stop: int
    outcome: Outcome
    stage: str
    reason: str


@frozen(eq=False, repr=False)
class ChangesInForce(Later):
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
        return Change(index, role, span.outcome, span.stage, span.reason, size, 0, self.handles.get(index))


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
        for change in paced(new):
            untrack(change)
            if change.outcome in (Outcome.MARKED, Outcome.KEPT):
                self._mark(change)
            elif change.outcome is not Outcome.ADDED:
                (gone if change.is_gone else self.changes).append(change)
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
    lines = [(span.start, span.stop, (span.outcome, span.stage, span.reason)) for span in spans]
    lines += [(each.index, each.index + 1, (each.outcome, each.stage, each.reason)) for each in gone]
    lines.sort(key=lambda line: line[0])
    joined: list[tuple[int, int, tuple[Outcome, str, str]]] = []
    for start, stop, said in paced(lines):
        if joined and joined[-1][1] >= start and joined[-1][2] == said:
            joined[-1] = joined[-1][0], max(stop, joined[-1][1]), said
        else:
            joined.append((start, stop, said))
    return [Span(start, stop, *said) for start, stop, said in joined]


def numbers(values: Iterable[int] = ()) -> array[int]:
    """Whole numbers in four bytes each: a history may be long."""
    return array("I", values)
