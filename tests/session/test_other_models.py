"""A conversation goes on with another model, or another provider, in the middle."""

from __future__ import annotations

import json

import anyio
import pytest

from agentctx import (
    Budget,
    ClearToolResults,
    FitContextWindow,
    InvalidInput,
    Message,
    Pipeline,
    Session,
    Text,
    TruncateToolOutputs,
    UnknownModel,
    convert,
    validate,
)
from agentctx.conversion import FOREIGN_REASONING
from agentctx.engine.guarantee import FOREIGN_ID
from agentctx.engine.reading import reader
from agentctx.engine.usage import MOST_MODELS
from agentctx.testing import assistant, call, result, thinking, transcript, user

pytestmark = pytest.mark.anyio
CLAUDE, BOUND, GPT, GEMINI = "claude-sonnet-4-5", "claude-opus-5-5", "gpt-4o", "gemini-2.5-pro"
FORMAT = {CLAUDE: "anthropic", BOUND: "anthropic", GPT: "openai-chat", GEMINI: "gemini"}


def rounds(first, last, size=400):
    """Rounds with reasoning, as Claude makes them."""
    turns = []
    for number in range(first, last):
        asks = assistant(thinking(f"thought {number}", f"c2ln{number:03}"), call(f"c{number}", "read", {"n": number}))
        turns += [asks, result(f"c{number}", f"line {number}\n" * size)]
    return transcript("anthropic", *turns)


def task():
    return transcript("anthropic", user("the task"))


def words():
    return transcript("anthropic", user("go on"))


def broken(view, model):
    """The rules of a model's provider that a view breaks."""
    found = validate({"model": model, "messages": view.messages}, format=FORMAT[model])
    return [violation for violation in found if violation.severity == "error"]


def thoughts(view):
    return str(view.messages).count("signature")


async def test_claude_gpt_gemini_and_back():
    """One conversation with three providers: every view is legal for its own, fits its window, and is recognised."""
    session = Pipeline(FitContextWindow()).session(model=CLAUDE, format="anthropic")
    history = [*task(), *rounds(0, 150)]
    for model in (CLAUDE, GPT, GEMINI, CLAUDE, GPT):
        for more in ([], words()):
            history = [*history, *more]
            given = history
            if FORMAT[model] != "anthropic":
                made = convert(history, to=FORMAT[model], format="anthropic", model=model, from_model=CLAUDE)
                given = made.messages
            view = await session.prepare(given, model=model, format=FORMAT[model])
            assert not broken(view, model)
            assert view.report.tokens_after <= Budget.for_model(model).limit
            assert (session.model, session.format) == (model, FORMAT[model])
        assert view.report.prefix_tokens > 0.9 * view.report.tokens_after
        history = [*history, *transcript("anthropic", assistant("done"))]


async def test_a_smaller_window_is_kept_before_the_first_call():
    """From 1M tokens to 128k the first view fits, whether the budget was given or is the model's."""
    history = [*task(), *rounds(0, 260, 900)]
    given = Budget(1_000_000, 20_000, trigger=900_000, target=600_000)
    for plan in (Pipeline(FitContextWindow()), Pipeline(FitContextWindow(), budget=given)):
        session = plan.session(model=GEMINI, format="anthropic")
        large = await session.prepare(history)
        assert large.report.tokens_after > 400_000
        assert session.budget.window >= 1_000_000
        small = await session.prepare(history, model=GPT)
        assert small.report.tokens_after <= session.budget.limit < 128_000
        back = await session.prepare(history, model=GEMINI)
        assert session.budget.window >= 1_000_000
        assert back.report.tokens_after > 400_000


async def test_what_was_learned_of_a_model_holds_for_it_alone():
    """Ratio and limit of each model are kept, over a restart too, and do not touch the other's."""
    plan = Pipeline(FitContextWindow(), budget=Budget(100_000))
    session, history = plan.session(model=CLAUDE, format="anthropic"), [*task(), *rounds(0, 40)]
    view = await session.prepare(history)
    session.record({"input_tokens": int(view.report.tokens_after * 1.5)})
    learned = session.budget
    assert learned.limit < 100_000
    await session.prepare(history, model=BOUND)
    assert session.budget.limit == 100_000
    error = RuntimeError(f"prompt is too long: {view.report.tokens_after} tokens > 9000 maximum")
    assert await session.recover(error) is not None
    taught = session.budget
    assert taught.limit < 20_000
    await session.prepare(history, model=CLAUDE)
    assert session.budget == learned
    loaded = Session.load(plan, json.loads(json.dumps(session.dump())))
    assert (loaded.model, loaded.budget) == (CLAUDE, learned)
    await loaded.prepare(history, model=BOUND)
    assert loaded.budget == taught


async def test_reasoning_of_another_model_goes_once():
    """Reasoning that the new model does not take goes with the switch, its own stays, and the prefix stands again."""
    session = Pipeline(budget=500_000).session(model=CLAUDE, format="anthropic")
    history = [*task(), *rounds(0, 5)]
    assert thoughts(await session.prepare(history)) == 5
    first = await session.prepare([*history, *words()], model=BOUND)
    assert thoughts(first) == 0
    assert {change.reason for change in first.report.changes} == {FOREIGN_REASONING}
    history = [*history, *words(), *rounds(5, 7)]
    second = await session.prepare(history)
    assert thoughts(second) == 2
    assert second.messages[: len(first.messages)] == first.messages
    assert second.report.first_changed is None
    loaded = Session.load(session.plan, session.dump())
    history = [*history, *rounds(7, 8)]
    assert (await loaded.prepare(history)).messages == (await session.prepare(history)).messages
    rebuilt = json.loads(json.dumps(history[:8]))
    assert thoughts(await session.prepare(rebuilt)) == 0


async def test_in_a_turn_that_two_models_make_each_has_its_own_reasoning():
    """Of what is read once more the reasoning of the model before goes; that of the model that goes on stays."""
    session = Pipeline(budget=500_000).session(model=BOUND, format="anthropic")
    history = [*task(), *transcript("anthropic", assistant(thinking("ours", "b3Vycw=="), call("lost", "read")))]
    assert thoughts(await session.prepare(history)) == 1
    assert thoughts(await session.prepare(history, model=CLAUDE)) == 0
    view = await session.prepare([*history, *rounds(0, 2)])
    assert thoughts(view) == 2
    assert "ours" not in str(view.messages)


async def test_models_that_read_each_other_keep_the_view():
    """Where the new model takes the reasoning, what was decided stays, byte for byte."""
    plan = Pipeline(TruncateToolOutputs(100), ClearToolResults(2), budget=Budget(50_000))
    session, history = plan.session(model=CLAUDE, format="anthropic"), [*task(), *rounds(0, 8)]
    first = await session.prepare(history)
    second = await session.prepare([*history, *words()], model="claude-opus-4-5")
    assert second.messages[:-1] == first.messages
    assert thoughts(second) == 8
    assert not second.report.acted
    assert (second.report.first_changed, second.report.prefix_tokens) == (0, 0)  # another model has another cache


@pytest.mark.both_loops
async def test_a_switch_that_is_cancelled_or_fails_has_not_been():
    """A step with another model that did not succeed leaves the session with the model that it had."""

    async def waits(context, _call):
        await anyio.sleep(0.01)
        return context

    session = Pipeline(waits, FitContextWindow(), budget=Budget(40_000)).session(model=CLAUDE, format="anthropic")
    history = [*task(), *rounds(0, 6)]
    first = await session.prepare(history)
    before = session.dump()
    with anyio.move_on_after(0.001) as scope:
        await session.prepare(history, model=BOUND)
    assert scope.cancelled_caught
    with pytest.raises(InvalidInput, match="format"):
        await session.prepare(history, model=GPT, format="no-such-format")
    assert session.dump() == before
    again = await session.prepare(history)
    assert again.messages == first.messages
    assert again.report.tokens_after == first.report.tokens_after


async def test_an_unknown_model_without_a_budget_is_refused_and_changes_nothing():
    """Where the budget is the model's, one that nobody knows is a clear error, and the session stays as it was."""
    session = Pipeline(FitContextWindow()).session(model=CLAUDE, format="anthropic")
    view = await session.prepare([*task(), *rounds(0, 2)])
    with pytest.raises(UnknownModel, match="house-made"):
        await session.prepare([*task(), *rounds(0, 2)], model="house-made")
    assert session.model == CLAUDE
    assert (await session.prepare([*task(), *rounds(0, 2)])).messages == view.messages


async def test_a_dialect_that_was_named_stays_when_its_format_is_named():
    """Naming the format does not take a session out of the dialect that it was made for."""
    session = Pipeline().session(format="openai-chat/mistral")
    messages = transcript("openai-chat", user("task"), assistant(call("a very long id", "f")), result("a very long id"))
    expected = await Pipeline().session(format="openai-chat/mistral").prepare(messages)
    view = await session.prepare(messages, format="openai-chat")
    assert view.messages == expected.messages
    assert len(view.messages[1]["tool_calls"][0]["id"]) == 9


async def test_models_are_remembered_up_to_a_bound():
    """Of very many models, what was learned of the latest is remembered."""
    session = Pipeline(budget=Budget(9_000)).session(format="anthropic")
    for number in range(40):
        view = await session.prepare(task(), model=f"model-{number}")
        session.record({"input_tokens": view.report.tokens_after})
    names = [each["model"] for each in session.dump()["learned"]]
    assert names == [f"model-{number}" for number in range(40 - MOST_MODELS, 40)]


def items(number):
    """What a GPT model says and does in a turn, with both kinds of outputs."""
    words = {"type": "output_text", "text": f"turn {number}", "annotations": []}
    said = {"type": "message", "role": "assistant", "id": f"msg_{number}", "status": "completed", "content": [words]}
    return [
        {"type": "reasoning", "id": f"rs_{number}", "summary": [], "encrypted_content": f"abcd{number}"},
        said,
        {"type": "function_call", "id": f"fc_{number}", "call_id": f"c{number}", "name": "bash", "arguments": "{}"},
        {"type": "custom_tool_call", "id": f"ctc_{number}", "call_id": f"d{number}", "name": "patch", "input": "x"},
        {"type": "function_call_output", "call_id": f"c{number}", "output": "long " * 80},
        {"type": "custom_tool_call_output", "call_id": f"d{number}", "output": "short"},
    ]


async def test_going_back_within_a_round_whose_calls_lost_their_ids():
    """Calls written anew for another model are read again with their outputs, when going back ends between them."""
    session = Pipeline(TruncateToolOutputs(max_tokens=40), budget=100_000).session(
        model="gpt-5.6-sol", format="openai-responses"
    )
    ask, more = {"role": "user", "content": "task"}, {"role": "user", "content": "go on"}
    whole = [ask, *items(1), more]
    cut = list((await session.prepare(whole)).messages)
    told = {change.reason for change in (await session.prepare(whole, model="gpt-4o")).report.changes}
    assert {FOREIGN_ID, FOREIGN_REASONING} <= told
    view = await session.prepare([*cut, *items(2)], model="gpt-4o")
    found = validate({"model": "gpt-4o", "input": view.messages}, format="openai-responses")
    assert [each for each in found if each.severity == "error"] == []
    assert [each["call_id"] for each in view.messages if each.get("type", "").endswith("_output")] == [
        "c1",
        "d1",
        "c2",
        "d2",
    ]


async def test_what_a_stage_made_is_told_in_the_tokens_of_the_model_of_now():
    """A message that a stage has made is of the size that the new model counts."""

    async def adds(context, _call):
        if len(context.messages) != 3:
            return context
        made = Message("user", (Text("Übergrößenträger " * 20),))
        return context.with_messages((context.messages[0], made, *context.messages[1:]))

    history = transcript("openai-chat", user("task"), assistant("hm"), user("go on"))
    session = Pipeline(adds).session(model=GPT, format="openai-chat")
    (before,) = (await session.prepare(history)).report.in_force
    view = await session.prepare([*history, *transcript("openai-chat", assistant("ok"), user("more"))], model="gpt-4")
    (made,), meter = view.report.in_force, reader(history, format="openai-chat", model="gpt-4").meter
    assert made.tokens_after == meter.message(view.context.messages[1]) > before.tokens_after


async def test_what_was_done_is_told_in_the_tokens_of_the_model_of_now():
    """Each change that holds has the sizes that the new model counts; a switch that fails has counted nothing."""

    async def refuses(context, call):
        if call.profile.name == "gpt-4" and len(context.messages) < 6:
            raise LookupError
        return context

    turns = [user("Aufgabe"), assistant(call("c", "read")), result("c", "Übergrößenträger " * 400), assistant("gut")]
    history = transcript("openai-chat", *turns, user("weiter"))
    session = Pipeline(TruncateToolOutputs(100), refuses).session(model=GPT, format="openai-chat")
    await session.prepare(history)
    before = session.dump()
    with pytest.raises(LookupError):
        await session.prepare(history, model="gpt-4")
    assert session.dump() == before
    view = await session.prepare([*history, history[-1]], model="gpt-4")
    (change,), meter = view.report.in_force, reader(history, format="openai-chat", model="gpt-4").meter
    given = (await Pipeline().prepare(history, format="openai-chat")).context.messages[2]
    assert (change.tokens_before, change.tokens_after) == (
        meter.message(given),
        meter.message(view.context.messages[2]),
    )


async def test_a_signature_that_stands_for_none_stays_when_the_model_changes():
    """What the view of one Gemini was given, so that a call is signed, is no thought that another has to lose."""
    session = Pipeline(budget=10_000).session(format="gemini")
    given = transcript("gemini", user("the task"), assistant(call("c1", "read")), result("c1", "x"))
    signed = await session.prepare(given, model="gemini-3-pro-preview")
    assert [change.index for change in signed.report.in_force] == [1]
    view = await session.prepare(signed.messages, model=GEMINI)
    assert list(map(id, view.messages)) == list(map(id, signed.messages))
    assert view.report.in_force == ()
