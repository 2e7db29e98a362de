"""What of a request can go, what must stay, and what that costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from attrs import frozen

from agentctx.core.message import Context
from agentctx.core.pace import paced
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


def lay_out(context: Context, call: Call, size: int | None = None, *, unread: int = 0) -> Room:
    """Lay out a request: everything protected stays, and the round that the model is in.

    Args:
        context: The request.
        call: What the stage is told.
        size: Tokens of the request, when they are known.
        unread: How many units stay as well for results that the model has not read yet, the latest first, whoever spoke
            behind them.
    """
    messages = context.messages
    groups = units(messages)
    loose = {unit.start for unit in droppable(groups, call.protected(context))}
    if groups and groups[-1].is_round:
        loose.discard(groups[-1].start)
    unheard = _unread(groups, call.unread(context)) if unread else ()
    waiting = tuple(islice((unit for unit in unheard if unit.start in loose), unread))
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


def _unread(groups: Sequence[Unit], waiting: Sequence[int]) -> Iterator[Unit]:
    """The units with results that the model has not read, which stand in ``waiting``, latest first."""
    for unit in reversed(groups):
        if not waiting or unit.stop <= waiting[-1]:
            return
        if any(unit.start <= index < unit.stop for index in waiting):
            yield unit
