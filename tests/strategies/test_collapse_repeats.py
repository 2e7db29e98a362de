"""Results that say what a later one says again."""

import json
import sys
from functools import partial
from re import search, sub

import anyio
import pytest
from histories import broken_histories, budgets, histories
from hypothesis import given, strategies as st

from agentctx import CollapseRepeats, ConfigError, Pipeline, Protect, validate
from agentctx.marks import digest_of
from agentctx.recall import Recall
from agentctx.stores import MemoryStore
from agentctx.strategies.collapse_repeats import without_values
from agentctx.strategies.drop_superseded import checksum_of
from agentctx.testing import assistant, call, check_laws, result, transcript, user

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
    marker = f"[the same output of read stands further down #{checksum_of(digest_of(LONG))}]"
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


@given(histories(), budgets(), st.sampled_from((1, 0.5)))
def test_the_laws_with_similar_results(both_loops, history, budget, similar):
    """The stage keeps the laws where it takes similar results for the same."""
    stage = CollapseRepeats(similar=similar)
    both_loops(partial(check_laws, stage, history.messages, budget, history.format, history.system, history.tools))


def timed(hour, job, words="the build is still running, please wait"):
    """What a tool says at some time."""
    return f"2026-11-22T{hour}:01:07Z {words} (job {job}, request 3fa94c00d1b2e6a7)"


async def similar(messages, least=1, **options):
    """What the tools said, as it is sent, without the checksums."""
    view = await Pipeline(CollapseRepeats(similar=least), **options).prepare(messages, format="openai-chat")
    return [sub(r" #\d{6}\b", "", said) for said in outputs(view)]


async def test_results_that_differ_in_times_and_counters_are_said_once():
    """Results that differ in times, counters and ids only are said once; the line names the values that were others."""
    said = [timed(10, 1), timed(11, 2), timed(12, 2)]
    mark = "[the same output of read came again later, but for 2026-11-22T{}]"
    assert await similar(agent(*said)) == [mark.format("10:01:07Z, 1"), mark.format("11:01:07Z"), said[2]]
    assert outputs(await collapsed(agent(*said))) == said


async def test_a_copy_of_what_is_similar_points_to_what_stays():
    """Where the one copy of two goes for a similar result, the other does not point to that copy."""
    said = [timed(10, 1), timed(10, 1), timed(12, 1)]
    mark = "[the same output of read came again later, but for 2026-11-22T10:01:07Z]"
    assert await similar(agent(*said)) == [mark, mark, said[2]]


async def test_nearly_the_same_needs_so_much_of_it():
    """Results of which nearly everything is the same are said once, as far as it is asked for; others stay."""
    lines = [f"test_{name} passed without a warning" for name in ("one", "two", "three", "four", "five", "six") * 5]
    said = ["\n".join([*lines, "the last line is another"]), "\n".join(["first of all", *lines])]
    assert (await similar(agent(*said), 0.9))[0].startswith("[the same output of read came again later, 9")
    assert await similar(agent(*said), 0.99) == said
    assert await similar(agent(*said), 1) == said
    other = "\n".join(f"nothing of {line[::-1]} is here" for line in lines)
    assert await similar(agent(other, said[0]), 0.5) == [other, said[0]]


async def test_what_consists_of_values_is_not_said_once():
    """Two lists of numbers, or of files with numbers, are not the same; two logs with many times are."""
    names = [" ".join(f"part_{n * 7919 % most}" for n in range(60)) for most in (1009, 1013)]
    assert await similar(agent(*names)) == names
    assert await similar(agent(*names), 0.9) == names
    lines = [f"{n}:07 the server waits for the next request" for n in range(10, 60)]
    logs = ["\n".join(f"{hour}:{line}" for line in lines) for hour in (10, 11)]
    assert (await similar(agent(*logs)))[0].endswith(", 10:16:07, 10:17:07 and 42 more]")


async def test_similar_results_stay_until_they_are_read_and_while_they_fit():
    """Similar results that the model has not read stay, and so do all while the request fits."""
    said = [timed(10, 1), timed(11, 1)]
    turns = [user("x"), assistant(call("a", "log"), call("b", "log")), result("a", said[0]), result("b", said[1])]
    assert await similar(transcript("openai-chat", *turns)) == said
    assert await similar(agent(*said), budget=10_000) == said


async def test_similar_results_can_be_had_back():
    """Where the request has the recall tool, the line names a handle."""
    store, messages = MemoryStore(), agent(timed(10, 1, "wait " * 30), timed(11, 1, "wait " * 30))
    tools = [Recall(store).definition("openai-chat")]
    view = await Pipeline(CollapseRepeats(similar=1), store=store).prepare(messages, tools=tools)
    assert search(r"Z #\d{6}; recall ", outputs(view)[0])


def test_other_texts_have_other_pieces():
    """Texts that say something else beside times, counters and ids are told apart, whatever they are made of."""
    assert without_values("5 #") != without_values("# 5")
    assert without_values("defaced 7 times") == (("defaced ", " times"), ["7"])
    assert without_values("v1.2.3 3FA94C00 0x1f")[1] == ["1.2.3", "3FA94C00", "0", "1"]


def test_few_results_are_compared(work):
    """The number of comparisons grows with the number of results, not with its square."""
    lines = [f"line {name} of all outputs" for name in ("one", "two", "three", "four", "five")]
    taken = {}
    for count in (1, 200, 800):  # the first loads what is loaded once
        messages = agent(*("\n".join([*lines, f"{'abcdefghij'[n % 10] * (n + 40)}"]) for n in range(count)))
        taken[count] = work(partial(anyio.run, similar, messages, 0.99))
    assert taken[800] < 6 * taken[200]


@pytest.mark.parametrize("wanted", [0.4, 1.1, True, "1"])
def test_a_likeness_that_makes_no_sense_is_refused(wanted):
    """Options are checked when the stage is built."""
    with pytest.raises(ConfigError, match=r"^CollapseRepeats\.similar must be a number from 0\.5 to 1, or None, got "):
        CollapseRepeats(similar=wanted)


def test_what_is_nearly_the_same_needs_rapidfuzz(monkeypatch):
    """Without rapidfuzz, the option that needs it is refused by name, and the rest works."""
    monkeypatch.setitem(sys.modules, "rapidfuzz.distance", None)
    monkeypatch.setitem(sys.modules, "rapidfuzz", None)
    CollapseRepeats(similar=1)
    with pytest.raises(ConfigError, match=r"CollapseRepeats: similar below 1 .*rapidfuzz"):
        CollapseRepeats(similar=0.9)


@pytest.mark.parametrize("marker", [" ", "", 5, None])
def test_a_marker_that_says_nothing_is_refused(marker):
    """Options are checked when the stage is built."""
    with pytest.raises(ConfigError, match=r"^CollapseRepeats\.marker must be a text that is not blank, got "):
        CollapseRepeats(marker=marker)
