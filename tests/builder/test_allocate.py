"""The laws of the allocation, and its numbers by hand."""

from heapq import heapify, heappop, heappush
from itertools import pairwise

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from agentctx import ConfigError
from agentctx.builder import Tier
from agentctx.tiers import TierRule, allocate

SIZES = st.one_of(st.integers(0, 60), st.integers(0, 200_000))
SHARES = [0.0, 0.0, 0.01, 0.05, 0.1, 1 / 3, 0.25]


@st.composite
def claims(draw, amounts=SIZES):
    """Sizes and rules of up to nine claims whose shares add up to at most one."""
    count = draw(st.integers(0, 9))
    sizes = draw(st.lists(amounts, min_size=count, max_size=count))
    rules = []
    left = 1.0
    for _ in range(count):
        share = draw(st.sampled_from([share for share in SHARES if share <= left]))
        left -= share * 1.001
        floor = draw(st.one_of(st.just(0), amounts))
        cap = draw(st.one_of(st.none(), amounts.map(lambda more, floor=floor: floor + more)))
        rules.append(TierRule(draw(st.integers(-2, 7)), floor, share, cap))
    return sizes, rules


def wanted(sizes, rules):
    """What each claim takes at most."""
    return [size if rule.cap is None else min(size, rule.cap) for size, rule in zip(sizes, rules, strict=True)]


@given(claims(), st.integers(-5, 1_000_000))
def test_never_over_the_limit(claim, limit):
    """The grants together never exceed the limit, and none exceeds its size or its cap."""
    grants = allocate(*claim, limit)
    assert sum(grants) <= max(0, limit)
    assert all(0 <= grant <= want for grant, want in zip(grants, wanted(*claim), strict=True))


@given(claims(), st.integers(0, 1_000_000))
def test_nothing_left_over_while_somebody_wants_more(claim, limit):
    """The limit is used up to the last token unless every claim has all that it wants."""
    assert sum(allocate(*claim, limit)) == min(limit, sum(wanted(*claim)))


@given(claims(), st.integers(0, 1_000_000))
def test_no_tier_under_its_floor_unless_the_floors_do_not_fit(claim, limit):
    """Every claim has its floor, as far as it can use it, whenever the floors fit together."""
    floors = [min(rule.floor, want) for rule, want in zip(claim[1], wanted(*claim), strict=True)]
    grants = allocate(*claim, limit)
    if sum(floors) <= limit:
        assert all(grant >= floor for grant, floor in zip(grants, floors, strict=True))
    else:
        assert all(grant <= floor for grant, floor in zip(grants, floors, strict=True))


@given(claims(), st.integers(0, 1_000_000), st.one_of(st.integers(1, 9), st.integers(1, 100_000)))
def test_a_larger_limit_never_shrinks_a_grant(claim, limit, more):
    """Whoever has something at one limit has at least as much at a larger one."""
    small, large = allocate(*claim, limit), allocate(*claim, limit + more)
    assert all(less <= greater for less, greater in zip(small, large, strict=True))


@given(claims(amounts=st.integers(0, 60)))
def test_a_larger_limit_never_shrinks_a_grant_token_by_token(claim):
    """At every limit from nothing to everything, one token more goes to exactly one claim."""
    total = sum(wanted(*claim))
    steps = [allocate(*claim, limit) for limit in range(total + 2)]
    for small, large in pairwise(steps):
        gains = [greater - less for less, greater in zip(small, large, strict=True)]
        assert set(gains) <= {0, 1}
        assert sum(gains) <= 1


@given(claims(), st.integers(0, 1_000_000))
def test_deterministic(claim, limit):
    """The same claims get the same grants, also from other equal objects."""
    sizes, rules = claim
    assert allocate(sizes, rules, limit) == allocate(tuple(sizes), list(rules), limit)


@given(claims(), st.integers(0, 1_000_000), st.randoms(use_true_random=False))
def test_the_order_of_different_tiers_does_not_matter(claim, limit, random):
    """Claims of different tiers get the same grants in whatever order they are given."""
    sizes, rules = claim
    rules = [evolve(rule, tier=place) for place, rule in enumerate(rules)]
    order = list(range(len(rules)))
    random.shuffle(order)
    shuffled = allocate([sizes[place] for place in order], [rules[place] for place in order], limit)
    grants = allocate(sizes, rules, limit)
    assert shuffled == tuple(grants[place] for place in order)


@given(claims(), st.integers(0, 1_000_000), st.integers(1, 500))
def test_what_one_gives_up_the_others_get(claim, limit, less):
    """When one claim becomes smaller, no other grant shrinks."""
    sizes, rules = claim
    for place, size in enumerate(sizes):
        smaller = [*sizes[:place], max(0, size - less), *sizes[place + 1 :]]
        before, after = allocate(sizes, rules, limit), allocate(smaller, rules, limit)
        assert all(after[other] >= before[other] for other in range(len(sizes)) if other != place)


def one_by_one(sizes, shares, limit):
    """The same division token by token: the k-th token of a claim is due at k / share."""
    grants = [0] * len(sizes)
    due = [(1 / share, claim) for claim, share in enumerate(shares) if sizes[claim]]
    heapify(due)
    for _ in range(min(limit, sum(sizes))):
        _, claim = heappop(due)
        grants[claim] += 1
        if grants[claim] < sizes[claim]:
            heappush(due, ((grants[claim] + 1) / shares[claim], claim))
    return tuple(grants)


@given(st.lists(st.integers(0, 40), min_size=4, max_size=4), st.integers(0, 170))
def test_shares_as_if_handed_out_token_by_token(sizes, limit):
    """The division at once is the division token by token."""
    shares = (0.5, 0.25, 0.125, 0.125)
    rules = [TierRule(place, share=share) for place, share in enumerate(shares)]
    assert allocate(sizes, rules, limit) == one_by_one(sizes, shares, limit)


def test_in_tier_order_without_rules():
    """Plain tiers are served in order: each all that it wants before the next gets anything."""
    assert allocate([50, 30, 40], [Tier.HISTORY, Tier.SYSTEM, Tier.RAG], 100) == (30, 30, 40)


def test_equal_tiers_in_the_order_given():
    """Claims of one tier are served in the order in which they come."""
    assert allocate([60, 60], [Tier.RAG, Tier.RAG], 100) == (60, 40)


def test_floors_before_everything():
    """A floor is served before a stronger tier gets more than its own."""
    assert allocate([500, 50], [Tier.SYSTEM, TierRule(Tier.HISTORY, floor=40)], 100) == (60, 40)


def test_floors_that_do_not_fit_go_in_tier_order():
    """When the floors are too much, the stronger tiers have theirs first."""
    rules = [TierRule(Tier.HISTORY, floor=80), TierRule(Tier.SYSTEM, floor=80)]
    assert allocate([100, 100], rules, 100) == (20, 80)


def test_shares_hold_while_all_want_more():
    """A share is its part of the room; the tiers without a share have the rest of it in order."""
    rules = [Tier.SYSTEM, TierRule(Tier.RAG, share=0.3), TierRule(Tier.HISTORY, share=0.5)]
    assert allocate([1_000, 1_000, 1_000], rules, 100) == (20, 30, 50)


def test_an_unused_share_goes_to_the_others_in_proportion():
    """What a share holder has no use for is lent to the others."""
    rules = [TierRule(Tier.RAG, share=0.25), TierRule(Tier.HISTORY, share=0.5), Tier.SCRATCHPAD]
    assert allocate([0, 1_000, 1_000], rules, 90) == (0, 60, 30)


def test_without_a_rest_the_unshared_wait():
    """When the shares are the whole, tiers without one have what the others leave."""
    rules = [Tier.SYSTEM, TierRule(Tier.RAG, share=0.5), TierRule(Tier.HISTORY, share=0.5)]
    assert allocate([1_000, 10, 10], rules, 100) == (80, 10, 10)


def test_caps_hold_with_room_to_spare():
    """A cap holds however much room there is."""
    assert allocate([500], [TierRule(Tier.RAG, cap=200)], 1_000) == (200,)


@pytest.mark.parametrize(
    ("sizes", "tiers", "says"),
    [
        ([1, 2], [Tier.RAG], "^allocate.tiers must be one tier for each of 2 sizes, got "),
        ([-1], [Tier.RAG], "^allocate.sizes must be a whole number of at least 0, got -1$"),
        ([1.5], [Tier.RAG], "^allocate.sizes must be a whole number of at least 0, got 1.5$"),
        (["9"], [Tier.RAG], "^allocate.sizes must be a whole number of at least 0, got '9'$"),
        ([1], ["rag"], "^Tier must be a whole number, for example Tier.HISTORY, got 'rag'$"),
        (
            [1, 1],
            [TierRule(0, share=0.7), TierRule(1, share=0.7)],
            "^allocate.tiers must be rules whose shares add up to at most 1, got 1.4$",
        ),
    ],
)
def test_claims_that_make_no_sense(sizes, tiers, says):
    """Claims that cannot be served are refused with the numbers."""
    with pytest.raises(ConfigError, match=says):
        allocate(sizes, tiers, 10)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"floor": -1}, "^TierRule.floor must be a whole number of at least 0, got -1$"),
        ({"share": 1.5}, "^TierRule.share must be a number from 0 to 1, got 1.5$"),
        ({"share": float("nan")}, "^TierRule.share must be a number from 0 to 1, got nan$"),
        ({"floor": 10, "cap": 5}, "^TierRule.cap must be at least the floor of 10 tokens, got 5$"),
        ({"cap": -1}, "^TierRule.cap must be a whole number of at least 0, or None, got -1$"),
        ({"floor": 1.5}, "^TierRule.floor must be a whole number of at least 0, got 1.5$"),
        ({"cap": "9"}, "^TierRule.cap must be a whole number of at least 0, or None, got '9'$"),
        ({"share": "9"}, "^TierRule.share must be a number from 0 to 1, got '9'$"),
    ],
)
def test_rules_that_make_no_sense(options, says):
    """A rule is checked when it is built."""
    with pytest.raises(ConfigError, match=says):
        TierRule(Tier.RAG, **options)


def test_shares_of_thirds_are_the_whole():
    """Shares that add up to one but for rounding leave no rest, and are not more than one."""
    thirds = [TierRule(place, share=1 / 3) for place in range(3)]
    assert allocate([100, 100, 100, 100], [*thirds, Tier.SCRATCHPAD], 90) == (30, 30, 30, 0)
    assert sum(allocate([10] * 7, [TierRule(place, share=1 / 7) for place in range(7)], 35)) == 35


@pytest.mark.parametrize(("shared", "least"), [(False, 1_000), (True, 100)], ids=["in order", "by share"])
def test_allocating_is_linear(work, shared, least):
    """Ten times the claims are about ten times the work, up to a hundred thousand (ten thousand by share)."""

    def allocated(count):
        share = [(place % 97 + 1) / (100 * count) if shared else 0 for place in range(count)]
        rules = [TierRule(place % 7, place % 5, share[place]) for place in range(count)]
        sizes = [place * 7_919 % 1_000 for place in range(count)]
        return lambda: allocate(sizes, rules, count * 100)

    small, middle, large = (work(allocated(count)) for count in (least, 10 * least, 100 * least))
    assert middle < 15 * small
    assert large < 15 * middle
