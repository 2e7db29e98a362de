"""A session acts once, acts enough, and never in circles."""

from __future__ import annotations

import itertools
import math

import pytest

from agentctx import Budget, ClearToolResults, ContextStrategy, FitContextWindow, Pipeline, Session, Text, When
from agentctx.testing import Recorder, assistant, call, result, system, transcript, user
from agentctx.tokens import FixedCounter

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


async def test_what_comes_down_to_the_trigger_exactly_is_below_it():
    """The trigger itself is no size to be above: nothing is said of it, one token lower it is."""
    messages = transcript("openai-chat", system("rule " * 400), *(user("more " * 50) for _ in range(9)))
    floor = (await prepared(messages, trigger=300)).report.tokens_after
    assert floor < 0.9 * (await prepared(messages, trigger=10_000)).report.tokens_after
    said = [notes((await prepared(messages, trigger=trigger)).report) for trigger in (floor, floor - 1)]
    assert ["stays above the trigger" in " ".join(each) for each in said] == [False, True]


async def prepared(messages, trigger):
    """A view of which as much is left out as can be, once it has passed the trigger."""
    session = Pipeline(FitContextWindow(), budget=Budget(10_000, trigger=trigger, target=100))
    return await session.session(format="openai-chat").prepare(messages)


async def test_a_caller_that_comes_down_itself_ends_the_quiet():
    """After a vain try the next one waits for growth, after a load too, unless the caller was down at the target."""
    tries = []

    class Fruitless(ContextStrategy):
        when = When.UNDER_PRESSURE

        async def __call__(self, context, call):
            tries.append(call.limit)
            return context

    large, small = (transcript("openai-chat", user("task " * words)) for words in (500, 50))
    for between, tried in (([large], 1), ([small], 2)):
        tries.clear()
        budget = Budget(10_000, trigger=400, target=200)
        session = Pipeline(Fruitless(), budget=budget).session(format="openai-chat")
        for messages in (large, *between, large):
            await session.prepare(messages)
            session = Session.load(session.plan, session.dump())
        assert len(tries) == tried


def floor_events(heard):
    """The events that say that the context cannot get below the trigger; saying so takes no time."""
    found = [event for event in heard.events if any("stays above the trigger" in each for each in notes(event))]
    assert all(stage.seconds == 0 for event in found for stage in event.stages if stage.stage == "Session")
    return found


def notes(event):
    """What the stages of an event had to say."""
    return [note for stage in event.stages for note in stage.notes]


@pytest.mark.no_cover  # the same lines over and over
@pytest.mark.parametrize("writes_back", [False, True], ids=["history", "view"])
async def test_a_fixed_part_of_nine_tenths_is_said_once_in_a_thousand_turns(writes_back):
    """Where tools and system prompt take 90 % of the window, that is one event, and compacting is no habit."""
    heard, calls = Recorder(), []

    async def counting(context, call):
        calls.append(call.limit)
        return context

    tools = [{"type": "function", "function": {"name": "read", "description": "reads " * 2_990, "parameters": {}}}]
    budget = Budget(10_000, trigger=0.8, target=0.4)
    session = Pipeline(counting, FitContextWindow(), budget=budget, on_compact=heard).session(format="openai-chat")
    messages = transcript("openai-chat", system("rules " * 6_000), user("task"))
    for number in range(1_000):
        messages = [*messages, *transcript("openai-chat", assistant(f"answer {number}"), user(f"question {number}"))]
        view = await session.prepare(messages, tools=tools)
        assert view.report.tokens_after <= 10_000
        messages = list(view.messages) if writes_back else messages
    assert view.report.tokens_after > 9_000
    (said,) = floor_events(heard)
    assert "system and tools" in notes(said)[-1]
    cuts = [event for event in heard.events if event.tokens_after < event.tokens_before]
    assert len(cuts) <= 60


async def test_a_stage_that_makes_things_longer_changes_nothing():
    """What a stage returns is not taken when it is longer: it is tried rarely, and the history stays as it is."""
    calls = []

    class Verbose(ContextStrategy):
        when = When.UNDER_PRESSURE

        async def __call__(self, context, call):
            calls.append(call.limit)
            longer = [*context.messages]
            longer[1] = longer[1].with_parts((Text("a summary that says more than what it stands for " * 30),))
            return context.with_messages(tuple(longer))

    session = Pipeline(Verbose(), budget=Budget(1_000_000, trigger=2_000, target=500)).session(format="openai-chat")
    messages = transcript("openai-chat", system("rules"), assistant("hello"))
    for number in range(400):
        messages = [*messages, *transcript("openai-chat", user(f"question {number} " * 10), assistant("answer"))]
        view = await session.prepare(messages)
        assert all(sent is given for sent, given in zip(view.messages, messages, strict=True))
    size = view.report.tokens_after
    assert 1 <= len(calls) <= 1 + math.log(size / 2_000) / math.log(1.1)


@pytest.mark.parametrize(("trigger", "target"), [(8_000, 4_000), (8_000, 1_000), (9_500, 7_000)])
@pytest.mark.parametrize("words", [20, 100, 300])
async def test_calls_between_compactions_of_a_steady_chat(trigger, target, words):
    """A chat that grows evenly is compacted no more often than its growth and the two marks ask for."""
    budget = Budget(10_000, trigger=trigger, target=target)
    session = Pipeline(FitContextWindow(), budget=budget).session(format="openai-chat")
    messages, cuts, sizes = transcript("openai-chat", system("rules"), user("task")), [], []
    for number in range(600):
        messages = [*messages, *transcript("openai-chat", assistant("ok"), user("word " * words))]
        report = (await session.prepare(messages)).report
        sizes.append(report.tokens_after)
        if report.first_changed is not None:
            cuts.append(number)
    growth = max(after - before for before, after in itertools.pairwise(sizes))
    apart = [later - earlier for earlier, later in itertools.pairwise(cuts)]
    assert len(cuts) > 1
    assert min(apart) >= math.floor((trigger - target) / growth)
