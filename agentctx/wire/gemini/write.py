"""Values as contents and parts of generateContent.

What still says what its native part says goes back as that part, signature and all. An edited part keeps the other
keys of its native part and its spelling.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from agentctx.core.message import Message
from agentctx.core.parts import Media, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.errors import InvalidInput
from agentctx.wire.gemini.bare import bare_file, bare_parts
from agentctx.wire.gemini.names import data_key, is_made, spelled, tool_of
from agentctx.wire.gemini.read import ROLES, only_text, read_part, read_response
from agentctx.wire.native import fields_or_none, json_object

Block = Mapping[str, Any]

_WRITTEN_ROLES = {"assistant": "model"}


def write_content(message: Message) -> object:
    """A message as a content: the one it was read from when all its parts are still the same."""
    bare = message.source is None or bare_parts(message.source) is not None
    old = {} if bare else fields_or_none(message.source) or {}
    parts = [write_part(part) for part in message.parts]
    before = old.get("parts")
    same_role = bool(old) and ROLES.get(old.get("role")) == message.role
    if same_role and isinstance(before, (list, tuple)) and _same(parts, before):
        return message.source
    if bare and message.source is not None and message.role != "assistant":
        return parts  # the SDK makes one content of them, and puts a mapping before the parts beside it
    role = (old.get("role") if same_role else None) or _WRITTEN_ROLES.get(message.role, "user")
    return {**old, "role": role, "parts": parts}


def write_part(part: Part) -> object:
    """A part of a message as a native part: the very one it was read from when it still says the same.

    Raises:
        InvalidInput: If the part cannot be written.
    """
    native = part.source
    if isinstance(part, Opaque):
        return part.data if native is None else native
    block = fields_or_none(native)
    if block is None or bare_file(native) is not None:
        return _made(part, {})
    if isinstance(part, Thinking) or _still_says(native, part):
        return native
    return _made(part, block)


def _same(parts: Sequence[object], before: Sequence[object]) -> bool:
    return len(parts) == len(before) and all(new is old for new, old in zip(parts, before, strict=True))


def _still_says(native: object, part: Part) -> bool:
    try:
        now = read_part(native, {})
    except InvalidInput:
        return False
    if isinstance(now, ToolCall) and isinstance(part, ToolCall) and is_made(now.id, now.name):
        now = ToolCall(part.id, now.name, now.arguments, now.signature)
    if isinstance(now, ToolResult) and isinstance(part, ToolResult) and is_made(now.call_id, now.name):
        now = ToolResult(part.call_id, now.content, now.name, now.is_error)
    return now == part


def _made(part: Text | Media | Thinking | ToolCall | ToolResult, old: Block) -> dict[str, Any]:
    """A native part saying what ``part`` says, with the other keys of the one that it replaces."""
    match part:
        case Text():
            kept = {key: held for key, held in old.items() if key not in _SIGNATURE and key != data_key(old)}
            return {**kept, "text": part.text}
        case Thinking():
            return _signed({"text": part.text, "thought": True}, part.signature)
        case ToolCall():
            return _made_call(part, old)
        case ToolResult():
            return _made_result(part, old)
        case Media():
            return _made_media(part)


# Other words than those that were signed: the signature would be refused.
_SIGNATURE = frozenset({"thoughtSignature", "thought_signature"})


def _signed(block: dict[str, Any], signature: str | None) -> dict[str, Any]:
    return block if signature is None else {**block, "thoughtSignature": signature}


def _made_call(part: ToolCall, old: Block) -> dict[str, Any]:
    key = spelled(old, "functionCall")
    before = fields_or_none(old.get(key))
    call = {**(before or {}), "name": part.name, "args": json_object(part.arguments)}
    _set_id(call, part.id, part.name, made=before is None)
    return {**old, key: call} if before is not None else _signed({key: call}, part.signature)


def _made_result(part: ToolResult, old: Block) -> dict[str, Any]:
    key = spelled(old, "functionResponse")
    before = fields_or_none(old.get(key))
    answer = dict(before or {})
    answer["name"] = tool_of(part.call_id, part.name)
    answer["response"] = _response(part, answer.get("response"))
    _set_id(answer, part.call_id, part.name, made=before is None)
    attached = [write_part(item) for item in part.content if not isinstance(item, Text)]
    if attached:
        answer["parts"] = attached
    else:
        answer.pop("parts", None)
    return {**old, key: answer} if before is not None else {key: answer}


def _set_id(block: dict[str, Any], call_id: str, name: str | None, *, made: bool) -> None:
    """Say the id where there was one, and in a part made from scratch; never one that only we made up."""
    if (made or block.get("id")) and not is_made(call_id, name):
        block["id"] = call_id


def _response(part: ToolResult, old: object) -> Any:  # noqa: ANN401 - a caller's own response comes back as it is
    """What the function answered: the old response when it says the same, else an object of the same kind."""
    texts = tuple(item for item in part.content if isinstance(item, Text))
    key = only_text(old)
    if old is not None and read_response(old) == texts and part.is_error == (key == "error"):
        return old
    text = "".join(item.text for item in texts)
    if key is None and isinstance(old, Mapping) and (whole := _object(text)) is not None:
        return whole
    if key is None or part.is_error != (key == "error"):
        key = "error" if part.is_error else "output"
    return {key: text} if texts or old else {}


def _object(text: str) -> dict[str, Any] | None:
    """The JSON object that the text is, or None."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _made_media(part: Media) -> dict[str, Any]:
    mime = part.media_type or _MIME.get(part.kind, "application/octet-stream")
    if part.data is not None:
        return {"inlineData": {"mimeType": mime, "data": part.data}}
    if part.url is None:
        raise InvalidInput(where="media", what="has neither data nor a place where it is")
    return {"fileData": {"mimeType": mime, "fileUri": part.url}}


_MIME = {"image": "image/png", "audio": "audio/wav", "video": "video/mp4", "document": "application/pdf"}
