"""How the blocks that are left become the messages of one request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from attrs import frozen

from agentctx.core.message import Message
from agentctx.tiers.tier import Tier


@frozen
class Section:
    """What is left of a block.

    Args:
        id: The block's name.
        tier: Its tier.
        messages: What goes out of it; never empty.
    """

    id: str
    tier: Tier
    messages: tuple[Message, ...]


class Formatter(Protocol):
    """Makes one list of messages of the sections. A plain async function qualifies.

    Its answer is held to a contract: messages, no call without its result, signed reasoning whole or not at all, the
    user's newest words as they were, and all of it within the budget, else the blocks are cut further and it is asked
    again.
    """

    async def __call__(self, sections: Sequence[Section], /) -> Sequence[Message]:
        """The messages of the request, from sections in the order of the request."""
        ...


async def concatenate(sections: Sequence[Section], /) -> Sequence[Message]:
    """The messages one section after the other, as they are."""
    return [message for section in sections for message in section.messages]
