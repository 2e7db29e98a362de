"""A limit that an overflow taught holds as long as no accepted prompts contradict it, and can be forgotten."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, strategies as st

from agentctx import Budget, FitContextWindow, InvalidInput, Pipeline, Session
from agentctx.engine.usage import CONTRADICTED, FEW, OBEYED, REMEMBERED, OverflowLimit
from agentctx.session import forget_limit
from agentctx.testing import assistant, call, result, system, transcript, user

pytestmark = pytest.mark.anyio
MODEL = "some-gateway/model"
ROUNDS = transcript(
    "openai-chat",
    system("rules"),
    user("task"),
    *(
        turn
        for number in range(80)
        for turn in (assistant(call(f"c{number}", "read")), result(f"c{number}", f"word{number} " * 250))
    ),
)


class RefusedError(Exception):
    """What a client raises when the provider refuses a prompt."""


def refusal(limit):
    return RefusedError(f"This model's maximum context length is {limit} tokens. Please reduce the length.")


def pipeline():
    return Pipeline(FitContextWindow(), budget=Budget(40_000, trigger=38_000, target=30_000))


async def call_model(session, rounds, window):
    """One step against a provider with this window; how many requests were refused, and the size that was taken."""
    view = await session.prepare(ROUNDS[: 2 + 2 * rounds])
    if view.report.tokens_after <= window:
        session.record({"prompt_tokens": view.report.tokens_after})
        return 0, view.report.tokens_after
    view = await session.recover(refusal(window))
    assert view.report.tokens_after <= window
    session.record({"prompt_tokens": view.report.tokens_after})
    return 1, view.report.tokens_after


def reloaded(session):
    return Session.load(session.plan, json.loads(json.dumps(session.dump())))


@pytest.mark.parametrize("again", [False, True], ids=["alive", "loaded"])
async def test_one_refusal_among_many_larger_prompts_does_not_bind(again):
    """What the provider has taken many times speaks against a smaller limit: it holds for the one request alone."""
    session = pipeline().session(model=MODEL, format="openai-chat")
    for rounds in range(20, 45):
        assert await call_model(session, rounds, 40_000) == (0, session.billed_tokens)
    if again:
        session = reloaded(session)
    refused, taken = await call_model(session, 45, 8_192)
    assert refused
    assert taken <= 8_192
    if again:
        session = reloaded(session)
    assert session.budget.limit == 40_000
    sizes = [await call_model(session, rounds, 40_000) for rounds in range(46, 80)]
    assert not any(refused for refused, _ in sizes)
    assert sizes[-1][1] > 2 * 8_192


async def test_larger_prompts_that_come_later_contradict_too():
    """A refusal at the beginning is given up when accepted prompts were billed above it often enough."""
    session = pipeline().session(model=MODEL, format="openai-chat")
    assert await call_model(session, 40, 8_192) == (1, session.billed_tokens)
    assert session.budget.limit < 8_192
    for number in range(CONTRADICTED):
        await session.prepare(ROUNDS[: 82 + 2 * number])
        assert session.budget.limit < 8_192
        session.record({"prompt_tokens": 8_900 + number})
    assert session.budget.limit > 2 * 8_192


@pytest.mark.parametrize(("before", "within"), [(0, OBEYED), (5, FEW)])
async def test_a_limit_that_is_obeyed_is_tried_once_more(before, within):
    """One false refusal does not bind for ever though nothing larger is sent, also across a restart."""
    session = pipeline().session(model=MODEL, format="openai-chat")
    for rounds in range(35, 35 + before):
        assert await call_model(session, rounds, 40_000) == (0, session.billed_tokens)
    assert (await call_model(session, 40, 8_192))[0] == 1
    for number in range(1, within):
        assert session.budget.limit < 8_192
        if number == 5:
            session = reloaded(session)
        await call_model(session, 40, 40_000)
    assert session.budget.limit == 40_000


def test_a_limit_that_is_said_again_is_believed():
    """After the second refusal no request is spent on trying again; a limit that was guessed is not tried at all."""
    limit = OverflowLimit()
    limit.refused(8_000, 8_192, named=True)
    assert [limit.taken(5_000) for _ in range(OBEYED)] == [False] * (OBEYED - 1) + [True]
    limit.refused(8_000, 8_192, named=True)
    guessed = OverflowLimit()
    guessed.refused(8_000, 8_192)
    assert not any(each.taken(5_000) for each in (limit, guessed) for _ in range(3 * OBEYED))
    assert limit.stated == guessed.stated == 8_192


async def test_a_true_limit_is_kept():
    """Nothing that a provider takes contradicts its own limit: it refuses once, however long the session lasts."""
    session = pipeline().session(model=MODEL, format="openai-chat")
    outcomes = [await call_model(session, rounds, 8_192) for rounds in range(20, 80)]
    assert sum(refused for refused, _ in outcomes) == 1
    assert session.budget.limit < 8_192


async def test_a_limit_that_changed_for_good_is_believed_when_it_is_said_again():
    """After many larger prompts a server is set up smaller: two requests are refused, and no more."""
    session = pipeline().session(model=MODEL, format="openai-chat")
    for rounds in range(20, 45):
        await call_model(session, rounds, 40_000)
    outcomes = [await call_model(session, rounds, 8_192) for rounds in range(45, 80)]
    assert sum(refused for refused, _ in outcomes) == 2


async def test_a_limit_can_be_forgotten():
    """``forget_limit`` brings the configured budget back, also after a restart; the provider's count stays known."""
    session = pipeline().session(model=MODEL, format="openai-chat")
    await call_model(session, 40, 8_192)
    session = reloaded(session)
    reports = session.internals.limits.calibration.reports
    forget_limit(session)
    assert session.budget.limit == 40_000
    assert session.internals.limits.calibration.reports == reports
    assert (await session.prepare(ROUNDS)).report.limit == 40_000
    assert reloaded(session).budget.limit == 40_000


def test_only_larger_prompts_contradict():
    """A prompt as large as the limit is what the limit allows; one more than that, often enough, is not."""
    limit = OverflowLimit()
    limit.refused(100, 90)
    assert not any(limit.taken(90) for _ in range(CONTRADICTED))
    assert [False] * (CONTRADICTED - 1) + [True] == [limit.taken(91) for _ in range(CONTRADICTED)]
    assert (None, None, 90) == (limit.tokens, limit.stated, limit.given_up)


@pytest.mark.parametrize(("between", "known"), [(90, 0), (91, CONTRADICTED + 1)])
def test_a_limit_that_is_said_again_before_anything_larger_was_taken_wins(between, known):
    """Then nothing that was taken before speaks against it any more; else all of it does."""
    limit = OverflowLimit(100, 90)
    for _ in range(CONTRADICTED):
        limit.taken(91)
    limit.taken(between)
    limit.refused(100, 90)
    assert (known, 90, None) == (len(limit.accepted), limit.stated, limit.given_up)


def test_of_two_limits_the_smaller_holds():
    """By each count for itself."""
    limit = OverflowLimit()
    limit.refused(100, 90)
    limit.refused(200, 80)
    assert (100, 80) == (limit.tokens, limit.stated)
    limit.refused(70, 85)
    assert (70, 80) == (limit.tokens, limit.stated)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 30_000)), max_size=3 * REMEMBERED))
def test_a_limit_is_in_force_exactly_while_few_accepted_prompts_are_larger(told):
    """Whatever is taken and refused in whatever order, no limit outlives ``CONTRADICTED`` larger prompts."""
    limit = OverflowLimit()
    for refused, size in told:
        if refused:
            limit.refused(size, size)
            assert limit.tokens is not None
            assert limit.stated <= size
        else:
            before = limit.stated
            given_up = limit.taken(size)
            larger = before is not None and sum(each > before for each in limit.accepted) >= CONTRADICTED
            assert given_up == larger
            assert (limit.stated is None) == (before is None or given_up)
        assert len(limit.accepted) <= REMEMBERED


@pytest.mark.parametrize(
    ("name", "value"),
    [("accepted", [0]), ("accepted", [5] * (REMEMBERED + 1)), ("stated", None), ("given_up", -1), ("given_up", "x")],
)
async def test_a_damaged_limit_is_refused(name, value):
    """What was learned of the limit is checked when it is loaded, and the place is named."""
    session = pipeline().session(model=MODEL, format="openai-chat")
    await call_model(session, 40, 8_192)
    state = session.dump()
    state["learned"][-1]["limit"][name] = value
    with pytest.raises(InvalidInput, match=name):
        Session.load(session.plan, state)
