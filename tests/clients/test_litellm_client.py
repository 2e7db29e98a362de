"""LiteLLM, completion and acompletion: the real library, over HTTP, to local servers of two providers."""

import gc
from inspect import iscoroutinefunction

import litellm
import pytest
from both_kinds import listed, now
from client_histories import chat

import agentctx
from agentctx.clients import wrap
from agentctx.testing.servers import Said, chat_completions, messages

WINDOW = 1_200
LONG = chat(20)
pytestmark = pytest.mark.filterwarnings("ignore")  # LiteLLM warns of its own types
KINDS = pytest.mark.parametrize("kind", ["acompletion", "completion"])
PROVIDERS = {"openai/gpt-4o": (chat_completions, "/v1"), "anthropic/claude-sonnet-5-5": (messages, "")}
MODELS = pytest.mark.parametrize("model", PROVIDERS)


@pytest.fixture
def anyio_backend():
    """LiteLLM runs on asyncio alone."""
    return "asyncio"


@pytest.fixture(autouse=True)
async def no_clients_left(anyio_backend):
    """Close the clients that LiteLLM keeps, before their event loop ends."""
    yield
    kept = [*litellm.in_memory_llm_clients_cache.cache_dict.values()]
    await litellm.close_litellm_async_clients()
    await litellm.module_level_aclient.client._transport.aclose()  # the one that LiteLLM's own closing forgets
    litellm.in_memory_llm_clients_cache.flush_cache()
    for each in kept:
        if not is_async(each):
            each.close()
    gc.collect()


def is_async(client):
    return hasattr(client, "aclose") or iscoroutinefunction(getattr(client, "close", None))


def pipeline(**options):
    return agentctx.Pipeline(agentctx.FitContextWindow(), **{"budget": agentctx.Budget(100_000), **options})


@pytest.fixture
def served(serve):
    def start(model, **behaviour):
        app, path = PROVIDERS[model]
        desk, url = serve(app, window=WINDOW, **behaviour)
        return desk, {"model": model, "api_base": f"{url}{path}", "api_key": "none", "max_tokens": 50, "num_retries": 0}

    return start


def text(chunks):
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


@KINDS
@MODELS
@pytest.mark.anyio
async def test_litellms_overflow_is_sent_again_smaller(served, kind, model):
    """An overflow, as LiteLLM words each provider's, is answered by a smaller request."""
    desk, how = served(model)
    answer = await now(getattr(wrap(litellm, pipeline()), kind)(messages=LONG, **how))
    assert answer.choices[0].message.content == "Done."
    sizes = [len(body["messages"]) for body in desk.requests]
    assert len(sizes) == 2
    assert sizes[1] < sizes[0]


@KINDS
@MODELS
@pytest.mark.anyio
async def test_litellms_second_overflow_is_raised(served, kind, model):
    """Two overflows in a row are LiteLLM's own error."""
    desk, how = served(model, overflows=2)
    with pytest.raises(litellm.BadRequestError):
        await now(getattr(wrap(litellm, pipeline()), kind)(messages=LONG, **how))
    assert len(desk.requests) == 2


@KINDS
@MODELS
@pytest.mark.parametrize("refuses", ["status", "stream"])
@pytest.mark.anyio
async def test_litellms_stream_restarts_before_its_first_content(served, kind, model, refuses):
    """An overflow before the first content restarts the stream unseen."""
    desk, how = served(model, refuses=refuses, answer=lambda _: Said("one two three"))
    stream = await now(getattr(wrap(litellm, pipeline()), kind)(messages=LONG, stream=True, **how))
    assert isinstance(stream, litellm.CustomStreamWrapper)
    events = [chunk async for chunk in stream] if kind == "acompletion" else await listed(stream)
    assert text(events) == "one two three"
    assert len(desk.requests) == 2


@KINDS
@pytest.mark.anyio
async def test_litellms_usage_is_recorded(served, kind):
    """The session learns what was billed, and functions are wrapped as well as the module."""
    _, how = served("openai/gpt-4o")
    session = pipeline().session(model="gpt-4o")
    ask = wrap(getattr(litellm, kind), session.plan, session=session)
    await now(ask(messages=chat(3), **how))
    assert session.billed_tokens == agentctx.count(chat(3), "gpt-4o")


@KINDS
@pytest.mark.anyio
async def test_a_router_is_wrapped(served, kind):
    """A router's calls are prepared, and the wrapped one is a router."""
    desk, how = served("openai/gpt-4o")
    router = litellm.Router(model_list=[{"model_name": "main", "litellm_params": how}], num_retries=0)
    wrapped = wrap(router, pipeline())
    assert isinstance(wrapped, litellm.Router)
    answer = await now(getattr(wrapped, kind)(model="main", messages=LONG))
    assert answer.choices[0].message.content == "Done."
    assert len(desk.requests) == 2


def test_the_module_stays_and_is_still_set():
    """The real module keeps its functions; what is set on the wrapped one is set there."""
    before = litellm.completion
    wrapped = wrap(litellm, pipeline())
    wrapped.agentctx_was_here = True
    assert litellm.completion is before
    assert litellm.agentctx_was_here
    del litellm.agentctx_was_here
    assert wrapped.exceptions is litellm.exceptions


def test_other_functions_are_refused():
    """What makes no chat completions is refused by name."""
    with pytest.raises(agentctx.ConfigError, match="embedding"):
        wrap(litellm.embedding, pipeline())
