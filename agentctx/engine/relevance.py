"""How much texts have to do with a task: by the words that they share, or as an embedding model says."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Sized
from functools import partial
from math import log, sqrt
from operator import mul
from typing import Any, Protocol, SupportsFloat

from attrs import define, field, frozen

from agentctx.errors import ConfigError
from agentctx.users_code import offload
from agentctx.validators import NOT_NEGATIVE, SHARE, function

_WORD = re.compile(r"\w+")
_PART = re.compile(r"[A-Z]{2,}(?![a-z])|[A-Z]?[a-z]+")
_UNSPACED = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U000323af]+"
)


def raw_words(text: str) -> list[str]:
    """The words of ``text`` as they are written; an identifier is one."""
    return _WORD.findall(text)


def forms(word: str) -> Sequence[str]:
    """What a written word is found by, without case.

    An identifier is found by itself and by its parts (``read_file``: ``read``, ``file``); a word of a script that
    puts no spaces between words, by every pair of neighbouring characters.
    """
    if not word.isascii():
        parts = [part.casefold() for part in word.split("_") if part]
        return [word.casefold(), *(parts if len(parts) > 1 else ()), *_pairs(word)]
    whole = word.lower()
    if whole.isalpha() and (whole == word or word.isupper()):
        return [whole]
    parts = [part.lower() for part in _PART.findall(word) if len(part) > 1]
    return parts if parts == [whole] else [whole, *parts]


def _pairs(word: str) -> Iterator[str]:
    """The pairs of characters in the stretches of a word that no spaces divide."""
    for stretch in _UNSPACED.findall(word):
        if stretch != word or len(stretch) > 2:
            yield from (stretch[place : place + 2] for place in range(max(1, len(stretch) - 1)))


@frozen
class Bm25:
    """Texts that share rare words with the task come first; long ones need more of them.

    Lucene's form never counts a shared word against a text, however common it is (Kamphuis et al. 2020, "Which BM25
    do you mean?"). The time grows with the length of the texts.

    Args:
        k1: How much it matters that a word occurs more than once; 0 means not at all.
        b: How much long texts are held to their length, 0 to 1.

    Example:
        >>> from agentctx import Pack
        >>> from agentctx.strategies import Bm25
        >>> stage = Pack("relevance", relevance=Bm25(k1=1.2))
    """

    k1: float = field(default=1.5, validator=NOT_NEGATIVE)
    b: float = field(default=0.75, validator=SHARE)

    async def __call__(self, task: str, texts: Sequence[str], /) -> Sequence[float]:
        """The BM25 score of each text; 0 where it shares no word with the task."""
        return await offload(partial(self.scores, task, texts), len(texts), sum(map(len, texts)))

    def scores(self, task: str, texts: Sequence[str]) -> list[float]:
        """The BM25 score of each text, worked out at once in this thread.

        Args:
            task: The words to look for.
            texts: The texts, each of which gets a score.
        """
        asked = _Asked.of(task)
        found = [Counter(asked.numbers(text)) for text in texts]
        lengths = [numbers.total() for numbers in found]
        mean = sum(lengths) / len(texts) if any(lengths) else 1.0
        rarities = [*_rarities(found, asked.other), 0.0]
        norms = (self.k1 * ((1 - self.b) + self.b * length / mean) for length in lengths)
        return [
            sum((rarities[word] * (times / (norm + times)) for word, times in sorted(numbers.items())), 0.0)
            for numbers, norm in zip(found, norms, strict=True)
        ]


def coverage(task: str, texts: Sequence[str]) -> list[float]:
    """For each text, the share of the task's words that it has, from 0 to 1; all 0 when the task has no words.

    A word counts by how rare it is among the texts, as in BM25, and once however often it occurs: what is in
    all of them tells none of them apart.
    """
    asked = _Asked.of(task)
    found = [frozenset(asked.numbers(text)) - {asked.other} for text in texts]
    rarities = _rarities(found, asked.other)
    whole = sum(rarities)
    return [sum(rarities[number] for number in sorted(numbers)) / whole if numbers else 0.0 for numbers in found]


def _rarities(found: Sequence[Iterable[int]], words: int) -> list[float]:
    """How rare each of so many words is among texts: Lucene's inverse document frequency."""
    seen = Counter(number for numbers in found for number in numbers)
    return [log(1 + (len(found) - seen[number] + 0.5) / (seen[number] + 0.5)) for number in range(words)]


@define
class _Asked:
    """The words of the task, numbered, and how words of texts are read by them.

    All words that nobody asked for are one, since they only make a text longer.
    """

    number_of: Mapping[str, int]
    other: int
    _seen: dict[str, tuple[int, ...]] = field(factory=dict)

    @classmethod
    def of(cls, task: str) -> _Asked:
        """The words of a task."""
        distinct = dict.fromkeys(form for word in raw_words(task) for form in forms(word))
        return cls({form: number for number, form in enumerate(distinct)}, len(distinct))

    def numbers(self, text: str) -> list[int]:
        """The words of a text, each by the numbers of its forms; each written word is taken apart once."""
        found: list[int] = []
        for word in raw_words(text):
            numbers = self._seen.get(word)
            if numbers is None:
                numbers = self._seen[word] = self._of(word)
            found += numbers
        return found

    def _of(self, word: str) -> tuple[int, ...]:
        """The numbers of a word's forms that were asked for, else the one of all others."""
        return tuple([self.number_of[form] for form in forms(word) if form in self.number_of]) or (self.other,)


Embed = Callable[[Sequence[str]], Awaitable[Sequence[Sequence[float]]]]
"""Given texts, a vector for each, all of one length. What was embedded before is best remembered by it."""


class Relevance(Protocol):
    """Says how much each text has to do with a task. Any async function with this signature qualifies.

    Example:
        >>> from agentctx import Pack
        >>> async def shared_words(task, texts):
        ...     return [float(len(set(task.split()) & set(text.split()))) for text in texts]
        >>> stage = Pack("relevance", relevance=shared_words)
    """

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

    Example:
        >>> from agentctx import Pack
        >>> from agentctx.strategies import Embedded
        >>> async def embed(texts):
        ...     return [[float(len(text)), 1.0] for text in texts]  # ask a model for it
        >>> stage = Pack("relevance", relevance=Embedded(embed))
    """

    embed: Embed = field(validator=function("an async function (texts) -> vectors"))

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
