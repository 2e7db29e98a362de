"""The end of the block goes first."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from attrs import frozen

from agentctx.core.message import Message
from agentctx.tiers.eviction import Allowance
from agentctx.tiers.pieces import Piece, messages_of, pieces


@frozen
class DropTail:
    """Drop whole units from the end until the rest fits: for what is ranked, best first.

    The first unit stays, and the user's newest words when they are in the block.
    """

    label: ClassVar[str] = "truncated"
    gradual: ClassVar[bool] = True

    def least(self, messages: Sequence[Message], allowance: Allowance, /) -> int:
        """The first unit and what must stay, in tokens."""
        return sum(piece.tokens for piece in _laid_out(messages, allowance) if piece.stays)

    async def __call__(self, messages: Sequence[Message], allowance: Allowance, /) -> Sequence[Message]:
        """The messages without as much of their end as must go.

        Raises:
            ContextOverflow: If what stays is too large.
        """
        found = _laid_out(messages, allowance)
        total = sum(piece.tokens for piece in found)
        kept: list[Piece] = []
        for piece in reversed(found):
            if total > allowance.tokens and not piece.stays:
                total -= piece.tokens
            else:
                kept.append(piece)
        if total > allowance.tokens:
            raise allowance.overflow(total)
        return messages if len(kept) == len(found) else messages_of(messages, kept[::-1])


def _laid_out(messages: Sequence[Message], allowance: Allowance) -> list[Piece]:
    found = pieces(messages, allowance)
    return [Piece(piece.start, piece.stop, piece.tokens, piece.stays or piece is found[0]) for piece in found]
