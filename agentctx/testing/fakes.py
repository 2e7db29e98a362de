"""Fakes: a counter that remembers, stages and stores that fail, listeners and a summarizer."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import cast

from attrs import define, field

from agentctx.core.budget import Budget
from agentctx.core.message import Context, Message
from agentctx.core.report import Compaction
from agentctx.errors import StoreError
from agentctx.protocols import (
    Call,
    ContextStrategy,
    HoldsStages,
    Listener,
    Phase,
    RunInner,
    Scope,
    Store,
    Summarizer,
    TokenCounter,
    holds_stages,
)
from agentctx.tokens.heuristic import HeuristicCounter


@define(eq=False)
class CountingCounter:
    """Counts tokens like another counter, and keeps the texts that it counted.

    Equal to itself only, so that nothing that another counter counted is taken for counted.

    Args:
        counter: The counter that does the work.
        texts: The texts counted so far, in order, one entry a call.
    """

    counter: TokenCounter = field(factory=HeuristicCounter)
    texts: list[str] = field(factory=list)

    def count(self, text: str, /) -> int:
        """The tokens of ``text``, and a note that it was counted."""
        self.texts.append(text)
        return self.counter.count(text)

    @property
    def characters(self) -> int:
        """Characters counted so far; a text that was counted twice counts twice."""
        return sum(map(len, self.texts))


class FlakyError(Exception):
    """What the flaky parts raise; no error of agentctx."""


@define
class FlakyStage:
    """A stage that does its work and then raises, every first time that it meets a context of some length.

    Args:
        stage: The stage that does the work.
        failures: How often it raised.
    """

    stage: ContextStrategy
    failures: int = 0
    _met: set[int] = field(factory=set, init=False)

    @property
    def scope(self) -> Scope:
        """The scope of the stage inside."""
        found = getattr(self.stage, "scope", Scope.ALWAYS)
        return found if isinstance(found, Scope) else Scope.ALWAYS

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return what the stage inside returns, at the second try.

        Raises:
            FlakyError: At the first try.
        """
        made = await self.stage(context, call)
        self.fail_once(context)
        return made

    def fail_once(self, context: Context) -> None:
        """Raise for the first context of each length.

        Raises:
            FlakyError: At the first try.
        """
        if len(context.messages) not in self._met:
            self._met.add(len(context.messages))
            self.failures += 1
            msg = "the stage failed after its work was done"
            raise FlakyError(msg)


@define
class FlakyHolder(FlakyStage):
    """The same for a stage that holds stages, which run in their own phases."""

    @property
    def holding(self) -> HoldsStages:
        """The stage inside."""
        return cast("HoldsStages", self.stage)

    @property
    def stages(self) -> tuple[ContextStrategy, ...]:
        """The stages that it holds."""
        return self.holding.stages

    def in_phase(self, phase: Phase, governing: Budget | None, /) -> ContextStrategy | None:
        """It, with those of its stages only that run in ``phase``."""
        inner = self.holding.in_phase(phase, governing)
        if inner is None:
            return None
        made = flaky(inner)
        made._met = self._met  # noqa: SLF001 - one stage, in several phases
        return made

    async def run_inner(self, run: RunInner, context: Context, call: Call, /) -> Context:
        """Run its stages, at the second try.

        Raises:
            FlakyError: At the first try.
        """
        made = await self.holding.run_inner(run, context, call)
        self.fail_once(context)
        return made


def flaky(stage: ContextStrategy) -> FlakyStage:
    """The stage as one that fails at its first try, and runs when it would run."""
    return FlakyStage(stage) if holds_stages(stage) is None else FlakyHolder(stage)


@define
class FlakyStore:
    """A store that refuses everything once.

    Args:
        store: The store that keeps what comes again.
        failures: How often it refused.
    """

    store: Store
    failures: int = 0
    _refused: set[bytes] = field(factory=set, init=False)

    async def put(self, content: bytes, /) -> str:
        """Keep ``content`` at the second try.

        Raises:
            StoreError: At the first try.
        """
        if content not in self._refused:
            self._refused.add(content)
            self.failures += 1
            msg = "the store is not there"
            raise StoreError(msg)
        return await self.store.put(content)

    async def get(self, handle: str, /) -> bytes:
        """What was put under ``handle``.

        Raises:
            StoreError: If there is nothing under it.
        """
        return await self.store.get(handle)


def failing_listener(_event: Compaction) -> None:
    """A listener that raises.

    Raises:
        FlakyError: Always.
    """
    msg = "the listener failed"
    raise FlakyError(msg)


@contextmanager
def unlogged(listener: Listener) -> Iterator[None]:
    """Keep out of the log what it would say of this listener, which fails on purpose; what it says of others stays."""

    def of_others(record: logging.LogRecord) -> bool:
        return not any(each is listener for each in record.args or ())

    log = logging.getLogger("agentctx")
    log.addFilter(of_others)
    try:
        yield
    finally:
        log.removeFilter(of_others)


@define
class Recorder:
    """A listener that collects what it is told: pass it as ``on_compact``, then look at ``events``.

    Args:
        events: The events so far, in order.
    """

    events: list[Compaction] = field(factory=list)

    def __call__(self, event: Compaction) -> None:
        """Remember the event."""
        self.events.append(event)


def fixed_summarizer(text: str) -> Summarizer:
    """A summarizer whose answer is ``text``, whatever it is asked to put into fewer words."""

    async def summarize(_messages: Sequence[Message], _max_tokens: int, /) -> str:
        return text

    return summarize
