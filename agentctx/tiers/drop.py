"""The block stays whole, or goes as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from attrs import frozen

from agentctx.core.message import Message
from agentctx.tiers.eviction import Allowance
from agentctx.tiers.pieces import messages_of, pieces


@frozen
class Drop:
    """Leave the block out when it does not fit. Only the user's newest words stay, if they are in it."""

    label: ClassVar[str] = "dropped"
    whole: ClassVar[bool] = True

    def least(self, messages: Sequence[Message], allowance: Allowance, /) -> int:
        """What must stay, in tokens."""
        return allowance.count(must_stay(messages, allowance)) if allowance.keep else 0

    async def __call__(self, messages: Sequence[Message], allowance: Allowance, /) -> Sequence[Message]:
        """The messages when they fit, else what must stay of them.

        Raises:
            ContextOverflow: If that is too large.
        """
        if allowance.count(messages) <= allowance.tokens:
            return messages
        staying = must_stay(messages, allowance)
        tokens = allowance.count(staying)
        if staying and tokens > allowance.tokens:
            raise allowance.overflow(tokens)
        return staying


def must_stay(messages: Sequence[Message], allowance: Allowance) -> tuple[Message, ...]:
    """The units that hold what must not go."""
    if not allowance.keep:
        return ()
    return messages_of(messages, [piece for piece in pieces(messages, allowance) if piece.stays])
