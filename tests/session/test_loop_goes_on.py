"""The event loop goes on while much arrives."""

import subprocess
import sys
from itertools import product
from threading import get_ident

import anyio
import anyio.lowlevel
import pytest
from attrs import define, field

from agentctx import Budget, ClearToolResults, FitContextWindow, Ledger, Pipeline, TruncateToolOutputs, warmup

pytestmark = pytest.mark.both_loops

CALLS = 40_000
"""Calls of Python functions, which take a few milliseconds."""

CHARACTERS = 200_000
"""Characters to count, which take ten milliseconds or so."""


@define
class Beat:
    """A task beside the work, and what the work does on the loop's thread between two of its turns.

    Args:
        calls: Calls since the last turn.
        characters: Characters counted since the last turn.
        most_calls: The most calls between two turns.
        most_characters: The most characters between two turns.
        thread: The loop's thread.
    """

    calls: int = 0
    characters: int = 0
    most_calls: int = 0
    most_characters: int = 0
    thread: int = field(factory=get_ident)

    async def turn(self):
        """Look again and again, until cancelled."""
        while True:
            self.calls = self.characters = 0
            await anyio.sleep(0.001)
            self.most_calls = max(self.most_calls, self.calls)
            self.most_characters = max(self.most_characters, self.characters)

    def see(self, _frame, event, _argument):
        """Count one call."""
        self.calls += event in {"call", "c_call"}

    def count(self, text):
        """Count text, four characters a token."""
        if get_ident() == self.thread:
            self.characters += len(text)
        return -(-len(text) // 4)


async def beside(beat, work):
    """Do the work while the other task asks for its turns."""
    async with anyio.create_task_group() as group:
        group.start_soon(beat.turn)
        await anyio.sleep(0.005)
        await work()
        await anyio.sleep(0.005)
        group.cancel_scope.cancel()


def exchange(number, words):
    """One tool call and its result."""
    call = {"id": f"call_{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
    return [
        {"role": "assistant", "content": f"Step {number}.", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": f"call_{number}", "content": f"{number}: " + "found it here " * words},
    ]


def history(rounds, words):
    """A task and so many tool calls."""
    start = [{"role": "system", "content": "You search."}, {"role": "user", "content": "Find it."}]
    return start + [message for number in range(rounds) for message in exchange(number, words)]


def fitting(counter=None):
    """Nothing has to go."""
    return Pipeline(FitContextWindow(), budget=Budget(10_000_000), counter=counter)


def compacting(counter=None):
    """Nearly everything has to go."""
    stages = (TruncateToolOutputs(max_tokens=50), ClearToolResults(keep_last=5), FitContextWindow())
    return Pipeline(*stages, budget=Budget(20_000), counter=counter)


def telling(counter=None):
    """Most of it has to go, and is searched for what is worth telling."""
    return Pipeline(FitContextWindow(), Ledger(), budget=Budget(6_000), counter=counter)


@pytest.mark.no_cover  # the same lines over and over
@pytest.mark.anyio
@pytest.mark.parametrize(("pipeline", "rounds"), [*product([fitting, compacting], [3_000, 190]), (telling, 190)])
async def test_many_messages_do_not_hold_up_the_loop(preparing, pipeline, rounds):
    """Between two turns of another task the loop's thread makes few calls, however many messages arrive at once."""
    warmup()
    prepare, beat, messages = preparing(pipeline(), "openai-chat"), Beat(), history(rounds, 10)

    async def work():
        sys.setprofile(beat.see)
        try:
            await prepare(messages)
        finally:
            sys.setprofile(None)

    await beside(beat, work)
    assert 0 < beat.most_calls < CALLS


@pytest.mark.no_cover  # the same lines over and over
@pytest.mark.anyio
@pytest.mark.parametrize("pipeline", [fitting, compacting])
@pytest.mark.parametrize(("rounds", "words"), [(3_000, 10), (150, 1_000), (3, 50_000)])
async def test_much_text_does_not_hold_up_the_loop(preparing, pipeline, rounds, words):
    """Between two turns of another task the loop's thread counts little text, however much of it arrives at once."""
    beat, messages = Beat(), history(rounds, words)
    prepare = preparing(pipeline(beat), "openai-chat")
    await beside(beat, lambda: prepare(messages))
    assert beat.most_characters < CHARACTERS


def test_nothing_is_loaded_after_the_warmup():
    """What the first calls need is imported by ``warmup``, whatever format the messages are in, also where they cut."""
    script = """
import sys, anyio
from agentctx import Budget, FitContextWindow, Pipeline, TruncateToolOutputs, warmup
pipeline = Pipeline(TruncateToolOutputs(max_tokens=9), FitContextWindow(), budget=Budget(1_000))
warmup()
call = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
messages = [
    {"role": "system", "content": "Help."},
    {"role": "user", "content": "Go."},
    {"role": "assistant", "content": None, "tool_calls": [call]},
    {"role": "tool", "tool_call_id": "c", "content": ""},
]

async def main():
    await anyio.to_thread.run_sync(int)
    known = set(sys.modules)
    for length in 10, 1_000, 10_000:
        messages[-1]["content"] = "found it " * length
        await pipeline.session().prepare(messages)
    print(*sorted(set(sys.modules) - known))

anyio.run(main)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
