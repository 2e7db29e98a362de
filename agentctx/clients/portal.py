"""Sync clients: run what waits on an event loop in a thread of its own, and drive what never does.

A sync call may come from any thread, also from one whose event loop is running: nothing is run on that loop, so
nothing waits for it.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from threading import Lock, Thread, get_ident
from typing import Any, ParamSpec, TypeVar

import anyio
from anyio.from_thread import BlockingPortal, start_blocking_portal
from attrs import frozen

P = ParamSpec("P")
T = TypeVar("T")


@frozen
class _Loop:
    """An event loop in a thread of its own.

    Args:
        portal: The way into it.
        thread: The thread's identity.
        process: The process that it runs in: a fork has no threads.
    """

    portal: BlockingPortal
    thread: int
    process: int


_guard = Lock()
_running: list[_Loop] = []


def blocking(function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run an async function to its end while the calling thread waits.

    All sync clients share one loop, so that sessions may be shared between threads. When the caller gives up
    waiting (an interrupt), the function is cancelled.
    """

    async def run() -> T:
        return await function(*args, **kwargs)

    loop = _loop()
    if loop.thread == get_ident():
        with start_blocking_portal() as portal:
            return portal.call(run)
    future = loop.portal.start_task_soon(run)
    try:
        return future.result()
    finally:
        future.cancel()


def drive(coroutine: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine that never waits: one that was written for both kinds of client, used by a sync one."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        result: T = done.value
        return result
    coroutine.close()
    msg = "a sync client was made to wait for an event loop"
    raise RuntimeError(msg)


def _loop() -> _Loop:
    with _guard:
        if not _running or _running[0].process != os.getpid():
            _running[:] = [_start()]
        return _running[0]


def _start() -> _Loop:
    ready: Future[_Loop] = Future()

    async def serve() -> None:
        async with BlockingPortal() as portal:
            ready.set_result(_Loop(portal, get_ident(), os.getpid()))
            await portal.sleep_until_stopped()

    Thread(target=anyio.run, args=(serve,), name="agentctx-clients", daemon=True).start()
    return ready.result()
