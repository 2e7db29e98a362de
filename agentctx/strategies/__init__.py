"""The stages; from here come the values that some of them take."""

from typing import TYPE_CHECKING

from agentctx.public import lazily

if TYPE_CHECKING:
    from agentctx.strategies.drop_units import (
        Drop as Drop,
        DropTail as DropTail,
        Strict as Strict,
        TruncateOldest as TruncateOldest,
    )
    from agentctx.strategies.packing.relevance import (
        Bm25 as Bm25,
        Embedded as Embedded,
        Relevance as Relevance,
        Weights as Weights,
    )
    from agentctx.strategies.summarize import Summarize as Summarize
    from agentctx.strategies.tiered import ByTools as ByTools
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.strategies.drop_units": "Drop DropTail Strict TruncateOldest",
            "agentctx.strategies.packing.relevance": "Bm25 Embedded Relevance Weights",
            "agentctx.strategies.summarize": "Summarize",
            "agentctx.strategies.tiered": "ByTools",
        },
    )
