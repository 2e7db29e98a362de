"""Text from a transcript made safe for a terminal, and for those who read it."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from reprlib import Repr

from agentctx.lazy import lazy_pattern

# What a terminal obeys, what turns the order of the characters around it, what ends a line unseen, what hides text,
# and what no encoder takes.
_UNSAFE = "\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e007f"
_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"} | {0x7F: 0x2421}
_UNPRINTABLE = lazy_pattern(f"[{_UNSAFE}]")
_BLANKS = lazy_pattern(r"\s+")
IN_ASCII = str.maketrans("→━─▼✗…░←", ">#.vx~.<")
"""For a terminal that takes ASCII only: what stands for the signs that tables and pictures are drawn with."""
_SHORT = Repr()
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 80


def visible(text: str) -> str:
    """The text with ``�`` for what turns its order around, hides in it or is a control character above U+007E.

    The escapes by which a program itself colours what it writes stay.
    """
    return _UNPRINTABLE.sub("\ufffd", text)


def printable(text: str) -> str:
    """The text without anything that a terminal would obey or an encoder refuse.

    Control characters become their pictures (``␛``); marks of direction, line separators, hidden characters and lone
    surrogates become ``�``; line breaks stay, tabs become spaces.
    """
    return visible(text.expandtabs(4).translate(_PICTURES))


def on_one_line(text: str, width: int) -> str:
    """The start of the text on one line of at most ``width`` characters, with ``…`` when it was longer."""
    line = _BLANKS.sub(" ", printable(text[: 4 * width])).strip()
    return line if len(line) <= width and len(text) <= 4 * width else line[: width - 1].rstrip() + "…"


def shown(value: object) -> str:
    """A value as Python writes it, for errors: at most 80 characters, however long, deep or odd it is."""
    try:
        return _SHORT.repr(value)[:80]
    except ValueError:  # Python writes no number of more than some thousand digits
        return f"a value of type {type(value).__name__}"


def said_by(error: BaseException) -> str:
    """What was raised, in words: its type and what it says; of one whose own text raises, the type alone.

    Args:
        error: What was raised, by whatever code.
    """
    try:
        said = str(error)
    except Exception:  # noqa: BLE001 - a class of a user's, or of a library of theirs
        said = ""
    return f"{type(error).__name__}: {said}" if said else type(error).__name__


_FIRST, _LAST = datetime(1, 1, 2, tzinfo=UTC), datetime(9999, 12, 30, tzinfo=UTC)
"""The days of a calendar that there are in every time zone."""


def calendar_time(seconds: float) -> datetime:
    """A time in seconds since 1970, in UTC; the calendar's first or last day where it is outside of all that it has.

    Of a file such a time is easily made, and some file systems keep it.
    """
    try:
        return min(max(datetime.fromtimestamp(seconds, UTC), _FIRST), _LAST)
    except (ValueError, OverflowError, OSError):
        return _LAST if seconds > 0 else _FIRST


def escaped(json: str) -> str:
    r"""JSON text with the same as JSON escapes: ``\u009b``; it means what it meant.

    Args:
        json: JSON text, in which control characters below U+0020 are escaped already.
    """
    return _UNPRINTABLE.sub(_escape, json)


def _escape(found: re.Match[str]) -> str:
    units = found[0].encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[place] << 8 | units[place + 1]:04x}" for place in range(0, len(units), 2))
