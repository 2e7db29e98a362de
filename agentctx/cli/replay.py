"""``agentctx replay``: walk through a recorded session, model call by model call."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import anyio
import typer
from attrs import asdict, evolve, frozen

from agentctx import warmup
from agentctx.cli import options
from agentctx.cli.console import Tally, UnknownModels, err, in_one_line, print_json, printing, progress
from agentctx.cli.options import parse_bytes
from agentctx.cli.tables import print_replay, print_view
from agentctx.cli.transcripts import Entry, chosen
from agentctx.core.budget import Budget
from agentctx.engine.reading import reader
from agentctx.errors import ConfigError
from agentctx.pipeline import Pipeline
from agentctx.replay import Recording, Step, calls_of, replay as replay_steps
from agentctx.show.replay import step_json, summarise
from agentctx.show.view import shown, view_json

Trigger = Annotated[
    str | None,
    typer.Option(
        metavar="AMOUNT",
        show_default="0.8, at most what the reserve leaves",
        help="Act when the request is larger than this: 0.8 of what the reserve leaves, 24k tokens.",
    ),
]
Target = Annotated[
    str | None,
    typer.Option(
        metavar="AMOUNT",
        show_default="0.5, or half of the trigger that is given",
        help="When acting, go down to this: 0.5 of what the reserve leaves, 16k tokens.",
    ),
]
All = Annotated[bool, typer.Option("--all", help="Every recording in the file, not only the first.")]
Show = Annotated[
    int | None,
    typer.Option("--messages", metavar="N", min=1, show_default=False, help="Show what model call N would be sent."),
]
Full = Annotated[bool, typer.Option("--full", help="With --messages: whole messages, not only their beginning.")]


@frozen
class _Asked:
    """What was asked for, beside the file."""

    typed: options.Typed
    model: str | None
    format: str | None
    messages: int | None
    full: bool
    json: bool


@in_one_line
def replay(  # noqa: PLR0913 - each is an option of the command
    session: options.Source,
    *,
    window: options.Window = None,
    model: options.Model = None,
    reserve: options.Reserve = None,
    trigger: Trigger = None,
    target: Target = None,
    format: options.Format = None,  # noqa: A002 - the option's name
    max_tool_tokens: options.ToolTokens = options.TOOL_TOKENS,
    keep_results: options.KeepResults = options.KEEP_RESULTS,
    id: options.Id = None,  # noqa: A002 - the option's name
    max_bytes: options.MaxBytes = options.MAX_BYTES,
    every: All = False,
    messages: Show = None,
    full: Full = False,
    json: options.Json = False,
) -> None:
    """Walk through a recorded session: what would each model call be sent, and what is left out?

    [bold]Examples[/bold]

      agentctx replay session.jsonl --window 32k

      agentctx replay session.jsonl --window 32k --messages 17

      agentctx replay sessions.jsonl.gz --window 64k --all --json
    """
    typed = options.Typed(window, reserve, trigger, target, max_tool_tokens, keep_results)
    asked = _Asked(typed, model, format, messages, full, json)
    tally, unknown = Tally(), UnknownModels()
    for entry in _entries(chosen(session, id, parse_bytes("--max-bytes", max_bytes)), every=every or id is not None):
        with tally.at(entry.place):
            if not anyio.run(_replay, entry, asked):
                tally.found()
            unknown.tell(model or entry.recording.model, otherwise="--model, --window")
    tally.end()


def _entries(found: Iterator[Entry], *, every: bool) -> Iterator[Entry]:
    """The recordings to replay; says so when the file holds more than the one that is replayed."""
    if every:
        yield from found
        return
    yield next(found)
    if next(found, None) is not None:
        err().print("there are more recordings in this file: --all replays them all, --id ID one of them", style="dim")


async def _replay(entry: Entry, asked: _Asked) -> bool:
    """Replay one recording and print what was asked for; whether every call could have been sent."""
    recording = entry.recording if asked.format is None else evolve(entry.recording, format=asked.format)
    model = asked.model or recording.model
    budget, pipeline = asked.typed.budget(model), asked.typed.pipeline(model)
    if asked.messages is not None:
        return await _show(recording, pipeline, model, asked, asked.messages)
    warmup(model)  # so that the time of the first call does not hold the loading of the vocabulary
    steps = await _walk(recording, pipeline, model)
    summary = summarise(steps)
    if asked.json:
        print_json({**_head(recording, budget), "steps": list(map(step_json, steps)), "summary": asdict(summary)})
    else:
        with printing() as console:
            print_replay(console, entry, budget, steps, summary)
    return summary.clean


async def _walk(recording: Recording, pipeline: Pipeline, model: str | None) -> list[Step]:
    """The steps without their messages, so that a long replay can be kept."""
    with progress("replay", len(calls_of(recording, model=model))) as done:
        steps = []
        async for step in replay_steps(recording, pipeline, model=model):
            steps.append(step.without_view())
            done()
        return steps


def _head(recording: Recording, budget: Budget) -> dict[str, Any]:
    return {
        "id": recording.id,
        "format": recording.format,
        "messages": len(recording.messages),
        "budget": {
            "window": budget.window,
            "limit": budget.limit,
            "trigger": budget.trigger_tokens,
            "target": budget.target_tokens,
        },
    }


async def _show(recording: Recording, pipeline: Pipeline, model: str | None, asked: _Asked, wanted: int) -> bool:
    """Print the request of one model call; whether it could have been sent."""
    step = await _step(recording, pipeline, model, wanted)
    if step.view is None:
        raise step.overflow or ConfigError(f"--messages {wanted}: nothing was sent")
    if asked.json:
        print_json({**step_json(step), **view_json(step.view)})
        return step.valid and step.fits
    source = reader(recording.messages, format=recording.format, model=model)
    lines = shown(step.view, source.messages(recording.messages[: step.index]), source.meter.message)
    with printing() as console:
        print_view(console, step, recording.system, lines, full=asked.full)
    return step.valid and step.fits


async def _step(recording: Recording, pipeline: Pipeline, model: str | None, wanted: int) -> Step:
    step = None
    with progress("replay", wanted) as done:
        async for step in replay_steps(recording, pipeline, model=model):
            done()
            if step.number == wanted:
                return step
    last = 0 if step is None else step.number
    msg = f"--messages {wanted}: the recording has {last} model calls"
    raise ConfigError(msg)
