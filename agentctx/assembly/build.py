"""One build: blocks in, a request and a report out."""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter
from types import TracebackType
from typing import Any

from anyio.lowlevel import checkpoint
from attrs import define, field, frozen

from agentctx.assembly.cache_marks import CachePoint, cache_points
from agentctx.assembly.opening import legal
from agentctx.assembly.options import Options
from agentctx.assembly.reading_blocks import BlockReader, reader_for
from agentctx.assembly.writing import as_context, written
from agentctx.core.message import Context, Message, Tool
from agentctx.errors import ContextOverflow, StageError
from agentctx.reading import Reader
from agentctx.tiers.answering import Noting, answered
from agentctx.tiers.assemble import assemble
from agentctx.tiers.block import Block
from agentctx.tiers.build_report import BuildReport
from agentctx.tiers.contract import check_formatter
from agentctx.tiers.eviction import name_of
from agentctx.tiers.facts import Facts, Reading, readings
from agentctx.tiers.formatter import Section
from agentctx.tiers.granting import Room
from agentctx.tiers.slot import Slot, slots_of
from agentctx.tiers.tier import Tier

ATTEMPTS = 8
"""How often the blocks are cut further because the formatter added to them."""

LESSONS = 3
"""How often facts are taken from what was left out, each time making room for them by leaving out a little more."""


@frozen
class Assembled:
    """A request that was built of blocks.

    Args:
        messages: The messages, in the provider's own shape; the caller's to change.
        system: The system prompt in that shape where the format keeps it apart, else None.
        tools: The tool definitions as they were passed in.
        report: What was done to each block.
        context: The same as values.
    """

    messages: list[Any]
    system: Any
    tools: Any
    report: BuildReport
    context: Context = field(repr=False)


@define(eq=False)
class Build:
    """One build; what it has come to can be reported at any time.

    Args:
        options: What the builder was made with.
        facts: Keeps facts of what is left out, if the caller wants that.
        slots: The blocks on their way.
        tools: The tool definitions.
        fixed: Tokens of tools and of the opening of the answer.
        tokens: Size of the request, in tokens.
        points: Where the prefixes end that shall be kept.
        notes: What there is to say.
        started: When it began, by the clock of reports.
    """

    options: Options
    facts: Facts | None = None
    slots: list[Slot] = field(factory=list)
    tools: tuple[Tool, ...] = ()
    fixed: int = 0
    tokens: int = 0
    points: Sequence[CachePoint] = ()
    notes: list[str] = field(factory=list)
    started: float = field(factory=perf_counter)

    async def run(self, blocks: Sequence[Block], reader: BlockReader) -> Assembled:
        """Build the request; see ``ContextBuilder.build``."""
        await checkpoint()
        options = self.options
        ordered = sorted(blocks, key=lambda block: block.tier)
        source = reader_for(ordered, options.tools, options.format, options.model, options.counter)
        self.tools = source.fixed_part(None, options.tools)[1]
        messages = await self._messages(reader.read(ordered, source, self.notes), source)
        context = as_context(messages, self.tools, source.wire)
        caches = [slot.block.cache for slot in self.slots if slot.messages]
        self.points = cache_points(self._sections, caches, messages, context)
        system, natives = written(context, self.points, source.wire)
        return Assembled(natives, system, options.tools, self.report(), context)

    async def _messages(self, blocks: Sequence[Block], source: Reader) -> tuple[Message, ...]:
        meter = source.meter
        with Noting("while the messages of the blocks were counted"):
            await meter.settle([message for block in blocks for message in block.messages])
        self.fixed = meter.fixed(Context((), None, self.tools))
        messages = await self._formatted(blocks, source)
        for _ in range(LESSONS):
            if not await self._learned():
                break
            messages = await self._formatted(blocks, source)
        return messages

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
            error=None if error is None else f"{type(error).__name__}: {error}",
            notes=tuple(self.notes),
        )

    @property
    def _sections(self) -> list[Section]:
        return [Section(slot.block.id, slot.block.tier, slot.messages) for slot in self.slots if slot.messages]

    async def _formatted(self, blocks: Sequence[Block], source: Reader) -> tuple[Message, ...]:
        """Cut and format until all of it fits; a formatter that adds to the blocks leaves them less room."""
        limit, less = self.options.budget.limit, 0
        self.slots, self.tokens = slots_of(blocks, source.meter), 0
        if self.facts is not None and self.facts.known:
            above = sum(slot.size for slot in self.slots if slot.block.tier < Tier.HISTORY)
            known = self.facts.block(limit - self.fixed - above)
            self.slots = slots_of([*blocks, known], source.meter)
        for _ in range(ATTEMPTS):
            with _Blaming(name_of(self.options.formatter), less):
                await assemble(self.slots, Room(limit, self.fixed + less, self.options.rules))
            messages = await self._format(source)
            await source.meter.settle(messages)
            self.tokens = source.meter.size(as_context(messages, self.tools, source.wire))
            if self.tokens <= limit:
                return messages
            less = max(less, self.tokens - self.fixed - sum(slot.tokens for slot in self.slots))
        with _Blaming(name_of(self.options.formatter), less):
            raise ContextOverflow(self.tokens, limit)

    async def _format(self, source: Reader) -> tuple[Message, ...]:
        formatter, sections = self.options.formatter, self._sections
        before = [message for section in sections for message in section.messages]
        keep = [slot.given[index] for slot in self.slots for index in slot.keep]
        name = name_of(formatter)
        with Noting(f"while the formatter {name} was running"):
            made = await answered(name, formatter(sections))
            messages = check_formatter(name, before, made, keep)
        given = [message for slot in self.slots for message in slot.given]
        return legal(messages, given, source.meter, source.wire)

    async def _learned(self) -> bool:
        """Take facts from what the conversation lost; whether there are new ones."""
        if self.facts is None:
            return False
        try:
            return await self.facts.learn(_lost(self.slots))
        except self.facts.on as error:
            if isinstance(error, StageError):
                raise
            self.notes.append(f"the fact extractor raised {type(error).__name__}: {error}")
            return False


class _Blaming:
    """Says in an overflow that passes through it how much of it is the formatter's."""

    def __init__(self, formatter: str, tokens: int) -> None:
        self.formatter = formatter
        self.tokens = tokens

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Add the note."""
        if isinstance(error, ContextOverflow) and self.tokens:
            error.add_note(f"the formatter {self.formatter} adds {self.tokens:,} tokens to what the blocks have")


def _lost(slots: Sequence[Slot]) -> dict[Reading, Message]:
    """The messages of the conversation that do not go out as they were."""
    talk = [slot for slot in slots if slot.block.tier >= Tier.HISTORY]
    kept = {id(message) for slot in talk for message in slot.messages}
    if all(slot.messages is slot.given for slot in talk):
        return {}
    given = readings(message for slot in talk for message in slot.given)
    return {reading: message for reading, message in given if id(message) not in kept}
