"""What a step knows beside the messages: model, format, budget, system prompt and tools."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import evolve, frozen

from agentctx.core.budget import Budget
from agentctx.core.message import Context, Message, Tool
from agentctx.engine.cache_markers import check_head, relieved_head
from agentctx.engine.plan import Plan
from agentctx.engine.reading import Reader
from agentctx.protocols import Call
from agentctx.session.learned_limits import Allowance
from agentctx.session.record import Weights


@frozen
class Surroundings:
    """What a step knows beside the messages.

    Args:
        plan: The stages and their options.
        source: How the conversation is read.
        model: The model that is called, if known.
        format: The wire format, if it was named.
        allowance: What is known of the model's room.
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
    allowance: Allowance
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
        above = None if self.allowance.given != self.plan.governing else self.plan.refuses_above(self.model)
        return None if above is None else self.allowance.local(above.limit)

    @property
    def binds(self) -> bool:
        """Whether the model binds its reasoning to all that stands before it."""
        return self.source.profile is not None and self.source.profile.bound_thinking

    def with_budget(self, budget: Budget | None) -> Surroundings:
        """The same with another budget in force."""
        call = evolve(self.bare_call, budget=budget)
        return evolve(self, budget=budget, bare_call=call)

    def context(self, messages: Sequence[Message]) -> Context:
        """These messages with system prompt and tools."""
        return Context(tuple(messages), self.system, self.tools)

    def weigh(self, messages: Sequence[Message]) -> Weights:
        """What each message weighs."""
        meter = self.source.meter
        return Weights(list(map(meter.message, messages)), list(map(meter.weight, messages)))


def surround(
    plan: Plan,
    source: Reader,
    allowance: Allowance,
    fixed: tuple[Message | None, tuple[Tool, ...]],
    spoken: tuple[str | None, str | None],
) -> Surroundings:
    """The surroundings of a step.

    Args:
        plan: The stages and their options.
        source: How the conversation is read.
        allowance: What is known of the model's room.
        fixed: System prompt and tools.
        spoken: The model and the wire format, as far as they are named.

    Raises:
        InvalidInput: If system prompt and tools have cache markers that the provider does not take.
    """
    given, meter, budget = Context((), *fixed), source.meter, allowance.in_force
    empty = relieved_head(given, source.wire, source.profile)
    check_head(empty, source.wire)
    call = plan.call(source, budget, None, 0, _nobody)
    return Surroundings(
        plan,
        source,
        *spoken,
        allowance,
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
