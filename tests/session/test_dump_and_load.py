"""A session that was dumped and loaded does what the one does that was not, to the byte."""

from __future__ import annotations

import json
from copy import deepcopy

import pytest
from anthropic.types import Message as AnthropicMessage
from histories import broken_histories, budgets, histories, stages
from hypothesis import given, strategies as st
from openai.types.chat import ChatCompletionMessage

from agentctx import (
    AgentctxError,
    Budget,
    ClearToolResults,
    FitContextWindow,
    InvalidInput,
    Pipeline,
    PlaceCacheMarkers,
    Session,
    TrimRounds,
    TruncateToolOutputs,
    when,
)
from agentctx.economics import cache_cold
from agentctx.stores import MemoryStore
from agentctx.testing import assistant, call, result, thinking, transcript, user
from agentctx.testing.assertions import texts_of
from agentctx.tokens import HeuristicCounter

BOUND = "claude-opus-5-5"
MODELS = st.sampled_from([None, BOUND, "claude-sonnet-4-5", "gpt-5.4", "gpt-5.6-sol"])
LOOPS = st.sampled_from(["keeps", "rebuilds", "writes back"])


def rounds(format_name, count, size=60):
    """A task and rounds of one call each."""
    turns = [user("the task")]
    for number in range(count):
        turns += [assistant(call(f"c{number}", "read", {"n": number})), result(f"c{number}", f"line {number}\n" * size)]
    return transcript(format_name, *turns)


def pipeline(*more, **options):
    stages = (TruncateToolOutputs(150), ClearToolResults(4), FitContextWindow(), *more)
    return Pipeline(*stages, budget=Budget(2_000, trigger=1_600, target=800), **options)


def hop(session, plan):
    """The session as it is after a restart."""
    return Session.load(plan, json.loads(json.dumps(session.dump())))


def told(view, *, handles):
    """Everything that a view says, but for how long it took."""
    report = view.report.to_dict()
    for change in (*report["in_force"], *(each for stage in report["stages"] for each in stage["changes"])):
        if not handles:
            del change["handle"]
    for timed in (report, *report["stages"]):
        del timed["seconds"]
    return texts_of(view.messages), view.system, view.tools, view.options, report


async def outcome(session, messages, history, *, handles=True):
    """What a step gives: the view, or the error."""
    try:
        return told(await session.prepare(messages, history.system, history.tools), handles=handles)
    except AgentctxError as error:
        return type(error), str(error)


@given(
    history=st.one_of(histories(max_rounds=8), broken_histories(max_rounds=8)),
    stage=st.one_of(stages(), stages(), st.just(PlaceCacheMarkers())),
    budget=st.one_of(st.none(), budgets(3_000)),
    model=MODELS,
    every=st.integers(1, 4),
    loop=LOOPS,
    billing=st.sampled_from([None, 0.8, 1.3]),
)
def test_restarts_change_nothing(both_loops, *, history, stage, budget, model, every, loop, billing):
    """However often a session is dumped and loaded, every view and every report is what it would have been."""

    async def walk():
        plans = [Pipeline(stage, budget=budget, store=MemoryStore()) for _ in range(2)]
        sessions = [plan.session(format=history.format, model=model) for plan in plans]
        growing = [[], []]
        for number, native in enumerate(history.messages, 1):
            if number % every == 0:
                sessions[1] = hop(sessions[1], plans[1])
            said = []
            for session, messages in zip(sessions, growing, strict=True):
                messages.append(native)
                given = deepcopy(messages) if loop == "rebuilds" else list(messages)
                # a loop that wrote the view back has no other original than the view: what else there was is gone
                said.append(await outcome(session, given, history, handles=loop != "writes back"))
            assert said[0] == said[1]
            if isinstance(said[0][0], type):
                continue
            for place, session in enumerate(sessions):
                if billing is not None:
                    session.record({"prompt_tokens": int(said[0][-1]["tokens_after"] * billing) + 7})
                if loop == "writes back":
                    growing[place] = list(session.internals.state.record.out)
            assert sessions[0].budget == sessions[1].budget

    both_loops(walk)


@pytest.mark.anyio
async def test_a_taught_limit_survives():
    """What an overflow taught about the provider's limit holds after a restart, and so does what usage taught."""
    plan = Pipeline(FitContextWindow(), budget=Budget(100_000))
    session, messages = plan.session(format="openai-chat"), rounds("openai-chat", 40)
    view = await session.prepare(messages)
    session.record({"prompt_tokens": view.report.tokens_after + 500})
    error = RuntimeError(f"prompt is too long: {view.report.tokens_after} tokens > 3000 maximum")
    assert await session.recover(error) is not None
    loaded = hop(session, plan)
    assert loaded.budget == session.budget
    more = [*messages, *transcript("openai-chat", user("go on"))]
    expected, sent = await session.prepare(more), await loaded.prepare(more)
    assert expected.messages == sent.messages
    assert sent.report.tokens_after <= 3_000


@pytest.mark.anyio
async def test_a_doubted_report_is_still_doubted():
    """A bill that was not believed waits for its confirmation over a restart, and is believed with it."""
    plan = Pipeline(FitContextWindow(), budget=Budget(100_000))
    session = plan.session(format="openai-chat")
    tokens = (await session.prepare(rounds("openai-chat", 20))).report.tokens_after
    session.record({"prompt_tokens": tokens})
    session.record({"prompt_tokens": tokens * 9})
    loaded = hop(session, plan)
    for one in (session, loaded):
        one.record({"prompt_tokens": tokens * 9})
    assert loaded.budget == session.budget
    assert loaded.budget.limit < 100_000


@pytest.mark.anyio
async def test_what_the_cache_holds_is_believed_over_a_restart():
    """A stage that waits for a cold cache waits as long after a restart as without one."""
    plan = Pipeline(when(cache_cold(), TrimRounds(4)), budget=Budget(50_000))
    session, messages = plan.session(format="openai-chat", model="gpt-5.4"), rounds("openai-chat", 12, size=400)
    now, lengths = [1_700_000_000.0], []
    for stop, later in ((-8, 0), (-6, 60), (-4, 60), (-2, 90_000), (None, 60)):
        session = hop(session, plan)
        session.internals.clock = lambda: now[0]
        now[0] += later
        lengths.append(len((await session.prepare(messages[:stop])).messages))
    assert lengths == [9, 11, 13, 9, 11]


@pytest.mark.anyio
@pytest.mark.parametrize("changed", ["system", "tools"])
async def test_reasoning_bound_to_what_was_before_the_restart_goes(changed):
    """When system prompt or tools are others after a restart, the reasoning that was bound to the old ones goes."""
    plan = Pipeline(budget=100_000)
    session = plan.session(model=BOUND, format="anthropic")
    history = transcript(
        "anthropic", user("task"), assistant(thinking("plan", "c2ln"), call("c", "read")), result("c", "ok")
    )
    fixed = {"system": "be good", "tools": [{"name": "f", "input_schema": {}}]}
    await session.prepare(history, **fixed)
    kept = await hop(session, plan).prepare(history, **fixed)
    assert kept.messages == history
    other = {"system": "be bad", "tools": [{"name": "g", "input_schema": {}}]}
    gone = await hop(session, plan).prepare(history, **{**fixed, changed: other[changed]})
    assert not any(block["type"] == "thinking" for block in gone.messages[1]["content"])
    dumped_twice = await hop(hop(session, plan), plan).prepare(history, **{**fixed, changed: other[changed]})
    assert dumped_twice.messages == gone.messages


@pytest.mark.anyio
async def test_what_waits_is_said_once_over_a_restart():
    """That an edit waits for the end of the open round is not said again by a loaded session."""
    plan = Pipeline(TrimRounds(2), budget=Budget(3_000, trigger=0.3, target=0.2))
    session = plan.session(model=BOUND, format="anthropic")
    history = transcript("anthropic", user("task"))
    said = []
    for number in range(9):
        asks = assistant(thinking(f"thought {number}", f"c2ln{number}"), call(f"c{number}", "read"))
        history += transcript("anthropic", asks, result(f"c{number}", "line of a result " * 30))
        view = await session.prepare(history)
        said += [note for stage in view.report.stages for note in stage.notes if "postponed" in note]
        session = hop(session, plan)
    assert len(said) == 1


@pytest.mark.anyio
@pytest.mark.parametrize("after", ["objects", "model_dump", "json"])
async def test_a_history_of_sdk_objects_is_recognised_however_it_was_kept(after):
    """The client's objects, written down with or without the fields that are null, are the same history."""
    asked = {"id": "c", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    said = ChatCompletionMessage.model_validate({"role": "assistant", "content": None, "tool_calls": [asked]})
    messages = [{"role": "user", "content": "task"}, said, {"role": "tool", "tool_call_id": "c", "content": "x " * 900}]
    plan = Pipeline(TruncateToolOutputs(50), budget=Budget(5_000))
    session = plan.session(format="openai-chat")
    cut = (await session.prepare(messages)).messages[2]
    kept = {
        "objects": said,
        "model_dump": said.model_dump(),
        "json": json.loads(said.model_dump_json(exclude_unset=True)),
    }[after]
    loaded = hop(session, plan)
    view = await loaded.prepare([messages[0], kept, messages[2]])
    assert view.messages[1] is kept
    assert view.messages[2] == cut
    assert view.report.first_changed is None
    assert not view.report.acted


@pytest.mark.anyio
async def test_blocks_of_sdk_objects_are_recognised():
    """A dict whose content is the SDK's own list of blocks is the same message after a restart."""
    body = {"id": "m", "type": "message", "role": "assistant", "model": "x", "stop_reason": "end_turn",
            "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
            "content": [{"type": "text", "text": "hello"}]}  # fmt: skip
    answer = AnthropicMessage.model_validate(body)
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": answer.content}]
    messages.append({"role": "user", "content": "more"})
    plan = Pipeline(budget=Budget(5_000))
    session = plan.session(format="anthropic")
    await session.prepare(messages)
    view = await hop(session, plan).prepare(messages)
    assert view.report.first_changed is None
    assert all(one is other for one, other in zip(view.messages, messages, strict=True))


@pytest.mark.anyio
async def test_bytes_come_back_as_bytes():
    """Pictures that boto3 takes as bytes are bytes again after a restart, also where a caller uses the same words."""
    picture = {"image": {"format": "png", "source": {"bytes": b"\x89PNG\x00\xff"}}}
    odd = {"toolUse": {"toolUseId": "c", "name": "f", "input": {"$bytes": "AAAA", "in": {"$mapping": {"$bytes": ""}}}}}
    odd["toolUse"]["input"] = {"$bytes": "AAAA"}
    answer = {"toolResult": {"toolUseId": "c", "content": [{"json": {"$mapping": {"$bytes": "x"}}}]}}
    messages = [
        {"role": "user", "content": [{"text": "look"}, picture]},
        {"role": "assistant", "content": [odd]},
        {"role": "user", "content": [answer]},
    ]
    plan = Pipeline(budget=Budget(5_000))
    session = plan.session(format="bedrock")
    await session.prepare(messages)
    loaded = hop(session, plan)
    assert loaded.internals.state.record.out == messages
    assert (await loaded.prepare(deepcopy(messages))).report.first_changed is None


@pytest.mark.anyio
async def test_what_json_cannot_hold_is_named():
    """A value in the view that no JSON can hold is one clear error with the place."""
    session = Pipeline().session(format="openai-chat")
    await session.prepare([{"role": "user", "content": "x", "odd": [0, {"held": {1, 2}}]}])
    with pytest.raises(InvalidInput) as caught:
        session.dump()
    assert caught.value.where == "messages[0].odd[1].held"


@pytest.mark.no_cover  # the same lines over and over
@pytest.mark.anyio
async def test_a_state_stays_small():
    """Of 4,000 messages a state holds the view, and about 30 characters for each message."""
    messages = rounds("openai-chat", 2_000, size=40)
    session = pipeline().session(format="openai-chat")
    await session.prepare(messages)
    state = session.dump()
    view = len(json.dumps(state["record"]["out"]))
    assert len(json.dumps(state)) < view + 34 * len(messages)
    assert view < 10_000


@pytest.mark.no_cover  # the same lines over and over
@pytest.mark.anyio
@pytest.mark.parametrize("window", [30_000, 400_000])
@pytest.mark.parametrize(
    "plan",
    [
        (TruncateToolOutputs(max_tokens=50), ClearToolResults(keep_last=8), FitContextWindow()),
        (ClearToolResults(keep_last=8),),
        (TruncateToolOutputs(max_tokens=50),),
    ],
    ids=["all", "clear", "truncate"],
)
async def test_a_state_grows_by_what_is_shown_shortened(plan, window):
    """Step by step, a state holds about 30 characters for each message, and 50 for each that is shown shortened."""
    messages = rounds("openai-chat", 150, size=400)
    one = Pipeline(*plan, budget=Budget(window, trigger=0.5, target=0.3))
    session = one.session(format="openai-chat")
    for end in range(1, len(messages) + 1, 2):
        view = await session.prepare(messages[:end])
    state = session.dump()
    rest = len(json.dumps(state)) - len(json.dumps(view.messages))
    shortened = {change.index for change in view.report.in_force if change.tokens_after}
    assert rest < 2_500 + 34 * len(messages) + 54 * len(shortened)
    assert shortened or window > 30_000


@pytest.mark.anyio
async def test_a_dump_costs_what_is_new(work):
    """The second dump of a long session works on what came since the first, not on the whole history again."""
    messages = rounds("openai-chat", 400)
    session = pipeline().session(format="openai-chat")
    await session.prepare(messages[:-2])
    first = work(session.dump)
    await session.prepare(messages)
    assert work(session.dump) < first / 5


@pytest.mark.anyio
async def test_a_loaded_session_works_out_no_digest_twice():
    """Once it has recognised its history, a loaded session compares messages, as one does that was not loaded."""
    messages, plan = rounds("openai-chat", 1_000), pipeline()
    session = plan.session(format="openai-chat")
    await session.prepare(messages[:-4])
    loaded = hop(session, plan)
    await loaded.prepare(messages[:-2])
    assert not any(
        type(seen).__name__ == "Digest"
        for seen in (*loaded.internals.state.record.seen, *loaded.internals.state.record.shown)
    )


@pytest.mark.anyio
async def test_another_counter_counts_the_view_again():
    """A session that goes on with another counter keeps the budget by that counter, exactly."""

    class Dear(HeuristicCounter):
        def count(self, text, /):
            return 3 * super().count(text)

    session, messages = pipeline().session(format="openai-chat"), rounds("openai-chat", 30)
    await session.prepare(messages)
    other = pipeline(counter=Dear())
    view = await hop(session, other).prepare([*messages, *transcript("openai-chat", user("more"))])
    stateless = await Pipeline(counter=Dear()).prepare(view.messages, format="openai-chat")
    assert view.report.tokens_after == stateless.report.tokens_after <= 2_000


@pytest.mark.anyio
async def test_other_stages_see_what_comes():
    """Loaded into a pipeline of other stages, what was decided stays, and the new stages look at what is new."""
    session, messages = pipeline().session(format="openai-chat"), rounds("openai-chat", 10)
    sent = (await session.prepare(messages)).messages
    other = Pipeline(TruncateToolOutputs(10), budget=50_000)
    more = transcript("openai-chat", assistant(call("new", "read")), result("new", "word " * 900))
    view = await hop(session, other).prepare([*messages, *more])
    assert view.messages[: len(sent)] == sent
    assert len(view.messages[-1]["content"]) < 200


@pytest.mark.anyio
async def test_a_child_keeps_its_budget_and_its_name():
    """A child that was dumped has its own budget after a restart, and a child of it is named after it."""
    plan = pipeline()
    child = plan.session(format="openai-chat", id="main").child(Budget(900, 100, trigger=600))
    first = child.child(Budget(300))
    await child.prepare(rounds("openai-chat", 3))
    loaded = hop(child, plan)
    assert loaded.budget == child.budget == Budget(900, 100, trigger=600)
    assert (first.id, loaded.id, loaded.child(Budget(300)).id) == ("main/1/1", "main/1", "main/1/2")
    assert hop(first, plan).budget == Budget(300)


@pytest.mark.anyio
async def test_an_output_that_stands_behind_other_items_is_loaded():
    """Where an output may stand anywhere after its call, a state in which one does is a state like any other."""
    asked = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    said = {"type": "function_call_output", "call_id": "c", "output": "x"}
    session = Pipeline().session(format="openai-responses")
    words = transcript("openai-responses", user("task"), user("meanwhile"), user("go on"))
    view = await session.prepare([words[0], asked, words[1], said, words[2]])
    assert hop(session, session.plan).dump() == session.dump()
    assert view.messages[3] is said


def test_a_session_that_has_not_begun_is_dumped_and_loaded():
    """A state without any message is a session that may begin."""
    plan = pipeline()
    for session in (plan.session(), plan.session(model="gpt-5.4", format="anthropic", id="x")):
        loaded = hop(session, plan)
        assert (loaded.model, loaded.format, loaded.id) == (session.model, session.format, session.id)
        assert loaded.dump() == session.dump()


@pytest.mark.anyio
async def test_a_dump_of_a_loaded_session_is_the_same_dump():
    """Dump, load, dump: the same state, before and after the next step."""
    plan, messages = pipeline(), rounds("gemini", 20)
    session = plan.session(format="gemini")
    await session.prepare(messages[:-2])
    session.record({"promptTokenCount": 700})
    loaded = hop(session, plan)
    assert loaded.dump() == session.dump()
    assert loaded.billed_tokens == 700
    loaded.internals.clock = session.internals.clock = lambda: 5.0
    for one in (session, loaded):
        await one.prepare(messages)
    assert loaded.dump() == session.dump()


@pytest.mark.anyio
async def test_what_another_model_counts_anew_keeps_its_order():
    """Counted anew for another model, a loaded session says of each message what it would have said, in its order."""
    plan, messages = pipeline(), rounds("gemini", 20)
    session = plan.session(format="gemini")
    await session.prepare(messages)
    said = [(change.index, change.stage) for change in session.internals.state.record.changes()]
    loaded = hop(session, plan)
    loaded.internals.clock = session.internals.clock = lambda: 5.0
    for one in (session, loaded):
        await one.prepare(messages, model="gemini-3-pro")
        assert [(each.index, each.stage) for each in one.internals.state.record.changes()] == said
    assert loaded.dump() == session.dump()


@pytest.mark.parametrize("amount", [-5, 2**40])
@pytest.mark.anyio
async def test_a_bill_that_no_prompt_can_have_spoils_no_state(amount):
    """A usage with an impossible number is refused, and the session goes on through a restart as if it had not come."""
    plan = pipeline()
    session = plan.session(format="openai-chat")
    await session.prepare(rounds("openai-chat", 3))
    with pytest.raises(InvalidInput, match="no prompt token count"):
        session.record({"prompt_tokens": amount})
    assert hop(session, plan).billed_tokens is None
