"""Reports and sessions say what calls cost."""

from __future__ import annotations

from copy import deepcopy
from itertools import accumulate, pairwise
from math import inf

import pytest
from attrs import evolve

from agentctx import (
    Budget,
    ClearToolResults,
    Context,
    FitContextWindow,
    Pack,
    Pipeline,
    PlaceCacheMarkers,
    Text,
    Tiered,
    TrimRounds,
    TruncateToolOutputs,
    over,
    when,
)
from agentctx.economics import CachedBlock, CacheSimulator, Prompt, PromptReader, cache_cold, cost, pays_back
from agentctx.engine.reading import reader
from agentctx.models import ModelProfile, Prices, register_model
from agentctx.models.profile import cache_rules
from agentctx.models.table import profile
from agentctx.session import forecast
from agentctx.strategies import TruncateOldest
from agentctx.testing import assistant, call, result, transcript, user

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
    session.internals.clock = Clock()
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
    session.internals.clock = Clock()
    assert forecast(session) is None
    await session.prepare(conversation(30))
    warm = forecast(session)
    session.internals.clock.now += 3_600
    cold = forecast(session)
    assert warm.calls > cold.calls == 1
    assert "pays back" in str(warm)


@pytest.mark.parametrize(("seconds", "acts"), [(10, False), (3_600, True)])
async def test_a_stage_can_wait_for_a_cold_cache(seconds, acts):
    """``cache_cold()`` holds when the last request is longer ago than the provider's cache lives."""
    session = Pipeline(when(cache_cold() & over(10), TrimRounds(2)), budget=Budget(100_000)).session(model=MODEL)
    session.internals.clock = Clock()
    messages = conversation(2)
    await session.prepare(messages)
    session.internals.clock.now += seconds
    view = await session.prepare(conversation(6))
    assert acts == view.report.acted


@pytest.mark.parametrize("stage", [TrimRounds(5), ClearToolResults(5), FitContextWindow()])
async def test_a_session_cuts_when_it_pays(stage):
    """Below the trigger a session cuts as soon as it pays back, in large steps: not a little at every step."""
    pipeline = Pipeline(when(pays_back(within=10), stage), budget=Budget(100_000, target=5_000))
    session, messages = pipeline.session(model=MODEL), conversation(60)
    session.internals.clock, acted, fell = Clock(), [], []
    for length in range(1, len(messages) + 1, 2):
        before = session.steps and forecast(session)
        report = (await session.prepare(messages[:length])).report
        if report.acted:
            acted.append(length)
            fell.append(report.forecast.calls)
            assert before is not None
    assert 2 <= len(acted) <= 10
    assert all(later - earlier >= 10 for earlier, later in pairwise(acted))
    assert all(calls <= 10 for calls in fell)


async def test_without_a_budget_a_session_knows_how_warm_the_cache_is():
    """``cache_cold()`` needs no budget: right after a call the cache is warm."""
    session = Pipeline(when(cache_cold(), TrimRounds(2))).session(model=MODEL)
    session.internals.clock = Clock()
    await session.prepare(conversation(2))
    assert not (await session.prepare(conversation(6))).report.acted
    session.internals.clock.now += 3_600
    assert (await session.prepare(conversation(7))).report.acted


@pytest.mark.parametrize("model", ["gpt-5.4", "deepseek/deepseek-v4-pro", "gemini/gemini-2.5-pro", MODEL])
async def test_forecasts_agree_with_the_simulated_cache(model):
    """What each report says its call costs is what the provider's cache, simulated, bills: cut on arrival, cut, or not.

    The same holds for what it would have cost without the compaction.
    """
    stages = TruncateToolOutputs(max_tokens=700), TruncateOldest()
    session = Pipeline(*stages, budget=Budget(20_000, target=6_000)).session(model=model, format="anthropic")
    session.internals.clock, messages = Clock(), conversation(60)
    rules, table, cuts = cache_rules(profile(model)), profile(model), 0
    with_cut, last, given = CacheSimulator(rules), None, 0
    for length in range(1, len(messages) + 1, 2):
        view = await session.prepare(messages[:length])
        reads = PromptReader(reader(messages, format="anthropic", model=model).meter)
        sent, report = reads.read(view.context), view.report
        if length > 1:
            without = deepcopy(with_cut)
            kept = Prompt.of([*last.blocks, CachedBlock("new", report.tokens_before - given, "short")])
            assert report.forecast.without == pytest.approx(
                cost(without.send(kept, session.internals.clock.now), table)
            )
            assert report.forecast.with_cut == pytest.approx(
                cost(with_cut.send(sent, session.internals.clock.now), table)
            )
            cuts += report.first_changed is not None
        else:
            with_cut.send(sent, session.internals.clock.now)
        last, given = sent, report.tokens_before
        session.internals.clock.now += 20
    assert cuts >= 2


@pytest.mark.parametrize("back", [4, 10, 18, 20, 40])
async def test_a_cut_in_the_middle_costs_what_the_marks_of_the_request_find(back):
    """With marks at the end only, a start that is unchanged is read as far as the provider looks back from them."""
    place = 80 - back

    async def cut(context, _call):
        if len(context.messages) != 81:
            return context
        made = [evolve(part, content=(Text("gone"),)) for part in context.messages[place].parts]
        edited = context.messages[place].with_parts(tuple(made))
        return context.with_messages((*context.messages[:place], edited, *context.messages[place + 1 :]))

    session = Pipeline(cut, PlaceCacheMarkers()).session(model=MODEL, format="anthropic")
    session.internals.clock, messages = Clock(), conversation(60)
    source = reader(messages, format="anthropic", model=MODEL)
    cache, reads = (
        CacheSimulator(cache_rules(profile(MODEL))),
        PromptReader(source.meter, own=source.wire.cache_markers),
    )
    for length in range(1, 82, 2):
        view = await session.prepare(messages[:length], system="be careful " * 500)
        billed = cost(cache.send(reads.read(view.context), session.internals.clock.now), profile(MODEL))
        session.internals.clock.now += 20
    assert view.report.first_changed == place
    assert view.report.forecast.with_cut == pytest.approx(billed)


@pytest.mark.parametrize("stage", [Pack(), Tiered(), when(over(10), Pack("recent"))])
async def test_a_forecast_says_that_choosing_anew_at_every_call_never_pays(stage):
    """Without a session each call is chosen anew, and what is sent later is no longer in the cache."""
    pipeline = Pipeline(stage, budget=20_000)
    view = await pipeline.prepare(conversation(40), model=MODEL)
    assert view.report.forecast.later_with > view.report.forecast.later_without
    assert view.report.forecast.calls == inf
    assert "pays back never" in str(view.report.forecast)
    session = await pipeline.session(model=MODEL).prepare(conversation(40))
    assert session.report.forecast.later_with < view.report.forecast.later_with


async def test_the_payback_that_a_report_names_comes_true():
    """Sent on with and without one cut, growing alike, the bills cross at the call that the report names."""
    table, rules = profile(MODEL), cache_rules(profile(MODEL))
    session = Pipeline(FitContextWindow(), budget=Budget(30_000, target=20_000)).session(model=MODEL)
    session.internals.clock, messages = Clock(), conversation(60)
    views = [await session.prepare(messages[:length]) for length in range(1, len(messages) + 1, 2)]
    number = next(number for number, view in enumerate(views) if view.report.first_changed is not None)
    report, reads = views[number].report, PromptReader(reader(messages, format="anthropic", model=MODEL).meter)
    sums = []
    for context in (views[number].context, Context(reader(messages).messages(messages[: 2 * number + 1]))):
        cache = CacheSimulator(rules)
        for earlier in range(number):
            cache.send(reads.read(views[earlier].context), 20.0 * earlier)
        later = (cache.send(reads.read(context), 20.0 * (number + call)) for call in range(200))
        sums.append(list(accumulate(cost(usage, table) for usage in later)))
    crossed = next(call for call, (cut, uncut) in enumerate(zip(*sums, strict=True), start=1) if cut <= uncut)
    assert report.forecast.calls == crossed


async def test_a_model_without_a_price_for_its_answers_has_no_forecast():
    """Prices that are not all known give no forecast, and no error."""
    register_model(ModelProfile("house-of-half-prices", window=30_000, prices=Prices(1.0)))
    session = Pipeline(FitContextWindow(), budget=Budget(30_000)).session(model="house-of-half-prices")
    view = await session.prepare(conversation(20))
    assert view.report.forecast is None
    assert forecast(session) is None


async def test_a_stage_can_wait_until_it_pays():
    """``pays_back(within=...)`` holds when a cut to the target earns its cost in so many calls."""
    stages = when(over(10) & pays_back(within=1_000), TrimRounds(1))
    view = await Pipeline(stages, budget=Budget(2_000)).prepare(conversation(6), format="anthropic", model=MODEL)
    assert view.report.acted
