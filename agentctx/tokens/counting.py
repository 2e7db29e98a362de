"""What may be passed as ``counter=``: a counter, or a plain function of a text; and what it may say."""

from __future__ import annotations

from collections.abc import Callable
from inspect import iscoroutine, iscoroutinefunction
from operator import index
from types import TracebackType
from typing import SupportsIndex, cast

from attrs import frozen

from agentctx.errors import AgentctxError, ConfigError
from agentctx.models.table import encoding_for, percent_for
from agentctx.protocols import TokenCounter
from agentctx.tokens.calibration import CalibratedCounter
from agentctx.tokens.exact import TiktokenCounter


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
