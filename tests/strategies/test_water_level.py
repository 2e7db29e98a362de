"""The cap that frees a number of tokens."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from agentctx.strategies.shrink_results import water_level


def freed(sizes, cap):
    return sum(max(0, size - cap) for size in sizes)


@given(st.lists(st.integers(0, 500), min_size=1, max_size=20), st.integers(1, 3_000))
def test_the_cap_is_the_largest_that_frees_enough(sizes, spare):
    """The cap frees what is asked, one more would not, and 0 is returned when nothing frees so much."""
    cap = water_level(sizes, spare)
    if sum(sizes) < spare:
        assert cap == 0
    else:
        assert freed(sizes, cap) >= spare
        assert freed(sizes, cap + 1) < spare
