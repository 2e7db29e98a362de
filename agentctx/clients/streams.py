"""Streams: read ahead up to the first content, hand everything out in order, record the usage at the end.

The end is where the stream ends or where its reader closes it; by then some providers have told the prompt's size.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Mapping
from contextlib import aclosing, closing
from functools import cache, partial
from typing import Any, TypeVar

from attrs import define, field

from agentctx.clients.exchange import Answer, Refused
from agentctx.clients.portal import drive
from agentctx.clients.turn import Turn
from agentctx.clients.twin import derived

T = TypeVar("T")
Pull = Callable[[], Awaitable[Any]]
"""Reads the next event; raises StopAsyncIteration at the end."""


@define
class Held:
    """The start of a stream, read ahead.

    Args:
        turn: The call that it answers.
        waiting: The events that were read and not handed out yet.
        failure: What the stream raised while it was read ahead; raised after the events.
        usage: The latest usage seen.
        over: Whether the stream has ended.
        under: What was read ahead before, by a client that was wrapped twice.
    """

    turn: Turn
    waiting: deque[Any] = field(factory=deque)
    failure: Exception | None = None
    usage: Any = None
    over: bool = False
    under: Held | None = None

    async def read_ahead(self, pull: Pull, errors: tuple[type[Exception], ...]) -> Exception | None:
        """Read up to the first content; the error that stands there instead of it, if one does."""
        shape = self.turn.shape
        while True:
            try:
                event = await pull()
            except StopAsyncIteration:
                self.over = True
                return None
            except errors as error:
                self.failure = error
                return error
            self.waiting.append(event)
            refused = shape.failure(event)
            if refused is not None:
                return Refused(refused)
            if shape.begins(event):
                return None

    async def next(self, pull: Pull) -> Any:  # noqa: ANN401 - an event of any SDK
        """The next event, of those read ahead or of the stream.

        Raises:
            StopAsyncIteration: At the end.
        """
        try:
            event = self.waiting.popleft() if self.waiting else await self._pulled(pull)
        except StopAsyncIteration:
            self.finish()
            raise
        self.usage = self.turn.shape.usage(event) or self.usage
        return event

    async def _pulled(self, pull: Pull) -> Any:  # noqa: ANN401 - an event of any SDK
        if self.failure is not None:
            failure, self.failure, self.over = self.failure, None, True
            raise failure
        if self.over:
            raise StopAsyncIteration
        return await (pull() if self.under is None else self.under.next(pull))

    def finish(self) -> None:
        """Record the usage, once."""
        usage, self.usage, self.over = self.usage, None, True
        self.turn.learn(usage)


async def _anext(stream: Any) -> Any:  # noqa: ANN401 - an SDK's stream and its events
    held, base = _held_of(stream)
    return await held.next(partial(base.__anext__, stream))


def _next(stream: Any) -> Any:  # noqa: ANN401 - an SDK's stream and its events
    held, base = _held_of(stream)
    try:
        return drive(held.next(pulling(partial(base.__next__, stream))))
    except StopAsyncIteration:
        raise StopIteration from None


def _itself(stream: T) -> T:
    return stream


async def _close_async(stream: Any) -> None:  # noqa: ANN401 - an SDK's stream
    held, base = _held_of(stream)
    held.finish()
    await base.close(stream)


async def _aclose(stream: Any) -> None:  # noqa: ANN401 - an SDK's stream
    held, base = _held_of(stream)
    held.finish()
    await base.aclose(stream)


def _close(stream: Any) -> None:  # noqa: ANN401 - an SDK's stream
    held, base = _held_of(stream)
    held.finish()
    base.close(stream)


def _held_of(stream: Any) -> tuple[Held, Any]:  # noqa: ANN401 - an SDK's stream and its class
    return stream._agentctx_held, type(stream).__base__  # noqa: SLF001 - our own attribute


def pulling(step: Callable[[], Any]) -> Pull:
    """A sync iterator's ``__next__`` as a ``Pull`` that never waits."""

    async def pull() -> Any:  # noqa: ANN401 - an event of any SDK
        try:
            return step()
        except StopIteration:
            raise StopAsyncIteration from None

    return pull


async def hold_async(stream: Any, turn: Turn, errors: tuple[type[Exception], ...]) -> Answer:  # noqa: ANN401
    """Read an SDK's async stream ahead; from then on it hands out what was read first.

    Args:
        stream: The stream, as the SDK made it for this call.
        turn: The call that it answers.
        errors: What the SDK raises when a provider refuses.
    """
    held = Held(turn)
    refusal = await held.read_ahead(stream.__anext__, errors)
    _put_in_front(stream, held, _ASYNC)
    return Answer(stream, refusal=refusal, close=getattr(stream, "close", None) or getattr(stream, "aclose", None))


async def hold_sync(stream: Any, turn: Turn, errors: tuple[type[Exception], ...]) -> Answer:  # noqa: ANN401
    """Read an SDK's stream ahead, without waiting for an event loop; as ``hold_async``."""
    held = Held(turn)
    refusal = await held.read_ahead(pulling(stream.__next__), errors)
    _put_in_front(stream, held, _SYNC)

    async def close() -> None:
        closing = getattr(stream, "close", None)
        if closing is not None:
            closing()

    return Answer(stream, refusal=refusal, close=close)


async def ahead_async(stream: AsyncGenerator[Any], turn: Turn, errors: tuple[type[Exception], ...]) -> Answer:
    """Read an async generator ahead; the answer is another one, which hands out what was read first."""
    held = Held(turn)
    refusal = await held.read_ahead(stream.__anext__, errors)

    async def rest() -> AsyncGenerator[Any]:
        async with aclosing(stream):
            try:
                while True:
                    try:
                        event = await held.next(stream.__anext__)
                    except StopAsyncIteration:
                        return
                    yield event
            finally:
                held.finish()

    return Answer(rest(), refusal=refusal, close=stream.aclose)


async def ahead_sync(stream: Generator[Any], turn: Turn, errors: tuple[type[Exception], ...]) -> Answer:
    """Read a generator ahead, without waiting for an event loop; as ``ahead_async``."""
    held, pull = Held(turn), pulling(stream.__next__)
    refusal = await held.read_ahead(pull, errors)

    def rest() -> Generator[Any]:
        with closing(stream):
            try:
                while True:
                    try:
                        event = drive(held.next(pull))
                    except StopAsyncIteration:
                        return
                    yield event
            finally:
                held.finish()

    async def close() -> None:
        stream.close()

    return Answer(rest(), refusal=refusal, close=close)


def _put_in_front(stream: Any, held: Held, reading: Mapping[str, Callable[..., Any]]) -> None:  # noqa: ANN401 - an SDK's
    """Let the stream object, which belongs to this call alone, read through ``held``; its class stays its class."""
    held.under = getattr(stream, "_agentctx_held", None)
    stream._agentctx_held = held  # noqa: SLF001 - our own attribute
    if held.under is None:
        kind = type(stream)
        # A class that an SDK makes for one call must not be remembered: it would keep the call.
        ahead = _ahead if "<locals>" in kind.__qualname__ else _ahead_once
        stream.__class__ = ahead(kind, frozenset(reading.items()))


def _ahead(kind: type, reading: frozenset[tuple[str, Callable[..., Any]]]) -> type:
    return derived(kind, {name: method for name, method in reading if hasattr(kind, name)})


_ahead_once = cache(_ahead)
_ASYNC = {"__anext__": _anext, "__aiter__": _itself, "close": _close_async, "aclose": _aclose}
_SYNC = {"__next__": _next, "__iter__": _itself, "close": _close}
