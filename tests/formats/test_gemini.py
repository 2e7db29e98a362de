"""Gemini contents as values and back."""

import base64
import json
from enum import Enum
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import pytest
from attrs import evolve
from google.genai import types
from histories import plans
from hypothesis import given, strategies as st
from plans import GeminiWriter
from pydantic import BaseModel

from agentctx import InvalidInput, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult, units
from agentctx.formats.gemini import Gemini
from agentctx.unit import broken_pair
from agentctx.wire_format import WireFormat

wire = Gemini()
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
CALL = {"functionCall": {"name": "find", "args": {"q": "é"}}, "thoughtSignature": "U0lH"}
ANSWER = {"functionResponse": {"name": "find", "response": {"output": "long text"}}}


def read(*natives):
    """Contents as values, with their pairs."""
    return wire.pair([wire.read_message(native, index) for index, native in enumerate(natives)])


def content(role, *parts):
    """A content."""
    return {"role": role, "parts": list(parts)}


def edited(message, old, new):
    """The message with one part instead of another."""
    return message.with_parts(tuple(new if part is old else part for part in message.parts))


def test_it_is_a_wire_format():
    """The class has the shape of a wire format, and of one that reads places."""
    checked: WireFormat = wire
    assert checked.name == "gemini"
    assert checked.pair is not None


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ({"text": "hi"}, Text("hi")),
        ({"text": "", "thoughtSignature": "UzE="}, Text("")),
        ({"text": "hm", "thought": True}, Thinking("hm")),
        ({"text": "hm", "thought": True, "thoughtSignature": "UzE="}, Thinking("hm", "UzE=")),
        (CALL, ToolCall("find#0", "find", '{"q": "é"}', "U0lH")),
        ({"functionCall": {"name": "f", "id": "7"}}, ToolCall("7", "f", "{}")),
        ({"function_call": {"name": "f", "args": None}}, ToolCall("f#0", "f", "{}")),
        (ANSWER, ToolResult("find#0", (Text("long text"),), "find")),
        ({"functionResponse": {"name": "f", "response": {}}}, ToolResult("f#0", (), "f")),
        ({"functionResponse": {"name": "f"}}, ToolResult("f#0", (), "f")),
        (
            {"functionResponse": {"name": "f", "response": {"error": "no"}}},
            ToolResult("f#0", (Text("no"),), "f", is_error=True),
        ),
        (
            {"function_response": {"name": "f", "id": "7", "response": {"a": 1, "b": "x"}}},
            ToolResult("7", (Text('{"a": 1, "b": "x"}'),), "f"),
        ),
        ({"inlineData": {"mimeType": "image/png", "data": PIXEL}}, Media("image", "image/png", PIXEL)),
        ({"inline_data": {"mime_type": "audio/wav", "data": b"\xff"}}, Media("audio", "audio/wav", "/w==")),
        (
            {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://x"}, "videoMetadata": {"fps": 1}},
            Media("video", "video/mp4", url="gs://x"),
        ),
        (
            {"fileData": {"fileUri": "u"}, "mediaResolution": {"level": "MEDIA_RESOLUTION_ULTRA_HIGH"}},
            Media("document", url="u", detail="ultra"),
        ),
    ],
)
def test_parts_are_read(part, value):
    """Each kind of part is read in both spellings, and written as the object that it was read from."""
    (message,) = read(content("user", part))
    assert message.parts == (value,)
    assert wire.write_message(message)["parts"][0] is part


def test_roles_are_ours():
    """Model is assistant, function is tool, and a content without a role is the user's."""
    contents = [{"parts": []}, content("user"), content("model"), content("function")]
    assert [message.role for message in read(*contents)] == ["user", "user", "assistant", "tool"]


@pytest.mark.parametrize(
    ("native", "place"),
    [
        (42, "messages[0]"),
        ({"role": "assistant", "parts": []}, "messages[0].role"),
        ({"role": 1, "parts": []}, "messages[0].role"),
        ({"role": "user", "parts": "hi"}, "messages[0].parts"),
        ({"role": "user", "parts": [{"text": "a"}, {"text": 1}]}, "messages[0].parts[1].text"),
        ({"role": "user", "parts": ["a"]}, "messages[0].parts[0]"),
        ({"role": "model", "parts": [{"functionCall": {}}]}, "messages[0].parts[0].functionCall.name"),
        ({"role": "model", "parts": [{"functionCall": 1}]}, "messages[0].parts[0].functionCall"),
        (
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"x": {1}}}}]},
            "messages[0].parts[0].functionCall.args",
        ),
    ],
)
def test_what_cannot_be_read_is_named(native, place):
    """A content that cannot be read is an error that names the field."""
    with pytest.raises(InvalidInput) as caught:
        wire.read_message(native, 0)
    assert caught.value.where == place


def test_code_and_its_output_go_together():
    """Code and output without ids are paired by their order; what has no other half opens nothing."""
    code = {"executableCode": {"language": "PYTHON", "code": "1"}}
    output = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}
    (message,) = read(content("model", code, output, code))
    assert [(part.opens, part.closes) for part in message.parts] == [("code#0", None), (None, "code#0"), (None, None)]
    (named,) = read(content("model", {"toolCall": {"id": "s"}}, {"toolResponse": {"id": "s"}}))
    assert [(part.opens, part.closes) for part in named.parts] == [("s", None), (None, "s")]


def test_results_find_their_calls_by_name_and_order():
    """Calls without ids are told apart by name and place, and units hold a call with its responses."""
    calls = [{"functionCall": {"name": name}} for name in ("f", "g", "f")]
    answers = [{"functionResponse": {"name": name, "response": {"output": name}}} for name in ("g", "f", "f")]
    messages = read(content("user", {"text": "x"}), content("model", *calls), content("user", *answers))
    assert [call.id for call in messages[1].calls] == ["f#0", "g#0", "f#1"]
    assert [result.call_id for result in messages[2].results] == ["g#0", "f#0", "f#1"]
    assert broken_pair(messages, wire.rounds) is None
    assert [len(unit) for unit in units(messages)] == [1, 2]


def test_a_result_without_an_id_answers_a_call_with_one():
    """A response without an id is read under its call's id, and still goes back as the caller's own object."""
    asked = content("model", {"functionCall": {"name": "f", "id": "7"}}, {"functionCall": {"name": "g", "id": "8"}})
    answered = content("user", {"functionResponse": {"name": "g"}}, {"functionResponse": {"name": "f"}})
    call, result = read(asked, answered)
    assert [part.call_id for part in result.results] == ["8", "7"]
    assert result.untouched
    assert wire.write_message(result) is answered
    assert call is not None


def test_the_id_of_a_result_counts_more_than_its_place():
    """Responses that name their calls may come in any order."""
    asked = content("model", *({"functionCall": {"name": "f", "id": each}} for each in "12"))
    answered = content("user", *({"functionResponse": {"name": "f", "id": each}} for each in "21"))
    assert [part.call_id for part in read(asked, answered)[1].results] == ["2", "1"]


def test_the_right_number_of_results_answers_though_names_differ():
    """The provider counts responses; a response under another name belongs to the call in its place."""
    asked = content("model", {"functionCall": {"name": "f"}})
    answered = content("user", {"functionResponse": {"name": "default_api:f"}})
    messages = read(asked, answered)
    assert broken_pair(messages, wire.rounds) is None
    assert wire.write_message(messages[1]) is answered


def test_results_split_over_contents_are_paired():
    """Responses of one turn that stand in two contents answer their calls in order."""
    asked = content("model", {"functionCall": {"name": "f"}}, {"functionCall": {"name": "f"}})
    one, two = (
        content("user", {"functionResponse": {"name": "f"}}),
        content("user", {"functionResponse": {"name": "f"}}),
    )
    messages = read(asked, one, two)
    assert [message.results[0].call_id for message in messages[1:]] == ["f#0", "f#1"]


def test_calls_of_neighbouring_contents_differ():
    """Two contents of one turn do not use one made-up id twice."""
    asked = content("model", {"functionCall": {"name": "f"}})
    messages = read(asked, asked, content("user", {"functionResponse": {"name": "f"}}))
    assert [message.calls[0].id for message in messages[:2]] == ["f#0", "f#1"]
    assert wire.write_message(messages[1]) is asked


def test_an_edited_result_keeps_everything_else():
    """A response whose text was cut keeps its key, its id, its scheduling, and its content's other keys."""
    answer = {"functionResponse": {"id": "7", "name": "f", "response": {"result": "long"}, "scheduling": "SILENT"}}
    native = content("function", answer, {"text": "also"}) | {"note": 1}
    (message,) = read(native)
    short = evolve(message.results[0], content=(Text("cut"),))
    written = wire.write_message(edited(message, message.results[0], short))
    assert written["parts"][0]["functionResponse"] == {**answer["functionResponse"], "response": {"result": "cut"}}
    assert written["parts"][1] is native["parts"][1]
    assert (written["role"], written["note"]) == ("function", 1)
    assert answer["functionResponse"]["response"] == {"result": "long"}


@pytest.mark.parametrize(
    ("response", "text", "expected"),
    [
        ({"a": 1, "b": "x"}, "cut", {"output": "cut"}),
        ({"a": 1, "b": "x"}, '{"a": 2}', {"a": 2}),
        ({"output": "long"}, "", {"output": ""}),
        ({"output": "long"}, '{"a": 2}', {"output": '{"a": 2}'}),
        ({"error": "long"}, "cut", {"error": "cut"}),
        (None, "now", {"output": "now"}),
    ],
)
def test_an_edited_response_stays_an_object(response, text, expected):
    """Whatever a response was, what is sent instead is an object that says the new text."""
    (message,) = read(content("user", {"functionResponse": {"name": "f", "response": response}}))
    (result,) = message.results
    written = wire.write_message(edited(message, result, evolve(result, content=(Text(text),))))
    assert written["parts"][0]["functionResponse"]["response"] == expected


def test_pictures_of_a_response_are_its_parts():
    """Media that go with a response are read as its content, and stay when its text is cut."""
    picture = {"inlineData": {"mimeType": "image/png", "data": PIXEL}}
    answer = {"functionResponse": {"name": "f", "response": {"output": "long"}, "parts": [picture]}}
    (message,) = read(content("user", answer))
    (result,) = message.results
    assert result.content == (Text("long"), Media("image", "image/png", PIXEL))
    cut = evolve(result, content=(Text("cut"), result.content[1]))
    written = wire.write_message(edited(message, result, cut))["parts"][0]["functionResponse"]
    assert (written["response"], written["parts"][0]) == ({"output": "cut"}, picture)
    bare = wire.write_message(edited(message, result, evolve(result, content=())))["parts"][0]["functionResponse"]
    assert bare == {"name": "f", "response": {"output": ""}}


def test_a_signature_stays_on_its_part():
    """A signed call keeps its signature beside an edited part; edited text loses the signature of other words."""
    native = content("model", {"text": "old", "thoughtSignature": "U1Q="}, CALL)
    (message,) = read(native)
    written = wire.write_message(edited(message, message.parts[0], Text("new", source=message.parts[0].source)))
    assert written == content("model", {"text": "new"}, CALL)
    assert written["parts"][1] is CALL


def test_messages_made_from_scratch():
    """Each kind of part has a canonical form; ids that were made up are not written."""
    parts = (
        Text("x"),
        Thinking("t", "UzE="),
        ToolCall("f#0", "f", '{"a": 1}', "UzI="),
        ToolCall("id", "f", "{}"),
        Media("image", "image/png", PIXEL),
        Media("video", url="gs://x"),
        Opaque("new", {"new": {}}),
    )
    assert wire.write_message(Message("assistant", parts)) == content(
        "model",
        {"text": "x"},
        {"text": "t", "thought": True, "thoughtSignature": "UzE="},
        {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "UzI="},
        {"functionCall": {"name": "f", "args": {}, "id": "id"}},
        {"inlineData": {"mimeType": "image/png", "data": PIXEL}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://x"}},
        {"new": {}},
    )
    with pytest.raises(InvalidInput):
        wire.write_message(Message("user", (Media("image"),)))


def test_lost_results_are_answered_in_one_content():
    """All calls are answered by one user content of errors, with the ids that they have."""
    (made,) = wire.synthetic_result([ToolCall("f#0", "f", "{}"), ToolCall("7", "g", "{}")], "lost")
    assert wire.write_message(made) == content(
        "user",
        {"functionResponse": {"name": "f", "response": {"error": "lost"}}},
        {"functionResponse": {"name": "g", "response": {"error": "lost"}, "id": "7"}},
    )
    assert wire.synthetic_result([], "lost") == ()


@pytest.mark.parametrize(
    "native",
    ["be brief", {"parts": [{"text": "be brief"}]}, {"text": "be brief"}, ["be ", {"text": "brief"}]],
)
def test_system_instructions(native):
    """A system instruction may be a string, a content, a part or a list of them."""
    assert wire.read_system(native).text == "be brief"
    assert wire.read_system(None) is None


def test_an_unreadable_system_instruction_is_named():
    """A system instruction that cannot be read is an error that says so."""
    with pytest.raises(InvalidInput, match="system"):
        wire.read_system({"parts": [{"text": 1}]})


def test_tools():
    """Each declared function is a tool, and each built-in tool is one."""
    declared = [{"name": "f", "description": "F", "parameters": {"type": "object"}}, {"name": "g"}]
    tools = wire.read_tools([{"functionDeclarations": declared}, {"googleSearch": {}}])
    assert [tool.name for tool in tools] == ["f", "g", "googleSearch"]
    assert tools[0].parameters == {"type": "object"}
    assert tools[1].source == {"functionDeclarations": [{"name": "g"}]}
    assert wire.read_tools(None) == ()


def test_a_python_function_is_a_tool():
    """The SDK takes plain functions; they are read by name and docstring."""

    def weather(city: str) -> str:
        """Tells the weather."""
        return city

    (tool,) = wire.read_tools([weather])
    assert (tool.name, tool.description, tool.source) == ("weather", "Tells the weather.", weather)


@pytest.mark.parametrize(
    ("request_", "surely"),
    [
        ({"contents": [content("user", {"text": "x"})]}, True),
        ({"messages": [content("user", {"text": "x"})]}, True),
        ({"messages": [types.UserContent("x")]}, True),
        ({"contents": "x"}, True),
        ({"contents": []}, True),
        ({"messages": [{"role": "user", "content": "x"}]}, False),
        ({"messages": [{"role": "user", "content": [{"text": "x"}]}]}, False),
        ({"messages": []}, False),
        ({"messages": 1}, False),
        ({"contents": [1]}, False),
    ],
)
def test_recognised(request_, surely):
    """Contents with parts are this format, messages with content are not."""
    assert bool(wire.recognises(request_)) is surely


@given(plans("gemini"), st.booleans(), st.booleans())
def test_what_nobody_touched_goes_back(plan, call_ids, result_ids):
    """Every content is written as the object that it was read from, and its pairs are whole, with ids or without."""
    writer = GeminiWriter(call_ids=call_ids, result_ids=call_ids and result_ids)
    natives = writer.messages([turn for turn in plan.turns if turn.role != "system"])
    messages = read(*natives)
    assert all(wire.write_message(message) is native for message, native in zip(messages, natives, strict=True))
    rewritten = [wire.write_message(message.with_parts(tuple(part for part in message.parts))) for message in messages]
    assert all(new is native for new, native in zip(rewritten, natives, strict=True))
    if not any(call_ids and len({call.id for call in message.calls}) < len(message.calls) for message in messages):
        assert broken_pair(messages, wire.rounds) is None


PLAIN = {str: "x", bytes: b"\xffx", bool: True, int: 1, float: 0.5, dict: {"key": "value"}}


def sample(annotation: Any, depth: int = 0) -> Any:
    """A value of an SDK's own type, with everything set that is not too deep."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType):
        return sample(next(kind for kind in inner if kind is not NoneType), depth)
    if origin is list:
        return [sample(inner[0], depth + 1)]
    if origin is Literal:
        return inner[0]
    return sample_of_class(origin or annotation, depth)


def sample_of_class(kind: Any, depth: int) -> Any:
    """A value of a class: a model with its fields, a member of an enumeration, a plain value."""
    if isinstance(kind, type) and issubclass(kind, BaseModel):
        chosen = {} if depth > 3 else kind.model_fields
        return kind(**{name: sample(field.annotation, depth + 1) for name, field in chosen.items()})
    if isinstance(kind, type) and issubclass(kind, Enum):
        return list(kind)[-1]
    return PLAIN.get(kind, "x")


@pytest.mark.parametrize("name", [name for name in types.Part.model_fields if name != "thought_signature"])
def test_every_part_of_the_sdk_goes_back_as_it_came(name):
    """Each kind of part of the SDK is read and written as the same object, and its content after an edit is valid."""
    part = types.Part(**{name: sample(types.Part.model_fields[name].annotation)}, thought_signature=b"sig")
    answer = types.Part.from_function_response(name="f", response={"output": "long"})
    native = types.Content(role="user", parts=[part, answer])
    (message,) = read(native)
    assert wire.write_message(message) is native
    result = message.results[-1]
    written = wire.write_message(edited(message, result, evolve(result, content=(Text("cut"),))))
    assert written["parts"][0] is part
    sent = types.Content.model_validate(written)
    assert sent.parts[0] == part
    assert sent.parts[1].function_response.response == {"output": "cut"}


def test_an_edited_call_of_the_sdk_is_accepted():
    """Arguments that were cut are sent within the SDK's own call, under its signature."""
    part = types.Part(function_call=types.FunctionCall(name="f", id="7", args={"a": "long"}), thought_signature=b"\xff")
    (message,) = read(types.Content(role="model", parts=[part]))
    (call,) = message.calls
    assert call.signature == base64.b64encode(b"\xff").decode()
    written = wire.write_message(edited(message, call, evolve(call, arguments=json.dumps({"a": "cut"}))))
    (sent,) = types.Content.model_validate(written).parts
    assert (sent.function_call.args, sent.function_call.id, sent.thought_signature) == ({"a": "cut"}, "7", b"\xff")
