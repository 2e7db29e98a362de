"""The block stays whole, or the build fails."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from attrs import frozen

from agentctx.core.message import Message
from agentctx.tiers.eviction import Allowance


@frozen
class Strict:
    """Keep the block whole. Its room is reserved before any other block gets more than its least."""

    label: ClassVar[str] = "rejected"

    def least(self, messages: Sequence[Message], allowance: Allowance, /) -> int:
        """All of it, in tokens."""
        return allowance.count(messages)

    async def __call__(self, messages: Sequence[Message], allowance: Allowance, /) -> Sequence[Message]:
        """The messages as they are.

        Raises:
            ContextOverflow: If they are too large.
        """
        tokens = allowance.count(messages)
        if tokens > allowance.tokens:
            raise allowance.overflow(tokens)
        return messages
