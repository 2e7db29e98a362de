"""Cutting: whole lines, within the room, and never silently."""

import pytest
from hypothesis import given, strategies as st

from agentctx.sources.gathering import cut_lines
from agentctx.tokens import FixedCounter, TiktokenCounter


class Words:
    """A counter that only counts, and cannot cut."""

    def count(self, text):
        """How many words."""
        return len(text.split())


COUNTERS = [TiktokenCounter(), Words()]
TEXTS = st.lists(st.text(st.characters(blacklist_categories=["Cs"]), max_size=40), max_size=40).map("\n".join)


@pytest.mark.parametrize("counter", COUNTERS, ids=["tiktoken", "words"])
@given(text=TEXTS, room=st.integers(-2, 60), keep=st.sampled_from(["head", "tail"]))
def test_what_is_cut_fits_and_says_so(counter, text, room, keep):
    """What fits stays as it is; else what is left fits, is an end of the text, and says that lines are missing."""
    result = cut_lines(text, room, counter, keep)
    if room > 0 and counter.count(text) <= room:
        assert result == text
    elif result:
        assert counter.count(result) <= room
        left, marker = result.rsplit("\n", 1) if keep == "head" else reversed(result.split("\n", 1))
        assert marker.startswith("[… ")
        assert text.startswith(left) if keep == "head" else text.endswith(left)


@pytest.mark.parametrize("counter", COUNTERS, ids=["tiktoken", "words"])
@pytest.mark.parametrize(("keep", "first", "last"), [("head", 0, None), ("tail", None, 999)])
def test_the_right_end_stays(counter, keep, first, last):
    """The first or the last lines stay, whole, and how many are missing is exact."""
    lines = [f"line {n}" for n in range(1_000)]
    kept = cut_lines("\n".join(lines), 200, counter, keep).splitlines()
    marker = kept.pop(-1 if keep == "head" else 0)
    assert kept == (lines[: len(kept)] if first is not None else lines[-len(kept) :])
    assert (kept[0] if first is not None else kept[-1]) == f"line {first if last is None else last}"
    assert marker == f"[… {1_000 - len(kept)} more lines …]"


def test_one_long_line_is_cut_inside():
    """A text of one line is cut within it, where nothing else can be done."""
    result = cut_lines("word " * 1_000, 40, TiktokenCounter())
    assert result.startswith("word word")
    assert result.endswith("\n[… 1 more lines …]")


def test_a_counter_that_knows_no_shorter_text():
    """When no part of the text fits, nothing is left of it."""
    assert cut_lines("a\nb\nc", 10, FixedCounter(20)) == ""
    assert cut_lines("a\nb\nc", 0, FixedCounter(20)) == ""
