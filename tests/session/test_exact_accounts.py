"""What a session says of its prefix, of made messages and of whose objects go out is what happened."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest

from agentctx import Budget, ContextOverflow, Outcome, Pipeline, PlaceCacheMarkers, Session, TruncateToolOutputs, count
from agentctx.testing import assistant, call, result, system, transcript, user
from agentctx.tokens import FixedCounter

pytestmark = pytest.mark.anyio


def chat(*turns):
    return transcript("openai-chat", *turns)


def added(report):
    """The places of the messages that are said to be made."""
    return [change.index for change in report.in_force if change.outcome is Outcome.ADDED]


async def test_what_goes_out_as_the_same_bytes_is_no_break():
    """A message that was edited where the view does not show it leaves the prefix as it was."""

    def history(letter):
        return chat(user("task"), assistant(call("c", "f")), result("c", "a" * 5_000 + letter + "b" * 5_000))

    session = Pipeline(TruncateToolOutputs(50)).session(format="openai-chat")
    first = await session.prepare(history("X"))
    second = await session.prepare([*history("Y"), *chat(assistant("ok"), user("more"))])
    assert second.messages[:3] == first.messages
    assert (second.report.first_changed, second.report.rebilled_tokens) == (None, 0)
    assert second.report.prefix_tokens == count(first.messages, format="openai-chat")


async def test_the_prefix_is_that_of_what_was_sent_also_after_an_overflow():
    """A step that overflowed sent nothing: the next is compared to the view before it."""
    session = Pipeline(budget=Budget(60), counter=FixedCounter(10)).session(format="openai-chat")
    messages = chat(system("rules"), user("task"), assistant(call("c", "f")))
    sent = (await session.prepare(messages)).messages
    full = [*messages, *chat(result("c", "ok"), *[user(f"{number}") for number in range(2)])]
    with pytest.raises(ContextOverflow):
        await session.prepare([*messages, *[message for _ in range(9) for message in chat(system("more rules"))]])
    view = await session.prepare(full[:4])
    shared = next(place for place, (old, new) in enumerate(zip(sent, view.messages, strict=False)) if old != new)
    assert view.report.first_changed == shared == 3


async def test_a_made_message_is_named_once_and_by_its_place():
    """The result made for a lost one is in the report as long as it is in the view, at the place where it stands."""
    messages = chat(system("rules"), user("task"), assistant(call("c", "f"), call("d", "f")))
    session = Pipeline().session(format="openai-chat")
    first = (await session.prepare(messages)).report
    assert [change.index for change in first.changes] == added(first) == [3, 4]
    messages += chat(result("c", "ok"))
    second = (await session.prepare(messages)).report
    assert added(second) == [3]
    messages += chat(result("d", "ok"), user("go on"))
    assert added((await session.prepare(messages)).report) == []


async def test_what_is_said_of_made_messages_survives_a_dump():
    """A loaded session names the same made messages."""
    messages = chat(user("task"), assistant(call("c", "f")), user("go on"))
    pipeline = Pipeline()
    session = pipeline.session(format="openai-chat")
    expected = added((await session.prepare(messages)).report)
    loaded = Session.load(pipeline, json.loads(json.dumps(session.dump())))
    report = (await loaded.prepare([*messages, *chat(assistant("ok"))])).report
    assert expected == added(report) == [2]


async def test_messages_that_were_rebuilt_go_out_as_they_are_now():
    """Of a history that was rebuilt, also the messages of an unfinished round are the caller's objects of today."""
    messages = chat(system("rules"), user("task"), assistant(call("c", "f")))
    session = Pipeline().session(format="openai-chat")
    await session.prepare(messages)
    rebuilt = [*deepcopy(messages), *chat(result("c", "ok"))]
    view = await session.prepare(rebuilt)
    assert all(ours is theirs for ours, theirs in zip(rebuilt, view.messages, strict=True))
    edited = [*deepcopy(rebuilt[:3]), *chat(result("c", "another")), *chat(user("go on"))]
    view = await session.prepare(edited)
    assert all(ours is theirs for ours, theirs in zip(edited, view.messages, strict=True))


async def test_of_a_history_that_is_rebuilt_what_carries_no_marker_any_more_is_the_callers():
    """A message whose cache marker has moved on goes out as the caller's object of today."""
    turns = [turn for n in range(6) for turn in (assistant(call(f"c{n}", "f")), result(f"c{n}", "line\n" * 80))]
    messages = transcript("anthropic", user("task " * 2_000), *turns)
    session = Pipeline(PlaceCacheMarkers(), budget=100_000).session(format="anthropic")
    for length in range(3, len(messages) + 1, 2):
        given = deepcopy(messages[:length])
        sent = (await session.prepare(given)).messages
        bare = [place for place, native in enumerate(sent) if "cache_control" not in str(native)]
        assert bare
        assert all(sent[place] is given[place] for place in bare)


async def test_a_result_that_comes_when_the_history_was_cut_back_to_its_call_is_taken():
    """The placeholder for a missing result goes when the result comes, also after what stood behind it went."""
    messages = chat(user("task"), assistant(call("c", "f")), user("stop"))
    session = Pipeline(TruncateToolOutputs(5)).session(format="openai-chat")
    assert len((await session.prepare(messages)).messages) == 4
    messages = [*messages[:2], *chat(result("c", "it came"))]
    assert (await session.prepare(messages)).messages == messages


async def test_bytes_before_are_those_that_were_passed_in(preparing):
    """System prompt, tools and messages as they came; after a cut less goes out than came, and without one as much."""
    messages = transcript("anthropic", user("task"), assistant(call("c", "f")), result("c", "word " * 900))
    tools = [{"name": "f", "description": "reads", "input_schema": {"type": "object"}}]
    whole, cut = [
        (await preparing(Pipeline(*stages), "anthropic")(messages, "Be brief.", tools)).report
        for stages in ((), (TruncateToolOutputs(50),))
    ]
    assert whole.bytes_before == whole.bytes_after == cut.bytes_before > cut.bytes_after > len("Be brief.")
