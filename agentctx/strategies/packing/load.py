"""A request laid out for packing: what stays whatever happens, and what may be chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property

from attrs import evolve, frozen

from agentctx.core.message import Context, Message
from agentctx.core.units import Unit
from agentctx.protocols import Call
from agentctx.strategies.packing.choose import choose
from agentctx.strategies.room import Room


@frozen
class Load:
    """The units that may be chosen, in order.

    Args:
        units: Them.
        places: The place of each among all units of the transcript.
        sizes: Tokens of each.
        recent: Which of them, as indexes into ``units``, should stay if at all possible; latest first.
        total: How many units the transcript has.
        room: Tokens that they may have together.
        aim: Tokens that the whole request may have.
    """

    units: tuple[Unit, ...]
    places: tuple[int, ...]
    sizes: tuple[int, ...]
    recent: tuple[int, ...]
    total: int
    room: int
    aim: int

    @cached_property
    def questions(self) -> tuple[tuple[int, int], ...]:
        """Pairs of indexes into ``units``: a message directly before a round, and that round."""
        pairs = zip(range(len(self.units) - 1), range(1, len(self.units)), strict=True)
        return tuple(
            (one, other)
            for one, other in pairs
            if self.units[one].stop == self.units[other].start
            and self.units[other].is_round
            and not self.units[one].is_round
        )

    def resized(self, sizes: Mapping[int, int]) -> Load:
        """The same with other sizes of some units, by their index."""
        return evolve(self, sizes=tuple(sizes.get(index, size) for index, size in enumerate(self.sizes)))

    def tokens(self, chosen: Sequence[int]) -> int:
        """Tokens of the chosen units."""
        return sum(self.sizes[index] for index in chosen)

    def worth(self, scores: Sequence[int], chosen: Sequence[int]) -> int:
        """What the chosen units are worth."""
        return sum(scores[index] * self.sizes[index] for index in chosen)

    def pick(self, scores: Sequence[int], room: int) -> tuple[int, ...]:
        """The units to keep in ``room`` tokens, as rising indexes: the recent as far as they fit, then the best.

        Args:
            scores: What a token of each unit is worth.
            room: Tokens that there are for them.
        """
        first: list[int] = []
        for index in self.recent:
            if self.sizes[index] <= room:
                first.append(index)
                room -= self.sizes[index]
        taken = frozenset(first)
        others = [index for index in range(len(self.units)) if index not in taken]
        sizes = [self.sizes[index] for index in others]
        worths = [scores[index] * size for index, size in zip(others, sizes, strict=True)]
        return tuple(sorted((*first, *(others[place] for place in choose(worths, sizes, room)))))


def load(context: Context, room: Room, call: Call, aim: int, keep_last: int) -> Load:
    """Lay out a request.

    Args:
        context: The request.
        room: The request laid out.
        call: What the stage is told.
        aim: The size that it shall have, in tokens.
        keep_last: Units with one of so many last messages in them are the recent ones.
    """
    loose = tuple(unit for bundle in room.bundles for unit in bundle)
    place_of = {unit.start: place for place, unit in enumerate(room.units)}
    last = len(context.messages) - keep_last
    return Load(
        units=loose,
        places=tuple(place_of[unit.start] for unit in loose),
        sizes=tuple(unit_tokens(unit.of(context.messages), call) for unit in loose),
        recent=tuple(index for index in range(len(loose) - 1, -1, -1) if loose[index].stop > last),
        total=len(room.units),
        room=aim - room.floor,
        aim=aim,
    )


def unit_tokens(messages: Sequence[Message], call: Call) -> int:
    """Tokens of the messages of a unit."""
    return sum(call.count(message) for message in messages)
