"""Drop whole units, so that no pair can break; and lay a request out in what stays and what may go."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice, repeat

from attrs import frozen

from agentctx.core.budget import until_full
from agentctx.core.message import Context, Message
from agentctx.core.pace import paced
from agentctx.core.units import Unit, units
from agentctx.engine.shrink import shrink_results
from agentctx.offload import VERY_MUCH
from agentctx.protocols import Call, whole_text


def droppable(groups: Sequence[Unit], protected: frozenset[int]) -> list[Unit]:
    """The units in which nothing is protected."""
    return [unit for unit in paced(groups) if protected.isdisjoint(unit.places)]


def without(context: Context, groups: Iterable[Unit], call: Call, why: str) -> Context:
    """The context without these units; the same object when there are none."""
    gone: set[int] = set()
    for unit in groups:
        gone.update(unit.places)
    if not gone:
        return context
    for index in paced(gone):
        call.note(context.messages[index], why)
    kept = tuple(message for index, message in enumerate(context.messages) if index not in gone)
    return context.with_messages(kept)


@frozen(eq=False, repr=False)
class Piece:
    """Units that go or stay together."""

    units: tuple[Unit, ...]
    tokens: int
    stays: bool = False

    def __len__(self) -> int:
        """How many messages it holds."""
        return sum(map(len, self.units))


def piece_of(group: Iterable[Unit], messages: Sequence[Message], call: Call, *, stays: bool = False) -> Piece:
    """A piece made of these units."""
    whole = tuple(group)
    return Piece(whole, sum(tokens_of(unit.of(messages), call) for unit in whole), stays)


def tokens_of(messages: Iterable[Message], call: Call) -> int:
    """Tokens of messages."""
    return sum(map(call.count, messages))


def tokens_together(pieces: Iterable[Piece]) -> int:
    """Tokens of pieces."""
    return sum(piece.tokens for piece in pieces)


def units_of(pieces: Iterable[Piece]) -> Iterator[Unit]:
    """The units of pieces."""
    return chain.from_iterable(piece.units for piece in pieces)


def preferred_last(pieces: Sequence[Piece], context: Context, call: Call) -> list[Piece]:
    """The pieces, those in which the caller prefers something behind all others; see ``Protect.prefer``."""
    named = call.preferred(context)
    return sorted(pieces, key=lambda piece: any(not named.isdisjoint(unit.places) for unit in piece.units))


def newest(pieces: Sequence[Piece], room: int) -> list[Piece]:
    """The newest pieces, latest first, as many as there is room for."""
    return until_full(reversed(pieces), lambda piece: piece.tokens, room)


def oldest(pieces: Sequence[Piece], room: int) -> list[Piece]:
    """The oldest pieces, as many as must go so that the others have at most ``room`` tokens."""
    return list(pieces[: len(pieces) - len(newest(pieces, room))])


@frozen(eq=False, repr=False)
class Layout:
    """A request laid out for cutting.

    Args:
        units: All its units.
        loose: Those that may be dropped, oldest first.
        staying: Indexes of the messages that stay whatever happens: the protected, and the open round.
        size: Tokens of the whole request.
        floor: Tokens of what stays, with system prompt and tools.
        protected: Indexes of the messages that must not be dropped.
        unread: Units that stay only for their results, which the model has not read yet.
    """

    units: tuple[Unit, ...]
    loose: tuple[Unit, ...]
    staying: frozenset[int]
    size: int
    floor: int
    protected: frozenset[int]
    unread: tuple[Unit, ...] = ()


def lay_out(context: Context, call: Call, size: int | None = None, *, unread: int = 0) -> Layout:
    """Lay out a request: everything protected stays, and the round that the model is in; of a block what is protected.

    Args:
        context: The request.
        call: What the stage is told.
        size: Tokens of the request, when they are known.
        unread: How many units stay as well for results that the model has not read yet, the latest first, whoever spoke
            behind them.
    """
    messages = context.messages
    groups, protected = units(messages), call.protected(context)
    is_block = call.stays is not None
    last = groups[-1] if groups and groups[-1].is_round and not is_block else None
    loose = {unit.start: unit for unit in droppable(groups, protected) if unit is not last}
    unheard = _unread(groups, call.unread(context)) if unread and not is_block else ()
    waiting = tuple(islice((unit for unit in unheard if unit.start in loose), unread))
    for unit in waiting:
        del loose[unit.start]
    going = [index for unit in paced(loose.values()) for index in unit.places]
    staying = frozenset(range(len(messages))).difference(going)
    size = call.size(context) if size is None else size
    floor = size - sum(call.meter.message(messages[index]) for index in paced(going))
    return Layout(groups, tuple(loose.values()), staying, size, floor, protected, waiting)


def _unread(groups: Sequence[Unit], waiting: Sequence[int]) -> Iterator[Unit]:
    """The units with results that the model has not read, which stand in ``waiting``, latest first."""
    left = set(waiting)
    for unit in reversed(groups):
        if not left:
            return
        if not left.isdisjoint(unit.places):
            left.difference_update(unit.places)
            yield unit


FEW = 8
"""From so many rounds on that nobody has read, half are let go at a time where not all fit: few tries suffice."""


def shrink_open_round(context: Context, limit: int, call: Call, size: int | None = None) -> tuple[Context, Layout]:
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
    layout = lay_out(context, call, size, unread=len(context.messages))
    held = len(layout.unread)
    while True:
        cut, layout = cut_what_stays(context, limit, call, layout, held)
        if layout.floor <= limit or not held:
            return cut, layout
        held = held - 1 if held <= FEW else held // 2
        layout = lay_out(context, call, size, unread=held)


def cut_what_stays(context: Context, limit: int, call: Call, layout: Layout, held: int) -> tuple[Context, Layout]:
    """The request with the results cut of what stays, when that is over the limit, laid out anew."""
    if layout.floor <= limit or call.stays is not None:
        return context, layout
    places = layout.staying - call.frozen(context)
    taken = sum(call.meter.parts(context.messages[index].results) for index in places)
    wanted = max(0, limit - (layout.floor - taken)) // 2
    shrunk = shrink_results(context, places, taken - wanted, call, "what must stay is larger than the window")
    return shrunk, layout if shrunk is context else lay_out(shrunk, call, unread=held)


def make_room(context: Context, spare: int, call: Call, layout: Layout) -> tuple[Context, Layout]:
    """The request with ``spare`` tokens less of results of what stays, as far as these have so many, laid out anew."""
    if spare <= 0 or call.stays is not None:
        return context, layout
    places = layout.staying - call.frozen(context)
    shrunk = shrink_results(context, places, spare, call, "what must stay leaves the recap no room")
    return shrunk, layout if shrunk is context else lay_out(shrunk, call, unread=len(layout.unread))


PARTS_WITH_A_RECAP = 2
"""Of what may go, so much as one of this many equal parts makes room for the recap, at most."""


def aiming_below(aim: int, floor: int, call: Call) -> int:
    """The tokens that a cut comes down to: less by what is reserved for the recap, as far as there is that to take.

    Args:
        aim: The tokens that the request may have.
        floor: Tokens of what stays whatever happens.
        call: What the stage is told.
    """
    return max(min(aim, floor), aim - min(call.reserved, max(0, aim - floor) // PARTS_WITH_A_RECAP))


def effort_to_cut(context: Context, limit: int, call: Call) -> Iterable[int]:
    """What a stage that drops units looks at; see ``Stage.effort``. No result of what fits ``limit`` has to be cut."""
    number = len(context.messages)
    very_many = number >= VERY_MUCH  # which says enough
    return repeat(0, number) if very_many or call.size(context) <= limit else whole_text(context, call)


def oldest_first(aim: int) -> str:
    """Why the oldest rounds went."""
    return f"over {aim:,} tokens: oldest first"
