"""What messages weigh."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen


@frozen(eq=False)
class Weights:
    """What some messages weigh.

    Args:
        tokens: Tokens of each.
        bytes: Bytes of each.
    """

    tokens: Sequence[int] = ()
    bytes: Sequence[int] = ()

    def __len__(self) -> int:
        """How many messages."""
        return len(self.tokens)

    def first(self, count: int) -> Weights:
        """What the first ``count`` of them weigh."""
        return Weights(self.tokens[:count], self.bytes[:count])
