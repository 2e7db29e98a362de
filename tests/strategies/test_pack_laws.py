"""The laws, for packing by every strategy."""

from functools import partial
from itertools import chain, combinations

from histories import broken_histories, budgets, histories, packs
from hypothesis import given, strategies as st

from agentctx.strategies.pack import choose
from agentctx.testing import check_laws


@given(packs(), histories(), budgets())
def test_the_ten_laws(both_loops, stage, history, budget):
    """Packing keeps the laws on any transcript, in any budget."""
    both_loops(partial(check_laws, stage, history.messages, budget, history.format, history.system, history.tools))


@given(packs(), broken_histories(), budgets())
def test_the_ten_laws_on_broken_histories(both_loops, stage, history, budget):
    """Packing keeps the laws on transcripts that had to be repaired."""
    both_loops(partial(check_laws, stage, history.messages, budget, history.format, history.system, history.tools))


@st.composite
def _candidates(draw):
    """Questions, the calls that belong to them, and answers that need both; each with a size and a score."""
    needs, asked, called = [], frozenset(), frozenset()
    for index, kind in enumerate(draw(st.lists(st.sampled_from("qca"), max_size=9))):
        needs.append({"q": frozenset(), "c": asked, "a": asked | called}[kind])
        if kind == "q":
            asked, called = frozenset({index}), frozenset()
        else:
            called = frozenset({index}) if kind == "c" else frozenset()
    count = len(needs)
    sizes, scores = (draw(st.lists(st.integers(1, 9), min_size=count, max_size=count)) for _ in range(2))
    return needs, sizes, [score * size for score, size in zip(scores, sizes, strict=True)], draw(st.integers(0, 40))


@given(_candidates())
def test_of_few_the_best_choice_is_made_in_which_all_have_what_they_need(case):
    """No choice that fits, and leaves no answer without its question and its calls, is worth more."""
    needs, sizes, worths, room = case
    chosen = choose(worths, sizes, room, needs)
    places = range(len(sizes))
    every = chain.from_iterable(combinations(places, count) for count in range(len(places) + 1))
    fits = [way for way in every if sum(sizes[one] for one in way) <= room and all(needs[one] <= {*way} for one in way)]
    assert chosen in fits
    assert sum(worths[one] for one in chosen) == max(sum(worths[one] for one in way) for way in fits)
