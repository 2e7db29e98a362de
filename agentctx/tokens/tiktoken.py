"""Counts and cuts exactly as OpenAI's tokenizer does, with the vocabularies in the package; never from the network.

No other file imports the library tiktoken. Loading tiktoken with a vocabulary takes 0.2 seconds, so this file imports
it when the first text is counted.
"""

from __future__ import annotations

import zlib
from binascii import a2b_base64
from collections.abc import Iterator, Mapping
from threading import Lock
from typing import TYPE_CHECKING

from attrs import define, field, frozen

from agentctx.characters import cluster_end_after, cluster_end_before
from agentctx.errors import VocabularyError
from agentctx.lazy import lazy_pattern
from agentctx.validators import TEXT, must_be

if TYPE_CHECKING:
    from tiktoken import Encoding

_CHARS_PER_TOKEN = 5  # of ordinary text; the first guess at how much text holds so many tokens


@frozen
class TiktokenCounter:
    """Counts exactly what tiktoken counts, special tokens being read as the text that they are.

    Counters of one encoding are equal and share what they remember. The first text of a program takes 0.2 seconds more:
    ``agentctx.warmup`` takes them before.
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

    encoding: str = field(default="o200k_base", validator=TEXT)
    _cache: TextCache = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Check the name and find what was counted already."""
        object.__setattr__(self, "_cache", _caches[vocabulary(self.encoding).name])

    def count(self, text: str, /) -> int:
        """The tokens of ``text``."""
        count = self._cache.get(text)
        if count is None:
            encode = encoding(self.encoding).encode_ordinary
            count = sum(len(encode(chunk)) for chunk in chunks(text))
            self._cache.put(text, count)
        return count

    def exceeds(self, text: str, tokens: int, /) -> bool:
        """Whether ``text`` has more than ``tokens`` tokens; counts no more of it than it must.

        A token has at least one byte and at most 128, so most texts need no counting at all.
        """
        if len(text) * 4 <= tokens or (size := len(text.encode("utf-8", "surrogatepass"))) <= tokens:
            return False
        if size > LONGEST_TOKEN * tokens:
            return True
        known = self._cache.get(text)
        if known is not None:
            return known > tokens
        encode, total = encoding(self.encoding).encode_ordinary, 0
        for chunk in chunks(text, min(CHUNK, _CHARS_PER_TOKEN * tokens + 16)):
            total += len(encode(chunk))
            if total > tokens:
                return True
        self._cache.put(text, total)
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
        encode, width = encoding(self.encoding).encode_ordinary, _CHARS_PER_TOKEN * max(tokens, 0) + 16
        while True:  # until there are more tokens than asked for, or all
            near = text[-width:] if from_end else text[:width]
            ids = [token for part in safe_parts(near) for token in encode(part)]
            if len(ids) > tokens or width >= len(text):
                break
            width *= 2
        room = tokens if len(ids) > tokens else len(ids) + 1
        while room > 0:
            if room > len(ids):
                kept = text
            elif from_end:
                kept = text[cluster_end_after(text, len(text) - self._length(ids[-room:])) :]
            else:
                kept = text[: cluster_end_before(text, self._length(ids[:room]))]
            over = self.count(kept) - tokens
            if over <= 0:
                return kept
            room -= over
        return ""

    def _length(self, ids: list[int]) -> int:
        """How many whole characters these tokens hold."""
        return len(encoding(self.encoding).decode_bytes(ids).decode("utf-8", "ignore"))


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
    _young: dict[int, int] = field(factory=dict, init=False)
    _old: dict[int, int] = field(factory=dict, init=False)
    _lock: Lock = field(factory=Lock, init=False)

    def get(self, text: str) -> int | None:
        """The count of ``text``, or None when it is not known."""
        key = (hash(text) << _LENGTHS) + len(text)
        count = self._young.get(key)
        if count is None and (count := self._old.get(key)) is not None:
            self.put(text, count)  # nobody has asked for it in this generation
        return count

    def put(self, text: str, count: int) -> None:
        """Remember the count of ``text``."""
        half = max(1, self.most // 2)
        if len(self._young) >= half:
            with self._lock:
                if len(self._young) >= half:  # no other thread was here before
                    self._old, self._young = self._young, {}
        self._young[(hash(text) << _LENGTHS) + len(text)] = count

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


_encodings: dict[str, Encoding] = {}
_lock = Lock()


def encoding(name: str) -> Encoding:
    """The encoding of this name, loaded once a process; the one that tiktoken has loaded already, if it has.

    Loading takes about 0.2 seconds and holds the interpreter lock: see ``agentctx.warmup``.

    Raises:
        ConfigError: If no vocabulary of this name is shipped.
        VocabularyError: If the shipped file is missing or damaged.
    """
    if name not in _encodings:
        from tiktoken import Encoding, registry  # noqa: PLC0415 - importing agentctx must not load tiktoken

        with _lock:
            if name not in _encodings:
                source = vocabulary(name)
                _encodings[name] = registry.ENCODINGS.get(name) or Encoding(
                    name, pat_str=source.pattern, mergeable_ranks=source.ranks(), special_tokens=dict(source.special)
                )
    return _encodings[name]


@frozen(eq=False, repr=False)
class Vocabulary:
    """One encoding, as in ``tiktoken_ext.openai_public`` (tiktoken 0.14); a file of the package has its tokens.

    Args:
        name: The encoding's name, as tiktoken writes it.
        sha256: Hash of the file of tokens that OpenAI published, by which tiktoken checks a download.
        pattern: The regular expression that splits a text into pieces, each of which is merged by itself.
        special: Special tokens with their ids. Text is never read as one; an ``Encoding`` wants to know them.
    """

    name: str
    sha256: str
    pattern: str = field(repr=False)
    special: Mapping[str, int] = field(repr=False, hash=False)

    def ranks(self) -> dict[bytes, int]:
        """Read the tokens and their ranks from the published file, which the package has as a gzip file.

        Raises:
            VocabularyError: If the file is missing or is not the one that OpenAI published.
        """
        import hashlib  # noqa: PLC0415 - not before text is counted
        import pkgutil  # noqa: PLC0415

        file = f"vocabularies/{self.name}.tiktoken.gz"
        try:
            content = zlib.decompress(pkgutil.get_data("agentctx.tokens", file) or b"", _GZIP)
        except (OSError, zlib.error) as error:
            msg = f"vocabulary {self.name}: {file} cannot be read ({error}); install agentctx again"
            raise VocabularyError(msg) from error
        sha256 = hashlib.sha256(content).hexdigest()
        if sha256 != self.sha256:
            msg = f"vocabulary {self.name}: {file} has hash {sha256}, expected {self.sha256}; install agentctx again"
            raise VocabularyError(msg)
        words = content.split()  # a line is a token in base64 and its rank
        return dict(zip(map(a2b_base64, words[::2]), map(int, words[1::2]), strict=True))


_GZIP = 31
"""The window size by which zlib reads a gzip file."""

_CONTRACTION = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)?"

O200K_BASE = Vocabulary(
    "o200k_base",
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
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
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
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
        raise must_be("encoding", f"one of {', '.join(VOCABULARIES)}", name)
    return VOCABULARIES[name]


_caches: dict[str, TextCache] = {name: TextCache() for name in VOCABULARIES}

LONGEST_TOKEN = 128
"""The longest token of the shipped vocabularies, in bytes: a text of n bytes has at least n / 128 tokens."""
