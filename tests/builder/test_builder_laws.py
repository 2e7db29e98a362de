"""What holds for every request that is built of blocks, whatever is in them."""

import json
from functools import partial

import pytest
from histories import broken_histories, histories
from hypothesis import given, strategies as st
from plans import WRITERS

from agentctx import (
    AmbiguousFormat,
    Budget,
    ClearToolResults,
    ContextOverflow,
    FitContextWindow,
    InvalidInput,
    Pack,
    Pipeline,
    Tiered,
    TruncateToolOutputs,
    count,
    first_of,
    over,
    validate,
    when,
)
from agentctx.builder import Block, ContextBuilder, Tier
from agentctx.strategies import Drop, DropTail, Strict, Summarize, TruncateOldest
from agentctx.tiers import TierRule


async def shorter(messages, max_tokens):
    """A summarizer that keeps to nothing."""
    return f"{len(messages)} messages " * max_tokens


EVICTIONS = st.one_of(
    st.builds(
        TruncateOldest,
        keep_pairs=st.booleans(),
        min_messages=st.integers(0, 4),
        protect_roles=st.sets(st.sampled_from(["system", "user", "assistant", "tool"]), max_size=1),
    ),
    st.sampled_from([Drop(), DropTail(), Strict(), Summarize(shorter)]),
    st.sampled_from(
        [
            FitContextWindow(),
            Tiered(),
            Pack("hybrid", note=True),
            Pack("compression"),
            Pipeline(ClearToolResults(1), FitContextWindow()),
            first_of(when(over(0.5), TruncateToolOutputs(max_tokens=20)), Drop()),
        ]
    ).map(lambda stage: Pipeline(stage, TruncateOldest())),
)
RULES = st.sampled_from(
    [
        (),
        (TierRule(Tier.CORE, floor=50), TierRule(Tier.HISTORY, share=0.5)),
        (TierRule(Tier.RAG, share=0.2, cap=300), TierRule(Tier.CORE, share=0.3)),
    ]
)
KEYS = {"openai-responses": "input", "gemini": "contents"}


@st.composite
def cases(draw, source=histories):
    """Blocks of a format, a budget, and rules."""
    format_name = draw(st.sampled_from(sorted(WRITERS)))
    blocks = []
    for place in range(draw(st.integers(1, 3))):
        messages = draw(source(format_name)).messages
        cap = draw(st.one_of(st.none(), st.integers(20, 2_000)))
        blocks.append(Block(f"b{place}", messages, draw(st.integers(1, 5)), draw(EVICTIONS), cap))
    window = draw(st.one_of(st.integers(10, 300), st.integers(10, 4_000)))
    return format_name, blocks, Budget(window), draw(RULES)


async def hold(case, *, broken):
    """Build twice, and look at everything."""
    format_name, blocks, budget, rules = case
    made = ContextBuilder(budget, format=format_name, tiers=rules).add(*blocks)
    before = json.dumps([block.messages for block in blocks])
    try:
        out = await made.build()
    except ContextOverflow:
        assert made.report.error.startswith("ContextOverflow")
        assert len(made.report.blocks) == sum(1 for block in blocks if block.messages)
        return
    finally:
        assert json.dumps([block.messages for block in blocks]) == before
    report = out.report
    size = count(out.messages, format=format_name, system=out.system) if out.messages else report.fixed_tokens
    assert size == report.tokens <= budget.limit
    assert sum(report.tokens_per_block.values()) == report.used_tokens
    for done in report.blocks:
        assert done.tokens_after <= done.tokens_before or done.eviction == "summarized"
        assert (done.eviction is None) == (not done.changes)
    again = await made.build()
    assert (again.messages, again.system) == (out.messages, out.system)
    if out.messages:
        _hold_legal(out, format_name, broken=broken)


def _hold_legal(out, format_name, *, broken):
    request = {KEYS.get(format_name, "messages"): out.messages}
    if out.system is not None:
        request["system_instruction" if format_name == "gemini" else "system"] = out.system
    wrong = [each for each in validate(request, format_name) if each.severity == "error"]
    assert not wrong, (broken, wrong)


@pytest.mark.parametrize("source", [histories, broken_histories])
def test_whatever_the_blocks(both_loops, source):
    """The request fits by exact count, its pairs are whole, its figures add up, and it is built alike again."""

    @given(cases(source))
    def check(case):
        both_loops(partial(hold, case, broken=source is broken_histories))

    check()


@given(st.lists(st.integers(1, 30), min_size=1, max_size=20), st.integers(1, 400))
def test_the_budget_is_used_up(both_loops, sizes, room):
    """What is left of the budget is smaller than the next unit that was left out."""

    async def main():
        messages = [{"role": "user", "content": " word" * size} for size in sizes]
        made = ContextBuilder(Budget(room + 40), format="openai-chat").add(Block("h", messages, evict=TruncateOldest()))
        report = (await made.build()).report
        gone = [change.tokens_before for change in report.blocks[0].changes]
        assert not gone or report.remaining_tokens < gone[-1]

    both_loops(main)


def test_values_alone_need_no_format(both_loops):
    """Plain messages that every format writes alike need no format; others that are ambiguous do."""

    async def main():
        plain = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "hello"}]
        out = await ContextBuilder(Budget(100)).add(Block("h", plain)).build()
        assert out.messages == plain
        tools = [{"name": "look", "parameters": {"type": "object"}}]
        with pytest.raises(AmbiguousFormat):
            await ContextBuilder(Budget(100), tools=tools).add(Block("h", plain)).build()

    both_loops(main)


def test_an_error_names_the_block(both_loops):
    """A message that cannot be read is named with its block, and the report says so."""

    async def main():
        made = ContextBuilder(Budget(100), format="openai-chat").add(
            Block("notes", [{"role": "user"}, {"role": "nobody"}])
        )
        with pytest.raises(InvalidInput, match=r"block 'notes', messages\[1\]"):
            await made.build()
        assert "block 'notes'" in made.report.error

    both_loops(main)


def test_tools_are_counted(both_loops):
    """Tool definitions take room, and come back as they were."""

    async def main():
        tool = {"type": "function", "function": {"name": "look", "description": "word " * 50, "parameters": {}}}
        messages = [{"role": "user", "content": "word " * 20} for _ in range(20)]
        made = ContextBuilder(Budget(200), format="openai-chat", tools=[tool])
        out = await made.add(Block("h", messages, evict=TruncateOldest())).build()
        assert out.tools == [tool]
        assert out.report.fixed_tokens > 50
        assert count(out.messages, tools=[tool], format="openai-chat") == out.report.tokens <= 200

    both_loops(main)
