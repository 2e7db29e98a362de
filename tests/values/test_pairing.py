"""Whether calls and results are whole pairs."""

import pytest
from hypothesis import given, strategies as st

from agentctx import Message, Opaque, Text, Thinking, ToolCall, ToolResult
from agentctx.unit import RoundRules, broken_pair, only_results, open_at_end, server_calls, tail_from, waits

ASKED = Message("assistant", (ToolCall("a", "read", "{}"),))
TOLD = Message("tool", (ToolResult("a", (Text("done"),)),))
ANYWHERE = RoundRules(merges_turns=True, results_anywhere=True)
BETWEEN = Message("developer", (Text("mind the gap"),))


def test_a_result_may_stand_apart_where_the_format_has_it_so():
    """Words between a call and its result break the pair, but for formats whose results may stand anywhere after."""
    apart = [ASKED, BETWEEN, TOLD]
    assert broken_pair(apart) is not None
    assert broken_pair(apart, ANYWHERE) is None


@pytest.mark.parametrize("messages", [[TOLD, ASKED], [ASKED, BETWEEN], [ASKED, TOLD, TOLD], [ASKED, ASKED, TOLD]])
def test_anywhere_is_still_once_and_after_the_call(messages):
    """A result before its call, twice, or not at all is a broken pair in every format."""
    assert broken_pair(messages) is not None
    assert broken_pair(messages, ANYWHERE) is not None


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


def whole(messages, rules):
    """The longest start of messages whose pairs are all whole."""
    return next(messages[:stop] for stop in range(len(messages), -1, -1) if not broken_pair(messages[:stop], rules))


@given(some_messages(), some_messages(), st.integers(0, 8), st.booleans(), st.booleans())
def test_what_was_whole_need_not_be_looked_at_again(before, new, kept, merges, anywhere):
    """Whatever follows the first messages of a whole transcript: looking from there finds what looking at all finds."""
    rules = RoundRules(merges_turns=merges, results_anywhere=anywhere)
    before = whole(before, rules)
    kept = min(kept, len(before))
    after = [*before[:kept], *new]
    assert broken_pair(after, rules) == broken_pair(after, rules, known=kept)


class Watched(list):
    """Messages that know which of them were read."""

    nearest = 99

    def __getitem__(self, place):
        self.nearest = min(self.nearest, place)
        return super().__getitem__(place)


@pytest.mark.parametrize(("known", "nearest"), [(15, 13), (14, 11), (2, 0), (1, 0)])
def test_what_was_whole_is_not_looked_at_again(known, nearest):
    """Only from the round on that the first unknown message may belong to, and what stands before it."""
    messages = Watched([ASKED, TOLD] * 9)
    assert broken_pair(messages, known=known) is None
    assert nearest == messages.nearest


def test_a_result_may_come_long_after_its_call():
    """Where results may stand anywhere, also a call among the messages that were whole is known."""
    told = Message("tool", (ToolResult("b", ()),))
    asked = Message("assistant", (ToolCall("b", "read", "{}", optional=True),))
    known = [asked, BETWEEN, Message("assistant", (Text("so"),)), BETWEEN]
    assert broken_pair([*known, told], ANYWHERE, known=len(known)) is None


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


@pytest.mark.parametrize(
    ("messages", "said"),
    [
        ([BETWEEN, ASKED], "messages[1]: the tool call 'a' has no tool result after it"),
        ([ASKED, BETWEEN, TOLD], "messages[0]: the tool call 'a' has no tool result after it"),
        ([BETWEEN, TOLD], "messages[1]: the tool result for 'a' does not follow its call"),
        ([BETWEEN, ASKED, ASKED], "messages[2]: the call id 'a' occurs twice in one turn"),
    ],
)
def test_a_broken_pair_is_named(messages, said):
    """By the index of the message and the id of the call."""
    assert said == broken_pair(messages)


def test_a_turn_is_answered_before_the_next_where_turns_are_not_merged():
    """A run of assistant messages may be answered as a whole only in formats that make one turn of it."""
    run = [ASKED, Message("assistant", (ToolCall("b", "read", "{}"),)), TOLD, Message("tool", (ToolResult("b", ()),))]
    assert broken_pair(run) is None
    assert broken_pair(run, RoundRules()) is not None
    assert broken_pair([ASKED, TOLD, *run], RoundRules(merges_turns=True)) is None


def test_a_message_without_parts_answers_nothing():
    """An empty message between a call and its result breaks the pair."""
    assert broken_pair([ASKED, Message("user", ()), TOLD]) is not None


def test_a_call_waits_until_it_has_its_result():
    """Each result answers one call; where both stand does not matter."""
    assert waits([ASKED])
    assert waits([ASKED, ASKED, TOLD])
    assert not waits([TOLD, ASKED])
    assert not waits([ASKED, TOLD, TOLD])
    assert not waits([])


def server(opens=None, closes=None):
    return Opaque("server", {}, opens=opens, closes=closes)


def turn(*parts):
    return Message("assistant", parts)


@pytest.mark.parametrize(
    ("messages", "found"),
    [
        ([turn(server("s"))], {"s"}),
        ([turn(server("s"), server("t")), turn(server(closes="s"))], {"t"}),
        ([turn(server("s")), turn(Text("so"))], {"s"}),
        ([turn(server("s"), ASKED.parts[0]), TOLD, TOLD], {"s"}),
        ([turn(server("s")), TOLD], {"s"}),
        ([turn(server("s")), TOLD, turn()], set()),
        ([turn(server("s")), TOLD, ASKED, turn(Text("so")), TOLD], {"s"}),
        ([turn(server("s")), BETWEEN, ASKED, TOLD], set()),
        ([turn(server(closes="s"))], set()),
        ([turn(server("s")), BETWEEN], set()),
        ([turn(server("s")), TOLD, turn(Text("so"))], set()),
        ([BETWEEN, turn(server("s"))], {"s"}),
        ([TOLD], set()),
        ([], set()),
    ],
)
def test_what_a_paused_server_may_still_answer(messages, found):
    """What the last assistant turn opened and did not close, or one before turns that only called tools."""
    assert found == open_at_end(messages)


def test_which_server_calls_nothing_answers():
    """All that any message opens; of them those that nothing behind them closes."""
    messages = [turn(server(closes="u"), server("s"), server("t")), TOLD, turn(server("u"), server(closes="s"))]
    assert ({"s", "t", "u"}, {"t", "u"}) == server_calls(messages)


THOUGHT, SETTING = turn(Thinking("hm")), Message("developer", (Opaque("setting", {}),))


@pytest.mark.parametrize(
    ("messages", "place"),
    [
        ([BETWEEN, ASKED], 1),
        ([BETWEEN, ASKED, TOLD], 3),
        ([BETWEEN, turn(*ASKED.parts, *ASKED.parts), TOLD], 1),
        ([BETWEEN, turn(server("s"))], 1),
        ([BETWEEN, THOUGHT], 1),
        ([BETWEEN, turn(Thinking("hm"), Text("so"))], 2),
        ([BETWEEN, turn()], 2),
        ([BETWEEN, SETTING], 1),
        ([BETWEEN, SETTING, SETTING], 1),
        ([BETWEEN, Message("user", (Opaque("setting", {}),))], 2),
        ([BETWEEN, ASKED, SETTING], 1),
        ([BETWEEN, ASKED, TOLD, TOLD], 4),
        ([BETWEEN, SETTING, TOLD], 1),
        ([BETWEEN, Message("user", ())], 2),
        ([], 0),
    ],
)
def test_the_end_that_depends_on_what_comes_next(messages, place):
    """Rounds that wait for results, reasoning that nothing follows, settings at the end; a stray result among them."""
    assert place == tail_from(messages)


def test_markers_are_neither_results_nor_words():
    """A message of results and cache markers has nothing but results."""
    assert only_results(Message("user", (*TOLD.parts, Opaque("cachePoint", {}))))
    assert not only_results(Message("user", (*TOLD.parts, Text("and?"))))
    assert only_results(Message("user", ()))


def test_a_turn_that_goes_on_before_all_results_are_there_is_broken():
    """The assistant may not speak between two results of one turn."""
    asked = Message("assistant", (ToolCall("a", "read", "{}"), ToolCall("b", "read", "{}")))
    second = Message("tool", (ToolResult("b", ()),))
    assert broken_pair([asked, TOLD, second, Message("assistant", (Text("so"),))]) is None
    assert broken_pair([asked, TOLD, Message("assistant", (Text("so"),)), second]) is not None
