"""What the proxy costs: time to the first streamed byte beside plain forwarding, and memory under large requests.

Three processes beside this one: a provider that thinks and then streams, a forwarder of a few lines (starlette and
httpx, nothing read), and ``agentctx proxy``. Two hundred conversations talk at once, each with its own canary, through
the forwarder and through the proxy in turns, in the same run.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median, quantiles
from time import perf_counter, process_time
from typing import Any

import anyio
import httpx
from attrs import define, field

THINKS = 2.0
PIECES, PAUSE = 10, 0.1
MOST_ADDED = 5.0
"""Milliseconds that the proxy may add at the median."""
RESTS = 12.0
"""Seconds that a conversation rests between its steps, on average, while its tools run."""
TOOL_OUTPUT = "The quick brown fox jumps over the lazy dog, line {}.\n"

_PROVIDER = """
import asyncio, json, re, sys
import uvicorn

CANARY = re.compile(rb"canary-[0-9a-z-]+")

async def app(scope, receive, send):
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    said = json.dumps(sorted({each.decode() for each in CANARY.findall(body)}))
    await asyncio.sleep(THINKS)
    head = [(b"content-type", b"text/event-stream")]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    for place in range(PIECES):
        text = said if place == 0 else " word"
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m",
                 "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
        await send({"type": "http.response.body", "body": b"data: " + json.dumps(chunk).encode() + b"\\n\\n",
                    "more_body": True})
        await asyncio.sleep(PAUSE)
    await send({"type": "http.response.body", "body": b"data: [DONE]\\n\\n", "more_body": False})
"""

_FORWARDER = """
import sys
import httpx, uvicorn
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

client = httpx.AsyncClient(timeout=600, limits=httpx.Limits(max_connections=1000, max_keepalive_connections=100))

async def forward(request):
    headers = [(name, value) for name, value in request.headers.raw if name not in (b"host", b"connection")]
    sent = httpx.Request(request.method, UPSTREAM + request.url.path, headers=headers, content=await request.body())
    answer = await client.send(sent, stream=True)
    kept = {name: answer.headers[name] for name in ("content-type",)}
    return StreamingResponse(answer.aiter_raw(), answer.status_code, kept, background=None)

app = Starlette(routes=[Route("/{path:path}", forward, methods=["GET", "POST"])])
"""

_SERVED = """
import socket
listener = socket.socket(proto=socket.IPPROTO_TCP)
listener.bind(("127.0.0.1", 0))
listener.listen(2048)
print(f"listens on http://127.0.0.1:{listener.getsockname()[1]};", file=sys.stderr, flush=True)
settings = uvicorn.Config(app, log_level="error", ws="none", lifespan="off", timeout_keep_alive=75)
uvicorn.Server(settings).run(sockets=[listener])
"""


@contextmanager
def process(*command: str) -> Iterator[tuple[str, int]]:
    """A server in a process of its own; gives its address, and the number of the process."""
    with tempfile.TemporaryFile("w+") as said:
        running = subprocess.Popen([sys.executable, *command], stderr=said, text=True)  # noqa: S603 - our own
        try:
            yield _address(running, said), running.pid
        finally:
            running.terminate()
            running.wait(40)


def _address(running: subprocess.Popen[str], said: tempfile.SpooledTemporaryFile[str]) -> str:
    while True:
        said.seek(0)
        found = re.search(r"listens on (http://\S+?);", said.read())
        if found is not None:
            return found[1]
        if running.poll() is not None:
            said.seek(0)
            raise SystemExit(said.read())


@contextmanager
def servers(thinks: float, pieces: int, window: str) -> Iterator[dict[str, tuple[str, int]]]:
    """The provider, the forwarder and the proxy."""
    settings = f"THINKS, PIECES, PAUSE = {thinks}, {pieces}, {PAUSE}\n"
    with ExitStack() as stack:
        provider = stack.enter_context(process("-c", settings + _PROVIDER + _SERVED))
        upstream = f"UPSTREAM = {provider[0]!r}\n"
        forwarder = stack.enter_context(process("-c", upstream + _FORWARDER + _SERVED))
        asked = ("-m", "agentctx", "proxy", "--port", "0", "--window", window, "--upstream", provider[0])
        proxy = stack.enter_context(process(*asked))
        yield {"provider": provider, "forwarder": forwarder, "proxy": proxy}


@define
class Conversation:
    """A conversation with its canary: an agent's loop, whose history grows by a tool's output at each step.

    Args:
        name: The canary.
        mixed: How many requests showed the provider another conversation's canary.
    """

    name: str
    messages: list[dict[str, str]] = field(factory=list)
    seconds: list[float] = field(factory=list)
    mixed: int = 0

    def __attrs_post_init__(self) -> None:
        """Begin with the same task as all others."""
        self.messages = [
            {"role": "system", "content": "You are a careful agent. " * 40},
            {"role": "user", "content": "Find out why the build fails."},
        ]

    async def step(self, client: httpx.AsyncClient, address: str, lines: int) -> None:
        """Ask the model once."""
        body = {"model": "gpt-5.4", "stream": True, "messages": self.messages}
        begun, said = perf_counter(), b""
        headers = {"authorization": "Bearer sk-benchmark"}
        async with client.stream("POST", f"{address}/v1/chat/completions", json=body, headers=headers) as answer:
            answer.raise_for_status()
            async for piece in answer.aiter_raw():
                if not said:
                    self.seconds.append(perf_counter() - begun)
                said += piece
        seen = set(re.findall(rb"canary-[0-9a-z-]+", said))
        self.mixed += bool(seen - {self.name.encode()})
        output = "".join(TOOL_OUTPUT.format(random.random()) for _ in range(lines))  # noqa: S311 - not a secret
        self.messages += [
            {"role": "assistant", "content": f"I look further. {self.name}"},
            {"role": "user", "content": f"Output of {self.name}:\n{output}"},
        ]


async def talk(address: str, conversations: list[Conversation], steps: int, lines: int, rests: float = RESTS) -> None:
    """Let all conversations go on at once, each resting between its steps."""
    limits = httpx.Limits(max_connections=1_000, max_keepalive_connections=1_000)
    async with httpx.AsyncClient(timeout=120, limits=limits) as client, anyio.create_task_group() as tasks:

        async def one(conversation: Conversation) -> None:
            for _ in range(steps):
                await anyio.sleep(random.random() * 2 * rests)  # noqa: S311 - not a secret
                await conversation.step(client, address, lines)

        for conversation in conversations:
            tasks.start_soon(one, conversation)


def latency(talking: int, turns: int, steps: int, thinks: float = THINKS, rests: float = RESTS) -> dict[str, Any]:
    """The time to the first byte, through the forwarder and through the proxy in turns."""
    found: dict[str, list[float]] = {"forwarder": [], "proxy": []}
    mixed, busy = 0, dict.fromkeys(found, 0.0)
    with servers(thinks, PIECES, "16k") as at:
        for name in found:  # what is loaded at the first request
            anyio.run(talk, at[name][0], [Conversation(f"canary-first-{place}") for place in range(3)], 1, 40, 0.0)
        for turn in range(turns):
            for name, seconds in found.items():
                conversations = [Conversation(f"canary-{turn}-{place}") for place in range(talking)]
                before = processor_time(at[name][1])
                anyio.run(talk, at[name][0], conversations, steps, 40, rests)
                busy[name] += processor_time(at[name][1]) - before
                seconds += [each for one in conversations for each in one.seconds]
                mixed += sum(one.mixed for one in conversations)
        counted = httpx.get(f"{at['proxy'][0]}/metrics").text
    told = {name: _told(seconds, thinks) for name, seconds in found.items()}
    added = {name: told["proxy"][name] - told["forwarder"][name] for name in told["proxy"]}
    each = {name: 1_000 * busy[name] / len(seconds) for name, seconds in found.items()}
    return {
        "conversations at once": talking,
        "requests": {name: len(seconds) for name, seconds in found.items()},
        "ms to the first byte": {**told, "added": added},
        "ms of processor time for each request": each,
        "ms to prepare, mean": _mean(counted, "agentctx_proxy_prepare_seconds"),
        "added": added["median"],
        "mixed up": mixed,
    }


def _told(seconds: list[float], thinks: float) -> dict[str, float]:
    """Milliseconds beyond the provider's own."""
    above = [1_000 * (each - thinks) for each in seconds]
    return {"median": median(above), "p95": quantiles(above, n=20)[-1]}


def _mean(counted: str, name: str) -> float:
    values = {key: float(value) for key, value in re.findall(rf"^{name}_(sum|count) (\S+)$", counted, re.MULTILINE)}
    return 1_000 * values["sum"] / max(1.0, values["count"])


async def _large(address: str, requests: int, size: int) -> AsyncIterator[int]:
    lines = "".join(TOOL_OUTPUT.format(place) for place in range(size // 52))
    async with httpx.AsyncClient(timeout=120) as client:
        for number in range(requests):
            conversation = Conversation(f"canary-{number}")
            conversation.messages.append({"role": "assistant", "content": f"I look. {number}"})
            conversation.messages.append({"role": "user", "content": f"{number} {lines}"})
            await conversation.step(client, address, 1)
            yield number


def memory(requests: int) -> dict[str, object]:
    """How the proxy's memory grows over requests of 1 MB, each of another conversation."""
    sizes: list[float] = []

    async def go(address: str, pid: int) -> None:
        every = max(1, requests // 20)
        sizes.extend([resident(pid) async for number in _large(address, requests, 1_000_000) if number % every == 0])

    with servers(0.0, 1, "500k") as at:
        begun = perf_counter()
        anyio.run(go, *at["proxy"])
        each = (perf_counter() - begun) / requests
        sizes.append(resident(at["proxy"][1]))
    grown = {f"after {place * requests // 20}": round(sizes[place], 1) for place in (0, 5, 10, 15)}
    return {"requests of 1 MB": requests, "MB": {**grown, "at the end": round(sizes[-1], 1)}, "ms each": 1_000 * each}


def processor_time(pid: int) -> float:
    """The seconds that a process has worked."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(pid: int) -> float:
    """The memory that a process has, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def main() -> None:
    """Measure, and print it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--conversations", type=int, default=200)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--large", type=int, default=1_000, help="requests of 1 MB; 0 leaves them out")
    parser.add_argument("--thinks", type=float, default=THINKS, help="seconds until the provider's first byte")
    parser.add_argument("--rests", type=float, default=RESTS, help="seconds that a conversation rests between steps")
    asked = parser.parse_args()
    print(f"load of the machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    told = latency(asked.conversations, asked.turns, asked.steps, asked.thinks, asked.rests)
    print(json.dumps(told, indent=1))
    if asked.large:
        print(json.dumps(memory(asked.large), indent=1))
    print(f"load of the machine: {os.getloadavg()[0]:.1f}; this process: {process_time():.0f} s of processor time")
    sys.exit(told["added"] > MOST_ADDED or told["mixed up"] > 0)


if __name__ == "__main__":
    main()
