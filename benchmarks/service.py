"""agentctx in a service: hundreds of conversations at once in one process, each with a model that is a fake.

What a step takes is measured as a user of the service would notice it: on the wall, from the call of ``prepare`` until
its view is there, while all other conversations go on. Such times say little on a machine that has other work to do,
so the table also says how long the event loop's thread stood ready and was not given a processor. The exit code is 1
when a bar is missed. Run it with the ``bench`` or the ``cli`` extra installed::

    python benchmarks/service.py                  # about a minute
    python benchmarks/service.py --quick          # a third of that
    python benchmarks/service.py --backend trio
    python benchmarks/service.py --json           # for machines; --markdown for README.md
"""

from __future__ import annotations

import argparse
import gc
import random
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from statistics import quantiles
from time import perf_counter, process_time, thread_time
from typing import Any

import anyio
import ours
from attrs import define, field, frozen
from rows import Row, as_json, markdown, show
from transcript import transcript

WINDOW = 16_000
"""Tokens: about 90 messages, so that most conversations are cut now and then."""

OLD = 60
"""The most messages that a conversation has when it comes in."""

FEW, MANY = 200, 1_000
"""Conversations at once."""

PER_SECOND = 500
"""Steps that the conversations ask for together, when the model answers in the time that it is given."""

COLD, LONG = 20, 2_000
"""Conversations that come in together, and the messages that each of them has then."""


@frozen
class Effort:
    """How long things are measured.

    Args:
        seconds: For which steps are timed.
        repeats: How often long conversations come in.
    """

    seconds: float = 10.0
    repeats: int = 3


def say(what: str) -> None:
    """Tell on stderr how far it is."""
    print(what, file=sys.stderr, flush=True)


@define
class Service:
    """Conversations that go on until they are told to stop, and what each of their steps took, in seconds.

    Args:
        conversations: How many.
        answer: Seconds that the model takes on average; 0 when it answers at once.
        seconds: For how long they need messages.
        seed: Another number, other texts.
    """

    conversations: int
    answer: float
    seconds: float
    seed: int
    taken: list[float] = field(factory=list)
    transcripts: list[list[dict[str, Any]]] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Make all texts beforehand, each new: none is known from before."""
        steps = int(1.5 * self.seconds / self.answer) if self.answer else 60
        first = 10_000 * self.seed
        self.transcripts = [transcript(OLD + 2 * steps, first + each) for each in range(self.conversations)]

    async def converse(self, number: int) -> None:
        """One conversation after the other: two messages, a prepared call, an answer, and again."""
        rng = random.Random(number)  # noqa: S311 - the same numbers every time
        await anyio.sleep(rng.random() * self.answer)
        while True:
            await self._whole(self.transcripts[number], rng)

    async def _whole(self, made: list[dict[str, Any]], rng: random.Random) -> None:
        session = ours.pipeline(WINDOW).session()
        for end in range(2 * rng.randint(1, OLD // 2), len(made), 2):
            messages = made[:end]
            start = perf_counter()
            view = await session.prepare(messages)
            self.taken.append(perf_counter() - start)
            await anyio.sleep(self.answer * rng.uniform(0.5, 1.5))
            session.record({"prompt_tokens": round(1.02 * view.report.tokens_after), "completion_tokens": 100})

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """All conversations go on inside; they came in before, over the time of one answer.

        The garbage collector does not look at the texts of this benchmark, which no service has in advance.
        """
        gc.collect()
        gc.freeze()
        async with anyio.create_task_group() as group:
            for number in range(self.conversations):
                group.start_soon(self.converse, number)
            await anyio.sleep(1.5 * self.answer)
            self.taken.clear()
            yield
            group.cancel_scope.cancel()
        gc.unfreeze()


@frozen
class Spent:
    """What some time was spent on, in seconds.

    Args:
        wall: How long it was.
        loop: Processor time of the event loop's thread.
        process: Processor time of all threads.
        kept_waiting: For how long the event loop's thread was ready and had no processor; None when it is not known.
    """

    wall: float
    loop: float
    process: float
    kept_waiting: float | None

    @classmethod
    def until_now(cls) -> Spent:
        """Since the process, or the thread, began."""
        return cls(perf_counter(), thread_time(), process_time(), kept_waiting())

    def since(self, before: Spent) -> Spent:
        """What was spent since then."""
        known = None not in (self.kept_waiting, before.kept_waiting)
        waited = (self.kept_waiting or 0) - (before.kept_waiting or 0) if known else None
        return Spent(self.wall - before.wall, self.loop - before.loop, self.process - before.process, waited)


def kept_waiting() -> float | None:
    """Seconds for which this thread was ready and other programs, or other threads, had the processors; on Linux."""
    file = Path(f"/proc/self/task/{threading.get_native_id()}/schedstat")
    return int(file.read_text().split()[1]) / 1e9 if file.exists() else None


def spread(taken: Sequence[float]) -> tuple[float, float, float]:
    """Half, 95 and 99 of a hundred steps took at most so many milliseconds."""
    found = quantiles(taken, n=100)
    return 1_000 * found[49], 1_000 * found[94], 1_000 * found[98]


async def going_on(service: Service, what: str, bars: tuple[float | None, float | None]) -> list[Row]:
    """Rows about conversations that go on; the bars are for 95 and for 99 of a hundred steps."""
    async with service.running():
        before = Spent.until_now()
        await anyio.sleep(service.seconds)
        spent, taken = Spent.until_now().since(before), list(service.taken)
    half, most, nearly_all = spread(taken)
    how = f"{len(taken):,} steps in {spent.wall:.0f} s"
    waited = "" if spent.kept_waiting is None else f"; {100 * spent.kept_waiting / spent.wall:.0f} % kept waiting"
    share = f"the event loop's thread {100 * spent.loop / spent.wall:.0f} % of a core{waited}"
    return [
        Row(f"{what}: prepares a second", len(taken) / spent.wall, None, how=share, unit="/s"),
        Row(f"{what}: half of the steps take at most", half, None, how=how, unit="ms"),
        Row(f"{what}: 95 of 100", most, bars[0], how=how, unit="ms"),
        Row(f"{what}: 99 of 100", nearly_all, bars[1], how=how, unit="ms"),
        Row(f"{what}: the longest", 1_000 * max(taken), None, how=how, unit="ms"),
    ]


async def service_rows(effort: Effort) -> list[Row]:
    """Steps of few and of many conversations, at the same pace together; and of few with a model that is never slow."""
    rows = []
    for number, (many, answer, what, bars) in enumerate(
        (
            (FEW, FEW / PER_SECOND, f"{FEW} conversations", (2.0, None)),
            (MANY, MANY / PER_SECOND, f"{MANY:,} conversations", (None, None)),
            (FEW, 0.0, f"{FEW} conversations, no pause", (None, None)),
        )
    ):
        say(f"{what} …")
        rows += await going_on(Service(many, answer, effort.seconds, seed=number + 1), what, bars)
    return rows


@define
class ColdStart:
    """Long conversations that come in at the same time.

    Args:
        transcripts: What each of them brings.
        ready: Seconds after which each had its first view, in the order in which they had it.
        alone: Seconds that one takes by itself.
    """

    transcripts: list[list[dict[str, Any]]]
    ready: list[float] = field(factory=list)

    async def come_in(self) -> None:
        """All of them, at once."""
        self.ready.clear()
        start = perf_counter()
        async with anyio.create_task_group() as group:
            for messages in self.transcripts:
                group.start_soon(self._first_step, messages, start)

    async def _first_step(self, messages: list[dict[str, Any]], start: float) -> None:
        await ours.pipeline(128_000).session().prepare(messages)
        self.ready.append(perf_counter() - start)


async def cold_rows(effort: Effort) -> list[Row]:
    """What others notice of conversations of thousands of messages that come in at once, and when those are ready."""
    say(f"{COLD} conversations of {LONG:,} messages come in …")
    quiet, while_cold, colds = [], [], []
    for time in range(effort.repeats):
        service = Service(FEW, FEW / PER_SECOND, effort.seconds, seed=9 + time)
        cold = ColdStart([transcript(LONG, 500_000 + COLD * time + each) for each in range(COLD)])
        async with service.running():
            await anyio.sleep(effort.seconds / 3)
            quiet.append(list(service.taken))
            service.taken.clear()
            await cold.come_in()
            while_cold.append(list(service.taken))
        colds.append(cold)
    first = min(cold.ready[0] for cold in colds)
    last = min(cold.ready[-1] for cold in colds)
    best, calm = min(while_cold, key=max), min(quiet, key=max)
    how = f"best of {effort.repeats}, {len(best):,} steps of {FEW} other conversations"
    what = f"{COLD} of {LONG:,} messages come in"
    return [
        Row("nobody comes in: the longest step", 1_000 * max(calm), None, how=f"{len(calm):,} steps", unit="ms"),
        Row(f"{what}: half of the others' steps take at most", spread(best)[0], None, how=how, unit="ms"),
        Row(f"{what}: 99 of 100", spread(best)[2], None, how=how, unit="ms"),
        Row(f"{what}: the longest", 1_000 * max(best), None, how=how, unit="ms"),
        Row(f"{what}: the first is ready", 1_000 * first, None, how=f"best of {effort.repeats}", unit="ms"),
        Row(f"{what}: the last is ready", 1_000 * last, None, how=f"best of {effort.repeats}", unit="ms"),
        Row("the first is ready / the last", first / last, None, how="each the best"),
    ]


async def measure(effort: Effort) -> list[Row]:
    """All rows, one after the other."""
    ours.tokens("warm")
    return [*await service_rows(effort), *await cold_rows(effort)]


def main() -> int:
    """Measure, print, and say by the exit code whether all bars are kept."""
    parser = argparse.ArgumentParser(description="Measure agentctx in a service.")
    parser.add_argument("--quick", action="store_true", help="for a shorter time")
    parser.add_argument("--backend", default="asyncio", choices=("asyncio", "trio"), help="the event loop")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON instead of a table")
    shape.add_argument("--markdown", action="store_true", help="print a table for README.md")
    args = parser.parse_args()
    effort = Effort(seconds=3.0, repeats=1) if args.quick else Effort()
    rows = anyio.run(partial(measure, effort), backend=args.backend)
    if args.json or args.markdown:
        print(as_json(rows, backend=args.backend) if args.json else markdown(rows))
    else:
        show(rows, f"agentctx in a service, on {args.backend}")
    return 0 if all(row.ok for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
