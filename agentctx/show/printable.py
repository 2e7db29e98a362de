"""Text from a transcript made safe for a terminal."""

from __future__ import annotations

import re

_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
_UNPRINTABLE = re.compile("[\x80-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_BLANKS = re.compile(r"\s+")


def printable(text: str) -> str:
    """The text without anything that a terminal would obey or an encoder refuse.

    Control characters become their pictures (``␛``), direction overrides and lone surrogates become ``�``; line
    breaks stay, tabs become spaces.
    """
    return _UNPRINTABLE.sub("\ufffd", text.expandtabs(4).translate(_PICTURES))


def on_one_line(text: str, width: int) -> str:
    """The start of the text on one line of at most ``width`` characters, with ``…`` when it was longer."""
    line = _BLANKS.sub(" ", printable(text[: 4 * width])).strip()
    return line if len(line) <= width and len(text) <= 4 * width else line[: width - 1].rstrip() + "…"
