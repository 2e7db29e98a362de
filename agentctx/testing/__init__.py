"""For people who test their agents and strategies: builders of transcripts, fakes, and the laws.

The generators of transcripts are in ``agentctx.testing.histories`` and need ``pip install 'agentctx[testing]'``.
"""

from agentctx.testing.builders import assistant, call, history, result, system, thinking, tool, transcript, user
from agentctx.testing.counting import CountingCounter
from agentctx.testing.flaky import FlakyError, FlakyStage, FlakyStore, failing_listener
from agentctx.testing.laws import check_laws
from agentctx.testing.listener import Recorder
from agentctx.testing.summarizer import fixed_summarizer

__all__ = [
    "CountingCounter",
    "FlakyError",
    "FlakyStage",
    "FlakyStore",
    "Recorder",
    "assistant",
    "call",
    "check_laws",
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
