"""What a message costs: counters, and the formulas around them."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.tokens.counting import FixedCounter as FixedCounter, HeuristicCounter as HeuristicCounter
    from agentctx.tokens.tiktoken import TiktokenCounter as TiktokenCounter
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.tokens.counting": "FixedCounter HeuristicCounter",
            "agentctx.tokens.tiktoken": "TiktokenCounter",
        },
    )
