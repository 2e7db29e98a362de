"""Packing: relevance by words and by meaning, compression, questions and answers, sessions."""

from collections import Counter

import anyio
import pytest
from hypothesis import given, strategies as st
from packed import agent, answered, packed

from agentctx import Budget, Call, ConfigError, Context, Message, Pack, Pipeline, Text, count
from agentctx.strategies import Bm25, Embedded, Weights
from agentctx.strategies.pack import STRATEGIES, choose, recency_score
from agentctx.testing import CountingCounter, assistant, call, result, transcript, user
from agentctx.tokens import FixedCounter, HeuristicCounter
from agentctx.tokens.counting import MessageMeter

pytestmark = pytest.mark.anyio


async def test_bm25_reads_code():
    """Identifiers are found by their parts, and words of scripts without spaces by their characters."""
    scores = await Bm25()(
        "read the configuration file", ["read_file(path)", "ReadConfiguration()", "Überblick", "x = 1"]
    )
    assert scores[0] > 0
    assert scores[1] > 0
    assert scores[2] == scores[3] == 0
    japanese = await Bm25()("データベース", ["データベースの設定", "天気予報"])
    assert japanese[0] > 0 == japanese[1]


async def test_bm25_of_nothing():
    """Empty tasks, texts and lists are relevant to nothing, and no error."""
    assert list(await Bm25()("", ["a", "b"])) == [0, 0]
    assert list(await Bm25()("a", ["", "?"])) == [0, 0]
    assert list(await Bm25()("a", [])) == []


async def embed(texts):
    """Two numbers for each text: how often it speaks of cats, and of dogs."""
    return [(text.count("cat"), text.count("dog")) for text in texts]


async def test_relevance_by_embeddings():
    """With an embedding model, relevance is by meaning; what the model has not read stays beside it."""
    outputs = {2: "a cat", 5: "a dog and a dog", 6: "dog dog cat"}
    view = await packed(Pack("relevance", task="dogs", relevance=Embedded(embed), keep_last=0), agent(9, outputs), 90)
    assert answered(view) == ["c5", "c6", "c8"]


async def infinite(_task, texts):
    """No number."""
    return [float("nan")] * len(texts)


@pytest.mark.parametrize(
    "relevance",
    [
        Embedded(lambda texts: embed(texts[1:])),
        lambda _task, texts: embed(texts[:0]),
        infinite,
    ],
)
async def test_relevance_that_is_wrong_is_named(relevance):
    """Too few vectors, too few numbers and numbers that are none are errors."""
    with pytest.raises(ConfigError, match=r"vectors|numbers|finite"):
        await packed(Pack("relevance", task="x", relevance=relevance), agent(9), 70)


async def test_relevance_reads_calls_and_results():
    """What is called, with what, and what came of it are the words of a round."""
    read = []

    async def relevance(_task, texts):
        read.extend(texts)
        return [0.0] * len(texts)

    await packed(Pack("relevance", task="x", relevance=relevance, keep_last=0), agent(9), 70)
    assert read[0].split("\n") == ['read {"n": 0}', "found 0"]


async def test_the_report_says_why():
    """What was left out, and what was cut short, each have their reason."""
    messages = agent(20, {number: f"line {number} of a long output\n" * 40 for number in range(20)})
    view = await Pipeline(Pack("compression"), budget=Budget(2_500)).prepare(messages)
    assert {(each.outcome, each.reason) for each in view.report.changes} == {
        ("dropped", "worth less than what stays in 2,500 tokens (compression)"),
        ("edited", "old tool result cut short, so that more units fit"),
    }


def test_of_two_units_the_older_is_old():
    """Recency falls from 1 for the last unit to a twentieth for the first, however many there are."""
    assert [recency_score(0, 1), recency_score(1, 2), recency_score(8, 9)] == [1, 1, 1]
    assert recency_score(0, 2) == recency_score(0, 9) == pytest.approx(0.05, abs=0.001)


async def test_compression_keeps_more():
    """Compression cuts old results short, so that more rounds stay than without; the newest stay whole."""
    messages = agent(40, {number: f"line {number} of a long output\n" * 100 for number in range(40)})
    plain, short = [await Pipeline(Pack(each), budget=12_000).prepare(messages) for each in ("recent", "compression")]
    assert len(answered(short)) > 2 * len(answered(plain))
    assert short.report.tokens_after <= 12_000
    assert short.messages[-2] is messages[-2]
    assert any("characters omitted" in str(message["content"]) for message in short.messages)


async def test_compression_restores_what_fits():
    """What need not be cut is not: room that is left goes back to the newest of the shortened."""
    messages = agent(40, {number: f"line {number} of a long output\n" * 100 for number in range(40)})
    view = await Pipeline(Pack("compression"), budget=Budget(12_000)).prepare(messages)
    assert 12_000 - view.report.tokens_after < 700


async def test_what_is_not_cut_after_all_leaves_room_for_the_note():
    """Results that are a little too long get back what the note leaves, and no later stage has to cut again."""
    messages = agent(40, {number: "word " * (215 + number) for number in range(40)})
    view = await Pipeline(Pack("compression", note=True), budget=Budget(4_000)).prepare(messages)
    assert [each.stage for each in view.report.stages] == ["Pack"]
    assert sum(each.reason == "says what was left out" for each in view.report.changes) == 1
    assert 3_950 < view.report.tokens_after <= 4_000


async def test_where_nothing_may_go_nothing_is_said():
    """What must stay is larger than the room: the context comes back as it is."""
    told = Call(MessageMeter(HeuristicCounter()))
    context = Context((Message("user", (Text("the task"),)),))
    assert await Pack("recent", max_tokens=1)(context, told) is context
    assert not told.internals.notes.remarks


async def test_a_note_is_not_bought_with_a_unit():
    """Where the note would cost a whole unit there is none; where it costs a few tokens there is."""
    messages = agent(9, dict.fromkeys(range(9), "word " * 400))
    for tokens, notes in ((1_305, 0), (1_400, 1)):
        view = await Pipeline(Pack("recent", note=True), budget=Budget(tokens)).prepare(messages)
        assert len(answered(view)) == 3
        assert sum(str(message["content"]).startswith("[Earlier: ") for message in view.messages) == notes
        assert sum(each.reason == "says what was left out" for each in view.report.changes) == notes


async def test_questions_go_before_their_answers():
    """Where only one of the two fits, the question stays and not the answer."""
    chat = [each for number in range(9) for each in (user(f"q{number}"), assistant(f"a{number}"))]
    messages = transcript("openai-chat", *chat, user("last"))
    view = await packed(Pack("recent", keep_last=0), messages, 50)
    assert [message["content"] for message in view.messages] == ["q0", "q7", "q8", "a8", "last"]


@given(
    st.lists(st.tuples(st.integers(0, 3), *[st.sampled_from((1, 5, 60))] * 3), min_size=2, max_size=12),
    st.sampled_from(sorted(STRATEGIES)),
    st.integers(0, 6),
)
def test_no_answer_stays_without_its_question_and_the_calls_before_it(both_loops, shapes, strategy, keep):
    """Whatever went: of what may go, calls have their question, and answers have it and the calls that led to them."""
    chat = []
    for at, (calls, long, longer, longest) in enumerate(shapes):
        chat.append(user(f"q{at} " + "why " * long))
        for number in range(calls):
            chat += [assistant(call(f"c{at}-{number}", "read")), result(f"c{at}-{number}", f"r{at} " + "x " * longest)]
        chat.append(assistant(f"a{at} " + "so " * longer))
    messages = transcript("openai-chat", *chat, user("last"))

    async def main():
        budget = max(250, count(messages, format="openai-chat") // 2)
        view = await Pipeline(Pack(strategy, keep_last=keep), budget=budget).prepare(messages, format="openai-chat")
        there = {each["content"].split()[0] for each in view.messages if each["content"]}
        called = {each["tool_call_id"] for each in view.messages if each["role"] == "tool"}
        for at, (calls, *_) in enumerate(shapes):
            rests = f"a{at}" in there or any(name.startswith(f"c{at}-") for name in called)
            assert f"q{at}" in there or not rests
            assert not calls or f"c{at}-{calls - 1}" in called or f"a{at}" not in there

    both_loops(main)


async def test_a_session_packs_down_to_its_target_and_keeps_the_bytes():
    """Past the trigger a session goes down to the target; until the next time the prefix stays as it is."""
    session = Pipeline(Pack(), budget=Budget(400, trigger=300, target=150), counter=FixedCounter(10)).session()
    messages = agent(20)
    first = await session.prepare(messages)
    assert 130 < first.report.tokens_after <= 150
    later = await session.prepare([*messages, *agent(2)[2:]])
    assert later.messages[: len(first.messages)] == first.messages


@pytest.mark.parametrize(
    "make",
    [
        lambda: Pack("newest"),
        lambda: Pack(keep_last=-1),
        lambda: Pack(keep_last=1.5),
        lambda: Pack(max_tokens=0),
        lambda: Pack(max_tokens="5"),
        lambda: Pack(["recent"]),
        lambda: Pack(task=5),
        lambda: Pack(relevance=5),
        lambda: Pack(relevance=Bm25),
        lambda: Embedded(5),
        lambda: Weights(recency="1"),
        lambda: Weights(recency=0),
        lambda: Weights(recency=-1),
    ],
)
def test_what_makes_no_sense_is_refused(make):
    """Options are checked when the stage is built."""
    with pytest.raises(ConfigError):
        make()


async def test_needs_a_budget():
    """Without any limit the stage says which one to pass."""
    with pytest.raises(ConfigError, match=r"pass Pack\(max_tokens"):
        await Pipeline(Pack()).prepare(agent(2))


def test_greed_alone_is_not_enough():
    """Two that fill the room are better than the one with the most for its size."""
    assert choose([60, 50, 50], [10, 9, 9], 18) == (1, 2)


async def test_each_text_is_counted_once():
    """Packing again and again in a session counts no text twice."""
    counter = CountingCounter()
    budget = Budget(4_000, trigger=3_000, target=1_500)
    session = Pipeline(Pack(), budget=budget, counter=counter).session(format="openai-chat")
    messages, cuts = transcript("openai-chat", user("the task at hand")), 0
    for number in range(60):
        asks = assistant(f"this is what I do in step {number}", call(f"c{number}", "read", {"n": number}))
        messages += transcript(
            "openai-chat", asks, result(f"c{number}", f"these are the words of file {number}\n" * 20)
        )
        cuts += (await session.prepare(messages)).report.first_changed is not None
    assert 2 <= cuts <= 20
    assert [text for text, times in Counter(counter.texts).items() if times > 1 and len(text) > 30] == []


def packed_of(rounds):
    """Pack so many rounds, all of them counted before."""
    outputs = {number: f"words of output {number} " * (1 + number * 7_919 % 30) for number in range(rounds)}
    context = anyio.run(Pipeline(counter=HeuristicCounter()).prepare, agent(rounds, outputs)).context
    told = Call(MessageMeter(HeuristicCounter()))
    stage = Pack(task="output 77", max_tokens=told.size(context) // 2)
    return lambda: anyio.run(stage, context, told)


def test_work_grows_with_the_number_of_units(work):
    """Ten times the units are about ten times the work."""
    packed_of(10)()
    assert work(packed_of(3_000)) < 16 * work(packed_of(300))
