"""Who is at work: which session speaks now, which steps are under way around the running code, and whose turn is next.

A session may be shared by tasks, by threads, and by sync clients: ``SessionLock`` lets one in at a time, also between
event loops. Nobody waits for ever: whoever would wait for somebody that waits for him is told so at once.

What is under way, and which session speaks, is told by one context variable. A task inherits it from the one that
started it, and so does a thread, or a function handed to a pool: Python itself does not do that for threads, so
``patch_threads_once`` makes it so. A generator does not inherit it, whose steps may be run by several tasks and
threads: what runs in a generator is told by its frame.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from inspect import CO_ASYNC_GENERATOR, CO_GENERATOR, currentframe
from threading import Lock, get_ident
from types import FrameType
from typing import TYPE_CHECKING, Any, Protocol

import anyio
import anyio.lowlevel
from attrs import Factory, define, field, frozen

from agentctx.core.message import Native
from agentctx.engine.plan import Plan
from agentctx.errors import ConfigError

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


class Speaker(Protocol):
    """A session, as far as its blocks are concerned."""

    blocks: list[SessionBlock]


class Held(Protocol):
    """A lock, as far as it is known who is in."""

    @property
    def holder(self) -> Work | None:
        """Who is in, if anybody."""
        ...


@define(eq=False, repr=False)
class SessionBlock:
    """One ``with session:``.

    Args:
        session: The session that speaks within.
        owner: The task or thread that entered.
        frame: The frame of the function that entered, or of the generator.
        left: Whether it has ended. What was started within it stays within it; its owner does not.
    """

    session: Speaker
    owner: object
    frame: FrameType | None = None
    left: bool = False


@define(eq=False, repr=False)
class Preparing:
    """A step under way: model calls that are made for it are no part of the conversation.

    Args:
        plan: The pipeline that prepares.
        session: The session whose step it is; None for a stateless one.
    """

    plan: Plan
    session: Speaker | None = None


@define(eq=False, repr=False)
class Work:
    """What is done while others have to wait.

    Args:
        thread: The thread whose event loop it needs, by ``threading.get_ident``.
        waits: What it waits for itself.
        over: Whether it is done. What was started by it and goes on holds nobody.
    """

    thread: int = Factory(get_ident)
    waits: list[Held] = Factory(list)
    over: bool = False


_Entered = tuple[SessionBlock | Preparing | Work, ...]
_ENTERED: ContextVar[_Entered] = ContextVar("agentctx_entered", default=())
"""The blocks, steps and works around the running code, innermost last."""


_ENTERS = frozenset({__file__, __file__.removesuffix("lock.py") + "session.py"})
"""The files of what enters a block for whoever wrote ``with session:``."""

_MANAGERS = contextmanager.__code__.co_filename
"""The file of contextlib."""

_generators: dict[FrameType | None, list[SessionBlock]] = {}
"""The blocks that generators hold open, by the generator's frame."""


def speaker() -> Speaker | None:
    """The session of the innermost ``with session:`` around the running code; None when a step is further in."""
    innermost = next((each for each in reversed(_entered()) if not isinstance(each, Work)), None)
    return innermost.session if isinstance(innermost, SessionBlock) else None


def enter(session: Speaker) -> None:
    """Let ``session`` speak from here on."""
    patch_threads_once()
    block = SessionBlock(session, _here(), _entering())
    session.blocks.append(block)
    if block.frame is not None and _is_generator(block.frame):
        _generators.setdefault(block.frame, []).append(block)
    _ENTERED.set((*_ENTERED.get(), block))


def leave(session: Speaker) -> None:
    """End the session's innermost block: wherever it was entered, since a generator may be closed by another task."""
    inside = [
        each for each in _ENTERED.get() if isinstance(each, SessionBlock) and each.session is session and not each.left
    ]
    block = inside[-1] if inside else session.blocks[-1]
    block.left = True
    session.blocks.remove(block)
    if block.frame in _generators:
        _generators[block.frame].remove(block)
        if not _generators[block.frame]:
            del _generators[block.frame]
    _ENTERED.set(tuple(each for each in _ENTERED.get() if each is not block))


def _entering() -> FrameType | None:
    """The frame of whoever enters a block; what contextlib runs enters for whoever called it."""
    frame = currentframe()
    while frame is not None and frame.f_code.co_filename in _ENTERS:
        frame = frame.f_back
    while frame is not None and (frame.f_code.co_filename == _MANAGERS or _by_contextlib(frame)):
        frame = frame.f_back
    return frame


def _by_contextlib(frame: FrameType) -> bool:
    return _is_generator(frame) and frame.f_back is not None and frame.f_back.f_code.co_filename == _MANAGERS


def _is_generator(frame: FrameType) -> bool:
    return frame.f_code.co_flags & (CO_GENERATOR | CO_ASYNC_GENERATOR) != 0


def _entered() -> _Entered:
    """What is around the running code; last is the block, if any, of the generator that it is run by."""
    forget_left()
    entered = _ENTERED.get()
    innermost = next((each for each in reversed(entered) if not isinstance(each, Work)), None)
    if not _generators or isinstance(innermost, Preparing):
        return entered
    block = _of_generator(entered, innermost)
    return entered if block is None or block is innermost else (*entered, block)


def _of_generator(entered: _Entered, innermost: SessionBlock | None) -> SessionBlock | None:
    """The block of the innermost generator that the running code is run by, unless another one is further in.

    A generator's body runs in the context of whoever asks it for the next value, so the context variable does not tell
    its block; the stack does. Going outwards, the first generator's frame that holds a block wins, unless the frame of
    an ordinary block comes first.
    """
    frames_of_plain_blocks = {each.frame for each in entered if isinstance(each, SessionBlock)} - _generators.keys()
    frame, found = currentframe(), None
    while frame is not None:
        if frame in frames_of_plain_blocks and (found is None or (innermost is not None and frame is innermost.frame)):
            return found
        if found is None and frame in _generators:
            found = _generators[frame][-1]
        frame = frame.f_back
    returned = innermost is not None and innermost.frame in frames_of_plain_blocks and innermost.owner == _here()
    return None if returned else found  # a function that has returned left its block open for whoever called it


def forget_left() -> None:
    """Take out the blocks that the running task or thread entered, and that were left elsewhere."""
    entered = _ENTERED.get()
    if any(isinstance(each, SessionBlock) and each.left for each in entered):
        here = _here()
        _ENTERED.set(
            tuple(each for each in entered if not isinstance(each, SessionBlock) or not each.left or each.owner != here)
        )


def preparing(plan: Plan, session: Speaker | None = None) -> Within:
    """A step of ``session``, or a stateless one, is under way inside: nobody speaks."""
    return Within(Preparing(plan, session))


@contextmanager
def speaking() -> Iterator[None]:
    """What is started inside, also by other libraries, is in the block of the generator that runs this.

    For what runs elsewhere while this waits: there the stack does not lead to the generator, and the context has to.
    """
    before = _ENTERED.get()
    _ENTERED.set(_entered())
    try:
        yield
    finally:
        _ENTERED.set(before)


class Within:
    """``with Within(what):`` what runs inside, and what it starts, is part of it."""

    __slots__ = ("_before", "_what")

    def __init__(self, *what: Preparing | Work) -> None:
        """Remember what it is, outermost first."""
        self._what = what
        self._before: _Entered = ()

    def __enter__(self) -> None:
        """Begin."""
        self._before = _ENTERED.get()
        _ENTERED.set((*self._before, *self._what))

    def __exit__(self, *_error: object) -> None:
        """End."""
        _ENTERED.set(self._before)


def steps_around() -> list[Preparing]:
    """The steps that the running code is part of: it is a stage's, a summarizer's, a store's or a listener's."""
    return [each for each in _ENTERED.get() if isinstance(each, Preparing)]


def works_around() -> list[Work]:
    """The works that the running code is part of, and that do not end before it does."""
    return [each for each in _ENTERED.get() if isinstance(each, Work) and not each.over]


def _here() -> object:
    """The running task, or the thread where no event loop runs."""
    try:
        return anyio.get_current_task().id
    except (RuntimeError, AttributeError):  # no event loop, or code that it runs outside any task
        return threading.current_thread()


def patch_threads_once() -> None:
    """From now on threads, and functions handed to a pool, are within the blocks and steps that they are started in.

    No more of the context is handed on than that. A pool's thread has no part in what happened to start it.
    """
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 - most programs never enter a block

    if not _originals:  # once: another library may have put its own in this one's place since, and call it
        _originals["start"], _originals["submit"] = threading.Thread.start, ThreadPoolExecutor.submit
        threading.Thread.start = _start  # type: ignore[method-assign,assignment]  # there is no other way to be told of a thread
        ThreadPoolExecutor.submit = _submit  # type: ignore[method-assign,assignment]  # as above


def start_outside(work: Callable[[], object], name: str) -> None:
    """Do ``work`` in a thread with the caller's context variables, but in no block and part of no step.

    A user's hook runs in it, which may look at its own variables; the step that it was started in may end before it.
    """
    context = copy_context()
    context.run(_ENTERED.set, ())
    context.copy().run(threading.Thread(target=context.run, args=(work,), name=name, daemon=True).start)


_originals: dict[str, Callable[..., Any]] = {}


def _start(thread: threading.Thread) -> None:
    entered = _entered()
    if entered:
        thread.run = _within(entered, thread.run)  # type: ignore[method-assign]  # of this one thread
    _originals["start"](thread)


def _submit(pool: ThreadPoolExecutor, function: Callable[..., Native], /, *args: Native, **more: Native) -> Native:
    entered, before = _entered(), _ENTERED.get()
    if not entered:
        return _originals["submit"](pool, function, *args, **more)
    _ENTERED.set(())
    try:
        return _originals["submit"](pool, _within(entered, function), *args, **more)
    finally:
        _ENTERED.set(before)


def _within(entered: _Entered, function: Callable[..., Any]) -> Callable[..., Any]:
    def run(*args: Native, **more: Native) -> Native:
        before = _ENTERED.get()
        _ENTERED.set(entered)
        try:
            return function(*args, **more)
        finally:
            _ENTERED.set(before)

    return run


class Deadlock(ConfigError):
    """Waiting here would never end: whoever is in waits, by itself or by others, for the one who came."""


@frozen(eq=False, repr=False)
class _Waiter:
    """A task that waits for its turn.

    Args:
        event: Set when it is its turn.
        loop: The event loop that it waits on.
        work: What it will do then.
    """

    event: anyio.Event
    loop: Native
    work: Work

    def wake(self) -> None:
        """Tell the task, on its own loop.

        Raises:
            RuntimeError: If its loop has ended.
        """
        schedule = getattr(self.loop, "call_soon_threadsafe", None) or self.loop.run_sync_soon
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
        work = Work()
        with _guard:
            if self._holder is None:
                self._holder = work
                return work
            around = works_around()
            if self._never_free_for(around):
                raise Deadlock(_NEVER)
            waiter = _Waiter(anyio.Event(), running_loop(), work)
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

    def leave(self) -> None:
        """Let the next one in."""
        if self._holder is not None:
            self._holder.over = True
        self._next()

    def during(self, step: Preparing) -> Alone:
        """Alone, and all that is done inside is part of ``step``: ``async with lock.during(step):``."""
        return Alone(self, step)

    def _never_free_for(self, around: list[Work]) -> bool:
        """Whether waiting would close a cycle.

        It does when somebody ahead waits, directly or through others, for work that we are part of, or needs a loop
        that we block.
        """
        ahead = [self._holder, *(each.work for each in self._waiting)]
        blocked = [each.thread for each in around if each in _blocking]
        if any(each is not None and each.thread in blocked for each in ahead):
            return True
        seen: set[int] = set()
        while ahead:
            work = ahead.pop()
            if work in around:
                return True
            if work is not None and id(work) not in seen:
                seen.add(id(work))
                ahead += [lock.holder for lock in work.waits]
                ahead += [each for each in _blocking if each.thread == work.thread]
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


class Alone:
    """A step that nobody else is in."""

    __slots__ = ("_before", "_lock", "_step")

    def __init__(self, lock: SessionLock, step: Preparing) -> None:
        """Remember which."""
        self._lock, self._step = lock, step
        self._before: _Entered = ()

    async def __aenter__(self) -> None:
        """Wait until nobody is in."""
        work = await self._lock.__aenter__()
        self._before = _ENTERED.get()
        _ENTERED.set((*self._before, self._step, work))

    async def __aexit__(self, *_error: object) -> None:
        """Let the next one in."""
        _ENTERED.set(self._before)
        self._lock.leave()


@contextmanager
def blocking_the_loop() -> Iterator[None]:
    """The running thread waits inside for what runs elsewhere; no task of its event loop, if it has one, goes on."""
    if running_loop_or_none() is None:
        yield
        return
    work = Work()
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
    token: Native = anyio.lowlevel.current_token()
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
