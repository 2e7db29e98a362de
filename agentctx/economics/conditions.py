"""Conditions of a context, for ``when``: those of one's own, and when the cache and the bill make a cut worth while."""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from agentctx.economics.costs import expected_forecast, made_forecast
from agentctx.errors import ConfigError
from agentctx.message import Context
from agentctx.protocols import Call

Test = Callable[[Context, Call], bool]
Approval = Callable[[Context, Context, Call], bool]
"""Given the context, what stages made of it, and the call: whether that is worth having."""


@frozen(eq=False, repr=False)
class Condition:
    """Something that is true or false of a context; join with ``&``, ``|`` and ``~``.

    Args:
        test: Given the context and the call, whether it holds.
        name: What it is called in reports.
        approval: Asked once the stages have run: what it does not approve is as if they had not. None approves all.
        every_step: Whether it has to be asked at every step of a session, whenever the stages would run alone: what
            it depends on changes although the context does not grow.

    Example:
        >>> from agentctx import ClearToolResults, when
        >>> from agentctx.economics import Condition
        >>> many = Condition(lambda context, call: len(context.messages) > 100, "many messages")
        >>> stage = when(many, ClearToolResults(keep_last=5))
    """

    test: Test
    name: str
    approval: Approval | None = None
    every_step: bool = False

    def __call__(self, context: Context, call: Call) -> bool:
        """Whether it holds."""
        return self.test(context, call)

    def approves(self, before: Context, after: Context, call: Call) -> bool:
        """Whether what stages made of a context is worth having.

        Args:
            before: The context that the stages were given.
            after: The context that they gave back.
            call: The call, as the stages were given it.
        """
        return self.approval is None or self.approval(before, after, call)

    def __bool__(self) -> bool:
        """Not true or false by itself: of two that are joined with ``and`` or ``or``, Python would drop one."""
        msg = f"{self.name}: join conditions with &, | and ~ instead of and, or and not"
        raise ConfigError(msg)

    def __and__(self, other: object) -> Condition:
        if not isinstance(other, Condition):
            return NotImplemented
        name = " & ".join(f"({each.name})" if " | " in each.name else each.name for each in (self, other))

        def approval(before: Context, after: Context, call: Call) -> bool:
            return self.approves(before, after, call) and other.approves(before, after, call)

        often = self.every_step or other.every_step
        return Condition(lambda context, call: self(context, call) and other(context, call), name, approval, often)

    def __or__(self, other: object) -> Condition:
        if not isinstance(other, Condition):
            return NotImplemented
        name = f"{self.name} | {other.name}"

        def approval(before: Context, after: Context, call: Call) -> bool:
            return any(each(before, call) and each.approves(before, after, call) for each in (self, other))

        often = self.every_step or other.every_step
        return Condition(lambda context, call: self(context, call) or other(context, call), name, approval, often)

    def __invert__(self) -> Condition:
        name = f"~({self.name})"
        return Condition(lambda context, call: not self(context, call), name, every_step=self.every_step)


LUKEWARM = 0.5
"""Below this believed share of the last request the cache counts as cold."""


def cache_cold() -> Condition:
    """True when the provider's cache is believed to have lapsed: what is sent is written anew anyway.

    Asked at every step of a session. Reads ``call.warmth``: the session knows when the last request was sent, a
    stateless call knows of no cache.

    Example:
        >>> from agentctx import ClearToolResults, when
        >>> from agentctx.economics import cache_cold
        >>> stage = when(cache_cold(), ClearToolResults(keep_last=5))
    """
    return Condition(lambda _context, call: call.warmth < LUKEWARM, "cache_cold()", every_step=True)


def pays_back(within: int) -> Condition:
    """True when cutting the context down to the budget's target has paid for itself after ``within`` calls.

    What the stages then really made of it is judged once more: a cut that turns out too small, or too dear for what
    it frees, is not made, so that what is freed little by little is cut in few large steps. Always true while the
    request does not fit, for then something has to go; never while there is nothing to cut. A session asks
    at every step, whenever the stages would run alone. Needs a budget, and a model whose prices are known.

    Args:
        within: How many calls the conversation is expected to go on with the cut history, at least.

    Raises:
        ConfigError: If ``within`` is no whole number of at least 1; at run time, if no model was named or its prices
            are not known.

    Example:
        >>> from agentctx import ClearToolResults, when
        >>> from agentctx.economics import pays_back
        >>> stage = when(pays_back(within=20), ClearToolResults(keep_last=5))
    """
    if isinstance(within, bool) or not isinstance(within, int) or within < 1:
        msg = f"pays_back: within must be a whole number of calls, at least 1, got {within!r}"
        raise ConfigError(msg)

    def test(context: Context, call: Call) -> bool:
        expected = expected_forecast(context, call.aiming_lower(context, call.meter.fixed(context)))
        return expected is not None and (expected.pays_back(within) or _too_large(context, call))

    def approval(before: Context, after: Context, call: Call) -> bool:
        made = made_forecast(before, after, call)
        return made is not None and (made.pays_back(within) or _too_large(before, call))

    return Condition(test, f"pays_back(within={within})", approval, every_step=True)


def _too_large(context: Context, call: Call) -> bool:
    return call.budget is not None and call.size(context) > call.budget.limit
