"""``agentctx validate``: would the provider take this request?"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any

from attrs import asdict
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from agentctx import validate as violations_of
from agentctx.cli import options
from agentctx.cli.console import Tally, in_one_line, print_json, printing
from agentctx.cli.options import chosen, from_tool
from agentctx.errors import InvalidInput
from agentctx.printable import printable
from agentctx.providers.registry import format_named
from agentctx.transcripts import Transcript
from agentctx.wire_format import Violation, WireFormat


@in_one_line
def validate(
    file: options.Source,
    *,
    format: options.Format = None,  # noqa: A002 - the option's name
    model: options.Model = None,
    id: options.Id = None,  # noqa: A002 - the option's name
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
            found = _violations(entry, format, model)
            if any(violation.severity == "error" for violation in found):
                tally.found()
            _show(entry, found, json=json)
    tally.end()


def _violations(entry: Transcript, format: str | None, model: str | None) -> tuple[Violation, ...]:  # noqa: A002 - as above
    wire = format or entry.recording.format
    return violations_of(_request(entry, wire), wire, model or entry.recording.model)


def _show(entry: Transcript, found: Sequence[Violation], *, json: bool) -> None:
    recording = entry.recording
    if json:
        said = [asdict(item) for item in found]
        print_json({"id": recording.id, "place": entry.place, "source": entry.source or None, "violations": said})
        return
    with printing() as console:
        _print(console, entry, found)


def _request(entry: Transcript, format: str | None) -> dict[str, Any]:  # noqa: A002 - the option's name
    """What would be sent.

    A recorded session may note a system prompt apart that its format keeps among the messages, and it ends with the
    model's answer, which is part of no request before the session goes on.
    """
    if format is None or not entry.recorded:
        return entry.request()
    wire, recording = format_named(format), entry.recording
    return wire.request(_before_the_answer(recording.messages, wire), recording.system, recording.tools)


def _before_the_answer(messages: Sequence[Any], wire: WireFormat) -> Sequence[Any]:
    end = len(messages)
    with suppress(InvalidInput):  # what cannot be read is left for the rules to name
        while (
            end > 1 and (last := wire.read_message(messages[end - 1], end - 1)).role == "assistant" and not last.calls
        ):
            end -= 1
    return messages[:end]


def _print(console: Console, entry: Transcript, found: Sequence[Violation]) -> None:
    errors = sum(violation.severity == "error" for violation in found)
    said = "valid" if not errors else f"{errors} {'violation' if errors == 1 else 'violations'}"
    warned = f", {len(found) - errors} warned of" if len(found) > errors else ""
    head = Text(f"{said}{warned}", style="bold red" if errors else "bold green")
    name, messages = entry.recording.id or entry.place, len(entry.recording.messages)
    console.print(head.append(f"  {printable(name)}, {messages:,} messages{from_tool(entry)}", style="not bold dim"))
    for violation in found:
        _print_one(console, violation)


def _print_one(console: Console, violation: Violation) -> None:
    colour = "red" if violation.severity == "error" else "yellow"
    place = printable(violation.path) or ("request" if violation.index is None else f"messages[{violation.index}]")
    line = Text(f"  {violation.severity}  ", style=colour).append(place, style="bold").append(f"  {violation.rule}")
    console.print(line)
    console.print(Padding(Text(printable(violation.message), style="dim"), (0, 0, 0, 9)))
