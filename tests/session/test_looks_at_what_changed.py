"""A session looks at what a step has changed, and finds what it would find if it looked at everything."""

import json
import sys
from itertools import pairwise

import pytest
from attrs import evolve
from histories import histories
from hypothesis import given, strategies as st

from agentctx import (
    Budget,
    ClearToolResults,
    ContextOverflow,
    FitContextWindow,
    Message,
    Outcome,
    Pipeline,
    PlaceCacheMarkers,
    Protect,
    Session,
    Text,
    presets,
    warmup,
)
from agentctx.testing import assistant, call, history, result, transcript, user
from agentctx.tokens import FixedCounter

MODELS = {
    "anthropic": "claude-sonnet-4-5",
    "bedrock": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "openai-chat": "claude-sonnet-4-5",
    "openai-responses": "gpt-5.6-sol",
    "gemini": "gemini-2.5-pro",
}


async def renewed(context, _call):
    """Every message as another object that says the same: nobody can know anything of it."""
    return context.with_messages(tuple(message.with_parts(message.parts) for message in context.messages))


def told(report):
    """What a report says, but for how long it took."""
    stages = tuple(evolve(stage, seconds=0) for stage in report.stages)
    return evolve(report, seconds=0, stages=stages, in_force=()), tuple(report.in_force)


@given(histories(), st.data())
def test_a_step_finds_what_looking_at_everything_finds(both_loops, history, data):
    """Views, reports and state are the same when nothing is known of any message at any step.

    Where the caller goes on from the view no markers are placed: one of its own, on a message that is made anew, would
    count as lost.
    """
    model, size = MODELS[history.format], st.integers(1, len(history.messages))
    cuts = data.draw(st.lists(size, max_size=6))
    cap, tokens = data.draw(st.integers(6_000, 60_000)), data.draw(st.sampled_from([60, 400]))
    back = data.draw(st.booleans(), label="the caller goes on from the view")
    protect = data.draw(st.sampled_from([(), (Protect.pins(0, 2),), (Protect.last_user(2),)]))
    rest = [ClearToolResults(keep_last=1), FitContextWindow(), *([] if back else [PlaceCacheMarkers()])]

    def session(*stages):
        budget = Budget(cap, trigger=0.8, target=0.4)
        pipeline = Pipeline(*stages, budget=budget, counter=FixedCounter(tokens), protect=protect)
        return pipeline.session(model=model, format=history.format)

    async def outcome(one, messages):
        try:
            view = await one.prepare(messages, history.system, history.tools)
        except ContextOverflow as too_large:
            return messages, str(too_large)
        state = one.dump()["record"]
        del state["edited"]  # whether the caller's object goes out, or one of ours that says the same
        return view.messages, view.system, view.tools, view.options, told(view.report), state

    async def check():
        short, full, messages = session(*rest), session(renewed, *rest, renewed), []
        for start, stop in pairwise(sorted({0, *cuts, len(history.messages)})):
            messages = [*messages, *history.messages[start:stop]]
            found = await outcome(short, messages)
            assert found == await outcome(full, messages)
            messages = found[0] if back else messages

    both_loops(check)


def a_round(format_name, number):
    """One round that is not long."""
    turn = assistant(f"step {number}", call(f"c{number}", "read", {"n": number}))
    return transcript(format_name, turn, result(f"c{number}", f"{number}: " + "found it here " * 10))


async def calls_of_a_step(session, messages, arriving):
    """The calls that one step makes on the loop's thread."""
    calls = 0

    def see(_frame, event, _argument):
        nonlocal calls
        calls += event in {"call", "c_call"}

    messages += arriving
    sys.setprofile(see)
    try:
        await session.prepare(messages)
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", ["anthropic", "bedrock", "openai-chat"])
async def test_a_step_that_places_markers_does_as_much_on_a_long_view(format_name):
    """A round that is appended to thousands of messages makes no more calls than one that is appended to a few."""
    warmup(MODELS[format_name])
    made = {}
    for rounds in (40, 1_500):
        session = presets.coding_agent(Budget(50_000_000)).session(model=MODELS[format_name], format=format_name)
        messages = history(format_name, user("find it " * 600)).messages
        for number in range(rounds):
            messages += a_round(format_name, number)
        await session.prepare(messages)
        for number in range(rounds, rounds + 4):
            await session.prepare(messages := [*messages, *a_round(format_name, number)])
        later = [a_round(format_name, number) for number in range(rounds + 4, rounds + 8)]
        made[rounds] = min([await calls_of_a_step(session, messages, arriving) for arriving in later])
    assert made[1_500] <= 1.1 * made[40] < 5_000


@pytest.mark.anyio
async def test_a_made_message_is_told_of_also_when_it_is_marked():
    """A message that a stage made is in the report of this step and of later ones, with a cache marker or without."""

    async def note(context, call):
        if len(context.messages) < 7 or any("NOTE" in message.text for message in context.messages):
            return context
        made = Message("user", (Text("NOTE " + "word " * 1_500),))
        call.note(made, "what was said")
        return context.with_messages((context.messages[0], made, *context.messages[-2:]))

    session = Pipeline(note, PlaceCacheMarkers()).session(model=MODELS["anthropic"], format="anthropic")
    messages = [{"role": "user", "content": "Go."}]
    for number in range(6):
        messages += [{"role": "assistant", "content": f"yes {number}"}, {"role": "user", "content": f"on {number}"}]
        view = await session.prepare(messages)
        if number == 2:
            assert "cache_control" in str(view.messages[1])
        added = [change.index for change in view.report.in_force if change.outcome == "added"]
        assert added == ([1] if number >= 2 else [])


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("form", "model"),
    [("anthropic", "claude-sonnet-4-5"), ("bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0")],
)
async def test_a_message_whose_marker_goes_after_a_load_is_the_callers_own_again(form, model):
    """What had a marker when the session was dumped and has none now is the caller's object, and reported so."""
    pipeline = Pipeline(PlaceCacheMarkers())
    session = pipeline.session(model=model, format=form)
    messages = transcript(form, user("task " * 1_100))
    for number in range(3):
        messages += transcript(form, assistant(call(f"c{number}", "x")), result(f"c{number}", "said"))
        view = await session.prepare(messages)
    marked = [place for place, message in enumerate(view.messages) if message is not messages[place]]
    loaded = Session.load(pipeline, json.loads(json.dumps(session.dump())))
    for number in range(3, 6):
        messages += transcript(form, assistant(call(f"c{number}", "x")), result(f"c{number}", "said"))
    view = await loaded.prepare(messages)
    equal = [place for place, message in enumerate(view.messages) if message == messages[place]]
    assert set(equal) & set(marked)
    assert all(view.messages[place] is messages[place] for place in equal)
    outcomes = {change.index: change.outcome for change in view.report.changes}
    assert all(outcomes[place] is Outcome.KEPT for place in set(equal) & set(marked))
