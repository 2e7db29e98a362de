"""agentctx decides what an LLM agent sees at each step.

Between your loop and the model call it runs a pipeline of small async stages that keep the request inside the
model's window, legal for its provider, cheap in its cache, and reversible, and it reports exactly what it did.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentctx.builder.block import Block
    from agentctx.builder.build import Assembled
    from agentctx.builder.builder import ContextBuilder
    from agentctx.builder.categories import Category, CategoryBudget, Division
    from agentctx.builder.eviction import Drop, DropTail, Eviction, Strict, TruncateOldest
    from agentctx.builder.facts import FactExtractor, Facts
    from agentctx.builder.rendering import MarkdownList, MergeSystem, XmlTags
    from agentctx.builder.slot import BlockReport, BuildReport
    from agentctx.builder.summarize import Summarize
    from agentctx.checking import count, validate, warmup
    from agentctx.clients.bridge import blocking
    from agentctx.clients.wrap import wrap
    from agentctx.conversion import Converted, convert
    from agentctx.core.budget import Budget, MediaLimits
    from agentctx.core.compare import Change, Outcome
    from agentctx.core.item import ContextItem
    from agentctx.core.message import Context, Media, Message, Opaque, Text, Thinking, Tool, ToolCall, ToolResult
    from agentctx.core.report import Compaction, Forecast, Report, SilentTruncationSuspected, StageReport, View
    from agentctx.core.tier import Tier, TierRule, allocate
    from agentctx.core.units import Unit, segments, units
    from agentctx.core.validity import Violation
    from agentctx.economics.cache import CacheSimulator
    from agentctx.economics.conditions import Condition, cache_cold, pays_back
    from agentctx.economics.overflow import Overflow, classify_error
    from agentctx.economics.truncation import suspect_truncation
    from agentctx.engine.protect import Protect
    from agentctx.engine.repair import RepairHistory
    from agentctx.errors import (
        AgentctxError,
        AmbiguousFormat,
        BigItem,
        ConfigError,
        ContextOverflow,
        InvalidInput,
        SourceError,
        StageError,
        StoreError,
        UnknownModel,
        VocabularyError,
    )
    from agentctx.models.profile import ImageRule, ModelProfile, Prices
    from agentctx.models.table import register_model
    from agentctx.pipeline import Pipeline
    from agentctx.presets import coding_agent, late_and_large, thrifty
    from agentctx.protocols import (
        Call,
        ContextProvider,
        ContextStrategy,
        Listener,
        Meter,
        Scope,
        Store,
        Summarizer,
        TextCutter,
        TokenCounter,
        WireFormat,
    )
    from agentctx.session import Session
    from agentctx.session.sessions import SessionEvicted, Sessions
    from agentctx.sources.asking import Gathered, SourceReport
    from agentctx.sources.build_errors import BuildErrors
    from agentctx.sources.decay import Decay
    from agentctx.sources.dependencies import Dependencies
    from agentctx.sources.environment import Environment
    from agentctx.sources.files import ReadOnlyFiles
    from agentctx.sources.gather import gather, prioritise
    from agentctx.sources.git import GitSource
    from agentctx.sources.recent_files import RecentFiles, suggest_files
    from agentctx.sources.secrets import redact_secrets
    from agentctx.sources.stable_prompt import PromptSection, StablePrompt, section_from
    from agentctx.stores.memory import MemoryStore
    from agentctx.strategies.clear_tool_results import ClearToolResults
    from agentctx.strategies.collapse_repeats import CollapseRepeats
    from agentctx.strategies.fit_context_window import FitContextWindow
    from agentctx.strategies.pack import Pack
    from agentctx.strategies.packing.relevance import Bm25, Embedded, Relevance, Weights
    from agentctx.strategies.place_cache_markers import PlaceCacheMarkers
    from agentctx.strategies.tiered import ByTools, Tiered
    from agentctx.strategies.trim_rounds import TrimRounds
    from agentctx.strategies.truncate_tool_outputs import TruncateToolOutputs
    from agentctx.strategies.when import first_of, over, when
    from agentctx.tokens.counting import TiktokenCounter
    from agentctx.tokens.heuristic import HeuristicCounter
    from agentctx.tokens.overheads import FixedCounter

__version__ = "0.1.0"

__all__ = [
    "AgentctxError",
    "AmbiguousFormat",
    "Assembled",
    "BigItem",
    "Block",
    "BlockReport",
    "Bm25",
    "Budget",
    "BuildErrors",
    "BuildReport",
    "ByTools",
    "CacheSimulator",
    "Call",
    "Category",
    "CategoryBudget",
    "Change",
    "ClearToolResults",
    "CollapseRepeats",
    "Compaction",
    "Condition",
    "ConfigError",
    "Context",
    "ContextBuilder",
    "ContextItem",
    "ContextOverflow",
    "ContextProvider",
    "ContextStrategy",
    "Converted",
    "Decay",
    "Dependencies",
    "Division",
    "Drop",
    "DropTail",
    "Embedded",
    "Environment",
    "Eviction",
    "FactExtractor",
    "Facts",
    "FitContextWindow",
    "FixedCounter",
    "Forecast",
    "Gathered",
    "GitSource",
    "HeuristicCounter",
    "ImageRule",
    "InvalidInput",
    "Listener",
    "MarkdownList",
    "Media",
    "MediaLimits",
    "MemoryStore",
    "MergeSystem",
    "Message",
    "Meter",
    "ModelProfile",
    "Opaque",
    "Outcome",
    "Overflow",
    "Pack",
    "Pipeline",
    "PlaceCacheMarkers",
    "Prices",
    "PromptSection",
    "Protect",
    "ReadOnlyFiles",
    "RecentFiles",
    "Relevance",
    "RepairHistory",
    "Report",
    "Scope",
    "Session",
    "SessionEvicted",
    "Sessions",
    "SilentTruncationSuspected",
    "SourceError",
    "SourceReport",
    "StablePrompt",
    "StageError",
    "StageReport",
    "Store",
    "StoreError",
    "Strict",
    "Summarize",
    "Summarizer",
    "Text",
    "TextCutter",
    "Thinking",
    "Tier",
    "TierRule",
    "Tiered",
    "TiktokenCounter",
    "TokenCounter",
    "Tool",
    "ToolCall",
    "ToolResult",
    "TrimRounds",
    "TruncateOldest",
    "TruncateToolOutputs",
    "Unit",
    "UnknownModel",
    "View",
    "Violation",
    "VocabularyError",
    "Weights",
    "WireFormat",
    "XmlTags",
    "__version__",
    "allocate",
    "blocking",
    "cache_cold",
    "classify_error",
    "coding_agent",
    "convert",
    "count",
    "first_of",
    "gather",
    "late_and_large",
    "over",
    "pays_back",
    "prioritise",
    "redact_secrets",
    "register_model",
    "section_from",
    "segments",
    "suggest_files",
    "suspect_truncation",
    "thrifty",
    "units",
    "validate",
    "warmup",
    "when",
    "wrap",
]

_HOMES = {
    "agentctx.builder.block": ("Block",),
    "agentctx.builder.build": ("Assembled",),
    "agentctx.builder.builder": ("ContextBuilder",),
    "agentctx.builder.categories": ("Category", "CategoryBudget", "Division"),
    "agentctx.builder.eviction": ("Drop", "DropTail", "Eviction", "Strict", "TruncateOldest"),
    "agentctx.builder.facts": ("FactExtractor", "Facts"),
    "agentctx.builder.rendering": ("MarkdownList", "MergeSystem", "XmlTags"),
    "agentctx.builder.slot": ("BlockReport", "BuildReport"),
    "agentctx.builder.summarize": ("Summarize",),
    "agentctx.core.tier": ("Tier", "TierRule", "allocate"),
    "agentctx.checking": ("count", "validate", "warmup"),
    "agentctx.clients.bridge": ("blocking",),
    "agentctx.clients.wrap": ("wrap",),
    "agentctx.conversion": ("Converted", "convert"),
    "agentctx.core.budget": ("Budget", "MediaLimits"),
    "agentctx.core.compare": ("Change", "Outcome"),
    "agentctx.core.item": ("ContextItem",),
    "agentctx.core.message": (
        "Context",
        "Media",
        "Message",
        "Opaque",
        "Text",
        "Thinking",
        "Tool",
        "ToolCall",
        "ToolResult",
    ),
    "agentctx.core.report": ("Compaction", "Forecast", "Report", "SilentTruncationSuspected", "StageReport", "View"),
    "agentctx.core.units": ("Unit", "segments", "units"),
    "agentctx.core.validity": ("Violation",),
    "agentctx.economics.cache": ("CacheSimulator",),
    "agentctx.economics.conditions": ("Condition", "cache_cold", "pays_back"),
    "agentctx.economics.overflow": ("Overflow", "classify_error"),
    "agentctx.economics.truncation": ("suspect_truncation",),
    "agentctx.engine.protect": ("Protect",),
    "agentctx.engine.repair": ("RepairHistory",),
    "agentctx.errors": (
        "AgentctxError",
        "AmbiguousFormat",
        "BigItem",
        "ConfigError",
        "ContextOverflow",
        "InvalidInput",
        "SourceError",
        "StageError",
        "StoreError",
        "UnknownModel",
        "VocabularyError",
    ),
    "agentctx.models.profile": ("ImageRule", "ModelProfile", "Prices"),
    "agentctx.models.table": ("register_model",),
    "agentctx.pipeline": ("Pipeline",),
    "agentctx.presets": ("coding_agent", "late_and_large", "thrifty"),
    "agentctx.protocols": (
        "Call",
        "ContextProvider",
        "ContextStrategy",
        "Listener",
        "Meter",
        "Scope",
        "Store",
        "Summarizer",
        "TextCutter",
        "TokenCounter",
        "WireFormat",
    ),
    "agentctx.session": ("Session",),
    "agentctx.session.sessions": ("SessionEvicted", "Sessions"),
    "agentctx.sources.asking": ("Gathered", "SourceReport"),
    "agentctx.sources.build_errors": ("BuildErrors",),
    "agentctx.sources.decay": ("Decay",),
    "agentctx.sources.dependencies": ("Dependencies",),
    "agentctx.sources.environment": ("Environment",),
    "agentctx.sources.files": ("ReadOnlyFiles",),
    "agentctx.sources.gather": ("gather", "prioritise"),
    "agentctx.sources.git": ("GitSource",),
    "agentctx.sources.recent_files": ("RecentFiles", "suggest_files"),
    "agentctx.sources.secrets": ("redact_secrets",),
    "agentctx.sources.stable_prompt": ("PromptSection", "StablePrompt", "section_from"),
    "agentctx.stores.memory": ("MemoryStore",),
    "agentctx.strategies.clear_tool_results": ("ClearToolResults",),
    "agentctx.strategies.collapse_repeats": ("CollapseRepeats",),
    "agentctx.strategies.fit_context_window": ("FitContextWindow",),
    "agentctx.strategies.pack": ("Pack",),
    "agentctx.strategies.packing.relevance": ("Bm25", "Embedded", "Relevance", "Weights"),
    "agentctx.strategies.place_cache_markers": ("PlaceCacheMarkers",),
    "agentctx.strategies.tiered": ("ByTools", "Tiered"),
    "agentctx.strategies.trim_rounds": ("TrimRounds",),
    "agentctx.strategies.truncate_tool_outputs": ("TruncateToolOutputs",),
    "agentctx.strategies.when": ("first_of", "over", "when"),
    "agentctx.tokens.counting": ("TiktokenCounter",),
    "agentctx.tokens.heuristic": ("HeuristicCounter",),
    "agentctx.tokens.overheads": ("FixedCounter",),
}
"""The module of each public name: it is imported when the name is first used, so that importing agentctx is cheap."""

_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    """Import a public name when it is first used."""
    if name not in _HOME_OF:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    value: object = getattr(import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names."""
    return __all__
