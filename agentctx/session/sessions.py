"""Conversations by name: as many as there is room for in memory, the others put away and had back."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import asynccontextmanager
from threading import Lock
from typing import Any, Literal
from weakref import WeakValueDictionary

import anyio
from attrs import define, field, frozen

from agentctx.errors import ConfigError
from agentctx.listeners import SECONDS, is_async, logger, told
from agentctx.plan import Plan
from agentctx.session.current import within
from agentctx.session.flight import Flight
from agentctx.session.session import Session

Why = Literal["capacity", "idle", "closed"]


@frozen
class SessionEvicted:
    """A session is no longer held in memory. What is to be had back must be kept now: ``event.session.dump()``.

    Args:
        name: The conversation's name.
        session: The session.
        why: ``"capacity"``: there were too many, and it was unused for longest; ``"idle"``: it was unused for too
            long; ``"closed"``: it was asked for.
    """

    name: Hashable
    session: Session
    why: Why


Load = Callable[[Hashable], Awaitable[Any] | Any]
"""Given a name, what ``dump`` gave for it, or its JSON text; None for a conversation that begins. May be async; a plain
one runs in a worker thread. Only calls of that conversation wait for it."""
OnEvict = Callable[[SessionEvicted], Awaitable[object] | object]
"""Told of each eviction; may be async; a plain one runs in a worker thread. While it raises, or takes longer than five
seconds, the session is held on."""

PAUSE = 60.0
"""Seconds for which nothing is evicted after an ``on_evict`` that took too long: it would hold call after call."""

AT_ONCE = 1.0
"""A call that has evicted for so many seconds leaves what is left to the next one."""


@define(eq=False)
class _Held:
    """A session in memory.

    Args:
        session: The session.
        used: When it was used last, by the clock.
        users: How many use it now.
        told: Whether an ``on_evict`` that was given up is still at work on it: what it keeps may be old by then.
    """

    session: Session
    used: float
    users: int = 0
    told: bool = False


def _at_least_one(_sessions: object, attribute: Any, value: Any) -> None:  # noqa: ANN401 - checked here
    if not isinstance(value, int) or value < 1:
        msg = f"Sessions: {attribute.name} is {value!r}; it is a number of sessions, at least 1"
        raise ConfigError(msg)


def _seconds(_sessions: object, attribute: Any, value: Any) -> None:  # noqa: ANN401 - checked here
    if value is not None and not (isinstance(value, int | float) and value > 0):
        msg = f"Sessions: {attribute.name} is {value!r}; it is a number of seconds above 0, or None"
        raise ConfigError(msg)


@define(eq=False)
class Sessions(Mapping[Hashable, Session]):
    """The sessions of many conversations, by name. Safe to share between tasks, threads and wrapped clients.

    It is a mapping of those in memory: ``sessions["thread-42"].dump()``; ``sessions[name] = session`` puts one in.

    Args:
        pipeline: The pipeline of all of them.
        capacity: So many are held in memory; with one more, the one that is unused for longest is evicted. One in use
            is not.
        idle: Those unused for so many seconds are evicted when another one is asked for; None: never.
        load: Asked for the state of a conversation that is not in memory; without it, such a one begins anew.
        on_evict: Told of each eviction, to keep the state. It has five seconds: the call that needs room waits no
            longer, and for a minute after one that took longer, nothing is evicted.
        clock: Seconds, by which sessions are idle.

    Raises:
        ConfigError: If a number makes no sense.
    """

    pipeline: Plan
    capacity: int = field(default=1_024, kw_only=True, validator=_at_least_one)
    idle: float | None = field(default=None, kw_only=True, validator=_seconds)
    load: Load | None = field(default=None, kw_only=True, repr=False)
    on_evict: OnEvict | None = field(default=None, kw_only=True, repr=False)
    clock: Callable[[], float] = field(default=time.monotonic, kw_only=True, repr=False)
    _held: OrderedDict[Hashable, _Held] = field(init=False, factory=OrderedDict, repr=False)
    _moving: WeakValueDictionary[Hashable, Flight] = field(init=False, factory=WeakValueDictionary, repr=False)
    _guard: Lock = field(init=False, factory=Lock, repr=False)
    _warned: bool = field(init=False, default=False, repr=False)
    _paused: float = field(init=False, default=-math.inf, repr=False)

    def __getitem__(self, name: Hashable) -> Session:
        """The session of that name, if it is in memory."""
        return self._held[name].session

    def __setitem__(self, name: Hashable, session: Session) -> None:
        """Hold a session under a name, for example one that was loaded."""
        with self._guard:
            self._held[name] = _Held(session, self.clock())

    def __iter__(self) -> Iterator[Hashable]:
        """The names of those in memory, the one that is unused for longest first."""
        with self._guard:
            return iter(list(self._held))

    def __len__(self) -> int:
        """How many are in memory."""
        return len(self._held)

    @asynccontextmanager
    async def open(self, name: Hashable, model: str | None = None) -> AsyncIterator[Session]:
        """The session of a conversation; model calls of wrapped clients within the block belong to it.

        Args:
            name: The conversation's name.
            model: The model that is called first, for a conversation that begins.

        Raises:
            InvalidInput: If the state that was loaded is damaged; names the place.
            UnknownModel: If the budget is the model's and the model table does not know it.
        """
        async with self.using(name, model) as session:
            with session:
                yield session

    @asynccontextmanager
    async def using(
        self,
        name: Hashable,
        model: str | None = None,
        format: str | None = None,  # noqa: A002 - the contract's name
    ) -> AsyncIterator[Session]:
        """As ``open``, for one step: it is not evicted meanwhile, and nobody speaks in it."""
        held = await self._taken(name, model, format)
        try:
            await self._evict()
            yield held.session
        finally:
            with self._guard:
                held.users -= 1
                held.used = self.clock()

    async def close(self, name: Hashable) -> None:
        """Evict a session now; a name that is not in memory is passed over.

        Where ``on_evict`` raises or takes too long, the log says so, and the session is held on.
        """
        async with self._moved(name):
            await self._let_go(name, "closed")

    async def _taken(self, name: Hashable, model: str | None, format_name: str | None) -> _Held:
        held = self._in_memory(name)
        if held is None:
            async with self._moved(name) as work:
                held = self._in_memory(name)  # another call may have brought it back
                if held is None:
                    with within(work):
                        state = None if self.load is None else await told(self.load, name)
                    session = (
                        Session(self.pipeline, model, format_name, str(name))
                        if state is None
                        else Session.load(self.pipeline, state)
                    )
                    with self._guard:
                        held = self._held[name] = _Held(session, self.clock(), users=1)
        return held

    def _in_memory(self, name: Hashable) -> _Held | None:
        with self._guard:
            held = self._held.get(name)
            if held is not None:
                self._held.move_to_end(name)
                held.used, held.users = self.clock(), held.users + 1
            return held

    def _moved(self, name: Hashable) -> Flight:
        """Lets one at a time load or evict what has this name; those of other names go on."""
        with self._guard:
            flight = self._moving.get(name)
            if flight is None:
                flight = self._moving[name] = Flight()
            return flight

    async def _evict(self) -> None:
        begun = anyio.current_time()
        for name, why in self._surplus():
            flight = self._moved(name)
            if not flight.busy:  # else others move it, and may take long
                async with flight:
                    await self._let_go(name, why)
            if anyio.current_time() - begun > AT_ONCE:
                break

    def _surplus(self) -> list[tuple[Hashable, Why]]:
        """The sessions to evict: those that are idle, and of the others those unused for longest."""
        with self._guard:
            if len(self._held) <= self.capacity and self.idle is None:
                return []
            now, found, over = self.clock(), [], len(self._held) - self.capacity
            if now < self._paused:
                return []
            for name, held in self._held.items():
                idle = self.idle is not None and now - held.used > self.idle
                if not (idle or over > 0):
                    break
                if not held.users and not held.told:
                    why: Why = "idle" if idle else "capacity"
                    found.append((name, why))
                    over -= 1
            return found

    async def _let_go(self, name: Hashable, why: Why) -> None:
        with self._guard:
            held = self._held.get(name)
            if held is None or (held.users and why != "closed"):
                return
            del self._held[name]
        try:
            kept = await self._taken_over(SessionEvicted(name, held.session, why), held)
        except BaseException:  # cancelled
            self._put_back(name, held)
            raise
        if not kept:
            self._put_back(name, held)

    def _put_back(self, name: Hashable, held: _Held) -> None:
        with self._guard:
            if self._held.setdefault(name, held) is held:
                self._held.move_to_end(name, last=False)

    async def _taken_over(self, event: SessionEvicted, held: _Held) -> bool:
        """Whether whoever listens has taken the session over."""
        if self.on_evict is None:
            self._warn(event)
            return True
        if held.told:
            logger.warning("on_evict is still at work on session %r; it is held on", event.name)
            return False
        try:
            with anyio.move_on_after(SECONDS):
                await told(_noted(self.on_evict, held), event)
                return True
        except Exception:  # noqa: BLE001 - a listener's own
            logger.exception("on_evict raised for session %r; it is held on", event.name)
            return False
        self._paused = self.clock() + PAUSE
        logger.warning(
            "on_evict took more than %g seconds for session %r; it is held on, and nothing is evicted for %g seconds",
            SECONDS,
            event.name,
            PAUSE,
        )
        return False

    def _warn(self, event: SessionEvicted) -> None:
        if event.why == "capacity" and not self._warned:
            self._warned = True
            logger.warning(
                "session %r is forgotten: %d conversations are held at once, and its next request begins anew; "
                "pass Sessions(pipeline, capacity=..., on_evict=..., load=...) to hold more, or to keep them",
                event.name,
                self.capacity,
            )


def _noted(hook: OnEvict, held: _Held) -> OnEvict:
    """The hook; while a plain one is at work on a session, also when it was given up, that is noted there."""
    if is_async(hook):
        return hook

    def noted(event: SessionEvicted) -> Awaitable[object] | object:
        held.told = True
        try:
            return hook(event)
        finally:
            held.told = False

    return noted
