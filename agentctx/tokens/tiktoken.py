"""Counts and cuts exactly as OpenAI's tokenizer does, with the vocabularies in the package; never from the network.

This is the one file that knows the library tiktoken. Loading that takes 0.2 seconds, most of them for the 200,000
tokens of a vocabulary, of which the first request needs a few thousand. So the first texts of a program are counted in
Python: text in Latin script is split and merged as tiktoken does it, so it counts exactly the same.
"""

from __future__ import annotations

import re
import struct
import zlib
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, cached_property
from itertools import accumulate, pairwise
from threading import Lock
from typing import TYPE_CHECKING
from unicodedata import category

from attrs import define, field, frozen

from agentctx.errors import ConfigError, VocabularyError
from agentctx.lazy import lazy_pattern
from agentctx.tokens.graphemes import ceiling, floor

if TYPE_CHECKING:
    from tiktoken import Encoding

_CHARS_PER_TOKEN = 5  # of ordinary text; the first guess at how much text holds so many tokens
_SLICE = 16 * 1024  # characters at most; where "more than so many?" is asked of text without an exact cut
_SLICE_CHARS_PER_TOKEN = 4  # where only few tokens are asked for
_SLICE_ERROR = 8  # tokens; more than a cut in the middle of a word was ever seen to add


@frozen
class TiktokenCounter:
    """Counts exactly what tiktoken counts, special tokens being read as the text that they are.

    Counters of one encoding are equal and share what they remember. The first texts of a program are counted without
    tiktoken, which is loaded once there is more to count.
    A run of more than 500,000 blanks is cut, since tiktoken panics on 1,000,000: the count may be off by one at each
    cut. Lone surrogates count as U+FFFD, as in tiktoken.

    Args:
        encoding: Name of the encoding: ``"o200k_base"`` or ``"cl100k_base"``.

    Raises:
        ConfigError: If no vocabulary of this name is shipped.

    Example:
        >>> from agentctx.tokens import TiktokenCounter
        >>> TiktokenCounter("o200k_base").count("Why does the build fail?")
        6
    """

    encoding: str = field(default="o200k_base")
    _cache: TextCache = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Check the name and find what was counted already."""
        object.__setattr__(self, "_cache", _caches[vocabulary(self.encoding).name])

    def count(self, text: str, /) -> int:
        """The tokens of ``text``."""
        cache, key = self._cache, (hash(text) << _LENGTHS) + len(text)
        count = cache._young.get(key)  # noqa: SLF001 - a call less than by ``get``, for each text of each message
        if count is None:
            known = cache._old.get(key)  # noqa: SLF001 - as above
            count = self._count(text) if known is None else known
            cache._put(key, count)  # noqa: SLF001 - as above
        return count

    def _count(self, text: str) -> int:
        first = _first_texts.get(self.encoding)
        if first is not None and (count := first.count(text)) is not None:
            return count
        encode = loaded(self.encoding).encode_ordinary
        if len(text) <= CHUNK:
            return len(encode(text))
        return sum(len(encode(chunk)) for chunk in chunks(text))

    def exceeds(self, text: str, tokens: int, /) -> bool:
        """Whether ``text`` has more than ``tokens`` tokens; counts no more of it than it must.

        A token has at least one byte and at most 128, so most texts need no counting at all.
        """
        if len(text) * 4 <= tokens or (size := len(text.encode("utf-8", "surrogatepass"))) <= tokens:
            return False
        if size > LONGEST_TOKEN * max(tokens, 0):
            return True
        known = self._cache.get(text)
        if known is not None:
            return known > tokens
        width = min(_SLICE, _SLICE_CHARS_PER_TOKEN * (tokens + _SLICE_ERROR))
        return (len(text) > 2 * width and self._surely_exceeds(text, tokens, width)) or self.count(text) > tokens

    def _surely_exceeds(self, text: str, limit: int, width: int) -> bool:
        """Whether slices that are only roughly exact have so many tokens that the whole has too many for sure."""
        encode = loaded(self.encoding).encode_ordinary
        total = 0
        for slices, start in enumerate(range(0, len(text), width), start=1):
            total += len(encode(text[start : start + width]))
            if total > limit + _SLICE_ERROR * slices:
                return True
        return False

    def head(self, text: str, tokens: int, /) -> str:
        """A longest start of ``text`` with at most ``tokens`` tokens, in whole grapheme clusters.

        Takes time that grows with what is kept. Of ordinary text it keeps all but three tokens of what it could.
        """
        return self._cut(text, tokens, from_end=False)

    def tail(self, text: str, tokens: int, /) -> str:
        """A longest end of ``text`` with at most ``tokens`` tokens, in whole grapheme clusters.

        Takes time that grows with what is kept. Of ordinary text it keeps all but three tokens of what it could.
        """
        return self._cut(text, tokens, from_end=True)

    def _cut(self, text: str, tokens: int, *, from_end: bool) -> str:
        if len(text) * 4 <= tokens:
            return text
        ids = self._more_than(tokens, text, from_end=from_end)
        room = tokens if len(ids) > tokens else len(ids) + 1
        while room > 0:
            if room > len(ids):
                kept = text
            elif from_end:
                kept = text[ceiling(text, len(text) - self._length(ids[-room:])) :]
            else:
                kept = text[: floor(text, self._length(ids[:room]))]
            over = self.count(kept) - tokens
            if over <= 0:
                return kept
            room -= over
        return ""

    def _more_than(self, tokens: int, text: str, *, from_end: bool) -> list[int]:
        """The ids of a start of the text, or of an end: more than ``tokens`` of them, or all."""
        width = _CHARS_PER_TOKEN * max(tokens, 0) + 16
        while len(ids := self._encode(text[-width:] if from_end else text[:width])) <= tokens and width < len(text):
            width *= 2
        return ids

    def _encode(self, text: str) -> list[int]:
        encode = loaded(self.encoding).encode_ordinary
        return [token for part in safe_parts(text) for token in encode(part)]

    def _length(self, ids: list[int]) -> int:
        """How many whole characters these tokens hold."""
        return len(loaded(self.encoding).decode_bytes(ids).decode("utf-8", "ignore"))


CHUNK = 32 * 1024
"""Characters of a chunk, before the next exact cut is looked for: 2 to 5 ms of tokenizing."""

SPACES = 500_000
"""A longer run of spaces is cut every so many characters; the count may then be off by one token at each cut.

tiktoken panics on a run of 1,000,000 (openai/tiktoken#15, #245), with an error that ``except Exception`` misses.
"""

EXACT_CUT = lazy_pattern(
    r"[A-Za-z0-9\u3041-\u3096\u30a1-\u30fa\u4e00-\u9fef]"
    r"(?=[\x00-&(-/:-@\[-`{-\x7f\u3001\u3002\uff0c\uff1a\uff1b])"
)

_BLANKS = lazy_pattern(r"[^\S\r\n]+")


def chunks(text: str, size: int = CHUNK) -> Iterator[str]:
    """The text in parts of about ``size`` characters that count as much as the whole, and that are safe to encode.

    A part is longer where the text has no exact cut; only runs of more than ``SPACES`` blanks are cut anyway.
    """
    start, end = 0, len(text)
    while end - start > size:
        found = EXACT_CUT.search(text, start + size - 1)
        stop = end if found is None else found.end()
        yield from safe_parts(text[start:stop])
        start = stop
    if start < end:
        yield from safe_parts(text[start:])


def safe_parts(text: str) -> Iterator[str]:
    """The text whole, or cut within those of its runs of blanks that tiktoken would panic on."""
    start = 0
    if len(text) > SPACES:
        for run in _BLANKS.finditer(text):
            for stop in range(run.start() + SPACES, run.end(), SPACES):
                yield text[start:stop]
                start = stop
    yield text[start:]


ENTRY_BYTES = 140
"""What an entry costs at most: two numbers and their place in a dictionary, in bytes of memory."""

_LENGTHS = 40
"""Bits for the length of a text."""


@define(eq=False, repr=False)
class TextCache:
    """Remembers the count of each text, and forgets what was not asked for lately.

    A text is known by its length and by the hash of 64 bits that Python keeps of it, so that a cache of any texts is
    small and keeps none of them alive. Two texts of one length and one hash would be taken for the same: among the
    texts that it remembers at a time, the chance that a new one meets such a twin is about one in 10**14.

    Two generations stand in for an order of use: what is asked for moves to the young one, and when that is full it
    becomes the old one, whose leftovers go. A hit takes no lock, so it costs what a dictionary costs.

    Args:
        most: How many texts are remembered at most.
    """

    most: int = 40_000
    _half: int = field(init=False)
    _young: dict[int, int] = field(factory=dict, init=False)
    _old: dict[int, int] = field(factory=dict, init=False)
    _lock: Lock = field(factory=Lock, init=False)

    def get(self, text: str) -> int | None:
        """The count of ``text``, or None when it is not known."""
        key = (hash(text) << _LENGTHS) + len(text)
        count = self._young.get(key)
        if count is None and (count := self._old.get(key)) is not None:
            self._put(key, count)  # nobody has asked for it in this generation
        return count

    def put(self, text: str, count: int) -> None:
        """Remember the count of ``text``."""
        self._put((hash(text) << _LENGTHS) + len(text), count)

    @_half.default
    def _of_one_generation(self) -> int:
        return max(1, self.most // 2)

    def _put(self, key: int, count: int) -> None:
        if len(self._young) >= self._half:
            self._grow_old()
        self._young[key] = count

    def _grow_old(self) -> None:
        with self._lock:
            if len(self._young) >= self._half:  # no other thread was here before
                self._old, self._young = self._young, {}

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._young, self._old = {}, {}

    @property
    def bytes(self) -> int:
        """The memory in use, at most."""
        return ENTRY_BYTES * (len(self._young) + len(self._old))

    def __len__(self) -> int:
        """How many texts are remembered."""
        return len(self._young.keys() | self._old.keys())


@cache
def loaded(name: str) -> Encoding:
    """The encoding of this name, by which all is counted from here on."""
    _first_texts.pop(name, None)
    return encoding(name)


_encodings: dict[str, Encoding] = {}
_lock = Lock()


def encoding(name: str) -> Encoding:
    """The encoding of this name, loaded once a process; the one that tiktoken has loaded already, if it has.

    Loading takes about 0.2 seconds and holds the interpreter lock: see ``agentctx.warmup``.

    Raises:
        ConfigError: If no vocabulary of this name is shipped.
        VocabularyError: If the shipped file is missing or damaged.
    """
    found = _encodings.get(name)
    if found is not None:
        return found
    from tiktoken import registry  # noqa: PLC0415 - importing agentctx must not load tiktoken

    with _lock:
        if name not in _encodings:
            _encodings[name] = registry.ENCODINGS.get(name) or _load(name)
        return _encodings[name]


def _load(name: str) -> Encoding:
    from tiktoken import Encoding  # noqa: PLC0415 - as above

    source = vocabulary(name)
    return Encoding(
        name, pat_str=source.pattern, mergeable_ranks=source.tokens().ranks(), special_tokens=dict(source.special)
    )


@frozen(eq=False, repr=False)
class Vocabulary:
    """One encoding, as in ``tiktoken_ext.openai_public`` (tiktoken 0.14), but for its tokens: they are in a file.

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


_caches: dict[str, TextCache] = {name: TextCache() for name in VOCABULARIES}

LONGEST_TOKEN = 128
"""The longest token of the shipped vocabularies, in bytes: a text of n bytes has at least n / 128 tokens."""

_HEAD = struct.Struct(f"<{LONGEST_TOKEN}I")


@define(eq=False, repr=False)
class Tokens:
    """The tokens of a vocabulary with their ranks: one can be looked up without a dictionary of all.

    ``scripts/vocabulary.py`` makes the file from the one that OpenAI publishes.

    Args:
        content: The file's content, inflated: the number of tokens of each length from 1 on, in four bytes each; the
            tokens, the short ones first and those of one length sorted; then the lowest byte of each rank, the middle
            one of each, and the highest one of each.
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


FIRST_CHARACTERS = 50_000
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
    left: int = FIRST_CHARACTERS
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


_first_texts: dict[str, FirstTexts] = {name: FirstTexts(each) for name, each in VOCABULARIES.items()}
"""What counts the first texts of an encoding, until tiktoken is loaded."""
