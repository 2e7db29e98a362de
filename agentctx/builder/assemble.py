"""Make blocks fit together: each block's stage is run over it and held to its promises; room not used is given back."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from anyio.lowlevel import checkpoint_if_cancelled
from attrs import define, evolve, field, frozen

from agentctx.builder.block import Block, names_of
from agentctx.builder.report import BlockReport
from agentctx.core.budget import Budget, Tier, TierRule, allocate
from agentctx.core.changes import Change, Outcome, match
from agentctx.core.message import Context, Message
from agentctx.core.protection import last_words, signed_thinking
from agentctx.core.units import broken_pair
from agentctx.engine.drop import tokens_of
from agentctx.engine.run_stages import Noting, run_alone
from agentctx.errors import BigItem, ContextOverflow, StageError
from agentctx.protocols import Call, Notes, declared
from agentctx.strategies.drop_units import staying


@frozen
class Reduced:
    """What goes out of a block."""

    messages: tuple[Message, ...]
    tokens: int
    label: str | None = None
    notes: Notes = field(factory=Notes)


REJECTED = Reduced((), 0, "rejected")
"""Nothing: unless the block is made to fit after all, the build fails."""


@define(eq=False)
class Slot:
    """One block on its way through a build.

    Args:
        block: The block; its messages are values.
        name: What it is called in errors and reasons.
        call: What its stage is told, but for the room.
        size: The size of its messages, in tokens.
        keep: The index of the message that must not go, if there is one: the user's newest words.
        least: The fewest tokens that it can come down to.
        out: What goes out of it.
        granted: The tokens that it may have.
        asked: What a stage has made of it that is asked once only.
    """

    block: Block
    name: str
    call: Call
    size: int
    keep: int | None = None
    least: int = 0
    out: Reduced = REJECTED
    granted: int = 0
    asked: Reduced | None = None

    @property
    def given(self) -> tuple[Message, ...]:
        """Its messages as they came."""
        return self.block.messages

    @property
    def want(self) -> int:
        """The most tokens that it takes: its size, or its cap."""
        cap = self.block.max_tokens
        return self.size if cap is None else min(self.size, cap)

    @property
    def goes_whole(self) -> bool:
        """Whether its stage can only keep everything or nothing beside what must stay."""
        return declared(self.block.evict).whole

    @property
    def is_gradual(self) -> bool:
        """Whether more tokens give more messages, so that its stage is asked again when room was left over."""
        return declared(self.block.evict).gradual

    def keep_all(self) -> None:
        """Let all of it go out."""
        self.out = Reduced(self.given, self.size)

    async def fit(self, tokens: int) -> None:
        """Let as much of it go out as ``tokens`` allow."""
        if self.size <= tokens:
            self.keep_all()
        elif self.asked is not None and self.asked.tokens <= tokens:
            self.out = self.asked
        else:
            self.out = REJECTED
            self.out = await self._reduced(tokens)
            self.asked = None if self.is_gradual else self.out

    async def _reduced(self, tokens: int) -> Reduced:
        """What its stage makes of it; an error says which block it was, and how much room there was."""
        name, call = f"{declared(self.block.evict).name} of {self.name}", self.call_for(tokens)
        with Noting(f"while {self.name} was made to fit {tokens:,} tokens"):
            try:
                after = await run_alone(self.block.evict, Context(self.given), call, name)
            except ContextOverflow as error:
                if error.biggest:
                    raise
                item = BigItem((self.name, str(self.block.tier), error.tokens))
                raise ContextOverflow(error.tokens, error.limit, [item]) from error
            self._check(name, after, tokens)
        outcomes = {reason.outcome for reason in call.notes.reasons.values()}
        label = "summarized" if Outcome.SUMMARISED in outcomes else declared(self.block.evict).label
        return Reduced(after.messages, sum(map(call.count, after.messages)), label, call.notes)

    def call_for(self, tokens: int) -> Call:
        """What its stage is told where it may have so many tokens: as if the block were all of a request."""
        limit = tokens + self.call.meter.fixed(Context(()))
        return evolve(self.call, budget=Budget(max(1, limit)), limit=limit, stays=self._stays, notes=Notes())

    def _stays(self, messages: Sequence[Message]) -> Iterable[int]:
        """Where the message is that must not go, among those that are left."""
        if self.keep is None:
            return ()
        known = self.given[self.keep].identity
        return [index for index in range(len(messages) - 1, -1, -1) if messages[index].identity == known][:1]

    def _check(self, name: str, after: Context, allowed: int) -> None:
        """Hold what a stage returned to what a block is promised."""
        tokens = sum(map(self.call.count, after.messages))
        if tokens > allowed:
            raise StageError(name, f"returned {tokens:,} tokens, and {allowed:,} were allowed")
        if after.system is not None or after.tools:
            raise StageError(name, "returned a system prompt or tools; a block is messages alone")
        found = match(self.given, after.messages)
        origins = [origin for origin in found.origins if origin is not None]
        if origins != sorted(origins):
            raise StageError(name, "changed the order of the messages")
        keep = self.keep
        if keep is not None and (keep not in origins or keep in dict(found.edited)):
            role = self.given[keep].role
            raise StageError(name, f"lost or changed messages[{keep}] ({role}), the user's newest words")
        check_whole(name, self.given, after.messages)

    def report(self) -> BlockReport:
        """What became of it."""
        return BlockReport(
            self.block.id,
            self.block.tier,
            self.size,
            self.out.tokens,
            len(self.given),
            len(self.out.messages),
            self.granted,
            self.out.label,
            self._changes(),
            tuple(dict.fromkeys(self.out.notes.remarks)),
        )

    def _changes(self) -> tuple[Change, ...]:
        if self.out.label in (None, "rejected"):
            return ()
        found, left = match(self.given, self.out.messages), self.out.messages
        gone = (self._change(index, self.given[index], None, self._became(index)) for index in found.dropped)
        edited = (self._change(at, self.given[at], left[place], Outcome.EDITED) for at, place in found.edited)
        added = (self._change(place, left[place], left[place], Outcome.ADDED) for place in found.added)
        return (*gone, *edited, *added)

    def _became(self, index: int) -> Outcome:
        return self.out.notes.why(self.given[index]).outcome or Outcome.DROPPED

    def _change(self, place: int, one: Message, new: Message | None, outcome: Outcome) -> Change:
        stage, why = declared(self.block.evict).name, f"{self.name} over {self.granted:,} tokens"
        before = 0 if outcome is Outcome.ADDED else self.call.count(one)
        return Change(place, one.role, outcome, stage, why, before, 0 if new is None else self.call.count(new))


def check_whole(name: str, before: Sequence[Message], after: Sequence[Message]) -> None:
    """Hold what a stage or a formatter returned to what holds for all messages."""
    problem = broken_pair(after)
    if problem is not None and broken_pair(before) is None:
        raise StageError(name, f"broke a pair: {problem}")
    known = {seal for message in before for seal in signed_thinking(message)}
    for place, message in enumerate(after):
        if not signed_thinking(message) <= known:
            raise StageError(name, f"edited or made signed reasoning in messages[{place}]; it is kept whole or dropped")


def slots_of(blocks: Sequence[Block], call: Call) -> list[Slot]:
    """The blocks that say something, in the order of the request: by tier, and as they were added."""
    slots = []
    ordered = sorted(blocks, key=lambda block: block.tier)
    for block, name in zip(ordered, names_of(ordered), strict=True):
        if block.messages:
            slots.append(Slot(block, name, call, sum(map(call.count, block.messages))))
    _keep_newest_words(slots)
    for slot in slots:
        slot.keep_all()
        with Noting(f"while the least that {slot.name} can come down to was worked out"):
            slot.least = least_of(slot)
    return slots


def least_of(slot: Slot) -> int:
    """The fewest tokens that a block can come down to: what its stage says, else what must stay; at most all of it."""
    block, call = Context(slot.given), slot.call_for(slot.size)
    tokens: object = declared(slot.block.evict).least(block, call)
    if tokens is None:
        return 0 if slot.keep is None else tokens_of(staying(block, call), call)
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
        raise StageError(declared(slot.block.evict).name, f"least: expected a number of tokens, got {tokens!r}")
    return min(tokens, slot.size)


def _keep_newest_words(slots: Sequence[Slot]) -> None:
    """Mark the user's newest words: the last message of the conversation in which the user says something.

    Work in progress stands behind the conversation without being newer. So what is said in ``SCRATCHPAD`` does not
    take the place of what the user says before it; it is kept as well, unless its block is one to go as a whole.
    """
    work: list[tuple[Slot, int]] = []
    for slot in reversed(slots):
        said = () if slot.block.tier < Tier.HISTORY else last_words(slot.given)
        if not said:
            continue
        (index,) = said
        if slot.block.tier != Tier.SCRATCHPAD:
            slot.keep = index
            work = [(each, place) for each, place in work if not each.goes_whole]
            break
        work.append((slot, index))
    for slot, index in work[:1]:
        slot.keep = index


ROUNDS = 32
"""How often a tier may give up what its whole blocks cannot use, before all tiers do so at once."""


@frozen
class SharedRoom:
    """What the blocks share."""

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
