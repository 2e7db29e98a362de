"""Ways to keep a conversation within a window, each asked before every model call what to send.

All but the session are stateless: they see the whole history each time and remember nothing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from recorded import Recorded
from sending import Sent, Way, in_session

from agentctx import Budget, ClearToolResults, FitContextWindow, Pipeline


def every_step(pipeline: Pipeline) -> Way:
    """The whole history through the pipeline before each call."""

    async def way(recorded: Recorded, window: int) -> AsyncIterator[Sent]:
        call = recorded.call.aiming_at(Budget(window), window)
        for length in recorded.calls:
            yield Sent(await pipeline(recorded.context(length), call))

    return way


async def langchain(recorded: Recorded, window: int) -> AsyncIterator[Sent]:
    """LangChain's ``trim_messages`` before each call."""
    from langchain_trim import langchain_trim  # noqa: PLC0415 - the other ways need no other library

    meter = recorded.source.meter
    for length in recorded.calls:
        context = recorded.context(length)
        room = window - meter.fixed(context)
        places = langchain_trim(context.messages, room, meter.message)
        kept = tuple(context.messages[place] for place in places)
        yield Sent(context.with_messages(kept) if kept else None)


def clearing(keep_last: int) -> Way:
    """Old tool results cleared before each call, and what is still too much dropped."""
    return every_step(Pipeline(ClearToolResults(keep_last), FitContextWindow()))


def sliding() -> Way:
    """The oldest rounds dropped before each call, as few as must be."""
    return every_step(Pipeline(FitContextWindow()))


def everything() -> Way:
    """The history as it is, however large; only what the provider would refuse is repaired."""
    return in_session(lambda _window: Pipeline())
