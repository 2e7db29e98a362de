"""Text as a reader sees it, where colours, escapes and characters without width stand within or before words."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Callable
from html.entities import html5

from attrs import frozen

_STARTS = r"(?:\x1b|\\x1[bB]|\\u001[bB]|\\033|\\e|\^\[)"
_COLOUR = (
    rf"{_STARTS}\[[0-?]{{0,32}}[ -/]{{0,4}}[@-~]|\x9b[0-?]{{0,32}}[ -/]{{0,4}}[@-~]|"
    r"\x1b\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)"
)
_NO_WIDTH = (
    r"[\x00-\x08\x0e-\x1f\x7f-\x84\x86-\x9f"  # controls (Cc) but those that are blanks
    r"\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0f\ufeff"
    r"\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"  # default ignorable
    r"\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\ufff9-\ufffb\U000110bd\U000110cd\U00013430-\U0001343f]"  # Cf
)
"""What Unicode says is not shown: of every version so far, by its categories and its list of what may be ignored."""

_OVERWRITTEN = "|".join(rf"[^\n\x08]{{{count}}}\x08{{{count}}}" for count in range(8, 0, -1))
"""As many characters as there are backspaces behind them."""

_ESCAPE = (
    r"(?:\\{1,4}|%)u(?P<four>[0-9a-fA-F]{4})|\\{1,4}x(?P<two>[0-9a-fA-F]{2})|%(?:25)?(?P<percent>[0-7][0-9a-fA-F])|"
    r"\\{1,4}U00(?P<eight>(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})|\\{1,4}[ux]\{0{0,8}(?P<braces>[0-9a-fA-F]{1,5})\}|"
    r"=(?P<quoted>[0-7][0-9A-F])|\\{1,4}(?P<octal>[01][0-7]{2})|"
    r"&#[xX]0{0,8}(?P<hex>[0-9a-fA-F]{1,5});|&#0{0,8}(?P<number>[0-9]{1,5});|&(?P<entity>[A-Za-z]{2,10});|"
    r"\\{1,4}(?P<letter>[nrtbfv0])"
)
_HIDDEN = re.compile(f"(?P<nothing>{_COLOUR}|{_NO_WIDTH})|{_ESCAPE}")
_HIDDEN_OR_OVERWRITTEN = re.compile(f"(?P<nothing>{_OVERWRITTEN}|{_COLOUR}|{_NO_WIDTH})|{_ESCAPE}")
_BREAK = re.compile(
    r"[\"'`][ \t]{0,8}[+.&\\]?[ \t]{0,8}(?:\\?\r?\n)?[ \t+.&]{0,40}[\"'`](?=[\w+/=-])|"
    r"(?<=[\w+/=-])(?:\\|-|(?<!=)=)?\r?\n[ \t>|#*+-]{0,40}(?=[\w+/=-])"
)
"""Between two parts of one text: quotes with a sign of joining or a line break, or a line break alone."""


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
    hidden = _HIDDEN_OR_OVERWRITTEN if "\b" in text else _HIDDEN
    if hidden.search(text) is None:
        return None
    return _seen(text, hidden, lambda found: f" {_character(found)}" if apart else _character(found))


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
    """What an escape stands for: a character, or nothing."""
    if found["nothing"] is not None:
        return ""
    if found["entity"] is not None:
        return html5.get(f"{found['entity']};", found[0])
    if found["letter"] is not None:
        return "\n" if found["letter"] in "nr" else " "
    if found["number"] is not None:
        return chr(int(found["number"]))
    if found["octal"] is not None:
        return chr(int(found["octal"], 8))
    return chr(int(next(filter(None, found.group(*_IN_HEX))), 16))


_IN_HEX = ("four", "two", "percent", "eight", "braces", "quoted", "hex")
