"""Commands on a request: ``count``, ``window`` and ``validate`` look at it, ``compact`` and ``convert`` write another.

The file may as well hold a list of messages, or recorded sessions.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any

import anyio
import typer
from attrs import asdict, evolve
from rich.box import SIMPLE_HEAD
from rich.console import Console, Group
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from agentctx import validate as violations_of
from agentctx.characters import on_one_line, printable
from agentctx.cli import options
from agentctx.cli.console import (
    FOUND,
    NARROW,
    Tally,
    UnknownModels,
    at,
    err,
    fail,
    in_one_line,
    print_json,
    printing,
    report_json,
    tell_reports,
    written,
)
from agentctx.cli.options import chosen, from_tool
from agentctx.conversion import Converted, convert as converted
from agentctx.engine.reading import Reader
from agentctx.errors import ConfigError, ContextOverflow, InvalidInput
from agentctx.events.terminal import picture
from agentctx.events.window import Window, Windows
from agentctx.formats.registry import FORMATS, format_named
from agentctx.message import Context, Native
from agentctx.replay import part_texts, reader_of
from agentctx.reports import Report, View
from agentctx.transcripts import Transcript
from agentctx.wire_format import Violation, WireFormat

ByMessage = Annotated[bool, typer.Option("--by-message", help="One line for each message.")]

Out = Annotated[
    str | None,
    typer.Option(metavar="FILE", show_default="stdout", help="Where to write; replaced as a whole or not at all."),
]
ReportFile = Annotated[
    str | None,
    typer.Option(metavar="FILE", show_default="stderr", help="Where to write the report as JSON, one line each."),
]
ReportJson = Annotated[bool, typer.Option("--json", help="The report on stderr as JSON, one document a line.")]
Target = Annotated[
    str | None,
    typer.Option(
        metavar="AMOUNT", show_default="all the room", help="Go down to this: 0.5 of all the room, 16k tokens."
    ),
]

To = Annotated[
    str, typer.Option("--to", metavar="FORMAT", show_default=False, help=f"The format to write: {', '.join(FORMATS)}.")
]
ToModel = Annotated[
    str | None,
    typer.Option("--model", metavar="NAME", show_default=False, help="The model to go to: some take less than others."),
]
FromModel = Annotated[
    str | None,
    typer.Option(metavar="NAME", show_default="the recorded one", help="The model that was called until now."),
]


@in_one_line
def count(
    file: options.Source,
    *,
    model: options.Model = None,
    format: options.Format = None,
    id: options.Id = None,
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
                    _print_count(console, counted, by_message=by_message)
    tally.end()


def _counted(entry: Transcript, model: str | None, format: str | None) -> dict[str, Any]:
    source, context = _read(entry, model, format)
    return {
        "id": entry.recording.id,
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


def _print_count(console: Console, counted: dict[str, Any], *, by_message: bool) -> None:
    name = printable(counted["id"] or counted["place"])
    tool = f", from {printable(counted['source'])}" if counted["source"] else ""
    line = f"{counted['tokens']:,} tokens  {counted['messages']:,} messages, {counted['format']}{tool}  {name}"
    console.print(Text(line, style="bold" if by_message else ""))
    if by_message:
        console.print(_by_message(counted, beside=console.width >= NARROW))


def _by_message(counted: dict[str, Any], *, beside: bool) -> Table:
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


@in_one_line
def window(
    request: options.Source,
    *,
    window: options.Window = None,
    model: options.Model = None,
    reserve: options.Reserve = None,
    format: options.Format = None,
    id: options.Id = None,
    max_bytes: options.MaxBytes = options.MAX_BYTES,
    json: options.Json = False,
) -> None:
    """Show how full a request makes the window, of what, and what would help; exit code 1 when it does not fit.

    [bold]Examples[/bold]

      agentctx window request.json --model claude-sonnet-4-5

      agentctx window session.jsonl --window 64k --json
    """
    entry = next(chosen(request, id, max_bytes))
    typed = options.Typed(window, reserve, None, None, options.TOOL_TOKENS, options.KEEP_RESULTS)
    read, context = _read(entry, model, format)
    found = Windows().of_context(context, read, _limit(typed, model or entry.recording.model))
    UnknownModels().tell(model or entry.recording.model, otherwise="--model, --window")
    if json:
        print_json(_window_json(found))
    else:
        with printing() as console:
            console.print(picture(found, min(80, console.width - 2)))
    if found.limit is not None and found.tokens > found.limit:
        raise typer.Exit(FOUND)


def _limit(typed: options.Typed, model: str | None) -> int | None:
    """The most that a request may have; None where no window was given and the model's is not known."""
    try:
        return typed.budget(model).limit
    except ConfigError:
        if typed.window is not None or typed.reserve is not None:
            raise
        return None


def _window_json(found: Window) -> dict[str, Any]:
    return {
        "tokens": found.tokens,
        "limit": found.limit,
        "share": round(found.share, 4),
        "free": found.free if found.limit is not None else None,
        "sections": [{"name": section.name, **asdict(section)} for section in found.sections],
        "warning": found.warning or None,
        "advice": [asdict(each) for each in found.advice],
    }


@in_one_line
def validate(
    file: options.Source,
    *,
    format: options.Format = None,
    model: options.Model = None,
    id: options.Id = None,
    max_bytes: options.MaxBytes = options.MAX_BYTES,
    json: options.Json = False,
) -> None:
    """Check a request against its provider's rules: every violation with its place and the provider's words.

    [bold]Examples[/bold]

      agentctx validate request.json

      agentctx validate sessions.jsonl --format anthropic --json
    """
    tally = Tally()
    for entry in chosen(file, id, max_bytes, wrong=tally.wrong):
        with tally.at(entry.place):
            wire = format or entry.recording.format
            found = violations_of(_request(entry, wire), wire, model or entry.recording.model)
            if any(violation.severity == "error" for violation in found):
                tally.found()
            _show(entry, found, json=json)
    tally.end()


def _request(entry: Transcript, format: str | None) -> dict[str, Any]:
    """What would be sent.

    A recorded session may note a system prompt apart that its format keeps among the messages, and it ends with the
    model's answer, which is part of no request before the session goes on.
    """
    if format is None or not entry.recorded:
        return entry.request()
    wire, recording = format_named(format), entry.recording
    return wire.keys.request(_before_the_answer(recording.messages, wire), recording.system, recording.tools)


def _before_the_answer(messages: Sequence[Any], wire: WireFormat) -> Sequence[Any]:
    end = len(messages)
    with suppress(InvalidInput):  # what cannot be read is left for the rules to name
        while (
            end > 1 and (last := wire.read_message(messages[end - 1], end - 1)).role == "assistant" and not last.calls
        ):
            end -= 1
    return messages[:end]


def _show(entry: Transcript, found: Sequence[Violation], *, json: bool) -> None:
    if json:
        said = [asdict(item) for item in found]
        print_json({"id": entry.recording.id, "place": entry.place, "source": entry.source or None, "violations": said})
        return
    with printing() as console:
        _print_violations(console, entry, found)


def _print_violations(console: Console, entry: Transcript, found: Sequence[Violation]) -> None:
    errors = sum(violation.severity == "error" for violation in found)
    said = "valid" if not errors else f"{errors} {'violation' if errors == 1 else 'violations'}"
    warned = f", {len(found) - errors} warned of" if len(found) > errors else ""
    head = Text(f"{said}{warned}", style="bold red" if errors else "bold green")
    name, messages = entry.recording.id or entry.place, len(entry.recording.messages)
    console.print(head.append(f"  {printable(name)}, {messages:,} messages{from_tool(entry)}", style="not bold dim"))
    for violation in found:
        colour = "red" if violation.severity == "error" else "yellow"
        place = printable(violation.path) or ("request" if violation.index is None else f"messages[{violation.index}]")
        line = Text(f"  {violation.severity}  ", style=colour).append(place, style="bold").append(f"  {violation.rule}")
        console.print(line)
        console.print(Padding(Text(printable(violation.message), style="dim"), (0, 0, 0, 9)))


@in_one_line
def compact(
    file: options.Source,
    *,
    window: options.Window = None,
    model: options.Model = None,
    reserve: options.Reserve = None,
    target: Target = None,
    format: options.Format = None,
    max_tool_tokens: options.ToolTokens = options.TOOL_TOKENS,
    keep_results: options.KeepResults = options.KEEP_RESULTS,
    id: options.Id = None,
    max_bytes: options.MaxBytes = options.MAX_BYTES,
    out: Out = None,
    report: ReportFile = None,
    json: ReportJson = False,
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


async def _prepare(entry: Transcript, typed: options.Typed, model: str | None, format: str | None) -> View:
    recording = entry.recording
    model = model or recording.model
    return await typed.once(model).prepare(
        recording.messages,
        system=recording.system,
        tools=recording.tools,
        format=format or recording.format,
        model=model,
    )


@in_one_line
def convert(
    file: options.Source,
    *,
    to: To,
    model: ToModel = None,
    from_model: FromModel = None,
    format: options.Format = None,
    id: options.Id = None,
    max_bytes: options.MaxBytes = options.MAX_BYTES,
    out: Out = None,
    json: ReportJson = False,
) -> None:
    """Write a conversation as another provider takes it: a session in, a session out; a request in, a request out.

    A list of messages stays a list, unless there is a system prompt or a tool that has to stand beside it.

    [bold]Examples[/bold]

      agentctx convert session.jsonl --to anthropic --out claude.jsonl

      cat messages.json | agentctx convert - --to gemini --model gemini-3.1-pro
    """
    format_named(to)
    reports: list[tuple[str, Report]] = []
    unknown = UnknownModels()
    with written(out) as stream:
        for entry in chosen(file, id, max_bytes):
            with at(entry.place):
                done = _converted(entry, to, model, from_model, format)
                entry.write(_plain(_document(entry, done, to, model)), stream)
                unknown.tell(from_model or entry.recording.model, otherwise="--from-model")
                unknown.tell(model)
            reports.append((entry.recording.id or entry.place, done.report))
            if not json and entry.key is not None and not entry.recorded:
                settings = [key for key in entry.document if key not in _KNOWN]  # each provider has its own
                if settings:
                    err().print(printable(f"{entry.place}: set these anew for the provider: {', '.join(settings)}"))
    tell_reports(reports, json=json)


def _converted(entry: Transcript, to: str, model: str | None, from_model: str | None, format: str | None) -> Converted:
    recording = entry.recording
    return converted(
        recording.messages,
        to,
        format=format or recording.format,
        model=model,
        from_model=from_model or recording.model,
        system=recording.system,
        tools=recording.tools,
    )


def _document(entry: Transcript, done: Converted, to: str, model: str | None) -> Native:
    """The conversation in the kind of document that it came in."""
    if entry.recorded:
        kept = {key: value for key, value in entry.document.items() if key != entry.key}
        return {**kept, "format": to, "system": done.system, "tools": done.tools, "messages": done.messages}
    if entry.key is None and done.system is None and done.tools is None:
        return done.messages
    return format_named(to).keys.request(done.messages, done.system, done.tools, model)


def _plain(value: object) -> Native:
    """The value as JSON has it: bytes, which AWS's own client encodes itself, as base64."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return b64encode(value).decode() if isinstance(value, (bytes, bytearray)) else value


_KNOWN = frozenset(
    {"messages", "input", "contents", "system", "instructions", "system_instruction", "systemInstruction"}
    | {"tools", "toolConfig", "model", "modelId", "id", "format", "meta"}
)


def _read(entry: Transcript, model: str | None, format: str | None) -> tuple[Reader, Context]:
    recording = entry.recording
    read = reader_of(evolve(recording, format=format or recording.format), model)
    return read, read.context(recording.messages, recording.system, recording.tools)
