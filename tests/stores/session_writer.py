"""A process that goes on with a session in a SQLite store until it is killed, and tells each acknowledged step.

Run as ``session_writer.py PATH``. What it passes at a step follows from the number of the step.
"""

import os
import sys

import anyio

from agentctx import Budget, ClearToolResults, FitContextWindow, Pipeline, Sessions, TruncateToolOutputs
from agentctx.stores import SQLiteStore
from agentctx.testing import assistant, call, result, transcript, user


def pipeline():
    """What cuts often, so that many pieces of the state change."""
    stages = TruncateToolOutputs(60), ClearToolResults(4), FitContextWindow()
    return Pipeline(*stages, budget=Budget(1_500, trigger=0.8, target=0.4))


def history(steps):
    """What the caller passes at a step."""
    turns = [user("the task")]
    for number in range(steps):
        turns += [assistant(call(f"c{number}", "read", {"n": number})), result(f"c{number}", f"line {number}\n" * 60)]
    return transcript("openai-chat", *turns)


async def go_on(path):
    """Take one step after the other."""
    sessions = Sessions(pipeline(), SQLiteStore(path, timeout=60), timeout=60)
    async with sessions.open("shared") as session:
        while True:
            view = await session.prepare(history(session.steps))
            if any(stage.stage == "Sessions" for stage in view.report.stages):
                sys.exit(f"not kept: {view.report.stages}")
            os.write(1, f"0 {session.steps}\n".encode())


if __name__ == "__main__":
    anyio.run(go_on, sys.argv[1])
