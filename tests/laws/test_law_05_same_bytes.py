"""Law 5: same input and state, same bytes out."""

import json
from copy import deepcopy

import pytest
from histories import broken_histories, budgets, histories, stages
from hypothesis import given

from agentctx import Budget, ClearToolResults, FitContextWindow, Pipeline, TruncateToolOutputs, validate
from agentctx.testing import assistant, call, result, transcript, user
from agentctx.testing.laws import Scenario, same_bytes

FORMATS = ["openai-chat", "anthropic", "gemini", "bedrock"]
REBUILT = {
    "the same objects": list,
    "deep copies": deepcopy,
    "through JSON": lambda messages: json.loads(json.dumps(messages)),
    "keys in another order": lambda messages: [dict(reversed(message.items())) for message in messages],
}


def agent_pipeline(window=1_500):
    """What an agent would use."""
    budget = Budget(window, trigger=0.8, target=0.5)
    return Pipeline(
        TruncateToolOutputs(max_tokens=120), ClearToolResults(keep_last=4), FitContextWindow(), budget=budget
    )


def a_round(format_name, number):
    """One round of a coding agent: every fifth output is large."""
    words = 400 if number % 5 == 0 else 30
    return transcript(
        format_name,
        assistant(f"step {number}", call(f"c{number}", "read", {"n": number})),
        result(f"c{number}", f"output {number} " * words),
    )


def as_bytes(view):
    """Each message of a view, as it is sent."""
    return [json.dumps(message) for message in view.messages]


@given(histories(), budgets(), stages())
def test_legal_histories_give_the_same_bytes(both_loops, history, budget, stage):
    """Prepared again, from rebuilt messages, in another session: the same bytes; and the prefix holds as reported."""
    both_loops(same_bytes, Scenario.of(stage, history, budget))


@given(broken_histories(), budgets(), stages())
def test_broken_histories_give_the_same_bytes(both_loops, history, budget, stage):
    """Repair decides the same every time."""
    both_loops(same_bytes, Scenario.of(stage, history, budget))


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("rebuild", REBUILT.values(), ids=REBUILT.keys())
async def test_a_caller_may_rebuild_its_messages(format_name, rebuild):
    """A framework that makes its messages anew at every step gets the same view as one that keeps them."""
    kept, rebuilt = agent_pipeline().session(format=format_name), agent_pipeline().session(format=format_name)
    messages = transcript(format_name, user("task"))
    acted = False
    for number in range(30):
        messages += a_round(format_name, number)
        expected = await kept.prepare(messages)
        found = await rebuilt.prepare(rebuild(messages))
        assert found.context.messages == expected.context.messages
        assert found.report.first_changed == expected.report.first_changed
        acted = acted or expected.report.first_changed is not None
    assert acted


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_between_two_cuts_the_prefix_stays(format_name):
    """The bytes of the last view begin the next one, but for a few large steps that the report names."""
    session = agent_pipeline().session(format=format_name)
    messages, last, breaks = transcript(format_name, user("task")), [], 0
    for number in range(60):
        messages += a_round(format_name, number)
        view = await session.prepare(messages)
        now = as_bytes(view)
        moved = view.report.first_changed
        if moved is None:
            assert now[: len(last)] == last
        else:
            breaks += 1
            assert now[:moved] == last[:moved]
            assert moved >= len(now) or moved >= len(last) or now[moved] != last[moved]
        last = now
    assert 1 <= breaks <= 20


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_what_is_cut_stays_cut(format_name):
    """A tool output that was cut when it arrived is sent cut, byte for byte, as long as it is sent."""
    session = Pipeline(TruncateToolOutputs(max_tokens=50)).session(format=format_name)
    messages = transcript(format_name, user("task"))
    first = None
    for number in range(6):
        messages += a_round(format_name, number)
        sent = as_bytes(await session.prepare(messages))
        first = first or sent[2]
        assert sent[2] == first
    assert "omitted" in first


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_caller_may_write_the_view_back(format_name):
    """The loop that replaces its own list by the view keeps legal requests and its prefix."""
    session = agent_pipeline().session(format=format_name)
    messages, last = transcript(format_name, user("task")), []
    for number in range(60):
        messages = [*messages, *a_round(format_name, number)]
        view = await session.prepare(messages)
        request = {"messages": view.messages}
        assert not [found for found in validate(request, format=format_name) if found.severity == "error"]
        assert view.report.tokens_after <= 1_500
        now = as_bytes(view)
        moved = view.report.first_changed
        assert now[:moved] == last[:moved] if moved is not None else now[: len(last)] == last
        messages, last = view.messages, now
    assert "output 59" in last[-1]


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_both_ways_to_keep_a_transcript_send_the_same_until_the_first_cut(format_name):
    """Whether the caller keeps everything or writes views back, what is sent is the same while nothing is dropped."""
    whole, written = (
        agent_pipeline(8_000).session(format=format_name),
        agent_pipeline(8_000).session(format=format_name),
    )
    everything = transcript(format_name, user("task"))
    own = everything
    for number in range(12):
        new = a_round(format_name, number)
        everything, own = [*everything, *new], [*own, *new]
        one, other = await whole.prepare(everything), await written.prepare(own)
        own = other.messages
        assert as_bytes(one) == as_bytes(other)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("place", [0, 1, 2, 4, -1])
async def test_an_edit_of_an_old_message_is_seen(format_name, place):
    """A caller that edits an old message in place sees its edit in the next view, and the report says where."""
    session = Pipeline(FitContextWindow(), budget=Budget(50_000)).session(format=format_name)
    messages = transcript(format_name, user("task"), assistant("one"), user("two"), assistant("three"), user("four"))
    await session.prepare(messages)
    (edited,) = transcript(format_name, user("edited by its owner"))
    messages[place].update(edited | {"role": messages[place]["role"]})
    view = await session.prepare(messages)
    assert view.context.messages[place].text == "edited by its owner"
    assert view.report.first_changed == place % len(messages)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_an_edit_deep_in_a_block_is_seen(format_name):
    """A caller that edits a nested value in place sees its edit in the next view."""
    session = Pipeline(FitContextWindow(), budget=Budget(50_000)).session(format=format_name)
    messages = transcript(format_name, user("task"), assistant(call("c", "x", {"deep": "er"})), result("c", "ok"))
    await session.prepare(messages)
    call_message = messages[1]
    match format_name:
        case "anthropic":
            call_message["content"][0]["input"]["deep"] = "edited"
        case "gemini":
            call_message["parts"][0]["functionCall"]["args"]["deep"] = "edited"
        case "bedrock":
            call_message["content"][0]["toolUse"]["input"]["deep"] = "edited"
        case _:
            call_message["tool_calls"][0]["function"]["arguments"] = '{"deep": "edited"}'
    view = await session.prepare(messages)
    assert "edited" in view.context.messages[1].calls[0].arguments
    assert view.report.first_changed == 1


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_branch_is_seen(format_name):
    """A caller that goes back and continues otherwise gets the new branch, and nothing of the old one."""
    session = agent_pipeline(8_000).session(format=format_name)
    messages = transcript(format_name, user("task"))
    for number in range(6):
        messages += a_round(format_name, number)
        await session.prepare(messages)
    branch = [*messages[:5], *transcript(format_name, assistant("instead"), user("yes"))]
    view = await session.prepare(branch)
    assert len(view.messages) == len(branch)
    assert "output 5" not in json.dumps(view.messages)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_equal_messages_are_told_apart(format_name):
    """The very same object many times over, and many equal objects, are each sent."""
    nod = transcript(format_name, user("yes"))[0]
    messages = [nod, *transcript(format_name, assistant("ok")), nod, *transcript(format_name, assistant("ok")), nod]
    session = Pipeline(FitContextWindow(), budget=Budget(10_000)).session(format=format_name)
    for _ in range(2):
        view = await session.prepare(messages)
        assert view.messages == messages
        messages = deepcopy(messages)
