"""``agentctx replay`` and ``report``: a session call by call, in the terminal or as a page; ``sessions`` lists them."""

from __future__ import annotations

import webbrowser
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any

import anyio
import typer
from attrs import asdict, evolve, frozen
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from agentctx import warmup
from agentctx.budget import Budget
from agentctx.changes import Outcome
from agentctx.characters import calendar_time, on_one_line, printable
from agentctx.cli import options
from agentctx.cli.console import (
    FOUND,
    NARROW,
    Tally,
    UnknownModels,
    apart,
    at,
    err,
    in_one_line,
    print_json,
    printing,
    progress,
    written,
)
from agentctx.cli.options import (
    chosen,
    chosen_pipeline,
    from_tool,
    noted,
    parse_bytes,
    session_file,
    users_code,
)
from agentctx.comparison.run import read_rows
from agentctx.engine.reading import as_list
from agentctx.errors import ConfigError
from agentctx.message import Native
from agentctx.pipeline import Pipeline
from agentctx.replay import (
    Recording,
    Shown,
    Step,
    calls_of,
    faults,
    in_runs,
    reader_of,
    replay as replay_steps,
    shown,
    step_json,
    step_note,
    summarise,
    summary_rows,
    verdict,
    view_json,
)
from agentctx.report import SessionData, comparison_page, html_page, session_data
from agentctx.retention import Retention, Watch, needs, watched
from agentctx.transcripts import LocalSession, Transcript, local_sessions
from agentctx.transcripts.costs import Cost, billed_cost, reckoned, unlogged
from agentctx.transcripts.files import name_of, opened
from agentctx.transcripts.reading import chosen as chosen_of, folders, looked_into, with_format

All = Annotated[bool, typer.Option("--all", help="Every recording in the file, not only the first.")]
Show = Annotated[
    int | None,
    typer.Option("--messages", metavar="N", min=1, show_default=False, help="Show what model call N would be sent."),
]
Kept = Annotated[
    bool,
    typer.Option(
        "--retention",
        help="Say what later calls need of what stood before, and what of it they see or can have back by recall.",
    ),
]
FullMessages = Annotated[
    bool, typer.Option("--full", help="With --messages: whole messages, not only their beginning.")
]


@in_one_line
def replay(
    session: options.SessionFile = None,
    *,
    number: options.SessionNumber = None,
    window: options.Window = None,
    model: options.Model = None,
    reserve: options.Reserve = None,
    trigger: options.Trigger = None,
    target: options.Target = None,
    format: options.Format = None,
    max_tool_tokens: options.ToolTokens = options.TOOL_TOKENS,
    keep_results: options.KeepResults = options.KEEP_RESULTS,
    preset: options.Preset = None,
    pipeline: options.Named = None,
    id: options.Id = None,
    max_bytes: options.MaxBytes = options.MAX_BYTES,
    every: All = False,
    retention: Kept = False,
    messages: Show = None,
    full: FullMessages = False,
    json: options.Json = False,
) -> None:
    """Walk through a recorded session: what would each model call be sent, and what is left out?

    [bold]Examples[/bold]

      agentctx replay session.jsonl --window 32k

      agentctx replay session.jsonl --window 32k --messages 17

      agentctx replay session.jsonl --window 32k --preset coding_agent --retention

      agentctx replay sessions.jsonl.gz --window 64k --all --json

      agentctx replay --session 1 --window 100k
    """
    session = session_file(session, number)
    typed = options.Typed(window, reserve, trigger, target, max_tool_tokens, keep_results)
    asked = _Asked(typed, preset, pipeline, model, format, retention, messages, full, json)
    tally, unknown = Tally(), UnknownModels()
    found = chosen_of(session, id, parse_bytes("--max-bytes", max_bytes), wrong=tally.wrong if every else None)
    for entry in noted(_entries(found, every=every or id is not None)):
        with tally.at(entry.place):
            if not anyio.run(_replay, entry, asked):
                tally.found()
            unknown.tell(model or entry.recording.model, otherwise="--model, --window")
    tally.end()


@frozen
class _Asked:
    """What was asked for, beside the file."""

    typed: options.Typed
    preset: options.PresetName | None
    named: str | None
    model: str | None
    format: str | None
    retention: bool = False
    messages: int | None = None
    full: bool = False
    json: bool = False

    def recording(self, entry: Transcript) -> Recording:
        """What was recorded, taken for the format and the model that were named."""
        given = entry.recording
        named = given.format if self.format is None else self.format
        return evolve(given, format=named, model=self.model or given.model)

    def pipeline(self, recording: Recording, unlogged: int) -> tuple[Budget, Pipeline]:
        """The pipeline, with its budget; ``unlogged`` tokens of each request are not in the recording."""
        typed = evolve(self.typed, unlogged=unlogged)
        with users_code(self.named):
            return chosen_pipeline(typed, self.preset, self.named, recording.model)


def _entries(found: Iterator[Transcript], *, every: bool) -> Iterator[Transcript]:
    """The recordings to replay; says so when the file holds more than the one that is replayed."""
    if every:
        yield from found
        return
    yield next(found)
    if next(found, None) is not None:
        err().print("there are more recordings in this file: --all replays them all, --id ID one of them", style="dim")


async def _replay(entry: Transcript, asked: _Asked) -> bool:
    """Replay one recording and print what was asked for; whether every call could have been sent."""
    recording = asked.recording(entry)
    budget, pipeline = asked.pipeline(recording, unlogged(recording))
    if asked.messages is not None:
        return await _show(recording, pipeline, asked, asked.messages)
    warmup(recording.model)  # so that the time of the first call does not hold the loading of the vocabulary
    watch = None
    if asked.retention:
        given = reader_of(recording).messages(as_list(recording.messages))
        watch = Watch(given, needs(given, calls_of(recording)))
        recording, pipeline = watched(recording, pipeline, watch.library.store)
    with users_code(asked.named):
        steps = await _walk(recording, pipeline, watch)
    summary, found = summarise(steps), None if watch is None else watch.found
    costs = reckoned(recording, steps)
    if asked.json:
        told = {} if found is None else {"retention": {**asdict(found), "lost": found.lost}}
        steps_told = list(map(step_json, steps))
        head = {**_head(entry, budget), "format": asked.format or with_format(entry.recording, recording.model).format}
        print_json({**head, "steps": steps_told, "summary": asdict(summary), "costs": asdict(costs), **told})
    else:
        with printing() as console:
            _print_replay(console, entry, budget, steps)
            _print_summary(console, [*summary_rows(summary), *costs.rows(), *(_retention_rows(found) if found else ())])
            console.print(Text(verdict(summary), style="bold green" if summary.clean else "bold red"))
    return summary.clean


async def _walk(recording: Recording, pipeline: Pipeline, watch: Watch | None) -> list[Step]:
    """The steps without their messages, so that a long replay can be kept."""
    with progress("replay", len(calls_of(recording))) as done:
        steps = []
        async for step in replay_steps(recording, pipeline):
            if watch is not None and step.view is not None:
                await watch.see(step.index, step.view.context)
            steps.append(step.without_view())
            done()
        return steps


def _head(entry: Transcript, budget: Budget) -> dict[str, Any]:
    recording = entry.recording
    return {
        "id": recording.id,
        "source": entry.source or None,
        "messages": len(recording.messages),
        "budget": {
            "window": budget.window,
            "limit": budget.limit,
            "trigger": budget.trigger_tokens,
            "target": budget.target_tokens,
        },
    }


async def _show(recording: Recording, pipeline: Pipeline, asked: _Asked, wanted: int) -> bool:
    """Print the request of one model call; whether it could have been sent."""
    with users_code(asked.named):
        step = await _step(recording, pipeline, wanted)
    if step.view is None:
        raise step.overflow or ConfigError(f"--messages {wanted}: nothing was sent")
    if asked.json:
        print_json({**step_json(step), **view_json(step.view)})
        return step.valid and step.fits
    source = reader_of(recording)
    lines = shown(step.view, source.messages(recording.messages[: step.index]), source.meter.message)
    with printing() as console:
        _print_view(console, step, recording.system, lines, full=asked.full)
    return step.valid and step.fits


async def _step(recording: Recording, pipeline: Pipeline, wanted: int) -> Step:
    step = None
    with progress("replay", wanted) as done:
        async for step in replay_steps(recording, pipeline):
            done()
            if step.number == wanted:
                return step
    last = 0 if step is None else step.number
    msg = f"--messages {wanted}: the recording has {last} model calls"
    raise ConfigError(msg)


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


def _print_view(console: Console, step: Step, system: Native, lines: Sequence[Shown], *, full: bool) -> None:
    """Print the request of one step: the messages sent and left out, whole with the reasons or the start of each."""
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
        blocks = system if isinstance(system, list) else [{"text": str(system)}]
        text = "\n".join(block["text"] for block in blocks if isinstance(block, dict) and "text" in block)
        words = _words((text,), "", console, full=full)
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


def _row(run: Sequence[Shown], console: Console, *, full: bool) -> tuple[Text, Text, Text, Text, Text]:
    first, last = run[0], run[-1]
    mark, style = _MARKS[first.outcome]
    place = "" if first.given is None else str(first.given)
    role, parts = first.role, first.parts
    if len(run) > 1:
        place, role, parts = f"{first.given}-{last.given}", "", (f"{len(run)} messages",)
    why = f"{first.stage}: {first.reason}" if full and first.reason else first.stage
    words = Text.assemble((f"{printable(why)}  " if why else "", style))
    words.append_text(_words(parts, "dim" if first.sent is None else "", console, full=full))
    tokens = sum(line.tokens for line in run)
    words.no_wrap, words.overflow = not full, "fold" if full else "ellipsis"
    return Text(mark, style=style), Text(place, style="dim"), Text(role, style="magenta"), Text(f"{tokens:,}"), words


def _words(parts: Sequence[str], style: str, console: Console, *, full: bool) -> Text:
    if full:
        return Text(printable("\n".join(parts)), style=style)
    first, more = parts[:_MOST_PARTS], len(parts) - _MOST_PARTS
    width = max(_SHORTEST, (console.width - _BESIDE) // max(1, len(first)) - 2)
    lines = [on_one_line(part, width) for part in first] + ([f"+ {more} more"] if more > 0 else [])
    return Text("  ".join(lines), style=style)


_BAR = 12

_WIDE = 100
"""Columns from which on there is room for a bar beside the stages."""


def _print_replay(console: Console, entry: Transcript, budget: Budget, steps: Sequence[Step]) -> None:
    """Print the steps of one recording."""
    console.print(_title(entry, budget))
    if console.width < NARROW:
        _print_stacked(console, steps)
    else:
        console.print(_table(steps, bar=console.width >= _WIDE))
    for fault in faults(steps):
        style = "red" if fault.first.severity == "error" else "yellow"
        console.print(Text(printable(str(fault)), style=style))


def _title(entry: Transcript, budget: Budget) -> Text:
    recording = entry.recording
    name = Text(printable(recording.id or entry.place), style="bold")
    about = (
        f"{len(recording.messages):,} messages{from_tool(entry)}",
        f"window {budget.window:,}",
        f"limit {budget.limit:,}",
    )
    acts = (f"acts above {budget.trigger_tokens:,}", f"down to {budget.target_tokens:,}")
    return name.append("  " + ", ".join((*about, *acts)), style="not bold dim")


def _print_stacked(console: Console, steps: Sequence[Step]) -> None:
    """A paragraph for each step, which wraps between words: every number stays."""
    for step in steps:
        number, mark, messages, tokens, prefix, _ = _step_row(step, 1, 1, bar=False)
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
        table.add_row(*_step_row(step, messages, tokens, bar=bar))
    return table


def _width(numbers: Iterable[int]) -> int:
    return max((len(f"{number:,}") for number in numbers), default=1)


def _step_row(step: Step, messages: int, tokens: int, *, bar: bool) -> tuple[Text, ...]:
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


def _retention_rows(found: Retention) -> list[tuple[str, str]]:
    """What later calls needed and what became of the user's messages, as pairs of a label and what there is to say."""
    if not found.values:
        values = "no call took a value from what stood before it"
    else:
        places = (("recallable", found.recallable), ("found by search", found.searchable), ("lost", found.lost))
        rest = "".join(f", {count:,} {what}" for what, count in places if count)
        values = f"{found.values:,}, {found.visible:,} visible ({found.visible_share:.1%}){rest}"
    silent = f", {found.silent:,} silently lost" if found.silent else ""
    said = f"{found.said:,} between the first and the last, {found.kept:,} kept in the last request{silent}"
    return [("values needed later", values), ("the user's messages", said)]


def _print_summary(console: Console, told: Iterable[tuple[str, str]]) -> None:
    rows = [(label, printable(what)) for label, what in told]
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


Out = Annotated[
    str,
    typer.Option("--out", "-o", metavar="FILE", help="Where to write the page; - is stdout."),
]
Open = Annotated[bool, typer.Option("--open", help="Show the page in the browser when it is written.")]
NoContent = Annotated[
    bool, typer.Option("--no-content", help="Leave the messages' texts out: sizes, roles, stages and outcomes only.")
]
Compared = Annotated[
    str | None,
    typer.Option(
        "--compare",
        metavar="ROWS",
        show_default=False,
        help="In place of a session: a page of the rows that agentctx compare wrote with --out or --json.",
    ),
]
FullTexts = Annotated[bool, typer.Option("--full", help="Whole texts, however large the page becomes.")]


@in_one_line
def report(
    session: options.SessionFile = None,
    *,
    number: options.SessionNumber = None,
    out: Out = "report.html",
    window: options.Window = None,
    model: options.Model = None,
    reserve: options.Reserve = None,
    trigger: options.Trigger = None,
    target: options.Target = None,
    format: options.Format = None,
    max_tool_tokens: options.ToolTokens = options.TOOL_TOKENS,
    keep_results: options.KeepResults = options.KEEP_RESULTS,
    preset: options.Preset = None,
    pipeline: options.Named = None,
    id: options.Id = None,
    max_bytes: options.MaxBytes = options.MAX_BYTES,
    no_content: NoContent = False,
    full: FullTexts = False,
    compare: Compared = None,
    show: Open = False,
    json: options.Json = False,
) -> None:
    """Make one page of HTML of a recorded session: the window over time, the prompt at each call, the cost.

    The page is one file and loads nothing from elsewhere. It holds what the session says, secrets included.

    [bold]Examples[/bold]

      agentctx report session.jsonl --window 32k --open

      agentctx report --session 1 --window 100k --open

      agentctx report session.jsonl --window 32k --preset coding_agent -o session.html

      agentctx report session.jsonl --model claude-sonnet-4-5 --no-content

      agentctx report --compare rows.jsonl --open
    """
    if no_content and full:
        msg = "--no-content and --full: pass one of them"
        raise ConfigError(msg)
    if out == "-" and (json or show):
        msg = f"--out -: the page goes to stdout, so there is no room for {'--json' if json else '--open'}"
        raise ConfigError(msg)
    if compare is not None:
        if session is not None or number is not None:
            msg = "give a session or --compare, not both"
            raise ConfigError(msg)
        _write_comparison(compare, out, parse_bytes("--max-bytes", max_bytes), show=show, json=json)
        return
    source = session_file(session, number)
    apart("--out", out, [source])
    found = chosen(source, id, max_bytes)
    entry = next(found)
    if id is None and next(found, None) is not None:
        err().print("there are more recordings in this file: --id ID makes a page of one of them", style="dim")
    typed = options.Typed(window, reserve, trigger, target, max_tool_tokens, keep_results)
    asked = _Asked(typed, preset, pipeline, model, format)
    recording = asked.recording(entry)
    with at(entry.place):
        missing = unlogged(recording)
        said = f"{missing:,} tokens of system prompt and tools are not in the log, but in window and cost"
        remarks = [*entry.notes, said] if missing else entry.notes
        _, prepared_by = asked.pipeline(recording, missing)
        with users_code(pipeline):
            data = anyio.run(_session_data, recording, prepared_by)
        page = html_page(data, content=not no_content, full=full, remarks=remarks).encode()
    with written(out) as stream:
        stream.write(page)
    UnknownModels().tell(recording.model, otherwise="--model, --window")
    _tell_page(data, out, len(page), content=not no_content, json=json)
    if show:
        _open(out)
    if not summarise(data.steps).clean:
        raise typer.Exit(FOUND)


async def _session_data(recording: Recording, pipeline: Pipeline) -> SessionData:
    with progress("replay", len(calls_of(recording))) as done:
        return await session_data(recording, pipeline, done=done)


_HOLDS = "it holds what the session says, secrets included: pass it on as you would the session (or use --no-content)"


def _tell_page(data: SessionData, out: str, size: int, *, content: bool, json: bool) -> None:
    """Say what was written, and what is in it."""
    summary = summarise(data.steps)
    if json:
        ways = {name: getattr(data.costs, name) for name in ("prepared", "everything", "trimmed")}
        ways |= {"billed": data.costs.billed} if data.costs.billed else {}
        costs = {"unit": data.costs.unit, **{name: way[-1] if way else 0.0 for name, way in ways.items()}}
        told = {"page": out, "bytes": size, "content": content, "id": data.recording.id, "model": data.model}
        print_json({**told, "summary": asdict(summary), "costs": costs})
        return
    line = f"{printable(out)}  {size:,} bytes, {summary.steps:,} model calls, {verdict(summary)}"
    if out == "-":
        err().print(line.removeprefix("-  "))
    else:
        with printing() as console:
            console.print(line, soft_wrap=True)
    if content:
        err().print(_HOLDS, style="dim")


def _write_comparison(source: str, out: str, max_bytes: int, *, show: bool, json: bool) -> None:
    """Write the page of a comparison."""
    apart("--out", out, [source])
    with opened(source, max_bytes) as stream:
        rows = read_rows(stream.read().decode(errors="replace"), name_of(source))
    page = comparison_page(rows).encode()
    with written(out) as file:
        file.write(page)
    if json:
        print_json({"page": out, "bytes": len(page), "rows": len(rows)})
    elif out != "-":
        with printing() as console:
            console.print(f"{printable(out)}  {len(page):,} bytes, {len(rows):,} rows", soft_wrap=True)
    if show:
        _open(out)


def _open(out: str) -> None:
    """Show a page in the browser; say so where there is none."""
    if not webbrowser.open(Path(out).resolve().as_uri()):
        err().print(f"no browser was found to open {printable(out)}", style="dim")


Wanted = Annotated[
    str | None,
    typer.Argument(
        metavar="[N]", show_default=False, help="Replay this one: its number in the list, or how its id begins."
    ),
]
Last = Annotated[int, typer.Option("--last", metavar="N", min=1, help="List the newest N.")]
Every = Annotated[bool, typer.Option("--all", help="List all, however many there are.")]

_SESSION_COLUMNS = (
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
    every: Every = False,
    window: options.Window = None,
    preset: options.Preset = None,
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
            print_json(_session_json(session))
        return
    if not shown:
        where = ", ".join(printable(str(folder)) for folder in folders())
        err().print(f"no session of Claude Code or Codex lies on this machine: looked into {where}", style="dim")
        return
    with printing() as console:
        _print_sessions(console, shown, len(found))


def _looked_into(found: Sequence[LocalSession], max_bytes: int) -> list[LocalSession]:
    looked = []
    with progress("sessions", len(found)) as done:
        for session in found:
            looked.append(looked_into(session, max_bytes))
            done()
    return looked


def _session_json(session: LocalSession) -> dict[str, Any]:
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


def _print_sessions(console: Console, shown: Sequence[LocalSession], total: int) -> None:
    costs = [billed_cost(session.billed) for session in shown]
    rows = [_session_row(session, cost) for session, cost in zip(shown, costs, strict=True)]
    widths = _widths(console.width, rows)
    if widths is None:
        for row in rows:
            console.print(Text(" ".join(filter(None, row))))
    else:
        table = Table(box=SIMPLE_HEAD, pad_edge=False, collapse_padding=True, header_style="dim", expand=False)
        for (name, right), wide in zip(_SESSION_COLUMNS, widths, strict=True):
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
    wide = [max(map(cell_len, column)) for column in zip([name for name, _ in _SESSION_COLUMNS], *rows, strict=True)]
    room = width - 2 * len(_SESSION_COLUMNS) - sum(wide) + wide[_PROJECT] + wide[_MODEL]
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


def _session_row(session: LocalSession, cost: Cost) -> tuple[str, ...]:
    moment = calendar_time(session.modified).astimezone()
    priced = "" if not cost.calls else "?" if _usd(cost) is None else f"${cost.usd:,.2f}{'+' if cost.unpriced else ''}"
    return (
        str(session.number),
        f"{moment:%Y-%m-%d %H:%M}",
        session.tool,
        _end_of(on_one_line(session.project, len(session.project) + 1) if session.project else "", _WIDEST),
        _size_in_words(session.size),
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


def _size_in_words(size: int) -> str:
    for unit, name in ((1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB")):
        if size >= unit:
            return f"{size / unit:.1f} {name}"
    return f"{size} B"
