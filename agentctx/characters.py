"""Characters: how those that cannot be printed are written, and which go together."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from reprlib import Repr
from typing import Any

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
    """Put the start of a text on one line of at most ``width`` characters, with ``…`` when the text is longer.

    The line is cut between characters that a reader sees.
    """
    line = _BLANKS.sub(" ", printable(text[: 4 * width])).strip()
    if len(line) <= width and len(text) <= 4 * width:
        return line
    return line[: cluster_end_before(line, width - 1)].rstrip() + "…"


def shown(value: object) -> str:
    """A value as Python writes it, for errors: at most 80 characters, however long, deep or odd it is."""
    try:
        return _SHORT.repr(value)[:80]
    except Exception:  # noqa: BLE001 - a class of a user's, or a number of more than some thousand digits
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


CLUSTER_REACH = 1024
"""Code points that are looked at on either side; a longer cluster (or run of flags) may be cut."""

# Between these two a cluster ends for sure, whatever stands before them; looked for backwards.
_SURE_END = (
    r"(?r)[\p{GCB=Other}\p{GCB=Control}\p{GCB=LF}\p{GCB=LVT}\p{GCB=T}]"
    r"[^\p{GCB=Extend}\p{GCB=ZWJ}\p{GCB=SpacingMark}\p{GCB=T}]"
)


@cache
def _clusters(source: str) -> Any:  # noqa: ANN401 - regex has no types
    """A compiled pattern of ``regex`` (which comes with tiktoken), imported when text is first cut."""
    return import_module("regex").compile(source)


def cluster_end_before(text: str, position: int) -> int:
    """The last end of a cluster at or before ``position`` (in code points).

    The text before it holds whole clusters.
    """
    return _around(text, position)[0]


def cluster_end_after(text: str, position: int) -> int:
    """The first end of a cluster at or after ``position`` (in code points).

    The text from it on holds whole clusters.
    """
    return _around(text, position)[1]


def _around(text: str, position: int) -> tuple[int, int]:
    """The last end of a cluster at or before ``position``, and the first at or after it; looks only near it."""
    if position <= 0 or position >= len(text):
        edge = max(0, min(position, len(text)))
        return edge, edge
    first = max(0, position - CLUSTER_REACH)
    near, here = text[first : position + CLUSTER_REACH], position - first
    sure = _clusters(_SURE_END).search(near, 0, here + 1)
    start = 0 if sure is None else sure.start() + 1
    while start < here:
        cluster = _clusters(r"\X").match(near, start)
        stop = start + 1 if cluster is None else cluster.end()
        if stop > here:
            return first + start, first + stop
        start = stop
    return position, position


def head_of(text: str, chars: int) -> str:
    """The start of ``text``: at most ``chars`` characters, in whole grapheme clusters."""
    return text[: cluster_end_before(text, chars)]


def tail_of(text: str, chars: int) -> str:
    """The end of ``text``: at most ``chars`` characters, in whole grapheme clusters."""
    return text[cluster_end_after(text, len(text) - chars) :]
