"""What may be passed as ``counter=``, and what it may say; each text is counted once, whatever counter it is."""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutine, iscoroutinefunction
from operator import index
from types import TracebackType
from typing import SupportsIndex, cast

from attrs import field, frozen

from agentctx.errors import AgentctxError, ConfigError
from agentctx.models.table import encoding_for, percent_for
from agentctx.protocols import TextCutter, TokenCounter, as_cutter
from agentctx.tokens.calibration import CalibratedCounter
from agentctx.tokens.heuristic import HeuristicCounter
from agentctx.tokens.overheads import FixedCounter
from agentctx.tokens.tiktoken import TextCache, TiktokenCounter


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
                f"counter {name_of_counter(self.counter)} raised {type(error).__name__}: {error}; "
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


__all__ = ["TiktokenCounter", "default_counter"]

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
