"""What it takes to build a request of blocks or to pack one, and how well it fills the budget, as one table.

Growth and shares hold on a slow machine and on a busy one, since they are of processor time; seconds do not, so they
stand there without a bar. The exit code is 1 when a bar is missed. Run it with the ``bench`` extra installed::

    python benchmarks/assembly.py            # about a minute
    python benchmarks/assembly.py --quick    # fewer repeats
    python benchmarks/assembly.py --json     # for machines
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Awaitable, Callable, Sequence
from itertools import count as count_from
from statistics import mean
from time import perf_counter, process_time

import anyio
import ours
from attrs import astuple, evolve, frozen
from packing import packing_rows
from rows import Row, as_json, show
from transcript import transcript

from agentctx import ContextStrategy
from agentctx.builder import Block, ContextBuilder, Tier, TierRule, allocate
from agentctx.strategies import Drop, DropTail, TruncateOldest

MESSAGES = 20
"""Messages of a block, about 10 kB of text together."""

SEEDS = count_from(1_000)
"""A seed for each transcript, so that no text was counted before."""

GROWTH = 20
"""The most that ten times the work may cost; it would be a hundred if anything were quadratic."""

EVICTIONS: tuple[ContextStrategy, ...] = (TruncateOldest(), DropTail(), Drop(), TruncateOldest(keep_pairs=True))
RULES = (TierRule(Tier.CORE, share=0.2), TierRule(Tier.RAG, share=0.3), TierRule(Tier.HISTORY, floor=2_000))


@frozen
class Built:
    """What building once took and gave.

    Args:
        first: Seconds of the first build, in which everything is read and counted.
        again: Seconds of a later one.
        work: The first build, in processor time for each token of all blocks.
        later: The later one, in processor time.
        tokenize: Tokenizing the texts of all blocks and nothing else, in processor time for each token.
        filled: The part of the budget that was used.
    """

    first: float
    again: float
    work: float
    later: float
    tokenize: float
    filled: float


def blocks(count: int, messages: int, seed: int) -> list[Block]:
    """Blocks of all tiers and evictions, each a piece of an agent's transcript."""
    made = transcript(2 + count * messages, seed)[2:]
    pieces = [made[start : start + messages] for start in range(0, len(made), messages)]
    return [
        Block(f"block {place}", piece, 1 + place % 4, EVICTIONS[place // 4 % 4]) for place, piece in enumerate(pieces)
    ]


async def built(given: Sequence[Block]) -> Built:
    """Build several times of the same blocks, in half of the room that they would take."""
    natives = [message for block in given for message in block.messages]
    gc.collect()
    started = process_time()
    tokens = ours.tokenize(natives)
    tokenize = process_time() - started
    builder = ContextBuilder(tokens // 2, format="openai-chat", tiers=RULES).add(*given)
    times = [await timed(builder) for _ in range(4)]
    report = (await builder.build()).report
    (first, work), later = times[0], times[1:]
    return Built(
        first=first,
        again=min(seconds for seconds, _ in later),
        work=work / tokens,
        later=min(processor for _, processor in later),
        tokenize=tokenize / tokens,
        filled=report.tokens / report.limit,
    )


async def timed(builder: ContextBuilder) -> tuple[float, float]:
    """Seconds and processor time of a build."""
    started, worked = perf_counter(), process_time()
    await builder.build()
    return perf_counter() - started, process_time() - worked


async def taking_turns(sizes: Sequence[tuple[int, int]], repeats: int) -> list[Built]:
    """The best of some builds of each size, and their mean fill.

    They take turns, each on a transcript of its own, and short ones come more often: so what else the machine does
    hits all sizes alike, and each has a run that it does not hit. Best is the best of each number by itself; the
    lowest of ratios would be of a run whose tokenizing was held up.

    Args:
        sizes: Blocks, and messages of a block.
        repeats: Runs of the largest.
    """
    runs: list[list[Built]] = [[] for _ in sizes]
    for _ in range(repeats):
        for mine, (count, messages) in zip(runs, sizes, strict=True):
            mine += [await built(blocks(count, messages, next(SEEDS))) for _ in range(turns(count * messages))]
    return [best(mine) for mine in runs]


def turns(messages: int) -> int:
    """How often a build of so many messages is run for one of 10,000."""
    return max(1, min(8, 2_000 // messages))


def best(runs: Sequence[Built]) -> Built:
    """The lowest of each number, and the mean fill."""
    lowest = Built(*map(min, zip(*map(astuple, runs), strict=True)))
    return evolve(lowest, filled=mean(run.filled for run in runs))


async def block_rows(repeats: int) -> list[Row]:
    """Building of 5, 50 and 500 blocks: what it takes, how it grows, and how much of the budget is filled."""
    counts = (5, 50, 500)
    runs = dict(zip(counts, await taking_turns([(count, MESSAGES) for count in counts], repeats), strict=True))
    rows = []
    for count, run in runs.items():
        how = f"{count * MESSAGES:,} messages, best of {repeats * turns(count * MESSAGES)}"
        rows.append(Row(f"build of {count} blocks, first time", 1_000 * run.first, None, how=how, unit="ms"))
        rows.append(Row(f"build of {count} blocks, again", 1_000 * run.again, None, how=how, unit="ms"))
        rows.append(Row(f"build of {count} blocks / tokenizing them", run.work / run.tokenize, 3, how=how))
        least = 97 if count == 5 else 99
        rows.append(Row(f"budget filled, {count} blocks", 100 * run.filled, least, at_least=True, how=how, unit="%"))
    for few, many in ((5, 50), (50, 500)):
        grown = (runs[many].work / runs[many].tokenize) / (runs[few].work / runs[few].tokenize)
        how = "ten times the blocks; beyond tokenizing"
        rows.append(Row(f"growth of the first build, {few} to {many} blocks", grown, 1.6, how=how))
    grown = runs[500].later / runs[50].later
    rows.append(Row("growth of a later build, 50 to 500 blocks", grown, GROWTH, how="ten times the blocks"))
    return rows


async def size_rows(repeats: int) -> list[Row]:
    """One block of 1,000 and of 10,000 messages (5 MB)."""
    few, many = await taking_turns([(1, 1_000), (1, 10_000)], repeats)
    grown = (many.work / many.tokenize) / (few.work / few.tokenize)
    how = "one block, oldest first"
    return [
        Row("build of 10,000 messages, 5 MB, first time", 1_000 * many.first, None, how=how, unit="ms"),
        Row("build of 10,000 messages / tokenizing them", many.work / many.tokenize, 3, how=how),
        Row("growth of the first build, 1,000 to 10,000 messages", grown, 1.6, how="beyond tokenizing"),
        Row("growth of a later build, 1,000 to 10,000 messages", many.later / few.later, GROWTH, how="ten times"),
        Row("budget filled, one block", 100 * many.filled, 99, at_least=True, how=how, unit="%"),
    ]


async def allocation_rows(repeats: int) -> list[Row]:
    """The allocation alone, by shares: it grows with the claims, and not with the tokens."""

    def processor(claims: int, limit: int) -> float:
        rules = [TierRule(place % 7, floor=place % 13, share=0.9 / claims) for place in range(claims)]
        sizes = [1 + (place * 7919) % (2 * limit // claims) for place in range(claims)]
        times = []
        for _ in range(3 * repeats):
            start = process_time()
            allocate(sizes, rules, limit)
            times.append(process_time() - start)
        return min(times)

    few, many = processor(500, 1_000_000), processor(5_000, 1_000_000)
    return [
        Row("growth of allocate, 500 to 5,000 claims", many / few, GROWTH, how="ten times"),
        Row("growth of allocate, 1 to 1,000 million tokens", processor(500, 1_000_000_000) / few, 2, how="500 claims"),
    ]


SECTIONS: tuple[Callable[[int], Awaitable[list[Row]]], ...] = (block_rows, size_rows, allocation_rows, packing_rows)
"""What is measured, in order; each function is told how often to repeat."""


async def measure(repeats: int) -> list[Row]:
    """All rows, one section after the other."""
    ours.tokens("warm")
    return [row for section in SECTIONS for row in await section(repeats)]


def main() -> int:
    """Measure, print, and say by the exit code whether all bars are kept."""
    parser = argparse.ArgumentParser(description="Measure building requests of blocks.")
    parser.add_argument("--quick", action="store_true", help="fewer repeats")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    rows = anyio.run(measure, 2 if args.quick else 5)
    if args.json:
        print(as_json(rows))
    else:
        show(rows, "Building and packing requests")
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
