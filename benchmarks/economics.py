"""What recorded sessions would have cost, by every provider's prices and cache rules.

Each session is sent model call by model call, in a window that is a half to a quarter of what it grew to, so that it
has to be cut several times. What is sent is billed by a simulator of the provider's prompt cache, with calls 20 seconds
apart and, whoever trims, markers as the most careful client sets them. Sessions of one class follow each other, as
those of one application do: a head that they share is cached once. Compared are: sending everything (which does not
fit), a sliding window and LangChain's ``trim_messages`` and clearing all but the last tool results before every call
(as many stay as in our preset), and a session of our preset for coding agents.

Three bars: ours reads at least 90 % of its input from the cache, breaks the cached prefix at most once a compaction,
and costs the least of all that fit. A second table: where the window is never reached, ours is never dearer than
sending everything. A third: with the markers that our preset sets itself in the provider's own format, it keeps the
bars too. The exit code is 1 when a bar is missed. Run it with the ``bench`` extra installed::

    python benchmarks/economics.py                   # some minutes
    python benchmarks/economics.py --quick           # a few sessions of each class
    python benchmarks/economics.py --window 32000    # one window for all sessions that outgrow it
    python benchmarks/economics.py --json            # for machines; --markdown for README.md
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence

import anyio
from attrs import define
from bills import OURS, Row, Total, drawn, markdown, plain
from contenders import clearing, everything, langchain, sliding
from markers import measure_markers
from recorded import Recorded, recorded_sessions
from rich.console import Console
from sending import Way, in_session
from windows import Windows

from agentctx import Budget
from agentctx.economics import CacheSimulator, PromptReader, cost
from agentctx.models import ModelProfile
from agentctx.models.profile import cache_rules
from agentctx.models.table import profile
from agentctx.presets import RECENT_RESULTS, coding_agent

MODELS = (
    "gpt-5.4",
    "gpt-5.6-sol",
    "claude-sonnet-5-5",
    "deepseek/deepseek-v4-pro",
    "gemini/gemini-2.5-pro",
    "amazon.nova-pro-v1:0",
)
"""One of each kind of cache: longest prefix in steps, turn ends, markers, small steps, large minimum, free markers."""

WAYS: Mapping[str, Way] = {
    "everything": everything(),
    "sliding window": sliding(),
    "LangChain": langchain,
    "clear results": clearing(RECENT_RESULTS),
    OURS: in_session(lambda window: coding_agent(Budget(window))),
}
PAUSE = 20.0
"""Seconds from one model call to the next."""
UNREACHED = 1_000_000
"""A window that no session reaches."""
TYPICAL_CALLS = 100
"""Sessions of about this length are chosen when only a few are."""


@define
class Till:
    """The bills of one way of trimming one class of sessions, at all models.

    Args:
        models: The models.
        totals: What each billed.
        caches: The cache of each.
        now: The time of the next call, in seconds.
    """

    models: Sequence[ModelProfile]
    totals: list[Total]
    caches: list[CacheSimulator]
    now: float = 0.0

    async def run(self, recorded: Recorded, way: Way, window: int, at: Sequence[int]) -> None:
        """Send a session, and bill it at the models with these numbers."""
        reader = PromptReader(recorded.source.meter)
        number = 0
        async for sent in way(recorded, window):
            prompt = None if sent.context is None else reader.read(sent.context)
            for place in at:
                usage = None if prompt is None else self.caches[place].send(prompt, self.now, recorded.outputs[number])
                dollars = 0.0 if usage is None else cost(usage, self.models[place])
                self.totals[place].add(sent, prompt, window, usage, dollars)
            self.now += PAUSE
            number += 1


def till() -> Till:
    """An empty till."""
    models = [profile(name) for name in MODELS]
    return Till(models, [Total() for _ in models], [CacheSimulator(cache_rules(model)) for model in models])


async def compare(
    kind: str, sessions: Sequence[Recorded], ways: Mapping[str, Way], windows: Windows | None
) -> list[Row]:
    """One class of sessions, by every way and at every model; None: in a window that is never reached."""
    models = [profile(name) for name in MODELS]
    chosen = [
        (recorded, [place for place, model in enumerate(models) if windows is None or windows.worth(recorded, model)])
        for recorded in sessions
    ]
    tills: dict[str, Till] = {}
    for name, way in ways.items():
        tills[name] = till()
        for recorded, at in chosen:
            if at:
                window = UNREACHED if windows is None else windows.of(recorded)
                await tills[name].run(recorded, way, window, at)
    return list(_rows(kind, chosen, tills, reached=windows is not None))


def _rows(
    kind: str, chosen: Sequence[tuple[Recorded, list[int]]], tills: Mapping[str, Till], *, reached: bool
) -> Iterator[Row]:
    for place, model in enumerate(MODELS):
        calls = [len(recorded.calls) for recorded, at in chosen if place in at]
        if calls:
            totals = {name: each.totals[place] for name, each in tills.items()}
            yield Row(kind, model, len(calls), sum(calls), totals, reached)


def by_kind(sessions: Iterable[Recorded], most: int | None) -> dict[str, list[Recorded]]:
    """The sessions of each class that call a model; at most ``most`` of each, those of typical length first."""
    kinds: dict[str, list[Recorded]] = defaultdict(list)
    for recorded in sessions:
        if recorded.calls:
            kinds[recorded.kind].append(recorded)
    return {kind: sorted(found, key=_handy)[:most] if most else found for kind, found in kinds.items()}


def _handy(recorded: Recorded) -> tuple[bool, int]:
    return not Windows().worth(recorded, profile(MODELS[0])), abs(len(recorded.calls) - TYPICAL_CALLS)


async def measure(windows: Windows, *, quick: bool) -> dict[str, list[Row]]:
    """All rows, by the title of their table."""
    kinds = by_kind(recorded_sessions(), 4 if quick else None)
    reached: list[Row] = []
    unreached: list[Row] = []
    for kind, sessions in kinds.items():
        reached += await compare(kind, sessions, WAYS, windows)
        unreached += await compare(kind, sessions, {name: WAYS[name] for name in ("everything", OURS)}, None)
    marked = await measure_markers(kinds, windows)
    return {
        "Input read from the cache, and dollars": reached,
        "Where the window is never reached": unreached,
        "With the markers that our preset sets itself": marked,
    }


def main() -> int:
    """Measure, print, and say by the exit code whether all bars are kept."""
    parser = argparse.ArgumentParser(description="Measure what trimming does to the bill.")
    parser.add_argument("--quick", action="store_true", help="at most four sessions of each class")
    parser.add_argument("--window", type=int, help="one window in tokens for all sessions that outgrow it twice")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="print JSON instead of tables")
    shape.add_argument("--markdown", action="store_true", help="print tables for README.md")
    args = parser.parse_args()
    tables = anyio.run(lambda: measure(Windows(args.window), quick=args.quick))
    if args.json:
        print(json.dumps({title: [plain(row) for row in rows] for title, rows in tables.items()}, indent=2))
    for title, rows in tables.items():
        if args.markdown:
            print(f"**{title}**\n\n{markdown(rows)}\n")
        elif not args.json:
            Console(width=200).print(drawn(rows, title))
    return 0 if not any(row.missed for rows in tables.values() for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
