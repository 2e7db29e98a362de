"""Selecting under a token limit, and how much texts have to do with a task: what all that select by them rely on."""

from hypothesis import given, strategies as st

from agentctx.budget import each_that_fits, until_full
from agentctx.engine.relevance import coverage

SIZES = st.lists(st.integers(0, 50), max_size=30)
ROOM = st.integers(-5, 400)


@given(SIZES, ROOM)
def test_each_that_fits_leaves_no_room_for_what_is_passed_over(sizes, room):
    """What is taken keeps within the room and in order; what is passed over had no room when it came."""
    taken = each_that_fits(range(len(sizes)), sizes.__getitem__, room)
    assert taken == sorted(taken)
    assert sum(sizes[each] for each in taken) <= max(0, room)
    for each in set(range(len(sizes))) - set(taken):
        assert sizes[each] > room - sum(sizes[other] for other in taken if other < each)


@given(SIZES, ROOM)
def test_until_full_ends_at_the_first_that_does_not_fit(sizes, room):
    """What is taken is the beginning, and the next one would be too much."""
    taken = until_full(sizes, int, room)
    assert taken == sizes[: len(taken)]
    assert sum(taken) <= max(0, room)
    assert taken == sizes or sum(taken) + sizes[len(taken)] > room


@given(SIZES, ROOM, st.integers(0, 100))
def test_more_room_takes_no_less(sizes, room, more):
    """A larger room takes what a smaller one took, up to the first that does not fit."""
    taken = until_full(sizes, int, room)
    assert until_full(sizes, int, room + more)[: len(taken)] == taken


def test_nothing_is_looked_at_behind_the_first_that_does_not_fit():
    """The sizes of what stands behind it are never asked for."""
    asked = []
    until_full([3, 3, 3, 3], lambda size: asked.append(size) or size, 5)
    assert asked == [3, 3]


def test_coverage_is_the_share_of_the_words_of_a_task():
    """A text with all of the words has 1, one with none 0; a rare word counts for more than one that is everywhere."""
    whole, common, rare, none = coverage("read config", ["config to read", "read this", "the config", "weather"])
    assert (whole, none) == (1.0, 0.0)
    assert 0 < common == rare < 1
    common, rare, *_ = coverage("read config", ["read", "config", "read", "read on"])
    assert common < rare
    assert coverage("", ["a", "b"]) == coverage("?", ["a", "b"]) == [0.0, 0.0]
    assert coverage("a", []) == []
