"""Counts for models whose tokenizer is not public: a public one, corrected by what is known of the difference."""

from __future__ import annotations

from attrs import field, frozen, validators

from agentctx.protocols import TextCutter, TokenCounter


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
