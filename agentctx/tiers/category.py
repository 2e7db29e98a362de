"""What a window is used for, and how much of it each use is laid out for."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from fractions import Fraction
from types import MappingProxyType

from attrs import frozen

from agentctx.errors import ConfigError

PRECISION = 1_000_000
"""Shares are taken to this many parts of one."""


class Category(StrEnum):
    """What a part of the window is used for."""

    SYSTEM_PROMPT = "system prompt"
    TOOL_DEFINITIONS = "tool definitions"
    REPOSITORY_MAP = "repository map"
    MEMORY = "memory"
    WORKSPACE = "workspace"
    FILES = "files"
    """Files that are loaded before the model asks for them; they give way to the conversation."""
    CONVERSATION = "conversation"
    """What all the others leave."""
    OUTPUT_RESERVE = "output reserve"
    """Kept free for the answer."""
    SAFETY_MARGIN = "safety margin"
    """Kept free for what is counted wrongly."""


@frozen
class Slot:
    """A share of the window that grows with it, between a floor and a ceiling.

    Args:
        share: The share, 0 to 1.
        floor: The fewest tokens, in a window of full size.
        ceiling: The most tokens; None means no ceiling.

    Raises:
        ConfigError: If the share is not within 0 and 1, or floor and ceiling contradict each other.
    """

    share: float
    floor: int = 0
    ceiling: int | None = None

    def __attrs_post_init__(self) -> None:
        """Check the amounts."""
        if isinstance(self.share, bool) or not isinstance(self.share, (int, float)) or not 0 <= self.share <= 1:
            msg = f"Slot: share must lie between 0 and 1, got {self.share!r}"
            raise ConfigError(msg)
        amounts = (self.floor,) if self.ceiling is None else (self.floor, self.ceiling)
        whole = all(isinstance(each, int) and not isinstance(each, bool) for each in amounts)
        if not whole or not 0 <= self.floor <= amounts[-1]:
            msg = f"Slot: expected 0 <= floor <= ceiling, got floor {self.floor!r} and ceiling {self.ceiling!r}"
            raise ConfigError(msg)

    def tokens(self, window: int) -> int:
        """The slot's tokens in a window of so many tokens; its share is rounded down."""
        tokens = max(int(Fraction(self.share).limit_denominator(PRECISION) * window), self.floor)
        return tokens if self.ceiling is None else min(tokens, self.ceiling)


SLOTS: Mapping[Category, Slot] = MappingProxyType(
    {
        Category.SYSTEM_PROMPT: Slot(0.03, 3_000, 5_000),
        Category.TOOL_DEFINITIONS: Slot(0.02, 2_000, 3_000),
        Category.REPOSITORY_MAP: Slot(0.02, 2_000, 4_000),
        Category.MEMORY: Slot(0.01, 1_000, 2_000),
        Category.WORKSPACE: Slot(0.005, 300, 500),
        Category.FILES: Slot(0.15, 5_000, 30_000),
        Category.OUTPUT_RESERVE: Slot(0.10, 4_000, 20_000),
        Category.SAFETY_MARGIN: Slot(0.07, 2_000, 15_000),
    }
)
"""The slots of hawk's ctxmgr 0.3.0; the conversation has what they leave. ``FILES`` is for an empty conversation."""

LEAST_FILES = Slot(0.05, 2_000, 10_000)
"""What is left of the files' slot when the conversation needs the room."""

FULL_SIZE = 32_000
"""The smallest window, in tokens, in which floors hold; smaller ones are divided in the same proportions."""
