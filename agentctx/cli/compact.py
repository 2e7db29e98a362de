"""``agentctx compact``: make a request fit, once; the same format out as in."""

from __future__ import annotations

from typing import IO, Annotated

import anyio
import typer

from agentctx.cli import options
from agentctx.cli.console import UnknownModels, at, err, in_one_line, to_json
from agentctx.cli.options import parse_bytes
from agentctx.cli.transcripts import Entry, Layout, chosen, written
from agentctx.core.report import Report, View, report_text
from agentctx.printable import printable

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

_MOST_CHANGES = 5


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
        for entry in chosen(file, id, parse_bytes("--max-bytes", max_bytes)):
            with at(entry.place):
                view = anyio.run(_prepare, entry, typed, model, format)
                _write(stream, entry, view)
            if not json:  # stderr is the report's then
                unknown.tell(model or entry.recording.model, otherwise="--model, --window")
            reports.append((entry.recording.id or entry.place, view.report))
    _tell(reports, report, json=json)


async def _prepare(entry: Entry, typed: options.Typed, model: str | None, format: str | None) -> View:  # noqa: A002
    recording = entry.recording
    model = model or recording.model
    return await typed.once(model).prepare(
        recording.messages,
        system=recording.system,
        tools=recording.tools,
        format=format or recording.format,
        model=model,
    )


def _write(stream: IO[bytes], entry: Entry, view: View) -> None:
    if entry.layout is Layout.MESSAGE_LINES:
        stream.writelines(to_json(message) + b"\n" for message in view.messages)
    else:
        indent = 2 if entry.layout is Layout.PRETTY else None
        stream.write(to_json(entry.with_messages(view.messages), indent=indent) + b"\n")


def _tell(reports: list[tuple[str, Report]], target: str | None, *, json: bool) -> None:
    lines = [to_json({"id": name, **made.to_dict()}) for name, made in reports]
    if target is not None:
        with written(target) as stream:
            stream.writelines(line + b"\n" for line in lines)
    if json:
        typer.echo(b"\n".join(lines), err=True)
    elif target is None:
        for name, made in reports:
            err().print(printable(f"{name}: {report_text(made, most=_MOST_CHANGES)}"))
