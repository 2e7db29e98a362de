"""agentctx decides what an LLM agent sees at each step.

Between your loop and the model call it runs a pipeline of small async stages that keep the request inside the
model's window, legal for its provider, cheap in its cache, and reversible, and it reports exactly what it did.
"""

from agentctx.checking import count, validate, warmup
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
from agentctx.strategies.when import Condition, first_of, over, when
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
