"""Pipelines that are ready to use, with settings that were measured (``benchmarks/economics.py``)."""

from __future__ import annotations

from attrs import evolve

from agentctx.core.budget import Budget
from agentctx.pipeline import Pipeline
from agentctx.strategies.clear_tool_results import ClearToolResults
from agentctx.strategies.fit_context_window import FitContextWindow
from agentctx.strategies.truncate_tool_outputs import TruncateToolOutputs

DOWN_TO = 0.25
"""A cut goes down to this share of where it began: a cached prefix then breaks rarely."""

RECENT_RESULTS = 5
"""So many tool results stay whatever is cleared: those of a round with parallel calls should be among them."""


def late_and_large(budget: Budget) -> Pipeline:
    """Cut as late as the budget allows, and then deep: tool results first, then the oldest rounds.

    Between two cuts nothing changes, so that the provider's cache is read; a cut is paid back soon, since most of
    what would have to be written again is gone. With the same windows it costs less than trimming a little at every
    step, by every provider's cache rules.

    Args:
        budget: The room of one model call; without a target of its own, a cut goes down to a quarter of its trigger.
    """
    return Pipeline(ClearToolResults(RECENT_RESULTS), FitContextWindow(), budget=_deep(budget))


def coding_agent(budget: Budget) -> Pipeline:
    """``late_and_large``, and no tool output takes more than a tenth of the window when it arrives.

    Args:
        budget: The room of one model call.
    """
    largest = max(1_000, budget.limit // 10)
    stages = TruncateToolOutputs(max_tokens=largest), ClearToolResults(RECENT_RESULTS), FitContextWindow()
    return Pipeline(*stages, budget=_deep(budget))


def _deep(budget: Budget) -> Budget:
    if budget.target is not None:
        return budget
    return evolve(budget, target=max(1, int(DOWN_TO * budget.trigger_tokens)))
