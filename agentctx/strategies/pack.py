"""Keep the units that are worth most in the room there is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from itertools import islice
from math import exp, inf
from operator import mul
from types import MappingProxyType
from typing import ClassVar, Literal

from attrs import astuple, field, frozen
from attrs.validators import instance_of, or_

from agentctx.budget import Budget
from agentctx.characters import on_one_line
from agentctx.engine.cut import Layout, aiming_below, shrink_open_round, tokens_of, without
from agentctx.engine.plan import limits
from agentctx.engine.relevance import Bm25, Relevance, shares
from agentctx.engine.shrink import Cut, cut_to_tokens, edit_results, edited, fits, with_text
from agentctx.marks import joined
from agentctx.message import Context, Message, Text, ToolCall, ToolResult
from agentctx.protocols import Call, ContextStrategy, When, library_stage, run_plain
from agentctx.unit import Unit, first_task, has_user_words, is_user_turn, last_words, units
from agentctx.validators import NOT_NEGATIVE, TEXT, TRUTH, MustBe, function, must_be, one_of, whole_number


@frozen
class Weights:
    """How much each trait of a unit counts; the weights need not add up to 1.

    Args:
        recency: How recent the unit is: 1 for the newest, falling by the exponential function to 0.05 for the oldest.
        relevance: How much the unit has to do with the task: 1 for the unit that has most to do with it.
        role: Who speaks: 0.7 for the user, 0.6 where tools are called, 0.5 for the model, else 0.4.
        tool: Whether something went wrong: 1 for results that are or mention errors, 0.4 for other results, 0.5
            where there is no result.
        length: How short the unit is: 1, 0.8, 0.6 and 0.4 for up to 100, 500, 2,000 and more characters.

    Raises:
        ConfigError: If a weight is negative or not finite, or all are 0.

    Example:
        >>> from agentctx import Pack
        >>> from agentctx.strategies import Weights
        >>> stage = Pack(Weights(recency=0.5, relevance=0.5))
    """

    recency: float = field(default=0.0, validator=NOT_NEGATIVE)
    relevance: float = field(default=0.0, validator=NOT_NEGATIVE)
    role: float = field(default=0.0, validator=NOT_NEGATIVE)
    tool: float = field(default=0.0, validator=NOT_NEGATIVE)
    length: float = field(default=0.0, validator=NOT_NEGATIVE)

    def __attrs_post_init__(self) -> None:
        """Check that there is a weight."""
        if not any(astuple(self)):
            raise must_be("Weights", "at least one number above 0", self)


Strategy = Literal["recent", "relevance", "hybrid", "compression"]

STRATEGIES: Mapping[str, Weights] = MappingProxyType(
    {
        "recent": Weights(recency=1.0),
        "relevance": Weights(relevance=1.0),
        "hybrid": Weights(recency=0.4, relevance=0.3, role=0.1, tool=0.1, length=0.1),
        "compression": Weights(recency=1.0),
    }
)
"""The weights, by the name of the strategy."""

_SHORT = 200
"""The tokens to which ``"compression"`` cuts the results of old units."""

_OLD = 0.7
"""Units of this recency or less are old: all but about the last eighth."""

_TRIES = 3
"""How often room is made for a note before the note is left out."""

_NAMED = one_of(STRATEGIES)
_STRATEGY = MustBe(f"Weights, {_NAMED.wanted}", or_(_NAMED, instance_of(Weights)))
_RELEVANCE = function("an async function (task, texts) -> numbers")


@library_stage
@frozen
class Pack(ContextStrategy):
    """Keep the units that are worth most, wherever they stand, in exactly the room there is.

    A unit is a model's turn with all its tool results, or one other message; a unit is kept or dropped as a whole.
    Protected messages and the round that the model is in stay; then the last messages, as far as they fit; what room
    is left goes to the other units so that the sum of score times tokens is as high as can be found: never below
    the sum that taking them by score would give (see ``choose``). Calls do not stay without the question that they
    belong to, nor an answer without its question and the calls directly before.

    ``Pack`` chooses anew at every call that is too large. Without a session that moves the prefix at each: measured,
    1.5 to 1.8 times the cost of sending everything, where the provider's cache is used; the report's forecast says so.
    In a session it chooses at a compaction only.

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
    note: bool = field(default=False, validator=TRUTH, kw_only=True)
    max_tokens: int | None = field(default=None, validator=whole_number(1).or_none, kw_only=True)
    when: ClassVar[When] = When.UNDER_PRESSURE

    @property
    def budget(self) -> Budget | None:
        """The budget that this stage carries itself, if any."""
        return None if self.max_tokens is None else Budget(self.max_tokens)

    @property
    def weights(self) -> Weights:
        """The weights of the strategy."""
        return self.strategy if isinstance(self.strategy, Weights) else STRATEGIES[self.strategy]

    async def __call__(self, context: Context, call: Call, /) -> Context:
        """Return the context with the units that are worth most, at most the limit's tokens."""
        limit, aim = limits("Pack", self.max_tokens, call)
        if call.size(context) <= aim:
            return context
        candidates = await run_plain(partial(self._lay_out, limit, aim), context, call)
        relevances: Sequence[float] = [0.0] * len(candidates.units)
        if self.weights.relevance:
            relevances = await relevances_of(candidates, self.task, self.relevance)
        return await run_plain(partial(self._pack, candidates, relevances), candidates.context, call)

    def _lay_out(self, limit: int, aim: int, context: Context, call: Call) -> Candidates:
        """Cut the results of the open round where they alone are too large, and list the units that may go."""
        context, layout = shrink_open_round(context, limit, call)
        return Candidates.of(context, layout, call, aiming_below(aim, layout.floor, call), self.keep_last)

    def _pack(self, candidates: Candidates, relevances: Sequence[float], context: Context, call: Call) -> Context:
        """Return the context with the units that are worth most, and say in the report why the others went."""
        loose, scores = candidates.units, candidates.scores(self.weights, relevances)
        short = _shortened(candidates, call) if self.strategy == "compression" else {}
        sizes = [
            tokens_of([short.get(place, context.messages[place]) for place in unit.places], call) if short else size
            for unit, size in zip(loose, candidates.sizes, strict=True)
        ]
        chosen, note = self._choose(candidates, scores, sizes, call)
        spare = candidates.room - sum(sizes[index] for index in chosen) - (call.count(note) if note else 0)
        for index in reversed(chosen):  # what need not be cut is not, the latest first
            growth = candidates.sizes[index] - sizes[index]
            if growth <= spare:
                spare -= growth
                for place in loose[index].places:
                    short.pop(place, None)
        cut = [place for index in chosen for place in loose[index].places if place in short]
        gone = [unit for index, unit in enumerate(loose) if index not in set(chosen)]
        if not gone and not cut:
            return context
        name = self.strategy if isinstance(self.strategy, str) else "own weights"
        why = "old tool result cut short, so that more units fit"
        after = edited(context, cut, lambda place, _message: short[place], call, why)
        after = without(after, gone, call, f"worth less than what stays in {candidates.aim:,} tokens ({name})")
        if note is not None:
            # behind the first task, where the user speaks anyway; else where the first unit is missing
            task = first_task(after.messages)
            behind = (unit.stop for unit in units(after.messages) if task and task[0] in unit.places)
            at = next(behind, gone[0].start)
            call.note(note, "says what was left out")
            after = after.with_messages((*after.messages[:at], note, *after.messages[at:]))
        total, tokens = candidates.total, call.size(after)
        call.remark(
            f"kept {total - len(gone):,} of {total:,} units ({total - len(loose):,} had to stay, "
            f"{len(candidates.recent):,} recent); {tokens:,} of {candidates.aim:,} tokens, "
            f"{100 * tokens / candidates.aim:.1f}%; {name}"
        )
        if line := dropped_line(candidates.without(chosen)):
            call.remark(line)
        return after

    def _choose(
        self, candidates: Candidates, scores: Sequence[int], sizes: Sequence[int], call: Call
    ) -> tuple[tuple[int, ...], Message | None]:
        """Choose the units to keep; and the note, if it is wanted, has room, and is worth what goes for it."""
        worths = [score * size for score, size in zip(scores, sizes, strict=True)]
        first = (*candidates.preferred, *candidates.recent)
        chosen = best = choose(worths, sizes, candidates.room, candidates.needs, first)
        for _ in range(_TRIES if self.note else 0):
            gone = candidates.without(chosen)
            if not gone:
                break
            note = Message("user", (Text(f"[{dropped_line(gone)}]"),))
            cost = call.count(note)
            if sum(sizes[index] for index in chosen) + cost <= candidates.room:
                lost = sum(worths[index] for index in best) - sum(worths[index] for index in chosen)
                return (chosen, note) if lost <= cost * max(scores) else (best, None)
            chosen = choose(worths, sizes, candidates.room - cost, candidates.needs, first)
        return best, None


@frozen
class Candidates:
    """The units of a request that may go, oldest first.

    Args:
        context: The request.
        units: The units that may go.
        total: How many units the request has.
        aim: The tokens that the whole request may have.
        room: The tokens that the candidates may have together.
        sizes: The tokens of each.
        texts: The words of each, calls and results among them.
        recencies: How recent each is, 0 to 1.
        needs: For each, the candidates without which it is not kept: the question that it answers, and of an answer
            in words the calls directly before it, too.
        recent: Which of them should stay if at all possible; latest first.
        preferred: Which of them go after all others, as the caller's soft rules say; latest first.
    """

    context: Context
    units: Sequence[Unit]
    total: int
    aim: int
    room: int
    sizes: Sequence[int]
    texts: Sequence[str]
    recencies: Sequence[float]
    needs: Sequence[frozenset[int]]
    recent: Sequence[int]
    preferred: Sequence[int]

    @classmethod
    def of(cls, context: Context, layout: Layout, call: Call, aim: int, keep_last: int) -> Candidates:
        """List the units of a request that may go."""
        messages, loose, total = context.messages, layout.loose, len(layout.units)
        loose_from = {unit.start for unit in loose}
        recencies, needs = [], list[frozenset[int]]()
        question = calls = frozenset[int]()
        for place, unit in enumerate(layout.units):
            is_loose, inside = unit.start in loose_from, unit.of(messages)
            itself = frozenset({len(needs)} if is_loose else ())
            asks, has_calls = any(map(has_user_words, inside)), any(message.calls for message in inside)
            if is_loose:
                recencies.append(recency_score(place, total))
                needs.append(frozenset() if asks else question if has_calls else question | calls)
            question, calls = (itself if asks else question), (itself if has_calls and not asks else frozenset())
        preferred, latest_first = call.preferred(context), range(len(loose) - 1, -1, -1)
        return cls(
            context,
            loose,
            total,
            aim,
            aim - layout.floor,
            sizes=[tokens_of(unit.of(messages), call) for unit in loose],
            texts=[_text_of(unit.of(messages)) for unit in loose],
            recencies=recencies,
            needs=needs,
            recent=[index for index in latest_first if loose[index].stop > len(messages) - keep_last],
            preferred=[index for index in latest_first if not preferred.isdisjoint(loose[index].places)],
        )

    def without(self, chosen: Iterable[int]) -> list[Message]:
        """The messages of the units that were not chosen, but for notes of what was left out before."""
        kept = frozenset(chosen)
        gone = (unit for index, unit in enumerate(self.units) if index not in kept)
        return [message for unit in gone for message in unit.of(self.context.messages) if not is_note(message)]

    def scores(self, weights: Weights, relevances: Sequence[float]) -> list[int]:
        """Work out what a token of each unit is worth; above 0, and of equal units the later is worth more."""
        scores: list[int] = []
        numbers = astuple(weights)
        for unit, text, recency, relevance in zip(self.units, self.texts, self.recencies, relevances, strict=True):
            messages = unit.of(self.context.messages)
            traits = (recency, relevance, role_score(messages), tool_score(messages), length_score(len(text)))
            score = round(_PARTS_OF_ONE * sum(map(mul, numbers, traits)))
            scores.append(score * (len(self.units) + 1) + len(scores) + 1)
        return scores


_PARTS_OF_ONE = 1_000_000
"""Scores are rounded to so many parts of 1."""

_FADING = 3.0
"""How fast recency falls: the oldest unit has exp(-3), a twentieth of the newest."""

_TROUBLE = re.compile(r"\b(?:errors?|fail(?:ed|ure|ures)|panic|exceptions?|traceback|fatal)\b")


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


def length_score(characters: int) -> float:
    """The score for being short."""
    return next((score for most, score in ((100, 1.0), (500, 0.8), (2_000, 0.6)) if characters <= most), 0.4)


def _text_of(messages: Iterable[Message]) -> str:
    """The words of a unit, calls and results among them; without reasoning, whose outcome is a call or an answer."""
    texts = []
    for message in messages:
        for part in message.parts:
            if isinstance(part, (Text, ToolResult)):
                texts.append(part.text)
            elif isinstance(part, ToolCall):
                texts.append(f"{part.name} {part.arguments}")
    return "\n".join(texts)


async def relevances_of(candidates: Candidates, task: str | None, relevance: Relevance | None) -> Sequence[float]:
    """Work out how much each unit has to do with the task, 0 to 1.

    Args:
        candidates: The units.
        task: The task in words; without it the user's first and latest words.
        relevance: How much texts have to do with the task; without it BM25.
    """
    messages, texts = candidates.context.messages, candidates.texts
    if task is None:
        latest = (index for index in last_words(messages, len(messages)) if not is_note(messages[index]))
        task = "\n".join(messages[place].text for place in dict.fromkeys((*first_task(messages), *islice(latest, 1))))
    if not texts or not task.strip():
        return [0.0] * len(texts)
    return shares(await (Bm25() if relevance is None else relevance)(task, texts), len(texts))


def _shortened(candidates: Candidates, call: Call) -> dict[int, Message]:
    """The messages of old units with long results, these results cut short; by their index in the request."""

    def cut(message: Message, result: ToolResult) -> ToolResult:
        if fits(result.text, _SHORT, call.meter.counter):
            return result
        how = Cut().pointing(call.pointer(message, result))
        return with_text(result, cut_to_tokens(joined(result), _SHORT, call.meter.counter, how))

    short: dict[int, Message] = {}
    first = {*candidates.recent, *candidates.preferred}
    for index, (unit, recency) in enumerate(zip(candidates.units, candidates.recencies, strict=True)):
        if index not in first and recency <= _OLD:
            for at in unit.places:
                message = candidates.context.messages[at]
                shorter = edit_results(message, partial(cut, message))
                if shorter is not message:
                    short[at] = shorter
    return short


CORE = 36
"""How many items around the first that greed has no room for are decided exactly."""

_STATES = 2_000
"""How many ways to fill the room are compared at a time; the bound on time."""


def choose(
    worths: Sequence[int],
    sizes: Sequence[int],
    limit: int,
    needs: Sequence[frozenset[int]] | None = None,
    first: Iterable[int] = (),
) -> tuple[int, ...]:
    """Choose the items that are worth most together, in at most ``limit`` tokens, as far as bounded time allows.

    Three ways are compared: greedily by worth for size, items that are worth the same for their size in four orders
    (last or first, small or large ones first); the same behind the single item of the highest worth; and greedily but
    for the ``CORE`` items around the first that greed has no room for, which are decided exactly (Pisinger 1995, "An
    expanding-core algorithm for the exact 0-1 knapsack problem", without the expanding). So the worth is never below
    that of greed, nor, where no item needs another, below half of the best possible; and it is the best possible for
    up to ``CORE`` items, unless more than ``_STATES`` ways stay in the running. The time grows like sorting.

    Of items that are alike the later is taken.

    Args:
        worths: What each item is worth, in any unit; not negative.
        sizes: The tokens of each.
        limit: The room, in tokens; a negative one is none.
        needs: For each, the items before it that it does not go without; these have all that they need among them.
        first: Items that come before all others as far as they fit.

    Returns:
        Indexes of the chosen items, rising.
    """
    needs = [frozenset[int]()] * len(sizes) if needs is None else needs
    limit = max(0, limit)
    rates = [-worth / size if size else -inf for worth, size in zip(worths, sizes, strict=True)]

    def fill(taken: frozenset[int], order: Iterable[int]) -> frozenset[int]:
        """Take each item in order for which there is still room, with all that it needs."""
        full, left = set(taken), limit - sum(sizes[item] for item in taken)
        for item in order:
            more = {item, *needs[item]} - full
            size = sum(sizes[each] for each in more)
            if size <= left:
                full |= more
                left -= size
        return frozenset(full)

    def worth_of(items: Iterable[int]) -> int:
        return sum(worths[item] for item in items)

    base = fill(frozenset(), first)
    others = [item for item in range(len(sizes)) if item not in base and sizes[item] <= limit]
    by_size = sorted(others, key=sizes.__getitem__)
    ties = (others[::-1], others, by_size, by_size[::-1])
    order, *orders = [sorted(items, key=rates.__getitem__) for items in ties]
    greedy = fill(base, order)
    edge = next((place for place, item in enumerate(order) if item not in greedy), None)
    if edge is None:
        return tuple(sorted(greedy))
    dearest = max(others, key=worths.__getitem__)
    ways = [greedy, *(fill(base, items) for items in (*orders, [dearest, *order]))]
    sure = fill(base, order[: max(0, min(edge - CORE // 2, len(order) - CORE))])
    rest = [item for item in order if item not in sure]
    bar = max(map(worth_of, ways)) - worth_of(sure)
    core = {item: needs[item] - sure for item in sorted(rest[:CORE]) if needs[item] <= sure.union(rest[:CORE])}
    picked = _best(core, worths, sizes, limit - sum(sizes[item] for item in sure), order[edge], bar)
    ways.append(fill(sure | picked, rest))
    return tuple(sorted(max(ways, key=worth_of)))


def _best(
    needs: Mapping[int, frozenset[int]], worths: Sequence[int], sizes: Sequence[int], room: int, edge: int, bar: int
) -> frozenset[int]:
    """Choose of a few items those that are worth most, each only with all that it needs.

    The ways to fill the room grow item by item. Of the ways that have the same of what later items need, a way stays
    that is worth more than all with no more room taken; and of these the ways that may still reach the bar if the room
    that is left is filled at the edge's worth for its size (Lagrange's bound).

    Args:
        needs: The items, each behind all that it needs, and what each needs.
        worths: What each is worth.
        sizes: The tokens of each.
        room: The room for the items.
        edge: The first item that greed had no room for.
        bar: What a choice must be worth.
    """
    bits = {item: 1 << place for place, item in enumerate(needs)}
    needed = [sum(map(bits.__getitem__, more)) for more in needs.values()]
    worth, size = worths[edge], sizes[edge]
    gains = [worths[item] * size - sizes[item] * worth for item in needs]
    ways: list[tuple[int, int, int]] = [(0, 0, 0)]  # the room taken, its worth, and the items as bits
    for place, item in enumerate(needs):
        ways += [
            (used + sizes[item], value + worths[item], taken | bits[item])
            for used, value, taken in ways
            if used + sizes[item] <= room and taken & needed[place] == needed[place]
        ]
        needed_later = sum({bits[need] for later in islice(needs, place + 1, None) for need in needs[later]})
        least = bar * size - room * worth - sum(gain for gain in gains[place + 1 :] if gain > 0)
        most: dict[int, int] = {}
        hopeful = []
        for used, value, taken in sorted(ways, key=lambda way: (way[0], -way[1])):
            if value > most.get(taken & needed_later, -1):
                most[taken & needed_later] = value
                if value * size - used * worth >= least:
                    hopeful.append((used, value, taken))
        ways = hopeful
        if len(ways) > _STATES:
            ways = sorted(ways, key=lambda way: way[0] * worth - way[1] * size)[:_STATES]
    chosen = max(ways, key=lambda way: way[1], default=(0, 0, 0))[2]
    return frozenset(item for item in needs if chosen & bits[item])


_TOPICS = 5
"""How many topics are named."""

_TOPIC_CHARACTERS = 50
"""The longest topic, in characters."""

_SHORTEST_TOPIC = 5
"""Lines shorter than this name no topic, in characters."""

_OPENING = "Earlier: "
"""How the line begins."""

_ROUND = str.maketrans("[]", "()")
"""Square brackets enclose the line: a square bracket in a topic would end it."""


def is_note(message: Message) -> bool:
    """Tell whether this is a user message of ``Pack`` about units that were left out."""
    return message.role == "user" and message.text.startswith(f"[{_OPENING}")


def dropped_line(messages: Sequence[Message]) -> str:
    """Write how many messages and calls were left out, and their first lines; empty when there are none."""
    if not messages:
        return ""
    counts = (
        (sum(len(message.calls) for message in messages), "tool call"),
        (sum(map(is_user_turn, messages)), "user message"),
        (sum(message.role == "assistant" for message in messages), "assistant message"),
    )
    parts = [f"{len(messages):,} message{'s' if len(messages) > 1 else ''} dropped"]
    parts += [f"{count:,} {name}{'s' if count > 1 else ''}" for count, name in counts if count]
    first_lines = (message.text.lstrip().split("\n", 1)[0] for message in messages)
    lines = (on_one_line(line, _TOPIC_CHARACTERS).translate(_ROUND) for line in first_lines)
    topics = islice(dict.fromkeys(line for line in lines if len(line) >= _SHORTEST_TOPIC), _TOPICS)
    named = ", ".join(topics)
    return _OPENING + "; ".join([*parts, f"topics: {named}"] if named else parts)
