"""``agentctx sessions``: the sessions of coding agents on this machine, and one of them replayed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from attrs import asdict
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentctx.characters import calendar_time, on_one_line, printable
from agentctx.cli import options
from agentctx.cli.console import NARROW, err, in_one_line, print_json, printing, progress
from agentctx.cli.options import Preset, parse_bytes
from agentctx.cli.replay import replay
from agentctx.errors import ConfigError
from agentctx.transcripts import LocalSession, local_sessions
from agentctx.transcripts.costs import Cost, billed_cost
from agentctx.transcripts.reading import folders, looked_into

Wanted = Annotated[
    str | None,
    typer.Argument(
        metavar="[N]", show_default=False, help="Replay this one: its number in the list, or how its id begins."
    ),
]
Last = Annotated[int, typer.Option("--last", metavar="N", min=1, help="List the newest N.")]
All = Annotated[bool, typer.Option("--all", help="List all, however many there are.")]

_COLUMNS = (
    ("", True),
    ("last written", False),
    ("tool", False),
    ("project", False),
    ("size", True),
    ("model", False),
    ("calls", True),
    ("cost", True),
)
"""What the list says of a session, and whether that stands on the right of its column."""

_PROJECT, _MODEL = 3, 5
"""The columns that are cut where there is no room for them."""

_LAST = 20
_WIDEST = 38
_LEAST = 12
_UNREAD = "cannot be read"


@in_one_line
def sessions(
    wanted: Wanted = None,
    *,
    last: Last = _LAST,
    every: All = False,
    window: options.Window = None,
    preset: Preset = None,
    max_bytes: options.MaxBytes = options.MAX_BYTES,
    json: options.Json = False,
) -> None:
    """List the sessions of Claude Code and Codex on this machine, newest first, or replay one by its number.

    What was said in them is not shown, and nothing leaves the machine. CLAUDE_CONFIG_DIR and CODEX_HOME are heeded.

    [bold]Examples[/bold]

      agentctx sessions

      agentctx sessions --all --json

      agentctx sessions 3 --window 100k --preset coding_agent
    """
    if wanted is not None:
        replay(number=wanted, window=window, preset=preset, max_bytes=max_bytes, json=json)
        return
    if window is not None or preset is not None:
        msg = "--window and --preset are for the replay of one session: give its number, too"
        raise ConfigError(msg)
    found = local_sessions()
    shown = _looked_into(found if every else found[:last], parse_bytes("--max-bytes", max_bytes))
    if json:
        for session in shown:
            print_json(_told(session))
        return
    if not shown:
        where = ", ".join(printable(str(folder)) for folder in folders())
        err().print(f"no session of Claude Code or Codex lies on this machine: looked into {where}", style="dim")
        return
    with printing() as console:
        _print(console, shown, len(found))


def _looked_into(found: Sequence[LocalSession], max_bytes: int) -> list[LocalSession]:
    looked = []
    with progress("sessions", len(found)) as done:
        for session in found:
            looked.append(looked_into(session, max_bytes))
            done()
    return looked


def _told(session: LocalSession) -> dict[str, Any]:
    cost = billed_cost(session.billed)
    return {
        "number": session.number,
        "tool": session.tool,
        "id": session.id,
        "path": str(session.path),
        "modified": calendar_time(session.modified).isoformat(timespec="seconds"),
        "project": session.project,
        "bytes": session.size,
        "sub_agents": len(session.agents),
        "model": session.model,
        "model_calls": cost.calls,
        "usage": asdict(cost.usage),
        "usd": _usd(cost),
        "calls_without_price": cost.unpriced,
        "readable": session.readable,
    }


def _usd(cost: Cost) -> float | None:
    return None if cost.unpriced == cost.calls else round(cost.usd, 6)


def _print(console: Console, shown: Sequence[LocalSession], total: int) -> None:
    costs = [billed_cost(session.billed) for session in shown]
    rows = [_row(session, cost) for session, cost in zip(shown, costs, strict=True)]
    widths = _widths(console.width, rows)
    if widths is None:
        for row in rows:
            console.print(Text(" ".join(filter(None, row))))
    else:
        table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style="dim", expand=False)
        for (name, right), wide in zip(_COLUMNS, widths, strict=True):
            table.add_column(name, justify="right" if right else "left", no_wrap=True, width=wide)
        for row in rows:
            cut = _end_of(row[_PROJECT], widths[_PROJECT])
            table.add_row(*map(Text, (*row[:_PROJECT], cut, *row[_PROJECT + 1 :])))
        console.print(table)
    if unread := [str(session.number) for session in shown if not session.readable]:
        console.print(Text(f"{_UNREAD}: {', '.join(unread)}", style="yellow"))
    _print_end(console, costs, len(shown), total)


def _widths(width: int, rows: Sequence[Sequence[str]]) -> list[int] | None:
    """The width of each column: project and model share what the others leave; None where that is too little."""
    wide = [max(map(cell_len, column)) for column in zip([name for name, _ in _COLUMNS], *rows, strict=True)]
    room = width - 2 * len(_COLUMNS) - sum(wide) + wide[_PROJECT] + wide[_MODEL]
    if width < NARROW or room < _LEAST:
        return None
    if wide[_PROJECT] + wide[_MODEL] > room:
        wide[_MODEL] = min(wide[_MODEL], max(room // 2, room - wide[_PROJECT]))
        wide[_PROJECT] = room - wide[_MODEL]
    return wide


def _print_end(console: Console, costs: Sequence[Cost], shown: int, total: int) -> None:
    usd, calls = sum(cost.usd for cost in costs), sum(cost.calls for cost in costs)
    unpriced = sum(cost.unpriced for cost in costs)
    without = f", without {unpriced:,} whose price is not known" if unpriced else ""
    more = "" if shown == total else f" of {total:,} (--all lists them all)"
    console.print(Text(f"{shown:,} sessions{more}, {calls:,} model calls, ${usd:,.2f}{without}", style="bold"))
    console.print(
        Text("agentctx sessions 1 replays the first; costs are as recorded, else by the price table", style="dim")
    )


def _row(session: LocalSession, cost: Cost) -> tuple[str, ...]:
    moment = calendar_time(session.modified).astimezone()
    priced = "" if not cost.calls else "?" if _usd(cost) is None else f"${cost.usd:,.2f}{'+' if cost.unpriced else ''}"
    return (
        str(session.number),
        f"{moment:%Y-%m-%d %H:%M}",
        session.tool,
        _end_of(on_one_line(session.project, len(session.project) + 1) if session.project else "", _WIDEST),
        _size(session.size),
        on_one_line(session.model or "", _WIDEST) if session.readable else _UNREAD,
        f"{cost.calls:,}" if session.readable else "?",
        priced,
    )


def _end_of(path: str, width: int) -> str:
    """A path as far as there is room: its end says more."""
    if cell_len(path) <= width:
        return path
    end = path[1 - width :]
    while cell_len(end) >= width:
        end = end[1:]
    return f"…{end}"


def _size(size: int) -> str:
    for unit, name in ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"
