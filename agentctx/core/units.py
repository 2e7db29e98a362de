"""Which messages stand or fall together. This file alone knows.

A unit is an assistant turn (a run of assistant messages, with its reasoning) and **all** the results of its calls,
or one message by itself. Results are found by order first and id second: a result belongs to the nearest open
turn before it, since real transcripts repeat call ids. Where a result stands further on, what stands between goes
with it. Signed reasoning in a message of its own binds what the model does after it, results in between included,
until it thinks again or says something.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from attrs import define, field, frozen

from agentctx.core.message import Message
from agentctx.core.pace import breathe, paced
from agentctx.core.parts import Opaque, Text, Thinking, ToolCall, ToolResult, server_ends


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
    late = _LateResults(messages, start)
    while index < end:
        breathe()
        stop = _round_end(messages, index, late) if messages[index].role == "assistant" else index + 1
        yield Unit(index, stop, messages[index].role == "assistant")
        index = stop


def _round_end(messages: Sequence[Message], start: int, late: _LateResults) -> int:
    """The end of the round that opens at ``start``: the assistant run, its results, and what goes on after them."""
    index, end = start, len(messages)
    server_open: set[str] = set()
    bound = False
    while True:
        waiting: Counter[str] = Counter()
        run = index
        while index < end and messages[index].role == "assistant":
            waiting.update(call.id for call in messages[index].calls)
            _note_server(messages[index], server_open)
            bound = bound or _only_thinks(messages[index])
            index += 1
        while index < end and answers(messages[index], waiting):
            index += 1
        if waiting or server_open:
            between, index = index, late.end_of(run, index)
            for place in range(between, index):
                _note_server(messages[place], server_open)
        if index == end or messages[index].role != "assistant":
            return index
        if not server_open and not (bound and _only_acts(messages[index])):
            return index


def _only_thinks(message: Message) -> bool:
    """Whether this is nothing but reasoning, signed: then it belongs to what the model does next."""
    parts = message.parts
    if not parts or not isinstance(parts[0], Thinking):
        return False
    return all(isinstance(part, Thinking) and part.signed for part in parts)


def _only_acts(message: Message) -> bool:
    """Whether the model acts here without a thought or a word."""
    return not any(isinstance(part, (Text, Thinking)) for part in message.parts)


@define
class _LateResults:
    """Which results do not stand directly after their turn; worked out when it is first asked.

    Args:
        messages: The transcript.
        start: Where to begin.
    """

    messages: Sequence[Message]
    start: int
    _last: dict[int, int] | None = field(default=None, init=False)

    def end_of(self, start: int, stop: int) -> int:
        """Where ``messages[start:stop]`` and all results of the calls in it end, with those of what is between."""
        if self._last is None:
            self._last = _last_results(self.messages, self.start)
        index = start
        while index < stop:
            stop = max(stop, self._last.get(index, index) + 1)
            index += 1
        return stop


def _last_results(messages: Sequence[Message], start: int) -> dict[int, int]:
    """For each message with calls that are answered, the index of the last message that belongs to one of them.

    That is one that answers it, or one that says that its code made what is in it.
    """
    last: dict[int, int] = {}
    open_calls: dict[str, list[int]] = defaultdict(list)
    server_calls: dict[str, int] = {}
    for index in paced(range(start, len(messages))):
        acts = messages[index].role == "assistant"
        for part in messages[index].parts:
            if isinstance(part, Opaque):
                _note_server_call(part, index, server_calls, last)
            elif acts and isinstance(part, ToolCall):
                open_calls[part.id].append(index)
            elif not acts and isinstance(part, ToolResult) and open_calls[part.call_id]:
                last[open_calls[part.call_id].pop()] = index
            if (caller := getattr(part, "caller", None)) in server_calls:
                last[server_calls[caller]] = index
    return last


def _note_server_call(part: Opaque, index: int, calls: dict[str, int], last: dict[int, int]) -> None:
    for call, opens in server_ends((part,)):
        if opens:
            calls[call] = index
        elif call in calls:
            last[calls.pop(call)] = index


def _note_server(message: Message, server_open: set[str]) -> None:
    for call, opens in server_ends(message.parts):
        (server_open.add if opens else server_open.discard)(call)


def answers(message: Message, waiting: Counter[str]) -> bool:
    """Whether the message carries the result of a waiting call; what it answers is removed from ``waiting``.

    Args:
        message: A message.
        waiting: How many calls of each id have no result.
    """
    if not waiting or message.role == "assistant":
        return False
    found = False
    for part in message.parts:
        if isinstance(part, ToolResult) and part.call_id in waiting:
            waiting[part.call_id] -= 1
            if not waiting[part.call_id]:
                del waiting[part.call_id]
            found = True
    return found


def segments(messages: Sequence[Message], groups: Iterable[Unit] | None = None) -> tuple[tuple[Unit, ...], ...]:
    """Units bundled so that questions go with their answers: the messages before a round, and then the round.

    Messages after the last round are a segment of their own.
    """
    bundles: list[tuple[Unit, ...]] = []
    current: list[Unit] = []
    for unit in paced(units(messages) if groups is None else groups):
        current.append(unit)
        if unit.is_round:
            bundles.append(tuple(current))
            current = []
    if current:
        bundles.append(tuple(current))
    return tuple(bundles)
