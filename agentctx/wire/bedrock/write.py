"""Values as messages and content blocks of Converse.

What still says what its block says goes back as that block. An edited part keeps the other keys of its block.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Mapping
from typing import Any

from agentctx.core.message import Message
from agentctx.core.parts import Media, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.errors import InvalidInput
from agentctx.wire.bedrock.read import MIME, read_block
from agentctx.wire.native import fields_or_none, json_object

Block = Mapping[str, Any]

_WRITTEN_ROLES = {"tool": "user", "developer": "user", "system": "user"}
_FORMATS = {mime: name for name, mime in MIME.items()}
_USUAL_FORMAT = {"image": "png", "document": "pdf", "video": "mp4", "audio": "mp3"}


def write_message(message: Message) -> dict[str, Any]:
    """A message as Converse takes it."""
    old = fields_or_none(message.source) or {}
    role = message.role if old.get("role") == message.role else _WRITTEN_ROLES.get(message.role, message.role)
    return {**old, "role": role, "content": [write_block(part) for part in message.parts]}


def write_block(part: Part) -> object:
    """A part as a content block: the very block it was read from when it still says the same.

    Raises:
        InvalidInput: If the part cannot be written.
    """
    native = part.source
    if isinstance(part, Opaque):
        return part.data if native is None else native
    old = fields_or_none(native)
    if old is None:
        return _made(part, {})
    if isinstance(part, Thinking) or _still_says(native, part):
        return native
    return _made(part, old)


def _still_says(native: object, part: Part) -> bool:
    try:
        return read_block(native) == part
    except InvalidInput:
        return False


def _made(part: Text | Media | Thinking | ToolCall | ToolResult, old: Block) -> dict[str, Any]:
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


def _held(old: Block, kind: str) -> Block:
    return fields_or_none(old.get(kind)) or {}


def _made_text(text: str, old: Block) -> dict[str, Any]:
    """A text; the JSON of a result stays JSON while it is such."""
    if "json" in old:
        try:
            return {"json": json.loads(text)}
        except (ValueError, RecursionError):
            return {"text": text}
    return {"text": text}


def _made_result(part: ToolResult, old: Block) -> dict[str, Any]:
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
