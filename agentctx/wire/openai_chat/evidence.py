"""How surely a request is a Chat Completions request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from agentctx.wire.native import mapping_or_none

IMPOSSIBLE, POSSIBLE, LIKELY, CERTAIN = 0, 1, 5, 10

_ROLES = {"tool": CERTAIN, "function": CERTAIN, "developer": CERTAIN, "system": LIKELY}
_CALL_KEYS = frozenset({"tool_calls", "function_call", "tool_call_id"})
# What an answer of this format has beside its content, if only as null; no other format has it there.
_ANSWER_KEYS = frozenset({"refusal", "audio", "annotations", *_CALL_KEYS})
_BLOCKS = frozenset({"image_url", "input_audio", "file", "refusal", "video_url"})
_FOREIGN = frozenset(
    {"tool_use", "tool_result", "server_tool_use", "thinking", "redacted_thinking", "image", "document"}
    | {"input_text", "output_text", "input_image", "input_file"}
)
_OPTIONS = frozenset(
    {"response_format", "functions", "max_completion_tokens", "frequency_penalty", "presence_penalty", "logit_bias"}
)


def evidence(request: Mapping[str, Any]) -> int:
    """0 impossible, 1 possible, 5 likely, 10 certain. Looks no further than the first certain sign."""
    messages = request.get("messages")
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        return IMPOSSIBLE
    best = _tools(request.get("tools"))
    if best in (IMPOSSIBLE, CERTAIN):
        return best
    if not _OPTIONS.isdisjoint(request):
        best = LIKELY
    for message in messages:
        found = _message(message)
        if found in (IMPOSSIBLE, CERTAIN):
            return found
        best = max(best, found)
    return best


def _tools(tools: object) -> int:
    if not isinstance(tools, Sequence) or isinstance(tools, str) or not tools:
        return POSSIBLE
    first = mapping_or_none(tools[0]) or {}
    kind = first.get("type")
    if kind in ("function", "custom") and mapping_or_none(first.get(kind)) is not None:
        return CERTAIN
    return POSSIBLE if kind == "function" or "parameters" in first else IMPOSSIBLE


def _message(message: object) -> int:
    native = mapping_or_none(message)
    if native is None or not isinstance(role := native.get("role"), str) or isinstance(native.get("type"), str):
        return IMPOSSIBLE  # Messages of Responses and of Anthropic's answers have a type, these have none.
    content = native.get("content")
    said = _blocks(content) if isinstance(content, list | tuple) else POSSIBLE
    own = role == "assistant" and not _ANSWER_KEYS.isdisjoint(native)
    if said == IMPOSSIBLE or own or any(native.get(key) is not None for key in _CALL_KEYS):
        return said and CERTAIN
    return said if role in ("user", "assistant") else _ROLES.get(role, IMPOSSIBLE)


def _blocks(blocks: Sequence[Any]) -> int:
    """A block without a type is another provider's; a type that nobody knows may be a dialect's."""
    for block in blocks:
        kind = "text" if isinstance(block, str) else (mapping_or_none(block) or {}).get("type")
        if not isinstance(kind, str) or kind in _FOREIGN:
            return IMPOSSIBLE
        if kind in _BLOCKS:
            return CERTAIN
    return POSSIBLE
