"""Repair in a session: what depends on earlier messages is mended in whichever step it arrives, as at once."""

import json

import pytest

from agentctx import Pipeline, Session, validate

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
TRIGGER = {"type": "compaction_trigger"}

HISTORIES = {
    "an id of another item again": [TASK, CALL, OUTPUT, GO_ON, {**CALL, "call_id": "c2"}, {**OUTPUT, "call_id": "c2"}],
    "the same item again": [TASK, CALL, OUTPUT, GO_ON, CALL, OUTPUT, GO_ON],
    "a wish for compaction that others follow": [TASK, TRIGGER, GO_ON, WORDS, TRIGGER, GO_ON],
    "reasoning that its call follows a step later": [TASK, THOUGHT, CALL, OUTPUT, GO_ON],
    "reasoning that nothing follows": [TASK, THOUGHT, GO_ON, WORDS, GO_ON],
    "one call id in every round": [TASK, *[{**CALL, "id": None}, OUTPUT] * 3, GO_ON],
}


def errors(items, before):
    """The rules that items break, made from others."""
    found = validate({"input": items}, format="openai-responses", before={"input": before})
    return [str(each) for each in found if each.severity == "error"]


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["full", "written back", "loaded"])
@pytest.mark.parametrize("stride", [1, 2, 3])
@pytest.mark.parametrize("name", HISTORIES)
async def test_each_step_is_legal(name, stride, mode):
    """Fed step by step, in each way to go on, every view is legal."""
    items, pipeline = HISTORIES[name], Pipeline()
    session = pipeline.session(format="openai-responses")
    given = []
    for start in range(0, len(items), stride):
        given = [*given, *items[start : start + stride]]
        view = await session.prepare(given)
        assert errors(view.messages, given if mode == "written back" else items) == []
        if mode == "written back":
            given = list(view.messages)
        elif mode == "loaded":
            session = Session.load(pipeline, json.loads(json.dumps(session.dump())))


@pytest.mark.anyio
@pytest.mark.parametrize("name", HISTORIES)
async def test_the_last_view_is_that_of_all_at_once(name):
    """What a session sends at last is what it would send at once."""
    items = HISTORIES[name]
    session = Pipeline().session(format="openai-responses")
    for stop in range(1, len(items) + 1):
        view = await session.prepare(items[:stop])
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
