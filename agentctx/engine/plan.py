"""What a pipeline is made of: stages and options, frozen, without a memory of any conversation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from functools import cached_property

from attrs import evolve, field, frozen

from agentctx.budget import Budget
from agentctx.engine.cut import bind
from agentctx.engine.options import Summarizing
from agentctx.engine.originals import StoreShelf
from agentctx.engine.reading import Reader
from agentctx.engine.run_stages import Holder, mends, writes_recap
from agentctx.errors import UnknownModel
from agentctx.message import Context, Message
from agentctx.protocols import (
    Call,
    CallInternals,
    ContextStrategy,
    Phase,
    RunInner,
    Store,
    Subscriber,
    Summarizer,
    TokenCounter,
    floor_of,
    inside,
)
from agentctx.tokens.counting import remembering
from agentctx.unit import ProtectRule, ThinkingPolicy


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
    def all_subscribers(self) -> tuple[Subscriber, ...]:
        """The plan's subscribers, and those of the pipelines within it, each once."""
        return tuple({id(each): each for plan in (self, *self._inner) for each in plan.subscribers}.values())

    @cached_property
    def _inner(self) -> tuple[Plan, ...]:
        return tuple(stage for stage in _all_stages(self.stages) if isinstance(stage, Plan))

    @cached_property
    def mending(self) -> tuple[ContextStrategy, ...]:
        """The stages whose texts refer to other messages."""
        return tuple(stage for stage in _all_stages(self.stages) if mends(stage))

    @cached_property
    def on_arrival(self) -> tuple[ContextStrategy, ...]:
        """The stages that a session runs on new messages, in order."""
        return in_phase(self.stages, Phase.ARRIVALS, self.governing)

    @cached_property
    def at_every_step(self) -> tuple[ContextStrategy, ...]:
        """The stages that a session runs on the whole view at every step, in order."""
        return in_phase(self.stages, Phase.EVERY_STEP, self.governing)

    @cached_property
    def under_pressure(self) -> tuple[ContextStrategy, ...]:
        """The stages that a session runs on the whole view when it has grown too large, in order."""
        return in_phase(self.stages, Phase.PRESSURE, self.governing)

    @cached_property
    def telling(self) -> tuple[ContextStrategy, ...]:
        """The stages that only tell in the recap what others left out, also those within stages; each once."""
        leaves = (stage for stage in _all_stages(self.stages) if not stage.stages)
        telling = [stage for stage in leaves if writes_recap(stage) and not isinstance(stage, Summarizing)]
        return tuple(stage for place, stage in enumerate(telling) if stage not in telling[:place])

    def tells(self, stage: ContextStrategy, ran: Collection[ContextStrategy]) -> bool:
        """Whether a stage tells also what is left out last of all: one that runs on a condition, where it ran."""
        return stage in ran or stage in self.stages or any(plan.tells(stage, ()) for plan in self._unconditional)

    @cached_property
    def _unconditional(self) -> tuple[Plan, ...]:
        """The pipelines directly within, whose stages run whenever its own do."""
        return tuple(stage for stage in self.stages if isinstance(stage, Plan) and stage.budget is None)

    @cached_property
    def at_once(self) -> tuple[ContextStrategy, ...]:
        """The stages that a stateless call runs, in order."""
        return in_phase(self.stages, Phase.ONCE, self.governing)

    def in_phase(self, phase: Phase, governing: Budget | None, /) -> Nested | None:
        """It as a stage of another, with those of its stages only that run in ``phase``; None when there is none.

        With a budget of its own it looks at every step whether the request has passed that budget's trigger.
        """
        if self.budget is None or self.budget == governing:
            stages = in_phase(self.stages, phase, governing)
            return Nested(self, phase, stages) if stages else None
        stages = in_phase(self.stages, phase, self.budget)
        if phase in (Phase.ONCE, Phase.ARRIVALS):
            return Nested(self, phase, stages, own=self.budget) if stages else None
        stages = in_phase(self.stages, Phase.EVERY_STEP, self.budget)
        pressed = in_phase(self.stages, Phase.PRESSURE, self.budget)
        return Nested(self, phase, stages, pressed, self.budget) if pressed else None

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
                thinking=self.thinking,
                mending=self.mending,
            ),
        )


def in_phase(stages: Iterable[ContextStrategy], phase: Phase, governing: Budget | None) -> tuple[ContextStrategy, ...]:
    """The stages that run in a phase of a step, also those within stages.

    Args:
        stages: The stages, in order.
        phase: The part of the step.
        governing: The budget, as it was configured, that holds around them.
    """
    narrowed = (_in_phase(stage, phase, governing) for stage in stages)
    return tuple(stage for stage in narrowed if stage is not None)


def _in_phase(stage: ContextStrategy, phase: Phase, governing: Budget | None) -> ContextStrategy | None:
    if isinstance(stage, Holder):
        return stage.in_phase(phase, governing)
    return stage if stage.when in phase.value else None


@frozen(eq=False, repr=False)
class Nested(Holder):
    """A plan as a stage of another, as far as it runs in one phase of a step.

    Its store, its summarizer and its budget, when it has them, hold for the stages in it. What it protects, the whole
    plan protects.

    Args:
        plan: The plan.
        phase: The part of the step.
        usual: The stages that run in it.
        pressed: Those that run when the request has passed the trigger of the plan's own budget.
        own: The plan's own budget; None when the one around holds.
    """

    plan: Plan
    phase: Phase
    usual: tuple[ContextStrategy, ...]
    pressed: tuple[ContextStrategy, ...] = ()
    own: Budget | None = None

    @property
    def name(self) -> str:
        """What it is called in errors."""
        return type(self.plan).__name__

    @property
    def stages(self) -> tuple[ContextStrategy, ...]:
        """The stages that it may run."""
        return self.pressed or self.usual

    def in_phase(self, phase: Phase, governing: Budget | None, /) -> Nested | None:
        """The same plan in another phase."""
        return self.plan.in_phase(phase, governing)

    async def run_inner(self, run: RunInner, context: Context, call: Call, /) -> Context:
        """Run the stages that it is time for."""
        store, summarizer = self.plan.store or call.store, self.plan.summarizer or call.summarizer
        shelf = call.internals.shelf
        if isinstance(shelf, StoreShelf) and store is not None:
            shelf = shelf.of(store)
        call = inside(evolve(call, store=store, summarizer=summarizer), shelf=shelf)
        stages = self.usual
        if self.own is not None:
            over = bool(self.pressed) and call.size(context) > self.own.trigger_tokens
            stages = self.pressed if over else self.usual
            aim = self.own.target_above(floor_of(call, context)) if over else self.own.limit
            call = evolve(call, budget=self.own, limit=None if self.phase is Phase.ARRIVALS else aim)
        for stage in stages:
            context = await run(stage, context, call)
        return context


def _all_stages(stages: Iterable[ContextStrategy]) -> Iterator[ContextStrategy]:
    """Stages, and the stages within them."""
    for stage in stages:
        yield stage
        yield from _all_stages(stage.stages)


def _carried(stages: Iterable[ContextStrategy]) -> Iterator[Budget | None]:
    """The budgets that stages carry; None for a stage that comes down to the one around it."""
    for stage in _all_stages(stages):
        if isinstance(stage, Plan) and stage.budget is None:
            continue  # its stages follow
        if hasattr(stage, "budget"):
            budget: Budget | None = stage.budget
            yield budget
