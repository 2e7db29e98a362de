"""Make blocks fit together: allocate, evict, and give back what was not used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from anyio.lowlevel import checkpoint_if_cancelled
from attrs import frozen

from agentctx.builder.slot import REJECTED, Slot
from agentctx.core.tier import Tier, TierRule, allocate
from agentctx.errors import BigItem, ContextOverflow

ROUNDS = 32
"""How often a tier may give up what its whole blocks cannot use, before all tiers do so at once."""


@frozen
class SharedRoom:
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
    """The tokens of one block."""

    tokens: int
    offered: int


def grants(slots: Sequence[Slot], room: SharedRoom) -> list[Grant]:
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


def _claim(tier: Tier, least: int, room: SharedRoom) -> TierRule:
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


NAMED = 5
"""How many blocks an overflow names."""


async def assemble(slots: Sequence[Slot], room: SharedRoom) -> None:
    """Fill the slots, so that together they have at most the room's tokens.

    What is left over at the end, because only whole units are kept, goes back to the blocks that were cut, the most
    important first.

    Raises:
        ContextOverflow: If what must stay is too large; names the biggest blocks.
        StageError: If the stage of a block returned what it may not.
    """
    for slot in slots:
        slot.keep_all()
        slot.granted = 0
    found = grants(slots, room)
    _check_least(slots, found, room)
    for slot, grant in zip(slots, found, strict=True):
        slot.granted = grant.offered
        await checkpoint_if_cancelled()
        await slot.fit(grant.tokens)
    await _give_back(slots, room)


def _check_least(slots: Sequence[Slot], found: Sequence[Grant], room: SharedRoom) -> None:
    """Find out before anything is done, and before any summarizer is asked, whether what must stay fits."""
    for slot, grant in zip(slots, found, strict=True):
        slot.granted = grant.offered
        if slot.least > grant.tokens:
            slot.out = REJECTED
    rejected = [slot for slot in slots if slot.out.label is not None]
    if rejected:
        raise overflow(rejected, slots, room)


def overflow(rejected: Sequence[Slot], slots: Sequence[Slot], room: SharedRoom) -> ContextOverflow:
    """The error that says that these blocks cannot be made to fit; names the biggest of what must stay."""
    needed = sum(slot.least for slot in slots)
    if needed > room.free:
        return ContextOverflow(needed + room.reserved, room.limit, _biggest(slots, room.reserved))
    worst = max(rejected, key=lambda slot: slot.least - slot.granted)
    return ContextOverflow(worst.least, worst.granted, _biggest(rejected))


def _biggest(slots: Iterable[Slot], reserved: int = 0) -> list[BigItem]:
    items = [BigItem((slot.name, str(slot.block.tier), slot.least)) for slot in slots if slot.least]
    if reserved:
        items.append(BigItem(("tools, formatting", "fixed", reserved)))
    return sorted(items, key=lambda item: -item.tokens)[:NAMED]


async def _give_back(slots: Sequence[Slot], room: SharedRoom) -> None:
    """Offer what is left over to the blocks that were cut, in order; each takes what it can use."""
    spare = room.free - sum(slot.out.tokens for slot in slots)
    in_tier: dict[Tier, int] = defaultdict(int)
    for slot in slots:
        in_tier[slot.block.tier] += slot.out.tokens
    for slot in slots:
        tier = slot.block.tier
        rule = room.rules.get(tier)
        capped = spare if rule is None or rule.cap is None else min(spare, rule.cap - in_tier[tier])
        if slot.out.label is None or capped <= 0:
            continue
        before = slot.out.tokens
        await _grow(slot, min(slot.want, before + capped))
        spare -= slot.out.tokens - before
        in_tier[tier] += slot.out.tokens - before


async def _grow(slot: Slot, tokens: int) -> None:
    """Let more of a block go out when ``tokens`` allow more than its grant did."""
    if tokens <= slot.granted or not (slot.is_gradual or slot.size <= tokens):
        return
    was = slot.out
    await slot.fit(tokens)
    if slot.out.tokens < was.tokens:
        slot.out = was
    else:
        slot.granted = tokens
