"""One request on the terminal: every message with what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from agentctx.cli.console import NARROW
from agentctx.core.compare import Outcome
from agentctx.core.printable import on_one_line, printable
from agentctx.replay import Step
from agentctx.show.view import Shown, in_runs

_MARKS = {
    Outcome.KEPT: (" ", ""),
    Outcome.EDITED: ("~", "yellow"),
    Outcome.ADDED: ("+", "green"),
    Outcome.DROPPED: ("-", "red"),
    Outcome.SUMMARISED: ("-", "red"),
    Outcome.OFFLOADED: ("-", "red"),
}
_LEGEND = "~ edited   + put in   - left out   (no mark: as given)"
_SHORTEST = 12
_MOST_PARTS = 3
_BESIDE = 30


def print_view(console: Console, step: Step, system: Any, lines: Sequence[Shown], *, full: bool) -> None:  # noqa: ANN401
    """Print the request of one step.

    Args:
        console: Where to.
        step: The step.
        system: The system prompt, where it is kept apart.
        lines: The messages, sent and left out.
        full: Whole messages, with the reasons, instead of the start of each.
    """
    head = f"call {step.number}: {step.messages_sent:,} of {step.messages_given:,} messages, "
    console.print(Text(f"{head}{step.tokens_sent:,} of {step.tokens_given:,} tokens", style="bold"))
    console.print(Text(_LEGEND, style="dim"))
    beside = console.width >= NARROW
    table = Table.grid(padding=(0, 1), expand=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(no_wrap=beside, ratio=None if beside else 1)
    table.add_column(no_wrap=True, justify="right")
    if beside:
        table.add_column(ratio=1)
    if system is not None:
        words = _words((_plain(system),), "", console, full=full)
        table.add_row(*_placed("", "", Text("system", style="magenta"), "", words, beside=beside))
    for run in ((line,) for line in lines) if full else in_runs(lines):
        table.add_row(*_placed(*_row(run, console, full=full), beside=beside))
    console.print(table)


def _placed(
    mark: RenderableType, place: RenderableType, role: Text, tokens: RenderableType, words: Text, *, beside: bool
) -> tuple[RenderableType, ...]:
    """The cells of a row: the words beside the numbers, or on a line below the role."""
    if beside:
        return mark, place, role, tokens, words
    return mark, place, Group(*filter(None, (role, words))), tokens


def _plain(system: Any) -> str:  # noqa: ANN401 - a string, or a list of blocks
    if isinstance(system, list):
        return "\n".join(block["text"] for block in system if isinstance(block, dict) and "text" in block)
    return str(system)


def _row(run: Sequence[Shown], console: Console, *, full: bool) -> tuple[Text, Text, Text, Text, Text]:
    first, last = run[0], run[-1]
    mark, style = _MARKS[first.outcome]
    place = "" if first.given is None else str(first.given)
    role, parts = first.role, first.parts
    if len(run) > 1:
        place, role, parts = f"{first.given}-{last.given}", "", (f"{len(run)} messages",)
    words = _why(first, style, full=full).append_text(
        _words(parts, "dim" if first.sent is None else "", console, full=full)
    )
    tokens = sum(line.tokens for line in run)
    words.no_wrap, words.overflow = not full, "fold" if full else "ellipsis"
    return Text(mark, style=style), Text(place, style="dim"), Text(role, style="magenta"), Text(f"{tokens:,}"), words


def _why(line: Shown, style: str, *, full: bool) -> Text:
    if not line.stage:
        return Text("")
    why = f"{line.stage}: {line.reason}" if full and line.reason else line.stage
    return Text.assemble((f"{printable(why)}  ", style))


def _words(parts: Sequence[str], style: str, console: Console, *, full: bool) -> Text:
    if full:
        return Text(printable("\n".join(parts)), style=style)
    first, more = parts[:_MOST_PARTS], len(parts) - _MOST_PARTS
    width = max(_SHORTEST, (console.width - _BESIDE) // max(1, len(first)) - 2)
    lines = [on_one_line(part, width) for part in first] + ([f"+ {more} more"] if more > 0 else [])
    return Text("  ".join(lines), style=style)
