"""Requests assembled from blocks and tiers."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.builder.block import Block as Block
    from agentctx.builder.builder import Assembled as Assembled, ContextBuilder as ContextBuilder
    from agentctx.builder.categories import Category as Category, CategoryBudget as CategoryBudget, Division as Division
    from agentctx.builder.facts import FactExtractor as FactExtractor, Facts as Facts
    from agentctx.builder.rendering import MarkdownList as MarkdownList, MergeSystem as MergeSystem, XmlTags as XmlTags
    from agentctx.builder.report import BlockReport as BlockReport, BuildReport as BuildReport
    from agentctx.builder.thread import Thread as Thread
    from agentctx.core.budget import Tier as Tier, TierRule as TierRule, allocate as allocate
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.builder.block": "Block",
            "agentctx.builder.builder": "Assembled ContextBuilder",
            "agentctx.builder.categories": "Category CategoryBudget Division",
            "agentctx.builder.facts": "FactExtractor Facts",
            "agentctx.builder.rendering": "MarkdownList MergeSystem XmlTags",
            "agentctx.builder.report": "BlockReport BuildReport",
            "agentctx.builder.thread": "Thread",
            "agentctx.core.budget": "Tier TierRule allocate",
        },
    )
