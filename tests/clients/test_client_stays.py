"""The client that was given stays as it was, and the wrapped one behaves like it wherever a client is handed about."""

import copy
import re
import traceback
from pathlib import Path
from types import ModuleType

import boto3
import litellm
import pytest
from anthropic import Anthropic, AsyncAnthropic
from both_kinds import now
from botocore.config import Config
from client_histories import chat, claude, converse as bedrock
from openai import AsyncOpenAI, OpenAI

import agentctx
from agentctx import wrap
from agentctx.testing.servers import chat_completions, converse, messages

WINDOW = 1_200
TOO_LONG = r"context length|too long|exceed context limit"
CLAUDE, NOVA = "claude-sonnet-5-5", "us.amazon.nova-pro-v1:0"
ADDRESS = re.compile(r"0x[0-9a-f]+")
KEYS = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}


def plan(**options):
    return agentctx.Pipeline(agentctx.FitContextWindow(), **{"budget": agentctx.Budget(100_000), **options})


def an_openai(kind):
    def ask(client):
        return client.chat.completions.create(model="gpt-4o", messages=chat(20))

    return chat_completions, lambda url: kind(base_url=f"{url}/v1", api_key="none", max_retries=0), ask


def an_anthropic(kind):
    def ask(client):
        return client.messages.create(model=CLAUDE, max_tokens=9, messages=claude(20))

    return messages, lambda url: kind(base_url=url, api_key="none", max_retries=0), ask


def a_bedrock():
    def make(url):
        config = Config(retries={"total_max_attempts": 1})
        return boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=url, config=config, **KEYS)

    return converse, make, lambda client: client.converse(modelId=NOVA, messages=bedrock(20))


CLIENTS = {
    "OpenAI": an_openai(OpenAI),
    "AsyncOpenAI": an_openai(AsyncOpenAI),
    "Anthropic": an_anthropic(Anthropic),
    "AsyncAnthropic": an_anthropic(AsyncAnthropic),
    "bedrock": a_bedrock(),
}
EACH = pytest.mark.parametrize("name", CLIENTS)


@pytest.fixture
def made(serve, closing):
    def make(name, **behaviour):
        app, client, ask = CLIENTS[name]
        desk, url = serve(app, **behaviour)
        return desk, closing(client(url)), ask

    return make


def walk(thing, path=(), seen=None):
    """Every place within an object, with its class, or its value where that is plain; each object once."""
    seen = {} if seen is None else seen
    plain = isinstance(thing, str | int | float | bytes | type(None))
    yield path, thing if plain else type(thing)
    if plain or id(thing) in seen or len(path) > 8 or isinstance(thing, type | ModuleType) or callable(thing):
        return
    seen[id(thing)] = thing
    inside = thing if isinstance(thing, dict) else getattr(thing, "__dict__", {})
    items = enumerate(thing) if isinstance(thing, list | tuple) else inside.items()
    for name, value in list(items):
        yield from walk(value, (*path, ADDRESS.sub("", str(name))), seen)


def changed(before, after):
    """The places that are not as they were."""
    return {path for path in before.keys() | after.keys() if before.get(path, ...) != after.get(path, ...)}


@EACH
@pytest.mark.anyio
async def test_the_given_client_stays_as_it_was(serve, closing, name):
    """Wrapping changes nothing in a client, and calls of the wrapped one no more than calls of its own would."""
    app, client, ask = CLIENTS[name]
    desk, url = serve(app, overflows=1)
    plain, given = closing(client(url)), closing(client(url))
    whole, before = dict(walk(plain)), dict(walk(given))
    wrapped = wrap(given, plan())
    assert changed(before, dict(walk(given))) == set()
    with pytest.raises(Exception, match=TOO_LONG):
        await now(ask(plain))
    await now(ask(plain))
    desk.overflows = 1
    await now(ask(wrapped))
    assert changed(before, dict(walk(given))) <= changed(whole, dict(walk(plain)))
    assert len(desk.requests) == 4
    assert isinstance(wrapped, type(given))
    assert type(wrapped).__name__ == type(given).__name__


@EACH
@pytest.mark.anyio
async def test_the_given_client_is_still_not_prepared(made, name):
    """What the given client sends by itself is sent as it is, and its overflow is its own."""
    desk, given, ask = made(name, window=WINDOW)
    await now(ask(wrap(given, plan())))
    with pytest.raises(Exception, match=TOO_LONG):
        await now(ask(given))
    assert len(desk.requests) == 3


@EACH
@pytest.mark.anyio
async def test_wrapping_a_wrapped_client_prepares_twice(made, name):
    """A client wrapped twice sends what the inner pipeline makes of what the outer made; each layer keeps the class."""
    desk, given, ask = made(name)
    twice = wrap(wrap(given, plan(budget=agentctx.Budget(WINDOW // 5))), plan())
    await now(ask(twice))
    assert isinstance(twice, type(given))
    body = desk.requests[0]
    assert len(body.get("messages") or body.get("contents")) < 20
    assert len(desk.requests) == 1


@pytest.mark.parametrize("name", ["OpenAI", "AsyncOpenAI", "Anthropic", "AsyncAnthropic"])
@pytest.mark.anyio
async def test_a_copy_of_a_wrapped_client_is_wrapped(made, name):
    """``copy.copy``, and the SDK's own ``copy`` where it has one, give clients whose calls are prepared."""
    desk, given, ask = made(name, window=WINDOW)
    wrapped = wrap(given, plan())
    copies = [copy.copy(wrapped), *([wrapped.copy(timeout=30)] if hasattr(wrapped, "copy") else [])]
    for each in copies:
        await now(ask(each))
    assert len(desk.accepted) == len(copies)
    assert len(desk.requests) == 1 + len(copies)  # the copies know the limit that the first overflow taught


@pytest.mark.parametrize("name", ["OpenAI", "AsyncOpenAI", "Anthropic", "AsyncAnthropic"])
@pytest.mark.anyio
async def test_leaving_the_wrapped_client_closes_the_connections(made, name):
    """``with`` on the wrapped client closes the connections that it shares with the given one."""
    _, given, ask = made(name)
    wrapped = wrap(given, plan())
    if name.startswith("Async"):
        async with wrapped as entered:
            await ask(entered)
    else:
        with wrapped as entered:
            ask(entered)
    assert entered is wrapped
    assert given.is_closed()
    assert wrapped.is_closed()


@EACH
@pytest.mark.anyio
async def test_a_second_overflow_keeps_its_traceback(made, name):
    """The error of two overflows in a row comes from within the SDK, and nothing of ours is its cause."""
    _, given, ask = made(name, overflows=2, window=WINDOW)
    with pytest.raises(Exception, match=TOO_LONG) as raised:
        await now(ask(wrap(given, plan())))
    error = raised.value
    assert type(error).__module__.partition(".")[0] in {"openai", "anthropic", "botocore"}
    last = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
    assert not last.is_relative_to(Path(agentctx.__file__).parent)
    assert not isinstance(error.__cause__ or error.__context__, agentctx.AgentctxError)


@pytest.mark.anyio
async def test_what_breaks_a_recovery_names_the_overflow(made):
    """An error of ours while a smaller request is prepared is raised, caused by the provider's refusal."""
    calls = []

    async def breaks(context, _call):
        calls.append(len(context.messages))
        if len(calls) > 1:
            raise agentctx.ConfigError("broken")
        return context

    _, given, ask = made("AsyncOpenAI", window=WINDOW)
    with pytest.raises(agentctx.ConfigError, match="broken") as raised:
        await ask(wrap(given, agentctx.Pipeline(breaks, agentctx.FitContextWindow(), budget=agentctx.Budget(100_000))))
    assert agentctx.classify_error(raised.value.__cause__).limit == WINDOW


@EACH
@pytest.mark.anyio
async def test_without_messages_the_provider_answers(made, name):
    """A request without messages has nothing to prepare: it goes to the SDK, which says what is missing."""
    _, given, _ = made(name)
    wrapped = wrap(given, plan())
    calls = {
        "OpenAI": lambda: wrapped.chat.completions.create(model="gpt-4o", messages=None),
        "Anthropic": lambda: wrapped.messages.create(model=CLAUDE, max_tokens=9, messages=None),
        "bedrock": lambda: wrapped.converse(modelId=NOVA),
    }
    with pytest.raises(Exception, match=r"messages|contents|conversation") as raised:
        await now(calls[name.removeprefix("Async")]())
    assert not isinstance(raised.value, agentctx.AgentctxError)


@pytest.mark.filterwarnings("ignore")  # LiteLLM warns of its own types
def test_a_routers_method_is_wrapped():
    """A router's ``completion`` by itself is wrapped like the function of that name."""
    how = {"model": "openai/gpt-4o", "api_key": "none", "mock_response": "Hello."}
    router = litellm.Router(model_list=[{"model_name": "main", "litellm_params": how}], num_retries=0)
    session = plan().session(model="gpt-4o")
    answer = wrap(router.completion, session.plan, session=session)("main", chat(1))
    assert answer.choices[0].message.content == "Hello."
    assert session.steps == 1
