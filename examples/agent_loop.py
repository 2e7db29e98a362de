"""A real agent loop that outgrows its model's window, and what a session does about it.

A small model that runs in this process is asked which service of a project waits longest for its database. It reads
one configuration after the other through a tool; each answer has several thousand tokens, and the model takes no
request of more than 8,000: it refuses it as a provider would. With a session the loop gets to the answer, since old
tool results are cleared before they no longer fit. Without it the loop fails at the third file.

Run it: ``python examples/agent_loop.py``, and ``python examples/agent_loop.py --without`` for the failure. Neither
needs a key or a network.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import anyio
from attrs import define, field, frozen

from agentctx import Budget, ClearToolResults, FitContextWindow, Pipeline, TruncateToolOutputs, count

WINDOW = 8_000
SERVICES = (
    "accounts",
    "billing",
    "catalog",
    "delivery",
    "events",
    "feedback",
    "gateway",
    "history",
    "invoices",
    "jobs",
)
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "read_file",
            "description": "Read a file of the project.",
            "parameters": {
                "type": "object",
                "properties": {"path": {"type": "string", "description": "Path from the project's root."}},
                "required": ["path"],
            },
        },
    }
]

Message = dict[str, Any]


class ContextLengthExceeded(Exception):
    """The model's refusal, with the body that an OpenAI endpoint sends."""

    def __init__(self, tokens: int) -> None:
        """Refuse a request of so many tokens."""
        text = (
            f"This model's maximum context length is {WINDOW} tokens. However, your messages resulted in {tokens} "
            "tokens. Please reduce the length of the messages."
        )
        super().__init__(f"Error code: 400 - {text}")
        self.status_code = 400
        self.body = {
            "message": text,
            "type": "invalid_request_error",
            "param": "messages",
            "code": "context_length_exceeded",
        }


@define
class SmallModel:
    """A model that reads files one by one, keeps notes in its own words, and answers when none is left.

    It has no memory but the messages that it is shown: what it knows is its own last note and the newest tool result.
    """

    requests: list[int] = field(factory=list)

    async def create(self, messages: list[Message], tools: list[Message]) -> dict[str, Any]:
        """One model call.

        Raises:
            ContextLengthExceeded: If the request has more tokens than the window.
        """
        tokens = count(messages, tools=tools)
        if tokens > WINDOW:
            raise ContextLengthExceeded(tokens)
        self.requests.append(tokens)
        message = self._next(messages)
        usage = {"prompt_tokens": tokens, "completion_tokens": count([message], format="openai-chat")}
        return {"message": message, "usage": usage}

    def _next(self, messages: list[Message]) -> Message:
        best, seen = noted(messages)
        newest = messages[-1]
        if newest["role"] == "tool":
            best = max(best, waits(newest["content"]))
            seen += 1
        note = f"Longest so far: {best[1] or 'none'} with {best[0]} ms, after {seen} of {len(SERVICES)}."
        if seen == len(SERVICES):
            return {"role": "assistant", "content": f"{best[1]} waits longest for its database: {best[0]} ms."}
        arguments = json.dumps({"path": f"{SERVICES[seen]}.conf"})
        call = {"id": f"call_{seen}", "type": "function", "function": {"name": "read_file", "arguments": arguments}}
        return {"role": "assistant", "content": note, "tool_calls": [call]}


def noted(messages: list[Message]) -> tuple[tuple[int, str], int]:
    """What the model wrote down last: the longest wait and its service, and how many files it had read."""
    for message in reversed(messages):
        if message["role"] == "assistant":
            service, wait, seen = re.findall(r"far: (\w+) with (\d+) ms, after (\d+) of", message["content"])[0]
            return (int(wait), "" if service == "none" else service), int(seen)
    return (0, ""), 0


def waits(configuration: str) -> tuple[int, str]:
    """The wait that a configuration sets, and for which service."""
    service = re.findall(r"^service = (\w+)$", configuration, re.MULTILINE)
    wait = re.findall(r"^database\.timeout_ms = (\d+)$", configuration, re.MULTILINE)
    return (int(wait[0]), service[0]) if service and wait else (0, "")


@frozen
class Project:
    """A project on disk: one long configuration for each service."""

    root: Path

    def make(self) -> None:
        """Write the files, the same at every run."""
        rng = random.Random(7)  # noqa: S311 - the same numbers every time are the point
        for service in SERVICES:
            lines = [f"service = {service}", f"database.timeout_ms = {rng.randint(100, 9_999)}"]
            lines += [f"route.{number}.upstream = host-{rng.randint(1, 99)}.{service}" for number in range(250)]
            (self.root / f"{service}.conf").write_text("\n".join(lines), encoding="utf-8")

    async def read_file(self, path: str) -> str:
        """The tool."""
        return await anyio.Path(self.root / path).read_text(encoding="utf-8")


async def run(project: Project, model: SmallModel, pipeline: Pipeline | None) -> str:
    """The loop: prepare, call the model, run the tools, until there are no more calls."""
    session = pipeline.session() if pipeline else None
    messages: list[Message] = [
        {"role": "system", "content": "You answer questions about a project. Read files one by one and keep notes."},
        {"role": "user", "content": "Which service waits longest for its database?"},
    ]
    while True:
        view = await session.prepare(messages, tools=TOOLS) if session else None
        reply = await model.create(view.messages if view else messages, TOOLS)
        if session:
            session.record(reply["usage"])
        full = count(messages, tools=TOOLS)
        print(f"call {len(model.requests):>2}: {full:>7,} tokens so far, {model.requests[-1]:>6,} sent")
        messages.append(reply["message"])
        if "tool_calls" not in reply["message"]:
            return str(reply["message"]["content"])
        for call in reply["message"]["tool_calls"]:
            content = await project.read_file(**json.loads(call["function"]["arguments"]))
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


async def main(*, without: bool) -> int:
    """Run the loop on a temporary project; the exit code is 1 when the model refused a request."""
    pipeline = Pipeline(
        TruncateToolOutputs(max_tokens=4_000),
        ClearToolResults(keep_last=1),
        FitContextWindow(),
        budget=Budget(window=WINDOW, output_reserve=500),
    )
    with tempfile.TemporaryDirectory() as folder:
        project = Project(Path(folder))
        project.make()
        try:
            answer = await run(project, SmallModel(), None if without else pipeline)
        except ContextLengthExceeded as refusal:
            print(refusal)
            return 1
    print(answer)
    return 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="An agent loop that outgrows its model's window.")
    parser.add_argument("--without", action="store_true", help="send the messages as they are, and see it fail")
    sys.exit(anyio.run(lambda: main(without=parser.parse_args().without)))
