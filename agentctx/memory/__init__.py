"""What is kept of what was left out: values, the trail of what was done, what the model recalls, and summaries."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.engine.tool_calls import (
        Artifact as Artifact,
        ArtifactRule as ArtifactRule,
        Did as Did,
        FileEvent as FileEvent,
        RunEvent as RunEvent,
        artifacts_in as artifacts_in,
    )
    from agentctx.memory.ledger import (
        ArtifactTrail as ArtifactTrail,
        Memory as Memory,
        Sections as Sections,
        trail_in as trail_in,
    )
    from agentctx.memory.offload import Offload as Offload
    from agentctx.memory.recall import Recall as Recall
    from agentctx.memory.summarizers import (
        AnthropicSummarizer as AnthropicSummarizer,
        LiteLLMSummarizer as LiteLLMSummarizer,
        OpenAISummarizer as OpenAISummarizer,
    )
    from agentctx.memory.values import (
        Extractor as Extractor,
        Kind as Kind,
        Value as Value,
        told_of as told_of,
        values_in as values_in,
    )
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.engine.tool_calls": "Artifact ArtifactRule Did FileEvent RunEvent artifacts_in",
            "agentctx.memory.ledger": "ArtifactTrail Memory Sections trail_in",
            "agentctx.memory.offload": "Offload",
            "agentctx.memory.recall": "Recall",
            "agentctx.memory.summarizers": "AnthropicSummarizer LiteLLMSummarizer OpenAISummarizer",
            "agentctx.memory.values": "Extractor Kind Value told_of values_in",
        },
    )
