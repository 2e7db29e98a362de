"""Divide a number of tokens by weight, so that a token more never takes one away from anybody."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from heapq import heapify, heappop, heappush
from math import floor


def apportion(wants: Sequence[int], weights: Sequence[Fraction], room: int) -> list[int]:
    """Grants that are proportional to ``weights`` and not above ``wants``; what one does not want, the others get.

    Tokens are handed out one by one in an order that does not depend on ``room`` (the k-th token of a claim is due at
    ``k / weight``; Jefferson's method of apportionment), so more room never shrinks a grant. Worked out at once: the
    work grows with the number of claims, not of tokens.

    Args:
        wants: The most that each claim takes, in tokens.
        weights: The weight of each claim, above 0.
        room: What there is, in tokens.
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
