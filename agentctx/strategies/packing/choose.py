"""What to take into a limited room so that it is worth as much as possible: one pure function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise

from attrs import frozen

from agentctx.errors import ConfigError

CORE = 36
"""How many items around the first that greed has no room for are decided exactly."""

STATES = 2_000
"""How many ways of filling the room are kept in mind at a time; it bounds the time."""


def choose(worths: Sequence[int], sizes: Sequence[int], limit: int) -> tuple[int, ...]:
    """The items to take: never more than ``limit`` together, and worth as much as can be found in bounded time.

    Three ways are tried, and the best of them wins: greedily by worth for size, items that are worth the same for
    their size in four orders (first or last, small or large ones first); the same beginning with the single
    item of the highest worth; and greedily but for the ``CORE`` items around the first that greed has no room for,
    which are decided exactly (Pisinger 1995, "An expanding-core algorithm for the exact 0-1 knapsack
    problem", without the expanding; states that cannot beat what is known are dropped by Dantzig's bound). So the
    worth is never below that of greed, nor below half of the best possible; and it is the best possible for up to
    ``CORE`` items, unless more than ``STATES`` ways stay in the running. The time grows like sorting.

    Of items that are alike the later is taken.

    Args:
        worths: What each item is worth, in any unit; not negative.
        sizes: What room each takes, in tokens; not negative.
        limit: The room, in tokens; a negative one is none.

    Returns:
        Indexes of what to take, rising.

    Raises:
        ConfigError: If a worth or a size is negative, or there are not as many of one as of the other.
    """
    _check(worths, sizes)
    shop = _Shop(worths, sizes)
    room = max(0, limit)
    order = sorted((item for item, size in enumerate(sizes) if size <= room), key=shop.rank)
    if sum(sizes[item] for item in order) <= room:
        return tuple(sorted(order))
    dearest = max(order, key=lambda item: (worths[item], item))
    single = shop.filled([dearest, *(item for item in order if item != dearest)], room)
    best = max(*(shop.filled(each, room) for each in _greedy_orders(shop, order)), single, key=shop.value)
    best = max(best, _around_the_edge(shop, order, room, best), key=shop.value)
    return tuple(sorted(best))


def _check(worths: Sequence[int], sizes: Sequence[int]) -> None:
    if len(worths) != len(sizes):
        msg = f"choose: {len(worths)} worths and {len(sizes)} sizes; expected one of each for every item"
        raise ConfigError(msg)
    if min(worths, default=0) < 0 or min(sizes, default=0) < 0:
        msg = "choose: neither a worth nor a size may be negative"
        raise ConfigError(msg)


@frozen
class _Shop:
    """Items with their worths and sizes."""

    worths: Sequence[int]
    sizes: Sequence[int]

    def rank(self, item: int) -> tuple[float, int]:
        """The place in a greedy order: the most worth for its size first, of equals the later."""
        return self.rate(item), -item

    def rate(self, item: int) -> float:
        """The worth for its size, negative, so that the most comes first."""
        size = self.sizes[item]
        return -self.worths[item] / size if size else float("-inf")

    def value(self, taken: Sequence[int]) -> tuple[int, int]:
        """What these are worth, and the room that they fill."""
        return sum(self.worths[item] for item in taken), sum(self.sizes[item] for item in taken)

    def filled(self, order: Iterable[int], room: int) -> list[int]:
        """Each item in order for which there is still room."""
        taken: list[int] = []
        for item in order:
            if self.sizes[item] <= room:
                taken.append(item)
                room -= self.sizes[item]
        return taken


def _greedy_orders(shop: _Shop, order: Sequence[int]) -> Iterable[Sequence[int]]:
    """The items by worth for size; among equals the later, the earlier, the smaller, the larger first."""
    yield order
    if all(shop.rate(one) != shop.rate(other) for one, other in pairwise(order)):
        return
    yield sorted(sorted(order), key=shop.rate)
    yield sorted(order, key=lambda item: (shop.rate(item), shop.sizes[item]))
    yield sorted(order, key=lambda item: (shop.rate(item), -shop.sizes[item]))


def _around_the_edge(shop: _Shop, order: Sequence[int], room: int, known: Sequence[int]) -> list[int]:
    """Everything of much worth for its size, the best of what lies around the edge, and then what still fits."""
    start = max(0, min(_edge(shop, order, room) - CORE // 2, len(order) - CORE))
    sure, core, rest = order[:start], order[start : start + CORE], order[start + CORE :]
    left = room - sum(shop.sizes[item] for item in sure)
    bar = shop.value(known)[0] - sum(shop.worths[item] for item in sure)
    best = _best(shop, core, rest[:1], left, bar)
    picked = [item for place, item in enumerate(core) if best >> place & 1]
    passed = [item for place, item in enumerate(core) if not best >> place & 1]
    left -= sum(shop.sizes[item] for item in picked)
    return [*sure, *picked, *shop.filled([*passed, *rest], left)]


def _edge(shop: _Shop, order: Sequence[int], room: int) -> int:
    """The place of the first item that has no room after all before it."""
    for place, item in enumerate(order):
        room -= shop.sizes[item]
        if room < 0:
            return place
    return len(order)


_State = tuple[int, int, int]
"""Room taken, worth, and which items of the core are in, as bits."""


def _best(shop: _Shop, core: Sequence[int], beyond: Sequence[int], room: int, bar: int) -> int:
    """The most valuable choice among the core, as bits; 0 when none can reach ``bar``."""
    states: list[_State] = [(0, 0, 0)]
    for place, item in enumerate(core):
        size, worth = shop.sizes[item], shop.worths[item]
        taken = [(used + size, value + worth, bits | 1 << place) for used, value, bits in states if used + size <= room]
        following = core[place + 1 : place + 2] or beyond
        states = _hopeful(_undominated(states, taken), shop, following, room, bar)
    return states[-1][2] if states else 0  # the most room, and so the most worth


def _undominated(states: Sequence[_State], more: Sequence[_State]) -> list[_State]:
    """The states that no other beats with less room; ordered by room, and so by worth."""
    kept: list[_State] = []
    for state in sorted([*states, *more], key=lambda state: (state[0], -state[1])):  # two ordered runs: linear
        if not kept or state[1] > kept[-1][1]:
            kept.append(state)
    return kept


def _hopeful(states: list[_State], shop: _Shop, following: Sequence[int], room: int, bar: int) -> list[_State]:
    """The states that may still be worth ``bar`` if what is left of the room is filled at the next item's rate."""
    if not following or not shop.sizes[following[0]]:
        hopeful = [(state[1], state) for state in states]
    else:
        worth, size = shop.worths[following[0]], shop.sizes[following[0]]
        bounds = ((state[1] + -(-(room - state[0]) * worth // size), state) for state in states)
        hopeful = [(bound, state) for bound, state in bounds if bound >= bar]
    if len(hopeful) <= STATES:
        return [state for _, state in hopeful]
    best = sorted(hopeful, key=lambda one: (-one[0], one[1][0]))[:STATES]
    return sorted(state for _, state in best)
