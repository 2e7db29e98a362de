"""Tell subscribers of events: each is called there and then, and one that raises is logged and costs nothing.

A listener of ``on_compact`` may wait, or block: its subscriber answers with the call, which has a limited time.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, wait
from contextvars import copy_context
from functools import partial
from threading import Thread
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from attrs import frozen

from agentctx.message import Native
from agentctx.offload import in_thread
from agentctx.protocols import Listener, Listeners, Subscriber
from agentctx.reports import Compaction, Event, StepPrepared
from agentctx.users_code import is_cancelled

logger = logging.getLogger("agentctx")

SECONDS = 5.0
"""So long a listener may take for one event; it is not waited for any longer."""

THREADS = 40
"""So many plain listeners may run at once in an event loop; those that were given up count until they return."""

_RAISED = "on_compact listener %r raised; the request goes on without it"
_SLOW = "on_compact listener %r took more than %g seconds; the request goes on without it"

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("agentctx.engine.listeners.limiter")


@frozen(eq=False)
class OnCompact:
    """The subscriber that ``on_compact`` makes of a listener: a compaction is told in time, and off the event loop.

    Args:
        listener: Told of each compaction, and of a ``SilentTruncationSuspected``; plain or async.
    """

    listener: Listener

    def __call__(self, event: Event, /) -> Telling | None:
        """Answer a compaction with the call of the listener, and any other event with nothing."""
        compaction = event.compaction if isinstance(event, StepPrepared) else event
        if not isinstance(compaction, Compaction):
            return None
        return Telling(self.listener, partial(self.listener, compaction))


class Telling(NamedTuple):
    """The call of a listener, which a subscriber has answered with, to be waited for.

    Args:
        listener: Who is told.
        call: Tells it.
    """

    listener: Listener
    call: Callable[[], Native]


def on_compact_subscribers(on_compact: Listeners | None) -> tuple[OnCompact, ...]:
    """Return the subscribers that one listener makes, or several, or none."""
    listeners = on_compact if isinstance(on_compact, Sequence) else () if on_compact is None else (on_compact,)
    return tuple(map(OnCompact, listeners))


def tell(subscribers: Iterable[Subscriber], event: Event) -> list[Telling]:
    """Call each subscriber with an event, here and now; one that raises is logged and costs nothing.

    Returns:
        The calls of listeners, to be waited for: by ``finish``, or by ``finish_plain`` where nothing can be awaited.
    """
    tellings = []
    for subscriber in subscribers:
        try:
            answer = subscriber(event)
        except Exception:  # a subscriber is the user's own
            logger.exception("subscriber %r raised; the request goes on without it", subscriber)
        else:
            if isinstance(answer, Telling):
                tellings.append(answer)
    return tellings


async def finish(tellings: Iterable[Telling]) -> None:
    """Call listeners side by side; plain ones in worker threads, where they hold up nobody."""
    fatal: list[BaseException] = []

    async def finish_one(listener: Listener, call: Callable[[], Native]) -> None:
        try:
            with anyio.move_on_after(SECONDS) as scope:
                await answer_of(call, _threads(), waits=is_async(listener))
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

    async with anyio.create_task_group() as group:
        for listener, call in tellings:
            group.start_soon(finish_one, listener, call)
    if fatal:
        raise fatal[0]


def finish_plain(tellings: Iterable[Telling]) -> list[Telling]:
    """Call those listeners that do not wait, side by side in threads, and return what only ``finish`` can wait for.

    They are waited for together, as long as one of them may take. One that hangs goes on in its thread, which does not
    keep the program from ending.
    """
    later, answers = [], dict[Future[Native], Listener]()

    def call_into(answer: Future[Native], call: Callable[[], Native]) -> None:
        try:
            answer.set_result(call())
        except BaseException as error:  # noqa: BLE001 - looked at where it is waited for
            answer.set_exception(error)

    for telling in tellings:
        if is_async(telling.listener):
            later.append(telling)
            continue
        answer: Future[Native] = Future()
        answers[answer] = telling.listener
        context, args = copy_context(), (call_into, answer, telling.call)
        Thread(target=context.run, args=args, name="agentctx listener", daemon=True).start()
    wait(answers, SECONDS)
    for answer, listener in answers.items():
        if not answer.done():
            logger.warning(_SLOW, listener, SECONDS)
        elif isinstance(error := answer.exception(), Exception):
            logger.error(_RAISED, listener, exc_info=error)
        elif error is not None:
            raise error
        elif inspect.isawaitable(answer.result()):
            later.append(Telling(listener, answer.result))
    return later


async def call_hook(hook: Callable[[Native], Native], said: Native) -> Native:
    """What a hook answers: an async one where it is awaited, a plain one in a worker thread, where it holds up nobody.

    Args:
        hook: Whom to ask; when this is cancelled, a plain one goes on, and nobody waits for it.
        said: What it is told.
    """
    return await answer_of(partial(hook, said), waits=is_async(hook))


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
