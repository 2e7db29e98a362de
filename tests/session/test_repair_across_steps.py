"""Repair in a session: what depends on earlier messages is mended in whichever step it arrives, as at once."""

import json
from contextlib import suppress

import pytest
from histories import FORMATS

from agentctx import InvalidInput, Pipeline, Protect, Session, validate
from agentctx.testing import assistant, call, result, transcript, user

TASK = {"role": "user", "content": "task"}
GO_ON = {"role": "user", "content": "go on"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "run", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "done"}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "RQ=="}
WORDS = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "output_text", "text": "so it is", "annotations": []}],
}
THOUGHT_AGAIN = {**THOUGHT, "encrypted_content": "Rg=="}
TRIGGER = {"type": "compaction_trigger"}

HISTORIES = {
    "an id of another item again": [TASK, CALL, OUTPUT, GO_ON, {**CALL, "call_id": "c2"}, {**OUTPUT, "call_id": "c2"}],
    "an id and a call id of another item again": [TASK, CALL, OUTPUT, {**CALL, "arguments": '{"b": 1}'}, OUTPUT, GO_ON],
    "an id of two other items again, and again their call id": [
        *(TASK, {**CALL, "call_id": "c0"}, {**OUTPUT, "call_id": "c0"}),
        *(CALL, OUTPUT, CALL, {**OUTPUT, "output": "done again"}, GO_ON),
    ],
    "the same item again": [TASK, CALL, OUTPUT, GO_ON, CALL, OUTPUT, GO_ON],
    "a wish for compaction that others follow": [TASK, TRIGGER, GO_ON, WORDS, TRIGGER, GO_ON],
    "reasoning that its call follows a step later": [TASK, THOUGHT, CALL, OUTPUT, GO_ON],
    "reasoning that nothing follows": [TASK, THOUGHT, GO_ON, WORDS, GO_ON],
    "reasoning that nothing follows, and another with its id": [
        TASK,
        THOUGHT,
        GO_ON,
        THOUGHT_AGAIN,
        CALL,
        OUTPUT,
        GO_ON,
    ],
    "one call id in every round": [TASK, *[{**CALL, "id": None}, OUTPUT] * 3, GO_ON],
}


def errors(items, before):
    """The rules that items break, made from others."""
    found = validate({"input": items}, format="openai-responses", before={"input": before})
    return [str(each) for each in found if each.severity == "error"]


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["full", "rebuilt", "rolling", "load"])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("name", HISTORIES)
async def test_each_step_is_legal(walk, name, stride, mode):
    """Fed step by step, in each way to go on, every view is legal."""
    items = HISTORIES[name]
    async for given, view in walk(Pipeline(), items, mode, stride, format="openai-responses"):
        assert errors(view.messages, given if mode == "rolling" else items) == []


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["full", "rebuilt", "load"])
@pytest.mark.parametrize("name", HISTORIES)
async def test_the_last_view_is_that_of_all_at_once(walk, name, mode):
    """What a session sends at last is what it would send at once."""
    items = HISTORIES[name]
    async for _, last in walk(Pipeline(), items, mode, format="openai-responses"):
        view = last
    at_once = await Pipeline().prepare(items, format="openai-responses")
    assert view.messages == at_once.messages


@pytest.mark.anyio
async def test_words_that_repair_leaves_out_part_no_turn():
    """Blank words between two turns of calls: a result that comes for the first one later finds it."""
    asked = [
        {"role": "assistant", "content": [{"type": "tool_use", "id": each, "name": "run", "input": {}}]}
        for each in ("a", "b")
    ]
    blank = {"role": "user", "content": [{"type": "text", "text": " "}]}
    results = [{"type": "tool_result", "tool_use_id": each, "content": "done"} for each in ("a", "b")]
    history = [TASK, asked[0], blank, asked[1], {"role": "user", "content": results}, GO_ON]
    session = Pipeline().session(format="anthropic")
    for stop in range(1, len(history) + 1):
        view = await session.prepare(history[:stop])
        found = validate({"messages": view.messages}, format="anthropic")
        assert [each for each in found if each.severity == "error"] == []
    assert view.messages == [TASK, asked[0], asked[1], history[4], GO_ON]


def blocks(role, *found):
    """A message of blocks."""
    return {"role": role, "content": list(found)}


def use(name):
    """A call of Anthropic's."""
    return {"type": "tool_use", "id": name, "name": "run", "input": {}}


def answer(name):
    """A result of Anthropic's."""
    return {"type": "tool_result", "tool_use_id": name, "content": "done"}


def text(words, **more):
    """A text of Anthropic's."""
    return {"type": "text", "text": words, **more}


def marked(words="hello"):
    """A text with a cache marker."""
    return text(words, cache_control={"type": "ephemeral"})


ANTHROPIC = {
    "a call in a blank message of the user": [
        TASK,
        blocks("user", text(" "), use("a")),
        blocks("assistant", use("b"), use("c")),
        blocks("user", answer("b"), answer("c")),
        GO_ON,
    ],
    "a call among the user's words, and a late result": [
        blocks("user", text("task"), use("a")),
        blocks("assistant", text("so"), use("b")),
        GO_ON,
        blocks("user", answer("b")),
        blocks("user", answer("a")),
    ],
    "a result before its call": [TASK, blocks("user", answer("a")), blocks("assistant", use("a")), GO_ON],
    "one id for two open calls": [
        TASK,
        blocks("assistant", use("a")),
        blocks("assistant", use("a")),
        GO_ON,
        blocks("user", answer("a")),
        blocks("user", answer("a")),
        GO_ON,
    ],
    "a result that repair moves behind later calls": [
        blocks("assistant", use("a")),
        blocks("user", answer("b")),
        blocks("user", answer("a")),
        blocks("assistant", text("so")),
        blocks("assistant", use("b")),
        blocks("user", answer("b")),
        GO_ON,
    ],
    "markers on results in a message of the assistant": [
        blocks("user", marked()),
        blocks("assistant", text("so")),
        blocks("user", marked(), marked()),
        blocks(
            "assistant",
            use("a"),
            use("b"),
            answer("a"),
            {**answer("b"), "content": [marked("done")]},
            use("c"),
        ),
        GO_ON,
    ],
}


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["full", "rolling", "load"])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("name", ANTHROPIC)
async def test_each_step_of_calls_at_wrong_places_is_legal(walk, name, stride, mode):
    """Calls in messages of the user, results before their calls, ids that come twice: every view is legal."""
    async for _, view in walk(Pipeline(), ANTHROPIC[name], mode, stride, format="anthropic"):
        found = validate({"messages": view.messages}, format="anthropic")
        assert [str(each) for each in found if each.severity == "error"] == []


@pytest.mark.anyio
@pytest.mark.parametrize("name", ["a result before its call", "one id for two open calls"])
async def test_a_result_reaches_its_call_in_whichever_step_it_comes(name):
    """What a session sends at last is what it would send at once."""
    messages = ANTHROPIC[name]
    session = Pipeline().session(format="anthropic")
    for stop in range(1, len(messages) + 1):
        with suppress(InvalidInput):  # a result alone is nothing to send
            view = await session.prepare(messages[:stop])
    at_once = await Pipeline().prepare(messages, format="anthropic")
    assert view.messages == at_once.messages


RENAMED = {
    "another call had the id": [
        *(assistant(call("x", "run")), result("x", "first")),
        *(assistant(call("x", "run")), user("wait")),
        *(assistant(call("x", "run"), call("x", "run")), result("x", "1"), result("x", "2"), result("x", "3")),
    ],
    "another call had the id, and no other follows": [
        *(assistant(call("x", "run")), result("x", "first")),
        *(assistant(call("x", "run")), user("wait"), result("x", "late")),
    ],
    "the provider takes no such id": [
        assistant(call("functions.run:0", "run")),
        user("wait"),
        result("functions.run:0", "late"),
    ],
}


@pytest.mark.anyio
@pytest.mark.parametrize("way", ["full", "loaded", "back"])
@pytest.mark.parametrize("name", RENAMED)
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_late_result_reaches_a_call_that_repair_gave_another_id(format_name, name, way):
    """Results bear the caller's id: what a session sends with one that comes late is what it would send at once."""
    messages, plan = transcript(format_name, user("task"), *RENAMED[name]), Pipeline()
    session = plan.session(format=format_name)
    for stop in range(1, len(messages)):
        view = await session.prepare(messages[:stop])
    if way == "loaded":
        session = Session.load(plan, json.loads(json.dumps(session.dump())))
    elif way == "back":
        await session.prepare(messages[:2])
        await session.prepare(messages[:-1])
    view = await session.prepare(messages)
    assert view.messages == (await plan.prepare(messages, format=format_name)).messages


@pytest.mark.anyio
@pytest.mark.parametrize("rule", [Protect.first_task(), Protect.pins(0), lambda _messages: [0]])
async def test_what_is_mended_is_called_protected_in_whichever_step_it_comes_or_in_none(rule):
    """A rule that names the first message of the conversation names no other one where only what is new is mended."""
    messages = transcript("anthropic", user("task"), assistant("well"))
    messages += [{"role": "user", "content": [{"type": "text", "text": each} for each in (" ", "again")]}]
    session = Pipeline(protect=[rule]).session(format="anthropic")
    await session.prepare(messages[:1])
    (change,) = (await session.prepare(messages)).report.changes
    assert change.reason == "blank text removed"


@pytest.mark.anyio
async def test_nothing_is_sent_when_only_reasoning_was_left_that_went(preparing):
    """A view without a message is refused, also where the last of it is reasoning that has lost its prefix."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "s"}
    with pytest.raises(InvalidInput, match="nothing is left to send"):
        await preparing(Pipeline(), "anthropic", "claude-opus-5-5")([blocks("assistant", text(" "), thought)])


def gemini_round(number, signature=None):
    """A call and its response."""
    call = {"functionCall": {"name": "run", "args": {"n": number}}}
    signed = call if signature is None else {**call, "thoughtSignature": signature}
    response = {"functionResponse": {"name": "run", "response": {"n": number}}}
    return [{"role": "model", "parts": [signed, call]}, {"role": "user", "parts": [response, response]}]


def said(role, words):
    """A content that says something."""
    return {"role": role, "parts": [{"text": words}]}


UNSIGNED = [
    said("user", "task"),
    *gemini_round(1),
    *gemini_round(2, "c2lnbmVk"),
    said("model", "so"),
    said("user", "go on"),
    *gemini_round(3),
    *gemini_round(4),
    said("user", "and"),
]


def missing(view):
    """The rules that a view breaks on Gemini 3."""
    request = {"contents": view.messages, "model": "gemini-3.1-pro-preview"}
    return [str(each) for each in validate(request, format="gemini") if each.severity == "error"]


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["full", "written back", "loaded"])
async def test_calls_of_the_current_turn_bear_a_signature_on_gemini_3(mode):
    """Unsigned calls get the word that stands for none, signed ones stay; in every mode, and after going back."""
    pipeline = Pipeline()
    session = pipeline.session(format="gemini", model="gemini-3.1-pro-preview")
    passed, given = [], []
    for each in UNSIGNED:
        given = [*given, each]
        passed.append(given)
        view = await session.prepare(given)
        assert missing(view) == []
        if mode == "written back":
            given = list(view.messages)
        elif mode == "loaded":
            session = Session.load(pipeline, json.loads(json.dumps(session.dump())))
    for given in reversed(passed):
        assert missing(await session.prepare(given)) == []


@pytest.mark.anyio
async def test_calls_of_closed_turns_and_of_earlier_models_stay_unsigned(preparing):
    """Nobody asks for signatures there: the contents are the caller's own objects."""
    closed = [*UNSIGNED[:2], said("model", "so"), said("user", "go on")]
    for messages, model in ((closed, "gemini-3.1-pro-preview"), (UNSIGNED[:4], "gemini-2.5-pro")):
        view = await preparing(Pipeline(), "gemini", model)(messages)
        assert [here is there for here, there in zip(view.messages, messages, strict=False)][:2] == [True, True]


@pytest.mark.anyio
async def test_a_closed_turn_that_is_open_again_gets_its_signatures():
    """All came at once; then the caller goes back into the middle of what was a closed turn."""
    session = Pipeline().session(format="gemini", model="gemini-3.1-pro-preview")
    await session.prepare(UNSIGNED)
    assert missing(await session.prepare(UNSIGNED[:3])) == []


@pytest.mark.anyio
async def test_what_is_at_fault_beside_the_parts_is_written_anew(preparing):
    """A chat message with an empty list of calls, or without content: mended, and named in the report."""
    asked = {"id": "a", "type": "function", "function": {"name": "run", "arguments": "{}"}}
    faulty = [{"role": "assistant", "content": "so", "tool_calls": []}, {"role": "assistant", "content": None}]
    history = [TASK, faulty[0], GO_ON, {"role": "assistant", "tool_calls": [asked]}]
    view = await preparing(Pipeline(), "openai-chat", "gpt-4.1")([*history, faulty[1], GO_ON])
    found = validate({"messages": view.messages}, format="openai-chat", model="gpt-4.1")
    assert [str(each) for each in found if each.severity == "error"] == []
    assert {1, 4} <= {change.index for change in view.report.changes}


def gemini_call(*arguments):
    """A content of the model with calls of one tool, none of which has an id."""
    return {"role": "model", "parts": [{"functionCall": {"name": "run", "args": {"n": each}}} for each in arguments]}


def gemini_answer(*texts):
    """A content with results of that tool, none of which says which call it answers."""
    answers = [{"functionResponse": {"name": "run", "response": {"output": each}}} for each in texts]
    return {"role": "user", "parts": answers}


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["full", "load"])
@pytest.mark.parametrize("between", [[], [{"role": "model", "parts": [{"text": "I wait."}]}]], ids=["open", "gone on"])
@pytest.mark.parametrize("calls", [[[1], [2]], [[1, 2], [3]], [[1], [2, 3]]])
@pytest.mark.parametrize("stride", [1, 4, 5])
async def test_results_without_ids_that_come_in_turns_are_given_to_calls_as_at_once(calls, between, mode, stride, walk):
    """Which call a result answers is told by its place: those that come later may tell that of earlier ones anew."""
    task, wait = ({"role": "user", "parts": [{"text": text}]} for text in ("task", "Wait."))
    texts = [f"result {number}" for group in calls for number in group]
    history = [task, *(gemini_call(*group) for group in calls), gemini_answer(texts[0]), *between, wait]
    history += [gemini_answer(*texts[1:]), {"role": "model", "parts": [{"text": "done"}]}, wait]
    async for given, view in walk(Pipeline(), history, mode, stride, format="gemini"):
        once = await Pipeline().prepare(given, format="gemini")
        assert view.messages == once.messages
    assert [text for text in texts if text not in str(view.messages)] == []


@pytest.mark.anyio
async def test_a_content_that_cannot_be_read_is_named_by_its_place_in_the_history():
    """Also while a round is open whose contents are read again."""
    session = Pipeline().session(format="gemini")
    history = [{"role": "user", "parts": [{"text": "task"}]}, gemini_call(1, 2), gemini_answer("one")]
    await session.prepare(history)
    with pytest.raises(InvalidInput, match=r"messages\[3\]|contents\[3\]"):
        await session.prepare([*history, {"role": "wizard", "parts": [{"text": "hm"}]}])
