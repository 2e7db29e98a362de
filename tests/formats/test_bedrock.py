"""Converse messages as values and back."""

import botocore.session
import pytest
from attrs import evolve
from botocore.validate import ParamValidator
from histories import plans
from hypothesis import given
from plans import BedrockWriter

from agentctx import InvalidInput, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from agentctx.formats.bedrock import Bedrock
from agentctx.unit import broken_pair
from agentctx.wire_format import WireFormat

wire = Bedrock()
MODEL = botocore.session.Session().get_service_model("bedrock-runtime")
BLOCKS = MODEL.shape_for("ContentBlock").members


def message(role, *blocks):
    """A message."""
    return {"role": role, "content": list(blocks)}


def read(role, *blocks):
    """A message as a value."""
    return wire.read_message(message(role, *blocks), 0)


def edited(said, old, new):
    """The message with one part instead of another."""
    return said.with_parts(tuple(new if part is old else part for part in said.parts))


def test_it_is_a_wire_format():
    """The class has the shape of a wire format; places need no reading, since every result names its call."""
    checked: WireFormat = wire
    assert checked.name == "bedrock"
    assert checked.pair is None


@pytest.mark.parametrize(
    ("block", "value"),
    [
        ({"text": "hi"}, Text("hi")),
        ({"toolUse": {"toolUseId": "t", "name": "f", "input": {"q": "é"}}}, ToolCall("t", "f", '{"q": "é"}')),
        ({"toolUse": {"toolUseId": "t", "name": "f", "input": [1]}}, ToolCall("t", "f", "[1]")),
        ({"toolResult": {"toolUseId": "t", "content": [{"text": "x"}]}}, ToolResult("t", (Text("x"),))),
        ({"toolResult": {"toolUseId": "t", "content": []}}, ToolResult("t", ())),
        (
            {"toolResult": {"toolUseId": "t", "status": "error", "content": [{"json": {"e": 1}}]}},
            ToolResult("t", (Text('{"e": 1}'),), is_error=True),
        ),
        ({"reasoningContent": {"reasoningText": {"text": "hm", "signature": "S"}}}, Thinking("hm", "S")),
        ({"reasoningContent": {"reasoningText": {"text": "hm"}}}, Thinking("hm")),
        ({"reasoningContent": {"redactedContent": b"\xff"}}, Thinking("", encrypted="/w==")),
        ({"image": {"format": "png", "source": {"bytes": b"\xff"}}}, Media("image", "image/png", "/w==")),
        ({"image": {"format": "png", "source": {"bytes": "AA=="}}}, Media("image", "image/png", "AA==")),
        (
            {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://b/v"}}}},
            Media("video", "video/mp4", url="s3://b/v"),
        ),
        (
            {"document": {"format": "pdf", "name": "d", "source": {"bytes": b"\xff"}}},
            Media("document", "application/pdf", "/w==", words="d"),
        ),
    ],
)
def test_blocks_are_read(block, value):
    """Each kind of block is read, and written as the object that it was read from."""
    said = read("user", block)
    assert said.parts == (value,)
    assert wire.write_message(said.with_parts((*said.parts, Text("more"))))["content"][0] is block


@pytest.mark.parametrize(
    "block",
    [
        {"cachePoint": {"type": "default", "ttl": "1h"}},
        {"guardContent": {"text": {"text": "x"}}},
        {"citationsContent": {"content": [{"text": "x"}], "citations": []}},
        {"document": {"format": "txt", "name": "d", "source": {"text": "counted as text"}}},
        {"block_of_tomorrow": {}},
    ],
)
def test_what_is_not_understood_rides_through(block):
    """A block that we do not take apart is opaque, and is written as it came."""
    (part,) = read("user", block).parts
    assert part == Opaque(next(iter(block)), block)
    assert wire.write_message(Message("user", (part,)))["content"][0] is block


def test_tools_of_the_server_open_and_close():
    """A call that the server runs and its result are opaque halves of one pair."""
    call = {"toolUse": {"toolUseId": "s", "name": "search", "input": {}, "type": "server_tool_use"}}
    result = {"toolResult": {"toolUseId": "s", "content": [], "type": "search_tool_result"}}
    said = read("assistant", call, result)
    assert [(part.opens, part.closes) for part in said.parts] == [("s", None), (None, "s")]


@pytest.mark.parametrize(
    ("native", "place"),
    [
        ("hi", "messages[0]"),
        ({"role": "tool", "content": []}, "messages[0].role"),
        ({"role": "user"}, "messages[0].content"),
        ({"role": "user", "content": "hi"}, "messages[0].content"),
        ({"role": "user", "content": [{"text": "a"}, {"text": 1}]}, "messages[0].content[1].text"),
        ({"role": "user", "content": [{"toolUse": {"name": "f"}}]}, "messages[0].content[0].toolUse.toolUseId"),
        ({"role": "user", "content": [{"toolUse": 1}]}, "messages[0].content[0].toolUse"),
        (
            {"role": "user", "content": [{"toolUse": {"toolUseId": "t", "name": "f", "input": {1}}}]},
            "messages[0].content[0].toolUse.input",
        ),
        (
            {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [1]}}]},
            "messages[0].content[0].toolResult.content[0]",
        ),
    ],
)
def test_what_cannot_be_read_is_named(native, place):
    """A message that cannot be read is an error that names the field."""
    with pytest.raises(InvalidInput) as caught:
        wire.read_message(native, 0)
    assert caught.value.where == place


def test_an_edited_result_keeps_everything_else():
    """A result whose text was cut keeps its status and its pictures, and the blocks beside it are the caller's own."""
    picture = {"image": {"format": "png", "source": {"bytes": b"\xff"}}}
    result = {"toolResult": {"toolUseId": "t", "status": "success", "content": [{"text": "long"}, picture]}}
    native = message("user", result, {"cachePoint": {"type": "default"}})
    said = wire.read_message(native, 0)
    short = evolve(said.results[0], content=(Text("cut", source=native["content"][0]), said.results[0].content[1]))
    written = wire.write_message(edited(said, said.results[0], short))
    assert written["content"][0]["toolResult"] == {**result["toolResult"], "content": [{"text": "cut"}, picture]}
    assert written["content"][0]["toolResult"]["content"][1] is picture
    assert written["content"][1] is native["content"][1]
    assert result["toolResult"]["content"][0] == {"text": "long"}


@pytest.mark.parametrize(("text", "expected"), [("cut", {"text": "cut"}), ('{"a": 2}', {"json": {"a": 2}})])
def test_json_of_a_result_stays_json_while_it_is(text, expected):
    """The JSON of a result becomes text when it is cut in the middle."""
    said = read("user", {"toolResult": {"toolUseId": "t", "content": [{"json": {"a": 1}}]}})
    (result,) = said.results
    new = evolve(result, content=(Text(text, source=result.content[0].source),))
    (block,) = wire.write_message(edited(said, result, new))["content"]
    assert block["toolResult"]["content"] == [expected]


def test_messages_made_from_scratch():
    """Each kind of part has a canonical block."""
    parts = (
        Text("x"),
        Thinking("t", "S"),
        Thinking("", encrypted="/w=="),
        ToolCall("t", "f", '{"a": 1}'),
        Media("image", "image/jpeg", "/w=="),
        Media("document", None, "/w=="),
        Media("video", url="s3://b/v"),
        ToolResult("t", (), is_error=True),
    )
    assert wire.write_message(Message("tool", parts)) == message(
        "user",
        {"text": "x"},
        {"reasoningContent": {"reasoningText": {"text": "t", "signature": "S"}}},
        {"reasoningContent": {"redactedContent": b"\xff"}},
        {"toolUse": {"toolUseId": "t", "name": "f", "input": {"a": 1}}},
        {"image": {"format": "jpeg", "source": {"bytes": b"\xff"}}},
        {"document": {"name": "document", "format": "pdf", "source": {"bytes": b"\xff"}}},
        {"video": {"format": "mp4", "source": {"s3Location": {"uri": "s3://b/v"}}}},
        {"toolResult": {"toolUseId": "t", "content": [], "status": "error"}},
    )


@pytest.mark.parametrize("part", [Media("image", url="https://x"), Media("image"), Media("image", data="ä")])
def test_what_converse_does_not_take(part):
    """A picture on the web, and one that is nowhere, cannot be written."""
    with pytest.raises(InvalidInput):
        wire.write_message(Message("user", (part,)))


def test_lost_results_are_answered_in_one_message():
    """All calls are answered by one user message of errors."""
    (made,) = wire.synthetic_result([ToolCall("a", "f", "{}"), ToolCall("b", "g", "{}")], "lost")
    answers = [{"toolUseId": each, "content": [{"text": "lost"}], "status": "error"} for each in "ab"]
    assert wire.write_message(made) == message("user", *({"toolResult": each} for each in answers))
    assert wire.synthetic_result([], "lost") == ()


def test_system_prompts():
    """A system prompt is a list of blocks; a string is taken for one."""
    point = {"cachePoint": {"type": "default"}}
    assert wire.read_system([{"text": "be brief"}, point]).parts == (Text("be brief"), Opaque("cachePoint", point))
    assert wire.read_system("be brief").text == "be brief"
    assert wire.read_system(None) is None
    with pytest.raises(InvalidInput, match=r"system\[0\]"):
        wire.read_system([1])


def test_tools():
    """Tools are read from their specifications; a system tool has a name only."""
    spec = {"name": "f", "description": "F", "inputSchema": {"json": {"type": "object"}}}
    natives = [{"toolSpec": spec}, {"systemTool": {"name": "nova_code"}}, {"cachePoint": {"type": "default"}}]
    tools = wire.read_tools(natives)
    assert [tool.name for tool in tools] == ["f", "nova_code", ""]
    assert (tools[0].description, tools[0].parameters) == ("F", {"type": "object"})
    assert all(tool.source is native for tool, native in zip(tools, natives, strict=True))


@pytest.mark.parametrize(
    ("request_", "surely"),
    [
        ({"messages": [message("user", {"text": "x"})]}, True),
        ({"messages": [message("user")], "modelId": "amazon.nova-pro-v1:0"}, True),
        ({"messages": [message("user")]}, False),
        ({"messages": [message("user", {"type": "text", "text": "x"})]}, False),
        ({"messages": [{"role": "user", "content": "x"}]}, False),
        ({"messages": [{"role": "user", "parts": [{"text": "x"}]}]}, False),
        ({"messages": [message("tool", {"text": "x"})]}, False),
        ({"messages": 1}, False),
        ({"contents": []}, False),
    ],
)
def test_recognised(request_, surely):
    """Blocks that are named by their member are this format; blocks with a type are another's."""
    assert bool(wire.recognises(request_)) is surely


@given(plans("bedrock"))
def test_what_nobody_touched_goes_back(plan):
    """Every message is written as the object that it was read from, and its pairs are whole."""
    natives = BedrockWriter().messages([turn for turn in plan.turns if turn.role != "system"])
    read_all = [wire.read_message(native, index) for index, native in enumerate(natives)]
    assert all(wire.write_message(said) is native for said, native in zip(read_all, natives, strict=True))
    again = [wire.write_message(said.with_parts(tuple(part for part in said.parts))) for said in read_all]
    assert again == natives
    assert broken_pair(read_all, wire.rounds) is None


def sample(shape, depth=0):
    """A value of a shape of the service model, with all its members that go together."""
    if shape.type_name == "structure":
        if getattr(shape, "is_document_type", False) or depth > 8:
            return {"key": "value"}
        if shape.is_tagged_union or shape.name == "ContentBlock":
            name, member = next(iter(shape.members.items()))
            return {name: sample(member, depth + 1)}
        return {name: sample(member, depth + 1) for name, member in shape.members.items() if name != "error"}
    if shape.type_name == "list":
        return [sample(shape.member, depth + 1)]
    plain = {"blob": b"\xff", "boolean": True, "integer": 1, "long": 1, "string": "x" * 8}
    return (getattr(shape, "enum", None) or [plain[shape.type_name]])[0]


@pytest.mark.parametrize("name", BLOCKS)
def test_every_block_of_the_service_model_goes_back_as_it_came(name):
    """Each kind of block that botocore knows is kept, and the message after an edit passes botocore's validation."""
    block = {name: sample(BLOCKS[name])}
    result = {"toolResult": {"toolUseId": "t", "content": [{"text": "long"}]}}
    native = message("user", block, result)
    said = wire.read_message(native, 0)
    assert wire.write_message(said) is native
    answer = said.results[-1]
    written = wire.write_message(edited(said, answer, evolve(answer, content=(Text("cut"),))))
    assert written["content"][0] is block
    assert written["content"][1]["toolResult"]["content"] == [{"text": "cut"}]
    report = ParamValidator().validate(written, MODEL.shape_for("Message"))
    assert not report.has_errors(), report.generate_report()
