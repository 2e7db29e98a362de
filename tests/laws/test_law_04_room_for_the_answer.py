"""An integer budget is a window that leaves room for the answer."""

import pytest
from hypothesis import given, settings, strategies as st

from agentctx import Budget, ConfigError, ContextOverflow, FitContextWindow, Pipeline, count
from agentctx.presets import assistant, coding_agent, general, thrifty
from agentctx.session.blocking import blocking
from agentctx.testing import assistant as says, call, result, transcript, user

PRESETS = [assistant, coding_agent, general, thrifty]
TAKES_A_BUDGET = {
    "Pipeline": lambda budget: Pipeline(budget=budget).budget,
    "FitContextWindow": lambda budget: FitContextWindow(budget).budget,
    "Session.child": lambda budget: Pipeline().session().child(budget).internals.state.limits_by_model.own,
    **{preset.__name__: lambda budget, preset=preset: preset(budget).budget for preset in PRESETS},
}


@pytest.mark.parametrize("name", TAKES_A_BUDGET)
@given(window=st.integers(8, 2_000_000))
def test_an_integer_leaves_room_for_the_answer(name, window):
    """A quarter of the window stays free, at most 16,384 tokens."""
    budget = TAKES_A_BUDGET[name](window)
    assert (budget.window, budget.reserved) == (window, min(16_384, window // 4))
    assert budget.limit == window - budget.reserved < window


@pytest.mark.parametrize("name", TAKES_A_BUDGET)
def test_a_budget_stays_as_it_is(name):
    """A budget that is written out reserves only its own ``output_reserve``."""
    assert TAKES_A_BUDGET[name](Budget(128_000)).limit == 128_000
    assert TAKES_A_BUDGET[name](Budget(128_000, 8_000)).limit == 120_000


def test_a_window_without_room_for_an_answer_is_refused():
    """One token cannot hold a request and an answer; of two, one is for the answer."""
    assert Pipeline(budget=2).budget == Budget(2, 1)
    with pytest.raises(ConfigError, match=r"^Budget\.output_reserve must be less than the window of 1 tokens"):
        Pipeline(budget=1)


def rounds(number, words):
    """A task and rounds of a tool."""
    turns = [user("Mend the build.")]
    for each in range(number):
        turns += [says(call(f"c{each}", "read", {"path": f"{each}.py"})), result(f"c{each}", f"{each} is " * words)]
    return turns


@pytest.mark.parametrize("preset", PRESETS)
@settings(max_examples=25)
@given(window=st.integers(100, 6_000), number=st.integers(1, 12), words=st.integers(1, 300))
def test_a_request_and_its_answer_fit_the_window(preset, window, number, words):
    """A request that a preset prepared and an answer of the reserve are no more than the window."""
    pipeline, messages = preset(window), transcript("openai-chat", *rounds(number, words))
    try:
        view = blocking(pipeline.session(model="gpt-4o", format="openai-chat").prepare, messages)
    except ContextOverflow:
        return
    assert count(view.messages, model="gpt-4o", format="openai-chat") + pipeline.budget.reserved <= window
