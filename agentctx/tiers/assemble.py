"""Make blocks fit together: allocate, evict, and give back what was not used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType

from anyio.lowlevel import checkpoint_if_cancelled
from attrs import frozen

from agentctx.errors import BigItem, ContextOverflow
from agentctx.tiers.allocate import allocate
from agentctx.tiers.contract import check_eviction
from agentctx.tiers.eviction import label_of, name_of
from agentctx.tiers.slot import Slot
from agentctx.tiers.tier import Tier, TierRule

NAMED = 5
"""How many blocks an overflow names."""


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


async def assemble(slots: Sequence[Slot], room: Room) -> None:
    """Fill the slots, so that together they have at most the room's tokens.

    Blocks that can only go as a whole give up what they cannot use before any other is cut. What is left over at the
    end, because only whole units are kept, goes back to the blocks that were cut, the most important first.

    Raises:
        ContextOverflow: If what must stay is too large; names the biggest blocks.
        StageError: If an eviction broke its contract.
    """
    for slot in slots:
        slot.messages, slot.tokens, slot.granted, slot.label = (), 0, 0, None
    wants = [slot.want for slot in slots]
    grants = _grants(slots, wants, room)
    _check_least(slots, grants, room)
    for place, slot in enumerate(slots):
        if getattr(slot.block.evict, "whole", False) and slot.size > grants[place]:
            wants[place] = slot.least
    for slot, granted in zip(slots, _grants(slots, wants, room), strict=True):
        slot.granted = granted
        await _fit(slot, granted)
    await _give_back(slots, room)


def _grants(slots: Sequence[Slot], wants: Sequence[int], room: Room) -> list[int]:
    """The tokens of each slot: first by tier, and within a tier in the order in which the blocks were added."""
    tiers: dict[Tier, list[int]] = defaultdict(list)
    for place, slot in enumerate(slots):
        tiers[slot.block.tier].append(place)
    claims = [_claim(tier, sum(slots[place].least for place in places), room) for tier, places in tiers.items()]
    sizes = [sum(wants[place] for place in places) for places in tiers.values()]
    grants = [0] * len(slots)
    for places, granted in zip(tiers.values(), allocate(sizes, claims, room.free), strict=True):
        own = [TierRule(slots[place].block.tier, slots[place].least) for place in places]
        for place, grant in zip(places, allocate([wants[place] for place in places], own, granted), strict=True):
            grants[place] = grant
    return grants


def _claim(tier: Tier, least: int, room: Room) -> TierRule:
    """What a tier may claim: what its rule says, and at least what its blocks cannot do without."""
    rule = room.rules.get(tier)
    if rule is None:
        return TierRule(tier, least)
    floor = max(rule.floor, least)
    return TierRule(tier, floor if rule.cap is None else min(floor, rule.cap), rule.share, rule.cap)


def _check_least(slots: Sequence[Slot], grants: Sequence[int], room: Room) -> None:
    """Find out before anything is done, and before any summarizer is asked, whether what must stay fits."""
    for slot, granted in zip(slots, grants, strict=True):
        slot.granted = granted
        if slot.least > granted:
            slot.label = "rejected"
    rejected = [slot for slot in slots if slot.label is not None]
    if rejected:
        raise overflow(rejected, slots, room)


def overflow(rejected: Sequence[Slot], slots: Sequence[Slot], room: Room) -> ContextOverflow:
    """The error that says that these blocks cannot be made to fit; names the biggest of what must stay."""
    needed = sum(slot.least for slot in slots)
    if needed > room.free:
        return ContextOverflow(needed + room.reserved, room.limit, _biggest(slots, room.reserved))
    worst = max(rejected, key=lambda slot: slot.least - slot.granted)
    return ContextOverflow(worst.least, worst.granted, _biggest(rejected))


def _biggest(slots: Iterable[Slot], reserved: int = 0) -> list[BigItem]:
    items = [BigItem((f"block {slot.block.id!r}", str(slot.block.tier), slot.least)) for slot in slots if slot.least]
    if reserved:
        items.append(BigItem(("tools, formatting", "fixed", reserved)))
    return sorted(items, key=lambda item: -item.tokens)[:NAMED]


async def _fit(slot: Slot, tokens: int) -> None:
    """Let as much of a block go out as ``tokens`` allow."""
    await checkpoint_if_cancelled()
    if slot.size <= tokens:
        slot.keep_all()
        return
    evict = slot.block.evict
    allowance = slot.allowance(tokens)
    if slot.asked is None or allowance.count(slot.asked) > tokens:
        slot.remarks.clear()
        name = f"{name_of(evict)} of block {slot.block.id!r}"
        with _Fitting(slot, tokens):
            slot.messages = check_eviction(name, slot.given, await evict(slot.given, allowance), allowance)
        slot.asked = None if getattr(evict, "gradual", False) else slot.messages
    else:
        slot.messages = slot.asked
    slot.label = label_of(evict)
    slot.tokens = allowance.count(slot.messages)


class _Fitting:
    """Says in any error that passes through it which block was being cut."""

    __slots__ = ("slot", "tokens")

    def __init__(self, slot: Slot, tokens: int) -> None:
        self.slot = slot
        self.tokens = tokens

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Add the note."""
        if isinstance(error, Exception):
            self.slot.label = "rejected"
            error.add_note(f"while block {self.slot.block.id!r} was made to fit {self.tokens:,} tokens")


async def _give_back(slots: Sequence[Slot], room: Room) -> None:
    """Offer what is left over to the blocks that were cut, in order; each takes what it can use."""
    spare = room.free - sum(slot.tokens for slot in slots)
    in_tier: dict[Tier, int] = defaultdict(int)
    for slot in slots:
        in_tier[slot.block.tier] += slot.tokens
    for slot in slots:
        tier = slot.block.tier
        rule = room.rules.get(tier)
        capped = spare if rule is None or rule.cap is None else min(spare, rule.cap - in_tier[tier])
        if slot.label is None or capped <= 0:
            continue
        before = slot.tokens
        await _grow(slot, min(slot.want, before + capped))
        spare -= slot.tokens - before
        in_tier[tier] += slot.tokens - before


async def _grow(slot: Slot, tokens: int) -> None:
    """Let more of a block go out when ``tokens`` allow more than its grant did."""
    gradual = getattr(slot.block.evict, "gradual", False)
    if tokens <= slot.granted or not (gradual or slot.size <= tokens):
        return
    was = slot.messages, slot.tokens, slot.label, list(slot.remarks)
    await _fit(slot, tokens)
    if slot.tokens < was[1]:
        slot.messages, slot.tokens, slot.label = was[:3]
        slot.remarks[:] = was[3]
        return
    slot.granted = tokens
