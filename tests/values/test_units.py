"""Which messages stand or fall together."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from agentctx import Message, Opaque, Text, Thinking, ToolCall, ToolResult, units
from agentctx.unit import iter_units, seams, segments


def user(*parts):
    return Message("user", parts or (Text("do it"),))


def assistant(*parts):
    return Message("assistant", parts)


def call(call_id):
    return ToolCall(call_id, "read", "{}")


def result(call_id, role="tool"):
    return Message(role, (ToolResult(call_id, (Text("done"),)),))


def spans(messages):
    return [(unit.start, unit.stop) for unit in units(messages)]


def places(messages):
    return [tuple(unit.places) for unit in units(messages)]


def test_parallel_results_belong_to_their_turn():
    """An assistant turn and all results of its calls are one unit."""
    messages = [user(), assistant(call("a"), call("b")), result("a"), result("b"), assistant(Text("ok"))]
    assert [(0, 1), (1, 4), (4, 5)] == spans(messages)


def test_results_split_over_user_messages():
    """Results in several user messages still belong to the one turn that called."""
    messages = [assistant(call("a"), call("b")), result("a", "user"), result("b", "user"), user()]
    assert [(0, 3), (3, 4)] == spans(messages)


def test_a_run_of_assistant_messages_is_one_turn():
    """Neighbouring assistant messages are one turn, and the results after them answer the run."""
    messages = [assistant(Text("I look")), assistant(call("a")), result("a"), assistant(Text("done"))]
    assert [(0, 3), (3, 4)] == spans(messages)


def test_a_repeated_id_belongs_to_the_nearest_call():
    """When a call id occurs again, order decides: each result stays with the call before it."""
    messages = [assistant(call("x")), result("x"), assistant(call("x")), result("x")]
    assert [(0, 2), (2, 4)] == spans(messages)


def test_a_paused_server_tool_joins_the_turn_that_resumes():
    """A server tool that is still open binds the next assistant turn to this one."""
    opened = Opaque("server_tool_use", {}, opens="s1")
    closed = Opaque("web_search_tool_result", {}, closes="s1")
    messages = [user(), assistant(opened, call("a")), result("a", "user"), assistant(closed), user()]
    assert [(0, 1), (1, 4), (4, 5)] == spans(messages)


def test_what_a_server_tool_waits_for_takes_what_stands_between_along():
    """Its answer, and the calls that its code makes with their results, belong to its turn, however late they come."""
    opened, closed = (Opaque("server", {}, **{does: "s1"}) for does in ("opens", "closes"))
    called = assistant(ToolCall("a", "read", "{}", caller="s1"))
    assert [(0, 3), (3, 4)] == spans([assistant(opened), user(), assistant(closed), user()])
    assert [(0, 4), (4, 5)] == spans([assistant(opened), user(), called, result("a"), user()])
    messages = [assistant(opened, call("b")), user(), assistant(closed), result("b"), assistant(Text("so"))]
    assert [(0, 4), (4, 5)] == spans(messages)
    assert [(0, 1), (1, 2), (2, 3)] == spans([assistant(opened), user(), assistant(Opaque("server", {}, closes="s2"))])


def test_a_late_result_belongs_to_its_turn_and_what_stands_between_does_not():
    """A message of results that does not stand directly after its turn belongs to it, without what is between."""
    messages = [assistant(call("a"), call("b")), result("a"), user(), assistant(call("c")), result("b"), result("c")]
    assert [(0, 1, 4), (2,), (3, 5), (6,)] == places([*messages, user()])


def test_a_late_result_with_words_takes_what_stands_between_along():
    """Words beside a result, and results of several turns in one message, cannot stand with a turn by themselves."""
    worded = Message("user", (*result("a").parts, Text("and")))
    assert [(0, 1, 2)] == places([assistant(call("a")), user(), worded])
    both = Message("tool", (*result("a").parts, *result("b").parts))
    assert [(0, 1, 2, 3)] == places([assistant(call("a")), user(), assistant(call("b")), both])


def test_a_late_result_does_not_part_reasoning_from_what_it_led_to():
    """What stands between the messages of a turn and belongs to another one is as though it were not there."""
    messages = [assistant(call("a")), user(), assistant(Thinking("", "rs_1")), result("a"), assistant(Text("so"))]
    assert [(0, 3), (1,), (2, 4)] == places(messages)


def test_signed_reasoning_by_itself_binds_what_the_model_does_after_it():
    """Calls and results after a message of signed reasoning alone belong to it, up to a word or a new thought."""
    thought = assistant(Thinking("", "rs_1"))
    messages = [thought, assistant(call("a")), result("a"), assistant(call("b")), result("b")]
    assert [(0, 5), (5, 6)] == spans([*messages, assistant(Text("done"))])
    assert [(0, 5), (5, 8)] == spans([*messages, assistant(Thinking("", "rs_2")), assistant(call("c")), result("c")])


def test_reasoning_that_nobody_signed_binds_its_own_turn_only():
    """Unsigned reasoning, signed reasoning beside other parts, or nothing, does not reach beyond its turn's results."""
    for thought in (assistant(Thinking("hm")), assistant(Thinking("hm", "s"), Text("so")), assistant()):
        messages = [thought, assistant(call("a")), result("a"), assistant(call("b")), result("b")]
        assert [(0, 3), (3, 5)] == spans(messages)


def test_questions_go_with_their_answers():
    """A segment is the messages before a round and the round."""
    messages = [user(), assistant(call("a")), result("a"), user(), assistant(Text("x")), user()]
    groups = [[(unit.start, unit.stop) for unit in bundle] for bundle in segments(messages)]
    assert [[(0, 1), (1, 3)], [(3, 4), (4, 5)], [(5, 6)]] == groups


def test_segments_of_given_units_are_made_of_those():
    """Units that were worked out already are bundled as they are."""
    messages = [user(), assistant(Text("x")), user(), assistant(Text("y"))]
    assert segments(messages, units(messages)[:2]) == segments(messages)[:1]


def test_a_call_without_a_result_binds_nothing():
    """What follows a call that nobody answers is no part of its turn; nor is a second result for one call."""
    assert [(0, 1), (1, 2), (2, 3)] == spans([assistant(call("a")), user(), user()])
    assert [(0, 2), (2, 3)] == spans([assistant(call("a")), result("a"), result("a")])
    assert [(0, 3), (3, 4)] == spans([assistant(call("a"), call("a")), result("a"), result("a"), result("a")])


def test_a_server_tool_that_has_answered_binds_nothing():
    """What a turn opens and closes does not reach beyond the results of the turn."""
    opened, closed = Opaque("server", {}, opens="s1"), Opaque("server", {}, closes="s1")
    messages = [assistant(opened, closed, call("a")), result("a"), assistant(Text("so"))]
    assert [(0, 2), (2, 3)] == spans(messages)


def test_the_assistant_answers_no_call():
    """A result in an assistant message, where none belongs, does not make it a part of the turn before."""
    messages = [assistant(call("a"), call("b")), result("a"), assistant(*result("b").parts)]
    assert [(0, 2), (2, 3)] == spans(messages)


class Watched(list):
    """Messages that know which of them were read."""

    furthest, nearest = -1, 99

    def __getitem__(self, place):
        self.furthest, self.nearest = max(self.furthest, place), min(self.nearest, place)
        return super().__getitem__(place)


def test_units_that_are_taken_up_again_need_no_look_at_what_was():
    """Also where a result comes late, nothing before the start is read."""
    messages = Watched([user()] * 5 + [assistant(call("a")), user(), result("a")])
    assert (5, 8) == ((unit := units(messages, 5)[0]).start, unit.stop)
    assert messages.nearest == 5


@pytest.mark.parametrize("split", [True, False])
def test_results_that_follow_directly_need_no_look_at_the_rest(split):
    """Where the results stand after their turn, a unit is known from its messages and the next one."""
    answers = [result("a", "user"), result("b", "user"), result("a", "user")]
    if not split:
        answers = [Message("user", tuple(part for answer in answers for part in answer.parts))]
    messages = Watched([assistant(call("a"), call("b"), call("a")), *answers, *[user()] * 9])
    first = next(iter_units(messages))
    assert (first.stop, first.stop) == (1 + len(answers), messages.furthest)


PARTS = st.one_of(
    st.builds(Text, st.text(max_size=3)),
    st.builds(ToolCall, st.sampled_from("abc"), st.just("t"), st.just("{}")),
    st.builds(ToolResult, st.sampled_from("abc"), st.just((Text("r"),))),
    st.builds(Thinking, st.just("t"), st.sampled_from(["s", None])),
    st.builds(Opaque, st.just("server"), st.just({}), st.sampled_from(["s", None]), st.sampled_from(["s", None])),
)
MESSAGES = st.lists(
    st.builds(
        Message, st.sampled_from(["user", "assistant", "tool", "system"]), st.lists(PARTS, max_size=3).map(tuple)
    ),
    max_size=12,
)


@given(MESSAGES)
def test_units_tile_the_transcript(messages):
    """Each message is in one unit, and units stand by where they begin, whatever the transcript."""
    groups = units(messages)
    assert list(range(len(messages))) == sorted(place for unit in groups for place in unit.places)
    assert [unit.start for unit in groups] == sorted(unit.start for unit in groups)
    assert all((unit.places[0], unit.places[-1] + 1) == (unit.start, unit.stop) for unit in groups)
    assert all([messages[place] for place in unit.places] == list(unit.of(messages)) for unit in groups)


@given(MESSAGES)
def test_units_can_be_taken_up_again(messages):
    """The units from any place on in which none goes on are the same as those of the whole."""
    groups = units(messages)
    for seam in seams(groups):
        assert groups[[unit.start for unit in groups].index(seam) :] == units(messages, seam)


@given(MESSAGES)
def test_units_are_those_of_the_transcript_with_late_results_at_their_calls(messages):
    """Whole units taken out leave the others as they were, wherever their late results stand."""
    groups = units(messages)
    for gone in groups:
        rest = [place for place in range(len(messages)) if place not in set(gone.places)]
        left = [tuple(rest[place] for place in unit.places) for unit in units([messages[place] for place in rest])]
        known = {tuple(unit.places) for unit in groups if unit is not gone}
        assert all(any(set(one) <= set(other) for other in left) for one in known)


@pytest.mark.parametrize("length", [0, 1])
def test_short_transcripts(length):
    """No message gives no unit, one message gives one."""
    assert length == len(units([user()] * length))
