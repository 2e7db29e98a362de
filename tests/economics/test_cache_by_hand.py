"""Bills worked out by hand from the providers' pages, in dollars, and laws that hold for every cache."""

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from agentctx.economics import CachedBlock, CacheSimulator, Prompt, Usage, cost
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

KINDS = {
    "gpt-5.4": OPENAI_CACHE,
    "gpt-5.6-sol": OPENAI_TURNS_CACHE,
    "claude-sonnet-5-5": ANTHROPIC_CACHE,
    "deepseek/deepseek-v4-pro": DEEPSEEK_CACHE,
    "gemini/gemini-2.5-pro": GEMINI_CACHE,
    "amazon.nova-pro-v1:0": NOVA_CACHE,
    "gpt-5.5-pro": NO_CACHE,
}


def head(tokens=10_000, mark="short"):
    """Tools and system prompt."""
    return CachedBlock("head", tokens, mark)


def said(number, tokens, mark=None):
    """What the user or a tool said."""
    return CachedBlock(("said", number), tokens, mark, turn_end=True)


def answer(number, tokens=500):
    """What the model said."""
    return CachedBlock(("answer", number), tokens)


def bills(model, *requests, pause=10.0):
    """What each request is billed, in dollars."""
    simulator = CacheSimulator(cache_rules(profile(model)))
    sent = [simulator.send(Prompt.of(blocks), number * pause) for number, blocks in enumerate(requests)]
    return [cost(usage, profile(model)) for usage in sent]


@pytest.mark.parametrize("model", KINDS)
def test_every_answer_is_billed(model):
    """Whatever is read and written of the prompt."""
    simulator = CacheSimulator(KINDS[model])
    assert [simulator.send(Prompt.of([head()]), second, output=7).output for second in (0, 1)] == [7, 7]


@pytest.mark.parametrize("model", [model for model, rules in KINDS.items() if rules.kind != "none"])
def test_an_entry_lives_to_its_last_second(model):
    """Read when its time is over, not after; reading makes it live as long again."""
    rules, prompt = KINDS[model], Prompt.of([head(), said(1, 500, "short")])
    simulator = CacheSimulator(rules)
    seconds = (0, rules.ttl, 2 * rules.ttl, 3 * rules.ttl + 1)
    assert [simulator.send(prompt, at).cached > 0 for at in seconds] == [False, True, True, False]
    assert [warmth_at(rules, idle) for idle in (rules.ttl, rules.ttl + 1)] == [1, 0]


def test_claude_finds_nothing_behind_a_mark():
    """Of a request that was written to its end, none is read when only an earlier place is marked."""
    simulator = CacheSimulator(ANTHROPIC_CACHE)
    simulator.send(Prompt.of([head(mark=None), said(1, 500, "short")]), 0)
    assert simulator.send(Prompt.of([head(), said(1, 500)]), 1) == Usage(500, written=10_000)


@pytest.mark.parametrize(("shared", "cached"), [(1_023, 0), (1_024, 1_024), (1_151, 1_024), (1_152, 1_152)])
def test_openai_before_5_6_reads_steps(shared, cached):
    """From 1,024 tokens on whole steps of 128 are read; the rest costs as plain input."""
    first, second = [CachedBlock(0, shared)], [CachedBlock(0, shared), said(1, 400)]
    simulator = CacheSimulator(OPENAI_CACHE)
    simulator.send(Prompt.of(first), 0)

    assert simulator.send(Prompt.of(second), 1) == Usage(shared + 400 - cached, cached)


def test_gpt_5_4_in_dollars():
    """$2.50 a million fresh, $0.25 read: 10,500 tokens first, then 10,496 of them read."""
    first, second = bills("gpt-5.4", [head(), said(1, 500)], [head(), said(1, 500), answer(1), said(2, 1_000)])

    assert first == pytest.approx(10_500 * 2.5e-6)
    assert second == pytest.approx(10_496 * 0.25e-6 + 1_504 * 2.5e-6)


def test_gpt_5_6_in_dollars():
    """Writing costs $5, reading $0.40; all up to the last tool message is written, none of it is rounded."""
    first, second = bills("gpt-5.6-sol", [head(), said(1, 501)], [head(), said(1, 501), answer(1), said(2, 1_000)])

    assert first == pytest.approx(10_501 * 5e-6)
    assert second == pytest.approx(10_501 * 0.4e-6 + 1_500 * 5e-6)


@pytest.mark.parametrize(("marker", "read"), [("short", 10_000), (None, 0)])
def test_gpt_5_6_keeps_only_a_marked_head(marker, read):
    """After the middle was left out the head is read when it was marked; else all is written again."""
    before = [head(mark=marker), said(1, 500), answer(1), said(2, 20_000)]
    after = [head(mark=marker), said(3, 2_000)]

    _, second = bills("gpt-5.6-sol", before, after)
    assert second == pytest.approx(read * 0.4e-6 + (12_000 - read) * 5e-6)


def test_gpt_5_6_over_272k_costs_twice_as_a_whole():
    """One token over the threshold doubles reading and writing alike."""
    most = [head(272_000 - 1_000), said(1, 1_000)]
    over = [head(272_000 - 1_000), said(1, 1_000), said(2, 1)]

    first, second = bills("gpt-5.6-sol", most, over)
    assert first == pytest.approx(272_000 * 5e-6)
    assert second == pytest.approx(272_000 * 0.8e-6 + 1 * 10e-6)


@pytest.mark.parametrize(("place", "read"), [(0, 0), (1, 2_100)])
def test_gpt_5_6_writes_at_most_four_places(place, read):
    """Beside the end of the last turn the latest three marks are written; earlier ones are not."""
    marked = [CachedBlock(0, 2_000, "short"), *(CachedBlock(number, 100, "short") for number in range(1, 4))]
    simulator = CacheSimulator(OPENAI_TURNS_CACHE)
    simulator.send(Prompt.of([*marked, said(9, 100)]), 0)

    sent = [*marked[: place + 1], said(8, 5_000)]
    assert simulator.send(Prompt.of(sent), 1).cached == read


def test_gpt_5_6_writes_only_the_last_end_of_a_turn():
    """Going back to an earlier one, nothing is found there."""
    simulator, first = CacheSimulator(OPENAI_TURNS_CACHE), [head(mark=None), said(1, 500)]
    simulator.send(Prompt.of([*first, answer(1), said(2, 500)]), 0)
    assert simulator.send(Prompt.of(first), 1).cached == 0


@pytest.mark.parametrize(("later", "read"), [(79, 2_000), (80, 0)])
def test_gpt_5_6_tries_the_latest_eighty_places(later, read):
    """An entry more than eighty places before the end is not found."""
    simulator = CacheSimulator(OPENAI_TURNS_CACHE)
    simulator.send(Prompt.of([said(0, 2_000)]), 0)

    sent = [said(0, 2_000), *(said(number, 10) for number in range(1, later + 1))]
    assert simulator.send(Prompt.of(sent), 1).cached == read


def test_gpt_5_6_counts_no_answers_among_the_places():
    """Only ends of turns and marks are tried, and the last end of a turn is written also before a mark."""
    simulator = CacheSimulator(OPENAI_TURNS_CACHE)
    simulator.send(Prompt.of([said(0, 2_000), CachedBlock("marked", 100, "short")]), 0)

    later = [block for number in range(1, 80) for block in (answer(number, 10), said(number, 10))]
    assert simulator.send(Prompt.of([said(0, 2_000), *later]), 1).cached == 2_000


def test_gpt_5_6_lives_half_an_hour_after_its_last_use():
    """Used every 29 minutes an entry stays; after 31 it is gone."""
    prompt = Prompt.of([said(0, 2_000)])
    simulator = CacheSimulator(OPENAI_TURNS_CACHE)

    cached = [simulator.send(prompt, minutes * 60).cached for minutes in (0, 29, 58, 89.1)]
    assert cached == [0, 2_000, 2_000, 0]


def test_gpt_5_6_writes_for_twelve_hours_at_its_own_price():
    """What is marked for the long time costs $10 a million to write, is there after 11 hours, and not after 24."""
    long = [head(mark="long"), said(1, 500)]
    first, second, third = bills("gpt-5.6-sol", long, long, [*long, said(2, 10)], pause=11 * 3_600)

    assert first == pytest.approx(10_000 * 10e-6 + 500 * 5e-6)
    assert second == pytest.approx(10_000 * 0.4e-6 + 500 * 5e-6)
    assert third == pytest.approx(10_000 * 0.4e-6 + 510 * 5e-6)


def test_claude_in_dollars():
    """$2.50 to write, $0.10 to read, $2 for what follows the last mark."""
    first = [head(), said(1, 500, "short")]
    second = [head(), said(1, 500), answer(1), said(2, 1_000, "short"), CachedBlock("prefill", 7)]

    assert bills("claude-sonnet-5-5", first, second) == pytest.approx(
        [10_500 * 2.5e-6, 10_500 * 0.1e-6 + 1_500 * 2.5e-6 + 7 * 2e-6]
    )


def test_claude_for_an_hour_in_dollars():
    """Up to the deepest mark for an hour $4 a million, from there to the last mark $2.50."""
    (first,) = bills("claude-sonnet-5-5", [head(mark="long"), said(1, 500, "short"), CachedBlock("prefill", 7)])

    assert first == pytest.approx(10_000 * 4e-6 + 500 * 2.5e-6 + 7 * 2e-6)


@pytest.mark.parametrize(("tokens", "rates"), [(100_000, (0.125, 0.01)), (100_001, (0.625, 0.05))])
def test_haiku_5_5_above_100k_costs_five_times_as_a_whole(tokens, rates):
    """All of a longer request, read or written, costs five times as much."""
    request = [head(tokens, "short")]

    assert bills("claude-haiku-5-5", request, request) == pytest.approx([tokens * rate * 1e-6 for rate in rates])


@pytest.mark.parametrize(("model", "smallest"), [("claude-opus-4-8", 1_024), ("claude-haiku-4-5", 4_096)])
def test_claude_minimum_in_dollars(model, smallest):
    """A prefix one token below the model's minimum is plain input every time; at the minimum it is written and read."""
    prices = profile(model).prices
    under, at = [head(smallest - 1)], [head(smallest)]

    assert bills(model, under, under) == pytest.approx([(smallest - 1) * prices.input / 1e6] * 2)
    assert bills(model, at, at) == pytest.approx([smallest * prices.write / 1e6, smallest * prices.cached / 1e6])


def test_claude_parallel_calls_push_the_last_entry_out_of_sight():
    """Ten calls with ten results are twenty blocks: from the end, the last entry is one block too far.

    A second mark where the last request ended finds it.
    """
    before = [head(mark=None), said(0, 1_000, "short")]
    calls = [answer(number, 10) for number in range(10)] + [said(number, 100) for number in range(1, 10)]
    alone = [head(mark=None), said(0, 1_000), *calls, said(10, 100, "short")]
    helped = [head(mark=None), said(0, 1_000, "short"), *calls, said(10, 100, "short")]

    grown = 10 * 10 + 10 * 100
    assert bills("claude-sonnet-5-5", before, alone)[1] == pytest.approx((11_000 + grown) * 2.5e-6)
    assert bills("claude-sonnet-5-5", before, helped)[1] == pytest.approx(11_000 * 0.1e-6 + grown * 2.5e-6)


def test_claude_on_bedrock_costs_a_tenth_more_in_a_region():
    """The same cache, at the prices of the regional profile."""
    request = [head()]

    plain, regional = bills("claude-sonnet-5-5", request), bills("us.anthropic.claude-sonnet-5-5", request)
    assert regional == pytest.approx([1.1 * each for each in plain])


@pytest.mark.parametrize(("shared", "cached"), [(63, 0), (64, 64), (127, 64), (1_000, 960)])
def test_deepseek_reads_units_of_64(shared, cached):
    """Whole units of 64 tokens from the first token on; writing is free."""
    first, second = bills("deepseek/deepseek-v4-pro", [CachedBlock(0, shared)], [CachedBlock(0, shared), said(1, 36)])

    assert first == pytest.approx(shared * 1.32e-6)
    assert second == pytest.approx(cached * 0.044e-6 + (shared + 36 - cached) * 1.32e-6)


@pytest.mark.parametrize(
    ("model", "smallest"), [("gemini/gemini-2.5-pro", 2_048), ("gemini/gemini-3.1-pro-preview", 4_096)]
)
def test_gemini_minimum(model, smallest):
    """A shared prefix is read from the model's minimum on, as it is."""
    simulator = CacheSimulator(cache_rules(profile(model)))
    sent = [
        [CachedBlock(tokens, tokens), said(number, 5)] for tokens in (smallest - 1, smallest + 7) for number in range(2)
    ]
    cached = [simulator.send(Prompt.of(blocks), 0).cached for blocks in sent]

    assert cached == [0, 0, 0, smallest + 7]


def test_gemini_pro_above_200k_costs_twice_as_a_whole():
    """Reading and plain input alike."""
    most, over = [head(200_000)], [head(200_000), said(1, 1)]

    assert bills("gemini/gemini-2.5-pro", most, over) == pytest.approx(
        [200_000 * 1.25e-6, 200_000 * 0.25e-6 + 1 * 2.5e-6]
    )


def test_nova_reads_a_quarter_and_writes_for_nothing():
    """$0.80 a million to write as to send, $0.20 to read; without marks all is plain."""
    marked, bare = [head()], [head(mark=None)]

    assert bills("amazon.nova-pro-v1:0", marked, marked) == pytest.approx([10_000 * 0.8e-6, 10_000 * 0.2e-6])
    assert bills("amazon.nova-pro-v1:0", bare, bare) == pytest.approx([10_000 * 0.8e-6] * 2)


requests = st.lists(
    st.lists(
        st.builds(
            CachedBlock,
            st.integers(0, 3),
            st.integers(0, 3_000),
            st.sampled_from([None, None, "short", "long"]),
            st.booleans(),
        ),
        min_size=1,
        max_size=8,
    ).map(lambda blocks: Prompt.of([evolve(block, key=(block.key, block.tokens)) for block in blocks])),
    min_size=1,
    max_size=6,
)


def shared(one, other):
    """Tokens of the longest common start."""
    pairs = enumerate(zip(one.keys, other.keys, strict=False))
    return next((one.ends[place] - one.blocks[place].tokens for place, (a, b) in pairs if a != b), None) or (
        min(one.tokens, other.tokens) if one.keys[:1] == other.keys[:1] else 0
    )


@given(st.sampled_from(sorted(KINDS)), requests)
def test_no_more_is_read_than_an_earlier_request_began_with(model, prompts):
    """What is read is at most the longest start that the request shares with one before it."""
    simulator = CacheSimulator(cache_rules(profile(model)))
    for number, prompt in enumerate(prompts):
        read = simulator.send(prompt, number).cached

        assert read <= max((shared(prompt, earlier) for earlier in prompts[:number]), default=0)


@given(st.sampled_from(sorted(KINDS)), requests, st.lists(st.integers(0, 50_000), min_size=6, max_size=6))
def test_the_same_requests_are_billed_the_same(model, prompts, pauses):
    """Two simulators given the same requests at the same times agree."""
    rules = cache_rules(profile(model))
    runs = []
    for simulator in (CacheSimulator(rules), CacheSimulator(rules)):
        times = [sum(pauses[:number]) for number in range(len(prompts))]
        runs.append([simulator.send(prompt, at) for prompt, at in zip(prompts, times, strict=True)])

    assert runs[0] == runs[1]


@given(
    st.sampled_from(sorted(KINDS)),
    requests,
    st.lists(st.integers(0, 2_000), min_size=6, max_size=6),
    st.lists(st.integers(0, 50_000), min_size=6, max_size=6),
)
def test_a_colder_cache_is_never_cheaper(model, prompts, pauses, longer):
    """With longer pauses between the same requests none of them costs less, and no more is read."""
    rules, table = cache_rules(profile(model)), profile(model)
    warm, cold = CacheSimulator(rules), CacheSimulator(rules)
    for number, prompt in enumerate(prompts):
        early, late = sum(pauses[:number]), sum(pauses[:number]) + sum(longer[:number])
        one, other = warm.send(prompt, early), cold.send(prompt, late)

        assert other.cached <= one.cached
        assert cost(other, table) >= cost(one, table) - 1e-12
