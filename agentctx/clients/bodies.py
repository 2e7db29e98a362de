"""Bodies that only the caller reads, as with ``with_streaming_response``: looked at while they pass by.

However it reads them (parsed, in lines, bytes or at once), the HTTP response hands out decoded bytes: there a body of
events is followed like any other stream, event by event, and of a body of JSON the usage is recorded at its end.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Generator, Mapping
from functools import cache, partial
from typing import Any

from agentctx.clients.answers import Answer, Held, Pull, Started, pulling
from agentctx.clients.bridge import drive
from agentctx.clients.derived_client import derived
from agentctx.clients.model_call import ModelCall
from agentctx.core.message import Native

_END_OF_EVENT = re.compile(rb"\r\n\r\n|\n\n|\r\r")


def watch(value: object, http: Native, call: ModelCall, *, waits: bool) -> Answer:
    """Look at a response's body from now on."""
    pull = _reading(http, http.aiter_bytes().__anext__ if waits else pulling(http.iter_bytes().__next__))
    events = "text/event-stream" in http.headers.get("content-type", "")
    given = _events(pull) if events else _whole(pull, call, waits=waits)
    kind: Any = type(http)
    close = partial(kind.aclose if waits else kind.close, http)
    started = Started(Held(call, (), waits, said_in if events else _nothing_said), given, close)
    http._agentctx_body = started  # noqa: SLF001 - our own attribute
    http.__class__ = _watching(kind, frozenset((_ASYNC if waits else _SYNC).items()))
    return Answer(value, close=started.drop, stream=started if events else None)


def _reading(http: Native, pull: Pull) -> Pull:
    async def next_piece() -> bytes:
        http._agentctx_reads = True  # noqa: SLF001 - our own attribute: the library's own raw bytes are asked for
        piece: bytes = await pull()
        return piece

    return next_piece


@cache
def _watching(kind: type, reading: frozenset[tuple[str, Callable[..., Any]]]) -> type:
    return derived(kind, dict(reading))


def _events(pull: Callable[[], Awaitable[bytes]]) -> Callable[[], Awaitable[bytes]]:
    """Whole events out of pieces of bytes, each with the blank line that ends it."""
    found: deque[bytes] = deque()
    rest = bytearray()

    async def next_event() -> bytes:
        while not found:
            try:
                rest.extend(await pull())
            except StopAsyncIteration:
                if not rest:
                    raise
                found.append(bytes(rest))
                rest.clear()
            while (end := _END_OF_EVENT.search(rest)) is not None:
                found.append(bytes(rest[: end.end()]))
                del rest[: end.end()]
        return found.popleft()

    return next_event


def _whole(pull: Pull, call: ModelCall, *, waits: bool) -> Pull:
    """The pieces as they come; when all have come, the usage in them is recorded."""
    seen: list[bytes] = []

    async def next_piece() -> bytes:
        try:
            piece: bytes = await pull()
        except StopAsyncIteration:
            body, seen[:] = _read(b"".join(seen)), []
            if body is not None:
                call.learn(call.adapter.usage(body), call.adapter.applied_edits(body))
                await call.kept(waits=waits)
            raise
        seen.append(piece)
        return piece

    return next_piece


async def events_of(pieces: AsyncIterator[bytes]) -> AsyncGenerator[bytes]:
    """Whole events out of pieces of bytes that an async iterator yields."""
    pull = _events(pieces.__anext__)
    while True:
        try:
            event = await pull()
        except StopAsyncIteration:
            return
        yield event


def said_in(event: bytes) -> Native:
    """The JSON of an event; None when it has none."""
    lines = (line[5:] for line in event.splitlines() if line.startswith(b"data:"))
    return _read(b"\n".join(lines))


def _nothing_said(_piece: bytes) -> None:
    """A piece of a body says nothing alone."""


def _read(data: bytes) -> Native:
    try:
        body = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return body if isinstance(body, dict) else None


def _sized(pull: Pull, size: int) -> Pull:
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


def _pieces(http: Native, size: int | None) -> Pull:
    pull: Pull = http._agentctx_body.next  # noqa: SLF001 - our own attribute
    return pull if size is None else _sized(pull, size)


def _is_read(http: Native) -> bool:
    """Whether the body was read before: then the library hands out what it keeps, or says that it does not."""
    return hasattr(http, "_content") or http.is_stream_consumed


async def _aiter_bytes(http: Native, chunk_size: int | None = None) -> AsyncGenerator[bytes]:
    if _is_read(http):
        kind: Any = type(http).__base__
        async for piece in kind.aiter_bytes(http, chunk_size):
            yield piece
        return
    pull = _pieces(http, chunk_size)
    while True:
        try:
            piece = await pull()
        except StopAsyncIteration:
            return
        yield piece


def _iter_bytes(http: Native, chunk_size: int | None = None) -> Generator[bytes]:
    if _is_read(http):
        kind: Any = type(http).__base__
        yield from kind.iter_bytes(http, chunk_size)
        return
    pull = _pieces(http, chunk_size)
    while True:
        try:
            piece = drive(_awaited(pull))
        except StopAsyncIteration:
            return
        yield piece


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


async def _awaited(pull: Pull) -> bytes:
    piece: bytes = await pull()
    return piece


async def _aclose(http: Native) -> None:
    await http._agentctx_body.drop()  # noqa: SLF001 - our own attribute


def _close(http: Native) -> None:
    drive(http._agentctx_body.drop())  # noqa: SLF001 - our own attribute


_ASYNC: Mapping[str, Callable[..., Any]] = {"aiter_bytes": _aiter_bytes, "aiter_raw": _aiter_raw, "aclose": _aclose}
_SYNC: Mapping[str, Callable[..., Any]] = {"iter_bytes": _iter_bytes, "iter_raw": _iter_raw, "close": _close}
