"""One step of a session at a time, and which steps and ``with session:`` blocks are around the running code.

One context variable has both, ``AROUND``: tasks inherit it, and what runs in ``anyio.to_thread`` or
``asyncio.to_thread``. Threads and pools that are started by hand do not.

``SessionLock`` lets one in at a time, also between event loops and threads. Nobody waits for ever: whoever would wait
for somebody that waits for him is told so at once.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from contextvars import ContextVar
from functools import partial
from os import urandom
from threading import Lock, get_ident
from time import time
from typing import Any, Protocol, Self

import anyio
import anyio.lowlevel
from attrs import Factory, define, evolve, field

from agentctx.budget import Budget
from agentctx.characters import shown
from agentctx.economics import Suspicion, expected_forecast, priced, warmth_after
from agentctx.engine.listeners import Telling, finish, finish_plain, logger, on_compact_subscribers, tell
from agentctx.engine.options import as_budget
from agentctx.engine.originals import StoreShelf, check_conversation, name_of_recall, tells_apart, waiting_once
from agentctx.engine.plan import Plan
from agentctx.engine.reading import as_list
from agentctx.engine.usage import (
    Judgement,
    LearnedLimits,
    cleared_tokens,
    is_one_prompt,
    judge,
    prompt_tokens,
    suspected,
)
from agentctx.errors import ConfigError, ContextOverflow, StoreError, StoreUnavailable
from agentctx.formats.overflow import Overflow, classify_error
from agentctx.message import Native
from agentctx.protocols import Listeners, Subscriber
from agentctx.reports import (
    Forecast,
    OverflowMet,
    StageReport,
    StepPrepared,
    StepRefused,
    UsageRecorded,
    View,
)
from agentctx.session.dump import VERSION, dump_state, load_state, opened
from agentctx.session.step import take_step
from agentctx.session.step_context import Beginning, Given, State
from agentctx.users_code import time_of

AROUND: ContextVar[tuple[object, ...]] = ContextVar("agentctx_around", default=())
"""The sessions whose ``with`` block the running code is in, and each ``Work`` that it is part of, innermost last."""


@define(eq=False, repr=False)
class Work:
    """A step under way, or something else that others wait for.

    Args:
        plan: The pipeline whose step it is: model calls that are made for it are no part of a conversation. None for
            other work.
        session: The session whose step it is; None for a stateless one.
        thread: The thread whose event loop it needs, by ``threading.get_ident``.
        waits: The locks that code within it waits for.
        over: Whether it is done. Code that it started, and that goes on, holds nobody.
    """

    plan: Plan | None = None
    session: object = None
    thread: int = Factory(get_ident)
    waits: list[SessionLock] = Factory(list)
    over: bool = False


def works_around() -> list[Work]:
    """The works that the running code is part of: it is a stage's, a summarizer's, a store's or a listener's."""
    return [each for each in AROUND.get() if isinstance(each, Work)]


@contextmanager
def within(work: Work) -> Iterator[None]:
    """Let the code inside, and what it starts, be part of ``work``."""
    before = AROUND.get()
    AROUND.set((*before, work))
    try:
        yield
    finally:
        AROUND.set(before)


class Deadlock(ConfigError):
    """Waiting here would never end: whoever is in waits, by itself or by others, for the one who came."""


_guard = Lock()
"""Held for moments only, by whoever comes or goes: who waits for whom is one question over all of them."""

_blocking: list[Work] = []
"""The calls that block a thread until something is done elsewhere: no event loop of that thread goes on meanwhile."""


def _after_fork() -> None:
    global _guard  # noqa: PLW0603 - a fork may have copied it while another thread held it
    _guard = Lock()
    _blocking.clear()


os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def blocking_the_thread() -> Iterator[None]:
    """The running thread waits inside for what is done elsewhere."""
    work = Work()
    with _guard:
        _blocking.append(work)
    try:
        with within(work):
            yield
    finally:
        work.over = True
        with _guard:
            _blocking.remove(work)


@define(eq=False, repr=False)
class SessionLock:
    """Lets one work in at a time, in the order in which they came: ``async with lock.during(work):``.

    Unlike a lock of an event loop, it holds between tasks of different loops. It takes no time when nobody is in. It is
    not re-entrant: who comes again from inside would wait for itself, and is told so.

    Args:
        holder: The work that is in, if any.
    """

    holder: Work | None = field(init=False, default=None)
    _queue: dict[Work, Callable[[], object]] = field(init=False, factory=dict)  # who waits, and what lets each in

    @asynccontextmanager
    async def during(self, work: Work) -> AsyncIterator[None]:
        """Wait until nobody is in, and let the code inside be part of ``work``; then let the next one in.

        A task that is cancelled while it waits leaves the others their turn.

        Args:
            work: What nobody else shall be in with.

        Raises:
            Deadlock: If that would never be.
        """
        waiting: list[Work] = []
        with _guard:
            if self.holder is None:
                self.holder, event = work, None
            else:
                waiting = [each for each in works_around() if not each.over]
                if self._waits_for(waiting):
                    raise Deadlock(_NEVER)
                event, token = anyio.Event(), anyio.lowlevel.current_token()
                loop: Native = getattr(token, "native_token", token)
                schedule = getattr(loop, "call_soon_threadsafe", None) or loop.run_sync_soon  # of asyncio, of trio
                self._queue[work] = partial(schedule, event.set)
                for each in waiting:
                    each.waits.append(self)
        try:
            if event is not None:
                try:
                    await event.wait()
                finally:
                    with _guard:
                        for each in waiting:
                            each.waits.remove(self)
            with within(work):
                yield
        finally:
            self._leave(work)

    def _leave(self, work: Work) -> None:
        """Let the next one in; where ``work`` has not been in yet, it waits no more."""
        work.over = True
        while True:
            with _guard:
                self._queue.pop(work, None)
                if self.holder is not work:
                    return
                self.holder = next(iter(self._queue), None)
                if self.holder is None:
                    return
                work = self.holder
                let_in = self._queue.pop(work)
            with suppress(RuntimeError):  # the event loop that it waited on has ended: the turn goes to the next
                let_in()
                return

    def _waits_for(self, around: Sequence[Work]) -> bool:
        """Whether somebody ahead waits, by itself or by others, for one of these works.

        Also a work waits for a call that blocks the thread of its event loop.
        """
        ahead, seen = [self.holder, *self._queue], set[Work]()
        while ahead:
            work = ahead.pop()
            if work in around:
                return True
            if work is not None and work not in seen:
                seen.add(work)
                ahead += [lock.holder for lock in work.waits]
                ahead += [each for each in _blocking if each.thread == work.thread]
        return False


_NEVER = (
    "session: a stage, summarizer, store or hook asked for a step of the session whose step it works for, or of one "
    "whose own step waits for that, or code that is not async holds the event loop of such a step: neither would ever "
    "end; prepare its own model call with pipeline.prepare() or another session"
)


Take = Callable[[], Awaitable[list[tuple[View, int]]]]
"""Takes steps; gives their views and numbers."""


class Keeper(Protocol):
    """Keeps a session in a store. It is asked while no step of the session is under way."""

    @property
    def current(self) -> bool:
        """Whether ``refresh`` has nothing to do, as far as is known."""
        ...

    async def refresh(self, session: Session, /, *, surely: bool = False) -> None:
        """Let the session go on from what is kept, where it does not yet."""
        ...

    async def keep(self, session: Session, /) -> bool:
        """Save the session after a step; False: it was not, another was first, whose state the session has now."""
        ...

    async def save(self, session: Session, /) -> bool:
        """Save the session between steps, and say whether all of it is kept."""
        ...

    lost: bool
    """Whether the store was found to have lost what it had, and what was left out has to be put in again."""

    def notes(self) -> tuple[str, ...]:
        """What has to be said with the step."""
        ...


@define(eq=False)
class Beside:
    """Where a session stands among the conversations of one name: ``agentctx.session.conversations`` looks after it.

    Args:
        begun: How the last request of the conversation began; None before the first.
        home: The session beside which it is held; None for one that a user knows.
        others: The sessions that are held beside it.
        guard: Held for the moment in which a request finds its session.
    """

    begun: Beginning | None = None
    home: Session | None = None
    others: list[Session] = field(factory=list)
    guard: Lock = field(factory=Lock)


@define(eq=False)
class Session:
    """One conversation. It decides once about each message and sticks to it.

    Safe to share between tasks and threads: one step at a time. A step that fails or is cancelled leaves it as it was.

    Args:
        plan: The pipeline.
        model: The name of the model that will be called first; None when it is not known.
        format: The wire format, if named.
        id: The session's name in events, and in a store that tells conversations apart: with such a store a session
            without a name gets one that is its own. What a session of a wrapped client holds beside its own
            conversation is its own there, too.
        on_compact: Told of this session's compactions.
        clock: Tells the seconds since 1970, by which the provider's cache is believed to age, also over a restart.
        billed_tokens: The size of the last prompt by the provider's own count; None before the first ``record``.
        view: The last view, with its report; None before the first step, and after a load.
        keeper: Saves the state after each step, and loads it where another worker has gone on; None without a store.
        beside: The sessions of a wrapped client's other conversations; nothing there is for a user.

    Raises:
        ConfigError: If the pipeline's store keeps nothing under such a name, as one of more than 1,000 bytes.

    Example:
        >>> from agentctx import Budget, FitContextWindow, Pipeline, Session
        >>> pipeline = Pipeline(FitContextWindow(), budget=Budget(window=8_000, trigger=0.8, target=0.5))
        >>> session = pipeline.session(model="gpt-5.4")
        >>> messages = [{"role": "user", "content": "Why does the build fail?"}]
        >>> view = await session.prepare(messages)
        >>> session.record({"prompt_tokens": 15, "completion_tokens": 40})
        >>> session = Session.load(pipeline, session.dump())
    """

    plan: Plan
    _model: str | None = field(default=None, repr=False)
    _format: str | None = field(default=None, repr=False)
    id: str | None = None
    on_compact: Listeners | None = field(default=None, repr=False)
    clock: Callable[[], float] = field(default=time, repr=False)
    billed_tokens: int | None = field(default=None, init=False)
    view: View | None = field(default=None, init=False, repr=False)
    keeper: Keeper | None = field(default=None, init=False, repr=False)
    beside: Beside = field(init=False, factory=Beside, repr=False)
    _state: State = field(init=False, repr=False)
    _lock: SessionLock = field(init=False, factory=SessionLock, repr=False)
    _retried: bool = field(init=False, default=False, repr=False)
    _unjudged: int | None = field(init=False, default=None, repr=False)
    _unfinished: list[Telling] = field(init=False, factory=list, repr=False)
    _told_tokens: int = field(init=False, default=0, repr=False)
    _children: int = field(init=False, default=0, repr=False)

    def __attrs_post_init__(self) -> None:
        """Begin with nothing known."""
        if self.id is None and tells_apart(self.plan.originals):
            self.id = urandom(16).hex()
        elif self.id is not None:
            check_conversation(self.plan.originals, self.id)
        self._state = State.empty(self.plan, self._model, self._format)

    def __repr__(self) -> str:
        """One line, without what is said in the messages: which conversation, and how much of it is known."""
        known = self._state
        named = (("id", self.id), ("model", known.model), ("format", known.wire_name or known.format))
        words = [f"{what} {shown(name)}" for what, name in named if name is not None]
        counts = f"{known.steps} steps, {len(known.record)} messages, {known.last_request.tokens:,} tokens sent last"
        return f"<Session: {', '.join([*words, counts])}>"

    @property
    def model(self) -> str | None:
        """The name of the model that was called last, or will be called first; None when it is not known."""
        return self._state.model

    @property
    def format(self) -> str | None:
        """The wire format, if it was named."""
        return self._state.format

    @property
    def steps(self) -> int:
        """How many steps were prepared."""
        return self._state.steps

    @property
    def limits(self) -> LearnedLimits:
        """The budget, and what was learned about it."""
        return self._state.limits

    @property
    def budget(self) -> Budget | None:
        """The budget in force: the configured one, tightened by what the provider's answers taught."""
        return self.limits.in_force

    def __enter__(self) -> Self:
        """Let the model calls of wrapped clients within the block belong to this conversation.

        The block sets a ``contextvars.ContextVar``, which holds wherever that context is copied: in the code of the
        block, in the tasks that are started there (by asyncio, trio, anyio) to their end, and in functions that run
        there by ``asyncio.to_thread`` or ``anyio.to_thread``. Threads and pools that are started by hand copy no
        context: run the function by ``contextvars.copy_context().run`` there, or pass the session to ``wrap``. A
        generator has the context of the code that runs it, so one that enters a block enters it for that code.
        """
        AROUND.set((*AROUND.get(), self))
        return self

    def __exit__(self, *_error: object) -> None:
        """End the block."""
        around = AROUND.get()
        for place in range(len(around) - 1, -1, -1):
            if around[place] is self:
                AROUND.set((*around[:place], *around[place + 1 :]))
                return

    async def prepare(
        self,
        messages: Sequence[Any],
        system: Native = None,
        tools: Native = None,
        *,
        model: str | None = None,
        format: str | None = None,  # noqa: A002 - the contract's name
    ) -> View:
        """Prepare the next model call of this conversation.

        Pass the whole history each time, or the last view's messages with what came since: both are recognised,
        also when every object was rebuilt. Costs what the new messages cost, unless the context has to be cut.

        Another model may be called in the middle: then its window, its counts and its rules hold, from this call on,
        and what was learned of each model is kept. Where it does not take the reasoning of the one before, or speaks
        another format, the history is looked at anew as a whole, without that reasoning.

        Args:
            messages: The transcript in the provider's own shape; neither it nor anything in it is changed.
            system: The system prompt, where the format keeps it apart.
            tools: The tool definitions in the provider's own shape.
            model: The model that is called from now on; without it, the one before.
            format: The wire format of ``messages`` from now on (see ``agentctx.convert``); without it, as before.

        Raises:
            InvalidInput: If something cannot be read; names the message and the field.
            ContextOverflow: If what must stay is larger than the budget.
            StageError: If a stage broke a promise.
            UnknownModel: If the budget is the model's and the model table does not know it.
            ConfigError: If a step of this very session waits for this one: a stage or a summarizer asked for it, or for
                a step of another session, whose stage asked for this one.
        """
        given = Given(messages, system, tools)

        async def step() -> list[tuple[View, int]]:
            return [await self._step(given, model, format)]

        try:
            if type(messages) is not list or not messages:
                as_list(messages)
            async with self._alone():
                made = await step() if self.keeper is None else await self._kept(self.keeper, step)
        except Exception as error:  # also what a stage raises
            tell(self._subscribers, StepRefused(error, self.id, model or self.model))
            raise
        await self._tell(made)
        return made[0][0]

    async def recover(self, error: BaseException) -> View | None:
        """After a failed model call: a strictly smaller view of the last step, or None.

        Where the error is a context overflow, the session learns the provider's real limit from it and cuts once
        more. It does so once a step: a second overflow in a row, any other error, and a context that cannot be made
        smaller give None, and the caller raises the original error. A session that was loaded recovers the step that
        was the last when it was dumped, unless JSON could not hold its system prompt or its tools.

        Args:
            error: What the client raised; no SDK is imported to read it.
        """
        overflow = classify_error(error)
        if overflow is None:
            return None
        async with self._alone():
            refused, given = self._state.last_request.tokens, self._state.last

            async def smaller() -> list[tuple[View, int]]:
                if self._state.last is None and given is not None:  # another worker has gone on: its state was loaded
                    await self._step(given)
                return await self._smaller(overflow)

            made = await smaller() if self.keeper is None else await self._kept(self.keeper, smaller)
        await self._tell(made)
        return self._recovered(made, refused)

    async def recover_call(
        self,
        error: BaseException,
        given: Given,
        sent: int,
        model: str | None = None,
        format: str | None = None,  # noqa: A002 - the contract's name
    ) -> View | None:
        """As ``recover``, for a model call that another one of the conversation may have overtaken.

        Args:
            error: What the client raised.
            given: What was passed for that call.
            sent: The size of what was sent, in tokens.
            model: The model that was called.
            format: The wire format of ``given``.
        """
        overflow = classify_error(error)
        if overflow is None:
            return None
        last: list[tuple[View, int]] = []

        async def smaller() -> list[tuple[View, int]]:
            nonlocal last
            last = []
            try:
                made = last = [await self._step(given, model, format)]
            except ContextOverflow:
                return []
            if not _small_enough(made[0][0], overflow, sent):  # else it was the overtaking call that taught the limit
                last = await self._smaller(overflow)
                made = [*made, *last]
            return made

        async with self._alone():
            made = await smaller() if self.keeper is None else await self._kept(self.keeper, smaller)
            last = made[-1:] if last else []
        await self._tell(made)
        return self._recovered(last, sent)

    def _recovered(self, made: Sequence[tuple[View, int]], refused: int) -> View | None:
        """What to send instead of a refused request of so many tokens, if it is smaller; subscribers are told."""
        smaller = made[0][0] if made and made[0][0].report.tokens_after < refused else None
        limit = None if self.budget is None else self.budget.limit
        tell(self._subscribers, OverflowMet(refused, limit, smaller is not None, self.id, self.model))
        return smaller

    async def _kept(self, keeper: Keeper, take: Take) -> list[tuple[View, int]]:
        """What steps made, with the session saved after them; taken again where another worker was first."""
        with waiting_once():
            await keeper.refresh(self)
            while True:
                made = await take()
                if await keeper.keep(self):
                    break
            lost = await self._put_again(keeper, made[-1][0]) if made and keeper.lost else ()
        if made and (notes := (*keeper.notes(), *lost)):
            view, number = made[-1]
            size = view.report.tokens_after
            said = StageReport("Sessions", (), size, size, 0.0, notes)
            report = evolve(view.report, stages=(*view.report.stages, said))
            self.view = evolve(view, report=report)
            made[-1] = self.view, number
        return made

    async def _put_again(self, keeper: Keeper, view: View) -> tuple[str, ...]:
        """After the store has lost what it had: put in again what was left out; what is to be said of it."""
        store, given, ctx = self.plan.originals, self._state.last, self._state.ctx
        missing = named = 0
        if store is not None and given is not None and ctx is not None:
            shelf = StoreShelf(store, ctx.reader.wire, None, ctx.conversation)
            sent, tool = view.context.messages, name_of_recall(view.context.tools)
            try:
                missing, named = await shelf.put_again(view.report.in_force, given.messages, sent, tool)
            except StoreError as error:
                keeper.lost = isinstance(error, StoreUnavailable)  # the next step tries it again
                return (f"originals of what was left out may be in the store no more: {error}",)
        keeper.lost = False
        said = (missing, "originals of what was left out"), (named, "other contents that the request has handles of")
        return tuple(f"{count:,} {what} are in the store no more" for count, what in said if count)

    async def refresh(self, *, surely: bool = False) -> None:
        """Go on from what is kept of the conversation, where ``Sessions`` keeps it in a store.

        Args:
            surely: Look whether another worker has gone on, also where none is known to.
        """
        if self.keeper is None or (self.keeper.current and not surely) or self._is_at_work():
            return
        async with self._alone():
            await self.keeper.refresh(self, surely=surely)

    async def save(self) -> bool:
        """Save what was recorded since the last step, where ``Sessions`` keeps it in a store.

        Returns:
            Whether all of it is kept.
        """
        if self.keeper is None or self._is_at_work():
            return True
        async with self._alone():
            return await self.keeper.save(self)

    def _is_at_work(self) -> bool:
        """Whether the running code is part of a step of this session."""
        return any(work.session is self for work in works_around())

    def go_on_from(self, saved: Session) -> None:
        """Take over what another session knows of the same conversation; no step of this one is under way.

        Args:
            saved: The other session, as it was loaded.
        """
        self._state, self._children, self._retried = saved._state, saved._children, saved._retried
        self.billed_tokens, self.view, self._unjudged = saved.billed_tokens, None, None
        self.beside.begun = saved.beside.begun or self.beside.begun

    def _alone(self) -> AbstractAsyncContextManager[None]:
        """One step of this session at a time: ``async with`` waits for the one under way, and others wait for this.

        Raises:
            Deadlock: If this is asked for within such a step, or within one of a session that such a step waits for.
        """
        return self._lock.during(Work(self.plan, self))

    async def _step(self, given: Given, model: str | None = None, format_name: str | None = None) -> tuple[View, int]:
        """The next step, and its number; to be told of when others may take theirs."""
        try:
            whose = (self.beside.home or self).id
            done = await take_step(
                self._state, given, self._now(), model=model, format_name=format_name, conversation=whose
            )
            self._state = done.state
        finally:
            if not self._state.steps:  # what failed before anything was begun leaves the session to whoever comes next
                self.beside.begun = None
        self.view, self._retried, self._unjudged = done.view, False, done.new_tokens
        return done.view, done.state.steps - 1

    def _now(self) -> float:
        """Seconds since 1970.

        Raises:
            ConfigError: If the clock does not tell them.
        """
        return time() if self.clock is time else time_of(self.clock, "session")

    async def _smaller(self, overflow: Overflow) -> list[tuple[View, int]]:
        """The last step once more, smaller, in a list; an empty one when there is nothing smaller."""
        known = self._state
        if self._retried or known.last is None:
            return []
        refused, before = known.last_request.tokens, self.limits.taught()
        self.limits.refused(overflow, refused)
        made: list[tuple[View, int]] = []
        try:
            made.append(await self._step(known.last))
        except ContextOverflow:
            pass
        finally:
            if not made:  # also when it was cancelled, or a stage failed: nothing has happened then
                self.limits.forget(before)
        self._retried = True
        return made

    def forget_limit(self) -> None:
        """Forget the limit that overflow errors taught for the current model: the configured budget holds again.

        It is given up by itself when the provider takes larger prompts all the same, as far as ``record`` tells.
        """
        self.limits.forget()

    def record(self, usage: Native, applied_edits: Native = None) -> None:
        """Take note of what the provider billed for the last view; the next steps are counted accordingly.

        A usage that does not tell the size of the prompt (None, an empty field, 0) teaches nothing. Where it shows for
        the first time that the server cuts prompts silently, plain listeners are told before this returns (which waits
        up to five seconds for them, in threads; one that raises or hangs is logged), async ones at the next step.

        Where the request asked the provider to clear some of the prompt (``ClearByProvider``), the usage teaches
        something only together with the ``applied_edits``.

        Args:
            usage: The response's ``usage``, as a dict or the SDK's object, of any provider.
            applied_edits: What the provider cleared of the prompt: ``context_management.applied_edits`` of Anthropic's
                response; None when it is not known.

        Raises:
            InvalidInput: If it is no usage, or has a number that no prompt can have.
        """
        billed = prompt_tokens(usage)
        if billed is None:
            return
        self.billed_tokens = billed
        if self._subscribers:
            known = self._state
            sent, spoken = known.last_request.tokens, known.wire_name or known.format
            tell(self._subscribers, UsageRecorded(usage, billed, sent, self.id, known.model, spoken))
        if not is_one_prompt(usage):
            return
        if applied_edits is None and self._state.last_request.asked:
            return  # the provider may have cleared any share of the prompt
        cleared = 0 if applied_edits is None else cleared_tokens(applied_edits)
        judgement = self._judge(usage, billed, cleared)
        if judgement.whole:
            self.limits.learn(self._state.last_request.tokens, billed, cleared)
        if judgement.doubt is not None and self.limits.suspects(judgement.doubt):
            self._suspect(judgement.doubt)

    @property
    def suspicion(self) -> Suspicion | None:
        """Why the provider is suspected of having cut a prompt silently, with the numbers; None when it is not."""
        return self.limits.truncation

    def _judge(self, usage: Native, billed: int, cleared: int) -> Judgement:
        """Whether ``usage`` bills the last view as it was sent; each view is judged once."""
        known = self._state
        ctx, new_tokens, self._unjudged = known.ctx, self._unjudged, None
        if ctx is None or new_tokens is None:
            return Judgement()
        sent, prompt = known.last_request.tokens, ctx.context(known.record.view)
        return judge(usage, billed, self.limits, ctx.reader, prompt, sent=sent, new_tokens=new_tokens, cleared=cleared)

    def _suspect(self, doubt: Suspicion) -> None:
        """Say it: to those listeners that do not wait at once, to the others at the next step."""
        known = self._state
        profile = None if known.ctx is None else known.ctx.reader.profile
        event = suspected(doubt, profile, known.last_request.length, self.id, self.steps - 1)
        logger.warning("%s", event)
        with within(Work(self.plan, self)):
            self._unfinished = finish_plain(tell(self._subscribers, event))

    @property
    def _subscribers(self) -> tuple[Subscriber, ...]:
        return (*self.plan.all_subscribers, *on_compact_subscribers(self.on_compact))

    async def _tell(self, made: Sequence[tuple[View, int]]) -> None:
        """Tell of steps, which are taken: where this is cancelled, the next ``prepare`` gives the same view."""
        known, subscribers = self._state, self._subscribers
        for view, number in made if subscribers else ():
            spoken = known.wire_name or known.format
            event = StepPrepared(view, self.id, number, known.model, spoken, self._told_tokens)
            self._told_tokens = view.report.tokens_before
            tellings, self._unfinished = [*self._unfinished, *tell(subscribers, event)], []
            if tellings:
                with within(Work(self.plan, self)):
                    await finish(tellings)

    def forecast(self) -> Forecast | None:
        """What cutting the last view down to the budget's target now would do to the bill.

        None when there is nothing to cut, no budget, or no model whose prices are known.
        """
        ctx, budget = self._state.ctx, self.budget
        profile = None if ctx is None else ctx.reader.profile
        if ctx is None or budget is None or profile is None or not priced(profile):
            return None
        warmth = warmth_after(profile, self._state.last_request.idle(self._now()))
        view = ctx.context(self._state.record.view) if self.view is None else self.view.context
        aim = budget.target_above(ctx.bare_call.floor(view))
        call = evolve(ctx.bare_call, limit=aim, warmth=warmth)
        return expected_forecast(view, call)

    def child(self, budget: Budget | int, id: str | None = None) -> Session:  # noqa: A002 - the contract's name
        """A session of a sub-agent: the same pipeline and model, an own conversation and an own budget.

        It starts with what this session has learned about the provider's count and its real limit.

        Args:
            budget: The sub-agent's room; an integer is a window, as of ``Budget``.
            id: The child's name in events; without it, a number behind the parent's. In a store that tells
                conversations apart, the parent's name stands before either, so that ``purge`` of a conversation takes
                its children away too, and two parents may call theirs alike.

        Raises:
            ConfigError: If the store keeps nothing under such a name, as one of more than 1,000 bytes.
        """
        self._children += 1
        above = f"{self.id or 'session'}/"
        own = str(self._children) if id is None else id.removeprefix(above)
        name = above + own if id is None or tells_apart(self.plan.originals) else id
        session = Session(self.plan, self.model, self.format, name, self.on_compact, self.clock)
        limits_by_model = self._state.limits_by_model.for_child(as_budget(budget, "Session.child"), self.model)
        session._state = State.empty(self.plan, self.model, self.format, limits_by_model)
        return session

    def dump(self) -> dict[str, Any]:
        """The session's state as plain JSON values, to be loaded by ``Session.load``.

        It holds the last view as it was sent, system prompt, tools and messages, with whatever a tool said in them; of
        the rest of the history it holds about 30 characters for each message, and about 50 more (and its handle in the
        store) for each that the view shows shortened. It is that of the last step that succeeded, also while another
        one is prepared.

        Raises:
            InvalidInput: If JSON cannot hold a message of the view; names it.
        """
        return {
            "version": VERSION,
            "id": self.id,
            "children": self._children,
            "billed_tokens": self.billed_tokens,
            "retried": self._retried,
            **dump_state(self._state),
        }

    @classmethod
    def load(cls, plan: Plan, state: object, on_compact: Listeners | None = None) -> Session:
        """The session that was dumped, to go on with the same history.

        Args:
            plan: The pipeline. With other stages than before, what was decided stays as it is, and they see what
                comes; another budget or counter holds from the next step on. A child keeps its own budget.
            state: What ``dump`` gave, or its JSON text.
            on_compact: Told of the session's compactions from now on.

        Raises:
            InvalidInput: If the state is damaged or of another version; names the place.
            UnknownModel: If the budget is the model's and the model table does not know it.
            ConfigError: If the pipeline's store keeps nothing under the name that the session has.
        """
        known = opened(state)
        loaded = load_state(plan, known)
        session = cls(plan, loaded.model, loaded.format, known.name_or_none("id"), on_compact)
        session._state = loaded
        session._children = known.whole("children")
        session._retried = known.truth("retried")
        session.billed_tokens = known.whole_or_none("billed_tokens")
        return session


def current() -> Session | None:
    """The session of the innermost ``with session:`` around the running code; None when a step is further in."""
    around = (each for each in reversed(AROUND.get()) if not isinstance(each, Work) or each.plan is not None)
    innermost = next(around, None)
    return innermost if isinstance(innermost, Session) else None


def _small_enough(view: View, overflow: Overflow, sent: int) -> bool:
    """Whether a view is small enough by itself to be sent after an overflow of a request of ``sent`` tokens."""
    if view.report.tokens_after >= sent or overflow.kind not in {"window", "rate"}:
        return False
    return overflow.limit is None or view.report.tokens_after <= overflow.limit
