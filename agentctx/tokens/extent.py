"""How large messages are before anything is counted: bytes, and the work that counting them would be."""

from __future__ import annotations

from collections.abc import Sequence

from agentctx.core.message import Message, Tool
from agentctx.core.parts import Media, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.tokens.media import may_be_text
from agentctx.tokens.office import may_be_office
from agentctx.tokens.serialise import characters, serialise

INLINE_CHARACTERS = 64 * 1024
"""Up to so many characters are counted on the event loop (3 to 6 ms); more go to a worker thread together."""

_MESSAGE_CHARACTERS = 200  # what looking at a message costs, beside counting its text


def is_little(messages: Sequence[Message]) -> bool:
    """Whether messages are counted so fast that the event loop may wait for it."""
    total = 0
    for message in messages:
        total += _MESSAGE_CHARACTERS + sum(map(_characters, message.parts))
        if total > INLINE_CHARACTERS:
            return False
    return True


def _characters(part: Part) -> int:
    """About how many characters have to be counted."""
    match part:
        case Text() | Thinking():
            return len(part.text)
        case ToolResult():
            return sum(map(_characters, part.content))
        case ToolCall():
            return len(part.arguments)
        case Opaque():
            return characters(part.data)
        case Media() if may_be_office(part):
            return INLINE_CHARACTERS + 1  # there may be much in a small archive
        case Media():
            return len(part.words) + (len(part.data or "") if may_be_text(part) else 0)


def part_bytes(part: Part) -> int:
    """Bytes of text (as UTF-8) and inline media."""
    match part:
        case Text():
            return _utf8(part.text)
        case ToolResult():
            return sum(map(part_bytes, part.content))
        case ToolCall():
            return _utf8(part.name) + _utf8(part.arguments) + len(part.signature or "")
        case Thinking():
            return _utf8(part.text) + len(part.signature or "") + len(part.encrypted or "")
        case Media():
            return len(part.data or "") + len(part.url or "") + _utf8(part.words)
        case Opaque():
            return _utf8(serialise(part.data))


def tool_bytes(tool: Tool) -> int:
    """Bytes of a tool definition as JSON."""
    return _utf8(serialise(tool.source if tool.source is not None else [tool.name, tool.description, tool.parameters]))


def _utf8(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
