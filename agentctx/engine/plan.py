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
from agentctx.engine.run_stages import Holder, due, mends, runs_in, writes_recap
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
        store, summarizer = self.store or call.store, self.summarizer or call.summarizer
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
                thinking=self.thinking,
                mending=self.mending,
                governing=self.governing,
            ),
        )


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
