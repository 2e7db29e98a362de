"""For people who test their agents and strategies: builders of transcripts, fakes, and the laws.

The generators of transcripts are in ``agentctx.testing.histories`` and need
``pip install 'agentctx-middleware[testing]'``.
"""

from agentctx.testing.fakes import (
    CountingCounter,
    Faults,
    FlakyError,
    FlakyStage,
    FlakyStore,
    Recorder,
    failing_listener,
    fixed_summarizer,
)
from agentctx.testing.laws import check_laws
from agentctx.testing.plan import assistant, call, result, system, thinking, tool, user
from agentctx.testing.store_laws import check_store
from agentctx.testing.writers import history, transcript

__all__ = [
    "CountingCounter",
    "Faults",
    "FlakyError",
    "FlakyStage",
    "FlakyStore",
    "Recorder",
    "assistant",
    "call",
    "check_laws",
    "check_store",
    "failing_listener",
    "fixed_summarizer",
    "history",
    "result",
    "system",
    "thinking",
    "tool",
    "transcript",
    "user",
]
