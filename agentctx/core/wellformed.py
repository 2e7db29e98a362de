"""Whether what somebody else made is a message at all."""

from __future__ import annotations

from agentctx.core.ledger import ROLES
from agentctx.core.message import Message
from agentctx.core.parts import Media, Opaque, Text, Thinking, ToolCall, ToolResult

_PARTS = (Text, Media, Thinking, ToolCall, ToolResult, Opaque)


def flaw(message: object) -> tuple[str, str] | None:
    """The place in it that is wrong (for example ``.role``; empty: all of it) and what it is; None: a message."""
    if not isinstance(message, Message):
        return "", f"no Message, but {type(message).__name__}"
    if message.role not in ROLES:
        return ".role", f"{message.role!r}, not one of {', '.join(ROLES)}"
    parts: tuple[object, ...] = message.parts
    for place, part in enumerate(parts):
        if not isinstance(part, _PARTS):
            return f".parts[{place}]", f"no part, but {type(part).__name__}"
    return None
