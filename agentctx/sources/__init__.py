"""Where context comes from: git, files, the environment, manifests, build errors; and what gathers it."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.secrets import redact_secrets as redact_secrets
    from agentctx.sources.decay import Decay as Decay
    from agentctx.sources.files import ReadOnlyFiles as ReadOnlyFiles
    from agentctx.sources.gathering import (
        ContextItem as ContextItem,
        Gathered as Gathered,
        SourceReport as SourceReport,
        gather as gather,
        prioritise as prioritise,
    )
    from agentctx.sources.git import GitSource as GitSource
    from agentctx.sources.stable_prompt import (
        PromptSection as PromptSection,
        StablePrompt as StablePrompt,
        section_from as section_from,
    )
    from agentctx.sources.workspace import (
        BuildErrors as BuildErrors,
        Dependencies as Dependencies,
        Environment as Environment,
        RecentFiles as RecentFiles,
        suggest_files as suggest_files,
    )
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.sources.gathering": "ContextItem Gathered SourceReport gather prioritise",
            "agentctx.sources.decay": "Decay",
            "agentctx.sources.files": "ReadOnlyFiles",
            "agentctx.sources.git": "GitSource",
            "agentctx.secrets": "redact_secrets",
            "agentctx.sources.stable_prompt": "PromptSection StablePrompt section_from",
            "agentctx.sources.workspace": "BuildErrors Dependencies Environment RecentFiles suggest_files",
        },
    )
