"""What the Responses API refuses and can be mended."""

import pytest

from agentctx import Pipeline, Text, Thinking, ToolCall, count
from agentctx.formats.registry import format_named
from agentctx.rules import find_violations

WIRE = format_named("openai-responses")

USER = {"role": "user", "content": "go on"}
CALL = {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "c1", "output": "ok"}
THOUGHT = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "RQ=="}
WORDS = {"type": "message", "id": "msg_1", "role": "assistant", "content": [{"type": "output_text", "text": "done"}]}


def read(*items):
    """Items as messages."""
    return [WIRE.read_message(item, index) for index, item in enumerate(items)]


def mended(*items):
    """The items as they are after mending, as they are written."""
    messages = read(*items)
    instead = {index: message for index, message, _ in WIRE.repair(messages, {})}
    now = [instead.get(index, message) for index, message in enumerate(messages)]
    return [WIRE.write_message(message) for message in now if message is not None]


async def prepared(*items):
    """The items as a pipeline without stages sends them."""
    return (await Pipeline().prepare(list(items), format="openai-responses")).messages


def test_what_is_fine_is_left_alone():
    """Nothing is said about items that are fine."""
    assert WIRE.repair(read(USER, THOUGHT, CALL, OUTPUT, WORDS), {}) == ()


@pytest.mark.parametrize(
    ("item", "key", "expected"),
    [
        ({"role": "user", "content": "\ud800"}, "content", "\ufffd"),
        ({**OUTPUT, "output": "x\udfff"}, "output", "x\ufffd"),
        ({**CALL, "arguments": '{"a": NaN}'}, "arguments", '{"a": null}'),
        ({**CALL, "name": "a.b c"}, "name", "a_b_c"),
        ({**CALL, "name": ""}, "name", "_"),
    ],
)
def test_one_item_is_mended_in_place(item, key, expected):
    """What one item has wrong is put right, and its other keys stay."""
    assert mended(item) == [{**item, key: expected}]


def test_free_text_of_a_custom_tool_is_no_json():
    """The input of a custom tool may say NaN."""
    item = {"type": "custom_tool_call", "call_id": "c", "name": "p", "input": '{"a": NaN} said the model'}
    assert mended(item)[0] is item


def test_long_ids_are_shortened_alike():
    """Call and output get the same short id."""
    long = "c" * 65
    call, output = mended({**CALL, "call_id": long}, {**OUTPUT, "call_id": long})
    assert call["call_id"] == output["call_id"]
    assert len(call["call_id"]) <= 64


def test_the_same_item_again_goes_and_another_with_its_id_loses_it():
    """No two items of a request have one id, and no word is lost over it."""
    other = {**WORDS, "content": [{"type": "output_text", "text": "else"}]}
    assert mended(WORDS, WORDS, other) == [WORDS, {key: value for key, value in other.items() if key != "id"}]


def test_reasoning_that_nothing_follows_goes():
    """Signed reasoning stays with what it led to; when that is not there, it goes, also when its twin is left."""
    assert mended(USER, THOUGHT, USER) == [USER, USER]
    assert mended(USER, THOUGHT) == [USER]
    assert mended(USER, THOUGHT, {**THOUGHT, "id": "rs_2"}, USER) == [USER, USER]
    assert mended(THOUGHT, WORDS, THOUGHT, WORDS, USER) == [THOUGHT, WORDS, USER]
    unsigned = {"type": "reasoning", "summary": [], "content": None}
    assert mended(unsigned, USER) == [unsigned, USER]


def test_of_reasoning_with_one_id_the_first_that_can_be_sent_stays():
    """Reasoning that goes because nothing follows it takes no other with its id along."""
    other = {**THOUGHT, "encrypted_content": "Rg=="}
    assert mended(THOUGHT, USER, other, CALL, OUTPUT) == [USER, other, CALL, OUTPUT]
    assert mended(THOUGHT, USER, THOUGHT, CALL, OUTPUT, USER) == [USER, THOUGHT, CALL, OUTPUT, USER]
    assert mended(CALL, OUTPUT, THOUGHT, CALL, USER, other, WORDS) == [CALL, OUTPUT, USER, other, WORDS]
    assert mended(THOUGHT, CALL, OUTPUT, other, WORDS) == [THOUGHT, CALL, OUTPUT, WORDS]


def test_readable_reasoning_goes_back_encrypted_only():
    """OpenAI refuses the readable form of encrypted reasoning; summary and encrypted content stay."""
    summary = [{"type": "summary_text", "text": "short"}]
    spoken = {**THOUGHT, "summary": summary, "content": [{"type": "reasoning_text", "text": "long"}]}
    (found,) = [message for _, message, _ in WIRE.repair(read(spoken, WORDS), {})]
    assert found.parts == (Thinking("short", "rs_1", "RQ=="),)
    assert WIRE.write_message(found) == {**spoken, "content": []}


def test_a_wish_for_compaction_is_last_or_goes():
    """A compaction trigger in the middle goes."""
    trigger = {"type": "compaction_trigger"}
    assert mended(trigger, USER, trigger) == [USER, trigger]


@pytest.mark.anyio
async def test_a_legal_history_is_sent_as_it_is():
    """Words between a call and its output, and outputs in any order, are the caller's own objects in their order."""
    note = {"role": "developer", "content": "allowed"}
    second, answer = {**CALL, "id": "fc_2", "call_id": "c2"}, {**OUTPUT, "call_id": "c2"}
    items = [USER, THOUGHT, CALL, second, note, answer, OUTPUT, WORDS]
    assert all(sent is given for sent, given in zip(await prepared(*items), items, strict=True))


@pytest.mark.anyio
async def test_a_broken_history_is_repaired():
    """Lost answers are made, orphans go, an output before its call is moved behind it, repeated ids get a number."""
    orphan = {**OUTPUT, "call_id": "c9"}
    early = {"type": "shell_call_output", "call_id": "c2", "output": [{"stdout": "x", "stderr": "", "outcome": {}}]}
    shell = {"type": "shell_call", "call_id": "c2", "action": {"commands": ["ls"]}}
    lost = {"type": "custom_tool_call", "call_id": "c3", "name": "p", "input": "x"}
    again = {**CALL, "id": "fc_2"}
    sent = await prepared(USER, orphan, CALL, OUTPUT, early, shell, lost, USER, again, OUTPUT)
    assert find_violations(WIRE, {"input": sent}) == ()
    assert [item for item in sent if item is early] == [early]
    assert "custom_tool_call_output" in {item.get("type") for item in sent}
    assert [item.get("call_id") for item in sent].count("c1_2") == 2
    assert orphan not in sent


@pytest.mark.anyio
async def test_a_screenshot_goes_with_its_call():
    """An output that came before its call is moved with what stands beside its words."""
    call = {"type": "computer_call", "id": "cu_1", "call_id": "c", "pending_safety_checks": [], "status": "completed"}
    output = {
        "type": "computer_call_output",
        "call_id": "c",
        "output": {"type": "computer_screenshot", "image_url": "https://example.com/x.png"},
    }
    sent = await prepared(USER, output, call, USER)
    assert sent == [USER, call, output, USER]
    assert sent[2] is output


def tokens(*items, **more):
    """The tokens of items, without what every request costs."""
    return count(list(items), format="openai-responses", **more) - 3


def test_each_kind_of_item_is_counted_by_what_the_model_reads():
    """Names count once, pictures as pictures, encrypted reasoning by its length, unknown items by their JSON."""
    picture = {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": "iVBORw0K" * 20_000}
    assert tokens(picture) < 2_000
    screenshot = {"type": "computer_screenshot", "image_url": "data:image/png;base64," + "iVBORw0K" * 20_000}
    assert tokens({"type": "computer_call_output", "call_id": "c", "output": screenshot}) < 2_000
    long_name = {**CALL, "name": "look_into_the_matter_of_the_missing_semicolon"}
    named = tokens(long_name) - tokens(CALL)
    assert 0 < named < 12
    assert 1_300 < tokens({**THOUGHT, "encrypted_content": "R" * 9_572}) < 2_000  # 1,792, as was billed
    assert tokens({"type": "item_of_tomorrow", "words": "word " * 100}) > 100
    assert tokens({"type": "additional_tools", "role": "developer", "tools": [{"words": "word " * 100}]}) > 100
    assert tokens({**OUTPUT, "output": "word " * 100}) > 100


def test_instructions_and_tools_are_counted():
    """Instructions and flat tools are part of the request."""
    tool = {"type": "function", "name": "f", "description": "word " * 50, "parameters": {"type": "object"}}
    assert tokens(USER, tools=[tool]) > tokens(USER) + 50
    assert tokens(USER, system="word " * 50) > tokens(USER) + 50
    assert read(CALL)[0].parts == (ToolCall("c1", "f", "{}"),)
    assert read(USER)[0].parts == (Text("go on"),)


@pytest.mark.anyio
async def test_an_answer_is_of_the_kind_that_its_call_asks_for():
    """A custom output to a function call, and the other way round, go as what the call asks for, and say the same."""
    custom = {"type": "custom_tool_call", "call_id": "c2", "name": "p", "input": "x"}
    shell = {"type": "shell_call", "call_id": "c3", "action": {"commands": ["ls"]}}
    wrong = [
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "one"},
        {"type": "function_call_output", "call_id": "c2", "output": "two"},
        {"type": "function_call_output", "call_id": "c3", "output": "three"},
    ]
    items = [USER, CALL, wrong[0], custom, wrong[1], shell, wrong[2]]
    broken = [each.rule for each in find_violations(WIRE, {"input": items})]
    assert broken == ["resp.output_kind"] * 3
    sent = await prepared(*items)
    assert find_violations(WIRE, {"input": sent}) == ()
    assert sent[2] == {**wrong[0], "type": "function_call_output"}
    assert sent[4] == {**wrong[1], "type": "custom_tool_call_output"}
    assert sent[6]["output"][0]["stdout"] == "three"


def test_a_cache_marker_stands_on_input_only():
    """A marker on the model's own words goes; the words stay."""
    block = {"type": "output_text", "text": "so it is", "annotations": []}
    marked = {**WORDS, "content": [{**block, "prompt_cache_breakpoint": {"mode": "explicit"}}]}
    assert mended(marked) == [{**WORDS, "content": [block]}]
