"""What a sink is told: frozen facts about steps, answers and sessions."""

from __future__ import annotations

from collections.abc import Hashable

from attrs import field, frozen

from agentctx.core.message import Native
from agentctx.core.report import Report, SilentTruncationSuspected, View


@frozen
class StepPrepared:
    """A request was prepared: every one, also where nothing was changed.

    Args:
        view: What is to be sent, with its report.
        session: The session's id; None for a stateless call, or where it has none.
        step: The number of the session's step, from 0; None for a stateless call.
        model: The model's name; None when it is not known.
        format: The wire format, ``"anthropic"`` for example; None when it was not named and is not known.
        known_tokens: The size of the history that was passed at the session's step before, in tokens; 0 at the first.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.sinks import StepPrepared
        >>> events = []
        >>> view = await Pipeline(sinks=[events.append]).prepare([{"role": "user", "content": "Hello"}])
        >>> isinstance(events[0], StepPrepared), events[0].report.tokens_after
        (True, 8)
    """

    view: View = field(repr=False)
    session: str | None = None
    step: int | None = None
    model: str | None = None
    format: str | None = None
    known_tokens: int = 0

    @property
    def report(self) -> Report:
        """What was done, with sizes in tokens and how long it took in seconds."""
        return self.view.report


@frozen
class StepRefused:
    """A request could not be prepared: nothing of it was sent. A step that was cancelled is none.

    Args:
        error: What the caller was told: a ``ContextOverflow`` for example, or what a stage of the caller's raised.
        session: The session's id; None for a stateless call, or where it has none.
        model: The model's name; None when it is not known.

    Example:
        >>> from agentctx import ContextOverflow, Pipeline
        >>> events = []
        >>> try:
        ...     await Pipeline(budget=20, sinks=[events.append]).prepare([{"role": "user", "content": "no " * 99}])
        ... except ContextOverflow:
        ...     print(type(events[0].error).__name__)
        ContextOverflow
    """

    error: BaseException
    session: str | None = None
    model: str | None = None


@frozen
class UsageRecorded:
    """A provider has billed a prompt.

    Args:
        usage: As the provider gave it, a dict or an SDK's object.
        billed: The size of the whole prompt in it, in tokens.
        sent: The size of the request by our own count, in tokens.
        session: The session's id, where it has one.
        model: The model's name; None when it is not known.
        format: The wire format; None when it could not be told.

    Example:
        >>> from agentctx import Pipeline
        >>> events = []
        >>> session = Pipeline(sinks=[events.append]).session(model="gpt-5.4")
        >>> view = await session.prepare([{"role": "user", "content": "Hello"}])
        >>> session.record({"prompt_tokens": 9, "completion_tokens": 3})
        >>> events[-1].billed, events[-1].sent
        (9, 8)
    """

    usage: Native = field(repr=False)
    billed: int
    sent: int
    session: str | None = None
    model: str | None = None
    format: str | None = None


@frozen
class OverflowMet:
    """A provider has refused a request as too large, and a smaller one was looked for.

    Args:
        sent: The size of the refused request by our own count, in tokens.
        limit: What the session allows from now on, in tokens; None where nothing was learned.
        recovered: Whether there was a smaller request to send instead.
        session: The session's id, where it has one.
        model: The model's name; None when it is not known.

    Example:
        >>> from agentctx import Pipeline
        >>> events = []
        >>> session = Pipeline(sinks=[events.append]).session(model="gpt-5.4")
        >>> view = await session.prepare([{"role": "user", "content": "Hello"}])
        >>> smaller = await session.recover(ValueError("maximum context length is 5 tokens"))
        >>> events[-1].recovered
        False
    """

    sent: int
    limit: int | None
    recovered: bool
    session: str | None = None
    model: str | None = None


@frozen
class SessionOpened:
    """A ``Sessions`` holds a session in memory from now on. One of ``Pipeline.session`` is the caller's, and not told.

    Args:
        name: The conversation's name.
        loaded: Whether its state was had back; else it begins.

    Example:
        >>> from agentctx import Pipeline, Sessions
        >>> events = []
        >>> sessions = Sessions(Pipeline(sinks=[events.append]))
        >>> async with sessions.open("thread-42"):
        ...     events
        [SessionOpened(name='thread-42', loaded=False)]
    """

    name: Hashable
    loaded: bool


@frozen
class SessionClosed:
    """A ``Sessions`` no longer holds a session in memory.

    Args:
        name: The conversation's name.
        why: ``"capacity"``: there were too many; ``"idle"``: it was unused for too long; ``"closed"``: it was asked
            for.

    Example:
        >>> from agentctx import Pipeline, Sessions
        >>> events = []
        >>> sessions = Sessions(Pipeline(sinks=[events.append]))
        >>> async with sessions.open("thread-42"):
        ...     pass
        >>> await sessions.close("thread-42")
        >>> events[-1]
        SessionClosed(name='thread-42', why='closed')
    """

    name: Hashable
    why: str


@frozen
class SessionSaved:
    """A session's state was written to the store that it is kept in.

    Args:
        name: The conversation's name.
        written: What this save wrote, in bytes.
        bytes: What the store has of the session with it, in bytes.

    Example:
        >>> from agentctx import Pipeline, Sessions
        >>> from agentctx.sinks import SessionSaved
        >>> from agentctx.stores import MemoryStore
        >>> events = []
        >>> sessions = Sessions(Pipeline(sinks=[events.append]), MemoryStore())
        >>> async with sessions.open("thread-42") as session:
        ...     view = await session.prepare([{"role": "user", "content": "Hello"}])
        >>> (saved,) = [event for event in events if isinstance(event, SessionSaved)]
        >>> saved.name, 0 < saved.written <= saved.bytes
        ('thread-42', True)
    """

    name: str
    written: int
    bytes: int


Event = (
    StepPrepared
    | StepRefused
    | UsageRecorded
    | OverflowMet
    | SilentTruncationSuspected
    | SessionOpened
    | SessionSaved
    | SessionClosed
)
"""What a sink may be told. There may be more kinds later: pass over what you do not know."""
