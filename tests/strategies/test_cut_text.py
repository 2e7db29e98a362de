"""A text that is cut again, and again: what stays are its own words in order, and the markers tell the truth."""

import re

from hypothesis import given
from hypothesis import strategies as st

from agentctx import HeuristicCounter
from agentctx.strategies.cut_text import Cut, cut_to_chars, cut_to_tokens

COUNTER = HeuristicCounter()
MARKER = re.compile(r"\n\[… ([\d,]+) characters omitted …\]\n")
WHOLE = "".join(f"{number} " for number in range(3000))


def cuts():
    """Caps in characters or tokens, and which end stays."""
    return st.tuples(st.booleans(), st.integers(1, 5000), st.sampled_from(["head", "tail", "both"]))


@given(st.lists(cuts(), min_size=1, max_size=4))
def test_cuts_of_cuts(all_of_them):
    """No marker is cut in two; what it says was left out, and what stays, add up to the text."""
    text = WHOLE
    for in_tokens, cap, keep in all_of_them:
        cut = Cut(keep)
        text = cut_to_tokens(text, cap, COUNTER, cut) if in_tokens else cut_to_chars(text, cap, cut)
        assert COUNTER.count(text) <= cap if in_tokens else len(text) <= cap
    pieces = MARKER.split(text)[::2]
    place = 0
    for piece in pieces:
        assert piece in WHOLE[place:]
        place = WHOLE.index(piece, place) + len(piece)
    if MARKER.search(text):
        left_out = sum(int(number.replace(",", "")) for number in MARKER.findall(text))
        assert left_out <= len(WHOLE) - sum(map(len, pieces))


def test_the_number_of_an_earlier_cut_is_added():
    """A marker that is left out with its text passes its number on."""
    once = cut_to_chars(WHOLE, 1000, Cut())
    twice = cut_to_chars(once, 300, Cut())
    (said,) = MARKER.findall(twice)
    assert int(said.replace(",", "")) == len(WHOLE) - len(MARKER.sub("", twice))


def test_a_marker_without_words_is_not_looked_for():
    """Numbers in a text are no markers; a marker may be empty."""
    assert cut_to_chars("1,234 5,678 9", 8, Cut("head", "{omitted}")) == "1,234 7"
    assert cut_to_chars("0123456789", 4, Cut("head", "")) == "0123"
