"""Width and height of an image from the first bytes of its base64 form."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable

Size = tuple[int, int]
"""Width and height in pixels."""

_STEPS = (256, 64 * 1024, 1024 * 1024)  # bytes to decode; a JPEG may hold a preview and a profile before its size


def image_size(data: str) -> Size | None:
    """The size of a PNG, JPEG, GIF or WebP image; None when it cannot be told.

    Args:
        data: The image in base64. Only as much of it is decoded as the format needs, at most 1 MB.
    """
    for step in _STEPS:
        head = _decoded(data, step)
        found = _size(head)
        if found is not None or len(head) < step:
            return found
    return None


def _decoded(data: str, size: int) -> bytes:
    """About the first ``size`` bytes; blanks and damage are passed over."""
    part = data[: (size + 2) // 3 * 4].rstrip("=")
    try:
        return base64.b64decode(part[: len(part) // 4 * 4].encode("ascii", "ignore"), altchars=b"-_")[:size]
    except (ValueError, binascii.Error):
        return b""


def _size(head: bytes) -> Size | None:
    for signature, offset, read in _FORMATS:
        if head.startswith(signature, offset):
            found = read(head)
            return found if found is not None and found[0] > 0 and found[1] > 0 else None
    return None


def _png(head: bytes) -> Size | None:
    return (_big(head[16:20]), _big(head[20:24])) if len(head) >= 24 else None


def _gif(head: bytes) -> Size | None:
    return (_little(head[6:8]), _little(head[8:10])) if len(head) >= 10 else None


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


_FORMATS: tuple[tuple[bytes, int, Callable[[bytes], Size | None]], ...] = (
    (b"\x89PNG\r\n\x1a\n", 0, _png),
    (b"\xff\xd8\xff", 0, _jpeg),
    (b"GIF8", 0, _gif),
    (b"WEBP", 8, _webp),
)
