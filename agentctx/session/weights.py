"""What messages weigh, in a few bytes each: there may be many thousands."""

from __future__ import annotations

from array import array

from attrs import field, frozen

from agentctx.core.ledger import numbers


@frozen(eq=False)
class Weights:
    """What some messages weigh.

    Args:
        tokens: Tokens of each.
        bytes: Bytes of each.
    """

    tokens: array[int] = field(factory=numbers)
    bytes: array[int] = field(factory=numbers)

    def __len__(self) -> int:
        """How many messages."""
        return len(self.tokens)

    def first(self, count: int) -> Weights:
        """What the first ``count`` of them weigh."""
        return Weights(self.tokens[:count], self.bytes[:count])
