"""How large a prompt was, from any provider's usage."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from agentctx import InvalidInput
from agentctx.session.checked import MOST
from agentctx.session.usage import is_one_prompt, output_tokens, prompt_tokens


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 12}, 12),
        ({"promptTokenCount": 12.0}, 12),
        ({"prompt_eval_count": MOST}, MOST),
        ({"input_tokens": 5, "cache_read_input_tokens": 7, "cache_creation_input_tokens": None}, 12),
        ({"inputTokens": 5, "cacheReadInputTokens": 3, "cacheWriteInputTokens": 4}, 12),
        ({"input_tokens": 0}, None),
        ({"input_tokens": None}, None),
        ({"inputTokens": None}, None),
        ({"completion_tokens": 3}, None),
    ],
)
@pytest.mark.parametrize("made", [dict, lambda usage: SimpleNamespace(**usage)], ids=["dict", "object"])
def test_the_prompt_is_counted_whole(usage, tokens, made):
    """Its cached parts included, as a dict and as an SDK's object; None where the provider does not tell."""
    assert tokens == prompt_tokens(made(usage))


def test_an_empty_usage_tells_nothing():
    """As some servers send it in place of one."""
    assert prompt_tokens({}) is None
    assert prompt_tokens(None) is None


@pytest.mark.parametrize("number", [-1, True, 1.5, "12", MOST + 1])
@pytest.mark.parametrize("name", ["input_tokens", "inputTokens", "prompt_tokens", "anything"])
@pytest.mark.parametrize("made", [dict, lambda usage: SimpleNamespace(**usage)], ids=["dict", "object"])
def test_what_no_prompt_can_have_is_refused(name, number, made):
    """No size is taken from it, and it does not pass for a usage that leaves the size out."""
    with pytest.raises(InvalidInput):
        prompt_tokens(made({name: number}))


@pytest.mark.parametrize(
    ("usage", "one"),
    [
        ({}, True),
        ({"iterations": [{}]}, True),
        ({"iterations": [{}, {}]}, False),
        ({"iterations": None, "server_tool_use": {"web_search_requests": 0}}, True),
        ({"server_tool_use": {"web_search_requests": 1}}, False),
        ({"server_tool_use": {"web_fetch_requests": 2}}, False),
    ],
)
def test_what_ran_on_the_server_makes_several_prompts_of_one(usage, one):
    """Tools that ran, and more than one iteration; not that they could have run."""
    assert one == is_one_prompt(usage) == is_one_prompt(SimpleNamespace(**usage))


def test_the_answer_is_counted_under_any_name():
    """None where the provider does not say."""
    assert (3, 4, None) == (output_tokens({"outputTokens": 3}), output_tokens({"eval_count": 4}), output_tokens({}))
