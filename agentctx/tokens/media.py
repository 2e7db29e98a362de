"""What images, sounds, films and documents cost. Their base64 is never counted as text; what a text document says is.

Images follow the providers' published formulas: OpenAI's guide to images (tiles, patches), Anthropic's page on vision
(28-pixel patches, 2026-08), Google's page on tokens (258 a tile). An office document costs its text. The rest are
estimates, each said where it is made.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode
from collections.abc import Callable
from math import ceil, floor, sqrt
from urllib.parse import unquote_to_bytes

from agentctx.core.parts import Media
from agentctx.core.profile import ImageRule
from agentctx.tokens.image_size import Size, image_size
from agentctx.tokens.office import may_be_office, office_text

UNKNOWN_SIZE: Size = (1024, 1024)
"""Pixels of an image that is carried by reference, or whose size cannot be told; the size of OpenAI's examples."""

_AUDIO_BYTES = 16_000  # a second of speech as 128 kbit/s MP3; estimate
_WAV_BYTES = 48_000  # a second of 24 kHz, 16 bit, mono: what chat APIs take and give
_VIDEO_BYTES = 250_000  # a second at 2 Mbit/s; estimate
_UNKNOWN_SECONDS = 60  # of sound or film carried by reference; estimate
_PAGE_BYTES = 50_000  # of a PDF page; estimate
_UNKNOWN_PAGES = 10  # of a document carried by reference; estimate

AUDIO_TOKENS = 32
"""Tokens a second of sound (Gemini's published rate; OpenAI's is lower)."""

VIDEO_TOKENS = 263
"""Tokens a second of film (Gemini's published rate at one frame a second)."""

PAGE_TEXT = 500
"""Tokens of text on a page, for providers that read a document's text beside its picture; estimate."""


_TEXT_TYPES = re.compile(
    r"text/|application/(?:[\w.-]+\+)?(?:x-)?(?:json|xml|yaml|toml|sql|sh|javascript|typescript)\b"
)
_PAGE_TYPES = re.compile(r"application/(?:pdf|msword|zip|vnd\.)")
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
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
            return image_tokens(_size_of(part), rule, part.detail)
        case "audio":
            wav = part.media_type in {"audio/wav", "audio/x-wav", "audio/pcm16"}
            return ceil(AUDIO_TOKENS * _seconds(part, _WAV_BYTES if wav else _AUDIO_BYTES))
        case "video":
            return ceil(VIDEO_TOKENS * _seconds(part, _VIDEO_BYTES))
        case _:
            text = office_text(_bytes_of(part) or b"") if may_be_office(part) else document_text(part)
            return _pages(part) * page_tokens(rule) if text is None else max(1, count(text))


def document_text(part: Media) -> str | None:
    """The characters of a document of plain text, as its type says or, where it says nothing, its bytes; else None.

    Args:
        part: A document; other media have none.
    """
    if not may_be_text(part):
        return None
    named = part.media_type is not None and _TEXT_TYPES.match(part.media_type) is not None
    return _decoded(_bytes_of(part), named=named)


def may_be_text(part: Media) -> bool:
    """Whether it has to be looked into to know what a document costs."""
    inline = part.data is not None or (part.url or "").startswith("data:")
    return part.kind == "document" and inline and _PAGE_TYPES.match(part.media_type or "") is None


def _bytes_of(part: Media) -> bytes | None:
    if part.data is None:
        return unquote_to_bytes((part.url or "").partition(",")[2])
    plain = part.data.encode("ascii", "ignore").rstrip(b"=\r\n ")
    try:
        return b64decode(plain + b"=" * (-len(plain) % 4), altchars=b"-_" if b"-" in plain or b"_" in plain else None)
    except (binascii.Error, ValueError):
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


def page_tokens(rule: ImageRule) -> int:
    """Tokens of a page of a document: its picture, and its text where the provider reads both.

    Anthropic says 1,500 to 3,000 tokens of text and picture a page, Google 258.
    """
    if rule.kind == "gemini":
        return 258
    return PAGE_TEXT + image_tokens(UNKNOWN_SIZE, rule, None)


def image_tokens(size: Size, rule: ImageRule, detail: str | None = None) -> int:
    """What an image costs, in tokens.

    Args:
        size: Width and height in pixels.
        rule: How the model's provider counts images.
        detail: The wish for resolution that goes with the image.
    """
    match rule.kind:
        case "openai-patches":
            return _openai_patches(size, rule, detail)
        case "claude":
            return _claude(size, rule)
        case "gemini":
            return _gemini(size, rule, detail)
        case _:
            return _openai_tiles(size, rule, detail)


def _openai_tiles(size: Size, rule: ImageRule, detail: str | None) -> int:
    """Fit into a square of 2048, then the shorter side to 768, then count tiles of 512."""
    if detail == "low":
        return rule.low
    width, height = size
    scale = min(1.0, 2048 / max(width, height))
    scale = min(scale, 768 / min(width, height))
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
    width, height = _shrunk(size, edge) if edge else size
    return ceil(_patches(width, height, patches) * rule.factor)


def _shrunk(size: Size, edge: int) -> Size:
    scale = min(1.0, edge / max(size))
    return max(1, round(size[0] * scale)), max(1, round(size[1] * scale))


def _patches(width: int, height: int, most: int) -> int:
    count = _cells(width, 32) * _cells(height, 32)
    if count <= most:
        return count
    ratio = sqrt(1024 * most / (width * height))
    across, down = width * ratio / 32, height * ratio / 32
    ratio *= min(max(1, floor(across)) / across, max(1, floor(down)) / down)
    return min(most, _cells(width * ratio, 32) * _cells(height * ratio, 32))


def _claude(size: Size, rule: ImageRule) -> int:
    width, height = size
    if not _fits_claude(width, height, rule):
        width, height = _claude_resized(size, rule)
    return _cells(width, 28) * _cells(height, 28)


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


def _gemini(size: Size, rule: ImageRule, detail: str | None) -> int:
    """Gemini 3 counts by the resolution asked for; before it, by tiles of 768 pixels, a small image being one."""
    if rule.tile != 258:
        return {"low": 280, "medium": 560, "ultra": 2240}.get((detail or "").lower(), rule.tile)
    if max(size) <= 384:
        return 258
    return 258 * _cells(size[0], 768) * _cells(size[1], 768)


def _cells(length: float, cell: int) -> int:
    """How many cells cover a length; a hair more than a whole number is a slip of arithmetic, not a cell."""
    return max(1, ceil(length / cell - 1e-9))


def _size_of(part: Media) -> Size:
    return (None if part.data is None else image_size(part.data)) or UNKNOWN_SIZE


def _seconds(part: Media, rate: int) -> float:
    return _UNKNOWN_SECONDS if part.data is None else max(1.0, len(part.data) * 3 / 4 / rate)


def _pages(part: Media) -> int:
    return _UNKNOWN_PAGES if part.data is None else max(1, ceil(len(part.data) * 3 / 4 / _PAGE_BYTES))
