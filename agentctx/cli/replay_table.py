"""A replay on the terminal: one line a model call, and a summary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentctx.cli.console import NARROW
from agentctx.cli.transcripts import Entry
from agentctx.core.budget import Budget
from agentctx.core.printable import printable
from agentctx.replay import Step
from agentctx.show.replay import Summary, faults, step_note, summary_rows, verdict

_BAR = 12

_WIDE = 100
"""Columns from which on there is room for a bar beside the stages."""


def print_replay(console: Console, entry: Entry, budget: Budget, steps: Sequence[Step], summary: Summary) -> None:
    """Print the steps of one recording and what they sum up to."""
    console.print(_title(entry, budget))
    if console.width < NARROW:
        _print_stacked(console, steps)
    else:
        console.print(_table(steps, bar=console.width >= _WIDE))
    _print_faults(console, steps)
    _print_summary(console, summary)
    console.print(Text(verdict(summary), style="bold green" if summary.clean else "bold red"))


def _title(entry: Entry, budget: Budget) -> Text:
    recording = entry.recording
    name = Text(printable(recording.id or entry.place), style="bold")
    about = (f"{len(recording.messages):,} messages", f"window {budget.window:,}", f"limit {budget.limit:,}")
    acts = (f"acts above {budget.trigger_tokens:,}", f"down to {budget.target_tokens:,}")
    return name.append("  " + ", ".join((*about, *acts)), style="not bold dim")


def _print_stacked(console: Console, steps: Sequence[Step]) -> None:
    """A paragraph for each step, which wraps between words: every number stays."""
    for step in steps:
        number, mark, messages, tokens, prefix, _ = _row(step, 1, 1, bar=False)
        line = Text.assemble(number, " ", mark, " ", messages, " messages, ", tokens, " tokens", style="")
        console.print(line.append_text(Text.assemble(", ", prefix, " unchanged")) if prefix else line)
        for note in filter(None, step_note(step).split("; ")):
            console.print(Text(f"  {printable(note)}", style="red" if step.overflow else "yellow"))


def _table(steps: Sequence[Step], *, bar: bool) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="dim", expand=False)
    table.add_column("call", justify="right", no_wrap=True)
    table.add_column("", no_wrap=True)
    table.add_column("messages", justify="right", no_wrap=True)
    table.add_column("tokens", justify="right", no_wrap=True)
    table.add_column("unchanged prefix" if bar else "prefix", no_wrap=True)
    table.add_column("left out at this call", overflow="fold")
    messages = _width(step.messages_sent for step in steps)
    tokens = _width(step.tokens_sent for step in steps)
    for step in steps:
        table.add_row(*_row(step, messages, tokens, bar=bar))
    return table


def _width(numbers: Iterable[int]) -> int:
    return max((len(f"{number:,}") for number in numbers), default=1)


def _row(step: Step, messages: int, tokens: int, *, bar: bool) -> tuple[Text, ...]:
    mark = Text("▼", style="bold yellow") if step.compacted else Text(" ")
    if step.overflow is not None or not step.valid:
        mark = Text("✗", style="bold red")
    return (
        Text(str(step.number), style="bold" if step.compacted else ""),
        mark,
        _both(step.messages_given, step.messages_sent, messages),
        _both(step.tokens_given, step.tokens_sent, tokens),
        _prefix(step, bar=bar),
        Text(printable(step_note(step)), style="red" if step.overflow else "yellow" if step.compacted else "dim"),
    )


def _both(given: int, sent: int, width: int) -> Text:
    text = Text(f"{given:,} → ", style="dim")
    return text.append(f"{sent:>{width},}", style="not dim" if given == sent else "not dim cyan")


def _prefix(step: Step, *, bar: bool) -> Text:
    if step.overflow is not None:
        return Text("")
    if not bar:
        return Text(f"{step.prefix_share:.0%}")
    full = int(_BAR * step.prefix_share)
    return Text.assemble(("━" * full, "green"), ("─" * (_BAR - full), "dim"), f" {step.prefix_share:>4.0%}")


def _print_faults(console: Console, steps: Sequence[Step]) -> None:
    for fault in faults(steps):
        style = "red" if fault.first.severity == "error" else "yellow"
        console.print(Text(printable(str(fault)), style=style))


def _print_summary(console: Console, summary: Summary) -> None:
    rows = [(label, printable(what)) for label, what in summary_rows(summary)]
    if console.width < NARROW:
        for label, what in rows:
            console.print(Text.assemble((f"{label}: " if label else "  ", "dim"), what))
        return
    grid = Table.grid(padding=(0, 2))
    grid.add_column(style="dim", no_wrap=True)
    grid.add_column()
    for label, what in rows:
        grid.add_row(label, Text(what))
    console.print(grid)
