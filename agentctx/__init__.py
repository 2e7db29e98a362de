"""agentctx decides what an LLM agent sees at each step.

Between your loop and the model call it runs a pipeline of small async stages that keep the request inside the
model's window, legal for its provider, cheap in its cache, and reversible, and it reports exactly what it did.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentctx.assembly.build import Assembled
    from agentctx.assembly.builder import ContextBuilder
    from agentctx.checking import count, validate, warmup
    from agentctx.clients.portal import blocking
    from agentctx.clients.wrap import wrap
    from agentctx.condition import Condition
    from agentctx.conversion import Converted, convert
    from agentctx.core.budget import Budget, MediaLimits
    from agentctx.core.compare import Change, Outcome
    from agentctx.core.event import Compaction, SilentTruncationSuspected
    from agentctx.core.forecast import Forecast
    from agentctx.core.item import ContextItem
    from agentctx.core.message import Context, Message, Tool
    from agentctx.core.parts import Media, Opaque, Text, Thinking, ToolCall, ToolResult
    from agentctx.core.profile import ImageRule, ModelProfile, Prices
    from agentctx.core.report import Report, StageReport
    from agentctx.core.units import Unit, segments, units
    from agentctx.core.violation import Violation
    from agentctx.economics.cache import CacheSimulator
    from agentctx.economics.conditions import cache_cold, pays_back
    from agentctx.economics.overflow import Overflow, classify_error
    from agentctx.economics.truncation import suspect_truncation
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
    from agentctx.sources.build_errors import BuildErrors
    from agentctx.sources.decay import Decay
    from agentctx.sources.dependencies import Dependencies
    from agentctx.sources.environment import Environment
    from agentctx.sources.gather import gather
    from agentctx.sources.gathered import Gathered, SourceReport
    from agentctx.sources.git import GitSource
    from agentctx.sources.prioritise import prioritise
    from agentctx.sources.prompt_section import PromptSection, section_from
    from agentctx.sources.read_only import ReadOnlyFiles
    from agentctx.sources.recent_files import RecentFiles
    from agentctx.sources.secrets import redact_secrets
    from agentctx.sources.stable_prompt import StablePrompt
    from agentctx.sources.suggest_files import suggest_files
    from agentctx.stores.memory import MemoryStore
    from agentctx.strategies.clear_tool_results import ClearToolResults
    from agentctx.strategies.collapse_repeats import CollapseRepeats
    from agentctx.strategies.fit_context_window import FitContextWindow
    from agentctx.strategies.pack import Pack
    from agentctx.strategies.packing.bm25 import Bm25
    from agentctx.strategies.packing.relevance import Embedded, Relevance
    from agentctx.strategies.packing.scoring import Weights
    from agentctx.strategies.place_cache_markers import PlaceCacheMarkers
    from agentctx.strategies.protect import Protect
    from agentctx.strategies.repair_history import RepairHistory
    from agentctx.strategies.tiered import ByTools, Tiered
    from agentctx.strategies.trim_rounds import TrimRounds
    from agentctx.strategies.truncate_tool_outputs import TruncateToolOutputs
    from agentctx.strategies.when import first_of, over, when
    from agentctx.tiers.allocate import allocate
    from agentctx.tiers.block import Block
    from agentctx.tiers.build_report import BlockReport, BuildReport
    from agentctx.tiers.categories import CategoryBudget
    from agentctx.tiers.category import Category
    from agentctx.tiers.division import Division
    from agentctx.tiers.drop import Drop
    from agentctx.tiers.drop_tail import DropTail
    from agentctx.tiers.eviction import Eviction
    from agentctx.tiers.facts import FactExtractor, Facts
    from agentctx.tiers.merge_system import MergeSystem
    from agentctx.tiers.rendering import MarkdownList, XmlTags
    from agentctx.tiers.strict import Strict
    from agentctx.tiers.summarize import Summarize
    from agentctx.tiers.tier import Tier, TierRule
    from agentctx.tiers.truncate_oldest import TruncateOldest
    from agentctx.tokens.default import TiktokenCounter
    from agentctx.tokens.fixed import FixedCounter
    from agentctx.tokens.heuristic import HeuristicCounter
    from agentctx.tokens.models import register_model
    from agentctx.view import View

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
    "agentctx.assembly.build": ("Assembled",),
    "agentctx.assembly.builder": ("ContextBuilder",),
    "agentctx.checking": (
        "count",
        "validate",
        "warmup",
    ),
    "agentctx.clients.portal": ("blocking",),
    "agentctx.clients.wrap": ("wrap",),
    "agentctx.condition": ("Condition",),
    "agentctx.conversion": (
        "Converted",
        "convert",
    ),
    "agentctx.core.budget": (
        "Budget",
        "MediaLimits",
    ),
    "agentctx.core.compare": (
        "Change",
        "Outcome",
    ),
    "agentctx.core.event": ("Compaction", "SilentTruncationSuspected"),
    "agentctx.core.forecast": ("Forecast",),
    "agentctx.core.item": ("ContextItem",),
    "agentctx.core.message": (
        "Context",
        "Message",
        "Tool",
    ),
    "agentctx.core.parts": (
        "Media",
        "Opaque",
        "Text",
        "Thinking",
        "ToolCall",
        "ToolResult",
    ),
    "agentctx.core.profile": (
        "ImageRule",
        "ModelProfile",
        "Prices",
    ),
    "agentctx.core.report": (
        "Report",
        "StageReport",
    ),
    "agentctx.core.units": (
        "Unit",
        "segments",
        "units",
    ),
    "agentctx.core.violation": ("Violation",),
    "agentctx.economics.cache": ("CacheSimulator",),
    "agentctx.economics.conditions": (
        "cache_cold",
        "pays_back",
    ),
    "agentctx.economics.overflow": (
        "Overflow",
        "classify_error",
    ),
    "agentctx.economics.truncation": ("suspect_truncation",),
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
    "agentctx.pipeline": ("Pipeline",),
    "agentctx.presets": (
        "coding_agent",
        "late_and_large",
        "thrifty",
    ),
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
    "agentctx.sources.build_errors": ("BuildErrors",),
    "agentctx.sources.decay": ("Decay",),
    "agentctx.sources.dependencies": ("Dependencies",),
    "agentctx.sources.environment": ("Environment",),
    "agentctx.sources.gather": ("gather",),
    "agentctx.sources.gathered": (
        "Gathered",
        "SourceReport",
    ),
    "agentctx.sources.git": ("GitSource",),
    "agentctx.sources.prioritise": ("prioritise",),
    "agentctx.sources.prompt_section": (
        "PromptSection",
        "section_from",
    ),
    "agentctx.sources.read_only": ("ReadOnlyFiles",),
    "agentctx.sources.recent_files": ("RecentFiles",),
    "agentctx.sources.secrets": ("redact_secrets",),
    "agentctx.sources.stable_prompt": ("StablePrompt",),
    "agentctx.sources.suggest_files": ("suggest_files",),
    "agentctx.stores.memory": ("MemoryStore",),
    "agentctx.strategies.clear_tool_results": ("ClearToolResults",),
    "agentctx.strategies.collapse_repeats": ("CollapseRepeats",),
    "agentctx.strategies.fit_context_window": ("FitContextWindow",),
    "agentctx.strategies.pack": ("Pack",),
    "agentctx.strategies.packing.bm25": ("Bm25",),
    "agentctx.strategies.packing.relevance": (
        "Embedded",
        "Relevance",
    ),
    "agentctx.strategies.packing.scoring": ("Weights",),
    "agentctx.strategies.place_cache_markers": ("PlaceCacheMarkers",),
    "agentctx.strategies.protect": ("Protect",),
    "agentctx.strategies.repair_history": ("RepairHistory",),
    "agentctx.strategies.tiered": (
        "ByTools",
        "Tiered",
    ),
    "agentctx.strategies.trim_rounds": ("TrimRounds",),
    "agentctx.strategies.truncate_tool_outputs": ("TruncateToolOutputs",),
    "agentctx.strategies.when": (
        "first_of",
        "over",
        "when",
    ),
    "agentctx.tiers.allocate": ("allocate",),
    "agentctx.tiers.block": ("Block",),
    "agentctx.tiers.build_report": (
        "BlockReport",
        "BuildReport",
    ),
    "agentctx.tiers.categories": ("CategoryBudget",),
    "agentctx.tiers.category": ("Category",),
    "agentctx.tiers.division": ("Division",),
    "agentctx.tiers.drop": ("Drop",),
    "agentctx.tiers.drop_tail": ("DropTail",),
    "agentctx.tiers.eviction": ("Eviction",),
    "agentctx.tiers.facts": (
        "FactExtractor",
        "Facts",
    ),
    "agentctx.tiers.merge_system": ("MergeSystem",),
    "agentctx.tiers.rendering": (
        "MarkdownList",
        "XmlTags",
    ),
    "agentctx.tiers.strict": ("Strict",),
    "agentctx.tiers.summarize": ("Summarize",),
    "agentctx.tiers.tier": (
        "Tier",
        "TierRule",
    ),
    "agentctx.tiers.truncate_oldest": ("TruncateOldest",),
    "agentctx.tokens.default": ("TiktokenCounter",),
    "agentctx.tokens.fixed": ("FixedCounter",),
    "agentctx.tokens.heuristic": ("HeuristicCounter",),
    "agentctx.tokens.models": ("register_model",),
    "agentctx.view": ("View",),
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
