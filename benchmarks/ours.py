"""What agentctx takes for its work: each function measures one thing, in seconds."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Sequence
from statistics import median
from time import perf_counter
from typing import Any

import anyio
from attrs import frozen
from transcript import blob, transcript

from agentctx import Budget, FitContextWindow, Pipeline, TruncateToolOutputs
from agentctx.core.message import Context, Message
from agentctx.core.parts import Text, ToolResult
from agentctx.protocols import Call
from agentctx.tokens.exact import TiktokenCounter
from agentctx.tokens.meter import MessageMeter
from agentctx.tokens.tiktoken import encoding

MEGABYTES = 5_000_000
"""Characters of the big tool output; all of them ASCII, so bytes as well."""


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


def pipeline(window: int) -> Pipeline:
    """What a user of an agent loop would build."""
    return Pipeline(
        TruncateToolOutputs(max_tokens=2_000), FitContextWindow(), budget=Budget(window, trigger=0.9, target=0.5)
    )


@frozen
class Steps:
    """Two medians over the steps of a session, in seconds."""

    prepare: float
    tokenize: float


async def steps(old: int, count: int, seed: int) -> Steps:
    """Steps of a session that bring two new messages each, after ``old`` messages; and tokenizing those two."""
    made = transcript(old + 2 * count, seed)
    session = pipeline(128_000).session()
    messages = made[:old]
    await session.prepare(messages)
    gc.collect()
    prepare, bare = [], []
    for at in range(old, len(made), 2):
        new = made[at : at + 2]
        messages += new
        start = perf_counter()
        await session.prepare(messages)
        middle = perf_counter()
        tokenize(new)
        prepare.append(middle - start)
        bare.append(perf_counter() - middle)
    return Steps(median(prepare), median(bare))


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


def big_texts(count: int) -> list[str]:
    """Texts of 5 MB that begin and end differently, so that none can be known from another."""
    whole = blob(MEGABYTES + 5_000 * count)
    return [whole[5_000 * number : 5_000 * number + MEGABYTES] for number in range(count)]


async def cut(text: str) -> float:
    """Cutting a tool output to 1,000 tokens."""
    context = Context((Message("tool", (ToolResult("call_1", (Text(text),)),)),))
    stage, call = TruncateToolOutputs(max_tokens=1_000), Call(MessageMeter(TiktokenCounter()))
    start = perf_counter()
    await stage(context, call)
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


async def tick(gaps: list[float]) -> None:
    """Ask for the event loop every millisecond, and write down how long that took."""
    before = perf_counter()
    while True:
        await anyio.sleep(0.001)
        now = perf_counter()
        gaps.append(now - before)
        before = now


IMPORT = "import time, anyio, attrs; start = time.process_time(); import agentctx; print(time.process_time() - start)"


def import_time() -> float:
    """Processor time of importing agentctx in a fresh interpreter that has anyio and attrs already."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    command = [sys.executable, "-c", IMPORT]
    return float(subprocess.run(command, check=True, capture_output=True, env=environment).stdout)  # noqa: S603 - fixed words
