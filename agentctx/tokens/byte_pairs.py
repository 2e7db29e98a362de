"""Counts the first texts of a program without tiktoken: byte pair encoding in Python, for text in Latin script.

Loading tiktoken takes 0.2 seconds, most of them for the 200,000 tokens of a vocabulary. The first request of a program
needs a few thousand of them. Text is split and merged as tiktoken does it, so it counts exactly the same.
"""

from __future__ import annotations

import re
from functools import cached_property
from itertools import pairwise
from unicodedata import category

from attrs import define, field

from agentctx.tokens.vocabulary import Tokens, Vocabulary

ENOUGH = 50_000
"""Characters. Who counts more is better off with tiktoken: up to here it takes a sixth of the time of loading that."""

_LONGEST_PIECE = 40  # characters: merging takes time that grows with the square of a piece

_ASCII = {
    r"\p{L}++": "[A-Za-z]++",
    r"\p{L}": "A-Za-z",
    r"\p{Lu}": "A-Z",
    r"\p{Ll}": "a-z",
    r"\p{N}": r"\d",
    r"\p{Lt}": "",
    r"\p{Lm}": "",
    r"\p{Lo}": "",
    r"\p{M}": "",
}
"""What the classes of a pattern hold of ASCII, as ``re`` writes it."""

_KINDS = {
    **dict.fromkeys(("Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So", "Cc", "Cf", "Cn"), "-"),
    **dict.fromkeys(("Nd", "Nl", "No"), "0"),
    **dict.fromkeys(("Zs", "Zl", "Zp"), "\v"),
    "Ll": "a",
    "Lu": "A",
}
"""An ASCII character for each general category that has one that patterns treat alike."""


def _kind(char: str) -> str | None:
    """An ASCII character that patterns treat as they treat this one; None when it is none of Latin script."""
    if char in "\x85\u017f":
        return "\v" if char == "\x85" else "s"  # white space; an s in a contraction
    return _KINDS.get(category(char)) if char < "\u0250" or "\u2000" <= char < "\u2c00" else None


def _in_ascii(text: str) -> str | None:
    """A text of ASCII that is split at the same places; None when there is none."""
    if text.isascii():
        return text
    kinds = {ord(char): _kind(char) for char in set(text) if char > "\x7f"}
    return None if None in kinds.values() else text.translate(kinds)


@define(slots=False, eq=False, repr=False)
class FirstTexts:
    """Counts texts until it has counted enough, except those in other scripts.

    Args:
        vocabulary: The encoding; it is read when the first text is counted.
        left: How many characters it may still count.
    """

    vocabulary: Vocabulary
    left: int = ENOUGH
    _known: dict[str, int] = field(factory=dict, init=False)

    @cached_property
    def _tokens(self) -> Tokens:
        return self.vocabulary.tokens()

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        pattern = self.vocabulary.pattern
        for theirs, ours in _ASCII.items():
            pattern = pattern.replace(theirs, ours)
        return re.compile(pattern, re.ASCII)

    def count(self, text: str) -> int | None:
        """The tokens of ``text``, or None when tiktoken has to count it."""
        self.left -= len(text)
        if self.left < 0 or (like := _in_ascii(text)) is None:
            return None
        pieces = [text[slice(*match.span())] for match in self._pattern.finditer(like)]
        if max(map(len, pieces), default=0) > _LONGEST_PIECE:
            return None
        return sum(map(self._count, pieces))

    def _count(self, piece: str) -> int:
        count = self._known.get(piece)
        if count is None:
            count = self._known[piece] = self._merge(piece.encode())
        return count

    def _merge(self, piece: bytes) -> int:
        """The tokens of a piece: the two neighbours that make the lowest token become one, until none make any."""
        rank = self._tokens.rank
        if rank(piece) is not None:
            return 1
        parts = [piece[at : at + 1] for at in range(len(piece))]
        pairs = [rank(one + other) for one, other in pairwise(parts)]
        while found := [number for number in pairs if number is not None]:
            at = pairs.index(min(found))
            parts[at : at + 2] = [parts[at] + parts[at + 1]]
            near = parts[max(at - 1, 0) : at + 2]
            pairs[max(at - 1, 0) : at + 2] = [rank(one + other) for one, other in pairwise(near)]
        return len(parts)
