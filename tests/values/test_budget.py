"""How much room there is."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers, tuples

from agentctx import Budget, ConfigError, MediaLimits, UnknownModel


def test_the_limit_leaves_the_reserve_free():
    """The limit is the window without the output reserve."""
    assert Budget(128_000, 8_000).limit == 120_000


def test_amounts_may_be_shares():
    """A float is a share: a reserve of the window, trigger and target of the limit; an int is a token count."""
    budget = Budget(100_000, 0.1, trigger=0.8, target=30_000)
    assert (10_000, 72_000, 30_000) == (budget.reserved, budget.trigger_tokens, budget.target_tokens)
    assert Budget(100_000, 20_000, trigger=1.0, target=0.5).target_tokens == 40_000


@given(
    window=integers(200, 2_000_000),
    reserve=floats(0, 0.9, exclude_min=True),
    shares=tuples(floats(0.1, 1), floats(0.1, 1)).map(sorted),
)
def test_shares_of_the_limit_fit_every_budget(window, reserve, shares):
    """Whatever is reserved, a trigger and a target up to it, given as shares, are amounts that can be kept."""
    target, trigger = shares
    budget = Budget(window, reserve, trigger=trigger, target=target)
    assert 1 <= budget.target_tokens <= budget.trigger_tokens <= budget.limit


def test_the_same_shares_do_for_every_model():
    """A trigger and a target that are shares fit the budget of every model with a known window."""
    for name in (
        "claude-sonnet-4-5",
        "claude-haiku-4-5",
        "o3",
        "o4-mini",
        "grok-4",
        "glm-4.6",
        "gpt-4",
        "gpt-4o",
        "gpt-5",
    ):
        budget = Budget.for_model(name, trigger=0.8, target=0.5)
        assert budget.trigger_tokens == int(budget.limit * 0.8)


def test_without_trigger_a_session_acts_as_late_as_possible():
    """The trigger defaults to the limit and the target to half of the trigger."""
    budget = Budget(10_000, 2_000)
    assert (8_000, 4_000) == (budget.trigger_tokens, budget.target_tokens)


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"window": 0}, "window"),
        ({"window": -5}, "window"),
        ({"window": 1.5}, "window"),
        ({"window": True}, "window"),
        ({"window": 100, "output_reserve": 100}, "output_reserve"),
        ({"window": 100, "output_reserve": -1}, "output_reserve"),
        ({"window": 100, "output_reserve": 1.5}, "output_reserve"),
        ({"window": 100, "trigger": 101}, "trigger"),
        ({"window": 100, "trigger": 0}, "trigger"),
        ({"window": 100, "trigger": 50, "target": 51}, "target"),
        ({"window": 100, "request_bytes": 0}, "request_bytes"),
    ],
)
def test_amounts_that_contradict_each_other_are_refused(options, named):
    """The error names the option."""
    with pytest.raises(ConfigError, match=named):
        Budget(**options)


def test_a_known_model_has_a_budget():
    """The model table gives the window, and at most a quarter of it is kept for the answer."""
    budget = Budget.for_model("gpt-4o")
    assert budget.window >= 100_000
    assert 0 < budget.reserved <= budget.window // 4


def test_an_unknown_model_says_what_to_pass():
    """The error for a model that nobody knows says to pass a window."""
    with pytest.raises(UnknownModel, match="window"):
        Budget.for_model("no-such-model-77")


def test_the_model_table_is_there_when_nothing_else_is_loaded():
    """A budget for a model can be had as the first thing that a program does."""
    code = "from agentctx import Budget; print(Budget.for_model('gpt-4o').window)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) == 128_000


@pytest.mark.parametrize("name", ["trigger", "target"])
@pytest.mark.parametrize(("amount", "window"), [(1, 4_000), (2, 8_000), (80, 128_000), (100, 10_000), (50, 1_000_000)])
def test_a_percentage_is_no_number_of_tokens(name, amount, window):
    """A number that can only be meant as a percentage is refused with how to write it, and not taken for tokens."""
    with pytest.raises(ConfigError, match=rf"Budget\.{name} must be {amount / 100:g} for .*, got {amount}$"):
        Budget(window, **{name: amount})


def test_small_windows_have_small_amounts():
    """What is more than a hundredth of its window may be a number of tokens, and scaling never makes a percentage."""
    assert Budget(1_000, trigger=80, target=20).target_tokens == 20
    assert Budget(5_000, trigger=80).trigger_tokens == 80
    assert Budget(128_000, target=120).scaled(0.3).target_tokens > 0
    assert Budget(10_000, trigger=300, target=100).target_tokens == 100


@pytest.mark.parametrize(("window", "trigger", "scaled"), [(10_000, 101, 51), (8_000, 81, 41), (5_000, 51, 25)])
def test_a_small_trigger_is_scaled_to_the_least_that_is_none(window, trigger, scaled):
    """At half the size: one token more than a percentage would have, where a number can be taken for one."""
    assert Budget(window, trigger=trigger, target=trigger).scaled(0.5).trigger_tokens == scaled


@given(limit=integers(1, 30_000), reserve=integers(0, 30_000), target=integers(1, 30_000), share=floats(0.001, 1))
def test_any_budget_can_be_scaled(limit, reserve, target, share):
    """What may be a budget is one at every scale: no share of it is taken for a percentage."""
    least = 1 if limit < 4_000 else 101
    whole = Budget(limit + reserve, reserve, target=min(limit, max(least, target)))
    assert whole.scaled(share).limit == max(1, int(limit * share))


def test_the_smallest_budgets():
    """One token is enough of everything, and the trigger may be the limit, and the target the trigger."""
    assert (1, 1, 1) == ((one := Budget(1)).limit, one.trigger_tokens, one.target_tokens)
    assert Budget(100, 99, trigger=1, target=1, request_bytes=1).limit == 1
    assert Budget(100, 20, trigger=80, target=80).target_tokens == 80
    assert Budget(4_000, trigger=1.0).trigger_tokens == 4_000
    with pytest.raises(ConfigError, match="trigger"):
        Budget(100, 20, trigger=81)
    with pytest.raises(
        ConfigError, match=r"^Budget\.window must be so large that a target of 0\.001 is one token, got 100$"
    ):
        Budget(100, target=0.001)


@pytest.mark.parametrize("share", [0.0, -0.5, 1.5, float("nan")])
def test_shares_lie_above_nothing_and_up_to_all(share):
    """Of a window as of a scale; the error says which amount it is."""
    with pytest.raises(
        ConfigError, match=r"^Budget\.amount must be a number of tokens, or a share above 0\.0 and up to 1\.0, got "
    ):
        Budget(100).tokens(share)
    with pytest.raises(ConfigError, match=r"^Budget\.scaled\.share must be a share above 0 and up to 1, got "):
        Budget(100).scaled(share)


@pytest.mark.parametrize("amount", [True, "5", None])
def test_an_amount_is_a_number(amount):
    """Neither a truth nor a text."""
    with pytest.raises(ConfigError, match=r"^Budget\.amount must be a number of tokens, or a share"):
        Budget(100).tokens(amount)


@pytest.mark.parametrize("most", [0, True, 1.5])
def test_a_body_has_a_whole_number_of_bytes(most):
    """At least one."""
    with pytest.raises(ConfigError, match="request_bytes"):
        Budget(100, request_bytes=most)


@given(integers(5_000, 200_000), floats(0.01, 0.9), floats(0.2, 1), floats(0.1, 1), floats(0.1, 1))
def test_a_scaled_budget_is_the_same_in_small(window, reserve, trigger, target, share):
    """Every amount is multiplied and rounded down; what is not in tokens stays."""
    limit = window - int(window * reserve)
    whole = Budget(
        window,
        reserve,
        trigger=max(101, int(limit * trigger)),
        target=max(101, int(limit * trigger * target)),
        request_bytes=77,
        media=MediaLimits(images=3),
    )
    small = whole.scaled(share)
    assert (int(whole.limit * share), int(whole.reserved * share)) == (small.limit, small.reserved)
    least = 101 if small.limit >= 10_000 else small.limit // 100 + 1 if small.limit >= 4_000 else 1
    target = max(int(whole.target_tokens * share), least)
    assert (target, max(int(whole.trigger_tokens * share), target)) == (small.target_tokens, small.trigger_tokens)
    assert (77, MediaLimits(images=3)) == (small.request_bytes, small.media)


def test_the_answer_takes_a_quarter_of_the_window_at_most():
    """Without a reserve: the model's longest answer, or a quarter of the window where that is less."""
    assert Budget.for_model("gpt-4o").limit == 128_000 - 16_384
    assert Budget.for_model("claude-sonnet-4-5").limit == 150_000
    assert Budget.for_model("gpt-4o", output_reserve=50_000, trigger=0.5, target=0.2) == Budget(
        128_000, 50_000, trigger=0.5, target=0.2
    )


def test_an_answer_that_has_room_of_its_own_takes_none_of_the_input():
    """Only what is asked for beyond that room is taken from the input, and what is no input at all is left free."""
    assert Budget.for_model("gpt-5").limit == 272_000
    assert Budget.for_model("gpt-5", output_reserve=128_000 + 7_000).limit == 265_000
    assert Budget.for_model("gpt-5", output_reserve=0.5).limit == 272_000 - (136_000 - 128_000)
    assert Budget.for_model("gpt-5.4").limit == 922_000
    assert Budget.for_model("gpt-5.4", output_reserve=200_000).limit == 850_000
