"""A ``ContextOverflow`` of a wrapped client is the SDK's own error for a request that is too large, too."""

import pickle

import anthropic
import openai
import pytest
from client_histories import chat, claude, gemini, items
from google import genai
from google.genai import errors

import agentctx
from agentctx import wrap

ASKED = {"model": "claude-sonnet-5-5", "max_tokens": 9}
CALLS = {
    "chat": (
        lambda: openai.OpenAI(api_key="none"),
        lambda c: c.chat.completions.create(model="gpt-4o", messages=chat(1)),
        openai.BadRequestError,
    ),
    "responses": (
        lambda: openai.OpenAI(api_key="none"),
        lambda c: c.responses.create(model="gpt-5.4", input=items(1), stream=True),
        openai.BadRequestError,
    ),
    "messages": (
        lambda: anthropic.Anthropic(api_key="none"),
        lambda c: c.messages.create(messages=claude(1), **ASKED),
        anthropic.BadRequestError,
    ),
    "gemini": (
        lambda: genai.Client(api_key="none"),
        lambda c: c.models.generate_content(model="gemini-2.5-pro", contents=gemini(1)),
        errors.ClientError,
    ),
}


@pytest.mark.parametrize("api", CALLS)
def test_an_overflow_before_sending_is_the_sdks_own(api):
    """It is caught by either name, says the same, is recognised as an overflow, and survives pickling."""
    make, call, kind = CALLS[api]
    given = make()
    client = wrap(given, agentctx.Pipeline(budget=agentctx.Budget(5)))
    with pytest.raises(kind) as raised:
        call(client)
    error = raised.value
    assert isinstance(error, agentctx.ContextOverflow)
    assert error.limit == 5 < error.tokens
    assert error.biggest
    assert error.status_code == 400
    assert "the request needs" in str(error)
    overflow = agentctx.classify_error(error)
    assert (overflow.kind, overflow.limit, overflow.requested) == ("window", 5, error.tokens)
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert isinstance(error, type(again))
    assert isinstance(again, agentctx.ContextOverflow)
    assert isinstance(again, kind)
    assert (str(again), again.tokens, again.biggest) == (str(error), error.tokens, error.biggest)
    given.close()


def test_anthropics_error_is_built_as_the_api_writes_it():
    """What handlers read of it is there: the type, the message within the body, and the response."""
    make, call, _ = CALLS["messages"]
    with make() as given, pytest.raises(anthropic.BadRequestError) as raised:
        call(wrap(given, agentctx.Pipeline(budget=agentctx.Budget(5))))
    error = raised.value
    said = {"type": "error", "error": {"type": "invalid_request_error", "message": str(error)}}
    assert (error.type, error.body, error.response.json()) == ("invalid_request_error", said, said)
