"""What waits for an answer is there when the answer comes, whatever was cut meanwhile."""

from __future__ import annotations

import json

import pytest
from histories import FORMATS

from agentctx import (
    Budget,
    ClearToolResults,
    CollapseRepeats,
    FitContextWindow,
    Pack,
    Pipeline,
    Session,
    Tiered,
    TrimRounds,
    TruncateToolOutputs,
    validate,
)
from agentctx.testing import assistant, call, result, transcript, user

pytestmark = pytest.mark.anyio
STAGES = [
    TrimRounds(1),
    ClearToolResults(0),
    FitContextWindow(),
    TruncateToolOutputs(20),
    CollapseRepeats(),
    Pack(),
    Tiered(),
]
BUDGET = Budget(3_000, trigger=2_500, target=1_500)
LOST, PAID = "no result: the tool call was interrupted", "five euros were paid"


def rounds(format_name, first, last):
    """Rounds with results that fill the window."""
    turns = []
    for number in range(first, last):
        turns += [assistant(call(f"c{number}", "read", {"n": number})), result(f"c{number}", f"{number} word " * 400)]
    return chat(format_name, *turns)


def chat(format_name, *turns):
    """Native messages without ids of items: some transcripts here are put together from several."""
    messages = transcript(format_name, *turns)
    return [{key: value for key, value in each.items() if key != "id"} for each in messages]


def asks(format_name):
    """A call that is answered late."""
    if format_name == "gemini":
        return [{"role": "model", "parts": [{"functionCall": {"id": "late", "name": "pay", "args": {"eur": 5}}}]}]
    return chat(format_name, assistant(call("late", "pay", {"eur": 5})))


def answers_late(format_name):
    """The answer."""
    if format_name == "gemini":
        answer = {"id": "late", "name": "pay", "response": {"output": PAID}}
        return [{"role": "user", "parts": [{"functionResponse": answer}]}]
    return chat(format_name, result("late", PAID))


def broken(view, format_name):
    found = validate({"messages": view.messages}, format=format_name)
    return [str(violation) for violation in found if violation.severity == "error"]


ASKED = {
    "type": "mcp_approval_request",
    "id": "mcpr_1",
    "arguments": '{"eur":5}',
    "name": "pay",
    "server_label": "bank",
}
GRANTED = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True}
STARTED = {"functionResponse": {"id": "slow", "name": "pay", "response": {"status": "pending"}, "willContinue": True}}
ENDED = {"functionResponse": {"id": "slow", "name": "pay", "response": {"output": "paid"}}}
WAITING = {
    "openai-responses": ([ASKED], [GRANTED], "mcpr_1"),
    "gemini": (
        [
            {"role": "model", "parts": [{"functionCall": {"id": "slow", "name": "pay", "args": {}}}]},
            {"role": "user", "parts": [STARTED]},
        ],
        [{"role": "user", "parts": [ENDED]}],
        "slow",
    ),
}
"""What asks, what answers, and what to find it by."""


@pytest.mark.parametrize("format_name", WAITING)
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: type(stage).__name__)
async def test_what_waits_for_an_approval_or_a_last_word_survives(preparing, format_name, stage):
    """However old it is, no strategy leaves out what a person or a slow tool still has to answer."""
    asked, answers, name = WAITING[format_name]
    prepare = preparing(Pipeline(stage, budget=BUDGET), format_name)
    history = [*chat(format_name, user("task")), *rounds(format_name, 0, 2), *asked]
    for first in range(2, 16, 2):
        history += [*chat(format_name, user(f"and {first}")), *rounds(format_name, first, first + 2)]
        view = await prepare(history)
        assert name in json.dumps(view.messages)
        assert not broken(view, format_name)
    assert view.report.acted or any(change.tokens_after == 0 for change in view.report.in_force)
    view = await prepare([*history, *answers])
    left_out = {change.index for change in view.report.in_force}
    assert answers[0] in view.messages or len(history) in left_out
    assert not broken(view, format_name)


async def test_a_request_for_approval_is_not_answered_for_the_user(preparing):
    """An approval that is asked for and not given yet goes out as it is: nobody denies it in the user's name."""
    history = [*chat("openai-responses", user("pay")), ASKED]
    view = await preparing(Pipeline(budget=BUDGET), "openai-responses")(history)
    assert view.messages == history
    assert not view.report.acted


async def test_an_answered_approval_may_go(preparing):
    """What was answered is kept and left out like any other round, as a whole."""
    history = [*chat("openai-responses", user("pay")), ASKED, GRANTED, *rounds("openai-responses", 0, 12)]
    view = await preparing(Pipeline(TrimRounds(1), budget=BUDGET), "openai-responses")(history)
    assert "mcpr_1" not in json.dumps(view.messages)


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_result_that_comes_late_is_taken(format_name, restarts):
    """A result that comes after the user and the model have gone on replaces what held its place in the view."""
    plan = Pipeline(FitContextWindow(), budget=BUDGET)
    session = plan.session(format=format_name)
    history = [*chat(format_name, user("task")), *asks(format_name)]
    for more in (chat(format_name, user("meanwhile")), chat(format_name, assistant("yes?"), user("nothing"))):
        history = [*history, *more]
        view = await session.prepare(history)
        assert not broken(view, format_name)
        assert LOST in json.dumps(view.messages) or format_name == "openai-responses"
        session = Session.load(plan, session.dump()) if restarts else session
    history = [*history, *answers_late(format_name)]
    for _ in range(2):
        view = await session.prepare(history)
        said = json.dumps(view.messages)
        assert PAID in said
        assert LOST not in said
        assert not broken(view, format_name)
        history = [*history, *chat(format_name, assistant("good"), user("thanks"))]
    assert view.report.first_changed is None


@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_late_result_brings_back_a_call_that_was_left_out(format_name):
    """When the call was cut away before its result came, both are in the next view, and it fits."""
    session = Pipeline(FitContextWindow(), budget=BUDGET).session(format=format_name)
    history = [*chat(format_name, user("task")), *asks(format_name), *chat(format_name, user("meanwhile"))]
    await session.prepare(history)
    for first in range(8):
        history = [*history, *rounds(format_name, first, first + 1), *chat(format_name, user(f"and {first}"))]
        view = await session.prepare(history)
    assert "pay" not in json.dumps(view.messages)
    history = [*history, *answers_late(format_name)]
    view = await session.prepare(history)
    assert not broken(view, format_name)
    assert view.report.tokens_after <= BUDGET.limit
    assert PAID in json.dumps(view.messages)


@pytest.mark.parametrize("format_name", ["openai-chat", "anthropic", "bedrock"])
async def test_a_late_result_is_taken_where_the_view_was_written_back(format_name):
    """In a loop that goes on from the view the real result takes the place of the one that was made for it."""
    session = Pipeline(budget=BUDGET).session(format=format_name)
    history = chat(format_name, user("task"), assistant(call("late", "pay")), user("meanwhile"))
    view = await session.prepare(history)
    view = await session.prepare([*view.messages, *chat(format_name, assistant("yes?"), user("nothing"))])
    view = await session.prepare([*view.messages, *answers_late(format_name)])
    said = json.dumps(view.messages)
    assert PAID in said
    assert LOST not in said
    assert not broken(view, format_name)


async def test_a_result_that_nobody_asked_for_costs_no_decision():
    """A result without any call is left out, and what was decided before it stays."""
    session = Pipeline(FitContextWindow(), budget=BUDGET).session(format="openai-chat")
    history = [*chat("openai-chat", user("task")), *rounds("openai-chat", 0, 9)]
    first = await session.prepare(history)
    view = await session.prepare([*history, *chat("openai-chat", result("nobody", "what?"), user("go on"))])
    assert view.messages[: len(first.messages)] == first.messages
    assert view.report.first_changed is None


async def walked(format_name, *first):
    """A session past two compactions, its history, and its last view, which has grown since the last of them."""
    session = Pipeline(TruncateToolOutputs(80), FitContextWindow(), budget=BUDGET).session(format=format_name)
    history, view = [*chat(format_name, user("task")), *first], None
    for number in range(50):
        history += chat(format_name, assistant(call(f"c{number}", "read")), result(f"c{number}", "word " * 100))
        history += chat(format_name, assistant("so"), user("go on"))
        view = await session.prepare(history)
    said = json.dumps(view.messages)
    assert ('"c49"' in said, '"c0"' in said) == (True, False)
    assert BUDGET.target + 200 < view.report.tokens_after < BUDGET.trigger - 200
    return session, history, view


@pytest.mark.parametrize("answered", ["c0", "c49"])
async def test_an_answer_that_comes_again_costs_no_decision(answered):
    """A second result of a call that has one is left out, be the call in the view or not; what was decided stays."""
    session, history, first = await walked("openai-chat")
    view = await session.prepare([*history, *chat("openai-chat", result(answered, "again"), user("well"))])
    assert view.messages[: len(first.messages)] == first.messages
    assert view.report.first_changed is None


@pytest.mark.parametrize("asked", ["new", "c0", "c49"])
async def test_a_call_that_nobody_answers_costs_no_decision(asked):
    """Only a result that came too early for want of this call is read again, not those of others, nor old ones."""
    early = chat("openai-chat", assistant(call("c0", "read")), result("c0", "done"), result("nobody", "what?"))
    session, history, first = await walked("openai-chat", *early)
    more = chat("openai-chat", assistant(call(asked, "read")), user("well"))
    view = await session.prepare([*history, *more])
    assert view.messages[: len(first.messages)] == first.messages
    assert view.report.first_changed is None


@pytest.mark.parametrize(
    "block",
    [
        {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "x"}},
        {"type": "mcp_tool_use", "id": "mcptoolu_1", "name": "pay", "server_name": "bank", "input": {}},
    ],
    ids=lambda block: block["type"],
)
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: type(stage).__name__)
async def test_a_server_that_paused_goes_on(preparing, block, stage):
    """A turn in which the provider's own tool has not answered yet is sent on as it is."""
    paused = {"role": "assistant", "content": [{"type": "text", "text": "let me see"}, block]}
    history = [*chat("anthropic", user("task")), *rounds("anthropic", 0, 12), *chat("anthropic", user("now")), paused]
    view = await preparing(Pipeline(stage, budget=BUDGET), "anthropic")(history)
    assert view.messages[-1] is paused
    assert not broken(view, "anthropic")
