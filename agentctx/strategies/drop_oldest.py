"""Drop the oldest rounds until the rest fits."""

from __future__ import annotations

from agentctx.core.message import Context
from agentctx.core.units import Unit
from agentctx.protocols import Call
from agentctx.strategies.drop_units import without
from agentctx.strategies.room import lay_out


def drop_oldest(context: Context, aim: int, call: Call, why: str) -> Context:
    """Drop whole rounds with their questions, oldest first, until the request has at most ``aim`` tokens.

    What is protected and the round that the model is in stay, so the result may still be larger than ``aim``.
    """
    room = lay_out(context, call)
    size = room.size
    gone: list[Unit] = []
    for bundle in room.bundles:
        if size <= aim:
            break
        gone.extend(bundle)
        size -= sum(call.count(message) for unit in bundle for message in unit.of(context.messages))
    return without(context, gone, call, why)
