"""How surely a request is in the Anthropic Messages format."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from agentctx.wire.native import mapping_or_none

_POSSIBLE = 1
_HINT = 1
_LIKELY = 2
_SURE = 5

_ROLES = ("user", "assistant", "system")
_OWN_KEYS = ("anthropic_version", "anthropic_beta", "betas", "thinking", "stop_sequences", "mcp_servers", "top_k")
_FOREIGN_KEYS = ("contents", "input", "modelId", "toolConfig", "inferenceConfig", "response_format")
_FOREIGN_MESSAGE_KEYS = ("tool_calls", "tool_call_id", "function_call")
_OWN_BLOCKS = frozenset(
    {"tool_use", "tool_result", "thinking", "redacted_thinking", "image", "document", "search_result"}
    | {"container_upload", "compaction", "tool_addition", "tool_removal", "mcp_tool_listing", "fallback"}
)
_DATED = re.compile(r"_\d{8}\Z")


def recognise(request: Mapping[str, Any]) -> int:
    """0 when it cannot be this format, 1 when nothing speaks against it, more with every specific sign."""
    messages = request.get("messages")
    if not isinstance(messages, (list, tuple)) or any(request.get(key) is not None for key in _FOREIGN_KEYS):
        return 0
    system, tools = _system(request.get("system")), _tools(request.get("tools"))
    if system is None or tools is None:
        return 0
    signs = system + tools + _HINT * ("claude" in str(request.get("model")))
    signs += _LIKELY * any(request.get(key) is not None for key in _OWN_KEYS)
    for message in messages:
        sign = _message(message)
        if sign is None:
            return 0
        if sign:
            return _POSSIBLE + signs + sign
    return _POSSIBLE + signs


def _system(system: object) -> int | None:
    """What the system prompt says of the format; None when it rules this format out."""
    if system is None:
        return 0
    if isinstance(system, (list, tuple)):
        typed = all((block := mapping_or_none(item)) is not None and "type" in block for item in system)
        return _LIKELY if typed else None
    return _LIKELY


def _tools(tools: object) -> int | None:
    if not isinstance(tools, (list, tuple)) or not tools:
        return 0
    tool = mapping_or_none(tools[0])
    if tool is None or "function" in tool or "toolSpec" in tool or "functionDeclarations" in tool:
        return None
    if "input_schema" in tool or _DATED.search(str(tool.get("type"))):
        return _SURE
    return None if tool.get("type") == "function" else 0


def _message(native: object) -> int | None:
    message = mapping_or_none(native)
    if message is None or message.get("role") not in _ROLES:
        return None
    if any(message.get(key) is not None for key in _FOREIGN_MESSAGE_KEYS):
        return None
    content = message.get("content")
    return _content(content) if isinstance(content, (list, tuple)) else 0


def _content(blocks: list[Any] | tuple[Any, ...]) -> int | None:
    for item in blocks:
        block = mapping_or_none(item)
        kind = None if block is None else block.get("type")
        if not isinstance(kind, str):
            return None
        if kind in _OWN_BLOCKS or kind.endswith(("_tool_use", "_tool_result")):
            return _SURE
        if kind != "text":
            return None
    return 0
