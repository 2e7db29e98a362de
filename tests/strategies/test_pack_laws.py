"""The ten laws, for packing by every strategy."""

from functools import partial

from hypothesis import given, settings
from hypothesis import strategies as st

from agentctx.strategies.pack import STRATEGIES, Pack
from agentctx.strategies.packing.scoring import Weights
from agentctx.testing import check_laws
from agentctx.testing.histories import broken_histories, budgets, histories

WEIGHTS = st.builds(Weights, recency=st.floats(0.1, 1), relevance=st.floats(0, 1), role=st.floats(0, 1))
PACKS = st.builds(
    Pack,
    st.one_of(st.sampled_from(sorted(STRATEGIES)), WEIGHTS),
    task=st.one_of(st.none(), st.sampled_from(["read the file", "error"])),
    keep_last=st.integers(0, 6),
    note=st.booleans(),
    max_tokens=st.one_of(st.none(), st.integers(50, 5_000)),
)


@settings(max_examples=25)
@given(PACKS, histories(), budgets())
def test_the_ten_laws(both_loops, stage, history, budget):
    """Packing keeps the ten laws on any transcript, in any budget."""
    both_loops(partial(check_laws, stage, history.messages, budget, history.format, history.system, history.tools))


@settings(max_examples=25)
@given(PACKS, broken_histories(), budgets())
def test_the_ten_laws_on_broken_histories(both_loops, stage, history, budget):
    """Packing keeps the ten laws on transcripts that had to be repaired."""
    both_loops(partial(check_laws, stage, history.messages, budget, history.format, history.system, history.tools))
