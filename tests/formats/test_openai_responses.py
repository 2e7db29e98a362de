"""Items of the Responses API, read and written."""

import copy

import pytest
from hypothesis import given, strategies as st

from agentctx import InvalidInput, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult, units
from agentctx.formats.openai_responses import Responses
from agentctx.formats.registry import detect, format_named
from agentctx.rules import find_violations

WIRE = format_named("openai-responses")
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
DATA_URL = f"data:image/png;base64,{PNG}"

ITEMS = {
    "easy": {"role": "user", "content": "hi"},
    "blocks": {
        "type": "message",
        "role": "user",
        "content": [
            {"type": "input_text", "text": "see", "prompt_cache_breakpoint": {"mode": "explicit"}},
            {"type": "input_image", "image_url": DATA_URL, "detail": "low"},
            {"type": "input_image", "file_id": "file-1", "detail": "auto"},
            {"type": "input_file", "file_data": "JVBERi0=", "filename": "a.pdf"},
            {"type": "input_file", "file_url": "https://example.com/a.pdf"},
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
            {"type": "block_of_tomorrow", "x": 1},
        ],
    },
    "developer": {"role": "developer", "content": [{"type": "input_text", "text": "be brief"}]},
    "answer": {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "phase": "commentary",
        "content": [
            {"type": "output_text", "text": "yo", "annotations": [{"type": "url_citation", "start_index": 0}]},
            {"type": "refusal", "refusal": "no"},
        ],
    },
    "reasoning": {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "think"}],
        "encrypted_content": "RQ==",
    },
    "call": {"type": "function_call", "id": "fc_1", "call_id": "c1", "name": "f", "arguments": "{}", "namespace": "n"},
    "output": {"type": "function_call_output", "call_id": "c1", "output": "ok", "status": "completed"},
    "output blocks": {
        "type": "function_call_output",
        "call_id": "c1",
        "output": [{"type": "input_text", "text": "a"}, {"type": "input_image", "image_url": DATA_URL}],
    },
    "custom": {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** Begin", "status": "done"},
    "custom output": {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"},
    "local shell": {
        "type": "local_shell_call",
        "id": "lsh_1",
        "call_id": "c1",
        "status": "completed",
        "action": {"type": "exec", "command": ["ls"], "env": {}},
    },
    "local shell output": {"type": "local_shell_call_output", "id": "c1", "output": '{"stdout": "x"}'},
    "shell": {"type": "shell_call", "call_id": "c1", "action": {"commands": ["ls"]}},
    "shell output": {
        "type": "shell_call_output",
        "call_id": "c1",
        "output": [
            {"stdout": "a", "stderr": "", "outcome": {"type": "exit", "exit_code": 0}},
            {"stdout": "b", "stderr": "c", "outcome": {"type": "timeout"}},
        ],
    },
    "patch": {
        "type": "apply_patch_call",
        "call_id": "c1",
        "status": "completed",
        "operation": {"type": "delete_file", "path": "x"},
    },
    "patch output": {"type": "apply_patch_call_output", "call_id": "c1", "status": "failed", "output": "no such file"},
    "computer": {
        "type": "computer_call",
        "id": "cu_1",
        "call_id": "c1",
        "status": "completed",
        "pending_safety_checks": [],
        "action": {"type": "wait"},
    },
    "computer output": {
        "type": "computer_call_output",
        "call_id": "c1",
        "output": {"type": "computer_screenshot", "image_url": DATA_URL},
        "acknowledged_safety_checks": [{"id": "s1"}],
    },
    "search": {"type": "tool_search_call", "call_id": "c1", "execution": "client", "arguments": {"q": ["x"]}},
    "search output": {"type": "tool_search_output", "call_id": "c1", "execution": "client", "tools": [{"name": "t"}]},
    "server search": {"type": "tool_search_call", "call_id": None, "execution": "server", "arguments": {}},
    "approval": {
        "type": "mcp_approval_request",
        "id": "mcpr_1",
        "name": "rm",
        "arguments": "{}",
        "server_label": "files",
    },
    "approved": {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": True},
    "picture": {"type": "image_generation_call", "id": "ig_1", "status": "completed", "result": PNG},
    "web search": {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
    "mcp": {"type": "mcp_call", "id": "mcp_1", "name": "f", "arguments": "{}", "server_label": "s", "output": "o"},
    "program": {"type": "program", "id": "p_1", "call_id": "c2", "code": "x", "fingerprint": "F"},
    "program output": {"type": "program_output", "id": "p_2", "call_id": "c2", "result": "1", "status": "completed"},
    "compaction": {"type": "compaction", "id": "cmp_1", "encrypted_content": "C"},
    "tools": {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "f"}]},
    "tomorrow": {"type": "item_of_tomorrow", "words": "x"},
}


def read(*items):
    """Items as messages."""
    return [WIRE.read_message(item, index) for index, item in enumerate(items)]


def one(name):
    """One of the items above as a message."""
    return WIRE.read_message(ITEMS[name], 0)


def spans(*names):
    """Where the units of some of the items above begin and end."""
    return [(unit.start, unit.stop) for unit in units(read(*(ITEMS[name] for name in names)))]


@pytest.mark.parametrize("item", ITEMS.values(), ids=ITEMS)
def test_an_item_goes_through_untouched(item):
    """What nobody touched is written as the caller's own object, and is as it was."""
    before = copy.deepcopy(item)
    assert WIRE.write_message(WIRE.read_message(item, 0)) is item
    assert before == item


@pytest.mark.parametrize("item", ITEMS.values(), ids=ITEMS)
def test_an_item_written_anew_says_the_same(item):
    """An item written from equal parts is an equal item."""
    message = WIRE.read_message(item, 0)
    assert item == WIRE.write_message(message.with_parts((*message.parts,)))


@pytest.mark.parametrize(
    ("name", "role", "parts"),
    [
        ("easy", "user", (Text("hi"),)),
        ("developer", "developer", (Text("be brief"),)),
        ("reasoning", "assistant", (Thinking("think", "rs_1", "RQ=="),)),
        ("call", "assistant", (ToolCall("c1", "f", "{}"),)),
        ("custom", "assistant", (ToolCall("c1", "patch", "*** Begin"),)),
        ("shell", "assistant", (ToolCall("c1", "shell", '{"commands":["ls"]}'),)),
        ("approval", "assistant", (ToolCall("mcpr_1", "rm", "{}"),)),
        ("output", "tool", (ToolResult("c1", (Text("ok"),)),)),
        ("local shell output", "tool", (ToolResult("c1", (Text('{"stdout": "x"}'),)),)),
        ("shell output", "tool", (ToolResult("c1", (Text("a"), Text("b"), Text("c"))),)),
        ("patch output", "tool", (ToolResult("c1", (Text("no such file"),), is_error=True),)),
        ("computer output", "tool", (ToolResult("c1", ()), Media("image", "image/png", PNG))),
        ("web search", "assistant", (Opaque("web_search_call", ITEMS["web search"]),)),
        ("program", "assistant", (Opaque("program", ITEMS["program"], opens="c2"),)),
        ("program output", "assistant", (Opaque("program_output", ITEMS["program output"], closes="c2"),)),
        ("compaction", "developer", (Opaque("compaction", ITEMS["compaction"]),)),
        ("tomorrow", "assistant", (Opaque("item_of_tomorrow", ITEMS["tomorrow"]),)),
    ],
)
def test_an_item_is_one_message(name, role, parts):
    """Each kind of item becomes the message that says the same."""
    message = one(name)
    assert (role, parts) == (message.role, message.parts)


def test_media_is_read_where_it_is():
    """Pictures, files and sounds are read with their kind, their content or place, and the wish for detail."""
    found = [part for part in one("blocks").parts if isinstance(part, Media)]
    assert [part.kind for part in found] == ["image", "image", "document", "document", "audio"]
    assert [part.url for part in found] == [None, "file-1", None, "https://example.com/a.pdf", None]
    assert found[0].detail == "low"


def test_a_generated_picture_is_a_picture():
    """The base64 of a generated picture is media and no text."""
    opaque, picture = one("picture").parts
    assert "result" not in opaque.data
    assert picture == Media("image", "image/png", PNG)


@pytest.mark.parametrize("name", ["output", "custom output", "local shell output", "patch output", "shell output"])
def test_editing_an_output_keeps_all_else(name):
    """A shortened result is written into its own item, whose other keys stay, and is read as it was written."""
    message = one(name)
    (result,) = message.parts
    shorter = message.with_parts((ToolResult(result.call_id, (Text("cut"),), is_error=result.is_error),))
    written = WIRE.write_message(shorter)
    assert {key: value for key, value in ITEMS[name].items() if key != "output"} == {
        key: value for key, value in written.items() if key != "output"
    }
    assert WIRE.read_message(written, 0).parts[0].content == (Text("cut"),)


def test_editing_one_stream_of_a_shell_keeps_the_others():
    """Texts of a shell's output go back into the streams that they came from."""
    (result,) = one("shell output").parts
    content = (Text("a"), Text("B"), Text("c"))
    written = WIRE.write_message(one("shell output").with_parts((ToolResult("c1", content),)))
    first, second = ITEMS["shell output"]["output"]
    assert result.text == "abc"
    assert [first, {**second, "stdout": "B"}] == written["output"]


def test_editing_a_block_keeps_the_others():
    """Blocks that still say the same are written as the caller's own objects."""
    message = one("output blocks")
    (result,) = message.parts
    cut = Text("cut", source=result.content[0].source)
    written = WIRE.write_message(message.with_parts((ToolResult("c1", (cut, result.content[1])),)))
    assert written["output"][0] == {"type": "input_text", "text": "cut"}
    assert written["output"][1] is ITEMS["output blocks"]["output"][1]


def test_edited_words_lose_what_was_said_about_their_characters():
    """Citations point at characters: they go when the text is another; id and phase stay."""
    message = one("answer")
    written = WIRE.write_message(message.with_parts((Text("cut", source=message.parts[0].source), message.parts[1])))
    assert written["content"][0] == {"type": "output_text", "text": "cut", "annotations": []}
    assert (written["id"], written["phase"]) == ("msg_1", "commentary")


@pytest.mark.parametrize(
    ("name", "arguments", "key", "expected"),
    [
        ("call", '{"a": 1}', "arguments", '{"a": 1}'),
        ("custom", "*** End", "input", "*** End"),
        ("shell", '{"commands": ["pwd"]}', "action", {"commands": ["pwd"]}),
        ("search", '{"q": []}', "arguments", {"q": []}),
        ("shell", "no json", "action", {"commands": ["ls"]}),
    ],
)
def test_edited_arguments_go_where_they_came_from(name, arguments, key, expected):
    """Arguments are text or JSON as they were before, and the item's other keys stay."""
    (call,) = one(name).parts
    edited = one(name).with_parts((ToolCall(call.id, call.name, arguments, source=call.source),))
    assert {**ITEMS[name], key: expected} == WIRE.write_message(edited)


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (Message("user", (Text("hi"),)), {"role": "user", "content": "hi"}),
        (
            Message("user", (Text("see"), Media("image", url="https://x/y.png"))),
            {
                "role": "user",
                "content": [
                    {"type": "input_text", "text": "see"},
                    {"type": "input_image", "image_url": "https://x/y.png", "detail": "auto"},
                ],
            },
        ),
        (
            Message("assistant", (Text("a"), Text("b"))),
            {
                "role": "assistant",
                "content": [
                    {"type": "output_text", "text": "a", "annotations": []},
                    {"type": "output_text", "text": "b", "annotations": []},
                ],
            },
        ),
        (
            Message("assistant", (ToolCall("c", "f", "{}"),)),
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
        ),
        (
            Message("tool", (ToolResult("c", (Text("ok"),)),)),
            {"type": "function_call_output", "call_id": "c", "output": "ok"},
        ),
        (
            Message("assistant", (Thinking("t", "rs_1", "E"),)),
            {
                "type": "reasoning",
                "summary": [{"type": "summary_text", "text": "t"}],
                "id": "rs_1",
                "encrypted_content": "E",
            },
        ),
    ],
)
def test_messages_made_from_scratch(message, expected):
    """A message without a native item is written in the plainest form, and is read as what it was."""
    written = WIRE.write_message(message)
    assert expected == written
    assert message == WIRE.read_message(written, 0)


@pytest.mark.parametrize(
    "parts",
    [(Text("a"), ToolCall("c", "f", "{}")), (Thinking("a", "s"), Thinking("b", "s")), (Media("video", url="u"),)],
)
def test_what_no_item_can_hold_is_refused(parts):
    """Words beside a call, two thoughts in one message, and films have no item."""
    with pytest.raises(InvalidInput):
        WIRE.write_message(Message("assistant", parts))


@pytest.mark.parametrize(
    ("native", "where"),
    [
        ({"type": "item_reference", "id": "rs_1"}, "messages[0]"),
        ({"id": "rs_1"}, "messages[0]"),
        ({"role": "tool", "content": "x"}, "messages[0].role"),
        ({"type": "message", "content": "x"}, "messages[0].role"),
        ({"content": "x"}, "messages[0].type"),
        ({"type": 5}, "messages[0].type"),
        ({"role": "user", "content": 5}, "messages[0].content"),
        ({"role": "user", "content": [{"type": "input_text"}]}, "messages[0].content[0].text"),
        ({"type": "function_call", "name": "f", "arguments": "{}"}, "messages[0].call_id"),
        ({"type": "function_call", "call_id": "c", "arguments": "{}"}, "messages[0].name"),
        ({"type": "function_call", "call_id": "c", "name": "f", "arguments": {}}, "messages[0].arguments"),
        ({"type": "custom_tool_call_output", "output": "x"}, "messages[0].call_id"),
        ({"type": "function_call_output", "call_id": "c", "output": 5}, "messages[0].output"),
        (5, "messages[0]"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_place(native, where):
    """An item that cannot be read is an error that names the item and the field."""
    with pytest.raises(InvalidInput) as caught:
        WIRE.read_message(native, 0)
    assert caught.value.where == where


def test_what_only_the_provider_has_is_refused_with_advice():
    """References and chains are refused, and the error says what to send instead."""
    with pytest.raises(InvalidInput, match=r"reasoning\.encrypted_content"):
        WIRE.read_message({"type": "item_reference", "id": "rs_1"}, 0)
    for key in ("previous_response_id", "conversation"):
        with pytest.raises(InvalidInput, match="store=False") as caught:
            Responses().read({key: "x", "input": "hi"})
        assert caught.value.where == key


def test_an_input_of_words_alone_is_a_message_of_the_user():
    """A string as input is what the user says; anything else but a list is refused."""
    assert Responses().read({"input": "hi"}).messages == [{"role": "user", "content": "hi"}]
    assert Responses().read({"input": [ITEMS["call"]]}).messages == [ITEMS["call"]]
    with pytest.raises(InvalidInput):
        Responses().read({"input": 5})


def test_a_tool_may_speak_without_being_asked():
    """An output that names a tool and no call is carried along."""
    item = {"type": "function_call_output", "name": "watcher", "output": "news"}
    message = WIRE.read_message(item, 0)
    assert message.results == ()
    assert WIRE.write_message(message.with_parts((*message.parts,))) is item


def test_reasoning_binds_what_the_model_does_after_it():
    """Reasoning, the calls after it and all their outputs are one unit, up to a message or a new thought."""
    second = {**ITEMS["call"], "call_id": "c9", "id": "fc_9"}
    answer = {**ITEMS["output"], "call_id": "c9"}
    items = [ITEMS["reasoning"], ITEMS["call"], ITEMS["output"], second, answer, ITEMS["answer"]]
    assert [(unit.start, unit.stop) for unit in units(read(*items))] == [(0, 5), (5, 6)]
    again = {**ITEMS["reasoning"], "id": "rs_2"}
    items = [ITEMS["reasoning"], ITEMS["call"], ITEMS["output"], again, second, answer]
    assert [(unit.start, unit.stop) for unit in units(read(*items))] == [(0, 3), (3, 6)]


def test_pairs_of_every_kind_are_units():
    """Each call and its answer stand or fall together, without words in between."""
    for name in ("call", "custom", "local shell", "shell", "patch", "computer"):
        answer = "output" if name == "call" else f"{name} output"
        assert spans("easy", name, answer, "easy") == [(0, 1), (1, 3), (3, 4)]
    assert spans("search", "search output", "easy") == [(0, 2), (2, 3)]
    assert spans("approval", "approved", "easy") == [(0, 2), (2, 3)]
    assert spans("program", "call", "output", "program output", "easy") == [(0, 4), (4, 5)]
    late = units(read(*map(ITEMS.__getitem__, ("call", "developer", "output", "easy"))))
    assert [tuple(unit.places) for unit in late] == [(0, 2), (1,), (3,)]


@pytest.mark.parametrize("name", ["call", "custom", "local shell", "shell", "patch", "computer", "search", "approval"])
def test_a_lost_answer_is_of_the_kind_of_its_call(name):
    """A made answer pairs with its call, breaks no rule, and says what happened where its kind has words."""
    (call,) = one(name).parts
    (made,) = WIRE.synthetic_result([call], "interrupted")
    native = WIRE.write_message(made)
    violations = find_violations(WIRE, {"input": [ITEMS["easy"], ITEMS[name], native]})
    assert [str(violation) for violation in violations] == []
    assert made.results[0].call_id == call.id
    assert "interrupted" in str(native) or name in {"computer", "search"}


def test_a_made_call_is_answered_as_a_function():
    """A call that was made by hand is answered by a function's output."""
    (made,) = WIRE.synthetic_result([ToolCall("c", "f", "{}")], "gone")
    assert WIRE.write_message(made) == {"type": "function_call_output", "call_id": "c", "output": "gone"}


def test_instructions_are_the_system_prompt():
    """Instructions are a string, blocks or messages; none are None; anything else is refused."""
    assert WIRE.read_system("be brief").parts == (Text("be brief"),)
    assert WIRE.read_system([ITEMS["developer"], {"type": "input_text", "text": "x"}]).text == "be briefx"
    assert WIRE.read_system(None) is None
    with pytest.raises(InvalidInput):
        WIRE.read_system(5)


def test_tools_are_read_by_their_kind():
    """Functions have a schema, custom tools a grammar, hosted tools their definition alone."""
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: x"}
    function, custom, hosted = WIRE.read_tools(
        [
            {"type": "function", "name": "f", "description": "d", "parameters": {"type": "object"}},
            {"type": "custom", "name": "patch", "format": grammar},
            {"type": "web_search"},
        ]
    )
    assert (function.name, function.description, function.parameters) == ("f", "d", {"type": "object"})
    assert (custom.name, custom.parameters) == ("patch", grammar)
    assert (hosted.name, hosted.source) == ("", {"type": "web_search"})
    with pytest.raises(InvalidInput) as caught:
        WIRE.read_tools([{"type": "function"}])
    assert caught.value.where == "tools[0].name"


@pytest.mark.parametrize(
    "request_",
    [
        {"input": "hi"},
        {"input": [ITEMS["easy"]], "instructions": "be brief"},
        {"messages": [ITEMS["easy"], ITEMS["reasoning"]]},
        {"messages": [ITEMS["easy"], ITEMS["call"]]},
        {"messages": [ITEMS["blocks"]]},
        {"messages": [{"role": "developer", "content": [{"type": "input_text", "text": "x"}]}]},
        {"messages": [ITEMS["easy"]], "tools": [{"type": "function", "name": "f", "parameters": {}}]},
        {"input": [ITEMS["easy"]], "tools": [{"type": "web_search"}]},
    ],
)
def test_a_request_is_recognised(request_):
    """Items, blocks, flat tools and the key ``input`` show that a request is in this format."""
    assert detect(request_) is WIRE


@pytest.mark.parametrize(
    "request_",
    [
        {"messages": [{"role": "tool", "tool_call_id": "c", "content": "x"}]},
        {"messages": [{"role": "assistant", "content": None, "tool_calls": []}]},
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "x"}]}]},
        {"messages": [ITEMS["easy"]], "tools": [{"type": "function", "function": {"name": "f"}}]},
        {"messages": [ITEMS["easy"]], "tools": [{"name": "f", "input_schema": {}}]},
        {"contents": [{"role": "user", "parts": [{"text": "x"}]}]},
        {"messages": "x"},
        {"messages": [5]},
        {},
    ],
)
def test_requests_of_other_formats_are_impossible(request_):
    """Messages and tools of other formats are never taken for items."""
    assert WIRE.recognises(request_) == 0


WORDS = st.one_of(st.text(max_size=20), st.sampled_from(["", " ", "🏳️‍🌈", "\ud800"]))
CONTENTS = st.one_of(
    WORDS,
    st.lists(
        st.one_of(
            st.builds(lambda text: {"type": "input_text", "text": text, "extra": 1}, WORDS),
            st.just({"type": "input_image", "image_url": DATA_URL}),
            st.just({"type": "tomorrow", "x": [1]}),
        ),
        max_size=3,
    ),
)


@given(CONTENTS, WORDS)
def test_any_output_is_edited_in_place(output, words):
    """Whatever an output was, an edited one is read as what it shall say, and its other keys stay."""
    item = {"type": "function_call_output", "call_id": "c", "output": output, "extra": "kept"}
    message = WIRE.read_message(item, 0)
    assert WIRE.write_message(message) is item
    edited = message.with_parts((ToolResult("c", (Text(words),)),))
    written = WIRE.write_message(edited)
    assert WIRE.read_message(written, 0) == edited
    assert written["extra"] == "kept"
