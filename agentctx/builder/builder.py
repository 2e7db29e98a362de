"""The builder: blocks are added, and a request that fits is built of them, as often as it is asked for."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from random import random
from time import perf_counter
from typing import Any
from uuid import uuid4

import anyio
from anyio.lowlevel import checkpoint
from attrs import asdict, define, evolve, field, frozen

from agentctx.budget import Budget
from agentctx.builder.blocks import (
    REJECTED,
    Block,
    BlockReport,
    FactExtractor,
    Facts,
    Formatter,
    Section,
    SharedRoom,
    Slot,
    assemble,
    check_whole,
    concatenate,
    names_of,
    own_copy,
    readings,
    slots_of,
)
from agentctx.characters import printable, said_by
from agentctx.engine.plan import as_budget
from agentctx.engine.reading import Reader, known_profile, write_native
from agentctx.engine.repair import repair
from agentctx.engine.run_stages import Noting, answered
from agentctx.errors import (
    BigItem,
    ConfigError,
    ContextOverflow,
    InvalidInput,
    LostProtected,
    StageError,
    StoreConflict,
    StoreUnavailable,
)
from agentctx.formats.registry import FORMATS, detect, format_named
from agentctx.message import SYSTEM_ROLES, Context, Message, Native, Text, Tool, flaw
from agentctx.protocols import Call, HistorySnapshot, HistoryStore, Meter, TokenCounter, name_of
from agentctx.tiers import Tier, TierRule, check_rules
from agentctx.tokens.counting import MessageMeter, as_counter, default_counter, remembering
from agentctx.unit import NOT_SHOWN
from agentctx.validators import NAME, TEXT, a, as_tuple, function, list_of, methods
from agentctx.wire_format import USUAL, CacheMarkers, WireFormat


def _as_budget(budget: Budget | int) -> Budget:
    return as_budget(budget, "ContextBuilder")


def _as_counter(counter: TokenCounter | Callable[[str], int] | None) -> TokenCounter | None:
    return as_counter(counter, "ContextBuilder")


def _as_facts(facts: FactExtractor | Facts | None) -> Facts | None:
    return facts if facts is None or isinstance(facts, Facts) else Facts(facts)


def _check_format(_builder: object, _attribute: object, name: str | None) -> None:
    if name is not None:
        format_named(name)


@define(eq=False)
class ContextBuilder:
    """Builds requests of blocks: ``SYSTEM`` first, then the other tiers, all of it within the budget.

    A builder may be built from as often as wanted, and blocks added in between. It must not be changed while a build
    runs: give each task its ``clone()``.

    Args:
        budget: The room of one request; an integer is a window, as of ``Budget``.
        counter: Counts tokens: a counter, or a plain function of a text; without it, tiktoken's encoding for the model.
        model: The model's name: chooses the encoding.
        format: The wire format of the messages; found out from all blocks when not given.
        tools: The tool definitions in the provider's own shape; they are counted and handed back.
        tiers: Floors, shares and caps of single tiers.
        formatter: Makes one list of messages of the blocks; without it they follow one another as they are.
        facts: Takes facts from what the conversation loses; they are kept in the tier ``CORE``, across builds.

    Raises:
        ConfigError: If an option makes no sense.
        InvalidInput: If no format is called so.

    Example:
        >>> from agentctx.builder import Block, ContextBuilder, Tier
        >>> from agentctx.strategies import Drop, Strict
        >>> builder = ContextBuilder(16_000, format="openai-chat").add(
        ...     Block("rules", [{"role": "system", "content": "You mend software."}], tier=Tier.SYSTEM, evict=Strict()),
        ...     Block("found", [{"role": "user", "content": "From the handbook: …"}], tier=Tier.RAG, evict=Drop()),
        ...     Block("task", [{"role": "user", "content": "Why does the build fail?"}]),
        ... )
        >>> [message["role"] for message in (await builder.build()).messages]
        ['system', 'user', 'user']
    """

    budget: Budget = field(converter=_as_budget)
    counter: TokenCounter | None = field(default=None, converter=_as_counter, kw_only=True)
    model: str | None = field(default=None, validator=TEXT.or_none, kw_only=True)
    format: str | None = field(default=None, validator=_check_format, kw_only=True)
    tools: Sequence[Any] | None = field(default=None, kw_only=True)
    tiers: tuple[TierRule, ...] = field(default=(), converter=as_tuple, validator=check_rules, kw_only=True)
    formatter: Formatter = field(default=concatenate, validator=function("an async function of sections"), kw_only=True)
    _facts: Facts | None = field(default=None, converter=_as_facts, kw_only=True)
    _blocks: list[Block] = field(factory=list, init=False, repr=False)
    _report: BuildReport | None = field(default=None, init=False, repr=False)

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks, in the order in which they were added."""
        return tuple(self._blocks)

    @property
    def report(self) -> BuildReport | None:
        """The report of the last build, also of one that failed; None before the first."""
        return self._report

    @property
    def facts(self) -> tuple[str, ...]:
        """The facts that are kept, in the order in which they were learned."""
        return () if self._facts is None else tuple(self._facts.known)

    def add(self, *blocks: Block) -> ContextBuilder:
        """Add blocks, and return the builder.

        Raises:
            ConfigError: If something is no block.
        """
        list_of(a(Block, "a Block"), "Blocks").check("ContextBuilder.add.blocks", blocks)
        self._blocks.extend(blocks)
        return self

    def remove(self, id: str) -> ContextBuilder:  # noqa: A002 - a block's name
        """Take out all blocks of this name, and return the builder.

        Args:
            id: The name of the blocks.

        Raises:
            ConfigError: If there is none.
        """
        self._place(id)
        self._blocks = [block for block in self._blocks if block.id != id]
        return self

    def replace(self, id: str, messages: Iterable[Any]) -> ContextBuilder:  # noqa: A002 - a block's name
        """Let the first block of this name say something else, and return the builder.

        Args:
            id: The name of the block.
            messages: Its messages from now on.

        Raises:
            ConfigError: If there is none.
        """
        place = self._place(id)
        self._blocks[place] = evolve(self._blocks[place], messages=messages)
        return self

    def clone(self) -> ContextBuilder:
        """Make a builder with the same blocks, options and facts; a change of one does not change the other."""
        facts = None if self._facts is None else self._facts.copied()
        return evolve(self, facts=facts).add(*self._blocks)

    async def build(self) -> Assembled:
        """Build the request.

        Raises:
            ContextOverflow: If what must stay is larger than the budget, or no block has room for any message; names
                the biggest blocks.
            StageError: If the stage of a block, or the formatter, returned what it may not; names it and the block.
            InvalidInput: If a message cannot be read; names the block, the message and the field.
            AmbiguousFormat: If several formats fit, none was named, and it makes a difference.
        """
        build = Build(self, self._facts)
        built: Assembled | None = None
        try:
            built = await build.run(self._blocks)
        finally:
            self._report = build.report(sys.exception()) if built is None else built.report
        return built

    def _place(self, name: str) -> int:
        names = [block.id for block in self._blocks]
        if name in names:
            return names.index(name)
        there = ", ".join(map(repr, dict.fromkeys(names))) or "none"
        msg = f"ContextBuilder: no block is called {name!r}; there are: {there}"
        raise ConfigError(msg)


@frozen
class Assembled:
    """A request that was built of blocks.

    Args:
        messages: The messages, in the provider's own shape; the caller's to change.
        system: The system prompt in that shape where the format keeps it apart, else None.
        tools: The tool definitions as they were passed in.
        report: What was done to each block.
        context: The same as values.

    Example:
        >>> from agentctx.builder import Block, ContextBuilder
        >>> rules = Block("rules", [{"role": "system", "content": "Be brief."}], tier=0)
        >>> task = Block("task", [{"role": "user", "content": "Hi"}])
        >>> built = await ContextBuilder(16_000, format="anthropic").add(rules, task).build()
        >>> built.system, built.messages
        ('Be brief.', [{'role': 'user', 'content': 'Hi'}])
    """

    messages: list[Any]
    system: Native
    tools: Native
    report: BuildReport
    context: Context = field(repr=False)


@frozen
class BuildReport:
    """What a build did; filled as far as the build came when it failed: what it had not cut yet stands there whole.

    Args:
        limit: The most tokens that the request could have.
        fixed_tokens: What tool definitions and the opening of the answer take of them.
        tokens: Size of the request that goes out, in tokens, counted as a whole.
        blocks: What became of each block, in the order of the request.
        seconds: How long it took.
        facts: Facts that were taken from what was left out, and are kept.
        cache_points: Indexes of the messages that end a prefix which the provider is asked to keep; -1 stands for
            the system prompt that is kept apart.
        error: Why the build failed; None when it did not.
        notes: What else there is to say.

    Example:
        >>> from agentctx.builder import Block, ContextBuilder
        >>> task = Block("task", [{"role": "user", "content": "Why does the build fail?"}])
        >>> (await ContextBuilder(16_000, format="openai-chat").add(task).build()).report.tokens_per_block
        {'task': ...}
    """

    limit: int
    fixed_tokens: int = 0
    tokens: int = 0
    blocks: tuple[BlockReport, ...] = ()
    seconds: float = 0.0
    facts: tuple[str, ...] = ()
    cache_points: tuple[int, ...] = ()
    error: str | None = None
    notes: tuple[str, ...] = ()

    @property
    def original_tokens(self) -> int:
        """Size of all blocks as they were passed, in tokens."""
        return sum(block.tokens_before for block in self.blocks)

    @property
    def used_tokens(self) -> int:
        """Size of all blocks as they go out, in tokens."""
        return sum(block.tokens_after for block in self.blocks)

    @property
    def remaining_tokens(self) -> int:
        """The rest of the limit, in tokens."""
        return self.limit - self.tokens

    @property
    def tokens_per_block(self) -> Mapping[str, int]:
        """Size of each block that goes out, by name; blocks of one name together."""
        sizes: Counter[str] = Counter()
        for block in self.blocks:
            sizes.update({block.id: block.tokens_after} if block.messages_after else {})
        return dict(sizes)

    @property
    def original_tokens_per_block(self) -> Mapping[str, int]:
        """Size of each block as it was passed, by name; blocks of one name together."""
        sizes: Counter[str] = Counter()
        for block in self.blocks:
            sizes.update({block.id: block.tokens_before} if block.messages_before else {})
        return dict(sizes)

    @property
    def evictions(self) -> Mapping[str, str]:
        """What was done to each block that was not left as it was, by name."""
        return {block.id: block.eviction for block in self.blocks if block.eviction is not None}

    @property
    def dropped(self) -> tuple[str, ...]:
        """The names of the blocks of which nothing is left, but for those that made the build fail."""
        return tuple(block.id for block in self.blocks if block.dropped)

    def __str__(self) -> str:
        """What the build did, for people: a line for the request, then one for each block."""
        head = f"{self.tokens:,} tokens, {self.limit:,} allowed, {1000 * self.seconds:.1f} ms"
        lines = [head if self.error is None else f"failed: {self.error}; {self.limit:,} tokens allowed"]
        lines += [f"  {block}" for block in self.blocks]
        if self.facts:
            lines.append(f"  facts kept of what was left out: {len(self.facts)}")
        return printable("\n".join((*lines, *(f"  {note}" for note in self.notes))))

    def to_dict(self) -> dict[str, Any]:
        """The report as plain JSON values."""
        return asdict(
            self, value_serializer=lambda _instance, _field, value: int(value) if isinstance(value, Tier) else value
        )


ATTEMPTS = 8
"""How often the blocks are cut further because the formatter added to them."""

LESSONS = 3
"""How often facts are taken from what was left out, each time making room for them by leaving out a little more."""


@define(eq=False)
class Build:
    """One build; how far it has come can be reported at any time."""

    options: ContextBuilder
    facts: Facts | None = None
    slots: list[Slot] = field(factory=list)
    tools: tuple[Tool, ...] = ()
    fixed: int = 0
    tokens: int = 0
    points: Sequence[CachePoint] = ()
    notes: list[str] = field(factory=list)
    started: float = field(factory=perf_counter)

    async def run(self, blocks: Sequence[Block]) -> Assembled:
        """Build the request; see ``ContextBuilder.build``."""
        await checkpoint()
        options = self.options
        ordered = sorted(blocks, key=lambda block: block.tier)
        source = reader_for(ordered, options)
        self.tools = source.head(None, options.tools)[1]
        readable = read_blocks(ordered, source, self.notes)
        with Noting("while the messages of the blocks were counted"):
            await source.meter.settle([message for block in readable for message in block.messages])
        self.fixed = source.meter.fixed(Context((), None, self.tools))
        messages = await self._formatted(readable, source)
        for _ in range(LESSONS):
            if not await self._learned():
                break
            messages = await self._formatted(readable, source)
        context = as_context(messages, self.tools, source.wire)
        if not context.messages:
            self._refuse_empty()
        caches = [slot.block.cache for slot in self.slots if slot.out.messages]
        self.points = cache_points(self._sections, caches, messages, context)
        system, natives = written(context, self.points, source.wire)
        return Assembled(natives, system, options.tools, self.report(), context)

    def _refuse_empty(self) -> None:
        """Refuse a request of which nothing is left, where blocks had something to say beside the system prompt."""
        emptied = [slot for slot in self.slots if _first(slot.messages) is not None]
        if not emptied:
            return
        items = [BigItem((slot.name, str(slot.block.tier), slot.size)) for slot in emptied]
        least = min(emptied, key=lambda slot: slot.size)
        room = min(self.options.budget.limit - self.fixed, least.want)
        if least.size <= room:
            where, what = "messages", f"nothing is left to send of {', '.join(item.place for item in items)}"
            raise InvalidInput(where, what)
        for slot in emptied:
            slot.out = REJECTED
        error = ContextOverflow(self.fixed + least.size, self.fixed + room, items)
        error.add_note("nothing is left to send: the blocks' stages took all of them")
        raise error

    def report(self, error: BaseException | None = None) -> BuildReport:
        """What was done so far."""
        return BuildReport(
            limit=self.options.budget.limit,
            fixed_tokens=self.fixed,
            tokens=self.tokens,
            blocks=tuple(slot.report() for slot in self.slots),
            seconds=perf_counter() - self.started,
            facts=() if self.facts is None else tuple(self.facts.known),
            cache_points=tuple(point.place for point in self.points),
            error=None if error is None else said_by(error),
            notes=tuple(self.notes),
        )

    @property
    def _sections(self) -> list[Section]:
        return [Section(slot.block.id, slot.block.tier, slot.out.messages) for slot in self.slots if slot.out.messages]

    async def _formatted(self, blocks: Sequence[Block], source: Reader) -> tuple[Message, ...]:
        """Cut and format until all of it fits; a formatter that adds to the blocks leaves them less room."""
        limit, added = self.options.budget.limit, 0
        rules = {rule.tier: rule for rule in self.options.tiers}
        call = Call(source.meter, source.wire.name, profile=source.profile, wire=source.wire)
        self.slots, self.tokens = slots_of(blocks, call), 0
        if self.facts is not None and self.facts.known:
            above = sum(slot.size for slot in self.slots if slot.block.tier < Tier.HISTORY)
            self.slots = slots_of([*blocks, self.facts.block(limit - self.fixed - above)], call)
        for _ in range(ATTEMPTS):
            try:
                await assemble(self.slots, SharedRoom(limit, self.fixed + added, rules))
            except ContextOverflow as error:
                self._note_formatter(error, added)
                raise
            messages = await self._format(source)
            await source.meter.settle(messages)
            self.tokens = source.meter.size(as_context(messages, self.tools, source.wire))
            if self.tokens <= limit:
                return messages
            added = max(added, self.tokens - self.fixed - sum(slot.out.tokens for slot in self.slots))
        overflow = ContextOverflow(self.tokens, limit)
        self._note_formatter(overflow, added)
        raise overflow

    def _note_formatter(self, error: ContextOverflow, added: int) -> None:
        """Say in an overflow how much of it is the formatter's."""
        if added:
            formatter = name_of(self.options.formatter)
            error.add_note(f"the formatter {formatter} adds {added:,} tokens to what the blocks have")

    async def _format(self, source: Reader) -> tuple[Message, ...]:
        """Call the formatter and hold its answer to the contract."""
        formatter, sections = self.options.formatter, self._sections
        before = [message for section in sections for message in section.messages]
        name = name_of(formatter)
        with Noting(f"while the formatter {name} was running"):
            messages: Native = await answered(name, formatter(sections))
            if not isinstance(messages, Sequence) or isinstance(messages, (str, bytes)):
                raise StageError(name, f"returned {type(messages).__name__} instead of messages")
            for place, message in enumerate(messages):
                if (wrong := flaw(message)) is not None:
                    raise StageError(name, f"messages[{place}]{wrong[0]} of what it returned is {wrong[1]}")
            there = set(map(id, messages))
            for slot in self.slots:
                words = None if slot.keep is None else slot.messages[slot.keep]
                if words is not None and id(words) not in there and words not in messages:
                    raise LostProtected(name, f"lost or changed the user's newest words ({words.text[:40]!r})")
            check_whole(name, before, messages)
        originals = [message for slot in self.slots for message in slot.messages]
        return legal(tuple(messages), originals, source.meter, source.wire)

    async def _learned(self) -> bool:
        """Take facts from the messages of the conversation that do not go out; whether there are new ones."""
        if self.facts is None:
            return False
        talk = [slot for slot in self.slots if slot.block.tier >= Tier.HISTORY]
        kept = {id(message) for slot in talk for message in slot.out.messages}
        there = readings(message for slot in talk for message in slot.messages)
        try:
            return await self.facts.learn({reading: message for reading, message in there if id(message) not in kept})
        except self.facts.on as error:
            if isinstance(error, StageError):
                raise
            self.notes.append(f"the fact extractor raised {said_by(error)}")
            return False


def reader_for(blocks: Sequence[Block], options: ContextBuilder) -> Reader:
    """Find out how to read blocks, from all their messages together."""
    natives = [message for block in blocks for message in block.messages if not isinstance(message, Message)]
    tools, model = options.tools, options.model
    if options.format is not None:
        wire = format_named(options.format)
    elif not natives and tools is None:
        wire = FORMATS[USUAL]
    else:
        wire = detect({"messages": natives} if tools is None else {"messages": natives, "tools": tools}, model)
    profile = known_profile(model)
    counter = default_counter(model) if options.counter is None else remembering(options.counter)
    return Reader(wire, MessageMeter(counter, profile, wire.overheads), profile)


def read_blocks(blocks: Sequence[Block], source: Reader, notes: list[str]) -> list[Block]:
    """Read the blocks' messages into values; what was illegal is repaired, and put into the notes."""
    call_ids: set[str] = set()
    readable = []
    for block, name in zip(blocks, names_of(blocks), strict=True):
        try:
            natives = [message for message in block.messages if not isinstance(message, Message)]
            values = iter(source.messages(natives) if natives else ())
        except InvalidInput as error:
            where = f"{name}, {error.where}"
            raise InvalidInput(where, error.what) from error
        messages = tuple(message if isinstance(message, Message) else next(values) for message in block.messages)
        call = Call(source.meter, source.wire.name, wire=source.wire)
        repaired = repair(messages, call, source.wire, seen=call_ids)
        if repaired is not None:
            reasons = [*(reason.why for reason in call.internals.notes.reasons.values()), *call.internals.notes.remarks]
            notes.extend(f"{name} was repaired: {why}" for why in dict.fromkeys(reasons))
        readable.append(evolve(block, messages=messages if repaired is None else repaired))
    return readable


def as_context(messages: Sequence[Message], tools: tuple[Tool, ...], wire: WireFormat) -> Context:
    """The request; its leading system messages become the system prompt where the format keeps that apart.

    The Responses format has ``instructions``, and takes system messages among its items as well: there they stay.
    """
    count = 0
    if not wire.keys.system_leads:
        count = next((n for n, message in enumerate(messages) if message.role not in SYSTEM_ROLES), len(messages))
    if count == 0:
        return Context(tuple(messages), None, tools)
    parts = tuple(part for message in messages[:count] for part in message.parts)
    return Context(tuple(messages[count:]), Message("system", parts), tools)


def legal(
    messages: Sequence[Message], before: Sequence[Message], meter: Meter, wire: WireFormat
) -> tuple[Message, ...]:
    """Return the messages as their format takes them.

    Where a conversation that the user began would now begin with the model, which some providers refuse (Bedrock:
    "A conversation must start with a user message"), the user says first that something was left out.
    """
    repaired = repair(messages, Call(meter, wire.name, wire=wire), wire)
    request = tuple(messages if repaired is None else repaired)
    place, began = _first(request), _first(before)
    if place is None or request[place].role != "assistant" or not wire.capabilities(None, None).user_first:
        return request
    if began is None or before[began].role == "assistant":
        return request
    return (*request[:place], Message("user", (Text(NOT_SHOWN),)), *request[place:])


def _first(messages: Sequence[Message]) -> int | None:
    """The place of the first message of the conversation."""
    return next((place for place, message in enumerate(messages) if message.role not in SYSTEM_ROLES), None)


def written(context: Context, points: Sequence[CachePoint], wire: WireFormat) -> tuple[Any, list[Any]]:
    """System prompt and messages as the format writes them, with cache marks; they share nothing with the blocks."""
    system, messages = context.system, list(context.messages)
    for point in reversed(points):  # a marker may be a part of its own, behind which the others move on
        if point.place != SYSTEM:
            messages[point.place] = marked(messages[point.place], point, wire.cache_markers)
        elif system is not None:
            system = marked(system, point, wire.cache_markers)
    native = None if system is None else wire.write_system(system)
    natives = (write_native(wire, message, f"built messages[{at}]") for at, message in enumerate(messages))
    return own_copy(native), [own_copy(each) for each in natives]


MOST = 4
"""The most marks of one request (Anthropic: "A maximum of 4 blocks with cache_control may be provided")."""

SYSTEM = -1
"""The place of the system prompt that is kept apart."""

LONG = "1h"
"""The longer lifetime; marks with the shorter one must not stand before it."""

Cache = bool | str | Mapping[str, Any]


@frozen
class CachePoint:
    """Where a prefix ends that the provider shall keep.

    Args:
        place: Index of the message that ends it; ``SYSTEM`` for the system prompt that is kept apart.
        parts: How many parts of that message belong to it.
        cache: How long, or the provider's own mark.
    """

    place: int
    parts: int
    cache: Cache


def cache_points(
    sections: Sequence[Section], caches: Sequence[Cache | None], messages: Sequence[Message], context: Context
) -> list[CachePoint]:
    """Where the prefixes end that shall be kept: the last four of them, in order.

    A block that a formatter has merged into another message ends there. A prefix before one that is kept for an
    hour is kept for an hour as well, since providers refuse it otherwise.
    """
    places = {id(message): place for place, message in enumerate(messages)}
    own = {id(message) for section in sections for message in section.messages}
    merged = next((place for place, message in enumerate(messages) if id(message) not in own), None)
    apart = len(messages) - len(context.messages)
    wanted: dict[tuple[int, int], Cache] = {}
    for section, cache in zip(sections, caches, strict=True):
        place = places.get(id(section.messages[-1]), merged)
        if cache and place is not None and place < apart:
            wanted[SYSTEM, sum(len(message.parts) for message in messages[: place + 1])] = cache
        elif cache and place is not None:
            wanted[place - apart, len(messages[place].parts)] = cache
    points: list[CachePoint] = []
    is_long = False
    for place, parts in sorted(wanted, reverse=True)[:MOST]:
        cache = wanted[place, parts]
        if is_long:
            cache = {**cache, "ttl": LONG} if isinstance(cache, Mapping) else LONG
        is_long = is_long or (cache.get("ttl") if isinstance(cache, Mapping) else cache) == LONG
        points.append(CachePoint(place, parts, cache))
    return points[::-1]


def marked(message: Message, point: CachePoint, markers: CacheMarkers | None) -> Message:
    """Put a marker on the last part up to the point that can carry one; without any the message stays as it is."""
    marker = None if markers is None else markers.given(point.cache)
    if markers is None or marker is None:
        return message
    places = reversed(range(min(point.parts, len(message.parts))))
    with_marker = (markers.put(message, place, marker) for place in places)
    return next((copy for copy in with_marker if copy is not None), message)


ADDS = 32
"""So often a build is tried where others write to the conversation meanwhile."""

AGAIN = 4
"""So often a write is tried again where the store does not answer."""

_MOMENT = 0.05
"""Seconds to the first time; each further time it is twice as long."""


@frozen
class Thread:
    """A conversation in a store, of which requests are built.

    The store has all that was ever said: what one request leaves out to fit its budget is left out of that request
    only.

    Args:
        store: Keeps the history.
        name: The conversation.
        block: The block of the builder whose messages are the history.

    Raises:
        ConfigError: If an argument makes no sense.

    Example:
        >>> from agentctx.builder import Block, ContextBuilder, Thread
        >>> from agentctx.stores import MemoryStore
        >>> from agentctx.strategies import TruncateOldest
        >>> builder = ContextBuilder(8_000, format="openai-chat").add(Block("history", [], evict=TruncateOldest()))
        >>> thread = Thread(MemoryStore(), "thread-42")
        >>> built = await thread.build(builder, [{"role": "user", "content": "Why does the build fail?"}])
        >>> built = await thread.build(builder, [{"role": "assistant", "content": "A comma is missing."}])
        >>> [message["role"] for message in built.messages]
        ['user', 'assistant']
    """

    store: HistoryStore = field(validator=methods("a store of histories", "load", "append"))
    name: str = field(validator=NAME)
    block: str = field(default="history", validator=NAME)

    async def build(
        self, builder: ContextBuilder, new_messages: Sequence[Native] = (), *, key: str | None = None
    ) -> Assembled:
        """Build a request of the history and what is new, and write on the history.

        Where others have written meanwhile, it is loaded and built again. Where the store does not answer, the write is
        repeated a few times; nothing is stored twice. A build that fails writes nothing.

        Args:
            builder: The blocks, one of which is the history; it is not changed.
            new_messages: What was said since.
            key: What tells these messages from all others of the conversation: whoever builds again with the same one,
                for example after a crash, does not store them again.

        Raises:
            ConfigError: If the builder has no such block.
            StoreConflict: If others were first so often that it was given up.
            StoreUnavailable: If the store does not answer. With a ``key`` it may be tried again.
            ContextOverflow: If it cannot be made to fit.
            InvalidInput: If what is new is no list of messages, or one of them cannot be read.
        """
        passed: object = new_messages
        if isinstance(passed, (str, bytes, Mapping)) or not isinstance(passed, Iterable):
            raise InvalidInput("new_messages", f"expected a list of messages, got {type(passed).__name__}")
        append_key, new = key or uuid4().hex, list(new_messages)
        for attempt in range(ADDS):
            history = await self.store.load(self.name)
            built = await self._built(builder, [*history.messages, *new])
            try:
                version = await self._append(new, history.version, append_key) if new else history.version
            except StoreConflict as error:
                conflict = error
                await anyio.sleep(random() * 0.001 * attempt)  # noqa: S311 - so that not all come back at once
                continue
            if new and version <= history.version:  # it was written before, and is among what was loaded
                return await self._built(builder, history.messages)
            return built
        conflict.add_note(f"given up after {ADDS} attempts")
        raise conflict

    async def load(self) -> HistorySnapshot:
        """All that was ever said, and the version."""
        return await self.store.load(self.name)

    async def _built(self, builder: ContextBuilder, messages: Sequence[Native]) -> Assembled:
        return await builder.clone().replace(self.block, messages).build()

    async def _append(self, new: Sequence[Native], version: int, key: str) -> int:
        for again in range(AGAIN):
            try:
                return await self.store.append(self.name, new, version, key=key)
            except StoreUnavailable:
                await anyio.sleep(_MOMENT * 2**again)
        return await self.store.append(self.name, new, version, key=key)
