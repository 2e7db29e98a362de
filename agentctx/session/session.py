"""A session: one conversation, whose steps are taken one at a time, and all that a user does with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from os import urandom
from threading import Lock
from time import time
from typing import Any, Protocol, Self

from attrs import define, evolve, field

from agentctx.budget import Budget
from agentctx.characters import shown
from agentctx.economics import expected_forecast, priced
from agentctx.engine.originals import StoreShelf, check_conversation, name_of_recall, tells_apart, waiting_once
from agentctx.engine.plan import (
    PIPELINE,
    Plan,
    Telling,
    as_budget,
    each_once,
    finish,
    finish_plain,
    logger,
    on_compact_subscribers,
    tell,
)
from agentctx.engine.reading import as_list
from agentctx.engine.usage import (
    LearnedLimits,
    cleared_tokens,
    is_one_prompt,
    judge,
    prompt_tokens,
    suspected,
)
from agentctx.errors import ContextOverflow, StoreError, StoreUnavailable
from agentctx.formats.overflow import Overflow, classify_error
from agentctx.message import Native
from agentctx.models.profile import warmth_after
from agentctx.protocols import Listeners, Subscriber, floor_of
from agentctx.reports import (
    Forecast,
    OverflowMet,
    StageReport,
    StepPrepared,
    StepRefused,
    UsageRecorded,
    View,
)
from agentctx.session.dump import StateForm, dump_state, load_state, opened
from agentctx.session.step import take_step
from agentctx.session.step_context import AROUND, Beginning, Given, SessionLock, State, Work, within, works_around
from agentctx.users_code import time_of
from agentctx.validators import CLOCK, TEXT

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
class Internals:
    """What the library's own parts need of a session; nothing here is for a user.

    Args:
        state: What is known of the conversation.
        subscribers: Told of the session's steps, answers and compactions.
        clock: Tells the seconds since 1970, by which the provider's cache is believed to age, also over a restart.
        keeper: Saves the state after each step, and loads it where another worker has gone on; None without a store.
        lock: Held while a step is under way.
        begun: How the last request of the conversation began; None before the first.
        home: The session beside which it is held; None for one that a user knows.
        others: The sessions of a wrapped client's other conversations, which are held beside it.
        guard: Held for the moment in which a request finds its session.
        children: How many children were begun.
        retried: Whether a recovery was made since the last step.
        unjudged: Tokens of the last view that the one before had not; None once a bill was compared with it.
        unfinished: Calls of listeners for which ``record`` could not wait; they are made with the next step.
        told_tokens: The size of the history at the step that was told last.
    """

    state: State
    subscribers: Sequence[Subscriber]
    clock: Callable[[], float] = time
    keeper: Keeper | None = None
    lock: SessionLock = field(factory=SessionLock)
    begun: Beginning | None = None
    home: Session | None = None
    others: list[Session] = field(factory=list)
    guard: Lock = field(factory=Lock)
    children: int = 0
    retried: bool = False
    unjudged: int | None = None
    unfinished: list[Telling] = field(factory=list)
    told_tokens: int = 0

    @property
    def limits(self) -> LearnedLimits:
        """The budget, and what was learned about it."""
        return self.state.limits

    def now(self) -> float:
        """Seconds since 1970.

        Raises:
            ConfigError: If the clock does not tell them.
        """
        return time() if self.clock is time else time_of(self.clock, "session")


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
        internals: What the library's own parts need of it; nothing there is for a user.

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

    plan: Plan = field(validator=PIPELINE)
    _model: str | None = field(default=None, repr=False)
    _format: str | None = field(default=None, repr=False)
    id: str | None = field(default=None, validator=TEXT.or_none)
    _on_compact: Listeners | None = field(default=None, repr=False)
    _clock: Callable[[], float] = field(default=time, validator=CLOCK, repr=False)
    billed_tokens: int | None = field(default=None, init=False)
    view: View | None = field(default=None, init=False, repr=False)
    internals: Internals = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Begin with nothing known."""
        if self.id is None and tells_apart(self.plan.originals):
            self.id = urandom(16).hex()
        elif self.id is not None:
            check_conversation(self.plan.originals, self.id)
        state = State.empty(self.plan, self._model, self._format)
        subscribers = each_once((*self.plan.all_subscribers, *on_compact_subscribers("session", self._on_compact)))
        self.internals = Internals(state, subscribers, self._clock)

    def __repr__(self) -> str:
        """One line, without what is said in the messages: which conversation, and how much of it is known."""
        known = self.internals.state
        named = (("id", self.id), ("model", known.model), ("format", known.wire_name or known.format))
        words = [f"{what} {shown(name)}" for what, name in named if name is not None]
        counts = f"{known.steps} steps, {len(known.record)} messages, {known.last_request.tokens:,} tokens sent last"
        return f"<Session: {', '.join([*words, counts])}>"

    @property
    def model(self) -> str | None:
        """The name of the model that was called last, or will be called first; None when it is not known."""
        return self.internals.state.model

    @property
    def format(self) -> str | None:
        """The wire format, if it was named."""
        return self.internals.state.format

    @property
    def steps(self) -> int:
        """How many steps were prepared."""
        return self.internals.state.steps

    @property
    def budget(self) -> Budget | None:
        """The budget in force: the configured one, tightened by what the provider's answers taught."""
        return self.internals.limits.in_force

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
            return [await _step(self, given, model, format)]

        try:
            if type(messages) is not list or not messages:
                as_list(messages)
            async with _alone(self):
                made = await _kept(self, step)
        except Exception as error:  # also what a stage raises
            tell(self.internals.subscribers, StepRefused(error, self.id, model or self.model))
            raise
        await _tell(self, made)
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
        async with _alone(self):
            refused, given = self.internals.state.last_request.tokens, self.internals.state.last

            async def smaller() -> list[tuple[View, int]]:
                if self.internals.state.last is None and given is not None:  # another worker's state was loaded
                    await _step(self, given)
                return await _smaller(self, overflow)

            made = await _kept(self, smaller)
        await _tell(self, made)
        return _recovered(self, made, refused)

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
        inner = self.internals
        known, limits, subscribers = inner.state, inner.limits, inner.subscribers
        ctx, sent = known.ctx, known.last_request.tokens
        if subscribers:
            spoken = known.wire_name or known.format
            tell(subscribers, UsageRecorded(usage, billed, sent, self.id, known.model, spoken))
        if not is_one_prompt(usage):
            return
        if applied_edits is None and known.last_request.asked:
            return  # the provider may have cleared any share of the prompt
        cleared = 0 if applied_edits is None else cleared_tokens(applied_edits)
        new_tokens, inner.unjudged = inner.unjudged, None  # each view is judged once
        if ctx is None or new_tokens is None:
            limits.learn(sent, billed, cleared)
            return
        prompt = ctx.context(known.record.view)
        judgement = judge(usage, billed, limits, ctx.reader, prompt, sent=sent, new_tokens=new_tokens, cleared=cleared)
        if judgement.whole:
            limits.learn(sent, billed, cleared)
        if judgement.doubt is not None and limits.suspects(judgement.doubt):
            length = known.last_request.length
            event = suspected(judgement.doubt, ctx.reader.profile, length, self.id, self.steps - 1)
            logger.warning("%s", event)
            with within(Work(self.plan, self)):
                inner.unfinished = finish_plain(tell(subscribers, event))

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
        inner = self.internals
        inner.children += 1
        above = f"{self.id or 'session'}/"
        own = str(inner.children) if id is None else id.removeprefix(above)
        name = above + own if id is None or tells_apart(self.plan.originals) else id
        session = Session(self.plan, self.model, self.format, name, clock=inner.clock)
        session.internals.subscribers = inner.subscribers
        limits_by_model = inner.state.limits_by_model.for_child(as_budget(budget, "Session.child"), self.model)
        session.internals.state = State.empty(self.plan, self.model, self.format, limits_by_model)
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
        return dump_state(
            self.internals.state,
            id=self.id,
            children=self.internals.children,
            billed_tokens=self.billed_tokens,
            retried=self.internals.retried,
        )

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
        form = state if isinstance(state, StateForm) else opened(state)
        session = cls(plan, id=form.id, on_compact=on_compact)
        session.internals.state = load_state(plan, form)
        session.internals.children, session.internals.retried = form.children, form.retried
        session.billed_tokens = form.billed_tokens
        return session


def _alone(session: Session) -> AbstractAsyncContextManager[None]:
    """One step of the session at a time: ``async with`` waits for the one under way, and others wait for this.

    Raises:
        Deadlock: If this is asked for within such a step, or within one of a session that such a step waits for.
    """
    return session.internals.lock.during(Work(session.plan, session))


async def _kept(session: Session, take: Take) -> list[tuple[View, int]]:
    """What steps made, with the session saved after them; taken again where another worker was first."""
    keeper = session.internals.keeper
    if keeper is None:
        return await take()
    with waiting_once():
        await keeper.refresh(session)
        while True:
            made = await take()
            if await keeper.keep(session):
                break
        lost = await _put_again(session, keeper, made[-1][0]) if made and keeper.lost else ()
    if made and (notes := (*keeper.notes(), *lost)):
        view, number = made[-1]
        size = view.report.tokens_after
        said = StageReport("Sessions", (), size, size, 0.0, notes)
        report = evolve(view.report, stages=(*view.report.stages, said))
        session.view = evolve(view, report=report)
        made[-1] = session.view, number
    return made


async def _put_again(session: Session, keeper: Keeper, view: View) -> tuple[str, ...]:
    """After the store has lost what it had: put in again what was left out; what is to be said of it."""
    state = session.internals.state
    store, given, ctx = session.plan.originals, state.last, state.ctx
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


async def _step(
    session: Session, given: Given, model: str | None = None, format_name: str | None = None
) -> tuple[View, int]:
    """The next step, and its number; to be told of when others may take theirs."""
    inner = session.internals
    whose = (inner.home or session).id
    try:
        now = inner.now()
        done = await take_step(inner.state, given, now, model=model, format_name=format_name, conversation=whose)
        inner.state = done.state
    finally:
        if not inner.state.steps:  # what failed before anything was begun leaves the session to whoever comes next
            inner.begun = None
    session.view, inner.retried, inner.unjudged = done.view, False, done.new_tokens
    return done.view, done.state.steps - 1


async def _smaller(session: Session, overflow: Overflow) -> list[tuple[View, int]]:
    """The last step once more, smaller, in a list; an empty one when there is nothing smaller."""
    inner = session.internals
    known, limits = inner.state, inner.limits
    if inner.retried or known.last is None:
        return []
    refused, before = known.last_request.tokens, limits.taught()
    limits.refused(overflow, refused)
    made: list[tuple[View, int]] = []
    try:
        made.append(await _step(session, known.last))
    except ContextOverflow:
        pass
    finally:
        if not made:  # also when it was cancelled, or a stage failed: nothing has happened then
            limits.forget(before)
    inner.retried = True
    return made


def _recovered(session: Session, made: Sequence[tuple[View, int]], refused: int) -> View | None:
    """What to send instead of a refused request of so many tokens, if it is smaller; subscribers are told."""
    smaller = made[0][0] if made and made[0][0].report.tokens_after < refused else None
    limit = None if session.budget is None else session.budget.limit
    tell(session.internals.subscribers, OverflowMet(refused, limit, smaller is not None, session.id, session.model))
    return smaller


async def _tell(session: Session, made: Sequence[tuple[View, int]]) -> None:
    """Tell of steps, which are taken: where this is cancelled, the next ``prepare`` gives the same view."""
    inner = session.internals
    known = inner.state
    for view, number in made if inner.subscribers else ():
        spoken = known.wire_name or known.format
        event = StepPrepared(view, session.id, number, known.model, spoken, inner.told_tokens)
        inner.told_tokens = view.report.tokens_before
        tellings, inner.unfinished = [*inner.unfinished, *tell(inner.subscribers, event)], []
        if tellings:
            with within(Work(session.plan, session)):
                await finish(tellings)


async def recover_call(
    session: Session,
    error: BaseException,
    given: Given,
    sent: int,
    model: str | None = None,
    format_name: str | None = None,
) -> View | None:
    """As ``Session.recover``, for a model call that another one of the conversation may have overtaken.

    Args:
        session: The session that holds the conversation.
        error: What the client raised.
        given: What was passed for that call.
        sent: The size of what was sent, in tokens.
        model: The model that was called.
        format_name: The wire format of ``given``.
    """
    overflow = classify_error(error)
    if overflow is None:
        return None
    last: list[tuple[View, int]] = []

    async def smaller() -> list[tuple[View, int]]:
        nonlocal last
        last = []
        try:
            made = last = [await _step(session, given, model, format_name)]
        except ContextOverflow:
            return []
        if not _small_enough(made[0][0], overflow, sent):  # else it was the overtaking call that taught the limit
            last = await _smaller(session, overflow)
            made = [*made, *last]
        return made

    async with _alone(session):
        made = await _kept(session, smaller)
        last = made[-1:] if last else []
    await _tell(session, made)
    return _recovered(session, last, sent)


async def refresh(session: Session, *, surely: bool = False) -> None:
    """Let a session go on from what is kept of the conversation, where ``Sessions`` keeps it in a store.

    Args:
        session: The session.
        surely: Look whether another worker has gone on, also where none is known to.
    """
    keeper = session.internals.keeper
    if keeper is None or (keeper.current and not surely) or _is_at_work(session):
        return
    async with _alone(session):
        await keeper.refresh(session, surely=surely)


async def save(session: Session) -> bool:
    """Save what a session has recorded since the last step, where ``Sessions`` keeps it in a store.

    Returns:
        Whether all of it is kept.
    """
    keeper = session.internals.keeper
    if keeper is None or _is_at_work(session):
        return True
    async with _alone(session):
        return await keeper.save(session)


def _is_at_work(session: Session) -> bool:
    """Whether the running code is part of a step of the session."""
    return any(work.session is session for work in works_around())


def forget_limit(session: Session) -> None:
    """Forget the limit that overflow errors taught for a session's model: the configured budget holds again.

    The session gives the limit up by itself when the provider takes larger prompts, as far as ``record`` tells.

    Args:
        session: The session.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.session import forget_limit
        >>> forget_limit(Pipeline(budget=8_000).session())
    """
    session.internals.limits.forget()


def forecast(session: Session) -> Forecast | None:
    """Return what a cut of a session's last view, down to the budget's target, would do to the bill now.

    Args:
        session: The session.

    Returns:
        None when there is nothing to cut, no budget, or no model whose prices are known.

    Example:
        >>> from agentctx import Budget, FitContextWindow, Pipeline
        >>> from agentctx.session import forecast
        >>> session = Pipeline(FitContextWindow(), budget=Budget(window=8_000)).session(model="gpt-5.4")
        >>> view = await session.prepare([{"role": "user", "content": "Hello"}])
        >>> forecast(session) is None
        True
    """
    inner, budget = session.internals, session.budget
    ctx = inner.state.ctx
    profile = None if ctx is None else ctx.reader.profile
    if ctx is None or budget is None or profile is None or not priced(profile):
        return None
    warmth = warmth_after(profile, inner.state.last_request.idle(inner.now()))
    view = ctx.context(inner.state.record.view) if session.view is None else session.view.context
    aim = budget.target_above(floor_of(ctx.bare_call, view))
    call = evolve(ctx.bare_call, limit=aim, warmth=warmth)
    return expected_forecast(view, call)


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
