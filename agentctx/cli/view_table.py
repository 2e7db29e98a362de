"""One request on the terminal: every message with what became of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from agentctx.core.compare import Outcome
from agentctx.replay import Step
from agentctx.show.printable import on_one_line, printable
from agentctx.show.view import Shown, in_runs

_MARKS = {
    Outcome.KEPT: (" ", ""),
    Outcome.EDITED: ("~", "yellow"),
    Outcome.ADDED: ("+", "green"),
    Outcome.DROPPED: ("-", "red"),
    Outcome.SUMMARISED: ("-", "red"),
    Outcome.OFFLOADED: ("-", "red"),
}
_LEGEND = "  as given   ~ edited   + put in   - left out"


def print_view(console: Console, step: Step, system: Any, lines: Sequence[Shown], *, full: bool) -> None:  # noqa: ANN401
    """Print the request of one step.

    Args:
        console: Where to.
        step: The step.
        system: The system prompt, where it is kept apart.
        lines: The messages, sent and left out.
        full: Whole messages instead of the start of each.
    """
    head = f"call {step.number}: {step.messages_sent:,} of {step.messages_given:,} messages, "
    console.print(Text(f"{head}{step.tokens_sent:,} of {step.tokens_given:,} tokens", style="bold"))
    console.print(Text(_LEGEND, style="dim"))
    table = Table.grid(padding=(0, 1), expand=False)
    for justify in ("left", "right", "left", "right"):
        table.add_column(justify=justify, no_wrap=True)
    table.add_column(overflow="fold" if full else "ellipsis", no_wrap=not full)
    width = max(20, console.width - 32)
    if system is not None:
        table.add_row(" ", "", Text("system", style="magenta"), "", _words(str(system), "", full=full, width=width))
    for run in in_runs(lines):
        table.add_row(*_row(run, full=full, width=width))
    console.print(table)


def _row(run: Sequence[Shown], *, full: bool, width: int) -> tuple[Text, ...]:
    first, last = run[0], run[-1]
    mark, style = _MARKS[first.outcome]
    place = "" if first.given is None else str(first.given)
    if len(run) > 1:
        place, role, text = f"{first.given}-{last.given}", "", f"{len(run)} messages"
    else:
        role, text = first.role, first.text
    why = f"{first.stage}: {first.reason}" if first.reason else first.stage
    words = Text(f"[{printable(why)}] ", style=style) if why else Text("")
    tokens = sum(line.tokens for line in run)
    words.append_text(_words(text, "dim" if first.sent is None else "", full=full, width=width - len(words)))
    return Text(mark, style=style), Text(place, style="dim"), Text(role, style="magenta"), Text(f"{tokens:,}"), words


def _words(text: str, style: str, *, full: bool, width: int) -> Text:
    return Text(printable(text) if full else on_one_line(text, max(20, width)), style=style)
