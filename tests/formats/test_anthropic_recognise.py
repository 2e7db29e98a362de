"""Telling the Anthropic Messages format from others."""

import pytest

from agentctx.formats.anthropic import Anthropic

wire = Anthropic()
PLAIN = [{"role": "user", "content": "hi"}]
CALL = {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "f", "input": {}}]}


@pytest.mark.parametrize(
    "request_",
    [
        {},
        {"messages": "hi"},
        {"input": PLAIN},
        {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]},
        {"messages": [{"role": "tool", "tool_call_id": "c", "content": "ok"}]},
        {"messages": [{"role": "developer", "content": "ok"}]},
        {"messages": [{"role": "assistant", "content": None, "tool_calls": []}]},
        {"messages": [{"role": "user", "content": [{"text": "hi"}]}]},
        {"messages": [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "u"}}]}]},
        {"messages": PLAIN, "tools": [{"type": "function", "function": {"name": "f"}}]},
        {"messages": PLAIN, "system": [{"text": "bedrock"}]},
        {"messages": PLAIN, "modelId": "anthropic.claude-opus-4-8"},
        {"messages": [3]},
    ],
)
def test_other_formats_are_impossible(request_):
    """A request that this format cannot express scores nothing."""
    assert wire.recognises(request_) == 0


def test_plain_words_fit():
    """Plain words of user and assistant fit, without any sign."""
    assert wire.recognises({"messages": PLAIN, "system": None, "tools": None, "model": None}) == 1
    assert wire.recognises({"messages": []}) == 1


@pytest.mark.parametrize(
    "request_",
    [
        {"messages": [*PLAIN, CALL]},
        {"messages": PLAIN, "system": "be good"},
        {"messages": PLAIN, "system": [{"type": "text", "text": "be good"}]},
        {"messages": PLAIN, "tools": [{"name": "f", "input_schema": {}}]},
        {"messages": PLAIN, "tools": [{"type": "bash_20250124", "name": "bash"}]},
        {"messages": PLAIN, "thinking": {"type": "adaptive"}},
        {"messages": PLAIN, "model": "claude-opus-5"},
        {"messages": [{"role": "assistant", "content": [{"type": "mcp_tool_use"}]}]},
    ],
)
def test_each_sign_makes_surer(request_):
    """A block, key or tool of this format alone scores more than plain words."""
    assert wire.recognises(request_) > 1


def test_signs_add_up():
    """A call together with a tool definition is surer than either."""
    tools = [{"name": "f", "input_schema": {}}]
    both = wire.recognises({"messages": [*PLAIN, CALL], "tools": tools})
    assert both > wire.recognises({"messages": [*PLAIN, CALL]})
    assert both > wire.recognises({"messages": PLAIN, "tools": tools})
