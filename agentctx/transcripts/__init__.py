"""Recorded sessions of other tools, read as ours."""

from typing import TYPE_CHECKING

from agentctx.lazy import lazily

if TYPE_CHECKING:
    from agentctx.transcripts.reading import read_transcripts as read_transcripts
    from agentctx.transcripts.transcript import Transcript as Transcript
else:
    __all__, __getattr__, __dir__ = lazily(
        __name__,
        {
            "agentctx.transcripts.reading": "read_transcripts",
            "agentctx.transcripts.transcript": "Transcript",
        },
    )
