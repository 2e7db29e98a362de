"""Fakes: a counter that remembers, stages and stores that fail, listeners and summarizers, and faults in all."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from errno import ENOSPC

import anyio
import anyio.lowlevel
from attrs import define, field

from agentctx.core.budget import Budget
from agentctx.core.message import Context, Message
from agentctx.core.report import Compaction
from agentctx.engine.run_stages import run_alone
from agentctx.errors import StoreError, SummaryError
from agentctx.protocols import (
    Call,
    ContextStrategy,
    Listener,
    Phase,
    RunInner,
    Stage,
    Store,
    Summarizer,
    TokenCounter,
    declared,
)
from agentctx.stores import MemoryStore
from agentctx.tokens.counting import HeuristicCounter


@define(eq=False)
class CountingCounter:
    """Counts tokens like another counter, and keeps the texts that it counted.

    Equal to itself only, so that nothing that another counter counted is taken for counted.

    Args:
        counter: The counter that does the work.
        texts: The texts counted so far, in order, one entry a call.

    Example:
        >>> from agentctx import count
        >>> from agentctx.testing import CountingCounter
        >>> counter = CountingCounter()
        >>> tokens = count([{"role": "user", "content": "Hello"}], counter=counter)
        >>> "Hello" in counter.texts
        True
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
    """What the flaky parts raise; no error of agentctx.

    Example:
        >>> from agentctx.testing import FlakyError
        >>> issubclass(FlakyError, Exception)
        True
    """


@define
class FlakyStage(Stage):
    """A stage that does its work and then raises, every first time that it meets a context of some length.

    It says of itself what the stage inside says: when it runs, whether it summarizes, its name, and all the rest.

    Args:
        stage: The stage that does the work; one that holds stages has them run in their own phases.
        failures: How often it raised.

    Example:
        >>> from agentctx import Pipeline, TrimRounds
        >>> from agentctx.testing import FlakyError, FlakyStage
        >>> stage = FlakyStage(TrimRounds(1))
        >>> try:
        ...     await Pipeline(stage).prepare([{"role": "user", "content": "Hi"}])
        ... except FlakyError:
        ...     print(f"failed {stage.failures} time")
        failed 1 time
    """

    stage: ContextStrategy
    failures: int = 0
    _met: set[int] = field(factory=set, init=False)

    def in_phase(self, phase: Phase, governing: Budget | None, /) -> ContextStrategy | None:
        """It, as far as the stage inside runs in ``phase``.

        Args:
            phase: When stages run in a step.
            governing: The budget, as it was configured, that holds around it; None: there is none.
        """
        inner = declared(self.stage).in_phase(phase, governing)
        if inner is None or inner is self.stage:
            return None if inner is None else self
        made = FlakyStage(inner)
        made._met = self._met  # one stage, in several phases
        return made

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return what the stage inside returns, at the second try.

        Raises:
            FlakyError: At the first try.
        """
        return self._fail_once(context, await run_alone(self.stage, context, call))

    async def run_inner(self, run: RunInner, context: Context, call: Call, /) -> Context:
        """Run the stages inside, at the second try.

        Raises:
            FlakyError: At the first try.
        """
        return self._fail_once(context, await declared(self.stage).run_inner(run, context, call))

    def _fail_once(self, context: Context, made: Context) -> Context:
        """What was made, but for the first context of each length."""
        if len(context.messages) not in self._met:
            self._met.add(len(context.messages))
            self.failures += 1
            msg = "the stage failed after its work was done"
            raise FlakyError(msg)
        return made


def _inside(name: str, declaration: object) -> object:
    """What the stage inside a flaky one says, in the place of what ``Stage`` says: a property or a method."""

    def said(self: FlakyStage) -> object:
        return getattr(declared(self.stage), name)

    def asked(self: FlakyStage, *args: object) -> object:
        """What the stage inside says when it is asked with the same ``args``."""
        return getattr(declared(self.stage), name)(*args)

    return property(said) if isinstance(declaration, property) else asked


for _name, _declaration in vars(Stage).items():
    if not _name.startswith("_") and _name != "apply" and _name not in vars(FlakyStage):
        setattr(FlakyStage, _name, _inside(_name, _declaration))


@define
class FlakyStore:
    """A store that refuses everything once.

    Args:
        store: The store that keeps what comes again.
        failures: How often it refused.

    Example:
        >>> from agentctx import StoreError
        >>> from agentctx.stores import MemoryStore
        >>> from agentctx.testing import FlakyStore
        >>> try:
        ...     await FlakyStore(MemoryStore()).put(b"a log")
        ... except StoreError:
        ...     print("failed at the first try")
        failed at the first try
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

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.testing import failing_listener
        >>> pipeline = Pipeline(on_compact=failing_listener)
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

    Example:
        >>> from agentctx import Pipeline, TrimRounds
        >>> from agentctx.testing import Recorder, assistant, transcript, user
        >>> turns = user("One?"), assistant("1."), user("Two?"), assistant("2."), user("Three?")
        >>> recorder = Recorder()
        >>> view = await Pipeline(TrimRounds(1), on_compact=recorder).prepare(transcript("openai-chat", *turns))
        >>> len(recorder.events)
        1
    """

    events: list[Compaction] = field(factory=list)

    def __call__(self, event: Compaction) -> None:
        """Remember the event."""
        self.events.append(event)


def fixed_summarizer(text: str) -> Summarizer:
    """A summarizer whose answer is ``text``, whatever it is asked to put into fewer words.

    Example:
        >>> from agentctx import FitContextWindow, Pipeline
        >>> from agentctx.testing import fixed_summarizer
        >>> pipeline = Pipeline(FitContextWindow(), budget=8_000, summarizer=fixed_summarizer("The build failed."))
    """

    async def summarize(_messages: Sequence[Message], _max_tokens: int, /) -> str:
        return text

    return summarize


ANSWERS = {
    "empty": "",
    "whitespace": " \n\t ",
    "tool call": '{"name": "read", "arguments": {"path": "a"}}',
    "refusal": "I'm sorry, but I can't help with that.",
    "longer than the input": "and so on " * 20_000,
}
FAULTS = ("raises", "hangs", "is cancelled", "is full", "is cut off", *ANSWERS)
"""What ``Faults`` can do; what it answers, and that it is cut off, it does only where it is a summarizer."""


@define(eq=False)
class Faults:
    """A summarizer, a store and a listener that work, but for the one time that they are reached for the ``at``-th.

    Args:
        fault: What goes wrong then, one of ``FAULTS``.
        at: When; 0: never.
        answer: What the summarizer says else.
        store: What keeps the contents.
        reached: What was reached so far, in order: "summarizer", "put", "get" or "listener"; a part that works is
            reached before its work and behind it.
        scope: Cancelled by "is cancelled", which waits for it.

    Example:
        >>> from agentctx import FitContextWindow, Pipeline
        >>> from agentctx.testing import Faults
        >>> faults = Faults("is full", at=1)
        >>> pipeline = Pipeline(FitContextWindow(), budget=8_000, store=faults, on_compact=faults.listen)
    """

    fault: str = "raises"
    at: int = 0
    answer: str = "Goal: as before"
    store: Store = field(factory=MemoryStore)
    reached: list[str] = field(factory=list)
    scope: anyio.CancelScope | None = None

    async def summarize(self, _messages: Sequence[Message], _most: int, /) -> str:
        """Say ``answer``.

        Raises:
            SummaryError: If it is cut off.
        """
        before = await self._reach("summarizer")
        after = await self._reach("summarizer")
        if self.fault == "is cut off" and (before or after):
            msg = "the answer was cut off"
            raise SummaryError(msg)
        return ANSWERS[self.fault] if self.fault in ANSWERS and (before or after) else self.answer

    async def put(self, content: bytes, /) -> str:
        """Keep ``content``."""
        await self._reach("put")
        handle = await self.store.put(content)
        await self._reach("put")
        return handle

    async def get(self, handle: str, /) -> bytes:
        """What was put under ``handle``."""
        await self._reach("get")
        return await self.store.get(handle)

    async def listen(self, _event: Compaction) -> None:
        """Be told of a compaction."""
        await self._reach("listener")

    async def _reach(self, part: str) -> bool:
        """Wait, and fail where it is time; whether it is."""
        self.reached.append(part)
        now = len(self.reached) == self.at
        await anyio.lowlevel.checkpoint()
        if now and self.fault == "raises":
            msg = f"the {part} failed"
            raise FlakyError(msg)
        if now and self.fault == "is full":
            raise OSError(ENOSPC, "No space left on device")
        if now and self.fault == "is cancelled" and self.scope is not None:
            self.scope.cancel()
        if now and self.fault in ("hangs", "is cancelled"):
            await anyio.sleep_forever()
        return now
