"""Work that would hold up the event loop is done in a worker thread: short work at once, long work in its turn."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from functools import partial
from itertools import count
from threading import Lock, get_ident
from time import perf_counter
from typing import NoReturn, TypeAlias, TypeVar
from weakref import WeakSet

import anyio
import anyio.lowlevel
import anyio.to_thread
from anyio.lowlevel import RunVar
from attrs import define, field, frozen

from agentctx.core.pace import AHEAD, Progress, giving_way

T = TypeVar("T")

SOME, MUCH, VERY_MUCH = 200, 400, 1_200
"""Messages. Before looking at some, ``offload`` lets other tasks go on, so that several looks do not add up. Looking at
many takes a millisecond or two, which is what handing over to a thread may cost; looking at very many, more than five.

What every step does asks first (``f() if n < SOME else await offload(f, n)``): of fewer, ``offload`` does nothing but
call ``f``, and a quiet step spares itself that it is awaited."""

GLANCES = 4
"""So many messages are glanced at while one is worked on: what only glances at them counts so much less of them."""

MUCH_TEXT, VERY_MUCH_TEXT = 64 * 1024, 256 * 1024
"""Characters. Counting or cutting that much takes 3 to 6 milliseconds, and 12 to 25."""

SILENT = 0.5
"""Seconds. Work that has not given way for so long may wait for something that only the event loop can bring about, or
another work: those that wait for the worker go on beside it."""

_ITERATIONS = 3
"""Of the event loop, before a younger step has its work done: the older one may come back with more."""


def amount(lengths: Iterable[int]) -> tuple[int, int]:
    """How many messages these are the lengths of, and how many characters; of very much only that it is very much."""
    messages = characters = 0
    for length in lengths:
        messages, characters = messages + 1, characters + length
        if messages >= VERY_MUCH or characters >= VERY_MUCH_TEXT:
            break
    return messages, characters


def needs_a_worker(messages: int, characters: int) -> bool:
    """Whether work is so much that the event loop shall not wait for it."""
    return messages >= MUCH or characters >= MUCH_TEXT


async def offload(work: Callable[[], T], messages: int, characters: int = 0) -> T:
    """Do ``work`` here and ahead of the workers when it is about few messages and little text, else in a worker thread.

    Pure Python holds the interpreter, but loops over many messages give way (``core.pace``): the event loop goes on.
    Long works are done one after the other, those of the oldest step first: of many steps that begin together, one
    after the other gets done. Short work does not wait for them. Nor does anything wait for a work that waits itself:
    what its thread asks the event loop for (``anyio.from_thread``) is done at once, and where a work has not given way
    for ``SILENT`` seconds, others go on beside it.

    Args:
        work: Plain work that nobody else depends on; it may go on for a moment after a cancellation.
        messages: How many messages it looks at.
        characters: How much text it may have to count or to cut.
    """
    if not needs_a_worker(messages, characters):
        if messages >= SOME:
            await anyio.lowlevel.checkpoint()
        AHEAD.add(thread := get_ident())
        try:
            return work()
        finally:
            AHEAD.discard(thread)
    short, long, threads = _of_this_loop()
    outer = _slot.get()
    if outer is not None and outer.held:  # its thread waits for this one
        return await in_thread(partial(_aside, work, outer), threads)
    async with (long if messages >= VERY_MUCH or characters >= VERY_MUCH_TEXT else short).slot() as slot:
        return await in_thread(partial(_aside, work, slot), threads)


def _aside(work: Callable[[], T], slot: _Slot) -> T:
    _slot.set(slot)
    with giving_way(slot.progress):
        return work()


async def in_thread(work: Callable[[], T], threads: anyio.CapacityLimiter) -> T:
    """What ``work`` gives in a worker thread; what it raises is raised here, whatever it is.

    A ``GeneratorExit`` that came out of a future would close the coroutines that wait for it: none of them could handle
    it. And trio takes no coroutine out of a thread, where ``work`` gives one.

    Args:
        work: Plain work; when this is cancelled it goes on, and nobody waits for it.
        threads: Of whose threads it takes one.
    """
    ended = await anyio.to_thread.run_sync(_ended, work, abandon_on_cancel=True, limiter=threads)
    return ended()


def _ended(work: Callable[[], T]) -> Callable[[], T]:
    """Gives what ``work`` gave, or raises its ``GeneratorExit``."""
    try:
        result = work()
    except GeneratorExit as error:
        return partial(_raise, error)
    return lambda: result


def _raise(error: BaseException) -> NoReturn:
    raise error


_ages = count()
_age: ContextVar[int | None] = ContextVar("agentctx.offload.age", default=None)


def begin_step() -> None:
    """What this task offloads from here on belongs to one step, which goes before all that begin later."""
    _age.set(next(_ages))


@frozen
class Queue:
    """The works that wait, or have waited, for a worker thread, of all event loops of this process.

    Args:
        waiting: How many wait now.
        waits: How many had to wait so far.
        seconds: How long they waited in all, in seconds.
    """

    waiting: int
    waits: int
    seconds: float


def queue() -> Queue:
    """How much waits for the workers now, and how long works have waited so far."""
    return Queue(sum(len(worker.waiting) for worker in tuple(_all)), _Waits.number, _Waits.seconds)


class _Waits:
    """How often and how long was waited so far, in all event loops."""

    number = 0
    seconds = 0.0
    guard = Lock()

    @classmethod
    def add(cls, seconds: float) -> None:
        with cls.guard:
            cls.number += 1
            cls.seconds += seconds


@define(eq=False, repr=False)
class _Slot:
    """What one work has while a worker is at it.

    Args:
        held: Whether it goes on.
        progress: When the threads that are at it last gave way.
    """

    held: bool = True
    progress: Progress = field(factory=Progress)

    def silent_in(self) -> float:
        """In how many seconds it will be silent for too long, if it says nothing."""
        return max(0.0, self.progress.at + SILENT - perf_counter())


_slot: ContextVar[_Slot | None] = ContextVar("agentctx.offload.slot", default=None)
"""The slot of the work that runs in this thread; also in what that asks the event loop for."""


@define(eq=False, repr=False)
class _Worker:
    """Does one work at a time: threads that run Python do not run faster side by side.

    Args:
        at: The work it is at.
        done: How many works it has done.
        waiting: Those that wait for it, by the age of their step and their own.
    """

    at: _Slot | None = None
    done: int = 0
    waiting: dict[tuple[int, int], anyio.Event] = field(factory=dict)

    @property
    def busy(self) -> bool:
        """Whether it is at a work that does not merely wait."""
        return self.at is not None and self.at.silent_in() > 0

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[_Slot]:
        """Have the worker, once it is free and no older step waits for it."""
        if self.busy or self.waiting:
            await self._wait()
        self.at = slot = _Slot()
        try:
            yield slot
        finally:
            slot.held = False
            self.done += 1
            if self.at is slot:
                self.at = None
                self._call()

    async def _wait(self) -> None:
        began, own = perf_counter(), next(_ages)
        age = _age.get()
        place = own if age is None else age, own
        self.waiting[place] = anyio.Event()
        try:
            while not self._is_next(place):
                with anyio.move_on_after(self.at.silent_in() if self.at is not None and self.busy else SILENT):
                    await self.waiting[place].wait()
                    await self._let_older_ones_come_back()
                self.waiting[place] = anyio.Event()
        finally:
            del self.waiting[place]
            _Waits.add(perf_counter() - began)
            self._call()

    def _is_next(self, place: tuple[int, int]) -> bool:
        return not self.busy and min(self.waiting) == place

    async def _let_older_ones_come_back(self) -> None:
        done = None
        while done != self.done and not self.busy:
            done = self.done
            for _ in range(_ITERATIONS):
                await anyio.lowlevel.checkpoint()

    def _call(self) -> None:
        """Wake the oldest that waits, if the worker is free."""
        if self.waiting and not self.busy:
            self.waiting[min(self.waiting)].set()


_all: WeakSet[_Worker] = WeakSet()
_Workers: TypeAlias = "tuple[_Worker, _Worker, anyio.CapacityLimiter]"
_workers: RunVar[_Workers] = RunVar("agentctx.offload.workers")


def _of_this_loop() -> _Workers:
    """The workers for short and for long work; of threads as many as there are: one may still be at cancelled work."""
    try:
        return _workers.get()
    except LookupError:
        _workers.set(found := (_Worker(), _Worker(), anyio.CapacityLimiter(math.inf)))
        _all.update(found[:2])
        return found
