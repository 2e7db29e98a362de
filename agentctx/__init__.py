"""agentctx decides what an LLM agent sees at each step.

Between your loop and the model call it runs a pipeline of small stages that keep the request inside the
model's window, legal for its provider, cheap in its cache, and reversible, and it reports exactly what it did.

From here come the pipeline, the session, the stages, the budget, the errors, and what a stage's author needs. The rest
is imported from its part: ``agentctx.builder`` (requests from blocks), ``agentctx.sources`` (where context comes from),
``agentctx.stores``, ``agentctx.presets`` (pipelines ready to use), ``agentctx.strategies`` (more stages),
``agentctx.strategies`` (what stands for what was left out, and gives it back), ``agentctx.economics`` (what a request
costs), ``agentctx.tokens`` (counters), ``agentctx.models`` (what is known of models), ``agentctx.formats``,
``agentctx.protocols`` (what users implement), ``agentctx.testing``.
"""

__distribution__ = "agentctx-middleware"  # what to install; agentctx.lazy looks whether this file is still here
__version__ = "0.1.0"

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.budget import Budget as Budget, MediaLimits as MediaLimits
    from agentctx.changes import Change as Change, Outcome as Outcome
    from agentctx.checking import count as count, validate as validate, warmup as warmup
    from agentctx.clients.http import async_http_client as async_http_client, http_client as http_client
    from agentctx.clients.wrap import of as of, wrap as wrap
    from agentctx.conversion import convert as convert
    from agentctx.engine.cut import Protect as Protect
    from agentctx.engine.repair import RepairHistory as RepairHistory
    from agentctx.errors import (
        AgentctxError as AgentctxError,
        AmbiguousFormat as AmbiguousFormat,
        ConfigError as ConfigError,
        ContextOverflow as ContextOverflow,
        InvalidInput as InvalidInput,
        SourceError as SourceError,
        StageError as StageError,
        StoreError as StoreError,
        UnknownModel as UnknownModel,
    )
    from agentctx.formats.overflow import classify_error as classify_error, overflow_of as overflow_of
    from agentctx.message import (
        Context as Context,
        Media as Media,
        Message as Message,
        Opaque as Opaque,
        Text as Text,
        Thinking as Thinking,
        Tool as Tool,
        ToolCall as ToolCall,
        ToolResult as ToolResult,
    )
    from agentctx.pipeline import Pipeline as Pipeline
    from agentctx.protocols import (
        Call as Call,
        ContextStrategy as ContextStrategy,
        When as When,
    )
    from agentctx.reports import (
        Compaction as Compaction,
        Report as Report,
        StageReport as StageReport,
        View as View,
    )
    from agentctx.session.blocking import blocking as blocking
    from agentctx.session.session import Session as Session
    from agentctx.session.sessions import Sessions as Sessions
    from agentctx.strategies.collapse_repeats import CollapseRepeats as CollapseRepeats
    from agentctx.strategies.drop_units import (
        ClearToolResults as ClearToolResults,
        Tiered as Tiered,
        TrimRounds as TrimRounds,
    )
    from agentctx.strategies.fit import FitContextWindow as FitContextWindow, TruncateToolOutputs as TruncateToolOutputs
    from agentctx.strategies.ledger import Ledger as Ledger
    from agentctx.strategies.pack import Pack as Pack
    from agentctx.strategies.place_cache_markers import PlaceCacheMarkers as PlaceCacheMarkers
    from agentctx.strategies.when import first_of as first_of, over as over, when as when
    from agentctx.unit import Unit as Unit, units as units
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.checking": "count validate warmup",
            "agentctx.session.blocking": "blocking",
            "agentctx.clients.http": "async_http_client http_client",
            "agentctx.clients.wrap": "of wrap",
            "agentctx.conversion": "convert",
            "agentctx.budget": "Budget MediaLimits",
            "agentctx.changes": "Change Outcome",
            "agentctx.message": "Context Media Message Opaque Text Thinking Tool ToolCall ToolResult",
            "agentctx.reports": "Compaction Report StageReport View",
            "agentctx.unit": "Unit units",
            "agentctx.formats.overflow": "classify_error overflow_of",
            "agentctx.engine.cut": "Protect",
            "agentctx.engine.repair": "RepairHistory",
            "agentctx.errors": (
                "AgentctxError AmbiguousFormat ConfigError ContextOverflow InvalidInput "
                "SourceError StageError StoreError UnknownModel"
            ),
            "agentctx.strategies.ledger": "Ledger",
            "agentctx.pipeline": "Pipeline",
            "agentctx.protocols": "Call ContextStrategy When",
            "agentctx.session.session": "Session",
            "agentctx.session.sessions": "Sessions",
            "agentctx.strategies.collapse_repeats": "CollapseRepeats",
            "agentctx.strategies.drop_units": "ClearToolResults Tiered TrimRounds",
            "agentctx.strategies.pack": "Pack",
            "agentctx.strategies.place_cache_markers": "PlaceCacheMarkers",
            "agentctx.strategies.fit": "FitContextWindow TruncateToolOutputs",
            "agentctx.strategies.when": "first_of over when",
        },
    )
