import pytest
import regex
from hypothesis import given, strategies as st

from agentctx.characters import CLUSTER_REACH, cluster_end_after, cluster_end_before

PIECES = [
    "a",
    " ",
    "\r",
    "\n",
    "é",
    "e\u0301",
    "👍🏽",
    "👩‍💻",
    "🇪🇺",
    "🇪",
    "한",
    "ᄒ",
    "ᅡ",
    "ᆫ",
    "क्ष",
    "ก็",
    "\u200d",
    "\ufe0f",
    "中",
    "\ud800",
]
TEXTS = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)


def ends_of(text):
    """Where clusters end, found from the start of the text."""
    return [0, *(found.end() for found in regex.finditer(r"\X", text))]


@given(text=TEXTS)
def test_cuts_lie_between_clusters(text):
    """Floor and cluster_end_after of every position are the nearest ends of clusters before and after it."""
    ends = ends_of(text)
    for position in range(len(text) + 1):
        assert max(end for end in ends if end <= position) == cluster_end_before(text, position)
        assert min(end for end in ends if end >= position) == cluster_end_after(text, position)


@pytest.mark.parametrize(("position", "expected"), [(-5, (0, 0)), (0, (0, 0)), (3, (3, 3)), (99, (3, 3))])
def test_positions_outside_are_brought_inside(position, expected):
    """A position before the start or after the end means the start or the end."""
    assert expected == (cluster_end_before("abc", position), cluster_end_after("abc", position))


@pytest.mark.parametrize("text", ["🇪🇺" * 300_000, "e" + "\u0301" * 1_000_000, "👨‍👩‍👧‍👦" * 100_000])
def test_only_what_is_near_is_looked_at(text):
    """Endless runs of flags, accents or families are cut near the position, without reading the run."""
    middle = len(text) // 2
    assert (
        middle - CLUSTER_REACH
        <= cluster_end_before(text, middle)
        <= middle
        <= cluster_end_after(text, middle)
        <= middle + CLUSTER_REACH
    )
