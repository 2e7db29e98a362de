"""The stage that divides a running transcript among tiers."""

import json
from functools import partial
from itertools import pairwise

import anyio
import pytest
from histories import broken_histories, budgets, histories, tiereds
from hypothesis import given
from plans import WRITERS

from agentctx import Budget, ConfigError, Pipeline, Protect, Tiered, validate
from agentctx.builder import Tier
from agentctx.strategies import ByTools
from agentctx.testing import assistant, call, check_laws, result, transcript, user
from agentctx.tiers import TierRule
from agentctx.tokens import FixedCounter

KEYS = {"openai-responses": "input", "gemini": "contents"}
SEARCHED = ByTools({"search": Tier.RAG})


@given(tiereds(), histories(), budgets())
def test_the_ten_laws(both_loops, stage, history, budget):
    """The stage keeps the laws on any transcript, in any budget."""
    both_loops(partial(check_laws, stage, history.messages, budget, history.format, history.system, history.tools))


@given(tiereds(), broken_histories(), budgets())
def test_the_ten_laws_on_broken_histories(both_loops, stage, history, budget):
    """The stage keeps the laws on transcripts that had to be repaired."""
    both_loops(partial(check_laws, stage, history.messages, budget, history.format, history.system, history.tools))


def agent(rounds, format_name="openai-chat"):
    """A task and rounds that search and read by turns, and a last wish; a message costs ten tokens."""
    return transcript(format_name, user("task"), *worked(rounds), user("and now?"))


def worked(rounds):
    """Rounds that search and read by turns."""
    turns = []
    for number in range(rounds):
        name = "search" if number % 2 else "read"
        turns += [assistant(call(f"c{number}", name, {"n": number})), result(f"c{number}", f"found {number}")]
    return turns


def left(view):
    """The numbers of the rounds that are left."""
    return [int(message["content"].split()[1]) for message in view.messages if message["role"] == "tool"]


async def prepared(stage, messages, tokens, **options):
    """The view in so many tokens, ten a message."""
    return await Pipeline(stage, budget=Budget(tokens), counter=FixedCounter(10), **options).prepare(messages)


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
@pytest.mark.parametrize(("cap", "rounds"), [(0, [0, 2, 4, 5]), (20, [0, 2, 4, 5]), (40, [0, 2, 3, 4, 5])])
async def test_results_that_nobody_has_read_stay_and_count_in_their_cap(cap, rounds):
    """The user speaks behind round 5, which its tier's cap is charged with, and which stays though it is above it."""
    view = await prepared(Tiered([TierRule(Tier.RAG, cap=cap)], tier_of=SEARCHED), agent(6), 1_000)
    assert left(view) == rounds


@pytest.mark.anyio
async def test_results_that_nobody_has_read_stay_before_stronger_tiers():
    """What is left beside them goes by the tiers; only where they do not fit at all they go."""
    weak = ByTools({"search": Tier.SCRATCHPAD, "read": Tier.CORE})
    assert left(await prepared(Tiered(tier_of=weak), agent(8), 80)) == [4, 6, 7]
    assert left(await prepared(Tiered(tier_of=weak), agent(8), 40)) == [7]
    assert left(await prepared(Tiered(tier_of=weak), agent(8), 30)) == []


@pytest.mark.anyio
async def test_what_is_left_over_is_given_back():
    """What a grant leaves, because only whole rounds go, is given to whoever can use it."""
    rules = [TierRule(Tier.RAG, share=0.5), TierRule(Tier.HISTORY, share=0.5)]
    view = await prepared(Tiered(rules, tier_of=SEARCHED), agent(8), 80)
    assert left(view) == [5, 6, 7]
    assert view.report.tokens_after == 80


@pytest.mark.anyio
@pytest.mark.parametrize("cap", [None, 50])
async def test_what_is_left_over_is_given_to_the_stronger_tier_first(cap):
    """Of 25 tokens each, a round and an answer take 20 and 10: the rest is one more round, which its cap allows."""
    rules = [TierRule(Tier.RAG, share=0.5, cap=cap), TierRule(Tier.HISTORY, share=0.5)]
    messages = transcript("openai-chat", user("task"), *worked(8), assistant("so"), user("and now?"))
    assert left(await prepared(Tiered(rules, tier_of=SEARCHED), messages, 70)) == [5, 7]


@pytest.mark.anyio
async def test_results_that_nobody_has_read_count_in_the_floor_of_their_tier():
    """Of 50 tokens that the weaker tier is sure of, 20 are taken by the round that stays."""
    messages = transcript("openai-chat", user("task"), *worked(9), user("wait"), user("and now?"))
    stage = Tiered([TierRule(Tier.HISTORY, floor=50)], tier_of=SEARCHED)
    assert left(await prepared(stage, messages, 90)) == [6, 7, 8]


@pytest.mark.anyio
@pytest.mark.parametrize(("cap", "rounds"), [(60, [0, 2, 3, 4]), (80, [0, 1, 2, 3, 4])])
async def test_all_rounds_that_nobody_has_read_count_in_their_cap(cap, rounds):
    """Two searches whose results came late take 40 tokens of it: what is left holds one of two others, or both."""
    late = [assistant(call(each, "search")) for each in "ab"] + [result(each, f"late {each}") for each in "ab"]
    messages = transcript("openai-chat", user("task"), *worked(5), *late, user("and now?"))
    view = await prepared(Tiered([TierRule(Tier.RAG, cap=cap)], tier_of=SEARCHED), messages, 1_000)
    found = [message["content"].split() for message in view.messages if message["role"] == "tool"]
    assert found == [*(["found", str(each)] for each in rounds), ["late", "a"], ["late", "b"]]


@pytest.mark.anyio
async def test_words_that_no_round_follows_may_go():
    """They are a piece of their tier by themselves."""
    view = await prepared(Tiered(), transcript("openai-chat", user("task"), user("wait"), user("and now?")), 20)
    assert [(change.index, change.stage) for change in view.report.changes] == [(1, "Tiered")]


@pytest.mark.anyio
async def test_what_goes_is_told_with_its_reason():
    """The report says of each message why it went."""
    view = await prepared(Tiered(), agent(8), 80)
    assert {change.reason for change in view.report.changes} == {
        "over the room of its tier, in 80 tokens: oldest first"
    }


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


STEPS = 60

STAGES = {
    "own limit": (Tiered(max_tokens=300), None),
    "caps": (Tiered([TierRule(Tier.RAG, cap=60)], tier_of=SEARCHED, max_tokens=300), None),
    "shares": (
        Tiered([TierRule(Tier.RAG, share=0.3), TierRule(Tier.HISTORY, share=0.5)], tier_of=SEARCHED),
        Budget(300, trigger=0.9, target=0.4),
    ),
    "floors": (Tiered([TierRule(Tier.HISTORY, floor=80)], tier_of=SEARCHED), Budget(300)),
}


@pytest.mark.no_cover  # the same lines over and over
@pytest.mark.anyio
@pytest.mark.parametrize(("stage", "budget"), STAGES.values(), ids=STAGES)
@pytest.mark.parametrize("format_name", sorted(WRITERS))
async def test_a_session_in_every_format(stage, budget, format_name):
    """In a session of every format each view is legal and fits, and between cuts the bytes before stay as they were."""
    session = Pipeline(stage, budget=budget, counter=FixedCounter(10)).session(format=format_name)
    task, turns, moved = user("task"), worked(STEPS), []
    last = []
    for step in range(STEPS):
        view = await session.prepare(transcript(format_name, task, *turns[: 2 * (step + 1)]))
        request = {KEYS.get(format_name, "messages"): view.messages}
        assert not [each for each in validate(request, format_name) if each.severity == "error"]
        assert view.report.tokens_after <= 300
        now = [json.dumps(message) for message in view.messages]
        cut = now[: len(last)] != last
        assert cut == (view.report.first_changed is not None)
        moved += [step] * cut
        last = now
    assert 1 <= len(moved) <= STEPS // 6
    assert all(later - earlier > 4 for earlier, later in pairwise(moved))


@pytest.mark.anyio
async def test_its_own_limit():
    """A limit of its own holds without a budget."""
    pipeline = Pipeline(Tiered(max_tokens=100), counter=FixedCounter(10))
    assert left(await pipeline.prepare(agent(8))) == [4, 5, 6, 7]


@pytest.mark.anyio
async def test_the_models_window():
    """Without any limit the window of the model holds, as it does for every stage that waits for one."""
    view = await Pipeline(Tiered()).prepare(agent(4), model="gpt-5.4")
    assert view.report.tokens_after == view.report.tokens_before > 0


def test_linear(work):
    """Ten times the rounds are about ten times the work, up to ten thousand messages."""
    counter = FixedCounter(10)

    def divided(rounds):
        pipeline = Pipeline(
            Tiered([TierRule(Tier.RAG, share=0.3)], tier_of=SEARCHED), budget=Budget(rounds * 5), counter=counter
        )
        messages = agent(rounds)
        return lambda: anyio.run(partial(pipeline.prepare, messages, format="openai-chat"))

    divided(20)()
    assert work(divided(5_000)) < 14 * work(divided(500))


def test_needs_a_budget():
    """Without any limit the stage says which one to pass."""
    with pytest.raises(ConfigError, match=r"pass Tiered\(max_tokens"):
        anyio.run(Pipeline(Tiered()).prepare, agent(2))


@pytest.mark.parametrize(
    "options",
    [
        {"rules": [TierRule(Tier.RAG), TierRule(Tier.RAG, floor=1)]},
        {"rules": [TierRule(Tier.RAG, share=0.8), TierRule(Tier.CORE, share=0.8)]},
        {"rules": [3]},
        {"max_tokens": 0},
        {"max_tokens": 1.5},
        {"tier_of": {"search": Tier.RAG}},
        {"tier_of": ByTools},
    ],
)
def test_options_that_make_no_sense(options):
    """Options are checked when the stage is built."""
    with pytest.raises(ConfigError, match=r"^Tiered\.|^allocate\.tiers must be rules whose shares"):
        Tiered(**options)


@pytest.mark.anyio
async def test_a_tier_that_is_no_number():
    """What ``tier_of`` returns is an integer; else the error says so and names the stage."""
    with pytest.raises(
        ConfigError, match=r"^Tier must be a whole number, for example Tier\.HISTORY, got 'rag'\n"
    ) as caught:
        await prepared(Tiered(tier_of=lambda _messages: "rag"), agent(8), 100)
    assert "stage Tiered" in caught.value.__notes__[0]
