"""Finding a request's wire format."""

import pytest

from agentctx import AmbiguousFormat, InvalidInput
from agentctx.formats.registry import FORMATS, detect, detected, format_named

PLAIN = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "yo"}]
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}


@pytest.mark.parametrize("name", FORMATS)
def test_a_format_is_found_by_its_name(name):
    """Every format is listed under its own name."""
    assert format_named(name).name == name


def test_an_unknown_name_is_refused_with_the_known_ones():
    """An unknown name is an error that lists the known ones."""
    with pytest.raises(InvalidInput, match="'openai-chat'") as caught:
        format_named("smoke-signals")
    assert caught.value.where == "format"
    assert all(repr(name) in str(caught.value) for name in FORMATS)


@pytest.mark.parametrize(
    ("request_", "expected"),
    [
        ({"messages": [{"role": "system", "content": "s"}, *PLAIN]}, "openai-chat"),
        ({"messages": [{"role": "developer", "content": "s"}, *PLAIN]}, "openai-chat"),
        ({"messages": [*PLAIN, {"role": "tool", "tool_call_id": "c", "content": "x"}]}, "openai-chat"),
        ({"messages": [*PLAIN, {"role": "assistant", "content": None, "tool_calls": [CALL]}]}, "openai-chat"),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}]},
            "openai-chat",
        ),
        ({"messages": PLAIN, "tools": [{"type": "function", "function": {"name": "f"}}]}, "openai-chat"),
        ({"messages": PLAIN, "response_format": {"type": "json_object"}}, "openai-chat"),
        ({"messages": PLAIN, "system": "s"}, "anthropic"),
        ({"messages": PLAIN, "tools": [{"name": "f", "input_schema": {}}]}, "anthropic"),
        ({"messages": [{"role": "assistant", "content": [{"type": "tool_use"}]}]}, "anthropic"),
        ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "anthropic"),
    ],
)
def test_a_request_is_recognised_by_what_it_holds(request_, expected):
    """Roles, keys, blocks and tools that only one format has decide."""
    assert expected == detect(request_).name


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ("claude-opus-5", "anthropic"),
        ("openrouter/anthropic/claude-sonnet-4-6", "anthropic"),
        ("gpt-5.4", "openai-chat"),
        ("o3", "openai-chat"),
        ("DeepSeek-V4", "openai-chat/deepseek"),
        ("gemini-2.5-flash", "openai-chat"),
    ],
)
def test_the_model_decides_what_the_messages_leave_open(model, expected):
    """Plain text fits several formats; the model's name decides, given apart or in the request."""
    assert expected == detect({"messages": PLAIN}, model).name
    assert expected == detect({"messages": PLAIN, "model": model}).name


def test_the_model_never_overrules_the_messages():
    """A model of another provider does not change what the messages show."""
    request = {"messages": [{"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [CALL]}]}
    assert detect(request, "claude-opus-5").name == "openai-chat"


@pytest.mark.parametrize("model", [None, "my-finetune"])
@pytest.mark.parametrize(
    "messages",
    [
        PLAIN,
        [{"role": "user", "content": [{"type": "text", "text": "hi"}]}],
        [{"role": "user", "content": "hi"}, {"role": "assistant", "content": [{"type": "text", "text": "x"}]}],
    ],
)
def test_what_means_the_same_everywhere_is_no_ambiguity(messages, model):
    """Messages that all fitting formats read alike need no format; that it is open is said, for those to come."""
    found = detected({"messages": messages}, model)
    assert (found.wire.name, found.certain) == ("openai-chat", False)
    assert detected({"messages": [*messages, {"role": "tool", "tool_call_id": "c", "content": "x"}]}, model).certain


@pytest.mark.parametrize("model", [None, "my-finetune"])
def test_what_stays_open_is_an_error(model):
    """Where it makes a difference, a request without a known model is ambiguous, and the error says what to pass."""
    tools = [{"name": "look", "parameters": {"type": "object"}}]
    with pytest.raises(AmbiguousFormat, match=r"pass format=") as caught:
        detect({"messages": PLAIN, "tools": tools}, model)
    assert caught.value.where == "messages"


@pytest.mark.parametrize("messages", [[{"role": "robot", "content": "x"}], [5], 5, None, "x"])
def test_what_no_format_fits_is_an_error(messages):
    """What is in no known format is refused and not taken for ambiguous."""
    with pytest.raises(InvalidInput) as caught:
        detect({"messages": messages})
    assert not isinstance(caught.value, AmbiguousFormat)


@pytest.mark.parametrize(
    "item",
    [
        {"type": "message", "role": "developer", "content": [{"type": "input_text", "text": "x"}]},
        {"role": "developer", "content": [{"type": "input_text", "text": "x"}]},
        {"role": "user", "content": [{"text": "x"}]},
        {"role": "user", "parts": [{"text": "x"}], "content": [{"toolUse": {}}]},
    ],
)
def test_items_of_other_formats_are_not_taken_for_chat(item):
    """Items of Responses, Bedrock and Gemini are impossible in Chat Completions."""
    assert format_named("openai-chat").recognises({"messages": [item]}) == 0
