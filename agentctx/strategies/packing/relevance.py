"""How much texts have to do with a task: by their words (BM25), by embeddings, and by what else they say."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence, Sized
from importlib.util import find_spec
from math import exp, sqrt
from operator import mul
from typing import Any, Protocol, SupportsFloat

import anyio.to_thread
from attrs import define, field, frozen

from agentctx.core.message import Context, Message, Text, ToolCall, ToolResult
from agentctx.engine.select import each_that_fits
from agentctx.engine.shrink import Cut, cut_to_tokens, edit_results, with_text
from agentctx.errors import ConfigError
from agentctx.protocols import Call
from agentctx.strategies.packing.choose import Load

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
    do you mean?"). Works in a thread; the time grows with the length of the texts.

    Args:
        k1: How much it matters that a word occurs more than once; 0 means not at all.
        b: How much long texts are held to their length, 0 to 1.

    Raises:
        ConfigError: If bm25s is not installed.

    Example:
        >>> from agentctx import Pack
        >>> from agentctx.strategies import Bm25
        >>> stage = Pack("relevance", relevance=Bm25(k1=1.2))
    """

    k1: float = 1.5
    b: float = 0.75

    def __attrs_post_init__(self) -> None:
        """Look for the library."""
        if find_spec("bm25s") is None:
            msg = "Bm25: it needs bm25s: pip install 'agentctx[relevance]'"
            raise ConfigError(msg)

    async def __call__(self, task: str, texts: Sequence[str], /) -> Sequence[float]:
        """The BM25 score of each text; 0 where it shares no word with the task."""
        return await anyio.to_thread.run_sync(self._scores, task, texts, abandon_on_cancel=True)

    def _scores(self, task: str, texts: Sequence[str]) -> list[float]:
        import bm25s  # type: ignore[import-untyped]  # noqa: PLC0415 - no types; an extra: all else works without it

        asked = _Asked.of(task)
        counted = [asked.numbers(text) for text in texts]
        if not any(min(numbers, default=asked.other) < asked.other for numbers in counted):
            return [0.0] * len(texts)
        index = bm25s.BM25(k1=self.k1, b=self.b, method="lucene", dtype="float64", auto_compile=False)
        index.index((counted, {**asked.number_of, "": asked.other}), show_progress=False)
        return [float(score) for score in index.get_scores(list(asked.number_of))]


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


FADING = 3.0
"""How fast recency falls: the oldest unit has exp(-3), a twentieth of the newest."""

LENGTHS = ((100, 1.0), (500, 0.8), (2_000, 0.6))
"""Up to so many characters, and the score for it; longer ones have ``LONG``."""

LONG = 0.4

_TROUBLE = re.compile(r"\b(?:errors?|fail(?:ed|ure|ures)|panic|exceptions?|traceback|fatal)\b")
_STEMS = ("error", "fail", "panic", "exception", "traceback", "fatal")


@frozen
class Weights:
    """How much each side of a unit counts; they need not add up to 1.

    Args:
        recency: That it is recent: 1 for the newest, falling by the exponential function to 0.05 for the oldest.
        relevance: That it has to do with the task: 1 for the unit that has most to do with it.
        role: That the user speaks (0.7), that tools were called (0.6), that the model speaks (0.5); else 0.4.
        tool: That something went wrong in it: 1 for results that are or speak of errors, 0.4 for other results, 0.5
            for what is no result.
        length: That it is short: 1, 0.8, 0.6 and 0.4 for up to 100, 500, 2,000 and more characters.

    Raises:
        ConfigError: If one is negative or not finite, or all are 0.

    Example:
        >>> from agentctx import Pack
        >>> from agentctx.strategies import Weights
        >>> stage = Pack(Weights(recency=0.5, relevance=0.5))
    """

    recency: float = 0.0
    relevance: float = 0.0
    role: float = 0.0
    tool: float = 0.0
    length: float = 0.0

    def __attrs_post_init__(self) -> None:
        """Check the weights."""
        weights = (self.recency, self.relevance, self.role, self.tool, self.length)
        numbers = all(isinstance(weight, (int, float)) and not isinstance(weight, bool) for weight in weights)
        if not numbers or not all(0 <= weight < float("inf") for weight in weights) or not any(weights):
            msg = f"Weights: expected numbers of at least 0, and not only zeros, got {weights}"
            raise ConfigError(msg)

    def score(self, said: Said, recency: float, relevance: float) -> float:
        """What a unit is worth for each of its tokens."""
        return (
            self.recency * recency
            + self.relevance * relevance
            + self.role * said.role
            + self.tool * said.tool
            + self.length * length_score(len(said.text))
        )


@frozen
class Said:
    """What is known of a unit from its own words.

    Args:
        text: All that is said, called and answered in it.
        role: Its role's score.
        tool: Its score for what tools answered.
    """

    text: str
    role: float
    tool: float


def said(messages: Sequence[Message]) -> Said:
    """What the messages of a unit say. Reasoning is left out: it says nothing that is not done or said again."""
    return Said("\n".join(_texts(messages)), role_score(messages), tool_score(messages))


def recency_score(place: int, count: int) -> float:
    """How recent the unit at ``place`` of ``count`` is: 1 for the last, 0.05 for the first."""
    return 1.0 if count <= 1 else exp(-FADING * (1 - place / (count - 1)))


def role_score(messages: Sequence[Message]) -> float:
    """The score for who speaks."""
    roles = {message.role for message in messages}
    if any(message.calls or message.results for message in messages):
        return 0.6
    return 0.7 if "user" in roles else 0.5 if "assistant" in roles else 0.4


def tool_score(messages: Sequence[Message]) -> float:
    """The score for what tools answered."""
    results = [result for message in messages for result in message.results]
    if not results:
        return 0.5
    return 1.0 if any(result.is_error or _is_trouble(result.text) for result in results) else 0.4


def _is_trouble(text: str) -> bool:
    """Whether a text speaks of errors; most can be told by a search for letters, which is much faster."""
    small = text.lower()
    return any(stem in small for stem in _STEMS) and _TROUBLE.search(small) is not None


def length_score(characters: int) -> float:
    """The score for being short."""
    return next((score for most, score in LENGTHS if characters <= most), LONG)


def _texts(messages: Sequence[Message]) -> list[str]:
    found: list[str] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, (Text, ToolResult)):
                found.append(part.text)
            elif isinstance(part, ToolCall):
                found.append(f"{part.name} {part.arguments}")
    return found


STEPS = 1_000_000
"""Scores are taken to this many parts of one."""

MANY = 200
"""Units from which on they are looked at in a worker thread."""


async def ranked(
    context: Context, load: Load, weights: Weights, task: str, relevance: Relevance | None
) -> Sequence[int]:
    """What a token of each unit is worth: see ``scores``.

    Args:
        context: The request.
        load: Its units.
        weights: What counts.
        task: What the model is at, in words.
        relevance: How much texts have to do with the task; None means BM25.
    """
    if not load.units:
        return []
    told = (
        await anyio.to_thread.run_sync(_sayings, context, load) if len(load.units) > MANY else _sayings(context, load)
    )
    if not weights.relevance or not task.strip():
        return scores(load, weights, told, [0.0] * len(told))
    if relevance is None:
        from agentctx.strategies.packing.relevance import Bm25  # noqa: PLC0415 - the library is an extra

        relevance = Bm25()
    texts = [one.text for one in told]
    return scores(load, weights, told, shares(await relevance(task, texts), len(texts)))


def _sayings(context: Context, load: Load) -> list[Said]:
    return [said(unit.of(context.messages)) for unit in load.units]


def scores(load: Load, weights: Weights, told: Sequence[Said], relevances: Sequence[float]) -> list[int]:
    """What a token of each unit is worth; above 0, and of equal units the later is worth more.

    A question is worth as much as the answer that follows it, and a trifle more.

    Args:
        load: The units.
        weights: What counts.
        told: What each unit says.
        relevances: How much each has to do with the task, 0 to 1.
    """
    parts = 2 * (load.total + 1)
    found = [
        round(STEPS * weights.score(one, recency_score(place, load.total), relevance)) * parts + 2 * place + 1
        for place, one, relevance in zip(load.places, told, relevances, strict=True)
    ]
    for question, answer in load.questions:
        found[question] = max(found[question], found[answer] + 1)
    return found


SHORT = 200
"""The tokens that an old tool result is cut to."""

OLD = 0.7
"""Units of this recency or less are old: all but about the last eighth."""


def shortened(context: Context, load: Load, call: Call) -> dict[int, tuple[Message, ...]]:
    """The messages of old units whose results were too long, with these cut; by the unit's index in the load."""
    found: dict[int, tuple[Message, ...]] = {}
    for index, (unit, place) in enumerate(zip(load.units, load.places, strict=True)):
        if index in load.recent or recency_score(place, load.total) > OLD:
            continue
        before = unit.of(context.messages)
        after = tuple(_short(message, call) for message in before)
        if any(new is not old for new, old in zip(after, before, strict=True)):
            found[index] = after
    return found


def _short(message: Message, call: Call) -> Message:
    def cut(result: ToolResult) -> ToolResult:
        text = result.text
        shorter = cut_to_tokens(text, SHORT, call.counter, Cut())
        return result if shorter == text else with_text(result, shorter)

    return edit_results(message, cut)


def still_short(
    short: Mapping[int, tuple[Message, ...]], chosen: Sequence[int], growths: Mapping[int, int], spare: int
) -> Iterable[int]:
    """Which of the chosen units must stay short: those for which there is not room in full, the latest asked first.

    Args:
        short: The units that were cut.
        chosen: The units to keep, rising.
        growths: How many tokens more each of the short units has in full.
        spare: Tokens that are left.
    """
    latest_first = [index for index in reversed(chosen) if index in short]
    in_full = each_that_fits(latest_first, growths.__getitem__, spare)
    return [index for index in latest_first if index not in in_full]
