"""Text as a reader sees it, where colours, escapes and characters without width stand within or before words."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable

from attrs import frozen

_STARTS = r"(?:\x1b|\\x1[bB]|\\u001[bB]|\\033|\\e)"
_COLOUR = (
    rf"{_STARTS}\[[0-?]{{0,32}}[ -/]{{0,4}}[@-~]|\x9b[0-?]{{0,32}}[ -/]{{0,4}}[@-~]|"
    r"\x1b\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)"
)
_NO_WIDTH = (
    r"[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180e\u200b-\u200f\u202a-\u202e\u2060-\u206f\ufe00-\ufe0f\ufeff]"
)
_ESCAPE = (
    r"\\{1,4}u(?P<four>[0-9a-fA-F]{4})|\\{1,4}x(?P<two>[0-9a-fA-F]{2})|%(?:25)?(?P<percent>[0-7][0-9a-fA-F])|"
    r"&#x(?P<hex>[0-9a-fA-F]{1,4});|&#(?P<number>[0-9]{1,4});|&(?P<entity>amp|lt|gt|quot|apos|nbsp);|"
    r"\\{1,4}(?P<letter>[nrtbfv0])"
)
_HIDDEN = re.compile(f"(?P<nothing>{_COLOUR}|{_NO_WIDTH})|{_ESCAPE}")
_BREAK = re.compile(
    r"[\"'`][ \t]{0,8}[+.&\\]?[ \t]{0,8}(?:\\?\r?\n)?[ \t+.&]{0,40}[\"'`](?=[\w+/=-])|"
    r"(?<=[\w+/=-])(?:\\|-)?\r?\n[ \t>|#*+-]{0,40}(?=[\w+/=-])"
)
"""Between two parts of one text: quotes with a sign of joining or a line break, or a line break alone."""

_ENTITIES = {"amp": "&", "lt": "<", "gt": ">", "quot": '"', "apos": "'", "nbsp": " "}


@frozen
class Seen:
    """A text as it is seen, and where each of its characters stands in the text as it is.

    Args:
        text: As it is seen.
        starts: Where each piece begins in it, in order.
        places: Where each piece begins and ends in the text as it is; one longer than what is seen is an escape.
    """

    text: str
    starts: list[int]
    places: list[tuple[int, int]]

    def place(self, start: int, end: int) -> tuple[int, int]:
        """Where a part of it stands in the text as it is."""
        return self._at(start)[0], self._at(end - 1)[1]

    def _at(self, index: int) -> tuple[int, int]:
        piece = bisect_right(self.starts, index) - 1
        start, end = self.places[piece]
        seen = (self.starts[piece + 1] if piece + 1 < len(self.starts) else len(self.text)) - self.starts[piece]
        if seen != end - start:
            return start, end
        return start + index - self.starts[piece], start + index - self.starts[piece] + 1


def without_escapes(text: str, *, apart: bool) -> Seen | None:
    """The text with every escape as what it stands for; None when there is none.

    Args:
        text: The text.
        apart: Whether what is seen as nothing, and every escape, parts the words around it; else it joins them.
    """
    if _HIDDEN.search(text) is None:
        return None
    return _seen(text, _HIDDEN, lambda found: f" {_character(found)}" if apart else _character(found))


def joined(text: str) -> Seen | None:
    """The text with lines and quoted pieces joined that may be one word; None when there are none."""
    return _seen(text, _BREAK, lambda _: "") if _BREAK.search(text) is not None else None


def _seen(text: str, pattern: re.Pattern[str], shown: Callable[[re.Match[str]], str]) -> Seen:
    pieces: list[str] = []
    starts: list[int] = []
    places: list[tuple[int, int]] = []
    length = done = 0
    for found in (*pattern.finditer(text), None):
        start, end = (len(text), len(text)) if found is None else found.span()
        for piece, place in ((text[done:start], (done, start)), (found and shown(found), (start, end))):
            if piece:
                pieces.append(piece)
                starts.append(length)
                places.append(place)
                length += len(piece)
        done = end
    return Seen("".join(pieces), starts, places)


def _character(found: re.Match[str]) -> str:
    """What an escape stands for: one character, or nothing."""
    if found["nothing"] is not None:
        return ""
    if found["entity"] is not None:
        return _ENTITIES[found["entity"]]
    if found["letter"] is not None:
        return "\n" if found["letter"] in "nr" else " "
    if found["number"] is not None:
        return chr(int(found["number"]))
    return chr(int(found["four"] or found["two"] or found["percent"] or found["hex"], 16))
