"""How much texts have to do with a task: what is asked for it, and how an embedding model answers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence, Sized
from math import sqrt
from operator import mul
from typing import Any, Protocol, SupportsFloat

from attrs import frozen

from agentctx.errors import ConfigError

Embed = Callable[[Sequence[str]], Awaitable[Sequence[Sequence[float]]]]
"""Given texts, a vector for each, all of one length. What was embedded before is best remembered by it."""


class Relevance(Protocol):
    """Says how much each text has to do with a task. Any async function with this signature qualifies."""

    async def __call__(self, task: str, texts: Sequence[str], /) -> Sequence[float]:
        """A number for each text, the larger the more; 0, or less, for nothing at all."""
        ...


@frozen
class Embedded:
    """Relevance by meaning: the cosine between the vectors of the task and of a text.

    Args:
        embed: Turns texts into vectors; it is asked for the task and all texts at once, the task first.

    Raises:
        ConfigError: If ``embed`` is no function.
    """

    embed: Embed

    def __attrs_post_init__(self) -> None:
        """Check the option."""
        given: object = self.embed
        if not callable(given):
            msg = f"Embedded: embed must be an async function (texts) -> vectors, got {given!r}"
            raise ConfigError(msg)

    async def __call__(self, task: str, texts: Sequence[str], /) -> Sequence[float]:
        """The cosine between the task and each text, -1 to 1; 0 where a vector is zero.

        Raises:
            ConfigError: If ``embed`` does not return a vector for each text.
        """
        vectors = _listed(await self.embed([task, *texts]), "Embedded: embed")
        if len(vectors) != len(texts) + 1:
            msg = f"Embedded: embed returned {len(vectors)} vectors for {len(texts) + 1} texts"
            raise ConfigError(msg)
        wanted = vectors[0]
        return [_cosine(wanted, vector) for vector in vectors[1:]]


def _listed(found: object, who: str) -> Sequence[Any]:
    if isinstance(found, str) or not isinstance(found, Sized) or not isinstance(found, Iterable):
        msg = f"{who} returned {type(found).__name__}; expected a list, one for each text"
        raise ConfigError(msg)
    return list(found)


def _is_number(value: object) -> bool:
    return isinstance(value, SupportsFloat)


def _cosine(one: Sequence[float], other: Sequence[float]) -> float:
    one, other = _listed(one, "Embedded: embed, as a vector,"), _listed(other, "Embedded: embed, as a vector,")
    if len(one) != len(other):
        msg = f"Embedded: embed returned vectors of {len(one)} and of {len(other)} numbers"
        raise ConfigError(msg)
    for vector in (one, other):
        if not all(map(_is_number, vector)):
            msg = "Embedded: embed returned a vector of something else than numbers"
            raise ConfigError(msg)
    lengths = sqrt(_dot(one, one) * _dot(other, other))
    return _dot(one, other) / lengths if lengths else 0.0


def _dot(one: Sequence[float], other: Sequence[float]) -> float:
    return float(sum(map(mul, one, other)))


def shares(numbers: Sequence[float], texts: int) -> list[float]:
    """The numbers as shares of the largest, 0 to 1; all 0 when none is positive.

    Raises:
        ConfigError: If there is not one finite number for each of so many texts.
    """
    numbers = _listed(numbers, "relevance")
    if not all(map(_is_number, numbers)):
        msg = "relevance: what it gave for a text is no number"
        raise ConfigError(msg)
    if len(numbers) != texts:
        msg = f"relevance: {len(numbers)} numbers for {texts} texts; expected one for each"
        raise ConfigError(msg)
    found = [float(number) for number in numbers]
    top = max(found, default=0.0)
    if not all(abs(number) < float("inf") for number in found):
        msg = "relevance: a number for a text is not finite"
        raise ConfigError(msg)
    return [max(0.0, number) / top if top > 0 else 0.0 for number in found]
