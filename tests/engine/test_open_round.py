"""What must stay is larger than the limit: the results of the round that the model is in give way."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from agentctx import Call, Context, Message, Text, ToolCall, ToolResult
from agentctx.engine.cut import lay_out, shrink_open_round
from agentctx.protocols import inside
from agentctx.tokens import HeuristicCounter
from agentctx.tokens.counting import MessageMeter

CALL = Call(MessageMeter(HeuristicCounter()))


def in_a_round(*lengths):
    """A task, and a round whose calls got results of so many words."""
    calls = tuple(ToolCall(f"c{number}", "read", "{}") for number in range(len(lengths)))
    results = [ToolResult(f"c{number}", (Text("word " * length),)) for number, length in enumerate(lengths)]
    answers = [Message("tool", (each,)) for each in results]
    return Context((Message("user", (Text("the task"),)), Message("assistant", calls), *answers))


def held(context):
    return sum(CALL.meter.parts(message.results) for message in context.messages)


@given(st.lists(st.integers(1_500, 4_000), min_size=1, max_size=4), st.integers(900, 1_400))
def test_the_results_fill_half_of_their_room(lengths, limit):
    """They are cut to half of what the rest leaves, no further than the cut of a text is exact, and no other part."""
    context = in_a_round(*lengths)
    shrunk, room = shrink_open_round(context, limit, CALL)
    half = (limit - CALL.size(context) + held(context)) // 2
    assert 0.9 * half < held(shrunk) <= half
    assert context.messages[:2] == shrunk.messages[:2]
    assert CALL.size(shrunk) == room.size


def test_what_fits_exactly_stays():
    """A round that takes all of the limit is not over it."""
    context = in_a_round(700)
    assert context is shrink_open_round(context, CALL.size(context), CALL)[0]
    assert context is not shrink_open_round(context, CALL.size(context) - 1, CALL)[0]


def spoken_behind(length):
    """A round whose result nobody has read, with two messages of the user behind it."""
    context = in_a_round(length)
    return context.with_messages((*context.messages, *(Message("user", (Text(text),)) for text in ("wait", "go on"))))


def test_what_was_said_behind_an_unread_result_is_no_part_of_it():
    """The round stays, and the latest words; the others may go."""
    assert lay_out(spoken_behind(9), CALL, unread=True).staying == {0, 1, 2, 4}


def test_a_result_that_nobody_has_read_stays_when_it_is_cut():
    """What is laid out after the cut keeps the round as well."""
    shrunk, room = shrink_open_round(spoken_behind(3_000), 1_000, CALL)
    assert CALL.size(shrunk) == room.size < 1_000
    assert room.staying == {0, 1, 2, 4}


@pytest.mark.parametrize(("count", "held"), [(9, 4), (16, 8), (19, 9)])
def test_of_very_many_late_results_half_are_let_go_at_a_time(count, held):
    """Where more than eight do not all fit, few tries must do."""
    asks = [
        Message("assistant", (ToolCall(f"c{each}", "read", f'{{"path": "{"x " * 300}"}}'),)) for each in range(count)
    ]
    answers = [Message("tool", (ToolResult(f"c{each}", (Text("so"),)),)) for each in range(count)]
    rounds = [message for pair in zip(asks, answers, strict=True) for message in pair]
    context = Context((Message("user", (Text("the task"),)), *rounds, Message("user", (Text("go on"),))))
    call = inside(CALL, late=lambda: frozenset(message.identity for message in answers))
    shrunk, room = shrink_open_round(context, CALL.size(context) - 1, call)
    assert shrunk is context
    assert len(room.unread) == held


@pytest.mark.parametrize(
    ("limit", "staying"), [(500, {0, 1, 2, 3, 4, 5, 6, 7}), (400, {0, 3, 4, 5, 6, 7}), (250, {0, 5, 6, 7})]
)
def test_of_late_results_the_latest_stay_that_fit_when_they_are_cut(limit, staying):
    """Those before them may go with their rounds, and are not cut."""
    asks = [Message("assistant", (ToolCall(f"c{each}", "read", f'{{"path": "{"x " * 300}"}}'),)) for each in range(3)]
    answers = [Message("tool", (ToolResult(f"c{each}", (Text("word " * 2_000),)),)) for each in range(3)]
    rounds = [message for pair in zip(asks, answers, strict=True) for message in pair]
    context = Context((Message("user", (Text("the task"),)), *rounds, Message("user", (Text("go on"),))))
    call = inside(CALL, late=lambda: frozenset(message.identity for message in answers))
    shrunk, room = shrink_open_round(context, limit, call)
    assert (room.staying, len(room.unread)) == (staying, len(staying) // 2 - 1)
    assert room.floor <= limit
    assert [at for at in range(8) if shrunk.messages[at] is not context.messages[at]] == sorted(staying & {2, 4, 6})
