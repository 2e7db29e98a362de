"""The counter that is used when the caller names none."""

from __future__ import annotations

from agentctx.protocols import TokenCounter
from agentctx.tokens.calibrated import CalibratedCounter
from agentctx.tokens.exact import TiktokenCounter
from agentctx.tokens.models import encoding_for, percent_for

__all__ = ["TiktokenCounter", "default_counter"]

EXACT = 100
"""Hundredths: the model counts as its encoding does."""


def default_counter(model: str | None = None) -> TokenCounter:
    """The counter for a model: exact for OpenAI's, the nearest public encoding with a known correction for others.

    Without a model, and for unknown ones, that of ``o200k_base``. Neither tiktoken nor a vocabulary is loaded before
    the first count.
    """
    if model is None:
        return TiktokenCounter()
    counter, percent = TiktokenCounter(encoding_for(model)), percent_for(model)
    return counter if percent == EXACT else CalibratedCounter(counter, percent, cutter=counter)
