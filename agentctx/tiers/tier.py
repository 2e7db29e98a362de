"""How important a block is, and what a tier may claim of the room."""

from __future__ import annotations

from enum import IntEnum

from attrs import field, frozen

from agentctx.errors import ConfigError


class Tier(IntEnum):
    """The place of a block in the request, and its claim on the room: the lower, the earlier and the stronger.

    Any other integer is a tier too: ``Tier(7)`` comes after ``Tier.SCRATCHPAD``. Tiers from ``HISTORY`` on hold the
    conversation; those before it hold background, whatever the roles of their messages.
    """

    SYSTEM = 0
    """Instructions."""
    CORE = 1
    """Facts and rules that every call needs."""
    RAG = 2
    """What was looked up for this call."""
    HISTORY = 3
    """The conversation so far."""
    SCRATCHPAD = 4
    """Intermediate work: what is said in it is not the user's newest word where a conversation stands before it."""

    @classmethod
    def _missing_(cls, value: object) -> Tier | None:
        """A member for any other integer, made once."""
        if isinstance(value, bool) or not isinstance(value, int):
            return None
        member = int.__new__(cls, value)
        member._name_ = f"Tier({value})"
        member._value_ = value
        cls._value2member_map_[value] = member
        return member

    def __str__(self) -> str:
        """``"system"``, ``"core"``, ``"rag"``, ``"history"``, ``"scratchpad"``, else ``"Tier(N)"``."""
        return self._name_.lower() if self._name_.isupper() else self._name_


def as_tier(value: object) -> Tier:
    """The tier of this number.

    Raises:
        ConfigError: If it is no integer.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        msg = f"tier: expected an integer, for example Tier.HISTORY, got {value!r}"
        raise ConfigError(msg)
    return Tier(value)


@frozen
class TierRule:
    """What a tier may claim beside its place in the order.

    Args:
        tier: The tier.
        floor: Tokens that it gets before any tier gets more than its floor, as far as it has use for them.
        share: Its part, 0 to 1, of the room beyond the floors while others want more than there is; what it has no
            use for goes to the others. Tiers without a share have together what the shares leave, in tier order.
        cap: The most tokens that it may have; None means no cap.

    Raises:
        ConfigError: If an amount is negative, the share is not within 0 and 1, or the floor is above the cap.
    """

    tier: Tier = field(converter=as_tier)
    floor: int = 0
    share: float = 0.0
    cap: int | None = None

    def __attrs_post_init__(self) -> None:
        """Check the amounts."""
        _check_tokens(self.tier, "floor", self.floor)
        if self.cap is not None:
            _check_tokens(self.tier, "cap", self.cap)
        if isinstance(self.share, bool) or not isinstance(self.share, (int, float)):
            msg = f"TierRule({self.tier!s}): share: expected a number between 0 and 1, got {self.share!r}"
            raise ConfigError(msg)
        if self.floor < 0:
            msg = f"TierRule({self.tier!s}): floor must not be negative, got {self.floor}"
            raise ConfigError(msg)
        if not 0 <= self.share <= 1:
            msg = f"TierRule({self.tier!s}): share must lie between 0 and 1, got {self.share!r}"
            raise ConfigError(msg)
        if self.cap is not None and self.cap < self.floor:
            msg = f"TierRule({self.tier!s}): cap {self.cap:,} must be at least the floor, {self.floor:,}"
            raise ConfigError(msg)


def _check_tokens(tier: Tier, name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        msg = f"TierRule({tier!s}): {name}: expected a whole number of tokens, got {value!r}"
        raise ConfigError(msg)
