"""Reading and writing Chat Completions messages."""

import copy

import pytest
from histories import PIXEL
from hypothesis import given, strategies as st

from agentctx import InvalidInput, Media, Message, Opaque, Text, Thinking, Tool, ToolCall, ToolResult, convert, count
from agentctx.formats.openai_chat import OpenAIChat

CHAT = OpenAIChat()
PNG = "iVBORw0KGgo="
CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": '{"at": 1}'}}
CUSTOM = {"id": "c2", "type": "custom", "custom": {"name": "patch", "input": "*** begin"}}


class Dumped:
    """A message object as provider SDKs return them."""

    def __init__(self, **fields):
        self.__dict__.update(fields)

    def model_dump(self, *, mode, exclude_unset):
        assert (mode, exclude_unset) == ("json", True)
        return copy.deepcopy(self.__dict__)


MESSAGES = [
    ({"role": "system", "content": "be brief"}, "system", (Text("be brief"),)),
    ({"role": "developer", "content": [{"type": "text", "text": "d"}]}, "developer", (Text("d"),)),
    ({"role": "user", "content": "hi", "name": "bob"}, "user", (Text("hi"),)),
    ({"role": "user", "content": ""}, "user", (Text(""),)),
    ({"role": "user", "content": None}, "user", ()),
    ({"role": "user"}, "user", ()),
    ({"role": "user", "content": ["plain"]}, "user", (Text("plain"),)),
    (
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png", "detail": "low"}}]},
        "user",
        (Media("image", url="https://x/y.png", detail="low"),),
    ),
    (
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}"}}]},
        "user",
        (Media("image", "image/png", PNG),),
    ),
    (
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}}]},
        "user",
        (Media("audio", "audio/mp3", "AAAA"),),
    ),
    (
        {"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]},
        "user",
        (Media("document", url="file-1"),),
    ),
    (
        {"role": "user", "content": [{"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA"}}]},
        "user",
        (Media("document", "application/pdf", "AAAA"),),
    ),
    (
        {"role": "user", "content": [{"type": "hologram", "x": 1}]},
        "user",
        (Opaque("hologram", {"type": "hologram", "x": 1}),),
    ),
    (
        {"role": "user", "content": "look", "images": [PIXEL, PIXEL]},
        "user",
        (Text("look"), Media("image", "image/png", PIXEL), Media("image", "image/png", PIXEL)),
    ),
    ({"role": "user", "content": "look", "images": ["a.png"]}, "user", (Text("look"),)),
    ({"role": "assistant", "content": "yo", "annotations": []}, "assistant", (Text("yo"),)),
    (
        {"role": "assistant", "content": None, "tool_calls": [CALL, CUSTOM]},
        "assistant",
        (ToolCall("c1", "look", '{"at": 1}'), ToolCall("c2", "patch", "*** begin")),
    ),
    ({"role": "assistant", "content": "x", "tool_calls": []}, "assistant", (Text("x"),)),
    (
        {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
        "assistant",
        (ToolCall("function_call:look", "look", "{}"),),
    ),
    ({"role": "assistant", "content": None, "refusal": "no"}, "assistant", (Opaque("refusal", "no"),)),
    ({"role": "assistant", "audio": {"id": "audio_1"}}, "assistant", (Media("audio", url="audio_1"),)),
    ({"role": "assistant", "audio": {}, "content": "a"}, "assistant", (Text("a"), Opaque("audio", {}))),
    (
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:image/svg+xml,%3Csvg"}}]},
        "user",
        (Media("image", url="data:image/svg+xml,%3Csvg"),),
    ),
    (
        {"role": "user", "content": [{"type": "image_url", "image_url": 5}]},
        "user",
        (Opaque("image_url", {"type": "image_url", "image_url": 5}),),
    ),
    (
        {"role": "assistant", "reasoning_content": "hm", "content": "yo"},
        "assistant",
        (Thinking("hm"), Text("yo")),
    ),
    (
        {
            "role": "assistant",
            "content": "yo",
            "reasoning_content": "hm",
            "thinking_blocks": [
                {"type": "thinking", "thinking": "hm", "signature": "s"},
                {"type": "redacted_thinking", "data": "e"},
            ],
        },
        "assistant",
        (Thinking("hm", "s"), Thinking("", encrypted="e"), Text("yo")),
    ),
    (
        {"role": "assistant", "content": "yo", "reasoning_details": [{"type": "reasoning.summary", "summary": "hm"}]},
        "assistant",
        (Thinking("hm"), Text("yo")),
    ),
    ({"role": "assistant", "content": "yo", "thinking_blocks": None}, "assistant", (Text("yo"),)),
    (
        {"role": "tool", "tool_call_id": "c1", "content": "done", "name": "look"},
        "tool",
        (ToolResult("c1", (Text("done"),), "look"),),
    ),
    ({"role": "tool", "tool_call_id": "c1", "content": None}, "tool", (ToolResult("c1", ()),)),
    (
        {"role": "function", "name": "look", "content": "done"},
        "tool",
        (ToolResult("function_call:look", (Text("done"),), "look"),),
    ),
]


@pytest.mark.parametrize(("native", "role", "parts"), MESSAGES)
def test_a_message_is_read(native, role, parts):
    """A native message says as a value what it says natively."""
    message = CHAT.read_message(native, 0)
    assert (role, parts) == (message.role, message.parts)


@pytest.mark.parametrize("native", [native for native, _, _ in MESSAGES])
def test_what_nobody_touched_goes_back_as_it_came(native):
    """An untouched message is written as the caller's own object, which is unchanged."""
    before = copy.deepcopy(native)
    assert CHAT.write_message(CHAT.read_message(native, 0)) is native
    assert before == native


@pytest.mark.parametrize(
    "native", [native for native, _, _ in MESSAGES if native.get("content") and native.get("tool_calls") != []]
)
def test_equal_parts_are_written_as_they_came(native):
    """A message rebuilt from equal parts is written as an equal payload, its blocks being the caller's own."""
    message = CHAT.read_message(native, 0)
    written = CHAT.write_message(message.with_parts((*message.parts,)))
    assert native == written
    if isinstance(native["content"], list):
        assert written["content"][0] is native["content"][0]


@pytest.mark.parametrize("native", [native for native, _, _ in MESSAGES])
def test_an_sdk_object_is_read_like_its_dict(native):
    """An SDK object is read like the dict that its client would send, and goes back as itself."""
    sdk = Dumped(**native)
    message = CHAT.read_message(sdk, 0)
    assert CHAT.read_message(native, 0) == message
    assert CHAT.write_message(message) is sdk


def test_an_edited_sdk_object_is_written_as_a_dict():
    """An edited SDK object is written as a dict with all that was set on it, the object itself unchanged."""
    sdk = Dumped(role="user", content="long", name="bob")
    message = CHAT.read_message(sdk, 0).with_parts((Text("short"),))
    assert CHAT.write_message(message) == {"role": "user", "content": "short", "name": "bob"}
    assert sdk.content == "long"


def test_calls_that_are_sdk_objects_within_a_dict_are_read():
    """A dict whose calls are SDK objects is read, and an untouched call is written as that object."""
    call = Dumped(**CALL)
    message = CHAT.read_message({"role": "assistant", "content": "a", "tool_calls": [call]}, 0)
    assert message.calls == (ToolCall("c1", "look", '{"at": 1}'),)
    written = CHAT.write_message(message.with_parts((Text("b"), *message.calls)))
    assert written["content"] == "b"
    assert written["tool_calls"][0] is call


@pytest.mark.parametrize(
    ("native", "where"),
    [
        (3, "messages[7]"),
        ({"role": "robot", "content": "x"}, "messages[7].role"),
        ({"content": "x"}, "messages[7].role"),
        ({"role": ["user"], "content": "x"}, "messages[7].role"),
        ({"role": "user", "content": 5}, "messages[7].content"),
        ({"role": "user", "content": [5]}, "messages[7].content[0]"),
        ({"role": "user", "content": [{"type": "text"}]}, "messages[7].content[0].text"),
        ({"role": "tool", "content": "x"}, "messages[7].tool_call_id"),
        ({"role": "function", "content": "x"}, "messages[7].name"),
        ({"role": "assistant", "tool_calls": "x"}, "messages[7].tool_calls"),
        ({"role": "assistant", "tool_calls": [5]}, "messages[7].tool_calls[0]"),
        ({"role": "assistant", "tool_calls": [{**CALL, "id": None}]}, "messages[7].tool_calls[0].id"),
        ({"role": "assistant", "tool_calls": [{"id": "c"}]}, "messages[7].tool_calls[0].function"),
        (
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {"arguments": ""}}]},
            "messages[7].tool_calls[0].function.name",
        ),
        (
            {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {}}}]},
            "messages[7].tool_calls[0].function.arguments",
        ),
        ({"role": "assistant", "function_call": {"name": "f"}}, "messages[7].function_call.arguments"),
        ({"role": "assistant", "function_call": {"arguments": ""}}, "messages[7].function_call.name"),
    ],
)
def test_what_cannot_be_read_is_named_by_place(native, where):
    """What cannot be read is refused, and the error names the message and the field."""
    with pytest.raises(InvalidInput) as caught:
        CHAT.read_message(native, 7)
    assert where == caught.value.where


def test_an_edited_result_keeps_all_else():
    """A result whose text was cut keeps its id, its name and keys that nobody knows."""
    native = {"role": "tool", "tool_call_id": "c1", "name": "look", "content": "long", "index": 3}
    message = CHAT.read_message(native, 0)
    cut = message.with_parts((ToolResult("c1", (Text("short"),), "look", source=native),))
    assert CHAT.write_message(cut) == {**native, "content": "short"}
    assert native["content"] == "long"


def test_an_edited_text_block_keeps_its_other_keys():
    """A text block whose text was cut keeps its cache marker; its neighbours are the caller's own objects."""
    marked = {"type": "text", "text": "long", "cache_control": {"type": "ephemeral"}}
    native = {"role": "user", "content": [marked, {"type": "hologram"}]}
    message = CHAT.read_message(native, 0)
    text, opaque = message.parts
    written = CHAT.write_message(message.with_parts((Text("short", source=text.source), opaque)))
    assert written["content"][0] == {**marked, "text": "short"}
    assert written["content"][1] is native["content"][1]


def test_images_beside_the_content_stay_there():
    """Of Ollama's images those that are left stand under their own key; what is put in their place is content."""
    native = {"role": "user", "content": "look", "images": [PIXEL, f"{PIXEL[:-1]}+"], "x": 1}
    message = CHAT.read_message(native, 0)
    words, first, second = message.parts
    assert CHAT.write_message(message.with_parts((words, second))) == {**native, "images": [second.data]}
    without = CHAT.write_message(message.with_parts((words, Text("[image]"), Text("[image]"))))
    assert without == {
        "role": "user",
        "content": [{"type": "text", "text": each} for each in ("look", "[image]", "[image]")],
        "x": 1,
    }
    unread = {"role": "user", "content": "look", "images": ["a.png"]}
    assert CHAT.write_message(CHAT.read_message(unread, 0).with_parts((Text("l"),))) == {**unread, "content": "l"}
    assert first.data == PIXEL


def test_images_beside_the_content_are_counted_and_taken_along():
    """Ollama's images cost as others do, and a conversion takes them to where the other format has them."""
    words, image = {"role": "user", "content": "look"}, {"url": f"data:image/png;base64,{PIXEL}"}
    blocks = {"role": "user", "content": [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": image}]}
    beside = {**words, "images": [PIXEL]}
    sizes = [count([each], format="openai-chat", model="ollama/llava") for each in (words, beside, blocks)]
    assert sizes[0] < sizes[1] == sizes[2]
    converted = [convert([each], "anthropic", format="openai-chat") for each in (beside, blocks)]
    assert converted[0].messages == converted[1].messages
    assert not any(each.report.changes for each in converted)


def test_dropping_all_calls_leaves_no_trace_of_them():
    """A message that lost its calls has no ``tool_calls`` key, and its null content becomes an empty string."""
    message = CHAT.read_message({"role": "assistant", "content": None, "tool_calls": [CALL]}, 0)
    assert CHAT.write_message(message.with_parts(())) == {"role": "assistant", "content": ""}
    assert CHAT.write_message(message.with_parts((Text("gone"),))) == {"role": "assistant", "content": "gone"}


def test_dropping_one_of_two_calls_keeps_the_other():
    """A message that lost one of its calls keeps the other one as the caller's own object."""
    message = CHAT.read_message({"role": "assistant", "content": None, "tool_calls": [CALL, CUSTOM]}, 0)
    written = CHAT.write_message(message.with_parts(message.parts[:1]))
    assert written == {"role": "assistant", "content": None, "tool_calls": [CALL]}
    assert written["tool_calls"][0] is CALL


def test_text_dropped_beside_calls_becomes_null():
    """A message that lost its text beside its calls has null content, which every dialect takes."""
    message = CHAT.read_message({"role": "assistant", "content": "so", "tool_calls": [CALL]}, 0)
    assert CHAT.write_message(message.with_parts(message.calls))["content"] is None


@pytest.mark.parametrize(
    ("native", "key", "words"),
    [(CALL, "function", "arguments"), (CUSTOM, "custom", "input")],
    ids=["function", "custom"],
)
def test_edited_arguments_keep_the_rest_of_the_call(native, key, words):
    """A call with other arguments keeps its id, its kind and unknown keys."""
    native = {**native, "extra": 1}
    message = CHAT.read_message({"role": "assistant", "content": None, "tool_calls": [native]}, 0)
    (call,) = message.calls
    edited = message.with_parts((ToolCall(call.id, call.name, "{}", source=call.source),))
    assert CHAT.write_message(edited)["tool_calls"] == [{**native, key: {**native[key], words: "{}"}}]


def test_an_edited_legacy_call_stays_legacy():
    """A ``function_call`` with other arguments is written as one, with its unknown keys."""
    native = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": "long", "extra": 1}}
    message = CHAT.read_message(native, 0)
    (call,) = message.calls
    kept = CHAT.write_message(message.with_parts((Text("so"), call)))
    assert kept == {**native, "content": "so"}
    assert kept["function_call"] is native["function_call"]
    edited = CHAT.write_message(message.with_parts((ToolCall(call.id, "f", "{}", source=call.source),)))
    assert edited == {**native, "function_call": {"name": "f", "arguments": "{}", "extra": 1}}


def test_a_part_from_elsewhere_is_made_anew():
    """A part whose source is no block of this format is written from what it says."""
    foreign = Message("user", (Text("a", source=5), Opaque("x", {"type": "x"}), Text("b", source={"type": "image"})))
    assert CHAT.write_message(foreign) == {
        "role": "user",
        "content": [{"type": "text", "text": "a"}, {"type": "x"}, {"type": "text", "text": "b"}],
    }


def test_reasoning_is_kept_whole_or_dropped():
    """Editing the text leaves every reasoning key as it was; dropping the reasoning removes every key of it."""
    blocks = [{"type": "thinking", "thinking": "hm", "signature": "s"}]
    native = {"role": "assistant", "content": "yo", "reasoning_content": "hm", "thinking_blocks": blocks}
    message = CHAT.read_message(native, 0)
    kept = CHAT.write_message(message.with_parts((message.parts[0], Text("y"))))
    assert kept == {**native, "content": "y"}
    assert kept["thinking_blocks"] is blocks
    assert CHAT.write_message(message.with_parts(message.parts[1:])) == {"role": "assistant", "content": "yo"}


def test_a_part_of_the_reasoning_can_be_dropped():
    """Of several reasoning blocks those that are left are written as the caller's own."""
    blocks = [{"type": "thinking", "thinking": "a", "signature": "s"}, {"type": "redacted_thinking", "data": "e"}]
    details = [{"type": "reasoning.encrypted", "data": "z"}]
    native = {"role": "assistant", "content": "yo", "thinking_blocks": blocks, "reasoning_details": details}
    native["reasoning"] = "another"
    message = CHAT.read_message(native, 0)
    assert len(message.parts) == 5
    written = CHAT.write_message(message.with_parts(message.parts[1:]))
    assert written == {**native, "thinking_blocks": blocks[1:]}
    assert written["thinking_blocks"][0] is blocks[1]


def test_reasoning_made_by_hand_goes_where_most_dialects_look():
    """Reasoning without a source is written as ``reasoning_content``."""
    message = Message("assistant", (Thinking("a"), Text("b")))
    assert CHAT.write_message(message) == {"role": "assistant", "content": "b", "reasoning_content": "a"}


def test_a_signature_on_a_call_is_read():
    """Gemini's thought signature, sent through its Chat-compatible endpoint, is part of the call."""
    call = {**CALL, "extra_content": {"google": {"thought_signature": "sig"}}}
    message = CHAT.read_message({"role": "assistant", "content": None, "tool_calls": [call]}, 0)
    assert message.calls[0].signature == "sig"


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        (Message("user", (Text("a"),)), {"role": "user", "content": "a"}),
        (Message("system", ()), {"role": "system", "content": ""}),
        (
            Message("user", (Text("a"), Media("image", "image/png", PNG, detail="low"))),
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PNG}", "detail": "low"}},
                ],
            },
        ),
        (
            Message("user", (Media("audio", "audio/mp3", "AAAA"), Media("document", url="file-1"))),
            {
                "role": "user",
                "content": [
                    {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "mp3"}},
                    {"type": "file", "file": {"file_id": "file-1"}},
                ],
            },
        ),
        (
            Message("assistant", (ToolCall("c1", "look", '{"at": 1}'),)),
            {"role": "assistant", "content": None, "tool_calls": [CALL]},
        ),
        (
            Message("assistant", (ToolCall("function_call:look", "look", "{}"),)),
            {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": "{}"}},
        ),
        (
            Message("tool", (ToolResult("c1", (Text("x"),), "look"),)),
            {"role": "tool", "tool_call_id": "c1", "content": "x", "name": "look"},
        ),
        (
            Message("tool", (ToolResult("function_call:look", (Text("x"),)),)),
            {"role": "function", "name": "look", "content": "x"},
        ),
        (
            Message("assistant", (Media("audio", url="a1"),)),
            {"role": "assistant", "content": None, "audio": {"id": "a1"}},
        ),
    ],
)
def test_a_message_made_by_hand_is_written(message, expected):
    """A message without a payload is written in the canonical shape, and reads back as an equal one."""
    written = CHAT.write_message(message)
    assert expected == written
    if message.parts and message.parts[0] != ToolResult("function_call:look", (Text("x"),)):
        assert message == CHAT.read_message(written, 0)


@pytest.mark.parametrize(
    "message",
    [
        Message("user", (ToolCall("c", "f", "{}"),)),
        Message("assistant", (ToolResult("c", ()),)),
        Message("tool", (Text("x"),)),
        Message("tool", (ToolResult("c", (ToolCall("c", "f", "{}"),)),)),
    ],
)
def test_what_a_role_cannot_say_is_refused(message):
    """A part that its message's role cannot hold is an error, never left out in silence."""
    with pytest.raises(InvalidInput, match=r"message\.parts"):
        CHAT.write_message(message)


def test_synthetic_results_answer_each_call():
    """Each call gets a tool message of its own, each legacy call a function message; they read back as equal."""
    made = CHAT.synthetic_result([ToolCall("c1", "look", "{}"), ToolCall("function_call:f", "f", "{}")], "interrupted")
    written = [CHAT.write_message(message) for message in made]
    assert written == [
        {"role": "tool", "tool_call_id": "c1", "content": "interrupted"},
        {"role": "function", "name": "f", "content": "interrupted"},
    ]
    assert made[0] == CHAT.read_message(written[0], 0)


@pytest.mark.parametrize("native", ["be brief", [{"type": "text", "text": "be brief"}]])
def test_a_system_prompt_kept_apart_is_read(native):
    """A system prompt given apart is a string or blocks, and remembers what it was."""
    system = CHAT.read_system(native)
    assert (system.role, system.text, system.source) == ("system", "be brief", native)
    assert system.untouched


def test_no_system_prompt_is_none():
    """Without a system prompt there is no message for it, and what is no prompt is refused."""
    assert CHAT.read_system(None) is None
    with pytest.raises(InvalidInput, match="system"):
        CHAT.read_system(5)


def test_tools_are_read():
    """Functions, custom tools and flat definitions are read with name, description and schema."""
    schema = {"type": "object"}
    native = [
        {"type": "function", "function": {"name": "a", "description": "does a", "parameters": schema}},
        {"type": "custom", "custom": {"name": "b"}},
        {"type": "function", "name": "c", "parameters": schema},
        {"type": "builtin"},
    ]
    assert CHAT.read_tools(native) == (Tool("a", "does a", schema), Tool("b"), Tool("c", "", schema), Tool(""))
    assert CHAT.read_tools(native)[0].source is native[0]
    assert CHAT.read_tools(None) == ()


@pytest.mark.parametrize(
    ("native", "where"),
    [("x", "tools"), (5, "tools"), ([5], "tools[0]"), ([{"type": "function"}], "tools[0].function.name")],
)
def test_tools_that_cannot_be_read_are_named(native, where):
    """What is no list of tool definitions is refused by place."""
    with pytest.raises(InvalidInput) as caught:
        CHAT.read_tools(native)
    assert where == caught.value.where


TEXTS = st.text(max_size=20)
BLOCKS = st.one_of(
    st.builds(lambda text: {"type": "text", "text": text}, TEXTS),
    st.builds(lambda url: {"type": "image_url", "image_url": {"url": url}}, TEXTS),
    st.builds(lambda data: {"type": "unheard_of", "data": data}, TEXTS),
)
CONTENTS = TEXTS | st.none() | st.lists(BLOCKS, max_size=3)
CALLS = st.builds(
    lambda identity, name, words: {"id": identity, "type": "function", "function": {"name": name, "arguments": words}},
    TEXTS,
    TEXTS,
    TEXTS,
)
REASONINGS = st.fixed_dictionaries(
    {}, optional={"reasoning_content": TEXTS, "reasoning": TEXTS, "index": st.integers()}
)
NATIVES = st.one_of(
    st.builds(
        lambda role, content: {"role": role, "content": content},
        st.sampled_from(["user", "system", "developer"]),
        CONTENTS,
    ),
    st.builds(
        lambda content, calls, more: {"role": "assistant", "content": content, "tool_calls": calls, **more},
        CONTENTS,
        st.lists(CALLS, min_size=1, max_size=3),
        REASONINGS,
    ),
    st.builds(
        lambda identity, content: {"role": "tool", "tool_call_id": identity, "content": content}, TEXTS, CONTENTS
    ),
)


@given(NATIVES)
def test_read_then_write_is_identity(native):
    """Whatever can be read is written as the same object, unchanged."""
    before = copy.deepcopy(native)
    message = CHAT.read_message(native, 0)
    assert CHAT.write_message(message) is native
    assert before == native


@given(NATIVES, TEXTS)
def test_an_added_text_leaves_all_else(native, text):
    """A message with one more text reads back as just that, every other key being as it was."""
    message = CHAT.read_message(native, 0)
    if message.role == "tool":
        (result,) = message.parts
        edited = message.with_parts((ToolResult(result.call_id, (*result.content, Text(text)), source=result.source),))
    else:
        place = len([part for part in message.parts if not isinstance(part, ToolCall)])
        edited = message.with_parts((*message.parts[:place], Text(text), *message.parts[place:]))
    written = CHAT.write_message(edited)
    assert edited == CHAT.read_message(written, 0)
    assert {**native, "content": 0} == {**written, "content": 0}
