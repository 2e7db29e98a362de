"""Many conversations on one pipeline, long ones, and tasks that share a session."""

from __future__ import annotations

import gc
import sys

import anyio
import pytest
from reachable import reachable

from agentctx import Budget, ClearToolResults, FitContextWindow, Pipeline, TruncateToolOutputs
from agentctx.formats.registry import RequestParts
from agentctx.session.conversations import holding
from agentctx.testing import assistant, call, result, transcript, user

pytestmark = pytest.mark.anyio


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
    """Beside the transcript, a session holds no more objects after 1,400 steps than after 300, and a digest a step."""
    messages, held, growing = conversation("long", 1_500), {700: [], 2_900: []}, []
    session = pipeline().session(format="openai-chat")
    for length in range(101, 3_000, 2):
        growing.extend(messages[len(growing) : length])
        await session.prepare(growing)
        for begin, sizes in held.items():
            if begin <= length < begin + 80:
                values = reachable(session, growing)
                sizes.append((len(values), sum(map(sys.getsizeof, values))))
    (early, early_bytes), (late, late_bytes) = (map(max, zip(*sizes, strict=True)) for sizes in held.values())
    assert late <= early
    assert late_bytes - early_bytes < 1_100 * 100


async def test_a_session_holds_few_objects_for_each_message_that_are_collected():
    """The garbage collector has at most eight to look at, beside those of the caller."""
    session, messages = Pipeline().session(format="openai-chat"), conversation("one", 100)
    tracked = []
    for length in (5, len(messages)):
        await session.prepare(messages[:length])
        gc.collect()
        tracked.append(sum(map(gc.is_tracked, reachable(session, messages))))
    assert tracked[1] - tracked[0] <= 8 * len(messages)


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
    session = Pipeline(budget=Budget(1_000)).session(format="openai-chat")
    await session.prepare(one)
    assert holding(session, RequestParts([*one, HELLO]), "openai-chat") is session
    assert holding(session, RequestParts(other), "openai-chat") is not session
