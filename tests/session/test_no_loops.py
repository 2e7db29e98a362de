"""A session acts once, acts enough, and never in circles."""

from __future__ import annotations

import pytest

from agentctx import Budget, ClearToolResults, FitContextWindow, FixedCounter, Pipeline
from agentctx.testing import Recorder
from agentctx.testing.builders import assistant, call, result, system, transcript, user

pytestmark = pytest.mark.anyio


def agent(rounds):
    """A task and rounds of one call each: two messages a round, ten tokens each."""
    turns = [system("rules"), user("task")]
    for number in range(rounds):
        turns += [assistant(call(f"c{number}", "read")), result(f"c{number}", "some words here " * 5)]
    return transcript("openai-chat", *turns)


async def test_one_large_step_then_quiet():
    """Between two compactions the prefix stays as it is, and most steps change nothing."""
    session = Pipeline(
        FitContextWindow(), budget=Budget(1_000, trigger=800, target=300), counter=FixedCounter(10)
    ).session(format="openai-chat")
    messages = agent(200)
    breaks = 0
    for length in range(2, len(messages) + 1, 2):
        report = (await session.prepare(messages[:length])).report
        breaks += report.first_changed is not None
        assert report.tokens_after <= 800
    assert breaks <= 1 + 4_000 // 500


async def test_a_compaction_that_frees_next_to_nothing_is_not_made():
    """When the stages could free a hundredth only, the view stays, and it is not tried again at every step."""
    heard = Recorder()
    budget = Budget(100_000, trigger=500, target=200)
    session = Pipeline(ClearToolResults(0), budget=budget, on_compact=heard).session(format="openai-chat")
    turns = [user("task"), assistant(call("c", "read")), result("c", "a result of a few words more than that")]
    turns += [turn for n in range(9) for turn in (user("word " * 100), assistant(f"answer {n}"))]
    messages = transcript("openai-chat", *turns)
    views = [await session.prepare(messages[:length]) for length in range(3, len(messages) + 1)]
    assert all(view.messages[2] is messages[2] for view in views)
    assert 1 <= len(heard.events) <= 6
    assert "trigger of 500 tokens" in heard.events[0].stages[0].notes[0]


async def test_what_cannot_shrink_is_said_once_with_the_arithmetic():
    """A floor above the trigger is one note, and later steps are as quiet as any."""
    heard = Recorder()
    budget = Budget(10_000, trigger=300, target=100)
    session = Pipeline(FitContextWindow(), budget=budget, on_compact=heard).session(format="openai-chat")
    messages = transcript("openai-chat", system("rule " * 400), user("task"))
    for number in range(10):
        view = await session.prepare(messages)
        assert view.messages[: len(messages)] == messages
        messages = [*messages, *transcript("openai-chat", assistant("ok"), user(f"more {number}"))][:3]
    assert len(heard.events) == 1
    assert "system and tools" in heard.events[0].stages[0].notes[0]
