"""Content blocks of the Anthropic Messages API as parts, and parts as content blocks.

Source: https://docs.anthropic.com/en/api/messages and the block types of the ``anthropic`` SDK.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set as AbstractSet
from typing import Any

from attrs import evolve

from agentctx.core.message import Media, Native, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.errors import InvalidInput
from agentctx.providers.native import (
    Parts,
    as_block,
    as_mapping,
    each_read,
    fields_of,
    json_object,
    json_of,
    mapping_or_none,
    placed,
    string_of,
    words_of,
)
from agentctx.tokens.media import base64_of

Block = Mapping[str, Any]

_WORDS = ("title", "context")
"""The keys of what is said beside a document."""


def read_block(native: object) -> Part:
    """One content block as a part that remembers it. A type that we do not know becomes ``Opaque``."""
    block: Block = native if type(native) is dict else as_mapping(native, "")
    kind = block.get("type")
    if not isinstance(kind, str):
        raise InvalidInput(where=".type", what=f"expected the block's type as a string, got {kind!r}")
    reader = _READERS.get(kind)
    return _opaque(block, native) if reader is None else reader(block, native)


def read_content(content: object) -> tuple[Part, ...]:
    """The content of a message or a tool result as parts: None has none, a string is one text."""
    if isinstance(content, str):
        return (Text.read(content, content),)
    return each_read(read_block, content, "a string or a list of blocks")


def write_block(part: Part) -> object:
    """A part as a content block: the very block it was read from when it still says the same.

    An edited part keeps the other keys of its block (``cache_control``, ``title``, …). Reasoning and blocks that we
    do not understand always go back as they came.
    """
    return as_block(part, mapping_or_none(part.source), read_block, _made)


def write_content(parts: tuple[Part, ...], old: object = None) -> str | list[object]:
    """Parts as the content of a message: one text that was never a block stays a string."""
    text = parts[0] if len(parts) == 1 and not isinstance(old, (list, tuple)) else None
    if isinstance(text, Text) and mapping_or_none(text.source) is None:
        return text.text
    return [write_block(part) for part in parts]


def freed(part: Part, callers: AbstractSet[str]) -> Part:
    """The part as what the model itself called, when code of one of these callers called it; else the part itself."""
    if not isinstance(part, (ToolCall, Opaque)) or part.caller not in callers:
        return part
    block = {key: value for key, value in fields_of(part.source).items() if key != "caller"}
    if isinstance(part, Opaque):
        return evolve(part, caller=None, source=block, data=block)
    return evolve(part, caller=None, source=block)


def _string(block: Block, key: str) -> str:
    value = block.get(key)
    if not isinstance(value, str):
        raise InvalidInput(where=f".{key}", what=f"expected a string, got {value!r}" if key in block else "missing")
    return value


def _read_text(block: Block, native: object) -> Part:
    text = block.get("text")
    if not isinstance(text, str):
        raise InvalidInput(where=".text", what=f"expected a string, got {text!r}")
    return Text.read(text, native)


def _read_tool_use(block: Block, native: object) -> Part:
    arguments = json_of(block.get("input", {}), ".input")
    return ToolCall(_string(block, "id"), _string(block, "name"), arguments, source=native, caller=_caller(block))


def _read_tool_result(block: Block, native: object) -> Part:
    parts = placed(_read_said, block.get("content"), ".content")
    return ToolResult(_string(block, "tool_use_id"), parts, is_error=bool(block.get("is_error")), source=native)


def _read_said(content: Native) -> Parts:
    """What a result says; an absent content and an empty one say the same."""
    return () if content == "" else read_content(content)


def _read_thinking(block: Block, native: object) -> Part:
    return Thinking(_string(block, "thinking"), string_of(block, "signature"), source=native)


def _read_redacted(block: Block, native: object) -> Part:
    return Thinking("", encrypted=_string(block, "data"), source=native)


def _read_media(block: Block, native: object) -> Part:
    source = mapping_or_none(block.get("source")) or {}
    kind, media_type, words = block["type"], string_of(source, "media_type"), words_of(block, _WORDS)
    match source.get("type"):
        case "base64" if (data := _inline(source.get("data"))) is not None:
            return Media(kind, media_type, data, source=native, words=words)
        case "url" if isinstance(url := source.get("url"), str):
            return Media(kind, media_type, url=url, source=native, words=words)
        case "file" if isinstance(file_id := source.get("file_id"), str):
            return Media(kind, media_type, url=file_id, source=native, words=words)
    # A document given as plain text or as blocks is read as text by the model, so it is counted by its characters.
    return _opaque(block, native)


def _inline(data: object) -> str | None:
    """The base64 of a source; the SDK takes a path and a stream, too, and reads them itself."""
    try:
        return data if isinstance(data, str) else base64_of(data)
    except (OSError, ValueError) as error:
        raise InvalidInput(where=".source.data", what=f"cannot be read: {error}") from error


def _opaque(block: Block, native: object) -> Part:
    kind: str = block["type"]
    opens = string_of(block, "id") if kind.endswith("_tool_use") else None
    closes = string_of(block, "tool_use_id") if kind.endswith("_tool_result") else None
    return Opaque(kind, block, opens, closes, source=native, caller=_caller(block))


def _caller(block: Block) -> str | None:
    """The id of the server tool's call whose code calls; None where the model itself does."""
    caller = block.get("caller")
    return None if caller is None else string_of(mapping_or_none(caller) or {}, "tool_id")


_READERS: Mapping[str, Callable[[Block, object], Part]] = {
    "text": _read_text,
    "tool_use": _read_tool_use,
    "tool_result": _read_tool_result,
    "thinking": _read_thinking,
    "redacted_thinking": _read_redacted,
    "image": _read_media,
    "document": _read_media,
}


def _made(part: Text | Media | Thinking | ToolCall | ToolResult, old: Block) -> dict[str, Any]:
    """A block saying what the part says, with the other keys of the block that it replaces."""
    match part:
        case Text():
            return {**_keys(old, "text"), "text": part.text}
        case ToolCall():
            return {**_keys(old, "tool_use"), "id": part.id, "name": part.name, "input": json_object(part.arguments)}
        case ToolResult():
            return _made_result(part, _keys(old, "tool_result"))
        case Thinking():
            return _made_thinking(part)
        case Media():
            made = {"title": part.words} if part.words and not old else {}
            return {**_keys(old, part.kind), **made, "source": _media_source(part)}


def _keys(old: Block, kind: str) -> dict[str, Any]:
    return dict(old) if old.get("type") == kind else {"type": kind}


def _made_thinking(part: Thinking) -> dict[str, Any]:
    if part.encrypted is not None:
        return {"type": "redacted_thinking", "data": part.encrypted}
    return {"type": "thinking", "thinking": part.text, "signature": part.signature or ""}


def _made_result(part: ToolResult, block: dict[str, Any]) -> dict[str, Any]:
    block["tool_use_id"] = part.call_id
    if part.is_error or "is_error" in block:
        block["is_error"] = part.is_error
    if _read_result_content(block) != part.content:
        # The empty string is the one empty content that every endpoint takes.
        block["content"] = write_content(part.content, block.get("content")) if part.content else ""
    return block


def _read_result_content(block: Block) -> tuple[Part, ...] | None:
    try:
        return _read_said(block.get("content"))
    except InvalidInput:
        return None


def _media_source(part: Media) -> dict[str, Any]:
    if part.kind not in {"image", "document"}:
        raise InvalidInput(where="source", what=f"the Messages API takes no {part.kind}")
    if part.data is not None:
        default = "image/png" if part.kind == "image" else "application/pdf"
        return {"type": "base64", "media_type": part.media_type or default, "data": part.data}
    url = part.url or ""
    if "://" in url or not url:
        return {"type": "url", "url": url}
    return {"type": "file", "file_id": url}
