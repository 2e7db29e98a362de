"""Functions that block, called so that nobody has to wait for one that never returns."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar, copy_context
from queue import Empty, SimpleQueue
from threading import Event, Thread

from anyio import CapacityLimiter, from_thread, to_thread

_LOOK = 0.05
"""How often a thread that waits looks whether anybody still wants the answer, in seconds."""

_given_up: ContextVar[Event | None] = ContextVar("given_up", default=None)


class NobodyWaitsError(Exception):
    """Raised in a thread whose answer nobody waits for any more."""


async def call_in_thread(function: Callable[..., object], *arguments: object, threads: CapacityLimiter) -> object:
    """What a function returns that may block; when the caller is cancelled it is left behind.

    It runs in a daemon thread: a worker thread of asyncio's that never ends would keep the program from ending.
    """
    return await to_thread.run_sync(_waited_for, function, arguments, abandon_on_cancel=True, limiter=threads)


def stop_when_left_behind() -> None:
    """End the work of a thread that nobody waits for any more; call it now and then in work that takes long.

    Raises:
        NobodyWaitsError: In a thread of ``call_in_thread``. In any other worker thread, that thread's cancellation.
    """
    given_up = _given_up.get()
    if given_up is not None:
        if given_up.is_set():
            raise NobodyWaitsError
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
