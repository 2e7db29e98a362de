"""What is the user's own is imported and called, and much work is done in worker threads."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from math import inf, isfinite
from pathlib import Path
from typing import TypeVar

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar

from agentctx.characters import said_by, shown
from agentctx.errors import AgentctxError, ConfigError

T = TypeVar("T")

MUCH, MUCH_TEXT = 1_000, 64 * 1024
"""Messages, and characters. To look at so many messages takes some three milliseconds, to count so much text six. What
is less is done sooner here: tiktoken lets go of the interpreter for each text, and a thread waits for it after each."""

THREADS = 8
"""Threads of an event loop for the library's own work. They are few: two that compute are no faster than one, and each
lets the event loop wait 5 ms longer for its turn."""

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("agentctx.users_code.limiter")
_unlimited: ContextVar[bool] = ContextVar("agentctx.users_code.unlimited", default=False)
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


FAILURES = (Exception, SystemExit, GeneratorExit)
"""What code of a user's may raise where it is awaited, and is neither an interrupt nor a cancellation."""


def described(error: BaseException) -> str:
    """What was raised, in words: its type, what it says, and its notes.

    Args:
        error: What was raised.
    """
    if isinstance(error, SystemExit):
        said = f"it called sys.exit({'' if error.code is None else error.code!r})"
    else:
        said = said_by(error)
    return "; ".join((said, *getattr(error, "__notes__", ())))


@contextmanager
def running(named: str) -> Iterator[None]:
    """Turn what code of a user's raises into one error that names it; what agentctx raises stays as it is.

    Args:
        named: What the user named.

    Raises:
        AgentctxError: If anything else was raised; says what.
    """
    try:
        yield
    except AgentctxError:
        raise
    except FAILURES as error:
        msg = f"{named}: {described(error)}"
        raise AgentctxError(msg) from error


async def side_by_side(jobs: Iterable[Callable[[], Awaitable[None]]]) -> None:
    """Await what several functions do, all at once; what one raises ends the others, and is raised as it is.

    Args:
        jobs: The functions.
    """
    fatal: list[BaseException] = []

    async def work(job: Callable[[], Awaitable[None]]) -> None:
        try:
            await job()
        except anyio.get_cancelled_exc_class():
            raise
        except BaseException as error:  # noqa: BLE001 - raised again outside the group, which would wrap it
            fatal.append(error)
            group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for job in jobs:
            group.start_soon(work, job)
    if fatal:
        raise fatal[0]


WAS_CANCELLED = "waited for something that was cancelled"
"""What is said of code of a user's in which a cancellation was raised that nobody has asked for."""


def is_cancelled() -> bool:
    """Whether a task that ``side_by_side`` runs is cancelled itself, and not only what it waits for.

    Asked where a cancellation is caught: one that nobody has asked for is an error of what was waited for.
    """
    return anyio.current_effective_deadline() == -inf


def imported(named: str, where: str) -> object:
    """What a module has under a name; modules of the working directory are found.

    Args:
        named: ``module:name``.
        where: What asks for it, for the error: an option, or a table of a file.

    Raises:
        ConfigError: If it cannot be imported.
    """
    module, _, name = named.partition(":") if isinstance(named, str) else ("", "", "")
    if not module or not name:
        wanted = where[2:] if where.startswith("--") else "pipeline"
        msg = f"{where}: must be MODULE:NAME such as my_agent.context:{wanted}, got {named!r}"
        raise ConfigError(msg)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = getattr(import_module(module), name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        msg = f"{where}: {named}: cannot be imported: {described(error)}"
        raise ConfigError(msg) from error
    return found


def pipeline_or_maker(named: str, where: str) -> Callable[..., object]:
    """What a module has under a name, and can be a pipeline, or a function that makes something.

    Args:
        named: ``module:name``.
        where: What asks for it, for the error.

    Raises:
        ConfigError: If it cannot be imported, or is nothing that can be called.
    """
    found = imported(named, where)
    if not callable(found):
        msg = f"{where}: {named}: must be a Pipeline, or a function that makes one, got {type(found).__name__}"
        raise ConfigError(msg)
    return found


def called(maker: Callable[..., T], named: str, where: str, *given: object, expects: str = "") -> T:
    """What a function or class of a user's makes; what agentctx raises in it stays as it is.

    Args:
        maker: The function.
        named: How the user named it: ``module:name``.
        where: What asks for it, for the error.
        given: What it is called with.
        expects: What it is called with and gives, for the error.

    Raises:
        ConfigError: If anything else was raised, also ``SystemExit``; says what. An interrupt passes.
    """
    try:
        return maker(*given)
    except (AgentctxError, KeyboardInterrupt):
        raise
    except BaseException as error:
        msg = f"{where}: calling {named} failed: {described(error)}{expects and f': {expects}'}"
        raise ConfigError(msg) from error


def time_of(clock: Callable[[], float], whose: str) -> float:
    """What a clock says.

    Args:
        clock: Tells the time, as a finite number.
        whose: Who asks it, for the error.

    Raises:
        ConfigError: If it raises, or tells none.
    """
    try:
        now: object = clock()
    except AgentctxError:
        raise
    except Exception as error:
        msg = f"{whose}: the clock {clock!r} raised {said_by(error)}"
        raise ConfigError(msg) from error
    if isinstance(now, bool) or not isinstance(now, (int, float)) or not _is_finite(now):
        msg = f"{whose}: the clock {clock!r} gave {shown(now)}; expected seconds, as a finite number"
        raise ConfigError(msg)
    return now


def _is_finite(number: float) -> bool:
    try:
        return isfinite(number)
    except OverflowError:  # an integer larger than any float
        return False
