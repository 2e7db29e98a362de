"""What a unit is worth to the model, token for token."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import exp

from attrs import frozen

from agentctx.core.message import Message
from agentctx.core.parts import Text, ToolCall, ToolResult
from agentctx.errors import ConfigError

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
