"""What one block cannot use, another gets: no room is left that a block which was cut could have used."""

from functools import partial

import anyio
import pytest
from blocks import block, built, chat, said, tool_round
from hypothesis import given, strategies as st

from agentctx import ContextOverflow
from agentctx.builder import Tier
from agentctx.strategies import Drop, DropTail, Strict, TruncateOldest
from agentctx.tiers import TierRule

pytestmark = pytest.mark.anyio

BACKGROUND = st.integers(-1, Tier.RAG)


@st.composite
def wholes(draw):
    """Background blocks of any size that stay or go as a whole."""
    sizes = draw(st.lists(st.integers(1, 9), max_size=8))
    return [
        block(f"b{place}", chat(*(f"s{place}-{n}" for n in range(size))), Drop(), tier=draw(BACKGROUND))
        for place, size in enumerate(sizes)
    ]


@given(wholes(), st.integers(1, 40))
def test_whole_blocks_in_order(blocks, room):
    """Blocks that go as a whole are taken in the order of the request, each that fits into what is left."""
    left, taken = room, []
    for each in sorted(blocks, key=lambda one: one.tier):
        if len(each.messages) <= left:
            left -= len(each.messages)
            taken.extend(said(each.messages))
    out = anyio.run(partial(built, room * 10, *blocks))
    assert said(out.messages) == taken


@st.composite
def mixed(draw):
    """Background blocks with any eviction and any cap, and rules for their tiers."""
    blocks = []
    for place, size in enumerate(draw(st.lists(st.integers(1, 9), min_size=1, max_size=7))):
        evict = draw(st.sampled_from([Drop(), TruncateOldest(), DropTail()]))
        cap = draw(st.one_of(st.none(), st.integers(10, 60)))
        words = chat(*(f"s{place}-{n}" for n in range(size)))
        blocks.append(block(f"b{place}", words, evict, tier=draw(BACKGROUND), max_tokens=cap))
    rules = []
    for tier in draw(st.sets(BACKGROUND, max_size=3)):
        floor = draw(st.sampled_from((0, 10, 25)))
        rules.append(TierRule(tier, floor, draw(st.sampled_from((0, 0.1, 0.3))), draw(st.sampled_from((None, 30, 80)))))
    return blocks, rules


@given(mixed(), st.integers(10, 400))
def test_nothing_left_that_a_cut_block_could_use(given_blocks, tokens):
    """A block that was cut is cut because one unit more would be over the budget, its tier's cap, or its own."""
    blocks, rules = given_blocks
    try:
        out = anyio.run(partial(built, tokens, *blocks, tiers=rules))
    except ContextOverflow:
        assert any(isinstance(each.evict, DropTail) for each in blocks)
        return
    caps = {rule.tier: rule.cap for rule in rules if rule.cap is not None}
    own = {each.id: each for each in blocks}
    for done in out.report.blocks:
        in_tier = sum(each.tokens_after for each in out.report.blocks if each.tier == done.tier)
        room = [out.report.remaining_tokens]
        room += [caps[done.tier] - in_tier] if done.tier in caps else []
        cap = own[done.id].max_tokens
        room += [] if cap is None else [cap - done.tokens_after]
        assert min(room) >= 0
        more = done.tokens_before - done.tokens_after if isinstance(own[done.id].evict, Drop) else 10
        assert done.tokens_after == done.tokens_before or min(room) < more


async def test_a_stronger_block_that_fits_is_not_left_out_for_a_weaker_one():
    """Where a large block gives way as a whole, the next of its tier is served before weaker tiers take the room."""
    docs = [block("large", chat(*(f"s{n}" for n in range(10))), Drop()), block("small", chat("s-a", "s-b"), Drop())]
    notes = block("notes", chat(*(f"s{n}" for n in range(20))), TruncateOldest(), tier=Tier.RAG)
    out = await built(60, *docs, notes)
    assert out.report.tokens_per_block == {"small": 20, "notes": 40}
    assert [(each.id, each.granted) for each in out.report.blocks] == [("large", 60), ("small", 20), ("notes", 40)]


async def test_many_tiers_of_whole_blocks():
    """However many tiers there are, the room is used and nothing is over it."""
    sizes = [1 if n < 10 else 3 + n % 2 for n in range(80)]
    docs = [block(f"d{n}", chat(*(f"s{k}" for k in range(size))), Drop(), tier=-n) for n, size in enumerate(sizes)]
    out = await built(100, *docs, block("must", chat("s-must"), Strict(), tier=Tier.RAG))
    assert out.report.used_tokens == 100
    assert "must" in out.report.tokens_per_block


async def test_freed_space_goes_back():
    """What a later block gives up goes back to an earlier one that was cut."""
    rules = [TierRule(Tier.CORE, share=0.5), TierRule(Tier.HISTORY, share=0.5)]
    early = block("early", chat(*(f"u{n}" for n in range(10))), TruncateOldest())
    late = block("late", chat(*(f"a{n}" for n in range(10))), Drop(), tier=Tier.HISTORY)
    out = await built(100, early, late, tiers=rules)
    assert out.report.tokens_per_block == {"early": 100}


async def test_leftovers_go_back():
    """What whole units leave over in one block is used by another."""
    early = block("early", [*tool_round("look", "a", "b"), *tool_round("see", "c")], TruncateOldest())
    late = block("late", chat("s1", "s2", "s3"), DropTail(), tier=Tier.RAG)
    out = await built(45, early, late, tiers=[TierRule(Tier.CORE, share=0.66)])
    assert out.report.tokens_per_block == {"early": 20, "late": 20}


async def test_nobody_starves():
    """A floor keeps room for a weaker tier, however much a stronger one wants."""
    early = block("early", chat(*(f"s{n}" for n in range(50))), TruncateOldest())
    late = block("late", chat("a1", "a2", "a3"), TruncateOldest(), tier=Tier.SCRATCHPAD)
    out = await built(100, early, late, tiers=[TierRule(Tier.SCRATCHPAD, floor=30)])
    assert out.report.tokens_per_block == {"early": 70, "late": 30}


async def test_strict_blocks_are_served_first():
    """A block that must stay whole is not refused for the sake of one that need not."""
    docs = block("docs", chat("s1"), Drop())
    out = await built(15, docs, block("h", chat("u1"), tier=Tier.HISTORY))
    assert said(out.messages) == ["u1"]
