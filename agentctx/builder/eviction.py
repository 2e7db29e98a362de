"""What becomes of a block that is too large: the shape of an eviction, and what it is told."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Iterator, Sequence
from inspect import isawaitable
from types import TracebackType
from typing import ClassVar, Protocol, TypeVar

from attrs import field, frozen

from agentctx.core.compare import match
from agentctx.core.message import Message
from agentctx.core.protection import signed_thinking
from agentctx.core.units import Unit, broken_pair, units
from agentctx.core.validity import flaw
from agentctx.errors import ConfigError, ContextOverflow, StageError
from agentctx.protocols import Meter

CUSTOM = "evicted"
"""What a report says of a block that an eviction without a ``label`` has cut."""


@frozen
class Allowance:
    """What an eviction is told about the room that its block has.

    Args:
        tokens: The most tokens that the block may have.
        meter: Counts messages.
        keep: Indexes of the messages that must not go whatever happens: the user's newest words.
        remarks: What is said about the block as a whole; it is put into the report.
        labels: What the eviction says that it did this time, when that is not what its ``label`` says.
    """

    tokens: int
    meter: Meter
    keep: frozenset[int] = frozenset()
    remarks: list[str] = field(factory=list, eq=False, repr=False)
    labels: list[str] = field(factory=list, eq=False, repr=False)

    def count(self, messages: Iterable[Message]) -> int:
        """Tokens of these messages; each is counted once and remembers it."""
        return sum(map(self.meter.message, messages))

    def remark(self, text: str) -> None:
        """Say something about the block as a whole."""
        self.remarks.append(text)

    def relabel(self, label: str) -> None:
        """Say what was done to the block, where that is something else than usual."""
        self.labels.append(label)

    def overflow(self, tokens: int) -> ContextOverflow:
        """The error that says that the block cannot have fewer than ``tokens`` tokens."""
        return ContextOverflow(tokens, self.tokens)


class Eviction(Protocol):
    """Makes a block fit. A plain async function qualifies.

    It is asked only when the block is too large, and its answer is held to this contract: messages, at most
    ``allowance.tokens`` tokens together, in the order in which they came, no call without its result and no result
    without its call, signed reasoning whole or not at all, and every message of ``allowance.keep`` as it was. What
    breaks it is never sent.

    Three attributes may be given on the class; none has to be:

    * ``label``: what the report says of a block that was cut; ``"evicted"`` without it.
    * ``gradual``: whether more tokens give more messages, so that it is worth asking again when room was left over.
    * ``whole``: whether it can only keep everything or nothing beside ``keep``.

    And one method, ``least(messages, allowance) -> int``: the fewest tokens that the block can come down to, which
    are reserved for it before others get more than that. Without it: the tokens of ``keep``.

    Example:
        >>> from agentctx.builder import Block, TruncateOldest
        >>> block = Block("history", [{"role": "user", "content": "…"}], evict=TruncateOldest())
    """

    async def __call__(self, messages: Sequence[Message], allowance: Allowance, /) -> Sequence[Message]:
        """The messages that the model shall see instead of these.

        Raises:
            ContextOverflow: If what must stay is larger than the allowance.
        """
        ...


def label_of(eviction: Eviction) -> str:
    """What a report says of a block that this eviction has cut."""
    return str(getattr(eviction, "label", CUSTOM))


def name_of(eviction: object) -> str:
    """What an eviction or a formatter is called in reports and errors."""
    name = getattr(eviction, "__name__", None)
    return name if isinstance(name, str) else type(eviction).__name__


def least_of(eviction: Eviction, messages: Sequence[Message], allowance: Allowance) -> int:
    """The fewest tokens that a block can come down to: at most all of it.

    Raises:
        StageError: If the eviction says something else than a number of tokens.
    """
    least = getattr(eviction, "least", None)
    if not callable(least):
        return allowance.count(messages[index] for index in sorted(allowance.keep))
    tokens = least(messages, allowance)
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
        raise StageError(name_of(eviction), f"least: expected a number of tokens, got {tokens!r}")
    return min(tokens, allowance.count(messages))


@frozen
class Piece:
    """Neighbouring messages that go or stay together.

    Args:
        start: Index of the first message.
        stop: Index after the last message.
        tokens: Their size together.
        stays: Whether one of them must stay, so that all do.
    """

    start: int
    stop: int
    tokens: int
    stays: bool

    def __len__(self) -> int:
        """How many messages it holds."""
        return self.stop - self.start


def pieces(
    messages: Sequence[Message],
    allowance: Allowance,
    protect_roles: frozenset[str] = frozenset(),
    *,
    pairs: bool = False,
) -> list[Piece]:
    """Take messages to pieces, in order and without gaps.

    Args:
        messages: The messages of a block.
        allowance: Counts them, and says what must stay.
        protect_roles: A unit with a message of such a role stays as a whole.
        pairs: Whether a user's message and the round that answers it are one piece.
    """
    groups = units(messages)
    found: list[Piece] = []
    for start, stop in _with_questions(messages, groups) if pairs else ((unit.start, unit.stop) for unit in groups):
        stays = any(index in allowance.keep or messages[index].role in protect_roles for index in range(start, stop))
        found.append(Piece(start, stop, allowance.count(messages[start:stop]), stays))
    return found


def _with_questions(messages: Sequence[Message], groups: Sequence[Unit]) -> Iterator[tuple[int, int]]:
    """Units, a user's message joined with the round directly after it."""
    question: Unit | None = None
    for unit in groups:
        if question is not None and unit.is_round:
            yield question.start, unit.stop
            question = None
            continue
        if question is not None:
            yield question.start, question.stop
        question = unit if messages[unit.start].role == "user" and not unit.is_round else None
        if question is None:
            yield unit.start, unit.stop
    if question is not None:
        yield question.start, question.stop


def messages_of(messages: Sequence[Message], kept: Sequence[Piece]) -> tuple[Message, ...]:
    """The messages of these pieces."""
    return tuple(message for piece in kept for message in messages[piece.start : piece.stop])


def check_eviction(name: str, before: Sequence[Message], after: object, allowance: Allowance) -> tuple[Message, ...]:
    """What an eviction returned, checked against its contract.

    Args:
        name: What to call the eviction in errors.
        before: The block's messages.
        after: What it returned.
        allowance: What it was told.

    Raises:
        StageError: If it returned something else than messages or too much, changed their order, broke a pair,
            edited signed reasoning, or lost what must stay.
    """
    messages = _as_messages(name, after)
    tokens = allowance.count(messages)
    if tokens > allowance.tokens:
        raise StageError(name, f"returned {tokens:,} tokens, and {allowance.tokens:,} were allowed")
    found = match(before, messages)
    origins = [origin for origin in found.origins if origin is not None]
    if origins != sorted(origins):
        raise StageError(name, "changed the order of the messages")
    lost = allowance.keep - set(origins) | allowance.keep & {origin for origin, _ in found.edited}
    if lost:
        index = min(lost)
        raise StageError(name, f"lost or changed messages[{index}] ({before[index].role}), the user's newest words")
    _check_pairs(name, before, messages)
    _check_seals(name, before, messages)
    return messages


def check_formatter(
    name: str, before: Sequence[Message], after: object, keep: Sequence[Message]
) -> tuple[Message, ...]:
    """What a formatter returned, checked against its contract.

    Args:
        name: What to call the formatter in errors.
        before: The messages of all sections.
        after: What it returned.
        keep: Messages that must be among it as they were.

    Raises:
        StageError: If it returned something else than messages, broke a pair, edited signed reasoning, or lost what
            must stay.
    """
    messages = _as_messages(name, after)
    there = set(map(id, messages))
    for message in keep:
        if id(message) not in there and message not in messages:
            raise StageError(name, f"lost or changed the user's newest words ({message.text[:40]!r})")
    _check_pairs(name, before, messages)
    _check_seals(name, before, messages)
    return messages


def _as_messages(name: str, value: object) -> tuple[Message, ...]:
    if not isinstance(value, Sequence) or isinstance(value, (str, bytes)):
        raise StageError(name, f"returned {type(value).__name__} instead of messages")
    for place, each in enumerate(value):
        wrong = flaw(each)
        if wrong is not None:
            raise StageError(name, f"messages[{place}]{wrong[0]} of what it returned is {wrong[1]}")
    return tuple(value)


def _check_pairs(name: str, before: Sequence[Message], after: Sequence[Message]) -> None:
    problem = broken_pair(after)
    if problem is not None and broken_pair(before) is None:
        raise StageError(name, f"broke a pair: {problem}")


def _check_seals(name: str, before: Sequence[Message], after: Sequence[Message]) -> None:
    known = {seal for message in before for seal in signed_thinking(message)}
    for place, message in enumerate(after):
        if not signed_thinking(message) <= known:
            raise StageError(name, f"edited or made signed reasoning in messages[{place}]; it is kept whole or dropped")


T = TypeVar("T")


async def answered(name: str, answer: Awaitable[T]) -> T:
    """What comes of an answer that has to be awaited.

    Args:
        name: Who gave it, for the error.
        answer: The answer.

    Raises:
        StageError: If it cannot be awaited, because a plain function stands where an async one is needed.
    """
    if not isawaitable(answer):
        raise StageError(name, f"is not async: calling it gave {type(answer).__name__}, which cannot be awaited")
    return await answer


class Noting:
    """Adds a note to any error that passes through it."""

    __slots__ = ("note",)

    def __init__(self, note: str) -> None:
        """Remember the note."""
        self.note = note

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Add the note."""
        if isinstance(error, Exception):
            error.add_note(self.note)


@frozen
class Strict:
    """Keep the block whole. Its room is reserved before any other block gets more than its least.

    Example:
        >>> from agentctx.builder import Block, Strict
        >>> Block("rules", [{"role": "system", "content": "…"}], evict=Strict()).evict
        Strict()
    """

    label: ClassVar[str] = "rejected"

    def least(self, messages: Sequence[Message], allowance: Allowance, /) -> int:
        """All of it, in tokens."""
        return allowance.count(messages)

    async def __call__(self, messages: Sequence[Message], allowance: Allowance, /) -> Sequence[Message]:
        """The messages as they are.

        Raises:
            ContextOverflow: If they are too large.
        """
        tokens = allowance.count(messages)
        if tokens > allowance.tokens:
            raise allowance.overflow(tokens)
        return messages


@frozen
class Drop:
    """Leave the block out when it does not fit. Only the user's newest words stay, if they are in it.

    Example:
        >>> from agentctx.builder import Block, Drop
        >>> Block("found", [{"role": "user", "content": "…"}], evict=Drop()).evict
        Drop()
    """

    label: ClassVar[str] = "dropped"
    whole: ClassVar[bool] = True

    def least(self, messages: Sequence[Message], allowance: Allowance, /) -> int:
        """What must stay, in tokens."""
        return allowance.count(must_stay(messages, allowance)) if allowance.keep else 0

    async def __call__(self, messages: Sequence[Message], allowance: Allowance, /) -> Sequence[Message]:
        """The messages when they fit, else what must stay of them.

        Raises:
            ContextOverflow: If that is too large.
        """
        if allowance.count(messages) <= allowance.tokens:
            return messages
        staying = must_stay(messages, allowance)
        tokens = allowance.count(staying)
        if staying and tokens > allowance.tokens:
            raise allowance.overflow(tokens)
        return staying


def must_stay(messages: Sequence[Message], allowance: Allowance) -> tuple[Message, ...]:
    """The units that hold what must not go."""
    if not allowance.keep:
        return ()
    return messages_of(messages, [piece for piece in pieces(messages, allowance) if piece.stays])


@frozen
class DropTail:
    """Drop whole units from the end until the rest fits: for what is ranked, best first.

    The first unit stays, and the user's newest words when they are in the block.

    Example:
        >>> from agentctx.builder import Block, DropTail
        >>> Block("found", [{"role": "user", "content": "…"}], evict=DropTail()).evict
        DropTail()
    """

    label: ClassVar[str] = "truncated"
    gradual: ClassVar[bool] = True

    def least(self, messages: Sequence[Message], allowance: Allowance, /) -> int:
        """The first unit and what must stay, in tokens."""
        return sum(piece.tokens for piece in _laid_out(messages, allowance) if piece.stays)

    async def __call__(self, messages: Sequence[Message], allowance: Allowance, /) -> Sequence[Message]:
        """The messages without as much of their end as must go.

        Raises:
            ContextOverflow: If what stays is too large.
        """
        found = _laid_out(messages, allowance)
        total = sum(piece.tokens for piece in found)
        kept: list[Piece] = []
        for piece in reversed(found):
            if total > allowance.tokens and not piece.stays:
                total -= piece.tokens
            else:
                kept.append(piece)
        if total > allowance.tokens:
            raise allowance.overflow(total)
        return messages if len(kept) == len(found) else messages_of(messages, kept[::-1])


def _laid_out(messages: Sequence[Message], allowance: Allowance) -> list[Piece]:
    found = pieces(messages, allowance)
    return [Piece(piece.start, piece.stop, piece.tokens, piece.stays or piece is found[0]) for piece in found]


def _roles(roles: Iterable[str]) -> frozenset[str]:
    if isinstance(roles, str):
        msg = f"TruncateOldest: protect_roles is a collection of roles, for example ({roles!r},)"
        raise ConfigError(msg)
    return frozenset(role for role in roles if role)


@frozen
class TruncateOldest:
    """Drop whole units from the beginning until the rest fits.

    Args:
        keep_pairs: Whether a user's message goes together with the round that answers it, and never alone.
        min_messages: With fewer messages than this the rest is of no use: all of it goes but what must stay.
        protect_roles: Roles whose messages stay, each with its whole unit.

    Raises:
        ConfigError: If ``min_messages`` is negative, or the roles are one string.

    Example:
        >>> from agentctx.builder import Block, TruncateOldest
        >>> block = Block("history", [{"role": "user", "content": "…"}], evict=TruncateOldest(keep_pairs=True))
    """

    keep_pairs: bool = False
    min_messages: int = field(default=0)
    protect_roles: frozenset[str] = field(default=frozenset(), converter=_roles)
    label: ClassVar[str] = "truncated"
    gradual: ClassVar[bool] = True

    @min_messages.validator
    def _check(self, _attribute: object, value: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            msg = f"TruncateOldest: min_messages must be a whole number of at least 0, got {value!r}"
            raise ConfigError(msg)

    def least(self, messages: Sequence[Message], allowance: Allowance, /) -> int:
        """What is protected and what must stay, in tokens."""
        if not self.protect_roles and not allowance.keep:
            return 0
        return sum(piece.tokens for piece in self._laid_out(messages, allowance) if piece.stays)

    async def __call__(self, messages: Sequence[Message], allowance: Allowance, /) -> Sequence[Message]:
        """The messages without as much of their beginning as must go.

        Raises:
            ContextOverflow: If what stays is too large.
        """
        found = self._laid_out(messages, allowance)
        total = sum(piece.tokens for piece in found)
        kept: list[Piece] = []
        for piece in found:
            if total > allowance.tokens and not piece.stays:
                total -= piece.tokens
            else:
                kept.append(piece)
        if total > allowance.tokens:
            raise allowance.overflow(total)
        if sum(map(len, kept)) < self.min_messages:
            allowance.remark(f"fewer than {self.min_messages} messages would be left")
            kept = [piece for piece in kept if piece.stays]
        return messages if len(kept) == len(found) else messages_of(messages, kept)

    def _laid_out(self, messages: Sequence[Message], allowance: Allowance) -> list[Piece]:
        return pieces(messages, allowance, self.protect_roles, pairs=self.keep_pairs)
