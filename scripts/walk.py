# ruff: noqa: INP001 - a script, not a package
"""Count the files of the package that one step of a session visits, and how often the step comes back to each file.

    python scripts/walk.py [--preset | --compaction] [--way | --json]

Without an option the step is a quiet one through the README's first pipeline: a session of nineteen messages has been
prepared, two more arrive, and nothing has to be cut. ``--preset`` takes the pipeline for coding agents instead.
``--compaction`` walks through the step in which the pipeline for coding agents cuts the history for the first time.

The texts are counted by tiktoken, whose vocabulary is loaded before. Only files whose functions are called count, in
the order of the calls: ``stays`` are the runs of calls within one file, ``switches`` the changes from one file to
another, ``longest`` the visited file with the most lines. ``--way`` prints the calls themselves.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from functools import partial
from itertools import count, groupby
from operator import itemgetter
from pathlib import Path
from types import FrameType

import anyio

import agentctx
from agentctx import Budget, FitContextWindow, Pipeline, TruncateToolOutputs
from agentctx.presets import coding_agent

HOME = Path(agentctx.__file__).parent
ROUNDS = 10
SMALL = 4_000
"""Tokens of the window in which a session is cut."""
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


async def walk(pipeline: Pipeline, *, until_cut: bool = False) -> list[tuple[str, str]]:
    """Return the file and the name of each function of the package that the last step of a session calls, in order.

    Args:
        pipeline: The pipeline of the session.
        until_cut: True to walk through the first step that cuts; False for a quiet one behind nineteen messages.
    """
    agentctx.warmup(MODEL)
    session = pipeline.session(model=MODEL, format="openai-chat")
    calls: list[tuple[str, str]] = []

    def note(frame: FrameType, event: str, _argument: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(str(HOME)):
            calls.append((frame.f_code.co_filename.removeprefix(f"{HOME}/"), frame.f_code.co_name))

    for rounds in count(1):
        messages = history(rounds)
        calls.clear()
        sys.setprofile(note)
        try:
            view = await session.prepare(messages)
        finally:
            sys.setprofile(None)
        if view.report.first_changed is not None if until_cut else rounds == ROUNDS:
            break
    return calls


def main() -> None:
    """Count, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    step = parser.add_mutually_exclusive_group()
    step.add_argument("--preset", action="store_true", help="a quiet step through the pipeline for coding agents")
    step.add_argument("--compaction", action="store_true", help="the first step that cuts, through the same pipeline")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--way", action="store_true", help="print the functions in the order of the calls")
    shape.add_argument("--json", action="store_true", help="print one JSON object")
    options = parser.parse_args()
    if options.compaction:
        calls = anyio.run(partial(walk, coding_agent(Budget(SMALL)), until_cut=True))
    elif options.preset:
        calls = anyio.run(walk, coding_agent(Budget(128_000)))
    else:
        stages = TruncateToolOutputs(max_tokens=2_000), FitContextWindow()
        calls = anyio.run(walk, Pipeline(*stages, budget=Budget(128_000)))
    stays = [(name, [function for _, function in run]) for name, run in groupby(calls, itemgetter(0))]
    if options.way:
        sys.stdout.writelines(f"{name:36}  {' '.join(functions)}\n" for name, functions in stays)
        return
    by_file = Counter(name for name, _ in stays).most_common()
    lines, longest = max(((HOME / name).read_text(encoding="utf-8").count("\n"), name) for name, _ in by_file)
    if options.json:
        walked = {
            "files": len(by_file),
            "switches": len(stays) - 1,
            "longest": {longest: lines},
            "stays": dict(by_file),
        }
        sys.stdout.write(json.dumps(walked) + "\n")
        return
    sys.stdout.write(
        f"{len(by_file)} files, {len(stays) - 1} switches between them; the longest is {longest}: {lines} lines\n"
    )
    for name, times in by_file:
        sys.stdout.write(f"{times:5}  {name}\n")


if __name__ == "__main__":
    main()
