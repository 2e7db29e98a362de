"""What a step knows beside the messages: model, format, budget, system prompt, tools; and how far it has come."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from attrs import define, evolve, frozen

from agentctx.core.budget import Budget
from agentctx.core.message import ROLES, Context, Message, Tool
from agentctx.economics.conditions import warmth_after
from agentctx.engine.cache_markers import check_head, relieved_head
from agentctx.engine.plan import Plan
from agentctx.engine.reading import Reader
from agentctx.engine.run_stages import Trail
from agentctx.protocols import Call
from agentctx.session.learned_limits import LearnedLimits
from agentctx.session.record import Record, Sizes


@frozen
class StepContext:
    """What a step knows beside the messages.

    Args:
        plan: The stages and their options.
        source: How the conversation is read.
        model: The model that is called, if known.
        format: The wire format, if it was named.
        limits: What is known of the model's room.
        budget: The budget in force.
        system: The system prompt kept apart from the messages.
        tools: The tool definitions.
        fixed: Tokens of system prompt and tools.
        fixed_bytes: Bytes of system prompt and tools.
        bare_call: What stages are told when nothing has to shrink and the caller protects nothing.
        given: System prompt and tools as they were passed in, with cache markers that the model does not take.
    """

    plan: Plan
    source: Reader
    model: str | None
    format: str | None
    limits: LearnedLimits
    budget: Budget | None
    system: Message | None
    tools: tuple[Tool, ...]
    fixed: int
    fixed_bytes: int
    bare_call: Call
    given: Context

    @property
    def most(self) -> int | None:
        """The tokens above which a request is refused where the budget is only aimed at: ``Plan.refuses_above``."""
        above = None if self.limits.given != self.plan.governing else self.plan.refuses_above(self.model)
        return None if above is None else self.limits.local(above.limit)

    @property
    def binds(self) -> bool:
        """Whether the model binds its reasoning to all that stands before it."""
        return self.source.profile is not None and self.source.profile.bound_thinking

    def with_budget(self, budget: Budget | None) -> StepContext:
        """The same with another budget in force."""
        call = evolve(self.bare_call, budget=budget)
        return evolve(self, budget=budget, bare_call=call)

    def context(self, messages: Sequence[Message]) -> Context:
        """These messages with system prompt and tools."""
        return Context(tuple(messages), self.system, self.tools)

    def weigh(self, messages: Sequence[Message]) -> Sizes:
        """What each message weighs."""
        meter = self.source.meter
        return Sizes(list(map(meter.message, messages)), list(map(meter.weight, messages)))


def surround(
    plan: Plan,
    source: Reader,
    limits: LearnedLimits,
    fixed: tuple[Message | None, tuple[Tool, ...]],
    spoken: tuple[str | None, str | None],
) -> StepContext:
    """The surroundings of a step.

    Args:
        plan: The stages and their options.
        source: How the conversation is read.
        limits: What is known of the model's room.
        fixed: System prompt and tools.
        spoken: The model and the wire format, as far as they are named.

    Raises:
        InvalidInput: If system prompt and tools have cache markers that the provider does not take.
    """
    given, meter, budget = Context((), *fixed), source.meter, limits.in_force
    empty = relieved_head(given, source.wire, source.profile)
    check_head(empty, source.wire)
    call = plan.call(source, budget, None, 0, _nobody)
    return StepContext(
        plan,
        source,
        *spoken,
        limits,
        budget,
        empty.system,
        empty.tools,
        meter.fixed(empty),
        meter.bytes(empty),
        call,
        given,
    )


def _nobody(_index: int) -> None:
    """No message stands at any index."""


@define
class Step:
    """What a step has worked out; nothing is remembered before ``commit``.

    Args:
        ctx: What the step knows beside the messages.
        record: What is known of the conversation.
        natives: Everything the caller passed.
        seen: What the messages that are new look like.
        trail: The part of the view that the step works on, and what the stages did: from the place ``trail.start`` of
            the record's view on, its messages replace it.
        arrived: What the messages that are new weigh.
        raw: The new messages as they were read, with those of the unfinished round before them.
        raw_origin: The index in the history of each of ``raw``.
        idle: Seconds since the last request was prepared; None when there was none.
        open_from: Index in the history from which the last round is unfinished; None when it is finished.
        quiet_until: See ``Record``.
        waiting: See ``Record``.
        reasoning_made_with: System prompt and tools that the reasoning so far was made with; None when they are those
            of now.
        marked_for: The model whose cache markers the record's view carries; None when it is not known.
    """

    ctx: StepContext
    record: Record
    natives: Sequence[Any]
    seen: list[Any]
    trail: Trail
    arrived: Sizes
    raw: list[Message]
    raw_origin: list[int]
    idle: float | None
    open_from: int | None = None
    quiet_until: int = 0
    waiting: bool = False
    reasoning_made_with: tuple[Message | None, tuple[Tool, ...]] | None = None
    marked_for: str | None = None

    @property
    def fresh(self) -> list[Message]:
        """The new messages as they were read."""
        return self.raw[len(self.raw) - len(self.seen) :]

    @property
    def last_role(self) -> str:
        """The role of the last message of the history; empty when there is none."""
        if self.raw:
            return self.raw[-1].role
        return ROLES[self.record.roles[-1]] if self.record.roles else ""

    def role_at(self, index: int) -> str:
        """The role of the message of the history at an index."""
        known = len(self.record)
        return ROLES[self.record.roles[index]] if index < known else self.fresh[index - known].role

    def widen(self) -> None:
        """Let the stages see the whole view."""
        start, record = self.trail.start, self.record
        if start:
            self.trail.widen(self.ctx.context(record.view[:start]), record.origins[:start], record.made)

    def call(self, aim: int | None = None) -> Call:
        """What the stages are told, with the tokens to come down to."""
        ctx = self.ctx
        call = ctx.plan.call(ctx.source, ctx.budget, aim, len(self.natives), self.message_at, self.warmth)
        return evolve(call, before=lambda: tuple(self.record.view[: self.trail.start]))

    def late(self) -> frozenset[int]:
        """The identities of the messages that came after the model's last one, wherever they stand now."""
        fresh = [index for index, message in enumerate(self.fresh, len(self.record)) if message.role == "assistant"]
        return self.trail.after(max([self.record.roles.rfind(ROLES.index("assistant")), *fresh]))

    @property
    def warmth(self) -> float:
        """The believed share of the last request that the provider's cache still holds."""
        return warmth_after(self.ctx.source.profile, self.idle)

    def message_at(self, index: int) -> Message | None:
        """The message that was read from the history at ``index``; None when it is gone."""
        record, trail = self.record, self.trail
        known = zip(
            (*record.view[: self.trail.start], *trail.context.messages),
            (*record.origins[: self.trail.start], *trail.origins),
            strict=True,
        )
        return next((message for message, origin in known if origin == index), None)

    @property
    def tokens(self) -> int:
        """Size of the request, in tokens."""
        return self.trail.tokens
