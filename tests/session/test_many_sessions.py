"""Many conversations on one pipeline, long ones, and tasks that share a session."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from held_by_a_session import conversation, pipeline

from agentctx import Budget, FitContextWindow, Pipeline

pytestmark = pytest.mark.anyio


HELD_BY_A_SESSION = Path(__file__).with_name("held_by_a_session.py")


@pytest.mark.both_loops
async def test_tasks_that_share_a_session_take_turns():
    """Ten tasks preparing on one session at once get views of one conversation, step by step."""
    session, messages = pipeline().session(format="openai-chat"), conversation("one", 10)
    numbers = []

    async def step():
        view = await session.prepare(messages)
        numbers.append(view.report.tokens_after)

    async with anyio.create_task_group() as tasks:
        for _ in range(10):
            tasks.start_soon(step)
    assert len(set(numbers)) == 1
    assert session.steps == 10


def test_memory_grows_with_the_transcript_only():
    """Over 3,000 steps a session takes less than 50 bytes a step beyond the transcript itself."""
    done = subprocess.run([sys.executable, HELD_BY_A_SESSION], capture_output=True, text=True, check=True)
    of_a_step = 8_192  # what comes with one step and goes with another: runs of one tree differ by so much
    assert int(done.stdout) - of_a_step < 899 * 50


async def test_sessions_of_one_pipeline_ask_its_counter_once_about_each_text():
    """What one conversation had counted is not counted again for the next one."""

    class Asked:
        def __init__(self):
            self.texts = []

        def count(self, text, /):
            self.texts.append(text)
            return len(text)

    counter = Asked()
    shared = Pipeline(FitContextWindow(), budget=Budget(90_000), counter=counter)
    for _ in range(3):
        await shared.session(format="openai-chat").prepare(conversation("same", 3))
        await shared.prepare(conversation("same", 3), format="openai-chat")
    assert len(counter.texts) == len(set(counter.texts))


RULES, ASKED = {"role": "system", "content": "rules"}, {"role": "user", "content": "this"}
HELLO, OTHER = {"role": "assistant", "content": "hello"}, {"role": "user", "content": "that"}


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([RULES, ASKED], [RULES, OTHER]),
        ([RULES, ASKED], [RULES, OTHER, HELLO]),
        ([HELLO, ASKED], [HELLO, OTHER]),
        ([RULES], [{"role": "system", "content": "others"}]),
        ([RULES, ASKED], [{"role": "system", "content": "others"}, ASKED]),
    ],
)
async def test_what_begins_otherwise_is_another_conversation(one, other):
    """Another task, also after the same words of the model, or another system prompt, begins another one."""
    session = Pipeline(budget=1_000).session(format="openai-chat")
    await session.prepare(one)
    assert session.holding([*one, HELLO], None, "openai-chat", None) is session
    assert session.holding(other, None, "openai-chat", None) is not session
