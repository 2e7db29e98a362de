"""How conversations of one client are told apart: by the words that their requests begin with."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from attrs import frozen

from agentctx.core.message import ROLES, Message, Native, Text
from agentctx.core.protection import is_user_turn
from agentctx.session.fingerprint import begins_with, digest, shared_length
from agentctx.session.record import Record
from agentctx.session.step_context import State
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


@frozen(eq=False, repr=False)
class Opening:
    """What a request begins with.

    Args:
        beginning: Its words.
        natives: All its messages.
        place: The index of the first one in which the user speaks.
    """

    beginning: Beginning
    natives: Sequence[Any]
    place: int

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

    def shows_all(self, record: Record) -> bool:
        """Whether the request has, from the task on, all that is known of a conversation, as it came or as it went."""
        mine = self.natives[self.place :]
        return any(begins_with(mine, known[self.place :]) for known in (record.seen, record.shown))

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
    return Opening(beginning(read, wire.read_system(system)), natives, len(read) - 1)


def _since_the_model_spoke(roles: bytes | bytearray) -> int:
    """How many messages stand at the end from the first on that the model said last; 0 where it never spoke."""
    model = bytes([ROLES.index("assistant")])
    said = roles.rstrip(bytes(range(len(ROLES))).replace(model, b""))
    return len(roles) - len(said.rstrip(model)) if said else 0


def _words(message: Message) -> tuple[str, ...]:
    """What it says, without what a repair takes away."""
    texts = (part.text.strip() for part in message.parts if isinstance(part, Text))
    return tuple(text for text in texts if text)
