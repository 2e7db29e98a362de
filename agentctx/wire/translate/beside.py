"""What a native message says beside what its parts say, and no other format has a place for."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from agentctx.core.message import Message, Tool
from agentctx.core.parts import Media, Opaque, Part, Text, Thinking, ToolResult
from agentctx.wire.native import fields_or_none
from agentctx.wire.translate.media import NAMES

_MARKS = frozenset({"type", "cache_control", "prompt_cache_breakpoint", "cachePoint"})
"""Keys that say nothing, or are not taken along as ``convert`` says."""

_ANSWER = frozenset(
    {"id", "model", "stop_reason", "stop_sequence", "stop_details", "usage", "container", "status", "phase"}
)
"""Keys of an answer as its SDK returns it, about the call that it answered."""

_TAKEN: Mapping[str, frozenset[str]] = {
    "openai-chat": frozenset(
        {"role", "content", "tool_calls", "tool_call_id", "function_call", "refusal", "audio", "text", "url", "data"}
        | {"function", "custom", "id", "index", "arguments", "input", "format", "file_data", "file_id", "input_audio"}
        | {"image_url", "video_url", "file", "detail", "extra_content", "expires_at", "transcript"}
        | {"reasoning", "reasoning_content", "reasoning_details", "thinking_blocks"}
    ),
    "openai-responses": frozenset(
        {"role", "content", "text", "call_id", "name", "arguments", "input", "output", "action", "operation", "id"}
        | {
            "image_url",
            "file_id",
            "file_data",
            "file_url",
            "detail",
            "input_audio",
            "data",
            "format",
            "status",
        }
        | {"logprobs", "result"}
    ),
    "anthropic": frozenset(
        {"role", "content", "text", "id", "name", "input", "tool_use_id", "is_error", "source", "media_type", "data"}
        | {"url", "file_id"}
    ),
    "gemini": frozenset(
        {"role", "parts", "text", "thought", "thoughtSignature", "functionCall", "functionResponse", "inlineData"}
        | {"fileData", "name", "args", "response", "id", "mimeType", "data", "fileUri", "uri"}
    ),
    "bedrock": frozenset(
        {"role", "content", "text", "json", "toolUse", "toolResult", "toolUseId", "input", "status", "image", "video"}
        | {"audio", "document", "format", "source", "bytes", "s3Location", "uri"}
    ),
}
"""The keys, by format and on every level, whose values are taken along or said to be left."""

_HOLDERS = frozenset(
    {
        "function",
        "custom",
        "input_audio",
        "image_url",
        "video_url",
        "file",
        "source",
        "functionCall",
        "functionResponse",
    }
    | {"inlineData", "fileData", "toolUse", "toolResult", "image", "video", "audio", "document", "s3Location"}
)
"""Keys that hold more of the block itself; what stands under any other is content of its own."""

_TOOL = frozenset(
    {"type", "name", "description", "parameters", "input_schema", "inputSchema", "parametersJsonSchema", "function"}
    | {"custom", "toolSpec", "strict", "functionDeclarations", "json", "cache_control"}
)


def beside(message: Message, format_name: str, named: AbstractSet[int] = frozenset()) -> list[str]:
    """The keys of a native message that say something which is not taken along, each once.

    Args:
        message: A message as it was read.
        format_name: Name of the format that it was read from.
        named: The ids of the parts whose names were taken along.
    """
    taken = _TAKEN[format_name.partition("/")[0]] | {key for part in message.parts for key in _own_key(part)}
    answer = _ANSWER if isinstance((fields_or_none(message.source) or {}).get("usage"), (dict, Mapping)) else _MARKS
    found = [key for key in _keys(message.source, taken) if key not in answer and not _is_tool_name(key, message)]
    found += [key for part in message.parts for key in _of_part(part, taken, named)]
    return list(dict.fromkeys(found))


def _own_key(part: Part) -> Iterator[str]:
    """The key of the message that a part is the value of."""
    if isinstance(part, Media) and type(part.source) is dict and len(part.source) == 1:
        yield from part.source


def beside_tool(tool: Tool) -> list[str]:
    """The keys of a tool's definition that are not taken along."""
    definition = fields_or_none(tool.source) or {}
    inner = [fields_or_none(definition.get(key)) or {} for key in ("function", "custom", "toolSpec")]
    return list(dict.fromkeys(key for each in (definition, *inner) for key in _unknown(each, _TOOL)))


def _is_tool_name(key: str, message: Message) -> bool:
    """The name of a tool goes along with its result; that of a participant does not."""
    return key == "name" and bool(message.results)


def _of_part(part: Part, taken: frozenset[str], named: AbstractSet[int]) -> Iterator[str]:
    if isinstance(part, (Opaque, Thinking)):  # these are said to go as a whole
        return
    if id(part) in named:
        taken |= frozenset(NAMES)
    yield from (key for key in _keys(part.source, taken) if not (key == "name" and isinstance(part, ToolResult)))
    if isinstance(part, ToolResult):
        for each in part.content:
            if not (
                isinstance(each, Text) and "text" not in (fields_or_none(each.source) or {})
            ):  # else read as a whole
                yield from _of_part(each, taken, named)


def _keys(native: object, taken: frozenset[str], depth: int = 0) -> Iterator[str]:
    block = None if isinstance(native, str) else fields_or_none(native)
    if block is None or depth > 4:
        return
    yield from _unknown(block, taken)
    for key, value in block.items():
        if _camel(key) in _HOLDERS:
            yield from _keys(value, taken | ({"name"} if _camel(key) in _NAMED else set()), depth + 1)


_NAMED = frozenset({"function", "custom", "functionCall", "functionResponse", "toolUse"})
"""Keys under which a name is that of a tool."""


def _unknown(block: Mapping[str, Any], taken: frozenset[str]) -> Iterator[str]:
    return (
        key for key, value in block.items() if _says(value) and key not in _MARKS and not {key, _camel(key)} & taken
    )


def _says(value: object) -> bool:
    """Whether there is anything in it but what is empty, null or false."""
    waiting, seen = [value], {id(value): value}
    while waiting:
        each = waiting.pop()
        if (inner := fields_or_none(each)) is None:
            if each:
                return True
            continue
        new = {id(item): item for item in inner.values() if id(item) not in seen}
        seen |= new
        waiting.extend(new.values())
    return False


def _camel(key: str) -> str:
    """The API's spelling of a key of google-genai; other formats' keys are known as they are."""
    head, *rest = key.split("_")
    made = head + "".join(each[:1].upper() + each[1:] for each in rest)
    return made if made in _CAMELS else key


_CAMELS = _TAKEN["gemini"] | _HOLDERS | {"parametersJsonSchema", "functionDeclarations"}
