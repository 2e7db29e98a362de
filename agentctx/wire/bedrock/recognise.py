"""How surely a request is in the Converse format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentctx.wire.bedrock.read import ROLES, kind_of
from agentctx.wire.native import fields_or_none

_POSSIBLE, _LIKELY, _SURE = 1, 4, 8
_OWN_KEYS = ("modelId", "toolConfig", "inferenceConfig", "guardrailConfig", "additionalModelRequestFields")
_SHARED = frozenset({"text", "image", "document", "video", "audio"})
_OWN_BLOCKS = frozenset(
    {"toolUse", "toolResult", "reasoningContent", "cachePoint", "guardContent", "citationsContent", "searchResult"}
    | {"toolAddition", "toolRemoval"}
)


def recognise(request: Mapping[str, Any]) -> int:
    """0 when it cannot be this format, more with every specific sign."""
    messages = request.get("messages")
    if not isinstance(messages, (list, tuple)):
        return 0
    signs = _LIKELY * any(request.get(key) is not None for key in _OWN_KEYS)
    best = _POSSIBLE if signs else 0
    for message in messages:
        sign = _message(message)
        if sign is None:
            return 0
        best = max(best, sign)
        if best == _SURE:
            break
    return best + signs if best else 0


def _message(native: object) -> int | None:
    """What one message says; None when it rules the format out."""
    message = fields_or_none(native)
    if message is None or message.get("role") not in ROLES or "type" in message:
        return None
    content = message.get("content")
    if not isinstance(content, (list, tuple)):
        return None
    best = 0
    for item in content:
        block = fields_or_none(item)
        if block is None or "type" in block:
            return None
        kind = kind_of(block)
        if kind in _OWN_BLOCKS:
            return _SURE
        best = max(best, _LIKELY if kind in _SHARED else 0)
    return best
