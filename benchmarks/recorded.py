"""Recorded sessions, read once, for benchmarks that send them model call by model call."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from hashlib import sha256
from pathlib import Path
from typing import Any, TypeVar

from attrs import field, frozen
from rich.console import Console
from rich.progress import Progress

from agentctx import Call, Context, Message, Tool
from agentctx.engine.reading import Reader, reader
from agentctx.formats.registry import format_named
from agentctx.replay import Recording, calls_of
from agentctx.unit import always

T, R = TypeVar("T"), TypeVar("R")

HERE = Path(__file__).parents[1]
SHARED, SHIPPED = HERE / "../shared/transcripts", HERE / "examples/sessions"


@frozen
class Recorded:
    """A recorded session.

    Args:
        kind: The class of sessions that it belongs to: the name of its file.
        recording: The session, natively.
        source: How it is read and counted.
        messages: Its messages as values.
        system: Its system prompt, where it is kept apart.
        tools: Its tools.
        calls: For each model call, how many messages it saw.
        outputs: For each model call, the tokens of its answer.
    """

    kind: str
    recording: Recording = field(repr=False)
    source: Reader = field(repr=False)
    messages: tuple[Message, ...] = field(repr=False)
    system: Message | None = field(repr=False)
    tools: tuple[Tool, ...] = field(repr=False)
    calls: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def call(self) -> Call:
        """What a stage is told."""
        return Call(self.source.meter, self.source.wire.name, wire=self.source.wire)

    def context(self, length: int) -> Context:
        """The request of the first ``length`` messages as the loop had it."""
        return Context(self.messages[:length], self.system, self.tools)

    @property
    def largest(self) -> int:
        """Tokens of the last request when nothing is ever left out."""
        return self.source.meter.size(self.context(self.calls[-1])) if self.calls else 0

    @property
    def floor(self) -> int:
        """Tokens of what no request can be without."""
        context = self.context(len(self.messages))
        kept = tuple(self.messages[index] for index in sorted(always(self.messages)))
        return self.source.meter.size(context.with_messages(kept))


def recorded_sessions() -> Iterator[Recorded]:
    """All sessions: the shared transcripts where they are, else the one that comes with the project."""
    for kind, line in lines_of_sessions():
        yield read(kind, json.loads(line))


def lines_of_sessions() -> Iterator[tuple[str, str]]:
    """The same as they stand in the files, with the class of each."""
    shared = sorted(SHARED.glob("*.jsonl.gz"))
    for path in shared or sorted(SHIPPED.glob("*.jsonl")):
        opened = gzip.open if path.suffix == ".gz" else open
        with opened(path, "rt", encoding="utf-8") as lines:
            for line in lines:
                yield path.name.partition(".")[0], line


def read(kind: str, record: dict[str, Any]) -> Recorded:
    """One line of a file of sessions."""
    format_, system, tools = record["format"], record.get("system"), record.get("tools")
    if system is not None and format_named(format_).keys.system is None:
        record["messages"].insert(0, {"role": "system", "content": system})
        system = None
    return of_recording(kind, Recording(record["messages"], system, tools, format_, id=record["id"], pending=False))


def of_recording(kind: str, recording: Recording, model: str | None = None) -> Recorded:
    """A recording, read and counted as for a model."""
    system, tools = recording.system, recording.tools
    source = reader(recording.messages, system=system, tools=tools, format=recording.format, model=model)
    messages = tuple(source.messages(recording.messages))
    calls = tuple(calls_of(recording))
    ends = (*calls[1:], len(messages))
    answers = [
        [message for message in messages[start:end] if message.role == "assistant"]
        for start, end in zip(calls, ends, strict=True)
    ]
    outputs = tuple(sum(map(source.meter.message, answer)) for answer in answers)
    return Recorded(kind, recording, source, messages, *source.head(system, tools), calls, outputs)


def half_of(name: object) -> int:
    """The half of the sessions that one belongs to: the first is for choosing settings."""
    return int(sha256(str(name).encode()).hexdigest(), 16) % 2


def of_middling_length(lines: Sequence[str], limit: int | None) -> list[str]:
    """At most so many of the lines of sessions, without the shortest and the longest; all, when there is no limit."""
    first = 0 if limit is None else max(0, len(lines) - limit) // 2
    return sorted(lines, key=len)[first:][:limit]


def in_processes(
    work: Callable[[T], R], tasks: Sequence[T], length: Callable[[T], int], jobs: int
) -> Iterator[tuple[T, R]]:
    """What comes of each task, in the order in which they end, with a bar of progress.

    Args:
        work: A function that another process can load.
        tasks: The tasks; the longest are begun first.
        length: How long one is, for the bar.
        jobs: Processes.
    """
    with ProcessPoolExecutor(jobs) as pool, Progress(console=Console(stderr=True)) as progress:
        bar = progress.add_task("sessions", total=sum(map(length, tasks)))
        running = {pool.submit(work, task): task for task in sorted(tasks, key=length, reverse=True)}
        for done in as_completed(running):
            yield running[done], done.result()
            progress.advance(bar, length(running[done]))
