"""Every change that holds now, kept small."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentctx import Change, Outcome
from agentctx.core.ledger import ROLES, Book

SIZES, USER = [10] * 60, [ROLES.index("user")] * 60
DROPS = st.lists(st.tuples(st.integers(0, 59), st.sampled_from(["old", "big"])), max_size=40, unique_by=lambda x: x[0])


def dropped(index, reason="old", handle=None):
    return Change(index, "user", Outcome.DROPPED, "Stage", reason, 10, 0, handle)


@given(st.lists(DROPS, max_size=3))
def test_what_is_written_can_be_read(steps):
    """However the drops come, each message is named once, with its reason, in the order of the history."""
    book, told = Book(), {}
    for step in steps:
        new = [(index, reason) for index, reason in step if index not in told]
        told |= dict(new)
        book.write(dropped(index, reason) for index, reason in new)
    assert [dropped(index, told[index]) for index in sorted(told)] == list(book.snapshot(SIZES, USER))


def test_neighbours_are_one_line():
    """A thousand messages that leave together, in any number of steps, take one line."""
    book = Book()
    for start in range(0, 1_000, 100):
        book.write(dropped(index) for index in range(start, start + 100))
    assert len(book.spans) == 1
    assert len(book.snapshot(range(1_000), [0] * 1_000)) == 1_000


def test_an_edited_message_that_leaves_has_one_line():
    """The edit is forgotten when the message goes; where its original is kept is not."""
    book = Book()
    book.write([Change(3, "user", Outcome.EDITED, "Cut", "long", 10, 5, "handle of the original")])
    book.write([dropped(3, handle="handle of the cut one")])
    assert [dropped(3, handle="handle of the original")] == list(book.snapshot(SIZES, USER))


@given(DROPS, st.integers(0, 60))
def test_a_book_can_be_cut_back(drops, index):
    """Before an index stands what was said of messages before it."""
    book = Book()
    book.write(dropped(place, reason) for place, reason in drops)
    expected = [dropped(place, reason) for place, reason in sorted(drops) if place < index]
    assert expected == list(book.before(index).snapshot(SIZES, USER))
