"""``agentctx compact``: make a request fit, once; the same format out as in."""

from __future__ import annotations

from typing import Annotated

import anyio
import typer

from agentctx.cli import options
from agentctx.cli.console import FOUND, UnknownModels, at, fail, in_one_line, report_json, tell_reports, written
from agentctx.cli.options import chosen
from agentctx.core.report import Report, View
from agentctx.errors import ContextOverflow
from agentctx.transcripts import Transcript

Out = Annotated[
    str | None,
    typer.Option(metavar="FILE", show_default="stdout", help="Where to write; replaced as a whole or not at all."),
]
ReportFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", show_default="stderr", help="Where to write the report as JSON, one line each."),
]
Target = Annotated[
    str | None,
    typer.Option(
        metavar="AMOUNT", show_default="all the room", help="Go down to this: 0.5 of all the room, 16k tokens."
    ),
]


@in_one_line
def compact(  # noqa: PLR0913 - each is an option of the command
    file: options.Source,
    *,
    window: options.Window = None,
    model: options.Model = None,
    reserve: options.Reserve = None,
    target: Target = None,
    format: options.Format = None,  # noqa: A002 - the option's name
    max_tool_tokens: options.ToolTokens = options.TOOL_TOKENS,
    keep_results: options.KeepResults = options.KEEP_RESULTS,
    id: options.Id = None,  # noqa: A002 - the option's name
    max_bytes: options.MaxBytes = options.MAX_BYTES,
    out: Out = None,
    report: ReportFile = None,
    json: Annotated[bool, typer.Option("--json", help="The report on stderr as JSON, one document a line.")] = False,
) -> None:
    """Make a request fit the window, once: a list in, a list out; a request in, a request out.

    A request that fits comes out as it went in, unless the provider would refuse it.

    [bold]Examples[/bold]

      agentctx compact request.json --window 32k --out smaller.json

      cat messages.json | agentctx compact - --model gpt-5.4 > smaller.json
    """
    typed = options.Typed(window, reserve, None, target, max_tool_tokens, keep_results)
    reports: list[tuple[str, Report]] = []
    unknown = UnknownModels()
    with written(out) as stream:
        for entry in chosen(file, id, max_bytes):
            with at(entry.place):
                try:
                    view = anyio.run(_prepare, entry, typed, model, format)
                except ContextOverflow as error:
                    fail(f"{entry.place}: {error}", FOUND)
                entry.write(entry.with_messages(view.messages), stream)
            if not json:  # stderr is the report's then
                unknown.tell(model or entry.recording.model, otherwise="--model, --window")
            reports.append((entry.recording.id or entry.place, view.report))
    if report is not None:
        with written(report) as stream:
            stream.writelines(line + b"\n" for line in map(report_json, reports))
    if json or report is None:
        tell_reports(reports, json=json)


async def _prepare(entry: Transcript, typed: options.Typed, model: str | None, format: str | None) -> View:  # noqa: A002
    recording = entry.recording
    model = model or recording.model
    return await typed.once(model).prepare(
        recording.messages,
        system=recording.system,
        tools=recording.tools,
        format=format or recording.format,
        model=model,
    )
