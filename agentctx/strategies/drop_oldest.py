"""Drop the oldest rounds until the rest fits."""

from __future__ import annotations

from agentctx.core.message import Context
from agentctx.core.pace import paced
from agentctx.core.units import Unit
from agentctx.protocols import Call
from agentctx.strategies.drop_units import without
from agentctx.strategies.shrink_open_round import shrink_open_round


def drop_oldest(context: Context, limit: int, aim: int, call: Call, size: int | None = None) -> Context:
    """Drop whole rounds with their questions, oldest first, until the request has at most ``aim`` tokens.

    What is protected and the round that the model is in stay, so the result may still be larger than ``aim``; when
    they alone are over ``limit`` tokens, the results of that round are cut before. ``size`` is that of the request, in
    tokens, when it is known.
    """
    context, room = shrink_open_round(context, limit, call, size)
    size = room.size
    gone: list[Unit] = []
    for bundle, tokens in paced(zip(room.bundles, room.sizes, strict=True)):
        if size <= aim:
            break
        gone.extend(bundle)
        size -= tokens
    return without(context, gone, call, f"over {aim:,} tokens: oldest first")
