"""One step of a session at a time, and which steps and ``with session:`` blocks are around the running code.

One context variable has both, ``AROUND``: tasks inherit it, and what runs in ``anyio.to_thread`` or
``asyncio.to_thread``. Threads and pools that are started by hand do not.

``SessionLock`` lets one in at a time, also between event loops and threads. Nobody waits for ever: whoever would wait
for somebody that waits for him is told so at once.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from threading import Lock, get_ident
from typing import TYPE_CHECKING

import anyio
import anyio.lowlevel
from attrs import Factory, define, field

from agentctx.errors import ConfigError
from agentctx.message import Native

if TYPE_CHECKING:
    from agentctx.engine.plan import Plan

AROUND: ContextVar[tuple[object, ...]] = ContextVar("agentctx_around", default=())
"""The sessions whose ``with`` block the running code is in, and each ``Work`` that it is part of, innermost last."""


@define(eq=False, repr=False)
class Work:
    """A step under way, or something else that others wait for.

    Args:
        plan: The pipeline whose step it is: model calls that are made for it are no part of a conversation. None for
            other work.
        session: The session whose step it is; None for a stateless one.
        thread: The thread whose event loop it needs, by ``threading.get_ident``.
        waits: The locks that code within it waits for.
        over: Whether it is done. Code that it started, and that goes on, holds nobody.
    """

    plan: Plan | None = None
    session: object = None
    thread: int = Factory(get_ident)
    waits: list[SessionLock] = Factory(list)
    over: bool = False


def works_around() -> list[Work]:
    """The works that the running code is part of: it is a stage's, a summarizer's, a store's or a listener's."""
    return [each for each in AROUND.get() if isinstance(each, Work)]


@contextmanager
def within(work: Work) -> Iterator[None]:
    """Let the code inside, and what it starts, be part of ``work``."""
    before = AROUND.get()
    AROUND.set((*before, work))
    try:
        yield
    finally:
        AROUND.set(before)


class Deadlock(ConfigError):
    """Waiting here would never end: whoever is in waits, by itself or by others, for the one who came."""


_guard = Lock()
"""Held for moments only, by whoever comes or goes: who waits for whom is one question over all of them."""

_blocking: list[Work] = []
"""The calls that block a thread until something is done elsewhere: no event loop of that thread goes on meanwhile."""


def _after_fork() -> None:
    global _guard  # noqa: PLW0603 - a fork may have copied it while another thread held it
    _guard = Lock()
    _blocking.clear()


os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def blocking_the_thread() -> Iterator[None]:
    """The running thread waits inside for what is done elsewhere."""
    work = Work()
    with _guard:
        _blocking.append(work)
    try:
        with within(work):
            yield
    finally:
        work.over = True
        with _guard:
            _blocking.remove(work)


@define(eq=False, repr=False)
class SessionLock:
    """Lets one work in at a time, in the order in which they came: ``async with lock.during(work):``.

    Unlike a lock of an event loop, it holds between tasks of different loops. It takes no time when nobody is in. It is
    not re-entrant: who comes again from inside would wait for itself, and is told so.

    Args:
        holder: The work that is in, if any.
    """

    holder: Work | None = field(init=False, default=None)
    _queue: dict[Work, Callable[[], object]] = field(init=False, factory=dict)  # who waits, and what lets each in

    @asynccontextmanager
    async def during(self, work: Work) -> AsyncIterator[None]:
        """Wait until nobody is in, and let the code inside be part of ``work``; then let the next one in.

        A task that is cancelled while it waits leaves the others their turn.

        Args:
            work: What nobody else shall be in with.

        Raises:
            Deadlock: If that would never be.
        """
        waiting: list[Work] = []
        with _guard:
            if self.holder is None:
                self.holder, event = work, None
            else:
                waiting = [each for each in works_around() if not each.over]
                if self._waits_for(waiting):
                    raise Deadlock(_NEVER)
                event, token = anyio.Event(), anyio.lowlevel.current_token()
                loop: Native = getattr(token, "native_token", token)
                schedule = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon  # of asyncio, of trio
                self._queue[work] = partial(schedule, event.set)
                for each in waiting:
                    each.waits.append(self)
        try:
            if event is not None:
                try:
                    await event.wait()
                finally:
                    with _guard:
                        for each in waiting:
                            each.waits.remove(self)
            with within(work):
                yield
        finally:
            self._leave(work)

    def _leave(self, work: Work) -> None:
        """Let the next one in; where ``work`` has not been in yet, it waits no more."""
        work.over = True
        while True:
            with _guard:
                self._queue.pop(work, None)
                if self.holder is not work:
                    return
                self.holder = next(iter(self._queue), None)
                if self.holder is None:
                    return
                work = self.holder
                let_in = self._queue.pop(work)
            with suppress(RuntimeError):  # the event loop that it waited on has ended: the turn goes to the next
                let_in()
                return

    def _waits_for(self, around: Sequence[Work]) -> bool:
        """Whether somebody ahead waits, by itself or by others, for one of these works.

        Also a work waits for a call that blocks the thread of its event loop.
        """
        ahead, seen = [self.holder, *self._queue], set[Work]()
        while ahead:
            work = ahead.pop()
            if work in around:
                return True
            if work is not None and work not in seen:
                seen.add(work)
                ahead += [lock.holder for lock in work.waits]
                ahead += [each for each in _blocking if each.thread == work.thread]
        return False


_NEVER = (
    "session: a stage, summarizer, store or hook asked for a step of the session whose step it works for, or of one "
    "whose own step waits for that, or code that is not async holds the event loop of such a step: neither would ever "
    "end; prepare its own model call with pipeline.prepare() or another session"
)
