"""What the Anthropic Messages API refuses is mended in place."""

import json

import pytest
from hypothesis import given, strategies as st

from agentctx import Message, Text, ToolCall, ToolResult
from agentctx.formats.anthropic import Anthropic

wire = Anthropic()
TEXT = {"type": "text", "text": "hi"}
BLANK = {"type": "text", "text": " \n"}
EMPTY = {"type": "text", "text": ""}


def result(content, call="t1"):
    """A native tool result."""
    return {"type": "tool_result", "tool_use_id": call, "content": content}


def call(value):
    """A native call with this input."""
    return {"type": "tool_use", "id": "t1", "name": "f", "input": value}


def mended(native):
    """What is sent instead of a message: itself when it is fine, None when it is dropped."""
    found = wire.repair([wire.read_message(native, 0)], {})
    if not found:
        return native
    ((index, message, why),) = found
    assert index == 0
    assert why
    return None if message is None else wire.write_message(message)


@pytest.mark.parametrize(
    ("role", "before", "after"),
    [
        ("assistant", [TEXT, BLANK], [TEXT]),
        ("assistant", [EMPTY, call({})], [call({})]),
        ("user", [TEXT, result("ok")], [result("ok"), TEXT]),
        ("user", [TEXT, result("b", "t2"), result("a")], [result("b", "t2"), result("a"), TEXT]),
        ("user", [result([BLANK])], [result("")]),
        ("user", [result([TEXT, EMPTY])], [result([TEXT])]),
        ("user", "a\ud800b", "a\ufffdb"),
        ("user", [result("a\udfffb")], [result("a\ufffdb")]),
        ("user", [result([{**TEXT, "text": "\ud800"}])], [result([{**TEXT, "text": "\ufffd"}])]),
        ("assistant", [call({"a": float("nan"), "b": [float("-inf")]})], [call({"a": None, "b": [None]})]),
        ("assistant", [call({"a": "\ud800"})], [call({"a": "\ufffd"})]),
        ("assistant", [call('{"a": 1}')], [call({"a": 1})]),
        ("assistant", [call("words")], [call({"input": "words"})]),
        ("assistant", [call([1])], [call({"input": [1]})]),
        ("assistant", [call(None)], [call({})]),
    ],
)
def test_what_is_refused_is_mended(role, before, after):
    """What the provider refuses is replaced by the nearest that it takes."""
    assert {"role": role, "content": after} == mended({"role": role, "content": before})


@pytest.mark.parametrize("content", ["", " ", [], [BLANK, EMPTY], None])
def test_a_message_that_says_nothing_is_dropped(content):
    """A message without any words is not sent."""
    assert mended({"role": "user", "content": content}) is None


@pytest.mark.parametrize(
    "native",
    [
        {"role": "user", "content": "hi é 🙂"},
        {"role": "user", "content": [result("ok"), result("", "t2"), result(" ", "t3"), TEXT]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1"}]},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "", "signature": "S"}, call({"a": "NaN"})]},
        {"role": "system", "output_config": {"effort": "low"}},
    ],
)
def test_what_is_fine_is_left_alone(native):
    """A message that the provider takes is not mended."""
    assert native is mended(native)


def test_each_reason_is_named_once():
    """The reason names everything that was mended, each once."""
    native = {"role": "user", "content": [BLANK, EMPTY, {"type": "text", "text": "\ud800"}, result("ok")]}
    ((_, _, why),) = wire.repair([wire.read_message(native, 0)], {})
    assert why == "blank text removed; lone surrogates replaced; tool results put before the text"


def test_the_index_tells_which():
    """Only the messages that need it are named, by their index."""
    natives = [{"role": "user", "content": text} for text in ("a", " ", "b", "\ud800")]
    messages = [wire.read_message(native, index) for index, native in enumerate(natives)]
    assert [index for index, _, _ in wire.repair(messages, {})] == [1, 3]


anything = st.text(st.characters(exclude_categories=()), max_size=4)
parts = st.one_of(
    st.builds(Text, anything),
    st.builds(lambda texts: ToolResult("t1", tuple(map(Text, texts))), st.lists(anything, max_size=3)),
    st.builds(lambda text: ToolCall("t1", "f", text), anything | st.just('{"a": NaN}')),
)


@given(st.sampled_from(["user", "assistant"]), st.lists(parts, max_size=4))
def test_mending_once_is_enough(role, made):
    """What was mended needs no mending, and can be sent as JSON."""
    found = wire.repair([Message(role, tuple(made))], {})
    message = found[0][1] if found else Message(role, tuple(made))
    if message is not None:
        assert wire.repair([message], {}) == []
        json.dumps(wire.write_message(message), ensure_ascii=False, allow_nan=False).encode()
