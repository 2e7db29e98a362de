"""Tell listeners, side by side and for a limited time; one that raises or hangs is logged and costs nothing."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import copy_context
from functools import partial
from threading import Thread
from time import monotonic
from typing import Any

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from attrs import define, field

from agentctx.message import Native
from agentctx.offload import in_thread
from agentctx.protocols import Listener, Listeners, Sink
from agentctx.reports import Compaction, Event
from agentctx.users_code import is_cancelled

logger = logging.getLogger("agentctx")

SECONDS = 5.0
"""So long a listener may take for one event; it is not waited for any longer."""

THREADS = 40
"""So many plain listeners may run at once in an event loop; those that were given up count until they return."""

_RAISED = "on_compact listener %r raised; the request goes on without it"
_SLOW = "on_compact listener %r took more than %g seconds; the request goes on without it"

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("agentctx.engine.listeners.limiter")


def as_listeners(given: Listeners | None) -> tuple[Listener, ...]:
    """One listener, several, or none, as several."""
    if given is None:
        return ()
    return tuple(given) if isinstance(given, Sequence) else (given,)


async def tell(listeners: Iterable[Listener], event: Compaction) -> None:
    """Call the listeners with the event, side by side; plain ones in worker threads, where they hold up nobody."""
    fatal: list[BaseException] = []
    async with anyio.create_task_group() as group:
        for listener in listeners:
            group.start_soon(_tell_one, listener, event, fatal)
    if fatal:
        raise fatal[0]


async def _tell_one(listener: Listener, event: Compaction, fatal: list[BaseException]) -> None:
    """Call one listener; what is no plain error of its own is put into ``fatal``."""
    try:
        with anyio.move_on_after(SECONDS) as scope:
            await call_hook(listener, event, _threads())
        if scope.cancelled_caught:
            logger.warning(_SLOW, listener, SECONDS)
    except Exception:  # the one kind of place where any error is expected: a listener's own
        logger.exception(_RAISED, listener)
    except anyio.get_cancelled_exc_class():
        if is_cancelled():
            raise
        logger.exception(_RAISED, listener)
    except BaseException as error:  # noqa: BLE001 - raised again outside the group, which would wrap it
        fatal.append(error)


def observe(sinks: Iterable[Sink], event: Event) -> None:
    """Tell the sinks, here and now; one that raises is logged and costs nothing."""
    for sink in sinks:
        try:
            sink(event)
        except Exception:  # a sink is the user's own
            logger.exception("sink %r raised; the request goes on without it", sink)


async def call_hook(
    hook: Callable[[Native], Native], said: Native, limiter: anyio.CapacityLimiter | None = None
) -> Native:
    """What a hook answers: an async one where it is awaited, a plain one in a worker thread, where it holds up nobody.

    Args:
        hook: Whom to ask; when this is cancelled, a plain one goes on, and nobody waits for it.
        said: What it is told.
        limiter: Of whose threads a plain one takes one; None: one of its own.
    """
    return await answer_of(partial(hook, said), limiter, waits=is_async(hook))


async def answer_of(
    ask: Callable[[], Native], limiter: anyio.CapacityLimiter | None = None, *, waits: bool = False
) -> Native:
    """What a function answers, called in a worker thread, and awaited here where that is an awaitable.

    Args:
        ask: The function: of many, a decorated one and a lambda too, only its answer tells whether it is to be awaited.
        limiter: Of whose threads it takes one; None: one of its own.
        waits: Whether it is known to give only what is to be awaited, so that it needs no thread.
    """
    if waits:
        return await ask()
    answer = await in_thread(ask, limiter or anyio.CapacityLimiter(1))
    return await answer if inspect.isawaitable(answer) else answer


def _threads() -> anyio.CapacityLimiter:
    try:
        return _limiter.get()
    except LookupError:
        _limiter.set(limiter := anyio.CapacityLimiter(THREADS))
        return limiter


def is_async(hook: Callable[..., Any]) -> bool:
    """Whether it is an async function, or an object whose call is one: calling it only makes what is to be awaited."""
    return inspect.iscoroutinefunction(type(hook).__call__) or inspect.iscoroutinefunction(hook)


def tell_plain(listeners: Iterable[Listener], event: Compaction) -> list[Listener]:
    """Call those listeners that do not wait, and give back the others, to be told where waiting is possible.

    They are called side by side in threads of their own, and waited for together, as long as one of them may take. One
    that hangs goes on in its thread, which does not keep the program from ending.
    """
    given, until = list(listeners), monotonic() + SECONDS
    calls = [_PlainCall(listener, event) for listener in given if not is_async(listener)]
    for call in calls:
        call.start()
    later = [call.result(until) for call in calls]
    return [*filter(is_async, given), *(listener for listener in later if listener is not None)]


@define(eq=False, repr=False)
class _PlainCall:
    """One listener that is called in a thread."""

    listener: Listener
    event: Compaction
    answer: object = None
    error: BaseException | None = None
    thread: Thread = field(init=False)

    def start(self) -> None:
        """Begin, with the caller's context variables and as part of its step, which waits for it."""
        self.thread = Thread(target=copy_context().run, args=(self._run,), name="agentctx listener", daemon=True)
        self.thread.start()

    def _run(self) -> None:
        try:
            self.answer = self.listener(self.event)
        except BaseException as error:  # noqa: BLE001 - looked at where it is waited for
            self.error = error

    def result(self, until: float) -> Listener | None:
        """Wait for its end; what has to be waited for then elsewhere, if anything."""
        self.thread.join(max(0.0, until - monotonic()))
        if self.thread.is_alive():
            logger.warning(_SLOW, self.listener, SECONDS)
        elif isinstance(self.error, Exception):
            logger.error(_RAISED, self.listener, exc_info=self.error)
        elif self.error is not None:
            raise self.error
        elif inspect.isawaitable(self.answer):
            return partial(_answer, self.answer)
        return None


async def _answer(answer: Awaitable[object], _event: Compaction) -> object:
    """What a listener gave back when it was called."""
    return await answer
