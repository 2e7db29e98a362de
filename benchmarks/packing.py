"""How well packing fills its room, what that is worth beside greed and beside the best there is, and what it takes.

Shown by ``assembly.py``. Everything is counted with tiktoken; growth is between sizes that are measured in one run.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Sequence
from itertools import count as count_from
from statistics import mean
from time import perf_counter, process_time
from typing import Any, cast

import ours
from attrs import astuple, frozen
from rows import Row
from transcript import transcript

from agentctx import Call, Context, Pack, Pipeline
from agentctx.engine.cut import lay_out
from agentctx.strategies.pack import STRATEGIES, Candidates, Strategy, choose, relevances_of
from agentctx.tokens import TiktokenCounter
from agentctx.tokens.counting import MessageMeter

COUNTS = (100, 1_000, 10_000)
"""Units of a transcript; 10,000 have about 10 MB."""

GROWTH = 2
"""How much more a unit may cost where there are ten times as many; it would be ten if anything were quadratic."""

SMALL = 30
"""Units of a case that is small enough for its best solution to be known."""

SEEDS = count_from(100_000)
"""A seed for each transcript, so that no text was counted before."""

TASK = "why does the query of the session table wait for the lock"


@frozen
class Packing:
    """One packing of a transcript into half of its room.

    Args:
        seconds: What the stage took; everything was counted before.
        work: The same in processor time, for each token of the transcript.
        tokenize: What tokenizing the texts takes, in processor time for each token.
        filled: The part of the budget that is used.
    """

    seconds: float
    work: float
    tokenize: float
    filled: float


@frozen
class Case:
    """Units with what their tokens are worth, and the room that there is."""

    load: Candidates
    scores: Sequence[int]

    @property
    def picked(self) -> Sequence[int]:
        """The units that packing chooses."""
        return choose(self.worths, self.load.sizes, self.load.room, self.load.needs)

    def tokens(self, chosen: Iterable[int]) -> int:
        """The tokens of the chosen together."""
        return sum(self.load.sizes[index] for index in chosen)

    @property
    def worths(self) -> list[int]:
        """What each unit is worth."""
        return [score * size for score, size in zip(self.scores, self.load.sizes, strict=True)]

    def per_token(self, index: int) -> float:
        """The rank of a packer that takes a unit's score as what the whole unit is worth."""
        return self.scores[index] / self.load.sizes[index]

    def worth(self, chosen: Sequence[int]) -> int:
        """What the chosen are worth together."""
        return sum(self.scores[index] * self.load.sizes[index] for index in chosen)


def units_of(count: int, seed: int) -> list[dict[str, Any]]:
    """A transcript of about so many units: of forty messages, twenty-one are the start of one."""
    return transcript(2 + (count - 2) * 40 // 21, seed)


async def read(count: int, seed: int) -> tuple[Context, Call]:
    """A transcript as a stage gets it, all of it counted, and what the stage is told."""
    view = await Pipeline().prepare(units_of(count, seed), format="openai-chat")
    told = Call(MessageMeter(TiktokenCounter()))
    told.size(view.context)
    return view.context, told


async def packing(strategy: Strategy, count: int, seed: int) -> Packing:
    """Pack a transcript once, into half of what it takes."""
    natives = units_of(count, seed)
    start = process_time()
    tokens = ours.tokenize(natives)
    tokenize = process_time() - start
    context, told = await read(count, seed)
    limit = told.size(context) // 2
    gc.collect()
    start, worked = perf_counter(), process_time()
    after = await Pack(strategy, task=TASK, max_tokens=limit)(context, told)
    seconds, work = perf_counter() - start, process_time() - worked
    return Packing(seconds, work / tokens, tokenize / tokens, told.size(after) / limit)


async def fastest(strategy: Strategy, counts: Sequence[int], repeats: int) -> list[Packing]:
    """The best of some packings of each number of units, taking turns, each of a transcript of its own."""
    runs: list[list[Packing]] = [[] for _ in counts]
    for _ in range(repeats):
        for mine, count in zip(runs, counts, strict=True):
            mine += [await packing(strategy, count, next(SEEDS)) for _ in range(turns(count))]
    return [Packing(*map(min, zip(*map(astuple, mine), strict=True))) for mine in runs]


def turns(count: int) -> int:
    """How often a packing of so many units is run for one of 10,000."""
    return max(1, min(8, 1_000 // count))


async def case(count: int, seed: int) -> Case:
    """The units of a transcript with their worths, and half of the room that they take."""
    context, told = await read(count, seed)
    load = Candidates.of(context, lay_out(context, told), told, told.size(context) // 2, 0)
    return Case(load, load.scores(STRATEGIES["hybrid"], await relevances_of(load, TASK, None)))


def greedy(case: Case, rank: Callable[[int], float]) -> list[int]:
    """What a packer chooses that takes each unit by rank, with what it needs, for which there is still room."""
    room, chosen = case.load.room, set[int]()
    for index in sorted(range(len(case.scores)), key=rank, reverse=True):
        more = {index, *case.load.needs[index]} - chosen
        if (size := case.tokens(more)) <= room:
            room -= size
            chosen |= more
    return sorted(chosen)


def best(case: Case) -> int:
    """The most that any choice is worth that has of each unit all that it needs, by the textbook's table for trees."""
    needs, sizes = case.load.needs, case.load.sizes
    none = -1
    tables = [[0] * (case.load.room + 1), *([none] * (case.load.room + 1) for _ in sizes)]
    for index, (worth, size) in enumerate(zip(case.worths, sizes, strict=True)):
        after = next((later for later in range(index + 1, len(sizes)) if index not in needs[later]), len(sizes))
        for room, known in enumerate(tables[index]):
            if known > none:
                tables[after][room] = max(tables[after][room], known)
                if room + size <= case.load.room:
                    tables[index + 1][room + size] = max(tables[index + 1][room + size], known + worth)
    return max(tables[-1])


async def time_rows(repeats: int) -> list[Row]:
    """Packing of 100, 1,000 and 10,000 units: what it takes, how it grows, and how much of the room is filled."""
    runs = dict(zip(COUNTS, await fastest("hybrid", COUNTS, repeats), strict=True))
    rows = []
    for count, run in runs.items():
        how = f"hybrid, best of {repeats * turns(count)}"
        rows.append(Row(f"packing of {count:,} units", 1_000 * run.seconds, None, how=how, unit="ms"))
        rows.append(Row(f"packing of {count:,} units / tokenizing them", run.work / run.tokenize, 3, how=how))
        rows.append(Row(f"budget filled, {count:,} units", 100 * run.filled, 99, at_least=True, how=how, unit="%"))
    for few, many in ((100, 1_000), (1_000, 10_000)):
        grown = runs[many].work / runs[few].work
        how = "ten times the units; beyond their number"
        rows.append(Row(f"growth of packing, {few:,} to {many:,} units", grown, GROWTH, how=how))
    for strategy in STRATEGIES:
        (run,) = await fastest(cast("Strategy", strategy), (1_000,), 1)
        filled = Row(f"budget filled, {strategy}", 100 * run.filled, 99, at_least=True, how="1,000 units", unit="%")
        rows.append(filled)
    return rows


async def greed_rows(repeats: int) -> list[Row]:
    """Beside packers that are greedy: by worth for size, and by score for size, as ctxmgr does it."""
    cases = [await case(100, next(SEEDS)) for _ in range(4 * repeats)]
    how = f"100 units, {len(cases)} cases"
    rows = []
    for name, chosen in (
        ("packing", [each.picked for each in cases]),
        ("greedy by score", [greedy(each, each.scores.__getitem__) for each in cases]),
        ("greedy by score / size", [greedy(each, each.per_token) for each in cases]),
    ):
        filled = mean(each.tokens(kept) / each.load.room for each, kept in zip(cases, chosen, strict=True))
        bar = 99 if name == "packing" else None
        rows.append(Row(f"room filled on average: {name}", 100 * filled, bar, at_least=True, how=how, unit="%"))
        worth = min(each.worth(each.picked) / each.worth(kept) for each, kept in zip(cases, chosen, strict=True))
        if name != "packing":
            rows.append(Row(f"worth, packing / {name}, worst case", worth, 1, at_least=True, how=how))
    return rows


async def best_rows(repeats: int) -> list[Row]:
    """Beside the best there is, where that can be worked out."""
    cases = [await case(SMALL, next(SEEDS)) for _ in range(4 * repeats)]
    tops = [best(each) for each in cases]
    picks = [each.worth(each.picked) for each in cases]
    greeds = [each.worth(greedy(each, each.scores.__getitem__)) for each in cases]
    how = f"{SMALL} units, worst of {len(cases)} cases"
    ours_of = 100 * min(pick / top for pick, top in zip(picks, tops, strict=True))
    greed_of = 100 * min(greed / top for greed, top in zip(greeds, tops, strict=True))
    return [
        Row("worth of the best possible: packing", ours_of, 100, at_least=True, how=how, unit="%"),
        Row("worth of the best possible: greedy by score", greed_of, None, how=how, unit="%"),
    ]


async def packing_rows(repeats: int) -> list[Row]:
    """All rows of packing; what is loaded once is loaded before."""
    await case(SMALL, next(SEEDS))
    return [*await time_rows(repeats), *await greed_rows(repeats), *await best_rows(repeats)]
