"""Cache markers: placed where they pay, kept when their blocks go."""

import json

import pytest
from histories import histories
from hypothesis import example, given, strategies as st

from agentctx import (
    Budget,
    ConfigError,
    Context,
    ContextOverflow,
    FitContextWindow,
    InvalidInput,
    Pipeline,
    PlaceCacheMarkers,
    Protect,
    Session,
    TrimRounds,
    count,
    validate,
)
from agentctx.engine.reading import reader
from agentctx.formats.native import unmarked
from agentctx.testing.assertions import PassedIn, report_errors
from agentctx.tokens import FixedCounter

SHORT, LONG = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}
MODELS = {
    "anthropic": "claude-sonnet-4-5",
    "bedrock": "us.anthropic.claude-sonnet-4-5-20250929-v1:0",
    "openai-chat": "gpt-5.6-sol",
    "openai-responses": "gpt-5.6-sol",
    "gemini": "gemini-2.5-pro",
}


def rounds(count, words=300):
    """A task, and rounds of one call and one result, with Claude."""
    messages = [{"role": "user", "content": "Find the fault."}]
    for number in range(count):
        ask = {"type": "tool_use", "id": f"t{number}", "name": "read", "input": {}}
        told = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"line {number}. " * words}
        messages += [{"role": "assistant", "content": [ask]}, {"role": "user", "content": [told]}]
    return messages


SAYS = {"role": "assistant", "content": "so"}
UPLOAD = {"type": "container_upload", "file_id": "f"}


def marks(value, path=()):
    """Where markers stand, and what they say."""
    if isinstance(value, dict):
        for key, each in value.items():
            if key in {"cache_control", "cachePoint", "prompt_cache_breakpoint"}:
                yield path, each
            else:
                yield from marks(each, (*path, key))
    elif isinstance(value, list):
        for place, each in enumerate(value):
            yield from marks(each, (*path, place))


def marked(messages):
    """The indexes of the messages that carry markers."""
    return [path[0] for path, _ in marks(messages)]


def prepare(messages, *stages, model="claude-sonnet-4-5", format_name="anthropic", budget=None, **more):
    """The view that a pipeline makes."""
    return Pipeline(*stages, budget=budget).prepare(messages, format=format_name, model=model, **more)


@pytest.mark.anyio
async def test_markers_stand_behind_the_head_and_where_requests_end():
    """The system prompt, the end of the request before and the end of this one."""
    messages = rounds(3)
    view = await prepare(messages, PlaceCacheMarkers(), system="You mend software.")
    assert view.system == [{"type": "text", "text": "You mend software.", "cache_control": SHORT}]
    assert marked(view.messages) == [4, 6]
    assert view.messages[6]["content"][0] == {**messages[6]["content"][0], "cache_control": SHORT}
    assert all(view.messages[place] is messages[place] for place in (0, 1, 2, 3, 5))
    assert [(change.index, change.outcome) for change in view.report.changes] == [(4, "marked"), (6, "marked")]


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("messages", "ends"),
    [
        ([{"role": "user", "content": "word " * 5_000}, SAYS, {"role": "user", "content": "on"}], [0, 2]),
        ([*rounds(2), SAYS, SAYS], [2, 4]),
        ([*rounds(2), SAYS, {"role": "user", "content": [{"type": "text", "text": "on"}, UPLOAD]}], [4, 6]),
    ],
    ids=["the first message", "two answers in a row", "a block that takes none"],
)
async def test_requests_end_before_each_answer(messages, ends):
    """What stands before an answer was the end of a request, and an answer never is; blocks that take none go by."""
    view = await prepare(messages, PlaceCacheMarkers(), system="Mend.")
    assert marked(view.messages) == ends


@pytest.mark.anyio
@pytest.mark.parametrize(("model", "least"), [("claude-sonnet-4-5", 1_024), ("claude-haiku-4-5", 4_096)])
async def test_each_model_has_its_own_least(model, least):
    """A request is marked from the number of tokens on that its model keeps."""
    for words in (300, 600, 1_200):
        view = await prepare(rounds(1, words), PlaceCacheMarkers(), model=model)
        assert bool(marked(view.messages)) == (view.report.tokens_before >= least)


@pytest.mark.anyio
async def test_tools_are_marked_where_there_is_no_system_prompt():
    """The last tool that is loaded at once carries the marker."""
    tools = [{"name": name, "input_schema": {"type": "object"}} for name in ("read", "write")]
    tools.append({"name": "late", "input_schema": {"type": "object"}, "defer_loading": True})
    view = await prepare(rounds(2), PlaceCacheMarkers(), tools=tools)
    assert [tool.get("cache_control") for tool in view.tools] == [None, SHORT, None]
    assert not validate({"messages": view.messages, "tools": view.tools}, format="anthropic")


@pytest.mark.anyio
async def test_short_requests_and_models_without_markers_are_left_alone():
    """A prefix that is too short is not kept, and other caches find it by themselves."""
    short = rounds(1, words=2)
    assert not marked((await prepare(short, PlaceCacheMarkers())).messages)
    chat = [{"role": "user", "content": "word " * 5_000}]
    for model in ("gpt-5.4", "deepseek-v4-pro"):
        view = await prepare(chat, PlaceCacheMarkers(), model=model, format_name="openai-chat")
        assert view.messages[0] is chat[0]


@pytest.mark.anyio
async def test_new_gpts_get_a_breakpoint_behind_the_head():
    """GPT-5.6 finds the end by itself; an explicit marker keeps the head when the middle is left out."""
    chat = [{"role": "system", "content": "Mend."}, {"role": "user", "content": "word " * 5_000}]
    chat += [{"role": "assistant", "content": "yes"}, {"role": "user", "content": "on"}]
    view = await prepare(chat, PlaceCacheMarkers(), model="gpt-5.6-sol", format_name="openai-chat")
    assert marked(view.messages) == [0, 1]
    assert view.messages[0]["content"][0]["prompt_cache_breakpoint"] == {"mode": "explicit"}


@pytest.mark.anyio
async def test_bedrock_gets_blocks_of_its_own():
    """A cache point stands behind what shall be kept; the first task covers the system prompt before it."""
    messages = [{"role": "user", "content": [{"text": "word " * 5_000}]}]
    messages += [{"role": "assistant", "content": [{"text": "yes"}]}, {"role": "user", "content": [{"text": "on"}]}]
    view = await prepare(
        messages,
        PlaceCacheMarkers(ttl="1h"),
        model=MODELS["bedrock"],
        format_name="bedrock",
        system=[{"text": "Mend."}],
        tools=(tools := [{"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}}]),
    )
    assert view.tools is tools
    assert [message["content"][-1] for message in view.messages[::2]] == [
        {"cachePoint": {"type": "default", "ttl": "1h"}}
    ] * 2
    assert view.system == [{"text": "Mend."}]


@pytest.mark.anyio
async def test_the_callers_own_markers_count():
    """There are never more than four; older ones in messages make room for newer ones, those on tools stay."""
    messages = rounds(6)
    for place in (2, 4, 6):
        messages[place]["content"][0]["cache_control"] = SHORT
    tools = [{"name": "read", "input_schema": {"type": "object"}, "cache_control": SHORT}]
    view = await prepare(messages, PlaceCacheMarkers(), tools=tools, system="Mend.")
    assert marked(view.messages) == [6, 10, 12]
    assert view.tools == tools
    assert view.system == "Mend."


@pytest.mark.anyio
@pytest.mark.parametrize("stage", [PlaceCacheMarkers(ttl="1h"), PlaceCacheMarkers(ttl="1h", head_ttl="5m")])
async def test_lifetimes_stand_in_order(stage):
    """An hour never stands behind five minutes, whatever is asked for and whatever is there."""
    messages = rounds(3)
    messages[2]["content"][0]["cache_control"] = SHORT
    view = await prepare(messages, stage, system="Mend.")
    request = {"messages": view.messages, "system": view.system}
    assert not validate(request, format="anthropic", model="claude-sonnet-4-5")


@pytest.mark.anyio
async def test_an_hour_of_the_caller_stays_one():
    """What is marked before a marker of an hour lives as long, though five minutes were asked for."""
    messages = rounds(3)
    messages[6]["content"][0]["cache_control"] = LONG
    view = await prepare(messages, PlaceCacheMarkers(), system="Mend.")
    assert list(marks(view.messages)) == [((4, "content", 0), LONG), ((6, "content", 0), LONG)]
    assert [mark for _, mark in marks(view.system)] == [LONG]


@pytest.mark.anyio
async def test_protected_messages_stay_as_they_are():
    """What the caller protects carries no marker that the caller has not set."""
    messages = rounds(3)
    view = await Pipeline(PlaceCacheMarkers(), protect=[Protect.pins(6)]).prepare(messages, format="anthropic")
    assert view.messages[6] is messages[6]


def test_a_lifetime_is_checked():
    """Providers know five minutes and an hour."""
    with pytest.raises(ConfigError, match="'2h'"):
        PlaceCacheMarkers(ttl="2h")


@pytest.mark.anyio
@pytest.mark.parametrize("back", [False, True])
async def test_a_session_keeps_its_markers(back):
    """From step to step markers stay until there are too many, and moving one is no change of the prefix."""
    session = Pipeline(PlaceCacheMarkers()).session(format="anthropic", model="claude-sonnet-4-5")
    history, last = rounds(2), None
    for step in range(2, 8):
        view = await session.prepare(history, system="Mend.")
        found = marked(view.messages)
        assert found[-2:] == [2 * step - 2, 2 * step]
        assert back or all(view.messages[at] is history[at] for at in range(len(history)) if at not in found)
        assert len(found) <= 3
        assert view.report.rebilled_tokens == 0
        if last is not None:
            assert [unmarked(message) for message in view.messages[: len(last)]] == [unmarked(each) for each in last]
            assert found[-2] in marked(last)
        last = view.messages
        history = [*(view.messages if back else history), *rounds(step + 1)[-2:]]


@pytest.mark.anyio
async def test_a_marker_moves_when_its_block_goes():
    """The marker of a round that is dropped stands on the nearest message before it that stays."""
    messages = rounds(6)
    messages[4]["content"][0]["cache_control"] = LONG
    view = await prepare(messages, TrimRounds(2))
    assert view.messages[0]["content"] == [{"type": "text", "text": "Find the fault.", "cache_control": LONG}]
    assert marked(view.messages) == [0]
    assert "1 moved to the nearest earlier block" in view.report.stages[-1].notes[0]


@pytest.mark.anyio
async def test_markers_that_meet_are_one():
    """A marker that moves to one of the same lifetime is one with it; before another lifetime it goes."""
    messages = rounds(6)
    messages[0]["content"] = [{"type": "text", "text": "Find the fault.", "cache_control": LONG}]
    for place, mark in ((2, LONG), (4, SHORT)):
        messages[place]["content"][0]["cache_control"] = mark
    view = await prepare(messages, TrimRounds(2))
    assert list(marks(view.messages)) == [((0, "content", 0), LONG)]
    assert view.messages[0] is messages[0]


@pytest.mark.anyio
async def test_a_marker_within_a_result_survives_an_edit_of_the_result():
    """When the blocks of a result are cleared, a marker on one of them stands on the result."""
    messages = rounds(6)
    inner = [{"type": "text", "text": "line " * 3_000, "cache_control": SHORT}]
    messages[2]["content"][0]["content"] = inner
    view = await prepare(messages, FitContextWindow(Budget(2_500)))
    assert len(marked(view.messages)) == 1
    assert not validate({"messages": view.messages}, format="anthropic")


@pytest.mark.anyio
async def test_cache_points_of_bedrock_move_too():
    """A cache point in a round that is dropped is put behind what stays before it."""
    messages = [{"role": "user", "content": [{"text": "go"}]}]
    for number in range(4):
        ask = {"toolUse": {"toolUseId": f"t{number}", "name": "read", "input": {}}}
        told = {"toolResult": {"toolUseId": f"t{number}", "content": [{"text": "word " * 500}]}}
        messages += [{"role": "assistant", "content": [ask]}, {"role": "user", "content": [told]}]
    messages[2]["content"].append({"cachePoint": {"type": "default"}})
    view = await prepare(messages, TrimRounds(1), model=MODELS["bedrock"], format_name="bedrock")
    assert view.messages[0]["content"] == [{"text": "go"}, {"cachePoint": {"type": "default"}}]
    assert marked(view.messages) == [0]


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", ["anthropic", "bedrock"])
async def test_a_marker_goes_with_its_block_to_another_message(preparing, format_name):
    """A marked result among the assistant's blocks stands on the user's side with its marker, and there is no other."""
    if format_name == "anthropic":
        asked = {"type": "tool_use", "id": "t", "name": "read", "input": {}}
        told = [{"type": "tool_result", "tool_use_id": "t", "content": "line", "cache_control": SHORT}]
    else:
        asked = {"toolUse": {"toolUseId": "t", "name": "read", "input": {}}}
        told = [{"toolResult": {"toolUseId": "t", "content": [{"text": "line"}]}}, {"cachePoint": {"type": "default"}}]
    task = says(format_name, "user", "Find the fault.")
    prepare = preparing(Pipeline(), format_name, MODELS[format_name])
    view = await prepare([task, {"role": "assistant", "content": [asked, *told]}])
    assert view.messages == [task, {"role": "assistant", "content": [asked]}, {"role": "user", "content": told}]
    assert not [note for stage in view.report.stages for note in stage.notes]


@given(histories(), st.integers(60, 2_000), st.sampled_from(["5m", "1h"]), st.sampled_from(["5m", "1h", None]))
def test_markers_are_legal_on_every_history(both_loops, history, window, ttl, head):
    """Placed before or after a compaction, there are at most four, in order, and only where they may stand."""
    model = MODELS[history.format]

    async def check():
        for stages in ((PlaceCacheMarkers(ttl, head), TrimRounds(1)), (TrimRounds(1), PlaceCacheMarkers(ttl, head))):
            pipeline = Pipeline(*stages, counter=FixedCounter(window))
            view = await pipeline.prepare(
                history.messages, system=history.system, tools=history.tools, format=history.format, model=model
            )
            request = {"messages": view.messages, "system": view.system, "tools": view.tools}
            request = {key: value for key, value in request.items() if value is not None}
            refused = [str(found) for found in validate(request, format=history.format, model=model)]
            assert not [found for found in refused if "cache" in found]
            assert len(list(marks(request))) <= 4
            plain = [unmarked(message) for message in view.messages]
            bare = await Pipeline(TrimRounds(1), counter=FixedCounter(window)).prepare(
                history.messages, system=history.system, tools=history.tools, format=history.format, model=model
            )
            assert json.dumps(plain) == json.dumps([unmarked(message) for message in bare.messages])

    both_loops(check)


@given(histories("anthropic"), st.integers(0, 40), st.data())
def test_a_compaction_never_makes_markers(both_loops, history, budget, data):
    """Whatever is dropped, there are no more markers than before, and the provider takes them."""
    places = data.draw(st.lists(st.integers(0, len(history.messages) - 1), max_size=4, unique=True))
    count = 0
    for place in places:
        content = history.messages[place]["content"]
        fit = [block for block in content if isinstance(content, list) and block["type"] in {"tool_use", "tool_result"}]
        if fit:
            fit[-1]["cache_control"] = SHORT
            count += 1

    async def check():
        view = await Pipeline(TrimRounds(1), budget=Budget(100_000 + budget)).prepare(
            history.messages, system=history.system, tools=history.tools, format="anthropic"
        )
        assert len(list(marks(view.messages))) <= count

    both_loops(check)


WRITTEN = {
    "anthropic": lambda ttl: {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", **ttl}},
    "openai-chat": lambda ttl: {"type": "text", "text": "x", "cache_control": {"type": "ephemeral", **ttl}},
    "openai-responses": lambda _: {
        "type": "input_text",
        "text": "x",
        "prompt_cache_breakpoint": {"mode": "explicit"},
    },
    "bedrock": lambda ttl: {"cachePoint": {"type": "default", **ttl}},
}
"""A block with a marker, in each format that has them."""


def marked_talk(format_name, carried):
    """A conversation in which some messages of the user carry markers: for each, how long they live."""
    messages = []
    for number, ttls in enumerate(carried):
        words = {"text": f"question {number}", "type": "text"}
        if format_name == "bedrock":
            del words["type"]
        elif format_name == "openai-responses":
            words["type"] = "input_text"
        written = [WRITTEN[format_name]({"ttl": ttl} if ttl == "1h" else {}) for ttl in ttls]
        blocks = [each for block in written for each in ((words, block) if format_name == "bedrock" else (block,))]
        answer = f"answer {number}" if format_name != "bedrock" else [{"text": f"answer {number}"}]
        messages += [{"role": "user", "content": [words, *blocks]}, {"role": "assistant", "content": answer}]
    return messages[:-1]


def lifetimes(messages):
    """How long each marker lives, with its message."""
    return [(path[0], mark.get("ttl", "5m")) for path, mark in marks(messages)]


def same_but_fewer(view, given):
    """The messages say what they said, the newest markers are there, and those of an hour before the others."""
    assert [unmarked(message) for message in view] == [unmarked(message) for message in given]
    found, asked = lifetimes(view), lifetimes(given)[-4:]
    assert [place for place, _ in found] == [place for place, _ in asked]
    hours = next((place for place, (_, ttl) in enumerate(found) if ttl == "5m"), len(found))
    assert {ttl for _, ttl in found[hours:]} <= {"5m"}
    return hours, next((place for place, (_, ttl) in enumerate(asked) if ttl == "5m"), len(asked))


@given(
    st.sampled_from(sorted(WRITTEN)),
    st.lists(st.lists(st.sampled_from(["5m", "1h"]), max_size=2), min_size=1, max_size=9),
    st.sampled_from(["full", "rolling", "load"]),
)
def test_markers_that_are_too_many_are_taken_off(both_loops, format_name, carried, mode):
    """More than four, or an hour behind five minutes: the oldest go, the late ones are shortened, it is reported."""
    model = "claude-sonnet-4-5" if format_name == "openai-chat" else MODELS[format_name]
    messages = marked_talk(format_name, carried)
    before = json.dumps(messages)

    async def check():
        pipeline = Pipeline()
        at_once = await pipeline.prepare(messages, format=format_name, model=model)
        session, history = pipeline.session(format=format_name, model=model), []
        for stop in range(1, len(messages) + 1, 2):
            history = [*history, *messages[len(history) : stop]]
            view = await session.prepare(history)
            hours, asked = same_but_fewer(view.messages, messages[:stop])
            assert hours <= asked  # what was shortened once stays short
            assert view.report.rebilled_tokens == 0
            if mode == "rolling":
                history = view.messages
            elif mode == "load":
                session = Session.load(pipeline, json.loads(json.dumps(session.dump())))
        hours, asked = same_but_fewer(at_once.messages, messages)
        assert hours == asked
        fewer = {place for place, message in enumerate(messages) if at_once.messages[place] is not message}
        assert fewer == {place for place, message in enumerate(messages) if at_once.messages[place] != message}
        assert {(change.index, change.outcome) for change in at_once.report.in_force} == {
            (place, "marked") for place in fewer
        }
        assert json.dumps(messages) == before

    both_loops(check)


def filled(format_name, carried):
    """Such a conversation, in which the user says much after the task."""
    first, *others = marked_talk(format_name, carried)
    for place, message in enumerate(others):
        if message["role"] == "user":
            message["content"][0]["text"] += " word" * (40 + place % 5 * 60)
    return [first, *others]


@given(
    st.sampled_from(sorted(WRITTEN)),
    st.lists(st.sampled_from([[], ["5m"]]), min_size=8, max_size=16),
    st.sampled_from([700, 1500]),
    st.lists(st.integers(1, 15), max_size=2),
)
@example("anthropic", [[], ["5m"], [], [], [], *[["5m"]] * 7], 1500, [1])
@example("bedrock", [*[["5m"]] * 5, *[[]] * 9], 1500, [])
def test_what_carries_its_own_markers_again_is_the_callers_own(both_loops, format_name, carried, window, back):
    """Whatever markers came and went at cuts: a message that is sent as it came is no copy, and not in the report."""
    model = "claude-sonnet-4-5" if format_name == "openai-chat" else MODELS[format_name]
    messages = filled(format_name, carried)
    source = reader(messages, format=format_name, model=model)

    async def check():
        pipeline = Pipeline(FitContextWindow(), budget=Budget(window, target=0.5))
        session = pipeline.session(format=format_name, model=model)
        for stop in (*range(1, len(messages) + 1, 2), *(2 * place - 1 for place in back), len(messages)):
            history = messages[:stop]
            try:
                view = await session.prepare(history)
            except ContextOverflow:
                continue
            before = Context(tuple(source.messages(history)))
            assert [] == list(report_errors(PassedIn(history), before, view, source.meter))

    both_loops(check)


@pytest.mark.anyio
@pytest.mark.parametrize("new", [False, True])
async def test_more_markers_on_the_head_than_there_may_be_are_refused(new):
    """Tools and system prompt are the caller's own: it is told, and told what to do."""
    tools = [{"name": f"t{n}", "input_schema": {"type": "object"}, "cache_control": SHORT} for n in range(5)]
    pipeline = Pipeline()
    ask = pipeline.session(format="anthropic").prepare if new else pipeline.prepare
    more = {} if new else {"format": "anthropic"}
    with pytest.raises(InvalidInput, match="tools: 5 cache markers on tools and system prompt"):
        await ask(rounds(1), tools=tools, **more)
    late = [{"type": "text", "text": "Mend.", "cache_control": LONG}]
    with pytest.raises(InvalidInput, match="system: a cache marker of an hour stands behind one of five"):
        await ask(rounds(1), tools=tools[:1], system=late, **more)
    view = await ask(rounds(1), tools=tools[:4], **more)
    assert not view.report.acted


@pytest.mark.anyio
async def test_markers_of_the_head_stay_and_those_of_messages_make_room():
    """Four on the tools: none is left for the messages, also when the tools come later."""
    tools = [{"name": f"t{n}", "input_schema": {"type": "object"}, "cache_control": SHORT} for n in range(4)]
    messages = marked_talk("anthropic", [["1h"], ["5m"]])
    session = Pipeline().session(format="anthropic", model="claude-sonnet-4-5")
    assert len(marked((await session.prepare(messages)).messages)) == 2
    assert not marked((await session.prepare(messages, tools=tools)).messages)
    assert not marked((await prepare(messages, tools=tools)).messages)


@pytest.mark.anyio
async def test_a_marker_that_is_a_tool_counts():
    """In Converse a cache point stands among the tools."""
    tools = [{"toolSpec": {"name": f"t{n}", "inputSchema": {"json": {}}}} for n in range(2)]
    tools = [tools[0], {"cachePoint": {"type": "default"}}, tools[1], {"cachePoint": {"type": "default"}}]
    messages = marked_talk("bedrock", [["5m"], ["5m"], ["5m"]])
    view = await Pipeline().prepare(messages, tools=tools, format="bedrock", model=MODELS["bedrock"])
    assert marked(view.messages) == [2, 4]


@pytest.mark.anyio
async def test_pinned_messages_lose_their_markers_last():
    """What the caller protects is left alone while others carry markers."""
    messages = marked_talk("anthropic", [["5m"]] * 6)
    pipeline = Pipeline(PlaceCacheMarkers(), protect=[Protect.pins(0)])
    view = await pipeline.prepare(messages, format="anthropic", model="claude-sonnet-4-5")
    assert view.messages[0] is messages[0]
    assert len(marked(view.messages)) == 4


TAKEN = {
    "openai-chat": {
        "gpt-5.6-sol": {"prompt_cache_breakpoint"},
        "gpt-4o": set(),
        "claude-sonnet-4-5": {"cache_control"},
        "deepseek-v4-pro": set(),
    },
    "openai-responses": {"gpt-5.6-sol": {"prompt_cache_breakpoint"}, "gpt-5.4": set()},
    "bedrock": {
        "us.anthropic.claude-sonnet-4-5-20250929-v1:0": {"cachePoint"},
        "us.amazon.nova-pro-v1:0": {"cachePoint"},
        "meta.llama3-1-70b-instruct-v1:0": set(),
    },
}
"""The markers that each model takes."""


def kinds(value):
    """The kinds of markers in a request."""
    return {
        kind for kind in ("cache_control", "cachePoint", "prompt_cache_breakpoint") if f'"{kind}"' in json.dumps(value)
    }


def says(format_name, role, text):
    """A message."""
    if format_name == "bedrock":
        return {"role": role, "content": [{"text": text}]}
    return {"role": role, "content": text}


def body_of(view, format_name, model):
    """The request that a view makes."""
    if format_name == "openai-responses":
        return {"model": model, "input": view.messages}
    more = {"modelId": model, "system": view.system} if format_name == "bedrock" else {"model": model}
    tools = {"toolConfig": {"tools": view.tools}} if view.tools else {}
    return {**more, **tools, "messages": view.messages}


switches = st.sampled_from(sorted(TAKEN)).flatmap(
    lambda name: st.tuples(
        st.just(name),
        st.lists(st.sampled_from(sorted(TAKEN[name])), min_size=2, max_size=4),
        st.lists(st.sampled_from(["full", "written back", "loaded", "stateless"]), min_size=4, max_size=4),
    )
)


@given(switches, st.booleans())
def test_a_model_is_sent_the_markers_that_it_takes_and_no_others(both_loops, switch, keeps):
    """Whatever model was called before, in every mode; what carries none any more is the caller's own object again."""
    format_name, models, modes = switch
    pipeline = Pipeline(PlaceCacheMarkers(), budget=100_000)
    history = [says(format_name, "user", "word " * 2_000)]

    async def main():
        session, own = pipeline.session(model=models[0], format=format_name), list(history)
        for model, mode in zip(models, modes, strict=False):
            if mode == "loaded":
                session = Session.load(pipeline, json.loads(json.dumps(session.dump())))
            stages = pipeline if mode != "stateless" else Pipeline(budget=100_000)
            prepare = stages.prepare if mode == "stateless" else session.prepare
            view = await prepare(own, model=model, format=format_name)
            found, taken = kinds(view.messages), TAKEN[format_name][model]
            assert found <= taken if mode == "stateless" else found == taken
            broken = validate(body_of(view, format_name, model), format_name)
            assert not [each for each in broken if each.severity == "error"]
            if not found and not kinds(own):
                assert all(sent is given for sent, given in zip(view.messages, own, strict=True))
            if keeps and mode != "stateless":
                own = list(view.messages)
            own = [*own, says(format_name, "assistant", "hm"), says(format_name, "user", "go")]

    both_loops(main)


@pytest.mark.anyio
@pytest.mark.parametrize(("model", "taken"), TAKEN["openai-chat"].items())
async def test_of_two_markers_on_a_block_the_one_that_is_taken_stays(preparing, model, taken):
    """A block that is marked for two providers goes to each with its own marker, and the report says why."""
    both = {"cache_control": SHORT, "prompt_cache_breakpoint": {"mode": "explicit"}}
    messages = [{"role": "user", "content": [{"type": "text", "text": "x", **both}]}]
    view = await preparing(Pipeline(), "openai-chat", model)(messages)
    assert kinds(view.messages) == taken
    assert [each.reason for each in view.report.changes] == ["a cache marker that the model does not take is taken off"]


@pytest.mark.anyio
async def test_a_pinned_message_that_is_nothing_but_a_refused_marker_goes(preparing):
    """A request that the provider takes goes first, and the report says so."""
    point, llama = {"cachePoint": {"type": "default"}}, list(TAKEN["bedrock"])[-1]
    messages = [
        says("bedrock", "user", "Begin."),
        says("bedrock", "assistant", "Well."),
        says("bedrock", "user", "On."),
    ]
    messages.insert(1, {"role": "user", "content": [point]})
    view = await preparing(Pipeline(protect=[Protect.where(lambda _: True)]), "bedrock", llama)(messages)
    assert not kinds(view.messages)
    assert [(each.index, "it is protected, but" in each.reason) for each in view.report.changes] == [(1, True)]


@pytest.mark.anyio
async def test_markers_on_system_prompt_and_tools_go_for_a_model_that_takes_none(preparing):
    """Bedrock refuses the whole request; with a model that takes them the caller's own objects are sent."""
    system = [{"text": "Mend."}, {"cachePoint": {"type": "default"}}]
    tools = [{"toolSpec": {"name": "f", "inputSchema": {"json": {"type": "object"}}}}, system[1]]
    history, (claude, nova, llama) = [says("bedrock", "user", "Begin.")], TAKEN["bedrock"]
    for model in (nova, claude):
        view = await preparing(Pipeline(budget=10_000), "bedrock", model)(history, system, tools)
        assert view.system is system
        assert view.tools is tools
    view = await preparing(Pipeline(budget=10_000), "bedrock", llama)(history, system, tools)
    assert (view.system, view.tools) == ([{"text": "Mend."}], tools[:1])
    size = count(history, model=llama, system=system, tools=tools)
    assert view.report.tokens_after == view.report.tokens_before == size
    assert size == count(history, model=llama, system=view.system, tools=view.tools)
    assert {each.rule for each in validate({"modelId": llama, "system": system, "messages": history})} == {
        "br.cache_unsupported"
    }
