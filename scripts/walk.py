# ruff: noqa: INP001 - a script, not a package
"""How far a message walks: the files that one quiet step of a session visits, and how often it comes back to each.

    python scripts/walk.py [--json]

A session of nineteen messages has been prepared; two more arrive and nothing has to be cut. The program is no new one:
its texts are counted by tiktoken by now. Counted are the files of the package whose functions are called, in the order
of the calls: ``stays`` are the runs of calls within one file, ``switches`` the changes from one file to another.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from itertools import groupby
from pathlib import Path
from types import FrameType

import anyio

import agentctx
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


async def walk() -> list[str]:
    """The files of the package, by name, in the order in which a quiet step comes through them."""
    agentctx.warmup(MODEL)
    session = coding_agent(agentctx.Budget(128_000)).session(model=MODEL, format="openai-chat")
    for rounds in range(1, ROUNDS):
        await session.prepare(history(rounds))
    seen: list[str] = []

    def see(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(HOME)):
            seen.append(frame.f_code.co_filename.removeprefix(f"{HOME}/"))

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
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    wanted = parser.parse_args()
    stays = [name for name, _ in groupby(anyio.run(walk))]
    by_file = Counter(stays).most_common()
    if wanted.json:
        sys.stdout.write(json.dumps({"files": len(by_file), "switches": len(stays) - 1, "stays": dict(by_file)}) + "\n")
        return
    sys.stdout.write(f"{len(by_file)} files, {len(stays) - 1} switches between them" + "\n")
    for name, times in by_file:
        sys.stdout.write(f"{times:5}  {name}" + "\n")


if __name__ == "__main__":
    main()
