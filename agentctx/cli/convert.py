"""``agentctx convert``: a recorded session, a request or messages in another provider's shape."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from typing import Annotated

import typer

from agentctx.cli import options
from agentctx.cli.compact import Out
from agentctx.cli.console import UnknownModels, at, err, in_one_line, tell_reports, written
from agentctx.cli.options import chosen
from agentctx.conversion import Converted, convert as converted
from agentctx.core.message import Native
from agentctx.core.report import Report
from agentctx.printable import printable
from agentctx.providers.registry import FORMATS, format_named
from agentctx.transcripts import Transcript

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

_KNOWN = frozenset(
    {"messages", "input", "contents", "system", "instructions", "system_instruction", "systemInstruction"}
    | {"tools", "toolConfig", "model", "modelId", "id", "format", "meta"}
)


@in_one_line
def convert(  # noqa: PLR0913 - each is an option of the command
    file: options.Source,
    *,
    to: To,
    model: ToModel = None,
    from_model: FromModel = None,
    format: options.Format = None,  # noqa: A002 - the option's name
    id: options.Id = None,  # noqa: A002 - the option's name
    max_bytes: options.MaxBytes = options.MAX_BYTES,
    out: Out = None,
    json: Annotated[bool, typer.Option("--json", help="The report on stderr as JSON, one document a line.")] = False,
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
            if not json:
                _tell_left_out(entry)
    tell_reports(reports, json=json)


def _converted(
    entry: Transcript,
    to: str,
    model: str | None,
    from_model: str | None,
    format: str | None,  # noqa: A002 - the option's name
) -> Converted:
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
    return format_named(to).request(done.messages, done.system, done.tools, model)


def _plain(value: object) -> Native:
    """The value as JSON has it: bytes, which AWS's own client encodes itself, as base64."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    return b64encode(value).decode() if isinstance(value, (bytes, bytearray)) else value


def _tell_left_out(entry: Transcript) -> None:
    """Name the settings of a request that were not taken along: each provider has its own."""
    if entry.key is None or entry.recorded:
        return
    if left := [key for key in entry.document if key not in _KNOWN]:
        err().print(printable(f"{entry.place}: set these anew for the provider: {', '.join(left)}"))
