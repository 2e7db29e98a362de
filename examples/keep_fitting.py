"""An assembled context that keeps fitting while an agent loop runs, and keeps what matters for the task.

An agent is asked why an order was refused. Its context is assembled of blocks (instructions, what is known, the list
of logs, the task), and its window is divided by what it is used for. Then it reads eighty logs, four times what its
window holds. Three lines of them answer the question, the first in the third log. Whenever the conversation has
outgrown its part, it is packed: what has to do with the task stays, however old, and a note says what went.

Run it: ``python examples/keep_fitting.py``, and ``python examples/keep_fitting.py --oldest-first`` to see the answer
get lost when the oldest rounds go instead. Neither needs a key or a network.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
from typing import Any

import anyio
from attrs import define, field

from agentctx import Budget, FitContextWindow, Pack, Pipeline, View, count
from agentctx.builder import Block, Category, CategoryBudget, ContextBuilder, Division, MergeSystem, Tier
from agentctx.strategies import DropTail

WINDOW = 10_000
LOGS = [f"gateway-{number:02}.log" for number in range(80)]
TASK = "Order 4711 was refused. Find out why: which code, what the code means, and which rule set it."
CLUES = {
    2: "ERROR payment refused order=4711 code=R17",
    30: "INFO code table loaded: R17 means daily limit of the card exceeded, seen for order 4711",
    56: "INFO rule limits/daily-eu set code R17 for order 4711",
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "read_log",
            "description": "Read a log of the gateway.",
            "parameters": {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]},
        },
    }
]
IN_SYSTEM_PROMPT = (Category.REPOSITORY_MAP, Category.MEMORY, Category.WORKSPACE, Category.FILES)
"""Merged into the system prompt, or not there at all: what is laid out for them is lent to the conversation."""

Message = dict[str, Any]


def log(number: int) -> str:
    """A log: forty lines of other orders, and in three of the logs a clue."""
    rng = random.Random(number)  # noqa: S311 - the same numbers every time are the point
    lines = [
        f"{rng.choice(('INFO', 'DEBUG', 'WARN'))} order={rng.randint(5_000, 9_999)} "
        f"{rng.choice(('accepted', 'routed', 'settled', 'queued', 'retried'))} in {rng.randint(1, 900)} ms"
        for _ in range(40)
    ]
    if number in CLUES:
        lines.insert(rng.randint(5, 35), CLUES[number])
    return "\n".join(lines)


@define
class SmallModel:
    """A model that reads the logs one by one, and then says what it can see in the messages that it is shown.

    It has no memory but these messages.
    """

    read: int = field(default=0, init=False)

    def create(self, messages: list[Message]) -> Message:
        """One model call."""
        if self.read == len(LOGS):
            return {"role": "assistant", "content": answer("\n".join(str(message["content"]) for message in messages))}
        arguments = json.dumps({"name": LOGS[self.read]})
        call = {"id": f"call_{self.read}", "type": "function", "function": {"name": "read_log", "arguments": arguments}}
        self.read += 1
        return {"role": "assistant", "content": f"Next: {LOGS[self.read - 1]}.", "tool_calls": [call]}


def answer(seen: str) -> str:
    """What the logs that are still to be seen say of the order."""
    code = re.search(r"refused order=4711 code=(\w+)", seen)
    meaning = re.search(r"means (.+), seen for order 4711", seen)
    rule = re.search(r"rule (\S+) set code \w+ for order 4711", seen)
    if code and meaning and rule:
        return f"Refused with {code[1]}: {meaning[1]}; set by {rule[1]}."
    found = [name for name, clue in (("code", code), ("meaning", meaning), ("rule", rule)) if clue]
    return f"I cannot say: of code, meaning and rule I still see {', '.join(found) or 'nothing'}."


async def assembled(part: Division) -> list[Message]:
    """The context that the loop starts with, each block within its part of the window."""
    builder = ContextBuilder(part.window, format="openai-chat", tools=TOOLS, formatter=MergeSystem())
    builder.add(
        Block("instructions", [{"role": "system", "content": "You find causes in logs. Read them all."}], Tier.SYSTEM),
        Block(
            "memory",
            [{"role": "user", "content": "The gateway writes one log an hour. Codes begin with R."}],
            Tier.CORE,
            max_tokens=part[Category.MEMORY],
        ),
        Block(
            "logs",
            [{"role": "user", "content": "\n".join(LOGS)}],
            Tier.RAG,
            DropTail(),
            max_tokens=part[Category.REPOSITORY_MAP],
        ),
        Block("task", [{"role": "user", "content": TASK}], Tier.HISTORY),
    )
    return (await builder.build()).messages


def pipeline(budget: Budget, *, oldest_first: bool) -> Pipeline:
    """What keeps the context fitting."""
    return Pipeline(FitContextWindow() if oldest_first else Pack("relevance", task=TASK, note=True), budget=budget)


def tell(step: int, full: int, view: View) -> None:
    """One line for a step, and what the stages had to say when they acted."""
    print(f"call {step:>2}: {full:>7,} tokens so far, {view.report.tokens_after:>6,} sent")
    for stage in view.report.stages:
        print(f"         {stage.stage}: {len(stage.changes)} messages changed")
        for note in stage.notes:
            print(f"         {note[:110]}")


async def run(*, oldest_first: bool) -> str:
    """Assemble, and then the loop: prepare, call the model, run the tool, until there are no more calls."""
    parts = CategoryBudget(WINDOW)
    messages = await assembled(parts.divide())
    fixed = {
        Category.SYSTEM_PROMPT: count(messages[:1], format="openai-chat"),
        Category.TOOL_DEFINITIONS: count(messages, tools=TOOLS) - count(messages, format="openai-chat"),
        **dict.fromkeys(IN_SYSTEM_PROMPT, 0),
    }
    session = pipeline(parts.whole(fixed), oldest_first=oldest_first).session(format="openai-chat")
    model = SmallModel()
    while True:
        view = await session.prepare(messages, tools=TOOLS)
        tell(model.read, count(messages, tools=TOOLS), view)
        reply = model.create(view.messages)
        messages.append(reply)
        if "tool_calls" not in reply:
            talk = view.report.tokens_after - sum(fixed.values())
            print(parts.divide({**fixed, Category.CONVERSATION: talk}).usage_report())
            return str(reply["content"])
        for call in reply["tool_calls"]:
            name = json.loads(call["function"]["arguments"])["name"]
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": log(LOGS.index(name))})


def main() -> int:
    """Run the loop; the exit code is 1 when the answer was lost."""
    parser = argparse.ArgumentParser(description="An assembled context that keeps fitting while an agent loop runs.")
    parser.add_argument("--oldest-first", action="store_true", help="let the oldest rounds go, whatever is in them")
    found = anyio.run(lambda: run(oldest_first=parser.parse_args().oldest_first))
    print(found)
    return 0 if found.startswith("Refused") else 1


if __name__ == "__main__":
    sys.exit(main())
