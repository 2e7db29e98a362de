"""What a recap says of how much is gone, in words, and read back from these."""

import re

from hypothesis import given, strategies as st

from agentctx.marks import Recap, recap_of

COUNTS = st.sampled_from([0, 1, 2, 17, 10**9 - 1])


@given(
    COUNTS, COUNTS, COUNTS, st.dictionaries(st.sampled_from(["Files", "Values"]), st.sampled_from(["a", "[b\n## c"]))
)
def test_it_says_what_went_and_no_zero_and_is_read_back(messages, calls, cleared, sections):
    """Where no message went, it says only what was cleared; and one in its singular."""
    recap = Recap(messages, calls if messages else 0, cleared, sections)
    header = recap.written().text.partition("]")[0]
    assert recap == recap_of(recap.written())
    assert not re.search(r"\b0 (?!0)|\b1 (?:earlier messages|tool calls|old results|earlier tool results)", header)
    assert ("message" in header) == (messages > 0)
    assert ("cleared" in header) == (cleared > 0)
