"""What a request costs given the provider's cache rules, and when a cut pays."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.core.report import Forecast as Forecast, SilentTruncationSuspected as SilentTruncationSuspected
    from agentctx.economics.conditions import Condition as Condition, cache_cold as cache_cold, pays_back as pays_back
    from agentctx.economics.costs import CacheSimulator as CacheSimulator
    from agentctx.economics.silent_truncation import suspect_truncation as suspect_truncation
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.core.report": "Forecast SilentTruncationSuspected",
            "agentctx.economics.costs": "CacheSimulator",
            "agentctx.economics.conditions": "Condition cache_cold pays_back",
            "agentctx.economics.silent_truncation": "suspect_truncation",
        },
    )
