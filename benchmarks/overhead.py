"""What agentctx costs, as one table of ratios that are measured in one run.

Ratios hold on a slow machine and on a busy one; seconds do not, so there are none (but for the import, which has
nothing to be compared with). Each row has a bar, and the exit code is 1 when one is missed. Run it with the ``bench``
extra installed::

    python benchmarks/overhead.py            # about two minutes
    python benchmarks/overhead.py --quick    # fewer repeats, no peers without a bar
    python benchmarks/overhead.py --json     # for machines
"""

from __future__ import annotations

import argparse
import json
import platform
import sys
from inspect import isawaitable
from statistics import median
from time import perf_counter
from typing import Any

import anyio
import ours
from attrs import asdict, frozen
from peers import Peer, peers
from rich.console import Console
from rich.table import Table
from transcript import transcript

STEPS, ROOM = 500, 64_000


@frozen
class Row:
    """One line of the table.

    Args:
        what: What is compared with what.
        measured: The ratio (milliseconds for the import).
        bar: What it must not miss; None where it is only for comparison.
        at_least: Whether the bar is a lower bound.
        how: How it was measured.
        unit: ``"x"`` or ``"ms"``.
    """

    what: str
    measured: float
    bar: float | None
    at_least: bool = False
    how: str = ""
    unit: str = "x"

    @property
    def ok(self) -> bool:
        """Whether the bar is kept."""
        if self.bar is None:
            return True
        return self.measured >= self.bar if self.at_least else self.measured <= self.bar


@frozen
class Effort:
    """How often things are measured."""

    steps: int = 300
    repeats: int = 5
    samples: int = 25
    seconds: float = 40.0
    all_peers: bool = True


QUICK = Effort(steps=100, repeats=3, samples=8, seconds=15.0, all_peers=False)


async def step_rows(effort: Effort) -> list[Row]:
    """An ordinary step: its floor is tokenizing what is new, and it must not grow with what is old."""
    few = await ours.steps(100, effort.steps, seed=1)
    many = await ours.steps(10_000, effort.steps, seed=2)
    how = f"medians of {effort.steps} steps"
    floor = Row("step with 2 new messages on 10,000 / tokenizing those 2", many.prepare / many.tokenize, 4, how=how)
    return [floor, Row("the same step on 10,000 messages / on 100", many.prepare / few.prepare, 3, how=how)]


async def loop_rows(effort: Effort) -> list[Row]:
    """A whole agent loop, beside other libraries."""
    own = median([await ours.loop(STEPS, ROOM, seed) for seed in range(10, 10 + effort.repeats)])
    bars = {"langchain-exact": 500.0, "langchain-approximate": 4.0}
    rows = []
    for key, peer in peers(ours.tokens).items():
        if key in bars or effort.all_peers:
            seconds, how = await sampled(peer, effort)
            what = f"{STEPS}-step loop in {ROOM // 1000}k: {peer.name} / agentctx"
            rows.append(Row(what, seconds / own, bars.get(key), at_least=True, how=how))
    return rows


async def sampled(peer: Peer, effort: Effort) -> tuple[float, str]:
    """The time of a peer's whole loop, from some of its steps, in seconds; and how it was found.

    Peers remember nothing between steps, so a step takes what it takes, whichever went before. The steps are spread
    evenly over the loop, also when time runs out before all of them were taken.
    """
    messages = [peer.convert(message) for message in transcript(2 + 2 * STEPS, seed=10)]
    await timed(peer, messages[:20])
    taken: list[float] = []
    began = perf_counter()
    while len(taken) < effort.samples and perf_counter() - began < effort.seconds:
        step = int(spread(len(taken)) * STEPS)
        taken.append(await timed(peer, messages[: 4 + 2 * step]))
    return sum(taken) / len(taken) * STEPS, f"estimated from {len(taken)} of {STEPS} steps"


def spread(number: int) -> float:
    """A place between 0 and 1; the first few numbers, however many, lie evenly (van der Corput's sequence)."""
    place, width = 0.0, 1.0
    number += 1
    while number:
        width /= 2
        place += width * (number % 2)
        number //= 2
    return place


async def timed(peer: Peer, messages: list[Any]) -> float:
    """One call of a peer, in seconds."""
    start = perf_counter()
    trimmed = peer.trim(messages, ROOM)
    if isawaitable(trimmed):
        await trimmed
    return perf_counter() - start


async def big_rows(effort: Effort) -> list[Row]:
    """Five megabytes at once: cut without being read to the end, and without a still event loop."""
    texts = ours.big_texts(2 * effort.repeats)
    encoding = min([ours.encode(text) for text in texts[: effort.repeats]])
    cutting = min([await ours.cut(text) for text in texts[: effort.repeats]])
    pause = median([await ours.pause(text, seed) for seed, text in enumerate(texts[effort.repeats :])])
    return [
        Row("cutting 5 MB to 1,000 tokens / encoding them", cutting / encoding, 1 / 100, how="best of each"),
        Row("longest pause of the loop while 5 MB arrive / encoding inline", pause / encoding, 1 / 5, how="median"),
    ]


def import_rows(effort: Effort) -> list[Row]:
    """What ``import agentctx`` adds to a program that has anyio and attrs."""
    best = min(ours.import_time() for _ in range(2 * effort.repeats))
    return [Row("import agentctx, beyond anyio and attrs", 1_000 * best, 60, how="processor time, best", unit="ms")]


async def measure(effort: Effort) -> list[Row]:
    """All rows, one after the other."""
    ours.tokens("warm")
    rows = [*import_rows(effort), *await step_rows(effort), *await big_rows(effort)]
    return [*rows, *await loop_rows(effort)]


def table(rows: list[Row]) -> Table:
    """The rows for people."""
    drawn = Table("what", "measured", "bar", "", "how", title="What agentctx costs")
    for row in rows:
        bar = "" if row.bar is None else f"{'at least' if row.at_least else 'at most'} {number(row.bar, row.unit)}"
        word = "" if row.bar is None else "ok" if row.ok else "MISSED"
        drawn.add_row(row.what, number(row.measured, row.unit), bar, word, row.how)
    return drawn


def number(value: float, unit: str) -> str:
    """A ratio with three figures that matter; small ones as a fraction."""
    if unit == "x" and value < 0.5:
        return f"1/{1 / value:,.0f}"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def main() -> int:
    """Measure, print, and say by the exit code whether all bars are kept."""
    parser = argparse.ArgumentParser(description="Measure what agentctx costs.")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, and only the peers that have a bar")
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    rows = anyio.run(measure, QUICK if args.quick else Effort())
    if args.json:
        about = {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()}
        print(json.dumps({**about, "rows": [{**asdict(row), "ok": row.ok} for row in rows]}, indent=2))
    else:
        Console(width=150).print(table(rows))
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
