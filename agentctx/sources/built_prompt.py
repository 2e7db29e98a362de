"""A system prompt as it is sent."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import field, frozen

from agentctx.core.message import Message
from agentctx.core.parts import Text
from agentctx.protocols import TokenCounter
from agentctx.tiers.block import Block
from agentctx.tiers.tier import Tier


@frozen
class PromptPiece:
    """A piece of a system prompt, unchanged for as long as the prompt is not rebased.

    Args:
        text: What it says.
        tokens: Its size in tokens.
        cache: Whether it pays to let the provider keep the prefix that ends with it.
    """

    text: str = field(repr=False)
    tokens: int
    cache: bool = False


@frozen
class BuiltPrompt:
    """A system prompt as it is sent: the baseline, and after it what has changed, in the order in which it did.

    Args:
        pieces: Baseline and updates.
        superseded: Tokens that would be saved by ``StablePrompt.rebase``, at the price of a new prefix.
    """

    pieces: tuple[PromptPiece, ...]
    superseded: int

    @property
    def text(self) -> str:
        """All of it as one text; what was built before any further change is the beginning of it."""
        return "\n\n".join(piece.text for piece in self.pieces if piece.text)

    @property
    def tokens(self) -> int:
        """The size of all pieces in tokens."""
        return sum(piece.tokens for piece in self.pieces)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """A block for each piece, for a ``ContextBuilder``; it writes the cache points as the provider wants them."""
        return tuple(
            Block(
                id="system" if place == 0 else f"system-update-{place}",
                messages=[Message("system", (Text(piece.text),))],
                tier=Tier.SYSTEM,
                cache=piece.cache or None,
            )
            for place, piece in enumerate(self.pieces)
            if piece.text
        )


def with_cache_points(texts: Sequence[str], min_cache: int, counter: TokenCounter) -> tuple[PromptPiece, ...]:
    """The texts as pieces, with cache points where they pay: behind the baseline, and behind the last update.

    The baseline is the same for everybody who has the same sections. The end is what the next call of this
    conversation begins with. Neither pays where fewer tokens than ``min_cache`` stand since the point before: the
    provider keeps no shorter prefix, and a point is worth more further down.
    """
    sizes = [counter.count(text) for text in texts]
    pieces = [PromptPiece(text, size) for text, size in zip(texts, sizes, strict=True)]
    since = 0
    for place in sorted({0, len(texts) - 1}):
        since += sizes[0] if place == 0 else sum(sizes[1:])
        if since >= min_cache:
            pieces[place] = PromptPiece(texts[place], sizes[place], cache=True)
            since = 0
    return tuple(pieces)
