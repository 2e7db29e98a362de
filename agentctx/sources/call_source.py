"""Call one source, async or in a thread, for as long as its deadline lets it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextvars import ContextVar, copy_context
from enum import StrEnum
from queue import Empty, SimpleQueue
from threading import Event, Thread

import anyio
from anyio import CapacityLimiter, from_thread, to_thread
from attrs import define, field

from agentctx.core.secrets import redact_secrets
from agentctx.errors import SourceError
from agentctx.protocols import ContextItem, ContextProvider
from agentctx.users_code import WAS_CANCELLED, is_cancelled


class SourceOutcome(StrEnum):
    """What came of the call of a source."""

    FINE = "fine"
    FAILED = "failed"
    LATE = "late"


_LOOK = 0.05
"""How often a thread that waits looks whether anybody still wants the answer, in seconds."""

_given_up: ContextVar[Event | None] = ContextVar("given_up", default=None)


class AbandonedError(Exception):
    """Raised in a thread whose answer nobody waits for any more."""


async def call_in_thread(function: Callable[..., object], *arguments: object, threads: CapacityLimiter) -> object:
    """What a function returns that may block; when the caller is cancelled it is abandoned.

    It runs in a daemon thread: a worker thread of asyncio's that never ends would keep the program from ending.
    """
    return await to_thread.run_sync(_waited_for, function, arguments, abandon_on_cancel=True, limiter=threads)


def stop_when_abandoned() -> None:
    """End the work of a thread that nobody waits for any more; call it now and then in work that takes long.

    Raises:
        AbandonedError: In a thread of ``call_in_thread``. In any other worker thread, that thread's cancellation.
    """
    given_up = _given_up.get()
    if given_up is not None:
        if given_up.is_set():
            raise AbandonedError
        return
    try:
        from_thread.check_cancelled()
    except RuntimeError:
        return  # not in a worker thread: nobody waits elsewhere


def _waited_for(function: Callable[..., object], arguments: tuple[object, ...]) -> object:
    """What the function returns, called in a daemon thread, while this worker thread looks for a cancellation."""
    answers: SimpleQueue[tuple[object, BaseException | None]] = SimpleQueue()
    given_up = Event()

    def work() -> None:
        _given_up.set(given_up)
        try:
            answers.put((function(*arguments), None))
        except BaseException as error:  # noqa: BLE001 - raised again where it is waited for
            answers.put((None, error))

    Thread(target=copy_context().run, args=(work,), name=f"agentctx {function!r:.60}", daemon=True).start()
    try:
        while True:
            try:
                found, error = answers.get(timeout=_LOOK)
            except Empty:
                from_thread.check_cancelled()
            else:
                break
    finally:
        given_up.set()
    if error is not None:
        raise error
    return found


@define
class SourceCall:
    """The call of one provider, and what came of it."""

    provider: ContextProvider
    name: str = field(init=False)
    description: str = ""
    max_tokens: int | None = None
    items: tuple[ContextItem, ...] = ()
    outcome: SourceOutcome = SourceOutcome.LATE
    problem: str = ""
    seconds: float = 0.0

    def __attrs_post_init__(self) -> None:
        """Name it after its kind until it is asked."""
        self.name = type(self.provider).__name__

    async def run(
        self, query: str, deadline: float | None, on: tuple[type[Exception], ...], threads: CapacityLimiter
    ) -> None:
        """Call the provider, for as long as the deadline lets it; its errors are told, not raised."""
        started = anyio.current_time()
        try:
            self._introduce()
            with anyio.move_on_after(deadline):
                self.items = as_items(self.name, await result_of(self.provider, query, threads=threads))
                self.outcome = SourceOutcome.FINE
            if self.outcome is SourceOutcome.LATE:
                self.problem = f"did not answer within {deadline:g} seconds"
        except on as error:
            self.outcome = SourceOutcome.FAILED
            self.problem = redact_secrets(f"{type(error).__name__}: {error}", "error.log")
        except anyio.get_cancelled_exc_class():
            if is_cancelled():
                raise
            self.outcome, self.problem = SourceOutcome.FAILED, WAS_CANCELLED
        self.seconds = anyio.current_time() - started

    def _introduce(self) -> None:
        """Find out what the provider is called, what it brings, and how much."""
        name = getattr(self.provider, "name", None) or getattr(self.provider, "__name__", None)
        self.name = name if isinstance(name, str) else self.name
        self.description = str(getattr(self.provider, "description", ""))
        room = getattr(self.provider, "max_tokens", None)
        if room is not None and (isinstance(room, bool) or not isinstance(room, int)):
            raise SourceError(self.name, f"max_tokens: expected a whole number of tokens, got {room!r:.80}")
        self.max_tokens = room


async def result_of(function: Callable[..., object], *arguments: str, threads: CapacityLimiter) -> object:
    """What a function returns; one that is not async runs in a thread, which is abandoned when it is late."""
    if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__):
        found = function(*arguments)
    else:
        found = await call_in_thread(function, *arguments, threads=threads)
    return await found if inspect.isawaitable(found) else found


def as_items(name: str, found: object) -> tuple[ContextItem, ...]:
    """What a provider returned, its items named after it."""
    if found is None:
        return ()
    if not isinstance(found, Sequence) or not all(isinstance(item, ContextItem) for item in found):
        raise SourceError(name, f"returned {type(found).__name__} {found!r:.80} instead of a list of ContextItem")
    return tuple(item.found_by(name) for item in found)
