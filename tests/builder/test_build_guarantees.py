"""What every build guarantees: whole pairs, the user's newest words, caps, marks, linear work, a true report."""

import json
import os
import subprocess
import sys
from pathlib import Path

import anyio
import pytest
from blocks import block, builder, built, chat, said, tool_round

from agentctx import Budget, ContextOverflow, StageError, validate
from agentctx.builder import Block, ContextBuilder, MergeSystem, Tier
from agentctx.strategies import Drop, DropTail, Summarize, TruncateOldest
from agentctx.testing import assistant, call, history, result, user
from agentctx.tokens import FixedCounter

pytestmark = pytest.mark.anyio

TALK = [*chat("u1"), *tool_round("look", "a", "b"), *chat("a2", "u3")]


async def shorter(messages, max_tokens):
    """A summarizer."""
    del messages, max_tokens
    return "in short"


EVICTIONS = {
    "oldest": TruncateOldest(),
    "pairs": TruncateOldest(keep_pairs=True),
    "tools protected": TruncateOldest(protect_roles=["tool"]),
    "assistants protected": TruncateOldest(protect_roles=["assistant"], keep_pairs=True),
    "users protected": TruncateOldest(protect_roles=["user"]),
    "at least three": TruncateOldest(min_messages=3),
    "tail": DropTail(),
    "drop": Drop(),
    "summary": Summarize(shorter),
}


TOO_FEW = {
    "at least three": {Tier.CORE: 40},
    "drop": {Tier.CORE: 50},
    "tools protected": {Tier.CORE: 20, Tier.HISTORY: 30, "anthropic": 0},
    "assistants protected": {Tier.CORE: 40, Tier.HISTORY: 50, "anthropic": 40},
    "users protected": {Tier.CORE: 10, Tier.HISTORY: 10, "anthropic": 30},
    "tail": {Tier.CORE: 0, Tier.HISTORY: 10, "anthropic": 10},
}
"""Up to so many tokens a build fails: there is no room for what its eviction may not take, in a tier or a format."""


def too_few(name, where):
    """Up to how many tokens a build with this eviction fails."""
    return TOO_FEW.get(name, {}).get(where, 0)


@pytest.mark.parametrize("name", EVICTIONS)
@pytest.mark.parametrize("tokens", [60, 50, 40, 30, 20, 10])
@pytest.mark.parametrize("tier", [Tier.CORE, Tier.HISTORY])
async def test_no_orphans(name, tokens, tier):
    """No eviction, limit or protected role leaves a call without its result, or a result without its call."""
    made = builder(tokens, block("h", TALK, EVICTIONS[name], tier=tier))
    if tokens <= too_few(name, tier):
        with pytest.raises(ContextOverflow):
            await made.build()
    else:
        found = validate({"messages": (await made.build()).messages}, "openai-chat")
        assert [each for each in found if "tool" in each.rule] == []


@pytest.mark.parametrize("name", EVICTIONS)
@pytest.mark.parametrize("tokens", range(10, 61, 10))
async def test_results_in_user_messages_go_with_their_calls(name, tokens):
    """Results that stand in a user's message, as Anthropic has them, go with their calls."""
    written = history("anthropic", user("task"), assistant("look", call("a", "x"), call("b", "x")), result("a", "1"),
                      result("b", "2"), assistant("done"), user("more"))  # fmt: skip
    made = ContextBuilder(Budget(tokens), counter=FixedCounter(10), format="anthropic")
    made.add(block("h", written.messages, EVICTIONS[name], tier=Tier.HISTORY))
    if tokens <= too_few(name, "anthropic"):
        with pytest.raises(ContextOverflow):
            await made.build()
    else:
        found = validate({"messages": (await made.build()).messages}, "anthropic")
        assert [each for each in found if "tool" in each.rule] == []


async def test_a_user_between_results():
    """A user's message between two results of one call is put behind them, and the report says so."""
    first, second = tool_round("look", "a", "b")[1:]
    messages = [*chat("u1"), tool_round("look", "a", "b")[0], first, *chat("u2"), second]
    out = await built(100, block("h", messages, TruncateOldest(), tier=Tier.HISTORY))
    assert [message["role"] for message in out.messages] == ["user", "assistant", "tool", "tool", "user"]
    assert any("block 'h' was repaired" in note for note in out.report.notes)


async def test_a_result_that_answers_no_call():
    """A result that answers no call is not sent, and the report says so."""
    messages = [*chat("u1"), tool_round("look", "a")[0], {**tool_round("look", "b")[1]}]
    out = await built(100, block("h", messages, tier=Tier.HISTORY))
    assert [message.get("tool_call_id") for message in out.messages] == [None, None, "a"]
    assert any("'b'" in note for note in out.report.notes)


async def test_a_protected_answer_stays_with_its_question():
    """A protected assistant is not dropped with the question that it answered."""
    evict = TruncateOldest(keep_pairs=True, protect_roles=["assistant"])
    out = await built(30, block("h", chat("u1", "a1", "u2", "u3"), evict))
    assert said(out.messages) == ["u1", "a1", "u3"]


async def test_the_cap_holds():
    """A block whose protected messages are above its cap fails, though there is room in the budget."""
    evict = TruncateOldest(protect_roles=["user"])
    made = builder(1_000, block("h", chat(*(f"u{n}" for n in range(50))), evict, max_tokens=200))
    with pytest.raises(ContextOverflow, match="needs 500 tokens and 200 are available"):
        await made.build()


@pytest.mark.parametrize("name", EVICTIONS)
@pytest.mark.parametrize("tokens", [5, 10, 20, 30, 40, 60])
async def test_the_newest_words_are_never_lost_in_silence(name, tokens):
    """The user's newest message is in the request, or the build fails and names the block."""
    made = builder(tokens, block("h", TALK, EVICTIONS[name], tier=Tier.HISTORY))
    if tokens <= max(5, too_few(name, Tier.HISTORY)):
        with pytest.raises(ContextOverflow, match="block 'h'"):
            await made.build()
    else:
        assert "u3" in said((await made.build()).messages)


async def test_room_is_reserved_for_them():
    """Stronger blocks give way to the user's newest message."""
    docs = block("docs", chat(*(f"s{n}" for n in range(10))), TruncateOldest(), tier=Tier.RAG)
    out = await built(50, docs, block("h", chat("u1", "a1", "u2"), TruncateOldest(), tier=Tier.HISTORY))
    assert said(out.messages)[-1] == "u2"
    assert out.report.used_tokens == 50


async def test_work_in_progress_is_not_the_users_word():
    """A scratchpad behind the conversation does not push out what the user said, nor is it kept when it may go."""
    talk = block("h", chat("u1", "a1", "u2"), TruncateOldest(), tier=Tier.HISTORY)
    for evict, left in ((Drop(), ["a1", "u2"]), (TruncateOldest(), ["u2", "u-w2"])):
        work = block("work", chat("u-w1", "u-w2"), evict, tier=Tier.SCRATCHPAD)
        assert said((await built(20, talk, work)).messages) == left
    with pytest.raises(ContextOverflow, match="block 'h'"):
        await built(5, talk, block("work", chat("u-w1", "u-w2"), Drop(), tier=Tier.SCRATCHPAD))


async def test_a_scratchpad_alone():
    """What the user says in a scratchpad is the newest word where there is no other, and behind it in a later tier."""
    work = block("work", chat("u-w1", "a1", "u-w2"), Drop(), tier=Tier.SCRATCHPAD)
    assert said((await built(10, work)).messages) == ["u-w2"]
    last = block("last", chat("u9"), Drop(), tier=7)
    assert said((await built(10, work, last)).messages) == ["u9"]


async def test_a_minimum_does_not_lose_them():
    """Where too few messages would be left, the user's newest one still is."""
    out = await built(20, block("h", chat("u1", "a1", "u2"), TruncateOldest(min_messages=3), tier=Tier.HISTORY))
    assert said(out.messages) == ["u2"]
    assert out.report.blocks[0].notes == ("fewer than 3 messages would be left",)


async def test_the_request_is_counted_as_a_whole():
    """With what every request costs beside its messages, the whole request still fits, counted again."""
    history_block = Block("h", chat(*(f"u{n}" for n in range(50))), Tier.HISTORY, TruncateOldest())
    for tokens in (9, 17, 60, 61, 62, 63, 64):
        out = await ContextBuilder(Budget(tokens), format="openai-chat").add(history_block).build()
        assert out.report.tokens <= tokens
        assert out.report.tokens == out.report.used_tokens + out.report.fixed_tokens
        assert out.report.remaining_tokens < max(block.tokens_before // 50 + 1 for block in out.report.blocks)


@pytest.mark.parametrize(
    "evict", [TruncateOldest(), TruncateOldest(protect_roles=["assistant"]), DropTail(), Drop()], ids=str
)
def test_work_grows_with_the_messages(evict, work):
    """Four times the messages are about four times the work, not sixteen."""

    def built(count):
        messages = chat(*(f"{'ua'[n % 2]}{n}" for n in range(count)))
        made = ContextBuilder(Budget(count * 8), counter=FixedCounter(10), format="openai-chat")
        made.add(block("h", messages, evict, tier=Tier.HISTORY))
        return lambda: anyio.run(made.build)

    built(100)()
    assert work(built(2_000)) < 6 * work(built(500))


async def taking(messages):
    """A fact of each message."""
    return [message.text for message in messages]


@pytest.mark.parametrize("tiers", [5, 400], ids=["five tiers", "as many tiers"])
@pytest.mark.parametrize("kinds", [(Drop(),), (Drop(), TruncateOldest(), DropTail())], ids=["whole", "mixed"])
def test_work_grows_with_the_blocks(work, tiers, kinds):
    """Ten times the blocks are about ten times the work, also where each block has a tier of its own."""

    def built(count):
        each = [block(f"b{n}", chat(f"s{n}", f"d{n}"), kinds[n % len(kinds)], tier=n % tiers) for n in range(count)]
        made = ContextBuilder(Budget(count * 15), counter=FixedCounter(10), format="openai-chat").add(*each)
        return lambda: anyio.run(made.build)

    built(10)()
    assert work(built(2_000)) < 14 * work(built(200))


def test_work_grows_with_the_messages_whatever_is_asked_for(work):
    """Ten times the messages are about ten times the work, with facts, a formatter and a summary as well."""

    def built(count):
        messages = chat(*(f"{'ua'[n % 2]}{n}" for n in range(count)))
        made = ContextBuilder(
            Budget(count * 8), counter=FixedCounter(10), format="openai-chat", facts=taking, formatter=MergeSystem()
        )
        made.add(block("d", messages, DropTail(), tier=Tier.RAG), block("s", messages, Summarize(shorter)))
        made.add(block("h", messages, TruncateOldest(), tier=Tier.HISTORY))
        return lambda: anyio.run(made.build)

    built(10)()
    assert work(built(2_000)) < 14 * work(built(200))


async def test_a_built_request_shares_nothing_with_the_next():
    """What is done to a request that was built does not change the next one."""
    made = builder(100, block("h", TALK, tier=Tier.HISTORY))
    first = await made.build()
    before = json.dumps(first.messages)
    for message in first.messages:
        message["content"] = "changed"
        for each in message.get("tool_calls", ()):
            each["function"]["name"] = "changed"
    assert json.dumps((await made.build()).messages) == before


async def test_the_newest_turn_is_not_summarized():
    """The turn that the user's newest message begins stays word for word beside the summary of the rest."""
    messages = [*chat("u1", "a1", "u2", "a2", "u3"), *tool_round("look", "c")]
    out = await built(60, block("h", messages, Summarize(shorter), tier=Tier.HISTORY))
    assert said(out.messages) == ["[Summary of 4 earlier messages]\nin short", "u3", "look", "saw c"]
    assert out.report.evictions == {"h": "summarized"}


async def test_a_failing_summarizer_fails_nothing():
    """A summarizer that fails costs the summary, and the report says why."""

    async def failing(messages, max_tokens):
        del messages, max_tokens
        what = "rate limited"
        raise ConnectionError(what)

    out = await built(
        25, block("h", chat("u1", "a1", "u2"), Summarize(failing, fallback=TruncateOldest()), tier=Tier.HISTORY)
    )
    assert said(out.messages) == ["a1", "u2"]
    assert out.report.blocks[0].notes == ("the summarizer raised ConnectionError: rate limited",)


async def test_the_mark_reaches_the_request():
    """A block's cache mark is written where the format has one, and the report says where the prefix ends."""
    blocks = (
        Block("sys", [{"role": "system", "content": "rules"}], Tier.SYSTEM, cache="1h"),
        Block("docs", chat("u1", "u2"), Tier.RAG, cache=True),
        Block("h", chat("a1", "u3"), Tier.HISTORY),
    )
    out = await ContextBuilder(Budget(1_000), format="anthropic").add(*blocks).build()
    assert out.system == [{"type": "text", "text": "rules", "cache_control": {"type": "ephemeral", "ttl": "1h"}}]
    marked = {"type": "text", "text": "u2", "cache_control": {"type": "ephemeral"}}
    assert [message["content"] for message in out.messages] == ["u1", [marked], "a1", "u3"]
    assert out.report.cache_points == (-1, 1)


async def test_blocks_of_one_name_have_marks_of_their_own():
    """A mark belongs to the block that asks for it, not to every block of its name."""
    blocks = Block("doc", chat("u1"), Tier.RAG, cache=True), Block("doc", chat("u2"), Tier.RAG), Block("h", chat("u3"))
    out = await ContextBuilder(Budget(1_000), format="anthropic").add(*blocks).build()
    assert out.report.cache_points == (0,)
    assert [isinstance(message["content"], str) for message in out.messages] == [False, True, True]


async def test_the_prefix_stays():
    """When only a later block changes, what stands before it keeps its bytes."""
    made = builder(
        100,
        block("sys", chat("s1"), tier=Tier.SYSTEM),
        block("facts", chat("s2", "s3")),
        block("h", chat("u1"), TruncateOldest(), tier=Tier.HISTORY),
    )
    before = (await made.build()).messages
    after = (await made.replace("h", chat("u1", "a1", "u2")).build()).messages
    assert after[: len(before)] == before


async def test_the_report_says_what_went_and_why():
    """Each message that was left out is named, with its tokens, the eviction and the reason."""
    out = await built(20, block("h", chat("u1", "a1", "u2"), TruncateOldest(), tier=Tier.HISTORY))
    (change,) = out.report.blocks[0].changes
    assert (change.index, change.role, change.outcome.value, change.tokens_before) == (0, "user", "dropped", 10)
    assert (change.stage, change.reason) == ("TruncateOldest", "block 'h' over 20 tokens")


async def test_the_report_is_filled_on_failure():
    """A build that fails leaves a report that says what was too large."""
    made = builder(25, block("big", chat("s1", "s2", "s3")), block("h", chat("u1"), tier=Tier.HISTORY))
    with pytest.raises(ContextOverflow):
        await made.build()
    report = made.report
    assert (report.limit, report.original_tokens, report.original_tokens_per_block) == (25, 40, {"big": 30, "h": 10})
    assert report.evictions == {"big": "rejected", "h": "rejected"}
    assert report.error.startswith("ContextOverflow: the request needs 40 tokens and 25 are available")


async def test_what_fits_is_not_dropped_by_a_build_that_fails():
    """The report of a failed build lists nothing as dropped that was not: what fits stands there whole."""
    made = builder(35, block("rules", chat("s1")), block("big", chat("s2", "s3", "s4")), block("tail", chat("s5")))
    with pytest.raises(ContextOverflow):
        await made.build()
    assert made.report.dropped == ()
    assert made.report.evictions == {"big": "rejected", "tail": "rejected"}
    assert made.report.tokens_per_block == {"rules": 10}


async def test_the_report_is_filled_when_an_eviction_fails():
    """Also when an eviction raises what it likes, the report has every figure so far, and the error names the block."""

    async def failing(_context, _call):
        what = "out of ideas"
        raise RuntimeError(what)

    made = builder(25, block("a", chat("s1")), block("b", chat("s2", "s3"), failing))
    with pytest.raises(RuntimeError, match="out of ideas") as caught:
        await made.build()
    assert caught.value.__notes__ == [
        "while stage failing of block 'b' was running; nothing was sent and nothing was changed",
        "while block 'b' was made to fit 15 tokens",
    ]
    assert made.report.tokens_per_block == {"a": 10}
    assert made.report.evictions == {"b": "rejected"}
    assert made.report.error == "RuntimeError: out of ideas"


@pytest.mark.parametrize(
    ("answer", "says"),
    [
        (lambda messages: messages[::-1][:2], "changed the order"),
        (lambda messages: messages[2:], "broke a pair"),
        (lambda messages: messages[:1], "lost or changed messages\\[5\\]"),
        (lambda _: "text", "returned str instead of a Context"),
        (lambda _: [{"role": "user", "content": "x"}], r"messages\[0\] of what it returned is no Message, but dict"),
        (lambda _: None, "returned NoneType"),
    ],
)
async def test_every_eviction_is_checked(answer, says):
    """An eviction of one's own that breaks its contract fails by its name, and nothing is sent."""

    async def mine(context, _call):
        made = answer(context.messages)
        return context.with_messages(made) if isinstance(made, (list, tuple)) else made

    with pytest.raises(StageError, match=f"stage mine of block 'h': {says}"):
        await built(50, block("h", TALK, mine, tier=Tier.HISTORY))


BUILDS = """
import anyio, hashlib, json, sys
sys.path.insert(0, sys.argv[1])
from blocks import block, builder, chat, tool_round
from agentctx.builder.blocks import MergeSystem
from agentctx.tiers import Tier, TierRule
from agentctx.strategies import TruncateOldest

async def facts(messages):
    return sorted({message.text for message in messages if message.role == "user"})

async def main():
    seen = set()
    for _ in range(50):
        talk = [*chat("u1"), *tool_round("look", "a", "b"), *chat("a2", "u3", "u4")]
        made = builder(70, block("h", talk, TruncateOldest(), tier=Tier.HISTORY), facts=facts,
            formatter=MergeSystem(), tiers=[TierRule(Tier.RAG, share=0.3), TierRule(Tier.HISTORY, share=1 / 3)])
        made.add(block("docs", chat(*(f"s{n}" for n in range(9))), TruncateOldest(), tier=Tier.RAG))
        out = await made.build()
        seen.add(json.dumps([out.messages, out.report.evictions, list(out.report.facts)]))
    print(len(seen), hashlib.sha256(seen.pop().encode()).hexdigest())

anyio.run(main)
"""


def test_the_same_bytes_from_200_builds():
    """Two hundred builds, fifty in each of four interpreters with other hash seeds, give the same bytes."""
    root = Path(__file__).parents[2]
    said_by = set()
    for seed in ("0", "1", "42", "random"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(root)}
        command = [sys.executable, "-c", BUILDS, str(Path(__file__).parent)]
        said_by.add(subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout)
    (line,) = said_by
    assert line.startswith("1 ")


@pytest.mark.parametrize("format_name", ["openai-chat", "anthropic"])
@pytest.mark.parametrize("tier", [Tier.CORE, Tier.RAG])
async def test_a_request_of_which_nothing_is_left_is_refused(format_name, tier):
    """Where nothing of a block must stay, its stage may take all of it, but no request is sent without a message."""
    talk = Block("h", [{"role": "user", "content": "word " * 90}], tier=tier, evict=Drop(), max_tokens=20)
    builder = ContextBuilder(Budget(800), format=format_name).add(talk)
    with pytest.raises(ContextOverflow, match="block 'h'") as caught:
        await builder.build()
    assert "nothing is left to send" in caught.value.__notes__[0]
    assert (builder.report.evictions, builder.report.dropped) == ({"h": "rejected"}, ())


async def test_newest_words_stay_in_the_conversation_alone():
    """In ``HISTORY`` they are protected, as the docstring of ``Block`` says; in ``RAG`` they may go."""
    turns = [{"role": "user", "content": "word " * 90}, {"role": "user", "content": "newest"}]
    question = Block("q", [{"role": "user", "content": "now"}], tier=Tier.SCRATCHPAD)
    for tier, left in ((Tier.HISTORY, ["newest", "now"]), (Tier.RAG, ["now"])):
        out = (
            await ContextBuilder(Budget(800), format="openai-chat")
            .add(Block("h", turns, tier=tier, evict=Drop(), max_tokens=20), question)
            .build()
        )
        assert [message["content"] for message in out.messages] == left
