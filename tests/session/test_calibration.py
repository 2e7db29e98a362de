"""Learn from usage how far the local count is off."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, strategies as st

from agentctx.engine.usage import Calibration
from agentctx.tokens.counting import CalibratedCounter
from agentctx.tokens.tiktoken import TiktokenCounter


def conversation(seed, ratio, fixed):
    """Sizes of growing prompts: ours, and what a provider bills that counts ``ratio`` times as much plus ``fixed``."""
    rng = random.Random(seed)  # noqa: S311 - made-up sizes, not secrets
    local = 2_000
    while True:
        yield local, round(fixed + ratio * local * rng.uniform(0.995, 1.005))
        local += rng.randint(400, 4_000)


@given(st.integers(0, 10_000), st.floats(0.8, 1.9), st.integers(0, 3_000))
def test_after_three_reports_the_estimate_is_within_two_percent(seed, ratio, fixed):
    """Whatever ratio and wrapping the provider has, the fourth prompt on is estimated within 2 %."""
    calibration = Calibration()
    sizes = conversation(seed, ratio, fixed)
    for _ in range(3):
        calibration.learn(*next(sizes))
    for _ in range(10):
        local, billed = next(sizes)
        assert abs(calibration.estimate(local) - billed) <= 0.02 * billed
        calibration.learn(local, billed)


@given(st.integers(0, 10_000), st.floats(0.8, 1.9), st.sampled_from([0, 3, 40, 9_999_999]))
def test_one_bad_report_does_no_harm(seed, ratio, bad):
    """A report that cannot be true does not move the estimate."""
    calibration = Calibration()
    sizes = conversation(seed, ratio, 500)
    for _ in range(4):
        calibration.learn(*next(sizes))
    before = calibration.estimate(30_000)
    calibration.learn(next(sizes)[0], bad)
    assert before == calibration.estimate(30_000)


def test_a_change_that_stays_is_learned():
    """When two reports in a row say the same unlikely thing, it is believed."""
    calibration = Calibration()
    calibration.learn(10_000, 10_000)
    calibration.learn(10_500, 31_000)
    assert calibration.anchor == (10_000, 10_000)
    calibration.learn(11_000, 31_500)
    assert calibration.anchor == (11_000, 31_500)


@given(st.integers(1, 5_000), st.integers(1, 9_000), st.integers(1_000, 200_000))
def test_the_local_limit_is_what_the_provider_takes(local, billed, limit):
    """The largest local size that is allowed is estimated at no more than the limit."""
    calibration = Calibration()
    calibration.learn(local, billed)
    allowed = calibration.local(limit)
    assert allowed == 1 or calibration.estimate(allowed) <= limit + 2


def test_before_any_report_the_local_count_holds():
    """Without a report an estimate is the local count."""
    assert Calibration().estimate(1_234) == 1_234


TEXTS = st.text(max_size=200)


@given(TEXTS, st.integers(0, 60), st.integers(100, 160))
def test_a_corrected_counter_cuts_by_its_own_count(text, tokens, percent):
    """What a corrected counter cuts has at most so many of its own tokens, and it exceeds what it counts above."""
    inner = TiktokenCounter()
    counter = CalibratedCounter(inner, percent, cutter=inner)
    assert counter.count(counter.head(text, tokens)) <= tokens
    assert counter.count(counter.tail(text, tokens)) <= tokens
    assert counter.exceeds(text, tokens) == (counter.count(text) > tokens)


@pytest.mark.parametrize("percent", [0, -5])
def test_a_correction_below_one_percent_is_refused(percent):
    """A counter must count something."""
    with pytest.raises(ValueError, match="percent"):
        CalibratedCounter(TiktokenCounter(), percent, cutter=TiktokenCounter())
