"""Values as OpenAI Chat Completions messages: untouched payloads as they came, the rest of edited ones kept."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import Any

from agentctx.core.message import Message
from agentctx.core.parts import Media, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.errors import InvalidInput
from agentctx.wire.native import as_mapping, mapping_or_none
from agentctx.wire.openai_chat.read import (
    IMAGES,
    LEGACY,
    REASONING_BLOCKS,
    REASONING_TEXTS,
    read_audio,
    read_block,
    read_call,
    read_function_call,
    read_images,
)

_PARTS = "message.parts"
_BESIDE = ("refusal", "audio", "tool_calls", "function_call")


def write_message(message: Message) -> Any:  # noqa: ANN401 - the caller's own object, or a new dict
    """A message as Chat Completions writes it: the payload it was read from when nobody touched it.

    Raises:
        InvalidInput: If it holds what its role cannot say, for example a tool call of a user.
    """
    if message.as_read:
        return message.source
    source = {} if message.source is None else as_mapping(message.source)
    if message.role == "tool":
        return _result_message(message, source)
    if message.role == "assistant":
        return _assistant_message(message, source)
    _refuse_misplaced(message.role, message.parts, ToolCall | ToolResult)
    return _said(message, source)


def _said(message: Message, source: Mapping[str, Any]) -> dict[str, Any]:
    """What others than the model and the tools say; images that stood beside the content stand there again."""
    beside = [isinstance(part, Media) and _key_of(part) == IMAGES for part in message.parts]
    within = [part for part, apart in zip(message.parts, beside, strict=True) if not apart]
    native = {**source, "role": message.role, "content": _content(within, source.get("content"))}
    if any(beside):
        return {**native, IMAGES: [part.data for part in compress(message.parts, beside) if isinstance(part, Media)]}
    return _without(native, IMAGES) if read_images(source) else native


def _refuse_misplaced(role: str, parts: Sequence[Part], kinds: Any) -> None:  # noqa: ANN401 - a union of classes
    wrong = next((part for part in parts if isinstance(part, kinds)), None)
    if wrong is not None:
        raise InvalidInput(_PARTS, f"a message of role {role!r} cannot hold a {type(wrong).__name__}")


def _result_message(message: Message, source: Mapping[str, Any]) -> dict[str, Any]:
    if len(message.parts) != 1 or not isinstance(result := message.parts[0], ToolResult):
        raise InvalidInput(_PARTS, "a message of role 'tool' holds exactly one ToolResult")
    source = source or mapping_or_none(result.source) or {}
    content = _content(result.content, source.get("content"))
    if result.call_id.startswith(LEGACY):
        name = result.call_id.removeprefix(LEGACY)
        return {**_without(source, "tool_call_id"), "role": "function", "name": name, "content": content}
    native = {**source, "role": "tool", "tool_call_id": result.call_id, "content": content}
    if result.name is not None:
        native["name"] = result.name
    return native


def answer_to(call: ToolCall, text: str) -> ToolResult:
    """A made result of a call, with all that is written of it: a legacy function's answer bears its name."""
    name = call.id.removeprefix(LEGACY) if call.id.startswith(LEGACY) else None
    return ToolResult(call.id, (Text(text),), name)


def _assistant_message(message: Message, source: Mapping[str, Any]) -> dict[str, Any]:
    parts = message.parts
    _refuse_misplaced("assistant", parts, ToolResult)
    said = tuple(part for part in parts if not isinstance(part, Thinking | ToolCall) and not _stands_beside(part))
    beside = _beside(parts, source)
    native = {**source, "role": "assistant", "content": _assistant_content(said, source, beside)}
    if native["content"] is None and "content" not in source and source:
        del native["content"]
    stale = [key for key in _BESIDE if key not in beside and native.get(key) is not None]
    return _with_reasoning({**_without(native, *stale), **beside}, message)


def _assistant_content(said: tuple[Part, ...], source: Mapping[str, Any], beside: Mapping[str, Any]) -> Any:  # noqa: ANN401
    """Null is taken only beside something else that the assistant said."""
    if not said and beside:
        return None
    return _content(said, source.get("content"))


def _stands_beside(part: Part) -> bool:
    """Whether the part has a key of its own beside the content."""
    if isinstance(part, Media) and part.kind == "audio" and part.url is not None:
        return True
    return isinstance(part, Opaque) and part.kind in ("refusal", "audio") and _key_of(part) == part.kind


def _key_of(part: Part) -> str | None:
    """The message's key that a part was read from; None for a block."""
    source = part.source
    return next(iter(source)) if type(source) is dict and len(source) == 1 else None


def _beside(parts: Sequence[Part], source: Mapping[str, Any]) -> dict[str, Any]:
    """What the message says beside its content, by key."""
    found: dict[str, Any] = {}
    for part in parts:
        if isinstance(part, Opaque) and _stands_beside(part):
            found[part.kind] = part.data
        elif isinstance(part, Media) and _stands_beside(part):
            found["audio"] = _audio(part)
    calls = [part for part in parts if isinstance(part, ToolCall)]
    if modern := [_call(call) for call in calls if not call.id.startswith(LEGACY)]:
        same = source.get("tool_calls")
        found["tool_calls"] = modern if not _all_same(modern, same) else same
    for call in calls:
        if call.id.startswith(LEGACY):
            found["function_call"] = _function_call(call)
    return found


def _all_same(made: Sequence[Any], was: object) -> bool:
    return isinstance(was, list) and len(was) == len(made) and all(a is b for a, b in zip(made, was, strict=True))


def _with_reasoning(native: dict[str, Any], message: Message) -> dict[str, Any]:
    """Set the keys that carry reasoning: as they were when all of it is still there, else from what is left."""
    kept = [part for part in message.parts if isinstance(part, Thinking)]
    read = message.read_parts
    if read is not None and kept == [part for part in read if isinstance(part, Thinking)]:
        return native
    for key in (*REASONING_BLOCKS, *REASONING_TEXTS):
        native.pop(key, None)
    for part in kept:
        if (home := _key_of(part)) is not None and home in REASONING_TEXTS:
            native[home] = part.source[home]
        elif isinstance(part.source, Mapping):
            dotted = str(part.source.get("type", "")).startswith("reasoning.")
            native.setdefault("reasoning_details" if dotted else "thinking_blocks", []).append(part.source)
        else:
            native["reasoning_content"] = native.get("reasoning_content", "") + part.text
    return native


def _content(parts: Sequence[Part], was: object) -> str | list[Any]:
    """Content as it was written before: a string stays one while there is one text; blocks stay blocks."""
    if was and isinstance(was, list | tuple):
        return [part.source if _is_plain(part) else _block(part) for part in parts] or ""
    if not parts:
        return ""
    if len(parts) == 1 and isinstance(part := parts[0], Text) and mapping_or_none(part.source) is None:
        return part.text
    return [_block(part) for part in parts]


def _is_plain(part: Part) -> bool:
    """Whether the part came from a bare string among blocks, and still says the same."""
    return isinstance(part, Text) and isinstance(part.source, str) and part.source == part.text


def _unchanged(part: Part, read: Callable[[Any, int, int], Part]) -> bool:
    """Whether the part still says what its native block says."""
    if part.source is None:
        return False
    try:
        return read(part.source, 0, 0) == part
    except InvalidInput:
        return False


def _block(part: Part) -> Any:  # noqa: ANN401 - a native block or a new dict
    if isinstance(part, Opaque | Thinking) and part.source is not None:
        return part.source
    if isinstance(part, Opaque):
        return part.data
    if not isinstance(part.source, str) and _unchanged(part, read_block):
        return part.source
    kept = mapping_or_none(part.source) or {}
    if isinstance(part, Text | Thinking):
        return {**(kept if kept.get("type") == "text" else {}), "type": "text", "text": part.text}
    if isinstance(part, Media):
        return {**kept, **_media(part, kept)}
    raise InvalidInput(_PARTS, f"a {type(part).__name__} cannot stand within content")


def _media(part: Media, kept: Mapping[str, Any]) -> dict[str, Any]:
    located = f"data:{part.media_type or 'application/octet-stream'};base64,{part.data}" if part.data else part.url
    if part.kind == "audio":
        sound = (part.media_type or "audio/wav").removeprefix("audio/")
        return {"type": "input_audio", "input_audio": {"data": part.data or part.url, "format": sound}}
    if part.kind == "document":
        file = mapping_or_none(kept.get("file")) or {}
        key = "file_data" if part.data else "file_id"
        return {"type": "file", "file": {**_without(file, "file_data", "file_id"), key: located}}
    key = f"{part.kind}_url"
    image = {**(mapping_or_none(kept.get(key)) or {}), "url": located}
    return {"type": key, key: image if part.detail is None else {**image, "detail": part.detail}}


def _audio(part: Media) -> Any:  # noqa: ANN401 - a native value or a new dict
    was = part.source["audio"] if _key_of(part) == "audio" else None
    return was if was is not None and read_audio(was) == part else {"id": part.url}


def _call(call: ToolCall) -> Any:  # noqa: ANN401 - a native block or a new dict
    if _unchanged(call, read_call):
        return call.source
    kept = mapping_or_none(call.source) or {}
    if kept.get("type") == "custom":
        body = {**(mapping_or_none(kept.get("custom")) or {}), "name": call.name, "input": call.arguments}
        return {**kept, "id": call.id, "custom": body}
    body = {**(mapping_or_none(kept.get("function")) or {}), "name": call.name, "arguments": call.arguments}
    return {**kept, "id": call.id, "type": "function", "function": body}


def _function_call(call: ToolCall) -> Any:  # noqa: ANN401 - a native value or a new dict
    if _unchanged(call, lambda native, index, _: read_function_call(native, index)):
        return call.source
    return {**(mapping_or_none(call.source) or {}), "name": call.name, "arguments": call.arguments}


def _without(source: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in source.items() if key not in keys}
