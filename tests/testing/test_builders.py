"""Short words to write transcripts with."""

import json

import pytest

from agentctx import ConfigError, InvalidInput, Media, Text
from agentctx.testing import assistant, call, history, result, system, thinking, tool, transcript, user

TURNS = (
    user("why?"),
    assistant("let me look", call("a", "read", {"path": "x"}), call("b", "ls")),
    result("a", "text"),
    result("b", "", is_error=True),
    assistant("because"),
)


def test_chat_transcripts():
    """In chat, each result is a message and arguments are JSON text."""
    assert transcript("openai-chat", *TURNS) == [
        {"role": "user", "content": "why?"},
        {
            "role": "assistant",
            "content": "let me look",
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "read", "arguments": '{"path": "x"}'}},
                {"id": "b", "type": "function", "function": {"name": "ls", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "text"},
        {"role": "tool", "tool_call_id": "b", "content": ""},
        {"role": "assistant", "content": "because"},
    ]


def test_anthropic_transcripts():
    """In Anthropic's format, results that stand side by side are one user message."""
    assert transcript("anthropic", *TURNS) == [
        {"role": "user", "content": "why?"},
        {
            "role": "assistant",
            "content": [
                {"type": "text", "text": "let me look"},
                {"type": "tool_use", "id": "a", "name": "read", "input": {"path": "x"}},
                {"type": "tool_use", "id": "b", "name": "ls", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "text"},
                {"type": "tool_result", "tool_use_id": "b", "content": "", "is_error": True},
            ],
        },
        {"role": "assistant", "content": "because"},
    ]


def test_thinking_and_pictures():
    """Signed reasoning and pictures are written where the format has them."""
    turns = (
        user("see", Media("image", "image/png", "aGk=")),
        assistant(thinking("hm", "c2ln"), "ok"),
        result("x", (Text("t"),)),
    )
    chat, claude = transcript("openai-chat", *turns), transcript("anthropic", *turns)
    assert chat[0]["content"][1] == {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    assert claude[0]["content"][1]["source"] == {"type": "base64", "media_type": "image/png", "data": "aGk="}
    assert chat[1] == {"role": "assistant", "content": "ok"}
    assert claude[1]["content"][0] == {"type": "thinking", "thinking": "hm", "signature": "c2ln"}
    assert chat[2]["content"] == claude[2]["content"][0]["content"] == "t"


def test_the_system_prompt_stands_where_the_format_has_it():
    """In chat it is a message, in Anthropic's format it is kept apart."""
    chat, claude = (history(name, system("rules"), user("hi")) for name in ("openai-chat", "anthropic"))
    assert (chat.system, chat.messages[0]) == (None, {"role": "system", "content": "rules"})
    assert (claude.system, len(claude.messages)) == ("rules", 1)
    assert claude.request == {"messages": claude.messages, "system": "rules"}


def test_tools_are_written_in_the_format_s_own_shape():
    """A tool has its schema under the key that the provider reads."""
    spec = tool("read", "Reads.", path={"type": "string"})
    schema = {"type": "object", "properties": {"path": {"type": "string"}}}
    chat, claude = (history(name, user("hi"), tools=[spec]).tools for name in ("openai-chat", "anthropic"))
    assert chat == [{"type": "function", "function": {"name": "read", "description": "Reads.", "parameters": schema}}]
    assert claude == [{"name": "read", "description": "Reads.", "input_schema": schema}]


def test_arguments_given_as_text_are_written_as_they_are():
    """So that arguments which are no JSON can be written too."""
    (message,) = transcript("openai-chat", assistant(call("a", "x", "{bad")))
    assert message["tool_calls"][0]["function"]["arguments"] == "{bad"
    assert message["content"] is None


def test_a_transcript_cannot_hold_a_system_prompt_that_is_kept_apart():
    """Leaving it out in silence would be worse than an error."""
    with pytest.raises(ConfigError, match="history"):
        transcript("anthropic", system("rules"), user("hi"))


def test_an_unknown_format_is_refused():
    """The error names the formats that there are."""
    with pytest.raises(InvalidInput, match="there are 'openai-chat', "):
        transcript("telegraph", user("hi"))


@pytest.mark.parametrize("format_name", ["openai-chat", "anthropic"])
def test_transcripts_are_plain_json(format_name):
    """What is built can be written down."""
    messages = transcript(format_name, *TURNS)
    assert json.loads(json.dumps(messages)) == messages
