"""Law 11: composing stages changes neither when they run, nor what they are called, nor what is sent."""

import json
from typing import ClassVar

import pytest
from attrs import evolve

from agentctx import (
    Budget,
    ClearToolResults,
    CollapseRepeats,
    ContextOverflow,
    ContextStrategy,
    FitContextWindow,
    Pipeline,
    PlaceCacheMarkers,
    Protect,
    Session,
    StageError,
    TrimRounds,
    TruncateToolOutputs,
    When,
    count,
    first_of,
    over,
    when,
)
from agentctx.economics import pays_back
from agentctx.presets import coding_agent
from agentctx.session.conversations import beginning_as
from agentctx.stores import MemoryStore
from agentctx.strategies import ReuseLines
from agentctx.testing import Recorder, assistant, call, result, transcript, user
from agentctx.tokens import FixedCounter

pytestmark = pytest.mark.anyio

STEPS = 40
FORMATS = {
    "openai-chat": "gpt-5.4",
    "openai-responses": "gpt-5.4",
    "anthropic": "claude-sonnet-4-5",
    "gemini": "gemini-2.5-pro",
    "bedrock": "anthropic.claude-sonnet-4-5-20250929-v1:0",
}
BUDGET = Budget(4_000, trigger=0.9, target=0.4)


async def note(context, call):
    """A stage that looks at every step, and leaves everything as it is."""
    call.remark(f"looked, aiming at {call.limit}")
    return context


def yes(_context, _call):
    """Always."""
    return True


PAIRS = {
    "arrivals": (TruncateToolOutputs(max_tokens=60), ClearToolResults(2)),
    "pressure": (ClearToolResults(2), FitContextWindow()),
    "markers": (TrimRounds(6), PlaceCacheMarkers()),
    "always": (note, FitContextWindow()),
    "mixed": (CollapseRepeats(), Pipeline(TruncateToolOutputs(max_tokens=80), TrimRounds(9))),
}
WAYS = {
    "pipeline in a pipeline": lambda a, b: [Pipeline(a, b)],
    "each in a pipeline": lambda a, b: [Pipeline(Pipeline(a)), Pipeline(b)],
    "when, a plain function": lambda a, b: [when(yes, a), b],
    "when over": lambda a, b: [when(over(1), a, b)],
    "first_of": lambda a, b: [first_of(a), first_of(b)],
    "all of them": lambda a, b: [when(yes, Pipeline(first_of(when(over(1), a)))), Pipeline(b)],
}


def rounds(form, start, stop):
    """Rounds with outputs of many sizes."""
    turns = []
    for number in range(start, stop):
        words = f"{number} " + "word " * (30 + 37 * number % 170)
        turns += [assistant(call(f"c{number}", "read", {"n": number})), result(f"c{number}", words)]
    return transcript(form, *turns)


async def told(pipeline, form, *, rolling=False, load_at=None):
    """What 40 steps of a session send, and what is said of each."""
    heard = Recorder()
    session = pipeline.session(model=FORMATS[form], format=form, on_compact=heard)
    history, seen = transcript(form, user("task")), []
    for step in range(STEPS):
        history += rounds(form, step, step + 1)
        if step == load_at:
            session = Session.load(pipeline, json.loads(json.dumps(session.dump())), heard)
        view = await session.prepare(history)
        report = view.report
        said = [(stage.stage, stage.notes, stage.changes) for stage in report.stages]
        seen.append((view.messages, said, report.in_force, report.first_changed, report.tokens_after))
        history = list(view.messages) if rolling else history
    return seen, [str(event) for event in heard.events]


@pytest.mark.parametrize("pair", PAIRS)
@pytest.mark.parametrize("form", ["openai-chat", "bedrock"])
async def test_composed_stages_do_what_they_do_alone(form, pair):
    """However stages are put together: the same views, reports and events, in 40 steps."""
    alone = await told(Pipeline(*PAIRS[pair], budget=BUDGET), form)
    for name, way in WAYS.items():
        assert alone == await told(Pipeline(*way(*PAIRS[pair]), budget=BUDGET), form), name


@pytest.mark.parametrize("form", FORMATS)
@pytest.mark.parametrize("mode", [{"rolling": True}, {"load_at": 25}], ids=["views written back", "after a load"])
async def test_composed_stages_do_what_they_do_alone_in_every_mode(form, mode):
    """The same where the views are written back, and where a session was loaded in the middle."""
    stages = TruncateToolOutputs(max_tokens=60), FitContextWindow()
    alone = await told(Pipeline(*stages, budget=BUDGET), form, **mode)
    composed = Pipeline(when(yes, Pipeline(stages[0])), first_of(stages[1]), budget=BUDGET)
    assert alone == await told(composed, form, **mode)


@pytest.mark.parametrize("form", FORMATS)
async def test_composed_stages_do_what_they_do_alone_where_a_caller_goes_back(form):
    """The same where the history is shortened, goes on otherwise, and is cut again."""
    stages = TruncateToolOutputs(max_tokens=60), ClearToolResults(2), FitContextWindow()
    composed = when(yes, Pipeline(stages[0])), first_of(when(over(1), Pipeline(stages[1]))), Pipeline(stages[2])
    whole = transcript(form, user("task")) + rounds(form, 0, STEPS)
    other = transcript(form, user("another way")) + rounds(form, STEPS, STEPS + 20)
    walks = [whole[:60], whole, whole[:30], [*whole[:30], *other], whole[:9], [*whole[:9], *other], whole[:61]]
    seen = []
    for each in (stages, composed):
        session = Pipeline(*each, budget=BUDGET).session(model=FORMATS[form], format=form)
        views = [await session.prepare(walk) for walk in walks]
        seen.append([(view.messages, view.report.changes, view.report.in_force) for view in views])
    assert seen[0] == seen[1]


@pytest.mark.both_loops
@pytest.mark.parametrize("form", FORMATS)
async def test_composed_stages_do_what_they_do_alone_without_a_session(form):
    """A stateless call: the same view, and the same report but for the time it took."""
    messages = transcript(form, user("task")) + rounds(form, 0, 30)
    stages = TruncateToolOutputs(max_tokens=60), ClearToolResults(2), FitContextWindow()
    alone = await Pipeline(*stages, budget=BUDGET).prepare(messages, format=form, model=FORMATS[form])
    for composed in ([Pipeline(*stages)], [when(yes, *stages)], [first_of(each) for each in stages]):
        view = await Pipeline(*composed, budget=BUDGET).prepare(messages, format=form, model=FORMATS[form])
        assert alone.messages == view.messages
        assert alone.report.changes == view.report.changes
        assert [stage.stage for stage in alone.report.stages] == [stage.stage for stage in view.report.stages]


async def test_a_preset_in_a_pipeline_is_that_preset():
    """Its budget is the session's, with trigger and target."""
    preset = coding_agent(BUDGET)
    assert await told(preset, "openai-chat") == await told(Pipeline(preset), "openai-chat")


async def test_what_inner_pipelines_bring_holds():
    """Budget, counter, store, rules and listener of an inner pipeline do what they would do outside."""
    stages = TruncateToolOutputs(max_tokens=60), TrimRounds(3)
    heard, kept = (Recorder(), Recorder()), (MemoryStore(), MemoryStore())

    def options(place):
        return {
            "budget": Budget(500),
            "counter": FixedCounter(12),
            "store": kept[place],
            "protect": [Protect.pins(4)],
            "on_compact": heard[place],
        }

    outside, inside = Pipeline(*stages, **options(0)), Pipeline(Pipeline(Pipeline(*stages, **options(1))))
    assert await told(outside, "openai-chat") == await told(inside, "openai-chat")
    assert heard[0].events
    assert [str(event) for event in heard[0].events] == [str(event) for event in heard[1].events]
    assert len(kept[0]) == len(kept[1]) > 0


async def test_what_an_inner_pipeline_pins_no_outer_stage_takes():
    """A rule of an inner pipeline holds for the stages around it, and for the fit guarantee."""
    inner = Pipeline(ClearToolResults(2), protect=[Protect.pins(2)])
    session = Pipeline(inner, TrimRounds(1), budget=Budget(1_500)).session(format="openai-chat")
    history = transcript("openai-chat", user("task"))
    for step in range(20):
        history += rounds("openai-chat", step, step + 1)
        view = await session.prepare(history)
    assert len(view.messages) < len(history)
    assert any(message is history[2] for message in view.messages)


async def test_a_smaller_budget_within_acts_by_its_own_trigger():
    """An inner pipeline with its own budget goes from its trigger down to its target, and rests in between."""
    small = Budget(2_000, trigger=0.9, target=0.3)
    alone, _ = await told(Pipeline(FitContextWindow(), budget=small), "openai-chat")
    within, _ = await told(Pipeline(Pipeline(FitContextWindow(), budget=small), budget=20_000), "openai-chat")
    assert all(after <= small.limit for *_, after in within)
    moved = [sum(first is not None for *_, first, _ in seen) for seen in (alone, within)]
    assert moved[1] <= moved[0] + 1


async def test_a_condition_that_pays_back_is_asked_at_every_step():
    """What depends on more than the size says so itself: its stages run before the context is too large."""
    budget = Budget(100_000, target=200)
    _, always = await told(Pipeline(when(pays_back(200), TrimRounds(2)), budget=budget), "openai-chat")
    _, pressed = await told(Pipeline(when(over(1_000), TrimRounds(2)), budget=budget), "openai-chat")
    assert always
    assert not pressed


async def test_a_condition_on_arrivals_is_asked_of_the_whole_request():
    """A stage for new messages runs as soon as the whole request has passed the size, and is shown what is new."""
    shown = []

    class Looks(ContextStrategy):
        """Writes down how much it sees."""

        when = When.ON_ARRIVAL

        async def __call__(self, context, _call):
            """Look."""
            shown.append(len(context.messages))
            return context

    session = Pipeline(when(over(2_000), Looks()), budget=100_000).session(format="openai-chat")
    history, sizes = transcript("openai-chat", user("task")), []
    for step in range(STEPS):
        history += rounds("openai-chat", step, step + 1)
        before = len(shown)
        view = await session.prepare(history)
        sizes.append((view.report.tokens_after > 2_000, len(shown) > before))
    assert all(large == ran for large, ran in sizes)
    assert {large for large, _ in sizes} == {True, False}
    assert max(shown) <= 4


async def test_work_that_a_condition_does_not_approve_leaves_nothing_behind():
    """Neither the view nor the report nor the store shows what was tried."""
    store = MemoryStore()
    session = Pipeline(when(pays_back(1), TrimRounds(2)), budget=Budget(100_000, target=200), store=store).session(
        model="gpt-5.4", format="openai-chat"
    )
    history, refused = transcript("openai-chat", user("task")), 0
    for step in range(8):
        history += rounds("openai-chat", step, step + 1)
        view = await session.prepare(history)
        if not view.report.acted:
            refused += 1
            assert view.messages == history
            assert not len(store)
    assert refused


async def test_an_error_names_the_stage_within():
    """The stage that broke a promise is named, not what holds it."""

    async def breaks(context, _call):
        return context.with_messages(context.messages[:-1])

    messages = transcript("openai-chat", user("task")) + rounds("openai-chat", 0, 1)
    with pytest.raises(StageError, match="stage breaks: broke a pair"):
        await Pipeline(when(yes, Pipeline(first_of(breaks)))).prepare(messages, format="openai-chat")


@pytest.mark.parametrize("words", [10, 1_900, 3_000])
@pytest.mark.parametrize("model", [None, "claude-sonnet-4-5", "claude-opus-5-5"])
async def test_a_late_result_with_words_beside_it_is_taken_nested_as_flat(words, model):
    """The same view, or the same true refusal; but that a known model takes what a budget within only aims at."""
    preset = coding_agent(Budget(3_000))
    asked = [{"type": "tool_use", "id": "c1", "name": "read", "input": {}}]
    told = [{"type": "tool_result", "tool_use_id": "c1", "content": "late"}, {"type": "text", "text": "also this"}]
    history = [
        {"role": "user", "content": "word " * words},
        {"role": "assistant", "content": asked},
        {"role": "user", "content": "wait"},
        {"role": "assistant", "content": "hm"},
        {"role": "user", "content": told},
    ]
    found = []
    for pipeline in (preset, Pipeline(preset), Pipeline(when(yes, preset))):
        try:
            view = await pipeline.prepare(history, format="anthropic", model=model)
        except ContextOverflow as error:
            assert words == 3_000
            found.append(str(error))
        else:
            found.append(view.messages)
    if words == 3_000 and model is not None:
        assert isinstance(found.pop(0), str)
        assert all(
            [message["content"][0]["text"] for message in view] == ["word " * words, "also this"] for view in found
        )
    assert all(each == found[0] for each in found)


class FirstToolOnly(ContextStrategy):
    """Leaves the first tool, when something arrives."""

    when: ClassVar[When] = When.ON_ARRIVAL

    def apply(self, context, _call):
        """Leave it."""
        return evolve(context, tools=context.tools[:1])


@pytest.mark.parametrize("stages", [(), (lambda context, _call: context,)], ids=["alone", "before one that looks"])
async def test_tools_that_go_on_arrival_are_counted_as_they_are_sent(stages):
    """Also at a step that looks at the whole view."""
    tools = [
        {"type": "function", "function": {"name": f"tool{n}", "parameters": {"type": "object"}}} for n in range(60)
    ]
    session = Pipeline(FirstToolOnly(), *stages, budget=Budget(500)).session(format="openai-chat")
    history = transcript("openai-chat", user("task"))
    for _ in range(3):
        view = await session.prepare(history, tools=tools)
        assert view.report.tokens_after == count(view.messages, tools=view.tools, format="openai-chat")
        assert len(view.tools) == 1
        history += transcript("openai-chat", assistant("a"), user("b"))


@pytest.mark.parametrize("inner", [ReuseLines(), Pipeline(ReuseLines()), first_of(Pipeline(ReuseLines()))])
async def test_a_pipeline_that_is_called_refers_to_nothing_that_it_takes_away(inner):
    """However deep the stage stands that told of lines elsewhere."""
    lines = "\n".join(f"line {n} of a file that is read twice, with words enough to be long" for n in range(40))
    called = Pipeline(inner, TrimRounds(1))

    async def through(context, call):
        return await called(context, call)

    turns = [user("task"), assistant(call("a", "read", {"path": "a"})), result("a", lines), user("go on")]
    turns += [assistant(call("b", "read", {"path": "b"})), result("b", "other\n" + lines), user("go on")]
    view = await Pipeline(through).prepare(transcript("openai-chat", *turns), format="openai-chat")
    assert [each["content"] for each in view.messages if each["role"] == "tool"] == ["other\n" + lines]


async def test_each_is_told_once_wherever_it_was_passed():
    """A listener, and a method that subscribes; of the pipeline, of one within it, and of the session."""
    messages = transcript("openai-chat", user("One?"), assistant("1."), user("Two?"), assistant("2."), user("Three?"))
    told, heard = [], []
    pipeline = Pipeline(
        Pipeline(TrimRounds(1), on_compact=told.append, subscribers=[heard.append]),
        on_compact=told.append,
        subscribers=[heard.append],
    )
    await pipeline.session(on_compact=told.append).prepare(messages)
    assert (len(told), len(heard)) == (1, 1)


async def test_a_child_of_a_conversation_that_began_beside_another_is_told():
    """A wrapped client's second conversation has the listeners of the first, and so has a child of it."""
    messages = transcript("openai-chat", user("One?"), assistant("1."), user("Two?"), assistant("2."), user("Three?"))
    told = []

    def shorter(context, _call):
        return context.with_messages((*context.messages[:1], *context.messages[3:]))

    first = Pipeline(shorter).session(on_compact=told.append)
    for session in (first.child(Budget(500)), beginning_as(first, "second").child(Budget(500))):
        await session.prepare(messages)
    assert len(told) == 2


async def test_an_empty_store_that_is_false_is_a_store():
    """What an inner pipeline leaves out is kept in the inner one's store."""

    class Empty(MemoryStore):
        def __bool__(self):
            return False

    inner, outer = Empty(), MemoryStore()
    messages = transcript("openai-chat", user("One?"), assistant("1."), user("Two?"), assistant("2."), user("Three?"))
    await Pipeline(Pipeline(TrimRounds(1), store=inner), store=outer).prepare(messages)
    assert [bool(await store.handles()) for store in (inner, outer)] == [True, False]


async def test_what_becomes_of_reasoning_holds_nested_as_flat():
    """An inner pipeline that has it dropped has it dropped where it is a stage, too."""
    history = [{"role": "user", "content": "task"}]
    for n in range(10):
        thought = {"type": "thinking", "thinking": "hm", "signature": f"s{n}"}
        asked = {"type": "tool_use", "id": f"c{n}", "name": "read", "input": {}}
        answer = {"type": "tool_result", "tool_use_id": f"c{n}", "content": "word " * 150}
        history += [{"role": "assistant", "content": [thought, asked]}, {"role": "user", "content": [answer]}]
    flat = Pipeline(FitContextWindow(), budget=Budget(3_000, trigger=0.5, target=0.2), thinking="drop")
    sizes = []
    for pipeline in (flat, Pipeline(flat)):
        session = pipeline.session(format="anthropic", model="claude-opus-5-5")
        sizes.append([(await session.prepare(history[:end])).report.tokens_after for end in range(1, 21, 2)])
    assert sizes[0] == sizes[1]
