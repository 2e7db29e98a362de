"""agentctx decides what an LLM agent sees at each step.

Between your loop and the model call it runs a pipeline of small async stages that keep the request inside the
model's window, legal for its provider, cheap in its cache, and reversible, and it reports exactly what it did.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentctx.checking import count, validate, warmup
    from agentctx.condition import Condition
    from agentctx.core.budget import Budget, MediaLimits
    from agentctx.core.compare import Change, Outcome
    from agentctx.core.event import Compaction
    from agentctx.core.message import Context, Message, Tool
    from agentctx.core.parts import Media, Opaque, Text, Thinking, ToolCall, ToolResult
    from agentctx.core.profile import ImageRule, ModelProfile
    from agentctx.core.report import Report, StageReport
    from agentctx.core.units import Unit, segments, units
    from agentctx.core.violation import Violation
    from agentctx.errors import (
        AgentctxError,
        AmbiguousFormat,
        BigItem,
        ConfigError,
        ContextOverflow,
        InvalidInput,
        StageError,
        StoreError,
        UnknownModel,
        VocabularyError,
    )
    from agentctx.pipeline import Pipeline
    from agentctx.protocols import (
        Call,
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
    from agentctx.stores.memory import MemoryStore
    from agentctx.strategies.clear_tool_results import ClearToolResults
    from agentctx.strategies.fit_context_window import FitContextWindow
    from agentctx.strategies.protect import Protect
    from agentctx.strategies.repair_history import RepairHistory
    from agentctx.strategies.trim_rounds import TrimRounds
    from agentctx.strategies.truncate_tool_outputs import TruncateToolOutputs
    from agentctx.strategies.when import first_of, over, when
    from agentctx.tokens.default import TiktokenCounter
    from agentctx.tokens.fixed import FixedCounter
    from agentctx.tokens.heuristic import HeuristicCounter
    from agentctx.tokens.models import register_model
    from agentctx.view import View

__version__ = "0.1.0"

__all__ = [
    "AgentctxError",
    "AmbiguousFormat",
    "BigItem",
    "Budget",
    "Call",
    "Change",
    "ClearToolResults",
    "Compaction",
    "Condition",
    "ConfigError",
    "Context",
    "ContextOverflow",
    "ContextStrategy",
    "FitContextWindow",
    "FixedCounter",
    "HeuristicCounter",
    "ImageRule",
    "InvalidInput",
    "Listener",
    "Media",
    "MediaLimits",
    "MemoryStore",
    "Message",
    "Meter",
    "ModelProfile",
    "Opaque",
    "Outcome",
    "Pipeline",
    "Protect",
    "RepairHistory",
    "Report",
    "Scope",
    "Session",
    "StageError",
    "StageReport",
    "Store",
    "StoreError",
    "Summarizer",
    "Text",
    "TextCutter",
    "Thinking",
    "TiktokenCounter",
    "TokenCounter",
    "Tool",
    "ToolCall",
    "ToolResult",
    "TrimRounds",
    "TruncateToolOutputs",
    "Unit",
    "UnknownModel",
    "View",
    "Violation",
    "VocabularyError",
    "WireFormat",
    "__version__",
    "count",
    "first_of",
    "over",
    "register_model",
    "segments",
    "units",
    "validate",
    "warmup",
    "when",
]

_HOMES = {
    "agentctx.checking": (
        "count",
        "validate",
        "warmup",
    ),
    "agentctx.condition": ("Condition",),
    "agentctx.core.budget": (
        "Budget",
        "MediaLimits",
    ),
    "agentctx.core.compare": (
        "Change",
        "Outcome",
    ),
    "agentctx.core.event": ("Compaction",),
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
    "agentctx.errors": (
        "AgentctxError",
        "AmbiguousFormat",
        "BigItem",
        "ConfigError",
        "ContextOverflow",
        "InvalidInput",
        "StageError",
        "StoreError",
        "UnknownModel",
        "VocabularyError",
    ),
    "agentctx.pipeline": ("Pipeline",),
    "agentctx.protocols": (
        "Call",
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
    "agentctx.stores.memory": ("MemoryStore",),
    "agentctx.strategies.clear_tool_results": ("ClearToolResults",),
    "agentctx.strategies.fit_context_window": ("FitContextWindow",),
    "agentctx.strategies.protect": ("Protect",),
    "agentctx.strategies.repair_history": ("RepairHistory",),
    "agentctx.strategies.trim_rounds": ("TrimRounds",),
    "agentctx.strategies.truncate_tool_outputs": ("TruncateToolOutputs",),
    "agentctx.strategies.when": (
        "first_of",
        "over",
        "when",
    ),
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
