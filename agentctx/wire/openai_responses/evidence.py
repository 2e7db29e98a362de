"""How surely a request is a Responses request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentctx.wire.native import mapping_or_none
from agentctx.wire.openai_responses.kinds import CALLS, OUTPUTS, REFERENCE, ROLES, SETTINGS, kind_of

IMPOSSIBLE, POSSIBLE, LIKELY, CERTAIN = 0, 1, 5, 10

_ITEMS = frozenset({*CALLS, *OUTPUTS, *SETTINGS, REFERENCE, "message", "reasoning"})
_CHAT_KEYS = ("tool_calls", "function_call", "tool_call_id")
_BLOCKS = frozenset({"input_text", "output_text", "input_image", "input_file", "input_audio"})
_FOREIGN = frozenset(
    {"text", "image_url", "file", "image", "document", "thinking", "redacted_thinking", "tool_use", "tool_result"}
    | {"server_tool_use", "video_url"}
)


def evidence(request: Mapping[str, Any]) -> int:
    """0 impossible, 1 possible, 5 likely, 10 certain. Looks no further than the first certain sign."""
    items = request.get("input", request.get("messages"))
    if isinstance(items, str):
        return LIKELY if "input" in request else IMPOSSIBLE
    if not isinstance(items, Sequence) or "contents" in request:
        return IMPOSSIBLE
    best = _tools(request.get("tools"))
    if best in (IMPOSSIBLE, CERTAIN):
        return best
    if "input" in request or "instructions" in request:
        best = LIKELY
    for item in items:
        found = _item(item)
        if found in (IMPOSSIBLE, CERTAIN):
            return found
        best = max(best, found)
    return best


def _tools(tools: object) -> int:
    """Functions are described one level higher than in Chat Completions."""
    if not isinstance(tools, Sequence) or isinstance(tools, str) or not tools:
        return POSSIBLE
    first = mapping_or_none(tools[0]) or {}
    kind = first.get("type")
    if kind in ("function", "custom"):
        return (
            CERTAIN if isinstance(first.get("name"), str) and mapping_or_none(first.get(kind)) is None else IMPOSSIBLE
        )
    foreign = "input_schema" in first or "functionDeclarations" in first or "toolSpec" in first
    return IMPOSSIBLE if foreign else POSSIBLE


def _item(native: object) -> int:
    item = mapping_or_none(native)
    if item is None or any(item.get(key) is not None for key in _CHAT_KEYS):
        return IMPOSSIBLE
    kind = kind_of(item)
    if kind == "message":
        # The messages of Anthropic's answers have the type "message" too, and blocks of their own.
        said = _blocks(item.get("content")) if item.get("role") in ROLES else IMPOSSIBLE
        return CERTAIN if said and isinstance(item.get("type"), str) else said
    if kind in _ITEMS:
        return CERTAIN
    return LIKELY if kind and "content" not in item else POSSIBLE if kind else IMPOSSIBLE


def _blocks(content: object) -> int:
    if not isinstance(content, (list, tuple)):
        return POSSIBLE if content is None or isinstance(content, str) else IMPOSSIBLE
    for block in content:
        kind = (mapping_or_none(block) or {}).get("type")
        if not isinstance(kind, str) or kind in _FOREIGN:
            return IMPOSSIBLE
        if kind in _BLOCKS:
            return CERTAIN
    return POSSIBLE
