"""The builder: blocks are added, and a request that fits is built of them, as often as it is asked for."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from attrs import evolve

from agentctx.builder.block import Block
from agentctx.builder.build import Assembled, BlockReader, Build, Options
from agentctx.builder.facts import FactExtractor, Facts
from agentctx.builder.rendering import Formatter, concatenate
from agentctx.builder.report import BuildReport
from agentctx.core.budget import Budget
from agentctx.core.tier import TierRule
from agentctx.engine.options import as_budget
from agentctx.errors import ConfigError
from agentctx.protocols import TokenCounter
from agentctx.tokens.counting import as_counter


class ContextBuilder:
    """Builds requests of blocks: ``SYSTEM`` first, then the other tiers, all of it within the budget.

    A builder may be built from as often as wanted, and blocks added in between. It must not be changed while a build
    runs: give each task its ``clone()``.

    Args:
        budget: The room of one request; a number is a window in tokens.
        counter: Counts tokens: a counter, or a plain function of a text; without it, tiktoken's encoding for the model.
        model: The model's name: chooses the encoding.
        format: The wire format of the messages; found out from all blocks when not given.
        tools: The tool definitions in the provider's own shape; they are counted and handed back.
        tiers: Floors, shares and caps of single tiers.
        formatter: Makes one list of messages of the blocks; without it they follow one another as they are.
        facts: Takes facts from what the conversation loses; they are kept in the tier ``CORE``, across builds.

    Raises:
        ConfigError: If an option makes no sense.

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

    def __init__(
        self,
        budget: Budget | int,
        *,
        counter: TokenCounter | Callable[[str], int] | None = None,
        model: str | None = None,
        format: str | None = None,  # noqa: A002 - the contract's name
        tools: Sequence[Any] | None = None,
        tiers: Iterable[TierRule] = (),
        formatter: Formatter = concatenate,
        facts: FactExtractor | Facts | None = None,
    ) -> None:
        """Check the options."""
        self._options = Options(
            budget=_as_budget(budget),
            counter=as_counter(counter),
            model=model,
            format=format,
            tools=tools,
            tiers=tuple(tiers),
            formatter=formatter,
        )
        self._facts = facts if facts is None or isinstance(facts, Facts) else Facts(facts)
        self._blocks: list[Block] = []
        self._places: dict[str, int] = {}
        self._reader = BlockReader()
        self._report: BuildReport | None = None

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks, in the order in which they were added."""
        return tuple(self._blocks)

    @property
    def report(self) -> BuildReport | None:
        """What the last build did, also one that failed; None before the first."""
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
        given: tuple[object, ...] = blocks
        for block in given:
            if not isinstance(block, Block):
                msg = f"ContextBuilder.add: expected a Block, got {type(block).__name__}"
                raise ConfigError(msg)
        for place, added in enumerate(blocks, len(self._blocks)):
            self._places.setdefault(added.id, place)
        self._blocks.extend(blocks)
        return self

    def remove(self, id: str) -> ContextBuilder:  # noqa: A002 - a block's name
        """Take out all blocks of this name, and return the builder.

        Raises:
            ConfigError: If there is none.
        """
        self._place(id)
        kept = [block for block in self._blocks if block.id != id]
        self._blocks, self._places = [], {}
        return self.add(*kept)

    def replace(self, id: str, messages: Iterable[Any]) -> ContextBuilder:  # noqa: A002 - a block's name
        """Let the first block of this name say something else, and return the builder.

        Raises:
            ConfigError: If there is none.
        """
        place = self._place(id)
        self._blocks[place] = evolve(self._blocks[place], messages=messages)
        return self

    def clone(self) -> ContextBuilder:
        """A builder with the same blocks, options and facts; what happens to one does not happen to the other."""
        made = ContextBuilder(self._options.budget)
        made._options, made._blocks, made._places = self._options, list(self._blocks), dict(self._places)
        made._facts = None if self._facts is None else self._facts.copied()
        made._reader, made._report = BlockReader(dict(self._reader.known)), self._report
        return made

    async def build(self) -> Assembled:
        """Build the request.

        Raises:
            ContextOverflow: If what must stay is larger than the budget; names the biggest blocks.
            StageError: If the stage of a block, or the formatter, returned what it may not; names it and the block.
            InvalidInput: If a message cannot be read; names the block, the message and the field.
            AmbiguousFormat: If several formats fit, none was named, and it makes a difference.
        """
        build = Build(self._options, self._facts)
        built: Assembled | None = None
        try:
            built = await build.run(self._blocks, self._reader)
        finally:
            self._report = build.report(sys.exception()) if built is None else built.report
        return built

    def _place(self, name: str) -> int:
        place = self._places.get(name)
        if place is None:
            there = ", ".join(map(repr, self._places)) or "none"
            msg = f"ContextBuilder: no block is called {name!r}; there are: {there}"
            raise ConfigError(msg)
        return place


def _as_budget(value: Budget | int) -> Budget:
    budget = as_budget(value)
    if budget is None:
        msg = "ContextBuilder: budget: expected a Budget or a number of tokens, got None"
        raise ConfigError(msg)
    return budget
