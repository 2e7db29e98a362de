"""OpenAI Chat Completions messages as values: read, written, and repaired where they would be refused by themselves.

What rides beside the content (reasoning of Chat dialects, a refusal) has no block of its own: its part's source is a
mapping of the message's key to its value, for example ``{"reasoning_content": "..."}``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import count, repeat
from mimetypes import guess_type
from typing import Any, NoReturn

from attrs import evolve, field, frozen

from agentctx.errors import InvalidInput
from agentctx.formats import dialects
from agentctx.formats.dialects import DIALECTS, FRAMEWORK, Dialect, dialect_of
from agentctx.formats.native import (
    CERTAIN,
    IMPOSSIBLE,
    LIKELY,
    OPEN_MODELS,
    OPENAI_MODELS,
    PDF,
    PICTURES,
    POSSIBLE,
    SOUNDS,
    KeyMarkers,
    as_mapping,
    breakpoint_of,
    clean_text,
    control,
    finite_json,
    is_strict,
    located,
    mapping_or_none,
    same,
    still_says,
    string_of,
    surest,
    tool_as_read,
)
from agentctx.formats.registry import Adapter, Body, get
from agentctx.message import (
    BREAKPOINT,
    CONTROL,
    Media,
    Message,
    Native,
    Opaque,
    Part,
    Text,
    Thinking,
    Tool,
    ToolCall,
    ToolResult,
    Ttl,
)
from agentctx.models.profile import ModelProfile
from agentctx.models.table import family_of
from agentctx.tokens.media import media_of
from agentctx.unit import RoundRules
from agentctx.wire_format import (
    Arranged,
    Capabilities,
    Repaired,
    Spelling,
    TokenOverheads,
    WireFormat,
)

LEGACY = "function_call:"
"""Calls of the legacy ``function_call`` key have no id; they are given this, followed by the function's name."""

REASONING_BLOCKS = ("thinking_blocks", "reasoning_details")
"""Keys of assistant messages that hold a list of reasoning blocks: LiteLLM's, OpenRouter's."""

REASONING_TEXTS = ("reasoning_content", "reasoning")
"""Keys of assistant messages that hold reasoning as text: DeepSeek's and its followers', OpenRouter's and vLLM's."""

IMAGES = "images"
"""Ollama's key of a user's message for its images."""

ID_MAX = 40
"""The longest id of a tool call, in characters: some endpoints refuse more."""

IDS = Spelling(r"\s\S", ID_MAX)
"""How the ids of calls are spelled: anyhow, if they are short."""

CALLS_MAX = 128
"""The most calls in one message: "Expected an array with maximum length 128" is what OpenAI answers to more."""

NAME_MAX = 64
"""The longest name of a function, in characters."""

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
"""What a function may be called."""

CARRIES_SIGNATURE = "__thought__"
"""LiteLLM hides Gemini's signature in the call's id, after this mark; such an id is never shortened."""

_REASONING = frozenset(REASONING_BLOCKS + REASONING_TEXTS)
_ROLES = "'system', 'assistant', 'user', 'function', 'tool', and 'developer'"


def read_message(native: Native, index: int) -> Message:
    """One native message as a value."""
    data = native if type(native) is dict else as_mapping(native, f"messages[{index}]")
    role = data.get("role")
    if role == "assistant":
        parts = _assistant(data, index)
    elif role in ("user", "system", "developer"):
        parts = _content(data.get("content"), index)
        if IMAGES in data:
            parts = (*parts, *read_images(data))
    elif role in ("tool", "function"):
        parts, role = (_result(native, data, index),), "tool"
    else:
        where = f"messages[{index}].role"
        raise InvalidInput(where, f"Invalid value: {role!r}. Supported values are: {_ROLES}.")
    return Message.read(role, parts, native)


def read_system(native: Native) -> Message | None:
    """A system prompt that is kept apart from the messages: a string, blocks, or None."""
    if native is None:
        return None
    if not isinstance(native, str | list | tuple):
        _refuse("system", "a string or a list of blocks", native)
    parts = _content(native, -1)
    return Message.read("system", parts, native)


def read_tools(native: Sequence[Any] | None) -> tuple[Tool, ...]:
    """Native tool definitions as values; a definition that is not understood has an empty name at worst."""
    if native is None:
        return ()
    if isinstance(native, str | Mapping) or not isinstance(native, Sequence):
        _refuse("tools", "a list of tool definitions", native)
    tools = []
    for index, tool in enumerate(native):
        data = as_mapping(tool, f"tools[{index}]")
        kind = data.get("type", "function")
        body = mapping_or_none(data.get(kind)) if isinstance(kind, str) else None
        body = data if body is None else body
        if kind == "function" and not isinstance(name := body.get("name"), str):
            _refuse(f"tools[{index}].function.name", "a string", name)
        tools.append(tool_as_read(body, body.get("parameters"), tool))
    return tuple(tools)


def read_block(block: Native, index: int, place: int) -> Part:
    """One block of a message's content as a part; a block that is not understood is ``Opaque``."""
    if isinstance(block, str):
        return Text(block, source=block)
    data = block if type(block) is dict else as_mapping(block, f"{_at(index)}content[{place}]")
    kind = data.get("type")
    if kind == "text":
        if not isinstance(text := data.get("text"), str):
            _refuse(f"{_at(index)}content[{place}].text", "a string", text)
        return Text(text, source=block)
    media = _media(kind, data, block) if isinstance(kind, str) else None
    return media or Opaque(kind if isinstance(kind, str) else "unknown", data, source=block)


def read_call(call: Native, index: int, place: int) -> ToolCall:
    """One entry of ``tool_calls`` as a part."""
    data = call if type(call) is dict else as_mapping(call, f"{_at(index)}tool_calls[{place}]")
    key, words = ("custom", "input") if data.get("type") == "custom" else ("function", "arguments")
    body = data.get(key)
    if type(body) is not dict:
        body = as_mapping(body, f"{_at(index)}tool_calls[{place}].{key}")
    identity, name, arguments = data.get("id"), body.get("name"), body.get(words)
    if not (isinstance(identity, str) and isinstance(name, str) and isinstance(arguments, str)):
        found = (("id", identity), (f"{key}.name", name), (f"{key}.{words}", arguments))
        field, value = next(pair for pair in found if not isinstance(pair[1], str))
        _refuse(f"{_at(index)}tool_calls[{place}].{field}", "a string", value)
    signature = None
    if (extra := data.get("extra_content")) is not None:  # Gemini's thought signature, at its Chat-compatible endpoint
        google = (mapping_or_none(extra) or {}).get("google")
        signature = string_of(mapping_or_none(google) or {}, "thought_signature")
    return ToolCall(identity, name, arguments, signature, source=call)


def read_function_call(call: Native, index: int) -> ToolCall:
    """The legacy ``function_call`` of an assistant message as a part."""
    data = as_mapping(call, f"{_at(index)}function_call")
    name, arguments = data.get("name"), data.get("arguments")
    if not isinstance(name, str):
        _refuse(f"{_at(index)}function_call.name", "a string", name)
    if not isinstance(arguments, str):
        _refuse(f"{_at(index)}function_call.arguments", "a string (JSON text)", arguments)
    return ToolCall(LEGACY + name, name, arguments, source=call)


def read_audio(audio: object) -> Media | Opaque:
    """The ``audio`` of an assistant message, an earlier answer referred to by its id, as a part."""
    data = mapping_or_none(audio)
    if data is None or not isinstance(identity := data.get("id"), str):
        return Opaque("audio", audio, source={"audio": audio})
    return Media("audio", data=string_of(data, "data"), url=identity, source={"audio": audio})


def read_images(data: Mapping[str, Any]) -> tuple[Media, ...]:
    """The images beside the content of a user's message, base64 each, as Ollama takes them; none for anything else."""
    images = data.get(IMAGES) if data.get("role") == "user" else None
    if not isinstance(images, (list, tuple)) or not all(isinstance(image, str) for image in images):
        return ()
    found = tuple([evolve(media_of(image), source={IMAGES: image}) for image in images])
    return found if all(media.kind == "image" for media in found) else ()


def _at(index: int) -> str:
    return "system." if index < 0 else f"messages[{index}]."


def _refuse(where: str, expected: str, got: object) -> NoReturn:
    raise InvalidInput(where, f"must be {expected}, got {'nothing' if got is None else type(got).__name__}")


def _content(content: Native, index: int) -> tuple[Part, ...]:
    if isinstance(content, str):
        return (Text(content, source=content),)
    if content is None:
        return ()
    if not isinstance(content, (list, tuple)):
        _refuse(f"{_at(index)}content", "a string, a list of blocks or null", content)
    return tuple(map(read_block, content, repeat(index), count()))


def _assistant(data: Mapping[str, Any], index: int) -> tuple[Part, ...]:
    parts = _content(data.get("content"), index)
    if (refusal := data.get("refusal")) is not None:
        parts = (*parts, Opaque("refusal", refusal, source={"refusal": refusal}))
    if (audio := data.get("audio")) is not None:
        parts = (*parts, read_audio(audio))
    if (calls := data.get("tool_calls")) is not None:
        if not isinstance(calls, (list, tuple)):
            _refuse(f"{_at(index)}tool_calls", "a list of calls", calls)
        parts = (*parts, *map(read_call, calls, repeat(index), count()))
    if (call := data.get("function_call")) is not None:
        parts = (*parts, read_function_call(call, index))
    return parts if _REASONING.isdisjoint(data) else (*_reasoning(data, index), *parts)


def _result(native: Native, data: Mapping[str, Native], index: int) -> ToolResult:
    name = data.get("name")
    if data["role"] == "function":
        if not isinstance(name, str):
            _refuse(f"{_at(index)}name", "a string", name)
        return ToolResult(LEGACY + name, _content(data.get("content"), index), name, source=native)
    if not isinstance(call_id := data.get("tool_call_id"), str):
        _refuse(f"{_at(index)}tool_call_id", "a string", call_id)
    return ToolResult(call_id, _content(data.get("content"), index), string_of(data, "name"), source=native)


def _reasoning(data: Mapping[str, Any], index: int) -> list[Thinking]:
    """The reasoning, each text of it once: gateways send the same text as blocks and as a string."""
    found: list[Thinking] = []
    for key in REASONING_BLOCKS:
        blocks = data.get(key)
        for place, block in enumerate(blocks if isinstance(blocks, (list, tuple)) else ()):
            fields = as_mapping(block, f"{_at(index)}{key}[{place}]")
            texts = (text for name in ("thinking", "text", "summary") if (text := string_of(fields, name)) is not None)
            signature, encrypted = string_of(fields, "signature"), string_of(fields, "data")
            found.append(Thinking(next(texts, ""), signature, encrypted, source=block))
    told = {"".join(part.text for part in found), "\n".join(part.text for part in found)} if found else set()
    for key in REASONING_TEXTS:
        if (value := data.get(key)) is None:
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        if text not in told:
            found.append(Thinking(text, source={key: value}))
            told.add(text)
    return found


def _media(kind: str, data: Mapping[str, Native], block: Native) -> Media | None:
    body = data.get(kind)
    fields = {"url": body} if isinstance(body, str) else mapping_or_none(body)
    if fields is None:
        return None
    if kind in ("image_url", "video_url") and isinstance(url := fields.get("url"), str):
        return located(kind.removesuffix("_url"), url, string_of(fields, "detail"), block)
    if kind == "input_audio" and isinstance(content := fields.get("data"), str):
        return Media("audio", f"audio/{fields.get('format', 'wav')}", content, source=block)
    if kind == "file" and isinstance(url := fields.get("file_data") or fields.get("file_id"), str):
        words = string_of(fields, "filename") or ""
        if url == fields.get("file_data") and not url.startswith(("data:", "https://", "http://")):
            return Media("document", guess_type(words)[0], url, source=block, words=words)
        return located("document", url, None, block, words)
    return None


_PARTS = "message.parts"
_BESIDE = ("refusal", "audio", "tool_calls", "function_call")


def write_message(message: Message) -> Native:
    """A message as Chat Completions writes it: the payload it was read from when nobody touched it."""
    if message.as_read:
        return message.source
    source = {} if message.source is None else as_mapping(message.source)
    if message.role == "tool":
        return _result_message(message, source)
    if message.role == "assistant":
        return _assistant_message(message, source)
    _refuse_misplaced(message.role, message.parts, ToolCall | ToolResult)
    # Images that stood beside the content stand there again.
    beside = [part for part in message.parts if isinstance(part, Media) and _key_of(part) == IMAGES]
    within = [part for part in message.parts if not isinstance(part, Media) or _key_of(part) != IMAGES]
    native = {**source, "role": message.role, "content": _content_of(within, source.get("content"))}
    if beside:
        return {**native, IMAGES: [part.data for part in beside]}
    return _without(native, IMAGES) if read_images(source) else native


def _refuse_misplaced(role: str, parts: Sequence[Part], kinds: Native) -> None:
    wrong = next((part for part in parts if isinstance(part, kinds)), None)
    if wrong is not None:
        raise InvalidInput(_PARTS, f"a message of role {role!r} cannot hold a {type(wrong).__name__}")


def _result_message(message: Message, source: Mapping[str, Any]) -> dict[str, Any]:
    if len(message.parts) != 1 or not isinstance(result := message.parts[0], ToolResult):
        raise InvalidInput(_PARTS, "a message of role 'tool' holds exactly one ToolResult")
    source = source or mapping_or_none(result.source) or {}
    content = _content_of(result.content, source.get("content"))
    if result.call_id.startswith(LEGACY):
        name = result.call_id.removeprefix(LEGACY)
        return {**_without(source, "tool_call_id"), "role": "function", "name": name, "content": content}
    native = {**source, "role": "tool", "tool_call_id": result.call_id, "content": content}
    if result.name is not None:
        native["name"] = result.name
    return native


def _assistant_message(message: Message, source: Mapping[str, Any]) -> dict[str, Any]:
    _refuse_misplaced("assistant", message.parts, ToolResult)
    within: list[Part] = []
    beside: dict[str, Any] = {}  # what the message says beside its content, by key
    for part in message.parts:
        if isinstance(part, Opaque) and part.kind in ("refusal", "audio") and _key_of(part) == part.kind:
            beside[part.kind] = part.data
        elif isinstance(part, Media) and part.kind == "audio" and part.url is not None:
            was = part.source["audio"] if _key_of(part) == "audio" else None
            beside["audio"] = was if was is not None and read_audio(was) == part else {"id": part.url}
        elif not isinstance(part, Thinking | ToolCall):
            within.append(part)
    if modern := [_call(call) for call in message.calls if not call.id.startswith(LEGACY)]:
        calls = source.get("tool_calls")
        beside["tool_calls"] = calls if isinstance(calls, list) and same(modern, calls) else modern
    for call in message.calls:
        if call.id.startswith(LEGACY) and still_says(call, read_function_call, 0):
            beside["function_call"] = call.source
        elif call.id.startswith(LEGACY):
            old = mapping_or_none(call.source) or {}
            beside["function_call"] = {**old, "name": call.name, "arguments": call.arguments}
    # Null is taken only beside something else that the assistant said.
    content = None if beside and not within else _content_of(within, source.get("content"))
    native = {**source, "role": "assistant", "content": content}
    if content is None and "content" not in source and source:
        del native["content"]
    stale = [key for key in _BESIDE if key not in beside and native.get(key) is not None]
    return _with_reasoning({**_without(native, *stale), **beside}, message)


def _key_of(part: Part) -> str | None:
    """The message's key that a part was read from; None for a block."""
    source = part.source
    return next(iter(source)) if type(source) is dict and len(source) == 1 else None


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


def _content_of(parts: Sequence[Part], was: object) -> str | list[Any]:
    """Content as it was written before: a string stays one while there is one text; blocks stay blocks."""
    if was and isinstance(was, list | tuple):
        # A bare string among blocks that still says the same stays one.
        return [
            part.source if isinstance(part, Text) and part.source == part.text else _block(part) for part in parts
        ] or ""
    if not parts:
        return ""
    if len(parts) == 1 and isinstance(part := parts[0], Text) and mapping_or_none(part.source) is None:
        return part.text
    return [_block(part) for part in parts]


def _block(part: Part) -> Native:
    if isinstance(part, Opaque | Thinking) and part.source is not None:
        return part.source
    if isinstance(part, Opaque):
        return part.data
    if not isinstance(part.source, str) and still_says(part, read_block, 0, 0):
        return part.source
    kept = mapping_or_none(part.source) or {}
    if isinstance(part, Text | Thinking):
        return {**(kept if kept.get("type") == "text" else {}), "type": "text", "text": part.text}
    if isinstance(part, Media):
        return {**kept, **_media_of(part, kept)}
    raise InvalidInput(_PARTS, f"a {type(part).__name__} cannot stand within content")


def _media_of(part: Media, kept: Mapping[str, Any]) -> dict[str, Any]:
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


def _call(call: ToolCall) -> Native:
    if still_says(call, read_call, 0, 0):
        return call.source
    kept = mapping_or_none(call.source) or {}
    if kept.get("type") == "custom":
        body = {**(mapping_or_none(kept.get("custom")) or {}), "name": call.name, "input": call.arguments}
        return {**kept, "id": call.id, "custom": body}
    body = {**(mapping_or_none(kept.get("function")) or {}), "name": call.name, "arguments": call.arguments}
    return {**kept, "id": call.id, "type": "function", "function": body}


def _without(source: Mapping[str, Any], *keys: str) -> dict[str, Any]:
    return {key: value for key, value in source.items() if key not in keys}


def repair(
    messages: Sequence[Message], _earlier: Mapping[str, Message], /, *, longest_id: int | None = ID_MAX
) -> Sequence[Repaired]:
    """The messages that cannot be sent as they are, each with what to send instead.

    Text without media in a role that takes none stands for the media; ids are shortened alike in calls and results.
    """
    found: list[Repaired] = []
    for index, message in enumerate(messages):
        if _is_ordinary(message):
            continue
        reasons: list[str] = []
        repaired = _repair_each(message.parts, message.role, reasons, longest_id)
        parts = repaired if reasons else message.parts
        reasons += _shape(message)
        if not reasons:
            continue
        why = ", ".join(dict.fromkeys(reasons))
        if message.role == "assistant" and not parts:
            found.append((index, None, "the message says nothing"))
        else:
            # Other parts, be they equal: written anew even when only what stands beside the parts was at fault.
            found.append((index, message.with_parts((*parts,) or (Text(""),)), why))
    return tuple(found)


def _is_ordinary(message: Message) -> bool:
    """Whether a glance tells that there is nothing to repair in a message, as in most."""
    source = message.source
    if not message.parts or (type(source) is not dict and source is not None):
        return False
    said = message.parts
    if type(said[0]) is ToolResult and len(said) == 1:
        if not (said[0].content and 0 < len(said[0].call_id) <= ID_MAX):
            return False
        said = said[0].content
    for part in said:
        if type(part) is ToolCall:
            typed, words = type(part.source) is dict and part.source.get("type") is not None, part.arguments
            plain = words.isascii() and "NaN" not in words and "Infinity" not in words
            if not (typed and plain and 0 < len(part.id) <= ID_MAX and NAME.fullmatch(part.name)):
                return False
        elif type(part) is not Text or not part.text.isascii():
            return False
    return source is None or source.get("tool_calls") != []


def _repair_each(parts: Sequence[Part], role: str, reasons: list[str], longest_id: int | None) -> tuple[Part, ...]:
    """Each part repaired; of plain text there is nothing to repair, and most parts are that."""
    return tuple(
        [
            part if type(part) is Text and part.text.isascii() else _repair_part(part, role, reasons, longest_id)
            for part in parts
        ]
    )


def _repair_part(part: Part, role: str, reasons: list[str], longest_id: int | None) -> Part:
    before = len(reasons)
    match part:
        case Text():
            clean = cleaned(part.text, reasons)
            return part if clean is part.text else evolve(part, text=clean)
        case ToolCall():
            finite, name = sent_arguments(part, reasons), part.name
            identity = _short(part.id, reasons, longest_id)
            if not NAME.fullmatch(name) and not part.id.startswith(LEGACY):
                reasons.append("the name of a tool call has characters that are not allowed")
                name = nearest_name(name)
            if len(reasons) > before:
                part = evolve(part, id=identity, name=name, arguments=finite)
            if part.id.startswith(LEGACY) or not isinstance(part.source, dict) or part.source.get("type") is not None:
                return part
            reasons.append("the type of a tool call is missing")
            return evolve(part, source={**part.source, "type": "function"})
        case ToolResult():
            content: tuple[Part, ...] = _repair_each(part.content, "tool", reasons, longest_id)
            if not content and value_of(part.source, "content") is None:
                content = (Text(""),)
                reasons.append("content must not be null")
            identity = _short(part.call_id, reasons, longest_id)
            return part if len(reasons) == before else evolve(part, call_id=identity, content=content)
        case Media() if role != "user" and (role != "assistant" or part.kind != "audio"):
            # An assistant may refer to its own earlier audio; all else stands in user messages only.
            reasons.append(f"{part.kind}s are only allowed for messages with role 'user'")
            return Text(f"[{part.kind} left out: only user messages may carry it]")
        case Thinking() if not part.signed and isinstance(part.source, dict) and len(part.source) == 1:
            # Held by a key of the message, it is unsigned text.
            clean = cleaned(part.text, reasons)
            return part if clean is part.text else evolve(part, text=clean, source=dict.fromkeys(part.source, clean))
    return part


def _short(identity: str, reasons: list[str], longest: int | None) -> str:
    """The id, or one that fits, made from it alone, so that call and result still match."""
    if (identity and (longest is None or len(identity) <= longest)) or CARRIES_SIGNATURE in identity:
        return identity
    reasons.append("the id of a tool call is empty, or too long")
    return IDS.respelled(identity)


def _shape(message: Message) -> list[str]:
    """What is at fault beside the parts: no content at all, an empty list of calls."""
    source = message.source
    if source is None or message.role == "tool":
        return []
    reasons = []
    if message.role == "assistant" and value_of(source, "tool_calls") == [] and not message.calls:
        reasons.append("tool_calls must not be empty")
    empty = value_of(source, "content") is None
    if empty and all(message.role == "assistant" and isinstance(part, Thinking) for part in message.parts):
        reasons.append("content must not be null")
    return reasons


def value_of(source: Native, key: str) -> Native:
    """The value of a key of a native message, without dumping SDK objects."""
    return source.get(key) if type(source) is dict or isinstance(source, Mapping) else getattr(source, key, None)


def cleaned(text: str, why: list[str]) -> str:
    """Text without lone surrogates; itself when there are none."""
    if text.isascii() or (clean := clean_text(text)) is text:
        return text
    why.append("lone surrogates cannot be sent")
    return clean


def sent_arguments(call: ToolCall, why: list[str]) -> str:
    """The arguments of a call as they can be sent; themselves when they can."""
    clean = cleaned(call.arguments, why)
    if (finite := finite_json(clean)) is not clean:
        why.append("arguments are not JSON: it has no NaN and no Infinity")
    return finite


def nearest_name(name: str) -> str:
    """What is nearest to a name among the names that are taken; models make names up."""
    return re.sub(r"[^a-zA-Z0-9_-]", "_", name)[:NAME_MAX] or "_"


_SURE_ROLES = {"tool": CERTAIN, "function": CERTAIN, "developer": CERTAIN, "system": LIKELY}
_CALL_KEYS = frozenset({"tool_calls", "function_call", "tool_call_id"})
# What an answer of this format has beside its content, if only as null; no other format has it there.
_ANSWER_KEYS = frozenset({"refusal", "audio", "annotations", *_CALL_KEYS})
_BLOCKS = frozenset({"image_url", "input_audio", "file", "refusal", "video_url"})
_FOREIGN = frozenset(
    {"tool_use", "tool_result", "server_tool_use", "thinking", "redacted_thinking", "image", "document"}
    | {"input_text", "output_text", "input_image", "input_file"}
)
_OPTIONS = frozenset(
    {"response_format", "functions", "max_completion_tokens", "frequency_penalty", "presence_penalty", "logit_bias"}
)


def recognise(request: Mapping[str, Any]) -> int:
    """0 impossible, 1 possible, 5 likely, 10 certain. Looks no further than the first certain sign."""
    messages = request.get("messages")
    if not isinstance(messages, Sequence) or isinstance(messages, str):
        return IMPOSSIBLE
    best = _tools(request.get("tools"))
    if best in (IMPOSSIBLE, CERTAIN):
        return best
    return surest(messages, _message, best if _OPTIONS.isdisjoint(request) else LIKELY)


def _tools(tools: object) -> int:
    if not isinstance(tools, Sequence) or isinstance(tools, str) or not tools:
        return POSSIBLE
    first = mapping_or_none(tools[0]) or {}
    kind = first.get("type")
    if kind in ("function", "custom") and mapping_or_none(first.get(kind)) is not None:
        return CERTAIN
    return POSSIBLE if kind == "function" or "parameters" in first else IMPOSSIBLE


def _message(message: object) -> int:
    native = mapping_or_none(message)
    if native is None or not isinstance(role := native.get("role"), str) or isinstance(native.get("type"), str):
        return IMPOSSIBLE  # Messages of Responses and of Anthropic's answers have a type, these have none.
    content = native.get("content")
    said = _blocks(content) if isinstance(content, list | tuple) else POSSIBLE
    own = role == "assistant" and not _ANSWER_KEYS.isdisjoint(native)
    if said == IMPOSSIBLE or own or any(native.get(key) is not None for key in _CALL_KEYS):
        return said and CERTAIN
    return said if role in ("user", "assistant") else _SURE_ROLES.get(role, IMPOSSIBLE)


def _blocks(blocks: Sequence[Any]) -> int:
    """A block without a type is another provider's; a type that nobody knows may be a dialect's."""
    for block in blocks:
        kind = "text" if isinstance(block, str) else (mapping_or_none(block) or {}).get("type")
        if not isinstance(kind, str) or kind in _FOREIGN:
            return IMPOSSIBLE
        if kind in _BLOCKS:
            return CERTAIN
    return POSSIBLE


_TAKE_CONTROL = re.compile(r"claude|gemini|qwen|nova")
"""The models for which gateways pass Anthropic's cache marker on; OpenAI and others refuse it."""


def cache_marker(ttl: Ttl, profile: ModelProfile | None) -> Mapping[str, Any] | None:
    """The marker for a model: Claude, through a gateway, has Anthropic's."""
    if profile is not None and profile.family.startswith("claude"):
        return control(ttl, profile)
    return breakpoint_of(ttl, profile)


_ROUNDS = RoundRules(most_calls=CALLS_MAX)
_TAKEN_ALONG = frozenset(
    {"role", "content", "tool_calls", "tool_call_id", "function_call", "refusal", "audio", "text", "url", "data"}
    | {"function", "custom", "id", "index", "arguments", "input", "format", "file_data", "file_id", "input_audio"}
    | {"image_url", "video_url", "file", "detail", "extra_content", "expires_at", "transcript"}
    | {"reasoning", "reasoning_content", "reasoning_details", "thinking_blocks"}
)
"""The keys of messages whose values a conversion takes along, or reports as left behind."""


@frozen
class OpenAIChat(WireFormat):
    """The Chat Completions format.

    System messages stand within the messages. Results follow the one message that holds their calls. Call ids may come
    again in another round.
    """

    name: str = "openai-chat"
    provider = "openai"
    rounds: RoundRules = _ROUNDS
    other_names = ("openai", "chat")
    cache_markers = KeyMarkers((BREAKPOINT, CONTROL), cache_marker, _TAKE_CONTROL)
    # Message, name and reply: OpenAI's cookbook, "How to count tokens". Calls and results: the markers around them in
    # the harmony format, rather too high: a round that gpt-3.5-turbo billed with 24 tokens (community.openai.com,
    # 538914) counts 29.
    overheads = TokenOverheads(message=3, reply=3, name=1, call=7, result=2)

    def usual_for(self, family: str, /) -> int:
        """What most models are called in, but for Claude's and Gemini's."""
        if "claude" in family or "gemini" in family:
            return 1
        return 2 if OPENAI_MODELS.search(family) or OPEN_MODELS.search(family) else 0

    def dialect(self, name: str, model: str | None, /) -> WireFormat | None:
        """It in the dialect of this name, or in the one in which a model is called; None when there is none."""
        if name not in ("", FRAMEWORK):
            return in_dialect(DIALECTS[name].of_model(model)) if name in DIALECTS else None
        spoken = None if model is None else dialect_of(model) or dialect_of(family_of(model))
        if spoken is None:
            return self
        return in_dialect(spoken.in_framework() if name else spoken)

    recognises = staticmethod(recognise)
    read_message = staticmethod(read_message)
    read_system = staticmethod(read_system)
    read_tools = staticmethod(read_tools)
    write_message = staticmethod(write_message)

    def repair(self, messages: Sequence[Message], earlier: Mapping[str, Message], /) -> Sequence[Repaired]:
        """What is refused and can be repaired in one message. See ``messages.repair``."""
        return repair(messages, earlier)

    def write_tool(self, tool: Tool, /) -> Native:
        """A tool of the caller's as a definition."""
        function = super().write_tool(tool)
        return {"type": "function", "function": {**function, "strict": True} if is_strict(tool) else function}

    def numbered(self, call_id: str, number: int, /) -> str:
        """Another id for a call, made of the one that it shares with others; a legacy function call has none."""
        return call_id if call_id.startswith(LEGACY) else IDS.numbered(call_id, number)

    def synthetic_result(self, calls: Sequence[ToolCall], text: str, /) -> tuple[Message, ...]:
        """One tool message for each call, saying ``text``; the format cannot say that it failed."""
        results = []
        for call in calls:  # a legacy function's answer bears its name
            name = call.id.removeprefix(LEGACY) if call.id.startswith(LEGACY) else None
            results.append(Message("tool", (ToolResult(call.id, (Text(text),), name),)))
        return tuple(results)

    def capabilities(self, _model: str | None, _profile: ModelProfile | None, /) -> Capabilities:
        """What it can say."""
        return Capabilities(
            Spelling("a-zA-Z0-9_-", ID_MAX),
            keys=_TAKEN_ALONG,
            unique_ids=False,
            grouping="one result",
            system_between="system",
            in_user={"image": PICTURES, "audio": SOUNDS, "document": PDF},
            by_url=frozenset({"image"}),
            texts_in_one=True,
            results_in_one=True,
            says_failed=False,
            details=True,
            arguments_object=False,
            names_files="file",
        )


@frozen
class ChatDialect(OpenAIChat):
    """Chat Completions as one provider takes them: some want certain roles to follow each other."""

    spoken: Dialect = field(kw_only=True)

    def repair(self, messages: Sequence[Message], earlier: Mapping[str, Message], /) -> Sequence[Repaired]:
        """What is refused by all, and what the dialect refuses, repaired in one message."""
        longest = ID_MAX if self.spoken.shortens_ids else None
        found: dict[int, tuple[Message | None, str]] = {
            index: (instead, why) for index, instead, why in repair(messages, earlier, longest_id=longest)
        }
        now = [found[index][0] if index in found else message for index, message in enumerate(messages)]
        kept = [(index, message) for index, message in enumerate(now) if message is not None]
        for place, instead, why in dialects.repair([message for _, message in kept], self.spoken):
            index = kept[place][0]
            before = found[index][1] if index in found else ""
            found[index] = instead, f"{before}, {why}" if before else why
        return tuple((index, *found[index]) for index in sorted(found))

    def arrange(self, messages: Sequence[Message], standing_before: Message | None = None, /) -> Sequence[Arranged]:
        """What has to stand between messages so that they may follow each other. See ``dialects.arrange``."""
        return tuple(dialects.arrange(messages, standing_before, self.spoken))

    def may_end_on(self, message: Message, /) -> bool:
        """Whether the model answers a request that ends on this message."""
        begun = (mapping_or_none(message.source) or {}).get("prefix") is True
        return message.role != "assistant" or self.spoken.assistant_last or begun

    def numbered(self, call_id: str, number: int, /) -> str:
        """Another id for a call, made of the one that it shares with others; a legacy function call has none."""
        if call_id.startswith(LEGACY):
            return call_id
        return (IDS if self.spoken.id_pattern is None else self.spoken.spelling).numbered(call_id, number)

    def capabilities(self, model: str | None, profile: ModelProfile | None, /) -> Capabilities:
        """What it can say, as the provider takes it."""
        return evolve(
            super().capabilities(model, profile),
            ids=self.spoken.spelling,
            unique_ids=self.spoken.unique_ids,
            user_after_results=self.spoken.user_after_tool,
        )


@cache
def in_dialect(spoken: Dialect) -> ChatDialect:
    """Chat Completions in a dialect; the same object for the same dialect."""
    return ChatDialect(spoken.full_name, evolve(_ROUNDS, unique_ids=spoken.unique_ids), spoken=spoken)


@frozen
class ChatCompletions(Adapter):
    """``POST /chat/completions``, as OpenAI's SDK and LiteLLM send and answer it.

    Args:
        format: The wire format of its messages.
    """

    format: str = "openai-chat"

    def begins(self, event: Native, /) -> bool:
        """Whether a chunk says more than the role of the speaker."""
        return any(_says(choice) for choice in get(event, "choices") or ())

    def ends(self, event: Native, /) -> bool:
        """Tell whether an event has the usage (a chunk without choices, or the one that ends them), or is the end."""
        if get(event, "type") == "[DONE]":
            return True
        choices = get(event, "choices") or ()
        return bool(get(event, "usage")) and all(get(choice, "finish_reason") for choice in choices)

    def failure(self, said: Native, /) -> Native:
        """The ``error`` that some gateways answer with status 200."""
        return get(said, "error") if not get(said, "choices") else None

    def tells_usage(self, body: Body, /) -> bool:
        """A stream tells it only where that is asked for."""
        return not get(body, "stream") or bool(get(body, "stream_options", "include_usage"))


def _says(choice: object) -> bool:
    if get(choice, "finish_reason"):
        return True
    delta = get(choice, "delta")
    if delta is None:
        return False
    fields = delta if isinstance(delta, Mapping) else {**vars(delta), **(get(delta, "model_extra") or {})}
    return any(value for name, value in fields.items() if name != "role")


FRAMEWORK_CHAT = ChatCompletions(f"openai-chat/{FRAMEWORK}")
"""The messages of an agent framework as Chat Completions has them; an integration writes the request."""
