"""The counter that is used when the caller names none."""

from __future__ import annotations

from agentctx.protocols import TokenCounter
from agentctx.tokens.exact import TiktokenCounter
from agentctx.tokens.models import encoding_for

__all__ = ["TiktokenCounter", "default_counter"]


def default_counter(model: str | None = None) -> TokenCounter:
    """The exact counter for a model's encoding; for unknown models and none, that of ``o200k_base``.

    Neither tiktoken nor a vocabulary is loaded before the first count.
    """
    return TiktokenCounter("o200k_base" if model is None else encoding_for(model))
