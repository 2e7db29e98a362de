"""What happened to every message, computed from before and after."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, strategies as st

from agentctx import Message, Opaque, Text
from agentctx.changes import first_changed, match, shared


def native(text):
    payload = {"role": "user", "content": text}
    parts = (Text(text),)
    return Message.read("user", parts, payload)


def test_an_edited_message_is_recognised_by_its_payload():
    """Other words on the same payload are an edit, not a drop and an addition."""
    before = [native("a"), native("b")]
    after = [before[0], before[1].with_parts((Text("c"),))]
    found = match(before, after)
    assert ((1, 1),) == found.edited
    assert () == found.dropped == found.added
    assert found.first_changed == 1


def test_the_same_object_twice_is_told_apart_by_order():
    """A message that occurs twice and loses one occurrence is dropped once."""
    message = native("again")
    found = match([message, message], [message])
    assert (1,) == found.dropped


def test_nothing_changed_has_no_first_change():
    """Equal lists have no first changed position."""
    before = [native("a")]
    assert match(before, list(before)).first_changed is None


@given(st.lists(st.booleans(), max_size=30), st.lists(st.booleans(), max_size=30))
def test_kept_and_dropped_add_up(keep, edit):
    """Every message before is kept, edited or dropped, and nothing else is."""
    before = [native(str(index)) for index in range(len(keep))]
    edits = [*edit, *([False] * len(keep))]
    after = [
        message.with_parts((Text("new"),)) if edits[index] else message
        for index, message in enumerate(before)
        if keep[index]
    ]
    found = match(before, after)
    assert tuple(index for index, kept in enumerate(keep) if not kept) == found.dropped
    assert tuple(index for index, kept in enumerate(keep) if kept) == found.origins
    assert [origin for origin, _ in found.edited] == [i for i, kept in enumerate(keep) if kept and edits[i]]


@given(st.data())
def test_what_is_known_to_be_shared_need_not_be_compared(data):
    """Laid beside each other from the first other object on, two lists are told apart as from their start."""
    before = [native(str(index)) for index in range(data.draw(st.integers(0, 12)))]
    made = [native("new"), *(message.with_parts(message.parts) for message in before)]
    made += [message.with_parts((Text("edited"),)) for message in before]
    start = data.draw(st.integers(0, len(before)))
    after = [*before[:start], *data.draw(st.lists(st.sampled_from([*before, *made]), max_size=12))]
    naive = next(
        (place for place, (one, other) in enumerate(zip(before, after, strict=False)) if one is not other),
        min(len(before), len(after)),
    )
    assert naive == shared(before, after) >= start
    assert match(before, after, 0) == match(before, after, start) == match(before, after)
    assert match(before, after).first_changed == first_changed(before, after)
    assert len(match(before, after).origins) == len(after)


@given(st.permutations(range(6)))
def test_as_few_as_possible_have_moved(order):
    """In another order, those that stayed are a longest run of messages in their old order; nothing else is told."""
    before = [native(str(index)) for index in range(len(order))]
    found = match(before, [before[index] for index in order])
    moved = {origin for origin, _ in found.moved}
    still = [index for index in order if index not in moved]
    rising = (some for size in range(7) for some in combinations(order, size) if list(some) == sorted(some))
    assert still == sorted(still)
    assert len(still) == max(map(len, rising))
    assert all(order[place] == origin for origin, place in found.moved)
    assert () == found.edited == found.dropped == found.added == found.remade


def test_what_changes_places_where_much_went_has_moved():
    """The order of those that are left is told, however far from their old places they stand."""
    before = [native(str(index)) for index in range(6)]
    found = match(before, [before[5], before[4]])
    assert ((0, 1, 2, 3), 1) == (found.dropped, len(found.moved))


def test_messages_made_by_hand_are_matched_by_identity():
    """Without a payload nothing tells that one was made of the other."""
    one, other = Message("user", (Text("a"),)), Message("user", (Text("b"),))
    found = match([one], [other])
    assert ((0,), (0,), ()) == (found.dropped, found.added, found.edited)
    assert ((), (), 1) == ((found := match([one, other], [other, one])).dropped, found.added, len(found.moved))


MARK = Opaque("cachePoint", {"cachePoint": {"type": "default"}})


@pytest.mark.parametrize(("parts", "now"), [((), (MARK,)), ((MARK,), ()), ((MARK,), (MARK, MARK))])
def test_a_marker_alone_makes_another_object_that_says_the_same(parts, now):
    """Whether it comes, goes or is doubled; other words beside it, or another role, are an edit."""
    payload = {"role": "user"}
    message = Message.read("user", (Text("a"), *parts), payload)
    marked = Message.read("user", (Text("a"), *now), payload)
    assert (((0, 0),), (), None) == ((found := match([message], [marked])).remade, found.edited, found.first_changed)
    for other in (Message.read("user", (Text("b"), *now), payload), Message.read("tool", marked.parts, payload)):
        assert ((), ((0, 0),), 0) == ((found := match([message], [other])).remade, found.edited, found.first_changed)


@pytest.mark.parametrize(
    ("more", "told"), [({"cache_control": {"type": "ephemeral"}}, "remade"), ({"name": "b"}, "edited")]
)
def test_a_payload_with_more_in_it_says_something_else(more, told):
    """Also where what was read of it is the same; a cache marker alone says nothing."""
    message = native("a")
    other = message.replaced(Message.read("user", message.parts, {**message.source, **more}))
    found = match([message], [other])
    assert ((0, 0),) == getattr(found, told) == (*found.edited, *found.remade)


def test_everything_is_told_by_its_place_also_behind_what_stayed():
    """What was dropped, moved, edited, added and remade behind messages that are the same."""
    same = [native("first"), native("second")]
    one, two, three, four = (native(name) for name in "abcd")
    again = two.with_parts(two.parts)
    edit = three.with_parts((Text("other"),))
    made = Message("user", (Text("new"),))
    found = match([*same, one, two, three, four], [*same, again, edit, one, made])
    assert (2, (3, 4, 2, None), 2) == (found.start, found.later, found.first_changed)
    assert (((4, 3),), (5,), (5,)) == (found.edited, found.dropped, found.added)
    assert (((2, 4),), ((3, 2),)) == (found.moved, found.remade)


def test_an_object_that_occurs_twice_behind_what_stayed():
    """Each occurrence is taken for itself: the very object first, else the first of its payload."""
    first, message = native("first"), native("again")
    edit = message.with_parts((Text("other"),))
    found = match([first, message, message], [first, edit, message])
    assert ((1, 2), ((1, 1),), ()) == (found.later, found.edited, found.dropped)
    found = match([first, message, edit], [first, edit])
    assert ((2,), (), (1,)) == (found.later, found.edited, found.dropped)
    found = match([message, first, edit], [first, message])
    assert ((1, 0), (), (2,)) == (found.later, found.edited, found.dropped)
    found = match([first, message, message], [first, message, message, message])
    assert ((None,), (3,)) == (found.later, found.added)


def test_other_objects_that_say_the_same_at_the_start_are_remade():
    """They do not change the prefix, and are told."""
    before = [native("a"), native("b"), native("c")]
    after = [before[0], before[1].with_parts(before[1].parts), before[2]]
    found = match(before, after)
    assert (3, ((1, 1),), None) == (found.start, found.remade, found.first_changed)


def test_of_one_object_in_many_places_the_first_and_the_last_stay():
    """Where the same message stands many times, what went is taken for what stood between the first and the latest."""
    message = Message("user", (Text("again"),))
    found = match([message] * 60, [message] * 10)
    assert found.dropped == tuple(range(1, 51))
    assert found.origins == (0, *range(51, 60))
    assert (found.added, found.moved, found.edited) == ((), (), ())


def test_what_stands_before_an_object_that_comes_again_stays_as_it_was():
    """Only the end that both have may be later ones: what is before it is the same, and the cache holds it."""
    first, second, again, between = (native(name) for name in "abcd")
    found = match([first, second, again, between, again], [first, second, again])
    assert ((2, 3), (0, 1, 4), 2) == (found.dropped, found.origins, found.first_changed)
    found = match([first, again, second, again], [first, again])
    assert ((1, 2), (0, 3), 1) == (found.dropped, found.origins, found.first_changed)
    found = match([first, again, second, between], [first, again])
    assert ((2, 3), (0, 1), 2) == (found.dropped, found.origins, found.first_changed)


def test_an_object_that_was_there_is_itself_and_no_other_that_says_the_same():
    """Two readings of one payload: when the first goes, the second is there, and not the first remade."""
    task, payload, last = native("task"), native("go on"), native("and")
    one, other = (Message("user", (Text("go on"),), source=payload.source) for _ in range(2))
    found = match((task, one, other, last), (task, other, last))
    assert (found.dropped, found.remade) == ((1,), ())
