"""The blocks of a request: how much room each has, how its items are written, and which facts it keeps."""

from __future__ import annotations

import copy
import html
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, Protocol, get_args

from anyio.lowlevel import checkpoint_if_cancelled
from attrs import define, evolve, field, frozen
from attrs.validators import and_, instance_of, or_

from agentctx.budget import Budget
from agentctx.changes import Change, Outcome, match
from agentctx.engine.cut import tokens_of
from agentctx.engine.plan import as_strategies, is_async
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
from agentctx.strategies.drop_units import Drop, Eviction, Strict, TruncateOldest, staying
from agentctx.tiers import Tier, TierRule, allocate, as_tier
from agentctx.unit import broken_pair, last_words, signed_thinking
from agentctx.validators import NAME, PART, TEXT, TEXTS, MustBe, function, holds, must_be, one_of, whole_number

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
    """Pair each message of a conversation with its reading, in order."""
    counts: Counter[int] = Counter()
    pairs = []
    for message in messages:
        content = hash(message)
        pairs.append(((content, counts[content]), message))
        counts[content] += 1
    return pairs


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
    known: list[str] = field(factory=list, validator=TEXTS)
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
            facts: Native = await answered("FactExtractor", self.extractor(messages))
            is_list = isinstance(facts, Sequence) and not isinstance(facts, str)
            if not is_list or not all(isinstance(fact, str) for fact in facts):
                raise StageError("FactExtractor", f"returned {facts!r:.80} instead of a list of texts")
        learned = set(self.known)
        new = [fact for fact in dict.fromkeys(map(str.strip, facts)) if fact and fact not in learned]
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


@frozen
class XmlTags:
    """Each text in a tag of its own, all of them in one around; no text can close a tag or end an attribute.

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
            lines.append(f"  <{tag}>{html.escape(text)}</{tag}>")
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

    header: str = field(default="Context", validator=TEXT)

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

    render: Rendering = field(default=XmlTags(), validator=function("a function of pairs of a block's name and a text"))
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
        words = "\n\n".join(head.text for head in heads if head.text)
        return Message(role, (Text(f"{words}\n{text}" if words else text),))
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
            protected but, in the tiers of the conversation (``HISTORY`` and behind it), the user's newest words. An
            ``Eviction`` is asked beforehand to how few tokens it can bring the block down. A plain stage runs again
            when room is left over; one that waits, such as for a model, runs once.
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


def own_copy(value: object) -> Native:
    """Return a copy that shares nothing that can be changed; a value of this library is itself."""
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
        eviction: What was done to it: ``"dropped"`` (nothing is left), ``"truncated"`` (some messages are),
            ``"summarized"``, ``"evicted"`` (messages were changed or added otherwise), ``"rejected"`` (it could not
            be made to fit, and the build failed); None when nothing was.
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
    """Name each block for errors and reasons: by its name, and where others have that too, by its number."""
    count = Counter(block.id for block in blocks)
    number: Counter[str] = Counter()
    names = []
    for block in blocks:
        number[block.id] += 1
        among = f" (number {number[block.id]} of {count[block.id]} of this name)" if count[block.id] > 1 else ""
        names.append(f"block {block.id!r}{among}")
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

    Whether all that must stay fits is checked first, before any summarizer is asked. What is left over at the end,
    because only whole units are kept, goes back to the blocks that were cut, the most important first.

    Raises:
        ContextOverflow: If blocks cannot be made to fit; names the biggest of what must stay.
    """
    divided = grants(slots, room)
    rejected = []
    for slot, grant in zip(slots, divided, strict=True):
        slot.granted, slot.out = grant.offered, Reduced(slot.messages, slot.size)
        if slot.least > grant.tokens:
            slot.out = REJECTED
            rejected.append(slot)
    if rejected:
        needed = sum(slot.least for slot in slots)
        if needed > room.free:
            raise ContextOverflow(needed + room.reserved, room.limit, _biggest(slots, room.reserved))
        worst = max(rejected, key=lambda slot: slot.least - slot.granted)
        raise ContextOverflow(worst.least, worst.granted, _biggest(rejected))
    for slot, grant in zip(slots, divided, strict=True):
        await checkpoint_if_cancelled()
        await slot.fit(grant.tokens)
    spare = room.free - sum(slot.out.tokens for slot in slots)
    in_tier: dict[Tier, int] = defaultdict(int)
    for slot in slots:
        in_tier[slot.block.tier] += slot.out.tokens
    for slot in slots:
        tier, before = slot.block.tier, slot.out
        rule = room.rules.get(tier)
        more = spare if rule is None or rule.cap is None else min(spare, rule.cap - in_tier[tier])
        tokens = min(slot.want, before.tokens + more)
        if before.label is None or tokens <= slot.granted or not (slot.runs_again or slot.size <= tokens):
            continue
        await slot.fit(tokens)
        if slot.out.tokens < before.tokens:  # its stage makes less of more
            slot.out = before
        else:
            slot.granted = tokens
            spare -= slot.out.tokens - before.tokens
            in_tier[tier] += slot.out.tokens - before.tokens


def _biggest(slots: Iterable[Slot], reserved: int = 0) -> list[BigItem]:
    items = [BigItem((slot.name, str(slot.block.tier), slot.least)) for slot in slots if slot.least]
    if reserved:
        items.append(BigItem(("tools, formatting", "fixed", reserved)))
    return sorted(items, key=lambda item: -item.tokens)[:NAMED]


@frozen
class Grant:
    """The tokens of one block."""

    tokens: int
    offered: int


ROUNDS = 32
"""How often a tier may give up what its whole blocks cannot use, before all tiers do so at once."""


def grants(slots: Sequence[Slot], room: SharedRoom) -> list[Grant]:
    """Divide the room: first by tier, and within a tier in the order in which the blocks were added.

    A block that stays or goes as a whole takes nothing that it cannot use. What it leaves goes to the next of its
    tier, and what a tier leaves to the other tiers, the strongest first.
    """
    members = [list(own) for _, own in groupby(slots, key=lambda slot: slot.block.tier)]
    claims = []  # of a tier, by its rule, and at least what its blocks cannot do without
    for own in members:
        rule = room.rules.get(own[0].block.tier) or TierRule(own[0].block.tier)
        floor = max(rule.floor, sum(slot.least for slot in own))
        claims.append(evolve(rule, floor=floor if rule.cap is None else min(floor, rule.cap)))
    wants = [sum(slot.want for slot in own) for own in members]
    settled: dict[int, list[Grant]] = {}
    for left in range(ROUNDS, -1, -1):
        granted = allocate(wants, claims, room.free)
        divided = [settled.get(place) or _in_order(own, granted[place]) for place, own in enumerate(members)]
        used = [sum(grant.tokens for grant in own) for own in divided]
        spare = [place for place in range(len(members)) if used[place] < granted[place]]
        for place in spare[:1] if left else spare:
            wants[place], settled[place] = used[place], divided[place]
        if not spare:
            break
    return [grant for own in divided for grant in own]


def _in_order(slots: Sequence[Slot], granted: int) -> list[Grant]:
    """Divide within a tier: first what each cannot do without, then each all that it wants before the next."""
    floors = []
    for slot in slots:
        floors.append(min(slot.least, slot.want, granted))
        granted -= floors[-1]
    divided = []
    for slot, floor in zip(slots, floors, strict=True):
        offered = min(slot.want, floor + granted)
        tokens = floor if isinstance(slot.block.evict, Drop) and offered < slot.size else offered
        granted -= tokens - floor
        divided.append(Grant(tokens, offered))
    return divided


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
    def messages(self) -> tuple[Message, ...]:
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

    async def fit(self, tokens: int) -> None:
        """Let as much of it go out as ``tokens`` allow; a stage that does not run again is asked once."""
        if self.size <= tokens:
            self.out = Reduced(self.messages, self.size)
        elif self.asked is not None and self.asked.tokens <= tokens:
            self.out = self.asked
        else:
            self.out = REJECTED
            self.out = await self._reduced(tokens)
            self.asked = None if self.runs_again else self.out

    async def _reduced(self, tokens: int) -> Reduced:
        """Run its stage; an error says which block it was, and how much room there was."""
        name, call = f"{self.stage.name} of {self.name}", self.call_for(tokens)
        with Noting(f"while {self.name} was made to fit {tokens:,} tokens"):
            try:
                after = await run_alone(self.stage, Context(self.messages), call, name)
            except ContextOverflow as error:
                if error.biggest:
                    raise
                item = BigItem((self.name, str(self.block.tier), error.tokens))
                raise ContextOverflow(error.tokens, error.limit, [item]) from error
            size = sum(map(call.count, after.messages))
            if size > tokens:
                raise StageError(name, f"returned {size:,} tokens, and {tokens:,} were allowed")
            if after.system is not None or after.tools:
                raise StageError(name, "returned a system prompt or tools; a block is messages alone")
            pairs = match(self.messages, after.messages)
            origins = [origin for origin in pairs.origins if origin is not None]
            if origins != sorted(origins):
                raise StageError(name, "changed the order of the messages")
            if self.keep is not None and (self.keep not in origins or self.keep in dict(pairs.edited)):
                role = self.messages[self.keep].role
                raise LostProtected(name, f"lost or changed messages[{self.keep}] ({role}), the user's newest words")
            check_whole(name, self.messages, after.messages)
        if Outcome.SUMMARISED in {reason.outcome for reason in call.internals.notes.reasons.values()}:
            label = "summarized"
        elif not after.messages:
            label = "dropped"
        else:
            label = "evicted" if pairs.edited or pairs.added else "truncated"
        return Reduced(after.messages, size, label, call.internals.notes)

    def call_for(self, tokens: int) -> Call:
        """Tell its stage what it may have, as if the block were all of a request."""
        limit = tokens + self.call.meter.fixed(Context(()))
        call = evolve(self.call, budget=Budget(max(1, limit)), limit=limit)
        return inside(call, stays=self._stays, notes=Notes())

    def _stays(self, messages: Sequence[Message]) -> Iterable[int]:
        """Find the message that must not go, among those that are left."""
        if self.keep is None:
            return ()
        kept = self.messages[self.keep].identity
        return [index for index in range(len(messages) - 1, -1, -1) if messages[index].identity == kept][:1]

    def report(self) -> BlockReport:
        """Report what became of it."""
        out, stage, why = self.out, self.stage.name, f"{self.name} over {self.granted:,} tokens"
        changes: list[Change] = []

        def add(place: int, message: Message, new: Message | None, outcome: Outcome) -> None:
            before = 0 if outcome is Outcome.ADDED else self.call.count(message)
            after = 0 if new is None else self.call.count(new)
            changes.append(Change(place, message.role, outcome, stage, why, before, after))

        if out.label not in (None, "rejected"):
            pairs = match(self.messages, out.messages)
            for index in pairs.dropped:
                message = self.messages[index]
                add(index, message, None, out.notes.why(message).outcome or Outcome.DROPPED)
            for index, place in pairs.edited:
                add(index, self.messages[index], out.messages[place], Outcome.EDITED)
            for place in pairs.added:
                add(place, out.messages[place], out.messages[place], Outcome.ADDED)
        return BlockReport(
            self.block.id,
            self.block.tier,
            self.size,
            out.tokens,
            len(self.messages),
            len(out.messages),
            self.granted,
            out.label,
            tuple(changes),
            tuple(dict.fromkeys(out.notes.remarks)),
        )


def check_whole(name: str, before: Sequence[Message], after: Sequence[Message]) -> None:
    """Hold what a stage or a formatter returned to what holds for all messages."""
    problem = broken_pair(after)
    if problem is not None and broken_pair(before) is None:
        raise BrokenPair(name, f"broke a pair: {problem}")
    seals = {seal for message in before for seal in signed_thinking(message)}
    for place, message in enumerate(after):
        if not signed_thinking(message) <= seals:
            raise EditedReasoning(
                name, f"edited or made signed reasoning in messages[{place}]; it is kept whole or dropped"
            )


def slots_of(blocks: Sequence[Block], call: Call) -> list[Slot]:
    """Make a slot of each block that has messages, in the order of the request: by tier, and as they were added."""
    ordered = sorted(blocks, key=lambda block: block.tier)
    slots = [
        Slot(block, name, call, sum(map(call.count, block.messages)))
        for block, name in zip(ordered, names_of(ordered), strict=True)
        if block.messages
    ]
    _keep_newest_words(slots)
    for slot in slots:
        slot.out = Reduced(slot.messages, slot.size)
        with Noting(f"while the least that {slot.name} can come down to was worked out"):
            slot.least = least_of(slot)
    return slots


def least_of(slot: Slot) -> int:
    """Count the fewest tokens that a block can come down to: by its stage, else what must stay; at most all of it."""
    block, call = Context(slot.messages), slot.call_for(slot.size)
    if isinstance(slot.block.evict, Eviction):
        return min(slot.block.evict.least(block, call), slot.size)
    return 0 if slot.keep is None else tokens_of(staying(block, call), call)


def _keep_newest_words(slots: Sequence[Slot]) -> None:
    """Mark the user's newest words: the last message of the conversation in which the user says something.

    Work in progress stands behind the conversation without being newer. So what is said in ``SCRATCHPAD`` does not
    take the place of what the user says before it; it is kept as well, unless its block is one to go as a whole.
    """
    talk = [slot for slot in slots if slot.block.tier >= Tier.HISTORY and last_words(slot.messages)]
    newest = next((slot for slot in reversed(talk) if slot.block.tier != Tier.SCRATCHPAD), None)
    kept = talk[-1:]
    if newest is not None:
        work = [slot for slot in talk[talk.index(newest) + 1 :] if not isinstance(slot.block.evict, Drop)]
        kept = [newest, *work[-1:]]
    for slot in kept:
        (slot.keep,) = last_words(slot.messages)
