"""Work on much is done in a worker thread, so that the event loop goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

T = TypeVar("T")

MUCH, MUCH_TEXT = 1_000, 64 * 1024
"""Messages, and characters. To look at so many messages takes some three milliseconds, to count so much text six. What
is less is done sooner here: tiktoken lets go of the interpreter for each text, and a thread waits for it after each."""

THREADS = 8
"""Threads of an event loop for the library's own work. They are few: two that compute are no faster than one, and each
lets the event loop wait 5 ms longer for its turn."""

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("agentctx.offload.limiter")
_unlimited: ContextVar[bool] = ContextVar("agentctx.offload.unlimited", default=False)
"""True where the limiter would be waited for by work that holds it, or for ever: in its threads, in coroutines that
these have the event loop run, and in the stages of users."""


def is_much(messages: int, characters: int = 0) -> bool:
    """Whether work on so many messages, or so much text, is done in a worker thread."""
    return messages >= MUCH or characters >= MUCH_TEXT


async def offload(work: Callable[[], T], messages: int, characters: int = 0) -> T:
    """Do ``work`` here when it is about few messages and little text, else in a worker thread.

    Args:
        work: Plain work that nobody else depends on; it may go on for a moment after a cancellation.
        messages: How many messages it is about.
        characters: How much text they have, where that is known.
    """
    if not is_much(messages, characters):
        return work()
    if _unlimited.get():
        return await in_thread(work, anyio.CapacityLimiter(1))
    try:
        limiter = _limiter.get()
    except LookupError:
        _limiter.set(limiter := anyio.CapacityLimiter(THREADS))
    return await in_thread(work, limiter)


@contextmanager
def in_threads_of_their_own() -> Iterator[None]:
    """Give each work that is offloaded within the block a thread beside the limiter's: the work may wait, or hang."""
    before = _unlimited.set(True)
    try:
        yield
    finally:
        _unlimited.reset(before)


async def in_thread(work: Callable[[], T], threads: anyio.CapacityLimiter) -> T:
    """Return the result of ``work`` in a worker thread, or raise its error, whatever it is.

    A ``GeneratorExit`` that came out of a future would close the coroutines that wait for it: none of them could handle
    it. And trio takes no coroutine out of a thread, where ``work`` returns one.

    Args:
        work: Plain work; when this is cancelled it goes on, and nobody waits for it.
        threads: The limiter whose thread it takes.
    """

    def run() -> tuple[T] | GeneratorExit:
        _unlimited.set(True)
        try:
            return (work(),)
        except GeneratorExit as error:
            return error

    ended = await anyio.to_thread.run_sync(run, abandon_on_cancel=True, limiter=threads)
    if isinstance(ended, GeneratorExit):
        raise ended
    return ended[0]
