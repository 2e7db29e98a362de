"""What the rules of all formats share: a request laid out as places, the violations found at them, and what grows.

A rule looks at a whole request and yields what it finds wrong. A laid-out request is never refused, whatever is in it.

The requests of one conversation are validated one after the other, and each message is looked at when it is first
there (``GrowingRequest``). Most of a long session is complete rounds in which no rule finds anything: calls and what
answers them. The rules say the same of the rest of a request without such a round, so they are asked about the rest. A
format says what a round is, and by what marks the rules know a message again in the request that this one was made
from: a round with marks is left out only where the very same stands there, and of that request what nothing bears a
mark of that stays. Where that is not enough, the whole request is validated anew.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, groupby
from math import inf
from operator import attrgetter
from typing import Any, Generic, Literal, Protocol, TypeVar

from attrs import define, field, frozen

from agentctx.formats.native import snapshot, string_of
from agentctx.message import Native
from agentctx.models.profile import ModelProfile
from agentctx.wire_format import Violation

NOTHING: Mapping[str, Any] = {}

R = TypeVar("R")
B = TypeVar("B")
Severity = Literal["error", "warn"]
Validator = Callable[[Mapping[str, Any], Mapping[str, Any] | None], tuple[Violation, ...]]
"""Finds the rules that a request breaks, beside the one that it was made from."""
Rule = Callable[[R], Iterable[Violation]]
Comparison = Callable[[R, R], Iterable[Violation]]
"""A rule that compares a request with the one that it was made from."""


class Place(Protocol):
    """A place in a request: the index of its message, and its path as the provider writes it."""

    @property
    def index(self) -> int | None:
        """The index of the message; None outside the messages."""
        ...

    @property
    def path(self) -> str:
        """The path."""
        ...


class Refuse(Protocol):
    """Says that a rule is broken at a place (None: by the request as a whole)."""

    def __call__(
        self, rule: str, at: Place | None, message: str, path: str = "", severity: Severity = "error"
    ) -> Violation:
        """The violation."""
        ...


def refusing(prefix: str, whole: str) -> Refuse:
    """Makes a format's violations, under its prefix; ``whole`` is the path of all its messages."""

    def refused(rule: str, at: Place | None, message: str, path: str = "", severity: Severity = "error") -> Violation:
        place = whole if at is None else at.path
        return Violation(f"{prefix}.{rule}", severity, None if at is None else at.index, path or place, message)

    return refused


def in_order(found: Iterable[Violation], *, whole: Literal["first", "last"] = "first") -> tuple[Violation, ...]:
    """The violations in the order of the messages; where those of the request as a whole stand."""
    place = -1 if whole == "first" else inf
    return tuple(sorted(found, key=lambda violation: place if violation.index is None else violation.index))


def checked(
    rules: Iterable[Rule[R]], request: R, comparisons: Iterable[Comparison[R]] = (), before: R | None = None
) -> Iterator[Violation]:
    """What the rules find in a request, and the comparisons beside the one that it was made from."""
    yield from (violation for rule in rules for violation in rule(request))
    if before is not None:
        yield from (violation for compare in comparisons for violation in compare(request, before))


@frozen
class Entry(Generic[B]):
    """One message: its index, its role (empty when it is no string), itself (empty when no object), its blocks."""

    index: int
    role: str
    data: Mapping[str, Any]
    blocks: tuple[B, ...]

    @property
    def path(self) -> str:
        """Its place, as the provider writes it."""
        return f"messages.{self.index}"


@frozen
class Turn(Generic[B]):
    """Neighbouring messages of the user or of the assistant, taken as one. System messages do not part them."""

    role: str
    entries: tuple[Entry[B], ...]

    @property
    def blocks(self) -> tuple[B, ...]:
        """The blocks of all its messages."""
        return tuple(block for entry in self.entries for block in entry.blocks)


@frozen
class LaidOut(Generic[B]):
    """A request, laid out: itself, its messages, its turns, and the blocks of the system prompt."""

    data: Mapping[str, Any]
    entries: tuple[Entry[B], ...]
    turns: tuple[Turn[B], ...]
    system: tuple[B, ...]

    @property
    def blocks(self) -> Iterator[B]:
        """The blocks of all messages, in order."""
        return (block for entry in self.entries for block in entry.blocks)


def entries_of(
    messages: object,
    opened: Callable[[object], Mapping[str, Any] | None],
    blocks: Callable[[object, int, str, str], tuple[B, ...]],
) -> Iterator[Entry[B]]:
    """The messages laid out; ``blocks`` lays out a content, given index, path and role."""
    for index, native in enumerate(messages if isinstance(messages, (list, tuple)) else ()):
        yield entry_of(native, index, opened, blocks)


def entry_of(
    native: object,
    index: int,
    opened: Callable[[object], Mapping[str, Any] | None],
    blocks: Callable[[object, int, str, str], tuple[B, ...]],
) -> Entry[B]:
    """One message laid out."""
    message = opened(native) or NOTHING
    role = string_of(message, "role") or ""
    return Entry(index, role, message, blocks(message.get("content"), index, f"messages.{index}.content", role))


def turns_of(entries: Iterable[Entry[B]]) -> Iterator[Turn[B]]:
    """The turns of the user and the assistant."""
    speaking = (entry for entry in entries if entry.role in {"user", "assistant"})
    return (Turn(role, tuple(run)) for role, run in groupby(speaking, key=lambda entry: entry.role))


Natives = Sequence[tuple[int, Mapping[str, Any]]]
"""Native messages, each with its index in the request."""


@frozen(eq=False)
class Seen:
    """What is known of one native message, wherever it stands.

    Args:
        native: The message, held so that nothing else gets its identity.
        copy: What it looked like: it is read again when somebody has edited it.
        part: What it is to its round, in the format's own words.
        quiet: Whether no rule finds anything in it by itself.
        calls: What tells its calls from others.
        answers: What tells the calls that it answers.
        marks: By what the rules know it again in the request that this one was made from.
        unique: What no other message of a request may have, or all of it is validated anew.
        once: What no other message of the request that this one was made from may have, or all is validated anew.
        size: The bytes of its strings, where requests have a largest size.
    """

    native: Mapping[str, Any]
    copy: Native
    part: str
    quiet: bool
    calls: tuple[Hashable, ...] = ()
    answers: tuple[Hashable, ...] = ()
    marks: frozenset[Hashable] = frozenset()
    unique: tuple[Hashable, ...] = ()
    once: tuple[Hashable, ...] = ()
    size: int = 0


@frozen(eq=False)
class _Round:
    """A complete round in which nothing is found: its places, its messages that bear marks, and these marks."""

    start: int
    stop: int
    marked: tuple[Seen, ...]
    marks: frozenset[Hashable]


@define
class _Messages:
    """The messages of a request that grows; ``repeated`` says how many of their names several of them have."""

    named: Callable[[Seen], tuple[Hashable, ...]]
    natives: Sequence[Mapping[str, Any]] = ()
    seen: list[Seen] = field(factory=list)
    copies: list[Native] = field(factory=list)
    rounds: list[_Round] = field(factory=list)
    names: Counter[Hashable] = field(factory=Counter)
    repeated: int = 0

    def keep(self, natives: Sequence[object]) -> None:
        """Forget what is not there as it was, from the first such message on."""
        length = len(self.copies)
        if natives[:length] != self.copies:
            pairs = enumerate(zip(self.copies, natives, strict=False))
            length = next((place for place, (copy, native) in pairs if copy != native), len(natives))
        for name in chain.from_iterable(map(self.named, self.seen[length:])):
            self.names[name] -= 1
            self.repeated -= self.names[name] == 1
        del self.seen[length:], self.copies[length:]
        while self.rounds and self.rounds[-1].stop >= length:  # what stands behind a round decides about it, too
            self.rounds.pop()

    def add(self, seen: Seen) -> None:
        """Take down one more message."""
        self.seen.append(seen)
        self.copies.append(seen.copy)
        for name in self.named(seen):
            self.names[name] += 1
            self.repeated += self.names[name] == 2

    def without(self, left: Iterable[_Round]) -> Natives:
        """The messages without these rounds."""
        kept: list[tuple[int, Mapping[str, Any]]] = []
        place = 0
        for each in left:
            if place < each.start:
                kept.extend((index, self.natives[index]) for index in range(place, each.start))
            place = each.stop
        kept.extend((index, self.natives[index]) for index in range(place, len(self.seen)))
        return kept


@define
class GrowingRequest(ABC, Generic[R]):
    """Finds what a format's rules find in the requests of a conversation.

    Args:
        profile: What is known of the model.
    """

    profile: ModelProfile | None
    _known: dict[int, Seen] = field(factory=dict, init=False)
    _sent: _Messages = field(factory=lambda: _Messages(attrgetter("unique")), init=False)
    _given: _Messages = field(factory=lambda: _Messages(attrgetter("once")), init=False)

    @property
    @abstractmethod
    def messages_key(self) -> str:
        """Where the messages stand in a request."""

    @property
    @abstractmethod
    def keys(self) -> frozenset[str]:
        """What else a request may have of which no rule needs all messages."""

    @property
    def family(self) -> str | None:
        """The family of the model, if that is known."""
        return None if self.profile is None else self.profile.family

    @staticmethod
    @abstractmethod
    def anew(
        request: Mapping[str, Any], profile: ModelProfile | None, before: Mapping[str, Any] | None
    ) -> tuple[Violation, ...]:
        """What the rules find in the whole request."""

    @abstractmethod
    def read(self, native: dict[str, Any]) -> Seen | None:
        """What is known of a message; None where the whole request is to be validated anew."""

    @abstractmethod
    def rounds(self, seen: Sequence[Seen], start: int) -> Iterator[tuple[int, int]]:
        """Where complete rounds begin and end, from the end of one on; each is decided by the message behind it."""

    def rounds_before(self, seen: Sequence[Seen], start: int) -> Iterator[tuple[int, int]]:
        """What stands together in the request that this one was made from; of most formats, each message alone."""
        return ((place, place + 1) for place in range(start, len(seen)))

    @abstractmethod
    def opened(self, request: Mapping[str, Any], natives: Natives) -> R:
        """A request of which only these messages are looked at."""

    @abstractmethod
    def found(self, request: R, before: R | None) -> tuple[Violation, ...]:
        """What the rules find, but for those about all messages that find nothing where each of them was read."""

    def __call__(self, request: Mapping[str, Any], before: Mapping[str, Any] | None) -> tuple[Violation, ...]:
        """Every rule that the request breaks, in the order of its messages."""
        try:
            found = self._of_the_rest(request, before)
        except RecursionError:  # nested too deep to be copied: the rules never raise
            self._sent, self._given, found = _Messages(self._sent.named), _Messages(self._given.named), None
        return self.anew(request, self.profile, before) if found is None else found

    def _of_the_rest(
        self, request: Mapping[str, Any], before: Mapping[str, Any] | None
    ) -> tuple[Violation, ...] | None:
        """What is found without the rounds in which nothing is; None where that is not enough."""
        if len(self._known) > 2 * (len(self._sent.seen) + len(self._given.seen)):
            self._known = {id(seen.native): seen for seen in chain(self._sent.seen, self._given.seen)}
        if not self._read(self._sent, request, self.rounds) or self._sent.repeated:
            return None
        if before is None:
            return self.found(self.opened(request, self._sent.without(self._sent.rounds)), None)
        if not self._read(self._given, before, self.rounds_before) or self._given.repeated:
            return None
        there = {each.marked for each in self._given.rounds}
        kept = self._sent.without([each for each in self._sent.rounds if not each.marked or each.marked in there])
        named = frozenset().union(*(self._sent.seen[index].marks for index, _ in kept))
        original = self._given.without([each for each in self._given.rounds if named.isdisjoint(each.marks)])
        return self.found(self.opened(request, kept), self.opened(before, original))

    def _read(
        self,
        messages: _Messages,
        request: Mapping[str, Any],
        rounds: Callable[[Sequence[Seen], int], Iterator[tuple[int, int]]],
    ) -> bool:
        """Read what is new in a request; whether that is all of it."""
        natives = request.get(self.messages_key)
        if type(natives) is not list or not natives or not self.keys.issuperset(request):
            return False
        messages.keep(natives)
        messages.natives = natives
        for native in natives[len(messages.seen) :]:
            seen = self._known.get(id(native))
            if seen is None or seen.copy != native:
                seen = self.read(native) if type(native) is dict else None
            if seen is None:
                return False
            messages.add(seen)
            self._known[id(native)] = seen
        last = messages.rounds[-1].stop if messages.rounds else 0
        for start, stop in list(rounds(messages.seen, last)):
            marked = tuple(each for each in messages.seen[start:stop] if each.marks)
            marks = frozenset(chain.from_iterable(each.marks for each in marked))
            messages.rounds.append(_Round(start, stop, marked, marks))
        return True


def looked_at(native: dict[str, Any], part: str, *, quiet: bool, **known: Native) -> Seen:
    """What is known of a message, with what it looked like.

    Args:
        native: The message.
        part: What it is to its round.
        quiet: Whether no rule finds anything in it by itself.
        known: What else is known of it, as in ``Seen``.
    """
    return Seen(native, snapshot(native), part, quiet, **known)


def same_names(calls: Sequence[Hashable], answers: Sequence[Hashable]) -> bool:
    """Whether there is one answer for each call, and none besides."""
    return sorted(calls, key=str) == sorted(answers, key=str)


def rounds_of_two(
    seen: Sequence[Seen], start: int, agree: Callable[[Sequence[Any], Sequence[Any]], bool] = same_names
) -> Iterator[tuple[int, int]]:
    """The rounds of a message with calls and one that answers them, between one of the user's and one of the model's.

    Args:
        seen: The messages; each a ``"call"``, an ``"answer"``, or what else the ``"user"`` or the ``"assistant"`` says.
        start: Where the last round ended.
        agree: Whether answers are those of the calls.
    """
    place = max(start, 1)
    while place < len(seen) - 2:
        before, calling, answering, after = seen[place - 1 : place + 3]
        apart = before.part in ("user", "answer") and after.part in ("assistant", "call")
        quiet = calling.part == "call" and answering.part == "answer" and calling.quiet and answering.quiet
        if apart and quiet and agree(calling.calls, answering.answers):
            yield place, place + 2
            place += 1
        place += 1


@frozen
class Rules:
    """How the rules of a format are asked.

    Args:
        violations: Finds the rules that one request breaks: the request, its model's profile, and the request that it
            was made from. It never raises.
        validator: Makes a function that finds the rules that each request of a conversation breaks, without a look at
            all of their messages again.
    """

    violations: Callable[[Mapping[str, Any], ModelProfile | None, Mapping[str, Any] | None], tuple[Violation, ...]]
    validator: Callable[[ModelProfile | None], Validator]
