"""The items that go into a number of tokens: the most relevant ones, and something of every source."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from attrs import define, field

from agentctx.core.item import ContextItem
from agentctx.protocols import TokenCounter
from agentctx.sources.cut_lines import cut_lines, fits
from agentctx.sources.fence import section
from agentctx.tokens.remembering import counter_of_texts

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
        used = dict.fromkeys((item.source for item in self.items), 0)
        share = (self.max_tokens - self.used) // len(used)
        for index in self.order:
            source = self.items[index].source
            if used[source] + self._cost(index) <= share:
                used[source] += self._cost(index)
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
