"""Clearing that is left to the provider: what is asked for, what is counted, and when a cut is made all the same."""

import json

import pytest
from hypothesis import given, strategies as st

from agentctx import Budget, ConfigError, FitContextWindow, Pipeline, Protect, Session, over, validate, when
from agentctx.replay import Recording, replay
from agentctx.strategies import ClearByProvider
from agentctx.testing import assistant, call, check_laws, result, transcript, user
from agentctx.testing.histories import budgets, cleared_by_provider, histories

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
async def test_other_formats_are_left_alone_and_it_is_said_once(format_name):
    """Where the provider clears nothing by itself nothing is asked for; a session says so at its first step."""
    session = Pipeline(ClearByProvider(100, 1)).session(format=format_name)
    views = [await session.prepare(rounds(number, format_name)) for number in (2, 3)]
    assert [view.options for view in views] == [{}, {}]
    assert [[stage.notes for stage in view.report.stages] for view in views] == [
        [(f"nothing is asked for: who speaks {format_name} clears nothing by itself",)],
        [],
    ]


@pytest.mark.anyio
async def test_what_the_provider_clears_takes_no_room():
    """A request that fits once the provider has cleared it is not cut; stateless and in a session."""
    stages, messages = (ClearByProvider(1_500, 2), FitContextWindow()), rounds(12)
    pipeline = Pipeline(*stages, budget=2_000)
    session = pipeline.session(format="anthropic")
    views = [await pipeline.prepare(messages, format="anthropic"), await session.prepare(messages)]
    for view in views:
        assert len(view.messages) == len(messages)
        assert view.report.tokens_after > 2_000 >= view.report.tokens_after - view.report.cleared_tokens
    cut = await Pipeline(stages[1], budget=2_000).prepare(messages, format="anthropic")
    assert cut.report.tokens_after <= 2_000


@pytest.mark.anyio
async def test_what_is_too_large_even_so_is_cut():
    """Where the provider's clearing does not make it fit, the request is cut as it would be without."""
    messages, budget = rounds(12), Budget(2_000, trigger=0.9, target=0.5)
    kept = ClearByProvider(1_500, 11)
    for mode in ("stateless", "session"):
        views = []
        for stages in ((kept, FitContextWindow()), (FitContextWindow(),)):
            pipeline = Pipeline(*stages, budget=budget)
            plan = pipeline if mode == "stateless" else pipeline.session()
            views.append(await plan.prepare(messages, format="anthropic"))
        assert views[0].messages == views[1].messages
        assert views[0].report.tokens_after - views[0].report.cleared_tokens <= 2_000


@pytest.mark.anyio
async def test_no_unread_result_and_nothing_protected_is_cleared():
    """More uses stay where the model has not read their results; tools of what is protected are left out."""
    calls = [call(f"toolu_{each}", "read") for each in range(4)]
    turns = user("Go."), assistant(*calls), *(result(f"toolu_{each}", LOG) for each in range(4))
    view = await Pipeline(ClearByProvider(100, 1)).prepare(transcript("anthropic", *turns), format="anthropic")
    assert (edits(view)[0]["keep"]["value"], view.report.cleared_tokens) == (4, 0)
    pipeline = Pipeline(ClearByProvider(100, 1), protect=[Protect.where(lambda message: "0: " in str(message.results))])
    view = await pipeline.prepare(rounds(5), format="anthropic")
    assert (edits(view)[0]["exclude_tools"], view.report.cleared_tokens) == (["read"], 0)


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
    messages, budget = rounds(12, thinks=True), Budget(2_500, trigger=0.9, target=0.5)
    session = Pipeline(ClearByProvider(1_500, 2), FitContextWindow(), budget=budget).session(model="claude-opus-5-5")
    view = await session.prepare(messages, format="anthropic")
    assert view.messages == messages
    assert view.report.cleared_tokens > 0
    broken = validate({"messages": view.messages}, "anthropic", "claude-opus-5-5", before={"messages": messages})
    assert not [each for each in broken if each.severity == "error"]


@pytest.mark.anyio
async def test_the_report_tells_when_more_is_cleared():
    """A session says at each step that clears more what is cleared, and from where on the cache has to be written."""
    session = Pipeline(ClearByProvider(1_000, 2)).session(format="anthropic")
    first, same, third = [await session.prepare(rounds(number)) for number in (6, 6, 7)]
    assert first.report.stages
    assert not same.report.stages
    assert same.report.rebilled_tokens == 0
    assert same.report.prefix_tokens == first.report.tokens_after - first.report.cleared_tokens
    assert third.report.cleared_tokens > first.report.cleared_tokens
    assert third.report.first_changed is None  # what is sent begins with what was sent
    assert third.report.rebilled_tokens > 200
    assert "cleared by the provider" in str(third.report)


@pytest.mark.anyio
async def test_going_on_after_a_load_is_the_same():
    """A session that was loaded says, asks for and counts what the one that was dumped would have."""
    pipeline = Pipeline(ClearByProvider(1_000, 2), FitContextWindow(), budget=Budget(2_000, trigger=0.9, target=0.5))
    session = pipeline.session(format="anthropic")
    for number in range(1, 25):
        again = Session.load(pipeline, json.loads(json.dumps(session.dump())))
        views = [await each.prepare(rounds(number)) for each in (session, again)]
        assert views[0].messages == views[1].messages
        assert views[0].options == views[1].options
        one, other = (view.report for view in views)
        assert (one.cleared_tokens, one.prefix_tokens) == (other.cleared_tokens, other.prefix_tokens)
        assert (one.rebilled_tokens, len(one.stages)) == (other.rebilled_tokens, len(other.stages))


@pytest.mark.anyio
async def test_what_the_provider_does_not_clear_is_not_counted_on():
    """An answer that tells of less than was asked for: from then on that much more has to fit; a later one counts."""
    pipeline = Pipeline(ClearByProvider(1_500, 2), FitContextWindow(), budget=2_500)
    session = pipeline.session(format="anthropic")
    view = await session.prepare(rounds(12))
    size, cleared = view.report.tokens_after, view.report.cleared_tokens
    session.record({"input_tokens": size, "output_tokens": 5}, [])
    assert session.suspicion is None
    view = await session.prepare(rounds(13))
    assert view.report.tokens_after <= 2_500
    assert cleared > 2_000


@pytest.mark.anyio
async def test_what_is_billed_is_understood_beside_what_was_cleared():
    """What was cleared counts as part of the prompt that was billed; where that is not known nothing is learned."""
    pipeline = Pipeline(ClearByProvider(1_000, 1), budget=100_000)
    for edits_told in (True, False):
        session = pipeline.session(format="anthropic", model="claude-sonnet-4-5")
        for number in range(30, 40):
            report = (await session.prepare(rounds(number))).report
            read = report.tokens_after - report.cleared_tokens
            done = [{"type": "clear_tool_uses_20250919", "cleared_input_tokens": round(1.2 * report.cleared_tokens)}]
            session.record({"input_tokens": round(1.2 * read)}, done if edits_told else None)
        assert session.suspicion is None
        assert (session.limits.calibration.reports > 0) is edits_told
        assert session.billed_tokens == round(1.2 * read)
        assert session.limits.clears == 1


@pytest.mark.anyio
async def test_the_forecast_says_when_it_is_cheaper_than_a_cut():
    """For few calls leaving it to the provider is cheaper; for many the cut, after which the prefix stays put."""
    pipeline = Pipeline(ClearByProvider(20_000, 20), budget=Budget(100_000, trigger=0.8, target=0.25))
    session = pipeline.session(format="anthropic", model="claude-sonnet-4-5")
    await session.prepare(rounds(250))
    forecast = session.forecast()
    assert forecast.by_provider is not None
    assert forecast.by_provider.with_cut < forecast.with_cut
    calls = next(
        number
        for number in range(1, 1_000)
        if forecast.cheaper_by_provider(1) is not forecast.cheaper_by_provider(number)
    )
    assert forecast.cheaper_by_provider(1)
    assert not forecast.cheaper_by_provider(calls + 10)
    assert "left to the provider" in str(forecast)
    plain = Pipeline(budget=pipeline.budget).session(format="anthropic", model="claude-sonnet-4-5")
    await plain.prepare(rounds(250))
    assert plain.forecast().by_provider is None
    assert not plain.forecast().cheaper_by_provider(1)


@pytest.mark.anyio
async def test_a_condition_holds_for_it_as_for_any_stage():
    """Within ``when`` it asks when the condition holds, and a pipeline within has its own asked for."""
    stage = ClearByProvider(1_000, 2)
    asking = Pipeline(when(over(1_500), stage)).session(format="anthropic")
    assert [bool((await asking.prepare(rounds(number))).options) for number in (4, 12)] == [False, True]
    within = await Pipeline(Pipeline(stage, budget=9_000)).prepare(rounds(12), format="anthropic")
    assert within.options == (await Pipeline(stage).prepare(rounds(12), format="anthropic")).options


@pytest.mark.anyio
async def test_a_replay_counts_what_is_left():
    """Each step of a replay fits, and is as large as what the model would have read."""
    pipeline = Pipeline(ClearByProvider(1_500, 2), FitContextWindow(), budget=2_500)
    steps = [step async for step in replay(Recording(rounds(12), format="anthropic"), pipeline)]
    assert all(step.fits and step.valid for step in steps)
    report = steps[-1].view.report
    assert steps[-1].tokens_sent == report.tokens_after - report.cleared_tokens < report.tokens_after
    assert steps[-1].prefix_share <= 1


@pytest.mark.anyio
async def test_one_stage_asks():
    """Of two that ask for clearing the first holds: the provider takes one edit of a kind."""
    stages = ClearByProvider(1_000, 2), ClearByProvider(500, 1)
    for pipeline in (Pipeline(*stages), Pipeline(Pipeline(*stages))):
        view = await pipeline.prepare(rounds(12), format="anthropic")
        assert [edit["keep"]["value"] for edit in edits(view)] == [2]


@pytest.mark.anyio
async def test_going_back_is_counted_anew():
    """A session whose caller goes back to fewer messages counts what the provider clears of these, and no more."""
    pipeline = Pipeline(ClearByProvider(1_500, 2), FitContextWindow(), budget=2_500)
    session = pipeline.session(format="anthropic")
    await session.prepare(rounds(12))
    for number in (4, 9, 3, 12):
        now, alone = await session.prepare(rounds(number)), await pipeline.prepare(rounds(number), format="anthropic")
        assert now.report.cleared_tokens == alone.report.cleared_tokens
        assert now.messages == alone.messages


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_laws_hold_for_it():
    """The laws, with a budget that holds only because the provider clears, on both loops."""
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
        ({"trigger": 0, "keep": 1}, "trigger must be a whole number of at least 1, got 0"),
        ({"trigger": 10, "keep": True}, "keep must be a whole number of at least 0, got True"),
        ({"trigger": 10, "keep": 1, "at_least": 0.5}, "at_least must be a whole number of at least 1, got 0.5"),
        ({"trigger": 10, "keep": 1, "thinking": 0}, "thinking must be a whole number of at least 1, got 0"),
        ({"trigger": 10, "keep": 1, "exclude": "read"}, "exclude must be a list of tool names, got 'read'"),
    ],
)
def test_wrong_options_are_refused(options, says):
    """An amount that cannot be meant is refused when the stage is built."""
    with pytest.raises(ConfigError, match=says):
        ClearByProvider(**options)
