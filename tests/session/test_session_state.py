"""A session is dumped and loaded, learns from usage and errors, and has children."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from agentctx import Budget, ClearToolResults, FitContextWindow, InvalidInput, Pipeline, Session, TruncateToolOutputs
from agentctx.testing import assistant, call, result, system, transcript, user

pytestmark = pytest.mark.anyio
FORMATS = ["openai-chat", "anthropic"]


def rounds(count, size=60):
    """A task and rounds of one call each."""
    turns = [user("the task")]
    for number in range(count):
        turns += [assistant(call(f"c{number}", "read", {"n": number})), result(f"c{number}", f"line {number}\n" * size)]
    return turns


def pipeline():
    """Every kind of stage, in little room."""
    return Pipeline(
        TruncateToolOutputs(150),
        ClearToolResults(4),
        FitContextWindow(),
        budget=Budget(2_000, trigger=1_600, target=800),
    )


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("cut", [6, 13, 21, 40])
async def test_a_loaded_session_goes_on_with_the_same_bytes(format_name, cut):
    """Dumped to JSON text at any step and loaded, a session sends what the first one would have sent."""
    messages = transcript(format_name, *rounds(40))
    steady, first = pipeline().session(format=format_name), pipeline().session(format=format_name)
    for length in range(2, cut + 1):
        await steady.prepare(messages[:length])
        await first.prepare(messages[:length])
    loaded = Session.load(pipeline(), json.loads(json.dumps(first.dump())))
    for length in range(cut + 1, len(messages) + 1):
        expected, view = await steady.prepare(messages[:length]), await loaded.prepare(messages[:length])
        assert expected.messages == view.messages
        assert expected.report.prefix_tokens == view.report.prefix_tokens
        assert expected.report.tokens_after == view.report.tokens_after


@pytest.mark.parametrize(
    "state",
    [None, "nonsense", "{}", {"version": 99}, {"version": 1, "format": "openai-chat", "record": {"out": 5}}],
)
async def test_a_damaged_state_is_one_clear_error(state):
    """A state that cannot be read names the place."""
    with pytest.raises(InvalidInput, match="state"):
        Session.load(pipeline(), state)


async def test_usage_above_the_count_tightens_the_budget():
    """When the provider bills more than was counted, the session leaves more room."""
    session = pipeline().session(format="openai-chat")
    messages = transcript("openai-chat", *rounds(6))
    view = await session.prepare(messages)
    session.record({"prompt_tokens": int(view.report.tokens_after * 1.5)})
    assert session.billed_tokens == int(view.report.tokens_after * 1.5)
    assert session.budget.limit < 2_000


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [
        ({"prompt_tokens": 7, "prompt_tokens_details": {"cached_tokens": 5}}, 7),
        ({"input_tokens": 7, "input_tokens_details": {"cached_tokens": 5}}, 7),
        ({"input_tokens": 1, "cache_creation_input_tokens": 2, "cache_read_input_tokens": 4}, 7),
        ({"inputTokens": 1, "cacheReadInputTokens": 2, "cacheWriteInputTokens": 4}, 7),
        ({"promptTokenCount": 7}, 7),
    ],
)
async def test_usage_of_every_provider_is_read(usage, tokens):
    """The whole prompt is taken from usage by each provider's meaning of it."""
    session = pipeline().session(format="openai-chat")
    session.record(usage)
    assert tokens == session.billed_tokens


async def test_usage_without_a_count_is_a_clear_error():
    """Usage in which no prompt count can be found is refused."""
    with pytest.raises(InvalidInput, match="usage"):
        pipeline().session().record({"tokens": 5})


@pytest.mark.parametrize(
    "usage",
    [
        None,
        {"prompt_tokens": 0, "completion_tokens": 3},
        {"prompt_tokens": None},
        {"input_tokens": 0, "output_tokens": 0},
        {"input_tokens": 0, "cache_read_input_tokens": None, "output_tokens": 4},
        {"inputTokens": 0, "outputTokens": 4},
        {"eval_count": 12},
        {"promptTokenCount": 0, "candidatesTokenCount": 2},
        SimpleNamespace(prompt_tokens=None, completion_tokens=None),
    ],
)
async def test_usage_that_does_not_tell_the_prompt_teaches_nothing(usage):
    """Where the size of the prompt is left out, the session is the same as if nothing had been recorded."""
    session = pipeline().session(format="openai-chat")
    view = await session.prepare(transcript("openai-chat", user("word " * 900)))
    before = session.dump()
    session.record(usage)
    assert session.dump() == before
    session.record({"prompt_tokens": view.report.tokens_after + 40})
    known = session.dump()
    session.record(usage)
    assert session.dump() == known


class RefusedError(Exception):
    """What a client raises when the provider refuses a prompt."""


async def test_recovery_makes_one_smaller_view_and_learns_the_limit():
    """After an overflow the session cuts once more, below what the provider takes, and stays below."""
    session = Pipeline(FitContextWindow(), budget=Budget(100_000)).session(format="openai-chat")
    messages = transcript("openai-chat", *rounds(30))
    view = await session.prepare(messages)
    limit = view.report.tokens_after // 2
    error = RefusedError(
        f"This model's maximum context length is {limit} tokens. However, your messages resulted in "
        f"{view.report.tokens_after} tokens. Please reduce the length of the messages."
    )
    smaller = await session.recover(error)
    assert smaller.report.tokens_after <= limit
    assert await session.recover(error) is None
    later = await session.prepare([*messages, *transcript("openai-chat", user("go on"))])
    assert later.report.tokens_after <= limit


async def test_other_errors_are_not_recovered():
    """An error that is no overflow gives no view."""
    session = pipeline().session(format="openai-chat")
    await session.prepare(transcript("openai-chat", *rounds(2)))
    assert await session.recover(RefusedError("Rate limit reached for requests per min")) is None


async def test_recovery_gives_up_when_nothing_can_go():
    """When what must stay is all there is, there is no smaller view, and the session goes on as it was."""
    session = Pipeline(FitContextWindow(), budget=Budget(100_000)).session(format="openai-chat")
    messages = transcript("openai-chat", system("rule " * 500), user("task"))
    await session.prepare(messages)
    assert await session.recover(RefusedError("prompt is too long: 600 tokens > 300 maximum")) is None


async def test_a_child_has_its_own_conversation_and_budget():
    """A sub-agent's session shares nothing with its parent but pipeline, model and what was learned."""
    parent = pipeline().session(format="openai-chat", id="main")
    await parent.prepare(transcript("openai-chat", *rounds(10)))
    child = parent.child(budget=Budget(500))
    view = await child.prepare(transcript("openai-chat", *rounds(10)))
    assert view.report.tokens_after <= 500
    assert child.id == "main/1"
    assert parent.budget.limit == 2_000
