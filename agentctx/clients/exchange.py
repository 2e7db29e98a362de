"""Prepare, send, and send something smaller once when the provider says that it was too large.

Written once for both kinds of client: for a sync client nothing in here waits, since ``Ways.wait`` blocks instead.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from attrs import define, frozen

from agentctx.clients.bridge import blocking
from agentctx.clients.conversations import Conversations
from agentctx.clients.model_call import ModelCall, begin
from agentctx.clients.proxy import NotSent
from agentctx.core.message import Native
from agentctx.errors import AgentctxError, ContextOverflow
from agentctx.providers.adapter import Adapter, Body
from agentctx.providers.overflow import classify_error

if TYPE_CHECKING:
    from agentctx.clients.streams import Started

T = TypeVar("T")
Send = Callable[[dict[str, Any]], Awaitable[Any]]
"""Sends a request with this body and returns the SDK's answer."""
Again = Callable[[Exception], Awaitable["Answer | None"]]
"""Sends something smaller after an error; None when it was no overflow, or nothing smaller was taken."""


class Refused(Exception):
    """An answer that tells of an error which its SDK does not raise.

    Args:
        body: The error as the provider wrote it.
    """

    def __init__(self, body: Native) -> None:
        super().__init__(str(body)[:500])
        self.body = body


class Wait(Protocol):
    """Runs an async function to its end, by waiting for it or by blocking."""

    def __call__(self, function: Callable[..., Awaitable[T]], *args: Native) -> Coroutine[Native, Native, T]:
        """The function's result."""
        ...


async def waiting(function: Callable[..., Awaitable[T]], *args: Native) -> T:
    """Wait for it: for async clients."""
    return await function(*args)


async def blocked(function: Callable[..., Awaitable[T]], *args: Native) -> T:
    """Block until it is done: for sync clients."""
    return blocking(function, *args)


@define
class Answer:
    """What came back from one request.

    Args:
        value: What the SDK returned.
        error: What it raised instead.
        refusal: The error that was found in what it returned, or read ahead in its stream.
        close: Lets go of a stream that nobody will read.
        stream: The stream in what it returned, if it is one.
    """

    value: Any = None
    error: Exception | None = None
    refusal: Exception | None = None
    close: Callable[[], Awaitable[object]] | None = None
    stream: Started | None = None

    @property
    def too_large(self) -> Exception | None:
        """The error, when it says that the request was too large."""
        said = self.error or self.refusal
        return said if said is not None and classify_error(said) is not None else None

    async def drop(self) -> None:
        """Let go of it: nobody will read it."""
        if self.close is not None:
            await self.close()

    def given(self) -> Native:
        """What the SDK returned; what it raised is raised."""
        if self.error is not None:
            raise self.error
        return self.value


class Open(Protocol):
    """Looks into what an SDK returned: usage is recorded, of a stream when it ends."""

    def __call__(self, value: object, call: ModelCall, /) -> Awaitable[Answer]:
        """The answer."""
        ...


@frozen
class Ways:
    """How one SDK's client answers.

    Args:
        errors: What it raises when a provider refuses.
        open: Looks into what it returned.
        wait: Runs what waits.
        not_sent: Its own error for a request that is too large, raised where nothing was sent.
    """

    errors: tuple[type[Exception], ...]
    open: Open
    wait: Wait
    not_sent: type[NotSent]


async def exchange(conversations: Conversations, adapter: Adapter, body: Body, send: Send, ways: Ways) -> Native:
    """The answer to a request: prepared, sent, and sent once more when it was too large and can be made smaller.

    Raises:
        AgentctxError: As ``prepare`` does; nothing was sent then.
    """
    call = await begun(conversations, adapter, body, ways)
    return await send(dict(body)) if call is None else await answer(call, send, ways)


async def begun(conversations: Conversations, adapter: Adapter, body: Body, ways: Ways) -> ModelCall | None:
    """The prepared request; None when there is nothing in it to prepare.

    Raises:
        ContextOverflow: If what must stay is larger than the budget: as the SDK's own error, too.
        AgentctxError: As ``prepare`` does.
    """
    try:
        return await ways.wait(begin, conversations, adapter, body)
    except ContextOverflow as error:
        raise ways.not_sent.of(error) from error


async def answer(call: ModelCall, send: Send, ways: Ways) -> Native:
    """The answer to a prepared request; it is sent once more when it was too large and can be made smaller.

    A second overflow in a row gives what the first gave. No request is sent again after its answer's first content; up
    to there, a stream is restarted by itself while it is read.

    Raises:
        AgentctxError: If something broke while the smaller request was prepared; caused by the client's error.
    """
    first = await _attempt(call, send, ways)
    if first.stream is not None:
        first.stream.held.again = partial(_again, call, send, ways)
    if first.too_large is None or not await _shrunk(call, first, first.too_large, ways):
        return first.given()
    second = await _attempt(call, send, ways)
    kept, lost = (first, second) if second.too_large is not None else (second, first)
    await lost.drop()
    return kept.given()


async def _again(call: ModelCall, send: Send, ways: Ways, error: Exception) -> Answer | None:
    """The stream that answers a smaller request, after an overflow in one that had not said anything yet."""
    if classify_error(error) is None or not await ways.wait(call.shrink, error):
        return None
    second = await _attempt(call, send, ways)
    if second.stream is not None:
        second.refusal = await second.stream.refusal()
    if second.too_large is not None:
        await second.drop()
        return None
    second.given()
    return second


async def _shrunk(call: ModelCall, first: Answer, error: Exception, ways: Ways) -> bool:
    try:
        return await ways.wait(call.shrink, error)
    except AgentctxError as failed:
        await first.drop()
        raise failed from error


async def _attempt(call: ModelCall, send: Send, ways: Ways) -> Answer:
    try:
        value = await send(call.written())
    except ways.errors as error:
        return Answer(error=error)
    return await ways.open(value, call)
