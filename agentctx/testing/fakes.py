"""Fakes: a model that answers by a script, and parts of a pipeline that remember what they see, or fail."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import deepcopy
from errno import ENOSPC
from typing import Any, Literal, Self, get_args

import anyio
import anyio.lowlevel
from attrs import define, field, frozen

from agentctx.engine.plan import as_strategies
from agentctx.engine.run_stages import Holder
from agentctx.errors import ConfigError, StoreError, SummaryError
from agentctx.formats.registry import format_named
from agentctx.message import Context, Message, Native
from agentctx.protocols import (
    Call,
    ContextStrategy,
    Listener,
    RunInner,
    Store,
    Strategy,
    Summarizer,
    TokenCounter,
    When,
)
from agentctx.reports import Compaction
from agentctx.stores import MemoryStore
from agentctx.testing.writers import assistant, transcript
from agentctx.tokens.counting import HeuristicCounter
from agentctx.validators import NOT_NEGATIVE, a, list_of, one_of, whole_number

Kind = Literal["status", "hang", "cut stream", "overflow", "silent truncation"]


@frozen
class ServerFault:
    """What a local server does in the place of an answer, or to it: an entry of its script.

    It is made by ``rate_limit``, ``server_error``, ``hang``, ``cut_stream``, ``overflow`` and ``silent_truncation``.

    Args:
        kind: What goes wrong.
        status: The HTTP status of an error.
        retry_after: Seconds that the server asks to wait.
        after: Pieces of a stream that are sent before it is cut; of an answer that is no stream, half is.
        tokens: What a prompt is cut down to without a word.
        answer: What the model says all the same.

    Raises:
        ConfigError: If it is none that a server has: a status below 400, say.

    Example:
        >>> from agentctx.testing import ServerFault
        >>> ServerFault.rate_limit(retry_after=2).status
        429
    """

    kind: Kind = field(validator=one_of(get_args(Kind)))
    status: int = field(default=500, validator=whole_number(400))
    retry_after: float | None = field(default=None, validator=NOT_NEGATIVE.or_none)
    after: int = field(default=1, validator=whole_number(0))
    tokens: int = field(default=0, validator=whole_number(0))
    answer: Message | None = None

    def __attrs_post_init__(self) -> None:
        """Check that a silent truncation leaves something."""
        if self.kind == "silent truncation":
            whole_number(1).check("ServerFault.tokens", self.tokens)

    @classmethod
    def rate_limit(cls, retry_after: float | None = None) -> Self:
        """Refuse the request with status 429: there were too many.

        Args:
            retry_after: Seconds that the server asks to wait; None: it does not say.

        Raises:
            ConfigError: If it is negative.
        """
        return cls("status", 429, retry_after)

    @classmethod
    def server_error(cls, status: int = 500) -> Self:
        """Refuse the request with status 500, or another above it: 503, or Anthropic's 529."""
        return cls("status", status)

    @classmethod
    def hang(cls) -> Self:
        """Say nothing until the client gives up."""
        return cls("hang")

    @classmethod
    def cut_stream(cls, answer: str | Message = "This answer ends in the middle.", after: int = 1) -> Self:
        """Close the connection in the midst of the answer.

        Args:
            answer: What the model begins to say.
            after: Pieces of the stream that are sent before; of an answer that is no stream, half is.

        Raises:
            ConfigError: If ``after`` is no whole number, or negative.
        """
        return cls("cut stream", after=after, answer=_turn(answer))

    @classmethod
    def overflow(cls) -> Self:
        """Refuse the request as larger than the window, in the provider's words: for a window a tenth smaller."""
        return cls("overflow")

    @classmethod
    def silent_truncation(cls, tokens: int, answer: str | Message = "Done.") -> Self:
        """Answer, having read no more than ``tokens`` of the prompt, which only the usage tells; Ollama does so.

        Args:
            tokens: What the prompt is cut down to, at least 1.
            answer: What the model says all the same.

        Raises:
            ConfigError: If ``tokens`` is no whole number, or below 1.
        """
        return cls("silent truncation", tokens=tokens, answer=_turn(answer))


Scripted = str | Message | Exception | ServerFault
"""An entry of a script: what the model says, an error that is raised, or what a server does wrong."""


_ANSWER = a(get_args(Scripted), "a text, assistant(...), an exception or a fault")


def _listed(answers: Native) -> tuple[Scripted, ...]:
    listed = tuple(answers) if isinstance(answers, Iterable) and not isinstance(answers, str) else (answers,)
    list_of(_ANSWER, "answers").check("ScriptedModel.answers", listed)
    return listed


@define(eq=False)
class ScriptedModel:
    """A model that gives answers of a list, one a call, and remembers what it was asked.

    A call takes the messages that are to be sent, and gives back what to put behind them.

    Args:
        answers: In order: texts, ``assistant(...)`` turns with ``call(...)`` and ``thinking(...)``, or exceptions,
            which are raised. In the script of a server: a ``ServerFault`` in the place of an exception.
        format: The format of the messages.
        requests: What it was asked, in order: requests with messages and tools, as they were then.

    Raises:
        AssertionError: When it is asked more often than there are answers.
        ConfigError: If an answer is none of these, or the format is not known.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.testing import ScriptedModel, assistant, call, result, transcript, user
        >>> model = ScriptedModel([assistant(call("c1", "read", {"path": "a.py"})), "It is empty."])
        >>> session, messages = Pipeline(budget=8_000).session(), transcript("openai-chat", user("What is in a.py?"))
        >>> messages += await model((await session.prepare(messages)).messages)
        >>> messages += transcript("openai-chat", result("c1", ""))
        >>> messages += await model((await session.prepare(messages)).messages)
        >>> messages[-1]["content"]
        'It is empty.'
        >>> model.assert_complete()
    """

    answers: tuple[Scripted, ...] = field(converter=_listed)
    format: str = "openai-chat"
    requests: list[dict[str, Native]] = field(factory=list, init=False, repr=False)
    _taken: int = field(default=0, init=False)
    _beyond: int = field(default=0, init=False)

    def __attrs_post_init__(self) -> None:
        """Check the format."""
        format_named(self.format)

    async def __call__(self, messages: Sequence[Native], tools: Native = None) -> list[Any]:
        """The next answer, as messages of the format."""
        key = format_named(self.format).keys.messages
        told = {} if tools is None else {"tools": deepcopy(tools)}
        self.requests.append({key: deepcopy(list(messages)), **told})
        await anyio.lowlevel.checkpoint()
        answer = self.take()
        if isinstance(answer, ServerFault):
            msg = f"ScriptedModel: {answer.kind} is what a server does: use provider_server, or an exception here"
            raise ConfigError(msg)
        if isinstance(answer, Exception):
            raise answer
        return transcript(self.format, _turn(answer))

    @property
    def next(self) -> Scripted | None:
        """What comes next; None at the end."""
        return self.answers[self._taken] if self._taken < len(self.answers) else None

    def take(self) -> Scripted:
        """What comes next, which is done with then.

        Raises:
            AssertionError: At the end.
        """
        answer = self.next
        if answer is None:
            self._beyond += 1
            raise AssertionError(self.beyond)
        self._taken += 1
        return answer

    @property
    def beyond(self) -> str:
        """What is said when it is asked beyond the end."""
        return f"the script has {len(self.answers)} answers, and the model was asked once more"

    def assert_complete(self) -> None:
        """See that each answer was asked for, and none beyond them.

        Raises:
            AssertionError: If not.
        """
        if self._beyond:
            asked = len(self.answers) + self._beyond
            msg = f"the script has {len(self.answers)} answers, and the model was asked {asked} times"
            raise AssertionError(msg)
        if self.next is not None:
            left = len(self.answers) - self._taken
            msg = f"{left} of {len(self.answers)} answers were not asked for, from this one on: {self.next!r:.200}"
            raise AssertionError(msg)


def _turn(answer: str | Message) -> Message:
    return assistant(answer) if isinstance(answer, str) else answer


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


def _as_strategy(stage: Strategy) -> ContextStrategy:
    return as_strategies("FlakyStage", [stage])[0]


@define
class FlakyStage(Holder):
    """A stage that does its work and then raises, every first time that it meets a context of some length.

    It runs when the stage inside runs, under the name of that stage.

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

    stage: ContextStrategy = field(converter=_as_strategy)
    failures: int = 0
    _met: set[int] = field(factory=set, init=False)

    @property
    def name(self) -> str:
        """The name of the stage inside."""
        return self.stage.name

    @property
    def when(self) -> When:
        """When a session runs the stage inside."""
        return self.stage.when

    @property
    def stages(self) -> tuple[ContextStrategy, ...]:
        """The stage inside."""
        return (self.stage,)

    async def run_inner(self, run: RunInner, context: Context, call: Call, /) -> Context:
        """Run the stage inside, at the second try.

        Raises:
            FlakyError: At the first try.
        """
        after = await run(self.stage, context, call)
        if len(context.messages) not in self._met:
            self._met.add(len(context.messages))
            self.failures += 1
            msg = "the stage failed after its work was done"
            raise FlakyError(msg)
        return after


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


def unlogged(listener: Listener) -> AbstractContextManager[None]:
    """Keep out of the log what it would say of this listener, which fails on purpose; what it says of others stays."""
    return filtered("agentctx", lambda record: not any(each is listener for each in record.args or ()))


@contextmanager
def filtered(log: str, keep: Callable[[logging.LogRecord], bool]) -> Iterator[None]:
    """Keep out of a log what is none of the records to ``keep``."""
    logger = logging.getLogger(log)
    logger.addFilter(keep)
    try:
        yield
    finally:
        logger.removeFilter(keep)


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
