"""What a pipeline is made of: stages and options, frozen, without a memory of any conversation."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import pairwise, takewhile
from time import perf_counter

from attrs import evolve, field, frozen

from agentctx.core.budget import Budget
from agentctx.core.message import Context, Message, Text
from agentctx.core.protection import GO_ON, ProtectRule, ThinkingPolicy
from agentctx.core.report import Compaction, Report, StageReport
from agentctx.core.units import open_at_end
from agentctx.engine.cache_markers import REFUSED, KeepCacheMarkers, LiftCacheMarkers, LimitCacheMarkers
from agentctx.engine.changes import head_changes
from agentctx.engine.fit import FitGuarantee, FitRequestBytes, LimitImages, body_bytes
from agentctx.engine.listeners import as_listeners, tell
from agentctx.engine.protect import bind
from agentctx.engine.reading import Reader
from agentctx.engine.reasoning import settle_reasoning
from agentctx.engine.repair import arranged_by
from agentctx.engine.run_stages import Holder, Trail, in_phase, run_stage
from agentctx.errors import ContextOverflow, InvalidInput, UnknownModel
from agentctx.protocols import (
    Call,
    ContextStrategy,
    Listener,
    Listeners,
    Phase,
    RunInner,
    Stage,
    Store,
    Summarizer,
    TokenCounter,
    declared,
)
from agentctx.tokens.remembering import remembering


@frozen(eq=False)
class Plan(Holder):
    """Stages in order, and the options they share.

    Args:
        stages: What to do, in order.
        budget: The room of one model call, if given.
        counter: Counts tokens; None means tiktoken's encoding for the model.
        store: Keeps originals, if given.
        protect: The caller's own rules of what must survive.
        on_compact: Told of each compaction.
        summarizer: Puts messages into fewer words.
        thinking: What to do where an edit would part reasoning from the prefix that it is bound to.
    """

    stages: tuple[ContextStrategy, ...]
    budget: Budget | None = None
    counter: TokenCounter | None = None
    store: Store | None = None
    protect: tuple[ProtectRule, ...] = ()
    on_compact: Listeners | None = field(default=None, repr=False)
    summarizer: Summarizer | None = None
    thinking: ThinkingPolicy = "postpone"

    @property
    def own_budget(self) -> Budget | None:
        """Its budget, where it is a stage of another."""
        return self.budget

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
    def listeners(self) -> tuple[Listener, ...]:
        """The plan's listener, and those of the pipelines within it."""
        return tuple(listener for plan in (self, *self._inner) for listener in as_listeners(plan.on_compact))

    @cached_property
    def _inner(self) -> tuple[Plan, ...]:
        return tuple(stage for stage in _all_stages(self.stages) if isinstance(stage, Plan))

    @cached_property
    def pointing(self) -> dict[str, Stage]:
        """The stages whose edits are true only as long as other messages are there, by name."""
        found = map(declared, _all_stages(self.stages))
        return {stage.name: stage for stage in found if stage.true_at(()) is not None}

    @cached_property
    def on_arrival(self) -> tuple[ContextStrategy, ...]:
        """The stages that a session runs on new messages, in order."""
        return in_phase(self.stages, Phase.ARRIVALS, self.governing)

    @cached_property
    def named_on_arrival(self) -> frozenset[str]:
        """The names of the stages that a session runs on new messages, with those in them."""
        return frozenset(declared(stage).name for stage in _all_stages(self.on_arrival))

    @cached_property
    def at_every_step(self) -> tuple[ContextStrategy, ...]:
        """The stages that a session runs on the whole view at every step, in order."""
        return in_phase(self.stages, Phase.EVERY_STEP, self.governing)

    @cached_property
    def under_pressure(self) -> tuple[ContextStrategy, ...]:
        """The stages that a session runs on the whole view when it has grown too large, in order."""
        return in_phase(self.stages, Phase.PRESSURE, self.governing)

    @cached_property
    def at_once(self) -> tuple[ContextStrategy, ...]:
        """All stages, as a stateless call runs them, in order."""
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
        source: Reader,
        budget: Budget | None,
        limit: int | None,
        given: int,
        message_at: Callable[[int], Message | None],
        warmth: float = 0.0,
        before: Callable[[], tuple[Message, ...]] | None = None,
    ) -> Call:
        """What the stages of one step are told.

        Args:
            source: How the conversation is read.
            budget: The budget in force.
            limit: The tokens to come down to.
            given: How many messages were passed in.
            message_at: The message at an index of what was passed in; None when it is gone.
            warmth: The believed share of the last request that the provider's cache still holds.
            before: What stands before the messages that the stages see.
        """
        return Call(
            meter=source.meter,
            format=source.wire.name,
            budget=budget,
            limit=limit,
            profile=source.profile,
            protect=bind(self.pinned, given, message_at) if self.pinned else (),
            warmth=warmth,
            before=before,
            store=self.originals,
            summarizer=self.summarizer,
            wire=source.wire,
            thinking=self.thinking,
        )

    async def tell(
        self, report: Report, listeners: Listeners | None = None, session: str | None = None, step: int | None = None
    ) -> None:
        """Tell the listeners of a compaction, when there was one; cache markers alone are none."""
        told = (*self.listeners, *as_listeners(listeners))
        if not told or all(stage.marks_only for stage in report.stages):
            return
        event = Compaction(
            tuple(stage for stage in report.stages if stage.acted),
            report.messages_before,
            report.messages_after,
            report.tokens_before,
            report.tokens_after,
            session,
            step,
            first_changed=report.first_changed,
            rebilled_tokens=report.rebilled_tokens,
        )
        await tell(told, event)


@frozen(eq=False)
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
        call = evolve(call, store=self.plan.store or call.store, summarizer=self.plan.summarizer or call.summarizer)
        stages = self.usual
        if self.own is not None:
            over = bool(self.pressed) and call.size(context) > self.own.trigger_tokens
            stages = self.pressed if over else self.usual
            aim = self.own.target_above(call.floor(context)) if over else self.own.limit
            call = call.aiming_at(self.own, None if self.phase is Phase.ARRIVALS else aim)
        for stage in stages:
            context = await run(stage, context, call)
        return context


def _all_stages(stages: Iterable[ContextStrategy]) -> Iterator[ContextStrategy]:
    """Stages, and the stages within them."""
    for stage in stages:
        yield stage
        yield from _all_stages(declared(stage).stages or ())


def _carried(stages: Iterable[ContextStrategy]) -> Iterator[Budget | None]:
    """The budgets that stages carry; None for a stage that waits for one."""
    for stage in map(declared, _all_stages(stages)):
        if stage.needs_budget or stage.own_budget is not None:
            yield stage.own_budget


def relief(given: Context, sent: Context, call: Call, size: int) -> tuple[StageReport, ...]:
    """The report on ``relieved_head``; empty when nothing was taken off.

    Args:
        given: System prompt and tools as they were passed in.
        sent: The same as they go on.
        call: What the stages are told.
        size: Size of the request when it was done, in tokens.
    """
    if given.system is sent.system and given.tools is sent.tools:
        return ()
    name, more = LiftCacheMarkers.__name__, call.meter.fixed(given) - call.meter.fixed(sent)
    head = tuple(evolve(change, reason=REFUSED) for change in head_changes(name, given, sent, call))
    return (StageReport(name, (), size + more, size, 0.0, (), head),)


def refuse_empty(trail: Trail) -> None:
    """Refuse a request of which repair, and the rules of reasoning, left nothing to send.

    Raises:
        InvalidInput: If it left nothing.
    """
    if not trail.context.messages:
        where = "messages"
        what = "every message was empty, a tool result without a call, or reasoning that the provider would refuse"
        raise InvalidInput(where, f"nothing is left to send: {what}")


async def guarantee(
    trail: Trail, call: Call, budget: Budget | None, before: Context, last: str, most: int | None = None
) -> None:
    """Make sure that the request fits the budget, that its reasoning is taken, and that it may end as it does.

    Args:
        trail: Where the step stands; brought up to date.
        call: What the stages are told.
        budget: The budget in force.
        before: The request as it was when the model's reasoning was made.
        last: The role of the last message that was passed in.
        most: The tokens above which it is refused, where the budget is only aimed at; see ``Plan.refuses_above``.

    Raises:
        ContextOverflow: If it cannot be made to fit.
        InvalidInput: If nothing is left to send.
    """
    await _arrange(trail, call)
    if budget is not None:
        if budget.media.images is not None:
            await run_stage(LimitImages(budget.media.images), trail, call)
        await _fit_or_say(trail, call, budget.limit, last, most)
        if budget.request_bytes is not None:
            room = budget.request_bytes - (call.meter.weight(_GO_ON_MESSAGE) if _lacks_end(trail, call, last) else 0)
            await run_stage(FitRequestBytes(room, trail.origins), trail, call)
    await _arrange(trail, call)  # which costs nothing: it was counted before
    await settle_reasoning(trail, call, before)
    await _arrange(trail, call)
    if _lacks_end(trail, call, last):
        await run_stage(_append_go_on, trail, call, trusted=True)
    if trail.reports:
        await _keep_markers(trail, call, budget, before)
    await run_stage(LimitCacheMarkers(), trail, call, trusted=True)  # the request only gets smaller by it
    if not trail.start:
        refuse_empty(trail)


async def _fit_or_say(trail: Trail, call: Call, limit: int, last: str, most: int | None) -> None:
    """Make the request fit, or say that it cannot be made to, where more is taken than the budget aims at."""
    if most is None:
        return await _fit(trail, call, limit, last)
    known = trail.copy()
    try:
        await _fit(trail, call, limit, last)
    except ContextOverflow:
        trail.restore(known)
        note = f"{trail.tokens - limit:,} tokens over the {limit:,} of a pipeline within: no more may be left out"
        trail.reports.append(StageReport("FitGuarantee", (), trail.tokens, trail.tokens, 0.0, (note,)))
        await _fit(trail, call, most, last)


async def _fit(trail: Trail, call: Call, limit: int, last: str) -> None:
    """Make the request fit, with what has to stand between messages that only now are neighbours, or behind them."""

    def closing() -> int:
        return call.meter.message(_GO_ON_MESSAGE) if _lacks_end(trail, call, last) else 0

    aim = limit - closing()
    while trail.tokens + closing() > limit:
        try:
            await run_stage(FitGuarantee(aim, trail.origins), trail, call)
        except ContextOverflow as error:
            raise ContextOverflow(error.tokens + limit - aim, limit, error.biggest) from None
        await _arrange(trail, call)
        aim -= max(0, trail.tokens + closing() - limit)


_GO_ON_MESSAGE = Message("user", (Text(GO_ON),))
"""Comes last where what was last when it was passed in stands further up, or cannot be sent."""

_ASKING = frozenset({"user", "tool"})


def is_go_on(message: Message) -> bool:
    """Whether it is what ``guarantee`` adds to the end of a request, for one step."""
    return message.role == _GO_ON_MESSAGE.role and message.parts == _GO_ON_MESSAGE.parts


def _lacks_end(trail: Trail, call: Call, last: str) -> bool:
    known = trail.context.messages[-1:] or (call.before() if call.before is not None else ())[-1:]
    return bool(known) and lacks_end(known[0], last, call) and not open_at_end(trail.context.messages)


def lacks_end(message: Message, last: str, call: Call) -> bool:
    """Whether the user has to speak behind this message at the end, which the model refuses there, or goes on with.

    Args:
        message: The last message of the request.
        last: The role of the last message that was passed in: to end on the assistant is up to the caller.
        call: What the stages are told.
    """
    return last in _ASKING and call.wire is not None and not call.wire.may_end_on(message)


async def let_answers_follow(
    trail: Trail, call: Call, role_at: Callable[[int], str], after: tuple[Message, int | None] | None = None
) -> None:
    """Let the user speak before an answer of the assistant where what it answers stands further up by now, or is gone.

    When it was given, ``guarantee`` had put the same words there: reasoning may be bound to them.

    Args:
        trail: Where the step stands, repaired; brought up to date.
        call: What the stages are told; its ``before`` is asked only where the user may have to speak.
        role_at: The role of the message of the history at an index.
        after: The last message before the trail's, with its index in the history.
    """
    if call.wire is None or not call.wire.minds_the_end:
        return
    new, start = trail.context.messages, 0 if after is None else 1
    known = [*([] if after is None else [after]), *zip(new, trail.origins, strict=True)]
    answers = {
        id(message)
        for place, ((before, asked), (message, answered)) in enumerate(pairwise(known), 1 - start)
        if message.role == before.role == "assistant" and asked is not None and answered is not None
        if any(role_at(index) in _ASKING for index in range(asked + 1, answered))
        if _ended((*(call.before() if call.before else ()), *new[:place]), call)
    }
    if not answers:
        return

    async def parted(context: Context, call: Call, /) -> Context:
        out: list[Message] = []
        for message in context.messages:
            if id(message) in answers:
                out.append(Message(_GO_ON_MESSAGE.role, _GO_ON_MESSAGE.parts))
                call.note(out[-1], "the assistant answered what stands further up, or was left out")
            out.append(message)
        return context.with_messages(tuple(out))

    parted.__name__ = "RepairHistory"  # it follows from the history alone, too
    await run_stage(parted, trail, call, trusted=True)


def _ended(messages: Sequence[Message], call: Call) -> bool:
    """Whether messages end with a turn of the assistant that is over, and its model would not be asked with it last."""
    turn = takewhile(lambda message: message.role == "assistant", reversed(messages))
    calls = any(message.calls for message in turn)  # whose results stand behind the turn
    return not calls and not open_at_end(messages) and lacks_end(messages[-1], "user", call)


async def _append_go_on(context: Context, call: Call, /) -> Context:
    """Let the user speak last, who did so when the request came in."""
    said = Message(_GO_ON_MESSAGE.role, _GO_ON_MESSAGE.parts)
    call.note(said, "the request came in ending on the user or a tool, and would end on the assistant for this model")
    return context.with_messages((*context.messages, said))


_append_go_on.__name__ = "ArrangeMessages"  # as all that is done so that messages stand where the model takes them


async def _arrange(trail: Trail, call: Call) -> None:
    """Let messages stand where the model takes them, after what stood around them went."""
    if trail.start:
        return
    await run_stage(_arranged, trail, call, trusted=True)
    if trail.reports and call.wire is not None and call.wire.reads_places:
        await run_stage(_neighboured, trail, call, trusted=True)


async def _arranged(context: Context, call: Call, /) -> Context:
    if call.wire is None:
        return context
    arranged = call.wire.arrange_for(context.messages, call.profile, call.note)
    return context if arranged is context.messages else context.with_messages(tuple(arranged))


async def _neighboured(context: Context, call: Call, /) -> Context:
    if call.wire is None:
        return context
    arranged = arranged_by(context.messages, call, call.wire)
    return context if arranged is context.messages else context.with_messages(tuple(arranged))


_neighboured.__name__ = "ArrangeMessages"
_arranged.__name__ = "ArrangeMessages"


async def _keep_markers(trail: Trail, call: Call, budget: Budget | None, before: Context) -> None:
    """Move markers whose blocks went, where the request still fits with them: nothing is left out for a marker."""
    known = trail.copy()
    await run_stage(KeepCacheMarkers(before.messages), trail, call, trusted=True)
    if trail.context is known.context or budget is None:
        return
    most = budget.request_bytes
    if trail.tokens > budget.limit or (most is not None and body_bytes(trail.context, call) > most):
        trail.restore(known)
        note = "cache markers whose blocks went are left out: the request would not fit with them"
        trail.reports.append(StageReport("KeepCacheMarkers", (), trail.tokens, trail.tokens, 0.0, (note,)))


def since(started: float) -> float:
    """Seconds since ``started``, by the clock that reports use."""
    return perf_counter() - started
