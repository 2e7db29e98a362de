"""What a request costs given the provider's cache rules, and when a cut pays."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.core.report import Forecast as Forecast, SilentTruncationSuspected as SilentTruncationSuspected
    from agentctx.economics.cache import CacheSimulator as CacheSimulator
    from agentctx.economics.costs import Condition as Condition, cache_cold as cache_cold, pays_back as pays_back
    from agentctx.economics.truncation import suspect_truncation as suspect_truncation
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.core.report": "Forecast SilentTruncationSuspected",
            "agentctx.economics.cache": "CacheSimulator",
            "agentctx.economics.costs": "Condition cache_cold pays_back",
            "agentctx.economics.truncation": "suspect_truncation",
        },
    )
