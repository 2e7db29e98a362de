"""A running agent on the terminal: how full each conversation's window is, what was cut, what was saved."""

from __future__ import annotations

from collections import OrderedDict, deque
from threading import Lock
from types import TracebackType
from typing import Self

from attrs import Factory, define, field
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from agentctx.core.events import Event, OverflowMet, StepPrepared, StepRefused, UsageRecorded
from agentctx.errors import ConfigError
from agentctx.printable import on_one_line
from agentctx.sinks.drawing import Drawn, Snapshot, advice, bar, history, legend
from agentctx.sinks.facts import is_cut, saved
from agentctx.sinks.window import Windows, short

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
    """Shows running conversations on the terminal: a sink, and a context manager that draws while its block runs.

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
        >>> from agentctx.sinks.live import LiveView
        >>> shown = io.StringIO()
        >>> with LiveView(Console(file=shown, width=100)) as live:
        ...     pipeline = Pipeline(budget=8_000, sinks=[live])
        ...     view = await pipeline.session(id="thread-42").prepare([{"role": "user", "content": "Hello"}])
        >>> "thread-42" in shown.getvalue()
        True
    """

    console: Console = Factory(lambda: Console(stderr=True))
    title: str = field(default="agentctx", kw_only=True)
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
