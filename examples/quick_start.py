"""The shortest use: one call, no state, messages in and messages out, in your provider's own shape.

A conversation with a huge tool output is prepared for a small window. Nothing is sent anywhere, so no key is needed.

Run it: ``python examples/quick_start.py``
"""

from __future__ import annotations

import json
from typing import Any

import anyio

from agentctx import Budget, FitContextWindow, Pipeline, TruncateToolOutputs, count

LOG = "\n".join(
    f"2026-03-14 09:{n // 60 % 60:02}:{n % 60:02} worker-{n % 7} took job {n * 7919:08x}" for n in range(3_000)
)
CALL = {"name": "read_log", "arguments": json.dumps({"path": "worker.log"})}

messages: list[dict[str, Any]] = [
    {"role": "system", "content": "You look after a fleet of workers."},
    {"role": "user", "content": "Why did the night run take so long? Look into worker.log."},
    {"role": "assistant", "content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": CALL}]},
    {"role": "tool", "tool_call_id": "call_1", "content": LOG},
]


async def main() -> None:
    """Prepare the messages and print what became of them."""
    pipeline = Pipeline(
        TruncateToolOutputs(max_tokens=2_000),
        FitContextWindow(),
        budget=Budget(window=8_000, output_reserve=1_000),
    )
    view = await pipeline.prepare(messages)

    print(f"before: {count(messages):>7,} tokens in {len(messages)} messages")
    print(f"after:  {count(view.messages):>7,} tokens in {len(view.messages)} messages, for a window of 8,000")
    for change in view.report.changes:
        print(f"message {change.index} was {change.outcome}: {change.reason}")
    print(f"the other messages are the same objects: {all(map(unchanged, messages[:3], view.messages))}")


def unchanged(before: object, after: object) -> bool:
    """Whether it came back as it was, not even copied."""
    return before is after


if __name__ == "__main__":
    anyio.run(main)
