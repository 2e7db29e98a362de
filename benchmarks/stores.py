"""What the stores take: contents, states and histories, by size, by how many conversations, and as they grow.

Each store is the real one, with a server of its own on this machine where it needs one. Times are on the wall, from the
call to its answer; processor time is that of this process. Run it with the ``dev`` extra installed::

    python benchmarks/stores.py                  # some minutes
    python benchmarks/stores.py --quick          # a fifth of that
    python benchmarks/stores.py --only sqlite    # one store
    python benchmarks/stores.py --sessions       # sessions alone
    python benchmarks/stores.py --backend trio
    python benchmarks/stores.py --json           # for machines; --markdown for README.md
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from time import perf_counter, process_time

import anyio
from attrs import define, field
from rows import Row, as_json, markdown, show

from agentctx import Budget, FitContextWindow, Pipeline, Sessions, TruncateToolOutputs
from agentctx.protocols import StateSnapshot
from agentctx.recall import Recall
from agentctx.stores import ConversationStore, MemoryStore, PostgresStore, RedisStore, SQLiteStore

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "stores"))
import servers

SIZES = {"1 KB": 1_000, "30 KB": 30_000, "5 MB": 5_000_000}
"""How large contents are."""

LONG = 500
"""Messages that a history has when saving a step is measured, and pieces that a state has got then."""

STEP = 6_000
"""Bytes of a state that a step changes."""

MANY = 1_000
"""Conversations at once."""

BAR = 0.5
"""Milliseconds of processor time that saving a step may take."""

MOST_BYTES = 10_000
"""Bytes that saving a step of a session may write, at the median."""


async def timed(times: int, call: Callable[[int], Awaitable[object]]) -> tuple[float, float, float]:
    """Milliseconds of a call: the median, the 99th of a hundred, and of processor time the median."""
    walls, processor = [], []
    for turn in range(times):
        begun, worked = perf_counter(), process_time()
        await call(turn)
        walls.append((perf_counter() - begun) * 1_000)
        processor.append((process_time() - worked) * 1_000)
    return median(walls), quantiles(walls, n=100)[98], median(processor)


def rows_of(what: str, measured: tuple[float, float, float], bar: float | None = None) -> list[Row]:
    """The lines of one measurement."""
    wall, slow, processor = measured
    how = f"p99 {slow:.2f} ms"
    lines = [Row(what, wall, None, how=how, unit="ms")]
    return lines if bar is None else [*lines, Row(f"{what}, processor time", processor, bar, unit="ms")]


async def contents(name: str, store: ConversationStore, times: int) -> list[Row]:
    """Putting, getting and searching contents."""
    chosen, rows = random.Random(1), []  # noqa: S311 - contents to measure with
    for size, amount in SIZES.items():
        many = max(5, min(times, 20_000_000 // amount))
        given = [chosen.randbytes(amount // 2).hex().encode() for _ in range(many)]
        handles = []

        async def put(turn: int, given: list[bytes] = given, handles: list[str] = handles) -> None:
            handles.append(await store.for_conversation(f"c{turn % 10}").put(given[turn]))

        async def get(turn: int, handles: list[str] = handles) -> None:
            await store.for_conversation(f"c{turn % 10}").get(handles[turn])

        rows += rows_of(f"{name}: put {size}", await timed(many, put))
        rows += rows_of(f"{name}: get {size}", await timed(many, get))
    part = store.for_conversation("log")
    for number in range(100):
        await part.put(f"line {number} of a log that says needle{number} and more\n".encode() * 20)

    async def search(turn: int) -> None:
        found = await Recall(store, conversation="log")({"search": f"needle{turn}"})
        if f"needle{turn}" not in found:
            raise LookupError(found)

    return [*rows, *rows_of(f"{name}: search 100 contents", await timed(10, search))]


async def steps(name: str, store: ConversationStore, times: int) -> list[Row]:
    """Saving what a step has changed, opening a session, writing on a history; short and long."""
    rows, new = [], b"x" * STEP
    for length in (10, LONG):
        conversation = f"long-{length}"
        version = await store.save_state(
            conversation, {f"piece/{number}": b"y" * 400 for number in range(length)} | {"head": new}, None
        )
        history = await store.append(conversation, [{"role": "user", "content": "z" * 400}] * length, None)
        versions = [version, history]

        async def save(turn: int, whose: str = conversation, versions: list[int] = versions) -> None:
            changed = {"head": new, f"piece/{turn}": b"y" * 400}
            versions[0] = await store.save_state(whose, changed, versions[0])

        async def append(turn: int, whose: str = conversation, versions: list[int] = versions) -> None:
            said = [{"role": "user", "content": f"{turn} {'z' * 400}"}]
            versions[1] = await store.append(whose, said, versions[1])

        async def reopen(_turn: int, whose: str = conversation) -> None:
            await store.load_state(whose)

        rows += rows_of(f"{name}: save {STEP:,} bytes of a state, {length} messages", await timed(times, save), BAR)
        rows += rows_of(f"{name}: append a message to {length}", await timed(times, append))
        rows += rows_of(f"{name}: load a state, {length} messages", await timed(times, reopen))
    return rows


def said(number: int, whose: str) -> list[dict[str, object]]:
    """A call of a tool, and its result: of five, one is long; texts of its own, which nobody has counted before."""
    arguments = json.dumps({"path": f"src/module_{number}.py"})
    called = {"id": f"call_{number}", "type": "function", "function": {"name": "read_file", "arguments": arguments}}
    content = f"line {number} of {whose}\n" * (20 if number % 5 else 400)
    return [
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": content},
    ]


@define
class Weighed:
    """A store that notes how many bytes each save of a state has.

    Args:
        store: The store.
        sizes: What was noted.
    """

    store: ConversationStore
    sizes: list[int] = field(factory=list)

    async def load_state(self, name: str, /) -> StateSnapshot:
        """As the store."""
        return await self.store.load_state(name)

    async def save_state(
        self, name: str, changed: Mapping[str, bytes | None], version: int | None, /, *, key: str | None = None
    ) -> int:
        """As the store."""
        self.sizes.append(sum(len(piece or b"") for piece in changed.values()))
        return await self.store.save_state(name, changed, version, key=key)


async def sessions(name: str, store: ConversationStore, times: int) -> list[Row]:
    """What a step of a session costs more where it is saved, of a short and of a long history; and opening it."""
    rows = []
    for length in (LONG, 4 * LONG):
        plan = Pipeline(TruncateToolOutputs(300), FitContextWindow(), budget=Budget(400_000, trigger=0.8, target=0.5))
        asked: list[dict[str, object]] = [{"role": "user", "content": "Why does the build fail?"}]
        alones, kepts, weigheds = (
            asked + [each for number in range(length // 2 + times) for each in said(number, whose)]
            for whose in ("alone", name, "weighed")
        )
        weighed, alone = Weighed(store), plan.session()
        async with Sessions(plan, weighed).open(f"weighed-{length}") as session:
            for end in range(length + 1, length + 1 + 2 * times, 2):
                await session.prepare(weigheds[:end])
        kept, conversation = Sessions(plan, store), f"session-{length}"
        extra: dict[str, list[float]] = {"wall": [], "processor": []}
        async with kept.open(conversation) as session:
            for end in range(length + 1, length + 1 + 2 * times, 2):
                spent = []
                for each, given in ((alone, alones[:end]), (session, kepts[:end])):
                    begun, worked = perf_counter(), process_time()
                    await each.prepare(given)
                    spent.append((perf_counter() - begun, process_time() - worked))
                if end > length + 1:  # the first saves all of it
                    extra["wall"].append((spent[1][0] - spent[0][0]) * 1_000)
                    extra["processor"].append((spent[1][1] - spent[0][1]) * 1_000)
        taken = median(extra["wall"]), quantiles(extra["wall"], n=100)[98], median(extra["processor"])
        what = f"{name}: a session's step saved, {length:,} messages"
        rows += rows_of(what, taken, BAR)
        rows.append(Row(f"{what}, bytes", median(weighed.sizes[1:]), MOST_BYTES, unit="B"))

        async def reopen(_turn: int, conversation: str = conversation, plan: Pipeline = plan) -> None:
            async with Sessions(plan, store).open(conversation):
                pass

        rows += rows_of(f"{name}: open a session, {length:,} messages", await timed(10, reopen))
    return rows


async def at_once(name: str, store: ConversationStore) -> list[Row]:
    """A thousand conversations that each save ten steps."""
    walls: list[float] = []

    async def talk(number: int) -> None:
        version: int | None = None
        for _ in range(10):
            begun = perf_counter()
            version = await store.save_state(f"many-{number}", {"head": b"x" * STEP}, version)
            walls.append((perf_counter() - begun) * 1_000)

    begun = perf_counter()
    async with anyio.create_task_group() as group:
        for number in range(MANY):
            group.start_soon(talk, number)
    rate = len(walls) / (perf_counter() - begun)
    return [Row(f"{name}: {MANY:,} conversations at once, steps saved", rate, None, at_least=True, unit="/s")]


async def measure(stores: dict[str, ConversationStore], times: int, *, alone: bool) -> list[Row]:
    """All lines of the table; those of sessions alone."""
    rows: list[Row] = []
    for name, store in stores.items():
        async with store:
            if alone:
                rows += await sessions(name, store, times)
                continue
            rows += await contents(name, store, times)
            rows += await steps(name, store, times)
            rows += await sessions(name, store, times)
            rows += await at_once(name, store)
    return rows


def main() -> int:
    """Measure, print, and say whether each bar is kept."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--sessions", action="store_true")
    parser.add_argument("--only", choices=["memory", "sqlite", "redis", "postgres"])
    parser.add_argument("--backend", choices=["asyncio", "trio"], default="asyncio")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--markdown", action="store_true")
    options = parser.parse_args()
    with TemporaryDirectory() as folder, ExitStack() as running:
        limits = {"timeout": 120.0}
        stores: dict[str, ConversationStore] = {
            "memory": MemoryStore(),
            "sqlite": SQLiteStore(Path(folder) / "context.db", **limits),
        }
        if options.only not in stores:
            places = running.enter_context(servers.servers(folder))
            stores["redis"] = RedisStore(places["redis"], **limits)
            stores["postgres"] = PostgresStore(places["postgres"], **limits)
        chosen = stores if options.only is None else {options.only: stores[options.only]}
        times = 40 if options.quick else 200
        rows = anyio.run(partial(measure, chosen, times, alone=options.sessions), backend=options.backend)
    if options.json or options.markdown:
        print(as_json(rows, backend=options.backend) if options.json else markdown(rows))
    else:
        show(rows, f"what the stores take, on {options.backend}")
    return int(not all(row.ok for row in rows))


if __name__ == "__main__":
    sys.exit(main())
