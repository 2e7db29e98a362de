"""Results that say what a later one says again."""

import json
from functools import partial

import pytest
from hypothesis import given

from agentctx import CollapseRepeats, ConfigError, Pipeline, Protect, validate
from agentctx.stores import MemoryStore
from agentctx.testing import assistant, call, check_laws, result, transcript, user
from agentctx.testing.histories import broken_histories, budgets, histories

pytestmark = pytest.mark.anyio

LONG = "package main\n" + "import something of some length\n" * 10


def agent(*outputs, tool="read", failed=False):
    """A task and a round for each output."""
    turns = [user("the task")]
    for number, output in enumerate(outputs):
        turns += [assistant(call(f"c{number}", tool)), result(f"c{number}", output, is_error=failed)]
    return transcript("openai-chat", *turns)


def outputs(view):
    """What the tools said, as it is sent."""
    return [message["content"] for message in view.messages if message["role"] == "tool"]


async def collapsed(messages, **options):
    """The view after the stage."""
    return await Pipeline(CollapseRepeats(), **options).prepare(messages, format="openai-chat")


@given(histories(), budgets())
def test_the_ten_laws(both_loops, history, budget):
    """The stage keeps the laws on any transcript."""
    stage = CollapseRepeats()
    both_loops(partial(check_laws, stage, history.messages, budget, history.format, history.system, history.tools))


@given(broken_histories(), budgets())
def test_the_ten_laws_on_broken_histories(both_loops, history, budget):
    """The stage keeps the laws on transcripts that had to be repaired."""
    stage = CollapseRepeats()
    both_loops(partial(check_laws, stage, history.messages, budget, history.format, history.system, history.tools))


@pytest.mark.parametrize("count", [1, 3])
async def test_plain_messages_stay(count):
    """One message, and three plain ones, stay as they are."""
    messages = transcript("openai-chat", *[user("the same words"), assistant("the same words"), user("go on")][:count])
    view = await collapsed(messages)
    assert list(map(id, view.messages)) == list(map(id, messages))


async def test_the_last_of_four_equal_results_stays_whole():
    """Of four results that are the same the last stays whole.

    Each call keeps its result, and only what is the same to the last character counts.
    """
    view = await collapsed(agent(LONG, LONG, LONG, LONG))
    marker = "[the same output of read stands further down]"
    assert outputs(view) == [marker, marker, marker, LONG]


async def test_the_last_of_three_equal_errors_stays_whole():
    """Of three errors that are the same one stays whole, and the others are told to be errors."""
    error = "error: connection refused by the server that holds the index of the table"
    messages = transcript(
        "anthropic",
        user("the task"),
        *(
            each
            for number in range(3)
            for each in (assistant(call(f"c{number}", "fetch")), result(f"c{number}", error, is_error=True))
        ),
    )
    view = await Pipeline(CollapseRepeats()).prepare(messages, format="anthropic")
    said = [block["content"] for message in view.messages for block in message["content"] if "tool_use_id" in block]
    assert said[-1] == messages[-1]["content"][0]["content"]
    assert "the same error of fetch" in json.dumps(said[0])
    assert "the same error of fetch" in json.dumps(said[1])


async def test_results_that_only_begin_alike_stay():
    """Two results that begin alike stay as they are."""
    messages = agent(LONG + "one", LONG + "two")
    view = await collapsed(messages)
    assert list(map(id, view.messages)) == list(map(id, messages))


async def test_ids_and_pairs_stay():
    """Ids stay as they are, also of parallel calls, and the request stays legal."""
    ids = [f"c{number}" for number in range(4)]
    messages = transcript(
        "openai-chat",
        user("x"),
        assistant(*(call(each, "read") for each in ids)),
        *(result(each, LONG) for each in ids),
    )
    view = await collapsed(messages)
    assert [message["tool_call_id"] for message in view.messages if message["role"] == "tool"] == ids
    assert not [each for each in validate({"messages": view.messages}, "openai-chat") if each.severity == "error"]


async def test_equal_first_lines_are_no_repeat():
    """Five files that begin with the same lines all stay, and so do equal words of different tools."""
    files = [LONG + f"// file {number}" for number in range(5)]
    assert outputs(await collapsed(agent(*files))) == files
    turns = [
        user("x"),
        assistant(call("a", "read")),
        result("a", LONG),
        assistant(call("b", "grep")),
        result("b", LONG),
    ]
    assert outputs(await collapsed(transcript("openai-chat", *turns))) == [LONG, LONG]


async def test_of_results_in_one_message_the_repeated_one_is_replaced():
    """Of several results in one message only the repeated one is replaced."""
    messages = transcript(
        "anthropic",
        user("x"),
        *(assistant(call("a", "read"), call("b", "read")), result("a", LONG), result("b", "another")),
        *(assistant(call("c", "read")), result("c", LONG)),
    )
    view = await Pipeline(CollapseRepeats()).prepare(messages, format="anthropic")
    first, second = view.messages[2]["content"]
    assert "further down" in json.dumps(first)
    assert second == messages[2]["content"][1]


async def test_words_about_errors_are_not_merged():
    """What people and the model say about errors is not merged."""
    turns = [user("error in the build"), assistant("error in the build"), user("error in the build")]
    messages = transcript("openai-chat", *turns)
    assert (await collapsed(messages)).messages == messages


async def test_what_is_saved_is_reported_and_kept():
    """What is shorter than the line stays; the report has the tokens, and the store the originals."""
    assert outputs(await collapsed(agent("ok", "ok", "ok"))) == ["ok", "ok", "ok"]
    store, messages = MemoryStore(), agent(LONG, LONG)
    view = await collapsed(messages, store=store)
    [change] = view.report.changes
    assert change.tokens_after < change.tokens_before
    assert json.loads(await store.get(change.handle)) == messages[2]


async def test_what_the_caller_protects_is_not_touched():
    """A protected result stays whole."""
    messages = agent(LONG, LONG)
    view = await collapsed(messages, protect=[Protect.pins(2)])
    assert list(map(id, view.messages)) == list(map(id, messages))


@pytest.mark.parametrize("marker", [" ", "", 5, None])
def test_a_marker_that_says_nothing_is_refused(marker):
    """Options are checked when the stage is built."""
    with pytest.raises(ConfigError, match="CollapseRepeats: marker must be text"):
        CollapseRepeats(marker=marker)
