"""The blocks of a request: how much room each has, how its items are written, and which facts it keeps."""

from __future__ import annotations

import copy
import html
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, cast, get_args

from anyio.lowlevel import checkpoint_if_cancelled
from attrs import define, evolve, field, frozen
from attrs.validators import and_, instance_of, or_

from agentctx.budget import Budget
from agentctx.changes import Change, Outcome, match
from agentctx.engine.cut import tokens_of
from agentctx.engine.options import as_strategies, is_async
from agentctx.engine.run_stages import Noting, answered, run_alone
from agentctx.errors import (
    BigItem,
    BrokenPair,
    ContextOverflow,
    EditedReasoning,
    InvalidInput,
    LostProtected,
    StageError,
)
from agentctx.message import Context, Media, Message, Native, Part, Text, Ttl
from agentctx.protocols import Call, ContextStrategy, Notes, Strategy, inside
from agentctx.strategies.drop_units import Drop, Strict, TruncateOldest, staying
from agentctx.tiers import Tier, TierRule, allocate, as_tier
from agentctx.unit import broken_pair, last_words, signed_thinking
from agentctx.validators import NAME, PART, TEXT, MustBe, function, holds, must_be, one_of, whole_number

FACTS = "facts"
"""The name of the block that keeps the facts."""


class FactExtractor(Protocol):
    """Takes facts from messages. A plain async function qualifies.

    Example:
        >>> from agentctx.builder import Facts
        >>> async def names_of_files(messages):
        ...     return [word for message in messages for word in message.text.split() if word.endswith(".py")]
        >>> facts = Facts(names_of_files, max_tokens=200)
    """

    async def __call__(self, messages: Sequence[Message], /) -> Sequence[str]:
        """The facts that ``messages`` hold, each in a few words; empty when there are none."""
        ...


Reading = tuple[int, int]
"""A message that was or could be read: what it says, as a number, and how many before it say the same.

Frameworks build their messages anew at each step: not the object counts but what it says.
"""


def readings(messages: Iterable[Message]) -> list[tuple[Reading, Message]]:
    """Each message of a conversation with its reading, in order."""
    seen: Counter[int] = Counter()
    found = []
    for message in messages:
        said = hash(message)
        found.append(((said, seen[said]), message))
        seen[said] += 1
    return found


@define
class Facts:
    """The facts of one conversation, in the order in which they were learned, each once.

    Args:
        extractor: Takes facts from messages.
        max_tokens: The most tokens that they may have together; the oldest go first. None means ``share``.
        share: The most of the room for facts and conversation together that the facts may have, so that they do not
            crowd out the conversation that they come from; asked only without ``max_tokens``.
        on: The errors of the extractor that cost nothing but its facts, and are told in the report.
        known: The facts.
        read: What was read already; each message is read once.

    Raises:
        ConfigError: If the extractor cannot be called, ``max_tokens`` is not positive, or ``share`` is not above 0 and
            up to 1.

    Example:
        >>> from agentctx.builder import ContextBuilder, Facts
        >>> async def no_facts(messages):
        ...     return []
        >>> builder = ContextBuilder(16_000, facts=Facts(no_facts))
    """

    extractor: FactExtractor = field(validator=function("an async function of messages"))
    max_tokens: int | None = field(default=None, validator=whole_number(1).or_none)
    on: tuple[type[Exception], ...] = (Exception,)
    known: list[str] = field(factory=list)
    read: set[Reading] = field(factory=set, repr=False)
    share: float = field(default=0.5, validator=PART, kw_only=True)

    async def learn(self, lost: Mapping[Reading, Message]) -> bool:
        """Take the facts from those messages that were not read yet; whether one of them is new.

        Args:
            lost: The messages that are gone from the conversation, in order, by ``readings``.

        Raises:
            StageError: If the extractor is not async, or returns something else than texts.
        """
        unread = {reading: message for reading, message in lost.items() if reading not in self.read}
        if not unread:
            return False
        messages = list(unread.values())
        with Noting("while the extractor of facts was running"):
            found: Native = await answered("FactExtractor", self.extractor(messages))
            a_list = isinstance(found, Sequence) and not isinstance(found, str)
            if not a_list or not all(isinstance(fact, str) for fact in found):
                raise StageError("FactExtractor", f"returned {found!r:.80} instead of a list of texts")
        known = set(self.known)
        new = [fact for fact in dict.fromkeys(map(str.strip, found)) if fact and fact not in known]
        self.known.extend(new)
        self.read.update(unread)
        return bool(new)

    def block(self, room: int) -> Block:
        """The facts as a block of the tier ``CORE``, a system message each.

        Args:
            room: Tokens that are left for facts and history; without ``max_tokens`` the facts get ``share`` of them.
        """
        messages = [Message("system", (Text(fact),)) for fact in self.known]
        most = max(1, int(room * self.share)) if self.max_tokens is None else self.max_tokens
        return Block(FACTS, messages, Tier.CORE, TruncateOldest(), most)

    def copied(self) -> Facts:
        """Facts that know the same, and learn apart from these."""
        return Facts(self.extractor, self.max_tokens, self.on, list(self.known), set(self.read), share=self.share)


_NOT_IN_A_NAME = re.compile(r"[^\w.-]")


class Rendering(Protocol):
    """Writes texts, each with the name of the block that it comes from, as one text."""

    def __call__(self, texts: Sequence[tuple[str, str]], /) -> str:
        """The text that stands for ``(block, text)`` pairs, in order; never empty."""
        ...


_TAG = MustBe("a name that an XML tag can have", and_(TEXT, holds(lambda name: tag_name(name) == name)))


def tag_name(name: str) -> str:
    """The name, or what is nearest to it among the names that an XML tag can have."""
    legal = _NOT_IN_A_NAME.sub("_", name)
    return legal if legal[:1].isalpha() or legal.startswith("_") else f"_{legal}"


def escape(text: str) -> str:
    """The text with ``&``, ``<``, ``>`` and quotes written so that neither a tag nor an attribute can be forged."""
    return html.escape(text, quote=True)


@frozen
class XmlTags:
    """Each text in a tag of its own, all of them in one around.

    Args:
        wrapper: The tag around all.
        item: The tag around each text; None names it after the block.

    Raises:
        ConfigError: If a name cannot be that of a tag.

    Example:
        >>> from agentctx.builder import XmlTags
        >>> print(XmlTags()([("rules", "Be brief.")]))
        <context>
          <rules>Be brief.</rules>
        </context>
    """

    wrapper: str = field(default="context", validator=_TAG)
    item: str | None = field(default=None, validator=_TAG.or_none)

    def __call__(self, texts: Sequence[tuple[str, str]], /) -> str:
        """``<context>``, a line for each text, ``</context>``."""
        lines = [f"<{self.wrapper}>"]
        for block, text in texts:
            tag = self.item or tag_name(block)
            lines.append(f"  <{tag}>{escape(text)}</{tag}>")
        return "\n".join((*lines, f"</{self.wrapper}>"))


@frozen
class MarkdownList:
    """A heading, and each text as an item of a list; nothing is escaped.

    Args:
        header: The heading.

    Example:
        >>> from agentctx.builder import MarkdownList
        >>> print(MarkdownList("Known")([("rules", "Be brief."), ("task", "Mend it.")]))
        ### Known
        - Be brief.
        - Mend it.
    """

    header: str = "Context"

    def __call__(self, texts: Sequence[tuple[str, str]], /) -> str:
        """``### Context``, and a line that begins with ``- `` for each text; its further lines are indented."""
        items = ["- " + text.replace("\n", "\n  ") for _, text in texts]
        return "\n".join((f"### {self.header}", *items))


@frozen
class Section:
    """What is left of a block.

    Args:
        id: The block's name.
        tier: Its tier.
        messages: What goes out of it; never empty.
    """

    id: str
    tier: Tier
    messages: tuple[Message, ...]


class Formatter(Protocol):
    """Makes one list of messages of the sections. A plain async function qualifies.

    Its answer is held to a contract: messages, no call without its result, signed reasoning whole or not at all, the
    user's newest words as they were, and all of it within the budget, else the blocks are cut further and it is asked
    again.
    """

    async def __call__(self, sections: Sequence[Section], /) -> Sequence[Message]:
        """The messages of the request, from sections in the order of the request."""
        ...


async def concatenate(sections: Sequence[Section], /) -> Sequence[Message]:
    """The messages one section after the other, as they are."""
    return [message for section in sections for message in section.messages]


@frozen
class MergeSystem:
    """One system message: the words of the ``SYSTEM`` tier as they are, and after them the background blocks as text.

    Text alone is merged. What else the system messages hold stays in the system message; images and other media of
    a background block follow as a user's message of their own; messages with tool calls, results or reasoning stay
    messages. Without a background block the system messages stay as they are.

    Args:
        render: How the texts of the background blocks are written.
        upto: The last tier that is background.

    Example:
        >>> from agentctx.builder import ContextBuilder, MarkdownList, MergeSystem
        >>> builder = ContextBuilder(16_000, formatter=MergeSystem(MarkdownList()))
    """

    render: Rendering = field(default=XmlTags())
    upto: Tier = field(default=Tier.RAG, converter=as_tier)

    async def __call__(self, sections: Sequence[Section], /) -> Sequence[Message]:
        """The system message, what could not be merged, and the rest."""
        heads: list[Message] = []
        texts: list[tuple[str, str]] = []
        rest: list[Message] = []
        for section in sections:
            for message in section.messages:
                if section.tier <= Tier.SYSTEM and message.role in ("system", "developer"):
                    heads.append(message)
                elif section.tier <= self.upto and all(isinstance(part, (Text, Media)) for part in message.parts):
                    texts.append((section.id, message.text))
                    media = tuple(part for part in message.parts if isinstance(part, Media))
                    rest.extend([Message("user", media)] if media else [])
                else:
                    rest.append(message)
        if not texts:
            return [*heads, *rest]
        return [_merged(heads, self.render(texts)), *rest]


def _merged(heads: Sequence[Message], text: str) -> Message:
    """One text when the system messages are text without marks; else their parts as they are, and the text behind."""
    parts: tuple[Part, ...] = tuple(part for head in heads for part in head.parts)
    role = heads[0].role if heads else "system"
    if all(isinstance(part, Text) and not isinstance(part.source, Mapping) for part in parts):
        said = "\n\n".join(head.text for head in heads if head.text)
        return Message(role, (Text(f"{said}\n{text}" if said else text),))
    return Message(role, (*parts, Text("\n" + text)))


def _own_messages(messages: Iterable[Any]) -> tuple[Any, ...]:
    if isinstance(messages, (str, bytes, Mapping, Message)) or not isinstance(messages, Iterable):
        raise must_be("Block.messages", "a list of messages", messages)
    copies = []
    for place, message in enumerate(messages):
        try:
            copies.append(own_copy(message))
        except RecursionError:
            where = f"messages[{place}]"
            raise InvalidInput(where, "it is nested too deep, or contains itself") from None
    return tuple(copies)


_EVICT = function("a stage, for example TruncateOldest()")
_LIFETIMES = one_of(get_args(Ttl))
_CACHE = MustBe(
    f"True, {_LIFETIMES.wanted}, or the provider's own mark", or_(instance_of((bool, Mapping)), _LIFETIMES)
).or_none


@frozen
class Block:
    """Messages that share a place in the request, a claim on the room, and a way to be cut.

    Args:
        id: Its name in reports; need not be unique, but must not be empty.
        messages: Native messages of a provider, or values of this library. They are copied: what happens to the
            caller's objects later does not change the block. A call and its result belong in one block.
        tier: Its place in the request and its claim on the room; any integer.
        evict: The stage that is run over it when it is too large; without one the build fails rather than cut it. It
            sees the block's messages as a request of their own, with the block's room as budget, of which nothing is
            protected but, in the tiers of the conversation (``HISTORY`` and behind it), the user's newest words. It
            may have a ``label``, the word for its work in the report, and a method ``least(context, call)`` that
            returns the fewest tokens to which it can bring a block down. A plain one runs again when room is left
            over; one that waits, such as for a model, runs once.
        max_tokens: The most tokens that it may have, however much room there is; None means no cap.
        cache: Whether the provider shall keep the prefix that ends with this block: True, a lifetime (``"5m"``,
            ``"1h"``), or the provider's own mark. Written where the format has such marks.

    Raises:
        ConfigError: If an argument makes no sense.
        InvalidInput: If a message is nested too deep to be copied.

    Example:
        >>> from agentctx.builder import Block, Tier
        >>> from agentctx.strategies import DropTail
        >>> block = Block("handbook", [{"role": "user", "content": "…"}], Tier.RAG, DropTail(), max_tokens=2_000)
    """

    id: str = field(validator=NAME)
    messages: tuple[Any, ...] = field(converter=_own_messages)
    tier: Tier = field(default=Tier.HISTORY, converter=as_tier)
    evict: Strategy = field(default=Strict())
    max_tokens: int | None = None
    cache: bool | str | Mapping[str, Any] | None = field(default=None, hash=False)

    def __attrs_post_init__(self) -> None:
        """Check the other options; an error names the block."""
        for option, rule in (("evict", _EVICT), ("max_tokens", whole_number(1).or_none), ("cache", _CACHE)):
            rule.check(f"Block({self.id!r}).{option}", getattr(self, option))

    def with_messages(self, messages: Sequence[Any]) -> Block:
        """The same block saying something else.

        Args:
            messages: What it says instead: native messages or ``Message`` values.
        """
        return evolve(self, messages=cast("tuple[Any, ...]", messages))


def own_copy(value: object) -> Native:
    """A copy that shares nothing that can be changed; a value of this library is itself."""
    if value is None or isinstance(value, (str, int, float, bytes, Message)):
        return value
    if type(value) is dict:
        return {key: own_copy(each) for key, each in value.items()}
    if type(value) is list:
        return [own_copy(each) for each in value]
    return copy.deepcopy(value)


@frozen
class BlockReport:
    """What became of one block.

    Args:
        id: Its name.
        tier: Its tier.
        tokens_before: Its size as it was given, in tokens.
        tokens_after: Its size as it goes out, in tokens.
        messages_before: Number of messages given.
        messages_after: Number of messages that go out.
        granted: The tokens that it was granted; what a block that goes as a whole had no use for went to others.
        eviction: What was done to it: ``"dropped"``, ``"truncated"``, ``"summarized"``, ``"evicted"`` (by any other
            stage), ``"rejected"`` (it could not be made to fit, and the build failed); None when nothing was.
        changes: The messages that were not left as they were; ``index`` counts within the block.
        notes: What else there is to say.

    Example:
        >>> from agentctx.builder import Block, ContextBuilder
        >>> task = Block("task", [{"role": "user", "content": "Why does the build fail?"}])
        >>> built = await ContextBuilder(16_000, format="openai-chat").add(task).build()
        >>> [(block.id, str(block.tier)) for block in built.report.blocks]
        [('task', 'history')]
    """

    id: str
    tier: Tier
    tokens_before: int
    tokens_after: int
    messages_before: int
    messages_after: int
    granted: int = 0
    eviction: str | None = None
    changes: tuple[Change, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def dropped(self) -> bool:
        """Whether nothing of it is left; a block that made the build fail was not dropped but rejected."""
        return self.messages_before > 0 and self.messages_after == 0 and self.eviction != "rejected"

    def __str__(self) -> str:
        """One line: ``handbook (rag): 2,300 -> 0 tokens, dropped``."""
        size = f"{self.tokens_before:,}"
        if self.tokens_after != self.tokens_before:
            size += f" -> {self.tokens_after:,}"
        done = "" if self.eviction is None else f", {self.eviction}"
        return "; ".join((f"{self.id} ({self.tier}): {size} tokens{done}", *self.notes))


def names_of(blocks: Sequence[Block]) -> list[str]:
    """What to call each block in errors and reasons: by its name, and where others have that too, by its number."""
    count = Counter(block.id for block in blocks)
    seen: Counter[str] = Counter()
    names = []
    for block in blocks:
        seen[block.id] += 1
        which = f" (number {seen[block.id]} of {count[block.id]} of this name)" if count[block.id] > 1 else ""
        names.append(f"block {block.id!r}{which}")
    return names


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
    if tokens <= slot.granted or not (slot.runs_again or slot.size <= tokens):
        return
    was = slot.out
    await slot.fit(tokens)
    if slot.out.tokens < was.tokens:
        slot.out = was
    else:
        slot.granted = tokens


@frozen
class Grant:
    """The tokens of one block."""

    tokens: int
    offered: int


ROUNDS = 32
"""How often a tier may give up what its whole blocks cannot use, before all tiers do so at once."""


def grants(slots: Sequence[Slot], room: SharedRoom) -> list[Grant]:
    """The grant of each slot: first by tier, and within a tier in the order in which the blocks were added.

    A block that stays or goes as a whole takes nothing that it cannot use. What it leaves goes to the next of its
    tier, and what a tier leaves to the other tiers, the strongest first.
    """
    tiers: dict[Tier, list[int]] = defaultdict(list)
    for place, slot in enumerate(slots):
        tiers[slot.block.tier].append(place)
    members = [[slots[place] for place in places] for places in tiers.values()]
    claims = []  # of a tier, by its rule, and at least what its blocks cannot do without
    for tier, own in zip(tiers, members, strict=True):
        rule = room.rules.get(tier) or TierRule(tier)
        floor = max(rule.floor, sum(slot.least for slot in own))
        claims.append(TierRule(tier, floor if rule.cap is None else min(floor, rule.cap), rule.share, rule.cap))
    found = _divided(members, claims, room.free)
    by_place = {
        place: grant
        for places, granted in zip(tiers.values(), found, strict=True)
        for place, grant in zip(places, granted, strict=True)
    }
    return [by_place[place] for place in range(len(slots))]


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
        tokens = floor if isinstance(slot.block.evict, Drop) and offered < slot.size else offered
        granted -= tokens - floor
        found.append(Grant(tokens, offered))
    return found


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

    @cached_property
    def stage(self) -> ContextStrategy:
        """The stage that is run over it when it is too large."""
        return as_strategies(f"block {self.block.id!r}: evict", [self.block.evict])[0]

    @property
    def runs_again(self) -> bool:
        """Whether its stage runs again when room is left over: not one that waits, such as for a model."""
        stage = self.block.evict
        return not is_async(stage) or type(stage).__call__ is ContextStrategy.__call__

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
            self.asked = None if self.runs_again else self.out

    async def _reduced(self, tokens: int) -> Reduced:
        """What its stage makes of it; an error says which block it was, and how much room there was."""
        name, call = f"{self.stage.name} of {self.name}", self.call_for(tokens)
        with Noting(f"while {self.name} was made to fit {tokens:,} tokens"):
            try:
                after = await run_alone(self.stage, Context(self.given), call, name)
            except ContextOverflow as error:
                if error.biggest:
                    raise
                item = BigItem((self.name, str(self.block.tier), error.tokens))
                raise ContextOverflow(error.tokens, error.limit, [item]) from error
            self._check(name, after, tokens)
        outcomes = {reason.outcome for reason in call.internals.notes.reasons.values()}
        label = "summarized" if Outcome.SUMMARISED in outcomes else getattr(self.block.evict, "label", "evicted")
        return Reduced(after.messages, sum(map(call.count, after.messages)), label, call.internals.notes)

    def call_for(self, tokens: int) -> Call:
        """What its stage is told where it may have so many tokens: as if the block were all of a request."""
        limit = tokens + self.call.meter.fixed(Context(()))
        call = evolve(self.call, budget=Budget(max(1, limit)), limit=limit)
        return inside(call, stays=self._stays, notes=Notes())

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
            raise LostProtected(name, f"lost or changed messages[{keep}] ({role}), the user's newest words")
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
        why = self.out.notes.why
        dropped = ((index, self.given[index]) for index in found.dropped)
        gone = (self._change(index, one, None, why(one).outcome or Outcome.DROPPED) for index, one in dropped)
        edited = (self._change(at, self.given[at], left[place], Outcome.EDITED) for at, place in found.edited)
        added = (self._change(place, left[place], left[place], Outcome.ADDED) for place in found.added)
        return (*gone, *edited, *added)

    def _change(self, place: int, one: Message, new: Message | None, outcome: Outcome) -> Change:
        stage, why = self.stage.name, f"{self.name} over {self.granted:,} tokens"
        before = 0 if outcome is Outcome.ADDED else self.call.count(one)
        return Change(place, one.role, outcome, stage, why, before, 0 if new is None else self.call.count(new))


def check_whole(name: str, before: Sequence[Message], after: Sequence[Message]) -> None:
    """Hold what a stage or a formatter returned to what holds for all messages."""
    problem = broken_pair(after)
    if problem is not None and broken_pair(before) is None:
        raise BrokenPair(name, f"broke a pair: {problem}")
    known = {seal for message in before for seal in signed_thinking(message)}
    for place, message in enumerate(after):
        if not signed_thinking(message) <= known:
            raise EditedReasoning(
                name, f"edited or made signed reasoning in messages[{place}]; it is kept whole or dropped"
            )


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
    least = getattr(slot.block.evict, "least", None)
    tokens: object = None if least is None else least(block, call)
    if tokens is None:
        return 0 if slot.keep is None else tokens_of(staying(block, call), call)
    if isinstance(tokens, bool) or not isinstance(tokens, int) or tokens < 0:
        raise StageError(slot.stage.name, f"least: expected a number of tokens, got {tokens!r}")
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
            work = [(each, place) for each, place in work if not isinstance(each.block.evict, Drop)]
            break
        work.append((slot, index))
    for slot, index in work[:1]:
        slot.keep = index
