"""A counter that remembers what it was asked, to prove that work is not done twice."""

from __future__ import annotations

from attrs import define, field

from agentctx.protocols import TokenCounter
from agentctx.tokens.heuristic import HeuristicCounter


@define(eq=False)
class CountingCounter:
    """Counts tokens like another counter, and keeps the texts that it counted.

    Equal to itself only, so that nothing that another counter counted is taken for counted.

    Args:
        counter: The counter that does the work.
        texts: The texts counted so far, in order, one entry a call.
    """

    counter: TokenCounter = field(factory=HeuristicCounter)
    texts: list[str] = field(factory=list)

    def count(self, text: str, /) -> int:
        """The tokens of ``text``, and a note that it was counted."""
        self.texts.append(text)
        return self.counter.count(text)

    @property
    def characters(self) -> int:
        """Characters counted so far; a text that was counted twice counts twice."""
        return sum(map(len, self.texts))
