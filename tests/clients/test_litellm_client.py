"""LiteLLM, its model calls: the real library, over HTTP, to local servers of two providers."""

import copy
import gc
import re
from collections import deque
from inspect import iscoroutinefunction

import litellm
import pytest
from both_kinds import listed, now
from client_histories import chat, claude, items

import agentctx
from agentctx import wrap
from agentctx.clients.litellm import PREPARED
from agentctx.strategies import ClearByProvider
from agentctx.testing.servers import Said, chat_completions, messages, responses

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


def pipeline(*stages, **options):
    return agentctx.Pipeline(*stages, agentctx.FitContextWindow(), **{"budget": agentctx.Budget(100_000), **options})


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
    answer = await now(wrap(getattr(litellm, kind), pipeline())(messages=LONG, **how))
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
        await now(wrap(getattr(litellm, kind), pipeline())(messages=LONG, **how))
    assert len(desk.requests) == 2


@KINDS
@MODELS
@pytest.mark.parametrize("refuses", ["status", "stream"])
@pytest.mark.anyio
async def test_litellms_stream_restarts_before_its_first_content(served, kind, model, refuses):
    """An overflow before the first content restarts the stream unseen."""
    desk, how = served(model, refuses=refuses, answer=lambda _: Said("one two three"))
    stream = await now(wrap(getattr(litellm, kind), pipeline())(messages=LONG, stream=True, **how))
    assert stream.model
    events = [chunk async for chunk in stream] if kind == "acompletion" else await listed(stream)
    assert text(events) == "one two three"
    assert len(desk.requests) == 2


@KINDS
@pytest.mark.anyio
async def test_a_stream_of_litellms_has_what_its_own_has(served, kind):
    """Its attributes are those of LiteLLM's stream, its chunks can be put together, and closing it lets go of it."""
    _, how = served("openai/gpt-4o", answer=lambda _: Said("one two three"))
    session = pipeline().session(model="gpt-4o")
    ask = wrap(getattr(litellm, kind), session.plan, session=session)
    asked = {"messages": chat(3), "stream": True, "stream_options": {"include_usage": True}, **how}
    stream = await now(ask(**asked))
    assert stream.model == "gpt-4o"
    assert "additional_headers" in stream._hidden_params
    chunks = await listed(stream)
    assert litellm.stream_chunk_builder(chunks).choices[0].message.content == "one two three"
    assert session.billed_tokens == agentctx.count(chat(3), "gpt-4o")
    stream = await now(ask(**asked))
    first = await anext(stream) if kind == "acompletion" else next(stream)
    assert first.choices[0].delta.role == "assistant"
    await now(stream.aclose() if kind == "acompletion" else stream.close())
    assert await listed(stream) == []


@KINDS
@pytest.mark.anyio
async def test_litellms_usage_is_recorded(served, kind):
    """The session learns what was billed."""
    _, how = served("openai/gpt-4o")
    session = pipeline().session(model="gpt-4o")
    ask = wrap(getattr(litellm, kind), session.plan, session=session)
    await now(ask(messages=chat(3), **how))
    assert session.billed_tokens == agentctx.count(chat(3), "gpt-4o")


@pytest.mark.anyio
async def test_messages_in_another_collection_are_prepared(served):
    """LiteLLM takes messages in a deque, of which no part can be cut out; so does the wrapped one, and leaves it so."""
    desk, how = served("openai/gpt-4o")
    given = deque(LONG)
    await wrap(litellm.acompletion, pipeline(budget=agentctx.Budget(WINDOW)))(messages=given, **how)
    assert given == deque(LONG)
    assert len(desk.accepted[0]["messages"]) < len(LONG)


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


@KINDS
@pytest.mark.anyio
async def test_a_function_is_wrapped_by_two_pipelines(served, kind):
    """What the inner pipeline makes of what the outer made is sent, whole or as a stream."""
    desk, how = served("openai/gpt-4o", answer=lambda _: Said("one two three"))
    inner = wrap(getattr(litellm, kind), pipeline(budget=agentctx.Budget(WINDOW // 2)))
    twice = wrap(inner, pipeline(budget=agentctx.Budget(WINDOW)))
    await now(twice(messages=LONG, **how))
    assert text(await listed(await now(twice(messages=LONG, stream=True, **how)))) == "one two three"
    assert len(desk.requests) == 2
    assert all(agentctx.count(body["messages"], "gpt-4o") <= WINDOW // 2 for body in desk.accepted)


def test_the_module_is_refused():
    """The module is not replaced: the error says what to wrap instead."""
    with pytest.raises(agentctx.ConfigError, match=r"module cannot be wrapped; .*wrap\(litellm\.completion.*Router"):
        wrap(litellm, pipeline())


def other_apis(kind):
    """The API of a call, its history, and where that stands."""
    return (messages, claude(20), "messages") if "messages" in kind else (responses, items(20), "input")


def asked(kind, url):
    if "messages" in kind:
        return {"model": "anthropic/claude-sonnet-5-5", "api_base": url, "api_key": "none", "max_tokens": 50}
    pytest.importorskip("mcp", reason="LiteLLM's responses need its extra mcp")
    return {"model": "openai/gpt-5.4", "api_base": f"{url}/v1", "api_key": "none"}


OTHERS = pytest.mark.parametrize("kind", ["aresponses", "responses", "anthropic_messages"])


@OTHERS
@pytest.mark.anyio
async def test_litellms_other_apis_are_prepared(serve, kind):
    """Responses and messages are cut to the budget and billed."""
    app, given, place = other_apis(kind)
    desk, url = serve(app)
    how = asked(kind, url)
    small = pipeline(budget=agentctx.Budget(900))
    session = small.session(model=how["model"])
    await now(wrap(getattr(litellm, kind), small, session=session)(**{place: given}, **how))
    assert [len(body[place]) < len(given) for body in desk.accepted] == [True]
    assert 0 < session.billed_tokens <= 900


@pytest.mark.anyio
async def test_what_the_provider_clears_is_learned_of_litellms_messages(serve):
    """A bill tells how the provider counts also where it was asked to clear: messages say what it cleared."""
    desk, url = serve(messages)
    plan = pipeline(ClearByProvider(1_500, 2))
    session = plan.session(model="claude-sonnet-5-5")
    ask = wrap(litellm.anthropic_messages, plan, session=session)
    await ask(messages=claude(9), **asked("anthropic_messages", url))
    assert "context_management" in desk.accepted[0]
    assert session.internals.limits.calibration.reports == 1


@OTHERS
@pytest.mark.anyio
async def test_an_overflow_of_litellms_other_apis_is_sent_again_smaller(serve, kind):
    """An overflow, as LiteLLM words it for either API, is answered by a smaller request."""
    app, given, place = other_apis(kind)
    desk, url = serve(app, window=WINDOW)
    await now(wrap(getattr(litellm, kind), pipeline())(**{place: given}, **asked(kind, url)))
    assert [len(body[place]) < len(given) for body in desk.requests] == [False, True]


@pytest.mark.parametrize("refuses", ["status", "stream"])
@pytest.mark.parametrize("kind", ["aresponses", "responses"])
@pytest.mark.anyio
async def test_a_stream_of_litellms_responses_restarts_before_its_first_content(serve, kind, refuses):
    """An overflow before the first content restarts such a stream, and its end is billed."""
    desk, url = serve(responses, window=WINDOW, refuses=refuses, answer=lambda _: Said("one two three"))
    session = pipeline().session(model="gpt-5.4")
    ask = wrap(getattr(litellm, kind), session.plan, session=session)
    stream = await now(ask(input=items(20), stream=True, **asked(kind, url)))
    events = [event async for event in stream] if kind == "aresponses" else await listed(stream)
    words = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(words) == "one two three"
    assert len(desk.requests) == 2
    assert session.billed_tokens is not None


@pytest.mark.anyio
async def test_a_stream_of_litellms_messages_is_billed(serve):
    """Messages are streamed as the bytes of events; what is billed stands in them."""
    _, url = serve(chat_completions, answer=lambda _: Said("one two three"))
    session = pipeline().session(model="gpt-4o")
    how = {"model": "hosted_vllm/gpt-4o", "api_base": f"{url}/v1", "api_key": "none", "max_tokens": 50}
    ask = wrap(litellm.anthropic_messages, session.plan, session=session)
    stream = await ask(messages=claude(3), stream=True, **how)
    whole = b"".join([piece async for piece in stream])
    assert b"message_start" in whole
    assert all(word in whole for word in (b"one", b"two", b"three"))
    assert session.billed_tokens is not None


@pytest.mark.parametrize("refuses", ["status", "stream"])
@pytest.mark.parametrize("kind", ["function", "router"])
@pytest.mark.anyio
async def test_a_stream_of_anthropics_own_messages_restarts_before_its_first_content(serve, kind, refuses):
    """The same where LiteLLM hands on what Anthropic itself streams: cut, sent again once when refused, and billed."""
    pytest.importorskip("fastapi", reason="LiteLLM streams Anthropic's own messages with its extra proxy only")
    desk, url = serve(messages, window=WINDOW, refuses=refuses, answer=lambda _: Said("one two three"))
    how = asked("anthropic_messages", url)
    session = pipeline().session(model="claude-sonnet-5-5")
    if kind == "router":
        how = [{"model_name": "main", "litellm_params": how}]
        ask = wrap(litellm.Router(model_list=how, num_retries=0), session.plan, session=session).aanthropic_messages
        how = {"model": "main", "max_tokens": 50}
    else:
        ask = wrap(litellm.anthropic_messages, session.plan, session=session)
    stream = await ask(messages=claude(20), stream=True, **how)
    whole = b"".join([piece if isinstance(piece, bytes) else piece.encode() async for piece in stream])
    assert all(word in whole for word in (b"one", b"two", b"three"))
    assert [len(body["messages"]) < 40 for body in desk.requests] == [False, True]
    assert session.billed_tokens is not None


@pytest.mark.parametrize("kind", ["aresponses", "responses", "aanthropic_messages", "anthropic_messages"])
@pytest.mark.anyio
async def test_a_routers_other_apis_are_prepared(serve, kind):
    """What a router has as attributes of its own is prepared, too."""
    app, given, place = other_apis(kind)
    desk, url = serve(app)
    router = litellm.Router(model_list=[{"model_name": "main", "litellm_params": asked(kind, url)}], num_retries=0)
    wrapped = wrap(router, pipeline(budget=agentctx.Budget(900)))
    await now(getattr(wrapped, kind)(**{place: given}, model="main"))
    assert len(desk.accepted[0][place]) < len(given)


@pytest.mark.anyio
async def test_a_routers_chat_is_prepared(served):
    """``router.chat.completions.create`` goes through the wrapped router."""
    desk, how = served("openai/gpt-4o")
    router = litellm.Router(model_list=[{"model_name": "main", "litellm_params": how}], num_retries=0)
    answer = await now(wrap(router, pipeline()).chat.completions.create(LONG, model="main"))
    assert answer.choices[0].message.content == "Done."
    assert len(desk.requests) == 2


SENTENCES = {
    "completion": r"This model's maximum context length is 5 tokens\. However, your messages resulted in \d+ tokens",
    "responses": r"Your input exceeds the context window of this model\.",
    "anthropic_messages": r"prompt is too long: \d+ tokens > 5 maximum",
}


@pytest.mark.parametrize("of_a_router", [False, True])
@pytest.mark.parametrize("name", SENTENCES)
@pytest.mark.anyio
async def test_litellms_overflow_before_sending_is_its_own(name, of_a_router):
    """It is LiteLLM's own error in the words of the API, caused by the ``ContextOverflow``."""
    small = pipeline(budget=agentctx.Budget(5))
    router = litellm.Router(model_list=[])
    ask = getattr(wrap(router, small), name) if of_a_router else wrap(getattr(litellm, name), small)
    place = "input" if name == "responses" else "messages"
    with pytest.raises(litellm.ContextWindowExceededError) as raised:
        await now(ask(model="gpt-4o", **{place: claude(1)}))
    error, overflow = raised.value, raised.value.__cause__
    assert isinstance(overflow, agentctx.ContextOverflow)
    own = "litellm.ContextWindowExceededError: litellm.BadRequestError: "
    assert re.match(re.escape(own) + SENTENCES[name], str(error))
    assert (error.status_code, error.llm_provider) == (400, "agentctx")
    told = agentctx.classify_error(error)
    assert (told.kind, told.limit, told.requested) == ("window", 5, overflow.tokens)


@pytest.mark.parametrize("name", ["embedding", "text_completion", "Router"])
def test_other_functions_are_refused(name):
    """What is none of the functions that are prepared is refused by name."""
    with pytest.raises(agentctx.ConfigError, match=name):
        wrap(getattr(litellm, name), pipeline())


CALLS_A_MODEL = re.compile("completion|generate_content|responses|messages|interaction|passthrough")
ASKS_WHAT_IS_KEPT = re.compile("a?(cancel|delete|get|list)_")


def test_a_routers_other_model_calls_are_refused():
    """Each says what to call instead; only what a provider keeps can be asked for."""
    router = litellm.Router(model_list=[])
    wrapped = wrap(router, pipeline())
    names = [name for name in dir(router) if CALLS_A_MODEL.search(name) and not name.startswith("_")]
    calls = {name for name in names if callable(getattr(router, name)) and not ASKS_WHAT_IS_KEPT.match(name)}
    refused = calls - PREPARED.keys()
    assert {"atext_completion", "abatch_completion", "agenerate_content", "schedule_acompletion"} <= refused
    assert {"acompact_responses", "acreate_interaction", "allm_passthrough_route"} <= refused
    for name in refused:
        with pytest.raises(agentctx.ConfigError, match=f"{name} .*: call (completion|responses)"):
            getattr(wrapped, name)(model="gpt-4o", messages=chat(2))


@pytest.mark.anyio
async def test_a_wrapped_router_is_the_router_in_all_else(served):
    """What is set on it is set on the router, what the router lacks it lacks, and copies of it are prepared."""
    desk, how = served("openai/gpt-4o")
    router = litellm.Router(model_list=[{"model_name": "main", "litellm_params": how}], num_retries=0)
    wrapped = wrap(router, pipeline())
    assert wrapped.get_model_list() == router.get_model_list()
    wrapped.num_retries = 1
    assert router.num_retries == 1
    assert not hasattr(wrapped, "nothing_of_this_name")
    assert not hasattr(router, "agentctx")
    await copy.copy(wrapped).acompletion("main", LONG)
    assert len(desk.requests) == 2
    assert wrapped.agentctx.view is not None


@KINDS
@pytest.mark.anyio
async def test_a_router_is_wrapped_by_two_pipelines(served, kind):
    """What the inner pipeline makes of what the outer made is sent."""
    desk, how = served("openai/gpt-4o")
    router = litellm.Router(model_list=[{"model_name": "main", "litellm_params": how}], num_retries=0)
    inner = wrap(router, pipeline(budget=agentctx.Budget(WINDOW // 2)))
    twice = wrap(inner, pipeline(budget=agentctx.Budget(WINDOW)))
    await now(getattr(twice, kind)("main", LONG))
    assert isinstance(twice, litellm.Router)
    assert agentctx.count(desk.accepted[0]["messages"], "gpt-4o") <= WINDOW // 2
