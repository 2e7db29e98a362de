"""How large a request may be, for a stage that may carry a limit of its own."""

from __future__ import annotations

from agentctx.errors import ConfigError
from agentctx.protocols import Call


def limits(stage: str, max_tokens: int | None, call: Call) -> tuple[int, int]:
    """The hard limit, and the size to come down to, in tokens.

    Args:
        stage: Name of the stage, for the error.
        max_tokens: The stage's own limit; without it the pipeline's budget holds.
        call: What the stage is told.

    Raises:
        ConfigError: If there is neither.
    """
    hard = max_tokens if call.budget is None else call.budget.limit
    if hard is None:
        msg = (
            f"{stage}: no budget in force: pass {stage}(max_tokens=...), "
            "Pipeline(..., budget=Budget(window=...)), or a model that the model table knows"
        )
        raise ConfigError(msg)
    limit = hard if max_tokens is None else min(hard, max_tokens)
    return limit, limit if call.limit is None else min(limit, call.limit)
