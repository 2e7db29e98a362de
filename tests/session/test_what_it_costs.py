"""Reports and sessions say what calls cost."""

from __future__ import annotations

import pytest

from agentctx import Budget, FitContextWindow, Pipeline, TrimRounds, cache_cold, over, pays_back, when
from agentctx.testing.builders import assistant, call, result, transcript, user

pytestmark = pytest.mark.anyio
MODEL = "claude-sonnet-4-5"


def conversation(rounds):
    """A task and rounds of one call each."""
    turns = [user("the task " * 50)]
    for number in range(rounds):
        turns += [assistant(call(f"c{number}", "read")), result(f"c{number}", f"line {number}\n" * 200)]
    return transcript("anthropic", *turns)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self):
        """Begin at nought."""
        self.now = 0.0

    def __call__(self):
        """Seconds."""
        return self.now


async def test_a_report_says_what_the_call_costs_with_and_without():
    """A compaction's report has both prices and after how many calls it has paid for itself."""
    pipeline = Pipeline(FitContextWindow(), budget=Budget(30_000, target=8_000))
    session, messages, forecasts = pipeline.session(model=MODEL), conversation(60), []
    session.clock = Clock()
    for length in range(1, len(messages) + 1, 2):
        report = (await session.prepare(messages[:length])).report
        forecasts.append((report.first_changed, report.forecast))
    cuts = [forecast for changed, forecast in forecasts if changed is not None]
    assert cuts
    assert all(cut.later_with < cut.later_without and 1 <= cut.calls < 20 for cut in cuts)
    ordinary = [forecast for changed, forecast in forecasts if changed is None]
    assert all(one.with_cut == pytest.approx(one.without) for one in ordinary)


async def test_without_a_model_nothing_is_said_of_money():
    """Without a model there are no prices, and the report says so by None."""
    view = await Pipeline().prepare(conversation(1), format="anthropic")
    assert view.report.forecast is None


async def test_a_session_can_be_asked_before_it_cuts():
    """``forecast`` says what a cut to the target would do now; a cold cache makes it pay at once."""
    session = Pipeline(FitContextWindow(), budget=Budget(100_000, target=5_000)).session(model=MODEL)
    session.clock = Clock()
    assert session.forecast() is None
    await session.prepare(conversation(30))
    warm = session.forecast()
    session.clock.now += 3_600
    cold = session.forecast()
    assert warm.calls > cold.calls == 1
    assert "pays back" in str(warm)


@pytest.mark.parametrize(("seconds", "acts"), [(10, False), (3_600, True)])
async def test_a_stage_can_wait_for_a_cold_cache(seconds, acts):
    """``cache_cold()`` holds when the last request is longer ago than the provider's cache lives."""
    session = Pipeline(when(cache_cold() & over(10), TrimRounds(2)), budget=Budget(100_000)).session(model=MODEL)
    session.clock = Clock()
    messages = conversation(2)
    await session.prepare(messages)
    session.clock.now += seconds
    view = await session.prepare(conversation(6))
    assert acts == view.report.acted


async def test_a_stage_can_wait_until_it_pays():
    """``pays_back(within=...)`` holds when a cut to the target earns its cost in so many calls."""
    stages = when(over(10) & pays_back(within=1_000), TrimRounds(1))
    view = await Pipeline(stages, budget=Budget(2_000)).prepare(conversation(6), format="anthropic", model=MODEL)
    assert view.report.acted
