import base64
import struct
import zlib

import pytest
from hypothesis import given, strategies as st

from agentctx.tokens.media import image_size


def png(width, height):
    """A complete PNG image of this size, all black."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(bytes((width + 1) * min(height, 100)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def jpeg(width, height, *, before=b""):
    """The start of a JPEG image of this size, with segments before its frame header."""
    frame = struct.pack(">HBHHB", 17, 8, height, width, 3) + bytes(9)
    return b"\xff\xd8" + before + b"\xff\xc2" + frame + b"\xff\xda" + bytes(500)


def gif(width, height):
    """The start of a GIF image of this size."""
    return b"GIF89a" + struct.pack("<HH", width, height) + bytes(50)


def webp(kind, body):
    """The start of a WebP image with this first chunk."""
    return b"RIFF" + bytes(4) + b"WEBP" + kind + struct.pack("<I", len(body)) + body + bytes(50)


def webp_lossless(width, height):
    """The start of a lossless WebP image of this size."""
    return webp(b"VP8L", b"\x2f" + struct.pack("<I", (width - 1) | (height - 1) << 14))


def webp_lossy(width, height):
    """The start of a lossy WebP image of this size."""
    return webp(b"VP8 ", b"\x00\x00\x00\x9d\x01\x2a" + struct.pack("<HH", width, height))


def webp_extended(width, height):
    """The start of an extended WebP image of this size."""
    return webp(b"VP8X", bytes(4) + (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little"))


EXIF = b"\xff\xe1" + struct.pack(">H", 60_002) + bytes(60_000)


@pytest.mark.parametrize("make", [png, jpeg, gif, webp_lossless, webp_lossy, webp_extended])
@given(width=st.integers(1, 16_000), height=st.integers(1, 16_000))
def test_size_is_read_from_the_header(make, width, height):
    """Width and height are those of the header, in every format."""
    content = make(width, height) if make is not png else make(width, height)[:60]
    assert image_size(base64.b64encode(content).decode()) == (width, height)


def test_whole_png_is_read():
    """A complete image has its size."""
    assert image_size(base64.b64encode(png(640, 480)).decode()) == (640, 480)


@pytest.mark.parametrize("segments", [1, 5])
def test_jpeg_may_hold_much_before_its_size(segments):
    """A camera's previews and profiles stand before the size; they are passed over."""
    content = jpeg(4000, 3000, before=b"\xff\xff" + EXIF[1:] + EXIF * (segments - 1))
    assert image_size(base64.b64encode(content).decode()) == (4000, 3000)


@pytest.mark.parametrize(
    "data", ["", "!!!!", "aGVsbG8gd29ybGQ=", base64.b64encode(b"\x89PNG\r\n\x1a\n").decode(), "\ud800é中"]
)
def test_what_is_no_image_has_no_size(data):
    """Text, damage and cut-off headers have no size, and do not raise."""
    assert image_size(data) is None


@given(
    content=st.sampled_from([b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF8", b"RIFF0000WEBPVP8L"]),
    rest=st.binary(max_size=80),
)
def test_damage_never_raises(content, rest):
    """Whatever follows a signature, there is a positive size or none."""
    found = image_size(base64.b64encode(content + rest).decode())
    assert found is None or min(found) > 0
