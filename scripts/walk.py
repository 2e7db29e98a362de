# ruff: noqa: INP001 - a script, not a package
"""How far a message walks: the files that one quiet step of a session visits, and how often it comes back to each.

    python scripts/walk.py [--preset] [--way] [--json]

The pipeline is the README's first one, or with ``--preset`` that for coding agents, which has more stages for what
arrives. A session of nineteen messages has been prepared; two more arrive and nothing has to be cut. The program is no
new one: its texts are counted by tiktoken by now. Counted are the files of the package whose functions are called, in
the order of the calls: ``stays`` are the runs of calls within one file, ``switches`` the changes from one file to
another. ``--way`` prints the calls themselves.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from types import FrameType

import anyio

import agentctx
from agentctx import Budget, FitContextWindow, Pipeline, TruncateToolOutputs
from agentctx.presets import coding_agent

HOME = Path(agentctx.__file__).parent
ROUNDS = 10
MODEL = "gpt-5.4"


def history(rounds: int) -> list[dict[str, object]]:
    """A task, and rounds of a call and its result."""
    messages: list[dict[str, object]] = [{"role": "user", "content": "Find out why the build fails."}]
    for number in range(rounds):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": '{"path": "a.py"}'}}
        messages += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": f"line {number} of the log. " * 20},
        ]
    return messages


async def walk(pipeline: Pipeline) -> list[tuple[str, str]]:
    """The files of the package and their functions, by name, in the order in which a quiet step calls them."""
    agentctx.warmup(MODEL)
    session = pipeline.session(model=MODEL, format="openai-chat")
    for rounds in range(1, ROUNDS):
        await session.prepare(history(rounds))
    seen: list[tuple[str, str]] = []

    def see(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(HOME)):
            seen.append((frame.f_code.co_filename.removeprefix(f"{HOME}/"), frame.f_code.co_name))

    messages = history(ROUNDS)
    sys.setprofile(see)
    try:
        await session.prepare(messages)
    finally:
        sys.setprofile(None)
    return seen


def main() -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--preset", action="store_true", help="through the pipeline for coding agents")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--way", action="store_true", help="print the functions in the order of the calls")
    shape.add_argument("--json", action="store_true", help="print one JSON object")
    wanted = parser.parse_args()
    plain = Pipeline(TruncateToolOutputs(max_tokens=2_000), FitContextWindow(), budget=Budget(128_000))
    calls = anyio.run(walk, coding_agent(Budget(128_000)) if wanted.preset else plain)
    stays = [(name, [function for _, function in run]) for name, run in groupby(calls, itemgetter(0))]
    if wanted.way:
        sys.stdout.writelines(f"{name:36}  {' '.join(functions)}\n" for name, functions in stays)
        return
    by_file = Counter(name for name, _ in stays).most_common()
    if wanted.json:
        sys.stdout.write(json.dumps({"files": len(by_file), "switches": len(stays) - 1, "stays": dict(by_file)}) + "\n")
        return
    sys.stdout.write(f"{len(by_file)} files, {len(stays) - 1} switches between them" + "\n")
    for name, times in by_file:
        sys.stdout.write(f"{times:5}  {name}" + "\n")


if __name__ == "__main__":
    main()
