"""The laws, for packing by every strategy."""

from functools import partial

from hypothesis import given

from agentctx.testing import check_laws
from agentctx.testing.histories import broken_histories, budgets, histories
from agentctx.testing.stages import packs


@given(packs(), histories(), budgets())
def test_the_ten_laws(both_loops, stage, history, budget):
    """Packing keeps the laws on any transcript, in any budget."""
    both_loops(partial(check_laws, stage, history.messages, budget, history.format, history.system, history.tools))


@given(packs(), broken_histories(), budgets())
def test_the_ten_laws_on_broken_histories(both_loops, stage, history, budget):
    """Packing keeps the laws on transcripts that had to be repaired."""
    both_loops(partial(check_laws, stage, history.messages, budget, history.format, history.system, history.tools))
