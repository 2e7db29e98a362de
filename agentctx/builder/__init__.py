"""Requests assembled from blocks and tiers."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.builder.blocks import (
        Block as Block,
        BlockReport as BlockReport,
        FactExtractor as FactExtractor,
        Facts as Facts,
        MarkdownList as MarkdownList,
        MergeSystem as MergeSystem,
        XmlTags as XmlTags,
    )
    from agentctx.builder.builder import (
        Assembled as Assembled,
        BuildReport as BuildReport,
        ContextBuilder as ContextBuilder,
        Thread as Thread,
    )
    from agentctx.builder.categories import Category as Category, CategoryBudget as CategoryBudget, Division as Division
    from agentctx.strategies.drop_units import Eviction as Eviction
    from agentctx.tiers import Tier as Tier, TierRule as TierRule, allocate as allocate
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.builder.blocks": "Block BlockReport FactExtractor Facts MarkdownList MergeSystem XmlTags",
            "agentctx.builder.builder": "Assembled BuildReport ContextBuilder Thread",
            "agentctx.builder.categories": "Category CategoryBudget Division",
            "agentctx.strategies.drop_units": "Eviction",
            "agentctx.tiers": "Tier TierRule allocate",
        },
    )
