"""A stream on its way back: handed on byte by byte as it comes, read on the way for its usage.

Up to the model's first words it is handed on event by event, since an event there may say that the request was too
large: a smaller one is sent then, and the stream goes on with its answer.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import AsyncIterator, Callable
from functools import partial
from struct import unpack_from
from typing import Protocol

from attrs import define, field, frozen

from agentctx.clients.answers import Held, Started, nothing_said, said_in
from agentctx.clients.model_call import ModelCall
from agentctx.core.message import Native
from agentctx.proxy.aws import said_in_frame
from agentctx.proxy.upstream import ProviderResponse

_END_OF_EVENT = re.compile(rb"\r\n\r\n|\n\n|\r\r")
_TELLS = (b"usage", b"applied_edits", b"exception")
"""What stands in an event that is to be read once the model has begun to speak."""

LARGEST_EVENT = 16_000_000
"""Bytes of an event that are kept until its end comes; a larger one is handed on, and not read."""


class Framing(Protocol):
    """Where the events of a stream end."""

    def end(self, rest: bytearray, looked_at: int, /) -> int | None:
        """The length of the first event; None when its end has not come, as before within the bytes looked at."""
        ...

    def said(self, event: bytes, /) -> Native:
        """What an event says; None when it says nothing."""
        ...


class ServerSentEvents:
    """``text/event-stream``."""

    def end(self, rest: bytearray, looked_at: int, /) -> int | None:
        """Behind the blank line."""
        found = _END_OF_EVENT.search(rest, max(0, looked_at - 3))
        return None if found is None else found.end()

    def said(self, event: bytes, /) -> Native:
        """The JSON of its data."""
        return said_in(event)


class AwsEventStream:
    """``application/vnd.amazon.eventstream``: messages that begin with their length."""

    def end(self, rest: bytearray, _looked_at: int, /) -> int | None:
        """As the message says."""
        if len(rest) < 4:
            return None
        length: int = unpack_from("!I", rest)[0]
        return max(length, 16) if len(rest) >= length else None

    def said(self, event: bytes, /) -> Native:
        """The payload, by the name of its event."""
        return said_in_frame(event)


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


def relayed(answer: ProviderResponse, call: ModelCall, framing: Framing) -> Started:
    """A stream that is handed on: read for its usage, restarted where it says that the request was too large."""
    held = Held(call, (), waits=True)
    held.read = partial(_said, held, framing)
    pieces = Pieces(answer.aiter_bytes(), framing, lambda: held.begun)
    return Started(held, pieces.next, answer.aclose)


def _said(held: Held, framing: Framing, piece: Piece) -> Native:
    if piece.event is None:
        return None
    small = piece.event.lower()
    return None if held.begun and not any(word in small for word in _TELLS) else framing.said(piece.event)


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
