"""The terminal, with rich: the window as a bar, a table and a chart, and a running agent's windows as they change."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Sequence
from threading import Lock
from types import TracebackType
from typing import Self

from attrs import Factory, define, field, frozen

from agentctx.characters import IN_ASCII, on_one_line
from agentctx.errors import ConfigError
from agentctx.events.log import is_cut, saved
from agentctx.events.window import KINDS, Window, Windows, short
from agentctx.lazy import unmet
from agentctx.reports import Event, OverflowMet, StepPrepared, StepRefused, UsageRecorded
from agentctx.validators import TEXT

try:
    from rich.box import SIMPLE_HEAD
    from rich.console import Console, ConsoleOptions, Group, RenderableType
    from rich.live import Live
    from rich.segment import Segment
    from rich.table import Table
    from rich.text import Text
except ImportError as error:
    raise ImportError(unmet("LiveView", "cli", error, "rich"), name=error.name) from error

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
    size = f"{window.tokens:,} tokens" + (
        f" of {window.limit:,}, {window.share:.0%}" if window.limit else ", of a window that is not known"
    )
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


STEPS = 12
"""So many steps of the conversation that spoke last are charted."""
_CENT = 0.01
SESSIONS = 8
"""So many conversations have a line; the one that was silent for longest goes first."""


@define(eq=False)
class _Conversation:
    """What is known of one conversation."""

    name: str
    windows: Windows
    steps: deque[Snapshot] = field(factory=lambda: deque(maxlen=STEPS))
    taken: int = 0
    cuts: int = 0
    tokens: int = 0
    usd: float = 0.0
    billed: int = 0
    trouble: str = ""

    def see(self, event: StepPrepared) -> None:
        """Take in a step."""
        self.taken += 1
        window, less, cut = self.windows.of(event.view), saved(event), is_cut(event)
        self.steps.append(Snapshot(self.taken, window, cut))
        self.cuts += cut
        self.tokens += less.tokens
        self.usd += less.usd or 0.0
        self.trouble = ""

    def line(self) -> Text:
        """How it stands, in one line."""
        words = Text(f"{on_one_line(self.name, 20):<20} ", style="bold", no_wrap=True, overflow="ellipsis")
        if self.steps:
            words.append_text(bar(self.steps[-1].window, 20))
            words.append(f" {self.steps[-1].window.share:>4.0%}  ")
        words.append(f"{self.trouble}  " if self.trouble else "", style="bold red")
        words.append(f"{_so_many(self.taken, 'call')}, {_so_many(self.cuts, 'cut')}, {short(self.tokens)} tokens saved")
        return words.append(f", ${self.usd:,.2f}" if abs(self.usd) >= _CENT else "")


def _so_many(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


@define(eq=False)
class LiveView:
    """Shows running conversations on the terminal: a subscriber, and a context manager that draws while its block runs.

    Of the conversation that spoke last it draws the window step by step, of the others a line. Needs the extra
    ``cli``. Sizes, names and shares are shown, nothing of what was said.

    Args:
        console: Where to draw; without it, stderr.
        title: What stands above it.

    Raises:
        ConfigError: If it is begun a second time within its block.

    Example:
        >>> import io
        >>> from rich.console import Console
        >>> from agentctx import Pipeline
        >>> from agentctx.events.terminal import LiveView
        >>> shown = io.StringIO()
        >>> with LiveView(Console(file=shown, width=100)) as live:
        ...     pipeline = Pipeline(budget=8_000, subscribers=[live])
        ...     view = await pipeline.session(id="thread-42").prepare([{"role": "user", "content": "Hello"}])
        >>> "thread-42" in shown.getvalue()
        True
    """

    console: Console = Factory(lambda: Console(stderr=True))
    title: str = field(default="agentctx", validator=TEXT, kw_only=True)
    _known: OrderedDict[str, _Conversation] = field(init=False, factory=OrderedDict, repr=False)
    _guard: Lock = field(init=False, factory=Lock, repr=False)
    _live: Live | None = field(init=False, default=None, repr=False)

    def __call__(self, event: Event, /) -> None:
        """Take in the event, and draw anew."""
        with self._guard:
            if isinstance(event, StepPrepared):
                self._of(event).see(event)
            elif isinstance(event, (StepRefused, OverflowMet, UsageRecorded)):
                self._take(event)
            else:
                return
        if self._live is not None:
            self._live.update(self.drawn())

    def _of(self, event: StepPrepared | StepRefused | OverflowMet | UsageRecorded) -> _Conversation:
        name = event.session or "(no name)"
        known = self._known.get(name)
        if known is None:
            spoken = event.format if isinstance(event, StepPrepared) else None
            known = self._known[name] = _Conversation(name, Windows(event.model, spoken))
        self._known.move_to_end(name)
        if len(self._known) > SESSIONS:
            self._known.popitem(last=False)
        return known

    def _take(self, event: StepRefused | OverflowMet | UsageRecorded) -> None:
        known = self._of(event)
        if isinstance(event, UsageRecorded):
            known.billed = event.billed
        elif isinstance(event, StepRefused):
            known.trouble = type(event.error).__name__
        elif not event.recovered:
            known.trouble = "refused as too large"

    def drawn(self) -> RenderableType:
        """What is to be seen now."""
        with self._guard:
            known = [*self._known.values()]
            lines: list[RenderableType] = [Text(self.title, style="dim")]
            if known and known[-1].steps:
                steps = [*known[-1].steps]
                lines += [legend(steps[-1].window), history(steps, 50, STEPS), *advice(steps[-1].window), Text("")]
            lines += [each.line() for each in reversed(known)]
        return Drawn(Group(*lines))

    def __enter__(self) -> Self:
        """Begin to draw."""
        if self._live is not None:
            msg = "LiveView: it draws already; make another one"
            raise ConfigError(msg)
        self._live = Live(self.drawn(), console=self.console, refresh_per_second=8)
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Draw for the last time; what is drawn stays."""
        live, self._live = self._live, None
        if live is not None:
            live.update(self.drawn())
            live.stop()
