"""How large a prompt was, from any provider's usage."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from agentctx import Budget, InvalidInput, Pipeline
from agentctx.engine.usage import MOST, _say_unreadable, is_one_prompt, output_tokens, prompt_tokens


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


class Broken:
    """A usage whose own code fails, at one of its fields."""

    def __init__(self, field):
        self.field = field

    def __getattr__(self, name):
        """Read a field."""
        if name == self.field:
            raise ZeroDivisionError
        if name in ("prompt_tokens", "input_tokens", "server_tool_use"):
            return self if name == "server_tool_use" else 12
        raise AttributeError(name)


@pytest.mark.parametrize("field", ["prompt_tokens", "cache_read_input_tokens", "iterations", "web_search_requests"])
@pytest.mark.anyio
async def test_a_usage_that_raises_teaches_nothing(field, caplog):
    """The answer is paid for: no error of a usage object's own code comes out of ``record``; it is said once."""
    session = Pipeline(budget=Budget(1_000)).session()
    await session.prepare([{"role": "user", "content": "hello"}])
    before = session.billed_tokens, session.budget
    _say_unreadable.cache_clear()
    for _ in range(3):
        session.record(Broken(field))
    assert before == (session.billed_tokens, session.budget)
    assert caplog.text.count("Broken raised ZeroDivisionError") == 1


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
