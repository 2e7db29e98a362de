"""A long session that counts what it holds; a process of its own, so that nothing else is counted with it.

Run as ``held_by_a_session.py``. It prints by how many bytes what is held has grown over 899 steps of two messages each,
behind the first 2,100 steps, without the list of the caller's: of both ends the median of five steps.
"""

import gc
import sys
import tracemalloc
from statistics import median

import anyio

from agentctx import Budget, ClearToolResults, FitContextWindow, Pipeline, TruncateToolOutputs
from agentctx.testing import assistant, call, result, transcript, user


def conversation(canary, rounds):
    """A task, and rounds of a call and its result."""
    turns = [user(f"the task of {canary}")]
    for number in range(rounds):
        turns += [assistant(call(f"c{number}", "read", {"who": canary})), result(f"c{number}", f"{canary} " * 60)]
    return transcript("openai-chat", *turns)


def pipeline():
    """It cuts again and again."""
    stages = TruncateToolOutputs(100), ClearToolResults(3), FitContextWindow()
    return Pipeline(*stages, budget=Budget(1_500, trigger=0.8))


async def held(session, messages, growing, until):
    """Bytes that are held beyond the caller's own list, the median of five steps up to this length."""
    sizes = []
    for length in range(len(growing) + 2, until + 1, 2):
        growing.extend(messages[length - 2 : length])
        await session.prepare(growing)
        if until - length < 10:
            gc.collect()
            sizes.append(tracemalloc.get_traced_memory()[0] - sys.getsizeof(growing))
    return median(sizes)


async def main():
    """Take the steps, and print the growth."""
    messages = conversation("long", 3_000)
    session, growing = pipeline().session(format="openai-chat"), messages[:201]
    await session.prepare(growing)
    gc.collect()
    tracemalloc.start()
    first = await held(session, messages, growing, 4_201)
    sys.stdout.write(f"{await held(session, messages, growing, 5_999) - first}\n")


if __name__ == "__main__":
    anyio.run(main)
