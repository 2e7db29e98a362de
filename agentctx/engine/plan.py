"""A pipeline without its methods: its stages and options, which are checked, and its subscribers, which are told."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, wait
from contextvars import copy_context
from functools import cached_property, partial
from inspect import isawaitable, iscoroutinefunction, isroutine, signature
from threading import Thread
from typing import Any, NamedTuple

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from attrs import evolve, field, frozen
from attrs.validators import and_, instance_of, not_

from agentctx.budget import Budget, reserve_for_answer
from agentctx.engine.cut import RULE, bind
from agentctx.engine.originals import StoreShelf
from agentctx.engine.reading import Reader
from agentctx.engine.run_stages import Holder, all_stages, due, mends, runs_in, writes_recap
from agentctx.errors import NoBudget, UnknownModel
from agentctx.message import Context, Message, Native
from agentctx.protocols import (
    Call,
    CallInternals,
    ContextStrategy,
    Listener,
    Listeners,
    Phase,
    RunInner,
    Store,
    Strategy,
    Subscriber,
    Summarizer,
    TokenCounter,
    When,
    floor_of,
    inside,
    is_ours,
    name_of,
    run_plain,
)
from agentctx.reports import Compaction, Event, StepPrepared
from agentctx.tokens.counting import remembering
from agentctx.unit import ProtectRule, ThinkingPolicy
from agentctx.users_code import in_thread, is_cancelled
from agentctx.validators import MustBe, a, function, holds, list_of, methods, must_be


class Summarizing(ContextStrategy):
    """A strategy of the library that asks the pipeline's summarizer."""

    __slots__ = ()


def limits(stage: str, max_tokens: int | None, call: Call) -> tuple[int, int]:
    """The hard limit, and the size to come down to, in tokens.

    Args:
        stage: Name of the stage, for the error.
        max_tokens: The stage's own limit; without it the pipeline's budget holds.
        call: What the stage is told.

    Raises:
        NoBudget: If there is neither.
    """
    hard = max_tokens if call.budget is None else call.budget.limit
    if hard is None:
        raise NoBudget(stage)
    limit = hard if max_tokens is None else min(hard, max_tokens)
    return limit, limit if call.limit is None else min(limit, call.limit)


def as_strategies(where: str, stages: Sequence[Strategy]) -> tuple[ContextStrategy, ...]:
    """Return the stages as strategies: a function is wrapped, a strategy stays as it is.

    Args:
        where: Who they were passed to, for the error.
        stages: The stages that were passed.

    Raises:
        ConfigError: If one cannot be called with two arguments, is a class, is a list of stages, derives from
            ``ContextStrategy`` and does not say what it does, or has a ``when`` that is none: it would never be run.
    """
    return tuple([_as_strategy(where, place, stage) for place, stage in enumerate(stages)])


def _as_strategy(where: str, place: int, stage: Strategy) -> ContextStrategy:
    passed: object = stage
    option = f"{where}.stages[{place}]"
    if isinstance(passed, (list, tuple)):
        before = "condition, " if where == "when" else ""
        one_by_one = f"passed one by one, {where}({before}a, b), or unpacked, {where}({before}*stages)"
        raise must_be(option, one_by_one, passed)
    if not callable(stage) or isinstance(stage, type) or not _takes_two(stage):
        raise must_be(option, "a strategy, or a function of (context, call)", stage)
    if not isinstance(stage, ContextStrategy):
        if hasattr(stage, "when"):
            raise must_be(option, "of a class that derives from ContextStrategy, since it has a when", stage)
        return FunctionStage(stage)
    apply = type(stage).apply if type(stage).__call__ is ContextStrategy.__call__ else None
    if apply is not None and (apply is ContextStrategy.apply or iscoroutinefunction(apply)):
        raise must_be(option, "a strategy with a plain apply, or with an async __call__ where it waits", stage)
    when: object = stage.when
    if not isinstance(when, When):
        option += ".when"
        raise must_be(option, "a When, written when: ClassVar[When] = When.UNDER_PRESSURE", when)
    return stage


@frozen(repr=False)
class FunctionStage(ContextStrategy):
    """A function of the user's as a strategy.

    Args:
        function: The function, plain or async, or an object that is called as one.
    """

    function: Callable[[Context, Call], Context | Awaitable[Context]]

    def __repr__(self) -> str:
        """The function."""
        return self.name if isroutine(self.function) else repr(self.function)

    @property
    def name(self) -> str:
        """Its name in reports and errors."""
        return name_of(self.function)

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context that the function returns; a large request is passed to a plain one in a worker thread."""
        after: object = (
            self.function(context, call) if is_async(self.function) else await run_plain(self.function, context, call)
        )
        return await after if isawaitable(after) else after  # type: ignore[return-value] # the engine checks it


def _takes_two(stage: Strategy) -> bool:
    """Whether a stage can be called with two arguments, as far as Python knows what it takes."""
    try:
        parameters = signature(stage)
    except (AttributeError, NameError, TypeError, ValueError):  # not of Python, or annotated by what is not there
        return True
    try:
        parameters.bind(None, None)
    except TypeError:
        return False
    return True


def check_rules(protect: object) -> tuple[ProtectRule, ...]:
    """The rules of what must survive.

    Raises:
        ConfigError: If they are not a list of rules.
    """
    if isinstance(protect, str) or not isinstance(protect, Iterable):
        raise must_be("Pipeline.protect", "a list of rules, such as [Protect.last_user(2)]", protect)
    rules = tuple(protect)
    list_of(RULE, "rules").check("Pipeline.protect", rules)
    return rules


REDACTOR = MustBe(
    "a plain function of a text and the name of its file",
    holds(lambda redact: callable(redact) and not isinstance(redact, type) and not is_async(redact)),
)
SUMMARIZER = function("an async function of (messages, max_tokens)")
STORE = methods("a store", "put", "get")


LISTENER = function("a listener, which is called with a compaction")
SUBSCRIBER = MustBe(
    "a subscriber: a plain function of an event, which does not wait",
    and_(LISTENER.rule, holds(lambda subscriber: not is_async(subscriber))),
)


def _several(member: MustBe, wanted: str) -> MustBe:
    """Require a list that is gone through more than once."""
    return MustBe(wanted, and_(not_(instance_of(str)), instance_of(Sequence)), member)


SUBSCRIBERS = _several(SUBSCRIBER, "a list of subscribers, such as [LogEvents()]")


def check_summarizer(summarizer: object, stages: Sequence[ContextStrategy]) -> None:
    """Check the summarizer, and that a stage may ask it: one of the library's that does, or one of another's.

    Raises:
        ConfigError: If it cannot be called, or there is none that may.
    """
    if summarizer is None:
        return
    SUMMARIZER.check("Pipeline.summarizer", summarizer)
    if any(_may_summarize(stage) for stage in stages):
        return
    raise must_be("Pipeline.summarizer", "left out where no stage asks it", summarizer)


def _may_summarize(stage: ContextStrategy) -> bool:
    if stage.stages:
        return any(map(_may_summarize, stage.stages))
    return isinstance(stage, Summarizing) or not is_ours(stage)


def as_budget(value: Budget | int, where: str, wanted: str = "a Budget or a number of tokens") -> Budget:
    """Return a budget as it is; of a number, the budget of a window that leaves room for the answer.

    Args:
        value: A budget, or a window in tokens.
        where: The function that it was passed to, for the error.
        wanted: What that function takes, for the error.

    Raises:
        ConfigError: If it is neither.
    """
    passed: object = value
    if isinstance(passed, Budget):
        return passed
    if isinstance(passed, int):
        return Budget(passed, reserve_for_answer(passed))
    option = f"{where}.budget"
    raise must_be(option, wanted, passed)


logger = logging.getLogger("agentctx")

SECONDS = 5.0
"""So long a listener may take for one event; it is not waited for any longer."""

THREADS = 40
"""So many plain listeners may run at once in an event loop; those that were given up count until they return."""

_RAISED = "on_compact listener %r raised; the request goes on without it"
_SLOW = "on_compact listener %r took more than %g seconds; the request goes on without it"

_limiter: RunVar[anyio.CapacityLimiter] = RunVar("agentctx.engine.plan.limiter")


@frozen
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


def on_compact_subscribers(where: str, on_compact: Listeners | None) -> tuple[OnCompact, ...]:
    """Return the subscribers that one listener makes, or several, or none.

    Raises:
        ConfigError: If one cannot be called.
    """
    listeners = () if on_compact is None else (on_compact,) if callable(on_compact) else on_compact
    _several(LISTENER, "a listener, or a list of listeners").check(f"{where}.on_compact", listeners)
    return tuple(map(OnCompact, listeners))


def each_once(subscribers: Iterable[Subscriber]) -> tuple[Subscriber, ...]:
    """Return the subscribers without those that equal one before."""
    told: list[Subscriber] = []
    for each in subscribers:
        if each not in told:
            told.append(each)
    return tuple(told)


def raised() -> tuple[type[BaseException], ...]:
    """What a listener or subscriber may raise that ends nothing; ``CancelledError`` where nobody has cancelled."""
    from asyncio import CancelledError  # noqa: PLC0415 - loads sockets, for what is raised only

    return Exception, CancelledError


def tell(subscribers: Iterable[Subscriber], event: Event) -> list[Telling]:
    """Call each subscriber with an event, here and now; one that raises is logged and costs nothing.

    Returns:
        The calls of listeners, to be waited for: by ``finish``, or by ``finish_plain`` where nothing can be awaited.
    """
    tellings = []
    for subscriber in subscribers:
        try:
            answer = subscriber(event)
        except raised():  # a subscriber is the user's own, and a plain function is not cancelled
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
        except (*raised(), anyio.get_cancelled_exc_class()) as error:  # a listener is the user's own
            if not isinstance(error, Exception) and is_cancelled():
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
        elif isinstance(error := answer.exception(), raised()):
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


@frozen(eq=False, repr=False)
class Plan(Holder):
    """Stages in order, and the options they share: a ``Pipeline`` without ``prepare`` and ``session``.

    So the session, which ``Pipeline`` needs, need not know it.

    Args:
        stages: What to do, in order.
        budget: The room of one model call, if given.
        counter: Counts tokens; None means tiktoken's encoding for the model.
        store: Keeps originals, if given.
        protect: The caller's own rules of what must survive.
        summarizer: Puts messages into fewer words.
        thinking: What to do where an edit would part reasoning from the prefix that it is bound to.
        subscribers: Told of every step, answer and session.
    """

    stages: tuple[ContextStrategy, ...]
    budget: Budget | None = None
    counter: TokenCounter | None = None
    store: Store | None = None
    protect: tuple[ProtectRule, ...] = ()
    summarizer: Summarizer | None = None
    thinking: ThinkingPolicy = "postpone"
    subscribers: tuple[Subscriber, ...] = field(default=(), repr=False)

    def budget_for(self, model: str | None) -> Budget | None:
        """The budget in force: the plan's, else one that a stage carries, else the model's when a stage needs one.

        Raises:
            UnknownModel: If it takes the model's and the model table does not know it.
        """
        if self.governing is None and model is not None and any(True for _ in _carried(self.stages)):
            return Budget.for_model(model)
        return self.governing

    @cached_property
    def governing(self) -> Budget | None:
        """The budget as it was configured: the plan's, else the first that a stage carries."""
        if self.budget is not None:
            return self.budget
        return next((budget for budget in _carried(self.stages) if budget is not None), None)

    def refuses_above(self, model: str | None) -> Budget | None:
        """The model's own budget, where the one in force is that of a pipeline within: what its stages aim at.

        Only what the model does not take is refused then. None where the budget in force refuses: the plan's own, one
        that a stage carries itself, or any where the model table does not know the model, or knows a smaller window.
        """
        governing = self.governing
        if governing is None or self.budget is not None or governing not in (plan.budget for plan in self._inner):
            return None
        try:
            own = None if model is None else Budget.for_model(model)
        except UnknownModel:
            return None
        return own if own is not None and own.limit > governing.limit else None

    @cached_property
    def counting(self) -> TokenCounter | None:
        """The counter in force, which all conversations ask about each text once: the plan's, else an inner one's."""
        counters = (plan.counter for plan in (self, *self._inner) if plan.counter is not None)
        found = next(counters, None)
        return None if found is None else remembering(found)

    @cached_property
    def originals(self) -> Store | None:
        """The store in force: the plan's, else the first that a pipeline within it has."""
        return next((plan.store for plan in (self, *self._inner) if plan.store is not None), None)

    @cached_property
    def pinned(self) -> tuple[ProtectRule, ...]:
        """The caller's rules of what must survive: the plan's, and those of the pipelines within it."""
        return tuple(rule for plan in (self, *self._inner) for rule in plan.protect)

    @cached_property
    def on_edited_prefix(self) -> ThinkingPolicy:
        """What to do where an edit would part reasoning from its prefix: "drop" where the plan or an inner one asks."""
        return "drop" if any(plan.thinking == "drop" for plan in (self, *self._inner)) else self.thinking

    @cached_property
    def all_subscribers(self) -> tuple[Subscriber, ...]:
        """The plan's subscribers, and those of the pipelines within it, each once."""
        return each_once(each for plan in (self, *self._inner) for each in plan.subscribers)

    @cached_property
    def _inner(self) -> tuple[Plan, ...]:
        return tuple(stage for stage in all_stages(self.stages) if isinstance(stage, Plan))

    @cached_property
    def mending(self) -> tuple[ContextStrategy, ...]:
        """The stages whose texts refer to other messages."""
        return tuple(stage for stage in all_stages(self.stages) if mends(stage))

    @cached_property
    def telling(self) -> tuple[ContextStrategy, ...]:
        """The stages that only tell in the recap what others left out, also those within stages; each once."""
        leaves = (stage for stage in all_stages(self.stages) if not stage.stages)
        telling = [stage for stage in leaves if writes_recap(stage) and not isinstance(stage, Summarizing)]
        return tuple(stage for place, stage in enumerate(telling) if stage not in telling[:place])

    def tells(self, stage: ContextStrategy, ran: Collection[ContextStrategy]) -> bool:
        """Whether a stage tells also what is left out last of all: one that runs on a condition, where it ran."""
        return stage in ran or stage in self.stages or any(plan.tells(stage, ()) for plan in self._unconditional)

    @cached_property
    def _unconditional(self) -> tuple[Plan, ...]:
        """The pipelines directly within, whose stages run whenever its own do."""
        return tuple(
            stage for stage in self.stages if isinstance(stage, Plan) and stage.budget in (None, self.governing)
        )

    def due(self, phase: Phase) -> tuple[ContextStrategy, ...]:
        """Return the stages that run in a phase of a step of this plan, in order."""
        return tuple(stage for stage in self.stages if runs_in(stage, phase, self.governing))

    def runs_in(self, phase: Phase, governing: Budget | None, /) -> bool:
        """Return whether a stage of it runs; one with a budget of its own asks at every step whether that is passed."""
        if self.budget not in (None, governing):
            governing = self.budget
            phase = Phase.PRESSURE if phase is Phase.EVERY_STEP else phase
        return any(runs_in(stage, phase, governing) for stage in self.stages)

    async def run_inner(self, run: RunInner, context: Context, call: Call, /) -> Context:
        """Run the stages that it is time for; its own store, summarizer and budget hold for them where it has them."""
        store = call.store if self.store is None else self.store
        summarizer = call.summarizer if self.summarizer is None else self.summarizer
        inner, budget = call.internals, self.budget
        shelf, phase, limit = inner.shelf, inner.phase, call.limit
        if isinstance(shelf, StoreShelf) and store is not None:
            shelf = shelf.of(store)
        if budget is None or budget == inner.governing:
            budget, governing = call.budget, inner.governing
        else:
            governing, limit = budget, None if phase is Phase.ARRIVALS else budget.limit
            if phase in (Phase.EVERY_STEP, Phase.PRESSURE):
                over = call.size(context) > budget.trigger_tokens
                phase = Phase.PRESSURE if over else Phase.EVERY_STEP
                limit = budget.target_above(floor_of(call, context)) if over else budget.limit
        call = evolve(call, store=store, summarizer=summarizer, budget=budget, limit=limit)
        call = inside(call, shelf=shelf, phase=phase, governing=governing)
        for stage in due(self.stages, call):
            context = await run(stage, context, call)
        return context

    def call(
        self,
        reader: Reader,
        budget: Budget | None,
        aim: int | None,
        history_length: int,
        message_at: Callable[[int], Message | None],
        warmth: float = 0.0,
        before: Callable[[], tuple[Message, ...]] | None = None,
    ) -> Call:
        """What the stages of one step are told.

        Args:
            reader: Reads the conversation.
            budget: The budget in force.
            aim: The tokens to come down to.
            history_length: How many messages were passed in.
            message_at: The message at an index of what was passed in; None when it is gone.
            warmth: The believed share of the last request that the provider's cache still holds.
            before: What stands before the messages that the stages see.
        """
        return Call(
            meter=reader.meter,
            format=reader.wire.name,
            budget=budget,
            limit=aim,
            profile=reader.profile,
            warmth=warmth,
            store=self.originals,
            summarizer=self.summarizer,
            wire=reader.wire,
            internals=CallInternals(
                protect=bind(self.pinned, history_length, message_at) if self.pinned else (),
                before=before,
                thinking=self.on_edited_prefix,
                mending=self.mending,
                governing=self.governing,
            ),
        )


def _carried(stages: Iterable[ContextStrategy]) -> Iterator[Budget | None]:
    """The budgets that stages carry; None for a stage that comes down to the one around it."""
    for stage in all_stages(stages):
        if isinstance(stage, Plan) and stage.budget is None:
            continue  # its stages follow
        if hasattr(stage, "budget"):
            budget: Budget | None = stage.budget
            yield budget


PIPELINE = a(Plan, "a Pipeline")
