"""``agentctx window``: how full a request makes the window, and of what."""

from __future__ import annotations

from typing import Any

import typer
from attrs import asdict, evolve

from agentctx.cli import options
from agentctx.cli.console import FOUND, UnknownModels, in_one_line, print_json, printing
from agentctx.cli.options import chosen
from agentctx.errors import ConfigError
from agentctx.replay import reader_of
from agentctx.sinks.terminal import picture
from agentctx.sinks.window import Window, Windows
from agentctx.transcripts import Transcript


@in_one_line
def window(
    request: options.Source,
    *,
    window: options.Window = None,
    model: options.Model = None,
    reserve: options.Reserve = None,
    format: options.Format = None,  # noqa: A002 - the option's name
    id: options.Id = None,  # noqa: A002 - the option's name
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
    found = _window(entry, typed, model, format)
    UnknownModels().tell(model or entry.recording.model, otherwise="--model, --window")
    if json:
        print_json(_plain(found))
    else:
        with printing() as console:
            console.print(picture(found, min(80, console.width - 2)))
    if found.limit is not None and found.tokens > found.limit:
        raise typer.Exit(FOUND)


def _window(entry: Transcript, typed: options.Typed, model: str | None, format_name: str | None) -> Window:
    recording = entry.recording
    read = reader_of(evolve(recording, format=format_name or recording.format), model)
    context = read.context(recording.messages, recording.system, recording.tools)
    return Windows().of_context(context, read, _limit(typed, model or recording.model))


def _limit(typed: options.Typed, model: str | None) -> int | None:
    """The most that a request may have; None where no window was given and the model's is not known."""
    try:
        return typed.budget(model).limit
    except ConfigError:
        if typed.window is not None or typed.reserve is not None:
            raise
        return None


def _plain(found: Window) -> dict[str, Any]:
    return {
        "tokens": found.tokens,
        "limit": found.limit,
        "share": round(found.share, 4),
        "free": found.free if found.limit is not None else None,
        "sections": [{"name": section.name, **asdict(section)} for section in found.sections],
        "warning": found.warning or None,
        "advice": [asdict(each) for each in found.advice],
    }
