"""Define a source of context, and the pieces that a source brings."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Literal, Protocol

from attrs import evolve, field, frozen

from agentctx.core.message import Native
from agentctx.errors import ConfigError


def _check_text(_instance: object, attribute: object, value: Native) -> None:
    if not isinstance(value, str):
        msg = f"ContextItem: {getattr(attribute, 'name', 'field')}: expected text, got {value!r:.80}"
        raise ConfigError(msg)


def _check_relevance(_instance: object, _attribute: object, value: float) -> None:
    if not isinstance(value, (int, float)) or not 0 <= value <= 1:
        msg = f"ContextItem: relevance: expected a number from 0 to 1, got {value!r}"
        raise ConfigError(msg)


def _check_keep(_instance: object, _attribute: object, value: str) -> None:
    if value not in ("head", "tail"):
        msg = f"ContextItem: keep: expected 'head' or 'tail', got {value!r:.80}"
        raise ConfigError(msg)


@frozen
class ContextItem:
    """One piece of context that a source found.

    Args:
        title: What it is, in a few words; a path, for example.
        content: What the model reads.
        relevance: How much it is worth before anybody asked for something, from 0 to 1.
        source: Where it comes from; without it, the name of the provider that found it.
        keep: Which end of the content stays when it is cut: the newest lines of a log are its last ones.

    Raises:
        ConfigError: If a text is none, or ``relevance`` is not a number from 0 to 1.

    Example:
        >>> from agentctx.sources import ContextItem
        >>> ContextItem("build.log", "a comma is missing", relevance=0.9).worth(0.5).relevance
        0.5
    """

    title: str = field(validator=_check_text)
    content: str = field(validator=_check_text)
    relevance: float = field(default=0.5, validator=_check_relevance)
    source: str = field(default="", validator=_check_text)
    keep: Literal["head", "tail"] = field(default="head", validator=_check_keep)

    def saying(self, content: str) -> ContextItem:
        """The same item with other content."""
        return evolve(self, content=content)

    def worth(self, relevance: float) -> ContextItem:
        """The same item with another relevance."""
        return evolve(self, relevance=relevance)

    def found_by(self, source: str) -> ContextItem:
        """The same item, from ``source`` unless it says itself where it comes from."""
        return self if self.source else evolve(self, source=source)


class ContextProvider(Protocol):
    """A source of context. A plain function qualifies, async or not; one that is not runs in a worker thread.

    It may say in attributes what it is called (``name``), what it brings (``description``, a few words), and how
    much it may bring (``max_tokens``).

    Example:
        >>> from agentctx.sources import ContextItem, gather
        >>> async def handbook(query):
        ...     return [ContextItem("Builds", "Builds are logged in build.log.")]
        >>> (await gather([handbook], "Why does the build fail?")).items[0].source
        'handbook'
    """

    def __call__(self, query: str, /) -> Awaitable[Sequence[ContextItem]] | Sequence[ContextItem]:
        """What there is, for a task described by ``query`` (empty: no task is known); nothing is an empty list."""
        ...
