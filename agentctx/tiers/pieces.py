"""A block taken to pieces that may go one by one: whole units, so that no pair can break."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import frozen

from agentctx.core.message import Message
from agentctx.core.units import Unit, units
from agentctx.tiers.eviction import Allowance


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
