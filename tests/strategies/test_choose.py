"""The laws of choosing: never over the limit, never below greed, and the best there is where that can be known."""

from itertools import accumulate, pairwise
from random import Random

import pytest
from hypothesis import given, strategies as st

from agentctx.strategies.pack import CORE, choose

SIZES = st.one_of(st.integers(0, 30), st.integers(1, 3_000))
SCORES = st.integers(0, 1_000)


@st.composite
def items(draw, most=CORE, sizes=SIZES):
    """Worths and sizes: unrelated, alike for their size, or with a score for each token."""
    count = draw(st.integers(0, most))
    drawn = draw(st.lists(sizes, min_size=count, max_size=count))
    scores = draw(st.lists(SCORES, min_size=count, max_size=count))
    worth = draw(st.sampled_from([lambda score, _: score, lambda score, size: score * size, lambda _, size: size]))
    return [worth(score, size) for score, size in zip(scores, drawn, strict=True)], drawn


@st.composite
def rooms(draw, made):
    """Items, and any room for them."""
    worths, sizes = draw(made)
    return worths, sizes, draw(st.integers(-5, sum(sizes) + 5))


TIES = {
    "earlier first": lambda item, _size: item,
    "later first": lambda item, _size: -item,
    "smaller first": lambda _item, size: size,
    "larger first": lambda _item, size: -size,
}


def greedy(worths, sizes, limit, tie="earlier first"):
    """What taking by worth for size gives, skipping what does not fit."""

    def rank(item):
        density = worths[item] / sizes[item] if sizes[item] else float("inf")
        return -density, TIES[tie](item, sizes[item])

    order = sorted(range(len(sizes)), key=rank)
    worth = 0
    for item in order:
        if sizes[item] <= limit:
            limit -= sizes[item]
            worth += worths[item]
    return worth


def best(worths, sizes, limit):
    """The most that any choice is worth, by the textbook's table."""
    table = [0] * (max(0, limit) + 1)
    for worth, size in zip(worths, sizes, strict=True):
        for room in range(limit, size - 1, -1):
            table[room] = max(table[room], table[room - size] + worth)
    return table[-1]


def worth_of(chosen, worths):
    """What the chosen are worth together."""
    return sum(worths[item] for item in chosen)


@given(rooms(items(most=150)))
def test_never_over_the_limit(case):
    """The chosen never take more than the limit, each is chosen once, and they come in order."""
    worths, sizes, limit = case
    chosen = choose(worths, sizes, limit)
    assert sum(sizes[item] for item in chosen) <= max(0, limit)
    assert all(one < other for one, other in pairwise(chosen))


@given(rooms(items(most=150)))
def test_never_below_greed(case):
    """The chosen are worth at least what greed by worth for size chooses, whichever of equals it takes first."""
    worths, sizes, limit = case
    ours = worth_of(choose(worths, sizes, limit), worths)
    assert all(ours >= greedy(worths, sizes, max(0, limit), tie) for tie in TIES)


@given(rooms(items(sizes=st.integers(0, 60))))
def test_the_best_there_is(case):
    """Up to ``CORE`` items the chosen are worth the most that is possible."""
    worths, sizes, limit = case
    assert worth_of(choose(worths, sizes, limit), worths) == best(worths, sizes, max(0, limit))


@given(rooms(items(most=120, sizes=st.integers(1, 40))))
def test_never_below_half_of_the_best(case):
    """Of any number of items the chosen are worth at least half of the most that is possible."""
    worths, sizes, limit = case
    assert 2 * worth_of(choose(worths, sizes, limit), worths) >= best(worths, sizes, max(0, limit))


@given(rooms(items(most=80)))
def test_nothing_that_fits_is_left_out(case):
    """No item that is worth something fits beside the chosen; and if all fit, all are chosen."""
    worths, sizes, limit = case
    chosen = set(choose(worths, sizes, limit))
    left = max(0, limit) - sum(sizes[item] for item in chosen)
    assert not [item for item in range(len(sizes)) if item not in chosen and worths[item] and sizes[item] <= left]
    if sum(sizes) <= limit:
        assert len(chosen) == len(sizes)


def test_of_equals_the_later():
    """Where only one of two that are alike fits, it is the later."""
    assert choose([5, 5, 5], [10, 10, 10], 25) == (1, 2)


def test_greed_alone_is_not_enough():
    """Two that fill the room are better than the one with the most for its size."""
    assert greedy([60, 50, 50], [10, 9, 9], 18) == 60
    assert choose([60, 50, 50], [10, 9, 9], 18) == (1, 2)


@pytest.mark.parametrize("count", [2, 5, 1_000])
def test_one_giant(count):
    """An item that greed has no room for, but is worth more than all else, is chosen."""
    assert choose([10] * count + [10**9], [1] * count + [5_000], 5_000) == (count,)


@pytest.mark.parametrize("giant", [0, 50, 100])
def test_a_giant_that_many_small_ones_keep_out(giant):
    """Where greed begins with more small items than are decided exactly, one that is worth more than all wins."""
    worths, sizes = [11] * 100, [1] * 100
    worths.insert(giant, 50_000)
    sizes.insert(giant, 5_000)
    assert choose(worths, sizes, 5_000) == (giant,)


@pytest.mark.parametrize("seed", [0, 2])
def test_of_many_that_are_alike_any_order_of_greed_is_tried(seed):
    """Where all are worth the same for their size, the result is never below greed from either end, or by size."""
    draw = Random(seed)  # noqa: S311 - no secret
    sizes = [draw.randint(200, 3_000) for _ in range(45)]
    worths = [7 * size for size in sizes]
    found = worth_of(choose(worths, sizes, sum(sizes) // 3), worths)
    assert all(found >= greedy(worths, sizes, sum(sizes) // 3, tie) for tie in TIES)


def test_nearly_always_the_best_of_more_than_are_decided_exactly():
    """Of 60 items whose worth for their size is alike, the best choice is found in nine of ten cases."""
    found = []
    for seed in range(10):
        draw = Random(seed)  # noqa: S311 - no secret
        sizes = [draw.randint(1, 60) for _ in range(60)]
        worths = [10 * size + draw.randint(0, 10) for size in sizes]
        found.append(worth_of(choose(worths, sizes, sum(sizes) // 3), worths) == best(worths, sizes, sum(sizes) // 3))
    assert sum(found) >= 9


def chosen_of(count):
    """Choose among so many."""
    sizes = [(number * 7_919) % 1_500 + 20 for number in range(count)]
    worths = [size * ((number * 104_729) % 1_000 + 1) for number, size in enumerate(sizes)]
    return lambda: choose(worths, sizes, sum(sizes) // 3)


def test_work_grows_with_the_number(work):
    """Ten times the items are about ten times the work."""
    assert work(chosen_of(20_000)) < 20 * max(work(chosen_of(2_000)), 1_000)


@pytest.mark.parametrize("seed", range(5))
def test_hard_cases_are_bounded(seed):
    """Where nearly everything is worth the same for its size, the room is filled to the last percent."""
    sizes = [200 + step % 29_800 for step in accumulate([9_973 + seed] * 60)]
    worths = [size * (900_000 + step % 1_000) for size, step in zip(sizes, accumulate([7_907] * 60), strict=True)]
    chosen = choose(worths, sizes, sum(sizes) // 2)
    assert sum(sizes[item] for item in chosen) > 0.99 * (sum(sizes) // 2)
