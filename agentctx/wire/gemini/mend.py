"""What generateContent refuses and can be mended within one content, without knowing any other."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from agentctx.core.message import Message
from agentctx.core.parts import Opaque, Part, Text, ToolCall, ToolResult
from agentctx.wire.gemini.names import signature_of, value
from agentctx.wire.gemini.read import only_text
from agentctx.wire.mending import NOT_JSON, Mended, cleaned, same, with_object
from agentctx.wire.native import fields_or_none, finite_json


def mend(messages: Sequence[Message]) -> list[Mended]:
    """The messages that cannot be sent as they are, each with what to send instead."""
    found: list[Mended] = []
    for index, message in enumerate(messages):
        why: list[str] = []
        parts = [better for part in message.parts if (better := _mend_part(part, why)) is not None]
        if not parts:
            found.append((index, None, "no parts"))
        elif not same(parts, message.parts):
            found.append((index, message.with_parts(tuple(parts)), "; ".join(dict.fromkeys(why))))
    return found


def _mend_part(part: Part, why: list[str]) -> Part | None:
    """The part to send instead of this one, itself when it is fine, None when it must not be sent."""
    if isinstance(part, Text):
        # A signature may stand on a text with nothing in it; there it has to stay.
        if not part.text and signature_of(fields_or_none(part.source) or {}) is None:
            why.append("empty text removed")
            return None
        return cleaned(part, why)
    if isinstance(part, ToolResult):
        return _mend_result(part, why)
    if isinstance(part, ToolCall):
        return with_object(part, why)
    if isinstance(part, Opaque) and not part.kind:
        why.append("a part without data removed")
        return None
    return part


def _mend_result(part: ToolResult, why: list[str]) -> ToolResult:
    content = tuple(_mend_text(item, part, why) if isinstance(item, Text) else item for item in part.content)
    return part if same(content, part.content) else evolve(part, content=content)


def _mend_text(text: Text, result: ToolResult, why: list[str]) -> Text:
    better = cleaned(text, why)
    if not ("NaN" in better.text or "Infinity" in better.text) or not _is_whole_response(result):
        return better
    if (finite := finite_json(better.text)) is better.text:
        return better
    why.append(NOT_JSON)
    return Text(finite, source=better.source)


def _is_whole_response(result: ToolResult) -> bool:
    """Whether the text is the JSON of a native response, and not a text in it."""
    block = fields_or_none(result.source) or {}
    answer = fields_or_none(value(block, "functionResponse")) or {}
    return answer.get("response") is not None and only_text(answer["response"]) is None
