"""What is made is counted as it is written: what repair puts in and mends, and what a later stage takes away again."""

import pytest
from attrs import evolve
from histories import FORMATS, broken_histories
from hypothesis import given

from agentctx import AgentctxError, Budget, Pipeline, count
from agentctx.testing import assistant, call, result, transcript, user

MODELS = ["gpt-5.4", "kimi-k2.6", "mistral-large-latest", "glm-4.6"]


def legacy(messages):
    """A chat transcript with its lone calls and their results as Chat wrote them before there were tools."""
    names, out = {}, []
    for message in messages:
        calls = message.get("tool_calls", ())
        if len(calls) == 1:
            names[calls[0]["id"]] = calls[0]["function"]["name"]
            plain = {key: value for key, value in message.items() if key != "tool_calls"}
            out.append(plain | {"function_call": calls[0]["function"]})
        elif message["role"] == "tool" and message["tool_call_id"] in names:
            out.append({"role": "function", "name": names[message["tool_call_id"]], "content": str(message["content"])})
        else:
            out.append(message)
    return out


async def counted_as_written(history, model=None):
    """The size in the report is what counting the request itself gives."""
    try:
        view = await Pipeline().prepare(history.messages, history.system, history.tools, history.format, model)
    except AgentctxError:
        return  # nothing is left to send
    sent = count(view.messages, system=view.system, tools=history.tools, format=history.format, model=model)
    assert sent == view.report.tokens_after


@given(broken_histories())
def test_what_repair_makes_is_counted_as_it_is_written(both_loops, history):
    """Whatever repair adds, moves, renames or mends, the report's size is that of the request."""
    both_loops(counted_as_written, history)


@pytest.mark.parametrize("model", MODELS)
@given(broken_histories("openai-chat"))
def test_what_repair_makes_of_legacy_calls_is_counted_as_it_is_written(both_loops, model, history):
    """The same where a call is a ``function_call``, which has a name and no id, in every dialect."""
    both_loops(counted_as_written, evolve(history, messages=legacy(history.messages)), model)


@pytest.mark.anyio
@pytest.mark.parametrize("model", MODELS)
async def test_what_repair_adds_to_legacy_calls_keeps_the_budget(model, preparing):
    """What answers a ``function_call`` is made to fit with all that is written of it, and under the function's name."""
    turns = [{"role": "user", "content": "task"}]
    for number in range(10):
        turns.append({"role": "assistant", "content": None, "function_call": {"name": "run", "arguments": "{}"}})
        turns.append({"role": "user", "content": f"go on {number}"})
    whole = await preparing(Pipeline(), "openai-chat", model)(turns)
    assert {message["name"] for message in whole.messages if message["role"] == "function"} <= {"run"}
    limit = count(whole.messages, format="openai-chat", model=model) - 1
    view = await preparing(Pipeline(budget=Budget(limit)), "openai-chat", model)(turns)
    assert len(view.messages) == len(whole.messages)  # one answer is shorter
    assert count(view.messages, format="openai-chat", model=model) <= limit


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_made_message_that_is_dropped_again_leaves_no_tokens_behind(format_name):
    """The report's size is that of what is sent, when an answer that repair has made is dropped with its round."""
    rounds = (assistant(call("a", "read")), user("wait"), assistant(call("b", "read")), result("b", "ok " * 30))
    messages = transcript(format_name, user("go"), *rounds, user("and now?"))
    limit = count(messages, format=format_name) * 2 // 3
    view = await Pipeline(budget=Budget(limit)).prepare(messages, format=format_name)
    assert len(view.messages) < len(messages)
    assert count(view.messages, format=format_name) == view.report.tokens_after
