"""The answer to a request, whole or as a stream: sent once more where it was too large, and its usage recorded.

A provider may tell within a stream that the request was too large. Up to the first content a smaller request is sent
then, and the stream goes on with its answer: an event whose like the caller has read (a role, ``response.created``)
does not come again, and later events have the id that the caller has read. Nothing is held back for that, so a stream
begins when the provider's own would. The usage is recorded at the stream's last event, or where its reader closes it.

Written once for both kinds of client: for a sync client nothing in here waits, since ``Ways.wait`` blocks instead.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextvars import ContextVar
from functools import partial, wraps
from inspect import isawaitable
from typing import Any, ParamSpec, TypeVar

from attrs import define, field, frozen

from agentctx.clients.model_call import Conversations, ModelCall, begin
from agentctx.errors import AgentctxError, ContextOverflow
from agentctx.formats.adapter import Adapter, Body, get
from agentctx.formats.overflow import classify_error
from agentctx.message import Native
from agentctx.session.blocking import blocking, drive

P = ParamSpec("P")
T = TypeVar("T")

Send = Callable[[dict[str, Any]], Awaitable[Any]]
"""Sends a request with this body and returns the answer."""
Again = Callable[[Exception], Awaitable["Answer | None"]]
"""Sends something smaller after an error; None when it was no overflow, or nothing smaller was taken."""
Open = Callable[[Any, ModelCall, "Ways"], Awaitable["Answer"]]
"""Looks into an answer: usage is recorded, of a stream at its end."""


async def begun(
    conversations: Conversations,
    adapter: Adapter,
    body: Body,
    ways: Ways,
    refuse: Callable[[ContextOverflow], Exception],
) -> ModelCall | None:
    """Return the prepared request; None when there is nothing in it to prepare.

    Raises:
        Exception: The SDK's own error for a request that cannot be made to fit, as ``refuse`` makes it, caused by the
            ``ContextOverflow``.
    """
    try:
        return await ways.wait(begin, conversations, adapter, body)
    except ContextOverflow as error:
        raise refuse(error) from error


_UNANSWERED: ContextVar[tuple[Unanswered, ...]] = ContextVar("agentctx_unanswered", default=())
"""The requests of this task that have no answer, newest first."""
MOST_UNANSWERED = 4
"""So many are remembered: a client may be wrapped more than once."""


@define(eq=False)
class Unanswered:
    """A request that was sent and has no answer.

    Args:
        request: The request as it came.
        whose: The session that it belongs to, or the name that a key gives its conversation.
        call: The request as it was prepared.
        is_tried_again: Whether it was sent once more: a task that was begun meanwhile is not that.
    """

    request: object
    whose: object
    call: ModelCall
    is_tried_again: bool = False


def unanswered(conversations: Conversations, request: object, body: Body) -> ModelCall | None:
    """Return the call that is tried again: the same request for the same conversation, with no answer between."""
    for before in _UNANSWERED.get():
        if before.call.conversations is conversations and before.request == request:
            if before.is_tried_again or before.whose != conversations.whose(body):
                return None
            before.is_tried_again = True
            return before.call
    return None


def note_unanswered(request: object, call: ModelCall, *, answered: bool) -> None:
    """Remember a request that has no answer, or forget it since it has one."""
    others = tuple(before for before in _UNANSWERED.get() if before.call.conversations is not call.conversations)
    newest = () if answered else (Unanswered(request, call.conversations.whose(call.body), call),)
    _UNANSWERED.set((*newest, *others)[:MOST_UNANSWERED])


async def answer(call: ModelCall, send: Send, ways: Ways) -> Native:
    """The answer to a prepared request; it is sent once more when it was too large and can be made smaller.

    A second overflow in a row gives what the first gave. No request is sent again after its answer's first content; up
    to there, a stream is restarted by itself while it is read.
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
    if not await ways.wait(call.shrink, error):
        return None
    second = await _attempt(call, send, ways)
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
    came = await ways.open(value, call, ways)
    await call.kept(waits=ways.waits)
    return came


@frozen
class Ways:
    """How one SDK's client answers.

    Args:
        errors: The errors by which it refuses a request.
        open: Looks into an answer.
        waits: Whether the client is async; for a sync one nothing here waits, since ``wait`` blocks instead.
    """

    errors: tuple[type[Exception], ...]
    open: Open
    waits: bool

    async def wait(self, function: Callable[..., Awaitable[T]], *args: Native) -> T:
        """Run an async function to its end, by waiting for it or by blocking."""
        return await function(*args) if self.waits else blocking(function, *args)

    async def sent(self, answer: Native) -> Native:
        """What a call of the client's own returned; an async client's is awaited."""
        return await answer if self.waits else answer

    def plain(self, function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Any]:
        """An async function as it is for an async client, as a plain one for a sync client."""
        if self.waits:
            return function

        @wraps(function)
        def call(*args: P.args, **more: P.kwargs) -> T:
            return drive(function(*args, **more))

        return call


@define
class Answer:
    """What came back from one request.

    Args:
        refusal: The error that was found in what it returned.
        close: Lets go of a stream that nobody will read.
    """

    value: Native = None
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


class Refused(Exception):
    """An answer that tells of an error, where its SDK has not raised its own."""

    def __init__(self, body: Native, status_code: int | None = None) -> None:
        super().__init__(str(body)[:500])
        self.body = body
        self.status_code = status_code


def opened(value: object, said: Native, call: ModelCall) -> Answer:
    """An answer that came whole: the error that it tells of, else its usage is recorded.

    Args:
        value: What the SDK returned.
        said: What the API said, as its adapter takes it; None when that cannot be read.
        call: The call that it answers.
    """
    refused = call.adapter.failure(said)
    if refused is not None:
        return Answer(value, refusal=Refused(refused))
    call.learn(call.adapter.usage(said), call.adapter.applied_edits(said))
    return Answer(value)


Pull = Callable[[], Awaitable[Any]]
"""Reads the next event; raises StopAsyncIteration at the end."""
Close = Callable[[], Any]
"""Lets go of a stream; what it returns is awaited where it can be."""


@define
class Held:
    """A stream on its way to the caller.

    Args:
        errors: The errors by which its SDK tells of a refusal within it.
        waits: Whether the client is async.
        read: Returns the JSON of an event, as the API's adapter takes it; None when it has none.
        tells: Tells whether an event behind the first content is to be read.
        rename: Returns an event with the second id in the place of the first.
        begun: Whether the first content, or an error in its place, was read: nothing is sent again from then on.
        seen: The kinds of the events that the caller has read before the first content.
        identity: The id of the answer, as its events have it.
        again: Sends a smaller request, once.
        second: The answer to the smaller request, which is read instead.
        goes_on: Whether this is such an answer.
        ended: Whether the last event was handed over.
    """

    call: ModelCall
    errors: tuple[type[Exception], ...]
    waits: bool
    read: Callable[[Any], Any] = lambda event: event
    tells: Callable[[Any], bool] = lambda _event: True
    rename: Callable[[Any, str, str], Any] | None = None
    usage: Native = None
    edits: Native = None
    begun: bool = False
    seen: set[str | frozenset[str]] = field(factory=set)
    identity: str | None = None
    ended: bool = False
    billed: bool = False
    over: bool = False
    again: Again | None = None
    second: Started | None = None
    goes_on: bool = False

    async def next(self, pull: Pull, close: Close) -> Native:
        """Return the next event: of the stream, or of the one that is read instead."""
        if self.second is None:
            event, refused = await self._event(pull)
            if refused is None or not await self._replaced(refused, close):
                return await self._handed(event, refused)
        return await self._of_second()

    async def _event(self, pull: Pull) -> tuple[Any, Exception | None]:
        """Return the next event, and the error that it tells of; no event where the stream raised the error."""
        if self.over:
            raise StopAsyncIteration
        try:
            event = await pull()
        except StopAsyncIteration:
            self.ended = True
            await self.let_go()
            raise
        except self.errors as error:
            if self.begun:
                raise
            return None, error
        return event, None if self.begun else self._looked_at(event)

    def _looked_at(self, event: Native) -> Exception | None:
        """Return the error that an event before the first content tells of."""
        body = self.read(event)
        if body is None:
            return None
        self.identity = self.identity or _identity(body)
        refused = self.call.adapter.failure(body)
        self.begun = refused is not None or self.call.adapter.begins(body)
        return None if refused is None else Refused(refused)

    async def _handed(self, event: Native, error: Exception | None) -> Native:
        if event is None and error is not None:
            self.over = True
            raise error
        body = self.read(event) if not self.begun or self.tells(event) else None
        if not self.begun:
            self.seen.add(_kind(body))
        if body is not None:
            self.usage = self.call.adapter.usage(body) or self.usage
            edits = self.call.adapter.applied_edits(body)
            self.edits = self.edits if edits is None else edits
            if self.call.adapter.ends(body):
                self.ended = True
                await self.finish()
        return event

    async def _replaced(self, error: Exception, close: Close) -> bool:
        """Send a smaller request; tell whether its answer is read from now on."""
        again, self.again = self.again, None
        if again is None or classify_error(error) is None:
            return False
        self.over = True
        closed = close()  # first, since a small pool has one connection
        if isawaitable(closed):
            await closed
        second = await again(error)
        if second is None or second.stream is None:
            return False
        self.second, self.usage, self.edits = second.stream, None, None
        self.second.held.goes_on = True
        return True

    async def _of_second(self) -> Native:
        """Return the next event of the second answer whose like the caller has not read, under the id that was read."""
        assert self.second is not None  # noqa: S101 - as the caller has seen to
        held = self.second.held
        event = await self.second.next()
        while not held.begun and _kind(self.read(event)) in self.seen:
            event = await self.second.next()
        self.ended = held.ended
        if self.rename is None or not self.seen or not self.identity or not held.identity:
            return event
        return self.rename(event, held.identity, self.identity)

    async def finish(self) -> None:
        """Record the usage, as far as it was told, once."""
        usage, self.usage = self.usage, None
        if usage is None or self.billed:
            return
        self.billed = True
        self.call.learn(usage, self.edits)
        await self.call.kept(waits=self.waits)

    async def let_go(self) -> None:
        """Record the usage, since nobody reads on."""
        self.over = True
        await self.finish()
        if self.ended and not self.billed:
            self.call.untold()
            self.billed = True
        if self.second is not None:
            await self.second.drop()


def _kind(body: Native) -> str | frozenset[str]:
    """Return what tells an event from those of another kind, in every API."""
    named = get(body, "type")
    if isinstance(named, str):
        return named
    return frozenset(body) if isinstance(body, Mapping) else type(body).__qualname__


_IDENTITIES = (("response", "id"), ("message", "id"), ("id",), ("responseId",))
"""The places in which an event has the id of the answer, in every API."""


def _identity(body: Native) -> str | None:
    """Return the id that an event gives the answer."""
    names = (get(body, *place) for place in _IDENTITIES)
    return next((name for name in names if isinstance(name, str) and name), None)


def rename(body: dict[str, Any], name: str, other: str) -> bool:
    """Write another id of the answer into an event in the place of ``name``; tell whether it stood there."""
    places = [place for place in _IDENTITIES if get(body, *place) == name]
    for *path, key in places:
        get(body, *path)[key] = other
    return bool(places)


@frozen
class Started:
    """A stream, and how to read it."""

    held: Held
    pull: Pull
    close: Close

    async def next(self) -> Native:
        """Return the next event."""
        return await self.held.next(self.pull, self.close)

    async def drop(self) -> None:
        """Let go of it."""
        await self.held.let_go()
        closed = self.close()
        if isawaitable(closed):
            await closed


def pulling(step: Callable[[], Any]) -> Pull:
    """A sync iterator's ``__next__`` as a ``Pull`` that never waits."""

    async def pull() -> Native:
        try:
            return step()
        except StopIteration:
            raise StopAsyncIteration from None

    return pull


END = "[DONE]"
"""The text of the last event of Chat Completions, which is no JSON."""
END_OF_EVENT = re.compile(rb"\r\n\r\n|\n\n|\r\r")


def said_in(event: bytes) -> Native:
    """The JSON of an event, or of a document in the place of a stream; None when it has none."""
    data = b"\n".join(line[5:] for line in event.splitlines() if line.startswith(b"data:"))
    return {"type": END} if data.strip() == END.encode() else object_in(data or event)


def object_in(data: bytes) -> dict[str, Any] | None:
    """The JSON object that bytes are; None for anything else."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None
