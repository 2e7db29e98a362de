"""Context editing as Anthropic documents it, on the JSON of a request: nothing here knows how the library reads it.

Source: https://platform.claude.com/docs/en/build-with-claude/context-editing, and the types of its SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from attrs import frozen

BETA = "context-management-2025-06-27"
Object = dict[str, Any]
_WORDS = "[Old tool result content cleared]"


@frozen
class Edited:
    """A request after its edits.

    Args:
        messages: What the model reads.
        tokens: The size of that.
        applied: The edits that were applied, as the response tells them.
    """

    messages: Sequence[Any]
    tokens: int
    applied: list[Object]

    @property
    def cleared(self) -> int:
        """The tokens that went."""
        return sum(edit["cleared_input_tokens"] for edit in self.applied)


def edited(body: Mapping[str, Any], size: Callable[[Sequence[Any]], int]) -> Edited:
    """Apply the edits that a request asks for, in their order.

    Args:
        body: The request.
        size: Counts the request with these messages.
    """
    messages, tokens, applied = body["messages"], size(body["messages"]), []
    for edit in (body.get("context_management") or {}).get("edits", ()):
        read, what = _KINDS[edit["type"]](messages, edit, tokens)
        left = size(read)
        if not any(what.values()) or tokens - left < (edit.get("clear_at_least") or {}).get("value", 0):
            continue
        applied.append({"type": edit["type"], **what, "cleared_input_tokens": tokens - left})
        messages, tokens = read, left
    return Edited(messages, tokens, applied)


Done = tuple[list[Any], dict[str, int]]


def _uses(messages: Sequence[Any], edit: Object, tokens: int) -> Done:
    """Without the results of all uses of tools but the last."""
    uses = [block for message in messages for block in _blocks(message, "tool_use")]
    trigger = edit.get("trigger", {"type": "input_tokens", "value": 100_000})
    if (len(uses) if trigger["type"] == "tool_uses" else tokens) <= trigger["value"]:
        return list(messages), {"cleared_tool_uses": 0}
    open_to = [use["id"] for use in uses if use["name"] not in (edit.get("exclude_tools") or ())]
    old = open_to[: max(0, len(open_to) - edit.get("keep", {"value": 3})["value"])]

    def read(block: Object) -> Object:
        if block.get("type") == "tool_result" and block["tool_use_id"] in old:
            return {**block, "content": _WORDS}
        gone = edit.get("clear_tool_inputs") is True and block.get("type") == "tool_use" and block["id"] in old
        return {**block, "input": {}} if gone else block

    return [_with(message, map(read, _blocks(message))) for message in messages], {"cleared_tool_uses": len(old)}


def _reasoning(messages: Sequence[Any], edit: Object, _tokens: int) -> Done:
    """Without the reasoning of all turns of the assistant but the last."""
    turn, turns = 0, []
    for message in messages:
        asks = message["role"] == "user" and not any(_blocks(message, "tool_result"))
        turn += asks
        turns.append(turn)
    reasoning = sorted({turns[place] for place, message in enumerate(messages) if any(_thoughts(message))})
    keep = edit.get("keep", {"value": 1})
    old = [] if keep in ("all", {"type": "all"}) else reasoning[: max(0, len(reasoning) - keep["value"])]
    read = [
        _with(message, (block for block in _blocks(message) if block not in list(_thoughts(message))))
        if turns[place] in old
        else message
        for place, message in enumerate(messages)
    ]
    return read, {"cleared_thinking_turns": len(old)}


_KINDS: Mapping[str, Callable[[Sequence[Any], Object, int], Done]] = {
    "clear_tool_uses_20250919": _uses,
    "clear_thinking_20251015": _reasoning,
}


def _blocks(message: Object, kind: str | None = None) -> Iterator[Object]:
    content = message["content"]
    for block in content if isinstance(content, list) else ():
        if kind is None or block.get("type") == kind:
            yield block


def _thoughts(message: Object) -> Iterator[Object]:
    return (block for block in _blocks(message) if block.get("type") in ("thinking", "redacted_thinking"))


def _with(message: Object, blocks: Iterator[Object]) -> Object:
    return {**message, "content": list(blocks)} if isinstance(message["content"], list) else message
