"""What a unit is worth: how recent it is, how much it has to do with the task, who speaks, what went wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from math import exp

from attrs import frozen

from agentctx.core.message import Context, Message, Text, ToolCall, ToolResult
from agentctx.engine.relevance import Bm25, Relevance, shares
from agentctx.engine.select import each_that_fits
from agentctx.engine.shrink import Cut, cut_to_tokens, edit_results, with_text
from agentctx.errors import ConfigError
from agentctx.protocols import Call
from agentctx.strategies.packing.choose import Candidates

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

    def score(self, unit: Traits, recency: float, relevance: float) -> float:
        """What a unit is worth for each of its tokens."""
        return (
            self.recency * recency
            + self.relevance * relevance
            + self.role * unit.role
            + self.tool * unit.tool
            + self.length * length_score(len(unit.text))
        )


@frozen
class Traits:
    """What is known of a unit from its own words."""

    text: str
    role: float
    tool: float


def traits_of(messages: Sequence[Message]) -> Traits:
    """What the messages of a unit say. Reasoning is left out: it says nothing that is not done or said again."""
    return Traits("\n".join(_texts(messages)), role_score(messages), tool_score(messages))


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
    """Whether a text speaks of errors; most can be traits by a search for letters, which is much faster."""
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


async def relevances(
    traits: Sequence[Traits], weights: Weights, task: str, relevance: Relevance | None
) -> Sequence[float]:
    """How much each unit has to do with the task, 0 to 1; without ``relevance`` BM25 says it."""
    if not traits or not weights.relevance or not task.strip():
        return [0.0] * len(traits)
    texts = [one.text for one in traits]
    return shares(await (Bm25() if relevance is None else relevance)(task, texts), len(texts))


def scores(
    candidates: Candidates, weights: Weights, traits: Sequence[Traits], relevances: Sequence[float]
) -> list[int]:
    """What a token of each unit is worth; above 0, and of equal units the later is worth more.

    A question is worth as much as the answer that follows it, and a trifle more.
    """
    parts = 2 * (candidates.total + 1)
    found = [
        round(STEPS * weights.score(one, recency_score(place, candidates.total), relevance)) * parts + 2 * place + 1
        for place, one, relevance in zip(candidates.places, traits, relevances, strict=True)
    ]
    for question, answer in candidates.questions:
        found[question] = max(found[question], found[answer] + 1)
    return found


SHORT = 200
"""The tokens that an old tool result is cut to."""

OLD = 0.7
"""Units of this recency or less are old: all but about the last eighth."""


def shortened(context: Context, candidates: Candidates, call: Call) -> dict[int, tuple[Message, ...]]:
    """The messages of old units whose results were too long, with these cut; by the unit's index in the candidates."""
    found: dict[int, tuple[Message, ...]] = {}
    for index, (unit, place) in enumerate(zip(candidates.units, candidates.places, strict=True)):
        if index in candidates.recent or recency_score(place, candidates.total) > OLD:
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
    """Which of the chosen units must stay short: those for which there is not room in full, the latest asked first."""
    latest_first = [index for index in reversed(chosen) if index in short]
    in_full = each_that_fits(latest_first, growths.__getitem__, spare)
    return [index for index in latest_first if index not in in_full]
