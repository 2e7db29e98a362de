"""The one bridge for callers that are not async, and how sync clients drive what never waits.

A call may come from any thread, also from one whose event loop is running: nothing is run on that loop. Each call has
an event loop for itself while it lasts, so that nothing which blocks one (a stage, a summarizer, a listener) holds
another, and a stage may make such a call itself. The loop that was used last is used next: a program that makes one
call at a time always uses the same, whose connections to a store stay open.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from inspect import isawaitable, iscoroutine
from threading import Thread
from typing import Any, ParamSpec, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from agentctx.characters import shown
from agentctx.errors import ConfigError
from agentctx.message import Native
from agentctx.session.step_context import blocking_the_thread

P = ParamSpec("P")
T = TypeVar("T")

KEPT = 8
"""So many event loops that nobody uses are kept for the next calls; each is a thread that waits."""

_idle: list[BlockingPortal] = []
os.register_at_fork(after_in_child=_idle.clear)  # a fork has no threads


def blocking(function: Callable[P, Awaitable[T]], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run an async function to its end while the calling thread waits: ``blocking(session.prepare, messages)``.

    It may be called in any number of threads at once, also within what another call runs. When the caller gives up
    waiting (an interrupt), the function is cancelled. What belongs to one event loop, like an async client that a
    summarizer keeps open, must not be shared by threads that call at once.

    Args:
        function: What to run.
        args: What to call it with.
        kwargs: What to call it with, by name.

    Raises:
        ConfigError: If what was passed is no async function, such as the coroutine that one gives when it is called.

    Example:
        >>> from agentctx import Pipeline, blocking
        >>> view = blocking(Pipeline(budget=8_000).prepare, [{"role": "user", "content": "Hello"}])
        >>> len(view.messages)
        1
    """
    given: Native = function
    if not callable(given):
        passed = shown(given)
        if iscoroutine(given):
            passed = f"{given.__qualname__}(...), which is a call already"
            given.close()  # else Python says that nobody awaited it
        msg = (
            f"blocking: got {passed}: pass the async function, and behind it the arguments to call it with: "
            "blocking(session.prepare, messages)"
        )
        raise ConfigError(msg)

    async def run() -> tuple[Native, BaseException | None]:
        try:
            awaitable = given(*args, **kwargs)
            if not isawaitable(awaitable):
                name = getattr(given, "__name__", shown(given))
                msg = (
                    f"blocking: {name} is no async function: call it as it is; blocking is for what is awaited: "
                    "blocking(session.prepare, messages)"
                )
                return None, ConfigError(msg)
            return await awaitable, None
        except (Exception, anyio.get_cancelled_exc_class()):
            raise
        except BaseException as error:  # noqa: BLE001 - the caller's to hear of: it would end the event loop
            return None, error

    try:
        portal = _idle.pop()
    except IndexError:
        portal = _started()
    with blocking_the_thread():
        future = portal.start_task_soon(run)
        try:
            result, error = future.result()
        finally:
            if future.done() and not future.cancelled() and len(_idle) < KEPT:
                _idle.append(portal)
            else:  # in a thread: it waits for whatever blocks that event loop
                Thread(target=_end, args=(portal, future), daemon=True).start()
    if error is not None:
        raise error
    answer: T = result
    return answer


def _started() -> BlockingPortal:
    """Start an event loop in a thread of its own, and return the way in.

    Not by ``start_blocking_portal``: a forked process throws its generator away, and that waits for a thread which no
    fork has.
    """
    ready: Future[BlockingPortal] = Future()

    async def serve() -> None:
        async with BlockingPortal() as portal:
            ready.set_result(portal)
            await portal.sleep_until_stopped()

    Thread(target=anyio.run, args=(serve,), name="agentctx-blocking", daemon=True).start()
    return ready.result()


def _end(portal: BlockingPortal, future: Future[Any]) -> None:
    """End an event loop, and the call that was given up on it."""
    future.cancel()
    portal.call(partial(portal.stop, cancel_remaining=True))


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
