"""What a request consists of: tokens by kind of content."""

from __future__ import annotations

from collections.abc import Mapping

from agentctx.core.message import Context, Message, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.core.recap import is_recap
from agentctx.protocols import Meter

KINDS = ("system", "tools", "recap", "user", "assistant", "reasoning", "calls", "results", "other")
"""Every kind, in the order in which a picture stacks them, from below."""

_OF_PARTS: Mapping[type, str] = {Thinking: "reasoning", ToolCall: "calls", ToolResult: "results"}


def kind_of(part: Part, message: Message) -> str:
    """The kind of one part of a message."""
    if is_recap(message):
        return "recap"
    if message.is_system:
        return "system"
    if isinstance(part, Text):
        return "assistant" if message.role == "assistant" else "user"
    return _OF_PARTS.get(type(part), "other")


def tokens_by_kind(message: Message, meter: Meter) -> dict[str, int]:
    """Tokens of a message by kind; they add up to what the message costs.

    What the message itself costs beside its parts belongs to the first of them.
    """
    whole = meter.message(message)
    if not message.parts:
        return {"assistant" if message.role == "assistant" else "user": whole}
    kinds = [kind_of(part, message) for part in message.parts]
    if len(set(kinds)) == 1:
        return {kinds[0]: whole}
    found: dict[str, int] = {kinds[0]: 0}
    for kind, part in zip(kinds[1:], message.parts[1:], strict=True):
        found[kind] = found.get(kind, 0) + meter.parts((part,))
    found[kinds[0]] += whole - sum(found.values())
    return found


def main_kind(message: Message, meter: Meter) -> str:
    """The kind that most of a message is of."""
    found = tokens_by_kind(message, meter)
    return max(found, key=lambda kind: found[kind])


def tokens_of_head(context: Context, meter: Meter) -> dict[str, int]:
    """Tokens of what stands before the messages: the system prompt where it is kept apart, and the tools."""
    whole = meter.fixed(context)
    system = meter.fixed(Context((), context.system, ()))
    return {"system": system, "tools": whole - system} if context.tools else {"system": whole}
