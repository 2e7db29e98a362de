"""Keep the units that are worth most in the room there is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property, partial
from itertools import accumulate, chain, islice, pairwise
from math import exp, inf
from types import MappingProxyType
from typing import ClassVar, Literal

from attrs import astuple, evolve, field, frozen
from attrs.validators import ge, instance_of, lt, or_

from agentctx.budget import Budget, each_that_fits
from agentctx.characters import cluster_end_before, printable
from agentctx.engine.cut import Layout, aiming_below, shrink_open_round
from agentctx.engine.options import limits
from agentctx.engine.relevance import Bm25, Relevance, shares
from agentctx.engine.shrink import Cut, cut_to_tokens, edit_results, with_text
from agentctx.message import Context, Message, Text, ToolCall, ToolResult
from agentctx.protocols import Call, ContextStrategy, When, library_stage, run_plain
from agentctx.unit import Unit, first_task, has_user_words, is_user_turn, last_words, units
from agentctx.validators import TEXT, MustBe, function, must_be, numeric, one_of, whole_number

_WEIGHT = numeric("a number of at least 0", ge(0), lt(inf))


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

    recency: float = field(default=0.0, validator=_WEIGHT)
    relevance: float = field(default=0.0, validator=_WEIGHT)
    role: float = field(default=0.0, validator=_WEIGHT)
    tool: float = field(default=0.0, validator=_WEIGHT)
    length: float = field(default=0.0, validator=_WEIGHT)

    def __attrs_post_init__(self) -> None:
        """Check that there is a weight."""
        if not any(astuple(self)):
            raise must_be("Weights", "at least one number above 0", self)

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


Strategy = Literal["recent", "relevance", "hybrid", "compression"]

STRATEGIES: Mapping[str, Weights] = MappingProxyType(
    {
        "recent": Weights(recency=1.0),
        "relevance": Weights(relevance=1.0),
        "hybrid": Weights(recency=0.4, relevance=0.3, role=0.1, tool=0.1, length=0.1),
        "compression": Weights(recency=1.0),
    }
)
"""What counts, by the name of the strategy."""

_TRIES = 3
"""How often room is made for a note before it is left out."""


_NAMED = one_of(STRATEGIES)
_STRATEGY = MustBe(f"Weights, {_NAMED.wanted}", or_(_NAMED, instance_of(Weights)))
_RELEVANCE = function("an async function (task, texts) -> numbers")


@library_stage
@frozen
class Pack(ContextStrategy):
    """Keep the units that are worth most, wherever they stand, in exactly the room there is.

    A unit is a model's turn with all its tool results, or one other message; it is kept or dropped as a whole.
    Protected messages and the round that the model is in stay; then the last messages, as far as they fit; what room
    is left goes to the other units so that the sum of score times tokens is as high as can be found: never below
    what taking them by score would give (see ``Candidates.pick``). A question counts at least as much as its answer.
    Calls do not stay without the question that they belong to, nor an answer without it and the calls directly before.

    It chooses anew at every call that is too large. Without a session that moves the prefix at each: measured, 1.5 to
    1.8 times the cost of sending everything, where the provider's cache is used; the report's forecast says so. In
    a session it chooses at a compaction only.

    Scores are ctxmgr's, read as what one token is worth, so that small old messages do not push out large new ones:

    - ``"recent"``: the newer, the better.
    - ``"relevance"``: the more it has to do with the task; of what has nothing to do with it, the newer.
    - ``"hybrid"``: recency 0.4, relevance 0.3, and 0.1 each for who speaks, for errors, and for being short.
    - ``"compression"``: as recent, but tool results of old units are cut to 200 tokens first, so that more units
      stay; those that fit in full after all are not cut.

    Args:
        strategy: One of these, or ``Weights`` of your own.
        task: What the model is at, in words. Without it: the first task and the latest user message.
        relevance: How much texts have to do with the task; without it BM25. For an embedding model:
            ``Embedded(embed)``.
        keep_last: Units with one of so many last messages in them come first.
        note: Whether a user message says in one line what was left out, where that costs no more than as many tokens
            of the best unit are worth; the report says it anyway.
        max_tokens: The most tokens of the request; without it the pipeline's budget holds.

    Raises:
        ConfigError: If an option makes no sense.

    Example:
        >>> from agentctx import Pack, Pipeline
        >>> from agentctx.testing import assistant, transcript, user
        >>> messages = transcript(
        ...     "openai-chat", user("Why was order 7 refused?"), assistant("Order 7 had no address."),
        ...     user("Go on."), assistant("The weather is fine today. " * 40), user("So?"))
        >>> view = await Pipeline(Pack("recent", keep_last=1), budget=100).prepare(messages)
        >>> len(view.messages) < len(messages)
        True
    """

    strategy: Strategy | Weights = field(default="hybrid", validator=_STRATEGY)
    task: str | None = field(default=None, validator=TEXT.or_none, kw_only=True)
    relevance: Relevance | None = field(default=None, validator=_RELEVANCE.or_none, kw_only=True)
    keep_last: int = field(default=4, validator=whole_number(0), kw_only=True)
    note: bool = field(default=False, kw_only=True)
    max_tokens: int | None = field(default=None, validator=whole_number(1).or_none, kw_only=True)
    when: ClassVar[When] = When.UNDER_PRESSURE

    @property
    def budget(self) -> Budget | None:
        """The budget that this stage carries itself, if any."""
        return None if self.max_tokens is None else Budget(self.max_tokens)

    @property
    def weights(self) -> Weights:
        """What counts."""
        return self.strategy if isinstance(self.strategy, Weights) else STRATEGIES[self.strategy]

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context with the units that are worth most, at most the limit's tokens."""
        limit, aim = limits("Pack", self.max_tokens, call)
        if call.size(context) <= aim:
            return context
        laid_out = await run_plain(partial(self._laid_out, limit, aim), context, call)
        relevant = await relevances(laid_out.traits, self.weights, laid_out.task, self.relevance)
        return await run_plain(partial(self._packed, laid_out, relevant), context, call)

    def _laid_out(self, limit: int, aim: int, context: Context, call: Call) -> _LaidOut:
        """What there is to choose from."""
        context, layout = shrink_open_round(context, limit, call)
        full = candidates_of(context, layout, call, aiming_below(aim, layout.floor, call), self.keep_last)
        task = self.task
        if task is None:  # the user's first and latest words
            messages = context.messages
            latest = (index for index in last_words(messages, len(messages)) if not is_note(messages[index]))
            task = "\n".join(
                messages[place].text for place in dict.fromkeys((*first_task(messages), *islice(latest, 1)))
            )
        return _LaidOut(context, full, [traits_of(unit.of(context.messages)) for unit in full.units], task)

    def _packed(self, laid_out: _LaidOut, relevant: Sequence[float], _context: Context, call: Call) -> Context:
        """Return the context with what is worth most."""
        context, full = laid_out.context, laid_out.candidates
        packed = self._decided(context, full, scores_of(full, self.weights, laid_out.traits, relevant), call)
        if packed.is_whole:
            return context
        name = self.strategy if isinstance(self.strategy, str) else "own weights"
        after = _packed_context(context, packed, call, f"worth less than what stays in {full.aim:,} tokens ({name})")
        for line in _in_words(context, packed, name, call.size(after)):
            call.remark(line)
        return after

    def _decided(self, context: Context, full: Candidates, scores: Sequence[int], call: Call) -> _Packed:
        """What stays, and how."""
        short = _shortened(context, full, call) if self.strategy == "compression" else {}
        shorter = {index: sum(map(call.count, messages)) for index, messages in short.items()}
        small = evolve(full, sizes=tuple(shorter.get(index, size) for index, size in enumerate(full.sizes)))
        chosen, note = self._chosen(context, small, scores, call)
        spare = small.room - small.tokens(chosen) - (0 if note is None else call.count(note))
        growths = {index: full.sizes[index] - small.sizes[index] for index in short}
        latest_first = [index for index in reversed(chosen) if index in short]
        in_full = each_that_fits(latest_first, growths.__getitem__, spare)
        return _Packed(full, chosen, {index: short[index] for index in latest_first if index not in in_full}, note)

    def _chosen(
        self, context: Context, small: Candidates, scores: Sequence[int], call: Call
    ) -> tuple[tuple[int, ...], Message | None]:
        """The units to keep, and the note if it is wanted, has room, and is worth what goes for it."""
        chosen = best = small.pick(scores, small.room)
        for _ in range(_TRIES if self.note else 0):
            gone = _left_out(context, small, chosen)
            if not gone:
                break
            note = Message("user", (Text(f"[{dropped_line(gone)}]"),))
            cost = call.count(note)
            if small.tokens(chosen) + cost <= small.room:
                lost = small.worth(scores, best) - small.worth(scores, chosen)
                return (chosen, note) if lost <= cost * max(scores) else (best, None)
            chosen = small.pick(scores, small.room - cost)
        return best, None


@frozen
class _LaidOut:
    """A request laid out for packing.

    Args:
        context: It; the results of what must stay are cut where they alone are too large.
        candidates: The units that may be chosen.
        traits: What is known of each of them.
        task: What the model is at, in words.
    """

    context: Context
    candidates: Candidates
    traits: Sequence[Traits]
    task: str


@frozen
class _Packed:
    """What was decided."""

    candidates: Candidates
    chosen: tuple[int, ...]
    short: Mapping[int, tuple[Message, ...]]
    note: Message | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing changes."""
        return len(self.chosen) == len(self.candidates.units) and not self.short


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


def _needs(context: Context, every: Iterable[Unit], loose: Sequence[Unit]) -> tuple[frozenset[int], ...]:
    """What each of the units that may go needs, of these."""
    index_of = {unit.start: index for index, unit in enumerate(loose)}
    needs: list[frozenset[int]] = [frozenset()] * len(loose)
    asked = called = frozenset[int]()
    for unit in every:
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


@frozen
class Traits:
    """What is known of a unit from its own words."""

    text: str
    role: float
    tool: float


def traits_of(messages: Sequence[Message]) -> Traits:
    """Score the messages of a unit, and join their texts but for reasoning, whose outcome is in a call or an answer."""
    texts: list[str] = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, (Text, ToolResult)):
                texts.append(part.text)
            elif isinstance(part, ToolCall):
                texts.append(f"{part.name} {part.arguments}")
    return Traits("\n".join(texts), role_score(messages), tool_score(messages))


async def relevances(
    traits: Sequence[Traits], weights: Weights, task: str, relevance: Relevance | None
) -> Sequence[float]:
    """How much each unit has to do with the task, 0 to 1; without ``relevance`` BM25 says it."""
    if not traits or not weights.relevance or not task.strip():
        return [0.0] * len(traits)
    texts = [one.text for one in traits]
    return shares(await (Bm25() if relevance is None else relevance)(task, texts), len(texts))


_STEPS = 1_000_000
"""Scores are taken to this many parts of one."""


def scores_of(
    candidates: Candidates, weights: Weights, traits: Sequence[Traits], relevances: Sequence[float]
) -> list[int]:
    """What a token of each unit is worth; above 0, and of equal units the later is worth more.

    A question is worth as much as the answer that follows it, and a trifle more.
    """
    parts = 2 * (candidates.total + 1)
    found = [
        round(_STEPS * weights.score(one, recency_score(place, candidates.total), relevance)) * parts + 2 * place + 1
        for place, one, relevance in zip(candidates.places, traits, relevances, strict=True)
    ]
    for question, answer in candidates.questions:
        found[question] = max(found[question], found[answer] + 1)
    return found


_FADING = 3.0
"""How fast recency falls: the oldest unit has exp(-3), a twentieth of the newest."""


def recency_score(place: int, count: int) -> float:
    """How recent the unit at ``place`` of ``count`` is: 1 for the last, 0.05 for the first."""
    return 1.0 if count <= 1 else exp(-_FADING * (1 - place / (count - 1)))


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
    return 1.0 if any(result.is_error or _TROUBLE.search(result.text.lower()) for result in results) else 0.4


_TROUBLE = re.compile(r"\b(?:errors?|fail(?:ed|ure|ures)|panic|exceptions?|traceback|fatal)\b")


_LENGTHS = ((100, 1.0), (500, 0.8), (2_000, 0.6))
"""Up to so many characters, and the score for it; longer ones have ``_LONG``."""

_LONG = 0.4


def length_score(characters: int) -> float:
    """The score for being short."""
    return next((score for most, score in _LENGTHS if characters <= most), _LONG)


CORE = 36
"""How many items around the first that greed has no room for are decided exactly."""

_STATES = 2_000
"""How many ways of filling the room are kept in mind at a time; it bounds the time."""


def choose(worths: Sequence[int], sizes: Sequence[int], limit: int) -> tuple[int, ...]:
    """The items to take: never more than ``limit`` together, and worth as much as can be found in bounded time.

    Three ways are tried, and the best of them wins: greedily by worth for size, items that are worth the same for
    their size in four orders (first or last, small or large ones first); the same beginning with the single
    item of the highest worth; and greedily but for the ``CORE`` items around the first that greed has no room for,
    which are decided exactly (Pisinger 1995, "An expanding-core algorithm for the exact 0-1 knapsack
    problem", without the expanding; states that cannot beat what is known are dropped by Dantzig's bound). So the
    worth is never below that of greed, nor below half of the best possible; and it is the best possible for up to
    ``CORE`` items, unless more than ``_STATES`` ways stay in the running. The time grows like sorting.

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
        raise must_be("choose.worths", f"one for each of {len(sizes)} sizes", worths)
    whole_number(0).check("choose.worths", min(worths, default=0))
    whole_number(0).check("choose.sizes", min(sizes, default=0))


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
    filled = accumulate(items.sizes[item] for item in order)
    edge = next((place for place, size in enumerate(filled) if size > room), len(order))
    start = max(0, min(edge - CORE // 2, len(order) - CORE))
    sure, core, rest = order[:start], order[start : start + CORE], order[start + CORE :]
    left = room - sum(items.sizes[item] for item in sure)
    bar = items.value(known)[0] - sum(items.worths[item] for item in sure)
    best = _best(items, core, rest[:1], left, bar)
    picked = [item for place, item in enumerate(core) if best >> place & 1]
    passed = [item for place, item in enumerate(core) if not best >> place & 1]
    left -= sum(items.sizes[item] for item in picked)
    return [*sure, *picked, *items.filled([*passed, *rest], left)]


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
    if len(hopeful) <= _STATES:
        return [state for _, state in hopeful]
    best = sorted(hopeful, key=lambda one: (-one[0], one[1][0]))[:_STATES]
    return sorted(state for _, state in best)


def _best_with_needs(among: Candidates, scores: Sequence[int], others: Sequence[int], room: int) -> frozenset[int]:
    """The choice of others that is worth most, each only with all that it needs; exact within ``_STATES`` ways.

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
        if len(states) > _STATES:
            # by what the rest may be worth
            states = sorted(states, key=lambda state: state[0] * most - state[1])[:_STATES]
    best = max(states, key=lambda state: (state[1], -state[0]))
    return frozenset(index for index in others if best[2] & bit[index])


_SHORT = 200
"""The tokens that an old tool result is cut to."""

_OLD = 0.7
"""Units of this recency or less are old: all but about the last eighth."""


def _shortened(context: Context, candidates: Candidates, call: Call) -> dict[int, tuple[Message, ...]]:
    """The messages of old units whose results were too long, with these cut; by the unit's index in the candidates."""
    found: dict[int, tuple[Message, ...]] = {}
    for index, (unit, place) in enumerate(zip(candidates.units, candidates.places, strict=True)):
        if index in candidates.recent or index in candidates.preferred or recency_score(place, candidates.total) > _OLD:
            continue
        before = unit.of(context.messages)
        after = tuple(_short(message, call) for message in before)
        if any(new is not old for new, old in zip(after, before, strict=True)):
            found[index] = after
    return found


def _short(message: Message, call: Call) -> Message:
    def cut(result: ToolResult) -> ToolResult:
        text = result.text
        shorter = cut_to_tokens(text, _SHORT, call.meter.counter, Cut())
        return result if shorter == text else with_text(result, shorter)

    return edit_results(message, cut)


def _packed_context(context: Context, packed: _Packed, call: Call, why: str) -> Context:
    """The context with the chosen units, and reasons in the report for all that changed."""
    messages: list[Message | None] = list(context.messages)
    chosen = frozenset(packed.chosen)
    for index, unit in enumerate(packed.candidates.units):
        if index not in chosen:
            for place in unit.places:
                call.note(context.messages[place], why)
                messages[place] = None
    for index, made in packed.short.items():
        for place, message in zip(packed.candidates.units[index].places, made, strict=True):
            if message is not messages[place]:
                call.note(context.messages[place], "old tool result cut short, so that more units fit")
                messages[place] = message
    return context.with_messages(_with_note(context, messages, packed.note, call))


def _with_note(
    context: Context, messages: Sequence[Message | None], note: Message | None, call: Call
) -> tuple[Message, ...]:
    if note is not None:
        # the note stands behind the first task, where the user speaks anyway; else where the first unit is missing
        task = first_task(context.messages)
        place = messages.index(None)
        if task:
            place = next(unit.stop for unit in units(context.messages) if task[0] in unit.places)
        call.note(note, "says what was left out")
        messages = [*messages[:place], note, *messages[place:]]
    return tuple(message for message in messages if message is not None)


def _in_words(context: Context, packed: _Packed, strategy: str, tokens: int) -> list[str]:
    """What is said of it in the report: how much stays, and what was left out."""
    candidates = packed.candidates
    kept, free = len(packed.chosen), len(candidates.units)
    stayed = candidates.total - free
    stay = f"({stayed:,} had to stay, {len(candidates.recent):,} recent)"
    filled = f"{tokens:,} of {candidates.aim:,} tokens, {100 * tokens / candidates.aim:.1f}%"
    lines = [f"kept {stayed + kept:,} of {candidates.total:,} units {stay}; {filled}; {strategy}"]
    line = dropped_line(_left_out(context, candidates, packed.chosen))
    return [*lines, line] if line else lines


def _left_out(context: Context, candidates: Candidates, chosen: Sequence[int]) -> list[Message]:
    """The messages of the units that were not chosen, but for notes of what was left out before."""
    kept = frozenset(chosen)
    gone = (unit for index, unit in enumerate(candidates.units) if index not in kept)
    return [message for unit in gone for message in unit.of(context.messages) if not is_note(message)]


_TOPICS = 5
"""How many topics are named."""

_TOPIC_CHARACTERS = 50
"""The longest topic, in characters."""

_SHORTEST_TOPIC = 5
"""Lines shorter than this name no topic, in characters."""

_OPENING = "Earlier: "
"""How the line begins."""


def is_note(message: Message) -> bool:
    """Tell whether this is a user message of ``Pack`` about units that were left out."""
    return message.role == "user" and message.text.startswith(f"[{_OPENING}")


def dropped_line(messages: Sequence[Message]) -> str:
    """How many messages and calls were left out, and the first lines of what was said; empty when there are none."""
    if not messages:
        return ""
    calls = sum(len(message.calls) for message in messages)
    users = sum(is_user_turn(message) for message in messages)
    models = sum(message.role == "assistant" for message in messages)
    counted = ((calls, "tool call"), (users, "user message"), (models, "assistant message"))
    told = [f"{_many(len(messages), 'message')} dropped", *(_many(*each) for each in counted if each[0])]
    topics = [*dict.fromkeys(_first_lines(messages))][:_TOPICS]
    return _OPENING + "; ".join([*told, f"topics: {', '.join(topics)}"] if topics else told)


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}" + ("" if count == 1 else "s")


_ROUND = str.maketrans("[]", "()")
"""Square brackets enclose the line: a square bracket in a topic would end it."""


def _first_lines(messages: Sequence[Message]) -> Iterator[str]:
    """Yield the first line of each message with text, printable, of at most ``_TOPIC_CHARACTERS`` in whole clusters."""
    for message in messages:
        start = message.text[: 40 * _TOPIC_CHARACTERS].lstrip()
        line = printable(start.split("\n", 1)[0]).translate(_ROUND).strip()
        if len(line) >= _SHORTEST_TOPIC:
            yield (
                line
                if len(line) <= _TOPIC_CHARACTERS
                else line[: cluster_end_before(line, _TOPIC_CHARACTERS - 1)].rstrip() + "…"
            )
