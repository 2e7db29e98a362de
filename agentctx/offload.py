"""Work that would hold up the event loop is done in a worker thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.lowlevel import RunVar

from agentctx.core.pace import giving_way

T = TypeVar("T")

MUCH = 400
"""Messages; looking at so many takes a millisecond or two, which is what handing over to a thread may cost."""

SOME = 100
"""Messages; before looking at so many the event loop may turn, so that several looks do not add up."""

MUCH_TEXT = 40_000
"""Tokens; cutting texts of so many together takes a few milliseconds."""

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("agentctx.offload.limiter")


async def offload(work: Callable[[], T], messages: int, tokens: int = 0) -> T:
    """Do ``work`` here when it is about few messages and little text, else in a worker thread.

    Pure Python holds the interpreter, but loops over many messages give way (``core.pace``): the event loop goes on.

    Args:
        work: Plain work that nobody else depends on; it may go on for a moment after a cancellation.
        messages: How many messages it looks at.
        tokens: How many tokens of text it may have to cut.
    """
    if messages < MUCH and tokens < MUCH_TEXT:
        if messages >= SOME:
            await anyio.lowlevel.checkpoint()
        return work()
    return await anyio.to_thread.run_sync(aside, work, abandon_on_cancel=True, limiter=_threads())


def aside(work: Callable[[], T]) -> T:
    """Do ``work`` in a worker thread, giving way to the event loop."""
    with giving_way():
        return work()


def _threads() -> anyio.CapacityLimiter:
    """One at a time in each event loop: threads that run Python do not run faster side by side."""
    try:
        return _limiter.get()
    except LookupError:
        _limiter.set(limiter := anyio.CapacityLimiter(1))
        return limiter
