"""What was gathered, and how each source fared."""

from __future__ import annotations

from enum import StrEnum

from attrs import field, frozen

from agentctx.core.item import ContextItem


class Fared(StrEnum):
    """How a source fared."""

    FINE = "fine"
    FAILED = "failed"
    LATE = "late"


@frozen
class SourceReport:
    """How one source fared.

    Args:
        name: The provider's name.
        description: What it brings, in its own words.
        outcome: Whether it answered.
        problem: What went wrong, when something did; secrets are taken out.
        found: How many items it found.
        chosen: How many of them are among what was gathered.
        cut: How many of those are there in part only.
        tokens: Tokens of what it has there.
        seconds: How long it took.
    """

    name: str
    description: str
    outcome: Fared
    problem: str
    found: int
    chosen: int
    cut: int
    tokens: int
    seconds: float


@frozen
class Gathered:
    """What was gathered.

    Args:
        items: The items that were chosen, the most relevant first.
        left_out: The items that were not.
        text: The chosen items as text, for a message; empty when there are none.
        tokens: Tokens of the text.
        sources: How each provider fared, in the order in which they were passed.
    """

    items: tuple[ContextItem, ...]
    left_out: tuple[ContextItem, ...]
    text: str = field(repr=False)
    tokens: int
    sources: tuple[SourceReport, ...]

    @property
    def problems(self) -> tuple[str, ...]:
        """What went wrong, a line for each provider that failed or was late."""
        return tuple(f"{each.name}: {each.problem}" for each in self.sources if each.problem)
