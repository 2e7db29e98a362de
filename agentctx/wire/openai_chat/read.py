"""OpenAI Chat Completions messages as values.

What rides beside the content (reasoning of Chat dialects, a refusal) has no block of its own: its part's source is a
mapping of the message's key to its value, for example ``{"reasoning_content": "..."}``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from mimetypes import guess_type
from typing import Any, NoReturn

from attrs import evolve

from agentctx.core.message import Message, Tool
from agentctx.core.parts import Media, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.errors import InvalidInput
from agentctx.tokens.carried import media_of
from agentctx.wire.native import as_mapping, mapping_or_none

LEGACY = "function_call:"
"""Calls of the legacy ``function_call`` key have no id; they are given this, followed by the function's name."""

REASONING_BLOCKS = ("thinking_blocks", "reasoning_details")
"""Keys of assistant messages that hold a list of reasoning blocks: LiteLLM's, OpenRouter's."""

REASONING_TEXTS = ("reasoning_content", "reasoning")
"""Keys of assistant messages that hold reasoning as text: DeepSeek's and its followers', OpenRouter's and vLLM's."""

IMAGES = "images"
"""Ollama's key of a user's message for its images."""

_REASONING = frozenset(REASONING_BLOCKS + REASONING_TEXTS)
_ROLES = "'system', 'assistant', 'user', 'function', 'tool', and 'developer'"


def read_message(native: Any, index: int) -> Message:  # noqa: ANN401 - a dict or any SDK's object
    """One native message as a value.

    Args:
        native: A dict, or an object of the SDK.
        index: Its index, for errors.

    Raises:
        InvalidInput: If it cannot be read; names ``messages[index]`` and the field.
    """
    data = native if type(native) is dict else as_mapping(native, f"messages[{index}]")
    role = data.get("role")
    if role == "assistant":
        parts = _assistant(data, index)
    elif role in ("user", "system", "developer"):
        parts = (*_content(data.get("content"), index), *read_images(data))
    elif role in ("tool", "function"):
        parts, role = (_result(native, data, index),), "tool"
    else:
        where = f"messages[{index}].role"
        raise InvalidInput(where, f"Invalid value: {role!r}. Supported values are: {_ROLES}.")
    return Message.read(role, parts, native)


def read_system(native: Any) -> Message | None:  # noqa: ANN401 - a string or a list of native blocks
    """A system prompt that is kept apart from the messages: a string, blocks, or None.

    Raises:
        InvalidInput: If it is anything else.
    """
    if native is None:
        return None
    if not isinstance(native, str | list | tuple):
        _refuse("system", "a string or a list of blocks", native)
    parts = _content(native, -1)
    return Message.read("system", parts, native)


def read_tools(native: Sequence[Any] | None) -> tuple[Tool, ...]:
    """Native tool definitions as values; a definition that is not understood has an empty name at worst.

    Raises:
        InvalidInput: If it is not a list of objects, or a function has no name.
    """
    if native is None:
        return ()
    if isinstance(native, str | Mapping) or not isinstance(native, Sequence):
        _refuse("tools", "a list of tool definitions", native)
    return tuple(_tool(tool, index) for index, tool in enumerate(native))


def read_block(block: Any, index: int, place: int) -> Part:  # noqa: ANN401 - a dict, a string or any SDK's object
    """One block of a message's content as a part; a block that is not understood is ``Opaque``.

    Args:
        block: The native block.
        index: The message's index, for errors.
        place: The block's place in the content, for errors.

    Raises:
        InvalidInput: If it is not an object or a string, or a text block has no text.
    """
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


def read_call(call: Any, index: int, place: int) -> ToolCall:  # noqa: ANN401 - a dict or any SDK's object
    """One entry of ``tool_calls`` as a part.

    Raises:
        InvalidInput: If its id, its name or its arguments are not strings.
    """
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
    return ToolCall(identity, name, arguments, _signature(data), source=call)


def read_function_call(call: Any, index: int) -> ToolCall:  # noqa: ANN401 - a dict or any SDK's object
    """The legacy ``function_call`` of an assistant message as a part.

    Raises:
        InvalidInput: If its name or its arguments are not strings.
    """
    data = as_mapping(call, f"{_at(index)}function_call")
    name, arguments = data.get("name"), data.get("arguments")
    if not isinstance(name, str):
        _refuse(f"{_at(index)}function_call.name", "a string", name)
    if not isinstance(arguments, str):
        _refuse(f"{_at(index)}function_call.arguments", "a string (JSON text)", arguments)
    return ToolCall(LEGACY + name, name, arguments, source=call)


def read_audio(audio: Any) -> Media | Opaque:  # noqa: ANN401 - a dict or any SDK's object
    """The ``audio`` of an assistant message, an earlier answer referred to by its id, as a part."""
    data = mapping_or_none(audio)
    if data is None or not isinstance(identity := data.get("id"), str):
        return Opaque("audio", audio, source={"audio": audio})
    return Media("audio", data=_text_or_none(data.get("data")), url=identity, source={"audio": audio})


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
    raise InvalidInput(where, f"expected {expected}, got {'nothing' if got is None else type(got).__name__}")


def _text_or_none(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _content(content: Any, index: int) -> tuple[Part, ...]:  # noqa: ANN401 - whatever stands there
    if isinstance(content, str):
        return (Text(content, source=content),)
    if content is None:
        return ()
    if not isinstance(content, (list, tuple)):
        _refuse(f"{_at(index)}content", "a string, a list of blocks or null", content)
    return tuple([read_block(block, index, place) for place, block in enumerate(content)])


def _assistant(data: Mapping[str, Any], index: int) -> tuple[Part, ...]:
    parts = _content(data.get("content"), index)
    if (refusal := data.get("refusal")) is not None:
        parts = (*parts, Opaque("refusal", refusal, source={"refusal": refusal}))
    if (audio := data.get("audio")) is not None:
        parts = (*parts, read_audio(audio))
    if (calls := data.get("tool_calls")) is not None:
        if not isinstance(calls, (list, tuple)):
            _refuse(f"{_at(index)}tool_calls", "a list of calls", calls)
        parts = (*parts, *[read_call(call, index, place) for place, call in enumerate(calls)])
    if (call := data.get("function_call")) is not None:
        parts = (*parts, read_function_call(call, index))
    return parts if _REASONING.isdisjoint(data) else (*_reasoning(data, index), *parts)


def _result(native: Any, data: Mapping[str, Any], index: int) -> ToolResult:  # noqa: ANN401 - as read_message
    name = data.get("name")
    if data["role"] == "function":
        if not isinstance(name, str):
            _refuse(f"{_at(index)}name", "a string", name)
        return ToolResult(LEGACY + name, _content(data.get("content"), index), name, source=native)
    if not isinstance(call_id := data.get("tool_call_id"), str):
        _refuse(f"{_at(index)}tool_call_id", "a string", call_id)
    return ToolResult(call_id, _content(data.get("content"), index), _text_or_none(name), source=native)


def _reasoning(data: Mapping[str, Any], index: int) -> list[Thinking]:
    """The reasoning, each text of it once: gateways send the same text as blocks and as a string."""
    found: list[Thinking] = []
    for key in REASONING_BLOCKS:
        if isinstance(blocks := data.get(key), (list, tuple)):
            found += [_thinking(block, f"{_at(index)}{key}[{n}]") for n, block in enumerate(blocks)]
    told = {"".join(part.text for part in found), "\n".join(part.text for part in found)} if found else set()
    for key in REASONING_TEXTS:
        if (value := data.get(key)) is None:
            continue
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        if text not in told:
            found.append(Thinking(text, source={key: value}))
            told.add(text)
    return found


def _thinking(block: Any, where: str) -> Thinking:  # noqa: ANN401 - a dict or any SDK's object
    data = as_mapping(block, where)
    text = next((text for key in ("thinking", "text", "summary") if isinstance(text := data.get(key), str)), "")
    return Thinking(text, _text_or_none(data.get("signature")), _text_or_none(data.get("data")), source=block)


def _signature(call: Mapping[str, Any]) -> str | None:
    """Gemini's thought signature, which its Chat-compatible endpoint puts on the call."""
    if (extra := call.get("extra_content")) is None:
        return None
    google = (mapping_or_none(extra) or {}).get("google")
    return _text_or_none((mapping_or_none(google) or {}).get("thought_signature"))


def _media(kind: str, data: Mapping[str, Any], block: Any) -> Media | None:  # noqa: ANN401 - as read_block
    body = data.get(kind)
    fields = {"url": body} if isinstance(body, str) else mapping_or_none(body)
    if fields is None:
        return None
    if kind in ("image_url", "video_url") and isinstance(url := fields.get("url"), str):
        return _located(kind.removesuffix("_url"), url, _text_or_none(fields.get("detail")), block)
    if kind == "input_audio" and isinstance(content := fields.get("data"), str):
        return Media("audio", f"audio/{fields.get('format', 'wav')}", content, source=block)
    if kind == "file" and isinstance(url := fields.get("file_data") or fields.get("file_id"), str):
        words = _text_or_none(fields.get("filename")) or ""
        if url == fields.get("file_data") and not url.startswith(("data:", "https://", "http://")):
            return Media("document", guess_type(words)[0], url, source=block, words=words)
        return evolve(_located("document", url, None, block), words=words)
    return None


def _located(kind: str, url: str, detail: str | None, block: Any) -> Media:  # noqa: ANN401 - as read_block
    """Media by its URL; a ``data:`` URL carries the content itself."""
    if not url.startswith("data:"):
        return Media(kind, url=url, detail=detail, source=block)
    head, comma, content = url.partition(",")
    if not comma or not head.endswith(";base64"):
        return Media(kind, url=url, detail=detail, source=block)
    return Media(kind, head[5:-7] or None, content, detail=detail, source=block)


def _tool(tool: Any, index: int) -> Tool:  # noqa: ANN401 - a dict or any SDK's object
    data = as_mapping(tool, f"tools[{index}]")
    kind = data.get("type", "function")
    body = mapping_or_none(data.get(kind)) if isinstance(kind, str) else None
    if body is None:
        body = data
    name = body.get("name")
    if kind == "function" and not isinstance(name, str):
        _refuse(f"tools[{index}].function.name", "a string", name)
    described, schema = body.get("description"), mapping_or_none(body.get("parameters"))
    return Tool(_text_or_none(name) or "", _text_or_none(described) or "", schema, source=tool)
