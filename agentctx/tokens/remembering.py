"""Count each text once, whatever counter the caller brings."""

from __future__ import annotations

from attrs import field, frozen

from agentctx.protocols import TextCutter, TokenCounter, as_cutter
from agentctx.tokens.calibration import CalibratedCounter
from agentctx.tokens.counting import Asking, as_counter, default_counter, whole_tokens
from agentctx.tokens.exact import TextCache, TiktokenCounter
from agentctx.tokens.heuristic import HeuristicCounter
from agentctx.tokens.overheads import FixedCounter

_REMEMBER_THEMSELVES = (TiktokenCounter, CalibratedCounter, FixedCounter, HeuristicCounter)


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


def remembering(counter: TokenCounter) -> TokenCounter:
    """The counter as one that counts each text once; itself when it does so already or counts whole messages."""
    return counter if hasattr(counter, "count_message") else _remembering(counter)


def counter_of_texts(given: object) -> TokenCounter:
    """The counter for what counts texts alone: a caller's counter or function, that of ``o200k_base`` for None.

    Raises:
        ConfigError: If it is no counter.
    """
    counter = as_counter(given)
    return default_counter() if counter is None else _remembering(counter)


def _remembering(counter: TokenCounter) -> TokenCounter:
    if isinstance(counter, (*_REMEMBER_THEMSELVES, RememberingCounter)):
        return counter
    cutter = as_cutter(counter)
    return RememberingCounter(counter) if cutter is None else RememberingCutter(counter, cutter=cutter)
