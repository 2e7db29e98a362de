"""The simulated caches, against the rules as their providers state them."""

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from agentctx.economics import CachedBlock, CacheSimulator, Prompt, Usage
from agentctx.models import ModelProfile, Prices
from agentctx.models.profile import (
    ANTHROPIC_CACHE,
    DEEPSEEK_CACHE,
    GEMINI_CACHE,
    NO_CACHE,
    NOVA_CACHE,
    OPENAI_CACHE,
    OPENAI_TURNS_CACHE,
    cache_rules,
    warmth_at,
)
from agentctx.models.table import profile


def blocks(*sizes, start=0, marks=()):
    """Blocks of these sizes, the odd ones user turns, marked at the given places."""
    return [
        CachedBlock(start + place, size, "short" if place in marks else None, turn_end=place % 2 == 1)
        for place, size in enumerate(sizes)
    ]


def bill(rules, *prompts, at=()):
    """The usage of the last of several requests, a second apart when no times are given."""
    simulator = CacheSimulator(rules)
    times = at or range(len(prompts))
    return [simulator.send(Prompt.of(prompt), time) for prompt, time in zip(prompts, times, strict=True)][-1]


def test_openai_reads_whole_steps_of_128():
    """The shared prefix is rounded down to 128 tokens; writing costs nothing extra."""
    usage = bill(OPENAI_CACHE, blocks(1000, 100), blocks(1000, 100, 50))

    assert usage == Usage(fresh=1150 - 1024, cached=1024)


def test_openai_reads_nothing_below_1024():
    """A shared prefix of 1,023 tokens is billed in full."""
    assert bill(OPENAI_CACHE, blocks(1000, 23), blocks(1000, 23, 50)) == Usage(fresh=1073)


def test_prefix_ends_where_the_first_block_differs():
    """What comes after a change is not read, though it is the same."""
    changed = [*blocks(2048), CachedBlock("other", 10), *blocks(4096, start=2)]

    assert bill(DEEPSEEK_CACHE, [*blocks(2048), CachedBlock("one", 10), *blocks(4096, start=2)], changed).cached == 2048


def test_entries_lapse_and_live_on_with_use():
    """An entry lives its time after the last use, not after it was written."""
    prompt = blocks(2000, 100)

    assert bill(OPENAI_CACHE, prompt, prompt, at=(0, OPENAI_CACHE.ttl + 1)).cached == 0
    assert bill(OPENAI_CACHE, prompt, prompt, prompt, at=(0, OPENAI_CACHE.ttl, 2 * OPENAI_CACHE.ttl)).cached == 2048


def test_gpt_5_6_reads_from_the_end_of_an_earlier_turn():
    """The entry stands at the end of the last user or tool message; what follows it is written, at its price."""
    usage = bill(OPENAI_TURNS_CACHE, blocks(1000, 500), blocks(1000, 500, 70, 30))

    assert usage == Usage(cached=1500, written=100)


def test_gpt_5_6_knows_no_shorter_prefix():
    """A change before the only breakpoint loses all of it: there is no fall-back to an unmarked prefix."""
    changed = [*blocks(5000), CachedBlock("other", 500, turn_end=True)]

    assert bill(OPENAI_TURNS_CACHE, blocks(5000, 500), changed) == Usage(written=5500)


def test_gpt_5_6_keeps_the_head_at_an_explicit_mark():
    """With a mark at the end of the stable head, a change behind it loses only what is behind it."""
    changed = [*blocks(5000, marks=(0,)), CachedBlock("other", 500, turn_end=True)]

    assert bill(OPENAI_TURNS_CACHE, blocks(5000, 500, marks=(0,)), changed) == Usage(cached=5000, written=500)


def test_gpt_5_6_bills_what_follows_the_last_turn_as_plain_input():
    """Blocks behind the last breakpoint are neither read nor written."""
    assert bill(OPENAI_TURNS_CACHE, blocks(1000, 500, 200)) == Usage(fresh=200, written=1500)


def test_anthropic_reads_and_writes_at_marks():
    """What an earlier mark wrote is read, the rest up to the last mark is written, and what follows is plain."""
    usage = bill(ANTHROPIC_CACHE, blocks(2000, marks=(0,)), blocks(2000, 300, 40, marks=(0, 1)))

    assert usage == Usage(fresh=40, cached=2000, written=300)


def test_anthropic_caches_nothing_without_marks():
    """No mark, no entry, no fee."""
    assert bill(ANTHROPIC_CACHE, blocks(5000), blocks(5000, 10)) == Usage(fresh=5010)


@pytest.mark.parametrize(("grown", "cached"), [(19, 2000), (20, 0)])
def test_anthropic_looks_back_twenty_blocks(grown, cached):
    """An entry is found at most 20 blocks back from a mark, the marked block included."""
    before, after = blocks(2000, marks=(0,)), blocks(2000, *[10] * grown, marks=(grown,))

    assert bill(ANTHROPIC_CACHE, before, after).cached == cached


def test_anthropic_stops_at_the_first_entry_on_the_way_back():
    """Of several entries the nearest before the mark counts, and it is the longest."""
    assert bill(ANTHROPIC_CACHE, blocks(2000, 500, marks=(0, 1)), blocks(2000, 500, 9, marks=(2,))).cached == 2500


def test_anthropic_passes_over_marks_below_the_minimum():
    """A prefix that is too short is neither written nor read, without a word."""
    short = evolve(ANTHROPIC_CACHE, smallest=4096)

    assert bill(short, blocks(4000, marks=(0,)), blocks(4000, marks=(0,))) == Usage(fresh=4000)


def test_anthropic_bills_long_and_short_writes_apart():
    """Up to the deepest mark for an hour the hour's price holds, from there to the last mark that of 5 minutes."""
    prompt = [CachedBlock(0, 2000, "long"), CachedBlock(1, 300, "short"), CachedBlock(2, 50)]

    assert bill(ANTHROPIC_CACHE, prompt) == Usage(fresh=50, written=300, written_long=2000)


def test_anthropic_hour_outlives_five_minutes():
    """After six minutes the entry for an hour is still there, the other is not."""
    prompt = [CachedBlock(0, 2000, "long"), CachedBlock(1, 300, "short")]

    assert bill(ANTHROPIC_CACHE, prompt, prompt, at=(0, 360)) == Usage(cached=2000, written=300)


def test_anthropic_reading_keeps_an_entry():
    """Each hit gives the entry its five minutes again, for free."""
    head, at = blocks(2000, marks=(0,)), (0, 290, 580)

    assert bill(ANTHROPIC_CACHE, head, head, head, at=at) == Usage(cached=2000)


def test_anthropic_an_entry_that_lapsed_is_forgotten():
    """What is written again after its hour lives as long as it is asked for now."""
    long, short = [CachedBlock(0, 2000, "long")], [CachedBlock(0, 2000, "short")]

    assert bill(ANTHROPIC_CACHE, long, short, short, at=(0, 3_601, 3_902)).cached == 0
    assert bill(ANTHROPIC_CACHE, long, short, short, at=(0, 3_599, 3_902)).cached == 2000


@pytest.mark.parametrize(("rules", "lives"), [(ANTHROPIC_CACHE, 300), (OPENAI_TURNS_CACHE, 1_800)])
def test_an_entry_behind_which_something_was_written_lives_on(rules, lives):
    """Reading gives an entry its time again, also when the request has written another after it."""
    head, more = CachedBlock(0, 2000, "short", turn_end=True), CachedBlock(1, 300, "short", turn_end=True)
    times = (0, lives - 1, 2 * lives - 2)

    assert bill(rules, [head], [evolve(head, mark=None), more], [head], at=times).cached == 2000


def test_gpt_5_6_writes_no_turn_below_the_minimum():
    """A prefix that is too short is plain input, however often it is sent."""
    short = blocks(400, 400)

    assert bill(OPENAI_TURNS_CACHE, short, short) == Usage(fresh=800)


def test_anthropic_takes_four_marks():
    """Of more than four marks the last four count."""
    prompt = blocks(2000, 10, 10, 10, 10, marks=range(5))

    assert bill(ANTHROPIC_CACHE, prompt, prompt[:1]).cached == 0


def test_nova_writes_for_nothing():
    """Amazon Nova needs marks as well, but a write is billed as plain input."""
    assert bill(NOVA_CACHE, blocks(2000, marks=(0,))) == Usage(fresh=2000)


def test_gemini_explicit_cache_is_read_until_it_ends():
    """What was put into an explicit cache is read by requests that begin with it, for as long as it was asked to be."""
    simulator = CacheSimulator(GEMINI_CACHE)
    assert simulator.hold(Prompt.of(blocks(5000)), at=0, seconds=7_200) == Usage(fresh=5000)
    simulator.hold(Prompt.of(blocks(5000)), at=0, seconds=10)

    assert simulator.send(Prompt.of(blocks(5000, 100)), at=7_000).cached == 5000
    assert simulator.send(Prompt.of(blocks(5000, 100)), at=30_000).cached == 0


def test_without_a_cache_all_is_plain():
    """A model without a price for cached input has no cache."""
    assert bill(NO_CACHE, blocks(5000), blocks(5000)) == Usage(fresh=5000)


@pytest.mark.parametrize(
    ("model", "kind", "smallest"),
    [
        ("gpt-5.4", "prefix", 1024),
        ("gpt-4o", "prefix", 1024),
        ("gpt-5.6-sol", "turns", 1024),
        ("gpt-6.1-terra", "turns", 1024),
        ("claude-opus-5-5", "marks", 512),
        ("claude-haiku-4-5", "marks", 4096),
        ("us.anthropic.claude-sonnet-5-5", "marks", 512),
        ("amazon.nova-pro-v1:0", "marks", 1000),
        ("deepseek/deepseek-v4-pro", "prefix", 64),
        ("gemini/gemini-2.5-pro", "prefix", 2048),
        ("xai/grok-4.20", "prefix", 1024),
        ("gpt-5.5-pro", "none", 1024),
    ],
)
def test_rules_of_models(model, kind, smallest):
    """Each model gets its provider's rules, and the smallest prefix of the model table."""
    rules = cache_rules(profile(model))

    assert (rules.kind, rules.smallest) == (kind, smallest)


def test_rules_of_a_model_that_is_not_listed():
    """A model of one's own is cached when it has a price for cached input."""
    assert cache_rules(ModelProfile("house-model")).kind == "none"
    assert cache_rules(ModelProfile("house-model", prices=Prices(1, 0.1, output=2))).kind == "prefix"


def test_warmth():
    """A cache is warm until its time has passed since the last request."""
    assert [warmth_at(ANTHROPIC_CACHE, idle) for idle in (0, 300, 301)] == [1.0, 1.0, 0.0]
    assert warmth_at(ANTHROPIC_CACHE, 1_800, long=True) == 1.0
    assert warmth_at(NO_CACHE, 0) == 0.0


sizes = st.lists(st.integers(0, 3_000), min_size=1, max_size=12)
rules = st.sampled_from(
    [OPENAI_CACHE, OPENAI_TURNS_CACHE, ANTHROPIC_CACHE, NOVA_CACHE, DEEPSEEK_CACHE, GEMINI_CACHE, NO_CACHE]
)


@given(rules, st.lists(st.tuples(sizes, st.sets(st.integers(0, 11)), st.integers(0, 400)), min_size=1, max_size=5))
def test_every_token_is_billed_once(rules, requests):
    """Whatever is sent, read, written and plain tokens add up to the prompt, and none is negative."""
    simulator, now = CacheSimulator(rules), 0
    for sent, marks, pause in requests:
        now += pause
        usage = simulator.send(Prompt.of(blocks(*sent, marks=marks)), now)
        assert usage.prompt == sum(sent)
        assert min(usage.fresh, usage.cached, usage.written, usage.written_long) >= 0


@given(rules, sizes)
def test_the_first_request_reads_nothing(rules, sent):
    """An empty cache has nothing to read."""
    assert CacheSimulator(rules).send(Prompt.of(blocks(*sent, marks=range(12))), 0).cached == 0
