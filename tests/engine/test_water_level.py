"""The cap that frees a number of tokens."""

from __future__ import annotations

from hypothesis import given, strategies as st

from agentctx import Call, Context, Message, Text, ToolResult
from agentctx.engine.shrink import shrink_results, water_level
from agentctx.tokens import HeuristicCounter
from agentctx.tokens.counting import MessageMeter


def freed(sizes, cap):
    return sum(max(0, size - cap) for size in sizes)


@given(st.lists(st.integers(0, 500), min_size=1, max_size=20), st.integers(1, 3_000))
def test_the_cap_is_the_largest_that_frees_enough(sizes, spare):
    """The cap frees what is asked, one more would not, and 0 is returned when nothing frees so much."""
    cap = water_level(sizes, spare)
    if sum(sizes) < spare:
        assert cap == 0
    else:
        assert freed(sizes, cap) >= spare
        assert freed(sizes, cap + 1) < spare


def test_results_below_the_cap_stay_as_they_are():
    """Of two results only the long one is cut and noted; the short one keeps its two blocks, also where it is alone."""
    short, long = (Message("tool", (ToolResult("c", (Text("one"), Text("word " * length))),)) for length in (1, 400))
    call, context = Call(MessageMeter(HeuristicCounter())), Context((short, long))
    after = shrink_results(context, [0, 1], 200, call, "too large")
    assert [new is old for new, old in zip(after.messages, context.messages, strict=True)] == [True, False]
    assert call.internals.notes.why(long).why.startswith("too large: results cut to ")
    assert not call.internals.notes.why(short).why
    assert shrink_results(context, [0], 200, call, "too large") is context
