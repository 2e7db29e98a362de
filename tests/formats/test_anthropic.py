"""Reading and writing the Anthropic Messages format."""

import copy
import json

import pytest
from attrs import evolve
from hypothesis import given, strategies as st

from agentctx import InvalidInput, Media, Message, Opaque, Text, Thinking, ToolCall, ToolResult
from agentctx.formats.anthropic import Anthropic
from agentctx.wire_format import WireFormat

wire: WireFormat = Anthropic()

PNG = {"type": "base64", "media_type": "image/png", "data": "AA=="}
MARKER = {"type": "ephemeral"}

# Each block with the part that it is read as.
BLOCKS = [
    ({"type": "text", "text": "hi", "citations": [{"cited_text": "x"}]}, Text("hi")),
    ({"type": "image", "source": PNG}, Media("image", "image/png", "AA==")),
    ({"type": "image", "source": {"type": "url", "url": "https://e/x.png"}}, Media("image", url="https://e/x.png")),
    ({"type": "image", "source": {"type": "file", "file_id": "file_1"}}, Media("image", url="file_1")),
    (
        {"type": "document", "title": "t", "source": {**PNG, "media_type": "application/pdf"}},
        Media("document", "application/pdf", "AA==", words="t"),
    ),
    ({"type": "tool_use", "id": "t1", "name": "f", "input": {"é": 1}}, ToolCall("t1", "f", '{"é": 1}')),
    ({"type": "tool_use", "id": "t1", "name": "f", "input": "{}"}, ToolCall("t1", "f", '"{}"')),
    ({"type": "tool_result", "tool_use_id": "t1"}, ToolResult("t1", ())),
    ({"type": "tool_result", "tool_use_id": "t1", "content": ""}, ToolResult("t1", ())),
    (
        {"type": "tool_result", "tool_use_id": "t1", "content": "no", "is_error": True},
        ToolResult("t1", (Text("no"),), is_error=True),
    ),
    (
        {
            "type": "tool_result",
            "tool_use_id": "t1",
            "content": [{"type": "text", "text": "a"}, {"type": "image", "source": PNG}],
        },
        ToolResult("t1", (Text("a"), Media("image", "image/png", "AA=="))),
    ),
    ({"type": "thinking", "thinking": "hm", "signature": "S"}, Thinking("hm", "S")),
    ({"type": "redacted_thinking", "data": "Z"}, Thinking("", encrypted="Z")),
]

SERVER_CALLS = ["server_tool_use", "mcp_tool_use"]
SERVER_RESULTS = [
    "web_search_tool_result",
    "web_fetch_tool_result",
    "code_execution_tool_result",
    "bash_code_execution_tool_result",
    "text_editor_code_execution_tool_result",
    "mcp_tool_result",
    "tool_search_tool_result",
    "advisor_tool_result",
]
OPAQUE = [
    {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "x"}]},
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "words"}},
    {"type": "document", "source": {"type": "content", "content": "words"}},
    {"type": "container_upload", "file_id": "file_1"},
    {"type": "compaction", "content": "summary", "signature": "S"},
    {"type": "tool_reference", "tool_name": "f"},
    {"type": "of_the_future", "anything": [1, None]},
]


class Dumped:
    """An object as the provider's SDK returns them."""

    def __init__(self, **fields):
        self.fields = fields

    def model_dump(self, **_):
        return copy.deepcopy(self.fields)


def message(*blocks, role="user", **more):
    """A native message of blocks."""
    return {"role": role, "content": list(blocks), **more}


def read(*blocks, role="user", **more):
    """A message of blocks, read."""
    return wire.read_message(message(*blocks, role=role, **more), 0)


@pytest.mark.parametrize(("block", "part"), BLOCKS)
def test_a_block_is_read_as_its_part(block, part):
    """Each kind of block is read as the part that says the same, and the part remembers it."""
    (found,) = read(block).parts
    assert part == found
    assert found.source is block


@pytest.mark.parametrize("block", OPAQUE)
def test_a_block_that_is_not_understood_is_opaque(block):
    """A block that we do not understand is kept as it is."""
    (found,) = read(block).parts
    assert Opaque(block["type"], block) == found
    assert found.source is block


@pytest.mark.parametrize("kind", SERVER_CALLS)
def test_a_server_call_opens(kind):
    """The call of a server tool says which id it opens."""
    (found,) = read({"type": kind, "id": "srvtoolu_1", "name": "x", "input": {}}, role="assistant").parts
    assert (found.opens, found.closes) == ("srvtoolu_1", None)


@pytest.mark.parametrize("kind", SERVER_RESULTS)
def test_a_server_result_closes(kind):
    """The result of a server tool says which id it closes."""
    (found,) = read({"type": kind, "tool_use_id": "srvtoolu_1", "content": []}, role="assistant").parts
    assert (found.opens, found.closes) == (None, "srvtoolu_1")


@pytest.mark.parametrize("content", ["hi", "", [], [{"type": "text", "text": "hi"}], ({"type": "text", "text": "hi"},)])
def test_an_untouched_message_goes_back_itself(content):
    """What was read and not touched is written as the caller's own object."""
    native = {"role": "user", "content": content, "unknown": 1}
    assert native is wire.write_message(wire.read_message(native, 0))


def test_an_sdk_object_goes_back_itself():
    """A message that is an SDK object is read, and goes back as that object."""
    native = Dumped(role="assistant", content=[{"type": "text", "text": "hi"}])
    found = wire.read_message(native, 0)
    assert (Text("hi"),) == found.parts
    assert native is wire.write_message(found)


def test_an_edited_sdk_object_becomes_a_dict():
    """An SDK object that was edited is written as a dict with its other fields."""
    native = Dumped(role="assistant", content=[{"type": "text", "text": "hi"}], id="msg_1")
    found = wire.read_message(native, 0)
    edited = wire.write_message(found.with_parts((evolve(found.parts[0], text="ho"),)))
    assert edited == {"role": "assistant", "content": [{"type": "text", "text": "ho"}], "id": "msg_1"}


def test_sdk_blocks_in_a_dict_go_back_themselves():
    """A block that is an SDK object stays that object while another block is edited."""
    thinking = Dumped(type="thinking", thinking="hm", signature="S")
    found = read(thinking, {"type": "text", "text": "hi"}, role="assistant")
    written = wire.write_message(found.with_parts((found.parts[0], Text("ho"))))
    assert thinking is written["content"][0]


@pytest.mark.parametrize(
    ("native", "where"),
    [
        ("hi", "messages[7]"),
        ({"role": "robot", "content": "hi"}, "messages[7].role"),
        ({"role": ["user"], "content": "hi"}, "messages[7].role"),
        ({"role": "user"}, "messages[7].content"),
        ({"role": "user", "content": 3}, "messages[7].content"),
        (message("hi"), "messages[7].content[0]"),
        (message({"text": "hi"}), "messages[7].content[0].type"),
        (message({"type": "text", "text": "a"}, {"type": "text"}), "messages[7].content[1].text"),
        (message({"type": "tool_use", "name": "f", "input": {}}), "messages[7].content[0].id"),
        (message({"type": "tool_use", "id": "t", "input": {}}), "messages[7].content[0].name"),
        (message({"type": "tool_use", "id": "t", "name": "f", "input": {1, 2}}), "messages[7].content[0].input"),
        (message({"type": "tool_result"}), "messages[7].content[0].tool_use_id"),
        (message({"type": "tool_result", "tool_use_id": "t", "content": 1}), "messages[7].content[0].content"),
        (
            message({"type": "tool_result", "tool_use_id": "t", "content": [{"type": "text"}]}),
            "messages[7].content[0].content[0].text",
        ),
        (message({"type": "thinking", "signature": "S"}), "messages[7].content[0].thinking"),
        (message({"type": "redacted_thinking"}), "messages[7].content[0].data"),
    ],
)
def test_what_cannot_be_read_is_named(native, where):
    """A message that cannot be read is an error that names the place."""
    with pytest.raises(InvalidInput) as caught:
        wire.read_message(native, 7)
    assert where == caught.value.where


def test_only_the_edited_block_is_new():
    """Of an edited message every block that says the same goes back as the same object."""
    blocks = [copy.deepcopy(block) for block, _ in BLOCKS]
    found = read(*blocks)
    edited = wire.write_message(found.with_parts((Text("new", source=blocks[0]), *found.parts[1:])))
    assert {**blocks[0], "text": "new"} == edited["content"][0]
    assert all(new is old for new, old in zip(edited["content"][1:], blocks[1:], strict=True))


def test_a_part_that_says_the_same_is_written_as_its_block():
    """A part that was rebuilt with the same words is written as the block that it was read from."""
    block = {"type": "tool_result", "tool_use_id": "t1", "content": "a", "cache_control": MARKER}
    part = ToolResult("t1", (Text("a"),), source=block)
    assert block is wire.write_message(Message("user", (part, Text("b"))))["content"][0]


def test_an_edited_result_keeps_all_else():
    """An edited tool result keeps its cache marker and the form of its content."""
    inner = {"type": "text", "text": "long", "cache_control": MARKER}
    block = {"type": "tool_result", "tool_use_id": "t1", "content": [inner], "cache_control": MARKER, "is_error": False}
    (part,) = read(block, name="x").parts
    edited = evolve(part, content=(evolve(part.content[0], text="short"),))
    native = message(block, name="x")
    written = wire.write_message(wire.read_message(native, 0).with_parts((edited,)))
    assert message({**block, "content": [{**inner, "text": "short"}]}, name="x") == written


def test_an_edited_string_result_stays_a_string():
    """The content of a result that was a string stays one."""
    found = read({"type": "tool_result", "tool_use_id": "t1", "content": "long"})
    written = wire.write_message(found.with_parts((evolve(found.parts[0], content=(Text("short"),)),)))
    assert message({"type": "tool_result", "tool_use_id": "t1", "content": "short"}) == written


def test_a_result_without_content_is_written_empty():
    """A result from which everything was taken is written with the empty string."""
    found = read({"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "long"}]})
    written = wire.write_message(found.with_parts((evolve(found.parts[0], content=()),)))
    assert message({"type": "tool_result", "tool_use_id": "t1", "content": ""}) == written


def test_edited_string_content_stays_a_string():
    """A message whose content was a string is written as a string while one text remains."""
    found = wire.read_message({"role": "user", "content": "long", "x": 1}, 0)
    assert wire.write_message(found.with_parts((Text("short"),))) == {"role": "user", "content": "short", "x": 1}
    more = wire.write_message(found.with_parts((*found.parts, Text("b"))))
    assert more["content"] == [{"type": "text", "text": "long"}, {"type": "text", "text": "b"}]


def test_edited_arguments_become_an_object():
    """Edited arguments are written as an object, and the call keeps its other keys."""
    block = {"type": "tool_use", "id": "t1", "name": "f", "input": {"a": 1}, "caller": {"type": "direct"}}
    found = read(block, role="assistant")
    written = wire.write_message(found.with_parts((evolve(found.parts[0], arguments='{"a": 2}'),)))
    assert {**block, "input": {"a": 2}} == written["content"][0]


@pytest.mark.parametrize("block", [BLOCKS[-2][0], BLOCKS[-1][0], *OPAQUE])
def test_signed_and_unknown_blocks_are_never_rewritten(block):
    """Reasoning and unknown blocks go back as their block, whatever was done to the part."""
    found = read(block, {"type": "text", "text": "x"}, role="assistant")
    part = found.parts[0]
    changed = evolve(part, text="other") if isinstance(part, Thinking) else evolve(part, data={})
    assert block is wire.write_message(found.with_parts((changed, Text("y"))))["content"][0]


@pytest.mark.parametrize("part", [part for _, part in BLOCKS if getattr(part, "arguments", "{")[0] == "{"])
def test_a_part_from_scratch_reads_as_itself(part):
    """A part without a source is written as a block that reads as the same part."""
    assert (part,) == wire.read_message(wire.write_message(Message("user", (part, Text("x")))), 0).parts[:1]


def test_a_lone_text_from_scratch_is_a_string():
    """A message made of one text has a string as its content."""
    assert wire.write_message(Message("user", (Text("hi"),))) == {"role": "user", "content": "hi"}


def test_roles_of_other_formats_are_translated():
    """A tool message becomes a user message, a developer message a system message."""
    assert wire.write_message(Message("tool", (ToolResult("t1", ()),)))["role"] == "user"
    assert wire.write_message(Message("developer", (Text("x"),)))["role"] == "system"


def test_a_sound_cannot_be_written():
    """What the format has no block for is an error that says so."""
    with pytest.raises(InvalidInput, match="takes no audio"):
        wire.write_message(Message("user", (Media("audio", "audio/wav", "AA=="),)))


@pytest.mark.parametrize("native", ["be good", [{"type": "text", "text": "be good", "cache_control": MARKER}]])
def test_the_system_prompt_is_read(native):
    """The system prompt is read from a string and from blocks, and goes back itself."""
    found = wire.read_system(native)
    assert Message("system", (Text("be good"),)) == found
    assert native is wire.write_message(found)


def test_a_bad_system_prompt_is_named():
    """A system prompt that cannot be read is an error that names the place."""
    with pytest.raises(InvalidInput, match=r"system\[0\]\.text"):
        wire.read_system([{"type": "text"}])
    assert wire.read_system(None) is None


def test_tools_are_read():
    """Tools are read with name, description and schema; server tools and nameless ones too."""
    natives = [
        {"name": "f", "description": "d", "input_schema": {"type": "object"}},
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "mcp_toolset", "mcp_server_name": "m"},
    ]
    found = wire.read_tools(natives)
    assert [(tool.name, tool.description, tool.parameters) for tool in found] == [
        ("f", "d", {"type": "object"}),
        ("web_search", "", None),
        ("", "", None),
    ]
    assert all(tool.source is native for tool, native in zip(found, natives, strict=True))
    assert wire.read_tools(None) == ()


def test_answers_are_one_message():
    """Calls that were never answered are answered in one message, as errors."""
    (made,) = wire.synthetic_result([ToolCall("t1", "f", "{}"), ToolCall("t2", "g", "{}")], "interrupted")
    results = [
        {"type": "tool_result", "tool_use_id": t, "is_error": True, "content": "interrupted"} for t in ("t1", "t2")
    ]
    assert {"role": "user", "content": results} == wire.write_message(made)
    assert wire.synthetic_result([], "interrupted") == ()


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
texts = st.builds(lambda text: {"type": "text", "text": text}, st.text())
blocks = st.one_of(
    texts,
    st.builds(
        lambda call, value: {"type": "tool_use", "id": call, "name": "f", "input": value}, st.text(), json_values
    ),
    st.builds(
        lambda call, content, more: {"type": "tool_result", "tool_use_id": call, "content": content, **more},
        st.text(),
        st.text() | st.lists(texts, max_size=3) | st.none(),
        st.sampled_from([{}, {"is_error": True}, {"is_error": False}, {"cache_control": MARKER}]),
    ),
    st.builds(lambda text, seal: {"type": "thinking", "thinking": text, "signature": seal}, st.text(), st.text()),
    st.sampled_from([*OPAQUE, *(block for block, _ in BLOCKS)]),
)
messages = st.builds(
    lambda role, content: {"role": role, "content": content},
    st.sampled_from(["user", "assistant", "system"]),
    st.text() | st.lists(blocks, max_size=5),
)


@given(messages)
def test_reading_and_writing_gives_the_same_back(native):
    """Any message is written as the object it was read from, unchanged; a rebuilt one as an equal value."""
    kept = copy.deepcopy(native)
    found = wire.read_message(native, 0)
    assert native is wire.write_message(found)
    rebuilt = wire.write_message(Message(found.role, tuple(found.parts), source=found.source))
    assert kept == native
    if native["content"] != "":
        assert native == rebuilt


@given(st.lists(blocks, max_size=4), st.text(min_size=1), st.dictionaries(st.sampled_from("abc"), json_values))
def test_editing_a_result_keeps_everything_else(others, words, more):
    """An edited result changes the content of its block and nothing else in the message."""
    block = {"type": "tool_result", "tool_use_id": "t1", "content": "before", **more}
    found = read(block, *others)
    written = wire.write_message(found.with_parts((evolve(found.parts[0], content=(Text(words),)), *found.parts[1:])))
    assert {**block, "content": words} == written["content"][0]
    assert all(new is old for new, old in zip(written["content"][1:], others, strict=True))


@given(messages)
def test_what_is_written_from_values_reads_the_same(native):
    """A message made of the same parts without sources reads as the same value."""
    found = wire.read_message(native, 0)
    bare = Message(found.role, tuple(evolve(part, source=None) for part in found.parts))
    again = wire.read_message(json.loads(json.dumps(wire.write_message(bare))), 0)
    objects = all(part.arguments.startswith("{") for part in found.calls)
    unsigned = all(part.signature or part.encrypted for part in found.parts if isinstance(part, Thinking))
    if objects and unsigned and native["content"] != "":
        assert [type(part) for part in found.parts] == [type(part) for part in again.parts]
        assert found.text == again.text
