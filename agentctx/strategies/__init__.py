"""The stages: those that most programs need come from ``agentctx``, the others, and the values they take, from here."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.engine.relevance import Bm25 as Bm25, Embedded as Embedded, Relevance as Relevance
    from agentctx.engine.summary import Extractive as Extractive
    from agentctx.engine.tool_calls import (
        Artifact as Artifact,
        ArtifactRule as ArtifactRule,
        ArtifactTrail as ArtifactTrail,
        Did as Did,
        FileEvent as FileEvent,
        RunEvent as RunEvent,
        artifacts_in as artifacts_in,
        trail_in as trail_in,
    )
    from agentctx.errors import SummaryError as SummaryError
    from agentctx.strategies.compress_layers import CompressLayers as CompressLayers, decompress as decompress
    from agentctx.strategies.drop_superseded import DropSuperseded as DropSuperseded
    from agentctx.strategies.drop_units import (
        ByTools as ByTools,
        ClearByProvider as ClearByProvider,
        Drop as Drop,
        DropTail as DropTail,
        ShrinkArguments as ShrinkArguments,
        Strict as Strict,
        TruncateOldest as TruncateOldest,
    )
    from agentctx.strategies.fit import (
        CompactJson as CompactJson,
        Offload as Offload,
        TabulateJson as TabulateJson,
    )
    from agentctx.strategies.fold_output import FoldOutput as FoldOutput
    from agentctx.strategies.ledger import (
        Extractor as Extractor,
        Kind as Kind,
        Memory as Memory,
        Sections as Sections,
        Value as Value,
        told_of as told_of,
        values_in as values_in,
    )
    from agentctx.strategies.pack import Weights as Weights
    from agentctx.strategies.reuse_lines import ReuseLines as ReuseLines
    from agentctx.strategies.summarize import (
        AnthropicSummarizer as AnthropicSummarizer,
        LiteLLMSummarizer as LiteLLMSummarizer,
        OpenAISummarizer as OpenAISummarizer,
        Summarize as Summarize,
    )
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.engine.summary": "Extractive",
            "agentctx.engine.relevance": "Bm25 Embedded Relevance",
            "agentctx.engine.tool_calls": (
                "Artifact ArtifactRule ArtifactTrail Did FileEvent RunEvent artifacts_in trail_in"
            ),
            "agentctx.errors": "SummaryError",
            "agentctx.strategies.compress_layers": "CompressLayers decompress",
            "agentctx.strategies.drop_superseded": "DropSuperseded",
            "agentctx.strategies.drop_units": (
                "ByTools ClearByProvider Drop DropTail ShrinkArguments Strict TruncateOldest"
            ),
            "agentctx.strategies.fold_output": "FoldOutput",
            "agentctx.strategies.pack": "Weights",
            "agentctx.strategies.reuse_lines": "ReuseLines",
            "agentctx.strategies.fit": "CompactJson Offload TabulateJson",
            "agentctx.strategies.ledger": "Extractor Kind Memory Sections Value told_of values_in",
            "agentctx.strategies.summarize": ("AnthropicSummarizer LiteLLMSummarizer OpenAISummarizer Summarize"),
        },
    )
