"""``agentctx count``: how many tokens is a request?"""

from __future__ import annotations

from typing import Annotated, Any

import typer
from attrs import evolve
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.table import Table
from rich.text import Text

from agentctx.cli import options
from agentctx.cli.console import NARROW, Tally, UnknownModels, in_one_line, print_json, printing
from agentctx.cli.options import chosen
from agentctx.printable import on_one_line, printable
from agentctx.replay import reader_of
from agentctx.show import part_texts
from agentctx.transcripts import Transcript

ByMessage = Annotated[bool, typer.Option("--by-message", help="One line for each message.")]


@in_one_line
def count(
    file: options.Source,
    *,
    model: options.Model = None,
    format: options.Format = None,  # noqa: A002 - the option's name
    id: options.Id = None,  # noqa: A002 - the option's name
    max_bytes: options.MaxBytes = options.MAX_BYTES,
    by_message: ByMessage = False,
    json: options.Json = False,
) -> None:
    """Count the tokens of a request: messages, system prompt and tools.

    [bold]Examples[/bold]

      agentctx count request.json --model gpt-5.4

      agentctx count session.jsonl --by-message
    """
    tally, unknown = Tally(), UnknownModels()
    for entry in chosen(file, id, max_bytes, wrong=tally.wrong):
        with tally.at(entry.place):
            counted = _counted(entry, model, format)
            unknown.tell(model or entry.recording.model)
            if json:
                print_json({key: value for key, value in counted.items() if by_message or key != "by_message"})
            else:
                with printing() as console:
                    _print(console, counted, by_message=by_message)
    tally.end()


def _counted(entry: Transcript, model: str | None, format: str | None) -> dict[str, Any]:  # noqa: A002 - the option's name
    recording = entry.recording
    source = reader_of(evolve(recording, format=format or recording.format), model)
    context = source.context(recording.messages, recording.system, recording.tools)
    return {
        "id": recording.id,
        "place": entry.place,
        "source": entry.source or None,
        "format": source.wire.name,
        "messages": len(context.messages),
        "tokens": source.meter.size(context),
        "fixed": source.meter.fixed(context),
        "by_message": [
            {
                "index": index,
                "role": message.role,
                "tokens": source.meter.message(message),
                "text": on_one_line("\n".join(part_texts(message)), 200),
            }
            for index, message in enumerate(context.messages)
        ],
    }


def _line(counted: dict[str, Any]) -> str:
    name = printable(counted["id"] or counted["place"])
    tool = f", from {printable(counted['source'])}" if counted["source"] else ""
    return f"{counted['tokens']:,} tokens  {counted['messages']:,} messages, {counted['format']}{tool}  {name}"


def _print(console: Console, counted: dict[str, Any], *, by_message: bool) -> None:
    console.print(Text(_line(counted), style="bold" if by_message else ""))
    if by_message:
        console.print(_table(counted, beside=console.width >= NARROW))


def _table(counted: dict[str, Any], *, beside: bool) -> Table:
    """A row for each message, with its first words ``beside`` the numbers, or on a line below them."""
    table = Table(box=SIMPLE_HEAD, pad_edge=False, header_style="dim", expand=True)
    table.add_column("message", justify="right", no_wrap=True)
    table.add_column("role", ratio=1)
    table.add_column("tokens", justify="right", no_wrap=True)
    if beside:
        table.columns[1].no_wrap, table.columns[1].ratio = True, None
        table.add_column("begins", ratio=1, no_wrap=True, overflow="ellipsis")
    rows = [("", "system, tools", counted["fixed"], "")]
    rows += [
        (str(line["index"]), printable(line["role"]), line["tokens"], line["text"]) for line in counted["by_message"]
    ]
    for place, role, tokens, text in rows:
        words = Text(text, style="dim", no_wrap=True, overflow="ellipsis")
        who = Text(role, style="magenta")
        cells = (who, f"{tokens:,}", words) if beside else (Group(*filter(None, (who, words))), f"{tokens:,}")
        table.add_row(place, *cells)
    return table
