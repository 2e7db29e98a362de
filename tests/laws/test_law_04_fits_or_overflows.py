"""Law 4: the prepared request fits the budget by exact count, or ContextOverflow is raised and nothing is sent."""

import anyio
import pytest
from histories import broken_histories, budgets, histories, stages
from hypothesis import given, strategies as st

from agentctx import (
    AgentctxError,
    Budget,
    ContextOverflow,
    FitContextWindow,
    InvalidInput,
    Ledger,
    Pipeline,
    PlaceCacheMarkers,
    Session,
    Tiered,
    TrimRounds,
    count,
    validate,
)
from agentctx.formats.native import unmarked
from agentctx.presets import coding_agent
from agentctx.testing import assistant, call, history, result, system, thinking, tool, transcript, user
from agentctx.testing.laws import Scenario, fits_or_overflows
from agentctx.tokens import FixedCounter

FORMATS = ["openai-chat", "anthropic", "gemini", "bedrock"]


def legal(messages, format_name):
    """Whether the provider takes these messages."""
    return not [found for found in validate({"messages": messages}, format=format_name) if found.severity == "error"]


@given(histories(), budgets(), stages())
def test_legal_histories_fit(both_loops, history, budget, stage):
    """Counted anew, what is sent of a legal history fits; else ContextOverflow says by how much it does not."""
    both_loops(fits_or_overflows, Scenario.of(stage, history, budget))


@given(broken_histories(), budgets(), stages())
def test_broken_histories_fit(both_loops, history, budget, stage):
    """What repair adds is counted too."""
    both_loops(fits_or_overflows, Scenario.of(stage, history, budget))


@given(histories(), budgets())
def test_no_stage_is_needed_to_fit(both_loops, history, budget):
    """The guarantee holds for a pipeline without stages."""
    pipeline = Pipeline()
    both_loops(fits_or_overflows, Scenario.of(pipeline, history, budget))


@given(histories(), st.integers(1, 30), st.integers(1, 400))
def test_any_counter_is_kept_to(both_loops, history, tokens, window):
    """The guarantee holds by the counter that the pipeline was given."""
    pipeline = Pipeline(FitContextWindow(), counter=FixedCounter(tokens))
    both_loops(fits_or_overflows, Scenario.of(pipeline, history, Budget(window)))


MARKED = {
    "openai-chat": "gpt-5.6",
    "openai-responses": "gpt-5.6",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-pro",
    "bedrock": "anthropic.claude-sonnet-4-5-20250929-v1:0",
}


async def markers_come_free(past, way, window, mode):
    """Step by step: what goes out fits, counted anew, is as large as was told, and no smaller without its markers."""
    form, budget = past.format, Budget(window, trigger=window * 4 // 5, target=window // 2)
    stages = coding_agent(budget).stages if way == "preset" else (TrimRounds(3), PlaceCacheMarkers(ttl=way))
    pipeline = Pipeline(*stages, budget=budget, counter=len)
    session, history, marked = pipeline.session(model=MARKED[form], format=form), [], 0
    for native in past.messages:
        history = [*history, native]
        if mode == "loaded":
            session = Session.load(pipeline, session.dump())
        try:
            if mode == "at once":
                view = await pipeline.prepare(history, past.system, past.tools, form, MARKED[form])
            else:
                view = await session.prepare(history, past.system, past.tools)
        except ContextOverflow:
            continue
        around = {"format": form, "model": MARKED[form], "counter": len}
        size = count(view.messages, system=view.system, tools=view.tools, **around)
        bare = [unmarked(each) for each in (view.messages, view.system, view.tools)]
        assert size == view.report.tokens_after <= window
        assert size == count(bare[0], system=bare[1], tools=bare[2], **around)
        marked += bare[0] != view.messages
        history = list(view.messages) if mode == "rolling" else history
    return marked


@given(
    st.sampled_from([*MARKED]).flatmap(histories),
    st.sampled_from(["5m", "1h", "preset"]),
    st.integers(1_025, 3_000),
    st.sampled_from(["at once", "session", "rolling", "loaded"]),
)
def test_cache_markers_cost_nothing_and_come_before_the_guarantee(past, way, window, mode):
    """With markers in every format, at budgets that are just enough: nothing is added to what was made to fit."""
    anyio.run(markers_come_free, past, way, window, mode)


SWITCHED = {
    "openai-chat": ("gpt-5.4", "gpt-4", "claude-sonnet-4-5", "deepseek-v4-pro"),
    "openai-responses": ("gpt-5.4", "gpt-4", "gpt-5.6"),
    "anthropic": ("claude-sonnet-4-5", "claude-opus-5-5", "claude-haiku-4-5"),
    "gemini": ("gemini-2.5-pro", "gemini-3.1-pro"),
    "bedrock": (MARKED["bedrock"], "amazon.nova-pro-v1:0", "meta.llama3-1-70b-instruct-v1:0"),
}
"""Models of a format that count, repair and think differently."""


async def refuses_truly(past, stage, budget, steps, mode):
    """Step by step, with another model at times: a session that overflows does so where no session would fit either."""
    form, history, known = past.format, [], 0
    pipeline = Pipeline(stage, budget=budget)
    session, around = pipeline.session(model=SWITCHED[form][0], format=form), (past.system, past.tools)
    for wide, pick in steps:
        history, known = [*history, *past.messages[known : known + wide]], known + wide
        model = SWITCHED[form][pick % len(SWITCHED[form])]
        if mode == "loaded":
            session = Session.load(pipeline, session.dump())
        try:
            view = await session.prepare(history, *around, model=model)
        except ContextOverflow:
            with pytest.raises(ContextOverflow):
                await pipeline.prepare(history, *around, form, model)
            continue
        assert count(view.messages, system=view.system, tools=view.tools, format=form, model=model) <= budget.limit
        history = list(view.messages) if mode == "rolling" else history


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["full", "loaded"])
async def test_a_cut_that_made_something_stay_is_taken_back_before_a_refusal(mode):
    """A cut let the open round begin with a thought, which has to stay then; from the whole history it need not."""
    words = [assistant("w " * 600, call("c0", "x")), assistant(thinking("hm", "c2ln"), "w " * 400, call("c1", "x"))]
    words.append(assistant("w " * 700, call("c2", "x")))
    turns = [turn for n, said in enumerate(words) for turn in (said, result(f"c{n}", "ok"))]
    messages = transcript("anthropic", user("task"), *turns)
    pipeline = Pipeline(FitContextWindow(), budget=Budget(1_000, trigger=0.9, target=0.8), counter=len_of_words)
    session = pipeline.session(model="claude-haiku-4-5", format="anthropic")
    await session.prepare(messages[:5])
    if mode == "loaded":
        session = Session.load(pipeline, session.dump())
    at_once = await pipeline.prepare(messages, format="anthropic", model="claude-haiku-4-5")
    view = await session.prepare(messages)
    assert view.messages == at_once.messages == [messages[0], *messages[5:]]
    assert all(sent is given for sent, given in zip(view.messages, at_once.messages, strict=True))
    assert [(change.index, change.outcome) for change in view.report.in_force] == [(n, "dropped") for n in range(1, 5)]
    assert (view.report.tokens_after, view.report.first_changed) == (at_once.report.tokens_after, 1)
    more = [*messages, *transcript("anthropic", assistant("done"), user("go on"))]
    assert (await session.prepare(more)).messages == [messages[0], *more[5:]]


def len_of_words(text):
    """A counter of words."""
    return len(text.split())


@st.composite
def long_rounds(draw):
    """One task, and many calls of a model that now thinks, now speaks, now says nothing before them."""
    turns = [user("task")]
    for n in range(draw(st.integers(3, 9))):
        thought = [thinking("hm", f"c2ln{n:04}")] if draw(st.booleans()) else []
        words = ["w " * draw(st.sampled_from([20, 200, 400]))] if draw(st.booleans()) else []
        turns += [assistant(*thought, *words, call(f"c{n}", "read", {"path": "a"})), result(f"c{n}", "r " * 30)]
        turns += [user("and then?")] if draw(st.integers(0, 5)) == 5 else []
    return history(draw(st.sampled_from(["anthropic", "bedrock"])), *turns)


CUTS = st.sampled_from([FitContextWindow(), Tiered(), TrimRounds(2)])
TIGHT = st.tuples(long_rounds(), CUTS, st.integers(300, 1_000))
ANY = st.tuples(histories(max_rounds=8), stages(), st.integers(40, 1_500))


@given(
    st.one_of(TIGHT, ANY),
    st.lists(st.tuples(st.integers(1, 5), st.sampled_from([0, 0, 1, 2, 3])), min_size=2, max_size=8),
    st.sampled_from(["full", "rolling", "loaded"]),
)
def test_a_session_refuses_what_does_not_fit_at_once_either(what, steps, mode):
    """What was decided for another model, or before the end was what it is, is no reason to refuse."""
    past, stage, window = what
    anyio.run(refuses_truly, past, stage, Budget(window, trigger=0.8, target=0.5), steps, mode)


BY_TURNS = ("meta.llama3-1-70b-instruct-v1:0", "mistral.mistral-large-2407-v1:0")
"""Models between whose messages a word is put where two of one role would follow each other."""


async def fits_by_turns(past, told, windows, model):
    """At each window, what goes out fits, counted anew, and is as large as was told."""
    for window in windows:
        pipeline = Pipeline(FitContextWindow(), told, budget=Budget(window))
        for prepare in (pipeline.prepare, pipeline.session().prepare):
            try:
                view = await prepare(past.messages, format=past.format, model=model)
            except ContextOverflow:
                continue
            assert count(view.messages, format=past.format, model=model) == view.report.tokens_after <= window


@given(
    st.lists(st.booleans(), min_size=9, max_size=16),
    st.builds(Ledger, max_tokens=st.integers(20, 120)),
    st.integers(100, 115),
    st.sampled_from(BY_TURNS),
)
def test_words_put_between_what_is_told_and_its_neighbours_fit_too(rounds, told, least, model):
    """A recap of what went is written last: it gives way also to the words that the model wants beside it."""
    said = [(assistant("I see."), user("Go on.")) if talks else () for talks in rounds]
    asked = [(assistant(call(f"c{n}", "read")), result(f"c{n}", f"v{n} " * 40)) for n in range(len(rounds))]
    turns = [turn for one, other in zip(asked, said, strict=True) for turn in (*one, *other)]
    past = history("bedrock", user("Find the error. " * 5), *turns)
    anyio.run(fits_by_turns, past, told, range(least, 340, 16), model)


async def needs_nothing_more(past, stages, budget, model, mode):
    """Each view is what the guarantee alone makes of it: the same objects, nothing done."""
    pipeline, around = Pipeline(*stages, budget=budget), (past.system, past.tools)
    session = pipeline.session(model=model, format=past.format)
    for stop in range(1, len(past.messages) + 1) if mode != "stateless" else [len(past.messages)]:
        try:
            if mode == "stateless":
                view = await pipeline.prepare(past.messages, *around, past.format, model)
            else:
                view = await session.prepare(past.messages[:stop], *around)
        except (ContextOverflow, InvalidInput):  # the latter where repair leaves nothing
            continue
        again = await Pipeline(budget=budget).prepare(view.messages, view.system, view.tools, past.format, model)
        assert not again.report.stages
        assert all(now is sent for now, sent in zip(again.messages, view.messages, strict=True))


@given(
    st.one_of(histories(), broken_histories()),
    st.lists(stages(), max_size=2),
    st.integers(60, 1_500).map(lambda window: Budget(window, trigger=0.8, target=0.5)),
    st.integers(0, 3),
    st.sampled_from(["stateless", "session"]),
)
def test_nothing_changes_after_the_guarantee(past, stages, budget, pick, mode):
    """What was prepared, prepared once more without any stage, comes back as it is, whatever markers it got."""
    models = SWITCHED[past.format]
    model = models[pick % len(models)]
    anyio.run(needs_nothing_more, past, [*stages, PlaceCacheMarkers()], budget, model, mode)


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["at once", "session", "rolling", "loaded"])
@pytest.mark.parametrize("form", ["anthropic", "bedrock", "openai-chat"])
async def test_markers_are_placed_where_this_is_tried(form, mode):
    """A long conversation at a tight budget has markers in most of its views."""
    turns = [turn for n in range(12) for turn in (assistant(call(f"c{n}", "x")), result(f"c{n}", "word " * 80))]
    past = history(form, user("task " * 260), *turns)
    assert await markers_come_free(past, "5m", 3_000, mode) > 10


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_one_result_larger_than_the_window_is_cut(format_name, preparing):
    """The result that the model waits for is larger than the window: it is cut, and its round stays."""
    messages = transcript(
        format_name, user("task"), assistant(call("c", "read")), result("c", "first line\n" + "more words " * 40_000)
    )
    view = await preparing(Pipeline(FitContextWindow(), budget=Budget(2_000)), format_name)(messages)
    assert count(view.messages, format=format_name) <= 2_000
    assert legal(view.messages, format_name)
    assert len(view.messages) == len(messages)
    assert "first line" in view.context.messages[-1].results[0].text


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_ten_results_that_only_together_are_too_large_are_cut(format_name, preparing):
    """Ten parallel results of which each fits alone: all calls stay answered, and the request fits."""
    ids = [f"c{number}" for number in range(10)]
    asked = assistant(*(call(name, "read") for name in ids))
    messages = transcript(format_name, user("task"), asked, *(result(name, f"{name}: " + "w " * 400) for name in ids))
    view = await preparing(Pipeline(FitContextWindow(), budget=Budget(2_000)), format_name)(messages)
    assert count(view.messages, format=format_name) <= 2_000
    assert legal(view.messages, format_name)
    kept = [part for message in view.context.messages for part in message.results]
    assert [part.call_id for part in kept] == [part.id for message in view.context.messages for part in message.calls]
    assert [part.text.partition(":")[0] for part in kept] == ids


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_budget_below_the_system_prompt_overflows(format_name, preparing):
    """A system prompt that is larger than the window cannot be sent, and the error names it with the numbers."""
    request = history(format_name, system("rule " * 500), user("hi"))
    prepare = preparing(Pipeline(FitContextWindow(), budget=Budget(100)), format_name)
    with pytest.raises(ContextOverflow, match="system") as caught:
        await prepare(request.messages, request.system)
    assert isinstance(caught.value, AgentctxError)
    assert caught.value.limit == 100
    assert caught.value.tokens == count(request.messages, system=request.system, format=format_name)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_the_latest_user_message_is_not_cut_to_fit(format_name, preparing):
    """A user message larger than the window overflows; the user's words are never shortened."""
    messages = transcript(format_name, user("task"), assistant("yes?"), user("word " * 500))
    prepare = preparing(Pipeline(FitContextWindow(), budget=Budget(300)), format_name)
    with pytest.raises(ContextOverflow, match=r"messages\[\d\]"):
        await prepare(messages)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_tools_count_and_overflow_too(format_name, preparing):
    """Tool definitions larger than the window cannot be sent, and the error names them."""
    tools = [tool(f"tool_{number}", "does this and that " * 20) for number in range(30)]
    request = history(format_name, user("hi"), tools=tools)
    prepare = preparing(Pipeline(FitContextWindow(), budget=Budget(500)), format_name)
    with pytest.raises(ContextOverflow, match="tools"):
        await prepare(request.messages, tools=request.tools)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_the_output_reserve_stays_free(format_name, preparing):
    """What is kept free for the answer is not used for the request."""
    turns = [turn for n in range(20) for turn in (assistant(call(f"c{n}", "x")), result(f"c{n}", "word " * 50))]
    messages = transcript(format_name, user("task"), *turns)
    prepare = preparing(Pipeline(FitContextWindow(), budget=Budget(1_000, 400)), format_name)
    assert count((await prepare(messages)).messages, format=format_name) <= 600


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_huge_arguments_of_the_open_round_do_not_overflow(format_name, preparing):
    """The call that the model just made carries a whole file: the request is made to fit all the same."""
    messages = transcript(
        format_name,
        user("task"),
        assistant(call("c", "write", {"path": "a", "content": "line of a file\n" * 3_000})),
        result("c", "written"),
    )
    prepare = preparing(Pipeline(FitContextWindow(), budget=Budget(2_000)), format_name)
    view = await prepare(messages)
    assert count(view.messages, format=format_name) <= 2_000
    assert legal(view.messages, format_name)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_the_round_that_the_model_is_in_is_the_last_to_go(format_name, preparing):
    """Older rounds go before the results of the open round are dropped: the model sees what it just asked for."""
    turns = [turn for n in range(20) for turn in (assistant(call(f"c{n}", "x")), result(f"c{n}", f"answer {n}"))]
    messages = transcript(format_name, user("task"), *turns)
    prepare = preparing(Pipeline(FitContextWindow(), budget=Budget(120)), format_name)
    view = await prepare(messages)
    assert view.context.messages[-1].results[0].text == "answer 19"


@given(histories(), stages(), st.integers(2, 12))
def test_a_step_that_is_refused_leaves_the_session_as_it_was(both_loops, history, stage, over):
    """Its state is the same, and so is what it sends next, as in a session that was not asked for it."""

    async def main():
        pipeline = Pipeline(stage, budget=Budget(4_000))
        refused, spared = (pipeline.session(format=history.format) for _ in range(2))
        made = {"system": history.system, "tools": history.tools}
        known = history.messages[: len(history.messages) // 2]
        try:
            await refused.prepare(known, **made)
        except AgentctxError:
            return
        await spared.prepare(known, **made)
        before = refused.dump()
        huge = transcript(history.format, user("word " * 4_000 * over))
        try:
            await refused.prepare([*history.messages, *huge], **made)
        except AgentctxError:
            assert refused.dump() == before
            views = [await view_or_error(session, history.messages, made) for session in (refused, spared)]
            assert views[0] == views[1]

    both_loops(main)


async def view_or_error(session, messages, made):
    """What a session sends, or what it says."""
    try:
        return (await session.prepare(messages, **made)).messages
    except AgentctxError as error:
        return str(error)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_session_goes_on_after_an_overflow(format_name):
    """After a step that overflowed, a step that fits is prepared as if nothing had been."""
    pipeline = Pipeline(FitContextWindow(), budget=Budget(300))
    session = pipeline.session(format=format_name)
    small = transcript(format_name, user("task"))
    before = await session.prepare(small)
    with pytest.raises(ContextOverflow):
        await session.prepare([*small, *transcript(format_name, assistant("ok"), user("word " * 1_000))])
    assert (await session.prepare(small)).messages == before.messages


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_session_that_acts_goes_down_to_its_target(format_name):
    """A session that passes its trigger cuts down to its target, so that the next cut is far away."""
    turns = [turn for n in range(40) for turn in (assistant(call(f"c{n}", "x")), result(f"c{n}", "word " * 50))]
    messages = transcript(format_name, user("task"), *turns)
    budget = Budget(100_000, trigger=2_000, target=1_000)
    view = await Pipeline(FitContextWindow(), budget=budget).session(format=format_name).prepare(messages)
    assert 500 < count(view.messages, format=format_name) <= 1_000


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_made_up_result_that_is_dropped_again_is_not_counted(format_name, preparing):
    """Repair answers a call whose result is lost, a stage drops that round: the report has the size of the rest."""
    lost = (user("why?"), assistant(call("lost", "x")), user("never mind"))
    rounds = [turn for n in range(3) for turn in (assistant(call(f"c{n}", "x")), result(f"c{n}", "ok"))]
    messages = transcript(format_name, user("task"), *lost, *rounds)
    view = await preparing(Pipeline(TrimRounds(1)), format_name)(messages)
    assert "lost" not in str(view.messages)
    assert view.report.tokens_after == count(view.messages, format=format_name)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_what_a_stage_adds_is_counted(format_name):
    """A stage that makes the request larger than the window does not get it past the guarantee."""

    async def chatty(context, _call):
        longer = context.messages[-1].with_parts(())
        return context.with_messages((*context.messages[:-1], *([context.messages[0]] * 50), longer))

    messages = transcript(format_name, user("word " * 20), *([assistant("ok"), user("and?")] * 3))
    with pytest.raises(AgentctxError):
        await Pipeline(chatty, TrimRounds(5), budget=Budget(200)).prepare(messages, format=format_name)


@pytest.mark.anyio
@pytest.mark.parametrize("model", [None, "gpt-4o", "gpt-4"])
async def test_the_budget_of_a_pipeline_within_is_aimed_at(model, preparing):
    """What cannot be cut down to it is sent where the model takes it, and the report says so; else it is refused."""
    within = coding_agent(Budget(1_000))
    task = "word " * (1_500 if model != "gpt-4" else 8_000)
    messages = [{"role": "user", "content": task}, *({"role": "assistant", "content": "hm"},) * 3]
    messages.append({"role": "user", "content": "go on"})
    prepare = preparing(Pipeline(within), "openai-chat", model)
    if model != "gpt-4o":
        with pytest.raises(ContextOverflow) as refused:
            await prepare(messages)
        assert refused.value.limit == (1_000 if model is None else Budget.for_model(model).limit)
        return
    view = await prepare(messages)
    assert [message["content"] for message in view.messages] == [task, "go on"]
    said = " ".join(note for stage in view.report.stages for note in stage.notes)
    assert f"{view.report.tokens_after - 1_000:,} tokens over the 1,000 of a pipeline within" in said


@pytest.mark.anyio
async def test_a_refusal_names_the_limit_also_where_the_user_has_to_speak_last(preparing):
    """The words that the engine would add are part of what is needed, not of what is available."""
    said = [
        {"role": "user", "content": "go " * 200},
        {"role": "assistant", "content": [{"type": "text", "text": "hm"}]},
    ]
    messages = [*said, {"role": "user", "content": [{"type": "text", "text": " "}]}]
    with pytest.raises(ContextOverflow) as refused:
        await preparing(Pipeline(budget=Budget(100)), "anthropic", "claude-opus-5-5")(messages)
    assert refused.value.limit == 100
    assert refused.value.tokens > 200
