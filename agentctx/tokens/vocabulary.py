"""The vocabularies that the package ships, read without any network.

A file holds how many tokens there are of each length, the tokens themselves, the short ones first and those of one
length sorted, and then their ranks, deflated. ``scripts/vocabulary.py`` makes it from the file that OpenAI publishes.
Pattern and special tokens are those of ``tiktoken_ext.openai_public`` (tiktoken 0.14).

The first texts of a program are counted with it in Python, without tiktoken: loading that takes 0.2 seconds, most of
them for the 200,000 tokens of a vocabulary, of which the first request needs a few thousand. Text in Latin script is
split and merged as tiktoken does it, so it counts exactly the same.
"""

from __future__ import annotations

import re
import struct
import zlib
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import accumulate, pairwise
from unicodedata import category

from attrs import define, field, frozen

from agentctx.errors import ConfigError, VocabularyError

LONGEST_TOKEN = 128
"""The longest token of the shipped vocabularies, in bytes: a text of n bytes has at least n / 128 tokens."""


_HEAD = struct.Struct(f"<{LONGEST_TOKEN}I")


@define(eq=False, repr=False)
class Tokens:
    """The tokens of a vocabulary with their ranks: one can be looked up without a dictionary of all.

    Args:
        content: The file's content: the number of tokens of each length from 1 on, in four bytes each; the tokens; then
            the lowest byte of each rank, the middle one of each, and the highest one of each.
    """

    content: bytes
    _counts: Sequence[int] = field(init=False)
    _numbers: Sequence[int] = field(init=False)
    _starts: Sequence[int] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Find where the tokens of each length begin: which number the first has, and where it stands."""
        self._counts = 0, *_HEAD.unpack_from(self.content)
        self._numbers = (0, *accumulate(self._counts))
        sizes = (length * count for length, count in enumerate(self._counts))
        self._starts = tuple(accumulate(sizes, initial=_HEAD.size))

    def rank(self, token: bytes) -> int | None:
        """The rank of a token of at most ``LONGEST_TOKEN`` bytes, or None when it is none."""
        content, length = self.content, len(token)
        places = range(self._starts[length], self._starts[length + 1], length)
        at = bisect_left(places, token, key=lambda place: content[place : place + length])
        if at == len(places) or content[places[at] : places[at] + length] != token:
            return None
        low, size = self._starts[-1] + self._numbers[length] + at, self._numbers[-1]
        return content[low] | content[low + size] << 8 | content[low + 2 * size] << 16

    def ranks(self) -> dict[bytes, int]:
        """Every token with its rank."""
        tokens: list[bytes] = []
        for length, count in enumerate(self._counts):
            tokens += struct.unpack_from(f"{length}s" * count, self.content, self._starts[length])
        size, first = len(tokens), self._starts[-1]
        numbers = bytearray(4 * size)
        for byte in range(3):
            numbers[byte::4] = self.content[first + byte * size : first + (byte + 1) * size]
        return dict(zip(tokens, struct.unpack(f"<{size}I", numbers), strict=True))


@frozen(eq=False, repr=False)
class Vocabulary:
    """One encoding, but for its tokens, which are read from a file.

    Args:
        name: The encoding's name, as tiktoken writes it.
        size: How many ordinary tokens it has.
        sha256: Hash of the file's content, after inflating.
        pattern: The regular expression that splits a text into pieces, each of which is merged by itself.
        special: Special tokens with their ids. Text is never read as one; an ``Encoding`` wants to know them.
    """

    name: str
    size: int
    sha256: str
    pattern: str = field(repr=False)
    special: Mapping[str, int] = field(repr=False, hash=False)

    def tokens(self) -> Tokens:
        """The tokens, as they stand in the file.

        Raises:
            VocabularyError: If the file is missing or is not the one that was shipped.
        """
        return Tokens(self._content())

    def _content(self) -> bytes:
        import hashlib  # noqa: PLC0415 - not before text is counted
        import pkgutil  # noqa: PLC0415

        file = f"vocabularies/{self.name}.bin"
        try:
            content = zlib.decompress(pkgutil.get_data("agentctx.tokens", file) or b"")
        except (OSError, zlib.error) as error:
            msg = f"vocabulary {self.name}: {file} cannot be read ({error}); install agentctx again"
            raise VocabularyError(msg) from error
        found = hashlib.sha256(content).hexdigest()
        if found != self.sha256:
            msg = f"vocabulary {self.name}: {file} has hash {found}, expected {self.sha256}; install agentctx again"
            raise VocabularyError(msg)
        return content


_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

O200K_BASE = Vocabulary(
    "o200k_base",
    199_998,
    "0aa965009404c24b6107e0c365e1eb3797d166c062b12af3557d702bc75d8737",
    "|".join(
        (
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+" + _CONTRACTION,
            r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*" + _CONTRACTION,
            r"\p{N}{1,3}",
            r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
            r"\s*[\r\n]+",
            r"\s+(?!\S)",
            r"\s+",
        )
    ),
    {"<|endoftext|>": 199_999, "<|endofprompt|>": 200_018},
)

CL100K_BASE = Vocabulary(
    "cl100k_base",
    100_256,
    "61e5a6c661743077ce589918a52cde709ae9a1a8c1894dbf7db7ed63b1cb3329",
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]"
    r"|\s+(?!\S)|\s",
    {
        "<|endoftext|>": 100_257,
        "<|fim_prefix|>": 100_258,
        "<|fim_middle|>": 100_259,
        "<|fim_suffix|>": 100_260,
        "<|endofprompt|>": 100_276,
    },
)

VOCABULARIES: Mapping[str, Vocabulary] = {each.name: each for each in (O200K_BASE, CL100K_BASE)}
"""The shipped vocabularies by name."""


def vocabulary(name: str) -> Vocabulary:
    """The shipped vocabulary of this name.

    Raises:
        ConfigError: If none of this name is shipped; the message names those that are.
    """
    if name not in VOCABULARIES:
        msg = f"encoding: {name!r} is not shipped; pass one of {', '.join(VOCABULARIES)}"
        raise ConfigError(msg)
    return VOCABULARIES[name]


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
