"""Compare new runs of the benchmarks with ``before.json``: what a session keeps, and the bills.

    python benchmarks/retention.py --json > retention.json
    python benchmarks/economics.py --json > economics.json
    python benchmarks/regressions.py --retention retention.json --economics economics.json

A row is worse where a share fell, or a cost rose, by more than half a percentage point. Compared are the presets in
each class of sessions: the values that a request shows, those that a handle leads to besides, the user's messages that
stay, and the cost as a share of the cost of sending everything. The exit code is 1 where a row is worse.
``--save`` writes ``before.json`` anew instead; with ``--overhead overhead.json`` it holds the speeds, for the reader.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

BEFORE = Path(__file__).with_name("before.json")
ALLOWED = 0.5
"""Percentage points."""
EVERYTHING = "everything"

Json = Any


@frozen
class Figure:
    """One share of one preset in one class of sessions.

    Args:
        percent: The share, in percent.
        lower_is_better: True for a cost.
    """

    percent: float
    lower_is_better: bool = False

    def is_worse_than(self, before: Figure) -> bool:
        """Tell whether the share is worse than ``before`` by more than the allowed half a point."""
        loss = self.percent - before.percent if self.lower_is_better else before.percent - self.percent
        return loss > ALLOWED


def retention_figures(tables: Json) -> Iterator[tuple[str, Figure]]:
    """Yield the name and the figure of each cell that counts of ``retention.py --json``."""
    for table, kinds in tables.items():
        for kind, ways in kinds.items():
            for way, total in ways.items():
                if way == EVERYTHING:
                    continue
                name, shares = f"{table}, {kind}, {way}", total["found"]
                if shares["values"]:
                    visible = 100 * shares["visible"] / shares["values"]
                    yield f"{name}: visible values", Figure(visible)
                    yield f"{name}: or by handle", Figure(visible + 100 * shares["recallable"] / shares["values"])
                if shares["said"]:
                    yield f"{name}: user messages", Figure(100 * shares["kept"] / shares["said"])
                everything = ways.get(EVERYTHING)
                if everything and everything["calls"] == total["calls"] and everything["dollars"]:
                    cost = 100 * total["dollars"] / everything["dollars"]
                    yield f"{name}: cost", Figure(cost, lower_is_better=True)


def economics_figures(tables: Json) -> Iterator[tuple[str, Figure]]:
    """Yield the name and the figure of the preset's cost in each row of ``economics.py --json``."""
    for title, rows in tables.items():
        for row in rows:
            totals = row["totals"]
            whole = totals.get(EVERYTHING) or totals[row["beside"]]
            cost = Figure(100 * totals["ours"]["dollars"] / whole["dollars"], lower_is_better=True)
            yield f"{title}, {row['kind']}, {row['model']}: cost", cost


FIGURES = {"retention": retention_figures, "economics": economics_figures}


def compare(before: Mapping[str, Json], after: Mapping[str, Json]) -> tuple[int, list[str]]:
    """Return how many figures were compared, and a line for each that is worse or missing."""
    compared, worse = 0, []
    for benchmark, tables in after.items():
        new = dict(FIGURES[benchmark](tables))
        for name, old in FIGURES[benchmark](before[benchmark]):
            compared += 1
            if name not in new:
                worse.append(f"{name}: {old.percent:.1f} % before, missing now")
            elif new[name].is_worse_than(old):
                worse.append(f"{name}: {old.percent:.1f} % before, {new[name].percent:.1f} % now")
    return compared, worse


def main() -> int:
    """Save or compare, and print."""
    parser = argparse.ArgumentParser(description="Compare new runs of the benchmarks with before.json.")
    parser.add_argument("--save", action="store_true", help="write before.json of the given runs")
    for benchmark in ("retention", "economics", "overhead"):
        parser.add_argument(f"--{benchmark}", type=Path, help=f"the output of {benchmark}.py --json")
    options = vars(parser.parse_args())
    save = options.pop("save")
    runs = {name: json.loads(path.read_text(encoding="utf-8")) for name, path in options.items() if path}
    if save:
        BEFORE.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
        return 0
    runs.pop("overhead", None)
    compared, worse = compare(json.loads(BEFORE.read_text(encoding="utf-8")), runs)
    print("\n".join((*worse, f"{compared} figures compared, {len(worse)} worse")))
    return 1 if worse or not compared else 0


if __name__ == "__main__":
    sys.exit(main())
