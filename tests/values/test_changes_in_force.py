"""Every change that holds now, kept small."""

from __future__ import annotations

from copy import deepcopy

import pytest
from hypothesis import given, strategies as st

from agentctx import Budget, Change, FitContextWindow, Outcome, Pipeline
from agentctx.changes import ChangeLog, numbers
from agentctx.message import ROLES
from agentctx.testing import assistant, transcript, user

SIZES, USER = [10] * 60, [ROLES.index("user")] * 60
DROPS = st.lists(st.tuples(st.integers(0, 59), st.sampled_from(["old", "big"])), max_size=40, unique_by=lambda x: x[0])


def dropped(index, reason="old", handle=None):
    return Change(index, "user", Outcome.DROPPED, "Stage", reason, 10, 0, handle)


def edited(index):
    return Change(index, "user", Outcome.EDITED, "Cut", "long", 10, 5)


def marked(index, handle=None):
    return Change(index, "user", Outcome.MARKED, "Mark", "", 10, 10, handle)


@given(st.lists(DROPS, max_size=3))
def test_what_is_written_can_be_read(steps):
    """However the drops come, each message is named once, with its reason, in the order of the history."""
    book, told = ChangeLog(), {}
    for step in steps:
        new = [(index, reason) for index, reason in step if index not in told]
        told |= dict(new)
        book.write(dropped(index, reason) for index, reason in new)
    assert [dropped(index, told[index]) for index in sorted(told)] == list(book.snapshot(SIZES, USER))


def test_neighbours_are_one_line():
    """A thousand messages that leave together, in any number of steps, take one line."""
    book = ChangeLog()
    for start in range(0, 1_000, 100):
        book.write(dropped(index) for index in range(start, start + 100))
    assert len(book.spans) == 1
    assert len(book.snapshot(range(1_000), [0] * 1_000)) == 1_000


def test_an_edited_message_that_leaves_has_one_line():
    """The edit is forgotten when the message goes; where its original is kept is not."""
    book = ChangeLog()
    book.write([Change(3, "user", Outcome.EDITED, "Cut", "long", 10, 5, "handle of the original")])
    book.write([dropped(3, handle="handle of the cut one")])
    assert [dropped(3, handle="handle of the original")] == list(book.snapshot(SIZES, USER))


@given(DROPS, st.integers(0, 60))
def test_a_book_can_be_cut_back(drops, index):
    """Before an index stands what was said of messages before it."""
    book = ChangeLog()
    book.write(dropped(place, reason) for place, reason in drops)
    expected = [dropped(place, reason) for place, reason in sorted(drops) if place < index]
    assert expected == list(book.before(index).snapshot(SIZES, USER))


def test_a_book_that_is_cut_back_knows_nothing_of_what_came_later():
    """Edits, markers, handles and the ends of spans are those of messages before the index."""
    book = ChangeLog.of([edited(3), edited(4), marked(1), marked(2)], [], {})
    book.write(dropped(index, handle=f"h{index}") for index in range(5, 9))
    cut = book.before(7)
    assert [1, 2, 3, 4, 5, 6] == [change.index for change in cut.snapshot(SIZES, USER)]
    assert len(cut.snapshot(SIZES, USER)) == 6
    assert {5: "h5", 6: "h6"} == cut.handles
    assert [(5, 7)] == [(span.start, span.stop) for span in cut.spans]
    assert ([3], [1], []) == ([c.index for c in book.before(4).changes], [*book.before(2).marks], book.before(5).spans)


def test_a_copy_is_a_book_of_its_own():
    """What is written into a copy does not stand in the original, and the other way round."""
    book = ChangeLog.of([edited(1), marked(2)], [], {})
    book.write([dropped(3, handle="h")])
    copy = book.copy()
    assert book == copy
    copy.write([edited(5), marked(6), dropped(7, handle="g")])
    assert [1, 2, 3] == [change.index for change in book.snapshot(SIZES, USER)]
    assert [1, 2, 3, 5, 6, 7] == [change.index for change in copy.snapshot(SIZES, USER)]
    assert ({3: "h"}, {3: "h", 7: "g"}) == (book.handles, copy.handles)


def test_a_marker_is_forgotten_when_it_is_gone():
    """A message whose markers are its own again has no line; one that leaves has one, with its first handle."""
    book = ChangeLog()
    book.write([marked(1, "first"), marked(2, "first"), marked(3, "first")])
    book.write([marked(2, "second"), Change(1, "user", Outcome.KEPT, "Mark", "", 10, 10), dropped(3)])
    assert [marked(2, "first"), dropped(3, handle="first")] == list(book.snapshot(SIZES, USER))
    assert [marked(2, "first")] == book.lines()


def test_a_book_holds_the_lines_that_it_is_made_of():
    """Changes, spans and handles, as after a load."""
    book = ChangeLog()
    book.write([edited(1), marked(2), *(dropped(index, handle="h") for index in (4, 5))])
    assert book == ChangeLog.of(book.lines(), list(book.spans), dict(book.handles))


def test_handles_are_those_of_what_is_gone():
    """The handle of an edited message that stays is its line's alone; markers that were never moved can stay."""
    book = ChangeLog()
    cut = Change(3, "user", Outcome.EDITED, "Cut", "long", 10, 5, "cut")
    book.write([cut, Change(1, "user", Outcome.KEPT, "Mark", "", 10, 10)])
    book.write([dropped(5, handle="gone")])
    assert ({5: "gone"}, [cut]) == (book.handles, book.lines())


def test_what_was_added_is_told_by_those_who_made_it():
    """A message that is none of the history has no line in the book: it is added to a snapshot."""
    added = Change(2, "user", Outcome.ADDED, "Stage", "", 0, 5)
    book = ChangeLog()
    book.write([added, edited(1)])
    assert [edited(1)] == book.lines()
    book = ChangeLog()
    book.write([added])
    assert ([], [added]) == (list(book.snapshot(SIZES, USER)), list(book.snapshot(SIZES, USER, [added])))


def test_other_sizes_are_told_from_the_first_to_the_last():
    """When another model counts, the changes of each message lead from size to size anew, in proportion between."""
    steps = [(1, 100, 40), (3, 10, 5), (1, 40, 30), (1, 30, 20)]
    book = ChangeLog.of([Change(at, "user", Outcome.EDITED, "Cut", "", one, two) for at, one, two in steps], [], {})
    book.write([marked(2)])
    book.recount([7, 50, 30, 20], {1: 12, 2: 31, 3: 9})
    told = [(change.index, change.tokens_before, change.tokens_after) for change in book.lines()]
    assert [(1, 50, 20), (3, 20, 9), (1, 20, 15), (1, 15, 12), (2, 30, 31)] == told


def test_numbers_are_kept_small():
    """Four bytes a number, none negative."""
    assert (4, [1, 2]) == (numbers([1, 2]).itemsize, list(numbers([1, 2])))
    assert len(numbers()) == 0
    with pytest.raises(OverflowError):
        numbers([-1])


@pytest.mark.anyio
async def test_a_report_has_the_sizes_of_the_moment():
    """Messages that the caller changes after the step change nothing in its report."""
    messages = transcript(
        "openai-chat", *[turn for number in range(300) for turn in (user(f"{number}?"), assistant("Yes."))]
    )
    pipeline = Pipeline(FitContextWindow(), budget=Budget(500))
    before = (await pipeline.prepare(deepcopy(messages))).report
    report = (await pipeline.prepare(messages)).report
    for message in messages:
        message["content"] = "changed " * 20
    assert report.changes == before.changes
    assert report.in_force == before.in_force
    assert report.tokens_before == before.tokens_before > report.tokens_after
