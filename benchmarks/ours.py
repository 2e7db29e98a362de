"""What agentctx takes for its work: each function measures one thing, in seconds."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from tempfile import gettempdir
from time import perf_counter
from typing import Any

import anyio
from attrs import define, field
from transcript import blob, transcript

from agentctx import (
    Budget,
    Call,
    Context,
    ContextStrategy,
    FitContextWindow,
    Message,
    Pipeline,
    Session,
    Text,
    ToolResult,
    TruncateToolOutputs,
)
from agentctx.engine.run_stages import run_alone
from agentctx.tokens import TiktokenCounter
from agentctx.tokens.counting import MessageMeter
from agentctx.tokens.tiktoken import encoding

MEGABYTES = 5_000_000
"""Characters of the big tool output; all of them ASCII, so bytes as well."""

MARKED = "claude-sonnet-4-5"
"""A model whose cache keeps what markers ask for."""


def tokens(text: str) -> int:
    """The tokens of a text, by tiktoken itself: nothing is remembered."""
    return len(encoding("o200k_base").encode_ordinary(text))


def tokenize(messages: Sequence[dict[str, Any]]) -> int:
    """The tokens of all texts of messages."""
    total = 0
    for message in messages:
        total += tokens(message["content"])
        for call in message.get("tool_calls", ()):
            total += tokens(call["function"]["name"]) + tokens(call["function"]["arguments"])
    return total


def pipeline(window: int, *more: ContextStrategy) -> Pipeline:
    """What a user of an agent loop would build, and more stages after it."""
    stages = TruncateToolOutputs(max_tokens=2_000), FitContextWindow(), *more
    return Pipeline(*stages, budget=Budget(window, trigger=0.9, target=0.5))


@define
class Steps:
    """A session and what each of its steps took, in seconds.

    What tokenizing costs is measured on messages of another transcript of the same kind: text that was tokenized a
    moment ago is tokenized faster, and the step meets its messages for the first time.
    """

    session: Session
    made: list[dict[str, Any]]
    messages: list[dict[str, Any]]
    others: list[dict[str, Any]]
    prepared: list[float] = field(factory=list)
    tokenized: list[float] = field(factory=list)

    async def step(self) -> None:
        """One step that brings two new messages; and tokenizing two such messages."""
        self.messages += self.made[len(self.messages) : len(self.messages) + 2]
        others = [self.others.pop(), self.others.pop()]
        start = perf_counter()
        await self.session.prepare(self.messages)
        middle = perf_counter()
        tokenize(others)
        self.prepared.append(middle - start)
        self.tokenized.append(perf_counter() - middle)

    @property
    def prepare(self) -> float:
        """The median of preparing."""
        return median(self.prepared)

    @property
    def tokenize(self) -> float:
        """The median of tokenizing the new messages alone."""
        return median(self.tokenized)


async def steps(olds: Sequence[tuple[int, Pipeline]], count: int, model: str | None = None) -> list[Steps]:
    """Steps of sessions that have so many old messages; the sessions take turns, twenty steps each.

    So all of them meet the same machine, and the processor's caches are as warm as in a session of its own.

    Args:
        olds: How many old messages each session has, and its pipeline.
        count: How many steps each takes.
        model: The model that is called, if one is named.
    """
    sessions = []
    for seed, (old, made_of) in enumerate(olds):
        made, session = transcript(old + 2 * count, seed), made_of.session(model=model)
        await session.prepare(made[:old])
        others = transcript(2 + 2 * count, len(olds) + seed)[:1:-1]
        sessions.append(Steps(session, made, made[:old], others))
    gc.collect()
    for _ in range(count // 20):
        for each in sessions:
            for _ in range(20):
                await each.step()
    return sessions


async def prepare(window: int, messages: Sequence[dict[str, Any]]) -> float:
    """One stateless prepare that drops what has no room, in seconds."""
    gc.collect()
    start = perf_counter()
    await Pipeline(FitContextWindow(), budget=Budget(window)).prepare(messages)
    return perf_counter() - start


async def loop(count: int, room: int, seed: int) -> float:
    """A whole agent loop that appends two messages a step and prepares each time, in ``room`` tokens."""
    made = transcript(2 + 2 * count, seed)
    session = pipeline(room).session()
    messages = made[:2]
    gc.collect()
    start = perf_counter()
    for at in range(2, len(made), 2):
        messages += made[at : at + 2]
        await session.prepare(messages)
    return perf_counter() - start


def few_and_big(seed: int) -> list[dict[str, Any]]:
    """A million tokens in three tool outputs."""
    whole, messages = blob(MEGABYTES, seed), transcript(2, seed)
    for number in range(3):
        call = {"id": f"call_{number}", "type": "function", "function": {"name": "fetch_page", "arguments": "{}"}}
        text = whole[number * MEGABYTES // 3 : (number + 1) * MEGABYTES // 3]
        messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        messages.append({"role": "tool", "tool_call_id": call["id"], "content": text})
    return messages


def big_texts(count: int) -> list[str]:
    """Texts of 5 MB that begin and end differently, so that none can be known from another."""
    whole = blob(MEGABYTES + 5_000 * count)
    return [whole[5_000 * number : 5_000 * number + MEGABYTES] for number in range(count)]


async def cut(text: str) -> float:
    """Cutting a tool output to 1,000 tokens."""
    context = Context((Message("tool", (ToolResult("call_1", (Text(text),)),)),))
    stage, call = TruncateToolOutputs(max_tokens=1_000), Call(MessageMeter(TiktokenCounter()))
    start = perf_counter()
    await run_alone(stage, context, call)
    return perf_counter() - start


def encode(text: str) -> float:
    """Encoding a text in one piece."""
    start = perf_counter()
    tokens(text)
    return perf_counter() - start


async def pause(text: str, seed: int) -> float:
    """The longest time for which the event loop stands still while a tool output arrives in a session."""
    session, messages = pipeline(128_000).session(), transcript(100, seed)
    await session.prepare(messages)
    call = {"id": "call_big", "type": "function", "function": {"name": "fetch_page", "arguments": "{}"}}
    messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
    messages.append({"role": "tool", "tool_call_id": "call_big", "content": text})
    gaps: list[float] = []
    async with anyio.create_task_group() as group:
        group.start_soon(tick, gaps)
        await anyio.sleep(0.05)
        gaps.clear()
        await session.prepare(messages)
        await anyio.sleep(0.005)
        group.cancel_scope.cancel()
    return max(gaps)


async def held(messages: Sequence[dict[str, Any]], clock: Callable[[], float]) -> float:
    """The longest time for which another task does not get the event loop while a new session prepares, in seconds.

    By ``thread_time`` it is what ``prepare`` itself does on the loop's thread without letting go. By ``perf_counter``
    it is what the other task waits: for the interpreter too, which worker threads and the garbage collector hold.
    """
    gaps: list[float] = []
    gc.collect()
    async with anyio.create_task_group() as group:
        group.start_soon(tick, gaps, clock)
        await anyio.sleep(0.05)
        gaps.clear()
        await pipeline(128_000).session().prepare(messages)
        await anyio.sleep(0.005)
        group.cancel_scope.cancel()
    return max(gaps)


async def tick(gaps: list[float], clock: Callable[[], float] = perf_counter) -> None:
    """Ask for the event loop every millisecond, and write down how long that took."""
    before = clock()
    while True:
        await anyio.sleep(0.001)
        now = clock()
        gaps.append(now - before)
        before = now


async def objects(count: int) -> float:
    """Objects that the garbage collector has to look at for each message that a session keeps, beside the caller's."""
    first, made = transcript(50, seed=1), transcript(count)
    await pipeline(20_000_000).session().prepare(first)  # what is loaded with the first step of all does not count
    session = pipeline(20_000_000).session()
    gc.collect()
    before = len(gc.get_objects())
    await session.prepare(made)
    gc.collect()
    return (len(gc.get_objects()) - before) / count


PACKAGE = "import agentctx"
QUICK_START = "from agentctx import Budget, FitContextWindow, Pipeline, TruncateToolOutputs"


FIRST_PREPARE = f"""
import time, anyio
{QUICK_START}

async def main():
    pipeline = Pipeline(TruncateToolOutputs(max_tokens=2_000), FitContextWindow(), budget=Budget(128_000))
    start = time.process_time()
    await pipeline.prepare(MESSAGES)
    print(time.process_time() - start)

MESSAGES = [{{"role": "user", "content": "Find out why the build fails."}}]
anyio.run(main)
"""


def first_prepare(messages: Sequence[dict[str, Any]] = ()) -> float:
    """Processor time of the first prepare of a program, of a short question or of these messages, in seconds."""
    script = FIRST_PREPARE.replace("\nanyio.run", f"\nMESSAGES[:0] = {list(messages)!r}\nanyio.run")
    return said_by(script)


def import_time(statement: str) -> float:
    """Processor time of an import in a fresh interpreter that has anyio and attrs already, in seconds."""
    return said_by(
        f"import time, anyio, attrs; start = time.process_time(); {statement}; print(time.process_time() - start)"
    )


def said_by(script: str) -> float:
    """What a program prints that runs in a fresh interpreter, all modules being compiled, as installed ones are."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    environment["PYTHONPYCACHEPREFIX"] = str(Path(gettempdir(), f"agentctx-benchmarks-{os.getpid()}"))
    command = [sys.executable, "-c", script]
    return float(subprocess.run(command, check=True, capture_output=True, env=environment).stdout)  # noqa: S603 - fixed words
