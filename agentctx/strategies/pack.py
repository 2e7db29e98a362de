"""Keep the units that are worth most in the room there is."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import ClassVar, Literal

from attrs import field, frozen

from agentctx.core.budget import Budget
from agentctx.core.message import Context, Message, Text
from agentctx.core.protection import first_task, is_user_turn, last_words
from agentctx.core.units import units
from agentctx.engine.drop import aiming_below, shrink_open_round
from agentctx.engine.options import check_tokens, check_whole, limits
from agentctx.engine.relevance import Relevance
from agentctx.engine.run_stages import run_plain
from agentctx.errors import ConfigError
from agentctx.protocols import Call, Scope, Stage
from agentctx.strategies.packing import (
    Candidates,
    Traits,
    Weights,
    candidates_of,
    relevances,
    scores,
    shortened,
    still_short,
    traits_of,
)
from agentctx.tokens.graphemes import floor

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

TRIES = 3
"""How often room is made for a note before it is left out."""


@frozen
class Pack(Stage):
    """Keep the units that are worth most, wherever they stand, in exactly the room there is.

    A unit is a model's turn with all its tool results, or one other message; it is kept or dropped as a whole.
    Protected messages and the round that the model is in stay; then the last messages, as far as they fit; what room
    is left goes to the other units so that the sum of score times tokens is as high as can be found: never below
    what taking them by score would give (see ``packing``). A question counts at least as much as its answer.
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

    strategy: Strategy | Weights = "hybrid"
    task: str | None = field(default=None, kw_only=True)
    relevance: Relevance | None = field(default=None, kw_only=True)
    keep_last: int = field(default=4, kw_only=True)
    note: bool = field(default=False, kw_only=True)
    max_tokens: int | None = field(default=None, kw_only=True)
    scope: ClassVar[Scope] = Scope.PRESSURE
    needs_budget: ClassVar[bool] = True
    moves_prefix: ClassVar[bool] = True

    def __attrs_post_init__(self) -> None:
        """Check the options."""
        if not isinstance(self.strategy, Weights) and self.strategy not in tuple(STRATEGIES):
            msg = f"Pack: strategy must be Weights or one of {', '.join(STRATEGIES)}; got {self.strategy!r}"
            raise ConfigError(msg)
        check_whole("Pack: keep_last", self.keep_last, 0)
        check_tokens("Pack: max_tokens", self.max_tokens)
        self._check_relevance()

    def _check_relevance(self) -> None:
        task: object = self.task
        if task is not None and not isinstance(task, str):
            msg = f"Pack: task must be text, or None for what the user said, got {task!r}"
            raise ConfigError(msg)
        if self.relevance is not None and (not callable(self.relevance) or isinstance(self.relevance, type)):
            msg = f"Pack: relevance must be an async function (task, texts) -> numbers, got {self.relevance!r}"
            raise ConfigError(msg)

    @property
    def own_budget(self) -> Budget | None:
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
        laid_out = await run_plain(partial(self._laid_out, limit, aim), self.effort(context, call), context, call)
        relevant = await relevances(laid_out.traits, self.weights, laid_out.task, self.relevance)
        return await run_plain(partial(self._packed, laid_out, relevant), self.effort(context, call), context, call)

    def _laid_out(self, limit: int, aim: int, context: Context, call: Call) -> LaidOut:
        """What there is to choose from."""
        context, layout = shrink_open_round(context, limit, call)
        full = candidates_of(context, layout, call, aiming_below(aim, layout.floor, call), self.keep_last)
        task = task_of(context.messages) if self.task is None else self.task
        return LaidOut(context, full, [traits_of(unit.of(context.messages)) for unit in full.units], task)

    def _packed(self, laid_out: LaidOut, relevant: Sequence[float], _context: Context, call: Call) -> Context:
        """Return the context with what is worth most."""
        context, full = laid_out.context, laid_out.candidates
        packed = self._decided(context, full, scores(full, self.weights, laid_out.traits, relevant), call)
        if packed.is_whole:
            return context
        name = self.strategy if isinstance(self.strategy, str) else "own weights"
        after = packed_context(context, packed, call, f"worth less than what stays in {full.aim:,} tokens ({name})")
        for line in in_words(context, packed, name, call.size(after)):
            call.remark(line)
        return after

    def _decided(self, context: Context, full: Candidates, scores: Sequence[int], call: Call) -> Packed:
        """What stays, and how."""
        short = shortened(context, full, call) if self.strategy == "compression" else {}
        small = full.resized({index: sum(map(call.count, messages)) for index, messages in short.items()})
        chosen, note = self._chosen(context, small, scores, call)
        spare = small.room - small.tokens(chosen) - (0 if note is None else call.count(note))
        growths = {index: full.sizes[index] - small.sizes[index] for index in short}
        cut = still_short(short, chosen, growths, spare)
        return Packed(full, chosen, {index: short[index] for index in cut}, note)

    def _chosen(
        self, context: Context, small: Candidates, scores: Sequence[int], call: Call
    ) -> tuple[tuple[int, ...], Message | None]:
        """The units to keep, and the note if it is wanted, has room, and is worth what goes for it."""
        chosen = best = small.pick(scores, small.room)
        for _ in range(TRIES if self.note else 0):
            gone = left_out(context, small, chosen)
            if not gone:
                break
            note = note_of(gone)
            cost = call.count(note)
            if small.tokens(chosen) + cost <= small.room:
                lost = small.worth(scores, best) - small.worth(scores, chosen)
                return (chosen, note) if lost <= cost * max(scores) else (best, None)
            chosen = small.pick(scores, small.room - cost)
        return best, None


@frozen
class LaidOut:
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
class Packed:
    """What was decided."""

    candidates: Candidates
    chosen: tuple[int, ...]
    short: Mapping[int, tuple[Message, ...]]
    note: Message | None = None

    @property
    def is_whole(self) -> bool:
        """Whether nothing changes."""
        return len(self.chosen) == len(self.candidates.units) and not self.short


def left_out(context: Context, candidates: Candidates, chosen: Sequence[int]) -> list[Message]:
    """The messages of the units that were not chosen, but for notes of what was left out before."""
    kept = frozenset(chosen)
    gone = (unit for index, unit in enumerate(candidates.units) if index not in kept)
    return [message for unit in gone for message in unit.of(context.messages) if not is_note(message)]


def packed_context(context: Context, packed: Packed, call: Call, why: str) -> Context:
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
    return next(unit.stop for unit in units(context.messages) if task[0] in unit.places)


def in_words(context: Context, packed: Packed, strategy: str, tokens: int) -> list[str]:
    """What is said of it in the report: how much stays, and what was left out."""
    candidates = packed.candidates
    kept, free = len(packed.chosen), len(candidates.units)
    stayed = candidates.total - free
    stay = f"({stayed:,} had to stay, {len(candidates.recent):,} recent)"
    filled = f"{tokens:,} of {candidates.aim:,} tokens, {100 * tokens / candidates.aim:.1f}%"
    lines = [f"kept {stayed + kept:,} of {candidates.total:,} units {stay}; {filled}; {strategy}"]
    line = dropped_line(left_out(context, candidates, packed.chosen))
    return [*lines, line] if line else lines


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
