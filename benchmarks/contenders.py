"""Ways to keep a conversation within a window, each asked before every model call what to send.

All but the session are stateless: they see the whole history each time and remember nothing.
"""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

from attrs import evolve
from recorded import Recorded
from sending import Sent, Way, in_session

from agentctx import Budget, ClearToolResults, FitContextWindow, Pipeline


def every_step(pipeline: Pipeline) -> Way:
    """The whole history through the pipeline before each call."""

    async def way(recorded: Recorded, window: int) -> AsyncIterator[Sent]:
        call = evolve(recorded.call, budget=Budget(window), limit=window)
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


def provider_clearing(trigger: Callable[[int], int]) -> Way:
    """Anthropic's ``clear_tool_uses_20250919`` as documented: above the trigger all results but three are cleared.

    The history is sent whole each time, so that all but the last three go at each request; what is large beside
    results stays. The placeholder is ours.

    Args:
        trigger: From how many tokens on, for a window.
    """

    async def way(recorded: Recorded, window: int) -> AsyncIterator[Sent]:
        call, clear = recorded.call, Pipeline(ClearToolResults(KEPT))
        for length in recorded.calls:
            context = recorded.context(length)
            above = recorded.source.meter.size(context) > trigger(window)
            yield Sent(await clear(context, call) if above else context)

    return way


def compressing(compress: Callable[[list[Any]], tuple[list[Any], list[str]]]) -> Way:
    """A library that makes texts shorter before each call, whatever the window is.

    Args:
        compress: Gives the messages and the texts that its own tool would give back.
    """

    async def way(recorded: Recorded, _window: int) -> AsyncIterator[Sent]:
        for length in recorded.calls:
            messages, texts = compress(list(recorded.recording.messages[:length]))
            read = tuple(recorded.source.messages(messages))
            yield Sent(recorded.context(length).with_messages(read), recallable=texts)

    return way


def headroom(messages: list[Any]) -> tuple[list[Any], list[str]]:
    """``headroom.compress``, and the originals behind the hashes that it leaves."""
    from headroom import compress  # noqa: PLC0415 - the other ways need it not
    from headroom.cache.compression_store import get_compression_store  # noqa: PLC0415

    made = compress(messages, model="claude-sonnet-4-5").messages
    hashes = set(re.findall(r"hash=([0-9a-f]{8,64})", json.dumps(made)))
    kept = (get_compression_store().retrieve(each) for each in hashes)
    return made, [entry.original_content for entry in kept if entry is not None]


def claw_compactor(messages: list[Any]) -> tuple[list[Any], list[str]]:
    """``FusionEngine.compress_messages`` of claw-compactor, and the originals that its store gives back."""
    from claw_compactor.fusion.engine import FusionEngine  # noqa: PLC0415 - the other ways need it not

    engine = FusionEngine()
    made = engine.compress_messages(messages)["messages"]
    store = engine.rewind_store
    kept = (store.retrieve(each) for each in set(re.findall(r"hash=([0-9a-f]{8,64})", json.dumps(made))))
    return made, [original for original in kept if original is not None]


def distil(messages: list[Any]) -> tuple[list[Any], list[str]]:
    """``distil.compress_messages``, and the originals behind its handles."""
    from distil import compress_messages, expand_handle  # noqa: PLC0415 - the other ways need it not

    made = compress_messages(messages)
    return made.messages, [str(expand_handle(handle)) for handle in made.handles]


KEPT, TRIGGER = 3, 100_000
"""What Anthropic documents as defaults: so many results stay, from so many tokens of input on."""


async def agentix(recorded: Recorded, window: int) -> AsyncIterator[Sent]:
    """The ``FitContextWindow`` of agentix before each call, with exact counts."""
    from agentix import FitContextWindow as Fit, Message as Shell, Role  # noqa: PLC0415 - the other ways need it not

    roles = {"system": Role.SYSTEM, "developer": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT}
    meter = recorded.source.meter
    for length in recorded.calls:
        context = recorded.context(length)
        room = max(1, window - meter.fixed(context))
        fit = Fit(room, lambda place: meter.message(recorded.messages[int(place)]), per_message_overhead=0)
        shells = [
            Shell(Role.TOOL if message.results else roles.get(message.role, Role.TOOL), str(place))
            for place, message in enumerate(context.messages)
        ]
        kept = await fit.compact(shells)
        yield Sent(context.with_messages(tuple(context.messages[int(shell.content)] for shell in kept)))
