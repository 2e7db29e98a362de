"""What is said of bills: totals, rows with their bars, and tables of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import asdict, define, field, frozen
from rich.table import Table
from sending import Sent

from agentctx.economics import Prompt, Usage

OURS = "ours"
BAR = 0.9
"""The share of the input that is to be read from the cache."""


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

    def add(self, sent: Sent, prompt: Prompt | None, window: int, usage: Usage | None, dollars: float) -> None:
        """Add one request and its bill; None where it could not be made."""
        self.compactions += sent.compacted
        self.breaks += sent.moved
        self.refused += prompt is None
        self.over += prompt is not None and prompt.tokens > window
        self.usage += usage or Usage()
        self.dollars += dollars


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
        beside: A way that is shown beside ours and is not to be beaten.
    """

    kind: str
    model: str
    sessions: int
    calls: int
    totals: Mapping[str, Total]
    reached: bool = True
    beside: str | None = None

    @property
    def missed(self) -> tuple[str, ...]:
        """The bars that were missed, in words."""
        own = self.totals[OURS]
        rest = [total for name, total in self.totals.items() if name not in (OURS, self.beside)]
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


def markdown(rows: Sequence[Row]) -> str:
    """Rows for README.md."""
    names = list(rows[0].totals)
    lines = [
        f"| class | model | sessions | calls | {' | '.join(names)} | breaks / compactions | |",
        "|---" * (len(names) + 6) + "|",
    ]
    for row in rows:
        cells, own = " | ".join(_cell(row.totals[name]) for name in names), row.totals[OURS]
        moved, word = f"{own.breaks} / {own.compactions}", ", ".join(row.missed).upper() or "ok"
        lines.append(f"| {row.kind} | {row.model} | {row.sessions} | {row.calls} | {cells} | {moved} | {word} |")
    return "\n".join(lines)
