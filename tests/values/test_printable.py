"""Transcript text made safe for a terminal."""

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given, strategies as st

from agentctx.characters import calendar_time, escaped, on_one_line, printable, shown


def test_what_a_terminal_would_obey_becomes_a_picture():
    """Escape sequences, backspaces and direction overrides cannot reach the terminal."""
    assert printable("\x1b[2Ja\bb\u202ec\x9bd\x7f") == "␛[2Ja␈b\ufffdc\ufffdd␡"


def test_lone_surrogates_can_be_encoded():
    """Half a surrogate pair becomes the replacement character."""
    assert printable("a\ud83d!") == "a\ufffd!"


def test_line_breaks_stay_and_tabs_become_spaces():
    """Text keeps its lines."""
    assert printable("a\n\tb") == "a\n    b"


@given(st.text(st.characters(), max_size=60))
def test_every_text_can_be_written(text):
    """Whatever a transcript says, it can be encoded and obeys nobody."""
    safe = printable(text)
    safe.encode()
    assert all(letter == "\n" or letter.isprintable() or ord(letter) > 0x9F for letter in safe)


@given(st.text(max_size=200), st.integers(2, 40))
def test_one_line_is_one_line_of_at_most_the_width(text, width):
    """The short form has no line break and keeps to the width."""
    line = on_one_line(text, width)
    assert "\n" not in line
    assert len(line) <= width


def test_one_line_says_that_there_is_more():
    """A text that was cut ends with an ellipsis; one that was not does not."""
    assert on_one_line("one  two\nthree", 40) == "one two three"
    assert on_one_line("one two three four", 10) == "one two t…"
    assert on_one_line(" " * 100 + "x", 10) == "…"


HIDDEN = "\x7f\x85\x9b\u061c\u200e\u2028\u2029\u202e\u2066\ufeff\U000e0041\ud83d"


def test_what_hides_or_turns_text_around_is_shown():
    """C1 controls, marks of direction, line separators, tag characters and half characters reach nobody."""
    assert set(printable(HIDDEN)) == {"␡", "\ufffd"}


@given(st.text(st.characters() | st.sampled_from(HIDDEN), max_size=60))
def test_escaped_json_means_what_it_meant(text):
    """JSON with unsafe characters escaped is the same value, and holds none of them."""
    safe = escaped(json.dumps({"said": text}, ensure_ascii=False))
    safe.encode()
    assert json.loads(safe) == {"said": text}
    assert printable(safe) == safe


def test_an_escape_is_json():
    """A character beyond U+FFFF is written as two halves, half a one as it is."""
    assert escaped('"a\x9b\U000e0041\ud83d"') == r'"a\u009b\udb40\udc41\ud83d"'


ENDLESS: list[object] = []
ENDLESS.append(ENDLESS)


class Odd:
    """Cannot be shown."""

    def __repr__(self):
        raise ZeroDivisionError


@given(st.sampled_from([ENDLESS, Odd(), [Odd()], 10**5_000, [10**5_000], "x" * 10**6, {"a": "x" * 10**6}]))
def test_anything_is_shown_in_errors(value):
    """However long, deep or odd a value is, it is shown in a few characters."""
    assert 0 < len(shown(value)) <= 80


@given(
    st.one_of(st.integers(), st.text(max_size=50), st.booleans(), st.none(), st.lists(st.integers(0, 9), max_size=6))
)
def test_short_values_are_shown_as_python_writes_them(value):
    """What is short loses nothing."""
    assert shown(value) == repr(value)[:80]


@pytest.mark.parametrize("seconds", [0.0, 1.7e9, 2.0**41, -(2.0**41), 1e300, float("inf"), float("-inf"), float("nan")])
def test_a_time_that_no_calendar_has_is_told_all_the_same(seconds):
    """Any number of seconds is a time that is told in every time zone; what the calendar has is that time."""
    found = calendar_time(seconds)
    assert found.astimezone().isoformat()
    if seconds in (0.0, 1.7e9):
        assert found == datetime.fromtimestamp(seconds, UTC)
