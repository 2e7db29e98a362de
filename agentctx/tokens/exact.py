"""Counts and cuts exactly as OpenAI's tokenizer does."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from attrs import field, frozen

from agentctx.tokens.cache import TextCache
from agentctx.tokens.chunks import CHUNK, chunks, safe_parts
from agentctx.tokens.graphemes import ceiling, floor
from agentctx.tokens.vocabulary import LONGEST_TOKEN, VOCABULARIES, vocabulary

if TYPE_CHECKING:
    from tiktoken import Encoding

_CHARS_PER_TOKEN = 5  # of ordinary text; the first guess at how much text holds so many tokens
_SLICE = 16 * 1024  # characters; where "more than so many?" is asked of text without an exact cut
_SLICE_ERROR = 8  # tokens; more than a cut in the middle of a word was ever seen to add

_caches: dict[str, TextCache] = {name: TextCache() for name in VOCABULARIES}


@cache
def _loaded(name: str) -> Encoding:
    from agentctx.tokens.tiktoken import encoding  # noqa: PLC0415 - importing agentctx must not load tiktoken

    return encoding(name)


@frozen
class TiktokenCounter:
    """Counts exactly what tiktoken counts, special tokens being read as the text that they are.

    Counters of one encoding are equal and share what they remember. The vocabulary is loaded with the first count.
    A run of more than 500,000 blanks is cut, since tiktoken panics on 1,000,000: the count may be off by one at each
    cut. Lone surrogates count as U+FFFD, as in tiktoken.

    Args:
        encoding: Name of the encoding: ``"o200k_base"`` or ``"cl100k_base"``.

    Raises:
        ConfigError: If no vocabulary of this name is shipped.
    """

    encoding: str = field(default="o200k_base")
    _cache: TextCache = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Check the name and find what was counted already."""
        object.__setattr__(self, "_cache", _caches[vocabulary(self.encoding).name])

    def count(self, text: str, /) -> int:
        """The tokens of ``text``."""
        count = self._cache.get(text)
        if count is None:
            count = self._count(text)
            self._cache.put(text, count)
        return count

    def _count(self, text: str) -> int:
        encode = _loaded(self.encoding).encode_ordinary
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
        if len(text) <= CHUNK or self._cache.get(text) is not None:
            return self.count(text) > tokens
        return self._surely_exceeds(text, tokens) or self.count(text) > tokens

    def _surely_exceeds(self, text: str, limit: int) -> bool:
        """Whether slices that are only roughly exact have so many tokens that the whole has too many for sure."""
        encode = _loaded(self.encoding).encode_ordinary
        total = 0
        for slices, start in enumerate(range(0, len(text), _SLICE), start=1):
            total += len(encode(text[start : start + _SLICE]))
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
        encode = _loaded(self.encoding).encode_ordinary
        return [token for part in safe_parts(text) for token in encode(part)]

    def _length(self, ids: list[int]) -> int:
        """How many whole characters these tokens hold."""
        return len(_loaded(self.encoding).decode_bytes(ids).decode("utf-8", "ignore"))
