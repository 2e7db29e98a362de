"""Content blocks of the Responses API as parts, and parts as content blocks."""

from __future__ import annotations

from collections.abc import Mapping
from mimetypes import guess_type
from typing import Any

from attrs import evolve

from agentctx.core.parts import Media, Opaque, Part, Text
from agentctx.errors import InvalidInput
from agentctx.wire.native import as_mapping, mapping_or_none

TEXTS = frozenset({"input_text", "output_text", "text"})
"""Types of blocks that hold text."""

_MARKED = ("annotations", "logprobs")  # what is said about single characters of a text


def read_content(content: Any, where: str) -> tuple[Part, ...]:  # noqa: ANN401 - whatever stands there
    """The content of a message or of an answer as parts: a string is one text, None says nothing.

    Args:
        content: The native content.
        where: Its place, for errors.

    Raises:
        InvalidInput: If it is neither a string nor a list of blocks.
    """
    if isinstance(content, str):
        return (Text(content, source=content),)
    if content is None:
        return ()
    if not isinstance(content, (list, tuple)):
        raise InvalidInput(where, f"expected a string or a list of blocks, got {type(content).__name__}")
    return tuple([read_block(block, where, place) for place, block in enumerate(content)])


def read_block(block: Any, where: str, place: int) -> Part:  # noqa: ANN401 - a dict or any SDK's object
    """One block as a part that remembers it; a type that is not understood becomes ``Opaque``.

    Raises:
        InvalidInput: If it is no object, or a text block has no text.
    """
    data = block if type(block) is dict else as_mapping(block, f"{where}[{place}]")
    kind = data.get("type")
    if isinstance(kind, str) and kind in TEXTS:
        if not isinstance(text := data.get("text"), str):
            raise InvalidInput(where=f"{where}[{place}].text", what=f"expected a string, got {text!r}")
        return Text(text, source=block)
    media = _media(kind, data, block) if isinstance(kind, str) else None
    return media or Opaque(kind if isinstance(kind, str) else "unknown", data, source=block)


def located(
    kind: str,
    url: str,
    detail: str | None,
    source: Any,  # noqa: ANN401 - a native block
) -> Media:
    """Media by its URL or file id; a ``data:`` URL carries the content itself."""
    head, comma, content = url.partition(",")
    if comma and head.startswith("data:") and head.endswith(";base64"):
        return Media(kind, head[5:-7] or None, content, detail=detail, source=source)
    return Media(kind, url=url, detail=detail, source=source)


def url_of(part: Media) -> str:
    """Where media is, as a URL; inline content as a ``data:`` URL."""
    if part.data is None:
        return part.url or ""
    return f"data:{part.media_type or 'application/octet-stream'};base64,{part.data}"


def location(part: Media, url_key: str) -> tuple[str, str]:
    """The key and the value that say where media is: a URL, or an uploaded file's id."""
    url = url_of(part)
    return (url_key if part.data is not None or "://" in url or url.startswith("data:") else "file_id"), url


def string(data: Mapping[str, Any], key: str) -> str | None:
    """The value of a key when it is a string."""
    value = data.get(key)
    return value if isinstance(value, str) else None


def _media(kind: str, data: Mapping[str, Any], block: Any) -> Media | None:  # noqa: ANN401 - as read_block
    if kind == "input_image" and (url := string(data, "image_url") or string(data, "file_id")):
        detail = string(data, "detail")
        return located("image", url, None if detail == "auto" else detail, block)
    if kind == "input_file":
        url = string(data, "file_data") or string(data, "file_url") or string(data, "file_id")
        return None if not url else _file(data, url, block)
    if kind == "input_audio":
        fields = mapping_or_none(data.get("input_audio")) or {}
        if (content := string(fields, "data")) is not None:
            return Media("audio", f"audio/{string(fields, 'format') or 'wav'}", content, source=block)
    return None


def _file(data: Mapping[str, Any], url: str, block: Any) -> Media:  # noqa: ANN401 - as read_block
    """A file; its content may stand there as a ``data:`` URL or as base64 alone."""
    words = string(data, "filename") or ""
    if string(data, "file_data") and not url.startswith("data:"):
        return Media("document", guess_type(words)[0], url, source=block, words=words)
    return evolve(located("document", url, string(data, "detail"), block), words=words)


def write_content(parts: tuple[Part, ...], old: object, text_type: str) -> str | list[Any]:
    """Parts as content: one text that was never a block stays a string, a list stays a list.

    Args:
        parts: What to say.
        old: The content that it replaces, if any.
        text_type: The type of a new text block (``input_text``, ``output_text``).
    """
    if not isinstance(old, (list, tuple)):
        if not parts:
            return ""
        if len(parts) == 1 and isinstance(text := parts[0], Text) and mapping_or_none(text.source) is None:
            return text.text
    return [write_block(part, text_type) for part in parts]


def write_block(part: Part, text_type: str) -> Any:  # noqa: ANN401 - a native block or a new dict
    """A part as a block: the very block it was read from when it still says the same.

    Raises:
        InvalidInput: If the format has no such block.
    """
    native = part.source
    if isinstance(part, Opaque):
        return part.data if native is None else native
    kept = mapping_or_none(native)
    if kept is not None and "type" in kept and _still_says(native, part):
        return native
    if isinstance(part, Text):
        return _text_block(part, kept or {}, text_type)
    if isinstance(part, Media):
        return _media_block(part, kept or {})
    raise InvalidInput("message.parts", f"a {type(part).__name__} cannot stand within content")


def _still_says(native: Any, part: Part) -> bool:  # noqa: ANN401 - as read_block
    try:
        return read_block(native, "", 0) == part
    except InvalidInput:
        return False


def _text_block(part: Text, kept: Mapping[str, Any], text_type: str) -> dict[str, Any]:
    """A text block; notes about single characters of the text that was there before go."""
    kind = kept.get("type")
    old = kept if kind in TEXTS else {}
    block = {**{key: value for key, value in old.items() if key not in _MARKED}, "text": part.text}
    block["type"] = kind if old else text_type
    if block["type"] == "output_text":
        block["annotations"] = []
    return block


def _media_block(part: Media, kept: Mapping[str, Any]) -> dict[str, Any]:
    if part.kind == "image":
        key, value = location(part, "image_url")
        old = {name: each for name, each in kept.items() if name not in {"image_url", "file_id"}}
        detail = part.detail or string(kept, "detail") or "auto"
        return {**old, "type": "input_image", key: value, "detail": detail}
    if part.kind == "audio":
        sound = (part.media_type or "audio/wav").removeprefix("audio/")
        return {"type": "input_audio", "input_audio": {"data": part.data or part.url, "format": sound}}
    if part.kind != "document":
        raise InvalidInput("message.parts", f"the Responses API takes no {part.kind}")
    key, value = location(part, "file_url")
    old = {name: each for name, each in kept.items() if name not in {"file_data", "file_url", "file_id"}}
    return {**old, "type": "input_file", ("file_data" if part.data is not None else key): value}
