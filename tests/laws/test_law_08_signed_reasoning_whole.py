"""Law 8: signed reasoning is kept whole or dropped by the provider's rule, never edited."""

import json

import pytest
from attrs import evolve
from histories import broken_histories, budgets, histories, stages
from hypothesis import given

from agentctx import (
    Budget,
    ClearToolResults,
    FitContextWindow,
    Pipeline,
    Thinking,
    TrimRounds,
    TruncateToolOutputs,
    validate,
)
from agentctx.errors import EditedReasoning
from agentctx.testing import assistant, call, result, thinking, transcript, user
from agentctx.testing.laws import Scenario, signed_reasoning_whole

STAGES = {
    "TrimRounds": TrimRounds(2),
    "TruncateToolOutputs": TruncateToolOutputs(max_tokens=20),
    "ClearToolResults": ClearToolResults(keep_last=1),
    "FitContextWindow": FitContextWindow(Budget(600)),
}
BOUND, UNBOUND = "claude-opus-5-5", "claude-sonnet-4-5"


def thoughtful(rounds=6, *, closed=False):
    """A task, and rounds with signed reasoning; closed by an answer and a new question, or still open."""
    turns = [user("task")]
    for number in range(rounds):
        turns += [
            assistant(thinking(f"thought {number}", f"c2ln{number}"), call(f"c{number}", "read", {"n": number})),
            result(f"c{number}", f"result {number} " * 40),
        ]
    return transcript("anthropic", *turns, *([assistant(thinking("end", "ZW5k"), "done"), user("more")] * closed))


def signed(messages):
    """The thinking blocks of a transcript, as they are sent."""
    blocks = [block for message in messages if isinstance(message["content"], list) for block in message["content"]]
    return [json.dumps(block) for block in blocks if "thinking" in block["type"]]


@given(histories("anthropic"), budgets(), stages())
def test_signed_reasoning_of_legal_histories_is_whole(both_loops, history, budget, stage):
    """Every signed block that is sent is one of the input's, in their order, where the provider takes it."""
    both_loops(signed_reasoning_whole, Scenario.of(stage, history, budget))


@given(broken_histories("anthropic"), budgets(), stages())
def test_signed_reasoning_of_broken_histories_is_whole(both_loops, history, budget, stage):
    """Repair leaves signed blocks as they are."""
    both_loops(signed_reasoning_whole, Scenario.of(stage, history, budget))


@pytest.mark.anyio
@pytest.mark.parametrize("stage", STAGES.values(), ids=STAGES.keys())
@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("model", [BOUND, UNBOUND])
async def test_every_stage_keeps_the_rule_of_the_model(stage, closed, model, preparing):
    """What is cut from a thinking model's history leaves no signature behind that its provider would refuse."""
    messages = thoughtful(closed=closed)
    view = await preparing(Pipeline(stage), "anthropic", model)(messages)
    assert view.report.changes
    before, sent = {"model": model, "messages": messages}, {"model": model, "messages": view.messages}
    broken = validate(sent, model=model, before=before)
    assert not [str(violation) for violation in broken if violation.severity == "error"]


@pytest.mark.anyio
async def test_in_an_open_round_of_manual_thinking_the_reasoning_stays():
    """With thinking enabled, the turn that waits for its results keeps the thinking that it begins with."""
    messages = thoughtful(rounds=8)
    view = await Pipeline(FitContextWindow(Budget(500))).prepare(messages, format="anthropic", model=UNBOUND)
    request = {"model": UNBOUND, "thinking": {"type": "enabled", "budget_tokens": 2_000}, "messages": view.messages}
    broken = validate(request, model=UNBOUND, before={**request, "messages": messages})
    assert not [str(violation) for violation in broken if violation.severity == "error"]
    assert signed(view.messages)[-1] == signed(messages)[-1]


@pytest.mark.anyio
@pytest.mark.parametrize("change", [{"text": "shorter"}, {"signature": "b3RoZXI="}, {"text": ""}])
async def test_a_stage_that_edits_signed_reasoning_is_named(preparing, change):
    """A stage that edits a signed block is an error that names the stage: the provider would refuse the request."""

    async def retell(context, _call):
        def told(part):
            return evolve(part, **change) if isinstance(part, Thinking) else part

        parts = [tuple(told(part) for part in message.parts) for message in context.messages]
        return context.with_messages(
            tuple(message.with_parts(new) for message, new in zip(context.messages, parts, strict=True))
        )

    pipeline = Pipeline(retell)
    prepare = preparing(pipeline, "anthropic")
    with pytest.raises(EditedReasoning, match="retell"):
        await prepare(thoughtful())


@pytest.mark.anyio
async def test_redacted_reasoning_rides_through():
    """Encrypted reasoning goes back as the caller's own block, beside a result that was cut."""
    messages = thoughtful(rounds=3)
    messages[1]["content"].insert(0, {"type": "redacted_thinking", "data": "c2VjcmV0"})
    pipeline = Pipeline(TruncateToolOutputs(max_tokens=20), budget=Budget(100_000))
    view = await pipeline.prepare(messages, format="anthropic", model=UNBOUND)
    assert view.messages[1] is messages[1]
    assert view.report.changes
