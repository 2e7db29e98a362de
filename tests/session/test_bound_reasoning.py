"""What a session does on models that bind their reasoning to all that stands before it."""

import pytest

from agentctx import (
    Budget,
    ClearToolResults,
    ConfigError,
    Pipeline,
    PlaceCacheMarkers,
    TrimRounds,
    validate,
    when,
)
from agentctx.economics import cache_cold
from agentctx.testing import assistant, call, result, thinking, transcript, user

BOUND, UNBOUND = "claude-opus-5-5", "claude-opus-4-8"
ROOM = Budget(3_000, trigger=0.5, target=0.2)


def step(number, words=30):
    """A step of an open tool round: a thought, a call, its result."""
    return transcript(
        "anthropic",
        assistant(thinking(f"thought {number}", f"c2ln{number}"), call(f"c{number}", "read", {"n": number})),
        result(f"c{number}", f"line of result {number} " * words),
    )


def closed(number):
    """An answer that ends the round, and the next question."""
    return transcript("anthropic", assistant(thinking("end", f"ZW5k{number}"), "done"), user(f"more {number}"))


def signatures(messages):
    """The signatures in a transcript."""
    blocks = [block for message in messages if isinstance(message["content"], list) for block in message["content"]]
    return [block["signature"] for block in blocks if block["type"] == "thinking"]


async def walk(session, grow, thinking_option=None):
    """Grow a history, prepare it at each stage, and check every view against the one before and what came since."""
    history, last, views = transcript("anthropic", user("task")), None, []
    for more in grow:
        history = [*history, *more]
        view = await session.prepare(history)
        option = view.options.get("thinking", thinking_option or {"type": "adaptive"})
        request = {"model": session.model, "thinking": option, "messages": view.messages}
        before = None if last is None else {**request, "messages": [*last, *more]}
        broken = validate(request, format="anthropic", before=before or {**request, "messages": history})
        assert not [str(found) for found in broken if found.severity == "error"]
        last = view.messages
        views.append(view)
    return views


def notes(view):
    """What the stages said about the step."""
    return [note for stage in view.report.stages for note in stage.notes]


@pytest.mark.anyio
async def test_an_edit_waits_for_the_end_of_the_round():
    """While the open round has reasoning and the request fits, nothing is edited, and the report says so once."""
    session = Pipeline(TrimRounds(2), budget=ROOM).session(model=BOUND, format="anthropic")
    views = await walk(session, [step(number) for number in range(9)], {"type": "enabled", "budget_tokens": 1_024})
    assert views[-1].report.tokens_after > ROOM.trigger_tokens
    assert not any(view.report.changes for view in views)
    (said,) = [stage for view in views for stage in view.report.stages]
    assert (said.stage, said.seconds, "postponed" in said.notes[0]) == ("Session", 0.0, True)
    assert len(signatures(views[-1].messages)) == 9


@pytest.mark.anyio
async def test_what_runs_at_every_step_runs_while_an_edit_waits():
    """Cache markers are at the end of each view above the trigger, and a stage is told the limit, as below it."""
    limits = []

    async def looking(context, call):
        limits.append(call.limit)
        return context

    stages = TrimRounds(2), PlaceCacheMarkers(), looking
    session = Pipeline(*stages, budget=ROOM).session(model=BOUND, format="anthropic")
    views = await walk(session, [step(number) for number in range(9)], {"type": "enabled", "budget_tokens": 1_024})
    waiting = [view for view in views if view.report.tokens_after > ROOM.trigger_tokens]
    assert len(waiting) > 2
    assert all("cache_control" in str(view.messages[-1]) for view in waiting)
    assert limits == [ROOM.limit] * len(views)


@pytest.mark.anyio
async def test_a_thought_further_up_in_the_open_round_is_waited_for():
    """Where only the first of many calls of the round was thought about, an edit waits for the round's end as well."""
    session = Pipeline(TrimRounds(2), budget=ROOM).session(model=BOUND, format="anthropic")
    unthought = ([{**asks, "content": asks["content"][1:]}, said] for asks, said in map(step, range(1, 9)))
    views = await walk(session, [step(0), *unthought])
    assert views[-1].report.tokens_after > ROOM.trigger_tokens
    assert not any(view.report.changes for view in views)
    assert sum("postponed" in note for view in views for note in notes(view)) == 1


@pytest.mark.anyio
async def test_an_open_round_without_reasoning_waits_for_nothing():
    """Where the model has not thought since the user spoke last, the session cuts as soon as it has passed the mark."""
    session = Pipeline(TrimRounds(2), budget=ROOM).session(model=BOUND, format="anthropic")
    views = await walk(
        session, [[{**asks, "content": asks["content"][1:]}, said] for asks, said in map(step, range(9))]
    )
    assert any(view.report.changes for view in views)
    assert not any(notes(view) for view in views)


@pytest.mark.anyio
async def test_a_postponed_edit_is_made_when_the_round_has_ended():
    """With the next question the history is cut, and the reasoning of closed turns behind the cut goes."""
    session = Pipeline(TrimRounds(2), budget=ROOM).session(model=BOUND, format="anthropic")
    *_, last = await walk(session, [*(step(number) for number in range(9)), closed(1)])
    assert last.report.tokens_after < ROOM.trigger_tokens
    assert signatures(last.messages) == []


@pytest.mark.anyio
async def test_an_edit_below_the_trigger_waits_too():
    """What a condition lets run at any step leaves the prefix of the open round alone, and is done behind its end."""
    stage = when(~cache_cold(), ClearToolResults(keep_last=0))
    session = Pipeline(stage, budget=Budget(30_000, target=0.01)).session(model=BOUND, format="anthropic")
    *waiting, last = await walk(session, [*(step(number) for number in range(4)), closed(1)])
    assert not any(view.report.changes for view in waiting)
    assert sum("postponed" in note for view in waiting for note in notes(view)) == 1
    assert last.report.changes


@pytest.mark.anyio
async def test_what_does_not_fit_cannot_wait():
    """Past the limit the history is cut in the open round too, and the reasoning behind the cut goes with it."""
    session = Pipeline(ClearToolResults(keep_last=2), budget=ROOM).session(model=BOUND, format="anthropic")
    views = await walk(session, [step(number) for number in range(40)])
    assert any(view.report.changes for view in views)
    assert all(view.report.tokens_after <= ROOM.limit for view in views)
    assert views[-1].messages[1]["content"][0]["type"] == "thinking"


@pytest.mark.anyio
async def test_the_caller_may_have_the_reasoning_dropped_at_once():
    """With ``thinking="drop"`` the session cuts as soon as it has passed its trigger."""
    session = Pipeline(TrimRounds(2), budget=ROOM, thinking="drop").session(model=BOUND, format="anthropic")
    views = await walk(session, [step(number) for number in range(13)])
    assert any(view.report.changes for view in views)
    assert not any("postponed" in note for view in views for note in notes(view))


@pytest.mark.anyio
@pytest.mark.parametrize("policy", ["postpone", "drop"])
async def test_unbound_reasoning_stays(policy):
    """On a model that binds nothing the reasoning of what is kept stays, whatever the policy."""
    session = Pipeline(TrimRounds(2), budget=ROOM, thinking=policy).session(model=UNBOUND, format="anthropic")
    views = await walk(session, [step(number) for number in range(13)])
    cut = next(view for view in views if view.report.changes)
    assert len(signatures(cut.messages)) == 2
    assert not cut.options


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("first", "then", "kept"),
    [
        ({"system": "be good"}, {"system": "be bad"}, 0),
        ({"system": "be good"}, {"system": [{"type": "text", "text": "be good", "cache_control": {}}]}, 3),
        ({"tools": [{"name": "f", "input_schema": {}}]}, {"tools": [{"name": "g", "input_schema": {}}]}, 0),
        (
            {"tools": [{"name": "f", "input_schema": {}}]},
            {"tools": [{"name": "f", "input_schema": {}}, {"name": "g", "input_schema": {}, "defer_loading": True}]},
            3,
        ),
    ],
)
async def test_reasoning_is_bound_to_system_prompt_and_tools(first, then, kept):
    """When the caller changes its system prompt or its tools, the reasoning goes; not for marks and late tools."""
    session = Pipeline(budget=100_000).session(model=BOUND, format="anthropic")
    history = [*transcript("anthropic", user("task")), *step(1), *step(2), *step(3)]
    await session.prepare(history, **first)
    view = await session.prepare([*history, *transcript("anthropic", user("more"))], **then)
    assert len(signatures(view.messages)) == kept


def test_a_policy_that_nobody_knows_is_refused():
    """An unknown policy is an error that names the two."""
    with pytest.raises(ConfigError, match=r"^Pipeline\.thinking must be 'postpone' or 'drop', got 'forget'$"):
        Pipeline(thinking="forget")


@pytest.mark.anyio
async def test_the_thought_that_leads_the_open_round_stays_on_manual_models(preparing):
    """Where only the first step of the open round has reasoning, the step that leads the round stays."""
    lead = transcript(
        "anthropic", user("task"), assistant(thinking("plan", "c2ln"), call("c", "read")), result("c", "x")
    )
    steps = [
        message
        for number in range(8)
        for message in transcript("anthropic", assistant(call(f"c{number}", "read")), result(f"c{number}", "x" * 99))
    ]
    prepare = preparing(Pipeline(TrimRounds(2)), "anthropic", "claude-sonnet-4-5")
    view = await prepare([*lead, *steps])
    request = {"model": "claude-sonnet-4-5", "thinking": {"type": "enabled", "budget_tokens": 1_024}}
    assert view.report.changes
    assert view.messages[1] is lead[1]
    assert not validate({**request, "messages": view.messages}, before={**request, "messages": [*lead, *steps]})
