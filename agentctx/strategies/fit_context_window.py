"""Bring the request down to the budget by leaving out the oldest rounds."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from attrs import field, frozen

from agentctx.core.budget import Budget
from agentctx.core.message import Context
from agentctx.errors import ConfigError
from agentctx.offload import offload
from agentctx.protocols import Call, Scope
from agentctx.strategies.drop_oldest import drop_oldest
from agentctx.strategies.options import as_budget
from agentctx.strategies.summary import SHARE, sum_up


@frozen
class FitContextWindow:
    """Drop the oldest rounds, with the questions that began them, until the request fits.

    Protected messages and the round that the model is in stay. When these alone are too large, the results of
    that round are cut so that it takes half of the room that the rest leaves.

    Where the pipeline has a summarizer, one message behind the first task stands for what was dropped: at most a tenth
    of what the cut comes down to, and at the next cut another in its place. Without a session, or with views that are
    not written back, the summarizer is asked at every call that has to be cut.

    Args:
        budget: The budget to fit; a number is a window in tokens. Without it the pipeline's budget holds.
        max_tokens: The most tokens of the request, instead of a budget.
        reserve_tokens: Tokens of ``max_tokens`` to keep free.

    Raises:
        ConfigError: If the options contradict each other or make no sense.
    """

    budget: Budget | None = field(default=None, converter=as_budget)
    max_tokens: int | None = field(default=None, kw_only=True)
    reserve_tokens: int = field(default=0, kw_only=True)
    scope: ClassVar[Scope] = Scope.PRESSURE
    summarizes: ClassVar[bool] = True

    def __attrs_post_init__(self) -> None:
        """Check the options."""
        if self.budget is not None and self.max_tokens is not None:
            msg = "FitContextWindow: pass a budget or max_tokens, not both"
            raise ConfigError(msg)
        if self.max_tokens is None and self.reserve_tokens:
            msg = "FitContextWindow: reserve_tokens goes with max_tokens; a budget has its own output_reserve"
            raise ConfigError(msg)
        if self.reserve_tokens < 0:
            msg = f"FitContextWindow: reserve_tokens must not be negative, got {self.reserve_tokens}"
            raise ConfigError(msg)
        if self.max_tokens is not None:
            Budget(self.max_tokens, self.reserve_tokens)

    @property
    def own_budget(self) -> Budget | None:
        """The budget that this stage carries itself, if any."""
        return Budget(self.max_tokens, self.reserve_tokens) if self.max_tokens is not None else self.budget

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context with the oldest rounds dropped, so that it has at most the limit's tokens."""
        limit, aim = self._limits(call)
        size = call.size(context)
        if size <= aim:
            return context
        to_cut = size if size > limit else 0  # what fits as it is has no result to be cut
        most = 0 if call.summarizer is None else int(SHARE * aim)
        work = partial(drop_oldest, context, limit, aim - most, call, size)
        fitted = await offload(work, len(context.messages), to_cut)
        if call.summarizer is None:
            return fitted
        most = min(most, limit - call.size(fitted))
        return await sum_up(context, fitted, most, call, call.summarizer)

    def _limits(self, call: Call) -> tuple[int, int]:
        """The hard limit and the size to come down to, in tokens."""
        own = self.own_budget
        if own is not None:
            return own.limit, own.limit if call.limit is None else min(own.limit, call.limit)
        if call.budget is None or call.limit is None:
            msg = (
                "FitContextWindow: no budget in force: pass FitContextWindow(max_tokens=...), "
                "Pipeline(..., budget=Budget(window=...)), or a model that the model table knows"
            )
            raise ConfigError(msg)
        return call.budget.limit, call.limit
