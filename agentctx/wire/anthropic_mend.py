"""What the Anthropic Messages API refuses and can be mended within one message, without knowing any other."""

from __future__ import annotations

import json
from collections.abc import Sequence

from attrs import evolve

from agentctx.core.message import Message
from agentctx.core.parts import Part, Text, ToolCall, ToolResult
from agentctx.wire.anthropic_blocks import call_input
from agentctx.wire.native import clean_text, finite_json, mapping_or_none

Mended = tuple[int, Message | None, str]
"""Index of a message, what to send instead (None: nothing), and why."""

_SURROGATES = "lone surrogates replaced"
_BLANK = "blank text removed"


def mend(messages: Sequence[Message]) -> list[Mended]:
    """The messages that cannot be sent as they are, each with what to send instead."""
    found: list[Mended] = []
    for index, message in enumerate(messages):
        why: list[str] = []
        parts = _mend_parts(message, why)
        if not parts and (message.parts or message.role != "system"):  # a system message may hold settings only
            found.append((index, None, "empty content"))
        elif parts is not message.parts:
            found.append((index, message.with_parts(parts), "; ".join(dict.fromkeys(why))))
    return found


def _mend_parts(message: Message, why: list[str]) -> tuple[Part, ...]:
    """The parts to send; the very tuple when they are fine."""
    parts = message.parts
    mended = [better for part in parts if (better := _mend_part(part, why)) is not None]
    if message.role != "assistant" and _results_late(mended):
        why.append("tool results put before the text")
        mended.sort(key=lambda part: not isinstance(part, ToolResult))
    if len(mended) == len(parts) and all(new is old for new, old in zip(mended, parts, strict=True)):
        return parts
    return tuple(mended)


def _results_late(parts: Sequence[Part]) -> bool:
    others = False
    for part in parts:
        if not isinstance(part, ToolResult):
            others = True
        elif others:
            return True
    return False


def _mend_part(part: Part, why: list[str]) -> Part | None:
    """The part to send instead of this one, itself when it is fine, None when it must not be sent."""
    if isinstance(part, Text):
        return _mend_text(part, why)
    if isinstance(part, ToolResult):
        return _mend_result(part, why)
    if isinstance(part, ToolCall):
        return _mend_call(part, why)
    return part


def _mend_text(part: Text, why: list[str]) -> Text | None:
    if not part.text or part.text.isspace():
        why.append(_BLANK)
        return None
    return _cleaned(part, why)


def _cleaned(part: Text, why: list[str]) -> Text:
    if (text := clean_text(part.text)) is part.text:
        return part
    why.append(_SURROGATES)
    return Text(text, source=part.source)


def _mend_result(part: ToolResult, why: list[str]) -> ToolResult:
    as_string = _written_as_string(part)
    content: list[Part] = []
    for item in part.content:
        better = _cleaned(item, why) if as_string and isinstance(item, Text) else _mend_part(item, why)
        if better is not None:
            content.append(better)
    if len(content) == len(part.content) and all(new is old for new, old in zip(content, part.content, strict=True)):
        return part
    return evolve(part, content=tuple(content))


def _written_as_string(part: ToolResult) -> bool:
    """Whether the content goes out as a string, which may be blank, rather than as blocks, which may not."""
    if len(part.content) != 1:
        return False
    block = mapping_or_none(part.source)
    return block is None or not isinstance(block.get("content"), (list, tuple))


def _mend_call(part: ToolCall, why: list[str]) -> ToolCall:
    arguments = clean_text(part.arguments)
    if arguments is not part.arguments:
        why.append(_SURROGATES)
    if (finite := finite_json(arguments)) is not arguments:
        why.append("numbers that JSON has not replaced by null")
        arguments = finite
    if not arguments.startswith("{"):
        why.append("tool input made an object")
        arguments = json.dumps(call_input(arguments), ensure_ascii=False)
    return part if arguments is part.arguments else evolve(part, arguments=arguments)
