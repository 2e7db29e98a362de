"""What a request costs given the provider's cache rules, and when a cut pays."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.economics.conditions import Condition as Condition, cache_cold as cache_cold, pays_back as pays_back
    from agentctx.economics.costs import CacheSimulator as CacheSimulator
    from agentctx.economics.silent_truncation import suspect_truncation as suspect_truncation
    from agentctx.reports import Forecast as Forecast, SilentTruncationSuspected as SilentTruncationSuspected
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.reports": "Forecast SilentTruncationSuspected",
            "agentctx.economics.costs": "CacheSimulator",
            "agentctx.economics.conditions": "Condition cache_cold pays_back",
            "agentctx.economics.silent_truncation": "suspect_truncation",
        },
    )
