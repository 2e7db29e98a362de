"""LiteLLM alone, to the servers of two providers: its functions, and a router's."""

import gc
import json
from inspect import iscoroutinefunction

import litellm
import pytest
from small_window import (
    LONG,
    PARAMETERS,
    READ_FILE,
    SYSTEM,
    TASK,
    TINY,
    WINDOW,
    assert_recovered,
    assert_steps_fit,
    now,
    pipeline,
    read_file,
    reading,
)

import agentctx
from agentctx.testing.servers import Said, chat_completions, messages, responses

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore")]  # LiteLLM warns of its own types

KINDS = pytest.mark.parametrize("kind", ["acompletion", "completion"])
PROVIDERS = {"openai/gpt-4o": (chat_completions, "/v1"), "anthropic/claude-sonnet-5-5": (messages, "")}
MODELS = pytest.mark.parametrize("model", PROVIDERS)
REFUSED_BY = pytest.mark.parametrize("refuses", ["status", "stream"])
TOOL = {"type": "function", "function": {"name": "read_file", "description": READ_FILE, "parameters": PARAMETERS}}


@pytest.fixture(autouse=True)
async def no_clients_left(anyio_backend):
    """Close the clients that LiteLLM keeps, before their event loop ends."""
    yield
    kept = [*litellm.in_memory_llm_clients_cache.cache_dict.values()]
    await litellm.close_litellm_async_clients()
    await litellm.module_level_aclient.client._transport.aclose()  # the one that LiteLLM's own closing forgets
    litellm.in_memory_llm_clients_cache.flush_cache()
    for each in kept:
        if not hasattr(each, "aclose") and not iscoroutinefunction(getattr(each, "close", None)):
            each.close()
    gc.collect()


@pytest.fixture
def served(serve):
    """Serve a model's provider; the desk, and what a call says of where it is."""

    def start(model, **behaviour):
        app, path = PROVIDERS[model]
        desk, url = serve(app, window=WINDOW, **behaviour)
        return desk, {"model": model, "api_base": f"{url}{path}", "api_key": "none", "max_tokens": 50, "num_retries": 0}

    return start


def wrapped(function, window=100_000):
    """The function with a pipeline before it, in a session of its own."""
    plan = pipeline(window)
    return agentctx.wrap(function, plan, session=plan.session())


async def text(kind, stream):
    """The text of a stream, which LiteLLM lets one iterate over in both ways whatever it was asked by."""
    chunks = [chunk async for chunk in stream] if kind == "acompletion" else list(stream)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


@KINDS
@MODELS
async def test_an_overflow_is_sent_again_smaller(served, kind, model):
    """The caller sees the answer to the smaller request alone."""
    desk, where = served(model)
    answer = await now(wrapped(getattr(litellm, kind))(messages=LONG, **where))
    assert answer.choices[0].message.content == "Done."
    assert_recovered(desk)


@KINDS
@MODELS
async def test_what_is_sent_fits_the_budget(served, kind, model):
    """A request over the budget reaches the provider within it, as a stream too."""
    desk, where = served(model, answer=lambda _: Said("one two three"))
    ask = wrapped(getattr(litellm, kind), WINDOW)
    assert (await now(ask(messages=LONG, **where))).choices[0].message.content == "one two three"
    stream = await now(ask(messages=LONG, stream=True, **where))
    assert await text(kind, stream) == "one two three"
    assert len(desk.accepted) == len(desk.requests) == 2


@KINDS
@MODELS
@REFUSED_BY
async def test_an_overflow_of_a_stream_is_sent_again_smaller(served, kind, model, refuses):
    """By status, and in the stream before its first content."""
    desk, where = served(model, refuses=refuses, answer=lambda _: Said("one two three"))
    stream = await now(wrapped(getattr(litellm, kind))(messages=LONG, stream=True, **where))
    assert await text(kind, stream) == "one two three"
    assert_recovered(desk)


@pytest.mark.parametrize("kind", ["aresponses", "responses"])
async def test_responses_are_prepared(serve, kind):
    """An overflow of theirs is sent again smaller."""
    desk, url = serve(responses, window=WINDOW)
    where = {"model": "openai/gpt-4o", "api_base": f"{url}/v1", "api_key": "none", "num_retries": 0}
    answer = await now(wrapped(getattr(litellm, kind))(input=LONG, **where))
    assert answer.output[0].content[0].text == "Done."
    assert_recovered(desk, "input")


@KINDS
async def test_a_router_is_prepared(served, kind):
    """A router's calls go through the pipeline, whole and as streams; it is a router to whoever asks."""
    desk, where = served("openai/gpt-4o", answer=lambda _: Said("one two three"))
    router = wrapped(litellm.Router(model_list=[{"model_name": "main", "litellm_params": where}], num_retries=0))
    assert isinstance(router, litellm.Router)
    answer = await now(getattr(router, kind)(model="main", messages=LONG))
    assert answer.choices[0].message.content == "one two three"
    assert_recovered(desk)
    stream = await now(getattr(router, kind)("main", LONG, stream=True))
    assert await text(kind, stream) == "one two three"
    assert len(desk.accepted) == 2


@KINDS
@MODELS
async def test_twenty_steps_fit_a_small_window(served, kind, model):
    """An agent that keeps all its messages is never refused."""
    desk, where = served(model, answer=reading)
    ask = wrapped(getattr(litellm, kind), WINDOW)
    history = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
    calls = True
    while calls:
        message = (await now(ask(messages=history, tools=[TOOL], **where))).choices[0].message
        history.append(message)
        calls = message.tool_calls or []
        for call in calls:
            content = read_file(**json.loads(call.function.arguments))
            history.append({"role": "tool", "tool_call_id": call.id, "content": content})
    assert message.content == "All are read: done."
    assert_steps_fit(desk)


@KINDS
@MODELS
async def test_the_providers_second_refusal_is_the_sdks_error(served, kind, model):
    """Where the smaller request is refused as well, LiteLLM raises its own error about the first."""
    desk, where = served(model, overflows=2)
    with pytest.raises(litellm.ContextWindowExceededError):
        await now(wrapped(getattr(litellm, kind))(messages=LONG, **where))
    assert len(desk.requests) == 2


@KINDS
async def test_a_refusal_before_sending_is_the_sdks_error(served, kind):
    """What cannot be made to fit is LiteLLM's own error in the provider's words, and the overflow can be had."""
    desk, where = served("openai/gpt-4o")
    with pytest.raises(litellm.ContextWindowExceededError, match="This model's maximum context length is") as raised:
        await now(wrapped(getattr(litellm, kind), TINY)(messages=LONG, **where))
    assert isinstance(agentctx.overflow_of(raised.value), agentctx.ContextOverflow)
    assert not desk.requests
