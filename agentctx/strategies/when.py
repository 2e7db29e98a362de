"""When a stage runs, apart from how it works."""

from __future__ import annotations

from inspect import iscoroutinefunction

from attrs import field, frozen

from agentctx.condition import Condition, Test
from agentctx.core.budget import Amount
from agentctx.core.message import Context
from agentctx.errors import ConfigError
from agentctx.protocols import Call, ContextStrategy
from agentctx.strategies.naming import name_of
from agentctx.strategies.options import check_stages
from agentctx.strategies.running import run


def over(amount: Amount) -> Condition:
    """True when the context is larger than ``amount``: a token count, or a share of the budget's window.

    Raises:
        ConfigError: If a share is not above 0 and up to 1; at run time, if a share is asked for without a budget.
    """
    number = isinstance(amount, (int, float)) and not isinstance(amount, bool)
    if not number or amount <= 0 or (isinstance(amount, float) and not amount <= 1):
        msg = f"over: expected a positive number of tokens or a share above 0 and up to 1, got {amount!r}"
        raise ConfigError(msg)

    def test(context: Context, call: Call) -> bool:
        if isinstance(amount, int):
            return call.size(context) > amount
        if call.budget is None:
            msg = f"over({amount}): a share of the window needs a budget: pass Pipeline(..., budget=Budget(window=...))"
            raise ConfigError(msg)
        return call.size(context) > call.budget.tokens(amount, "over")

    return Condition(test, f"over({amount})")


@frozen
class When:
    """Stages that run only when a condition holds, and whose work stands only when the condition approves of it."""

    condition: Test
    stages: tuple[ContextStrategy, ...]

    @property
    def name(self) -> str:
        """What it is called in reports."""
        inner = ", ".join(name_of(stage) for stage in self.stages)
        return f"when({getattr(self.condition, 'name', 'condition')}, {inner})"

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Run the stages in order when the condition holds, else return the context."""
        if not self.condition(context, call):
            return context
        aiming, known, after = call.aiming_lower(call.size(context)), call.notes.copy(), context
        for stage in self.stages:
            after = (await run(stage, after, aiming)).context
            await call.meter.settle(after.messages)
        if after is context or not isinstance(self.condition, Condition):
            return after
        if self.condition.approves(context, after, call):
            return after
        call.notes.restore(known)
        return context


@frozen
class FirstOf:
    """Stages of which the first that changes something is the last that runs."""

    stages: tuple[ContextStrategy, ...] = field()

    @property
    def name(self) -> str:
        """What it is called in reports."""
        return f"first_of({', '.join(name_of(stage) for stage in self.stages)})"

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Try the stages in order until one changes something."""
        for stage in self.stages:
            result = (await run(stage, context, call)).context
            if result is not context:
                return result
        return context


def when(condition: Test, *stages: ContextStrategy) -> When:
    """Run ``stages`` only when ``condition`` holds, for example ``when(over(0.8), TrimRounds(20))``.

    Raises:
        ConfigError: If there is no stage, or if the condition is a stage or another async function: what such a
            function returns before it is awaited counts as true.
    """
    if not stages:
        msg = "when: pass at least one stage"
        raise ConfigError(msg)
    asked: object = condition
    if not callable(asked):
        msg = f"when: the condition is {condition!r}; it is called with (context, call): see over"
        raise ConfigError(msg)
    if iscoroutinefunction(asked) or iscoroutinefunction(type(asked).__call__):
        msg = f"when: the condition is {condition!r}, which is async; a condition comes first and is a plain function"
        raise ConfigError(msg)
    check_stages("when", stages)
    return When(condition, stages)


def first_of(*stages: ContextStrategy) -> FirstOf:
    """Run ``stages`` in order until one changes something.

    Raises:
        ConfigError: If there is no stage.
    """
    if not stages:
        msg = "first_of: pass at least one stage"
        raise ConfigError(msg)
    check_stages("first_of", stages)
    return FirstOf(stages)
