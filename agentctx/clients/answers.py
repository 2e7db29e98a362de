"""The answer to a request, whole or as a stream: sent once more when it was too large, and its usage recorded.

A provider may say within a stream that the request was too large. Up to the first content a smaller one is sent then,
and the stream goes on with its answer: what the caller has seen by then (a role, ``response.created``) is not said
again. Nothing is held back for that, so a stream begins when the SDK's own would. It ends where the SDK's ends or where
its reader closes it; by then some providers have told the prompt's size.

The caller gets the SDK's own objects. Each is of a class derived from its own, of the same name, in whose methods
events and bytes are looked at while they pass by.

Written once for both kinds of client: for a sync client nothing in here waits, since ``Ways.wait`` blocks instead.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import (
    AsyncGenerator,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
    Set as AbstractSet,
)
from contextlib import aclosing, closing
from functools import cache, cached_property, partial, wraps
from inspect import getattr_static, isawaitable
from typing import Any, ParamSpec, TypeVar

from attrs import define, field, frozen

from agentctx.clients.bridge import blocking, drive
from agentctx.clients.model_call import Conversations, ModelCall, begin
from agentctx.core.message import Native
from agentctx.errors import AgentctxError, BigItem, ContextOverflow
from agentctx.providers.adapter import Adapter, Body, get
from agentctx.providers.overflow import classify_error

P = ParamSpec("P")
T = TypeVar("T")

Send = Callable[[dict[str, Any]], Awaitable[Any]]
"""Sends a request with this body and returns the SDK's answer."""
Again = Callable[[Exception], Awaitable["Answer | None"]]
"""Sends something smaller after an error; None when it was no overflow, or nothing smaller was taken."""
Open = Callable[[Any, ModelCall, "Ways"], Awaitable["Answer"]]
"""Looks into what an SDK returned: usage is recorded, of a stream when it ends."""


async def exchange(conversations: Conversations, adapter: Adapter, body: Body, send: Send, ways: Ways) -> Native:
    """The answer to a request: prepared, sent, and sent once more when it was too large and can be made smaller."""
    call = await begun(conversations, adapter, body, ways)
    return await send(dict(body)) if call is None else await answer(call, send, ways)


async def begun(conversations: Conversations, adapter: Adapter, body: Body, ways: Ways) -> ModelCall | None:
    """The prepared request; None when there is nothing in it to prepare."""
    try:
        return await ways.wait(begin, conversations, adapter, body)
    except ContextOverflow as error:
        raise ways.not_sent(error) from error


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
    came = await ways.open(value, call, ways)
    await call.kept(waits=ways.waits)
    return came


@frozen
class Ways:
    """How one SDK's client answers.

    Args:
        not_sent: Makes its own error for a request that is too large, raised where nothing was sent.
        waits: Whether the client is async; of a sync one nothing here waits, since ``wait`` blocks instead.
    """

    errors: tuple[type[Exception], ...]
    open: Open
    not_sent: Callable[[ContextOverflow], Exception]
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
        refusal: The error that was found in what it returned, or read ahead in its stream.
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
    """An answer that tells of an error which its SDK does not raise."""

    def __init__(self, body: Native) -> None:
        super().__init__(str(body)[:500])
        self.body = body


class RequestRefused(Exception):
    """An answer whose status tells of an error, before an SDK raises its own."""

    def __init__(self, status_code: int, body: str) -> None:
        super().__init__(body)
        self.status_code = status_code
        self.body = body


class NotSent(ContextOverflow):
    """A ``ContextOverflow`` that is the SDK's own error for a request that is too large, too.

    Each SDK's file derives its class from this and from the SDK's, so that both ``except`` clauses catch it. It can be
    pickled, and it has the attributes that the SDK's error has: status 400, a message, a body, a response.
    """

    status_code: Native = 400

    def __init__(self, tokens: int, limit: int, biggest: Sequence[BigItem] = ()) -> None:
        self.tell(str(ContextOverflow(tokens, limit, biggest)))
        self.tokens = tokens
        self.limit = limit
        self.biggest = tuple(biggest)

    def tell(self, message: str) -> None:
        """Be built as the SDK builds its error."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        """What it is pickled as."""
        return type(self), (self.tokens, self.limit, self.biggest)

    @classmethod
    def of(cls, error: ContextOverflow) -> NotSent:
        """The same overflow as the SDK's error."""
        return cls(error.tokens, error.limit, error.biggest)


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


def _as_it_is(event: Native) -> Native:
    return event


@define
class Held:
    """A stream on its way to the caller.

    Args:
        waits: Whether the client is async.
        read: What an event says, as the API's adapter takes it; None when it says nothing.
        begun: Whether the first content, or an error in its place, was read: nothing is sent again from then on.
        seen: The kinds of the events that the caller has seen before the first content.
        second: The answer to the smaller request, which is read instead.
        under: The same stream as a client sees it that was wrapped twice.
    """

    call: ModelCall
    errors: tuple[type[Exception], ...]
    waits: bool
    read: Callable[[Any], Any] = _as_it_is
    waiting: deque[Any] = field(factory=deque)
    failure: Exception | None = None
    usage: Native = None
    edits: Native = None
    begun: bool = False
    seen: set[str | frozenset[str]] = field(factory=set)
    over: bool = False
    again: Again | None = None
    second: Answer | None = None
    under: Held | None = None

    async def read_ahead(self, pull: Pull) -> Exception | None:
        """Read up to the first content; the error that stands there instead of it, if one does."""
        while not self.begun and not self.over:
            try:
                event = await self._pulled(pull)
            except StopAsyncIteration:
                self.over = True
                return None
            except self.errors as error:
                self.failure = error
                return error
            self.waiting.append(event)
            refused = self._looked_at(event)
            if refused is not None:
                return refused
        return None

    async def next(self, pull: Pull, close: Close) -> Native:
        """The next event, of those read ahead, of the stream, or of the one that was sent instead of it."""
        if self.second is None:
            event, refused = await self._event(pull)
            if refused is None or not await self._replaced(refused, close):
                return self._handed(event, refused)
        assert self.second is not None  # noqa: S101 - ``_replaced`` has set it
        assert self.second.stream is not None  # noqa: S101 - a stream is answered by a stream
        return await self.second.stream.next()

    async def _event(self, pull: Pull) -> tuple[Any, Exception | None]:
        """The next event, and the error that it tells of; no event where the stream raised the error."""
        if self.waiting:
            return self.waiting.popleft(), None
        try:
            event = await self._pulled(pull)
        except StopAsyncIteration:
            if self.usage is None and not self.over:
                self.call.untold()
            await self.finish()
            raise
        except self.errors as error:
            if self.begun:
                raise
            return None, error
        return event, None if self.begun else self._looked_at(event)

    def _looked_at(self, event: Native) -> Exception | None:
        """The error that an event before the first content tells of."""
        said = self.read(event)
        if said is None:
            return None
        refused = self.call.adapter.failure(said)
        self.begun = refused is not None or self.call.adapter.begins(said)
        return None if refused is None else Refused(refused)

    def _handed(self, event: Native, error: Exception | None) -> Native:
        if event is None and error is not None:
            self.over = True
            raise error
        said = self.read(event)
        if not self.begun:
            self.seen.add(_kind(said))
        self._bill(said)
        return event

    def _bill(self, said: Native) -> None:
        if said is not None:
            self.usage = self.call.adapter.usage(said) or self.usage
            found = self.call.adapter.applied_edits(said)
            self.edits = self.edits if found is None else found

    async def _replaced(self, error: Exception, close: Close) -> bool:
        """Whether the answer to a smaller request is read from now on."""
        again, self.again = self.again, None
        second = None if again is None else await again(error)
        if second is None or second.stream is None:
            return False
        second.stream.held.skip(self.seen)
        self.second, self.usage, self.edits = second, None, None
        closed = close()
        if isawaitable(closed):
            await closed
        return True

    def skip(self, seen: AbstractSet[str | frozenset[str]]) -> None:
        """Leave out the events before the first content whose like the caller has seen."""
        while len(self.waiting) > 1 and _kind(said := self.read(self.waiting[0])) in seen:
            self._bill(said)
            self.waiting.popleft()

    async def _pulled(self, pull: Pull) -> Native:
        if self.failure is not None:
            failure, self.failure, self.over = self.failure, None, True
            raise failure
        if self.over:
            raise StopAsyncIteration
        return await (pull() if self.under is None else self.under.next(pull, _nothing))

    async def finish(self) -> None:
        """Record the usage, once."""
        usage, self.usage, self.over = self.usage, None, True
        self.call.learn(usage, self.edits)
        if usage is not None:
            await self.call.kept(waits=self.waits)

    async def let_go(self) -> None:
        """The reader closes the stream."""
        await self.finish()
        if self.under is not None:
            await self.under.let_go()
        if self.second is not None:
            await self.second.drop()


def _kind(said: Native) -> str | frozenset[str]:
    """What tells an event from those of another kind, in every API."""
    named = get(said, "type")
    if isinstance(named, str):
        return named
    return frozenset(said) if isinstance(said, Mapping) else type(said).__qualname__


@frozen
class Started:
    """A stream, and how to read it."""

    held: Held
    pull: Pull
    close: Close

    async def refusal(self) -> Exception | None:
        """Read up to the first content; the error that stands there instead of it, if one does."""
        return await self.held.read_ahead(self.pull)

    async def next(self) -> Native:
        """The next event."""
        return await self.held.next(self.pull, self.close)

    async def drop(self) -> None:
        """Let go of it."""
        await self.held.let_go()
        closed = self.close()
        if isawaitable(closed):
            await closed


def hold(stream: Native, call: ModelCall, ways: Ways, value: Native = None) -> Answer:
    """Look at what an SDK's stream object hands out, from now on; ``value`` is what holds the stream, if not itself."""
    held = Held(call, ways.errors, ways.waits, under=getattr(stream, "_agentctx_held", None))
    stream._agentctx_held = held  # noqa: SLF001 - our own attribute
    if held.under is None:
        kind = type(stream)
        # A class that an SDK makes for one call must not be remembered: it would keep the call.
        ahead = _ahead if "<locals>" in kind.__qualname__ else _ahead_once
        stream.__class__ = ahead(kind, ways.waits)
    return _answer(stream if value is None else value, _started(stream, waits=ways.waits))


def _ahead(kind: type, waits: bool) -> type:  # noqa: FBT001 - a key of the cache
    """The stream's class, where it is read through what is held."""
    methods = _ASYNC if waits else _SYNC
    return derived(kind, {name: method for name, method in methods.items() if hasattr(kind, name)})


_ahead_once = cache(_ahead)


async def _anext(stream: Native) -> Native:
    return await _started(stream, waits=True).next()


def _next(stream: Native) -> Native:
    try:
        return drive(_started(stream, waits=False).next())
    except StopAsyncIteration:
        raise StopIteration from None


def _itself(stream: T) -> T:
    return stream


async def _close_async(stream: Native) -> None:
    await _started(stream, waits=True).drop()


def _close(stream: Native) -> None:
    drive(_started(stream, waits=False).drop())


def _started(stream: Native, *, waits: bool) -> Started:
    """A stream object that was put in front; made anew each time, so that it is freed as soon as it is dropped."""
    kind: Native = type(stream).__base__
    pull = partial(kind.__anext__, stream) if waits else pulling(partial(kind.__next__, stream))
    return Started(stream._agentctx_held, pull, _closing(kind, stream))  # noqa: SLF001 - ours


def _closing(kind: Native, stream: Native) -> Close:
    close = getattr(kind, "close", None) or getattr(kind, "aclose", None)
    return _nothing if close is None else partial(close, stream)


def _nothing() -> None:
    """Close nothing."""


_ASYNC = {"__anext__": _anext, "__aiter__": _itself, "close": _close_async, "aclose": _close_async}
_SYNC = {"__next__": _next, "__iter__": _itself, "close": _close}


def follow(
    stream: Native, call: ModelCall, ways: Ways, close: Close | None = None, read: Callable[[Any], Any] = _as_it_is
) -> Answer:
    """Look at what a generator, or an async one, yields; the answer is another one."""
    pull = stream.__anext__ if ways.waits else pulling(stream.__next__)
    started = Started(
        Held(call, ways.errors, ways.waits, read), pull, close or (stream.aclose if ways.waits else stream.close)
    )
    return _answer((_rest_async if ways.waits else _rest)(stream, started), started)


async def _rest_async(stream: AsyncGenerator[Any], started: Started) -> AsyncGenerator[Any]:
    async with aclosing(stream), aclosing(_all(started.next)) as events:
        try:
            async for event in events:
                yield event
        finally:
            await started.held.let_go()


def _rest(stream: Generator[Any], started: Started) -> Generator[Any]:
    with closing(stream):
        try:
            yield from _all_at_once(started.next)
        finally:
            drive(started.held.let_go())


async def _all(pull: Pull) -> AsyncGenerator[Any]:
    while True:
        try:
            item = await pull()
        except StopAsyncIteration:
            return
        yield item


def _all_at_once(pull: Callable[[], Coroutine[Any, Any, Any]]) -> Generator[Any]:
    """What is pulled, where nothing waits."""
    while True:
        try:
            item = drive(pull())
        except StopAsyncIteration:
            return
        yield item


def _answer(value: object, started: Started) -> Answer:
    return Answer(value, close=started.drop, stream=started)


def pulling(step: Callable[[], Any]) -> Pull:
    """A sync iterator's ``__next__`` as a ``Pull`` that never waits."""

    async def pull() -> Native:
        try:
            return step()
        except StopIteration:
            raise StopAsyncIteration from None

    return pull


END_OF_EVENT = re.compile(rb"\r\n\r\n|\n\n|\r\r")


def watch(value: object, http: Native, call: ModelCall, *, waits: bool) -> Answer:
    """Look at a body that only the caller reads, as with ``with_streaming_response``, while it passes by.

    However it is read (parsed, in lines, bytes or at once), the HTTP response hands out decoded bytes: there a body of
    events is followed like any other stream, event by event, and of a body of JSON the usage is recorded at its end.
    """
    under: Started | None = getattr(http, "_agentctx_body", None)  # of a client that was wrapped twice
    pull, close = _body_of(http, waits=waits) if under is None else (under.next, under.drop)
    events = "text/event-stream" in http.headers.get("content-type", "")
    given = _events(pull) if events else _whole(pull, call, waits=waits)
    started = Started(Held(call, (), waits, said_in if events else nothing_said), given, close)
    http._agentctx_body = started  # noqa: SLF001 - our own attribute
    if under is None:
        kind: Native = type(http)
        http.__class__ = _watched(kind, waits)
    return Answer(value, close=started.drop, stream=started if events else None)


def _body_of(http: Native, *, waits: bool) -> tuple[Pull, Close]:
    """How the library's own response is read and closed; of that its own raw bytes are asked for."""
    pull = http.aiter_bytes().__anext__ if waits else pulling(http.iter_bytes().__next__)
    kind: Native = type(http)

    async def next_piece() -> bytes:
        http._agentctx_reads = True  # noqa: SLF001 - our own attribute
        piece: bytes = await pull()
        return piece

    return next_piece, partial(kind.aclose if waits else kind.close, http)


@cache
def _watched(kind: type, waits: bool) -> type:  # noqa: FBT001 - a key of the cache
    """The response's class, where its body is looked at."""
    return derived(kind, _BODY_ASYNC if waits else _BODY_SYNC)


def _events(pull: Callable[[], Awaitable[bytes]]) -> Callable[[], Awaitable[bytes]]:
    """Whole events out of pieces of bytes, each with the blank line that ends it."""
    found: deque[bytes] = deque()
    rest = bytearray()
    looked_at = 0

    async def next_event() -> bytes:
        nonlocal looked_at
        while not found:
            try:
                rest.extend(await pull())
            except StopAsyncIteration:
                if not rest:
                    raise
                found.append(bytes(rest))
                rest.clear()
            while (end := END_OF_EVENT.search(rest, max(0, looked_at - 3))) is not None:
                found.append(bytes(rest[: end.end()]))
                del rest[: end.end()]
                looked_at = 0
            looked_at = len(rest)
        return found.popleft()

    return next_event


def _whole(pull: Pull, call: ModelCall, *, waits: bool) -> Pull:
    """The pieces as they come; when all have come, the usage in them is recorded."""
    seen: list[bytes] = []

    async def next_piece() -> bytes:
        try:
            piece: bytes = await pull()
        except StopAsyncIteration:
            body, seen[:] = object_in(b"".join(seen)), []
            if body is not None:
                call.learn(call.adapter.usage(body), call.adapter.applied_edits(body))
                await call.kept(waits=waits)
            raise
        seen.append(piece)
        return piece

    return next_piece


def events_of(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Whole events out of pieces of bytes that an async iterator yields."""
    return _all(_events(pieces.__anext__))


def said_in(event: bytes) -> Native:
    """The JSON of an event; None when it has none."""
    lines = (line[5:] for line in event.splitlines() if line.startswith(b"data:"))
    return object_in(b"\n".join(lines))


def nothing_said(_piece: bytes) -> None:
    """A piece of a body says nothing alone."""


def object_in(data: bytes) -> dict[str, Any] | None:
    """The JSON object that bytes are; None for anything else."""
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


async def _aiter_bytes(http: Native, chunk_size: int | None = None) -> AsyncGenerator[bytes]:
    kind: Native = type(http).__base__
    pieces = kind.aiter_bytes(http, chunk_size) if _is_read(http) else _all(_pieces(http, chunk_size))
    async with aclosing(pieces):
        async for piece in pieces:
            yield piece


def _iter_bytes(http: Native, chunk_size: int | None = None) -> Generator[bytes]:
    kind: Native = type(http).__base__
    yield from kind.iter_bytes(http, chunk_size) if _is_read(http) else _all_at_once(_pieces(http, chunk_size))


def _pieces(http: Native, size: int | None) -> Callable[[], Coroutine[Any, Any, bytes]]:
    pull: Callable[[], Coroutine[Any, Any, bytes]] = http._agentctx_body.next  # noqa: SLF001 - our own attribute
    return pull if size is None else _sized(pull, size)


def _sized(pull: Pull, size: int) -> Callable[[], Coroutine[Any, Any, bytes]]:
    """The same bytes in pieces of this size."""
    rest = bytearray()

    async def next_piece() -> bytes:
        while len(rest) < size:
            try:
                rest.extend(await pull())
            except StopAsyncIteration:
                if not rest:
                    raise
                break
        piece = bytes(rest[:size])
        del rest[:size]
        return piece

    return next_piece


def _is_read(http: Native) -> bool:
    """Whether the body was read before: then the library hands out what it keeps, or says that it does not."""
    return hasattr(http, "_content") or http.is_stream_consumed


async def _aiter_raw(http: Native, chunk_size: int | None = None) -> AsyncGenerator[bytes]:
    async for piece in _own_raw(http, "aiter_raw")(http, chunk_size):
        yield piece


def _iter_raw(http: Native, chunk_size: int | None = None) -> Generator[bytes]:
    yield from _own_raw(http, "iter_raw")(http, chunk_size)


def _own_raw(http: Native, name: str) -> Native:
    """How raw bytes are read: as all others where they are not encoded, else by the library, and not looked at."""
    methods = (vars(kind).get(name) for kind in type(http).__mro__)
    own = next(each for each in methods if each not in (None, _aiter_raw, _iter_raw))
    plain = http.headers.get("content-encoding", "identity") == "identity"
    if not plain or _is_read(http) or getattr(http, "_agentctx_reads", False):
        return own
    return _aiter_bytes if name == "aiter_raw" else _iter_bytes


async def _aclose_body(http: Native) -> None:
    await http._agentctx_body.drop()  # noqa: SLF001 - our own attribute


def _close_body(http: Native) -> None:
    drive(http._agentctx_body.drop())  # noqa: SLF001 - our own attribute


_BODY_ASYNC = {"aiter_bytes": _aiter_bytes, "aiter_raw": _aiter_raw, "aclose": _aclose_body}
_BODY_SYNC = {"iter_bytes": _iter_bytes, "iter_raw": _iter_raw, "close": _close_body}


def proxy(client: T, methods: Mapping[str, Callable[..., Any]]) -> T:
    """An object of a class derived from the client's, in which some methods are replaced.

    What the client opened (connections, credentials) is used by both, and closing one closes the other. Clients
    derived from the proxy (``with_options``) have the methods too.
    """
    other: Native = object.__new__(derived(type(client), methods))
    for name, value in vars(client).items():
        # A cached resource calls the client that it was made by.
        if not isinstance(getattr_static(type(client), name, None), cached_property):
            other.__dict__[name] = value
    for name, value in _in_slots(client).items():
        object.__setattr__(other, name, value)
    result: T = other
    return result


def _in_slots(client: object) -> Mapping[str, Any]:
    """What a client has beside its ``__dict__``, as one of a class of the user's own may."""
    state: Native = object.__getstate__(client)
    return state[1] if isinstance(state, tuple) else {}


def derived(kind: type, attributes: Mapping[str, Any]) -> type:
    """A class of the same name and origin in which some attributes, mostly methods, are replaced."""
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind,), {**names, **attributes})
