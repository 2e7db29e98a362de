"""Counters: what may be passed as ``counter=``, and what it may say; those that need no vocabulary."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from inspect import iscoroutine, iscoroutinefunction
from math import ceil
from operator import index
from types import TracebackType
from typing import SupportsIndex, cast

from attrs import field, frozen, validators

from agentctx.core.message import Media, Message, Part, ToolCall, ToolResult
from agentctx.errors import AgentctxError, ConfigError
from agentctx.lazy import lazy_pattern
from agentctx.models.table import encoding_for, percent_for
from agentctx.printable import said_by
from agentctx.protocols import TextCutter, TokenCounter, as_cutter
from agentctx.tokens.graphemes import ceiling, floor
from agentctx.tokens.tiktoken import TextCache, TiktokenCounter


def as_counter(given: object, where: str = "") -> TokenCounter | None:
    """The counter; a plain function of a text becomes one, None stays None.

    Args:
        given: What was passed.
        where: What it was passed to, for the error, if it is not asked by name.

    Raises:
        ConfigError: If it neither counts nor can be called, or is async.
    """
    if given is None:
        return None
    at = f"{where}: " if where else ""
    count = getattr(given, "count", None)
    asked = count if callable(count) else given
    if not callable(asked) or isinstance(given, (type, str)):
        msg = f"{at}counter is {given!r}; it has no count, and is no function of a text"
        raise ConfigError(msg)
    if iscoroutinefunction(asked) or iscoroutinefunction(type(asked).__call__):
        msg = f"{at}counter {name_of_counter(given)} is async; tokens are counted by a plain function of a text"
        raise ConfigError(msg)
    return cast("TokenCounter", given) if callable(count) else FunctionCounter(asked)


@frozen
class FunctionCounter:
    """A counter that asks a plain function of a text.

    Args:
        function: Gives the tokens of a text.
    """

    function: Callable[[str], int]

    def count(self, text: str, /) -> int:
        """The tokens of ``text``."""
        return self.function(text)


EXACT = 100
"""Hundredths: the model counts as its encoding does."""


def default_counter(model: str | None = None) -> TokenCounter:
    """The counter for a model: exact for OpenAI's, the nearest public encoding with a known correction for others.

    Without a model, and for unknown ones, that of ``o200k_base``. Neither tiktoken nor a vocabulary is loaded before
    the first count.
    """
    if model is None:
        return TiktokenCounter()
    counter, percent = TiktokenCounter(encoding_for(model)), percent_for(model)
    return counter if percent == EXACT else CalibratedCounter(counter, percent, cutter=counter)


def counter_of_texts(given: object) -> TokenCounter:
    """The counter for what counts texts alone: a caller's counter or function, that of ``o200k_base`` for None.

    Raises:
        ConfigError: If it is no counter.
    """
    counter = as_counter(given)
    return default_counter() if counter is None else _remembering(counter)


def remembering(counter: TokenCounter) -> TokenCounter:
    """The counter as one that counts each text once; itself when it does so already or counts whole messages."""
    return counter if hasattr(counter, "count_message") else _remembering(counter)


def _remembering(counter: TokenCounter) -> TokenCounter:
    ours = TiktokenCounter, CalibratedCounter, FixedCounter, HeuristicCounter, RememberingCounter
    if isinstance(counter, ours):
        return counter
    cutter = as_cutter(counter)
    return RememberingCounter(counter) if cutter is None else RememberingCutter(counter, cutter=cutter)


@frozen
class RememberingCounter:
    """A counter that asks another one about each text once.

    Args:
        counter: The counter that is asked.
    """

    counter: TokenCounter
    _cache: TextCache = field(factory=TextCache, init=False, eq=False, repr=False)

    def count(self, text: str, /) -> int:
        """The tokens of ``text``."""
        known = self._cache.get(text)
        if known is None:
            with Asking(self.counter):
                known = self.counter.count(text)
            if type(known) is not int or known < 0:
                known = whole_tokens(self.counter, known, f"a text of {len(text):,} characters")
            self._cache.put(text, known)
        return known


@frozen
class RememberingCutter(RememberingCounter):
    """The same for a counter that can cut.

    Args:
        counter: The counter that is asked.
        cutter: The same counter, as one that cuts.
    """

    cutter: TextCutter = field(kw_only=True)

    def exceeds(self, text: str, tokens: int, /) -> bool:
        """Whether ``text`` has more than ``tokens`` tokens."""
        known = self._cache.get(text)
        if known is not None:
            return known > tokens
        with Asking(self.counter):
            return self.cutter.exceeds(text, tokens)

    def head(self, text: str, tokens: int, /) -> str:
        """A longest start of ``text`` with at most ``tokens`` tokens."""
        with Asking(self.counter):
            return self.cutter.head(text, tokens)

    def tail(self, text: str, tokens: int, /) -> str:
        """A longest end of ``text`` with at most ``tokens`` tokens."""
        with Asking(self.counter):
            return self.cutter.tail(text, tokens)


def name_of_counter(counter: object) -> str:
    """What a counter is called in errors."""
    asked = counter.function if isinstance(counter, FunctionCounter) else counter
    name = getattr(asked, "__name__", None)
    return name if isinstance(name, str) else type(asked).__name__


class Asking:
    """Makes of whatever a counter raises one error that names it; the counter's own is the cause."""

    __slots__ = ("counter",)

    def __init__(self, counter: object) -> None:
        """Remember who is asked."""
        self.counter = counter

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Raise ``ConfigError`` in place of what is no error of this library."""
        if isinstance(error, Exception) and not isinstance(error, AgentctxError):
            msg = (
                f"counter {name_of_counter(self.counter)} raised {said_by(error)}; "
                "a counter takes any text and gives its tokens as a whole number"
            )
            raise ConfigError(msg) from error


def whole_tokens(counter: object, tokens: object, what: str) -> int:
    """A count as a whole number of Python's own.

    Args:
        counter: What counted.
        tokens: What it gave.
        what: What it was asked for, in a few words.

    Raises:
        ConfigError: If it is no number of tokens.
    """
    if isinstance(tokens, SupportsIndex) and not isinstance(tokens, bool) and index(tokens) >= 0:
        return index(tokens)
    if iscoroutine(tokens):
        tokens.close()  # nobody waits for it
    msg = f"counter {name_of_counter(counter)}: {what} was counted as {tokens!r}; expected a whole number of tokens"
    raise ConfigError(msg)


SCRIPTS: tuple[tuple[str, str, int], ...] = (
    ("Greek", "\u0370-\u03ff\u1f00-\u1fff", 37),
    ("Cyrillic", "\u0400-\u052f", 28),
    ("Armenian, Georgian", "\u0530-\u058f\u10a0-\u10ff", 31),
    ("Hebrew, Arabic", "\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufeff", 42),
    ("Indic", "\u0900-\u0dff", 34),
    ("Thai, Lao", "\u0e00-\u0eff", 50),
    ("Tibetan, Burmese, Khmer", "\u0f00-\u109f\u1780-\u17ff", 65),
    ("Ethiopic, Cherokee, Canadian", "\u1200-\u167f", 200),
    ("kana", "\u3040-\u30ff\uff66-\uff9f", 75),
    ("hangul", "\u1100-\u11ff\u3130-\u318f\uac00-\ud7af", 70),
    ("Han and its punctuation", "\u3000-\u303f\u3400-\u9fff\uf900-\ufaff\uff00-\uff65\U00020000-\U000323af", 88),
    ("emoji and signs", "\u2190-\u2bff\u200d\ufe0f\U0001f000-\U0001faff", 120),
    ("other planes", "\U00010000-\U0001efff", 250),
)
"""Scripts with their characters and the tokens of 100 of them, measured with o200k_base on natural text."""

PLAIN: tuple[tuple[str, bytes, int], ...] = (
    ("upper case", bytes(range(65, 91)), 320),
    ("digits", bytes(range(48, 58)), 220),
    ("punctuation", bytes([*range(33, 48), *range(58, 65), *range(91, 97), *range(123, 127)]), 200),
    ("spaces", b" ", 40),
    ("line ends and other controls", bytes([*range(32), 127]), 320),
)
"""Characters beside small letters, with what 100 of them are worth in small letters, which go into words best.

Measured with o200k_base and cl100k_base on prose, code, JSON, logs, tables and base64. None of them occurs within a
character of more than one byte, so that they can be counted in UTF-8.
"""

_RUN = lazy_pattern("|".join(f"([{characters}]+)" for _, characters, _ in SCRIPTS))
_PER_HUNDRED = (0, *(tokens for _, _, tokens in SCRIPTS))
_CHEAPEST = min(_PER_HUNDRED[1:])
_CHEAPEST_PLAIN = min(worth for _, _, worth in PLAIN)


@frozen
class HeuristicCounter:
    """Estimates: one token for so many small letters; capitals, digits, signs and other scripts by their own measure.

    Right within a third for prose, code, JSON, logs and base64, and within a factor of two for natural text of any
    script. Needs no vocabulary and next to no time.

    Args:
        chars_per_token: Small letters of Latin script that make one token.
        media_tokens: What each image, sound, film or document costs; None: what the provider's formula says.
        call_tokens: What each tool call costs, as a number of tokens or a function of the call; None: its name and its
            arguments as text, and what the format adds.

    Raises:
        ConfigError: If ``chars_per_token`` is not positive, or a number of tokens is negative.

    Example:
        >>> from agentctx.tokens import HeuristicCounter
        >>> HeuristicCounter(chars_per_token=4).count("Why does the build fail?")
        7
    """

    chars_per_token: float = field(default=4)
    media_tokens: int | None = field(default=None, kw_only=True)
    call_tokens: int | Callable[[ToolCall], int] | None = field(default=None, kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Check the option."""
        if self.chars_per_token <= 0:
            msg = f"chars_per_token: expected a positive number, got {self.chars_per_token!r}"
            raise ConfigError(msg)
        for name, tokens in (("media_tokens", self.media_tokens), ("call_tokens", self.call_tokens)):
            if isinstance(tokens, int) and tokens < 0:
                msg = f"{name}: expected a number of tokens, not negative, got {tokens!r}"
                raise ConfigError(msg)

    def count_part(self, part: Part, /) -> int | None:
        """What a medium or a call costs by the options; None: as for any counter.

        Args:
            part: A part of a message.
        """
        if isinstance(part, Media):
            return self.media_tokens
        if not isinstance(part, ToolCall):
            return None
        return self.call_tokens(part) if callable(self.call_tokens) else self.call_tokens

    def count(self, text: str, /) -> int:
        """The estimated tokens of ``text``."""
        letters, hundredths = len(text), 0
        for run in () if text.isascii() else _RUN.finditer(text):
            length = run.end() - run.start()
            letters -= length
            hundredths += length * _PER_HUNDRED[run.lastindex or 0]
        return ceil((100 * letters + _beyond_letters(text)) / (100 * self.chars_per_token) + hundredths / 100)

    def exceeds(self, text: str, tokens: int, /) -> bool:
        """Whether ``text`` has more than ``tokens`` tokens; looks at no more of it than it must."""
        return self.count(text[: self._reach(tokens)]) > tokens

    def head(self, text: str, tokens: int, /) -> str:
        """The longest start of ``text`` with at most ``tokens`` tokens, in whole grapheme clusters."""
        near = text[: self._reach(tokens)]
        return text[: floor(text, self._longest(near, tokens, from_end=False))]

    def tail(self, text: str, tokens: int, /) -> str:
        """The longest end of ``text`` with at most ``tokens`` tokens, in whole grapheme clusters."""
        near = text[max(0, len(text) - self._reach(tokens)) :]
        return text[ceiling(text, len(text) - self._longest(near, tokens, from_end=True)) :]

    def _reach(self, tokens: int) -> int:
        """Characters that have more than ``tokens`` tokens, whatever they are."""
        return int(max(tokens, 0) * max(100 / _CHEAPEST_PLAIN * self.chars_per_token, 100 / _CHEAPEST)) + 2

    def _longest(self, text: str, tokens: int, *, from_end: bool) -> int:
        def cost(length: int) -> int:
            return self.count(text[len(text) - length :] if from_end else text[:length])

        return max(0, bisect_right(range(len(text) + 1), max(tokens, 0), key=cost) - 1)


def _beyond_letters(text: str) -> int:
    """What the plain characters of ``text`` are worth beyond as many small letters, in hundredths of one."""
    content = text.encode("utf-8", "replace")
    size = len(content)
    return sum((size - len(content.translate(None, kind))) * (worth - 100) for _, kind, worth in PLAIN)


@frozen
class FixedCounter:
    """Every message costs the same, whatever it holds; so do every text, the system prompt, and the tools together.

    Nothing else costs anything, unless a price is given for it: a request of three messages and no tools has
    ``3 * tokens`` tokens.

    Args:
        tokens: What each message costs, in tokens.
        per_part: What each part of a message adds (a text, a thought; what a tool result holds), in tokens.
        per_call: What each tool call adds, in tokens.
        per_media: What each image, sound, film or document adds, in tokens; None: what any part adds.

    Raises:
        ConfigError: If ``tokens`` is not positive, or another number is negative.

    Example:
        >>> from agentctx import count
        >>> from agentctx.tokens import FixedCounter
        >>> count([{"role": "user", "content": "Why does the build fail?"}], counter=FixedCounter(tokens=10))
        10
    """

    tokens: int = 10
    per_part: int = 0
    per_call: int = 0
    per_media: int | None = None

    def __attrs_post_init__(self) -> None:
        """Check the options."""
        if isinstance(self.tokens, bool) or not isinstance(self.tokens, int) or self.tokens < 1:
            msg = f"tokens: expected a positive number, got {self.tokens!r}"
            raise ConfigError(msg)
        more = {"per_part": self.per_part, "per_call": self.per_call, "per_media": self.per_media or 0}
        for name, value in more.items():
            if isinstance(value, bool) or not isinstance(value, int) or value < 0:
                msg = f"{name}: expected a number of tokens, not negative, got {value!r}"
                raise ConfigError(msg)

    def count(self, text: str, /) -> int:
        """``tokens``, or 0 for the empty text."""
        return self.tokens if text else 0

    def count_message(self, message: Message, /) -> int:
        """``tokens``, and what its parts add.

        Args:
            message: The message.
        """
        return self.tokens + sum(map(self._added, message.parts))

    def _added(self, part: Part) -> int:
        if isinstance(part, ToolResult):
            return sum(map(self._added, part.content))
        if isinstance(part, Media):
            return self.per_part if self.per_media is None else self.per_media
        return self.per_call if isinstance(part, ToolCall) else self.per_part

    def exceeds(self, text: str, tokens: int, /) -> bool:
        """Whether ``text`` has more than ``tokens`` tokens."""
        return self.count(text) > tokens

    def head(self, text: str, tokens: int, /) -> str:
        """The whole text when it fits, else nothing of it: no shorter text costs less.

        Args:
            text: The text.
            tokens: Tokens that it may have.
        """
        return text if self.count(text) <= tokens else ""

    def tail(self, text: str, tokens: int, /) -> str:
        """The whole text when it fits, else nothing of it: no shorter text costs less.

        Args:
            text: The text.
            tokens: Tokens that it may have.
        """
        return self.head(text, tokens)


@frozen
class CalibratedCounter:
    """Another counter's count, a fixed share larger or smaller, rounded up for each text.

    Args:
        counter: The counter that is corrected; it must be able to cut, too.
        percent: What a token of ``counter`` is worth, in hundredths of the model's tokens; 120 counts a fifth more.
        cutter: The same counter, as one that cuts.
    """

    counter: TokenCounter
    percent: int = field(validator=validators.ge(1))
    cutter: TextCutter = field(kw_only=True, eq=False, repr=False)

    def count(self, text: str, /) -> int:
        """The tokens of ``text``."""
        return -(-self.counter.count(text) * self.percent // 100)

    def exceeds(self, text: str, tokens: int, /) -> bool:
        """Whether ``text`` has more than ``tokens`` tokens."""
        return self.cutter.exceeds(text, self._uncorrected(tokens))

    def head(self, text: str, tokens: int, /) -> str:
        """A longest start of ``text`` with at most ``tokens`` tokens, in whole grapheme clusters."""
        return self.cutter.head(text, self._uncorrected(tokens))

    def tail(self, text: str, tokens: int, /) -> str:
        """A longest end of ``text`` with at most ``tokens`` tokens, in whole grapheme clusters."""
        return self.cutter.tail(text, self._uncorrected(tokens))

    def _uncorrected(self, tokens: int) -> int:
        return tokens * 100 // self.percent
