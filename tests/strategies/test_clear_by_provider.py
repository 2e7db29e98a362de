"""Clearing that is left to the provider: the options that ask for it, and usage that tells of it."""

import json

import pytest
from histories import budgets, cleared_by_provider, histories
from hypothesis import given, strategies as st

from agentctx import Budget, ConfigError, FitContextWindow, Pipeline, Protect, Session, over, validate, when
from agentctx.strategies import ClearByProvider
from agentctx.testing import assistant, call, check_laws, result, transcript, user

LOG = "a line of a log " * 60


def rounds(number, format_name="anthropic", tool="read", *, thinks=False):
    """A task, and so many rounds of one tool call with a long result."""
    turns = [user("Read it all.")]
    for each in range(number):
        turns += [assistant(call(f"toolu_{each}", tool)), result(f"toolu_{each}", f"{each}: {LOG}")]
    messages = transcript(format_name, *turns)
    for place, message in enumerate(messages[1::2] if thinks else ()):
        message["content"].insert(0, {"type": "thinking", "thinking": f"Go on: {place}.", "signature": f"c2ln{place}"})
    return messages


def edits(view):
    return view.options["context_management"]["edits"]


@pytest.mark.anyio
async def test_what_is_sent_stays_and_the_options_ask():
    """The view has the caller's own messages, and options for a request that the provider takes."""
    messages = rounds(5)
    stage = ClearByProvider(1_000, 2, at_least=50, exclude={"write"}, inputs=True)
    view = await Pipeline(stage).prepare(messages, format="anthropic")
    assert [id(each) for each in view.messages] == [id(each) for each in messages]
    assert edits(view) == [
        {
            "type": "clear_tool_uses_20250919",
            "trigger": {"type": "input_tokens", "value": 1_000},
            "keep": {"type": "tool_uses", "value": 2},
            "clear_at_least": {"type": "input_tokens", "value": 50},
            "exclude_tools": ["write"],
            "clear_tool_inputs": True,
        }
    ]
    assert view.options["betas"] == ["context-management-2025-06-27"]
    assert not validate({"messages": view.messages, "max_tokens": 9, **view.options}, "anthropic", "claude-opus-4-8")


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", ["openai-chat", "openai-responses", "gemini", "bedrock"])
async def test_other_formats_are_left_alone(format_name):
    """Where the provider has no such option nothing is asked for and nothing changes."""
    session = Pipeline(ClearByProvider(100, 1)).session(format=format_name)
    views = [await session.prepare(rounds(number, format_name)) for number in (2, 3)]
    assert [view.options for view in views] == [{}, {}]
    assert [view.report.stages for view in views] == [(), ()]


@pytest.mark.anyio
async def test_a_request_is_counted_whole():
    """What the provider may clear takes its room: the request is cut as it would be without the stage."""
    messages, budget = rounds(12), Budget(2_000, trigger=0.9, target=0.5)
    for mode in ("stateless", "session"):
        views = []
        for stages in ((ClearByProvider(1_500, 2), FitContextWindow()), (FitContextWindow(),)):
            pipeline = Pipeline(*stages, budget=budget)
            plan = pipeline if mode == "stateless" else pipeline.session()
            views.append(await plan.prepare(messages, format="anthropic"))
        assert views[0].messages == views[1].messages
        assert views[0].report.tokens_after <= 2_000
        assert edits(views[0])


@pytest.mark.anyio
async def test_no_unread_result_and_nothing_protected_is_cleared():
    """More uses stay where the model has not read their results; tools of what is protected are left out."""
    calls = [call(f"toolu_{each}", "read") for each in range(4)]
    turns = user("Go."), assistant(*calls), *(result(f"toolu_{each}", LOG) for each in range(4))
    view = await Pipeline(ClearByProvider(100, 1)).prepare(transcript("anthropic", *turns), format="anthropic")
    assert edits(view)[0]["keep"]["value"] == 4
    pipeline = Pipeline(ClearByProvider(100, 1), protect=[Protect.where(lambda message: "0: " in str(message.results))])
    view = await pipeline.prepare(rounds(5), format="anthropic")
    assert edits(view)[0]["exclude_tools"] == ["read"]


@pytest.mark.anyio
async def test_reasoning_is_named_first_and_only_where_there_is_some():
    """Clearing of reasoning comes first, as the provider wants it, and is not asked for without any reasoning."""
    pipeline = Pipeline(ClearByProvider(100, 1, thinking=1))
    view = await pipeline.prepare(rounds(4, thinks=True), format="anthropic")
    kinds = [edit["type"] for edit in edits(view)]
    assert kinds == ["clear_thinking_20251015", "clear_tool_uses_20250919"]
    assert edits(view)[0]["keep"] == {"type": "thinking_turns", "value": 1}
    assert len(edits(await pipeline.prepare(rounds(4), format="anthropic"))) == 1
    asked = {"messages": view.messages, "max_tokens": 9, **view.options}
    broken = [each.rule for each in validate(asked, "anthropic", "claude-opus-4-8")]
    assert broken == ["anth.clearing_needs_thinking"]
    asked["context_management"] = {"edits": edits(view)[::-1]}
    asked["thinking"] = {"type": "enabled", "budget_tokens": 2_000}
    assert [each.rule for each in validate(asked, "anthropic", "claude-opus-4-8")] == ["anth.clearing_order"]


@pytest.mark.anyio
async def test_bound_reasoning_stays():
    """Where reasoning is bound to its prefix, clearing by the provider leaves all of it in the request."""
    messages, budget = rounds(12, thinks=True), Budget(9_000, trigger=0.9, target=0.5)
    session = Pipeline(ClearByProvider(1_500, 2), FitContextWindow(), budget=budget).session(model="claude-opus-5-5")
    view = await session.prepare(messages, format="anthropic")
    assert view.messages == messages
    assert edits(view)
    broken = validate({"messages": view.messages}, "anthropic", "claude-opus-5-5", before={"messages": messages})
    assert not [each for each in broken if each.severity == "error"]


@pytest.mark.anyio
async def test_it_asks_at_every_step_and_tells_of_no_compaction():
    """The options are part of each view of a session; a step that only asks is none that listeners are told of."""
    told = []
    session = Pipeline(ClearByProvider(1_000, 2), on_compact=told.append).session(format="anthropic")
    views = [await session.prepare(rounds(number)) for number in (6, 6, 7)]
    assert [edits(view)[0]["keep"]["value"] for view in views] == [2, 2, 2]
    assert all(not view.report.stages and view.report.first_changed is None for view in views)
    assert views[1].report.rebilled_tokens == views[2].report.rebilled_tokens == 0
    assert not told


@pytest.mark.anyio
async def test_going_on_after_a_load_is_the_same():
    """A session that was loaded asks for and counts the same as the one that was dumped."""
    pipeline = Pipeline(ClearByProvider(1_000, 2), FitContextWindow(), budget=Budget(2_000, trigger=0.9, target=0.5))
    session = pipeline.session(format="anthropic")
    for number in range(1, 25):
        again = Session.load(pipeline, json.loads(json.dumps(session.dump())))
        views = [await each.prepare(rounds(number)) for each in (session, again)]
        assert views[0].messages == views[1].messages
        assert views[0].options == views[1].options
        one, other = (view.report for view in views)
        assert (one.tokens_after, one.prefix_tokens) == (other.tokens_after, other.prefix_tokens)
        assert (one.rebilled_tokens, len(one.stages)) == (other.rebilled_tokens, len(other.stages))


@pytest.mark.anyio
async def test_what_is_billed_is_understood_beside_what_was_cleared():
    """What was cleared counts as part of the prompt that was billed; where that is not known nothing is learned."""
    pipeline = Pipeline(ClearByProvider(1_000, 1), budget=100_000)
    for edits_told in (True, False):
        session = pipeline.session(format="anthropic", model="claude-sonnet-4-5")
        for number in range(30, 40):
            size = (await session.prepare(rounds(number))).report.tokens_after
            done = [{"type": "clear_tool_uses_20250919", "cleared_input_tokens": round(1.2 * (size - 500))}]
            session = Session.load(pipeline, json.loads(json.dumps(session.dump())))  # which remembers that it asked
            session.record({"input_tokens": 600}, done if edits_told else None)
        assert session.internals.limits.truncation is None
        assert (session.internals.limits.calibration.reports > 0) is edits_told
        assert session.billed_tokens == 600
        assert 1_150 < session.internals.limits.calibration.estimate(1_000) < 1_250 or not edits_told


@pytest.mark.anyio
async def test_a_provider_that_clears_nothing_teaches_as_ever():
    """An answer without any edit is billed whole, and so is learned from; a later one with edits counts as well."""
    session = Pipeline(ClearByProvider(1_500, 2), budget=100_000).session(format="anthropic")
    for number in range(30, 40):
        size = (await session.prepare(rounds(number))).report.tokens_after
        session.record({"input_tokens": size, "output_tokens": 5}, [])
    assert session.internals.limits.truncation is None
    assert session.internals.limits.calibration.reports > 0
    assert session.budget == session.internals.limits.given


@pytest.mark.anyio
async def test_a_condition_holds_for_it_as_for_any_stage():
    """Within ``when`` it asks when the condition holds, and a pipeline within has its own asked for."""
    stage = ClearByProvider(1_000, 2)
    asking = Pipeline(when(over(1_500), stage)).session(format="anthropic")
    assert [bool((await asking.prepare(rounds(number))).options) for number in (4, 12)] == [False, True]
    within = await Pipeline(Pipeline(stage, budget=Budget(9_000))).prepare(rounds(12), format="anthropic")
    assert within.options == (await Pipeline(stage).prepare(rounds(12), format="anthropic")).options


@pytest.mark.anyio
async def test_one_stage_asks():
    """Of two that ask for clearing the first holds: the provider takes one edit of a kind."""
    stages = ClearByProvider(1_000, 2), ClearByProvider(500, 1)
    for pipeline in (Pipeline(*stages), Pipeline(Pipeline(*stages))):
        view = await pipeline.prepare(rounds(12), format="anthropic")
        assert [edit["keep"]["value"] for edit in edits(view)] == [2]


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_laws_hold_for_it():
    """The laws, with a budget that makes a cut necessary, on both loops."""
    budget = Budget(2_000, trigger=0.9, target=0.4)
    await check_laws(Pipeline(ClearByProvider(1_200, 2), FitContextWindow()), rounds(20), budget, "anthropic")


@given(cleared_by_provider(), histories("anthropic"), budgets(6_000), st.booleans())
def test_laws_hold_on_any_history(both_loops, stage, history, budget, cuts):
    """The laws, with any options, on any history, alone and before a cut."""
    strategy = Pipeline(stage, FitContextWindow()) if cuts else stage
    both_loops(check_laws, strategy, history.messages, budget, history.format, history.system, history.tools)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"trigger": 0, "keep": 1}, "^ClearByProvider.trigger must be a whole number of at least 1, got 0$"),
        ({"trigger": 10, "keep": True}, "^ClearByProvider.keep must be a whole number of at least 0, got True$"),
        (
            {"trigger": 10, "keep": 1, "at_least": 0.5},
            "^ClearByProvider.at_least must be a whole number of at least 1, or None, got 0.5$",
        ),
        (
            {"trigger": 10, "keep": 1, "thinking": 0},
            "^ClearByProvider.thinking must be a whole number of at least 1, 'all' or None, got 0$",
        ),
        (
            {"trigger": 10, "keep": 1, "exclude": "read"},
            "^ClearByProvider.exclude must be a list of names, got 'read'$",
        ),
    ],
)
def test_wrong_options_are_refused(options, says):
    """An amount that cannot be meant is refused when the stage is built."""
    with pytest.raises(ConfigError, match=says):
        ClearByProvider(**options)
