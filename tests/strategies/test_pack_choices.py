"""What packing keeps, by which score, and what it says of the rest."""

import json
import os
import subprocess
import sys

import pytest
from packed import agent, answered, asked, packed

from agentctx import Budget, ContextOverflow, Message, Pack, Pipeline, Protect, Text, ToolCall, ToolResult, validate
from agentctx.strategies import Bm25, Weights
from agentctx.strategies.pack import (
    STRATEGIES,
    choose,
    dropped_line,
    is_note,
    length_score,
    recency_score,
    role_score,
    tool_score,
)
from agentctx.testing import assistant, call, result, system, transcript, user
from agentctx.tokens import HeuristicCounter

pytestmark = pytest.mark.anyio

NAMES = sorted(STRATEGIES)


async def test_the_last_four_messages_stay():
    """The last four messages stay, and with them what they cannot do without."""
    chat = [each for number in range(10) for each in (user(f"q{number}"), assistant(f"a{number}"))]
    view = await packed(Pack("relevance", task="nothing of it"), transcript("openai-chat", *chat), 60)
    assert [message["content"] for message in view.messages][-4:] == ["q8", "a8", "q9", "a9"]


@pytest.mark.parametrize("strategy", NAMES)
async def test_a_kept_result_has_its_call(strategy):
    """A result that stays has its call, and a call its result."""
    for tokens in range(50, 240, 10):
        view = await packed(Pack(strategy), agent(10), tokens)
        assert asked(view) == answered(view)


async def test_what_is_dropped_makes_it_fit():
    """What is sent has at most the 350 tokens asked for, and something was dropped."""
    view = await packed(Pack(), agent(30), 350)
    assert view.report.tokens_after <= 350
    assert len(view.messages) < 63


async def test_the_newer_of_two_alike_stays():
    """The newer of two alike stays."""
    view = await packed(Pack("recent", keep_last=0), agent(8), 70)
    assert answered(view) == ["c6", "c7"]


async def test_what_has_to_do_with_the_task_stays():
    """What has to do with the task stays, however old, beside what the model has not read yet."""
    view = await packed(
        Pack("relevance", task="database timeout", keep_last=0), agent(9, {1: "timeout of a database"}), 70
    )
    assert answered(view) == ["c1", "c8"]


def test_what_is_worth_most_is_chosen():
    """Of items worth 50, 30 and 100 for 100, 150 and 80 tokens, the first and the last fit into 200."""
    assert choose([50, 30, 100], [100, 150, 80], 200) == (0, 2)


async def test_what_was_dropped_is_told_in_one_line():
    """What was dropped is told in one line, with numbers of messages, calls and user messages."""
    chat = [user("first question"), assistant(call("c1", "read")), result("c1", "x"), user("second"), assistant("fine")]
    messages = (await Pipeline().prepare(transcript("openai-chat", *chat))).context.messages
    assert dropped_line(messages) == (
        "Earlier: 5 messages dropped; 1 tool call; 2 user messages; 2 assistant messages; "
        "topics: first question, second"
    )


async def test_a_pinned_message_stays():
    """A pinned message stays, however bad its score."""
    view = await packed(Pack("recent"), agent(9), 90, protect=[Protect.pins(2)])
    assert answered(view)[0] == "c0"


@pytest.mark.parametrize("strategy", NAMES)
async def test_the_task_and_the_last_four_stay(strategy):
    """The first task and the last four messages stay under every strategy."""
    messages = agent(12)
    view = await packed(Pack(strategy), messages, 100)
    assert view.messages[1] is messages[1]
    assert answered(view)[-1] == "c11"
    assert view.messages[-1] is messages[-1]


async def test_half_of_the_budget_is_told_as_half():
    """What is sent is half of the budget when it is half as large; nothing is dropped then."""
    view = await packed(Pack(), agent(3), 180)
    assert view.report.tokens_after / view.report.limit == 0.5
    assert not view.report.acted


@pytest.mark.parametrize("strategy", NAMES)
async def test_every_strategy_keeps_something(strategy):
    """Every strategy keeps something."""
    assert answered(await packed(Pack(strategy), agent(20), 200))


def test_nothing_to_pack():
    """Nothing of nothing is nothing."""
    assert choose([], [], 1_000) == ()
    assert dropped_line([]) == ""


def test_recency_rises_to_one():
    """Recency rises, to 1 for the last from at most a tenth for the first."""
    scores = [recency_score(place, 20) for place in range(20)]
    assert scores == sorted(set(scores))
    assert scores[-1] >= 0.9
    assert scores[0] <= 0.1
    assert recency_score(0, 1) == 1.0


async def test_more_words_of_the_task_are_worth_more():
    """All words of the task beat some of them, and some beat none."""
    high, partial, none = await Bm25()(
        "fix the login handler", ["login handler fix", "a handler of it", "weather report"]
    )
    assert high > partial > none == 0


async def test_the_report_says_what_stayed_and_what_went():
    """The report says how much stays of how much, how full it is, by which strategy, what had to stay, what went."""
    view = await packed(Pack("recent"), agent(20), 200)
    [stage] = [stage for stage in view.report.stages if stage.stage == "Pack"]
    kept, dropped = stage.notes
    assert kept == "kept 11 of 23 units (4 had to stay, 1 recent); 190 of 200 tokens, 95.0%; recent"
    assert dropped.startswith("Earlier: 24 messages dropped; 12 tool calls")


def test_hybrid_is_the_default():
    """Hybrid is the default; the answer's reserve is the budget's and not a constant of 4,096."""
    assert Pack().strategy == "hybrid"
    assert Pack().weights == Weights(recency=0.4, relevance=0.3, role=0.1, tool=0.1, length=0.1)
    assert Budget(10_000, 4_096).limit == 5_904


async def test_what_must_stay_and_does_not_fit():
    """What must stay and does not fit is an error before anything is sent."""
    with pytest.raises(ContextOverflow):
        await packed(Pack(), agent(5), 25)


async def test_the_last_four_give_way_to_the_budget():
    """The last four messages stay as far as they fit: over the budget is never."""
    view = await packed(Pack("recent"), agent(5), 40)
    assert view.report.tokens_after <= 40
    assert answered(view) == []


@pytest.mark.parametrize(
    ("text", "is_error", "score"),
    [("build failed", False, 1.0), ("fine", True, 1.0), ("Traceback (most recent)", False, 1.0), ("fine", False, 0.4)],
)
def test_results_that_speak_of_errors_score_higher(text, is_error, score):
    """Results that are or speak of errors score higher than others, and what is no result lies between."""
    assert tool_score([Message("tool", (ToolResult("c", (Text(text),), is_error=is_error),))]) == score
    assert tool_score([Message("user", (Text(text),))]) == 0.5


def test_the_user_scores_highest():
    """The user scores higher than a round with tools, that higher than plain words, those higher than the rest."""
    said = [Message(role, (Text("x"),)) for role in ("user", "assistant", "system")]
    asks = Message("assistant", (ToolCall("c", "read", "{}"),))
    user_says, model_says, other = ([role_score([message])] for message in said)
    assert [*user_says, role_score([asks]), *model_says, *other] == [0.7, 0.6, 0.5, 0.4]


def test_the_score_falls_with_the_length():
    """The score falls in steps with the length."""
    steps = [length_score(characters) for characters in (0, 100, 101, 500, 501, 2_000, 2_001, 10**6)]
    assert steps == [1.0, 1.0, 0.8, 0.8, 0.6, 0.6, 0.4, 0.4]


@pytest.mark.parametrize("strategy", NAMES)
@pytest.mark.parametrize("parallel", [2, 3, 5])
async def test_parallel_calls_stay_with_all_their_results(strategy, parallel):
    """Calls side by side stay or go with all their results, wherever the last four begin."""
    turns = [user("the task")]
    for number in range(6):
        ids = [f"c{number}_{place}" for place in range(parallel)]
        turns += [assistant(*(call(each, "read") for each in ids)), *(result(each, "x") for each in ids)]
    messages = transcript("openai-chat", *turns, user("so?"), assistant("hm"), user("go on"))
    for tokens in range(40, 300, 10):
        view = await packed(Pack(strategy), messages, tokens)
        assert asked(view) == answered(view)
        assert not [each for each in validate({"messages": view.messages}, "openai-chat") if each.severity == "error"]


async def test_a_large_recent_result_holds_the_budget():
    """A large recent result never takes the request over its budget, and the share told is the true one."""
    view = await Pipeline(Pack(), budget=Budget(1_000)).prepare(agent(4, {3: "word " * 17_000}))
    assert view.report.tokens_after <= 1_000


async def test_strategies_select_differently():
    """Small old messages do not push out large new ones: the four strategies select differently."""
    outputs = dict.fromkeys(range(12), "tiny") | dict.fromkeys(range(12, 24), "long text " * 120)
    outputs |= {3: "the timeout of the database", 5: "a database " + "noise " * 200, 20: "error: it failed"}
    kept = {}
    for strategy in NAMES:
        stage = Pack(strategy, task="database timeout", keep_last=0)
        view = await packed(stage, agent(24, outputs), 1_500, counter=HeuristicCounter())
        kept[strategy] = tuple(answered(view))
    assert len(set(kept.values())) == 4
    assert "c23" in kept["recent"]
    assert "c3" in kept["relevance"]
    assert "c3" not in kept["recent"]


@pytest.mark.parametrize("strategy", NAMES)
async def test_system_messages_stay(strategy):
    """System messages stay, also one in the middle."""
    messages = [*agent(6, last=""), *transcript("openai-chat", system("never delete")), *agent(6)[1:]]
    view = await packed(Pack(strategy), messages, 120)
    assert ["be brief", "never delete"] == [each["content"] for each in view.messages if each["role"] == "system"]


async def test_kept_and_dropped_are_told_by_their_places():
    """Kept and dropped are told by their places in what was passed in, and make up all of it."""
    messages = agent(10)
    view = await packed(Pack("recent"), messages, 120)
    gone = {change.index for change in view.report.changes}
    kept = [message for index, message in enumerate(messages) if index not in gone]
    assert list(map(id, kept)) == list(map(id, view.messages))


async def test_of_equals_the_newer_stays():
    """Without a word of the task in it the newer stays: no tie is left to chance."""
    view = await packed(Pack("relevance", task="zebra", keep_last=0), agent(9), 80)
    assert answered(view) == ["c7", "c8"]


SCRIPT = """
import json, sys, anyio
from agentctx import Budget, Pipeline
from agentctx.strategies.pack import Pack
messages = json.load(sys.stdin)
views = [anyio.run(Pipeline(Pack(note=True), budget=Budget(600)).prepare, messages).messages for _ in range(100)]
assert all(view == views[0] for view in views)
print(json.dumps(views[0]))
"""


def test_the_same_bytes_from_200_runs():
    """Two hundred runs, in two processes with other hash seeds, give the same bytes."""
    messages = json.dumps(agent(60, {number: f"file {number % 7} has task {number}" * 3 for number in range(60)}))
    printed = [
        subprocess.run(
            [sys.executable, "-c", SCRIPT],
            input=messages,
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert printed[0] == printed[1] != ""


async def test_a_note_stands_behind_the_task():
    """What was dropped is in the report, and with ``note`` in a message that is counted and legal."""
    messages = agent(30, {number: f"output of step {number}" for number in range(30)})
    view = await Pipeline(Pack(note=True), budget=Budget(500)).prepare(messages)
    [note] = [message for message in view.context.messages if is_note(message)]
    assert view.messages[1] is messages[1]
    assert view.context.messages[2] is note
    assert view.report.tokens_after <= 500
    assert not [each for each in validate({"messages": view.messages}, "openai-chat") if each.severity == "error"]


async def test_a_note_without_room_is_left_out():
    """A note for which there is no room is left out, and nothing else for its sake."""
    with_note, without = [await packed(Pack("recent", note=note), agent(9), 30) for note in (True, False)]
    assert with_note.messages == without.messages


def test_a_topic_is_cut_between_characters():
    """A topic is cut between characters that a reader sees."""
    family = "👨‍👩‍👧‍👦"
    line = dropped_line([Message("user", (Text(family * 20),))])
    topic = line.split("topics: ")[1]
    assert topic.rstrip("…").replace(family, "") == ""


@pytest.mark.parametrize("tokens", [100, 200, 1_000, 2_000])
async def test_a_budget_is_used_up(tokens):
    """A budget is what it says, and is used."""
    view = await packed(Pack("recent"), agent(200), tokens)
    assert tokens - 20 < view.report.tokens_after <= tokens


async def test_words_are_whole_and_rare_ones_count_more():
    """The word "art" is not in "start", "art." is "art", and a word that all texts have counts for little."""
    start, art, common, both, _ = await Bm25()("art the", ["start smart", "see art.", "the start", "the art", "the x"])
    assert start == 0
    assert both > art > common > 0
