"""Rules of the Responses API about calls and their answers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from agentctx.core.violation import Violation
from agentctx.wire.openai_responses.kinds import CALLS
from agentctx.wire.openai_responses.mend import CALL_ID_MAX
from agentctx.wire.openai_responses.view import Item, Request, broken, too_long, wrong_type

_WORDED = frozenset({"function_call_output", "custom_tool_call_output"})


def pairs(request: Request) -> Iterator[Violation]:
    """R1 to R3: each call has one answer of its kind, and each answer its call before it, in the order of items."""
    waiting: dict[str, deque[Item]] = {}
    answered: set[str] = set()
    ids: set[str] = set()
    for item in request.items:
        identity = item.call_id
        if not isinstance(identity, str):
            continue
        if item.is_call:
            if item.id is not None and item.id in ids and item.kind != "mcp_approval_request":
                answered.discard(identity)  # the very item again, which is refused as such
            ids.add(item.id or "")
            waiting.setdefault(identity, deque()).append(item)
        else:
            yield from _answer(item, identity, waiting, answered, chained=request.chained)
    for calls in waiting.values():
        for call in calls:
            yield _unanswered(call)


def _answer(
    item: Item, identity: str, waiting: dict[str, deque[Item]], answered: set[str], *, chained: bool
) -> Iterator[Violation]:
    if identity in answered:
        waiting.pop(identity, None)
        yield broken("output_dup", item, "input", _no_call(item))
        return
    if calls := waiting.get(identity):
        answered.add(identity)
        if CALLS[calls.popleft().kind].output != item.kind:
            yield broken("output_kind", item, "input", _no_call(item))
        if not calls:
            del waiting[identity]
    elif chained:
        answered.add(identity)  # the provider may have kept the call
    else:
        yield broken("output_orphan", item, "input", _no_call(item))


def _no_call(item: Item) -> str:
    said = item.kind.replace("_", " ") if item.kind in _WORDED else "function call output"
    return f"No tool call found for {said} with call_id {item.call_id}."


def _unanswered(call: Item) -> Violation:
    text = f"No tool output found for function call {call.call_id}."
    if call.kind == "mcp_approval_request":
        return broken("approval_open", call, "input", text, "warn")
    return broken("call_unanswered", call, "input", text)


def call_ids(request: Request) -> Iterator[Violation]:
    """R11: calls and answers have an id of at most 64 characters; the id of an approval is an item's."""
    for item in request.items:
        if not item.is_call and not item.is_output:
            continue
        identity, path = item.call_id, f"{item.path}.call_id"
        if isinstance(identity, str):
            if len(identity) > CALL_ID_MAX and not item.kind.startswith("mcp_"):
                yield too_long("call_id_length", item, path, CALL_ID_MAX, len(identity))
        elif identity is not None or item.kind != "function_call_output":  # a tool may speak without being asked
            yield wrong_type("call_id", item, path, "a string", identity)
