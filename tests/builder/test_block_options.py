"""What blocks and builders refuse, and evictions that do unusual things."""

import pytest
from blocks import block, builder, built, chat, said, tool_round

from agentctx import (
    ConfigError,
    FitContextWindow,
    InvalidInput,
    Message,
    Outcome,
    Pipeline,
    Scope,
    StageError,
    Text,
    TrimRounds,
)
from agentctx.builder import Block, Drop, Summarize, Tier, TruncateOldest
from agentctx.builder.eviction import Allowance
from agentctx.core.tier import TierRule

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("messages", ["text", {"role": "user", "content": "u1"}, Message("user", ()), 7, None])
def test_messages_are_a_list(messages):
    """One message alone, or something else, is not a block's messages."""
    with pytest.raises(ConfigError, match="Block: messages: expected a list of messages"):
        Block("a", messages)


@pytest.mark.parametrize("cap", [0, -1, True, 1.5, "many"])
def test_a_cap_is_positive(cap):
    """A cap that is not positive is refused, and not taken for none."""
    with pytest.raises(ConfigError, match="Block 'a': max_tokens"):
        Block("a", [], max_tokens=cap)


@pytest.mark.parametrize("cache", [7, "2h", "", ["1h"]])
def test_a_cache_mark_is_one_that_providers_have(cache):
    """A lifetime that no provider has is refused when the block is made, not by the provider."""
    with pytest.raises(ConfigError, match=r"Block 'a': cache: expected True, '5m' or '1h', or the provider's own mark"):
        Block("a", [], cache=cache)


@pytest.mark.parametrize("budget", [None, "128k", 1.5])
def test_a_budget_is_a_number_or_a_budget(budget):
    """Anything else than a budget or a number of tokens is refused at once."""
    with pytest.raises(ConfigError, match="budget: expected a Budget or a number of tokens"):
        builder(budget)


def test_rules_are_rules():
    """What is no rule is refused, with its place."""
    with pytest.raises(ConfigError, match=r"ContextBuilder: tiers\[1\]: expected a TierRule, got 3"):
        builder(100, tiers=[TierRule(Tier.RAG), 3])


@pytest.mark.parametrize("evict", [Drop, "drop", 7])
def test_an_eviction_can_be_called(evict):
    """An eviction's class is not an eviction."""
    with pytest.raises(ConfigError, match="Block 'a': evict"):
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

    async def shortened(messages, allowance):
        del allowance
        return [messages[0].with_parts((Text("u-short"),)), *messages[2:]]

    out = await built(20, block("a", chat("u1", "u2", "u3"), shortened))
    assert said(out.messages) == ["u-short", "u3"]
    changes = out.report.blocks[0].changes
    assert [(each.index, each.outcome) for each in changes] == [(1, Outcome.DROPPED), (0, Outcome.EDITED)]


async def test_an_eviction_that_makes_less_of_more():
    """When an eviction returns less in a larger room, what it returned before is kept."""

    class Fickle:
        """Two messages at first, then one."""

        gradual = True

        async def __call__(self, messages, allowance):
            """Less of more."""
            return messages[:1] if allowance.tokens >= 30 else messages[:2]

    rules = [TierRule(Tier.CORE, share=0.5)]
    late = block("late", tool_round("look", "a", "b"), TruncateOldest(), tier=Tier.RAG)
    out = await built(45, block("a", chat("u1", "u2", "u3", "u4", "u5"), Fickle()), late, tiers=rules)
    assert (out.report.tokens_per_block, out.report.blocks[0].granted) == ({"a": 20}, 23)


async def test_a_summarizer_that_returns_no_text():
    """A summarizer that returns something else than text fails by its name."""

    async def wrong(messages, max_tokens):
        del messages, max_tokens
        return 7

    with pytest.raises(StageError, match="the summarizer returned int instead of text"):
        await built(25, block("a", chat("u1", "u2", "u3"), Summarize(wrong)))


async def test_a_capped_tier():
    """A tier's cap holds for its blocks together, with room to spare."""
    rules = [TierRule(Tier.RAG, cap=30)]
    docs = [block(f"d{n}", chat("s1", "s2"), TruncateOldest(), tier=Tier.RAG) for n in range(3)]
    out = await built(1_000, *docs, tiers=rules)
    assert out.report.tokens_per_block == {"d0": 20, "d1": 10}


@pytest.mark.parametrize("evict", [FitContextWindow(), TrimRounds(2)])
def test_a_stage_is_no_eviction(evict):
    """A stage in the place of an eviction is refused, and the error says where it goes."""
    with pytest.raises(ConfigError, match=r"Block 'a': evict: .* is a stage; it goes into a Pipeline"):
        Block("a", [], evict=evict)


async def shorter(messages, max_tokens):
    """A summarizer."""
    del messages, max_tokens
    return "in short"


@pytest.mark.parametrize("stage", [TruncateOldest(), Drop(), Summarize(shorter)])
def test_an_eviction_is_no_stage(stage):
    """An eviction in the place of a stage is refused, and the error says where it goes."""
    with pytest.raises(ConfigError, match=r"Pipeline: stages\[1\] is .*, an eviction; it goes into a Block"):
        Pipeline(TrimRounds(2), stage)


class Both:
    """What can stand in both places, because it knows what it is told."""

    scope = Scope.PRESSURE

    def least(self, _messages, _allowance):
        """Nothing must stay."""
        return 0

    async def __call__(self, given, told):
        """Nothing of a block; a context as it is."""
        return () if isinstance(told, Allowance) else given


async def test_what_is_both_may_stand_in_both_places():
    """A class that is an eviction and a stage is taken as either."""
    assert (await built(5, block("a", chat("u1"), Both()))).messages == []
    messages = chat("u1")
    assert (await Pipeline(Both()).prepare(messages, format="openai-chat")).messages == messages
