"""What blocks and builders refuse, stages that do unusual things, and one kind of stage for blocks and requests."""

import pytest
from blocks import block, builder, built, chat, said, tool_round

from agentctx import (
    Budget,
    ClearToolResults,
    ConfigError,
    ContextOverflow,
    FitContextWindow,
    InvalidInput,
    Message,
    Outcome,
    Pack,
    Pipeline,
    Text,
    TrimRounds,
    first_of,
    over,
    when,
)
from agentctx.builder import Block, ContextBuilder, Tier
from agentctx.strategies import Drop, DropTail, Strict, Summarize, TruncateOldest
from agentctx.tiers import TierRule
from agentctx.tokens import FixedCounter

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("messages", ["text", {"role": "user", "content": "u1"}, Message("user", ()), 7, None])
def test_messages_are_a_list(messages):
    """One message alone, or something else, is not a block's messages."""
    with pytest.raises(ConfigError, match=r"^Block\.messages must be a list of messages, got "):
        Block("a", messages)


@pytest.mark.parametrize("cap", [0, -1, True, 1.5, "many"])
def test_a_cap_is_positive(cap):
    """A cap that is not positive is refused, and not taken for none."""
    with pytest.raises(
        ConfigError, match=r"^Block\('a'\)\.max_tokens must be a whole number of at least 1, or None, got "
    ):
        Block("a", [], max_tokens=cap)


@pytest.mark.parametrize("cache", [7, "2h", "", ["1h"]])
def test_a_cache_mark_is_one_that_providers_have(cache):
    """A lifetime that no provider has is refused when the block is made, not by the provider."""
    with pytest.raises(
        ConfigError, match=r"^Block\('a'\)\.cache must be True, '5m' or '1h', or the provider's own mark, or None, got "
    ):
        Block("a", [], cache=cache)


@pytest.mark.parametrize("budget", [None, "128k", 1.5])
def test_a_budget_is_a_number_or_a_budget(budget):
    """Anything else than a budget or a number of tokens is refused at once."""
    with pytest.raises(ConfigError, match=r"^ContextBuilder\.budget must be a Budget or a number of tokens, got "):
        ContextBuilder(budget)


def test_rules_are_rules():
    """What is no rule is refused, with its place."""
    with pytest.raises(ConfigError, match=r"^ContextBuilder\.tiers\[1\] must be a TierRule, got 3$"):
        builder(100, tiers=[TierRule(Tier.RAG), 3])


@pytest.mark.parametrize("evict", [Drop, "drop", 7])
def test_an_eviction_can_be_called(evict):
    """An eviction's class is not an eviction."""
    with pytest.raises(
        ConfigError, match=r"^Block\('a'\)\.evict must be a stage, for example TruncateOldest\(\), got "
    ):
        Block("a", [], evict=evict)


@pytest.mark.parametrize(
    "tiers",
    [[TierRule(Tier.RAG), TierRule(Tier.RAG)], [TierRule(Tier.RAG, share=0.6), TierRule(Tier.CORE, share=0.6)]],
)
def test_rules_of_tiers(tiers):
    """A tier has one rule, and the shares are at most the whole."""
    with pytest.raises(ConfigError, match=r"one rule for each tier|add up"):
        builder(100, tiers=tiers)


def test_a_new_builder():
    """A new builder has no blocks and no report."""
    made = builder(100)
    assert made.report is None
    assert made.blocks == ()
    with pytest.raises(ConfigError, match="there are: none"):
        made.remove("a")


async def test_a_message_of_no_kind():
    """Something that is no message is refused by block and place, whatever object it is."""
    with pytest.raises(InvalidInput, match=r"block 'a', messages\[0\]"):
        await built(100, block("a", [object()]))


async def test_edits_are_reported():
    """An eviction may say the same message in fewer words; the report calls it edited."""

    async def shortened(context, _call):
        first, _, *rest = context.messages
        return context.with_messages((first.with_parts((Text("u-short"),)), *rest))

    out = await built(20, block("a", chat("u1", "u2", "u3"), shortened))
    assert said(out.messages) == ["u-short", "u3"]
    changes = out.report.blocks[0].changes
    assert [(each.index, each.outcome) for each in changes] == [(1, Outcome.DROPPED), (0, Outcome.EDITED)]


async def test_an_eviction_that_makes_less_of_more():
    """When an eviction returns less in a larger room, what it returned before is kept."""

    class Fickle:
        """Two messages at first, then one."""

        def __call__(self, context, call):
            """Less of more."""
            return context.with_messages(context.messages[: 1 if call.limit >= 30 else 2])

    rules = [TierRule(Tier.CORE, share=0.5)]
    late = block("late", tool_round("look", "a", "b"), TruncateOldest(), tier=Tier.RAG)
    out = await built(45, block("a", chat("u1", "u2", "u3", "u4", "u5"), Fickle()), late, tiers=rules)
    assert (out.report.tokens_per_block, out.report.blocks[0].granted) == ({"a": 20}, 23)


@pytest.mark.parametrize("given", [7, None, b"x", ["x"]])
async def test_a_summarizer_that_returns_no_text(given):
    """It has given no summary: the fallback stands in, as for an empty one, and what it gave is named in the notes."""

    async def wrong(messages, max_tokens):
        del messages, max_tokens
        return given

    async def empty(messages, max_tokens):
        del messages, max_tokens
        return ""

    out, plain = [await built(25, block("a", chat("u1", "u2", "u3"), Summarize(each))) for each in (wrong, empty)]
    assert out.messages == plain.messages
    assert out.report.blocks[0].notes == (f"the summarizer returned {type(given).__name__} instead of text",)


async def test_a_capped_tier():
    """A tier's cap holds for its blocks together, with room to spare."""
    rules = [TierRule(Tier.RAG, cap=30)]
    docs = [block(f"d{n}", chat("s1", "s2"), TruncateOldest(), tier=Tier.RAG) for n in range(3)]
    out = await built(1_000, *docs, tiers=rules)
    assert out.report.tokens_per_block == {"d0": 20, "d1": 10}


async def shorter(messages, max_tokens):
    """A summarizer."""
    del messages, max_tokens
    return "in short"


STAGES = {
    "rounds, oldest first": (FitContextWindow(), ["u2", "a2"], "truncated"),
    "the last rounds": (TrimRounds(1), ["u2", "a2"], "truncated"),
    "stages in order": (Pipeline(ClearToolResults(0), TruncateOldest()), ["u2", "a2"], "truncated"),
    "the first that acts": (first_of(ClearToolResults(0), TruncateOldest()), ["u2", "a2"], "truncated"),
    "under a condition": (when(over(0.5), DropTail()), ["u1", "a1"], "truncated"),
    "what is worth most": (Pack("recent"), ["u2", "a2"], "truncated"),
    "one's own": (TruncateOldest(), ["u2", "a2"], "truncated"),
}


@pytest.mark.parametrize("case", STAGES)
async def test_any_stage_may_reduce_a_block(case):
    """Any stage is run over a block that is too large, with the block's room as its budget."""
    stage, left, label = STAGES[case]
    out = await built(35, block("must", chat("s1")), block("a", chat("u1", "a1", "u2", "a2"), stage, tier=Tier.RAG))
    assert (said(out.messages), out.report.evictions) == (["s1", *left], {"a": label})


async def test_a_stage_keeps_the_newest_words_of_a_block():
    """Of a block of the conversation every stage keeps the user's newest words, and may drop all else."""
    for stage in (FitContextWindow(), TruncateOldest(), Drop(), Pack("recent"), Summarize(shorter, fallback=Drop())):
        out = await built(15, block("h", chat("s1", "u1", "a1", "u2", "a2"), stage, tier=Tier.HISTORY))
        assert said(out.messages) == ["u2"]


@pytest.mark.parametrize(
    ("stage", "left"),
    [
        (TruncateOldest(), ["s1", "u1", "a2", "u3", "a3"]),
        (TruncateOldest(keep_pairs=True), ["s1", "u1", "a1", "u3", "a3"]),
        (DropTail(), ["s1", "u1", "a1", "u3", "a3"]),
        (Drop(), ["s1", "u1", "u3", "a3"]),
    ],
)
async def test_what_reduces_a_block_reduces_a_request(stage, left):
    """In a pipeline the same stages spare system prompt, first task, latest user message, and the open round."""
    messages = chat("s1", "u1", "a1", "u2", "a2", "u3", "a3")
    view = await Pipeline(stage, budget=Budget(50), counter=FixedCounter(10)).prepare(messages, format="openai-chat")
    assert said(view.messages) == left


async def test_a_strict_request():
    """In a pipeline ``Strict`` refuses what does not fit, before anything is cut."""
    pipeline = Pipeline(Strict(), budget=Budget(30), counter=FixedCounter(10))
    messages = chat("u1", "a1", "u2")
    assert (await pipeline.prepare(messages, format="openai-chat")).messages == messages
    with pytest.raises(ContextOverflow, match="needs 40 tokens and 30 are available"):
        await pipeline.prepare([*messages, *chat("a2")], format="openai-chat")


async def test_a_summary_in_a_request():
    """In a pipeline a summary stands behind the first task; a later cut puts another in its place and counts on."""
    pipeline = Pipeline(Summarize(shorter), budget=Budget(55), counter=FixedCounter(10))
    view = await pipeline.prepare(chat("s1", "u1", "a1", "u2", "a2", "u3"), format="openai-chat")
    heading, _, *section = view.messages[2]["content"].split("\n")
    assert said([*view.messages[:2], *view.messages[3:]]) == ["s1", "u1", "u3"]
    assert section == ["## Summary", "in short"]
    assert heading.startswith("[Recap of 3 earlier messages, not shown; ")
    longer = [*view.messages, *chat("a3", "u4", "a4", "u5")]
    again = await pipeline.prepare(longer, format="openai-chat")
    assert [each.partition(",")[0] for each in said(again.messages)] == [
        "s1",
        "u1",
        "[Recap of 7 earlier messages",
        "u5",
    ]
