"""What must stay is cut when it alone is too large: the results of the round that the model is in."""

from __future__ import annotations

from agentctx.core.message import Context
from agentctx.protocols import Call
from agentctx.strategies.room import Room, lay_out
from agentctx.strategies.shrink_results import shrink_results

FEW = 8
"""From so many rounds on that nobody has read, half are let go at a time where not all fit: few tries suffice."""


def shrink_open_round(context: Context, limit: int, call: Call, size: int | None = None) -> tuple[Context, Room]:
    """Cut the results of what must stay, when that alone is over ``limit`` tokens, to half of the room they have.

    Results that the model has not read yet stay as well, though the user speaks behind them; where they do not fit even
    cut, the latest of them.

    Args:
        context: The request.
        limit: The most tokens.
        call: What the stage is told.
        size: Tokens of the request, when they are known.

    Returns:
        The request, the same object when nothing was cut; and how it is laid out.
    """
    room = lay_out(context, call, size, unread=len(context.messages))
    held = len(room.unread)
    while True:
        cut, room = _cut_what_stays(context, limit, call, room, held)
        if room.floor <= limit or not held:
            return cut, room
        held = held - 1 if held <= FEW else held // 2
        room = lay_out(context, call, size, unread=held)


def _cut_what_stays(context: Context, limit: int, call: Call, room: Room, held: int) -> tuple[Context, Room]:
    """The request with the results cut of what stays, when that is over the limit, laid out anew."""
    if room.floor <= limit:
        return context, room
    places = room.staying - call.frozen(context)
    taken = sum(call.meter.parts(context.messages[index].results) for index in places)
    wanted = max(0, limit - (room.floor - taken)) // 2
    shrunk = shrink_results(context, places, taken - wanted, call, "what must stay is larger than the window")
    return shrunk, room if shrunk is context else lay_out(shrunk, call, unread=held)
