"""How much room there is."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis.strategies import floats, integers

from agentctx import Budget, ConfigError, UnknownModel


def test_the_limit_leaves_the_reserve_free():
    """The limit is the window without the output reserve."""
    assert Budget(128_000, 8_000).limit == 120_000


def test_amounts_may_be_shares_of_the_window():
    """A float is a share of the window, an int is a token count."""
    budget = Budget(100_000, 0.1, trigger=0.8, target=30_000)
    assert (10_000, 80_000, 30_000) == (budget.reserved, budget.trigger_tokens, budget.target_tokens)


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
@pytest.mark.parametrize(("amount", "window"), [(2, 8_000), (80, 128_000), (100, 10_000), (50, 1_000_000)])
def test_a_percentage_is_no_number_of_tokens(name, amount, window):
    """A number that can only be meant as a percentage is refused with how to write it, and not taken for tokens."""
    with pytest.raises(ConfigError, match=f"{name}: {amount} tokens .* write {amount / 100:g} for"):
        Budget(window, **{name: amount})


def test_small_windows_have_small_amounts():
    """What is more than a hundredth of its window may be a number of tokens, and scaling never makes a percentage."""
    assert Budget(1_000, trigger=80, target=20).target_tokens == 20
    assert Budget(128_000, target=120).scaled(0.3).target_tokens > 0
    assert Budget(10_000, trigger=300, target=100).target_tokens == 100


@given(limit=integers(1, 30_000), reserve=integers(0, 30_000), target=integers(1, 30_000), share=floats(0.001, 1))
def test_any_budget_can_be_scaled(limit, reserve, target, share):
    """What may be a budget is one at every scale: no share of it is taken for a percentage."""
    least = 1 if limit < 4_000 else 101
    whole = Budget(limit + reserve, reserve, target=min(limit, max(least, target)))
    assert whole.scaled(share).limit == max(1, int(limit * share))
