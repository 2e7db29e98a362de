"""Make blocks fit together: allocate, evict, and give back what was not used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from anyio.lowlevel import checkpoint_if_cancelled

from agentctx.core.message import Message
from agentctx.errors import BigItem, ContextOverflow
from agentctx.tiers.answering import Noting, answered
from agentctx.tiers.contract import check_eviction
from agentctx.tiers.eviction import Allowance, label_of, name_of
from agentctx.tiers.granting import Grant, Room, grants
from agentctx.tiers.slot import Slot
from agentctx.tiers.tier import Tier

NAMED = 5
"""How many blocks an overflow names."""


async def assemble(slots: Sequence[Slot], room: Room) -> None:
    """Fill the slots, so that together they have at most the room's tokens.

    What is left over at the end, because only whole units are kept, goes back to the blocks that were cut, the most
    important first.

    Raises:
        ContextOverflow: If what must stay is too large; names the biggest blocks.
        StageError: If an eviction broke its contract.
    """
    for slot in slots:
        slot.keep_all()
        slot.granted = 0
    found = grants(slots, room)
    _check_least(slots, found, room)
    for slot, grant in zip(slots, found, strict=True):
        slot.granted = grant.offered
        await _fit(slot, grant.tokens)
    await _give_back(slots, room)


def _check_least(slots: Sequence[Slot], found: Sequence[Grant], room: Room) -> None:
    """Find out before anything is done, and before any summarizer is asked, whether what must stay fits."""
    for slot, grant in zip(slots, found, strict=True):
        slot.granted = grant.offered
        if slot.least > grant.tokens:
            slot.reject()
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
    items = [BigItem((slot.name, str(slot.block.tier), slot.least)) for slot in slots if slot.least]
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
        slot.quiet()
        slot.reject()
        slot.messages = await _evicted(slot, allowance)
        slot.asked = None if getattr(evict, "gradual", False) else slot.messages
    else:
        slot.messages = slot.asked
    slot.label = slot.labels[-1] if slot.labels else label_of(evict)
    slot.tokens = allowance.count(slot.messages)


async def _evicted(slot: Slot, allowance: Allowance) -> tuple[Message, ...]:
    """What the eviction makes of a block; an error says which block it was, and how much room there was."""
    evict = slot.block.evict
    name = f"{name_of(evict)} of {slot.name}"
    with Noting(f"while {slot.name} was made to fit {allowance.tokens:,} tokens"):
        try:
            left = await answered(name, evict(slot.given, allowance))
        except ContextOverflow as error:
            if error.biggest:
                raise
            item = BigItem((slot.name, str(slot.block.tier), error.tokens))
            raise ContextOverflow(error.tokens, error.limit, [item]) from error
        return check_eviction(name, slot.given, left, allowance)


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
