"""One at a time, also between event loops: a session may be shared by tasks, by threads, and by sync clients.

Nobody waits for ever: whoever would wait for somebody that waits for him is told so at once.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Lock
from typing import Any

import anyio
import anyio.lowlevel
from attrs import define, field, frozen

from agentctx.core.message import Native
from agentctx.errors import ConfigError
from agentctx.session.current import Preparing, Within, Work, works_around


class Deadlock(ConfigError):
    """Waiting here would never end: whoever is in waits, by itself or by others, for the one who came."""


@frozen(eq=False, repr=False)
class _Waiter:
    """A task that waits for its turn.

    Args:
        event: Set when it is its turn.
        work: What it will do then.
    """

    event: anyio.Event
    work: Work

    def wake(self) -> None:
        """Tell the task, on its own loop.

        Raises:
            RuntimeError: If its loop has ended.
        """
        schedule = getattr(self.work.loop, "call_soon_threadsafe", None) or self.work.loop.run_sync_soon
        schedule(self.event.set)


_guard = Lock()
"""Held for moments only, by whoever comes or goes: who waits for whom is one question over all of them."""

_blocking: list[Work] = []
"""The calls that block a thread on which an event loop runs."""


def _after_fork() -> None:
    global _guard  # noqa: PLW0603 - a fork may have copied it while another thread held it
    _guard = Lock()
    _blocking.clear()


os.register_at_fork(after_in_child=_after_fork)


@define(eq=False, repr=False)
class SessionLock:
    """Lets one task in at a time, in the order in which they came: ``async with lock as work:``.

    Unlike a lock of an event loop, it holds between tasks of different loops. It takes no time when nobody is in. What
    waits for others inside has to be ``Within(work)``. It is not re-entrant: who comes again from inside would wait for
    itself, and is told so.
    """

    _holder: Work | None = field(init=False, default=None)
    _waiting: deque[_Waiter] = field(init=False, factory=deque)

    @property
    def holder(self) -> Work | None:
        """Who is in, if anybody."""
        return self._holder

    @property
    def busy(self) -> bool:
        """Whether somebody is in."""
        return self._holder is not None

    async def __aenter__(self) -> Work:
        """Wait until nobody is in. A task that is cancelled while it waits leaves the others their turn.

        Raises:
            Deadlock: If that would never be.
        """
        work = Work(running_loop())
        with _guard:
            if self._holder is None:
                self._holder = work
                return work
            around = works_around()
            if self._never_free_for(around):
                raise Deadlock(_NEVER)
            waiter = _Waiter(anyio.Event(), work)
            self._waiting.append(waiter)
            for each in around:
                each.waits.append(self)
        its_turn = False
        try:
            await waiter.event.wait()
            its_turn = True
        finally:
            if not self._leave_queue(waiter, around) and not its_turn:
                self._next()
        return work

    async def __aexit__(self, *_error: object) -> None:
        """Let the next one in."""
        self.leave()

    def enter_first(self) -> Work:
        """Be in at once: of a lock that nobody else knows yet."""
        self._holder = Work(running_loop())
        return self._holder

    def leave(self) -> None:
        """Let the next one in."""
        if self._holder is not None:
            self._holder.over = True
        self._next()

    def during(self, step: Preparing) -> Turn:
        """Alone, and all that is done inside is part of ``step``: ``async with lock.during(step):``."""
        return Turn(self, step)

    def _never_free_for(self, around: list[Work]) -> bool:
        """Whether waiting would close a cycle.

        It does when somebody ahead waits, directly or through others, for work that we are part of, or needs a loop
        that we block.
        """
        ahead = [self._holder, *(each.work for each in self._waiting)]
        blocked = [each.loop for each in around if each in _blocking]
        if any(each is not None and each.loop in blocked for each in ahead):
            return True
        seen: set[int] = set()
        while ahead:
            work = ahead.pop()
            if work in around:
                return True
            if work is not None and id(work) not in seen:
                seen.add(id(work))
                ahead += [lock.holder for lock in work.waits]
                ahead += [each for each in _blocking if each.loop is work.loop]
        return False

    def _leave_queue(self, waiter: _Waiter, around: list[Work]) -> bool:
        """Take a task out of the queue; False when it was its turn already."""
        with _guard:
            for each in around:
                each.waits.remove(self)
            if waiter not in self._waiting:
                return False
            self._waiting.remove(waiter)
            return True

    def _next(self) -> None:
        while True:
            with _guard:
                if not self._waiting:
                    self._holder = None
                    return
                waiter = self._waiting.popleft()
                self._holder = waiter.work
            try:
                waiter.wake()
            except RuntimeError:  # its loop ended without it: the turn goes to the next
                continue
            return


class Turn:
    """A step that nobody else is in."""

    __slots__ = ("_lock", "_step", "_within")

    def __init__(self, lock: SessionLock, step: Preparing) -> None:
        """Remember which."""
        self._lock, self._step = lock, step

    async def __aenter__(self) -> None:
        """Wait until nobody is in."""
        self._within = Within(self._step, await self._lock.__aenter__())
        self._within.__enter__()

    async def __aexit__(self, *_error: object) -> None:
        """Let the next one in."""
        self._within.__exit__()
        await self._lock.__aexit__()


@contextmanager
def blocking_the_loop() -> Iterator[None]:
    """The running thread waits inside for what runs elsewhere; no task of its event loop, if it has one, goes on."""
    loop = running_loop_or_none()
    if loop is None:
        yield
        return
    work = Work(loop)
    with _guard:
        _blocking.append(work)
    try:
        with Within(work):
            yield
    finally:
        work.over = True
        with _guard:
            _blocking.remove(work)


def running_loop() -> Native:
    """The event loop that runs in this thread.

    Raises:
        RuntimeError: If none does.
    """
    token: Any = anyio.lowlevel.current_token()
    return getattr(token, "native_token", token)


def running_loop_or_none() -> Native:
    """The event loop that runs in this thread, if one does."""
    try:
        return running_loop()
    except (RuntimeError, AttributeError):
        return None


_NEVER = (
    "session: a stage, summarizer, store or hook asked for a step of the session whose step it works for, or of one "
    "whose own step waits for that, or code that is not async holds the event loop of such a step: neither would ever "
    "end; prepare its own model call with pipeline.prepare() or another session"
)
