"""Make a broken history legal: the first thing that every pipeline does."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from functools import partial
from itertools import groupby

from attrs import define, evolve, field, frozen

from agentctx.core.marker import is_marker
from agentctx.core.message import Context, Message
from agentctx.core.pace import paced
from agentctx.core.pairing import broken_pair, only_results, open_at_end, server_calls
from agentctx.core.parts import Opaque, Part, ToolCall, ToolResult
from agentctx.offload import offload
from agentctx.protocols import Call, ReadsPlaces, WireFormat, frees_calls, names_items, reads_places
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


@frozen
class Earlier:
    """What stands before messages that are repaired, as far as it matters to them.

    Args:
        ids: The ids of the calls.
        items: The messages that have a name which no other may have, by that name.
        last: The message directly before; None at the start of the conversation.
        messages: Gives all of them, where a server's call has to be found that is not among what is repaired.
    """

    ids: AbstractSet[str] = frozenset()
    items: Mapping[str, Message] = field(factory=dict)
    last: Message | None = None
    messages: Callable[[], Sequence[Message]] = tuple


def repair(
    messages: Sequence[Message],
    call: Call,
    wire: WireFormat,
    lost_result: str = LOST_RESULT,
    *,
    seen: set[str] | None = None,
    earlier: Earlier | None = None,
) -> list[Message] | None:
    """The messages made legal, or None when they are legal.

    Args:
        messages: What to repair; must begin at the start of a unit.
        call: Where the reasons are said.
        wire: The provider's format.
        lost_result: The text for lost results.
        seen: The ids of these messages' calls are added here.
        earlier: What stands before them; None at the start of the conversation.
    """
    earlier = Earlier() if earlier is None else earlier
    clean = cleaned(messages, call, wire, earlier)
    whole = paired(clean, call, wire, lost_result, seen=seen, earlier=earlier)
    return None if whole is messages else list(whole)


def cleaned(messages: Sequence[Message], call: Call, wire: WireFormat, earlier: Earlier) -> Sequence[Message]:
    """The messages mended as far as no result has to be looked for; the same object when they are fine.

    Args:
        messages: As of ``repair``.
        call: As of ``repair``.
        wire: As of ``repair``.
        earlier: As of ``repair``.
    """
    sided = _of_so_many_calls(_on_their_sides(messages, call), call, wire.most_calls)
    fixed = _mend(sided, call, wire, earlier.items)
    current = sided if fixed is None else fixed
    if not has_server_calls(current):
        return current
    return _freed(_whole(current, call, wire, earlier), call, wire, earlier)


def paired(
    messages: Sequence[Message],
    call: Call,
    wire: WireFormat,
    lost_result: str = LOST_RESULT,
    *,
    seen: set[str] | None = None,
    earlier: Earlier,
) -> Sequence[Message]:
    """Mended messages with every pair whole, in an order that the provider takes; the same object when they are.

    Args:
        messages: What ``cleaned`` made.
        call: As of ``repair``.
        wire: As of ``repair``.
        lost_result: As of ``repair``.
        seen: As of ``repair``.
        earlier: As of ``repair``.
    """
    current = messages
    broken = broken_pair(current, merges_turns=wire.merges_turns, results_anywhere=wire.results_anywhere) is not None
    if broken:
        current = _rebuild(current, call, wire, lost_result)
    if broken or wire.unique_ids:
        ids = _Renaming(wire, set() if seen is None else seen, earlier.ids)
        current = _rename_repeated(current, call, ids)
    if (placed := reads_places(wire)) is not None:
        current = arranged_by(current, call, placed, earlier.last)
    return current


def arranged_by(
    messages: Sequence[Message], call: Call, wire: ReadsPlaces, after: Message | None = None
) -> Sequence[Message]:
    """Messages whose pairs are whole, in an order and a grouping that the format takes; the same object when they are.

    Args:
        messages: The messages.
        call: Where the reasons are said.
        wire: The format.
        after: The message before them; None at the start of the conversation.
    """
    if not (changes := wire.arrange(messages, after)):
        return messages
    new: dict[int, tuple[Message, ...]] = {}
    for index, instead, why in changes:
        for message in (messages[index], *instead):
            call.note(message, why)
        new[index] = instead
    return [kept for index, message in enumerate(messages) for kept in new.get(index, (message,))]


def has_server_calls(messages: Sequence[Message]) -> bool:
    """Whether any block opens or answers a call that the provider's server runs, or comes from the code of one."""
    for message in messages:
        for part in message.parts:
            if type(part) is Opaque:
                if part.opens is not None or part.closes is not None:
                    return True
            elif (type(part) is ToolCall or type(part) is ToolResult) and part.caller is not None:
                return True
    return False


def names_of(messages: Sequence[Message], wire: WireFormat) -> dict[str, Message]:
    """The messages that have a name which no other message of a request may have, by that name."""
    naming = names_items(wire)
    if naming is None:
        return {}
    return {name: message for message in messages if (name := naming.item_name(message)) is not None}


def _mend(
    messages: Sequence[Message], call: Call, wire: WireFormat, earlier: Mapping[str, Message]
) -> list[Message] | None:
    naming = names_items(wire)
    faults = wire.mend(messages) if naming is None else naming.mend(messages, earlier)
    if not faults:
        return None
    new: dict[int, Message | None] = {}
    for index, replacement, why in faults:
        call.note(messages[index], why)
        new[index] = replacement
    mended = [new.get(index, message) for index, message in enumerate(messages)]
    return [message for message in mended if message is not None]


def _on_their_sides(messages: Sequence[Message], call: Call) -> Sequence[Message]:
    """The messages with calls in those of the assistant, and results in none of these; the same object when so."""
    if not any(map(_astray, messages)):
        return messages
    out: list[Message] = []
    for message in messages:
        if not (what := _astray(message)):
            out.append(message)
            continue
        why = f"a tool {what} cannot stand in a message of the {message.role}"
        call.note(message, why)
        for part in _parted(message):
            call.note(part, why)
            out.append(part)
    return out


def _of_so_many_calls(messages: Sequence[Message], call: Call, most: int | None) -> Sequence[Message]:
    """The messages with no more calls in each than the provider takes; the same object when so."""
    if most is None or not any(len(message.parts) > most for message in messages):
        return messages
    out: list[Message] = []
    for message in messages:
        if len(message.parts) <= most or len(message.calls) <= most:
            out.append(message)
            continue
        why = f"a message holds at most {most} calls"
        call.note(message, why)
        first, *others = _in_runs(message.parts, most)
        for each in (message.with_parts(first), *(Message("assistant", run) for run in others)):
            call.note(each, why)
            out.append(each)
    return out


def _in_runs(parts: Sequence[Part], most: int) -> list[tuple[Part, ...]]:
    """The parts in order, in runs of at most so many calls."""
    runs: list[list[Part]] = [[]]
    calls = 0
    for part in parts:
        if isinstance(part, ToolCall):
            calls += 1
            if calls > most:
                runs.append([])
                calls = 1
        runs[-1].append(part)
    return [tuple(run) for run in runs]


def _astray(message: Message) -> str:
    """What stands in the message and belongs to another side: a ``"result"``, a ``"call"``, or ``""`` for nothing."""
    astray = _ASTRAY.get(message.role, (ToolCall, ToolResult))
    part = next((part for part in message.parts if isinstance(part, astray)), None)
    if part is None:
        return ""
    return "result" if isinstance(part, ToolResult) else "call"


_ASTRAY: Mapping[str, tuple[type[Part], ...]] = {"assistant": (ToolResult,), "user": (ToolCall,), "tool": (ToolCall,)}
"""What cannot stand in the messages of a role; in those of the others neither calls nor results can."""


def _parted(message: Message) -> list[Message]:
    """What the message holds, in its order, each part in a message of the side that it belongs to."""
    role = message.role

    def side(part: Part) -> str:
        nonlocal role
        if isinstance(part, ToolCall):
            role = "assistant"
        elif isinstance(part, ToolResult):
            role = message.role if message.role in {"user", "tool"} else "user"
        elif not is_marker(part):  # which goes with what it marks
            role = message.role
        return role

    runs = [(said, tuple(parts)) for said, parts in groupby(message.parts, side)]
    own = next((place for place, (said, _) in enumerate(runs) if said == message.role), None)
    return [
        message.with_parts(parts) if place == own else Message(said, parts) for place, (said, parts) in enumerate(runs)
    ]


def _whole(messages: Sequence[Message], call: Call, wire: WireFormat, earlier: Earlier) -> Sequence[Message]:
    """The messages without halves of server-side calls; the same object when there are none."""
    halves = _halves(messages, wire, earlier)
    if not halves:
        return messages
    out: list[Message] = []
    for message in messages:
        kept = _without(message, halves)
        if kept is not message:
            call.note(message, "half of a call that the provider's server runs")
        if kept is not None:
            out.append(kept)
    return out


def _halves(messages: Sequence[Message], wire: WireFormat, earlier: Earlier) -> set[int]:
    """The blocks, by identity, that open a server-side call which nothing closes in time, and the other way round."""
    unanswered: list[Opaque] = []
    orphans: list[Opaque] = []
    waiting: dict[str, Opaque] = {}
    for message in messages:
        if message.role != "assistant" and not wire.results_anywhere and not only_results(message):
            unanswered += waiting.values()
            waiting.clear()
        for part in message.parts:
            if not isinstance(part, Opaque):
                continue
            if part.opens is not None:
                unanswered += filter(None, (waiting.pop(part.opens, None),))
                waiting[part.opens] = part
            if part.closes is not None and waiting.pop(part.closes, None) is None:
                orphans.append(part)
    if orphans and wire.results_anywhere:
        _, opened = server_calls(earlier.messages())
        orphans = [part for part in orphans if part.closes not in opened]
    if waiting and wire.answers_server_calls:
        still = open_at_end(messages)
        unanswered += (part for name, part in waiting.items() if name not in still)
    return set(map(id, (*orphans, *unanswered) if wire.answers_server_calls else orphans))


def _freed(messages: Sequence[Message], call: Call, wire: WireFormat, earlier: Earlier) -> Sequence[Message]:
    """The messages without a word of callers that are gone, or had ended; the same object when there is none."""
    frees = frees_calls(wire)
    named = {name for message in messages for name in _callers(message)}
    if frees is None or not named:
        return messages
    if gone := named - server_calls(messages)[0]:
        gone -= server_calls(earlier.messages())[0]
    early = _answered_too_late(messages) if wire.answers_server_calls else {}
    if not gone and not early:
        return messages
    out: list[Message] = []
    for index, message in enumerate(messages):
        wrong = gone | early.get(index, set())
        if wrong.isdisjoint(_callers(message)):
            out.append(message)
            continue
        out.append(frees.without_callers(message, wrong))
        for each in (message, out[-1]):
            call.note(each, "the code that made the call is not in the request, or had ended")
    return out


def _answered_too_late(messages: Sequence[Message]) -> dict[int, set[str]]:
    """By message, the callers in it that ended before what they called was answered: they called nothing, then."""
    waiting: dict[str, tuple[int, str]] = {}
    found: dict[int, set[str]] = {}
    for index, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, ToolCall) and part.caller is not None:
                waiting[part.id] = index, part.caller
            elif isinstance(part, ToolResult):
                waiting.pop(part.call_id, None)
            elif isinstance(part, Opaque) and part.closes is not None:
                for place, caller in waiting.values():
                    if caller == part.closes:
                        found.setdefault(place, set()).add(caller)
    return found


def _callers(message: Message) -> Iterator[str]:
    for part in message.parts:
        if isinstance(part, (ToolCall, ToolResult, Opaque)) and part.caller is not None:
            yield part.caller


def _without(message: Message, halves: set[int]) -> Message | None:
    kept = tuple(part for part in message.parts if id(part) not in halves)
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
    unanswered = pairs.unanswered[index]
    if unanswered:
        call.remark(f"answered {len(unanswered)} tool call(s) without a result: {', '.join(c.id for c in unanswered)}")
    made = wire.synthetic_result(unanswered, lost_result) if unanswered else ()
    for message in made:
        call.note(message, f"no result is there of: {', '.join(result.call_id for result in message.results)}")
    return [*made, *pairs.answers_after[index]]


@define
class _Renaming:
    """Which names the repeated call ids of a history get."""

    wire: WireFormat
    seen: set[str]
    earlier: AbstractSet[str]
    names: dict[str, deque[str]] = field(factory=dict)

    def begin_turn(self) -> None:
        if not self.wire.unique_ids:
            self.names.clear()
            self.seen.clear()

    def of_call(self, call_id: str) -> str:
        name = self._free(call_id) if self._taken(call_id) else call_id
        self.seen.add(name)
        self.names.setdefault(call_id, deque()).append(name)
        return name

    def _taken(self, name: str) -> bool:
        return name in self.seen or (self.wire.unique_ids and name in self.earlier)

    def _free(self, call_id: str) -> str:
        """The id with a number that is free, the one below being taken: found by doubling, since one may come often."""
        taken, free = 1, 2
        if self.wire.numbered(call_id, free) == call_id:
            return call_id  # none that is sent
        while self._taken(self.wire.numbered(call_id, free)):
            taken, free = free, free * 2
        while free - taken > 1:
            middle = (taken + free) // 2
            if self._taken(self.wire.numbered(call_id, middle)):
                taken = middle
            else:
                free = middle
        return self.wire.numbered(call_id, free)

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
