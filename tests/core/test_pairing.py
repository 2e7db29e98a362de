"""Whether calls and results are whole pairs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agentctx.core.message import Message
from agentctx.core.pairing import broken_pair
from agentctx.core.parts import Opaque, Text, ToolCall, ToolResult

ASKED = Message("assistant", (ToolCall("a", "read", "{}"),))
TOLD = Message("tool", (ToolResult("a", (Text("done"),)),))
BETWEEN = Message("developer", (Text("mind the gap"),))


def test_a_result_may_stand_apart_where_the_format_has_it_so():
    """Words between a call and its result break the pair, but for formats whose results may stand anywhere after."""
    apart = [ASKED, BETWEEN, TOLD]
    assert broken_pair(apart) is not None
    assert broken_pair(apart, results_anywhere=True) is None


@pytest.mark.parametrize("messages", [[TOLD, ASKED], [ASKED, BETWEEN], [ASKED, TOLD, TOLD], [ASKED, ASKED, TOLD]])
def test_anywhere_is_still_once_and_after_the_call(messages):
    """A result before its call, twice, or not at all is a broken pair in every format."""
    assert broken_pair(messages) is not None
    assert broken_pair(messages, results_anywhere=True) is not None


def some_messages():
    """Messages with calls and results of few ids, so that they meet."""
    ids = st.sampled_from("ab")
    answer = (Text("done"),)
    said = st.builds(Text, st.just("on"))
    calls = st.builds(ToolCall, ids, st.just("read"), st.just("{}"), optional=st.booleans())
    results = st.builds(ToolResult, ids, st.just(answer))
    said |= st.just(Opaque("cachePoint", {}))
    turns = st.builds(Message, st.just("assistant"), st.lists(st.one_of(said, calls), max_size=2).map(tuple))
    told = st.builds(Message, st.just("user"), st.lists(st.one_of(said, results), max_size=2).map(tuple))
    return st.lists(st.one_of(turns, told), max_size=8)


def whole(messages, **rules):
    """The longest start of messages whose pairs are all whole."""
    return next(messages[:stop] for stop in range(len(messages), -1, -1) if not broken_pair(messages[:stop], **rules))


@given(some_messages(), some_messages(), st.integers(0, 8), st.booleans(), st.booleans())
def test_what_was_whole_need_not_be_looked_at_again(before, new, kept, merges, anywhere):
    """Whatever follows the first messages of a whole transcript: looking from there finds what looking at all finds."""
    rules = {"merges_turns": merges, "results_anywhere": anywhere}
    before = whole(before, **rules)
    kept = min(kept, len(before))
    after = [*before[:kept], *new]
    assert broken_pair(after, **rules) == broken_pair(after, **rules, known=kept)


def test_a_cache_marker_between_results_breaks_no_pair():
    """A marker says nothing: it may stand between the results of a turn."""
    asked = Message("assistant", (ToolCall("a", "read", "{}"), ToolCall("b", "read", "{}")))
    point = {"cachePoint": {"type": "default"}}
    told = [Message("user", (ToolResult(name, ()), Opaque("cachePoint", point))) for name in "ab"]
    assert broken_pair([asked, *told]) is None
    assert broken_pair([asked, told[0]]) is not None


def test_a_call_that_may_wait_does_not_excuse_a_later_one():
    """A call that has to be answered has to be, also when an earlier one of the same id did not."""
    asked = Message("assistant", (ToolCall("a", "read", "{}", optional=True),))
    assert broken_pair([asked]) is None
    assert broken_pair([asked, TOLD, ASKED]) is not None
