"""Which result belongs to which call in a broken history: by order first, by id second."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Sequence
from operator import itemgetter

from attrs import define, field

from agentctx.core.message import Message
from agentctx.core.parts import ToolCall, ToolResult


@define
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


@define
class _Waiting:
    """A call and the last message of the run that made it."""

    call: ToolCall
    run_end: int
    result: tuple[int, ToolResult] | None = None


def pair_results(messages: Sequence[Message], *, merges_turns: bool, results_anywhere: bool = False) -> Pairs:
    """Give every result its call: the nearest open one before it with its id, else the nearest open one after it.

    Args:
        messages: The transcript.
        merges_turns: Whether a run of assistant messages is one turn.
        results_anywhere: Whether a result that stands anywhere after its call is in its place.
    """
    ends = _run_ends(messages, merges_turns=merges_turns)
    calls, spare = _assign(messages, ends)
    _assign_early(calls, spare)
    pairs = Pairs()
    _place(messages, calls, pairs, anywhere=results_anywhere)
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
