"""What agentctx costs, as one table of ratios that are measured in one run.

Ratios hold on a slow machine and on a busy one; seconds do not, so there are none, but for the import and for what an
event loop is held at a time, which have nothing to be compared with. Each row has a bar, and the exit code is 1 when
one is missed. Run it with the ``bench`` extra installed::

    python benchmarks/overhead.py               # a few minutes, most of them for the other libraries
    python benchmarks/overhead.py --quick       # fewer repeats, and of the other libraries only those with a bar
    python benchmarks/overhead.py --no-peers    # without other libraries; the cli extra is enough
    python benchmarks/overhead.py --json        # for machines; --markdown for README.md
"""

from __future__ import annotations

import argparse
import sys
from statistics import median
from time import perf_counter, thread_time

import anyio
import ours
from attrs import evolve
from rows import QUICK, Effort, Row, as_json, markdown, show
from transcript import transcript

from agentctx import PlaceCacheMarkers


async def step_rows(effort: Effort) -> list[Row]:
    """An ordinary step: its floor is tokenizing what is new, and it must not grow with what is old."""
    made_of = ours.pipeline(128_000)
    few, many = await ours.steps([(100, made_of), (10_000, made_of)], effort.steps)
    how = f"medians of {effort.steps} steps"
    floor = Row("step with 2 new messages on 10,000 / tokenizing those 2", many.prepare / many.tokenize, 8, how=how)
    return [floor, Row("the same step on 10,000 messages / on 100", many.prepare / few.prepare, 3, how=how)]


async def marker_rows(effort: Effort) -> list[Row]:
    """A step at whose end the cache markers move on: also when thousands of messages stand in the view."""
    marking, whole = ours.pipeline(128_000, PlaceCacheMarkers()), 20_000_000
    few, many = await ours.steps([(100, marking), (10_000, marking)], effort.steps, ours.MARKED)
    all_in_view = [ours.pipeline(whole, *more) for more in ((), (PlaceCacheMarkers(),))]
    bare, marked = await ours.steps([(10_000, each) for each in all_in_view], effort.steps, ours.MARKED)
    how, ratio = f"medians of {effort.steps} steps", many.prepare / few.prepare
    return [
        Row("the same step with cache markers placed, on 10,000 messages / on 100", ratio, None, how=how),
        Row("a step with all 10,000 in the view: markers placed / not", marked.prepare / bare.prepare, None, how=how),
    ]


async def big_rows(effort: Effort) -> list[Row]:
    """Five megabytes at once: cut without being read to the end, and without a still event loop."""
    texts = ours.big_texts(2 * effort.repeats)
    encoding = min([ours.encode(text) for text in texts[: effort.repeats]])
    cutting = min([await ours.cut(text) for text in texts[: effort.repeats]])
    pause = median([await ours.pause(text, seed) for seed, text in enumerate(texts[effort.repeats :])])
    return [
        Row("cutting 5 MB to 1,000 tokens / encoding them", cutting / encoding, None, how="best of each"),
        Row("longest pause of the loop while 5 MB arrive / encoding inline", pause / encoding, None, how="median"),
    ]


async def held_rows(effort: Effort) -> list[Row]:
    """How long the event loop is held, and waited for, while a million tokens arrive: in many messages, and in few."""
    rows = []
    for clock, what, how in (
        (thread_time, "longest hold of the loop", "processor time of the loop's thread, median"),
        (perf_counter, "longest wait for the loop", "time on the wall, garbage collection included, median"),
    ):
        many = median([await ours.held(ours.transcript(6_000, seed), clock) for seed in range(effort.repeats)])
        few = median([await ours.held(ours.few_and_big(seed), clock) for seed in range(effort.repeats)])
        for seconds, where in ((many, "6,000 messages"), (few, "3 tool outputs")):
            rows.append(Row(f"{what} while 1M tokens arrive in {where}", 1_000 * seconds, 10, how=how, unit="ms"))
    return rows


async def object_rows() -> list[Row]:
    """What the garbage collector has to look at: how long it holds everything up depends on that."""
    kept = await ours.objects(2_000)
    return [Row("objects for the garbage collector", kept, 8, how="a message that a session keeps", unit="a message")]


def import_rows(effort: Effort) -> list[Row]:
    """What agentctx adds to a program that has anyio and attrs: at once, and with the names that a user imports."""
    package, names = (
        min(ours.import_time(statement) for _ in range(2 * effort.repeats))
        for statement in (ours.PACKAGE, ours.QUICK_START)
    )
    repeats, long = 2 * effort.repeats, transcript(200)
    first, more = (min(ours.first_prepare(messages) for _ in range(repeats)) for messages in ((), long))
    how = "processor time beyond anyio and attrs, best"
    return [
        Row("import agentctx", 1_000 * package, None, how=how, unit="ms"),
        Row("from agentctx import ... (the names of the quick start)", 1_000 * names, 120, how=how, unit="ms"),
        Row("the first prepare of a program", 1_000 * first, 400, how="processor time, best", unit="ms"),
        Row("the same of 200 messages", 1_000 * more, None, how="processor time, best", unit="ms"),
    ]


async def measure(effort: Effort) -> list[Row]:
    """All rows, one after the other."""
    ours.tokens("warm")
    rows = [*import_rows(effort), *await object_rows(), *await step_rows(effort), *await marker_rows(effort)]
    rows += [*await big_rows(effort), *await held_rows(effort)]
    if effort.peers:
        from loops import loop_rows, stateless_rows  # noqa: PLC0415 - only these rows need other libraries

        rows += [*await stateless_rows(effort), *await loop_rows(effort)]
    return rows


def main() -> int:
    """Measure, print, and say by the exit code whether all bars are kept."""
    parser = argparse.ArgumentParser(description="Measure what agentctx costs.")
    parser.add_argument("--quick", action="store_true", help="fewer repeats, and only the peers that have a bar")
    parser.add_argument("--no-peers", action="store_true", help="leave other libraries out")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON instead of a table")
    shape.add_argument("--markdown", action="store_true", help="print a table for README.md")
    args = parser.parse_args()
    effort = QUICK if args.quick else Effort()
    rows = anyio.run(measure, evolve(effort, peers=not args.no_peers))
    if args.json or args.markdown:
        print(as_json(rows) if args.json else markdown(rows))
    else:
        show(rows, "What agentctx costs")
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
