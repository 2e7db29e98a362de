"""The one bridge for callers that are not async, and how sync clients drive what never waits.

A call may come from any thread, also from one whose event loop is running: nothing is run on that loop. Each call has
an event loop for itself while it lasts, so that nothing which blocks one (a stage, a summarizer, a listener) holds
another. The loop that was used last is used next: a program that makes one call at a time always uses the same.
"""

from __future__ import annotations

import os
from collections.abc import Awaitable, Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from contextvars import Context
from functools import partial
from inspect import isawaitable, iscoroutine
from threading import Thread
from typing import Any, NoReturn, ParamSpec, TypeVar

import anyio
from anyio.from_thread import BlockingPortal

from agentctx.errors import ConfigError
from agentctx.printable import shown
from agentctx.session.lock import blocking_the_loop, speaking

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
    if not callable(function):
        raise ConfigError(_not_a_function(function))

    async def answer() -> T:
        given = function(*args, **kwargs)
        if not isawaitable(given):
            raise ConfigError(_not_async(function))
        return await given

    async def run() -> Callable[[], T]:
        try:
            result = await answer()
        except (Exception, anyio.get_cancelled_exc_class()):
            raise
        except BaseException as error:  # noqa: BLE001 - the caller's to hear of: it would end the event loop
            return partial(_raise, error)
        return lambda: result

    bridge = _idle_one() or _started()
    with speaking(), blocking_the_loop():
        future = bridge.start_task_soon(run)
        try:
            outcome = future.result()
        finally:
            if _lives_on(future) and len(_idle) < KEPT:
                _idle.append(bridge)
            else:
                _apart(partial(_end, bridge, future))
    return outcome()


def _not_a_function(given: object) -> str:
    """What is wrong with what cannot be called; a coroutine is closed, so that Python does not say it was forgotten."""
    what = shown(given)
    if iscoroutine(given):
        what = f"{given.__qualname__}(...), which is a call already"
        given.close()
    return (
        f"blocking: got {what}: pass the async function, and behind it what to call it with: "
        "blocking(session.prepare, messages)"
    )


def _not_async(function: object) -> str:
    name = getattr(function, "__name__", shown(function))
    return (
        f"blocking: {name} is no async function: call it as it is; blocking is for what is awaited: "
        "blocking(session.prepare, messages)"
    )


def _idle_one() -> BlockingPortal | None:
    """The way into the event loop that was used last, if none of other threads' calls has it."""
    with suppress(IndexError):
        return _idle.pop()
    return None


def _raise(error: BaseException) -> NoReturn:
    raise error


def _lives_on(future: Future[Any]) -> bool:
    """Whether the event loop of a call can be used again: what is no plain error may have ended it."""
    return future.done() and not future.cancelled() and isinstance(future.exception(), Exception | None)


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


def _started() -> BlockingPortal:
    """The way into a new event loop in a thread of its own."""
    ready: Future[BlockingPortal] = Future()

    async def serve() -> None:
        async with BlockingPortal() as bridge:
            ready.set_result(bridge)
            await bridge.sleep_until_stopped()

    _apart(partial(anyio.run, serve))
    return ready.result()


def _end(bridge: BlockingPortal, future: Future[Any]) -> None:
    """End an event loop, and what was given up on it; this waits for whatever blocks that loop."""
    future.cancel()
    with suppress(RuntimeError):  # it has ended by itself
        bridge.start_task_soon(bridge.stop)


def _apart(work: Callable[[], object]) -> None:
    """Do ``work`` in a thread that belongs to no conversation: its loop serves calls of others, too, each with its own.

    The context is empty, not a copy of the caller's, which would be held as long as the loop is kept.
    """
    Context().run(Thread(target=work, name="agentctx-blocking", daemon=True).start)
