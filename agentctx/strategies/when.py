"""When a stage runs, apart from how it works."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import and_, gt

from agentctx.budget import AMOUNT, Amount, Budget
from agentctx.economics import Condition, Test
from agentctx.engine.plan import as_strategies, is_async
from agentctx.engine.run_stages import Holder, due, writes_recap
from agentctx.errors import ConfigError
from agentctx.message import Context
from agentctx.protocols import Call, ContextStrategy, Phase, RunInner, Strategy, aiming_lower, inside
from agentctx.validators import MustBe, must_be

_ABOVE = MustBe(AMOUNT.wanted, and_(AMOUNT, gt(0)))


def over(amount: Amount) -> Condition:
    """True when the context is larger than ``amount``: a token count, or a share of the budget's limit.

    Raises:
        ConfigError: If a share is not above 0 and up to 1; at run time, if a share is asked for without a budget.

    Example:
        >>> from agentctx import over
        >>> (over(0.8) & ~over(100_000)).name
        'over(0.8) & ~(over(100000))'
    """
    _ABOVE.check("over.amount", amount)

    def test(context: Context, call: Call) -> bool:
        if isinstance(amount, int):
            return call.size(context) > amount
        if call.budget is None:
            msg = f"over({amount}): a share of the limit needs a budget: pass Pipeline(..., budget=Budget(window=...))"
            raise ConfigError(msg)
        return call.size(context) > call.budget.tokens(amount, "over")

    return Condition(test, f"over({amount})")


@frozen
class Conditional(Holder):
    """Stages that run only when a condition holds, and whose work stands only when the condition approves of it.

    The condition is asked when the stages would run alone, about the whole request; one that has to be asked at every
    step has its stages run then, and is asked again before they do, as without a session: then it may look at every
    message. Without a session, and at every step, the stages come down to the budget's target.

    Args:
        condition: When they run.
        stages: What runs, in order.
    """

    condition: Test
    stages: tuple[ContextStrategy, ...]

    @property
    def name(self) -> str:
        """What it is called in errors."""
        inner = ", ".join(stage.name for stage in self.stages)
        return f"when({getattr(self.condition, 'name', 'condition')}, {inner})"

    @property
    def _every_step(self) -> bool:
        return isinstance(self.condition, Condition) and self.condition.every_step

    def runs_in(self, phase: Phase, governing: Budget | None, /) -> bool:
        """Return whether a stage of it runs: at every step where the condition is asked then."""
        return phase is not Phase.ARRIVALS if self._every_step else super().runs_in(phase, governing)

    async def run_inner(self, run: RunInner, context: Context, call: Call, /) -> Context:
        """Run the stages when the condition holds; return ``context`` itself when it does not, or does not approve."""
        whole, inner = call.internals.whole(context), call
        if not self.condition(whole, call):
            return context
        if self._every_step:
            inner = inside(call, phase=Phase.ONCE)
            if not self.condition(whole, inner):
                return context  # it held at first sight; with a look at all that must stay it does not
        if isinstance(self.condition, Condition) and inner.internals.phase is Phase.ONCE:
            inner = aiming_lower(inner, context)
        notes, after = call.internals.notes.copy(), context
        stages = due(self.stages, inner)
        for place, stage in enumerate(stages):
            if all(map(writes_recap, stages[place:])) and not self._approves(context, after, call):
                break  # what tells of a cut makes it no larger
            after = await run(stage, after, inner)
        if self._approves(context, after, call):
            return after
        call.internals.notes.restore(notes)
        return context

    def _approves(self, before: Context, after: Context, call: Call) -> bool:
        """Whether what was made of the request stands."""
        if after is before or not isinstance(self.condition, Condition):
            return True
        return self.condition.approves(call.internals.whole(before), call.internals.whole(after), call)


@frozen
class FirstOf(Holder):
    """Runs its stages in order and stops at the first that changes something; each phase by itself."""

    stages: tuple[ContextStrategy, ...] = field()

    @property
    def name(self) -> str:
        """What it is called in errors."""
        return f"first_of({', '.join(stage.name for stage in self.stages)})"

    async def run_inner(self, run: RunInner, context: Context, call: Call, /) -> Context:
        """Run the stages in order until one changes something."""
        for stage in due(self.stages, call):
            result = await run(stage, context, call)
            if result is not context:
                return result
        return context


def when(condition: Test, *stages: Strategy) -> Conditional:
    """Run ``stages`` only when ``condition`` holds, for example ``when(over(0.8), TrimRounds(20))``.

    Raises:
        ConfigError: If there is no stage, or if the condition is a stage or an async function: what either
            returns counts as true.

    Example:
        >>> from agentctx import ClearToolResults, Pipeline, over, when
        >>> pipeline = Pipeline(when(over(0.8), ClearToolResults(keep_last=5)), budget=128_000)
    """
    if not stages:
        raise must_be("when.stages", "at least one stage", stages)
    if not callable(condition):
        raise must_be("when.condition", "a function of (context, call), such as over(0.8)", condition)
    if is_async(condition) or isinstance(condition, ContextStrategy):
        kind = "a stage" if isinstance(condition, ContextStrategy) else "async"
        raise must_be("when.condition", f"a plain function, which comes first, and not {kind}", condition)
    return Conditional(condition, as_strategies("when", stages))


def first_of(*stages: Strategy) -> FirstOf:
    """Run ``stages`` in order until one changes something.

    Raises:
        ConfigError: If there is no stage.

    Example:
        >>> from agentctx import ClearToolResults, FitContextWindow, Pipeline, first_of
        >>> pipeline = Pipeline(first_of(ClearToolResults(keep_last=5), FitContextWindow()), budget=128_000)
    """
    if not stages:
        raise must_be("first_of.stages", "at least one stage", stages)
    return FirstOf(as_strategies("first_of", stages))
