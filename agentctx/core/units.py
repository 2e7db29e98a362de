"""Which messages stand or fall together. This file alone knows.

A unit is an assistant turn (a run of assistant messages, with its reasoning) and **all** the results of its calls,
or one message by itself. Results are found by order first and id second: a result belongs to the nearest open
turn before it, since real transcripts repeat call ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen

from agentctx.core.message import Message
from agentctx.core.parts import Opaque, ToolCall, ToolResult


@frozen
class Unit:
    """Neighbouring messages that may only be kept or dropped together.

    Args:
        start: Index of the first message.
        stop: Index after the last message.
        is_round: Whether it is an assistant turn (with its results); else a single other message.
    """

    start: int
    stop: int
    is_round: bool

    def of(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Its messages."""
        return messages[self.start : self.stop]

    def __len__(self) -> int:
        """How many messages it holds."""
        return self.stop - self.start


def units(messages: Sequence[Message], start: int = 0) -> tuple[Unit, ...]:
    """Group ``messages[start:]`` into units, in order, without gaps. ``start`` must be the start of a unit."""
    return tuple(iter_units(messages, start))


def iter_units(messages: Sequence[Message], start: int = 0) -> Iterator[Unit]:
    """The units of ``messages[start:]`` one by one."""
    index, end = start, len(messages)
    while index < end:
        stop = _round_end(messages, index) if messages[index].role == "assistant" else index + 1
        yield Unit(index, stop, messages[index].role == "assistant")
        index = stop


def _round_end(messages: Sequence[Message], start: int) -> int:
    """The end of the round that opens at ``start``: the assistant run, its results, and what a server tool resumes."""
    index, end = start, len(messages)
    server_open: set[str] = set()
    while True:
        waiting: list[str] = []
        while index < end and messages[index].role == "assistant":
            waiting.extend(_open(messages[index], server_open))
            index += 1
        while index < end and answers(messages[index], waiting):
            index += 1
        resumes = server_open and index < end and messages[index].role == "assistant"
        if not resumes:
            return index


def _open(message: Message, server_open: set[str]) -> Iterator[str]:
    for part in message.parts:
        if isinstance(part, ToolCall):
            yield part.id
        elif isinstance(part, Opaque):
            if part.opens is not None:
                server_open.add(part.opens)
            if part.closes is not None:
                server_open.discard(part.closes)


def answers(message: Message, waiting: list[str]) -> bool:
    """Whether the message carries the result of a waiting call; what it answers is removed from ``waiting``."""
    if not waiting or message.role == "assistant":
        return False
    found = False
    for part in message.parts:
        if isinstance(part, ToolResult) and part.call_id in waiting:
            waiting.remove(part.call_id)
            found = True
    return found


def segments(messages: Sequence[Message], groups: Iterable[Unit] | None = None) -> tuple[tuple[Unit, ...], ...]:
    """Units bundled so that questions go with their answers: the messages before a round, and then the round.

    Messages after the last round are a segment of their own.
    """
    bundles: list[tuple[Unit, ...]] = []
    current: list[Unit] = []
    for unit in units(messages) if groups is None else groups:
        current.append(unit)
        if unit.is_round:
            bundles.append(tuple(current))
            current = []
    if current:
        bundles.append(tuple(current))
    return tuple(bundles)
