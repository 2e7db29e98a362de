"""An answer that comes when the conversation has gone on: it belongs to its call, and not at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from agentctx.core.message import Message
from agentctx.core.parts import ToolCall, ToolResult
from agentctx.errors import InvalidInput
from agentctx.protocols import WireFormat
from agentctx.session.record import Record
from agentctx.strategies.pair_results import stands_in


def asked_at(record: Record, natives: Sequence[Any], fresh: Sequence[Message], wire: WireFormat) -> int | None:
    """The index in the history of the first call that new results answer and that is not answered yet.

    None when there is none, as in nearly every step: results answer the calls that they follow.

    Args:
        record: What is known of the conversation.
        natives: The whole history.
        fresh: The new messages.
        wire: The format of the history.
    """
    late = set(_late(record.tail, fresh))
    if not late:
        return None
    found = _in_view(record, late)
    gone = late - {call.id for message in record.view[: record.settled] for call in message.calls}
    if gone and len(record.view) < len(record):
        found += _among_dropped(record, natives, gone, wire)
    return min(found, default=None)


def _late(tail: Iterable[Message], fresh: Iterable[Message]) -> Iterator[str]:
    """The ids of new results whose calls do not stand before them since the last round that is whole."""
    asked = {call.id for message in tail for call in message.calls}
    for message in fresh:
        for part in message.parts:
            if isinstance(part, ToolCall):
                asked.add(part.id)
            elif isinstance(part, ToolResult) and part.call_id not in asked:
                yield part.call_id


def _in_view(record: Record, late: set[str]) -> list[int]:
    """The indexes of calls in the final view that have no answer, or one that only holds its place."""
    asked: dict[str, int | None] = {}
    for message, origin in zip(record.view[: record.settled], record.origins, strict=False):
        for call in message.calls:
            if call.id in late:
                asked[call.id] = origin
        for result in message.results:
            if origin is not None and not stands_in(result):
                asked.pop(result.call_id, None)
    return [origin for origin in asked.values() if origin is not None]


def _among_dropped(record: Record, natives: Sequence[Any], gone: set[str], wire: WireFormat) -> list[int]:
    """The indexes of calls that were left out of the view unanswered."""
    asked: dict[str, int] = {}
    for index, native in enumerate(natives[: len(record)]):
        try:
            message = wire.read_message(native, index)
        except InvalidInput:  # it was edited in place when nobody looked at it any more
            continue
        for call in message.calls:
            if call.id in gone:
                asked[call.id] = index
        for result in message.results:
            asked.pop(result.call_id, None)
    return list(asked.values())
