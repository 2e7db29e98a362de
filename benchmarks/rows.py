"""The table that a benchmark prints, and how much effort each of its lines is given."""

from __future__ import annotations

import json
import platform
from collections.abc import Sequence

from attrs import asdict, frozen
from rich.console import Console
from rich.table import Table


@frozen
class Row:
    """One line of the table.

    Args:
        what: What is compared with what.
        measured: The ratio, or what ``unit`` says.
        bar: What it must not miss; None where it is only for comparison.
        at_least: Whether the bar is a lower bound.
        how: How it was measured.
        unit: What stands behind the number: ``"x"`` for a ratio, ``"ms"``, ``"%"``, ``"/s"``, …
    """

    what: str
    measured: float
    bar: float | None
    at_least: bool = False
    how: str = ""
    unit: str = "x"

    @property
    def result(self) -> str:
        """What was measured, for people."""
        return _said(self.measured, self.unit)

    @property
    def wanted(self) -> str:
        """The bar, for people."""
        if self.bar is None:
            return ""
        return f"at {'least' if self.at_least else 'most'} {_said(self.bar, self.unit)}"

    @property
    def verdict(self) -> str:
        """``ok`` or ``MISSED``; nothing without a bar."""
        if self.bar is None:
            return ""
        return "ok" if self.ok else "MISSED"

    @property
    def ok(self) -> bool:
        """Whether the bar is kept."""
        if self.bar is None:
            return True
        return self.measured >= self.bar if self.at_least else self.measured <= self.bar


@frozen
class Effort:
    """How often things are measured.

    Args:
        steps: Steps of a session.
        repeats: Repeats of everything else of ours.
        samples: The most steps of a peer's loop.
        seconds: The most seconds for one peer.
        peers: Whether other libraries are measured at all.
        all_peers: Whether those without a bar are, too.
    """

    steps: int = 300
    repeats: int = 5
    samples: int = 25
    seconds: float = 90.0
    peers: bool = True
    all_peers: bool = True


QUICK = Effort(steps=100, repeats=3, samples=8, seconds=15.0, all_peers=False)


def _said(value: float, unit: str) -> str:
    """Three figures that matter; small ratios as a fraction."""
    if unit == "x" and value < 0.5:
        return f"1/{1 / value:,.0f}"
    return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"


def show(rows: Sequence[Row], title: str) -> None:
    """Print the rows for people."""
    table = Table("what", "measured", "bar", "", "how", title=title)
    for row in rows:
        table.add_row(row.what, row.result, row.wanted, row.verdict, row.how)
    Console(width=150).print(table)


def markdown(rows: Sequence[Row]) -> str:
    """The rows for README.md."""
    lines = ["| what | measured | bar | | how |", "|---|---|---|---|---|"]
    lines += [f"| {row.what} | {row.result} | {row.wanted} | {row.verdict} | {row.how} |" for row in rows]
    return "\n".join(lines)


def as_json(rows: Sequence[Row], **more: object) -> str:
    """The rows for machines, and what else is to be told."""
    about = {"python": platform.python_version(), "system": platform.system(), "machine": platform.machine()}
    return json.dumps({**about, **more, "rows": [{**asdict(row), "ok": row.ok} for row in rows]}, indent=2)
