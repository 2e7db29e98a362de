"""What to take into a limited room so that it is worth as much as possible: one pure function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import pairwise

from attrs import evolve, frozen

from agentctx.core.message import Context, Message, Text
from agentctx.core.protection import first_task, is_user_turn, last_words
from agentctx.core.units import Unit, units
from agentctx.engine.drop import Room
from agentctx.engine.select import each_that_fits
from agentctx.errors import ConfigError
from agentctx.protocols import Call
from agentctx.tokens.graphemes import floor

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
        return each_that_fits(order, self.sizes.__getitem__, room)


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


TOPICS = 5
"""How many topics are named."""

TOPIC_CHARACTERS = 50
"""The longest topic, in characters."""

SHORTEST_TOPIC = 5
"""Lines shorter than this name no topic, in characters."""


OPENING = "Earlier: "
"""How the line begins."""


def note_of(messages: Sequence[Message]) -> Message:
    """A user message that says what was left out."""
    return Message("user", (Text(f"[{dropped_line(messages)}]"),))


def is_note(message: Message) -> bool:
    """Whether this is such a message."""
    return message.role == "user" and message.text.startswith(f"[{OPENING}")


def task_of(messages: Sequence[Message]) -> str:
    """What the user said first and last, notes of what was left out aside."""
    latest = (index for index in last_words(messages, len(messages)) if not is_note(messages[index]))
    places = dict.fromkeys((*first_task(messages), *(index for index in [next(latest, None)] if index is not None)))
    return "\n".join(messages[place].text for place in places)


def dropped_line(messages: Sequence[Message]) -> str:
    """How many messages and calls were left out, and the first lines of what was said; empty when there are none."""
    if not messages:
        return ""
    calls = sum(len(message.calls) for message in messages)
    users = sum(is_user_turn(message) for message in messages)
    models = sum(message.role == "assistant" for message in messages)
    counted = ((calls, "tool call"), (users, "user message"), (models, "assistant message"))
    told = [f"{_many(len(messages), 'message')} dropped", *(_many(*each) for each in counted if each[0])]
    topics = _topics(messages)
    return OPENING + "; ".join([*told, f"topics: {', '.join(topics)}"] if topics else told)


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")


def _topics(messages: Sequence[Message]) -> list[str]:
    topics: dict[str, None] = {}
    for topic in _first_lines(messages):
        topics.setdefault(topic)
        if len(topics) == TOPICS:
            break
    return list(topics)


def _first_lines(messages: Sequence[Message]) -> Iterator[str]:
    """The first line of each message that says something, at most ``TOPIC_CHARACTERS`` long, in whole clusters."""
    for message in messages:
        start = message.text[: 40 * TOPIC_CHARACTERS].lstrip()
        line = start.split("\n", 1)[0].strip()
        if len(line) >= SHORTEST_TOPIC:
            yield line if len(line) <= TOPIC_CHARACTERS else line[: floor(line, TOPIC_CHARACTERS - 1)].rstrip() + "…"


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
        first = each_that_fits(self.recent, self.sizes.__getitem__, room)
        room -= self.tokens(first)
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


@frozen
class Packed:
    """What was decided.

    Args:
        load: What there was to choose from.
        chosen: The units to keep, as rising indexes into the load's.
        short: New messages of chosen units that are cut short, by the same index.
        note: A message that says what was left out, if there shall be one.
    """

    load: Load
    chosen: tuple[int, ...]
    short: Mapping[int, tuple[Message, ...]]
    note: Message | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing changes."""
        return len(self.chosen) == len(self.load.units) and not self.short


def left_out(context: Context, load: Load, chosen: Sequence[int]) -> list[Message]:
    """The messages of the units that were not chosen, but for notes of what was left out before."""
    kept = frozenset(chosen)
    gone = (unit for index, unit in enumerate(load.units) if index not in kept)
    return [message for unit in gone for message in unit.of(context.messages) if not is_note(message)]


def unload(context: Context, packed: Packed, call: Call, why: str) -> Context:
    """The context with the chosen units, and reasons in the report for all that changed."""
    messages: list[Message | None] = list(context.messages)
    chosen = frozenset(packed.chosen)
    for index, unit in enumerate(packed.load.units):
        if index not in chosen:
            for place in range(unit.start, unit.stop):
                call.note(context.messages[place], why)
                messages[place] = None
    for index, made in packed.short.items():
        for place, message in enumerate(made, packed.load.units[index].start):
            if message is not messages[place]:
                call.note(context.messages[place], "old tool result cut short, so that more units fit")
                messages[place] = message
    return context.with_messages(_with_note(context, messages, packed.note, call))


def _with_note(
    context: Context, messages: Sequence[Message | None], note: Message | None, call: Call
) -> tuple[Message, ...]:
    if note is None:
        return tuple(message for message in messages if message is not None)
    place = _place(context, messages)
    call.note(note, "says what was left out")
    before, after = messages[:place], messages[place:]
    return tuple(message for message in (*before, note, *after) if message is not None)


def _place(context: Context, messages: Sequence[Message | None]) -> int:
    """Where the note goes: after the first task, where the user speaks anyway; else where the first unit is missing."""
    task = first_task(context.messages)
    if not task:
        return messages.index(None)
    return next(unit.stop for unit in units(context.messages) if unit.stop > task[0])


def told(context: Context, packed: Packed, strategy: str, tokens: int) -> list[str]:
    """What is said of it in the report: how much stays, and what was left out."""
    load = packed.load
    kept, free = len(packed.chosen), len(load.units)
    stayed = load.total - free
    stay = f"({stayed:,} had to stay, {len(load.recent):,} recent)"
    filled = f"{tokens:,} of {load.aim:,} tokens, {100 * tokens / load.aim:.1f}%"
    lines = [f"kept {stayed + kept:,} of {load.total:,} units {stay}; {filled}; {strategy}"]
    line = dropped_line(left_out(context, load, packed.chosen))
    return [*lines, line] if line else lines
