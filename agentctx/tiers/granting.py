"""How many tokens each block may have."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from attrs import frozen

from agentctx.tiers.allocate import allocate
from agentctx.tiers.slot import Slot
from agentctx.tiers.tier import Tier, TierRule

ROUNDS = 32
"""How often a tier may give up what its whole blocks cannot use, before all tiers do so at once."""


@frozen
class Room:
    """What the blocks share.

    Args:
        limit: The most tokens that the request may have.
        reserved: What of them is taken by what is no block.
        rules: What single tiers may claim beside their place.
    """

    limit: int
    reserved: int
    rules: Mapping[Tier, TierRule]

    @property
    def free(self) -> int:
        """Tokens for all blocks together."""
        return max(0, self.limit - self.reserved)


@frozen
class Grant:
    """The tokens of one block.

    Args:
        tokens: What it may have.
        offered: What there was for it; more than ``tokens`` when a block that goes as a whole has no use for it.
    """

    tokens: int
    offered: int


def grants(slots: Sequence[Slot], room: Room) -> list[Grant]:
    """The grant of each slot: first by tier, and within a tier in the order in which the blocks were added.

    A block that stays or goes as a whole takes nothing that it cannot use. What it leaves goes to the next of its
    tier, and what a tier leaves to the other tiers, the strongest first.
    """
    tiers: dict[Tier, list[int]] = defaultdict(list)
    for place, slot in enumerate(slots):
        tiers[slot.block.tier].append(place)
    members = [[slots[place] for place in places] for places in tiers.values()]
    claims = [_claim(tier, sum(slot.least for slot in one), room) for tier, one in zip(tiers, members, strict=True)]
    found = _divided(members, claims, room.free)
    by_place = {
        place: grant
        for places, own in zip(tiers.values(), found, strict=True)
        for place, grant in zip(places, own, strict=True)
    }
    return [by_place[place] for place in range(len(slots))]


def _claim(tier: Tier, least: int, room: Room) -> TierRule:
    """What a tier may claim: what its rule says, and at least what its blocks cannot do without."""
    rule = room.rules.get(tier)
    if rule is None:
        return TierRule(tier, least)
    floor = max(rule.floor, least)
    return TierRule(tier, floor if rule.cap is None else min(floor, rule.cap), rule.share, rule.cap)


def _divided(members: Sequence[Sequence[Slot]], claims: Sequence[TierRule], free: int) -> list[list[Grant]]:
    """The grants of each tier's slots; tiers give up one after the other what their whole blocks cannot use."""
    wants = [sum(slot.want for slot in one) for one in members]
    settled: dict[int, list[Grant]] = {}
    for left in range(ROUNDS, -1, -1):
        given = allocate(wants, claims, free)
        found = [settled.get(tier) or _in_order(one, given[tier]) for tier, one in enumerate(members)]
        used = [sum(grant.tokens for grant in own) for own in found]
        spare = [tier for tier, granted in enumerate(given) if used[tier] < granted]
        for tier in spare[:1] if left else spare:
            wants[tier], settled[tier] = used[tier], found[tier]
        if not spare:
            break
    return found


def _in_order(slots: Sequence[Slot], granted: int) -> list[Grant]:
    """The grants within a tier: first what each cannot do without, then each all that it wants before the next."""
    floors = []
    for slot in slots:
        floors.append(min(slot.least, slot.want, granted))
        granted -= floors[-1]
    found = []
    for slot, floor in zip(slots, floors, strict=True):
        offered = min(slot.want, floor + granted)
        tokens = floor if slot.goes_whole and offered < slot.size else offered
        granted -= tokens - floor
        found.append(Grant(tokens, offered))
    return found
