"""What generateContent refuses and can be mended within one content, without knowing any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from attrs import evolve

from agentctx.core.message import Message, Opaque, Part, Text, ToolCall, ToolResult
from agentctx.models.profile import ModelProfile
from agentctx.providers.gemini.contents import only_text, signature_of, value
from agentctx.providers.gemini.rules import generation_of
from agentctx.providers.native import NOT_JSON, Mended, cleaned, fields_or_none, finite_json, same, with_object
from agentctx.providers.translate.target import UNSIGNED


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


ASKED_FROM = 3
"""The first generation that refuses an unsigned call."""

WHY = "the model asks for a thought signature on the call: one that stands for none"


def with_signatures(
    messages: Sequence[Message], profile: ModelProfile | None, note: Callable[[Message, str], None]
) -> Sequence[Message]:
    """The messages with a signature on the first call of each step of the current turn; the same object when all have.

    Args:
        messages: Messages whose pairs are whole; where the user does not speak in them, all are of the current turn.
        profile: The model's profile; None when it is not known: then they stay.
        note: Told of each message that gets one, and why.
    """
    if profile is None or (generation_of(profile.family.lower()) or 0) < ASKED_FROM:
        return messages
    places = range(len(messages) - 1, -1, -1)
    start = next((place + 1 for place in places if _speaks(messages[place])), 0)
    bare = [place for place in range(start, len(messages)) if _asks_unsigned(messages[place])]
    if not bare:
        return messages
    signed = list(messages)
    for place in bare:
        note(messages[place], WHY)
        signed[place] = _with_signature(messages[place])
    return signed


def _speaks(message: Message) -> bool:
    """Whether a turn begins here: the user says something, and not only functions answer."""
    if message.role == "assistant":
        return False
    return not message.results or any(isinstance(part, Text) for part in message.parts)


def _asks_unsigned(message: Message) -> bool:
    return message.role == "assistant" and next((not call.signature for call in message.calls), False)


def _with_signature(message: Message) -> Message:
    first = message.calls[0]
    return message.with_parts(tuple(_marked(part) if part is first else part for part in message.parts))


def _marked(part: Part) -> Part:
    if not isinstance(part, ToolCall):
        return part
    native = fields_or_none(part.source)
    source = None if native is None else {**native, "thoughtSignature": UNSIGNED}
    return evolve(part, signature=UNSIGNED, source=source)
