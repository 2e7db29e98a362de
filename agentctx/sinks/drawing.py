"""The window on a terminal, drawn with rich: a stacked bar, a table of what is in it, a chart of its history."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from attrs import frozen
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from agentctx.printable import IN_ASCII
from agentctx.sinks.window import Window, short
from agentctx.tokens.kinds import KINDS

COLOURS = {
    "system": "magenta",
    "tools": "bright_magenta",
    "recap": "bright_white",
    "user": "green",
    "assistant": "blue",
    "reasoning": "bright_blue",
    "calls": "cyan",
    "results": "yellow",
    "other": "red",
    "framing": "white",
}
LETTERS = {
    "system": "S",
    "tools": "T",
    "recap": "P",
    "user": "U",
    "assistant": "A",
    "reasoning": "N",
    "calls": "C",
    "results": "R",
    "other": "O",
    "framing": "F",
}
"""What a bar consists of where there are no colours; in its colour on the same colour a letter is a block."""
FREE = "░"
NARROWEST = 10
"""A bar has at least so many columns."""
NO_BARS, NO_SHARES = 44, 28
"""A picture of fewer columns has no bars in its table, or no shares beside the tokens."""


def _block(kind: str, columns: int) -> tuple[str, str]:
    """So many columns of a kind of content, and their style."""
    colour = COLOURS.get(kind, "red")
    return LETTERS.get(kind, "O") * columns, f"{colour} on {colour}"


@frozen
class Snapshot:
    """The window at one step.

    Args:
        step: The number of the step, from 1.
        window: What it consisted of.
        cut: Whether the request did not begin with the one before.
    """

    step: int
    window: Window
    cut: bool = False


@frozen
class Drawn:
    """A picture for any terminal: on one that takes ASCII only, other signs stand for those that it lacks.

    Args:
        what: The picture.
    """

    what: RenderableType

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Segment]:
        """Draw it."""
        for each in console.render(self.what, options):
            yield Segment(each.text.translate(IN_ASCII), each.style, each.control) if options.ascii_only else each


def bar(window: Window, width: int = 60) -> Text:
    """A bar of so many columns: each kind of content in its colour, or by its letter, and what is free."""
    width = max(NARROWEST, width)
    drawn = Text()
    for kind, columns in _columns(window, width):
        drawn.append(*(_block(kind, columns) if kind else (FREE * columns, "dim")))
    return drawn


def _columns(window: Window, width: int) -> list[tuple[str, int]]:
    """How many columns each kind gets: shares by largest remainder, and what there is gets one at least."""
    whole = max(1, window.limit or window.tokens, window.tokens)
    present = [(section.kind, section.tokens * width / whole) for section in window.sections]
    columns = {kind: max(1, int(exact)) for kind, exact in present}
    filled = min(width, max(round(window.tokens * width / whole), len(present)))
    by_remainder = sorted(present, key=lambda each: int(each[1]) - each[1])
    for kind, _ in by_remainder[: max(0, filled - sum(columns.values()))]:
        columns[kind] += 1
    while sum(columns.values()) > width:
        largest = max(columns, key=lambda kind: columns[kind])
        columns[largest] -= 1
    ordered = [(kind, columns[kind]) for kind in KINDS if kind in columns]
    return [*ordered, ("", width - sum(columns.values()))]


def legend(window: Window) -> Text:
    """Which colour, or letter, is which kind of content."""
    words = Text()
    for section in window.sections:
        words.append(*_block(section.kind, 1))
        words.append(f" {section.name}  ")
    return words.append(f"{FREE} free", style="dim") if window.limit else words


def table(window: Window, width: int = 80) -> Table:
    """A row for each kind of content: tokens, its share of the limit, a bar of its own; in so many columns."""
    whole = max(1, window.limit or window.tokens)
    rows = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="dim")
    rows.add_column("content", overflow="fold")
    for name in ("tokens", *(("share",) if width >= NO_SHARES else ())):
        rows.add_column(name, justify="right", no_wrap=True)
    if width >= NO_BARS:
        rows.add_column("", no_wrap=True)
    own = max(1, min(50, width - 30))
    told = [
        (
            section.name,
            section.tokens,
            Text(*_block(section.kind, max(1, min(own, round(section.tokens / whole * own))))),
        )
        for section in window.sections
    ]
    for name, tokens, bar_of_it in told:
        rows.add_row(*(name, f"{tokens:,}", f"{tokens / whole:.1%}", bar_of_it)[: len(rows.columns)])
    if window.limit is not None:
        free = Text("free", style="dim"), f"{window.free:,}", f"{window.free / whole:.1%}", ""
        rows.add_row(*free[: len(rows.columns)])
    return rows


def advice(window: Window) -> Iterable[Text]:
    """The warning, and what would help, a line each."""
    if window.warning:
        yield Text(f"! {window.warning}", style="bold red" if window.warning.startswith("critical") else "bold yellow")
    for each in window.advice:
        yield Text(f"> {each}", style="dim")


def picture(window: Window, width: int = 60) -> RenderableType:
    """All of it: one line of numbers, the bar, what its colours mean, the table, warnings and advice."""
    size = f"{window.tokens:,} tokens" + (f" of {window.limit:,}, {window.share:.0%}" if window.limit else "")
    return Group(Text(size, style="bold"), bar(window, width), legend(window), table(window, width), *advice(window))


def history(snapshots: Sequence[Snapshot], width: int = 60, last: int = 20) -> Table:
    """The window step by step: a bar each, how full it was, and where it was cut.

    Args:
        snapshots: The steps, the oldest first.
        width: Columns of a bar.
        last: So many of the latest are shown.
    """
    rows = Table.grid(padding=(0, 1))
    for _ in range(2):
        rows.add_column(no_wrap=True)
    rows.add_column(justify="right", no_wrap=True)
    rows.add_column(no_wrap=True)
    for each in snapshots[-last:]:
        full = f"{each.window.share:.0%}" if each.window.limit else short(each.window.tokens)
        marked = Text("← cut", style="bold red") if each.cut else Text("")
        rows.add_row(Text(f"{each.step:>4}", style="dim"), bar(each.window, width), full, marked)
    return rows
