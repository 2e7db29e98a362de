"""Change what tool results say, and nothing else."""

from __future__ import annotations

from collections.abc import Callable

from attrs import evolve

from agentctx.core.message import Message
from agentctx.core.parts import Part, Text, ToolResult

Edit = Callable[[ToolResult], ToolResult]
"""Given a result, what it shall be instead; the same object when it stays."""


def edit_results(message: Message, edit: Edit) -> Message:
    """The message with its tool results edited; the same object when none was."""
    if not any([isinstance(part, ToolResult) for part in message.parts]):  # noqa: C419 - a list is faster here
        return message
    parts = tuple(edit(part) if isinstance(part, ToolResult) else part for part in message.parts)
    changed = any(new is not old for new, old in zip(parts, message.parts, strict=True))
    return message.with_parts(parts) if changed else message


def with_content(result: ToolResult, content: tuple[Part, ...]) -> ToolResult:
    """The same result with another content."""
    return evolve(result, content=content)


def with_text(result: ToolResult, text: str) -> ToolResult:
    """The same result with its texts replaced by one; what is not text stays.

    A text in which there is nothing to see is left out: as a block, providers refuse it.
    """
    texts = [part for part in result.content if isinstance(part, Text)]
    others = tuple(part for part in result.content if not isinstance(part, Text))
    if not text.strip():
        return with_content(result, others)
    source = texts[0].source if texts else None
    return with_content(result, (Text(text, source=source), *others))
