"""Recorded sessions of other tools, read as ours."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.transcripts.local import LocalSession as LocalSession, local_sessions as local_sessions
    from agentctx.transcripts.reading import Transcript as Transcript, read_transcripts as read_transcripts
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.transcripts.local": "LocalSession local_sessions",
            "agentctx.transcripts.reading": "Transcript read_transcripts",
        },
    )
