"""What survives without being asked for."""

import re

import pytest
from hypothesis import given, strategies as st

from agentctx import ConfigError, Media, Message, Opaque, Text, ToolCall, ToolResult
from agentctx.unit import (
    always,
    first_task,
    has_user_words,
    is_user_turn,
    last_words,
    pending,
    places_of,
    system_messages,
    unread,
    words,
)

IDS = st.sampled_from("ab")
PARTS = st.one_of(
    st.builds(Text, st.just("on")),
    st.builds(ToolCall, IDS, st.just("read"), st.just("{}"), optional=st.booleans()),
    st.builds(ToolResult, IDS, st.just((Text("done"),)), interim=st.booleans()),
)
ROLES = st.sampled_from(("system", "developer", "user", "assistant", "tool"))
MESSAGES = st.lists(st.builds(Message, ROLES, st.lists(PARTS, max_size=3).map(tuple)), max_size=10)


@given(MESSAGES, st.integers(0, 10))
def test_the_end_of_a_transcript_tells_what_survives_of_it(messages, start):
    """What survives from a place on is the same whether what stands before it is looked at or not."""
    late = {index for index in always(messages) if index >= start}
    assert always(messages, start) == late | set(first_task(messages))


TASK, BLANK, PICTURE = Text("do it"), Text(" \n"), Media("image")
ASKED, ANSWER = ToolCall("a", "read", "{}"), ToolResult("a", (Text("done"),))
MARKER = Opaque("cachePoint", {"cachePoint": {"type": "default"}})


def said(role, *parts):
    return Message(role, parts)


@pytest.mark.parametrize(
    ("parts", "turn", "something"),
    [
        ((TASK,), True, True),
        ((PICTURE,), True, True),
        ((ANSWER, TASK), True, True),
        ((BLANK,), True, False),
        ((ANSWER, BLANK), True, False),
        ((ANSWER,), False, False),
        ((MARKER,), False, False),
        ((ANSWER, MARKER), False, False),
        ((), False, False),
    ],
)
def test_the_user_speaks_in_what_is_no_tool_result(parts, turn, something):
    """Tool results and cache markers are no words; a blank text is a turn in which nothing is said."""
    assert (turn, something) == (is_user_turn(said("user", *parts)), has_user_words(said("user", *parts)))
    assert not is_user_turn(said("tool", *parts))
    assert not has_user_words(said("developer", *parts))
    assert words(said("user", *parts)) == tuple(part for part in parts if part not in (ANSWER, MARKER))


TALK = [
    said("user", BLANK),
    said("system", TASK),
    said("user", TASK),
    said("assistant", ASKED),
    said("user", ANSWER),
    said("user", PICTURE),
    said("developer", TASK),
    said("user", ANSWER, TASK),
    said("assistant", TASK),
    said("user", ANSWER),
    said("user", BLANK),
    said("user", BLANK, ANSWER),
    said("tool", ANSWER),
]


def test_what_survives_of_a_talk():
    """System messages, the first and the last turn, and the first and the last in which the user says something."""
    assert {0, 1, 2, 6, 7, 11} == always(TALK)
    assert ([1, 6], [2]) == (system_messages(TALK), first_task(TALK))
    assert ([7], [7, 5], [7, 5, 2]) == (last_words(TALK), last_words(TALK, 2), last_words(TALK, 9))


def test_the_first_and_the_last_message_may_be_the_users_words():
    """They are found at both ends, and in a transcript of one message."""
    assert [0] == last_words([said("user", TASK), said("assistant", TASK)]) == last_words([said("user", TASK)])
    assert [2] == last_words([said("user", TASK), said("assistant", TASK), said("user", TASK)])
    assert {0, 2} == always([said("user", TASK), said("assistant", TASK), said("user", BLANK)])
    assert {0, 1} == always([said("user", TASK), said("user", BLANK)])
    assert frozenset() == always([]) == always([said("assistant", TASK)])


def test_results_after_the_models_last_message_are_unread():
    """Whatever stands between them; latest first."""
    assert [12, 11, 9] == unread(TALK)
    assert [] == unread(TALK[:9]) == unread([])
    assert [0] == unread([said("tool", ANSWER)])


def test_what_waits_for_an_answer_is_pending():
    """Approval that nobody has given yet, and a result of which the last word is missing."""
    asks = said("assistant", ToolCall("a", "read", "{}", optional=True))
    interim = said("tool", ToolResult("a", (), interim=True))
    assert [0] == pending([asks])
    assert [] == pending([asks, said("tool", ANSWER)]) == pending([asks, said("assistant", ASKED)])
    assert [1] == pending([asks, asks]) == pending([asks, interim])
    assert [2] == pending([said("assistant", ASKED), interim, interim])
    assert [] == pending([said("assistant", ASKED), interim, said("tool", ANSWER)])


@pytest.mark.parametrize("gave", [None, 3, "12", [1, "2"], [1.0]])
def test_a_rule_that_gives_no_indexes_is_refused(gave):
    """The error names the rule and shows what it gave; any iterable of whole numbers is taken."""
    with pytest.raises(ConfigError, match=rf"protect: the rule .* gave {re.escape(repr(gave))}"):
        places_of(lambda _: gave, ())
    assert [1, 2] == places_of(lambda _: iter((1, 2)), ())
