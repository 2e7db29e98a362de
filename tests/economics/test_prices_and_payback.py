"""What calls cost, and when a compaction pays."""

from math import inf

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from agentctx import (
    Budget,
    Call,
    ConfigError,
    Context,
    FitContextWindow,
    Message,
    Pipeline,
    Text,
    ToolCall,
    over,
    when,
)
from agentctx.economics import (
    CutTokens,
    Request,
    Usage,
    cache_cold,
    call_cost,
    compared,
    cost,
    expected_forecast,
    forecast,
    made_forecast,
    pays_back,
    suspect_truncation,
)
from agentctx.models import ModelProfile, Prices
from agentctx.models.profile import NO_CACHE
from agentctx.models.table import profile
from agentctx.testing import assistant, result, system, transcript, user
from agentctx.tokens import FixedCounter
from agentctx.tokens.counting import MessageMeter

READ, WRITE = 0.1, 1.25
CLAUDE = ModelProfile("claude-test", prices=Prices(10, 1, 12.5, 20, 50))
AUTOMATIC = ModelProfile("deepseek-test", prices=Prices(10, 1, output=50))


def test_each_kind_of_token_has_its_price():
    """A million of each costs what the table says."""
    assert cost(Usage(1_000_000), CLAUDE) == 10
    assert cost(Usage(0, 1_000_000), CLAUDE) == 1
    assert cost(Usage(0, 0, 1_000_000), CLAUDE) == 12.5
    assert cost(Usage(0, 0, 0, 1_000_000), CLAUDE) == 20
    assert cost(Usage(output=1_000_000), CLAUDE) == 50


def test_usage_adds_up():
    """Each kind of token by itself."""
    assert Usage(1, 2, 3, 4, 5) + Usage(10, 20, 30, 40, 50) == Usage(11, 22, 33, 44, 55)


def test_a_long_request_costs_more_as_a_whole():
    """Over 272,000 input tokens GPT-5.4 bills all input twice, cached or not, and the output half more."""
    model = profile("gpt-5.4")
    short, long = cost(Usage(72_000, 200_000, output=1_000), model), cost(Usage(72_001, 200_000, output=1_000), model)

    assert short == pytest.approx((72_000 * 2.5 + 200_000 * 0.25 + 1_000 * 15) / 1e6)
    assert long == pytest.approx((72_001 * 5 + 200_000 * 0.5 + 1_000 * 22.5) / 1e6)


def test_unlisted_prices_follow_those_of_the_input():
    """Without a price for reading, reading costs the full price; in the long tier unlisted prices grow in step."""
    bare = ModelProfile("bare", prices=Prices(2, output=4))
    tiered = ModelProfile("tiered", prices=Prices(2, 0.2, output=4), long_from=10, long_prices=Prices(4, output=6))

    assert cost(Usage(0, 1_000_000), bare) == 2
    assert cost(Usage(0, 0, 1_000_000), bare) == 2
    assert cost(Usage(0, 0, 0, 1_000_000), bare) == 4
    assert cost(Usage(0, 1_000_000), tiered) == pytest.approx(0.4)
    listed = evolve(tiered, prices=Prices(2, 0.2, 3, 4, 4), long_prices=Prices(4, write=7, write_long=9, output=6))
    assert (cost(Usage(0, 0, 1_000_000), listed), cost(Usage(0, 0, 0, 1_000_000), listed)) == (7, 9)


def test_a_model_without_prices_is_an_error():
    """Nothing is guessed: the message says what to do."""
    for prices in (Prices(), Prices(2), Prices(output=4)):
        with pytest.raises(ConfigError, match="register_model"):
            cost(Usage(1), ModelProfile("unknown", prices=prices))


def test_call_cost_writes_where_writing_costs():
    """What is not read is written at the write price, or billed as plain input where there is none."""
    assert call_cost(CLAUDE, 1_000_000, cached=400_000) == pytest.approx(0.4 + 0.6 * 12.5)
    assert call_cost(AUTOMATIC, 1_000_000, cached=400_000) == pytest.approx(0.4 + 0.6 * 10)
    for model in (CLAUDE, AUTOMATIC):
        assert call_cost(model, 0, output=1_000_000) == 50


def test_a_model_that_costs_nothing():
    """A price of 0 is a price, also where only a long request costs something."""
    free = ModelProfile("free", prices=Prices(0, output=0), long_from=10, long_prices=Prices(2, output=4))
    assert cost(Usage(10, output=5), free) == 0
    assert cost(Usage(1_000_000), free) == 2


@given(st.integers(1_024, 10_000), st.integers(0, 200_000), st.integers(1, 200_000))
def test_payback_follows_the_formula(head, kept, dropped):
    """A warm cut has paid after (w - r) * kept / (r * dropped) calls, rounded up, and not before the first."""
    exact = (WRITE - READ) * kept / (READ * dropped)

    assert forecast(CLAUDE, CutTokens(head, kept, dropped)).calls == pytest.approx(max(1, exact), abs=1.0001)
    assert forecast(CLAUDE, CutTokens(head, kept, dropped)).calls >= exact - 1e-6


@given(st.integers(0, 10_000), st.integers(0, 50_000), st.integers(1, 50_000), st.integers(1, 40))
def test_payback_is_when_the_sums_meet(head, kept, dropped, calls):
    """The bills with and without the cut, added up over the calls, cross where the forecast says."""
    found = forecast(CLAUDE, CutTokens(head, kept, dropped))
    without = found.without + (calls - 1) * found.later_without
    with_cut = found.with_cut + (calls - 1) * found.later_with

    assert (with_cut <= without + 1e-12) == found.pays_back(calls)


def test_what_is_too_short_to_be_kept_is_not_read():
    """A head below the smallest prefix is written again with the rest; one at the minimum is read."""
    short, long = forecast(CLAUDE, CutTokens(1_023, 9_000, 9_000)), forecast(CLAUDE, CutTokens(1_024, 8_999, 9_000))

    assert short.with_cut == pytest.approx(10_023 * 12.5e-6)
    assert long.with_cut == pytest.approx(1_024 * 1e-6 + 8_999 * 12.5e-6)


def test_two_requests_are_compared_by_what_is_known_of_each():
    """The request without the cut is read up to its new part, the one with it up to the first change."""
    found = compared(CLAUDE, Request(30_000, 20_000), Request(12_000, 5_000))

    assert found.without == pytest.approx(20_000 * 1e-6 + 10_000 * 12.5e-6)
    assert found.with_cut == pytest.approx(5_000 * 1e-6 + 7_000 * 12.5e-6)
    assert (found.later_without, found.later_with) == pytest.approx((0.03, 0.012))


def test_what_the_next_call_brings_is_new_in_either_case():
    """It is written whether there is a cut or not, and read by the calls after it."""
    found = forecast(CLAUDE, CutTokens(5_000, 7_000, 8_000, new=1_000))

    assert found.without == pytest.approx(20_000 * 1e-6 + 1_000 * 12.5e-6)
    assert found.with_cut == pytest.approx(5_000 * 1e-6 + 8_000 * 12.5e-6)
    assert (found.later_without, found.later_with) == pytest.approx((0.021, 0.013))


def test_other_rules_than_the_models_can_be_given():
    """As for a server of one's own that caches nothing."""
    found = forecast(CLAUDE, CutTokens(5_000, 7_000, 8_000), rules=NO_CACHE)

    assert (found.without, found.with_cut) == pytest.approx((0.2, 0.12))


def test_a_cold_cut_pays_at_once():
    """When the cache has lapsed all is written anyway, so a smaller request is cheaper from the first call."""
    found = forecast(CLAUDE, CutTokens(1_000, 50_000, 20_000), warmth=0.0)

    assert found.calls == 1
    assert found.once < 0


def test_a_cut_that_drops_nothing_never_pays():
    """Rewriting the history without making it smaller costs money for ever."""
    found = forecast(CLAUDE, CutTokens(1_000, 50_000, 0))

    assert found.calls == inf
    assert "never" in str(found)


def test_a_cut_below_the_long_tier_pays_at_once():
    """Coming down below the size where all costs double is worth rewriting."""
    warm = forecast(profile("gemini-2.5-pro"), CutTokens(100_000, 20_000, 100_000))

    assert warm.pays_back(3)
    assert not forecast(profile("gemini-2.5-pro"), CutTokens(0, 20_000, 10_000)).pays_back(3)


def call(limit, model=CLAUDE, warmth=1.0):
    """A call that has to come down to ``limit`` tokens, by a counter that takes each text for one."""
    meter = MessageMeter(FixedCounter(1))
    budget = Budget(1_000_000, trigger=900_000, target=limit)
    return Call(meter, budget=budget, limit=limit, profile=model, warmth=warmth)


def context(length):
    """A task and many answers."""
    return Context((Message("user", (Text("task"),)), *(Message("assistant", (Text(str(n)),)) for n in range(length))))


def test_cache_cold_asks_for_the_warmth():
    """The condition holds when less than half is believed to be in the cache."""
    assert cache_cold()(context(3), call(5, warmth=0.0))
    assert not cache_cold()(context(3), call(5, warmth=1.0))


def test_pays_back_counts_the_calls():
    """The same cut pays within many calls and not within few."""
    here, now = context(3_000), call(2_000)
    found = expected_forecast(here, now)

    assert pays_back(int(found.calls))(here, now)
    assert not pays_back(int(found.calls) - 1)(here, now)


@pytest.mark.parametrize("within", [True, 0, 2.5])
def test_pays_back_within_a_number_of_calls(within):
    """A whole one, and at least one."""
    with pytest.raises(ConfigError, match="within must be a whole number"):
        pays_back(within)


def test_what_is_never_cut_is_read_and_the_rest_that_stays_is_written():
    """System prompt, system messages and the first task stand before the first cut; the next words do not."""
    lead = [Message(role, (Text(role),)) for role in ("system", "user", "user")]
    here = Context((*lead, *context(3_000).messages[1:]), Message("system", (Text("rules"),)))
    model = evolve(CLAUDE, min_cache=1)
    now = call(2_000, model)
    head = now.meter.fixed(here) + 2
    assert expected_forecast(here, now) == forecast(model, CutTokens(head, 2_000 - head, now.size(here) - 2_000))


def test_pays_back_is_false_with_nothing_to_cut():
    """A context within the limit, or as large, has nothing to pay back."""
    assert not pays_back(20)(context(3), call(900_000))
    assert expected_forecast(context(1_999), call(2_000)) is None


def test_pays_back_approves_of_what_was_made():
    """What the stages made of it must pay back too: a cut that frees little, or late, is not worth its writing."""
    here, now = context(3_000), call(2_000)
    shorter = here.with_messages((*here.messages[:1], *here.messages[1_500:]))
    hardly = here.with_messages((*here.messages[:1], *here.messages[2:]))
    at_the_end = here.with_messages(here.messages[:-1])

    assert pays_back(20).approves(here, shorter, now)
    assert not pays_back(20).approves(here, hardly, now)
    assert pays_back(20).approves(here, at_the_end, now)
    assert not pays_back(20).approves(here, here, now)


@pytest.mark.parametrize("warmth", [0.0, 0.5, 1.0])
def test_what_was_made_is_known_up_to_the_first_change(warmth):
    """The cache holds all of the request before, and of the new one what both begin with, if it is warm."""
    here, now = context(3_000), call(4, warmth=warmth)
    shorter = here.with_messages((*here.messages[:2_000], *here.messages[2_500:]))
    other = Context(shorter.messages, Message("system", (Text("rules"),)))
    whole = Request(3_001, 3_001)

    assert made_forecast(here, shorter, now) == compared(CLAUDE, whole, Request(2_501, 2_000), warmth)
    assert made_forecast(here, other, now) == compared(CLAUDE, whole, Request(2_502, 0), warmth)
    assert made_forecast(shorter, here, now) is None


def test_what_does_not_fit_is_cut_whether_it_pays_or_not():
    """Over the limit something has to go, so the question is not what it costs."""
    here, now = context(3_000), call(2_900)
    assert not pays_back(20)(here, now)

    full = evolve(now, budget=Budget(2_950))
    assert pays_back(20)(here, full)
    assert pays_back(20).approves(here, here.with_messages(here.messages[:1]), full)


def test_joined_conditions_approve_as_they_hold():
    """Of ``|`` the one that held has to approve, of ``&`` both; ``~`` and the others approve of everything."""
    here, now = context(3_000), call(2_000)
    hardly = here.with_messages((*here.messages[:1], *here.messages[2:]))

    assert (over(10) | pays_back(20)).approves(here, hardly, now)
    assert not (over(10_000_000) | pays_back(20)).approves(here, hardly, now)
    assert not (over(10) & pays_back(20)).approves(here, hardly, now)
    assert (~pays_back(20)).approves(here, hardly, now)


def test_pays_back_needs_a_model():
    """Without a model there are no prices; the message says so."""
    with pytest.raises(ConfigError, match="model="):
        pays_back(20)(context(3_000), call(2_000, model=None))
    with pytest.raises(ConfigError, match="at least 1"):
        pays_back(0)


def test_conditions_join():
    """They stand beside ``over`` in one condition, whose name tells all."""
    joined = over(10_000_000) | cache_cold() | pays_back(within=20)

    assert joined.name == "over(10000000) | cache_cold() | pays_back(within=20)"
    assert joined(context(3), call(5, warmth=0.0))


@pytest.mark.parametrize("large", [False, True])
@pytest.mark.parametrize("cold", [False, True])
@pytest.mark.parametrize("pays", [False, True])
def test_conditions_join_as_they_are_read(large, cold, pays):
    """``&`` binds before ``|``, ``~`` before both, and the name says so."""
    size = over(1) if large else over(10_000_000)
    back = pays_back(1_000_000 if pays else 1)
    here, now = context(3_000), call(2_000, warmth=0.0 if cold else 1.0)
    pays = pays or cold  # a cold cut pays at once
    tests = {
        "{0} | {1} & {2}": (size | cache_cold() & back, large or (cold and pays)),
        "({0} | {1}) & {2}": ((size | cache_cold()) & back, (large or cold) and pays),
        "~({0}) & ~({1})": (~size & ~cache_cold(), not large and not cold),
        "~({0} | {1})": (~(size | cache_cold()), not (large or cold)),
    }
    for name, (condition, expected) in tests.items():
        assert condition.name == name.format(size.name, "cache_cold()", back.name)
        assert condition(here, now) == expected


@pytest.mark.parametrize(
    ("numbers", "suspected"),
    [
        ({"billed": 4_096, "sent": 20_000}, True),
        ({"billed": 19_000, "sent": 20_000}, False),
        ({"billed": 30_000, "sent": 20_000}, False),
        ({"billed": 0, "sent": 20_000}, False),
        ({"billed": 100, "sent": 300}, False),
        ({"billed": 599, "sent": 1_000}, True),
        ({"billed": 600, "sent": 1_000}, False),
        ({"billed": 400, "sent": 1_000, "calibrated": False}, False),
        ({"billed": 399, "sent": 1_000, "calibrated": False}, True),
        ({"billed": 4_096, "sent": 20_000, "uncertain": 14_000}, False),
        ({"billed": 4_096, "sent": 20_000, "fresh": 4_000}, False),
        ({"billed": 4_096, "sent": 20_000, "fresh": 9_000}, True),
        ({"billed": 600, "sent": 20_000, "fresh": 1_000}, False),
        ({"billed": 599, "sent": 20_000, "fresh": 1_000}, True),
        ({"billed": 6_100, "sent": 20_000, "fresh": 3_000}, False),
        ({"billed": 6_101, "sent": 20_000, "fresh": 3_000}, True),
        ({"billed": 140_000, "sent": 150_000, "window": 131_072}, True),
        ({"billed": 140_000, "sent": 100_000, "window": 131_072}, False),
        ({"billed": 131_000, "sent": 132_000, "window": 131_072, "output": 0, "stopped_by_length": True}, True),
        ({"billed": 131_000, "sent": 132_000, "window": 131_072, "output": 9, "stopped_by_length": True}, False),
        ({"billed": 131_072, "sent": 131_072, "window": 131_072, "output": 0, "stopped_by_length": True}, True),
        ({"billed": 131_072, "sent": 131_072, "window": 131_072}, False),
        ({"billed": 1, "sent": 20_000}, True),
    ],
)
def test_truncation_is_suspected(numbers, suspected):
    """A server that bills far less than was sent, more than its window, or a window filled to the brim, cut it."""
    found = suspect_truncation(**numbers)

    assert (found is not None) == suspected
    if found is not None:
        assert (found.billed, found.sent) == (numbers["billed"], numbers["sent"])
        assert f"{found.billed:,}" in found.why


@pytest.mark.anyio
async def test_what_cannot_pay_back_is_not_tried():
    """Much of the history stays whatever is cut: no step runs the stages to find out that this is too much."""
    tried, cuts = [], 0

    def trying(context, call):
        tried.append(call.size(context))
        return context

    pipeline = Pipeline(when(pays_back(5), trying, FitContextWindow()), budget=Budget(150_000, target=0.25))
    session = pipeline.session(model="gpt-5.4", format="openai-chat")
    rounds = [
        (assistant(ToolCall(f"c{n}", "read", "{}")), result(f"c{n}", f"line {n} of it, " * 300)) for n in range(80)
    ]
    rules = [(system(f"rule {n}, " * 400),) if n % 8 == 3 else () for n in range(80)]
    messages = transcript("openai-chat", user("Find out why the build fails."))
    for turns in zip(rounds, rules, strict=True):
        messages += transcript("openai-chat", *turns[0], *turns[1])
        view = await session.prepare(messages)
        cuts += view.report.first_changed is not None
    assert len(tried) == cuts > 0
