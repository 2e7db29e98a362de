"""``agentctx report``: one page of HTML to look at a recorded session."""

from __future__ import annotations

import webbrowser
from pathlib import Path
from typing import Annotated

import anyio
import typer
from attrs import asdict, evolve

from agentctx.cli import options
from agentctx.cli.console import (
    FOUND,
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
    Named,
    Preset,
    SessionFile,
    SessionNumber,
    Target,
    Trigger,
    chosen,
    chosen_pipeline,
    parse_bytes,
    session_file,
    users_code,
)
from agentctx.errors import ConfigError
from agentctx.pipeline import Pipeline
from agentctx.printable import printable
from agentctx.replay import Recording, calls_of
from agentctx.report import SessionData, comparison_page, html_page, session_data
from agentctx.report.comparison import read_rows
from agentctx.show import summarise, verdict
from agentctx.transcripts.costs import unlogged
from agentctx.transcripts.files import name_of, opened

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
Full = Annotated[bool, typer.Option("--full", help="Whole texts, however large the page becomes.")]


@in_one_line
def report(  # noqa: PLR0913 - each is an option of the command
    session: SessionFile = None,
    *,
    number: SessionNumber = None,
    out: Out = "report.html",
    window: options.Window = None,
    model: options.Model = None,
    reserve: options.Reserve = None,
    trigger: Trigger = None,
    target: Target = None,
    format: options.Format = None,  # noqa: A002 - the option's name
    max_tool_tokens: options.ToolTokens = options.TOOL_TOKENS,
    keep_results: options.KeepResults = options.KEEP_RESULTS,
    preset: Preset = None,
    pipeline: Named = None,
    id: options.Id = None,  # noqa: A002 - the option's name
    max_bytes: options.MaxBytes = options.MAX_BYTES,
    no_content: NoContent = False,
    full: Full = False,
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
        _compare(compare, out, parse_bytes("--max-bytes", max_bytes), show=show, json=json)
        return
    typed = options.Typed(window, reserve, trigger, target, max_tool_tokens, keep_results)
    source = session_file(session, number)
    apart("--out", out, [source])
    found = chosen(source, id, max_bytes)
    entry = next(found)
    if id is None and next(found, None) is not None:
        err().print("there are more recordings in this file: --id ID makes a page of one of them", style="dim")
    recording = entry.recording if format is None else evolve(entry.recording, format=format)
    model = model or recording.model
    with at(entry.place):
        typed = evolve(typed, unlogged=unlogged(recording, model))
        missing = f"{typed.unlogged:,} tokens of system prompt and tools are not in the log, but in window and cost"
        remarks = [*entry.notes, missing] if typed.unlogged else entry.notes
        with users_code(pipeline):
            _, prepared_by = chosen_pipeline(typed, preset, pipeline, model)
            data = anyio.run(_replayed, recording, prepared_by, model)
        page = html_page(data, content=not no_content, full=full, remarks=remarks).encode()
    with written(out) as stream:
        stream.write(page)
    UnknownModels().tell(model, otherwise="--model, --window")
    _tell(data, out, len(page), content=not no_content, json=json)
    if show:
        _open(out)
    if not summarise(data.steps).clean:
        raise typer.Exit(FOUND)


def _open(out: str) -> None:
    """Show a page in the browser; say so where there is none."""
    if not webbrowser.open(Path(out).resolve().as_uri()):
        err().print(f"no browser was found to open {printable(out)}", style="dim")


def _compare(source: str, out: str, max_bytes: int, *, show: bool, json: bool) -> None:
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


async def _replayed(recording: Recording, pipeline: Pipeline, model: str | None) -> SessionData:
    with progress("replay", len(calls_of(recording, model=model))) as done:
        return await session_data(recording, pipeline, model=model, done=done)


_HOLDS = "it holds what the session says, secrets included: pass it on as you would the session (or use --no-content)"


def _tell(data: SessionData, out: str, size: int, *, content: bool, json: bool) -> None:
    """Say what was written, and what is in it."""
    summary = summarise(data.steps)
    if json:
        costs = {"unit": data.costs.unit, **{name: way[-1] if way else 0.0 for name, way in _ways(data)}}
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


def _ways(data: SessionData) -> tuple[tuple[str, tuple[float, ...]], ...]:
    costs = data.costs
    known = ("prepared", costs.prepared), ("everything", costs.everything), ("trimmed", costs.trimmed)
    return (*known, *((("billed", costs.billed),) if costs.billed else ()))
