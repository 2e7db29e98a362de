"""Late answers: what is new may answer a call that was decided on long ago, and then all since is decided anew."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import chain
from typing import Any

from agentctx.core.message import Message, ToolCall, ToolResult
from agentctx.engine.repair import REPAIR, stands_in
from agentctx.session.matching import legible
from agentctx.session.record import Record
from agentctx.wire_format import WireFormat


def answered_from(record: Record, natives: Sequence[Any], new: Sequence[Message], wire: WireFormat) -> int | None:
    """The index in the history of the first call that new results answer and that is not answered yet.

    Or of the first result that was left out for want of a call, where a new call has that id and no answer. None when
    there is neither, as in nearly every step: results answer the calls that they follow.

    Args:
        record: What is known of the conversation.
        natives: The whole history.
        new: The new messages.
        wire: The format of the history.
    """
    late, waiting = _open(record.tail, new)
    if late:  # repair may have spelled the id of the call as it will spell that of the result
        repaired = [made for _, made, _ in wire.repair(new, {}) if made is not None]
        late |= {each.call_id for message in repaired for each in message.results}
    found = _early(record, natives, waiting, wire) if waiting else []
    if late:
        # where the place tells which call a result answers, it may be any of that tool
        names = {each.name for message in new for each in message.results if each.call_id in late}
        found += _in_view(record, natives, late, wire, names if wire.reads_places else set())
        gone = late - {call.id for message in record.view[: record.final] for call in message.calls}
        if gone and len(record.view) < len(record.seen):
            found += _among_dropped(record, natives, gone, wire)
    return min(found, default=None)


def _open(tail: Iterable[Message], new: Iterable[Message]) -> tuple[set[str], set[str]]:
    """What is open since the last round that is whole: the ids of results without a call, and of calls without one."""
    waiting: dict[str, int] = {}
    for call in [call for message in tail for call in message.calls]:
        waiting[call.id] = waiting.get(call.id, 0) + 1
    for result in [result for message in tail for result in message.results]:
        if waiting.get(result.call_id, 0) > 0:
            waiting[result.call_id] -= 1
    late: set[str] = set()
    for message in new:
        for part in message.parts:
            if isinstance(part, ToolCall):
                waiting[part.id] = waiting.get(part.id, 0) + 1
            elif isinstance(part, ToolResult):
                if waiting.get(part.call_id, 0) > 0:
                    waiting[part.call_id] -= 1
                else:
                    late.add(part.call_id)
    return late, {name for name, count in waiting.items() if count > 0}


def _early(record: Record, natives: Sequence[Any], waiting: set[str], wire: WireFormat) -> list[int]:
    """The indexes of results of these calls that came before them and were left out."""
    return [
        index
        for index in _repaired(record)
        for message in legible(natives, index, wire)
        if any(result.call_id in waiting for result in message.results)
    ]


def _repaired(record: Record) -> Iterator[int]:
    """The indexes of what repair left out, or edited."""
    for span in record.log.spans:
        if span.stage == REPAIR:
            yield from range(span.start, span.stop)
    yield from (change.index for change in record.log.changes if change.stage == REPAIR)


def _in_view(
    record: Record, natives: Sequence[Any], late: set[str], wire: WireFormat, names: Collection[str | None]
) -> list[int]:
    """The indexes of calls in the final view that have no answer, or one that only holds its place."""
    open_calls: dict[str, deque[int]] = defaultdict(deque)
    found: list[int] = []
    for place, message in enumerate(record.view[: record.final]):
        origin = record.origins[place]
        if origin is not None:
            for name in _late_calls(record, place, natives, late, wire, names):
                open_calls[name].append(origin)
        for result in message.results:
            if open_calls.get(result.call_id):
                answered = open_calls[result.call_id].popleft()
                found += [answered] if origin is None or stands_in(result) else []
    return [*found, *chain.from_iterable(open_calls.values())]


def _late_calls(
    record: Record, place: int, natives: Sequence[Any], late: set[str], wire: WireFormat, names: Collection[str | None]
) -> Iterator[str]:
    """The ids of the calls at this place of the view that late results may be meant for.

    Repair may have given a call another id, so that no two have the same: results come with the one of the caller.
    """
    calls, origin = record.view[place].calls, record.origins[place]
    if not calls or origin is None:
        return iter(())
    given = (
        set() if record.as_given(place) else {each.id for read in legible(natives, origin, wire) for each in read.calls}
    )
    return (call.id for call in calls if call.id in late or call.name in names or not late.isdisjoint(given))


def _among_dropped(record: Record, natives: Sequence[Any], gone: set[str], wire: WireFormat) -> list[int]:
    """The indexes of calls that were left out of the view unanswered."""
    open_calls: dict[str, int] = {}
    for index in range(len(record.seen)):
        for message in legible(natives, index, wire):
            for call in message.calls:
                if call.id in gone:
                    open_calls[call.id] = index
            for result in message.results:
                open_calls.pop(result.call_id, None)
    return list(open_calls.values())
