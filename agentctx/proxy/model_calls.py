"""One model call on its way through: read, prepared in its conversation, sent, its answer handed on as it comes.

A call that was too large is made smaller and sent once more. A stream may say that it was: up to the model's first
words it is handed on event by event, and where an event says so, it goes on with the answer to the smaller one. From
then on bytes are handed on as they come, read on the way for the usage.
"""

from __future__ import annotations

import json
import math
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from hashlib import sha256
from itertools import count
from struct import unpack_from
from time import perf_counter
from uuid import uuid4

from attrs import define, field, frozen

from agentctx.clients.answers import (
    END_OF_EVENT,
    Answer,
    Held,
    NotSent,
    RequestRefused,
    Started,
    Ways,
    answer,
    nothing_said,
    object_in,
    opened,
    said_in,
)
from agentctx.clients.model_call import Conversations, ModelCall, begin
from agentctx.core.message import Native
from agentctx.errors import AgentctxError, ConfigError, InvalidInput
from agentctx.pipeline import Pipeline
from agentctx.protocols import StateStore
from agentctx.providers.adapter import Body, RequestParts
from agentctx.providers.registry import format_named
from agentctx.proxy.apis import SESSION_HEADER, Api, Headers, Incoming
from agentctx.proxy.histories import Histories, History, SharedHistories, history_of
from agentctx.proxy.metrics import Metrics
from agentctx.proxy.upstream import ProviderResponse, Upstream, stays_packed, to_send, unpacked
from agentctx.session.session import Session
from agentctx.session.sessions import Sessions
from agentctx.users_code import FAILURES, described

PipelineOf = Callable[[str | None], Pipeline]
"""The pipeline for a model, given its name."""

LONGEST_NAME = 200
"""Characters that are held of a session's name in a header."""


def _short(name: str) -> str:
    """The name; of one that is too long, its beginning, and a digest that tells it from others that begin so."""
    if len(name) <= LONGEST_NAME:
        return name
    whole = sha256(name.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{name[: LONGEST_NAME - len(whole)]}{whole}"


class PipelineFailed(Exception):
    """A stage, a store, or another part of the pipeline raised what it should not."""


class Unreadable(Exception):
    """A model call that cannot be prepared: it is passed on as it came, and the provider judges it.

    Args:
        why: What cannot be read, without what is said in it.
    """

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@define(eq=False)
class Reply:
    """The provider's answer to a model call.

    Args:
        response: Its status and header fields.
        whole: Its body, where it came as a whole.
        stream: Its body otherwise, to be read and then dropped.
    """

    response: ProviderResponse
    whole: bytes | None = None
    stream: Started | None = None


@frozen(eq=False)
class Exchange:
    """One model call, from its body to the provider's answer.

    Args:
        api: What it is made by.
        request: Its head.
        raw: Its body, as it came: packed or not.
        most: So many bytes of it are taken, unpacked.
    """

    api: Api
    request: Incoming
    raw: bytes = field(repr=False)
    most: int
    upstream: Upstream
    known: Known
    metrics: Metrics

    async def answered(self) -> Reply:
        """What the provider answers to the prepared request.

        Raises:
            TooLarge: If its body is larger than is taken, unpacked.
            Unreadable: If it cannot be unpacked or prepared; nothing was sent.
            ContextOverflow: If it cannot be made to fit; nothing was sent.
            ConfigError: If the window of its model is not known.
            CannotSign: If it is signed for AWS, and nothing here can sign it anew.
        """
        plain = unpacked(self.raw, self.request.header(b"content-encoding"), self.most)
        if plain is None:
            raise Unreadable(_ITS_ENCODING)
        begun = perf_counter()
        body = self.api.body(_object(plain))
        call = await self._begun(body, len(plain))
        self.metrics.prepared(call.view.report, perf_counter() - begun)
        tries = count()
        reply: Reply = await answer(call, partial(self._send, body, tries), Ways((), _opened, NotSent.of, waits=True))
        return reply

    async def _begun(self, body: dict[str, Native], size: int) -> ModelCall:
        try:
            request = self.api.adapter.read(body)
            if request is None or not isinstance(request.messages, list) or not request.messages:
                raise Unreadable(self.api.adapter.messages_key)
            call = await self._in_its_conversation(request.model, body, size)
        except InvalidInput as error:
            raise Unreadable(error.where) from None
        except RecursionError:
            raise Unreadable(_TOO_DEEP) from None
        if call is None:
            raise Unreadable(self.api.adapter.messages_key)
        return call

    async def _in_its_conversation(self, model: str | None, body: dict[str, Native], size: int) -> ModelCall | None:
        try:
            return await begin(self._asked(self.known.pipeline_for(model), size), self.api.adapter, body)
        except (AgentctxError, RecursionError):
            raise
        except FAILURES as error:  # what the pipeline's own parts raise
            raise PipelineFailed(described(error)) from error

    def _asked(self, pipeline: Pipeline, size: int) -> Asked:
        named = self.request.header(SESSION_HEADER)
        return Asked(
            pipeline,
            sessions=self.known.sessions_of(pipeline),
            known=self.known,
            caller=self.request.caller(),
            named=None if named is None else _short(named),
            size=size,
        )

    async def _send(self, given: dict[str, Native], tries: Iterator[int], written: dict[str, Native]) -> Reply:
        """Send what was prepared; the client's own bytes where nothing has changed."""
        if next(tries):
            self.metrics.recovered.inc()
        try:
            content, headers = self._to_send(given, written)
        except RecursionError:  # what could just be read need not be writable
            raise Unreadable(_TOO_DEEP) from None
        self.metrics.sent(changed=content is not self.raw)
        return Reply(await self.upstream.send(self.api.provider, self.request, headers, content))

    def _to_send(self, given: dict[str, Native], written: dict[str, Native]) -> tuple[bytes, Headers]:
        """The body and the header fields of a request."""
        if written == given:
            return self.raw, to_send(self.request.headers, identity=True)
        sendable, betas = self.api.sendable(written)
        content = _bytes(sendable)
        return content, with_betas(to_send(self.request.headers, whole=content, identity=True), betas)


_ITS_JSON, _TOO_DEEP, _ITS_ENCODING = "its JSON", "what is nested too deep", "its content encoding"


def _object(plain: bytes) -> dict[str, Native]:
    """A body that is an object of JSON; of what is none, such as ``NaN``, the provider judges."""
    try:
        found = json.loads(plain, parse_constant=_refused)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise Unreadable(_ITS_JSON)
    return found


def _refused(constant: str) -> Native:
    """Refuse what is no JSON, and Python reads as such."""
    raise ValueError(constant)


def _bytes(body: Mapping[str, object]) -> bytes:
    """A body in JSON; what UTF-8 cannot hold is written in escapes."""
    try:
        return _json(body, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return _json(body, ensure_ascii=True).encode()


def _json(body: Mapping[str, object], *, ensure_ascii: bool) -> str:
    write = partial(json.dumps, ensure_ascii=ensure_ascii, separators=(",", ":"), allow_nan=False)
    try:
        return write(body)
    except ValueError:  # for what is not finite JSON has no word, but a number may be larger than any float
        marks = {number: uuid4().hex for number in _TOO_LARGE}
        written = write(_marked(body, marks))
        for number, mark in marks.items():
            written = written.replace(f'"{mark}"', _TOO_LARGE[number])
        return written


_TOO_LARGE: Mapping[float, str] = {math.inf: "1e999", -math.inf: "-1e999"}
"""How a number is written that no float can hold: Python reads it as infinite."""


def _marked(value: Native, marks: Mapping[float, str]) -> Native:
    """A value of JSON with marks in the place of what is infinite, and nothing where a number is none."""
    if isinstance(value, float):
        return None if math.isnan(value) else marks.get(value, value)
    if isinstance(value, list):
        return [_marked(each, marks) for each in value]
    return {name: _marked(each, marks) for name, each in value.items()} if isinstance(value, dict) else value


def with_betas(headers: list[tuple[bytes, bytes]], betas: Sequence[str]) -> list[tuple[bytes, bytes]]:
    """Header fields that ask for these beta features as well."""
    if not betas:
        return headers
    asked = (value.decode("latin-1").split(",") for name, value in headers if name == _BETAS)
    features = dict.fromkeys([*filter(None, (each.strip() for values in asked for each in values)), *betas])
    others = [(name, value) for name, value in headers if name != _BETAS]
    return [*others, (_BETAS, ",".join(features).encode("latin-1"))]


_BETAS = b"anthropic-beta"


@define(eq=False)
class Asked(Conversations):
    """The conversation of one request.

    Args:
        known: All conversations.
        caller: A digest of whose keys they are.
        named: The conversation's name, where the client gives one.
        size: Bytes of the request.
    """

    known: Known = field(kw_only=True)
    caller: str = field(kw_only=True)
    named: str | None = field(kw_only=True)
    size: int = field(kw_only=True)

    @asynccontextmanager
    async def of(self, _body: Body, request: RequestParts, format_name: str) -> AsyncIterator[Session | None]:
        """The session of a request, held while it is prepared."""
        caller = f"{self.caller}-{format_name}"
        if self.named is not None:
            name = f"{caller}/{self.named}"
            named = History(caller, b"", (name.encode(),), bytes=self.size)
            await self._forget(self.known.histories.hold(name, named))
            async with self.sessions.using(name, request.model, format_name) as session:
                yield session.holding(request.messages, request.system, format_name, request.model)
            return
        name = await self._found(request, caller, format_name)
        async with self.sessions.using(name, request.model, format_name) as session:
            yield session

    async def _found(self, request: RequestParts, caller: str, format_name: str) -> str:
        history = history_of(request, caller, format_named(format_name), self.size)
        found = await self.known.histories.find(history)
        await self._forget(found.forgotten)
        before = None if found.branches_off is None else self.sessions.get(found.branches_off)
        if before is not None and before.steps and found.name not in self.sessions:
            with suppress(InvalidInput):  # JSON cannot hold what it has shown
                self.sessions[found.name] = Session.load(self.pipeline, {**before.dump(), "id": found.name})
        return found.name

    async def _forget(self, names: Sequence[str]) -> None:
        for name in names:
            await self.known.forget(name)

    def say_once(self, what: str) -> None:
        """Say nothing: what it says is for whoever wraps a client."""

    def note_stateless(self, messages: object) -> None:
        """Warn of nothing: here every request has its session."""


@define(eq=False)
class Known:
    """What the proxy remembers: the conversations, found by their histories, and their sessions.

    Args:
        pipeline_of: The pipeline for each model.
        histories: The conversations, by what they have shown.
        store: Where the states of their sessions are kept; None: here alone.
    """

    pipeline_of: PipelineOf
    histories: Histories | SharedHistories
    store: StateStore | None = None
    _pipelines: dict[str | None, Pipeline] = field(init=False, factory=dict, repr=False)
    _sessions: dict[int, Sessions] = field(init=False, factory=dict, repr=False)

    def __len__(self) -> int:
        """How many sessions are in memory."""
        return sum(map(len, self._sessions.values()))

    def pipeline_for(self, model: str | None) -> Pipeline:
        """The pipeline for a model.

        Raises:
            ConfigError: If the model's window is not known.
        """
        found = self._pipelines.get(model)
        if found is not None:
            return found
        found = self.pipeline_of(model)
        if len(self._pipelines) < MOST_MODELS:
            self._pipelines[model] = found
        elif id(found) not in self._sessions:
            msg = f"more than {MOST_MODELS} models were asked for: {model!r:.100} is one more"
            raise ConfigError(msg)
        return found

    def sessions_of(self, pipeline: Pipeline) -> Sessions:
        """The sessions of a pipeline."""
        found = self._sessions.get(id(pipeline))
        if found is None:
            found = self._sessions[id(pipeline)] = Sessions(
                pipeline, self.store, capacity=self.histories.most + IN_FLIGHT
            )
        return found

    async def forget(self, name: str) -> None:
        """Forget a conversation that there is no room for."""
        for sessions in self._sessions.values():
            await sessions.close(name)


MOST_MODELS = 500
IN_FLIGHT = 100


async def _opened(reply: Reply, call: ModelCall, _ways: Ways, /) -> Answer:
    """Look into an answer: one that is no stream is read as a whole."""
    response = reply.response
    framing = _FRAMINGS.get(response.headers.get("content-type", "").partition(";")[0].strip().lower())
    if response.is_success and framing is not None:
        reply.stream = relayed(response, call, framing)
        return Answer(reply, close=reply.stream.drop, stream=reply.stream)
    if response.is_success and _in_a_list(response):
        reply.stream = listed(response, call)
        return Answer(reply, close=reply.stream.drop)
    reply.whole = await response.aread()
    if not response.is_success:
        return Answer(reply, refusal=RequestRefused(response.status_code, response.text))
    return opened(reply, object_in(reply.whole), call)


def _in_a_list(response: ProviderResponse) -> bool:
    """Whether it streams in one JSON document."""
    return response.request.url.path.endswith(":streamGenerateContent")


def relayed(answer: ProviderResponse, call: ModelCall, framing: Framing) -> Started:
    """A stream that is handed on: read for its usage, restarted where it says that the request was too large."""
    held = Held(call, (), waits=True, begun=stays_packed(answer))
    held.read = partial(_said, held, framing)
    pieces = Pieces(answer.aiter_bytes(), framing, lambda: held.begun)
    return Started(held, pieces.next, answer.aclose)


def _said(held: Held, framing: Framing, piece: Piece) -> Native:
    if piece.event is None:
        return None
    small = piece.event.lower()
    return None if held.begun and not any(word in small for word in _TELLS) else framing.said(piece.event)


_TELLS = (b"usage", b"applied_edits", b"exception")
"""What stands in an event that is to be read once the model has begun to speak."""


LARGEST_EVENT = 16_000_000
"""Bytes of an event that are kept until its end comes; a larger one is handed on, and not read."""


@frozen
class Piece:
    """Bytes to hand on.

    Args:
        data: The bytes.
        event: The event that ends with them; None when none does.
    """

    data: bytes
    event: bytes | None = None


@define(eq=False)
class Pieces:
    """The pieces of a stream: whole events until the model speaks, then bytes as they come.

    Args:
        source: The bytes of the answer.
        framing: Where events end.
        begun: Whether the model speaks.
    """

    source: AsyncIterator[bytes]
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
        while not self._ready:
            if len(self._rest) > self._handed and (self.begun() or len(self._rest) > LARGEST_EVENT):
                return self._part()
            if self._over:
                raise StopAsyncIteration
            try:
                self._rest += await anext(self.source)
            except StopAsyncIteration:
                self._over = True
                if len(self._rest) > self._handed:
                    return self._part()
                raise
            self._split()
        return self._ready.popleft()

    def _split(self) -> None:
        while (end := self.framing.end(self._rest, self._looked_at)) is not None:
            event = bytes(self._rest[:end])
            self._ready.append(Piece(event[self._handed :], event))
            del self._rest[:end]
            self._handed = self._looked_at = 0
        self._looked_at = len(self._rest)

    def _part(self) -> Piece:
        """What has come of an event that has not ended."""
        data = bytes(self._rest[self._handed :])
        self._handed = len(self._rest)
        if len(self._rest) > LARGEST_EVENT:
            self._rest.clear()
            self._handed = self._looked_at = 0
        return Piece(data)


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
    found = END_OF_EVENT.search(rest, max(0, looked_at - 3))
    return None if found is None else found.end()


SERVER_SENT_EVENTS = Framing(_end_of_event, said_in)


_HEADERS_AT = 12
_STRING = 7
_FIXED = {0: 0, 1: 0, 2: 1, 3: 2, 4: 4, 5: 8, 8: 8, 9: 16}
"""The lengths of the kinds of header values that have one."""


def _said_in_frame(frame: bytes) -> Native:
    """What a message of an event stream says: its payload, by the name of its event or its exception.

    Source: https://docs.aws.amazon.com/transcribe/latest/dg/streaming-setting-up.html, "event stream encoding".
    """
    try:
        headers = _frame_headers(frame)
        start = _HEADERS_AT + int.from_bytes(frame[4:8], "big")
        payload = json.loads(frame[start:-4] or b"null")
    except (ValueError, IndexError, KeyError, RecursionError):
        return None
    name = headers.get(":event-type") or headers.get(":exception-type")
    return {name: payload} if name else None


def _frame_headers(frame: bytes) -> dict[str, str]:
    found, place = dict[str, str](), _HEADERS_AT
    end = place + int.from_bytes(frame[4:8], "big")
    while place < end:
        length = frame[place]
        name = frame[place + 1 : place + 1 + length].decode()
        kind, place = frame[place + 1 + length], place + 2 + length
        size = _FIXED[kind] if kind in _FIXED else int.from_bytes(frame[place : place + 2], "big") + 2
        if kind == _STRING:
            found[name] = frame[place + 2 : place + size].decode()
        place += size
    return found


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


MOST_OF_A_LIST = 8_000_000
"""Bytes of a stream in one JSON document that are kept, to read its usage at the end."""


def listed(answer: ProviderResponse, call: ModelCall) -> Started:
    """A stream in one JSON document, as Gemini sends it without ``alt=sse``: handed on, and read at its end."""
    seen = bytearray()
    source = answer.aiter_bytes()

    async def pull() -> Piece:
        try:
            data = await anext(source)
        except StopAsyncIteration:
            _learn(call, bytes(seen))
            await call.kept(waits=True)
            raise
        if len(seen) <= MOST_OF_A_LIST:
            seen.extend(data)
        return Piece(data)

    return Started(Held(call, (), waits=True, read=nothing_said), pull, answer.aclose)


def _learn(call: ModelCall, document: bytes) -> None:
    try:
        chunks = json.loads(document)
    except (ValueError, RecursionError):
        return
    usages = [call.adapter.usage(chunk) for chunk in (chunks if isinstance(chunks, list) else [chunks])]
    call.learn(next(filter(None, reversed(usages)), None))
