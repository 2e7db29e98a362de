"""Law 7: whatever was left out is named in the report, and with a store it can be had back byte for byte."""

import json

import pytest
from attrs import evolve
from histories import broken_histories, budgets, histories, stages
from hypothesis import given, strategies as st

from agentctx import (
    Budget,
    ClearToolResults,
    Context,
    ContextOverflow,
    FitContextWindow,
    InvalidInput,
    Message,
    Outcome,
    Pipeline,
    PlaceCacheMarkers,
    Protect,
    Session,
    StoreError,
    Text,
    TrimRounds,
    TruncateToolOutputs,
    count,
    validate,
)
from agentctx.engine.guarantee import FOREIGN_ID, FOREIGN_REASONING
from agentctx.engine.reading import reader
from agentctx.engine.run_stages import LEGAL_FIRST, UNSAID
from agentctx.stores import MemoryStore
from agentctx.testing import Recorder, assistant, call, result, thinking, transcript, user
from agentctx.testing.assertions import PassedIn, outcomes, report_errors
from agentctx.testing.laws import Scenario, reported_and_kept

FORMATS = ["openai-chat", "anthropic", "gemini", "bedrock"]
ACTING = {
    "TrimRounds": TrimRounds(2),
    "TruncateToolOutputs": TruncateToolOutputs(max_tokens=20),
    "ClearToolResults": ClearToolResults(keep_last=1),
    "FitContextWindow": FitContextWindow(Budget(400)),
}


def rounds(format_name, number=6):
    """A task and rounds with outputs in several scripts."""
    turns = [user("task")]
    for place in range(number):
        turns += [assistant(call(f"c{place}", "read", {"n": place})), result(f"c{place}", f"输出 {place} é👩‍👧 " * 40)]
    return transcript(format_name, *turns)


@given(histories(), budgets(), stages())
def test_what_is_left_out_of_legal_histories_is_named(both_loops, history, budget, stage):
    """Each message that is not sent as it came is in the report, and its original is in the store."""
    both_loops(reported_and_kept, Scenario.of(stage, history, budget))


@given(broken_histories(), budgets(), stages())
def test_what_repair_leaves_out_is_named(both_loops, history, budget, stage):
    """What repair drops, moves or mends is in the report, and its original is in the store."""
    both_loops(reported_and_kept, Scenario.of(stage, history, budget))


MODELS = {
    "openai-chat": ("gpt-5.6", "mistral/mistral-large-latest", "deepseek/deepseek-reasoner"),
    "openai-responses": ("gpt-5.4", "gpt-4o", "gpt-5.6"),
    "anthropic": ("claude-opus-5-5", "claude-sonnet-4-5", "claude-opus-5-1"),
    "gemini": ("gemini-2.5-pro", "gemini-3-pro-preview"),
    "bedrock": ("us.anthropic.claude-opus-5-5", "mistral.mistral-large-2402-v1:0", "amazon.nova-pro-v1:0"),
}
STAGES = st.sampled_from((*ACTING.values(), PlaceCacheMarkers("1h"), Pipeline(TrimRounds(1), PlaceCacheMarkers())))


@given(
    history=st.one_of(histories(), broken_histories()),
    stage=STAGES,
    window=st.integers(100, 900),
    picks=st.lists(st.integers(0, 9)),
    rolling=st.booleans(),
)
def test_whatever_model_is_called_the_report_adds_up(both_loops, *, history, stage, window, picks, rolling):
    """Each step calls a model of its own, with the history or with the last view; each report accounts for all."""
    scenario = Scenario.of(Pipeline(stage, budget=Budget(window, target=0.5)), history)

    async def walk():
        session, known, given = scenario.strategy.session(format=history.format), 0, []
        for call_, pick in zip(scenario.calls(), (*picks, *range(99)), strict=False):
            model = MODELS[history.format][pick % len(MODELS[history.format])]
            given, known = [*given, *call_[known:]], len(call_)
            views = [await prepared(scenario.strategy.prepare, given, format=history.format, model=model)]
            views.append(await prepared(session.prepare, given, model=model))
            for view in filter(None, views):
                hold_to_account(given, model, view)
            given = views[1].messages if rolling and views[1] else given

    async def prepared(prepare, given, **options):
        try:
            return await prepare(given, history.system, history.tools, **options)
        except (ContextOverflow, InvalidInput):
            return None

    def hold_to_account(given, model, view):
        source = reader(given, system=history.system, tools=history.tools, format=history.format, model=model)
        before = Context(tuple(source.messages(given)), *source.head(history.system, history.tools))
        passed = PassedIn(given, history.system, history.tools)
        assert [] == list(report_errors(passed, before, view, source.meter))

    both_loops(walk)


def interrupted(format_name):
    """A call whose result is lost, and rounds after it."""
    turns = [user("task"), assistant("a", call("c1", "run", {"a": 1})), user("go on")]
    for place in range(2, 9):
        turns += [
            assistant("b", call(f"c{place}", "run", {"a": place})),
            result(f"c{place}", f"{place} " + "word " * 120),
        ]
    return transcript(format_name, *turns)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", [*FORMATS, "openai-responses"])
@pytest.mark.parametrize("way", ["at once", "session", "load"])
@pytest.mark.parametrize(
    "stage", [ClearToolResults(2, placeholder="[old]"), TruncateToolOutputs(max_tokens=4, marker="…")], ids=["C", "T"]
)
async def test_what_repair_put_in_stays_its_own(format_name, way, stage):
    """A result that a later stage shortened was added by repair, for its reason; the other stage says why, too."""
    messages = interrupted(format_name)
    pipeline = Pipeline(stage, budget=Budget(900 if way == "at once" else 1500, trigger=0.5, target=0.4))
    session, view = pipeline.session(format=format_name), None
    for stop in range(3, len(messages) + 1, 2) if way != "at once" else ():
        view = await session.prepare(messages[:stop])
        if way == "load":
            session = Session.load(pipeline, json.loads(json.dumps(session.dump())))
    view = view or await pipeline.prepare(messages, format=format_name)
    (line,) = [change for change in view.report.in_force if change.outcome is Outcome.ADDED]
    assert line.stage == "RepairHistory"
    assert line.reason.startswith("no result is there of: ")
    assert f"; {type(stage).__name__}: " in line.reason
    assert UNSAID not in line.reason


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", ["anthropic", "gemini", "bedrock"])
@pytest.mark.parametrize("one_turn", [False, True])
async def test_repair_says_why_it_parts_and_moves_messages(format_name, one_turn):
    """Results that one message answers two rounds with, some of them early: what is split off or makes way says why."""
    task, early, late = user("task"), assistant(call("c1", "read")), assistant(call("c2", "read"))
    told = transcript(format_name, task, early, result("c1", "one"), late, result("c2", "two"))
    content = "parts" if format_name == "gemini" else "content"
    both = {**told[2], content: [*told[4][content], *told[2][content]]}
    (word,) = transcript(format_name, user("go on"))
    messages = [told[0], both, told[1], *([] if one_turn else [{**word}]), told[3], word]
    session = Pipeline().session(format=format_name)
    for stop in range(1, len(messages) + 1):
        view = await session.prepare(messages[:stop])
        assert not [change for change in view.report.in_force if UNSAID in change.reason]


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize(("name", "stage"), ACTING.items(), ids=ACTING.keys())
async def test_changes_name_stage_reason_and_size(format_name, name, stage):
    """A change says which stage made it, why, and how many tokens it saved; the sums are the request's."""
    messages = rounds(format_name)
    view = await Pipeline(stage).prepare(messages, format=format_name)
    report = view.report
    assert {change.stage for change in report.changes} == {name}
    assert all(change.reason for change in report.changes)
    assert all(change.tokens_before > change.tokens_after for change in report.changes)
    saved = sum(change.tokens_before - change.tokens_after for change in report.changes)
    assert report.tokens_before - saved == report.tokens_after
    assert report.tokens_before == count(messages, format=format_name)
    assert report.tokens_after == count(view.messages, format=format_name)
    assert (report.messages_before, report.messages_after) == (len(messages), len(view.messages))


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("stage", ACTING.values(), ids=ACTING.keys())
async def test_originals_come_back_byte_for_byte(format_name, stage, preparing):
    """The store gives back the native message of every change, to the byte."""
    store, messages = MemoryStore(), rounds(format_name)
    pipeline = Pipeline(stage, store=store)
    prepare = preparing(pipeline, format_name)
    view = await prepare(messages)
    assert view.report.changes
    for change in view.report.changes:
        kept = await store.get(change.handle)
        assert kept == json.dumps(messages[change.index], ensure_ascii=False).encode()


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_without_a_store_nothing_is_promised(format_name):
    """Without a store there are no handles."""
    view = await Pipeline(TrimRounds(1)).prepare(rounds(format_name), format=format_name)
    assert {change.handle for change in view.report.changes} == {None}


@pytest.mark.anyio
async def test_a_store_has_nothing_under_an_unknown_handle():
    """A handle that was never given out is an error."""
    with pytest.raises(StoreError):
        await MemoryStore().get("nothing")


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_session_goes_on_naming_what_is_left_out(format_name):
    """What was dropped at an earlier step is in force, with its handle, at every later step."""
    store, messages = MemoryStore(), rounds(format_name, 12)
    budget = Budget(100_000, trigger=1_500, target=600)
    session = Pipeline(FitContextWindow(), budget=budget, store=store).session(format=format_name)
    dropped = 0
    for stop in range(3, len(messages) + 1, 2):
        view = await session.prepare(messages[:stop])
        fates = outcomes(view.report)
        assert len(fates) == stop
        assert fates.count(Outcome.DROPPED) == stop - len(view.messages)
        assert fates.count(Outcome.DROPPED) >= dropped
        dropped = fates.count(Outcome.DROPPED)
        for change in view.report.in_force:
            assert json.loads(await store.get(change.handle)) == messages[change.index]
    assert dropped


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_the_report_is_plain_json(format_name):
    """A report can be written down as JSON."""
    view = await Pipeline(*ACTING.values()).prepare(rounds(format_name), format=format_name)
    written = json.loads(json.dumps(view.report.to_dict()))
    assert written["messages_before"] == 13
    assert written["stages"][0]["changes"][0]["outcome"] == "dropped"


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_moved_message_is_named(format_name):
    """A stage that changes the order does not do so in silence."""

    async def reverse(context, _call):
        first, *middle, last = context.messages
        return context.with_messages((first, *reversed(middle), last))

    messages = transcript(format_name, *[user(f"number {number}") for number in range(6)])
    view = await Pipeline(reverse).prepare(messages, format=format_name)
    assert view.report.acted


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_stage_that_only_leaves_out_what_was_made_is_reported(format_name):
    """A message that one stage made and the next left out is in no line; the sums of the stages hold all the same."""

    async def make(context, _call):
        task, *others = context.messages
        return context.with_messages((task, Message("user", (Text("a note"),)), *others))

    async def leave_out(context, _call):
        task, _, *others = context.messages
        return context.with_messages((task, *others))

    pipeline, messages = Pipeline(make, leave_out), transcript(format_name, user("task"), assistant("ok"), user("more"))
    views = [await pipeline.prepare(messages, format=format_name)]
    views.append(await pipeline.session(format=format_name).prepare(messages))
    for report in (view.report for view in views):
        made, gone = report.stages
        assert (gone.stage, gone.notes) == ("leave_out", ("left out 1 message that an earlier stage had made",))
        assert made.tokens_after == gone.tokens_before > gone.tokens_after == report.tokens_after


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_listeners_are_told_what_the_report_says(format_name):
    """The event has the stages of the report; a step at which nothing was done tells nobody."""
    told = Recorder()
    pipeline = Pipeline(TrimRounds(2), on_compact=told)
    view = await pipeline.prepare(rounds(format_name), format=format_name)
    await pipeline.prepare(transcript(format_name, user("hi")), format=format_name)
    (event,) = told.events
    assert event.changes == view.report.changes
    assert (event.tokens_before, event.tokens_after) == (view.report.tokens_before, view.report.tokens_after)


SEARCH = {"type": "web_search_call", "id": "ws_4", "status": "completed", "action": {"type": "search", "query": "law"}}
SAID = {"type": "output_text", "text": "hello", "annotations": []}
ITEMS = {
    "search": [SEARCH],
    "call": [
        {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "bash", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "r"},
    ],
    "words": [{"type": "message", "role": "assistant", "id": "m_1", "status": "completed", "content": [SAID]}],
}
"""Items of the Responses API that the model made, with an id."""


def items(name):
    """A task, reasoning, an item with an id, and a word of the user."""
    thought = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "abcd"}
    return [{"role": "user", "content": "task"}, thought, *ITEMS[name], {"role": "user", "content": "go"}]


@pytest.mark.anyio
@pytest.mark.parametrize("loaded", [False, True])
@pytest.mark.parametrize("name", ITEMS)
async def test_an_item_that_goes_on_without_its_id_is_the_same_item(name, loaded):
    """Sent without its id to another model, an item is named once, as edited, and counted as it is sent."""
    pipeline, messages = Pipeline(budget=100_000, store=MemoryStore()), items(name)
    session = pipeline.session(model="gpt-5.4", format="openai-responses")
    await session.prepare(messages[:-1])
    view = await session.prepare(messages, model="gpt-4o")
    for _ in range(2):
        thought, item = (change for change in view.report.in_force if change.index in (1, 2))
        assert (thought.outcome, item.outcome) == (Outcome.DROPPED, Outcome.EDITED)
        assert (thought.reason, item.reason) == (FOREIGN_REASONING, FOREIGN_ID)
        assert view.messages[1] == {key: value for key, value in messages[2].items() if key != "id"}
        assert json.loads(await pipeline.store.get(item.handle)) == messages[2]
        assert view.report.tokens_after == count(view.messages, model="gpt-4o", format="openai-responses")
        assert not validate({"input": view.messages, "model": "gpt-4o"}, format="openai-responses")
        if loaded:
            session = Session.load(pipeline, json.loads(json.dumps(session.dump())))
        messages = [*messages, {"role": "user", "content": "more"}]
        view = await session.prepare(messages)


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["search", "words"])
async def test_an_item_with_the_id_of_another_is_the_same_item(name, preparing):
    """An item that loses an id which another one has is edited, and counted as it is sent."""
    messages = [*items(name)[::2], {"role": "user", "content": "go"}]
    other = json.loads(json.dumps(messages[1]).replace("law", "order").replace("hello", "hi"))
    messages.insert(2, other)
    view = await preparing(Pipeline(budget=100_000), "openai-responses")(messages)
    (change,) = view.report.in_force
    assert (change.index, change.outcome, change.stage) == (2, Outcome.EDITED, "RepairHistory")
    assert view.messages == [*messages[:2], {key: value for key, value in other.items() if key != "id"}, messages[3]]
    assert view.report.tokens_after == count(view.messages, format="openai-responses")


ALL_FORMATS = [*FORMATS, "openai-responses"]


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", ALL_FORMATS)
async def test_what_repair_puts_in_says_why(format_name, preparing):
    """What stands for a result that is lost names the call, in this step and in later ones."""
    prepare = preparing(Pipeline(budget=Budget(9_000)), format_name)
    asked = transcript(format_name, user("task"), assistant(call("c1", "read"), call("c2", "read")), result("c1", "r"))
    for said in (["go"], ["go", "on"]):
        view = await prepare([*asked, *transcript(format_name, *map(user, said))])
        added = [change for change in view.report.in_force if change.outcome is Outcome.ADDED]
        assert [change.stage for change in added] == ["RepairHistory"] * len(added)
        assert all("c2" in change.reason for change in added if change.role == "tool")
        assert all(change.reason and change.reason != UNSAID for change in view.report.in_force)


@pytest.mark.anyio
@pytest.mark.parametrize("waits", [["wait"], ["wait", "wait"], ["wait", "no", "wait", "go on"]])
async def test_what_makes_way_says_for_what(waits, preparing):
    """Messages that stood between calls and their results say, each of them, why they stand behind them."""
    asked = [user("task"), assistant(*(call(f"c{number}", "read") for number in range(5)))]
    answered = [result(f"c{number}", "r") for number in range(5)]
    messages = transcript("openai-chat", *asked, *map(user, waits), *answered)
    view = await preparing(Pipeline(budget=Budget(9_000)), "openai-chat")(messages)
    why = "it makes way: the tool result was moved to its call"
    told = [(change.index, change.outcome, change.reason) for change in view.report.in_force]
    assert told == [(2 + number, Outcome.MOVED, why) for number in range(len(waits))]


@pytest.mark.anyio
@pytest.mark.parametrize("half", ["server_tool_use", "web_search_tool_result"])
@pytest.mark.parametrize(
    ("call_id", "before"), [("srvtoolu_1", ""), ("s1", "the id of a call is spelled as the provider takes it; ")]
)
async def test_half_of_a_server_call_says_why_it_goes(half, call_id, before, preparing):
    """A message that loses half of a call which the provider runs says so, beside what else was done to it."""
    asked = {"type": "server_tool_use", "id": call_id, "name": "web_search", "input": {"query": "x"}}
    found = {"type": "web_search_tool_result", "tool_use_id": call_id, "content": []}
    one = next(block for block in (asked, found) if block["type"] == half)
    messages = transcript("anthropic", user("task"), user("go"))
    messages.insert(1, {"role": "assistant", "content": [one, {"type": "text", "text": "so"}]})
    view = await preparing(Pipeline(budget=Budget(9_000)), "anthropic")(messages)
    (change,) = view.report.in_force
    assert (change.index, change.outcome) == (1, Outcome.EDITED)
    assert change.reason == f"{before}half of a call that the provider's server runs"


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", ALL_FORMATS)
async def test_a_stage_without_a_word_is_named_with_what_it_did(format_name, preparing):
    """What a stage does without a reason is in the report, which says that it gave none."""

    async def silent(context, _call):
        first, *others, last = context.messages
        return context.with_messages((first, *(others[1:] if len(others) > 1 else others), last))

    messages = transcript(format_name, *[user(f"number {number}") for number in range(4)])
    view = await preparing(Pipeline(silent), format_name)(messages)
    assert {(change.index, change.outcome, change.stage, change.reason) for change in view.report.in_force} == {
        (1, Outcome.DROPPED, "silent", UNSAID)
    }


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", ALL_FORMATS)
async def test_a_message_made_anew_that_is_the_same_throughout_is_not_touched(format_name, preparing):
    """A stage that rebuilds messages without a change has changed nothing: the caller's objects go back."""

    async def rebuild(context, _call):
        return context.with_messages(tuple([each.with_parts((*each.parts,)) for each in context.messages]))

    messages = rounds(format_name, 2)
    view = await preparing(Pipeline(rebuild), format_name)(messages)
    assert not view.report.acted
    assert list(map(id, view.messages)) == list(map(id, messages))


TOOLS = [{"name": name, "input_schema": {"type": "object"}} for name in ("read", "write")]


@pytest.mark.anyio
@pytest.mark.parametrize(("system", "place", "said"), [
    ("Mend.", "system", "system prompt"),
    (None, "tools[1]", "tools[1] (write)"),
])  # fmt: skip
async def test_markers_before_the_messages_are_named(system, place, said, preparing):
    """A cache marker on the system prompt or on a tool is named, counted as a change, printed, and in the JSON."""
    prepare = preparing(Pipeline(PlaceCacheMarkers(), budget=100_000), "anthropic", "claude-sonnet-4-5")
    messages = transcript("anthropic", user("task " * 2_000))
    for _ in range(2):
        view = await prepare(messages, system=system, tools=TOOLS)
        (change,) = view.report.head
        assert (change.place, change.outcome, change.stage) == (place, Outcome.MARKED, "PlaceCacheMarkers")
        assert change.reason == "cache marker set"
        assert view.report.acted
        assert f"  marked {said}: cache marker set" in str(view.report).split("\n")
        assert json.loads(json.dumps(view.report.to_dict()))["head"][0]["place"] == place


@pytest.mark.anyio
async def test_tools_that_a_stage_changes_are_named(preparing):
    """A tool that goes, comes, or says something else is named by its place and its name."""

    async def other_tools(context, _call):
        first, second = context.tools
        return evolve(context, tools=(evolve(first, description="new"), evolve(second, name="more")))

    view = await preparing(Pipeline(other_tools), "anthropic")([{"role": "user", "content": "hi"}], tools=TOOLS)
    assert {(change.place, change.name, change.outcome) for change in view.report.head} == {
        ("tools[0]", "read", Outcome.EDITED),
        ("tools[1]", "write", Outcome.DROPPED),
        ("tools[1]", "more", Outcome.ADDED),
    }


@pytest.mark.anyio
async def test_the_view_as_values_has_the_tools_that_are_sent(preparing):
    """Where a stage drops a tool, ``view.context`` says what the view does."""

    async def fewer_tools(context, _call):
        return evolve(context, tools=context.tools[1:])

    prepare = preparing(Pipeline(fewer_tools), "anthropic", "claude-sonnet-4-5")
    history = [{"role": "user", "content": "hi"}]
    for _ in range(2):
        view = await prepare(history, system="Mend.", tools=TOOLS)
        known = reader(history, system="Mend.", tools=TOOLS, format="anthropic", model="claude-sonnet-4-5")
        sent = known.context(view.messages, view.system, view.tools)
        assert [tool.name for tool in view.context.tools] == [tool.name for tool in sent.tools] == ["write"]
        assert view.context.system == sent.system
        assert view.report.tokens_after == known.meter.size(view.context) == known.meter.size(sent)
        history = [*view.messages, {"role": "assistant", "content": "hm"}, {"role": "user", "content": "go on"}]


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", ["anthropic", "bedrock"])
async def test_what_is_protected_loses_only_what_is_refused_and_the_report_says_so(format_name):
    """Reasoning of a pinned message goes where its provider would refuse the request, and nothing else of it."""
    turns = [user("task")]
    for place in range(6):
        turns += [assistant(thinking("hm", f"c2ln{place}"), call(f"t{place}", "bash")), result(f"t{place}", "r " * 100)]
    messages = transcript(format_name, *turns, assistant("done"), user("next"))
    model = {"anthropic": "claude-opus-5-5", "bedrock": "us.anthropic.claude-opus-5-5"}[format_name]
    pipeline = Pipeline(FitContextWindow(), budget=Budget(900), protect=[Protect.pins(9)])
    view = await pipeline.prepare(messages, model=model, format=format_name)
    (change,) = (change for change in view.report.in_force if change.index == 9)
    assert (change.outcome, change.stage) == (Outcome.EDITED, "DropBoundThinking")
    assert change.reason.endswith(f"; {LEGAL_FIRST}")
    kept = {**messages[9], "content": messages[9]["content"][1:]}
    place = view.messages.index(kept)
    refused = [*view.messages[:place], messages[9], *view.messages[place + 1 :]]
    broken = validate({"messages": refused}, format=format_name, model=model, before={"messages": messages})
    assert [found for found in broken if found.severity == "error"]


@pytest.mark.anyio
@pytest.mark.parametrize("system", [None, [{"text": "Mend."}, {"cachePoint": {"type": "default"}}]])
async def test_markers_that_a_model_refuses_are_named_when_they_go(system, preparing):
    """Cache points that the model does not take are named where they stood, at every step, and cost nothing."""
    prepare = preparing(Pipeline(budget=Budget(9_000)), "bedrock", "mistral.mistral-large-2402-v1:0")
    tool = {"toolSpec": {"name": "read", "inputSchema": {"json": {"type": "object"}}}}
    messages = transcript("bedrock", user("task"))
    for _ in range(2):
        view = await prepare(messages, system=system, tools=[tool, {"cachePoint": {"type": "default"}}])
        places = ["tools[1]"] if system is None else ["system", "tools[1]"]
        assert [(change.place, change.outcome) for change in view.report.head] == [
            (place, Outcome.MARKED) for place in places
        ]
        assert view.tools == [tool]
        assert view.report.tokens_before == view.report.tokens_after


@pytest.mark.anyio
async def test_a_marker_on_a_server_tool_costs_nothing(preparing):
    """A tool that is counted by its definition costs the same with a cache marker."""
    tools = [{"type": "web_search_20250305", "name": "web_search", "max_uses": 3}]
    prepare = preparing(Pipeline(PlaceCacheMarkers(), budget=100_000), "anthropic", "claude-sonnet-4-5")
    view = await prepare(transcript("anthropic", user("task " * 2_000)), tools=tools)
    assert [change.place for change in view.report.head] == ["tools[0]"]
    sent = count(view.messages, tools=view.tools, model="claude-sonnet-4-5", format="anthropic")
    assert view.report.tokens_before == view.report.tokens_after == sent
