"""Many conversations on one pipeline, long ones, and tasks that share a session."""

from __future__ import annotations

import gc
import tracemalloc
from statistics import median
from sys import getsizeof

import anyio
import pytest

from agentctx import Budget, ClearToolResults, FitContextWindow, Pipeline, TruncateToolOutputs
from agentctx.testing import assistant, call, result, transcript, user

pytestmark = pytest.mark.anyio


def pipeline():
    return Pipeline(
        TruncateToolOutputs(100), ClearToolResults(3), FitContextWindow(), budget=Budget(1_500, trigger=0.8)
    )


def conversation(canary, rounds):
    turns = [user(f"the task of {canary}")]
    for number in range(rounds):
        turns += [assistant(call(f"c{number}", "read", {"who": canary})), result(f"c{number}", f"{canary} " * 60)]
    return transcript("openai-chat", *turns)


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


@pytest.mark.no_cover  # the same lines over and over
async def test_memory_grows_with_the_transcript_only():
    """Over 3,000 steps a session takes less than 50 bytes a step beyond the transcript itself."""
    messages = conversation("long", 3_000)
    session = pipeline().session(format="openai-chat")
    await session.prepare(messages[:201])
    growing = messages[:201]

    async def held(until):
        """Bytes that are held beyond the caller's own list, the median of five steps up to this length."""
        sizes = []
        for length in range(len(growing) + 2, until + 1, 2):
            growing.extend(messages[length - 2 : length])
            await session.prepare(growing)
            if until - length < 10:
                gc.collect()
                sizes.append(tracemalloc.get_traced_memory()[0] - getsizeof(growing))
        assert len(sizes) == 5
        return median(sizes)

    gc.collect()
    tracemalloc.start()
    first = await held(4_201)
    last = await held(5_999)
    tracemalloc.stop()
    of_a_step = 4_096  # what comes with one step and goes with another
    assert last - first - of_a_step < 899 * 50


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
