"""Repair a broken history: pairs of calls and results, turns on the wrong side, ids, halves of server calls.

What a user's stage made is mended as a history is at the entry, or refused by name (``sendable``).
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set as AbstractSet
from itertools import groupby
from operator import itemgetter

from attrs import define, evolve, field, frozen

from agentctx.changes import Matched
from agentctx.errors import BrokenPair, StageError
from agentctx.formats.native import joined, without_callers
from agentctx.message import Context, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult, is_marker
from agentctx.protocols import Call, ContextStrategy, library_stage
from agentctx.unit import GO_ON, RoundRules, broken_pair, only_results, open_at_end, server_calls
from agentctx.validators import TEXT
from agentctx.wire_format import Repaired, WireFormat


@define(eq=False, repr=False)
class Pairs:
    """Where everything goes so that every pair is whole.

    Args:
        answers_after: For the last message of an assistant run, the result messages that shall follow it although
            they stand elsewhere.
        unanswered: For the last message of a run, its calls that have no result anywhere.
        moved_whole: Indexes of result messages that leave their place as they are (or are dropped).
        taken_apart: Indexes of messages that lose their results and keep their words.
        reasons: What is said about messages, for the report.
    """

    answers_after: dict[int, list[Message]] = field(factory=dict)
    unanswered: dict[int, tuple[ToolCall, ...]] = field(factory=dict)
    moved_whole: set[int] = field(factory=set)
    taken_apart: set[int] = field(factory=set)
    reasons: list[tuple[Message, str]] = field(factory=list)


LOST_RESULT = "[no result: the tool call was interrupted]"
"""What answers a call whose result is lost."""


def stands_in(result: ToolResult) -> bool:
    """Whether a result only holds the place of one that may still come."""
    return result.interim or result.text == LOST_RESULT


@define(eq=False, repr=False)
class _Waiting:
    """A call and the last message of the run that made it."""

    call: ToolCall
    run_end: int
    result: tuple[int, ToolResult] | None = None


def pair_results(messages: Sequence[Message], rules: RoundRules) -> Pairs:
    """Give every result its call: the nearest open one before it with its id, else the nearest open one after it.

    Args:
        messages: The transcript.
        rules: The rules of the format for tool rounds.
    """
    ends = _run_ends(messages, merges_turns=rules.merges_turns)
    calls, spare = _assign(messages, ends)
    _assign_early(calls, spare)
    pairs = Pairs()
    _place(messages, calls, pairs, anywhere=rules.results_anywhere)
    return pairs


def _run_ends(messages: Sequence[Message], *, merges_turns: bool) -> dict[int, int]:
    """For each assistant message, the last message of its run."""
    ends: dict[int, int] = {}
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].role == "assistant":
            joins = merges_turns and index + 1 in ends
            ends[index] = ends[index + 1] if joins else index
    return ends


def _assign(
    messages: Sequence[Message], ends: dict[int, int]
) -> tuple[list[_Waiting], dict[str, list[tuple[int, ToolResult]]]]:
    calls: list[_Waiting] = []
    open_calls: dict[str, list[deque[_Waiting]]] = defaultdict(list)  # by id, those of each turn
    spare: dict[str, list[tuple[int, ToolResult]]] = defaultdict(list)
    held: dict[str, _Waiting] = {}
    for index, message in enumerate(messages):
        for part in message.parts:
            if isinstance(part, ToolCall) and index in ends:
                waiting = _Waiting(part, ends[index])
                calls.append(waiting)
                _ask(open_calls[part.id], waiting)
            elif isinstance(part, ToolResult):
                taker: _Waiting | None
                if open_calls[part.call_id]:
                    taker = _nearest(open_calls[part.call_id])
                elif (taker := held.pop(part.call_id, None)) is not None and taker.result is not None:
                    spare[part.call_id].append(taker.result)  # it only held the place of this one
                if taker is None:
                    spare[part.call_id].append((index, part))
                    continue
                taker.result = (index, part)
                if stands_in(part):
                    held[part.call_id] = taker
    return calls, spare


def _ask(turns: list[deque[_Waiting]], waiting: _Waiting) -> None:
    if turns and turns[-1][0].run_end == waiting.run_end:
        turns[-1].append(waiting)
    else:
        turns.append(deque((waiting,)))


def _nearest(turns: list[deque[_Waiting]]) -> _Waiting:
    """Take the first open call of the nearest turn."""
    first = turns[-1].popleft()
    if not turns[-1]:
        turns.pop()
    return first


def _assign_early(calls: list[_Waiting], spare: dict[str, list[tuple[int, ToolResult]]]) -> None:
    """A call that nobody answered takes the last result that came before it and had no call."""
    left = {name: deque(sorted(found, key=itemgetter(0))) for name, found in spare.items()}
    before: dict[str, list[tuple[int, ToolResult]]] = defaultdict(list)
    for waiting in calls:
        later, earlier = left.get(waiting.call.id), before[waiting.call.id]
        while later and later[0][0] < waiting.run_end:
            earlier.append(later.popleft())
        if waiting.result is None and earlier:
            waiting.result = earlier.pop()


def _place(messages: Sequence[Message], calls: list[_Waiting], pairs: Pairs, *, anywhere: bool) -> None:
    by_run: dict[int, list[_Waiting]] = defaultdict(list)
    home: dict[int, dict[int, int]] = defaultdict(dict)
    for waiting in calls:
        by_run[waiting.run_end].append(waiting)
        if waiting.result is not None:
            index, part = waiting.result
            home[index][id(part)] = waiting.run_end
    settled: set[int] = set()
    later = _all_later(messages, home) if anywhere else set()
    for run_end, waits in by_run.items():
        in_place = later or _in_place(messages, run_end, _last_result(waits), home)
        settled |= in_place
        _follow(messages, run_end, waits, in_place, pairs)
    _take_apart(messages, home, settled, pairs)


def _last_result(waits: list[_Waiting]) -> int:
    """The index of the last message that answers a run."""
    return max((waiting.result[0] for waiting in waits if waiting.result is not None), default=-1)


def _all_later(messages: Sequence[Message], home: dict[int, dict[int, int]]) -> set[int]:
    """The messages whose results all stand after the turns of their calls."""
    return {
        index
        for index, owners in home.items()
        if all(owners.get(id(part), index) < index for part in messages[index].results)
    }


def _in_place(messages: Sequence[Message], run_end: int, last: int, home: dict[int, dict[int, int]]) -> set[int]:
    """The messages directly after a run whose results are all results of this run.

    Words may stand with the last of its results only (at the index ``last``): the model hears results first.
    """
    found: set[int] = set()
    index = run_end + 1
    while index < len(messages):
        results = messages[index].results
        owners = home.get(index, {})
        if not results or any(owners.get(id(part)) != run_end for part in results):
            return found
        if index < last and len(results) < len(messages[index].parts):
            return found
        found.add(index)
        index += 1
    return found


def _follow(messages: Sequence[Message], run_end: int, waits: list[_Waiting], in_place: set[int], pairs: Pairs) -> None:
    moved: dict[int, list[ToolResult]] = defaultdict(list)
    for waiting in waits:
        if waiting.result is not None and waiting.result[0] not in in_place:
            moved[waiting.result[0]].append(waiting.result[1])
    unanswered = tuple(waiting.call for waiting in waits if waiting.result is None and not waiting.call.optional)
    if moved or unanswered:
        pairs.answers_after[run_end] = [_only(messages[index], results) for index, results in sorted(moved.items())]
        pairs.unanswered[run_end] = unanswered


def _only(message: Message, results: list[ToolResult]) -> Message:
    parts = tuple(results)
    same = len(parts) == len(message.results) and all(a is b for a, b in zip(parts, message.results, strict=True))
    return message if same and _is_only_results(message) else message.with_parts(parts)


def _is_only_results(message: Message) -> bool:
    """Whether it is nothing but its results; in a tool message, what stands beside a result is part of it."""
    return message.role == "tool" or len(message.results) == len(message.parts)


def _take_apart(messages: Sequence[Message], home: dict[int, dict[int, int]], settled: set[int], pairs: Pairs) -> None:
    for index, message in enumerate(messages):
        results = message.results
        if not results or index in settled:
            continue
        orphans = [part for part in results if id(part) not in home.get(index, {})]
        pairs.reasons.append((message, _why(orphans, results)))
        if _is_only_results(message):
            pairs.moved_whole.add(index)
        else:
            pairs.taken_apart.add(index)


def _why(orphans: list[ToolResult], results: tuple[ToolResult, ...]) -> str:
    if not orphans:
        return "the tool result was moved to its call"
    ids = ", ".join(repr(part.call_id) for part in orphans)
    lost = (
        "the tool result has no call, or is one too many"
        if len(orphans) == len(results)
        else "some results have no call"
    )
    return f"{lost}: {ids}"


@library_stage
@frozen
class RepairHistory(ContextStrategy):
    """Orphaned results are dropped, unanswered calls get a result, duplicates go, wrong order is put right.

    What can be kept is kept: a result that stands in the wrong place is moved to its call. Everything done is
    in the report. A legal history comes back as the same object.

    Args:
        lost_result: The text that answers a call whose result is lost.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.testing import assistant, call, transcript, user
        >>> turns = user("Read it."), assistant(call("a", "read")), user("And?")
        >>> messages = transcript("openai-chat", *turns)
        >>> view = await Pipeline().prepare(messages)  # it runs first in every pipeline
        >>> view.messages[2]
        {'role': 'tool', 'tool_call_id': 'a', 'content': '[no result: the tool call was interrupted]'}
    """

    lost_result: str = field(default=LOST_RESULT, validator=TEXT)

    def apply(self, context: Context, call: Call, /) -> Context:
        """Return the context with every pair whole."""
        if call.wire is None:
            return context
        repaired = repair(context.messages, call, call.wire, self.lost_result)
        return context if repaired is None else context.with_messages(tuple(repaired))


@define(eq=False, repr=False)
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


def is_legal(messages: Sequence[Message], wire: WireFormat, earlier: Earlier) -> bool:
    """Whether messages can go out as they stand: a look before ``cleaned`` and ``paired``, and without a reason.

    False also where a call is among them that the provider's server runs, or that nobody has to answer: those take a
    closer look. Where it is True, the calls among them and the results answer each other, every one.

    Args:
        messages: The messages.
        wire: The format.
        earlier: What stands before them.
    """
    if _needs_a_closer_look(messages, wire.rounds.most_calls):
        return False
    ids = [part.id for message in messages for part in message.calls] if wire.rounds.unique_ids else []
    if len(set(ids)) < len(ids) or not earlier.ids.isdisjoint(ids):
        return False
    if wire.repair(messages, earlier.items):
        return False
    if broken_pair(messages, wire.rounds) is not None:
        return False
    return not wire.arrange(messages, earlier.last)


def _needs_a_closer_look(messages: Sequence[Message], most: int | None) -> bool:
    """Whether there is what ``is_legal`` says, more than ``most`` parts in a message, or one on the wrong side."""
    for message in messages:
        if most is not None and len(message.parts) > most:
            return True
        wrong = _ASTRAY.get(message.role, (ToolCall, ToolResult))
        for part in message.parts:
            if isinstance(part, wrong):
                return True
            if isinstance(part, Opaque):
                if part.opens is not None or part.closes is not None or part.caller is not None:
                    return True
            elif isinstance(part, ToolCall):
                if part.optional or part.caller is not None:
                    return True
            elif isinstance(part, ToolResult) and part.caller is not None:
                return True
    return False


def cleaned(messages: Sequence[Message], call: Call, wire: WireFormat, earlier: Earlier) -> Sequence[Message]:
    """The messages repaired as far as no result has to be looked for; the same object when they are fine.

    Args:
        messages: As of ``repair``.
        call: As of ``repair``.
        wire: As of ``repair``.
        earlier: As of ``repair``.
    """
    sided = _of_so_many_calls(_on_their_sides(messages, call), call, wire.rounds.most_calls)
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
    broken = broken_pair(current, wire.rounds) is not None
    if broken:
        current = _rebuild(current, call, wire, lost_result)
    if broken or wire.rounds.unique_ids:
        ids = _Renaming(wire, set() if seen is None else seen, earlier.ids)
        current = _rename_repeated(current, call, ids)
    return arranged_by(current, call, wire, earlier.last)


def arranged_by(
    messages: Sequence[Message], call: Call, wire: WireFormat, standing_before: Message | None = None
) -> Sequence[Message]:
    """Messages whose pairs are whole, in an order and a grouping that the format takes; the same object when they are.

    Args:
        messages: The messages.
        call: Where the reasons are said.
        wire: The format.
        standing_before: The message before them; None at the start of the conversation.
    """
    if not (changes := wire.arrange(messages, standing_before)):
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
    if (name_of := wire.item_name) is None:
        return {}
    return {name: message for message in messages if (name := name_of(message)) is not None}


def _mend(
    messages: Sequence[Message], call: Call, wire: WireFormat, earlier: Mapping[str, Message]
) -> list[Message] | None:
    if not (faults := wire.repair(messages, earlier)):
        return None
    new: dict[int, Message | None] = {}
    for index, replacement, why in faults:
        call.note(messages[index], why)
        new[index] = replacement
    repaired = [new.get(index, message) for index, message in enumerate(messages)]
    return [message for message in repaired if message is not None]


def _on_their_sides(messages: Sequence[Message], call: Call) -> Sequence[Message]:
    """The messages with calls in those of the assistant, and results in none of these; the same object when so."""
    if not any(map(astray, messages)):
        return messages
    out: list[Message] = []
    for message in messages:
        if not (what := astray(message)):
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


def astray(message: Message) -> str:
    """What stands in the message and belongs to another side: a ``"result"``, a ``"call"``, or ``""`` for nothing."""
    wrong = _ASTRAY.get(message.role, (ToolCall, ToolResult))
    for part in message.parts:
        if isinstance(part, wrong):
            return "result" if isinstance(part, ToolResult) else "call"
    return ""


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
        if message.role != "assistant" and not wire.rounds.results_anywhere and not only_results(message):
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
    if orphans and wire.rounds.results_anywhere:
        _, opened = server_calls(earlier.messages())
        orphans = [part for part in orphans if part.closes not in opened]
    if waiting and wire.rounds.server_results:
        still = open_at_end(messages)
        unanswered += (part for name, part in waiting.items() if name not in still)
    return set(map(id, (*orphans, *unanswered) if wire.rounds.server_results else orphans))


def _freed(messages: Sequence[Message], call: Call, wire: WireFormat, earlier: Earlier) -> Sequence[Message]:
    """The messages without a word of callers that are gone, or had ended; the same object when there is none."""
    named = {name for message in messages for name in _callers(message)}
    if not named:
        return messages
    if gone := named - server_calls(messages)[0]:
        gone -= server_calls(earlier.messages())[0]
    early = _answered_too_late(messages) if wire.rounds.server_results else {}
    if not gone and not early:
        return messages
    out: list[Message] = []
    for index, message in enumerate(messages):
        wrong = gone | early.get(index, set())
        if wrong.isdisjoint(_callers(message)):
            out.append(message)
            continue
        out.append(without_callers(message, wrong))
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
    pairs = pair_results(messages, wire.rounds)
    for message, why in pairs.reasons:
        call.note(message, why)
    out: list[Message] = []
    given = {message.identity for message in messages}
    joins = False  # what brings more results of the turn becomes one with what stands there: some made, or moved
    for index, message in enumerate(messages):
        kept = _stays(message, index, pairs)
        answers = _answers(index, pairs, call, wire, lost_result) if index in pairs.answers_after else ()
        for each in (kept, *answers):
            if joins and each and each.role == "user" and each.results:
                one = joined(out[-1], each, call.note)
                out[-1] = out[-1].with_parts(one.parts) if out[-1].identity in given else one  # as late as what moved
            elif each:
                joins = wire.rounds.merges_turns and each is not kept
                out.append(each)
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


@define(eq=False, repr=False)
class _Renaming:
    """Which names the repeated call ids of a history get."""

    wire: WireFormat
    seen: set[str]
    earlier: AbstractSet[str]
    names: dict[str, deque[str]] = field(factory=dict)

    def begin_turn(self) -> None:
        if not self.wire.rounds.unique_ids:
            self.names.clear()
            self.seen.clear()

    def of_call(self, call_id: str) -> str:
        name = self._free(call_id) if self._taken(call_id) else call_id
        self.seen.add(name)
        self.names.setdefault(call_id, deque()).append(name)
        return name

    def _taken(self, name: str) -> bool:
        return name in self.seen or (self.wire.rounds.unique_ids and name in self.earlier)

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
    for message in messages:
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


_NAMED = 3
"""So many places are named where something was mended."""


def sendable(name: str, before: Context, after: Context, found: Matched, call: Call) -> Context:
    """What a stage returned, with what it made or changed as the provider takes it; the same object when it does.

    Args:
        name: The stage's name.
        before: What it was given.
        after: What it returned, with whole pairs.
        found: The two, laid beside each other.
        call: What it was told; why something had to be mended is said there.

    Raises:
        StageError: If what it made cannot be mended; names the message.
    """
    places = sorted({*found.added, *(position for _, position in found.edited)})
    if call.wire is None or not places:
        return after
    for place in places:
        _refuse(name, place, after.messages[place])
    messages = _own_objects(after.messages, found)
    faults = _faults(messages, places, call, call.wire)
    if not faults and not _repeats_an_id(messages, places, call, call.wire):
        return after
    _say(messages, faults, before, found, call)
    return after.with_messages(_made_whole(name, messages, faults, call, call.wire))


def _refuse(name: str, place: int, message: Message) -> None:
    if what := astray(message):
        raise StageError(name, f"messages[{place}] of what it returned is of the {message.role} and holds a {what}")
    for part in message.parts:
        if isinstance(part, (ToolCall, ToolResult)) and part.source is None and not _is_named(part):
            kind = type(part).__name__
            raise StageError(name, f"messages[{place}] of what it returned holds a {kind} without an id or a name")


def _is_named(part: ToolCall | ToolResult) -> bool:
    return bool(part.id and part.name) if isinstance(part, ToolCall) else bool(part.call_id)


def _own_objects(messages: Sequence[Message], found: Matched) -> list[Message]:
    """The messages; one that a stage put there once more is another object, which may become something else."""
    own = list(messages)
    for place in found.added:
        own[place] = own[place].with_parts(own[place].parts)
    return own


def _faults(messages: Sequence[Message], places: Sequence[int], call: Call, wire: WireFormat) -> list[Repaired]:
    """What repair finds wrong with the messages at these places."""
    new, looked_at = set(places), _with_what_follows(messages, places)
    others: Iterable[Message] = ()
    if names_of([messages[place] for place in places], wire):
        others = (*_before(call), *(message for place, message in enumerate(messages) if place not in new))
    found = wire.repair([messages[place] for place in looked_at], names_of(list(others), wire))
    return [(looked_at[index], instead, why) for index, instead, why in found if looked_at[index] in new]


def _with_what_follows(messages: Sequence[Message], places: Sequence[int]) -> list[int]:
    """The places, that of what follows reasoning at them, and the last: repair asks what these are."""
    wanted = {*places, len(messages) - 1}
    for place in places:
        follower = place
        while follower + 1 < len(messages) and _only_thinks(messages[follower]):
            follower += 1
            wanted.add(follower)
    return sorted(wanted)


def _only_thinks(message: Message) -> bool:
    return all(isinstance(part, Thinking) for part in message.parts)


def _repeats_an_id(messages: Sequence[Message], places: Sequence[int], call: Call, wire: WireFormat) -> bool:
    """Whether the id of a call in these messages is that of another call, where the provider refuses that."""
    if not wire.rounds.unique_ids or not any(messages[place].calls for place in places):
        return False
    ids = [each.id for message in (*_before(call), *messages) for each in message.calls]
    return len(set(ids)) < len(ids)


def _before(call: Call) -> tuple[Message, ...]:
    return () if call.internals.before is None else call.internals.before()


def _say(messages: Sequence[Message], faults: Sequence[Repaired], before: Context, found: Matched, call: Call) -> None:
    """Say in the report what had to be mended."""
    origins = {position: before.messages[origin] for origin, position in found.edited}
    for place, instead, why in faults:
        for message in (messages[place], origins.get(place), instead):
            if message is not None:
                call.note(message, why)
    if faults:
        named = "; ".join(f"messages[{place}]: {why}" for place, _, why in faults[:_NAMED])
        more = f"; and {len(faults) - _NAMED} more" if len(faults) > _NAMED else ""
        call.remark(f"what it returned was mended: {named}{more}")


def _made_whole(
    name: str, messages: Sequence[Message], faults: Sequence[Repaired], call: Call, wire: WireFormat
) -> tuple[Message, ...]:
    """The messages with what was mended, with whole pairs and ids of their own."""
    new = {place: instead for place, instead, _ in faults}
    mended = [kept for place, message in enumerate(messages) if (kept := new.get(place, message)) is not None]
    earlier = _before(call)
    known = Earlier(
        ids=frozenset(each.id for message in earlier for each in message.calls),
        last=earlier[-1] if earlier else None,
        messages=lambda: earlier,
    )
    whole = tuple(paired(mended, call, wire, earlier=known))
    problem = broken_pair(whole, wire.rounds)
    if problem is not None:
        raise BrokenPair(name, f"returned what cannot be mended: {problem}")
    return whole


GO_ON_MESSAGE = Message("user", (Text(GO_ON),))
"""Comes last where what was last when it was passed in stands further up, or cannot be sent."""


ASKING = frozenset({"user", "tool"})


def lacks_end(message: Message, last: str, call: Call) -> bool:
    """Whether the user has to speak behind this message at the end, which the model refuses there, or goes on with.

    Args:
        message: The last message of the request.
        last: The role of the last message that was passed in: to end on the assistant is up to the caller.
        call: What the stages are told.
    """
    return last in ASKING and call.wire is not None and not call.wire.may_end_on(message)
