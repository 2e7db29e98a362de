"""What the rules of all formats share: a request laid out as places, and the violations found at them.

A rule looks at a whole request and yields what it finds wrong. A laid-out request is never refused, whatever is in it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from math import inf
from typing import Any, Generic, Literal, Protocol, TypeVar

from attrs import frozen

from agentctx.formats.native import string_of
from agentctx.wire_format import Violation

NOTHING: Mapping[str, Any] = {}

R = TypeVar("R")
B = TypeVar("B")
Severity = Literal["error", "warn"]
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
