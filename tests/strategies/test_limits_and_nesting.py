"""Bytes, images, and pipelines within pipelines."""

from __future__ import annotations

import json

import pytest

from agentctx import (
    Budget,
    ClearToolResults,
    ContextOverflow,
    FitContextWindow,
    FixedCounter,
    MemoryStore,
    Pipeline,
    Protect,
    over,
    when,
)
from agentctx.testing import Recorder
from agentctx.testing.builders import assistant, call, result, transcript, user

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
