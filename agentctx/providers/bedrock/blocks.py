"""Messages and content blocks of Converse as values.

Source: https://docs.aws.amazon.com/bedrock/latest/APIReference/API_runtime_ContentBlock.html and the service model in
botocore. A block is an object with one member, which names its kind.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Mapping
from typing import Any

from agentctx.core.message import Media, Message, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.errors import InvalidInput
from agentctx.providers.native import (
    as_block,
    base64_or_text,
    each_read,
    fields,
    fields_or_none,
    json_object,
    json_of,
    needed_string,
    object_spelled,
    placed,
    string_of,
    words_of,
)

Block = Mapping[str, Any]

ROLES = ("user", "assistant", "system")

_WORDS = ("name", "context")
"""The keys of what is said beside a document."""

MIME = {
    "png": "image/png",
    "jpeg": "image/jpeg",
    "gif": "image/gif",
    "webp": "image/webp",
    "pdf": "application/pdf",
    "csv": "text/csv",
    "html": "text/html",
    "txt": "text/plain",
    "md": "text/markdown",
    "mp4": "video/mp4",
    "mov": "video/quicktime",
    "webm": "video/webm",
    "mp3": "audio/mpeg",
    "wav": "audio/wav",
    "flac": "audio/flac",
    "ogg": "audio/ogg",
}
"""MIME types by the formats that blocks name, the usual ones."""


def read_message(native: object, index: int) -> Message:
    """One message as a value that remembers it."""
    message: Block = native if type(native) is dict else fields(native, f"messages[{index}]")
    role = message.get("role")
    if role not in ROLES:
        raise InvalidInput(where=f"messages[{index}].role", what=f"expected user or assistant, got {role!r}")
    if "content" not in message:
        raise InvalidInput(where=f"messages[{index}].content", what="missing")
    parts = placed(read_content, message["content"], "messages[{}].content", index)
    return Message.read(role, parts, native)


def read_content(content: object) -> tuple[Part, ...]:
    """A list of content blocks as parts; None has none."""
    return each_read(read_block, content, "a list of blocks")


def read_block(native: object) -> Part:
    """One content block as a part that remembers it. A kind that we do not know becomes ``Opaque``."""
    block: Block = native if type(native) is dict else fields(native, "")
    if len(block) == 1 and isinstance(text := block.get("text"), str):
        return Text(text, source=native)
    kind = kind_of(block)
    reader = _READERS.get(kind)
    return Opaque(kind, block, source=native) if reader is None else reader(kind, block, native)


def kind_of(block: Block) -> str:
    """The name of the member that a block holds; empty when it holds none."""
    return next((str(key) for key, held in block.items() if held is not None), "")


def _read_text(kind: str, block: Block, native: object) -> Part:
    return Text(needed_string(block, kind), source=native)


def _read_json(_kind: str, block: Block, native: object) -> Part:
    return Text(json_of(block["json"], ".json"), source=native)


def _read_call(kind: str, block: Block, native: object) -> Part:
    call = fields(block[kind], f".{kind}")
    call_id, name = needed_string(call, "toolUseId", f".{kind}"), needed_string(call, "name", f".{kind}")
    if call.get("type") is not None:  # a tool that the provider runs itself
        return Opaque(kind, block, opens=call_id, source=native)
    return ToolCall(call_id, name, json_of(call.get("input", {}), f".{kind}.input"), source=native)


def _read_result(kind: str, block: Block, native: object) -> Part:
    result = fields(block[kind], f".{kind}")
    call_id = needed_string(result, "toolUseId", f".{kind}")
    if result.get("type") is not None:
        return Opaque(kind, block, closes=call_id, source=native)
    content = placed(read_content, result.get("content"), f".{kind}.content")
    return ToolResult(call_id, content, is_error=result.get("status") == "error", source=native)


def _read_reasoning(kind: str, block: Block, native: object) -> Part:
    reasoning = fields(block[kind], f".{kind}")
    said = fields_or_none(reasoning.get("reasoningText"))
    if said is not None:
        text = needed_string(said, "text", f".{kind}.reasoningText")
        return Thinking(text, string_of(said, "signature"), source=native)
    hidden = base64_or_text(reasoning.get("redactedContent"))
    return Opaque(kind, block, source=native) if hidden is None else Thinking("", encrypted=hidden, source=native)


def _read_media(kind: str, block: Block, native: object) -> Part:
    media = fields(block[kind], f".{kind}")
    source = fields_or_none(media.get("source")) or {}
    mime, words = MIME.get(str(media.get("format"))), words_of(media, _WORDS)
    if (data := base64_or_text(source.get("bytes"))) is not None:
        return Media(kind, mime, data, source=native, words=words)
    place = fields_or_none(source.get("s3Location")) or {}
    if isinstance(uri := place.get("uri"), str):
        return Media(kind, mime, url=uri, source=native, words=words)
    # A document given as text or as blocks is read as text by the model, so it is counted by its characters.
    return Opaque(kind, block, source=native)


_READERS: Mapping[str, Callable[[str, Block, object], Part]] = {
    "text": _read_text,
    "json": _read_json,
    "toolUse": _read_call,
    "toolResult": _read_result,
    "reasoningContent": _read_reasoning,
    "image": _read_media,
    "document": _read_media,
    "video": _read_media,
    "audio": _read_media,
}


NativeBlock = Mapping[str, Any]

_WRITTEN_ROLES = {"tool": "user", "developer": "user", "system": "user"}
_FORMATS = {mime: name for name, mime in MIME.items()}
_USUAL_FORMAT = {"image": "png", "document": "pdf", "video": "mp4", "audio": "mp3"}


def write_message(message: Message) -> dict[str, Any]:
    """A message as Converse takes it."""
    old = fields_or_none(message.source) or {}
    role = message.role if old.get("role") == message.role else _WRITTEN_ROLES.get(message.role, message.role)
    return {**old, "role": role, "content": [write_block(part) for part in message.parts]}


def write_block(part: Part) -> object:
    """A part as a content block: the very block it was read from when it still says the same."""
    return as_block(part, fields_or_none(part.source), read_block, _made)


def _made(part: Text | Media | Thinking | ToolCall | ToolResult, old: NativeBlock) -> dict[str, Any]:
    """A block saying what the part says, with what else stood in the block that it replaces."""
    match part:
        case Text():
            return _made_text(part.text, old)
        case ToolCall():
            call = {**_held(old, "toolUse"), "toolUseId": part.id, "name": part.name}
            return {"toolUse": {**call, "input": json_object(part.arguments)}}
        case ToolResult():
            return {"toolResult": _made_result(part, _held(old, "toolResult"))}
        case Thinking():
            return {"reasoningContent": _made_reasoning(part)}
        case Media():
            return {part.kind: {**_held(old, part.kind), **_made_media(part)}}


def _held(old: NativeBlock, kind: str) -> NativeBlock:
    return fields_or_none(old.get(kind)) or {}


def _made_text(text: str, old: NativeBlock) -> dict[str, Any]:
    """A text; the JSON of a result stays JSON while it is such, and spelled as it is counted."""
    if "json" in old:
        found = object_spelled(text)
        return {"text": text} if found is None else {"json": found[0]}
    return {"text": text}


def is_object(text: Text) -> bool:
    """Whether a text of a result stands for its JSON."""
    return "json" in (fields_or_none(text.source) or {})


def _made_result(part: ToolResult, old: NativeBlock) -> dict[str, Any]:
    result = {**old, "toolUseId": part.call_id, "content": [write_block(item) for item in part.content]}
    if part.is_error or "status" in old:
        result["status"] = "error" if part.is_error else "success"
    return result


def _made_reasoning(part: Thinking) -> dict[str, Any]:
    if part.encrypted is not None:
        return {"redactedContent": _as_bytes(part.encrypted)}
    signed = {} if part.signature is None else {"signature": part.signature}
    return {"reasoningText": {"text": part.text, **signed}}


def _made_media(part: Media) -> dict[str, Any]:
    made: dict[str, Any] = {"format": _FORMATS.get(part.media_type or "", _USUAL_FORMAT.get(part.kind, ""))}
    if part.data is not None:
        made["source"] = {"bytes": _as_bytes(part.data)}
    elif part.url is not None and part.url.startswith("s3://"):
        made["source"] = {"s3Location": {"uri": part.url}}
    else:
        raise InvalidInput(where="source", what=f"Converse takes {part.kind}s as bytes or from S3, not {part.url!r}")
    return made if part.kind != "document" else {"name": "document", **made}


def _as_bytes(data: str) -> bytes:
    """What boto3 sends: it encodes bytes itself."""
    try:
        return b64decode(data, validate=True)
    except ValueError as error:
        raise InvalidInput(where="bytes", what=f"is no base64: {error}") from error


_POSSIBLE, _LIKELY, _SURE = 1, 4, 8
_OWN_KEYS = ("modelId", "toolConfig", "inferenceConfig", "guardrailConfig", "additionalModelRequestFields")
_SHARED = frozenset({"text", "image", "document", "video", "audio"})
_OWN_BLOCKS = frozenset(
    {"toolUse", "toolResult", "reasoningContent", "cachePoint", "guardContent", "citationsContent", "searchResult"}
    | {"toolAddition", "toolRemoval"}
)


def recognise(request: Mapping[str, Any]) -> int:
    """0 when it cannot be this format, more with every specific sign."""
    messages = request.get("messages")
    if not isinstance(messages, (list, tuple)):
        return 0
    signs = _LIKELY * any(request.get(key) is not None for key in _OWN_KEYS)
    best = _POSSIBLE if signs else 0
    for message in messages:
        sign = _message(message)
        if sign is None:
            return 0
        best = max(best, sign)
        if best == _SURE:
            break
    return best + signs if best else 0


def _message(native: object) -> int | None:
    """What one message says; None when it rules the format out."""
    message = fields_or_none(native)
    if message is None or message.get("role") not in ROLES or "type" in message:
        return None
    content = message.get("content")
    if not isinstance(content, (list, tuple)):
        return None
    best = 0
    for item in content:
        block = fields_or_none(item)
        if block is None or "type" in block:
            return None
        kind = kind_of(block)
        if kind in _OWN_BLOCKS:
            return _SURE
        best = max(best, _LIKELY if kind in _SHARED else 0)
    return best
