"""A text that is cut again, and again: what stays are its own words in order, and the markers tell the truth."""

import re

import pytest
from hypothesis import given, strategies as st

from agentctx import Text
from agentctx.engine.shrink import Cut, cut_to_chars as cut_text_to_chars, cut_to_tokens as cut_text_to_tokens
from agentctx.marks import mark, spans_of, without_marks
from agentctx.message import Mark
from agentctx.tokens import HeuristicCounter

COUNTER = HeuristicCounter()
MARKER = re.compile(r"\n\[… ([\d,]+) characters omitted …\]\n")
WHOLE = "".join(f"{number} " for number in range(3000))


def cut_to_chars(text, most, cut):
    """A text without marks, cut."""
    return cut_text_to_chars(Text(text), most, cut).text


def cut_to_tokens(text, most, counter, cut):
    """The same in tokens."""
    return cut_text_to_tokens(Text(text), most, counter, cut).text


def cuts():
    """Caps in characters or tokens, and which end stays."""
    return st.tuples(st.booleans(), st.integers(1, 5000), st.sampled_from(["head", "tail", "both"]))


@given(st.lists(cuts(), min_size=1, max_size=4))
def test_cuts_of_cuts(all_of_them):
    """No marker is cut in two; what it says was left out, and what stays, add up to the text."""
    text = Text(WHOLE)
    for in_tokens, cap, keep in all_of_them:
        cut = Cut(keep)
        text = cut_text_to_tokens(text, cap, COUNTER, cut) if in_tokens else cut_text_to_chars(text, cap, cut)
        assert COUNTER.count(text.text) <= cap if in_tokens else len(text.text) <= cap
    text = text.text
    pieces = MARKER.split(text)[::2]
    place = 0
    for piece in pieces:
        assert piece in WHOLE[place:]
        place = WHOLE.index(piece, place) + len(piece)
    if MARKER.search(text):
        left_out = sum(int(number.replace(",", "")) for number in MARKER.findall(text))
        assert left_out <= len(WHOLE) - sum(map(len, pieces))


OURS = [
    Cut().mark(12345),
    Cut().pointing("; recall 3fa94c00d1b2e6a7").mark(789),
    Cut().pointing("; recall 3fa94c00d1b2e6a7#2").mark(1),
    "\n[old tool result cleared; recall 3fa94c00d1b2e6a7]\n",
    "\n[offloaded: text of 12 lines, 8,500 characters; recall 3fa94c00d1b2e6a7]\n",
    "\n[12 lines left out; recall 3fa94c00d1b2e6a7]\n",
    "\n" + mark('output of "read a.py"', 0, ["one line"]).text + "\n",
]
"""What stages write into a text in the place of what they leave out."""


@given(
    st.lists(st.sampled_from([*OURS, "some words of it " * 9, "and so on "]), min_size=2, max_size=6),
    st.lists(cuts(), min_size=1, max_size=3),
    st.sampled_from(["", "; recall 0123456789abcdef"]),
)
def test_nothing_that_was_written_into_a_text_is_cut_in_two(pieces, all_of_them, pointer):
    """Markers, previews, references and handles are there whole, or not at all, and never one within the other."""
    text = Text("".join(pieces), marks=tuple(Mark(each, 99) for each in OURS for _ in pieces))
    for in_tokens, most, keep in all_of_them:
        cut, cap = Cut(keep).pointing(pointer), most % 150
        text = cut_text_to_tokens(text, cap, COUNTER, cut) if in_tokens else cut_text_to_chars(text, cap, cut)
        assert COUNTER.count(text.text) <= cap if in_tokens else len(text.text) <= cap
    assert not re.search(r"[^a-z \n]", without_marks(text))


class Quarters:
    """Counts four characters as a token, rounded down, so that a whole has more tokens than its pieces together."""

    def count(self, text):
        return len(text) // 4


@pytest.mark.parametrize("keep", ["head", "tail", "both"])
def test_a_cut_is_exact_where_pieces_count_less_than_their_whole(keep):
    """What is cut has as many tokens as it may, and not one more."""
    cut = {most: cut_to_tokens(WHOLE, most, Quarters(), Cut(keep)) for most in range(20, 60)}
    assert {most: Quarters().count(text) for most, text in cut.items()} == {most: most for most in cut}


def test_the_number_of_an_earlier_cut_is_added():
    """A marker that is left out with its text passes its number on."""
    once = cut_text_to_chars(Text(WHOLE), 1000, Cut())
    twice = cut_text_to_chars(once, 300, Cut()).text
    (said,) = MARKER.findall(twice)
    assert int(said.replace(",", "")) == len(WHOLE) - len(MARKER.sub("", twice))


def test_a_marker_without_words_is_not_looked_for():
    """Numbers in a text are no markers; a marker may be empty."""
    assert cut_to_chars("1,234 5,678 9", 8, Cut("head", "{omitted}")) == "1,234 7"
    assert cut_to_chars("0123456789", 4, Cut("head", "")) == "0123"


def marked(text, number):
    """A text with the marker of an earlier cut in it."""
    return Text(text, marks=(Mark(Cut().mark(number), number),))


def test_a_marker_within_what_stays_is_left_alone():
    """An earlier marker has nothing to do with a cut elsewhere; one that the cut meets is one with it."""
    early = "\n[… 7 characters omitted …]\n"
    text = marked(early + "x" * 500, 7)
    assert cut_text_to_chars(text, 200, Cut("head")).text.startswith(early + "x")
    behind = marked("x" * 100 + early + "y" * 500, 7)
    cut = cut_text_to_chars(behind, 100 + len(early) + len(Cut("head").longest_mark(behind)), Cut("head"))
    assert cut.text == "x" * 100 + Cut().mark(507)
    before = marked("y" * 500 + early + "x" * 100, 7)
    cut = cut_text_to_chars(before, 100 + len(early) + len(Cut("tail").longest_mark(before)), Cut("tail"))
    assert cut.text == Cut().mark(507) + "x" * 100


def test_no_part_of_an_earlier_marker_stays():
    """Where there is no room for a marker, the head ends before one that it would cut in two."""
    assert cut_text_to_chars(marked("ab" + Cut().mark(7) + "y" * 500, 7), 6, Cut()).text == "ab"
    assert cut_text_to_chars(marked("abcdef" + Cut().mark(7), 7), 6, Cut()).text == "abcdef"


def test_what_only_looks_like_a_marker_is_cut_like_any_text():
    """A tool that writes what looks like a marker says nothing about what is missing."""
    forged = "\n[… 999,999 characters omitted; recall 3fa94c00d1b2e6a7 …]\n"
    text = f"{forged}{'x' * 500}"
    cut = cut_to_chars(text, 100, Cut("tail"))
    assert cut == Cut().mark(len(text) - cut.count("x")) + "x" * cut.count("x")
    assert cut_to_chars(text, 6, Cut()) == text[:6]


class Bytes:
    """A counter that can only count: a token for each byte."""

    name = "bytes"

    def count(self, text):
        return len(text.encode())


@pytest.mark.parametrize("size", [1, 2, 37, 99])
def test_with_a_counter_that_only_counts_the_longest_ends_stay(size):
    """The head or the tail has as many tokens as there may be, to the last one."""
    text = WHOLE[:100]
    assert cut_to_tokens(text + "€" * 9, size, Bytes(), Cut("head", "")) == text[:size]
    assert cut_to_tokens("€" * 9 + text, size, Bytes(), Cut("tail", "")) == text[-size:]


def test_a_marker_wherever_there_is_room_for_one():
    """Nothing goes without a word, also where the marker is longer than what it stands for."""
    assert cut_to_tokens("€" * 20, 50, Bytes(), Cut()) == "€€€\n[… 15 characters omitted …]\n€€"
    assert cut_to_tokens("€" * 20, 30, Bytes(), Cut()) == "€" * 10
    pointing = Cut().pointing("recall 0123456789abcdef to read on")
    assert cut_to_tokens("€" * 20, 50, Bytes(), pointing) == "€€€\n[… 15 characters omitted …]\n€€"


def test_marks_are_found_where_they_stand():
    """Of the marks in a text each place is found, whatever stands around it; what stages have not written is none."""
    marks = (
        Mark("[12 lines shown again later #123456]", 99),
        Mark("[… 5 characters omitted …]", 5),
        Mark("<<5 gone>>", 5),
    )
    text = f"[a]{marks[0].text}[9 lines left out]{marks[1].text}{marks[2].text}]{marks[0].text}"
    spans = spans_of(Text(text, marks=marks))
    assert [text[start:stop] for start, stop, _ in spans] == [mark.text for mark in marks]
    assert [mark for _, _, mark in spans] == list(marks)
    assert len(spans_of(Text(text, marks=(*marks, marks[0])))) == 4  # each counts as often as it was written
    assert spans_of(Text(text)) == []
