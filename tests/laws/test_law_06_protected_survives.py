"""Law 6: system prompt, first task, latest user message and everything pinned survive byte for byte.

Of a user's message that holds tool results beside the words, as Anthropic, Gemini and Bedrock have them, every part
that is no tool result survives byte for byte, in its order, in a message of the same role. The results in it are
results: an unread one is cut when nothing else helps, an old one may be cleared, unless a rule of the caller's names
the message.
"""

import json
from contextlib import suppress
from functools import partial

import anyio
import pytest
from histories import broken_histories, budgets, histories, single_stages, stages
from hypothesis import given, strategies as st

from agentctx import (
    Budget,
    ClearToolResults,
    CollapseRepeats,
    ContextOverflow,
    FitContextWindow,
    Pack,
    Pipeline,
    PlaceCacheMarkers,
    Protect,
    Session,
    Tiered,
    TrimRounds,
    TruncateToolOutputs,
    count,
    first_of,
    over,
    when,
)
from agentctx.builder import Tier, TierRule
from agentctx.errors import LostProtected
from agentctx.presets import coding_agent
from agentctx.strategies import ByTools
from agentctx.testing import assistant, call, history, result, system, transcript, user
from agentctx.testing.laws import Scenario, protected_survives

FORMATS = ["openai-chat", "anthropic", "gemini", "bedrock"]
HARSH = (ClearToolResults(keep_last=0), TrimRounds(1), FitContextWindow())


def busy_rounds(count):
    """Rounds of one call each, as turns."""
    numbers = range(count)
    asked = [assistant(call(f"c{number}", "read", {"n": number})) for number in numbers]
    answered = [result(f"c{number}", f"result {number} " * 30) for number in numbers]
    return [turn for pair in zip(asked, answered, strict=True) for turn in pair]


def busy(format_name, rounds=12):
    """A task, many rounds, a second task, many rounds."""
    turns = [user("first task")]
    for number in range(rounds):
        name = "notes" if number == 3 else "read"
        turns += [assistant(call(f"c{number}", name, {"n": number})), result(f"c{number}", f"result {number} " * 30)]
        if number == rounds // 2:
            turns += [assistant("done"), user("latest wish")]
    return transcript(format_name, *turns)


async def lose_system(context, _call):
    """A stage that drops system messages."""
    return context.with_messages(tuple(message for message in context.messages if message.role != "system"))


async def lose_first(context, _call):
    """A stage that drops the first task."""
    place = next(index for index, message in enumerate(context.messages) if message.role == "user")
    return context.with_messages(context.messages[:place] + context.messages[place + 1 :])


async def lose_last(context, _call):
    """A stage that drops the last message."""
    return context.with_messages(context.messages[:-1])


async def shout(context, _call):
    """A stage that edits the user's words."""
    first, *rest = context.messages
    (part,) = first.parts
    return context.with_messages((first.with_parts((type(part)(part.text.upper()),)), *rest))


@given(histories(), budgets(), stages())
def test_the_protected_of_legal_histories_survives(both_loops, history, budget, stage):
    """No stage and no budget costs the system prompt, the first task or the latest words of the user."""
    both_loops(protected_survives, Scenario.of(stage, history, budget))


@given(broken_histories(), budgets(), stages())
def test_the_protected_of_broken_histories_survives(both_loops, history, budget, stage):
    """What is protected is what is left after repair."""
    both_loops(protected_survives, Scenario.of(stage, history, budget))


@given(histories(), budgets(), single_stages(), st.lists(st.integers(-12, 12), max_size=3))
def test_pins_survive(both_loops, history, budget, stage, pins):
    """Messages pinned by their index survive byte for byte, with the whole of their rounds."""
    pipeline = Pipeline(stage, protect=[Protect.pins(*pins)])
    both_loops(protected_survives, Scenario.of(pipeline, history, budget))


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_the_harshest_pipeline_keeps_the_user(format_name, preparing):
    """With almost no room, the caller's own first and latest user messages are still sent."""
    messages = busy(format_name)
    spoken = [message for message in messages if message["role"] == "user" and "result" not in json.dumps(message)]
    pipeline = Pipeline(*HARSH, budget=Budget(400))
    prepare = preparing(pipeline, format_name)
    view = await prepare(messages)
    assert all(any(message is kept for kept in view.messages) for message in spoken)
    assert len(view.messages) < 8


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["full", "rolling", "load"])
@pytest.mark.parametrize(
    ("format_name", "model"),
    [
        ("anthropic", "claude-sonnet-4-5"),
        ("bedrock", "amazon.nova-pro-v1:0"),
        ("gemini", None),
        ("openai-chat", "hosted_vllm/qwen3-32b"),
        ("openai-chat", "mistral-large-latest"),
    ],
)
async def test_what_stands_in_for_the_user_is_not_the_first_task(walk, format_name, model, mode):
    """Where the model speaks first, something stands before it for some providers: the task is still the user's."""
    greeting = [assistant("Hello."), user("the first task")]
    asked = transcript(format_name, *greeting, assistant("I begin."), *busy_rounds(12), user("latest wish"))
    pipeline, least, cuts = Pipeline(*HARSH, budget=Budget(900)), len(transcript(format_name, *greeting)), 0
    async for passed, view in walk(pipeline, asked, mode, format=format_name, model=model):
        assert len(passed) < least or "the first task" in json.dumps(view.messages)
        cuts += view.report.acted
    assert cuts


@pytest.mark.anyio
async def test_words_that_repair_took_out_of_a_message_survive(preparing):
    """Anthropic: the latest words stood before a doubled result; repair parts them, the round goes without them."""
    turns = [user("task"), assistant("ok"), user("more"), assistant(call("a", "x"))]
    turns += [user("by the way", result("a", "one"), result("a", "two"))]
    turns += [turn for n in range(3) for turn in (assistant(call(f"c{n}", "x")), result(f"c{n}", "ok"))]
    view = await preparing(Pipeline(TrimRounds(1)), "anthropic")(transcript("anthropic", *turns))
    assert "by the way" in str(view.messages)


RULES = {
    "tools": (Protect.tools("notes"), "result 3 "),
    "pins": (Protect.pins(4), "result 1 "),
    "where": (Protect.where(lambda message: any("result 2 " in part.text for part in message.results)), "result 2 "),
}


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize(("rule", "words"), RULES.values(), ids=RULES.keys())
async def test_what_a_rule_names_survives_whole(format_name, preparing, rule, words):
    """A message named by the caller's rule is sent as the caller's own object, its tool results uncut."""
    messages = busy(format_name)
    (pinned,) = (message for message in messages if words in json.dumps(message))
    pipeline = Pipeline(*HARSH, budget=Budget(1_200), protect=[rule])
    prepare = preparing(pipeline, format_name)
    view = await prepare(messages)
    assert any(pinned is kept for kept in view.messages)
    assert len(view.messages) < len(messages)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_pins_stay_pinned_in_a_session(format_name):
    """A message pinned by its index is the same message at every later step."""
    messages = busy(format_name)
    session = Pipeline(*HARSH, budget=Budget(1_200), protect=[Protect.pins(4)]).session(format=format_name)
    for stop in range(5, len(messages) + 1, 2):
        view = await session.prepare(messages[:stop])
        assert any(messages[4] is kept for kept in view.messages)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("stage", [lose_first, lose_last, shout])
async def test_a_stage_that_touches_the_protected_is_named(format_name, preparing, stage):
    """A stage that drops or edits what is protected is an error that names the stage."""
    pipeline = Pipeline(stage)
    messages = transcript(format_name, user("task"), assistant("ok"), user("latest"))
    prepare = preparing(pipeline, format_name)
    with pytest.raises(LostProtected, match=stage.__name__):
        await prepare(messages)


@pytest.mark.anyio
async def test_a_stage_that_drops_a_system_message_is_named():
    """Chat: system messages stand within the messages and are protected there."""
    request = history("openai-chat", system("rules"), user("task"))
    with pytest.raises(LostProtected, match="lose_system"):
        await Pipeline(lose_system).prepare(request.messages, format="openai-chat")


@pytest.mark.anyio
async def test_a_stage_that_changes_the_system_prompt_is_named():
    """Anthropic: the system prompt stands apart and is protected there."""

    async def reform(context, _call):
        return type(context)(context.messages, None, context.tools)

    request = history("anthropic", system("rules"), user("task"))
    with pytest.raises(LostProtected, match="reform"):
        await Pipeline(reform).prepare(request.messages, request.system, format="anthropic")


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_stage_that_replaces_the_user_by_a_lookalike_is_named(format_name):
    """A copy with other native keys does not stand for the user's own message."""

    async def forge(context, _call):
        first, *rest = context.messages
        return context.with_messages((type(first)(first.role, first.parts), *rest))

    messages = [message | {"x_id": 1} for message in transcript(format_name, user("task"))]
    with pytest.raises(LostProtected, match="forge"):
        await Pipeline(forge).prepare(messages, format=format_name)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", ["anthropic", "gemini", "bedrock"])
@pytest.mark.parametrize("rounds", [0, 6])
async def test_the_words_beside_a_result_survive_and_the_result_is_a_result(format_name, preparing, rounds):
    """The latest message's result is cut or cleared where there is no room; the user's own blocks beside it stay."""
    turns = [user("task"), assistant(call("a", "x")), user(result("a", "long line\n" * 400), "do this", "and that")]
    turns += [turn for n in range(rounds) for turn in (assistant(call(f"c{n}", "x")), result(f"c{n}", "ok"))]
    messages = transcript(format_name, *turns)
    blocks = messages[2].get("content", messages[2].get("parts"))
    pipeline = Pipeline(ClearToolResults(keep_last=0), budget=Budget(600, trigger=400, target=200))
    view = await preparing(pipeline, format_name)(messages)
    sent = view.messages[2].get("content", view.messages[2].get("parts"))
    assert sent[0] != blocks[0]
    assert [id(block) for block in sent[1:]] == [id(block) for block in blocks[1:]]
    assert len(blocks) == 3
    pinned = Pipeline(*pipeline.stages, budget=Budget(6_000, trigger=400, target=200), protect=[Protect.pins(2)])
    assert (await preparing(pinned, format_name)(messages)).messages[2] is messages[2]


@pytest.mark.anyio
@pytest.mark.parametrize("stage", [FitContextWindow(), Pack("recent")], ids=lambda stage: type(stage).__name__)
@pytest.mark.parametrize("format_name", FORMATS)
async def test_what_nobody_has_read_stays_whoever_spoke_since(format_name, stage):
    """Results that the model has not read are no old round, also when the user says something behind them."""
    turns = [user("task")]
    for number in range(12):
        turns += [assistant(call(f"c{number}", "run")), result(f"c{number}", f"old {number} " * 30)]
    turns += [assistant(call("new", "run")), result("new", "UNREAD " * 60), user("stop, what now?")]
    held = history(format_name, *turns)
    size = count(held.messages, format=format_name, tools=held.tools, system=held.system)
    pipeline = Pipeline(stage, budget=Budget(int(size * 0.9), trigger=0.8, target=0.25))
    view = await pipeline.session(format=format_name).prepare(held.messages, held.system, held.tools)
    assert "UNREAD" in str(view.messages)
    assert view.report.acted


@pytest.mark.anyio
@pytest.mark.parametrize("stage", [FitContextWindow(), Pack("recent")], ids=lambda stage: type(stage).__name__)
async def test_one_object_in_many_places_is_no_error(stage):
    """A caller may pass one message object many times: the first and the latest of them survive."""
    message = {"role": "user", "content": "again and again " * 10}
    view = await Pipeline(stage, budget=Budget(300)).prepare([message] * 60, format="openai-chat")
    assert view.messages[0] is view.messages[-1] is message
    assert 1 <= len(view.messages) < 60


WAITING = ("openai-chat", "openai-responses", "anthropic", "gemini", "bedrock")
EVERY = {
    "nothing": (),
    "fit": (FitContextWindow(),),
    "trim": (TrimRounds(1),),
    "clear": (ClearToolResults(keep_last=0), TrimRounds(2)),
    "cut": (TruncateToolOutputs(max_tokens=40), CollapseRepeats()),
    "tiered": (Tiered(),),
    "capped": (
        Tiered([TierRule(Tier.RAG, cap=120), TierRule(Tier.HISTORY, share=0.5)], tier_of=ByTools({"read": Tier.RAG})),
    ),
    **{name: (Pack(name, keep_last=0, note=name == "recent"),) for name in ("recent", "relevance", "compression")},
    "when": (when(over(0.5), TrimRounds(1), ClearToolResults(0)), first_of(Tiered(), Pack("recent", keep_last=0))),
    "nested": (Pipeline(Pipeline(Tiered(), TrimRounds(1)), PlaceCacheMarkers()), FitContextWindow()),
    "preset": (coding_agent(Budget(100_000)),),
}
"""Every stage that leaves something out, without a limit of its own."""


@st.composite
def left_waiting(draw):
    """Rounds, and at the end results that the model has not read: side by side, late, the user speaking behind them."""
    form, open_calls = draw(st.sampled_from(WAITING)), []
    turns = [user("task " * draw(st.integers(1, 60)))]
    for n in range(draw(st.integers(1, 5))):
        ids = [f"c{n}_{k}" for k in range(draw(st.sampled_from([1, 1, 2, 3])))]
        turns.append(assistant(*draw(st.sampled_from([(), ("so " * 40,)])), *(call(i, "read", {"a": i}) for i in ids)))
        late = draw(st.booleans()) and len(ids) > 1 and form != "gemini"  # whose responses name no call
        turns += [result(i, f"<{i}> " + "old " * draw(st.sampled_from([1, 90]))) for i in ids[late:]]
        open_calls += ids[:late]
        turns += [user("wait " * draw(st.sampled_from([1, 50])))] * draw(st.sampled_from([0, 0, 1]))
    ids = [f"z{k}" for k in range(draw(st.sampled_from([1, 2, 3])))]
    turns.append(assistant("hm", *(call(i, "read", {"a": i}) for i in ids)))
    ids = draw(st.permutations([*ids, *open_calls]))
    turns += [result(i, f"<{i}> " + "new " * draw(st.sampled_from([1, 60, 200]))) for i in ids]
    turns += [user("and " * draw(st.sampled_from([1, 80])))] * draw(st.sampled_from([0, 1, 2]))
    return history(form, *turns), ids


def there(view, ids):
    """Which of these results stand in a view."""
    said = {part.text.partition(">")[0] for message in view.context.messages for part in message.results}
    return {each for each in ids if f"<{each}" in said}


async def lost_at_once(past, ids, budget, stop):
    """Which of these results that have arrived by then do not fit, whatever else is left out."""
    came = {each for each in ids if f"<{each}>" in str(past.messages[:stop])}
    try:
        view = await Pipeline(budget=budget).prepare(past.messages[:stop], past.system, past.tools, past.format)
    except ContextOverflow:
        return came
    return came - there(view, ids)


async def keeps_unread(past, ids, stages, budget, mode):
    """What fits without any stage stays with them, in every mode; a session does not take back what it had to drop."""
    form, pipeline, end = past.format, Pipeline(*stages, budget=budget), len(past.messages)
    session, lost = pipeline.session(format=form), await lost_at_once(past, ids, budget, end)
    for stop in range(1, end) if mode != "stateless" else ():
        with suppress(ContextOverflow):
            await session.prepare(past.messages[:stop], past.system, past.tools)
        if mode == "loaded":
            session = Session.load(pipeline, session.dump())
        lost |= await lost_at_once(past, ids, budget, stop)
    if len(lost) < len(ids):
        prepare = partial(pipeline.prepare, format=form) if mode == "stateless" else session.prepare
        view = await prepare(past.messages, past.system, past.tools)
        assert set(ids) <= there(view, ids) | lost


@given(
    left_waiting(),
    st.sampled_from(sorted(EVERY)),
    st.integers(150, 1_500).map(lambda window: Budget(window, trigger=0.8, target=0.4)),
    st.sampled_from(["stateless", "session", "loaded"]),
)
def test_no_stage_leaves_out_results_that_the_model_has_not_read(waiting, name, budget, mode):
    """Whoever speaks behind them: they go only where the request cannot be made to fit with them, even cut."""
    anyio.run(keeps_unread, *waiting, EVERY[name], budget, mode)
