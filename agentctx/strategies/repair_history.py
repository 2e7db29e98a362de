"""Make a broken history legal: the first thing that every pipeline does."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from functools import partial

from attrs import define, evolve, field, frozen

from agentctx.core.marker import is_marker
from agentctx.core.message import Context, Message
from agentctx.core.pace import paced
from agentctx.core.pairing import broken_pair, open_at_end
from agentctx.core.parts import Opaque, Part, ToolCall, ToolResult
from agentctx.offload import offload
from agentctx.protocols import Call, ReadsPlaces, WireFormat, reads_places
from agentctx.strategies.pair_results import LOST_RESULT, Pairs, pair_results


@frozen
class RepairHistory:
    """Orphaned results are dropped, unanswered calls get a result, duplicates go, wrong order is put right.

    What can be kept is kept: a result that stands in the wrong place is moved to its call. Everything done is
    in the report. A legal history comes back as the same object.

    Args:
        lost_result: The text that answers a call whose result is lost.
    """

    lost_result: str = LOST_RESULT

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context with every pair whole."""
        if call.wire is None:
            return context
        work = partial(repair, context.messages, call, call.wire, self.lost_result)
        repaired = await offload(work, len(context.messages))
        return context if repaired is None else context.with_messages(tuple(repaired))


def repair(
    messages: Sequence[Message],
    call: Call,
    wire: WireFormat,
    lost_result: str = LOST_RESULT,
    *,
    seen: set[str] | None = None,
    earlier: AbstractSet[str] = frozenset(),
    after: Message | None = None,
) -> list[Message] | None:
    """The messages made legal, or None when they are legal.

    Args:
        messages: What to repair; must begin at the start of a unit.
        call: Where the reasons are said.
        wire: The provider's format.
        lost_result: The text for lost results.
        seen: The ids of these messages' calls are added here.
        earlier: The call ids of the messages before.
        after: The message before; None at the start of the conversation.
    """
    fixed = _mend(messages, call, wire)
    current = messages if fixed is None else fixed
    whole = _whole(current) if has_server_calls(current) else None
    merges, anywhere = wire.merges_turns, wire.results_anywhere
    broken = whole is not None or broken_pair(current, merges_turns=merges, results_anywhere=anywhere) is not None
    if broken:
        current = _rebuild(current if whole is None else whole, call, wire, lost_result)
    if broken or wire.unique_ids:
        ids = _Renaming(set() if seen is None else seen, earlier, per_turn=not wire.unique_ids)
        current = _rename_repeated(current, call, ids)
    if (placed := reads_places(wire)) is not None:
        current = _arranged(current, call, placed, after)
    return None if current is messages else list(current)


def _arranged(messages: Sequence[Message], call: Call, wire: ReadsPlaces, after: Message | None) -> Sequence[Message]:
    """The messages in an order and a grouping that the format takes; the same object when they are."""
    if not (changes := wire.arrange(messages, after)):
        return messages
    new: dict[int, tuple[Message, ...]] = {}
    for index, instead, why in changes:
        for message in (messages[index], *instead):
            call.note(message, why)
        new[index] = instead
    return [kept for index, message in enumerate(messages) for kept in new.get(index, (message,))]


def has_server_calls(messages: Sequence[Message]) -> bool:
    """Whether any block opens or answers a call that the provider's server runs."""
    for message in messages:
        for part in message.parts:
            if type(part) is Opaque and (part.opens is not None or part.closes is not None):
                return True
    return False


def _mend(messages: Sequence[Message], call: Call, wire: WireFormat) -> list[Message] | None:
    faults = wire.mend(messages)
    if not faults:
        return None
    new: dict[int, Message | None] = {}
    for index, replacement, why in faults:
        call.note(messages[index], why)
        new[index] = replacement
    mended = [new.get(index, message) for index, message in enumerate(messages)]
    return [message for message in mended if message is not None]


def _whole(messages: Sequence[Message]) -> list[Message] | None:
    """The messages without halves of server-side calls, or None when there are none."""
    opened: set[str] = set()
    closed: set[str] = set()
    for message in messages:
        for part in message.parts:
            if isinstance(part, Opaque):
                if part.opens is not None:
                    opened.add(part.opens)
                if part.closes is not None:
                    closed.add(part.closes)
    halves = opened ^ closed
    if not halves or not (halves := halves - open_at_end(messages)):
        return None
    return [kept for message in messages if (kept := _without(message, halves)) is not None]


def _without(message: Message, halves: set[str]) -> Message | None:
    def is_half(part: Part) -> bool:
        return isinstance(part, Opaque) and (part.opens in halves or part.closes in halves)

    kept = tuple(part for part in message.parts if not is_half(part))
    if len(kept) == len(message.parts):
        return message
    return _unless_empty(message, kept)


def _rebuild(messages: Sequence[Message], call: Call, wire: WireFormat, lost_result: str) -> list[Message]:
    pairs = pair_results(messages, merges_turns=wire.merges_turns, results_anywhere=wire.results_anywhere)
    for message, why in pairs.reasons:
        call.note(message, why)
    out: list[Message] = []
    for index, message in enumerate(messages):
        kept = _stays(message, index, pairs)
        if kept is not None:
            out.append(kept)
        if index in pairs.answers_after:
            out.extend(_answers(index, pairs, call, wire, lost_result))
    return out


def _stays(message: Message, index: int, pairs: Pairs) -> Message | None:
    """What of a message stays at its place: all of it, or all but the results that moved or went."""
    if index not in pairs.taken_apart:
        return None if index in pairs.moved_whole else message
    rest = tuple(part for part in message.parts if not isinstance(part, ToolResult))
    return _unless_empty(message, rest)


def _unless_empty(message: Message, parts: tuple[Part, ...]) -> Message | None:
    """The message with these parts only; None when they say nothing: a cache marker alone is no message."""
    return None if all(map(is_marker, parts)) else message.with_parts(parts)


def _answers(index: int, pairs: Pairs, call: Call, wire: WireFormat, lost_result: str) -> list[Message]:
    unanswered = pairs.unanswered.get(index, ())
    if unanswered:
        call.remark(f"answered {len(unanswered)} tool call(s) without a result: {', '.join(c.id for c in unanswered)}")
    made = wire.synthetic_result(unanswered, lost_result) if unanswered else ()
    return [*made, *pairs.answers_after[index]]


@define
class _Renaming:
    """Which names the repeated call ids of a history get."""

    seen: set[str]
    earlier: AbstractSet[str]
    per_turn: bool
    names: dict[str, deque[str]] = field(factory=dict)

    def begin_turn(self) -> None:
        if self.per_turn:
            self.names.clear()
            self.seen.clear()

    def of_call(self, call_id: str) -> str:
        name, number = call_id, 2
        while name in self.seen or (not self.per_turn and name in self.earlier):
            name, number = f"{call_id}_{number}", number + 1
        self.seen.add(name)
        self.names.setdefault(call_id, deque()).append(name)
        return name

    def of_result(self, call_id: str) -> str:
        names = self.names.get(call_id)
        return names.popleft() if names else call_id


def _rename_repeated(messages: Sequence[Message], call: Call, renaming: _Renaming) -> Sequence[Message]:
    """Give repeated call ids a number; every result follows its call, so the order tells which is which."""
    out: list[Message] = []
    changed, in_turn = False, False
    for message in paced(messages):
        if message.role == "assistant" and not in_turn:
            renaming.begin_turn()
        in_turn = message.role == "assistant"
        renamed = _renamed(message, renaming)
        if renamed is not message:
            call.note(message, "a repeated call id got a number")
            changed = True
        out.append(renamed)
    return out if changed else messages


def _renamed(message: Message, renaming: _Renaming) -> Message:
    parts: list[Part] = []
    changed = False
    for part in message.parts:
        new = _renamed_part(part, renaming)
        changed = changed or new is not part
        parts.append(new)
    return message.with_parts(tuple(parts)) if changed else message


def _renamed_part(part: Part, renaming: _Renaming) -> Part:
    if isinstance(part, ToolCall):
        name = renaming.of_call(part.id)
        if name != part.id:
            return evolve(part, id=name)
    elif isinstance(part, ToolResult):
        name = renaming.of_result(part.call_id)
        if name != part.call_id:
            return evolve(part, call_id=name)
    return part
