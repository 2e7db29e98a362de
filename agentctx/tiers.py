"""How important a block is, and what a tier may claim of the room."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from fractions import Fraction
from heapq import heapify, heappop, heappush
from math import floor, fsum
from typing import Any

from attrs import Attribute, field, frozen

from agentctx.validators import SHARE, a, list_of, must_be, whole_number


class Tier(IntEnum):
    """The place of a block in the request, and its claim on the room: the lower, the earlier and the stronger.

    Any other integer is a tier too: ``Tier(7)`` comes after ``Tier.SCRATCHPAD``. Tiers from ``HISTORY`` on hold the
    conversation; those before it hold background, whatever the roles of their messages.

    Example:
        >>> from agentctx.builder import Tier
        >>> Tier.SYSTEM < Tier.HISTORY < Tier(7), str(Tier(7))
        (True, 'Tier(7)')
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
        raise must_be("Tier", "a whole number, for example Tier.HISTORY", value)
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

    Example:
        >>> from agentctx.builder import ContextBuilder, Tier, TierRule
        >>> builder = ContextBuilder(16_000, tiers=[TierRule(Tier.RAG, floor=1_000, cap=4_000)])
    """

    tier: Tier = field(converter=as_tier)
    floor: int = field(default=0, validator=whole_number(0))
    share: float = field(default=0.0, validator=SHARE)
    cap: int | None = field(default=None, validator=whole_number(0).or_none)

    def __attrs_post_init__(self) -> None:
        """Check that the cap holds the floor."""
        if self.cap is not None and self.cap < self.floor:
            raise must_be("TierRule.cap", f"at least the floor of {self.floor:,} tokens", self.cap)


_RULES = list_of(a(TierRule, "a TierRule"), "TierRules")


def check_rules(instance: object, attribute: Attribute[Any], rules: Sequence[TierRule]) -> None:
    """Check rules, each of another tier, as attrs calls a validator; together they must be such that sizes can meet.

    Raises:
        ConfigError: If they are not.
    """
    where = f"{type(instance).__name__}.{attribute.alias}"
    _RULES.check(where, rules)
    if len({rule.tier for rule in rules}) < len(rules):
        raise must_be(where, "one rule for each tier", rules)
    allocate([0] * len(rules), rules, 0)


def apportion(wants: Sequence[int], weights: Sequence[Fraction], room: int) -> list[int]:
    """Grants that are proportional to ``weights`` and not above ``wants``; what one does not want, the others get.

    Tokens are handed out one by one in an order that does not depend on ``room`` (the k-th token of a claim is due at
    ``k / weight``; Jefferson's method of apportionment), so more room never shrinks a grant. Worked out at once: the
    work grows with the number of claims, not of tokens.
    """
    if room >= sum(wants):
        return list(wants)
    level = _level(wants, weights, room)
    grants = [min(want, floor(level * weight)) for want, weight in zip(wants, weights, strict=True)]
    due = [((grants[claim] + 1) / weights[claim], claim) for claim, want in enumerate(wants) if grants[claim] < want]
    heapify(due)
    for _ in range(room - sum(grants)):
        _, claim = heappop(due)
        grants[claim] += 1
        if grants[claim] < wants[claim]:
            heappush(due, ((grants[claim] + 1) / weights[claim], claim))
    return grants


def _level(wants: Sequence[int], weights: Sequence[Fraction], room: int) -> Fraction:
    """The tokens a unit of weight at which ``room`` is used up, were tokens divisible."""
    left, weight = Fraction(room), sum(weights, Fraction())
    for claim in sorted(range(len(wants)), key=lambda claim: wants[claim] / weights[claim]):
        if wants[claim] / weights[claim] > left / weight:
            break
        left -= wants[claim]
        weight -= weights[claim]
    return left / weight


WHOLE = 1_000_000_000
"""Shares are taken to so many parts of the whole: whole numbers, so that the work does not grow with fractions."""


def allocate(sizes: Sequence[int], tiers: Sequence[TierRule | int], limit: int) -> tuple[int, ...]:
    """Grant each claim tokens: never more than ``limit`` together, and nobody more than its size and its cap.

    First the floors, in tier order. Then the rest: by share where shares are given, else in tier order, each claim
    all that it wants before the next gets anything. Claims of one tier come in the order in which they are given.
    Nothing is left over while a claim wants more.

    No claim is under its floor unless the floors do not fit; a larger limit never shrinks a grant.

    Args:
        sizes: What each claim would fill, in tokens.
        tiers: The tier of each claim, or the rule with floor, share and cap that holds for it.
        limit: What there is, in tokens; a negative one is nothing.

    Returns:
        The grant of each claim, in tokens.

    Raises:
        ConfigError: If an amount is no whole number, a size is negative, a claim has no tier, or the shares add up to
            more than 1.

    Example:
        >>> from agentctx.builder import Tier, allocate
        >>> allocate([3_000, 9_000], [Tier.SYSTEM, Tier.HISTORY], limit=8_000)
        (3000, 5000)
    """
    rules = [tier if isinstance(tier, TierRule) else TierRule(tier) for tier in tiers]
    if len(sizes) != len(rules):
        raise must_be("allocate.tiers", f"one tier for each of {len(sizes)} sizes", tiers)
    a(int, "a whole number of tokens").check("allocate.limit", limit)
    whole_number(0).check("allocate.sizes", next((size for size in sizes if not isinstance(size, int) or size < 0), 0))
    if (together := fsum(rule.share for rule in rules)) > 1 + 1 / WHOLE:
        raise must_be("allocate.tiers", "rules whose shares add up to at most 1", round(together, 3))
    shares = [round(rule.share * WHOLE) for rule in rules]
    wants = [size if rule.cap is None else min(size, rule.cap) for size, rule in zip(sizes, rules, strict=True)]
    order = sorted(range(len(rules)), key=lambda claim: rules[claim].tier)
    floors = [min(rule.floor, want) for rule, want in zip(rules, wants, strict=True)]
    grants = _in_order(order, floors, max(0, limit))
    needs = [want - grant for want, grant in zip(wants, grants, strict=True)]
    more = _beyond_floors(order, needs, shares, max(0, limit) - sum(grants))
    return tuple(grant + extra for grant, extra in zip(grants, more, strict=True))


def _in_order(order: Sequence[int], wants: Sequence[int], room: int) -> list[int]:
    """Each claim all that it wants, in order, until nothing is left."""
    grants = [0] * len(wants)
    for claim in order:
        grants[claim] = min(wants[claim], room)
        room -= grants[claim]
    return grants


def _beyond_floors(order: Sequence[int], needs: Sequence[int], shares: Sequence[int], room: int) -> list[int]:
    """Divide ``room`` by share; claims without a share stand together as one more, which serves itself in order."""
    sharing = [claim for claim in order if shares[claim]]
    if not sharing or room <= 0:
        return _in_order(order, needs, room)
    others = [claim for claim in order if not shares[claim]]
    wants = [needs[claim] for claim in sharing]
    weights = [Fraction(shares[claim]) for claim in sharing]
    rest = WHOLE - sum(shares)
    if rest > len(sharing):  # less is what rounding has left
        wants.append(sum(needs[claim] for claim in others))
        weights.append(Fraction(rest))
    granted = apportion(wants, weights, room)
    grants = [0] * len(needs)
    for claim, grant in zip(sharing, granted, strict=False):
        grants[claim] = grant
    left = _in_order(others, needs, room - sum(grants))
    return [grants[claim] or left[claim] for claim in range(len(needs))]
