"""How surely a request is in the generateContent format."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from agentctx.wire.gemini.bare import bare_parts, is_bare
from agentctx.wire.gemini.names import DATA
from agentctx.wire.gemini.read import ROLES
from agentctx.wire.native import fields_or_none

_POSSIBLE, _LIKELY, _SURE = 1, 4, 8
_SURE_ROLES = frozenset({"model", "function"})


def recognise(request: Mapping[str, Any]) -> int:
    """0 when it cannot be this format, more with every specific sign."""
    contents = request.get("contents", request.get("messages"))
    named = "contents" in request
    if named and isinstance(contents, str):
        return _LIKELY
    if not isinstance(contents, (list, tuple)):
        return 0
    if not contents:
        return _LIKELY if named else 0
    if not named and not any(_is_sign(content) for content in contents):
        return 0
    best = _POSSIBLE
    for content in contents:
        sign = _sign(content)
        best = max(best, sign)
        if sign == 0 or best == _SURE:
            return sign and best + _LIKELY * named
    return best + _LIKELY * named


def _is_sign(native: object) -> bool:
    """Whether it can be told from a mere text or mapping: a content, or an object of the SDK."""
    return bare_parts(native) is None or not isinstance(native, (str, list, tuple, Mapping))


def _sign(native: object) -> int:
    """What one content says; 0 when it is none of this format."""
    if (bare := bare_parts(native)) is not None:
        return _POSSIBLE if all(map(is_bare, bare)) else 0
    content = fields_or_none(native)
    if content is None or "content" in content or "type" in content:
        return 0
    role, parts = content.get("role"), content.get("parts")
    if role is not None and not isinstance(role, str):
        return 0
    if not isinstance(parts, (list, tuple)):
        return _LIKELY if parts is None and role in _SURE_ROLES else 0
    if any((fields_or_none(part) or {}).keys() & DATA for part in parts):
        return _SURE
    return _LIKELY if role in ROLES else 0
