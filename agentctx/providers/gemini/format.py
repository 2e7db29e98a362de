"""The generateContent format of Google Gemini, read and written without loss.

Source: https://ai.google.dev/api/generate-content.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import frozen

from agentctx.core.message import Message, Native, Text, Tool, ToolCall, ToolResult
from agentctx.errors import InvalidInput
from agentctx.lazy import lazy_pattern
from agentctx.models.profile import ModelProfile
from agentctx.providers.adapter import Adapter, Body, RequestParts, get
from agentctx.providers.gemini.messages import (
    DATA,
    ROLES,
    UNSIGNED,
    arrange,
    bare_parts,
    is_bare,
    is_object,
    pair,
    read_message,
    read_system,
    read_tools,
    repair,
    unsigned,
    with_signatures,
    write_message,
    write_part,
)
from agentctx.providers.native import (
    FILMS,
    PDF,
    PICTURES,
    SOUNDS,
    TEXT_FILES,
    fields_or_none,
    same,
)
from agentctx.wire_format import Capabilities, Spelling, TokenOverheads, WireFormat

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
    # Elsewhere it has to differ from a mere text or mapping: a content, or an object of the SDK.
    if not named and all(
        bare_parts(each) is not None and isinstance(each, (str, list, tuple, Mapping)) for each in contents
    ):
        return 0
    best = _POSSIBLE
    for content in contents:
        sign = _sign(content)
        best = max(best, sign)
        if sign == 0 or best == _SURE:
            return sign and best + _LIKELY * named
    return best + _LIKELY * named


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


@frozen
class Gemini(WireFormat):
    """The generateContent format.

    Each content with calls is answered before the next one. Ids are optional, and only a turn's own have to differ.
    """

    name = "gemini"
    provider = "gcp.gemini"
    other_names = ("google", "vertex")
    messages_key = "contents"
    system_key = "system_instruction"
    system_apart = True
    roles = frozenset({"user", "model", "function", "tool"})
    reads_places = True
    minds_the_end = True
    overheads = TokenOverheads(message=4, call=8, result=8, schema_as_json=True)  # estimates
    keys_taken = frozenset(
        {"role", "parts", "text", "thought", "thoughtSignature", "functionCall", "functionResponse", "inlineData"}
        | {"fileData", "name", "args", "response", "id", "mimeType", "data", "fileUri", "uri"}
        | {"thought_signature", "mime_type", "file_uri"}  # as google-genai spells them
    )

    overflow_words = lazy_pattern(r"input token count\b[^.]{0,60}?(?:exceeds|supports up to)")
    error_words = lazy_pattern(r"input token count")

    def usual_for(self, family: str, /) -> int:
        """Gemini's own."""
        return 3 if "gemini" in family else 0

    recognises = staticmethod(recognise)
    read_message = staticmethod(read_message)
    read_system = staticmethod(read_system)
    read_tools = staticmethod(read_tools)
    write_message = staticmethod(write_message)
    pair = staticmethod(pair)
    arrange = staticmethod(arrange)
    arrange_for = staticmethod(with_signatures)
    repair = staticmethod(repair)
    is_object = staticmethod(is_object)

    def synthetic_result(self, calls: Sequence[ToolCall], text: str, /) -> tuple[Message, ...]:
        """One user content that answers all the calls with ``text``, as errors."""
        if not calls:
            return ()
        results = (ToolResult(call.id, (Text(text),), call.name, is_error=True) for call in calls)
        return (Message("user", tuple(results)),)

    def capabilities(self, _model: str | None, _profile: ModelProfile | None, /) -> Capabilities:
        """What it can say."""
        return Capabilities(
            names=Spelling("a-zA-Z0-9_.:-", 64),
            in_user={
                "image": PICTURES | {"image/heic", "image/heif"},
                "audio": SOUNDS | {"audio/flac", "audio/ogg", "audio/aac", "audio/aiff"},
                "video": FILMS,
                "document": PDF | TEXT_FILES,
            },
            in_results={"image": PICTURES, "document": PDF},
            by_url=frozenset({"image", "audio", "video", "document"}),
            unsigned_call=UNSIGNED,
            results_in_one=True,
        )

    def without_reasoning(self, message: Message, /) -> Message | None:
        """The message without reasoning and signatures; None when nothing is left."""
        kept = super().without_reasoning(message)
        bare = () if kept is None else tuple(map(unsigned, kept.parts))
        return kept if kept is None or same(bare, kept.parts) else kept.with_parts(bare)

    def write_system(self, system: Message, /) -> Native:
        """The system instruction: a content without a role."""
        return {"parts": [write_part(part) for part in system.parts]}

    def write_tool(self, tool: Tool, /) -> Native:
        """A tool of the caller's as a declaration, which has to be described."""
        declared = {"name": tool.name, "description": tool.description or tool.name}
        return {"functionDeclarations": [{**declared, "parametersJsonSchema": tool.parameters}]}


@frozen
class GenerateContent(Adapter):
    """``POST /models/…:generateContent`` and ``:streamGenerateContent``, as they are sent and answered over HTTP."""

    model: str
    format = "gemini"
    messages_key = "contents"
    system_key = "systemInstruction"

    def read(self, body: Body, /) -> RequestParts | None:
        """Contents, system instruction and tools."""
        if body.get("cachedContent") is not None:
            what = "what the provider keeps can be neither counted nor cut: pass its contents instead"
            raise InvalidInput("cachedContent", what)
        return super().read({**body, "model": self.model})

    def usage(self, answer: Native, /) -> Native:
        """Return the ``usageMetadata`` of an answer or a chunk."""
        return get(answer, "usageMetadata")

    def begins(self, event: Native, /) -> bool:
        """Tell whether a chunk has parts, or ends."""
        candidates = get(event, "candidates") or ()
        return any(get(one, "content", "parts") or get(one, "finishReason") for one in candidates)

    def ends(self, event: Native, /) -> bool:
        """Tell whether a chunk is the last one of an answer."""
        return any(get(one, "finishReason") for one in get(event, "candidates") or ())

    def too_long(self, tokens: int, limit: int, /) -> str:
        """Return the sentence of generateContent."""
        return f"The input token count ({tokens}) exceeds the maximum number of tokens allowed ({limit})."
