"""Ask several sources at once, and keep what is worth its room."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import anyio
from anyio import CapacityLimiter, to_thread
from attrs import define, field

from agentctx.core.item import ContextItem
from agentctx.engine.relevance import coverage, raw_words
from agentctx.engine.select import each_that_fits
from agentctx.errors import ConfigError
from agentctx.protocols import ContextProvider, TokenCounter
from agentctx.sources.asking import Answer, Gathered, SourceReport
from agentctx.sources.writing import cut_lines, fits, section
from agentctx.tokens.remembering import counter_of_texts


def blended(prior: float, share: float) -> float:
    """What something is worth: half what it is worth to any task, half how much it has of this task's words."""
    return (prior + share) / 2


HEADING = "## Relevant context\n\n"
"""What stands above the items."""

LEAST = 24
"""An item is not cut to fewer tokens than this: so little of it would say nothing."""

_ATTEMPTS = 4


def prioritise(
    items: Sequence[ContextItem], max_tokens: int, *, counter: TokenCounter | Callable[[str], int] | None = None
) -> tuple[ContextItem, ...]:
    """Choose items, the most relevant first; never more than ``max_tokens`` as they are written by ``render``.

    First each source takes its most relevant items within an equal share, so that no source, however much it has,
    keeps another out. What is left over goes to whatever is most relevant. Of a source that would have nothing at
    all, the first item is cut to what is left.

    Args:
        items: The items; of equally relevant ones the earlier goes first.
        max_tokens: The room, in tokens; headings and fences are counted.
        counter: Counts tokens; without it, tiktoken's ``o200k_base``.

    Example:
        >>> from agentctx.sources import ContextItem, prioritise
        >>> items = ContextItem("old.log", "x " * 500, 0.1), ContextItem("build.log", "a comma is missing", 0.9)
        >>> [item.title for item in prioritise(items, max_tokens=100)][0]
        'build.log'
    """
    return tuple(choose(items, max_tokens, counter_of_texts(counter)).values())


def choose(items: Sequence[ContextItem], max_tokens: int, counter: TokenCounter) -> Mapping[int, ContextItem]:
    """What ``prioritise`` chooses, by its index in ``items``, the most relevant first."""
    if not items or max_tokens <= 0:
        return {}
    choice = Choice(tuple(items), max_tokens, counter)
    choice.share()
    choice.fill()
    chosen = {index: choice.taken[index] for index in choice.order if index in choice.taken}
    while chosen and counter.count(render(tuple(chosen.values()))) > max_tokens:
        chosen.popitem()
    return chosen


def render(items: Sequence[ContextItem]) -> str:
    """The items as text: a heading, and each under its source and title in a fence; empty when there are none."""
    return HEADING + "".join(map(written, items)) if items else ""


def written(item: ContextItem) -> str:
    """One item as text."""
    return section(f"[{item.source}] {item.title}" if item.source else item.title, item.content)


@define
class Choice:
    """Items being chosen.

    Args:
        items: The items.
        max_tokens: The room.
        counter: Counts tokens.
        taken: What was chosen, by its index; cut or whole.
        used: Tokens of it.
    """

    items: tuple[ContextItem, ...]
    max_tokens: int
    counter: TokenCounter
    taken: dict[int, ContextItem] = field(factory=dict)
    used: int = 0
    order: list[int] = field(init=False)
    _costs: dict[int, int] = field(factory=dict, init=False)

    def __attrs_post_init__(self) -> None:
        """Rank the items."""
        self.used = self.counter.count(HEADING)
        self.order = sorted(range(len(self.items)), key=lambda index: (-self.items[index].relevance, index))

    def share(self) -> None:
        """Let each source take what fits its share, best first."""
        of_source: dict[str, list[int]] = defaultdict(list)
        for index in self.order:
            of_source[self.items[index].source].append(index)
        share = (self.max_tokens - self.used) // len(of_source)
        for indexes in of_source.values():
            for index in each_that_fits(indexes, self._cost, share):
                self._take(index, self.items[index], self._cost(index))

    def fill(self) -> None:
        """Give what is left to the most relevant; cut the first item of a source that has nothing yet."""
        sources = {self.items[index].source for index in self.taken}
        for index in self.order:
            item, room = self.items[index], self.max_tokens - self.used
            if index in self.taken:
                continue
            if self._cost(index) <= room:
                self._take(index, item, self._cost(index))
            elif item.source not in sources and (shorter := shortened(item, room, self.counter)) is not None:
                self._take(index, shorter, self.counter.count(written(shorter)))
            else:
                continue
            sources.add(item.source)

    def _take(self, index: int, item: ContextItem, cost: int) -> None:
        self.taken[index] = item
        self.used += cost

    def _cost(self, index: int) -> int:
        """Tokens of an item as it is written; of one that is larger than all the room, only that it is."""
        if index not in self._costs:
            text = written(self.items[index])
            fitting = fits(text, self.max_tokens, self.counter)
            self._costs[index] = self.counter.count(text) if fitting else self.max_tokens + 1
        return self._costs[index]


def shortened(item: ContextItem, max_tokens: int, counter: TokenCounter) -> ContextItem | None:
    """The item cut so that it is written in ``max_tokens``; None when too little of it would be left."""
    room = max_tokens - counter.count(written(item.saying("")))
    for _ in range(_ATTEMPTS):
        if room < LEAST:
            return None
        content = cut_lines(item.content, room, counter, item.keep)
        if not content:
            return None
        shorter = item.saying(content)
        excess = counter.count(written(shorter)) - max_tokens
        if excess <= 0:
            return shorter
        room -= excess
    return None


async def gather(
    providers: Sequence[ContextProvider],
    query: str = "",
    *,
    max_tokens: int | None = None,
    deadline: float | None = 5.0,
    counter: TokenCounter | Callable[[str], int] | None = None,
    on: tuple[type[Exception], ...] = (Exception,),
) -> Gathered:
    """Ask all providers at the same time, and choose from what they found.

    One that fails, hangs or returns nonsense costs only itself, and the result says so. Each item is worth what its
    provider says and, when there is a query, how many of the query's words it has.

    Args:
        providers: The sources. What one finds is cut to its ``max_tokens``, when it says any.
        query: The task, in words.
        max_tokens: The most tokens of the text that comes out; None takes everything.
        deadline: How long each may take, in seconds; None waits for ever. An async provider must not block the
            event loop; one that is not async runs in a thread, which cannot be stopped but is not waited for.
        counter: Counts tokens; without it, tiktoken's ``o200k_base``.
        on: The errors of a provider that cost only itself.

    Raises:
        ConfigError: If a number or the counter makes no sense.

    Example:
        >>> from agentctx.sources import ContextItem, gather
        >>> def logs(query):
        ...     return [ContextItem("build.log", "a comma is missing")]
        >>> gathered = await gather([logs], "Why does the build fail?", max_tokens=500)
        >>> [item.title for item in gathered.items]
        ['build.log']
    """
    if (deadline is not None and not deadline > 0) or (max_tokens is not None and max_tokens < 0):
        msg = f"gather: expected a positive deadline and no negative number of tokens, got {deadline}, {max_tokens}"
        raise ConfigError(msg)
    answers = [Answer(provider) for provider in providers]
    threads = CapacityLimiter(max(1, len(answers)))
    async with anyio.create_task_group() as tasks:
        for answer in answers:
            tasks.start_soon(answer.ask, query, deadline, on, threads)
    weigh = partial(_weigh, answers, query, max_tokens, counter_of_texts(counter))
    return await to_thread.run_sync(weigh)


@define
class _Piece:
    """An item on its way.

    Args:
        answer: Whose it is.
        whole: As it was found.
        item: As it fits its provider's room; None when it does not.
    """

    answer: Answer
    whole: ContextItem
    item: ContextItem | None


def _weigh(answers: Sequence[Answer], query: str, max_tokens: int | None, counter: TokenCounter) -> Gathered:
    """Cut, rank and choose what was found."""
    found = _weighed([item for answer in answers for item in answer.items], query)
    owners = [answer for answer in answers for _ in answer.items]
    pieces = [_Piece(answer, item, item) for answer, item in zip(owners, found, strict=True)]
    for answer in answers:
        _hold(answer, [piece for piece in pieces if piece.answer is answer], counter)
    fitting = [(index, piece.item) for index, piece in enumerate(pieces) if piece.item is not None]
    items = [item for _, item in fitting]
    if max_tokens is None:
        order = sorted(range(len(items)), key=lambda index: (-items[index].relevance, index))
        chosen: Mapping[int, ContextItem] = {index: items[index] for index in order}
    else:
        chosen = choose(items, max_tokens, counter)
    return _gathered(answers, pieces, {fitting[index][0]: item for index, item in chosen.items()}, counter)


def _hold(answer: Answer, pieces: Sequence[_Piece], counter: TokenCounter) -> None:
    """Keep what a provider found within the room that it asks for, the most relevant of it."""
    room = answer.max_tokens
    if room is None:
        return
    for piece in sorted(pieces, key=lambda piece: -piece.whole.relevance):
        piece.item = _fitted(piece.whole, room, counter)
        room -= 0 if piece.item is None else counter.count(written(piece.item))


def _fitted(item: ContextItem, room: int, counter: TokenCounter) -> ContextItem | None:
    return item if room > 0 and fits(written(item), room, counter) else shortened(item, room, counter)


def _weighed(items: Sequence[ContextItem], query: str) -> Sequence[ContextItem]:
    if not raw_words(query):
        return items
    shares = coverage(query, [f"{item.title}\n{item.content}" for item in items])
    return [item.worth(blended(item.relevance, share)) for item, share in zip(items, shares, strict=True)]


def _gathered(
    answers: Sequence[Answer], pieces: Sequence[_Piece], chosen: Mapping[int, ContextItem], counter: TokenCounter
) -> Gathered:
    items = tuple(chosen.values())
    text = render(items)
    left_out = tuple(piece.whole for index, piece in enumerate(pieces) if index not in chosen)
    reports = tuple(
        _report(answer, [(pieces[index], item) for index, item in chosen.items()], counter) for answer in answers
    )
    return Gathered(items, left_out, text, counter.count(text), reports)


def _report(answer: Answer, chosen: Sequence[tuple[_Piece, ContextItem]], counter: TokenCounter) -> SourceReport:
    mine = [(piece, item) for piece, item in chosen if piece.answer is answer]
    return SourceReport(
        name=answer.name,
        description=answer.description,
        outcome=answer.outcome,
        problem=answer.problem,
        found=len(answer.items),
        chosen=len(mine),
        cut=sum(item.content != piece.whole.content for piece, item in mine),
        tokens=sum(counter.count(written(item)) for _, item in mine),
        seconds=answer.seconds,
    )
