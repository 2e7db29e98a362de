"""Walking through a recorded session."""

import json
from copy import deepcopy
from itertools import pairwise

import pytest

from agentctx import (
    Budget,
    ClearToolResults,
    FitContextWindow,
    InvalidInput,
    Pipeline,
    TruncateToolOutputs,
    count,
    validate,
)
from agentctx.replay import Recording, calls_of, model_calls, replay

SYSTEM = {"role": "system", "content": "You mend software."}
TASK = {"role": "user", "content": "Find out why the build fails."}
DONE = {"role": "assistant", "content": "A comma is missing."}


def chat_round(number, words=200):
    """One call and its long result, in chat format."""
    call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": f"c{number}", "content": f"line {number} of the log. " * words}
    return [{"role": "assistant", "content": None, "tool_calls": [call]}, result]


def anthropic_round(number, words=200):
    """One call and its long result, in Anthropic's format."""
    call = {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {}}
    result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"line {number} of the log. " * words}
    return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]


def chat(rounds):
    """A chat session."""
    return [SYSTEM, TASK, *(message for number in range(rounds) for message in chat_round(number)), DONE]


def anthropic(rounds):
    """A session in Anthropic's format."""
    return [TASK, *(message for number in range(rounds) for message in anthropic_round(number)), DONE]


PIPELINE = Pipeline(
    TruncateToolOutputs(max_tokens=500),
    ClearToolResults(keep_last=2),
    FitContextWindow(),
    budget=Budget(6000, 1000, trigger=4000, target=2000),
)


async def steps_of(recording, pipeline=PIPELINE, **more):
    """All steps of a replay."""
    return [step async for step in replay(recording, pipeline, **more)]


def test_a_model_call_is_where_an_assistant_turn_begins():
    """Each answer of the model was one call; an answer in two messages was one."""
    assert model_calls(chat(2), "openai-chat") == [2, 4, 6]
    assert model_calls(anthropic(2), "anthropic") == [1, 3, 5]
    assert model_calls([TASK, DONE, DONE, TASK, DONE], "anthropic") == [1, 4]


def test_nothing_was_sent_before_the_first_message():
    """A recording that begins with the assistant has no call for that turn."""
    assert model_calls([DONE, TASK, DONE], "openai-chat") == [2]
    assert model_calls([]) == []


def test_the_call_that_was_about_to_be_made_counts():
    """Messages that wait for an answer are one more call; in a recorded session only when there is no other."""
    waiting = chat(2)[:-1]
    assert calls_of(Recording(waiting)) == [2, 4, 6]
    assert calls_of(Recording(waiting, pending=False)) == [2, 4]
    assert calls_of(Recording([TASK], format="openai-chat", pending=False)) == [1]
    assert calls_of(Recording(chat(1))) == [2, 4]


def test_what_cannot_be_read_names_its_place():
    """A broken message is an error before anything is replayed."""
    with pytest.raises(InvalidInput, match=r"messages\[1\]"):
        model_calls([TASK, {"role": "wizard", "content": "?"}], "openai-chat")


@pytest.mark.anyio
@pytest.mark.parametrize(("build", "format_name"), [(chat, "openai-chat"), (anthropic, "anthropic")])
async def test_each_step_is_what_its_call_would_have_been_sent(build, format_name):
    """Counts, sizes and violations of a step are those of the request that it holds."""
    messages = build(20)
    untouched = deepcopy(messages)
    steps = await steps_of(Recording(messages, format=format_name))
    assert [step.index for step in steps] == model_calls(messages, format_name)
    for step in steps:
        assert step.tokens_sent == count(step.view.messages, format=format_name) <= 5000
        assert step.tokens_given == count(messages[: step.index], format=format_name)
        assert step.violations == validate({"messages": step.view.messages}, format_name) == ()
        assert (step.messages_given, step.messages_sent) == (step.index, len(step.view.messages))
    assert messages == untouched


@pytest.mark.anyio
async def test_the_prefix_is_what_two_requests_share():
    """The share told is that of the messages which two requests after each other begin with."""
    steps = await steps_of(Recording(chat(20), format="openai-chat"))
    for before, after in pairwise(steps):
        shared = 0
        for one, other in zip(before.view.messages, after.view.messages, strict=False):
            if json.dumps(one) != json.dumps(other):
                break
            shared += 1
        expected = count(after.view.messages[:shared], format="openai-chat") if shared else 0
        assert abs(after.prefix_tokens - expected) <= 10
        assert 0 <= after.prefix_share <= 1
    assert any(step.prefix_share > 0.9 for step in steps) or any(step.compacted for step in steps)


@pytest.mark.anyio
async def test_a_compaction_is_marked_and_rare():
    """Most steps leave alone what an earlier call had seen; those that do not are marked."""
    steps = await steps_of(Recording(chat(30), format="openai-chat"))
    for step in steps:
        old = [change for change in step.changes if change.index < step.fresh]
        assert step.compacted == bool(old or any(change.outcome == "dropped" for change in step.changes))
    assert 0 < sum(step.compacted for step in steps) < len(steps) / 3


@pytest.mark.anyio
async def test_an_overflow_is_a_step_and_the_replay_goes_on():
    """A call that cannot fit is told with its size, and the calls after it are replayed."""
    large = [{**SYSTEM, "content": "never forget " * 3000}, *chat(2)[1:]]
    steps = await steps_of(Recording(large, format="openai-chat"))
    assert [step.number for step in steps] == [1, 2, 3]
    for step in steps:
        assert step.overflow is not None
        assert step.view is None
        assert (step.valid, step.fits) == (False, False)
        assert step.tokens_given == count(large[: step.index], format="openai-chat")


@pytest.mark.anyio
async def test_system_prompt_and_tools_are_counted():
    """What stands beside the messages is part of every request."""
    tools = [{"name": "read", "description": "Read a file.", "input_schema": {"type": "object", "properties": {}}}]
    system = [{"type": "text", "text": "You mend software."}]
    steps = await steps_of(Recording(anthropic(1), system=system, tools=tools, format="anthropic"))
    assert steps[0].tokens_given == count([TASK], tools=tools, system=system, format="anthropic")
    assert (steps[0].view.system, steps[0].view.tools) == (system, tools)


@pytest.mark.anyio
async def test_a_step_without_its_view_keeps_its_numbers():
    """The messages can be let go; everything else stays, and the two are equal."""
    (first, *_) = await steps_of(Recording(chat(1), format="openai-chat"))
    light = first.without_view()
    assert light.view is None
    assert light == first
