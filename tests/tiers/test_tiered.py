"""The stage that divides a running transcript among tiers."""

from functools import partial

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agentctx import Budget, ConfigError, FixedCounter, Pipeline, Protect
from agentctx.strategies.tiered import ByTools, Tiered
from agentctx.testing import assistant, call, check_laws, result, transcript, user
from agentctx.testing.histories import broken_histories, budgets, histories
from agentctx.testing.words import NAMES
from agentctx.tiers.tier import Tier, TierRule

RULES = [
    (),
    (TierRule(Tier.RAG, floor=50, share=0.3), TierRule(Tier.HISTORY, share=0.5)),
    (TierRule(Tier.CORE, cap=100), TierRule(Tier.HISTORY, floor=200, cap=400)),
]
SEARCHED = ByTools({"search": Tier.RAG})


@st.composite
def tiered(draw):
    """The stage with any of the rules, and tools in any tiers."""
    tools = draw(st.dictionaries(st.sampled_from(NAMES), st.integers(0, 6), max_size=3))
    return Tiered(draw(st.sampled_from(RULES)), tier_of=ByTools(tools))


@settings(max_examples=15)
@given(tiered(), histories(), budgets())
def test_the_ten_laws(both_loops, stage, history, budget):
    """The stage keeps the ten laws on any transcript, in any budget."""
    both_loops(partial(check_laws, stage, history.messages, budget, history.format, history.system, history.tools))


@settings(max_examples=15)
@given(tiered(), broken_histories(), budgets())
def test_the_ten_laws_on_broken_histories(both_loops, stage, history, budget):
    """The stage keeps the ten laws on transcripts that had to be repaired."""
    both_loops(partial(check_laws, stage, history.messages, budget, history.format, history.system, history.tools))


def agent(rounds):
    """A task and rounds that search and read by turns, and a last wish; a message costs ten tokens."""
    turns = [user("task")]
    for number in range(rounds):
        name = "search" if number % 2 else "read"
        turns += [assistant(call(f"c{number}", name, {"n": number})), result(f"c{number}", f"found {number}")]
    return transcript("openai-chat", *turns, user("and now?"))


def left(view):
    """The numbers of the rounds that are left."""
    return [int(message["content"].split()[1]) for message in view.messages if message["role"] == "tool"]


async def prepared(stage, messages, tokens, **options):
    """The view in so many tokens, ten a message."""
    return await Pipeline(stage, budget=tokens, counter=FixedCounter(10), **options).prepare(messages)


@pytest.mark.anyio
async def test_what_fits_stays():
    """A transcript within the budget comes back as it is."""
    messages = agent(4)
    view = await prepared(Tiered(), messages, 100)
    assert [id(message) for message in view.messages] == list(map(id, messages))
    assert not view.report.acted


@pytest.mark.anyio
async def test_without_rules_the_oldest_go():
    """With everything in one tier the oldest rounds go."""
    assert left(await prepared(Tiered(), agent(8), 100)) == [4, 5, 6, 7]


@pytest.mark.anyio
async def test_stronger_tiers_stay_longer():
    """Rounds of a stronger tier stay while those of a weaker one go."""
    assert left(await prepared(Tiered(tier_of=SEARCHED), agent(8), 100)) == [1, 3, 5, 7]


@pytest.mark.anyio
async def test_a_floor_keeps_room_for_the_weaker():
    """A floor keeps rounds of the weaker tier beside those of the stronger."""
    stage = Tiered([TierRule(Tier.HISTORY, floor=40)], tier_of=SEARCHED)
    assert left(await prepared(stage, agent(8), 100)) == [4, 5, 6, 7]


@pytest.mark.anyio
async def test_a_cap_holds_with_room_to_spare():
    """A cap cuts its tier even when everything fits, and cutting again changes nothing."""
    stage = Tiered([TierRule(Tier.RAG, cap=20)], tier_of=SEARCHED)
    view = await prepared(stage, agent(6), 1_000)
    assert left(view) == [0, 2, 4, 5]
    assert (await prepared(stage, view.messages, 1_000)).messages == view.messages


@pytest.mark.anyio
async def test_what_is_left_over_is_given_back():
    """What a grant leaves, because only whole rounds go, is given to whoever can use it."""
    rules = [TierRule(Tier.RAG, share=0.5), TierRule(Tier.HISTORY, share=0.5)]
    view = await prepared(Tiered(rules, tier_of=SEARCHED), agent(8), 80)
    assert left(view) == [5, 6, 7]
    assert view.report.tokens_after == 80


@pytest.mark.anyio
async def test_protected_rounds_stay():
    """What the caller protects stays, whatever its tier."""
    stage = Tiered(tier_of=ByTools({"search": Tier.SCRATCHPAD}))
    view = await prepared(stage, agent(8), 100, protect=[Protect.tools("search")])
    assert {1, 3, 5, 7} <= set(left(view))


@pytest.mark.anyio
async def test_a_session_goes_down_to_its_target():
    """In a session the stage acts past the trigger, and goes down to the target."""
    pipeline = Pipeline(Tiered(), budget=Budget(200, trigger=150, target=80), counter=FixedCounter(10))
    session = pipeline.session()
    small = await session.prepare(agent(6))
    assert not small.report.acted
    assert (await session.prepare([*agent(6), *agent(4)])).report.tokens_after <= 80


@pytest.mark.anyio
async def test_its_own_limit():
    """A limit of its own holds without a budget."""
    pipeline = Pipeline(Tiered(max_tokens=100), counter=FixedCounter(10))
    assert left(await pipeline.prepare(agent(8))) == [4, 5, 6, 7]


def test_needs_a_budget():
    """Without any limit the stage says which one to pass."""
    with pytest.raises(ConfigError, match=r"pass Tiered\(max_tokens"):
        anyio.run(Pipeline(Tiered()).prepare, agent(2))


@pytest.mark.parametrize(
    "options",
    [
        {"rules": [TierRule(Tier.RAG), TierRule(Tier.RAG, floor=1)]},
        {"rules": [TierRule(Tier.RAG, share=0.8), TierRule(Tier.CORE, share=0.8)]},
        {"max_tokens": 0},
    ],
)
def test_options_that_make_no_sense(options):
    """Options are checked when the stage is built."""
    with pytest.raises(ConfigError):
        Tiered(**options)
