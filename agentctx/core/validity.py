"""One way in which a request breaks a provider's rules."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from agentctx.core.message import ROLES, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult


@frozen
class Violation:
    """A rule that a request breaks.

    Args:
        rule: The rule's name, for example ``"chat.tool_orphan"``.
        severity: ``"error"`` when the provider refuses the request, ``"warn"`` when some endpoints do.
        index: Index of the message (or item) concerned, or None when it is the request as a whole.
        path: The place, as the provider writes it, for example ``messages[2].tool_call_id``.
        message: The provider's own words where they are known.

    Example:
        >>> from agentctx import validate
        >>> found = validate({"messages": [{"role": "tool", "tool_call_id": "a", "content": "…"}]}, "openai-chat")
        >>> found[0].severity, found[0].path
        ('error', 'messages.[0].role')
    """

    rule: str
    severity: Literal["error", "warn"]
    index: int | None
    path: str
    message: str

    def __str__(self) -> str:
        """One line: severity, place, rule and the provider's words."""
        return f"{self.severity}: {self.path}: [{self.rule}] {self.message}"


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
