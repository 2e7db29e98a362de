"""The calls that pass an HTTP client: which are calls of a model, and what answers them."""

from __future__ import annotations

import json
import re
import sys
import zlib
from base64 import b64decode
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextvars import ContextVar
from functools import cache, partial, wraps
from inspect import isawaitable
from io import BytesIO
from struct import unpack_from
from types import ModuleType
from typing import Any, ParamSpec, TypeVar

from attrs import define, evolve, field, frozen

from agentctx.clients.model_call import Api, Conversations, ModelCall, begin
from agentctx.errors import AgentctxError, ContextOverflow
from agentctx.formats.overflow import classify_error
from agentctx.formats.registry import Adapter, Body, get
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


class TooLarge(Exception):
    """A body is larger than is taken."""


class Unreadable(Exception):
    """The part of a model call that cannot be prepared, without its content: the call is passed on as it came."""


_ITS_JSON, _ITS_ENCODING, TOO_DEEP = "its JSON", "its content encoding", "what is nested too deep"


def unpacked(raw: bytes, encoding: str | None, most: int | None = None) -> bytes:
    """Return the body of a request without its content encoding.

    Args:
        raw: The bytes as they came.
        encoding: The request's content encoding; None for none.
        most: So many bytes are taken, unpacked; None for any number.

    Raises:
        TooLarge: If it is larger than ``most`` bytes, unpacked.
        Unreadable: If the encoding is none of gzip and deflate, or the bytes are damaged.
    """
    encoding = (encoding or "identity").strip().lower()
    if encoding == "identity":
        return raw
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise Unreadable(_ITS_ENCODING)
    unpacking = zlib.decompressobj(wbits=zlib.MAX_WBITS if encoding == "deflate" else 16 + zlib.MAX_WBITS)
    try:
        plain = unpacking.decompress(raw, 0 if most is None else most + 1)
    except zlib.error:
        raise Unreadable(_ITS_ENCODING) from None
    if most is not None and len(plain) > most:
        raise TooLarge
    if not unpacking.eof:
        raise Unreadable(_ITS_ENCODING)
    return plain


def body_of(plain: bytes) -> dict[str, Native]:
    """Return the body of a model call, which is an object of JSON.

    Raises:
        Unreadable: If it is none; of what is no JSON, such as ``NaN``, the provider judges.
    """
    try:
        body = json.loads(plain, parse_constant=_refused)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise Unreadable(_ITS_JSON)
    return body


def _refused(constant: str) -> Native:
    """Refuse what is no JSON, and Python reads as such."""
    raise ValueError(constant)


def content_of(api: Api, body: Mapping[str, object], written: dict[str, Native]) -> tuple[bytes | None, Sequence[str]]:
    """Return the bytes of a prepared request, and the beta features that it needs; None where nothing has changed.

    Args:
        api: What the request is made by.
        body: The body as it was read.
        written: The body as it was prepared.

    Raises:
        Unreadable: If it is nested deeper than can be written.
    """
    if written == body:
        return None, ()
    sendable, betas = api.sendable(written)
    try:
        return _json(sendable).encode(errors="backslashreplace"), betas  # a lone surrogate as JSON escapes it
    except RecursionError:  # what could just be read need not be writable
        raise Unreadable(TOO_DEEP) from None


def _json(body: Mapping[str, object]) -> str:
    write = partial(json.dumps, body, ensure_ascii=False, separators=(",", ":"))
    try:
        return write(allow_nan=False)
    except ValueError:  # for what is not finite JSON has no word, but a number may be larger than any float
        return _STRING_OR_CONSTANT.sub(lambda token: _IN_JSON.get(token[0], token[0]), write())


_STRING_OR_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|-?Infinity|NaN')
_IN_JSON: Mapping[str, str] = {"Infinity": "1e999", "-Infinity": "-1e999", "NaN": "null"}
"""How a number is written that no float can hold, which Python reads as infinite; nothing where a number is none."""


def with_betas(headers: list[tuple[bytes, bytes]], betas: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """Return header fields that ask for these beta features as well."""
    if not betas:
        return headers
    asked = (value.decode("latin-1").split(",") for name, value in headers if name == _BETAS)
    features = dict.fromkeys([*filter(None, (name.strip() for names in asked for name in names)), *betas])
    others = [(name, value) for name, value in headers if name != _BETAS]
    return [*others, (_BETAS, ",".join(features).encode("latin-1"))]


_BETAS = b"anthropic-beta"


@define(eq=False)
class Reply:
    """The provider's answer to a model call.

    Args:
        response: Its status and header fields; a response of httpx or httpx2.
        whole: Its body, where it was read as a whole.
        stream: Its body otherwise, to be read and then dropped.
    """

    response: Native
    whole: bytes | None = None
    stream: Started | None = None

    async def opened(self, call: ModelCall, ways: Ways) -> Answer:
        """Look into the answer: one that is no stream is read as a whole."""
        response = self.response
        framing = _FRAMINGS.get(response.headers.get("content-type", "").partition(";")[0].strip().lower())
        if framing is None and call.body.get("stream"):  # not every gateway says what it sends
            framing = SERVER_SENT_EVENTS
        if response.is_success and framing is not None:
            self.stream = _relayed(response, call, framing, waits=ways.waits)
            return Answer(self, close=self.stream.drop, stream=self.stream)
        if response.is_success and response.request.url.path.endswith(":streamGenerateContent"):
            self.stream = _listed(response, call, waits=ways.waits)
            return Answer(self, close=self.stream.drop)
        self.whole = await ways.sent(response.aread() if ways.waits else response.read())
        await ways.sent(response.aclose() if ways.waits else response.close())
        if not response.is_success:
            return Answer(self, refusal=Refused(response.text, response.status_code))
        return opened(self, object_in(self.whole), call)


def _bytes_of(response: Native, *, waits: bool) -> tuple[Pull, Close]:
    """Return how the body of a response is read, unpacked, and closed."""
    if waits:
        return response.aiter_bytes().__anext__, response.aclose
    return pulling(response.iter_bytes().__next__), response.close


def stays_packed(response: Native) -> bool:
    """Tell whether an answer is packed in a way that its library does not unpack: it is handed on, and not read."""
    codings = [coding.strip().lower() for coding in response.headers.get_list("content-encoding", split_commas=True)]
    return bool(codings) and not any(coding in _unpacks(library_of(response)) for coding in codings)


def library_of(thing: object) -> ModuleType:
    """Return the HTTP library that a client or a response comes from, httpx or httpx2, also through subclasses."""
    names = (kind.__module__.partition(".")[0] for kind in type(thing).__mro__)
    return sys.modules[next(name for name in names if name in LIBRARIES)]


LIBRARIES = ("httpx", "httpx2")


@cache
def _unpacks(http: ModuleType) -> frozenset[str]:
    """Return the encodings that a library unpacks, by what is installed: it tells every server."""
    with http.Client(transport=http.BaseTransport(), trust_env=False) as client:
        encodings = client.headers["accept-encoding"].split(",")
    return frozenset({"identity", *(encoding.strip() for encoding in encodings)})


def _relayed(response: Native, call: ModelCall, framing: Framing, *, waits: bool) -> Started:
    """Return a stream that is handed on: read for its usage, and restarted where it tells of an overflow."""

    def read(piece: Piece) -> Native:
        return None if piece.event is None else framing.said(piece.event)

    def tells(piece: Piece) -> bool:
        event = b"" if piece.event is None else piece.event.lower()
        return any(word in event for word in _TELLS)

    pull, close = _bytes_of(response, waits=waits)
    held = Held(call, (), waits, read, tells, rename=Piece.renamed, begun=stays_packed(response))
    pieces = Pieces(pull, framing, lambda: held.begun and not held.goes_on)
    return Started(held, pieces.next, close)


_TELLS = (b"usage", b"applied_edits", b"exception", b"message_stop", b"[done]")
"""A word of these is in each event that is to be read once the model has begun to speak."""


LARGEST_EVENT = 16_000_000
"""Bytes of an event, or of a whole document, that are kept until the end; a larger one is handed on, and not read."""


@frozen
class Piece:
    """Bytes to hand on.

    Args:
        data: The bytes.
        event: The event that ends with them; None when none does.
    """

    data: bytes
    event: bytes | None = None

    def renamed(self, name: str, other: str) -> Piece:
        """Return a server-sent event with another id of the answer in the place of ``name``, where the id stands."""
        body = said_in(self.data) if json.dumps(name).encode() in self.data else None
        if body is None or not rename(body, name, other):
            return self
        fields = [line for line in self.data.splitlines() if line and not line.startswith(b"data:")]
        return evolve(
            self, data=b"\n".join([*fields, b"data: " + _json(body).encode(errors="backslashreplace")]) + b"\n\n"
        )


@define(eq=False)
class Pieces:
    """The pieces of a stream: whole events until the model speaks, then bytes as they come.

    Args:
        source: Returns the next bytes of the answer.
        framing: Where events end.
        begun: Tells whether the model speaks.
    """

    source: Pull
    framing: Framing
    begun: Callable[[], bool]
    _ready: deque[Piece] = field(init=False, factory=deque)
    _rest: bytearray = field(init=False, factory=bytearray)
    _handed: int = field(init=False, default=0)
    _looked_at: int = field(init=False, default=0)
    _over: bool = field(init=False, default=False)

    async def next(self) -> Piece:
        """The next one.

        Raises:
            StopAsyncIteration: At the end.
        """
        rest = self._rest
        while not self._ready:
            if len(rest) > self._handed and (self._over or self.begun() or len(rest) > LARGEST_EVENT):
                data = bytes(rest[self._handed :])  # of an event that has not ended
                whole = data if self._over and not self._handed else None  # or of a document that is no stream
                self._handed = len(rest)
                if len(rest) > LARGEST_EVENT:
                    rest.clear()
                    self._handed = self._looked_at = 0
                return Piece(data, whole)
            if self._over:
                raise StopAsyncIteration
            try:
                rest += await self.source()
            except StopAsyncIteration:
                self._over = True
            while (end := self.framing.end(rest, self._looked_at)) is not None:
                event = bytes(rest[:end])
                self._ready.append(Piece(event[self._handed :], event))
                del rest[:end]
                self._handed = self._looked_at = 0
            self._looked_at = len(rest)
        return self._ready.popleft()


@frozen
class Framing:
    """How a stream consists of events.

    Args:
        end: The length of the first event in what has come; None when its end has not, as before within the bytes that
            were looked at.
        said: What an event says; None when it says nothing.
    """

    end: Callable[[bytearray, int], int | None]
    said: Callable[[bytes], Native]


def _end_of_event(rest: bytearray, looked_at: int) -> int | None:
    """Behind the blank line."""
    blank = END_OF_EVENT.search(rest, max(0, looked_at - 3))
    return None if blank is None else blank.end()


SERVER_SENT_EVENTS = Framing(_end_of_event, said_in)


def whole_events(pull: Pull) -> Pull:
    """Return how server-sent events are read whole, each with the blank line that ends it, out of pieces of bytes."""
    pieces = Pieces(pull, SERVER_SENT_EVENTS, lambda: False)

    async def next_event() -> bytes:
        return (await pieces.next()).data

    return next_event


_STRING = 7
_FIXED = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""The lengths of the kinds of header values that have one."""


def _said_in_frame(frame: bytes) -> Native:
    """What a message of an event stream says: its payload, by the name of its event or its exception.

    Source: https://docs.aws.amazon.com/transcribe/latest/dg/streaming-setting-up.html, "event stream encoding".
    """
    start = 12 + int.from_bytes(frame[4:8], "big")
    fields, headers = BytesIO(frame[12:start]), dict[str, str]()
    try:
        while length := fields.read(1):
            name, kind = fields.read(length[0]).decode(), fields.read(1)[0]
            value = fields.read(_FIXED[kind] if kind in _FIXED else int.from_bytes(fields.read(2), "big"))
            if kind == _STRING:
                headers[name] = value.decode()
        payload = json.loads(frame[start:-4] or b"null")
    except (ValueError, IndexError, RecursionError):
        return None
    if exception := headers.get(":exception-type"):
        return {"type": "error", "error": payload, exception: payload}
    event = headers.get(":event-type")
    if event == "chunk" and isinstance(payload, dict) and isinstance(payload.get("bytes"), str):
        return object_in(b64decode(payload["bytes"]))  # as InvokeModel packs a model's own events
    return {event: payload} if event else None


def _end_of_frame(rest: bytearray, _looked_at: int) -> int | None:
    """As the message says, which begins with its length."""
    if len(rest) < 4:
        return None
    length: int = unpack_from("!I", rest)[0]
    return max(length, 16) if len(rest) >= length else None


AWS_EVENT_STREAM = Framing(_end_of_frame, _said_in_frame)


_FRAMINGS: Mapping[str, Framing] = {
    "text/event-stream": SERVER_SENT_EVENTS,
    "application/vnd.amazon.eventstream": AWS_EVENT_STREAM,
}


def _listed(response: Native, call: ModelCall, *, waits: bool) -> Started:
    """Return a stream in one JSON document, as Gemini sends it without ``alt=sse``: handed on, and read at its end."""
    document, held = bytearray(), Held(call, (), waits=waits, read=lambda _piece: None)
    source, close = _bytes_of(response, waits=waits)

    async def pull() -> Piece:
        try:
            data = await source()
        except StopAsyncIteration:
            try:
                answers = json.loads(document)
            except (ValueError, RecursionError):
                answers = None
            usages = [call.adapter.usage(part) for part in (answers if isinstance(answers, list) else [answers])]
            held.usage = next(filter(None, reversed(usages)), None)
            raise
        if len(document) <= LARGEST_EVENT:
            document.extend(data)
        return Piece(data)

    return Started(held, pull, close)
