"""Every built-in strategy, every budget, every format, both event loops: the laws on generated histories.

``HYPOTHESIS_PROFILE=nightly`` tries at least ten thousand histories a property.
"""

from functools import partial

import pytest
from histories import FORMATS, broken_histories, budgets, histories, stages
from hypothesis import given

from agentctx import validate
from agentctx.testing import check_laws


def errors(history):
    """The rules for which the provider refuses a history."""
    found = validate(history.request, format=history.format)
    return [str(violation) for violation in found if violation.severity == "error"]


def held(stage, history, budget):
    """The laws on one history, as an async function without arguments."""
    return partial(
        check_laws, stage, history.messages, budget, history.format, system=history.system, tools=history.tools
    )


@given(histories())
def test_generated_histories_are_legal(history):
    """What the generator calls legal, the validator calls legal."""
    assert errors(history) == []


@given(histories(), budgets(), stages())
def test_the_laws_hold_on_legal_histories(both_loops, history, budget, stage):
    """Every strategy keeps the laws on every legal history."""
    both_loops(held(stage, history, budget))


@given(broken_histories(), budgets(), stages())
def test_the_laws_hold_on_broken_histories(both_loops, history, budget, stage):
    """Every strategy keeps the laws on every broken history."""
    both_loops(held(stage, history, budget))


@pytest.mark.parametrize("format_name", FORMATS)
def test_broken_histories_are_broken(format_name):
    """Most histories that the generator calls broken are refused: the properties are not about legal ones only."""
    verdicts = []

    @given(broken_histories(format_name))
    def look(history):
        verdicts.append(bool(errors(history)))

    look()
    assert sum(verdicts) > len(verdicts) / 3
