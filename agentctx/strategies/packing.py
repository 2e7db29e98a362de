"""What a unit is worth, and which units to take into a limited room so that it is worth as much as possible.

Worth is how recent a unit is, how much it has to do with the task, who speaks, and what went wrong.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, partial
from itertools import chain, pairwise
from math import exp

from attrs import evolve, frozen

from agentctx.core.budget import each_that_fits
from agentctx.core.message import Context, Message, Text, ToolCall, ToolResult
from agentctx.core.protection import has_user_words
from agentctx.core.units import Unit
from agentctx.engine.drop import Layout
from agentctx.engine.relevance import Bm25, Relevance, shares
from agentctx.engine.shrink import Cut, cut_to_tokens, edit_results, with_text
from agentctx.errors import ConfigError
from agentctx.protocols import Call

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
    items = _Items(worths, sizes)
    room = max(0, limit)
    order = sorted((item for item, size in enumerate(sizes) if size <= room), key=items.rank)
    if sum(sizes[item] for item in order) <= room:
        return tuple(sorted(order))
    dearest = max(order, key=lambda item: (worths[item], item))
    single = items.filled([dearest, *(item for item in order if item != dearest)], room)
    best = max(*(items.filled(each, room) for each in _greedy_orders(items, order)), single, key=items.value)
    best = max(best, _around_the_edge(items, order, room, best), key=items.value)
    return tuple(sorted(best))


def _check(worths: Sequence[int], sizes: Sequence[int]) -> None:
    if len(worths) != len(sizes):
        msg = f"choose: {len(worths)} worths and {len(sizes)} sizes; expected one of each for every item"
        raise ConfigError(msg)
    if min(worths, default=0) < 0 or min(sizes, default=0) < 0:
        msg = "choose: neither a worth nor a size may be negative"
        raise ConfigError(msg)


@frozen
class _Items:
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


def _greedy_orders(items: _Items, order: Sequence[int]) -> Iterable[Sequence[int]]:
    """The items by worth for size; among equals the later, the earlier, the smaller, the larger first."""
    yield order
    if all(items.rate(one) != items.rate(other) for one, other in pairwise(order)):
        return
    yield sorted(sorted(order), key=items.rate)
    yield sorted(order, key=lambda item: (items.rate(item), items.sizes[item]))
    yield sorted(order, key=lambda item: (items.rate(item), -items.sizes[item]))


def _around_the_edge(items: _Items, order: Sequence[int], room: int, known: Sequence[int]) -> list[int]:
    """Everything of much worth for its size, the best of what lies around the edge, and then what still fits."""
    start = max(0, min(_edge(items, order, room) - CORE // 2, len(order) - CORE))
    sure, core, rest = order[:start], order[start : start + CORE], order[start + CORE :]
    left = room - sum(items.sizes[item] for item in sure)
    bar = items.value(known)[0] - sum(items.worths[item] for item in sure)
    best = _best(items, core, rest[:1], left, bar)
    picked = [item for place, item in enumerate(core) if best >> place & 1]
    passed = [item for place, item in enumerate(core) if not best >> place & 1]
    left -= sum(items.sizes[item] for item in picked)
    return [*sure, *picked, *items.filled([*passed, *rest], left)]


def _edge(items: _Items, order: Sequence[int], room: int) -> int:
    """The place of the first item that has no room after all before it."""
    for place, item in enumerate(order):
        room -= items.sizes[item]
        if room < 0:
            return place
    return len(order)


_State = tuple[int, int, int]
"""Room taken, worth, and which items of the core are in, as bits."""


def _best(items: _Items, core: Sequence[int], beyond: Sequence[int], room: int, bar: int) -> int:
    """The most valuable choice among the core, as bits; 0 when none can reach ``bar``."""
    states: list[_State] = [(0, 0, 0)]
    for place, item in enumerate(core):
        size, worth = items.sizes[item], items.worths[item]
        taken = [(used + size, value + worth, bits | 1 << place) for used, value, bits in states if used + size <= room]
        following = core[place + 1 : place + 2] or beyond
        states = _hopeful(_undominated(states, taken), items, following, room, bar)
    return states[-1][2] if states else 0  # the most room, and so the most worth


def _undominated(states: Sequence[_State], more: Sequence[_State]) -> list[_State]:
    """The states that no other beats with less room; ordered by room, and so by worth."""
    kept: list[_State] = []
    for state in sorted([*states, *more], key=lambda state: (state[0], -state[1])):  # two ordered runs: linear
        if not kept or state[1] > kept[-1][1]:
            kept.append(state)
    return kept


def _hopeful(states: list[_State], items: _Items, following: Sequence[int], room: int, bar: int) -> list[_State]:
    """The states that may still be worth ``bar`` if what is left of the room is filled at the next item's rate."""
    if not following or not items.sizes[following[0]]:
        hopeful = [(state[1], state) for state in states]
    else:
        worth, size = items.worths[following[0]], items.sizes[following[0]]
        bounds = ((state[1] + -(-(room - state[0]) * worth // size), state) for state in states)
        hopeful = [(bound, state) for bound, state in bounds if bound >= bar]
    if len(hopeful) <= STATES:
        return [state for _, state in hopeful]
    best = sorted(hopeful, key=lambda one: (-one[0], one[1][0]))[:STATES]
    return sorted(state for _, state in best)


@frozen
class Candidates:
    """The units that may be chosen, in order.

    Args:
        units: Them.
        places: The place of each among all units of the transcript.
        sizes: Tokens of each.
        recent: Which of them, as indexes into ``units``, should stay if at all possible; latest first.
        preferred: Which of them go after all others, as the caller's soft rules say; latest first.
        total: How many units the transcript has.
        room: Tokens that they may have together.
        aim: Tokens that the whole request may have.
        needs: For each, those without which it is not kept: the question that it answers, and of an answer in words
            the calls directly before it, too.
    """

    units: tuple[Unit, ...]
    places: tuple[int, ...]
    sizes: tuple[int, ...]
    recent: tuple[int, ...]
    total: int
    room: int
    aim: int
    needs: tuple[frozenset[int], ...]
    preferred: tuple[int, ...] = ()

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

    def resized(self, sizes: Mapping[int, int]) -> Candidates:
        """The same with other sizes of some units, by their index."""
        return evolve(self, sizes=tuple(sizes.get(index, size) for index, size in enumerate(self.sizes)))

    def tokens(self, chosen: Iterable[int]) -> int:
        """Tokens of the chosen units."""
        return sum(self.sizes[index] for index in chosen)

    def worth(self, scores: Sequence[int], chosen: Sequence[int]) -> int:
        """What the chosen units are worth."""
        return sum(scores[index] * self.sizes[index] for index in chosen)

    def pick(self, scores: Sequence[int], room: int) -> tuple[int, ...]:
        """The units to keep in ``room`` tokens, as rising indexes: the preferred and the recent, then the best.

        The best of three: what ``choose`` finds, less what has not all that it needs; the units by score, each with
        what it needs; and, of up to ``CORE`` units, what is best of all (``_best_with_needs``).
        """
        first = self._with_needs((*self.preferred, *self.recent), (), room)
        left = room - self.tokens(first)
        others = [index for index in range(len(self.units)) if index not in first]
        by_score = sorted(others, key=lambda index: (-scores[index], -index))
        ways = [self._with_needs(by_score, self._chosen(scores, first, others, left), room)]
        if any(self.needs[index] - first for index in others):
            ways.append(self._with_needs(by_score, first, room))
            if len(others) <= CORE:
                ways.append(first | _best_with_needs(self, scores, others, left))
        return tuple(sorted(max(ways, key=partial(self.worth, scores))))

    def _chosen(self, scores: Sequence[int], first: frozenset[int], others: Sequence[int], left: int) -> frozenset[int]:
        """The best of others in what is left of the room, less those that have not all that they need."""
        sizes = [self.sizes[index] for index in others]
        worths = [scores[index] * size for index, size in zip(others, sizes, strict=True)]
        kept = first.union(others[place] for place in choose(worths, sizes, left))
        while alone := {index for index in kept - first if not self.needs[index] <= kept}:
            kept -= alone
        return kept

    def _with_needs(self, wanted: Iterable[int], kept: Iterable[int], room: int) -> frozenset[int]:
        """Those that are kept, and each that is wanted with all that it needs as long as there is room for both."""
        found = set(kept)
        left = room - sum(self.sizes[index] for index in found)
        for index in wanted:
            more = {index, *self.needs[index]} - found
            size = sum(self.sizes[each] for each in more)
            if size <= left:
                found |= more
                left -= size
        return frozenset(found)


def _best_with_needs(among: Candidates, scores: Sequence[int], others: Sequence[int], room: int) -> frozenset[int]:
    """The choice of others that is worth most, each only with all that it needs; exact within ``STATES`` ways.

    Ways to fill the room are compared where they have the same of what later units need.
    """
    asked_later = [0] * (len(others) + 1)
    bit = {index: 1 << place for place, index in enumerate(others)}
    needed = [sum(bit[need] for need in among.needs[index] if need in bit) for index in others]
    for place in range(len(others) - 1, -1, -1):
        asked_later[place] = asked_later[place + 1] | needed[place]
    most = max((scores[index] for index in others), default=0)
    states: list[_State] = [(0, 0, 0)]
    for place, index in enumerate(others):
        size, worth = among.sizes[index], scores[index] * among.sizes[index]
        taken = [
            (used + size, value + worth, bits | bit[index])
            for used, value, bits in states
            if used + size <= room and bits & needed[place] == needed[place]
        ]
        alike: dict[int, list[_State]] = {}
        for state in chain(states, taken):
            alike.setdefault(state[2] & asked_later[place + 1], []).append(state)
        states = list(chain.from_iterable(_undominated(each, ()) for each in alike.values()))
        if len(states) > STATES:
            states = sorted(states, key=lambda state: state[0] * most - state[1])[:STATES]  # what the rest may be worth
    best = max(states, key=lambda state: (state[1], -state[0]))
    return frozenset(index for index in others if best[2] & bit[index])


def candidates_of(context: Context, layout: Layout, call: Call, aim: int, keep_last: int) -> Candidates:
    """Lay out a request."""
    loose = layout.loose
    place_of = {unit.start: place for place, unit in enumerate(layout.units)}
    last, named = len(context.messages) - keep_last, call.preferred(context)
    latest_first = range(len(loose) - 1, -1, -1)
    return Candidates(
        units=loose,
        places=tuple(place_of[unit.start] for unit in loose),
        sizes=tuple(sum(map(call.count, unit.of(context.messages))) for unit in loose),
        recent=tuple(index for index in latest_first if loose[index].stop > last),
        total=len(layout.units),
        room=aim - layout.floor,
        aim=aim,
        needs=_needs(context, layout.units, loose),
        preferred=tuple(index for index in latest_first if not named.isdisjoint(loose[index].places)),
    )


def _needs(context: Context, units: Iterable[Unit], loose: Sequence[Unit]) -> tuple[frozenset[int], ...]:
    """What each of the units that may go needs, of these."""
    index_of = {unit.start: index for index, unit in enumerate(loose)}
    needs: list[frozenset[int]] = [frozenset()] * len(loose)
    asked = called = frozenset[int]()
    for unit in units:
        index = index_of.get(unit.start)
        itself = frozenset[int]() if index is None else frozenset({index})
        if any(has_user_words(message) for message in unit.of(context.messages)):
            asked, called = itself, frozenset()
            continue
        calls = any(message.calls for message in unit.of(context.messages))
        if index is not None:
            needs[index] = asked if calls else asked | called
        called = itself if calls else frozenset()
    return tuple(needs)


FADING = 3.0
"""How fast recency falls: the oldest unit has exp(-3), a twentieth of the newest."""

LENGTHS = ((100, 1.0), (500, 0.8), (2_000, 0.6))
"""Up to so many characters, and the score for it; longer ones have ``LONG``."""

LONG = 0.4

_TROUBLE = re.compile(r"\b(?:errors?|fail(?:ed|ure|ures)|panic|exceptions?|traceback|fatal)\b")
_STEMS = ("error", "fail", "panic", "exception", "traceback", "fatal")


@frozen
class Weights:
    """How much each side of a unit counts; they need not add up to 1.

    Args:
        recency: That it is recent: 1 for the newest, falling by the exponential function to 0.05 for the oldest.
        relevance: That it has to do with the task: 1 for the unit that has most to do with it.
        role: That the user speaks (0.7), that tools were called (0.6), that the model speaks (0.5); else 0.4.
        tool: That something went wrong in it: 1 for results that are or speak of errors, 0.4 for other results, 0.5
            for what is no result.
        length: That it is short: 1, 0.8, 0.6 and 0.4 for up to 100, 500, 2,000 and more characters.

    Raises:
        ConfigError: If one is negative or not finite, or all are 0.

    Example:
        >>> from agentctx import Pack
        >>> from agentctx.strategies import Weights
        >>> stage = Pack(Weights(recency=0.5, relevance=0.5))
    """

    recency: float = 0.0
    relevance: float = 0.0
    role: float = 0.0
    tool: float = 0.0
    length: float = 0.0

    def __attrs_post_init__(self) -> None:
        """Check the weights."""
        weights = (self.recency, self.relevance, self.role, self.tool, self.length)
        numbers = all(isinstance(weight, (int, float)) and not isinstance(weight, bool) for weight in weights)
        if not numbers or not all(0 <= weight < float("inf") for weight in weights) or not any(weights):
            msg = f"Weights: expected numbers of at least 0, and not only zeros, got {weights}"
            raise ConfigError(msg)

    def score(self, unit: Traits, recency: float, relevance: float) -> float:
        """What a unit is worth for each of its tokens.

        Args:
            unit: What is known of it from its own words.
            recency: How recent it is, 0 to 1.
            relevance: How much it has to do with the task, 0 to 1.
        """
        return (
            self.recency * recency
            + self.relevance * relevance
            + self.role * unit.role
            + self.tool * unit.tool
            + self.length * length_score(len(unit.text))
        )


@frozen
class Traits:
    """What is known of a unit from its own words."""

    text: str
    role: float
    tool: float


def traits_of(messages: Sequence[Message]) -> Traits:
    """What the messages of a unit say. Reasoning is left out: it says nothing that is not done or said again."""
    return Traits("\n".join(_texts(messages)), role_score(messages), tool_score(messages))


def recency_score(place: int, count: int) -> float:
    """How recent the unit at ``place`` of ``count`` is: 1 for the last, 0.05 for the first."""
    return 1.0 if count <= 1 else exp(-FADING * (1 - place / (count - 1)))


def role_score(messages: Sequence[Message]) -> float:
    """The score for who speaks."""
    roles = {message.role for message in messages}
    if any(message.calls or message.results for message in messages):
        return 0.6
    return 0.7 if "user" in roles else 0.5 if "assistant" in roles else 0.4


def tool_score(messages: Sequence[Message]) -> float:
    """The score for what tools answered."""
    results = [result for message in messages for result in message.results]
    if not results:
        return 0.5
    return 1.0 if any(result.is_error or _is_trouble(result.text) for result in results) else 0.4


def _is_trouble(text: str) -> bool:
    """Whether a text speaks of errors; most can be traits by a search for letters, which is much faster."""
    small = text.lower()
    return any(stem in small for stem in _STEMS) and _TROUBLE.search(small) is not None


def length_score(characters: int) -> float:
    """The score for being short."""
    return next((score for most, score in LENGTHS if characters <= most), LONG)


def _texts(messages: Sequence[Message]) -> list[str]:
    found: list[str] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, (Text, ToolResult)):
                found.append(part.text)
            elif isinstance(part, ToolCall):
                found.append(f"{part.name} {part.arguments}")
    return found


STEPS = 1_000_000
"""Scores are taken to this many parts of one."""


async def relevances(
    traits: Sequence[Traits], weights: Weights, task: str, relevance: Relevance | None
) -> Sequence[float]:
    """How much each unit has to do with the task, 0 to 1; without ``relevance`` BM25 says it."""
    if not traits or not weights.relevance or not task.strip():
        return [0.0] * len(traits)
    texts = [one.text for one in traits]
    return shares(await (Bm25() if relevance is None else relevance)(task, texts), len(texts))


def scores(
    candidates: Candidates, weights: Weights, traits: Sequence[Traits], relevances: Sequence[float]
) -> list[int]:
    """What a token of each unit is worth; above 0, and of equal units the later is worth more.

    A question is worth as much as the answer that follows it, and a trifle more.
    """
    parts = 2 * (candidates.total + 1)
    found = [
        round(STEPS * weights.score(one, recency_score(place, candidates.total), relevance)) * parts + 2 * place + 1
        for place, one, relevance in zip(candidates.places, traits, relevances, strict=True)
    ]
    for question, answer in candidates.questions:
        found[question] = max(found[question], found[answer] + 1)
    return found


SHORT = 200
"""The tokens that an old tool result is cut to."""

OLD = 0.7
"""Units of this recency or less are old: all but about the last eighth."""


def shortened(context: Context, candidates: Candidates, call: Call) -> dict[int, tuple[Message, ...]]:
    """The messages of old units whose results were too long, with these cut; by the unit's index in the candidates."""
    found: dict[int, tuple[Message, ...]] = {}
    for index, (unit, place) in enumerate(zip(candidates.units, candidates.places, strict=True)):
        if index in candidates.recent or index in candidates.preferred or recency_score(place, candidates.total) > OLD:
            continue
        before = unit.of(context.messages)
        after = tuple(_short(message, call) for message in before)
        if any(new is not old for new, old in zip(after, before, strict=True)):
            found[index] = after
    return found


def _short(message: Message, call: Call) -> Message:
    def cut(result: ToolResult) -> ToolResult:
        text = result.text
        shorter = cut_to_tokens(text, SHORT, call.counter, Cut())
        return result if shorter == text else with_text(result, shorter)

    return edit_results(message, cut)


def still_short(
    short: Mapping[int, tuple[Message, ...]], chosen: Sequence[int], growths: Mapping[int, int], spare: int
) -> Iterable[int]:
    """Which of the chosen units must stay short: those for which there is not room in full, the latest asked first."""
    latest_first = [index for index in reversed(chosen) if index in short]
    in_full = each_that_fits(latest_first, growths.__getitem__, spare)
    return [index for index in latest_first if index not in in_full]
