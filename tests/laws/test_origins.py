"""``View.origins``: where each message of a view came from, in the list that was passed for it, in every mode."""

import json
from copy import deepcopy
from itertools import pairwise

import pytest
from histories import FORMATS, broken_histories, budgets, histories, stages
from hypothesis import given, strategies as st

from agentctx import (
    Budget,
    ClearToolResults,
    ContextOverflow,
    FitContextWindow,
    InvalidInput,
    Outcome,
    Pipeline,
    Session,
    TruncateToolOutputs,
)
from agentctx.testing import assistant, call, fixed_summarizer, result, system, transcript, user

MODES = ("stateless", "full", "rebuilt", "rolling", "load", "back", "again")
IN_THE_MESSAGES = {"openai-chat", "openai-responses"}
"""Formats that have the system prompt among the messages."""


def hold(passed, view):
    """A view's origins are those of this very list; returns what was put in, as places of the view."""
    assert len(view.origins) == len(view.messages)
    known = [origin for origin in view.origins if origin is not None]
    assert len(set(known)) == len(known)
    touched = {each.index: each.outcome for each in view.report.in_force if each.outcome is not Outcome.ADDED}
    for message, origin in zip(view.messages, view.origins, strict=True):
        if origin is not None and touched.get(origin, Outcome.KEPT) in (Outcome.KEPT, Outcome.MOVED):
            assert message is passed[origin]
    own = set(map(id, passed))
    assert not any(id(view.messages[place]) in own for place, origin in enumerate(view.origins) if origin is None)
    stayed = [origin for origin in known if origin not in touched]
    assert all(one < other for one, other in pairwise(stayed))
    assert {*range(len(passed))} - {*known} <= touched.keys()
    return [place for place, origin in enumerate(view.origins) if origin is None]


async def steps(pipeline, mode, calls, **of_session):
    """What was passed, and the view of it, at each call of a conversation."""
    session, kept = pipeline.session(**of_session), []
    for number, call_messages in enumerate(calls):
        known = len(calls[number - 1]) if number else 0
        kept = [*kept, *call_messages[known:]] if mode == "rolling" else list(call_messages)
        if mode == "back" and number % 3 == 2:
            kept = kept[: 1 + len(kept) // 2]
        passed = deepcopy(kept) if mode == "rebuilt" else kept
        for _ in range(2 if mode == "again" else 1):
            try:
                if mode == "stateless":
                    view = await pipeline.prepare(passed, format=of_session.get("format"))
                else:
                    view = await session.prepare(passed)
            except (ContextOverflow, InvalidInput):
                continue
            yield passed, view
            if mode == "rolling":
                kept = list(view.messages)
        if mode == "load":
            session = Session.load(pipeline, json.loads(json.dumps(session.dump())))


def grown(messages, stride=2):
    """The messages of each call of a conversation that grows by so many."""
    return [messages[:stop] for stop in range(1, len(messages) + stride, stride)]


@pytest.mark.anyio
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("format_name", FORMATS)
async def test_origins_are_places_in_what_was_passed(format_name, mode):
    """In each format and mode: the caller's own object stands at the index, and what was made has none."""
    turns = [system("be brief"), user("the task")] if format_name in IN_THE_MESSAGES else [user("the task")]
    for place in range(60):
        turns += [assistant(call(f"call_{place}", "read")), result(f"call_{place}", f"{place} " * 90)]
    pipeline = Pipeline(
        TruncateToolOutputs(max_tokens=80),
        ClearToolResults(keep_last=3, placeholder="[gone]"),
        FitContextWindow(),
        budget=Budget(1_500, trigger=0.9, target=0.5),
        summarizer=fixed_summarizer("They read."),
    )
    calls = grown(transcript(format_name, *turns), 4)
    made = [hold(passed, view) async for passed, view in steps(pipeline, mode, calls, format=format_name)]
    assert any(made)
    assert not made[0]


@pytest.mark.anyio
async def test_a_recovered_view_has_the_origins_of_the_step_before():
    """What is sent after an overflow came from the same list."""
    turns = [user("the task")]
    for place in range(20):
        turns += [assistant(call(f"call_{place}", "read")), result(f"call_{place}", f"{place} " * 90)]
    messages = transcript("anthropic", *turns)
    pipeline = Pipeline(FitContextWindow(), budget=Budget(9_000))
    session = pipeline.session(format="anthropic")
    first = await session.prepare(messages)
    smaller = await session.recover(RuntimeError("prompt is too long: 9462 tokens > 1500 maximum"))
    hold(messages, smaller)
    assert len(smaller.origins) < len(first.origins) == len(messages)
    view = await Session.load(pipeline, session.dump()).prepare(messages)
    assert view.origins == smaller.origins
    hold(messages, view)


@pytest.mark.anyio
async def test_what_repair_makes_has_no_origin_and_what_it_moves_keeps_its_own():
    """A result that came late stands behind its call, under its own index; a missing one is nobody's."""
    turns = (
        user("go"),
        assistant(call("a", "read"), call("b", "read")),
        user("wait"),
        result("a", "late"),
        user("so?"),
    )
    messages = transcript("openai-chat", *turns)
    view = await Pipeline().prepare(messages, format="openai-chat")
    assert [message["role"] for message in view.messages] == ["user", "assistant", "tool", "tool", "user", "user"]
    assert view.origins[:2] == (0, 1)
    assert set(view.origins[2:4]) == {None, 3}
    assert view.origins[4:] == (2, 4)
    assert hold(messages, view)


@given(
    st.one_of(histories(max_rounds=8), broken_histories(max_rounds=8)), stages(), budgets(3_000), st.sampled_from(MODES)
)
def test_origins_of_any_history(both_loops, history, stage, budget, mode):
    """Whatever stages do, and whatever repair has to: origins are places in the list of this very call."""

    async def held():
        pipeline = Pipeline(stage, budget=budget)
        async for passed, view in steps(pipeline, mode, grown(history.messages, 3), format=history.format):
            hold(passed, view)

    both_loops(held)
