"""What a message costs: counters, the formulas around them, and what they learn."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.tokens.counting import TiktokenCounter as TiktokenCounter
    from agentctx.tokens.heuristic import HeuristicCounter as HeuristicCounter
    from agentctx.tokens.overheads import FixedCounter as FixedCounter
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.tokens.counting": "TiktokenCounter",
            "agentctx.tokens.heuristic": "HeuristicCounter",
            "agentctx.tokens.overheads": "FixedCounter",
        },
    )
