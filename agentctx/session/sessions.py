"""Conversations by name: kept in a store, or as many as there is room for in memory."""

from __future__ import annotations

import math
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from threading import Lock, Thread
from typing import Any, Literal
from weakref import WeakValueDictionary

import anyio
import anyio.from_thread
import anyio.lowlevel
from attrs import define, field, frozen
from attrs.validators import and_, instance_of, not_

from agentctx.characters import said_by
from agentctx.engine.originals import check_conversation
from agentctx.engine.plan import PIPELINE, SECONDS, Plan, call_hook, is_async, logger, tell
from agentctx.errors import AgentctxError, StoreError
from agentctx.formats.native import clean_text
from agentctx.message import Native
from agentctx.protocols import StateStore
from agentctx.reports import SessionClosed, SessionOpened
from agentctx.session.keeping import StateKeeper
from agentctx.session.session import Session, refresh, save
from agentctx.session.step_context import AROUND, SessionLock, Work
from agentctx.stores.redacting import RedactingStore
from agentctx.users_code import time_of
from agentctx.validators import CLOCK, SECONDS as WAIT, MustBe, function, methods, must_be, whole_number

Why = Literal["capacity", "idle", "closed"]


@frozen
class SessionEvicted:
    """A session is no longer held in memory. What is to be had back must be kept now: ``event.session.dump()``.

    Args:
        name: The conversation's name.
        session: The session.
        why: ``"capacity"``: there were too many, and it was unused for longest; ``"idle"``: it was unused for too
            long; ``"closed"``: it was asked for.

    Example:
        >>> from agentctx import Pipeline, Sessions
        >>> states = {}
        >>> def keep(event):
        ...     states[event.name] = event.state
        >>> sessions = Sessions(Pipeline(budget=8_000), capacity=1, on_evict=keep, load=states.get)
    """

    name: Hashable
    session: Session
    why: Why


Load = Callable[[Hashable], Awaitable[Any] | Any]
"""Given a name, what ``dump`` gave for it, or its JSON text; None for a conversation that begins. May be async; a plain
one runs in a worker thread. Only calls of that conversation wait for it."""
OnEvict = Callable[[SessionEvicted], Awaitable[object] | object]
"""Told of each eviction, one after another, while calls go on; may be async; a plain one runs in a worker thread. Until
it is done the session is held, and so it is where it raises, takes longer than five seconds, or where the session was
used meanwhile: then it is told again later."""

PAUSE = 60.0
"""Seconds for which nothing is evicted after an ``on_evict`` that took too long."""

MOMENT = 0.25
"""So many seconds a call waits for evictions that it is the cause of; not even that where the last one took longer."""


@define(eq=False)
class _Held:
    """A session in memory.

    Args:
        session: The session.
        used: When it was used last, by the clock.
        users: How many use it now.
        uses: How often it was used.
        hook_running: Whether an ``on_evict`` is at work on it, also one that was given up.
    """

    session: Session
    used: float
    users: int = 0
    uses: int = 0
    hook_running: bool = False


_STORES = methods("a store of states", "load_state", "save_state")
_STATES = MustBe(
    f"{_STORES.wanted} (of a RedactingStore, the store within it)", and_(_STORES, not_(instance_of(RedactingStore)))
).or_none
_WAIT = WAIT.or_none
_HOOK = function("a function of one value, plain or async").or_none


@define(eq=False)
class Sessions(Mapping[Hashable, Session]):
    """The sessions of many conversations, by name. Safe to share between tasks, threads and wrapped clients.

    With a store, each is saved after every step, and many workers may serve one conversation: a step costs what is new,
    and gives the view that it would give in a session that never moved. Where another worker has gone on, its state is
    loaded, and the step prepared again; nothing that was kept is lost. The caller passes its history, or its views, as
    ever: messages that go out as they came are not in the store. A store that fails costs no step: what it has not
    taken is said in the report, under ``"Sessions"``, and saved with the next step that can. A state that is lost,
    expired or damaged begins again from what the caller passes, and the report says so. Where it is lost under a worker
    that goes on, that one's is saved anew, and what was left out is put in again, as far as the caller still shows it.

    What is recorded is saved with the next step, or where ``open`` ends; by a wrapped client at once. A step that is
    cancelled while it is saved was taken all the same. A session that was loaded cannot ``recover`` before its first
    step, and what is beside a session's own conversation (see ``wrap``) is not kept.

    It is a mapping of those in memory: ``sessions["thread-42"].dump()``; ``sessions[name] = session`` puts one in.

    Args:
        pipeline: The pipeline of all of them.
        store: Keeps their states: a store of ``agentctx.stores``, or one of your own; mostly the one of the pipeline,
            which keeps originals. Not a ``RedactingStore``: that one is for the pipeline, and this one has a cipher.
            Names are texts then, of at most 1,000 bytes.
        timeout: Seconds that a step waits for one answer of the store, or the store's own ``timeout`` where that is
            shorter. A store that lets them pass is not asked again in that step, neither for the state nor for what the
            pipeline leaves out, and not by that session for four times as long: so one that hangs costs a step so many
            seconds at most. Where the pipeline's ``store`` is another one, that is waited for once as well.
        capacity: So many are held in memory; with one more, the one that is unused for longest is evicted. One in use
            is not.
        idle: Those unused for so many seconds are evicted when another one is asked for; None: never.
        load: Asked for the state of a conversation that is not in memory; without it, such a one begins anew.
        on_evict: Told of each eviction, to keep the state. Calls go on meanwhile; the one that needs room waits for a
            quarter of a second at most. It has five seconds: for a minute after one that took longer, nothing is
            evicted.
        clock: Seconds, by which sessions are idle.

    Raises:
        ConfigError: If an option makes no sense.

    Example:
        >>> from agentctx import Budget, FitContextWindow, Pipeline, Sessions
        >>> sessions = Sessions(Pipeline(FitContextWindow(), budget=Budget(window=8_000)), capacity=100)
        >>> async with sessions.open("thread-42") as session:
        ...     view = await session.prepare([{"role": "user", "content": "Hello"}])

        In a store, for all workers:

        >>> from agentctx.stores import MemoryStore  # or SQLiteStore("context.db"), RedisStore(url), PostgresStore(url)
        >>> store, pipeline = MemoryStore(), Pipeline(FitContextWindow(), budget=Budget(window=8_000))
        >>> async with Sessions(pipeline, store).open("thread-42") as session:
        ...     view = await session.prepare([{"role": "user", "content": "Hello"}])
        >>> async with Sessions(pipeline, store).open("thread-42") as session:  # another worker
        ...     session.steps
        1
    """

    pipeline: Plan = field(validator=PIPELINE)
    store: StateStore | None = field(default=None, validator=_STATES)
    timeout: float = field(default=SECONDS, kw_only=True, validator=_WAIT)
    capacity: int = field(default=1_024, kw_only=True, validator=whole_number(1))
    idle: float | None = field(default=None, kw_only=True, validator=_WAIT)
    load: Load | None = field(default=None, validator=_HOOK, kw_only=True, repr=False)
    on_evict: OnEvict | None = field(default=None, validator=_HOOK, kw_only=True, repr=False)
    clock: Callable[[], float] = field(default=time.monotonic, validator=CLOCK, kw_only=True, repr=False)
    # In the order of their last use; who loads or evicts one of a name; held for moments, by whoever looks at them.
    _held: OrderedDict[Hashable, _Held] = field(init=False, factory=OrderedDict, repr=False)
    _locks: WeakValueDictionary[Hashable, SessionLock] = field(init=False, factory=WeakValueDictionary, repr=False)
    _guard: Lock = field(init=False, factory=Lock, repr=False)
    # Whether it was said that sessions are forgotten; until when, by ``clock``, nothing is evicted after a hook that
    # took too long; when, by ``time.monotonic``, the eviction under way began; whether the last one took over a moment.
    _warned: bool = field(init=False, default=False, repr=False)
    _paused: float = field(init=False, default=-math.inf, repr=False)
    _eviction_began: float = field(init=False, default=-math.inf, repr=False)
    _slow: bool = field(init=False, default=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Refuse two ways to have states back."""
        if self.store is not None and self.load is not None:
            raise must_be("Sessions.load", "left out beside a store, which has the states", self.load)

    def __getitem__(self, name: Hashable) -> Session:
        """The session of that name, if it is in memory."""
        return self._held[name].session

    def __setitem__(self, name: Hashable, session: Session) -> None:
        """Hold a session under a name, for example one that was loaded; what the store has under that name wins."""
        self._keep(name, session)
        with self._guard:
            self._held[name] = _Held(session, self._now())
            self._held.move_to_end(name)

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
            ConfigError: If there is a store, and the name is no text, or one under which it keeps nothing, as of more
                than 1,000 bytes.
            InvalidInput: If what ``load`` gave is damaged; names the place.
            UnknownModel: If the budget is the model's and the model table does not know it.
            StoreError: If ``load`` raises.
        """
        async with self.using(name, model) as session:
            held = self._held.get(name)
            await refresh(session, surely=held is None or held.users < 2)
            try:
                with session:
                    yield session
            finally:
                await save(session)

    @asynccontextmanager
    async def using(
        self,
        name: Hashable,
        model: str | None = None,
        format: str | None = None,  # noqa: A002 - the contract's name
    ) -> AsyncIterator[Session]:
        """As ``open``, for one step: it is not evicted meanwhile, and nobody speaks in it.

        Args:
            name: The conversation's name.
            model: The model that is called first, for a conversation that begins.
            format: The wire format, for a conversation that begins; None: it is read off the messages.

        Raises:
            AgentctxError: As ``open``.
        """
        held = await self._acquire(name, model, format)
        try:
            await self._evict()
            await refresh(held.session)
            yield held.session
        finally:
            self._release(name, held)

    async def close(self, name: Hashable) -> None:
        """Evict a session now; a name that is not in memory is passed over.

        Where ``on_evict`` raises or takes too long, the log says so, and the session is held on.
        """
        async with self._lock_of(name).during(Work()):
            with self._guard:
                held = self._held.pop(name, None)
            if held is None:
                return
            handed_over = False
            try:
                handed_over = await self._handed_over(SessionEvicted(name, held.session, "closed"), held)
            finally:
                if not handed_over:
                    self._put_back(name, held)
            if handed_over:
                tell(self.pipeline.all_subscribers, SessionClosed(name, "closed"))

    async def _acquire(self, name: Hashable, model: str | None, format_name: str | None) -> _Held:
        self._check(name)
        held = self._in_memory(name)
        if held is None:
            async with self._lock_of(name).during(Work()):
                held = self._in_memory(name)  # another call may have brought it back
                if held is None:
                    state = None if self.load is None else await self._loaded(self.load, name)
                    session = (
                        Session(self.pipeline, model, format_name, str(name))
                        if state is None
                        else Session.load(self.pipeline, state)
                    )
                    self._keep(name, session)
                    with self._guard:
                        held = self._held[name] = _Held(session, self._now(), users=1)
                    tell(self.pipeline.all_subscribers, SessionOpened(name, state is not None))
        return held

    def _check(self, name: Hashable) -> None:
        if self.store is not None and not (isinstance(name, str) and name and clean_text(name) is name):
            wanted = "a text that is not empty, and has no lone surrogates, where there is a store"
            raise must_be("Sessions.name", wanted, name)

    def _keep(self, name: Hashable, session: Session) -> None:
        """Let the session be saved, if there is a store."""
        self._check(name)
        if self.store is not None:
            check_conversation(self.store, str(name))
            session.internals.keeper = StateKeeper(self.store, str(name), self.timeout)

    async def _loaded(self, load: Load, name: Hashable) -> Native:
        try:
            return await call_hook(load, name)
        except AgentctxError:
            raise
        except Exception as error:
            msg = f"load of Sessions could not bring {name!r}: {said_by(error)}"
            raise StoreError(msg) from error

    def _in_memory(self, name: Hashable) -> _Held | None:
        with self._guard:
            held = self._held.get(name)
            if held is not None:
                self._held.move_to_end(name)
                held.used, held.users, held.uses = self._now(), held.users + 1, held.uses + 1
            return held

    def _release(self, name: Hashable, held: _Held) -> None:
        with self._guard:
            held.users -= 1
            held.used = self._now()
            if self._held.get(name) is held:
                self._held.move_to_end(name)

    def _lock_of(self, name: Hashable) -> SessionLock:
        """Lets one at a time load or evict what has this name; those of other names go on."""
        with self._guard:
            lock = self._locks.get(name)
            if lock is None:
                lock = self._locks[name] = SessionLock()
            return lock

    async def _evict(self) -> None:
        """Evict what is too much, in a task of its own where somebody listens; that is waited for a moment only."""
        begun = time.monotonic()
        with self._guard:
            if begun - self._eviction_began < PAUSE or next(self._surplus(), None) is None:
                return
            self._eviction_began = begun
        if self.on_evict is None and self.store is None:
            await self._evict_all()
            self._eviction_began = -math.inf
            return
        started, done, token = anyio.Event(), anyio.Event(), anyio.lowlevel.current_token()

        async def run() -> None:
            AROUND.set(())  # a hook of the user's runs here: in no block, and for no step, which may end before it
            started.set()
            with suppress(anyio.get_cancelled_exc_class()):  # its loop ends: what is not done is held on
                await self._evict_all()
            self._slow, self._eviction_began = time.monotonic() - begun > MOMENT, -math.inf
            done.set()

        def wait() -> None:
            with suppress(RuntimeError):  # its loop has ended
                anyio.from_thread.run(run, token=token)

        Thread(target=copy_context().run, args=(wait,), name="agentctx eviction", daemon=True).start()
        await started.wait()
        if not self._slow:
            with anyio.move_on_after(MOMENT):
                await done.wait()

    async def _evict_all(self) -> None:
        tried: set[Hashable] = set()
        while True:
            with self._guard:
                left = next(((name, why) for name, why in self._surplus() if name not in tried), None)
            if left is None:
                return
            tried.add(left[0])
            lock = self._lock_of(left[0])
            if lock.holder is None:  # else others move it
                async with lock.during(Work()):
                    await self._let_go(*left)

    def _surplus(self) -> Iterator[tuple[Hashable, Why]]:
        """The sessions to evict: those that are idle, and of the others those unused for longest."""
        now, over = self._now(), len(self._held) - self.capacity
        if now < self._paused or (over <= 0 and self.idle is None):
            return
        for name, held in self._held.items():
            idle = self.idle is not None and now - held.used > self.idle
            if not (idle or over > 0):
                break  # those behind it were in use later
            if not held.users and not held.hook_running:
                yield name, "idle" if idle else "capacity"
                over -= 1

    async def _let_go(self, name: Hashable, why: Why) -> None:
        """Evict a session that nobody uses, and that nobody has used when whoever listens is done."""
        with self._guard:
            held = self._held.get(name)
            if held is None or held.users:
                return
            uses = held.uses
        handed_over = await self._handed_over(SessionEvicted(name, held.session, why), held)
        with self._guard:
            gone = self._held.get(name) is held and handed_over and held.uses == uses
            if gone:
                del self._held[name]
        if gone:
            tell(self.pipeline.all_subscribers, SessionClosed(name, why))

    def _now(self) -> float:
        return time_of(self.clock, "Sessions")

    def _put_back(self, name: Hashable, held: _Held) -> None:
        with self._guard:
            if self._held.setdefault(name, held) is held:
                for later in [other for other, each in self._held.items() if each.used > held.used]:
                    self._held.move_to_end(later)

    async def _handed_over(self, event: SessionEvicted, held: _Held) -> bool:
        """Whether all of the session is in the store, and whoever listens has taken it over."""
        if not await save(event.session):
            self._paused = self._now() + PAUSE
            logger.warning("session %r is not wholly in the store; it is held on", event.name)
            return False
        if self.on_evict is None:
            if self.store is None:
                self._warn(event)
            return True
        if held.hook_running:
            logger.warning("on_evict is still at work on session %r; it is held on", event.name)
            return False
        try:
            with anyio.move_on_after(SECONDS):
                await call_hook(_noted(self.on_evict, held), event)
                return True
        except Exception:  # noqa: BLE001 - a listener's own
            logger.exception("on_evict raised for session %r; it is held on", event.name)
            return False
        self._paused = self._now() + PAUSE
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
                "pass Sessions(pipeline, store) to keep them, or capacity=... to hold more",
                event.name,
                self.capacity,
            )


def _noted(hook: OnEvict, held: _Held) -> OnEvict:
    """The hook; while a plain one is at work on a session, also when it was given up, that is noted there."""
    if is_async(hook):
        return hook

    def noted(event: SessionEvicted) -> Awaitable[object] | object:
        held.hook_running = True
        try:
            return hook(event)
        finally:
            held.hook_running = False

    return noted
