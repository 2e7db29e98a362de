"""A model call over HTTP, for the proxy and for an HTTP client in front of an SDK's: its body, and the answer's bytes.

The body is JSON. Of the answer, a stream is read on its way: whole events up to the model's first words, then bytes as
they come; anything else is read as a whole. The HTTP library is httpx or httpx2, whichever the response comes from.
"""

from __future__ import annotations

import json
import re
import sys
import zlib
from base64 import b64decode
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from io import BytesIO
from struct import unpack_from
from types import ModuleType

from attrs import define, evolve, field, frozen

from agentctx.clients.answers import (
    END_OF_EVENT,
    Answer,
    Close,
    Held,
    Pull,
    Refused,
    Started,
    Ways,
    object_in,
    opened,
    pulling,
    rename,
    said_in,
)
from agentctx.clients.apis import Api
from agentctx.clients.model_call import ModelCall
from agentctx.message import Native


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
