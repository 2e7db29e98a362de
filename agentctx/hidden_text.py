"""Text as a reader sees it: without colours, escapes, joins over lines, and base64 that hide words from a search."""

from __future__ import annotations

import re
from base64 import b64decode
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence

from attrs import frozen

from agentctx.lazy import lazy_pattern

Span = tuple[int, int]
"""The start of a piece of a text, and its end."""

_STARTS = r"(?:\x1b|\\x1[bB]|\\u001[bB]|\\033|\\e|\^\[)"
_COLOUR = (
    rf"{_STARTS}\[[0-?]{{0,32}}[ -/]{{0,4}}[@-~]|\x9b[0-?]{{0,32}}[ -/]{{0,4}}[@-~]|"
    r"\x1b\][^\x07\x1b]{0,256}(?:\x07|\x1b\\)"
)
NO_WIDTH = (
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
_HIDDEN = lazy_pattern(f"(?P<nothing>{_COLOUR}|{NO_WIDTH})|{_ESCAPE}")
_HIDDEN_OR_OVERWRITTEN = lazy_pattern(f"(?P<nothing>{_OVERWRITTEN}|{_COLOUR}|{NO_WIDTH})|{_ESCAPE}")
_CONTROL = lazy_pattern(r"[\x00-\x08\x0e-\x1f\x7f]")
_NO_WIDTH = lazy_pattern(NO_WIDTH)
_BEGINS = lazy_pattern(r"\\(?=[\\xuUenrtbfv0-3])|%(?=[u0-7])|=(?=[0-7])|&(?=[#A-Za-z])|\^(?=\[)")
"""How an escape begins in a text without control characters and without characters of no width."""
_NEXT_QUOTE = r"[ \t]{0,8}[+.&\\]?[ \t]{0,8}(?:\\?\r?\n)?[ \t+.&]{0,40}[\"'`](?=[\w+/=-])"
_INDENT = r"[ \t>|#*+-]{0,40}(?=[\w+/=-])"
_ENDS = (r"\\", r"\r?\n"), ("-", r"\r?\n"), ("=(?<!==)", r"\r?\n"), (r"\r", r"\n"), (r"\n", "")
_BREAK = lazy_pattern(
    "|".join(
        (
            *(sign + _NEXT_QUOTE for sign in "\"'`"),
            *(rf"{sign}(?<=[\w+/=-].){end}{_INDENT}" for sign, end in _ENDS),
        )
    ),
    re.DOTALL,
)
"""Between two parts of one text: quotes with a sign of joining or a line break, or a line break alone.

What each way begins with stands first: the places where none can begin are passed over fast.
"""


Replaced = tuple[int, int, str]
"""Where something stands in a text, and what is read there instead."""


@frozen(eq=False, repr=False)
class Seen:
    """A text as it is seen.

    Args:
        text: The text as a reader sees it.
        original: The text as it is.
        replaced: The places that differ, in order.
    """

    text: str
    original: str
    replaced: Sequence[Replaced] = ()

    @classmethod
    def of(cls, original: str, replaced: Sequence[Replaced]) -> Seen:
        """A text with something else in some places."""
        pieces: list[str] = []
        done = 0
        for start, end, shown in replaced:
            pieces += (original[done:start], shown)
            done = end
        return cls("".join((*pieces, original[done:])), original, replaced)

    def placed(self, spans: Iterable[Span]) -> Iterator[Span]:
        """Where parts of it stand in the text as it is."""
        if spans := list(spans):
            starts, places = self._pieces()
            for start, end in spans:
                yield self._at(start, starts, places)[0], self._at(end - 1, starts, places)[1]

    def _pieces(self) -> tuple[list[int], list[Span]]:
        """Where each piece of it begins, and where it stands in the text as it is."""
        starts: list[int] = []
        places: list[Span] = []
        length = done = 0
        for start, end, shown in (*self.replaced, (len(self.original), len(self.original), "")):
            for size, place in ((start - done, (done, start)), (len(shown), (start, end))):
                if size:
                    starts.append(length)
                    places.append(place)
                    length += size
            done = end
        return starts, places

    def _at(self, index: int, starts: Sequence[int], places: Sequence[Span]) -> Span:
        piece = bisect_right(starts, index) - 1
        start, end = places[piece]
        seen = (starts[piece + 1] if piece + 1 < len(starts) else len(self.text)) - starts[piece]
        if seen != end - start:
            return start, end
        return start + index - starts[piece], start + index - starts[piece] + 1


def without_escapes(text: str) -> tuple[Seen, ...]:
    """Return the text with its escapes decoded, with a blank before each and without; empty when it has no escape."""
    found = [(*each.span(), _character(each)) for each in _escapes(text)]
    if not found:
        return ()
    return Seen.of(text, [(start, end, f" {shown}") for start, end, shown in found]), Seen.of(text, found)


def _escapes(text: str) -> Iterator[re.Match[str]]:
    if (_CONTROL if text.isascii() else _NO_WIDTH).search(text) is not None:
        yield from (_HIDDEN_OR_OVERWRITTEN if "\b" in text else _HIDDEN).finditer(text)
        return
    done = 0
    for begins in _BEGINS.finditer(text):
        if begins.start() >= done and (found := _HIDDEN.match(text, begins.start())) is not None:
            done = found.end()
            yield found


def joined(text: str) -> Seen:
    """The text with lines and quoted pieces joined that may be one word."""
    return Seen.of(text, [(*found.span(), "") for found in _BREAK.finditer(text)])


def _character(found: re.Match[str]) -> str:
    """What an escape stands for: a character, or nothing."""
    if found["nothing"] is not None:
        return ""
    if found["entity"] is not None:
        from html.entities import html5  # noqa: PLC0415 - a table of thousands, for text that has entities

        return html5.get(f"{found['entity']};", found[0])
    if found["letter"] is not None:
        return "\n" if found["letter"] in "nr" else " "
    if found["number"] is not None:
        return chr(int(found["number"]))
    if found["octal"] is not None:
        return chr(int(found["octal"], 8))
    return chr(int(next(filter(None, found.group(*_IN_HEX))), 16))


_IN_HEX = ("four", "two", "percent", "eight", "braces", "quoted", "hex")


_WRAPPED = lazy_pattern(r"(?<![A-Za-z0-9+/_=-])[A-Za-z0-9+/_-]{20,}={0,2}(?![A-Za-z0-9+/_=-])")
_READABLE = re.compile(rb"[\t\n\r -~]*")


def wrapped_in(text: str) -> Iterator[tuple[Span, str]]:
    """What stands in base64, as text: each with its place."""
    for found in _WRAPPED.finditer(text):
        content = found[0].rstrip("=").translate(_STANDARD)
        decoded = b64decode(content + "=" * (-len(content) % 4)) if len(content) % 4 != 1 else b"\0"
        if _READABLE.fullmatch(decoded):
            yield found.span(), decoded.decode("ascii")


_STANDARD = str.maketrans("-_", "+/")
