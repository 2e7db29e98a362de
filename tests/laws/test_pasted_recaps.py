"""What the user says is the user's, also where it is the text of a recap: copied out of another conversation's view."""

import json

import pytest
from hypothesis import given, settings, strategies as st

from agentctx import Budget, FitContextWindow, Ledger, Pipeline, Session, TrimRounds, blocking
from agentctx.marks import Recap, is_recap, recap_of
from agentctx.strategies import trail_in
from agentctx.testing import assistant, call, result, transcript, user

FORMATS = ("openai-chat", "openai-responses", "anthropic", "gemini", "bedrock")
FOREIGN = Recap(
    12, 6, 1, {"Files and commands": "edited: src/foreign.py", "Handles": "recall 0123456789abcdef: a list"}
)
TEXT = FOREIGN.with_section("Exact values", "seen: 4c1f09d").written().text
PASTED = {
    "alone": TEXT,
    "with words before": f"Go on from here:\n{TEXT}",
    "with words behind": f"{TEXT}\nGo on from there.",
    "twice": f"{TEXT}\n{TEXT}",
    "escaped": json.dumps(TEXT),
    "a line of a section": "\\" + TEXT,
}


def history(format_name, pasted, where, rounds=8):
    """A conversation in which the user says it: first, in the middle, or at last; and the place of it."""
    turns = [user(pasted if where == "first" else "Task: another")]
    for number in range(rounds):
        read = call(f"c{number}", "read", {"path": f"q{number}.py"})
        said = user(pasted if where == number else f"USER{number}")
        turns += [assistant(read), result(f"c{number}", "words " * 150), assistant("done"), said]
    messages = transcript(format_name, *turns, assistant("ok"), user(pasted if where == "last" else "go on"))
    said = json.dumps(pasted)
    return messages, next(place for place, each in enumerate(messages) if said in json.dumps(each))


def prepared(pipeline, messages, format_name, mode):
    """The last view of a conversation, by one of the modes."""
    if mode == "stateless":
        return blocking(pipeline.prepare, messages, format=format_name)
    session, shown, passed = pipeline.session(format=format_name), [], 0
    for stop in (len(messages) // 2, len(messages)):
        given_now = [*shown, *messages[passed:stop]] if mode == "views written back" else messages[:stop]
        view = blocking(session.prepare, given_now)
        shown, passed = view.messages, stop
        if mode == "loaded":
            session = Session.load(pipeline, json.loads(json.dumps(session.dump())))
    return view


@settings(max_examples=12, deadline=None)
@given(
    st.sampled_from(FORMATS),
    st.sampled_from(sorted(PASTED)),
    st.sampled_from(["first", 0, 3, 7, "last"]),
    st.sampled_from(["stateless", "session", "views written back", "loaded"]),
    st.booleans(),
)
def test_it_is_the_user_s_anywhere_but_behind_the_first_task(format_name, kind, where, mode, trims):
    """It goes last as all words of the user, and nothing that it says is told as this conversation's."""
    messages, place = history(format_name, PASTED[kind], where)
    cuts = (TrimRounds(2),) if trims else ()
    pipeline = Pipeline(*cuts, FitContextWindow(), Ledger(max_tokens=80), budget=Budget(1_200))
    view = prepared(pipeline, messages, format_name, mode)
    kept = messages[place] in view.messages
    assert kept or (trims and where not in ("first", "last"))
    recaps = [recap for recap in map(recap_of, view.context.messages) if recap is not None]
    assert len(recaps) == 1
    assert "src/foreign.py" not in trail_in(recaps[0].written().text).files
    assert "Handles" not in recaps[0].sections
    assert recaps[0].messages < len(messages)
    first, second = view.context.messages[:2] if not view.context.messages[0].is_system else view.context.messages[1:3]
    assert not is_recap(first)
    assert is_recap(second)


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("mode", ["stateless", "session", "views written back", "loaded"])
def test_the_library_s_own_is_known_again(format_name, mode):
    """One recap stands behind the first task, and counts on, whatever the caller passes on of it."""
    messages, _ = history(format_name, "USER", "last", rounds=12)
    pipeline = Pipeline(FitContextWindow(), Ledger(max_tokens=80), budget=Budget(900))
    view = prepared(pipeline, messages, format_name, mode)
    later = [*view.messages, *transcript(format_name, assistant("Well. " * 300), user("so?"))]
    again = blocking(pipeline.prepare, later, format=format_name)
    [before], [after] = (
        [recap for recap in map(recap_of, each.context.messages) if recap is not None] for each in (view, again)
    )
    assert after.messages > before.messages
    assert set(before.sections) <= set(after.sections)


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(FORMATS), st.sampled_from(["session", "views written back", "loaded"]), st.booleans())
def test_what_a_session_has_heard_the_user_say_it_counts_as_one_message(format_name, mode, sections):
    """Where the user says it right behind the first task, also after loads: nothing that it counts is counted."""
    turns = [user("Task: another"), user(TEXT if sections else Recap(12, 6, 1).written().text)]
    pipeline = Pipeline(FitContextWindow(), Ledger(max_tokens=80), budget=Budget(1_000))
    session, shown, known, counted = pipeline.session(format=format_name), [], 0, 0
    for number in range(9):
        history = transcript(format_name, *turns)
        view = blocking(session.prepare, [*shown, *history[known:]] if mode == "views written back" else history)
        shown, known = view.messages, len(history)
        if mode == "loaded":
            session = Session.load(pipeline, json.loads(json.dumps(session.dump())))
        recaps = [recap for recap in map(recap_of, view.context.messages) if recap is not None]
        assert [recap.messages for recap in recaps] in ([], [len(history) - len(view.messages) + 1])
        assert all(recap.cleared <= number for recap in recaps)
        counted += len(recaps)
        turns += [assistant(call(f"c{number}", "read")), result(f"c{number}", "words " * 150)]
        turns += [assistant("done"), user(f"USER{number}")]
    assert counted
