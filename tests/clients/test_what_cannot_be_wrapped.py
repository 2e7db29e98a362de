"""What ``wrap`` refuses, and why."""

from __future__ import annotations

import anthropic
import openai
import pytest
from anthropic import Anthropic
from geminis import gemini_client
from openai import OpenAI

import agentctx
from agentctx import Budget, ConfigError, InvalidInput, Pipeline


def test_what_is_no_client_is_named():
    """An object that is no known client is an error that names its class."""
    with pytest.raises(ConfigError, match=r"builtins\.dict"):
        agentctx.wrap({}, Pipeline())


async def later(body):
    """A key that would have to be awaited."""
    return body["model"]


class Later:
    """An object whose call would have to be awaited."""

    async def __call__(self, body):
        """Name nothing yet."""
        return body["model"]


CHAT = [{"role": "user", "content": "hello"}]


@pytest.mark.parametrize("key", [later, Later(), "user"], ids=["function", "object", "text"])
def test_a_key_that_is_no_plain_function_is_refused(key):
    """When the client is wrapped, by name: at a call nobody would await it."""
    with (
        OpenAI(api_key="none", base_url="http://127.0.0.1:9", max_retries=0) as client,
        pytest.raises(ConfigError, match=r"^wrap\.key must be a plain function of a request\'s body, such as "),
    ):
        agentctx.wrap(client, Pipeline(), key=key)


@pytest.mark.parametrize(
    "key",
    [lambda _: 1 / 0, lambda _: [1], lambda _: (1, []), lambda _: float("nan"), lambda body: later(body["model"])],
)
def test_a_key_that_names_nothing_is_named(key):
    """One that raises, or answers what no session can be found by: one error of this library, and nothing is sent."""
    with OpenAI(api_key="none", base_url="http://127.0.0.1:9", max_retries=0) as client:
        wrapped = agentctx.wrap(client, Pipeline(), key=key)
        with pytest.raises(ConfigError, match="wrap: key"):
            wrapped.chat.completions.create(model="gpt-4o", messages=CHAT)
        assert not wrapped.agentctx.sessions


@pytest.mark.parametrize("messages", [[], "", {}, CHAT[0], 5], ids=["none", "no text", "no fields", "one", "number"])
@pytest.mark.parametrize("kept", [False, True], ids=["alone", "in a session"])
def test_what_is_no_list_of_messages_is_named(messages, kept):
    """One error of this library says what was given in the place of the messages, and nothing is sent."""
    pipeline = Pipeline(budget=1_000)
    with OpenAI(api_key="none", base_url="http://127.0.0.1:9", max_retries=0) as client:
        wrapped = agentctx.wrap(client, pipeline, session=pipeline.session() if kept else None)
        with pytest.raises(InvalidInput, match=r"^messages: "):
            wrapped.chat.completions.create(model="gpt-4o", messages=messages)


OPENAI = {
    "legacy": lambda c: c.completions.create(model="gpt-3.5-turbo-instruct", prompt="x"),
    "compact": lambda c: c.responses.compact(model="gpt-5", input=CHAT),
    "kept": lambda c: c.responses.compact(model="gpt-5", previous_response_id="r1"),
    "beta": lambda c: c.beta.responses.compact(model="gpt-5", input=CHAT),
}


@pytest.mark.parametrize("call", OPENAI.values(), ids=OPENAI)
def test_openais_calls_that_cannot_be_prepared_are_refused(call):
    """They say what to call instead, and nothing is sent."""
    with OpenAI(api_key="none", base_url="http://127.0.0.1:9", max_retries=0) as client:
        wrapped = agentctx.wrap(client, Pipeline(budget=1_000))
        with pytest.raises(ConfigError, match=r"call .*create"):
            call(wrapped)


def test_openais_paths_are_read_however_they_are_spelled():
    """A request by hand is prepared with or without a slash in front, or a whole address."""
    with OpenAI(api_key="none", base_url="http://127.0.0.1:9", max_retries=0) as client:
        wrapped = agentctx.wrap(client, Pipeline(budget=Budget(5)))
        for path in ("chat/completions", "/chat/completions", "http://127.0.0.1:9/chat/completions?x=1"):
            with pytest.raises(openai.BadRequestError) as raised:
                wrapped.post(path, cast_to=object, body={"model": "gpt-4o", "messages": CHAT})
            assert agentctx.overflow_of(raised.value).limit == 5


def test_anthropics_path_is_read_however_it_is_spelled():
    """The same for messages."""
    with Anthropic(api_key="none", base_url="http://127.0.0.1:9", max_retries=0) as client:
        wrapped = agentctx.wrap(client, Pipeline(budget=Budget(5)))
        for path in ("v1/messages", "/v1/messages?beta=true", "http://127.0.0.1:9/v1/messages"):
            with pytest.raises(anthropic.BadRequestError) as raised:
                wrapped.post(
                    path, cast_to=object, body={"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": CHAT}
                )
            assert agentctx.overflow_of(raised.value).limit == 5


GEMINI = {
    "interactions": lambda c: c.interactions.create(model="gemini-2.5-flash", input="hi"),
    "cached": lambda c: generated(c, {"cached_content": "cachedContents/1"}),
}


def generated(client, config):
    return client.models.generate_content(model="gemini-2.5-flash", contents="x", config=config)


@pytest.mark.parametrize("call", GEMINI.values(), ids=GEMINI)
def test_geminis_calls_that_cannot_be_prepared_are_refused(call):
    """What the provider keeps is refused by name."""
    with (
        gemini_client("http://127.0.0.1:9", Pipeline(budget=1_000)) as client,
        pytest.raises(agentctx.AgentctxError, match=r"interactions|cachedContent"),
    ):
        call(client)
