"""What a build of blocks gives, reports and refuses."""

import anyio
import pytest
from blocks import block, builder, built, chat, said, tool_round
from hypothesis import given, strategies as st

from agentctx import Budget, ConfigError, ContextOverflow, Message, StageError, Text
from agentctx.builder import Block, ContextBuilder, Tier
from agentctx.builder.blocks import concatenate
from agentctx.strategies import Drop, DropTail, Strict, Summarize, TruncateOldest
from agentctx.testing import fixed_summarizer
from agentctx.tokens import FixedCounter

pytestmark = pytest.mark.anyio

THREE = ("u1", "u2", "u3")


@pytest.mark.parametrize("tokens", [0, -1])
def test_a_budget_without_tokens(tokens):
    """A budget without tokens is refused at once, and not only when something is built."""
    with pytest.raises(ConfigError, match="window"):
        ContextBuilder(tokens)


@pytest.mark.parametrize("tokens", [5, 100])
def test_a_block_without_an_eviction(tokens):
    """A block without an eviction is refused, whether it would fit or not, before there is a budget at all."""
    with pytest.raises(ConfigError, match=r"^Block\('a'\)\.evict must be "):
        builder(tokens, Block("a", chat("u1"), Tier.CORE, None))


async def test_nothing_in_nothing_out():
    """Nothing in, nothing out, and the whole budget remains."""
    out = await built(100)
    assert (out.messages, out.report.used_tokens, out.report.remaining_tokens) == ([], 0, 100)
    assert (out.report.dropped, out.report.blocks, out.report.error) == ((), (), None)


async def test_two_builds_are_the_same():
    """Two builds are the same; a block that is added in between is in the second."""
    made = builder(100, block("a", chat("u1")))
    first, second = await made.build(), await made.build()
    assert first.messages == second.messages
    made.add(block("b", chat("u2")))
    assert said((await made.build()).messages) == ["u1", "u2"]


async def test_two_messages_in_a_hundred_tokens():
    """Two messages of ten tokens leave eighty of a hundred."""
    report = (await built(100, block("a", chat("u1", "a1")))).report
    assert (report.used_tokens, report.remaining_tokens, report.dropped) == (20, 80, ())
    assert (report.tokens_per_block, report.original_tokens_per_block) == ({"a": 20}, {"a": 20})


async def test_tiers_come_before_the_order_of_adding():
    """What was added first comes first only within its tier."""
    history = block("history", chat("u1"), tier=Tier.HISTORY)
    system = block("system", chat("s1"), tier=Tier.SYSTEM)
    notes, facts = block("notes", chat("a1")), block("facts", chat("a2"))
    out = await built(100, history, notes, system, facts)
    assert said(out.messages) == ["s1", "a1", "a2", "u1"]


async def test_a_strict_block_that_does_not_fit():
    """A strict block that does not fit fails the build, and is named."""
    made = builder(5, block("must", chat("u1"), Strict()))
    with pytest.raises(ContextOverflow, match=r"needs 10 tokens and 5 are available.*block 'must' \(core\) 10"):
        await made.build()
    assert made.report.evictions == {"must": "rejected"}


async def test_a_block_that_does_not_fit_is_dropped():
    """A block that does not fit is dropped, and the report names it."""
    out = await built(15, block("core", chat("u1"), Strict()), block("rag", chat("u2", "u3"), Drop(), tier=Tier.RAG))
    assert said(out.messages) == ["u1"]
    assert out.report.dropped == ("rag",)


async def test_three_messages_in_room_for_two_and_a_half():
    """Three messages in room for two and a half become at most two."""
    out = await built(25, block("h", chat(*THREE), TruncateOldest(), tier=Tier.HISTORY))
    assert said(out.messages) == ["u2", "u3"]
    assert (out.report.evictions, out.report.used_tokens) == ({"h": "truncated"}, 20)


async def test_a_block_without_messages_is_in_no_figure():
    """A block without messages is passed over, and is in no figure."""
    out = await built(100, block("empty", []), block("a", chat("u1")))
    assert out.report.tokens_per_block == {"a": 10} == out.report.original_tokens_per_block
    assert out.report.dropped == ()


@pytest.mark.both_loops
async def test_a_cancelled_build_says_so():
    """A build that is cancelled stops, and its report says so."""
    made = builder(100, block("a", chat("u1")))
    with anyio.CancelScope() as scope:
        scope.cancel()
        await made.build()
    assert scope.cancelled_caught
    assert "Cancelled" in made.report.error


@pytest.mark.both_loops
async def test_a_build_without_time_stops():
    """A build without time stops."""
    with pytest.raises(TimeoutError):
        with anyio.fail_after(0):
            await built(100, block("a", chat("u1"), Strict()))


async def test_every_figure_of_a_report():
    """One block kept and one dropped: every figure."""
    report = (await built(15, block("must", chat("u1")), block("drop", chat("u2", "u3"), Drop(), tier=Tier.RAG))).report
    assert (report.used_tokens, report.original_tokens, report.remaining_tokens) == (10, 30, 5)
    assert (report.evictions, report.tokens_per_block) == ({"drop": "dropped"}, {"must": 10})


async def test_a_blocks_cap_holds_in_a_larger_budget():
    """A block's own cap holds in a larger budget."""
    messages = chat(*(f"u{number}" for number in range(50)))
    out = await built(1_000, block("h", messages, TruncateOldest(), tier=Tier.HISTORY, max_tokens=200))
    assert len(out.messages) == 20
    assert (out.report.used_tokens, out.report.remaining_tokens) == (200, 800)


async def everything(context, _call):
    """An eviction that evicts nothing."""
    return context


async def test_an_eviction_that_returns_too_much():
    """An eviction that returns more than it may is an error that names it and the block."""
    made = builder(5, block("a", chat("u1"), everything))
    with pytest.raises(StageError, match="everything of block 'a': returned 10 tokens, and 5 were allowed"):
        await made.build()
    assert made.report.evictions == {"a": "rejected"}


async def test_a_block_that_is_all_protected_and_too_large():
    """When all of a block is protected and too large, the build fails before anything else is done."""
    keep = TruncateOldest(protect_roles=["user"])
    with pytest.raises(ContextOverflow, match="block 'a'"):
        await built(5, block("a", chat("u1"), keep))


async def test_an_eviction_of_ones_own():
    """An eviction of one's own is called by what it did to the messages."""

    async def last_one(context, call):
        assert call.limit == 15
        return context.with_messages(context.messages[-1:])

    async def one_word(context, _call):
        return context.with_messages((Message("user", (Text("u"),)),))

    out = await built(15, block("a", chat("u1", "u2"), last_one))
    assert said(out.messages) == ["u2"]
    assert out.report.evictions == {"a": "truncated"}
    assert (await built(15, block("a", chat("u1", "u2"), one_word))).report.evictions == {"a": "evicted"}


async def test_blocks_of_one_name_are_added_up():
    """Blocks of one name are two blocks, and their figures are added up, so that nothing is missing."""
    out = await built(100, block("a", chat("u1")), block("a", chat("u2", "u3")))
    assert said(out.messages) == ["u1", "u2", "u3"]
    assert out.report.tokens_per_block == {"a": 30}
    assert [each.tokens_after for each in out.report.blocks] == [10, 20]


async def test_one_message():
    """One message costs what the counter says."""
    out = (
        await ContextBuilder(Budget(100), counter=FixedCounter(4), format="openai-chat")
        .add(block("a", chat("u1")))
        .build()
    )
    assert out.report.used_tokens == 4


async def test_three_blocks_that_fit():
    """Three blocks that fit are there in the order of their tiers, and nothing is evicted."""
    tiers = (("s1", Tier.SYSTEM), ("a1", Tier.CORE), ("u1", Tier.HISTORY))
    out = await built(100, *(block(name, chat(name), tier=tier) for name, tier in tiers))
    assert (said(out.messages), out.report.evictions) == (["s1", "a1", "u1"], {})


async def test_seven_messages_of_fifty_tokens_in_three_hundred():
    """Of seven messages of fifty tokens six go into three hundred."""
    messages = chat(*(f"u{number}" for number in range(7)))
    history = block("h", messages, TruncateOldest(), tier=Tier.HISTORY)
    out = await ContextBuilder(Budget(300), counter=FixedCounter(50), format="openai-chat").add(history).build()
    assert (len(out.messages), out.report.evictions) == (6, {"h": "truncated"})


async def test_all_tiers_into_exactly_200_tokens():
    """350 tokens of all tiers become exactly 200, in eight messages."""
    history = block("chat_history", chat(*(f"u{number}" for number in range(10))), TruncateOldest(), tier=Tier.HISTORY)
    out = (
        await ContextBuilder(Budget(200), counter=FixedCounter(25), format="openai-chat")
        .add(
            history,
            block("persona", chat("s1"), tier=Tier.SYSTEM),
            block("facts", chat("s2", "s3")),
            block("docs", chat("s4"), Drop(), tier=Tier.RAG),
        )
        .build()
    )
    assert (out.report.original_tokens, out.report.used_tokens, len(out.messages)) == (350, 200, 8)
    assert out.report.evictions == {"chat_history": "truncated"}


EVICTIONS = [
    TruncateOldest(),
    TruncateOldest(keep_pairs=True),
    TruncateOldest(min_messages=2),
    TruncateOldest(protect_roles=["tool"]),
    Drop(),
]


@st.composite
def some_blocks(draw):
    """Any blocks, with tool calls in them."""
    words = st.sampled_from(["u1", "u2", "a1", "a2", "s1", "tools"])
    found = []
    for place in range(draw(st.integers(0, 5))):
        messages = []
        for word in draw(st.lists(words, max_size=8)):
            messages += tool_round("look", "x", "y") if word == "tools" else chat(word)
        cap = draw(st.one_of(st.none(), st.integers(1, 100)))
        evict = draw(st.sampled_from(EVICTIONS))
        found.append(Block(f"b{place}", messages, draw(st.integers(0, 5)), evict, cap))
    return found


@given(some_blocks(), st.integers(1, 200), st.integers(1, 30))
def test_never_more_than_the_budget(blocks, tokens, each):
    """Whatever the budget, the blocks and the cost of a message: never more than the budget, or an error."""

    async def main():
        made = ContextBuilder(Budget(tokens), counter=FixedCounter(each), format="openai-chat").add(*blocks)
        try:
            out = await made.build()
        except ContextOverflow:
            assert "rejected" in made.report.evictions.values()
            return
        assert out.report.used_tokens == each * len(out.messages) == out.report.tokens <= tokens
        caps = [given.max_tokens for given in sorted(blocks, key=lambda given: given.tier) if given.messages]
        for done, cap in zip(out.report.blocks, caps, strict=True):
            assert cap is None or done.tokens_after <= cap

    anyio.run(main)


def test_a_missing_eviction_names_the_block():
    """The error for a missing eviction names the block, and says what to pass."""
    with pytest.raises(
        ConfigError, match=r"^Block\('notes'\)\.evict must be a stage, for example TruncateOldest\(\), got None$"
    ):
        Block("notes", [], evict=None)


async def test_all_five_evictions_in_one_build():
    """Two builds with all five evictions are equal, and each asks the summarizer once."""
    asked = []

    async def summarize(messages, max_tokens):
        asked.append((len(messages), max_tokens))
        return "summary"

    made = builder(
        50,
        block("strict", chat("s-keep"), Strict()),
        block("drop", chat("u1", "u2", "u3", "u4", "u5", "u6"), Drop()),
        block("head", chat("u-old", "u-new"), TruncateOldest(), max_tokens=15),
        block("summarize", chat("u1", "u2"), Summarize(summarize, heading=""), max_tokens=19),
        block("tail", chat("u-tail-1", "u-tail-2", "u-tail-3"), DropTail()),
    )
    first, second = await made.build(), await made.build()
    assert first.messages == second.messages
    assert said(first.messages) == ["s-keep", "u-new", "summary", "u-tail-1", "u-tail-2"]
    assert len(asked) == 2


async def test_an_eviction_that_ignores_its_blocks_cap():
    """An eviction that ignores its block's cap fails, though there is room."""

    async def everything(context, _call):
        return context

    with pytest.raises(StageError, match="returned 20 tokens, and 10 were allowed"):
        await built(100, block("a", chat("u1", "u2"), everything, max_tokens=10))


async def test_the_report_lists_blocks_after_eviction():
    """The report lists the blocks as they are after eviction, also those of which nothing is left."""
    history = block("h", chat("u1", "u2"), TruncateOldest(), tier=Tier.HISTORY)
    out = await built(20, block("core", chat("s1")), block("rag", chat("s2", "s3"), Drop(), tier=Tier.RAG), history)
    assert [(each.id, each.messages_after, each.dropped) for each in out.report.blocks] == [
        ("core", 1, False),
        ("rag", 0, True),
        ("h", 1, False),
    ]


async def test_an_eviction_that_wraps_another():
    """An eviction that wraps another is an eviction."""
    seen = []

    def logged(evict):
        async def logging(context, call):
            left = await evict(context, call)
            seen.append((len(context.messages), len(left.messages)))
            return left

        return logging

    out = await built(15, block("a", chat("u1", "u2"), logged(TruncateOldest())))
    assert (said(out.messages), seen) == (["u2"], [(2, 1)])


async def test_one_oversize_unit_at_the_head():
    """One oversize unit at the head of a block is an overflow that names the block, its size and the room."""
    with pytest.raises(ContextOverflow, match=r"needs 10 tokens and 5 are available.*block 'ranked' \(core\) 10"):
        await built(5, block("ranked", chat("u1", "u2"), DropTail()))


@pytest.mark.both_loops
async def test_a_cancelled_build_goes_to_no_further_block():
    """A build that is cancelled by an eviction does not go on to the next block."""
    seen = []

    async def cancelling(context, _call):
        seen.append(len(context.messages))
        scope.cancel()
        return context.with_messages(())

    made = builder(5, block("a", chat("u1"), cancelling), block("b", chat("u2"), cancelling))
    with anyio.CancelScope() as scope:
        await made.build()
    assert (scope.cancelled_caught, seen) == (True, [1])
    assert [each.id for each in made.report.blocks] == ["a", "b"]


async def test_a_summarizer_is_asked_once_a_build():
    """However often blocks are cut anew for the formatter, the summarizer is asked once while its answer fits."""
    asked = []

    async def summarize(messages, max_tokens):
        del max_tokens
        asked.append(len(messages))
        return await fixed_summarizer("short")(messages, 0)

    async def with_header(sections):
        return [Message("system", ()), *await concatenate(sections)]

    talk = block("talk", chat("u1", "u2", "u3"), Summarize(summarize), tier=Tier.CORE, max_tokens=25)
    history = block("h", chat("u4", "u5"), TruncateOldest(), tier=Tier.HISTORY)
    out = await built(30, talk, history, formatter=with_header)
    assert (asked, len(out.messages)) == ([3], 3)
