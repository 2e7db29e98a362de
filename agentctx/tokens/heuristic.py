"""A counter that estimates from characters, without a vocabulary."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from math import ceil

from attrs import field, frozen

from agentctx.core.message import Media, Part, ToolCall
from agentctx.errors import ConfigError
from agentctx.lazy import lazy_pattern
from agentctx.tokens.graphemes import ceiling, floor

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
