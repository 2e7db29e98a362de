"""What of a request can go, what must stay, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from attrs import frozen

from agentctx.core.message import Context, Message
from agentctx.core.pace import paced
from agentctx.core.protection import unread as results_unread
from agentctx.core.units import Unit, segments, units
from agentctx.protocols import Call
from agentctx.strategies.drop_units import droppable


@frozen
class Room:
    """A request laid out for cutting.

    Args:
        units: All its units.
        bundles: Units that may be dropped, bundled so that questions go with their answers, oldest first.
        sizes: Tokens of each bundle.
        staying: Indexes of the messages that stay whatever happens: the protected, and the open round.
        size: Tokens of the whole request.
        floor: Tokens of what stays, with system prompt and tools.
        unread: Units that stay only for their results, which the model has not read yet.
    """

    units: tuple[Unit, ...]
    bundles: tuple[tuple[Unit, ...], ...]
    sizes: tuple[int, ...]
    staying: frozenset[int]
    size: int
    floor: int
    unread: tuple[Unit, ...] = ()


def lay_out(context: Context, call: Call, size: int | None = None, *, unread: bool = False) -> Room:
    """Lay out a request: everything protected stays, and the round that the model is in.

    Args:
        context: The request.
        call: What the stage is told.
        size: Tokens of the request, when they are known.
        unread: Whether the results stay as well that the model has not read yet, whoever spoke behind them.
    """
    messages = context.messages
    groups = units(messages)
    loose = {unit.start for unit in droppable(groups, call.protected(context))}
    if groups and groups[-1].is_round:
        loose.discard(groups[-1].start)
    waiting = tuple(unit for unit in _unread(groups, messages) if unit.start in loose) if unread else ()
    loose -= {unit.start for unit in waiting}
    bundles = tuple(
        kept
        for bundle in paced(segments(messages, groups))
        if (kept := tuple(unit for unit in bundle if unit.start in loose))
    )
    going = {index for bundle in paced(bundles) for unit in bundle for index in range(unit.start, unit.stop)}
    staying = frozenset(range(len(messages))) - going
    size = call.size(context) if size is None else size
    sizes = tuple(
        sum(call.count(message) for unit in bundle for message in unit.of(messages)) for bundle in paced(bundles)
    )
    return Room(groups, bundles, sizes, staying, size, size - sum(sizes), waiting)


def _unread(groups: Sequence[Unit], messages: Sequence[Message]) -> Iterator[Unit]:
    """The units with results that stand after the model's last message."""
    waiting = results_unread(messages)
    for unit in reversed(groups):
        if not waiting or unit.stop <= waiting[-1]:
            return
        if any(unit.start <= index < unit.stop for index in waiting):
            yield unit
