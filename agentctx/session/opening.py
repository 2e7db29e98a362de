"""Which conversation a request belongs to, where nobody says so: how it begins, and how much of it is known.

``session.holding`` and the hooks of frameworks ask an ``Opening`` about each conversation that began alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

from attrs import frozen

from agentctx.errors import InvalidInput
from agentctx.formats.cache_markers import unmarked
from agentctx.message import ROLES, Message, Native, Text, ToolCall, ToolResult
from agentctx.session.record import (
    Digest,
    Record,
    digest,
    shared_length,
)
from agentctx.session.step_context import State
from agentctx.unit import is_user_turn
from agentctx.wire_format import WireFormat


@frozen(eq=False, repr=False)
class Beginning:
    """The start of a conversation, in any format: digests of the words, which a state that is kept has room for.

    Args:
        system: Of the words of the system prompt; empty when there is none, or it is not known any more.
        task: Of the words of the first message in which the user speaks; empty when there is none.
    """

    system: bytes = b""
    task: bytes = b""

    @classmethod
    def of(cls, system: Sequence[str], task: Sequence[str] = ()) -> Beginning:
        """The start that has these words."""
        return cls(digest(system) if system else b"", digest(task) if task else b"")


MOST_FOR_ONE_CALL = 8
"""So many messages at the end of a request may be for that call alone."""


@frozen(eq=False, repr=False)
class Opening:
    """What a request begins with.

    Args:
        beginning: Its words.
        natives: All its messages.
        place: The index of the first one in which the user speaks.
        wire: Their format.
    """

    beginning: Beginning
    natives: Sequence[Any]
    place: int
    wire: WireFormat

    def goes_on(self, known: Beginning, record: Record) -> bool:
        """Whether the request is one of the conversation that began as ``known``.

        It is when system prompt and task are the same. A system prompt that changes (it tells the time) is taken for
        the same conversation when the message after the task is, too; another task under the same prompt, when that is
        a later part of the same history, of which the caller has cut off the beginning; and anything that begins as the
        last view does, in which a system message may stand as the user's.

        Args:
            known: How the conversation begins.
            record: What is known of it.
        """
        mine = self.beginning
        if mine.task == known.task:
            return mine.system == known.system or not (mine.system and known.system) or self._follows(record)
        return (mine.system == known.system and self._is_within(record.seen)) or self._begins_as(record.shown)

    def shown_of(self, record: Record) -> tuple[int, bool]:
        """Return how many messages of a conversation the request shows from the task on, and whether it shows all.

        The request goes on with the conversation where that is more than none. It shows the conversation as it came or
        as it went; cache markers, which move from request to request, are passed over. Words at the end of the
        conversation's last call that were for that call alone (a reminder, a text that was found for a question) may be
        gone, once the model's answer stands behind the rest.

        Args:
            record: The messages of the conversation.
        """
        return max(self._shown_of(known[self.place :]) for known in (record.seen, record.shown))

    def _shown_of(self, known: list[Any]) -> tuple[int, bool]:
        if not known or not self._has_at(len(known) - 1 - MOST_FOR_ONE_CALL, known):
            return 0, False
        shared = self._shared(known)
        if shared == len(known):
            return shared, True
        return (shared if self._goes_on_without_end(known, shared) else 0), False

    def _has_at(self, place: int, known: list[Any]) -> bool:
        """Whether one message is the same: most conversations of the same task are told apart by it alone."""
        at = self.place + max(0, place)
        return at < len(self.natives) and _are_alike(self.natives[at], known[max(0, place)])

    def _shared(self, known: list[Any]) -> int:
        mine, place = self.natives[self.place :], 0
        while place < len(known):
            place += shared_length(mine[place:], known[place:])
            if place in (len(mine), len(known)) or not _are_alike(mine[place], known[place]):
                break
            place += 1
        return place

    def _goes_on_without_end(self, known: list[Any], shared: int) -> bool:
        end = known[shared:]
        if not 0 < shared < len(known) <= shared + MOST_FOR_ONE_CALL:
            return False
        mine = iter(self.natives[self.place + shared :])
        with suppress(InvalidInput):
            said, words = self._read(next(mine, None)), [self._read(each) for each in end]
            for each in words:
                if said is not None and each is not None and _is_left_of(said, each):
                    said = self._read(next(mine, None))
                elif each is None or not _is_the_caller_s(each):
                    return False
            return said is not None and said.role == "assistant"
        return False

    def _read(self, native: Native) -> Message | None:
        """A message; None for none, or for one of which only a digest is kept."""
        return None if native is None or isinstance(native, Digest) else self.wire.read_message(unmarked(native), 0)

    def shows_last(self, record: Record) -> bool:
        """Whether the request has, in a row, what the model said last in a conversation and all that came after it.

        What came after it tells no conversation from another: in each a tool says "ok", and the user "Go on.".
        """
        length = _since_the_model_spoke(record.roles)
        return any(self._has(known[len(known) - length :]) for known in (record.seen, record.shown) if length)

    def _has(self, row: list[Any]) -> bool:
        mine = self.natives
        starts = range(len(mine) - len(row), self.place, -1)
        return any(mine[start] == row[0] and list(mine[start : start + len(row)]) == row for start in starts)

    def shares(self, record: Record) -> int:
        """How many messages, from the task on, are those of a conversation."""
        return shared_length(self.natives[self.place :], record.seen[self.place :])

    def _follows(self, record: Record) -> bool:
        after = slice(self.place + 1, self.place + 2)
        mine = list(self.natives[after])
        return bool(mine) and mine in (record.seen[after], record.shown[after])

    def _begins_as(self, shown: list[Any]) -> bool:
        start = slice(self.place + 2)
        mine = list(self.natives[start])
        return len(mine) > 1 and mine == shown[start]

    def _is_within(self, seen: Sequence[Any]) -> bool:
        mine = list(self.natives[self.place : self.place + 2])
        return len(mine) > 1 and any(mine == list(pair) for pair in pairwise(seen))


def beginning(messages: Iterable[Message], system: Message | None) -> Beginning:
    """How a conversation begins.

    Args:
        messages: Its messages.
        system: The system prompt, where the format keeps it apart.
    """
    said: list[str] = [] if system is None else list(_words(system))
    for message in messages:
        if message.is_system:
            said += _words(message)
        elif is_user_turn(message):
            return Beginning.of(said, _words(message))
    return Beginning.of(said)


def beginning_of(state: State) -> Beginning | None:
    """How a conversation that is known begins; None before its first step."""
    if not state.steps:
        return None
    if state.record.missing is not None:  # its words are with the caller
        return None
    if state.last is not None and state.ctx is not None:
        return opening_of(state.last.messages, state.last.system, state.ctx.reader.wire).beginning
    return beginning(state.record.view, None) if state.record.view else None


def opening_of(natives: Sequence[Native], system: Native, wire: WireFormat) -> Opening:
    """What a request begins with; no more of it is read.

    Args:
        natives: Its messages.
        system: The system prompt, where the format keeps it apart.
        wire: The format.

    Raises:
        InvalidInput: If a message cannot be read; names it.
    """
    read: list[Message] = []
    for index, native in enumerate(natives):
        read.append(wire.read_message(native, index))
        if is_user_turn(read[-1]):
            break
    return Opening(beginning(read, wire.read_system(system)), natives, len(read) - 1, wire)


def _are_alike(one: Native, other: Native) -> bool:
    return bool(one == other) or bool(unmarked(one) == unmarked(other))


def _is_the_caller_s(message: Message) -> bool:
    return (message.role == "user" or message.is_system) and not message.results


def _is_left_of(said: Message, before: Message) -> bool:
    """Whether it is what was there before, with or without the words that the caller had put behind it."""
    after = before.parts[len(said.parts) :]
    same = said.role == before.role and said.parts == before.parts[: len(said.parts)]
    return same and bool(said.parts) and not any(isinstance(part, (ToolCall, ToolResult)) for part in after)


def _since_the_model_spoke(roles: bytes | bytearray) -> int:
    """How many messages stand at the end from the first on that the model said last; 0 where it never spoke."""
    model = bytes([ROLES.index("assistant")])
    said = roles.rstrip(bytes(range(len(ROLES))).replace(model, b""))
    return len(roles) - len(said.rstrip(model)) if said else 0


def _words(message: Message) -> tuple[str, ...]:
    """What it says, without what a repair takes away."""
    texts = (part.text.strip() for part in message.parts if isinstance(part, Text))
    return tuple(text for text in texts if text)
