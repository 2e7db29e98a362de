"""Record a coding agent at work, as a transcript that can be replayed.

The agent's planner is a script (``recording/planner.py``), everything else is real: it runs a shell, searches, reads
and edits files, and runs the tests of this very repository, in a temporary clone, so the checkout stays as it is.
Every step is written down as a model would have seen it: one JSON object with the system prompt, the tool definitions
and the messages in the shape of OpenAI's chat completions. The session that lies in ``examples/sessions`` was
recorded with::

    python examples/record_session.py --out examples/sessions/coding_agent.jsonl

Run it again whenever the repository has changed enough; the planner follows what its tools find. It needs git and
the ``dev`` extra (pytest, ruff), no network and no model. Two recordings of the same commit are the same bytes, and
nothing in them tells on which machine they were made. To walk through a recording::

    agentctx replay examples/sessions/coding_agent.jsonl --window 32k
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from recording import texts
from recording.planner import Does, Plan, Says, plan
from recording.tools import DEFINITIONS, Outcome, Toolbox
from recording.workspace import workspace

import agentctx

CHECKOUT = Path(__file__).resolve().parents[1]
MOST_BYTES = 400_000


def follow(steps: Plan, toolbox: Toolbox) -> list[dict[str, Any]]:
    """The agent loop: do what the planner says, tell it what came of it, write both down."""
    messages: list[dict[str, Any]] = []
    step = next(steps)
    while True:
        outcomes: list[Outcome] = []
        if isinstance(step, Says):
            messages.append({"role": "user", "content": step.text})
        else:
            turn = assistant(step, len(messages))
            messages.append(turn)
            for call in turn.get("tool_calls", ()):
                function = call["function"]
                outcomes.append(toolbox.use(function["name"], json.loads(function["arguments"])))
                messages.append({"role": "tool", "tool_call_id": call["id"], "content": outcomes[-1].output})
        try:
            step = steps.send(outcomes)
        except StopIteration:
            return messages


def assistant(step: Does, place: int) -> dict[str, Any]:
    """An assistant's turn; the ids of its calls are made from their place, so that they are the same every time."""
    turn: dict[str, Any] = {"role": "assistant", "content": step.text or None}
    if step.calls:
        turn["tool_calls"] = [
            {
                "id": "call_" + hashlib.sha256(f"{place}.{number}".encode()).hexdigest()[:24],
                "type": "function",
                "function": {"name": call.tool, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
            }
            for number, call in enumerate(step.calls)
        ]
    return turn


def record(checkout: Path) -> str:
    """A whole session as one line of JSON.

    Raises:
        ValueError: If the record tells on which machine it was made, or is too big to be shipped.
    """
    with workspace(checkout) as place:
        head = ["git", "-C", str(place.clone), "rev-parse", "--short=12", "HEAD"]
        commit = subprocess.run(head, check=True, capture_output=True, text=True).stdout.strip()  # noqa: S603 - fixed words
        messages = follow(plan(), Toolbox(place))
        session = {
            "id": "coding-agent",
            "source": "examples/record_session.py",
            "license": "MIT",
            "format": "openai-chat",
            "system": texts.SYSTEM,
            "tools": DEFINITIONS,
            "messages": messages,
            "meta": {"agent": "a scripted planner with real tools", "commit": commit, "tokens": tokens(messages)},
        }
        line = json.dumps(session, ensure_ascii=False) + "\n"
        place.check(line)
    if (size := len(line.encode())) > MOST_BYTES:
        message = f"the record has {size:,} bytes, more than {MOST_BYTES:,}"
        raise ValueError(message)
    return line


def tokens(messages: list[dict[str, Any]]) -> int:
    """Tokens of the last request of the session, by OpenAI's o200k_base vocabulary."""
    return agentctx.count([{"role": "system", "content": texts.SYSTEM}, *messages], tools=DEFINITIONS)


def main() -> None:
    """Record, and say what was recorded."""
    parser = argparse.ArgumentParser(description="Record a coding agent at work on this repository.")
    parser.add_argument("--out", type=Path, default=Path("coding_agent.jsonl"), help="where to write the recording")
    parser.add_argument("--checkout", type=Path, default=CHECKOUT, help="the repository to clone (default: this one)")
    args = parser.parse_args()
    missing = [name for name in ("pytest", "ruff") if find_spec(name) is None]
    if missing:  # the agent runs them: without them there is nothing to record but that they are missing
        parser.error(f"the agent needs {' and '.join(missing)}: pip install '.[dev]'")
    line = record(args.checkout.resolve())
    args.out.parent.mkdir(parents=True, exist_ok=True)
    args.out.write_text(line, encoding="utf-8")
    session = json.loads(line)
    number, size = len(session["messages"]), session["meta"]["tokens"]
    print(f"{args.out}: {number} messages, {size:,} tokens, {len(line.encode()):,} bytes")


if __name__ == "__main__":
    main()
