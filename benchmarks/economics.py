"""What recorded sessions would have cost, by every provider's prices and cache rules.

Each session is sent model call by model call, in a window that is a half to a quarter of what it grew to, so that it
has to be cut several times. What is sent is billed by a simulator of the provider's prompt cache, with calls 20 seconds
apart and markers as a careful client sets them. Sessions of one class follow each other, as those of one application
do: a head that they share is cached once. Compared are: sending everything (which does not fit), a sliding window and
LangChain's ``trim_messages`` and clearing all but the last tool results before every call (as many stay as in our
preset), and a session of our preset for coding agents.

Three bars: ours reads at least 90 % of its input from the cache, breaks the cached prefix at most once a compaction,
and costs the least of all that fit. A second table: where the window is never reached, ours is never dearer than
sending everything. The exit code is 1 when a bar is missed. Run it with the ``bench`` extra installed::

    python benchmarks/economics.py            # some minutes
    python benchmarks/economics.py --quick    # a few sessions of each class
    python benchmarks/economics.py --json     # for machines
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import anyio
from attrs import asdict, define, field, frozen
from contenders import Way, clearing, everything, in_session, langchain, sliding
from recorded import Recorded, recorded_sessions
from rich.console import Console
from rich.table import Table

from agentctx.core.budget import Budget
from agentctx.core.profile import ModelProfile
from agentctx.economics.blocks import BlockReader
from agentctx.economics.cache import CacheSimulator
from agentctx.economics.cache_rules import cache_rules
from agentctx.economics.prices import Usage, cost
from agentctx.presets import RECENT_RESULTS, coding_agent
from agentctx.tokens.models import profile

MODELS = (
    "gpt-5.4",
    "gpt-5.6-sol",
    "claude-sonnet-5-5",
    "deepseek/deepseek-v4-pro",
    "gemini/gemini-2.5-pro",
    "amazon.nova-pro-v1:0",
)
"""One of each kind of cache: longest prefix in steps, turn ends, markers, small steps, large minimum, free markers."""

OURS = "ours"
WAYS: Mapping[str, Way] = {
    "everything": everything(),
    "sliding window": sliding(),
    "LangChain": langchain,
    "clear results": clearing(RECENT_RESULTS),
    OURS: in_session(lambda window: coding_agent(Budget(window))),
}
PAUSE = 20.0
"""Seconds from one model call to the next."""
FEWEST_CALLS, SMALLEST_WINDOW = 20, 4_096
"""Shorter sessions, and windows smaller than any model's, show nothing."""
CALLS_A_PART = 20
"""The more calls a session has, the smaller the part of it that its window holds."""
UNREACHED = 1_000_000
"""A window that no session reaches."""
TYPICAL_CALLS = 100
"""Sessions of about this length are chosen when only a few are."""
BAR = 0.9


@define
class Total:
    """What one way of trimming did to one class of sessions at one model.

    Args:
        usage: All tokens, by how they were billed.
        dollars: All calls.
        over: Requests larger than the window.
        refused: Requests that could not be made.
        compactions: Steps that changed what an earlier request had.
        breaks: Requests that did not begin with the one before.
    """

    usage: Usage = field(factory=Usage)
    dollars: float = 0.0
    over: int = 0
    refused: int = 0
    compactions: int = 0
    breaks: int = 0


@frozen
class Row:
    """One class of sessions at one model.

    Args:
        kind: The class.
        model: The model.
        sessions: How many sessions.
        calls: How many model calls they made.
        totals: By way of trimming.
        reached: Whether the window was reached.
    """

    kind: str
    model: str
    sessions: int
    calls: int
    totals: Mapping[str, Total]
    reached: bool = True

    @property
    def missed(self) -> tuple[str, ...]:
        """The bars that were missed, in words."""
        own, rest = self.totals[OURS], [total for name, total in self.totals.items() if name != OURS]
        if not self.reached:
            return ("dearer",) if any(own.dollars > other.dollars * (1 + 1e-9) for other in rest) else ()
        fitting = [other.dollars for other in rest if other.over == 0 and other.refused <= own.refused]
        bars = {
            "below 90 %": own.usage.cached_share < BAR,
            "breaks": own.breaks > own.compactions,
            "dearer": own.dollars > min(fitting, default=own.dollars),
            "too large": own.over > 0,
        }
        return tuple(name for name, missed in bars.items() if missed)


def window_of(recorded: Recorded) -> int:
    """A window that forces several compactions: what no request can be without, and a half to a quarter of the rest.

    The longer the session, the smaller the part, so that at least some dozen calls lie between two compactions.
    """
    parts = max(2, min(4, len(recorded.calls) // CALLS_A_PART))
    return recorded.floor + (recorded.largest - recorded.floor) // parts


def worth(recorded: Recorded, model: ModelProfile) -> bool:
    """Whether a session is long enough for its window, and the window large enough for the model's cache."""
    smallest = max(SMALLEST_WINDOW, 4 * cache_rules(model).smallest)
    return len(recorded.calls) >= FEWEST_CALLS and window_of(recorded) >= smallest


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
        reader = BlockReader(recorded.source.meter)
        number = 0
        async for sent in way(recorded, window):
            prompt = None if sent.context is None else reader.read(sent.context)
            for place in at:
                total, model = self.totals[place], self.models[place]
                total.compactions += sent.compacted
                total.breaks += sent.moved
                total.refused += prompt is None
                if prompt is not None:
                    total.over += prompt.tokens > window
                    usage = self.caches[place].send(prompt, self.now, recorded.outputs[number])
                    total.usage += usage
                    total.dollars += cost(usage, model)
            self.now += PAUSE
            number += 1


def till() -> Till:
    """An empty till."""
    models = [profile(name) for name in MODELS]
    return Till(models, [Total() for _ in models], [CacheSimulator(cache_rules(model)) for model in models])


async def compare(kind: str, sessions: Sequence[Recorded], ways: Mapping[str, Way], *, reached: bool) -> list[Row]:
    """One class of sessions, by every way and at every model."""
    models = [profile(name) for name in MODELS]
    chosen = [
        (recorded, [place for place, model in enumerate(models) if not reached or worth(recorded, model)])
        for recorded in sessions
    ]
    tills: dict[str, Till] = {}
    for name, way in ways.items():
        tills[name] = till()
        for recorded, at in chosen:
            if at:
                window = window_of(recorded) if reached else UNREACHED
                await tills[name].run(recorded, way, window, at)
    return list(_rows(kind, chosen, tills, reached=reached))


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
    return not worth(recorded, profile(MODELS[0])), abs(len(recorded.calls) - TYPICAL_CALLS)


async def measure(*, quick: bool) -> list[Row]:
    """All rows of both tables."""
    rows: list[Row] = []
    for kind, sessions in by_kind(recorded_sessions(), 4 if quick else None).items():
        rows += await compare(kind, sessions, WAYS, reached=True)
        unreached = {name: WAYS[name] for name in ("everything", OURS)}
        rows += await compare(kind, sessions, unreached, reached=False)
    return rows


def drawn(rows: Sequence[Row], title: str) -> Table:
    """Rows for people: the share of the input that was read from the cache, and dollars."""
    names = list(rows[0].totals)
    table = Table("class", "model", "sessions", "calls", *names, "breaks / compactions", "", title=title)
    for row in rows:
        cells = [_cell(row.totals[name]) for name in names]
        own = row.totals[OURS]
        moved = f"{own.breaks} / {own.compactions}"
        word = ", ".join(row.missed).upper() or "ok"
        table.add_row(row.kind, row.model, str(row.sessions), str(row.calls), *cells, moved, word)
    return table


def _cell(total: Total) -> str:
    mark = " (too large)" if total.over else f" ({total.refused} refused)" if total.refused else ""
    return f"{total.usage.cached_share:.1%}  ${total.dollars:,.3f}{mark}"


def plain(row: Row) -> dict[str, Any]:
    """A row for machines."""
    shares = {name: total.usage.cached_share for name, total in row.totals.items()}
    return {**asdict(row), "cached_share": shares, "missed": row.missed, "ok": not row.missed}


def main() -> int:
    """Measure, print, and say by the exit code whether all bars are kept."""
    parser = argparse.ArgumentParser(description="Measure what trimming does to the bill.")
    parser.add_argument("--quick", action="store_true", help="at most four sessions of each class")
    parser.add_argument("--json", action="store_true", help="print JSON instead of tables")
    args = parser.parse_args()
    rows = anyio.run(lambda: measure(quick=args.quick))
    if args.json:
        print(json.dumps({"rows": [plain(row) for row in rows]}, indent=2))
    else:
        console = Console(width=200)
        titles = {True: "Input read from the cache, and dollars", False: "Where the window is never reached"}
        for reached, title in titles.items():
            console.print(drawn([row for row in rows if row.reached == reached], title))
    return 0 if not any(row.missed for row in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
