"""Counts and cuts exactly as OpenAI's tokenizer does."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from threading import Lock
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from agentctx.lazy import lazy_pattern
from agentctx.tokens.graphemes import ceiling, floor
from agentctx.tokens.vocabulary import LONGEST_TOKEN, VOCABULARIES, FirstTexts, vocabulary

if TYPE_CHECKING:
    from tiktoken import Encoding


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
    _young: dict[int, int] = field(factory=dict, init=False)
    _old: dict[int, int] = field(factory=dict, init=False)
    _lock: Lock = field(factory=Lock, init=False)

    def get(self, text: str) -> int | None:
        """The count of ``text``, or None when it is not known."""
        key = (hash(text) << _LENGTHS) + len(text)
        count = self._young.get(key)
        return self._once_known(key) if count is None else count

    def _once_known(self, key: int) -> int | None:
        """The count of what nobody has asked for in this generation."""
        count = self._old.get(key)
        if count is not None:
            self._put(key, count)
        return count

    def put(self, text: str, count: int) -> None:
        """Remember the count of ``text``."""
        self._put((hash(text) << _LENGTHS) + len(text), count)

    def _put(self, key: int, count: int) -> None:
        with self._lock:
            if len(self._young) >= max(1, self.most // 2) and key not in self._young:
                self._old, self._young = self._young, {}
            self._young[key] = count

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


_CHARS_PER_TOKEN = 5  # of ordinary text; the first guess at how much text holds so many tokens
_SLICE = 16 * 1024  # characters at most; where "more than so many?" is asked of text without an exact cut
_SLICE_CHARS_PER_TOKEN = 4  # where only few tokens are asked for
_SLICE_ERROR = 8  # tokens; more than a cut in the middle of a word was ever seen to add

_caches: dict[str, TextCache] = {name: TextCache() for name in VOCABULARIES}


_first_texts: dict[str, FirstTexts] = {name: FirstTexts(each) for name, each in VOCABULARIES.items()}
"""What counts the first texts of an encoding, until tiktoken is loaded."""


@cache
def loaded(name: str) -> Encoding:
    """The encoding of this name, by tiktoken from here on."""
    from agentctx.tokens.tiktoken import encoding  # noqa: PLC0415 - importing agentctx must not load tiktoken

    _first_texts.pop(name, None)
    return encoding(name)


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
        if count is None and (count := cache._once_known(key)) is None:  # noqa: SLF001 - as above
            count = self._count(text)
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
        if len(text) * 4 <= tokens:
            return text
        ids = self._first(text, max(tokens, 0))
        room = tokens if len(ids) > tokens else len(ids) + 1
        while room > 0:
            kept = text if room > len(ids) else text[: floor(text, self._length(ids[:room]))]
            over = self.count(kept) - tokens
            if over <= 0:
                return kept
            room -= over
        return ""

    def tail(self, text: str, tokens: int, /) -> str:
        """A longest end of ``text`` with at most ``tokens`` tokens, in whole grapheme clusters.

        Takes time that grows with what is kept. Of ordinary text it keeps all but three tokens of what it could.
        """
        if len(text) * 4 <= tokens:
            return text
        ids = self._last(text, max(tokens, 0))
        room = tokens if len(ids) > tokens else len(ids) + 1
        while room > 0:
            start = 0 if room > len(ids) else ceiling(text, len(text) - self._length(ids[-room:]))
            kept = text[start:]
            over = self.count(kept) - tokens
            if over <= 0:
                return kept
            room -= over
        return ""

    def _first(self, text: str, tokens: int) -> list[int]:
        """The ids of a start of the text: more than ``tokens`` of them, or all."""
        width = _CHARS_PER_TOKEN * tokens + 16
        while len(ids := self._encode(text[:width])) <= tokens and width < len(text):
            width *= 2
        return ids

    def _last(self, text: str, tokens: int) -> list[int]:
        """The ids of an end of the text: more than ``tokens`` of them, or all."""
        width = _CHARS_PER_TOKEN * tokens + 16
        while len(ids := self._encode(text[-width:])) <= tokens and width < len(text):
            width *= 2
        return ids

    def _encode(self, text: str) -> list[int]:
        encode = loaded(self.encoding).encode_ordinary
        return [token for part in safe_parts(text) for token in encode(part)]

    def _length(self, ids: list[int]) -> int:
        """How many whole characters these tokens hold."""
        return len(loaded(self.encoding).decode_bytes(ids).decode("utf-8", "ignore"))
