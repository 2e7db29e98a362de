"""Bytes, images, and pipelines within pipelines."""

from __future__ import annotations

import json

import pytest

from agentctx import (
    Budget,
    Call,
    ClearToolResults,
    ContextOverflow,
    FitContextWindow,
    Pipeline,
    Protect,
    first_of,
    over,
    when,
)
from agentctx.economics import Condition
from agentctx.protocols import Phase
from agentctx.stores import MemoryStore
from agentctx.testing import Recorder, assistant, call, result, transcript, user
from agentctx.tokens import FixedCounter
from agentctx.tokens.counting import MessageMeter

pytestmark = pytest.mark.anyio
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="


def agent(rounds, size=30):
    """A task and rounds of one call each."""
    turns = [user("task")]
    for number in range(rounds):
        turns += [assistant(call(f"c{number}", "read")), result(f"c{number}", f"line {number}\n" * size)]
    return transcript("openai-chat", *turns)


async def test_the_body_stays_within_the_providers_bytes(preparing):
    """A request larger than the provider's body limit is cut until its JSON fits."""
    pipeline = Pipeline(budget=Budget(100_000, request_bytes=2_000))
    view = await preparing(pipeline, "openai-chat")(agent(20))
    assert len(json.dumps(view.messages).encode()) <= 2_000
    assert view.messages[0]["content"] == "task"


async def test_a_body_that_cannot_shrink_is_an_overflow(preparing):
    """When what must stay is larger than the body limit, nothing is sent."""
    pipeline = Pipeline(budget=Budget(100_000, request_bytes=500))
    with pytest.raises(ContextOverflow):
        await preparing(pipeline, "openai-chat")(transcript("openai-chat", user("word " * 500)))


async def test_the_oldest_images_go_first(preparing):
    """With more images than the provider takes, the oldest become a text; protected messages keep theirs."""
    shot = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    seen = [{"role": "user", "content": [{"type": "text", "text": f"shot {n}"}, shot]} for n in range(5)]
    answers = [{"role": "assistant", "content": f"seen {n}"} for n in range(5)]
    messages = [each for pair in zip(seen, answers, strict=True) for each in pair]
    budget = Budget(100_000)
    limited = Budget(100_000, media=type(budget.media)(images=3))
    view = await preparing(Pipeline(budget=limited), "openai-chat")(messages)
    kinds = [message["content"][1]["type"] for message in view.messages if message["role"] == "user"]
    assert ["image_url", "text", "text", "image_url", "image_url"] == kinds


async def test_images_within_results_are_counted_one_by_one(preparing):
    """Of several images in one message or result the first go, and what is said beside them stays."""
    shot = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    text = {"type": "text", "text": "seen"}
    calls = [{"type": "tool_use", "id": each, "name": "look", "input": {}} for each in "ab"]
    told = {"type": "tool_result", "tool_use_id": "b", "content": "none"}
    messages = [
        {"role": "user", "content": "task"},
        {"role": "assistant", "content": "yes"},
        {"role": "user", "content": [shot, text, shot]},
        {"role": "assistant", "content": calls},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a", "content": [shot, text, shot]}, told]},
        {"role": "assistant", "content": "well"},
        {"role": "user", "content": "go on"},
    ]
    budget = Budget(100_000)
    limited = Budget(100_000, media=type(budget.media)(images=1))
    view = await preparing(Pipeline(budget=limited), "anthropic")(messages)
    gone = {"type": "text", "text": "[an image was left out]"}
    assert view.messages[2]["content"] == [gone, text, gone]
    assert view.messages[4]["content"] == [{**messages[4]["content"][0], "content": [gone, text, shot]}, told]


@pytest.mark.parametrize(
    "pipeline",
    [Pipeline(when(over(0.5), FitContextWindow())), Pipeline(Pipeline(FitContextWindow()))],
    ids=["within a condition", "within a pipeline"],
)
async def test_a_stage_within_a_stage_gets_the_models_budget(pipeline):
    """A named model gives the budget wherever the stage that needs one stands."""
    assert (await pipeline.prepare(agent(2), model="gpt-4o")).report.limit > 50_000


async def test_an_inner_pipeline_keeps_its_store_its_rules_and_its_listener():
    """What an inner pipeline was given holds when it is a stage of another."""
    store, heard = MemoryStore(), Recorder()
    inner = Pipeline(ClearToolResults(0), store=store, protect=[Protect.pins(2)], on_compact=heard)
    messages = agent(3)
    view = await Pipeline(inner).prepare(messages)
    assert view.messages[2] is messages[2]
    assert [json.loads(await store.get(change.handle)) for change in view.report.changes] == [messages[4]]
    assert len(heard.events) == 1


async def test_a_condition_decides_when_and_the_target_how_far():
    """Stages under a condition come down to the budget's target although the request would fit."""
    budget = Budget(200, target=60)
    view = await Pipeline(when(over(100), FitContextWindow()), budget=budget, counter=FixedCounter(10)).prepare(
        agent(7)
    )
    assert view.report.tokens_after <= 60


NEVER = Condition(lambda _context, _call: True, "never", lambda _before, _after, _call: False)


async def test_what_is_not_approved_is_as_if_it_had_not_been_done(preparing):
    """Neither the view nor the report shows it."""
    view = await preparing(Pipeline(when(NEVER, ClearToolResults(0))), "openai-chat")(agent(7))
    assert view.messages == agent(7)
    assert not view.report.acted


async def test_what_a_stage_says_needs_no_approval():
    """Where it changed nothing there is nothing to approve of, and what it said is told, also when it is called."""

    async def says(context, call):
        call.remark("looked")
        return context

    view = await Pipeline(when(NEVER, says)).prepare(agent(1))
    assert [(stage.stage, stage.notes) for stage in view.report.stages] == [("says", ("looked",))]
    told = Call(MessageMeter(FixedCounter(10)))
    assert await when(NEVER, says)(view.context, told) is view.context
    assert told.internals.notes.remarks == ["looked"]


@pytest.mark.parametrize(("tokens", "runs"), [(149, True), (150, False)])
async def test_over_is_more_than(tokens, runs):
    """A context of just so many tokens is not over them."""
    view = await Pipeline(when(over(tokens), ClearToolResults(0)), counter=FixedCounter(10)).prepare(agent(7))
    assert view.report.tokens_before == 150
    assert bool(view.report.changes) == runs


async def test_what_is_asked_at_every_step_comes_down_to_the_target(preparing):
    """Stages under such a condition aim at the target, also within a pipeline with the budget of the one around it."""
    budget = Budget(200, target=60)
    always = Condition(lambda _context, _call: True, "always", every_step=True)
    for inner in (FitContextWindow(), Pipeline(FitContextWindow(), budget=budget)):
        pipeline = Pipeline(when(always, inner), budget=budget, counter=FixedCounter(10))
        assert (await preparing(pipeline, "openai-chat")(agent(7))).report.tokens_after <= 60


@pytest.mark.parametrize("around", [lambda stage: stage, first_of, lambda stage: when(over(1), stage)])
def test_a_pipeline_with_the_budget_around_it_has_none_of_its_own(around):
    """It looks at every step only whether a budget of its own is passed, wherever it stands."""
    budget = Budget(200, target=60)
    stage = around(Pipeline(FitContextWindow(), budget=budget))
    assert not Pipeline(stage, budget=budget).due(Phase.EVERY_STEP)
    assert Pipeline(stage, budget=Budget(300)).due(Phase.EVERY_STEP)


@pytest.mark.parametrize(
    "stage",
    [when(over(1), ClearToolResults(0)), first_of(ClearToolResults(0)), Pipeline(ClearToolResults(0))],
    ids=["when", "first_of", "pipeline"],
)
async def test_a_stage_of_ones_own_may_call_those_that_hold_others(stage):
    """A stage that holds others does the same when it is called as a function."""

    async def calling(context, call):
        return await stage(context, call)

    made = await Pipeline(calling).prepare(agent(3))
    assert made.messages == (await Pipeline(stage).prepare(agent(3))).messages != agent(3)


async def test_an_overflow_costs_the_next_step_nothing():
    """What arrived is read once, also when it could not be sent."""
    session = Pipeline(budget=Budget(400)).session(format="openai-chat")
    big = transcript("openai-chat", user("word " * 1_000))
    with pytest.raises(ContextOverflow):
        await session.prepare(big)
    view = await session.prepare(transcript("openai-chat", user("word " * 100)))
    assert view.report.messages_before == 1
    with pytest.raises(ContextOverflow):
        await session.prepare(big)
