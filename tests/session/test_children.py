"""A sub-agent has a session of its own, in its own window, and its answer costs its parent no more than a cap."""

from __future__ import annotations

import json

import pytest
from histories import FORMATS

from agentctx import Budget, ClearToolResults, FitContextWindow, Pipeline, Session, TruncateToolOutputs
from agentctx.stores import MemoryStore
from agentctx.testing import Recorder, assistant, call, result, transcript, user

pytestmark = pytest.mark.anyio
CAP = 200
"""Tokens that a tool's output may have when it arrives."""


def pipeline(**options):
    stages = (TruncateToolOutputs(CAP), ClearToolResults(4), FitContextWindow())
    return Pipeline(*stages, budget=Budget(6_000, trigger=5_000, target=2_500), **options)


def task(format_name, words):
    return transcript(format_name, user(words))


def round_of(format_name, number, words):
    asked = assistant(call(f"c{number}", "read", {"n": number}))
    return transcript(format_name, asked, result(f"c{number}", f"{words} {number} " * 300))


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("loop", ["keeps", "writes back"])
async def test_a_sub_agent_of_fifty_steps_stays_in_its_window(format_name, loop):
    """In 50 steps of tool calls no request of a child is larger than its budget, and its parent knows nothing of it."""
    told = Recorder()
    parent = pipeline(on_compact=told).session(format=format_name, id="main")
    before = await parent.prepare(task(format_name, "the parent's task"))
    child = parent.child(budget=Budget(1_200, 200, trigger=0.6))
    history = task(format_name, "the child's task")
    for number in range(50):
        history = [*history, *round_of(format_name, number, "secret of the child")]
        view = await child.prepare(history)
        assert view.report.tokens_after <= 1_000
        assert "parent" not in json.dumps(view.messages)
        history = view.messages if loop == "writes back" else history
    assert {event.session for event in told.events} == {"main/1"}
    after = await parent.prepare(task(format_name, "the parent's task"))
    assert after.messages == before.messages
    assert parent.budget == Budget(6_000, trigger=5_000, target=2_500)


async def test_the_answer_of_a_child_is_bounded_like_any_tool_output():
    """However much a child brings back, its parent grows by no more than its cap, and the whole can be had."""
    store = MemoryStore()
    parent = pipeline(store=store).session(format="openai-chat")
    history = [*task("openai-chat", "delegate"), *transcript("openai-chat", assistant(call("sub", "sub_agent")))]
    before = (await parent.prepare(history)).report.tokens_after
    answer = "what the child found " * 5_000
    view = await parent.prepare([*history, *transcript("openai-chat", result("sub", answer))])
    assert view.report.tokens_after <= before + CAP + 20
    (change,) = [change for change in view.report.in_force if change.index == len(history)]
    assert json.loads(await store.get(change.handle))["content"] == answer


async def test_a_child_of_a_child_is_on_its_own():
    """Names tell the generations apart, each has its own budget, and each survives a restart."""
    plan, told = pipeline(), Recorder()
    parent = plan.session(format="openai-chat", on_compact=told)
    child = parent.child(Budget(2_000))
    grandchild = child.child(Budget(900, trigger=600), id="helper")
    assert [session.id for session in (child, grandchild, parent.child(Budget(500)))] == [
        "session/1",
        "helper",
        "session/2",
    ]
    for session in (parent, child, grandchild):
        history = task("openai-chat", f"the task of {session.id}")
        for number in range(12):
            history += round_of("openai-chat", number, session.id or "parent")
            if number == 6:
                loaded = Session.load(plan, json.loads(json.dumps(session.dump())), on_compact=told)
                assert loaded.budget == session.budget
                session = loaded  # noqa: PLW2901 - it goes on after a restart
            view = await session.prepare(history)
            assert view.report.tokens_after <= session.budget.limit
    assert {"session/1", "helper"} <= {event.session for event in told.events}


async def test_a_child_begins_with_what_its_parent_learned():
    """The provider's count and its real limit hold for a child from its first call; what it learns, it learns alone."""
    parent = pipeline().session(format="openai-chat", model="gpt-4o")
    history = task("openai-chat", "the task")
    for number in range(6):
        history += round_of("openai-chat", number, "word")
    view = await parent.prepare(history)
    parent.record({"prompt_tokens": view.report.tokens_after * 2})
    child = parent.child(Budget(4_000))
    assert child.budget.limit < 4_000
    limit = parent.budget.limit
    await child.prepare(history)
    await child.recover(RuntimeError("prompt is too long: 3000 tokens > 1500 maximum"))
    assert child.budget.limit < 1_500
    assert parent.budget.limit == limit


@pytest.mark.parametrize("restarted", [False, True])
async def test_a_child_goes_by_what_its_parent_goes_by(restarted):
    """A child has its parent's model, format, clock and listeners, and reads a lone message as its parent would."""
    plan, told = pipeline(), Recorder()
    parent = plan.session(model="claude-sonnet-4-5", format="anthropic", id="main", on_compact=told)
    parent.internals.clock = lambda: 5.0
    if restarted:
        parent = Session.load(plan, json.loads(json.dumps(parent.dump())), on_compact=told)
        parent.internals.clock = lambda: 5.0
    child = parent.child(Budget(1_500))
    history = task("anthropic", "the task")
    for number in range(4):
        history = [*history, *round_of("anthropic", number, "word")]
        view = await child.prepare(history)
    assert (child.model, child.format, child.internals.clock()) == ("claude-sonnet-4-5", "anthropic", 5.0)
    assert {event.session for event in told.events} == {"main/1"}
    assert view.report.tokens_after <= 1_500
