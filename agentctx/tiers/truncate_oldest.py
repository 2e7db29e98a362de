"""The beginning of the block goes first."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import ClassVar

from attrs import field, frozen

from agentctx.core.message import Message
from agentctx.errors import ConfigError
from agentctx.tiers.eviction import Allowance
from agentctx.tiers.pieces import Piece, messages_of, pieces


def _roles(roles: Iterable[str]) -> frozenset[str]:
    if isinstance(roles, str):
        msg = f"TruncateOldest: protect_roles is a collection of roles, for example ({roles!r},)"
        raise ConfigError(msg)
    return frozenset(role for role in roles if role)


@frozen
class TruncateOldest:
    """Drop whole units from the beginning until the rest fits.

    Args:
        keep_pairs: Whether a user's message goes together with the round that answers it, and never alone.
        min_messages: With fewer messages than this the rest is of no use: all of it goes but what must stay.
        protect_roles: Roles whose messages stay, each with its whole unit.

    Raises:
        ConfigError: If ``min_messages`` is negative, or the roles are one string.
    """

    keep_pairs: bool = False
    min_messages: int = field(default=0)
    protect_roles: frozenset[str] = field(default=frozenset(), converter=_roles)
    label: ClassVar[str] = "truncated"
    gradual: ClassVar[bool] = True

    @min_messages.validator
    def _check(self, _attribute: object, value: int) -> None:
        if isinstance(value, bool) or not isinstance(value, int) or value < 0:
            msg = f"TruncateOldest: min_messages must be a whole number of at least 0, got {value!r}"
            raise ConfigError(msg)

    def least(self, messages: Sequence[Message], allowance: Allowance, /) -> int:
        """What is protected and what must stay, in tokens."""
        if not self.protect_roles and not allowance.keep:
            return 0
        return sum(piece.tokens for piece in self._laid_out(messages, allowance) if piece.stays)

    async def __call__(self, messages: Sequence[Message], allowance: Allowance, /) -> Sequence[Message]:
        """The messages without as much of their beginning as must go.

        Raises:
            ContextOverflow: If what stays is too large.
        """
        found = self._laid_out(messages, allowance)
        total = sum(piece.tokens for piece in found)
        kept: list[Piece] = []
        for piece in found:
            if total > allowance.tokens and not piece.stays:
                total -= piece.tokens
            else:
                kept.append(piece)
        if total > allowance.tokens:
            raise allowance.overflow(total)
        if sum(map(len, kept)) < self.min_messages:
            allowance.remark(f"fewer than {self.min_messages} messages would be left")
            kept = [piece for piece in kept if piece.stays]
        return messages if len(kept) == len(found) else messages_of(messages, kept)

    def _laid_out(self, messages: Sequence[Message], allowance: Allowance) -> list[Piece]:
        return pieces(messages, allowance, self.protect_roles, pairs=self.keep_pairs)
