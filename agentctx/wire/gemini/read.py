"""Contents and parts of generateContent as values.

Source: https://ai.google.dev/api/caching#Content and the types of the ``google-genai`` SDK.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from agentctx.core.message import Message
from agentctx.core.parts import Media, Opaque, Part, Text, Thinking, ToolCall, ToolResult
from agentctx.errors import InvalidInput
from agentctx.wire.gemini.bare import bare_parts, read_bare, role_of
from agentctx.wire.gemini.names import both, data_key, made_id, signature_of, string, text_of_bytes, value
from agentctx.wire.native import fields, fields_or_none, words_of

Block = Mapping[str, Any]
Counts = dict[str, int]
"""How many calls (or results) of each tool were read in this content: they number those without an id."""

ROLES = {"user": "user", "model": "assistant", "function": "tool", "tool": "tool", None: "user"}
"""Our roles by those of the provider; a content without a role is the user's.

``tool`` is how the SDK's own documentation calls who answers a function call (README of google-genai).
"""

_LABELS = ("displayName", "display_name")
"""The keys of the label of a file."""

_RESOLUTIONS = {
    "MEDIA_RESOLUTION_LOW": "low",
    "MEDIA_RESOLUTION_MEDIUM": "medium",
    "MEDIA_RESOLUTION_HIGH": "high",
    "MEDIA_RESOLUTION_ULTRA_HIGH": "ultra",
}
_CODE = ""
"""Where ``Counts`` counts pieces of code: no tool has this name."""


def read_content(native: object, index: int) -> Message:
    """One content (a mapping, an SDK object, or what the SDK takes in its place) as a value that remembers it.

    Args:
        native: The content.
        index: Its place among the contents; used in errors.

    Raises:
        InvalidInput: If it cannot be read; names ``messages[index]`` and the field.
    """
    if type(native) is not dict or "parts" not in native:
        try:
            if (bare := bare_parts(native)) is not None:
                return Message.read(ROLES[role_of(bare)], read_parts(bare, bare=True), native)
            read_bare(native)
        except InvalidInput as error:
            raise InvalidInput(where=f"messages[{index}]{error.where}", what=error.what) from error
    content: Block = native if type(native) is dict else fields(native, f"messages[{index}]")
    named = content.get("role")
    role = ROLES.get(named) if isinstance(named, str) or named is None else None
    if role is None:
        raise InvalidInput(
            where=f"messages[{index}].role", what=f"expected user, model, function or tool, got {named!r}"
        )
    try:
        parts = read_parts(content.get("parts"))
    except InvalidInput as error:
        raise InvalidInput(where=f"messages[{index}].parts{error.where}", what=error.what) from error
    return Message.read(role, parts, native)


def read_system(native: object) -> tuple[Part, ...]:
    """A system instruction as parts: a string, a content, a part, or a list of strings and parts.

    Raises:
        InvalidInput: If it cannot be read; ``where`` is the path from the instruction on.
    """
    if isinstance(native, str):
        return (Text(native, source=native),)
    if isinstance(native, (list, tuple)):
        return tuple(part for item in native for part in read_system(item))
    content = fields(native, "")
    return read_parts(content.get("parts")) if "parts" in content else (read_part(native, {}),)


def read_parts(natives: object, *, bare: bool = False) -> tuple[Part, ...]:
    """The parts of a content; none when there is no list of them.

    Args:
        natives: The native parts.
        bare: Whether they stand there without a content, where the SDK takes texts and files, too.

    Raises:
        InvalidInput: If they cannot be read; ``where`` is the path from the list on, for example ``[2].text``.
    """
    if natives is None:
        return ()
    if not isinstance(natives, (list, tuple)):
        raise InvalidInput(where="", what=f"expected a list of parts, got {type(natives).__name__}")
    parts: list[Part] = []
    counts: Counts = {}
    try:
        for native in natives:
            parts.append((read_bare(native) if bare else None) or read_part(native, counts))  # noqa: PERF401 - the length tells which part could not be read
    except InvalidInput as error:
        raise InvalidInput(where=f"[{len(parts)}]{error.where}", what=error.what) from error
    return _with_code_pairs(tuple(parts)) if _CODE in counts else tuple(parts)


def read_part(native: object, counts: Counts) -> Part:
    """One part as a value that remembers it. What we do not know becomes ``Opaque``.

    Args:
        native: The part: a mapping or an SDK object.
        counts: What was read before in this content; brought up to date.

    Raises:
        InvalidInput: If it cannot be read; ``where`` is the path within the part.
    """
    block: Block = native if type(native) is dict else fields(native, "")
    if len(block) == 1 and isinstance(text := block.get("text"), str):
        return Text(text, source=native)
    key = data_key(block)
    reader = _READERS.get(key or "")
    return (
        Opaque(key or "", block, source=native) if reader is None or key is None else reader(key, block, native, counts)
    )


def read_response(response: object) -> tuple[Part, ...]:
    """What a function's response says: its one text, or all of it as JSON.

    Raises:
        InvalidInput: If it cannot be written as JSON.
    """
    if response is None or response == {}:
        return ()
    if (key := only_text(response)) is not None and isinstance(response, Mapping):
        return (Text(response[key], source=response),) if response[key] else ()
    return (Text(_json(response, ".response"), source=response),)


def only_text(response: object) -> str | None:
    """The key of a response that is nothing but a text (``output``, ``result``, ``error``, …), or None."""
    if isinstance(response, Mapping) and len(response) == 1:
        key, held = next(iter(response.items()))
        return key if isinstance(held, str) else None
    return None


def _json(data: object, where: str) -> str:
    try:
        return json.dumps(data, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidInput(where=where, what=f"cannot be written as JSON: {error}") from error


def _numbered(block: Block, name: str, counts: Counts) -> str:
    """The id of a call or result: its own, else its name and its place."""
    given = block.get("id")
    if isinstance(given, str) and given:
        return given
    place = counts.get(name, 0)
    counts[name] = place + 1
    return made_id(name, place)


def _read_text(key: str, block: Block, native: object, _counts: Counts) -> Part:
    text = string(block, key, "")
    if block.get("thought"):
        return Thinking(text, signature_of(block), source=native)
    return Text(text, source=native)


def _read_call(key: str, block: Block, native: object, counts: Counts) -> Part:
    call = fields(block[key], f".{key}")
    name = string(call, "name", f".{key}")
    given = call.get("args")
    arguments = "{}" if given is None else _json(given, f".{key}.args")
    return ToolCall(_numbered(call, name, counts), name, arguments, signature_of(block), source=native)


def _read_result(key: str, block: Block, native: object, counts: Counts) -> Part:
    answer = fields(block[key], f".{key}")
    name = string(answer, "name", f".{key}")
    response = answer.get("response")
    content = read_response(response) + _read_attached(answer.get("parts"))
    number, failed = _numbered(answer, name, counts), only_text(response) == "error"
    return ToolResult(number, content, name, failed, source=native, interim=value(answer, "willContinue") is True)


def _read_attached(natives: object) -> tuple[Part, ...]:
    """The media that go with a response."""
    return tuple(read_part(native, {}) for native in natives) if isinstance(natives, (list, tuple)) else ()


def _read_inline(key: str, block: Block, native: object, _counts: Counts) -> Part:
    blob = fields(block[key], f".{key}")
    data, mime = text_of_bytes(blob.get("data")), _mime(blob)
    if data is None:
        return Opaque("inlineData", block, source=native)
    return Media(_kind(mime), mime, data, detail=_detail(block), source=native, words=words_of(blob, _LABELS))


def _read_file(key: str, block: Block, native: object, _counts: Counts) -> Part:
    file = fields(block[key], f".{key}")
    uri, mime = value(file, "fileUri"), _mime(file)
    if not isinstance(uri, str):
        return Opaque("fileData", block, source=native)
    return Media(_kind(mime), mime, url=uri, detail=_detail(block), source=native, words=words_of(file, _LABELS))


def _mime(file: Block) -> str | None:
    """The MIME type; None when none is told."""
    told = value(file, "mimeType")
    return told if isinstance(told, str) else None


def _kind(mime: str | None) -> str:
    family = (mime or "").partition("/")[0]
    return family if family in {"image", "audio", "video"} else "document"


def _detail(block: Block) -> str | None:
    """The wish for resolution, as the counter of images knows it."""
    wish = fields_or_none(value(block, "mediaResolution")) or {}
    level = wish.get("level")
    return _RESOLUTIONS.get(getattr(level, "value", level) or "")


def _read_code(key: str, block: Block, native: object, counts: Counts) -> Part:
    counts[_CODE] = counts.get(_CODE, 0) + 1
    return Opaque("executableCode", block, _id_of(block[key]), source=native)


def _read_output(key: str, block: Block, native: object, _counts: Counts) -> Part:
    return Opaque("codeExecutionResult", block, closes=_id_of(block[key]), source=native)


def _read_server_call(key: str, block: Block, native: object, _counts: Counts) -> Part:
    return Opaque("toolCall", block, _id_of(block[key]), source=native)


def _read_server_result(key: str, block: Block, native: object, _counts: Counts) -> Part:
    return Opaque("toolResponse", block, closes=_id_of(block[key]), source=native)


def _id_of(native: object) -> str | None:
    found = (fields_or_none(native) or {}).get("id")
    return found if isinstance(found, str) and found else None


def _with_code_pairs(parts: tuple[Part, ...]) -> tuple[Part, ...]:
    """Code and its output belong together: by their ids, else by their order within the content."""
    code = [part for part in parts if isinstance(part, Opaque) and part.kind == "executableCode"]
    output = [part for part in parts if isinstance(part, Opaque) and part.kind == "codeExecutionResult"]
    named: dict[int, Part] = {}
    for place, (asked, told) in enumerate(zip(code, output, strict=False)):
        if asked.opens is None and told.closes is None:
            name = made_id("code", place)
            named[id(asked)] = Opaque(asked.kind, asked.data, opens=name, source=asked.source)
            named[id(told)] = Opaque(told.kind, told.data, closes=name, source=told.source)
    return tuple(named.get(id(part), part) for part in parts) if named else parts


_Reader = Callable[[str, Block, object, Counts], Part]
_READERS: Mapping[str, _Reader] = {
    spelling: reader
    for key, reader in {
        "text": _read_text,
        "functionCall": _read_call,
        "functionResponse": _read_result,
        "inlineData": _read_inline,
        "fileData": _read_file,
        "executableCode": _read_code,
        "codeExecutionResult": _read_output,
        "toolCall": _read_server_call,
        "toolResponse": _read_server_result,
    }.items()
    for spelling in both((key,))
}
