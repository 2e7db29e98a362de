"""How media are carried: as base64, bytes, a file or a stream, with their type or without, at any depth of a block.

A block that nobody understands is counted as text, but what it carries is no text: it is found here and taken out.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping
from io import IOBase
from os import PathLike
from typing import Any

from attrs import define, evolve, field, frozen

from agentctx.core.message import Media, Native
from agentctx.lazy import lazy_pattern

_MAGIC: tuple[tuple[str, str], ...] = (
    ("iVBORw0KGgo", "image/png"),
    ("/9j/", "image/jpeg"),
    ("R0lGOD", "image/gif"),
    ("UklGR", "image/webp"),
    ("JVBERi0", "application/pdf"),
    ("SUQz", "audio/mpeg"),
    ("T2dnU", "audio/ogg"),
    ("ZkxhQ", "audio/flac"),
    ("GkXfo", "video/webm"),
    ("UEsDB", "application/zip"),
)
"""How base64 of the usual files begins."""

_FORMATS: Mapping[str, str] = {
    **dict.fromkeys(("png", "jpeg", "gif", "webp"), "image"),
    **dict.fromkeys(("mp3", "wav", "flac", "ogg", "opus", "aac", "pcm16"), "audio"),
    **dict.fromkeys(("mp4", "mov", "mkv", "webm", "mpeg", "mpg", "wmv", "flv", "three_gp"), "video"),
    **dict.fromkeys(("pdf", "doc", "docx", "xls", "xlsx"), "application"),
    **dict.fromkeys(("txt", "md", "csv", "html"), "text"),
}
"""Families of MIME types by the formats that providers name."""

_TYPES = ("media_type", "mimeType", "mime_type")
_KINDS = frozenset({"image", "audio", "video"})
_CARRIERS = frozenset({"data", "bytes", "blob", "file_data", "b64_json", "base64"})
"""Keys under which content stands beside its type."""

_READ = frozenset(
    {"text", "stdout", "stderr", "output", "code", "query", "title", "context", "name", "filename", "description"}
    | {"displayName", "display_name", "caption"}
)
"""Keys whose strings the model reads as they stand, whatever they look like."""

_MADE = frozenset({"input", "arguments", "args"})
"""Keys of what a model wrote itself: no media."""

_BASE64 = lazy_pattern(r"[A-Za-z0-9+/_\r\n-]++={0,2}\s*")
_MIXED = (lazy_pattern("[A-Z]"), lazy_pattern("[a-z]"), lazy_pattern("[0-9]"))
_DATA_URL = lazy_pattern(r"data:([^;,]*)(?:;[^;,]*)*;base64,")
_RECOGNISABLE = 32
"""From so many characters on, base64 that begins as the usual files do is taken for a file."""

_UNMISTAKABLE = 1024
"""From so many characters on, base64 is taken for a file however it begins: nothing else is so long."""

_LINE = 48
"""No line of base64 that is wrapped is shorter, but for the last one."""

_SIGNATURES = frozenset({"signature", "thoughtSignature", "thought_signature"})
"""Keys of signatures: providers check them, and no model reads them."""

_ENCRYPTED_CHARACTERS = 4
"""Of base64 for a token: three bytes; estimate."""

_DEEPEST = 100


def base64_of(value: object) -> str | None:
    """Content in base64, from bytes, a path or a binary stream (which is then where it was before); else None.

    Raises:
        OSError: If the file cannot be read.
        ValueError: If the stream is closed or cannot go back.
    """
    if isinstance(value, (bytes, bytearray, memoryview)):
        return b64encode(value).decode("ascii")
    if isinstance(value, PathLike):
        with open(value, "rb") as file:  # noqa: PTH123 - pathlib takes long to import
            return b64encode(file.read()).decode("ascii")
    return b64encode(_read_whole(value)).decode("ascii") if isinstance(value, IOBase) else None


def _read_whole(stream: Native) -> bytes:
    """All that a stream holds, from its start on."""
    place = stream.tell()
    stream.seek(0)
    try:
        content = stream.read()
    finally:
        stream.seek(place)
    return content.encode() if isinstance(content, str) else bytes(content)


def media_of(data: str, media_type: str | None = None) -> Media:
    """Content in base64 as media; of which kind, its type says, else how it begins.

    Args:
        data: The base64.
        media_type: Its MIME type, when known.
    """
    known = media_type or _by_magic(data)
    family = (known or "").partition("/")[0]
    return Media(family if family in _KINDS else "document", known, data)


def _by_magic(data: str) -> str | None:
    return next((media_type for magic, media_type in _MAGIC if data.startswith(magic)), None)


@define(eq=False, repr=False)
class Carried:
    """What a block carries beside words.

    Args:
        rest: The block, an empty string in the place of all that was found.
        media: The media in it.
        encrypted: Tokens of what is encrypted in it; estimate.
    """

    rest: object
    media: list[Media] = field(factory=list)
    encrypted: int = 0


def carried(block: object) -> Carried:
    """Find the media in a block that is not understood, at any depth.

    Args:
        block: Any JSON value; also SDK objects, bytes, paths and streams within it.
    """
    found = Carried(block)
    found.rest = _walk(block, _Place(), found)
    return found


@frozen(eq=False, repr=False)
class _Place:
    """Where a value stands.

    Args:
        key: Its key.
        media_type: The MIME type that is said around it, if any.
        inline: Whether base64 is what has to stand here.
        depth: How deep it is.
        around: The containers that it stands in, by their ids.
    """

    key: str = ""
    media_type: str | None = None
    inline: bool = False
    depth: int = 0
    around: frozenset[int] = frozenset()

    def within(self, container: object) -> _Place:
        return evolve(self, depth=self.depth + 1, around=self.around | {id(container)})


def _walk(value: object, place: _Place, found: Carried) -> Native:
    if isinstance(value, str):
        return _text(value, place, found)
    if value is None or isinstance(value, (int, float)):
        return value
    if isinstance(value, (bytes, bytearray, memoryview, PathLike, IOBase)):
        return _content(value, place, found)
    if place.depth > _DEEPEST or id(value) in place.around:
        return value
    inner = place.within(value)
    if isinstance(value, (list, tuple)):
        return [_walk(each, inner, found) for each in value]
    fields = value if isinstance(value, Mapping) else _dumped(value)
    return value if fields is None else dict(_entries(fields, inner, found))


def _dumped(value: object) -> Mapping[Native, Native] | None:
    dump = None if isinstance(value, type) else getattr(value, "model_dump", None)
    dumped = dump(exclude_unset=True) if callable(dump) else None
    return dumped if isinstance(dumped, Mapping) else None


def _entries(fields: Mapping[Any, Any], place: _Place, found: Carried) -> Iterator[tuple[Any, Any]]:
    said = _media_type(fields)
    inline = fields.get("type") == "base64" or (said or place.media_type or "text").partition("/")[0] != "text"
    here = evolve(place, media_type=said or place.media_type, inline=inline and fields.get("type") != "text")
    for key, value in fields.items():
        yield key, value if key in _MADE else _walk(value, evolve(here, key=str(key)), found)


def _media_type(fields: Mapping[Any, Any]) -> str | None:
    """The MIME type that a block names, or makes of a format that it names."""
    named = next((fields[key] for key in _TYPES if isinstance(fields.get(key), str)), None)
    if named is not None:
        return str(named)
    suffix = fields.get("format")
    family = _FORMATS.get(suffix) if isinstance(suffix, str) else None
    return None if family is None else f"{family}/{'plain' if family == 'text' else suffix}"


def _text(text: str, place: _Place, found: Carried) -> str:
    if place.key in _SIGNATURES and _BASE64.fullmatch(text):
        return ""
    if place.key.startswith("encrypted") and _BASE64.fullmatch(text):
        found.encrypted += -(-len(text) // _ENCRYPTED_CHARACTERS)
        return ""
    if (url := _DATA_URL.match(text)) is not None and place.key != "text":
        found.media.append(media_of(text[url.end() :], url[1] or None))
        return ""
    if not _is_file(text, place):
        return text
    found.media.append(media_of(text, place.media_type))
    return ""


def _is_file(text: str, place: _Place) -> bool:
    """Whether a string is a file in base64: as its neighbours say, as it begins, or since nothing else is so long."""
    if place.key in _READ or not _BASE64.fullmatch(text):
        return False
    if place.inline and place.key in _CARRIERS:
        return True
    if len(text) >= _RECOGNISABLE and _by_magic(text) is not None:
        return True
    unmistakable = len(text) >= _UNMISTAKABLE and not 0 <= text.find("\n") < _LINE
    return unmistakable and place.key != "content" and all(letters.search(text) for letters in _MIXED)


def _content(value: object, place: _Place, found: Carried) -> str:
    """Bytes are media where their type is said or seen; else they count as the base64 that they are sent as."""
    try:
        data = base64_of(value) or ""
    except (OSError, ValueError):  # reading the message says so; a count may not
        return ""
    if place.media_type is None and _by_magic(data) is None and not _is_file(data, place):
        return data
    found.media.append(media_of(data, place.media_type))
    return ""
