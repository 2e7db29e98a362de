"""Images, sounds, films and documents: found in blocks that carry them, and what each costs.

Their base64 is never counted as text; what a text document says is. First stands how they are found where a block is
not understood (``carried``), then what each costs (``media_tokens``), by kind. Images follow the providers' published
formulas: OpenAI's guide to images (tiles, patches), Anthropic's page on vision (28-pixel patches, 2026-08), Google's
page on tokens (258 a tile). An office document costs its text. The rest are estimates, each said where it is made.
"""

from __future__ import annotations

import zlib
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from io import BytesIO, IOBase
from math import ceil, floor, sqrt
from os import PathLike
from typing import TYPE_CHECKING, Any

from attrs import define, evolve, field, frozen

from agentctx.lazy import lazy_pattern
from agentctx.message import Media, Native
from agentctx.models.profile import ImageRule

if TYPE_CHECKING:
    from zipfile import ZipFile


def carried(block: object) -> Carried:
    """Find the media in a block that is not understood, at any depth: as base64, bytes, a file or a stream.

    Such a block is counted as text, but what it carries is no text: it is taken out.

    Args:
        block: Any JSON value; also SDK objects, bytes, paths and streams within it.
    """
    found = Carried(block)
    found.rest = _walk(block, _Place(), found)
    return found


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


_DEEPEST = 100

_CARRIER_KEYS = frozenset({"data", "bytes", "blob", "file_data", "b64_json", "base64"})
"""Keys under which content stands beside its type."""

_READ_KEYS = frozenset(
    {"text", "stdout", "stderr", "output", "code", "query", "title", "context", "name", "filename", "description"}
    | {"displayName", "display_name", "caption"}
)
"""Keys whose strings the model reads as they stand, whatever they look like."""

_MODEL_KEYS = frozenset({"input", "arguments", "args"})
"""Keys of what a model wrote itself: no media."""


def _walk(value: object, place: _Place, found: Carried) -> Native:
    if isinstance(value, str):
        return _string(value, place, found)
    if value is None or isinstance(value, (int, float)):
        return value
    if isinstance(value, (bytes, bytearray, memoryview, PathLike, IOBase)):
        return _file_or_bytes(value, place, found)
    if place.depth > _DEEPEST or id(value) in place.around:
        return value
    inner = place.within(value)
    if isinstance(value, (list, tuple)):
        return [_walk(each, inner, found) for each in value]
    dump = None if isinstance(value, (Mapping, type)) else getattr(value, "model_dump", None)
    fields = dump(exclude_unset=True) if callable(dump) else value
    if not isinstance(fields, Mapping):
        return value
    media_type = _media_type(fields) or place.media_type
    inline = fields.get("type") == "base64" or (media_type or "text").partition("/")[0] != "text"
    here = evolve(inner, media_type=media_type, inline=inline and fields.get("type") != "text")
    return {
        key: held if key in _MODEL_KEYS else _walk(held, evolve(here, key=str(key)), found)
        for key, held in fields.items()
    }


_TYPE_KEYS = ("media_type", "mimeType", "mime_type")
"""Keys under which a block names the MIME type of what it carries."""

_FAMILY_OF_FORMAT: Mapping[str, str] = {
    **dict.fromkeys(("png", "jpeg", "gif", "webp"), "image"),
    **dict.fromkeys(("mp3", "wav", "flac", "ogg", "opus", "aac", "pcm16"), "audio"),
    **dict.fromkeys(("mp4", "mov", "mkv", "webm", "mpeg", "mpg", "wmv", "flv", "three_gp"), "video"),
    **dict.fromkeys(("pdf", "doc", "docx", "xls", "xlsx"), "application"),
    **dict.fromkeys(("txt", "md", "csv", "html"), "text"),
}
"""Families of MIME types by the formats that providers name."""


def _media_type(fields: Mapping[Any, Any]) -> str | None:
    """The MIME type that a block names, or makes of a format that it names."""
    named = next((fields[key] for key in _TYPE_KEYS if isinstance(fields.get(key), str)), None)
    if named is not None:
        return str(named)
    suffix = fields.get("format")
    family = _FAMILY_OF_FORMAT.get(suffix) if isinstance(suffix, str) else None
    return None if family is None else f"{family}/{'plain' if family == 'text' else suffix}"


_SIGNATURE_KEYS = frozenset({"signature", "thoughtSignature", "thought_signature"})
"""Keys of signatures: providers check them, and no model reads them."""

_ENCRYPTED_CHARACTERS = 4
"""Of base64 for a token: three bytes; estimate."""


def _string(text: str, place: _Place, found: Carried) -> str:
    if place.key in _SIGNATURE_KEYS and _BASE64.fullmatch(text):
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


def _file_or_bytes(value: object, place: _Place, found: Carried) -> str:
    """Bytes are media where their type is said or seen; else they count as the base64 that they are sent as."""
    try:
        data = base64_of(value) or ""
    except (OSError, ValueError):  # reading the message says so; a count may not
        return ""
    if place.media_type is None and _by_magic(data) is None and not _is_file(data, place):
        return data
    found.media.append(media_of(data, place.media_type))
    return ""


_BASE64 = lazy_pattern(r"[A-Za-z0-9+/_\r\n-]++={0,2}\s*")
_MIXED = (lazy_pattern("[A-Z]"), lazy_pattern("[a-z]"), lazy_pattern("[0-9]"))
_DATA_URL = lazy_pattern(r"data:([^;,]*)(?:;[^;,]*)*;base64,")
_RECOGNISABLE = 32
"""From so many characters on, base64 that begins as the usual files do is taken for a file."""

_UNMISTAKABLE = 1024
"""From so many characters on, base64 is taken for a file however it begins: nothing else is so long."""

_SHORTEST_LINE = 48
"""No line of base64 that is wrapped is shorter, but for the last one."""


def _is_file(text: str, place: _Place) -> bool:
    """Whether a string is a file in base64: as its neighbours say, as it begins, or since nothing else is so long."""
    if place.key in _READ_KEYS or not _BASE64.fullmatch(text):
        return False
    if place.inline and place.key in _CARRIER_KEYS:
        return True
    if len(text) >= _RECOGNISABLE and _by_magic(text) is not None:
        return True
    unmistakable = len(text) >= _UNMISTAKABLE and not 0 <= text.find("\n") < _SHORTEST_LINE
    return unmistakable and place.key != "content" and all(letters.search(text) for letters in _MIXED)


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


_SEEN_OR_HEARD = frozenset({"image", "audio", "video"})


def media_of(data: str, media_type: str | None = None) -> Media:
    """Content in base64 as media; of which kind, its type says, else how it begins.

    Args:
        data: The base64.
        media_type: Its MIME type, when known.
    """
    known = media_type or _by_magic(data)
    family = (known or "").partition("/")[0]
    return Media(family if family in _SEEN_OR_HEARD else "document", known, data)


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


def _by_magic(data: str) -> str | None:
    return next((media_type for magic, media_type in _MAGIC if data.startswith(magic)), None)


Size = tuple[int, int]
"""Width and height in pixels."""

_UNKNOWN_SIZE: Size = (1024, 1024)
"""Pixels of an image that is carried by reference, or whose size cannot be told; the size of OpenAI's examples."""

_AUDIO_BYTES = 16_000  # a second of speech as 128 kbit/s MP3; estimate
_WAV_BYTES = 48_000  # a second of 24 kHz, 16 bit, mono: what chat APIs take and give
_VIDEO_BYTES = 250_000  # a second at 2 Mbit/s; estimate
_UNKNOWN_SECONDS = 60  # of sound or film carried by reference; estimate
_PAGE_BYTES = 50_000  # of a PDF page; estimate
_UNKNOWN_PAGES = 10  # of a document carried by reference; estimate

_AUDIO_TOKENS = 32
"""Tokens a second of sound (Gemini's published rate; OpenAI's is lower)."""

_VIDEO_TOKENS = 263
"""Tokens a second of film (Gemini's published rate at one frame a second)."""

_PAGE_TEXT = 500
"""Tokens of text on a page, for providers that read a document's text beside its picture; estimate."""

_TEXT_TYPES = lazy_pattern(
    r"text/|application/(?:[\w.-]+\+)?(?:x-)?(?:json|xml|yaml|toml|sql|sh|javascript|typescript)\b"
)
_PAGE_TYPES = lazy_pattern(r"application/(?:pdf|msword|zip|vnd\.)")
_CONTROL = lazy_pattern(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_NOT_TEXT = ("%PDF-", "{\\rtf", "PK\x03")


def media_tokens(part: Media, rule: ImageRule, count: Callable[[str], int]) -> int:
    """What a part costs, in tokens; never 0.

    Args:
        part: The part.
        rule: How the model's provider counts images.
        count: Counts text: that of a document of plain text.
    """
    match part.kind:
        case "image":
            size = None if part.data is None else image_size(part.data)
            return image_tokens(size or _UNKNOWN_SIZE, rule, part.detail)
        case "audio":
            wav = part.media_type in {"audio/wav", "audio/x-wav", "audio/pcm16"}
            return ceil(_AUDIO_TOKENS * _seconds(part, _WAV_BYTES if wav else _AUDIO_BYTES))
        case "video":
            return ceil(_VIDEO_TOKENS * _seconds(part, _VIDEO_BYTES))
        case _:
            text = office_text(_bytes_of(part) or b"") if may_be_office(part) else document_text(part)
            if text is not None:
                return max(1, count(text))
            pages = _UNKNOWN_PAGES if part.data is None else max(1, ceil(len(part.data) * 3 / 4 / _PAGE_BYTES))
            # A page's picture, and its text where the provider reads both: Anthropic says 1,500 to 3,000 tokens of text
            # and picture a page, Google 258.
            page = 258 if rule.kind == "gemini" else _PAGE_TEXT + image_tokens(_UNKNOWN_SIZE, rule, None)
            return pages * page


def _seconds(part: Media, rate: int) -> float:
    return _UNKNOWN_SECONDS if part.data is None else max(1.0, len(part.data) * 3 / 4 / rate)


def may_be_text(part: Media) -> bool:
    """Whether it has to be looked into to know what a document costs."""
    inline = part.data is not None or (part.url or "").startswith("data:")
    return part.kind == "document" and inline and _PAGE_TYPES.match(part.media_type or "") is None


def document_text(part: Media) -> str | None:
    """The characters of a document of plain text, as its type says or, where it says nothing, its bytes; else None.

    Args:
        part: A document; other media have none.
    """
    if not may_be_text(part):
        return None
    named = part.media_type is not None and _TEXT_TYPES.match(part.media_type) is not None
    return _decoded(_bytes_of(part), named=named)


def _bytes_of(part: Media) -> bytes | None:
    if part.data is None:
        from urllib.parse import unquote_to_bytes  # noqa: PLC0415 - few programs have such documents

        return unquote_to_bytes((part.url or "").partition(",")[2])
    plain = part.data.encode("ascii", "ignore").rstrip(b"=\r\n ")
    try:
        return b64decode(plain + b"=" * (-len(plain) % 4), altchars=b"-_" if b"-" in plain or b"_" in plain else None)
    except ValueError:
        return None


def _decoded(content: bytes | None, *, named: bool) -> str | None:
    """The characters of a content; what is named a text is one also when single bytes of it are damaged."""
    if content is None:
        return None
    encoding = "utf-16" if content[:2] in {b"\xff\xfe", b"\xfe\xff"} else "utf-8"
    try:
        text = content.decode(encoding, "replace" if named else "strict")
    except UnicodeDecodeError:
        return None
    return text if named or not (text.startswith(_NOT_TEXT) or _CONTROL.search(text)) else None


def image_tokens(size: Size, rule: ImageRule, detail: str | None = None) -> int:
    """What an image costs, in tokens.

    Args:
        size: Width and height in pixels.
        rule: How the model's provider counts images.
        detail: The wish for resolution that goes with the image.
    """
    width, height = size
    match rule.kind:
        case "openai-patches":
            return _openai_patches(size, rule, detail)
        case "claude":
            if not _fits_claude(width, height, rule):
                width, height = _claude_resized(size, rule)
            return _cells(width, 28) * _cells(height, 28)
        case "gemini" if rule.tile != 258:  # Gemini 3 counts by the resolution asked for
            return {"low": 280, "medium": 560, "ultra": 2240}.get((detail or "").lower(), rule.tile)
        case "gemini":  # before it, by tiles of 768 pixels, a small image being one
            return 258 if max(size) <= 384 else 258 * _cells(width, 768) * _cells(height, 768)
        case _ if detail == "low":
            return rule.low
        case _:  # OpenAI's tiles: fit into a square of 2048, then the shorter side to 768, then count tiles of 512
            scale = min(1.0, 2048 / max(size))
            scale = min(scale, 768 / min(size))
            return rule.low + rule.tile * _cells(width * scale, 512) * _cells(height * scale, 512)


def _openai_patches(size: Size, rule: ImageRule, detail: str | None) -> int:
    """Patches of 32 pixels, at most so many, times a factor; newer models resize by the detail asked for."""
    patches, edge = rule.patches, 0
    if rule.patches >= 2500:  # gpt-5.4 and later
        if detail == "low":
            edge = 512
        elif rule.patches < 30_000:
            patches, edge = (10_000, 6000) if detail == "original" else (rule.patches, 2048)
        elif detail == "high":
            patches = 2500
    width, height = size
    if edge:
        scale = min(1.0, edge / max(size))
        width, height = max(1, round(width * scale)), max(1, round(height * scale))
    count = _cells(width, 32) * _cells(height, 32)
    if count > patches:
        ratio = sqrt(1024 * patches / (width * height))
        across, down = width * ratio / 32, height * ratio / 32
        ratio *= min(max(1, floor(across)) / across, max(1, floor(down)) / down)
        count = min(patches, _cells(width * ratio, 32) * _cells(height * ratio, 32))
    return ceil(count * rule.factor)


def _fits_claude(width: int, height: int, rule: ImageRule) -> bool:
    across, down = _cells(width, 28), _cells(height, 28)
    return max(across, down) * 28 <= rule.edge and across * down <= rule.cap


def _claude_resized(size: Size, rule: ImageRule) -> Size:
    """The largest size of the same shape that fits: by bisection on the longer side."""
    longer, shorter = max(size), min(size)
    aspect = longer / shorter
    low, high = 1, longer
    while low + 1 < high:
        middle = (low + high) // 2
        if _fits_claude(middle, max(1, round(middle / aspect)), rule):
            low = middle
        else:
            high = middle
    return low, max(1, round(low / aspect))


def _cells(length: float, cell: int) -> int:
    """How many cells cover a length; a hair more than a whole number is a slip of arithmetic, not a cell."""
    return max(1, ceil(length / cell - 1e-9))


_IMAGE_STEPS = (256, 64 * 1024, 1024 * 1024)  # bytes to decode; a JPEG may hold a preview and a profile before its size


def image_size(data: str) -> Size | None:
    """The size of a PNG, JPEG, GIF or WebP image; None when it cannot be told.

    Args:
        data: The image in base64. Only as much of it is decoded as the format needs, at most 1 MB.
    """
    for step in _IMAGE_STEPS:
        part = data[: (step + 2) // 3 * 4].rstrip("=")
        try:  # blanks and damage are passed over
            head = b64decode(part[: len(part) // 4 * 4].encode("ascii", "ignore"), altchars=b"-_")[:step]
        except ValueError:
            head = b""
        size = _size_in(head)
        if size is not None and min(size) > 0:
            return size
        if len(head) < step:
            break
    return None


def _size_in(head: bytes) -> Size | None:
    """The size by how an image begins: PNG, GIF, JPEG or WebP."""
    if head.startswith(b"\x89PNG\r\n\x1a\n"):
        return (_big(head[16:20]), _big(head[20:24])) if len(head) >= 24 else None
    if head.startswith(b"GIF8"):
        return (_little(head[6:8]), _little(head[8:10])) if len(head) >= 10 else None
    if head.startswith(b"\xff\xd8\xff"):
        return _jpeg(head)
    return _webp(head) if head.startswith(b"WEBP", 8) else None


def _webp(head: bytes) -> Size | None:
    if len(head) < 30:
        return None
    kind = head[12:16]
    if kind == b"VP8X":  # extended: 24-bit numbers, one less than the size
        return _little(head[24:27]) + 1, _little(head[27:30]) + 1
    if kind == b"VP8L":  # lossless: two 14-bit numbers, one less than the size
        bits = _little(head[21:25])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 ":  # lossy: two 14-bit numbers, the rest being scale
        return _little(head[26:28]) & 0x3FFF, _little(head[28:30]) & 0x3FFF
    return None


def _jpeg(head: bytes) -> Size | None:
    """Walk from marker to marker until a frame header (SOF0 to SOF15, but for three that are none)."""
    place = 2
    while place + 9 <= len(head):
        if head[place] != 0xFF:
            return None
        marker = head[place + 1]
        if marker in {0x01, 0xFF} or 0xD0 <= marker <= 0xD8:  # filler, or a marker that stands alone
            place += 1 if marker == 0xFF else 2
        elif 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            return _big(head[place + 7 : place + 9]), _big(head[place + 5 : place + 7])
        else:
            place += 2 + max(2, _big(head[place + 2 : place + 4]))
    return None


def _big(number: bytes) -> int:
    return int.from_bytes(number, "big")


def _little(number: bytes) -> int:
    return int.from_bytes(number, "little")


MOST_OFFICE_BYTES = 4 * 2**20
"""So many bytes of XML are read of a document; small archives may hold very much."""

_MOST_ROWS = 1_000
"""So many rows of a sheet are read."""

_DIGITS = 10
"""No number of a shared text has so many."""

_ZIP_BASE64 = "UEsDB"  # how the base64 of a zip archive begins
_OFFICE_TEXTS = lazy_pattern(r"word/(?:document|footnotes|endnotes|comments)\.xml|ppt/slides/slide\d+\.xml")
_OFFICE_SHEETS = lazy_pattern(r"xl/worksheets/[\w.-]+\.xml")
_SHARED_TEXTS = "xl/sharedStrings.xml"
_END_OF_LINE = lazy_pattern(r"</w:p>|</a:p>|</si>|<w:br/>")
_TAG = lazy_pattern(r"<[^<>]*>")
_CELL = lazy_pattern(r"<(row|c|v|t)\b([^<>]*)>([^<]*)")


def may_be_office(part: Media) -> bool:
    """Whether a document is a zip archive, as those of offices are."""
    return part.kind == "document" and part.data is not None and part.data.startswith(_ZIP_BASE64)


def office_text(content: bytes) -> str | None:
    """What a document says, its first megabytes; None for what is none, or is damaged."""
    from zipfile import BadZipFile, ZipFile  # noqa: PLC0415 - few programs have such documents

    try:
        with ZipFile(BytesIO(content)) as archive:
            names = archive.namelist()
            texts, sheets = (sorted(filter(pattern.fullmatch, names)) for pattern in (_OFFICE_TEXTS, _OFFICE_SHEETS))
            if not texts and not sheets:
                return None
            read = _Reader(archive).read
            shared = _plain(read(_SHARED_TEXTS)).split("\n") if sheets and _SHARED_TEXTS in names else []
            told = [
                *(_plain(read(name)) for name in texts),
                *("".join(_sheet_cells(read(name), shared)) for name in sheets),
            ]
    except (BadZipFile, zlib.error, OSError, EOFError, NotImplementedError, RuntimeError, ValueError):
        return None
    return "\n".join(told)


@define(eq=False, repr=False)
class _Reader:
    """Reads the files of an archive, as long as there is something left to read.

    Args:
        archive: The archive.
        left: So many bytes may still be read.
    """

    archive: ZipFile
    left: int = MOST_OFFICE_BYTES

    def read(self, name: str) -> str:
        """A file's characters, up to where the limit is."""
        with self.archive.open(name) as file:
            content = file.read(self.left)
        self.left -= len(content)
        return content.decode("utf-8", "replace")


def _unescaped(text: str) -> str:
    from html import unescape  # noqa: PLC0415 - a table of 2,000 names that only office documents need

    return unescape(text)


def _plain(xml: str) -> str:
    """The characters of XML, a paragraph or a shared text a line."""
    return _unescaped(_TAG.sub("", _END_OF_LINE.sub("\n", xml)))


def _sheet_cells(xml: str, shared: list[str]) -> Iterator[str]:
    """The values of a sheet's cells; many of them are numbers of shared texts."""
    rows, kind = 0, ""
    for found in _CELL.finditer(xml):
        tag, attributes, value = found.groups()
        if tag == "row":
            rows += 1
            if rows > _MOST_ROWS:
                return
            yield "\n"
        elif tag == "c":
            kind = attributes
        elif tag == "v" and 't="s"' in kind:
            place = int(value) if value.isdecimal() and len(value) < _DIGITS else len(shared)
            yield f"{shared[place] if place < len(shared) else ''}\t"
        else:
            yield _unescaped(value) + "\t"
