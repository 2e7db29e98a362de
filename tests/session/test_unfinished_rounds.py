"""What repair did to a round that is not finished is done again with what comes next, and to nothing else."""

from __future__ import annotations

import pytest

from agentctx import FitContextWindow, FixedCounter, Pipeline, validate
from agentctx.testing.builders import assistant, call, result, transcript, user

pytestmark = pytest.mark.anyio


async def walk(session, messages, *lengths):
    """The view of each length of a history, asked for twice: the same both times, and legal."""
    views = []
    for length in lengths:
        view = await session.prepare(messages[:length])
        assert (await session.prepare(messages[:length])).messages == view.messages
        found = validate({"messages": view.messages}, format="openai-chat")
        assert not [violation for violation in found if violation.severity == "error"]
        views.append(view)
    return views


async def test_a_result_that_came_before_its_call_stays_where_it_was_moved_to():
    """The pair is whole at each later step, and the call is there once."""
    asks, answer, task, more = transcript(
        "openai-chat", assistant(call("c", "f")), result("c", "ok"), user("a"), user("b")
    )
    messages = [task, answer, asks, more]
    first, second = await walk(Pipeline().session(format="openai-chat"), messages, 3, 4)
    assert first.messages == [task, asks, answer]
    assert second.messages == [task, asks, answer, more]


async def test_the_result_made_for_an_older_call_is_not_lost_with_an_open_round_after_it():
    """An answered call keeps its made result when the round after it is read again."""
    messages = transcript(
        "openai-chat",
        user("task"),
        assistant(call("lost", "f")),
        result("nobody", "an orphan"),
        assistant(call("c", "f"), call("d", "f")),
        result("c", "ok"),
        result("d", "ok"),
        user("go on"),
    )
    *_, last = await walk(Pipeline().session(format="openai-chat"), messages, 2, 4, 5, 6, 7)
    assert [message.get("tool_call_id") for message in last.messages] == [None, None, "lost", None, "c", "d", None]


async def test_a_round_that_is_whole_once_repaired_is_not_read_again():
    """A round that was left out stays out, also when its result came after a user's message."""
    messages = transcript("openai-chat", user("task"), assistant("old"), user("more"), assistant(call("c", "f")))
    messages += transcript("openai-chat", user("interrupts")) + transcript("openai-chat", result("c", "late"))
    pipeline = Pipeline(FitContextWindow(), budget=35, counter=FixedCounter(10))
    (view,) = await walk(pipeline.session(format="openai-chat"), messages, 6)
    assert view.messages == [messages[0], messages[4]]
