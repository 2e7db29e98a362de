"""A summarizer that always says the same."""

from __future__ import annotations

from collections.abc import Sequence

from agentctx.core.message import Message
from agentctx.protocols import Summarizer


def fixed_summarizer(text: str) -> Summarizer:
    """A summarizer whose answer is ``text``, whatever it is asked to put into fewer words."""

    async def summarize(_messages: Sequence[Message], _max_tokens: int, /) -> str:
        return text

    return summarize
