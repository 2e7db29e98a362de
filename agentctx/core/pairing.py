"""Whether every tool result follows its call, and every call has its result. One pass, no provider in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from agentctx.core.marker import is_marker
from agentctx.core.message import Message
from agentctx.core.pace import paced
from agentctx.core.parts import Opaque, Thinking, ToolCall, ToolResult, server_ends
from agentctx.core.units import units


def broken_pair(
    messages: Sequence[Message], *, merges_turns: bool = True, results_anywhere: bool = False, known: int = 0
) -> str | None:
    """The first broken pair, named by message index and call id, or None when all pairs are whole.

    Args:
        messages: The transcript.
        merges_turns: Whether the results of a run of assistant messages may follow the run as a whole; else each
            assistant message must be answered before the next.
        results_anywhere: Whether a result may stand anywhere after its call.
        known: So many messages at the start stand as they did in a transcript whose pairs are all whole. They are not
            looked at again, but for the round that ``known`` is in; where results may stand anywhere, all are.
    """
    waiting: dict[str, int] = {}
    optional: set[str] = set()
    in_run = False
    start = _run_start(messages, known) if known and not results_anywhere else 0
    for index in paced(range(start, len(messages))):
        message = messages[index]
        if message.role == "assistant":
            if waiting and not results_anywhere and not (in_run and merges_turns):
                return _unanswered(waiting)
            in_run = True
            twice = _open_calls(message, index, waiting, optional)
            if twice is not None:
                return twice
            continue
        in_run = False
        problem = _take_results(message, index, waiting, anywhere=results_anywhere)
        if problem is not None:
            return problem
    lost = {call_id: index for call_id, index in waiting.items() if call_id not in optional}
    return _unanswered(lost) if lost else None


def _run_start(messages: Sequence[Message], known: int) -> int:
    """The last place before ``known`` at which a run of assistant messages begins: no call waits there."""
    places = range(known - 1, 0, -1)
    begins = (place for place in places if messages[place].role == "assistant" != messages[place - 1].role)
    return next(begins, 0)


def _open_calls(message: Message, index: int, waiting: dict[str, int], optional: set[str]) -> str | None:
    for part in message.parts:
        if isinstance(part, ToolCall):
            if part.optional:
                optional.add(part.id)
            elif optional:
                optional.discard(part.id)
            if part.id in waiting:
                return f"messages[{index}]: the call id {part.id!r} occurs twice in one turn"
            waiting[part.id] = index
    return None


def _take_results(message: Message, index: int, waiting: dict[str, int], *, anywhere: bool) -> str | None:
    only_results = True
    for part in message.parts:
        if not isinstance(part, ToolResult):
            only_results = only_results and is_marker(part)  # which says nothing
        elif waiting.pop(part.call_id, None) is None:
            return f"messages[{index}]: the tool result for {part.call_id!r} does not follow its call"
    if waiting and not anywhere and not (only_results and message.parts):
        return _unanswered(waiting)
    return None


def _unanswered(waiting: dict[str, int]) -> str:
    call_id, index = next(iter(waiting.items()))
    return f"messages[{index}]: the tool call {call_id!r} has no tool result after it"


def waits(messages: Sequence[Message]) -> bool:
    """Whether a call has no result; one that stands in a wrong place is one."""
    waiting = Counter(call.id for message in messages for call in message.calls)
    waiting.subtract(result.call_id for message in messages for result in message.results)
    return any(count > 0 for count in waiting.values())


def open_at_end(messages: Sequence[Message]) -> frozenset[str]:
    """The ids of server-side calls that may still be answered.

    The last assistant turn opened them; or one before it, and every turn since then called tools whose results are all
    that followed it.
    """
    index = len(messages)
    opened: set[str] = set()
    closed: set[str] = set()
    goes_on = True
    while goes_on:
        while index > 0 and messages[index - 1].role != "assistant" and only_results(messages[index - 1]):
            index -= 1
        goes_on = False
        while index > 0 and messages[index - 1].role == "assistant":
            index -= 1
            goes_on = bool(messages[index].calls) or goes_on
            _note_server_calls(messages[index], opened, closed)
    return frozenset(opened)


def _note_server_calls(message: Message, opened: set[str], closed: set[str]) -> None:
    """Note what the message opens that is not in ``closed``, and what it closes; from its end to its beginning."""
    for call, opens in reversed(tuple(server_ends(message.parts))):
        if not opens:
            closed.add(call)
        else:
            (closed.discard if call in closed else opened.add)(call)


def server_calls(messages: Iterable[Message]) -> tuple[frozenset[str], frozenset[str]]:
    """The ids of all server-side calls, and of those that nothing answers."""
    opened: set[str] = set()
    waiting: set[str] = set()
    for message in messages:
        for call, opens in server_ends(message.parts):
            (waiting.add if opens else waiting.discard)(call)
            if opens:
                opened.add(call)
    return frozenset(opened), frozenset(waiting)


def unfinished_from(messages: Sequence[Message]) -> int:
    """Where the end begins that depends on what comes next; how many messages there are when nothing does.

    A round whose calls wait for results, reasoning that nothing follows yet, a setting at the end.
    """
    place = len(messages)
    for unit in reversed(units(messages)):
        said = unit.of(messages)
        if not unit.is_round and said[-1].results and only_results(said[-1]):
            continue  # it has no call: what is before it is the end
        if not leads_on(said[-1]) and not (unit.is_round and (waits(said) or open_at_end(said))):
            break
        place = unit.start
    return place


def leads_on(message: Message) -> bool:
    """Whether what follows decides whether a message may stand here: it says nothing by itself."""
    if message.role == "assistant":
        return bool(message.parts) and all(isinstance(part, Thinking) for part in message.parts)
    return message.role == "developer" and bool(message.parts) and isinstance(message.parts[0], Opaque)


def only_results(message: Message) -> bool:
    """Whether there is nothing but results of tools in a message."""
    return all(isinstance(part, ToolResult) or is_marker(part) for part in message.parts)
