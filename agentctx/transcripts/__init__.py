"""Recorded sessions of other tools, read as ours."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.transcripts.reading import (
        LocalSession as LocalSession,
        Transcript as Transcript,
        local_sessions as local_sessions,
        read_transcripts as read_transcripts,
    )
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.transcripts.reading": "LocalSession Transcript local_sessions read_transcripts",
        },
    )
