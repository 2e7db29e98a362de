"""What generateContent refuses and can be repaired within one content, without knowing any other."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve

from agentctx.core.message import Message, Opaque, Part, Text, ToolCall, ToolResult
from agentctx.models.profile import ModelProfile
from agentctx.providers.gemini.contents import only_text, signature_of, value
from agentctx.providers.gemini.rules import generation_of
from agentctx.providers.native import NOT_JSON, cleaned, fields_or_none, finite_json, same, with_object
from agentctx.wire_format import Note, Repaired

UNSIGNED = "skip_thought_signature_validator"
"""What stands for the thought signature of a call that another model made; the provider lets it pass."""


def repair(messages: Sequence[Message], _earlier: object = None) -> list[Repaired]:
    """The messages that cannot be sent as they are, each with what to send instead."""
    found: list[Repaired] = []
    for index, message in enumerate(messages):
        why: list[str] = []
        parts = [better for part in message.parts if (better := _repair_part(part, why)) is not None]
        if not parts:
            found.append((index, None, "no parts"))
        elif not same(parts, message.parts):
            found.append((index, message.with_parts(tuple(parts)), "; ".join(dict.fromkeys(why))))
    return found


def _repair_part(part: Part, why: list[str]) -> Part | None:
    """The part to send instead of this one, itself when it is fine, None when it must not be sent."""
    if isinstance(part, Text):
        # A signature may stand on a text with nothing in it; there it has to stay.
        if not part.text and signature_of(fields_or_none(part.source) or {}) is None:
            why.append("empty text removed")
            return None
        return cleaned(part, why)
    if isinstance(part, ToolResult):
        return _repair_result(part, why)
    if isinstance(part, ToolCall):
        return with_object(part, why)
    if isinstance(part, Opaque) and not part.kind:
        why.append("a part without data removed")
        return None
    return part


def _repair_result(part: ToolResult, why: list[str]) -> ToolResult:
    content = tuple(_repair_text(item, part, why) if isinstance(item, Text) else item for item in part.content)
    return part if same(content, part.content) else evolve(part, content=content)


def _repair_text(text: Text, result: ToolResult, why: list[str]) -> Text:
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
    messages: Sequence[Message], profile: ModelProfile | None, note: Note, _after: Message | None = None
) -> Sequence[Message]:
    """The messages with a signature on the first call of each step of the current turn; the same when all have."""
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


_SIGNATURES = frozenset({"thoughtSignature", "thought_signature"})


def unsigned(message: Message) -> Message:
    """The message without signatures, as for another model; itself when it has none."""
    bare = tuple(map(_unsigned, message.parts))
    return message if same(bare, message.parts) else message.with_parts(bare)


def _unsigned(part: Part) -> Part:
    """A part without its signature; a call gets the one that stands for none."""
    native = fields_or_none(part.source)
    if native is None or _SIGNATURES.isdisjoint(native):
        return part
    bare = {key: value for key, value in native.items() if key not in _SIGNATURES}
    if isinstance(part, ToolCall):
        source = {**bare, "thoughtSignature": UNSIGNED}
        return part if source == native else evolve(part, signature=UNSIGNED, source=source)
    return Text(part.text, source=bare) if isinstance(part, Text) else evolve(part, source=bare)
