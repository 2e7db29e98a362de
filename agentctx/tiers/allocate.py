"""Who gets how much of a limited number of tokens: one pure function."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import fsum

from agentctx.errors import ConfigError
from agentctx.tiers.apportion import apportion
from agentctx.tiers.tier import TierRule

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
    """
    rules = [tier if isinstance(tier, TierRule) else TierRule(tier) for tier in tiers]
    _check(sizes, rules, limit)
    shares = [round(rule.share * WHOLE) for rule in rules]
    wants = [size if rule.cap is None else min(size, rule.cap) for size, rule in zip(sizes, rules, strict=True)]
    order = sorted(range(len(rules)), key=lambda claim: rules[claim].tier)
    floors = [min(rule.floor, want) for rule, want in zip(rules, wants, strict=True)]
    grants = _in_order(order, floors, max(0, limit))
    needs = [want - grant for want, grant in zip(wants, grants, strict=True)]
    more = _beyond_floors(order, needs, shares, max(0, limit) - sum(grants))
    return tuple(grant + extra for grant, extra in zip(grants, more, strict=True))


def _check(sizes: Sequence[int], rules: Sequence[TierRule], limit: int) -> None:
    if len(sizes) != len(rules):
        msg = f"allocate: {len(sizes)} sizes and {len(rules)} tiers; expected one tier for each size"
        raise ConfigError(msg)
    given: Sequence[object] = (*sizes, limit)
    if not all(isinstance(number, int) for number in given):
        wrong = next(number for number in given if not isinstance(number, int))
        msg = f"allocate: expected whole numbers of tokens, got {wrong!r}"
        raise ConfigError(msg)
    if any(size < 0 for size in sizes):
        msg = f"allocate: sizes must not be negative, got {min(sizes)}"
        raise ConfigError(msg)
    together = fsum(rule.share for rule in rules)
    if together > 1 + 1 / WHOLE:
        msg = f"allocate: the shares add up to {together:.3g}, which is more than 1"
        raise ConfigError(msg)


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
