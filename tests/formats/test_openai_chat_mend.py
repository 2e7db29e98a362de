"""Mending what Chat Completions refuses within one message."""

import copy

import pytest
from hypothesis import given, strategies as st

from agentctx import Thinking
from agentctx.formats.openai_chat import OpenAIChat
from agentctx.rules import find_violations

CHAT = OpenAIChat()


def call(identity="c1", name="f", arguments="{}"):
    """An entry of ``tool_calls``."""
    return {"id": identity, "type": "function", "function": {"name": name, "arguments": arguments}}


def mended(*natives):
    """The messages as they are sent after mending; None stands for a dropped one."""
    messages = [CHAT.read_message(native, index) for index, native in enumerate(natives)]
    before = copy.deepcopy(natives)
    written = list(natives)
    for index, message, why in CHAT.repair(messages, {}):
        assert why
        written[index] = None if message is None else CHAT.write_message(message)
    assert before == natives
    return written


FAULTY = [
    (
        {"role": "assistant", "content": "x", "tool_calls": []},
        {"role": "assistant", "content": "x"},
    ),
    ({"role": "assistant", "content": None, "tool_calls": []}, None),
    ({"role": "assistant", "content": None}, None),
    ({"role": "user", "content": None}, {"role": "user", "content": ""}),
    ({"role": "user"}, {"role": "user", "content": ""}),
    (
        {"role": "assistant", "content": None, "reasoning_content": "hm"},
        {"role": "assistant", "content": "", "reasoning_content": "hm"},
    ),
    (
        {"role": "assistant", "content": "x", "tool_calls": [], "reasoning": "hm", "reasoning_content": "hm"},
        {"role": "assistant", "content": "x", "reasoning": "hm", "reasoning_content": "hm"},
    ),
    (
        {"role": "tool", "tool_call_id": "c1", "content": None},
        {"role": "tool", "tool_call_id": "c1", "content": ""},
    ),
    ({"role": "user", "content": "a\ud800b"}, {"role": "user", "content": "a\ufffdb"}),
    (
        {"role": "user", "content": [{"type": "text", "text": "\udc00"}, {"type": "x"}]},
        {"role": "user", "content": [{"type": "text", "text": "\ufffd"}, {"type": "x"}]},
    ),
    (
        {"role": "tool", "tool_call_id": "c1", "content": "\ud800", "name": "f"},
        {"role": "tool", "tool_call_id": "c1", "content": "\ufffd", "name": "f"},
    ),
    (
        {"role": "assistant", "content": "x", "reasoning_content": "\ud800"},
        {"role": "assistant", "content": "x", "reasoning_content": "\ufffd"},
    ),
    (
        {"role": "assistant", "content": None, "tool_calls": [call(arguments='{"a": NaN, "b": "\ud800"}')]},
        {"role": "assistant", "content": None, "tool_calls": [call(arguments='{"a": null, "b": "\ufffd"}')]},
    ),
    (
        {"role": "assistant", "content": None, "tool_calls": [call(name="my.tool <x>")]},
        {"role": "assistant", "content": None, "tool_calls": [call(name="my_tool__x_")]},
    ),
    (
        {"role": "assistant", "content": None, "tool_calls": [call(name="")]},
        {"role": "assistant", "content": None, "tool_calls": [call(name="_")]},
    ),
    (
        {"role": "assistant", "content": None, "tool_calls": [call(name="n" * 65)]},
        {"role": "assistant", "content": None, "tool_calls": [call(name="n" * 64)]},
    ),
    (
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": call()["function"]}]},
        {"role": "assistant", "content": None, "tool_calls": [call("c")]},
    ),
    (
        {"role": "tool", "tool_call_id": "c1", "content": [{"type": "image_url", "image_url": {"url": "https://x/y"}}]},
        {
            "role": "tool",
            "tool_call_id": "c1",
            "content": [{"type": "text", "text": "[image left out: only user messages may carry it]"}],
        },
    ),
]


@pytest.mark.parametrize(("native", "expected"), FAULTY)
def test_a_fault_is_mended(native, expected):
    """What is refused is mended and all else of the message stays; a message that says nothing is dropped."""
    assert [expected] == mended(native)


@pytest.mark.parametrize("native", [native for native, expected in FAULTY if expected is not None])
def test_what_was_mended_is_taken(native):
    """A mended message breaks no rule that one message can break, and needs no mending again."""
    (written,) = mended(native)
    paired = {"chat.call_unanswered", "chat.tool_orphan"}
    broken = [one for one in find_violations(CHAT, {"messages": [written]}) if one.rule not in paired]
    assert [one for one in broken if one.severity == "error"] == []
    assert [written] == mended(written)


def test_long_ids_are_shortened_alike_in_calls_and_results():
    """An id that is too long becomes the same shorter id on both sides; other ids stay apart."""
    long, other = "x" * 41, "x" * 42
    natives = [
        {"role": "assistant", "content": None, "tool_calls": [call(long), call(other), call("short")]},
        {"role": "tool", "tool_call_id": long, "content": "a"},
        {"role": "tool", "tool_call_id": other, "content": "b"},
        {"role": "tool", "tool_call_id": "short", "content": "c"},
    ]
    written = mended(*natives)
    ids = [entry["id"] for entry in written[0]["tool_calls"]]
    assert ids == [message["tool_call_id"] for message in written[1:]]
    assert len(set(ids)) == 3
    assert written[3] is natives[3]
    assert find_violations(CHAT, {"messages": written}) == ()


def test_an_id_that_carries_a_signature_stays():
    """A long id that LiteLLM put a signature into is neither shortened nor an error."""
    identity = "call_1__thought__" + "A" * 200
    natives = [
        {"role": "assistant", "content": None, "tool_calls": [call(identity)]},
        {"role": "tool", "tool_call_id": identity, "content": "a"},
    ]
    assert natives == mended(*natives)
    assert find_violations(CHAT, {"messages": natives}) == ()


def test_signed_reasoning_is_never_mended():
    """A signed block stays as it is, whatever is in it."""
    block = {"type": "thinking", "thinking": "\ud800", "signature": "s"}
    native = {"role": "assistant", "content": "x", "thinking_blocks": [block]}
    message = CHAT.read_message(native, 0)
    assert message.parts[0] == Thinking("\ud800", "s")
    assert CHAT.repair([message], {}) == ()


@given(
    st.lists(
        st.one_of(
            st.builds(lambda text: {"role": "user", "content": text}, st.text()),
            st.builds(lambda text: {"role": "assistant", "content": text}, st.text()),
            st.builds(
                lambda text: {"role": "assistant", "content": None, "tool_calls": [call("c")], "refusal": text},
                st.text(),
            ),
            st.builds(lambda text: {"role": "tool", "tool_call_id": "c", "content": text}, st.text()),
        )
    )
)
def test_what_is_fine_stays(natives):
    """Messages that are taken as they are need no mending."""
    assert CHAT.repair([CHAT.read_message(native, index) for index, native in enumerate(natives)], {}) == ()
