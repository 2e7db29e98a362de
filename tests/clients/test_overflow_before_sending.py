"""A request that cannot be made to fit is not sent: its error is the SDK's own, in the provider's own words."""

import anthropic
import boto3
import litellm
import openai
import pytest
from botocore.exceptions import ClientError
from client_histories import chat, claude, converse as bedrock, gemini, items
from geminis import gemini_client
from google.genai import errors

import agentctx
from agentctx import wrap

KEYS = {"region_name": "us-east-1", "aws_access_key_id": "none", "aws_secret_access_key": "none"}
ASKED = {"model": "claude-sonnet-5-5", "max_tokens": 9}
PLAN = agentctx.Pipeline(budget=agentctx.Budget(5))
CALLS = {
    "chat": (
        lambda: wrap(openai.OpenAI(api_key="none"), PLAN),
        lambda c: c.chat.completions.create(model="gpt-4o", messages=chat(1)),
        (openai.BadRequestError, "This model's maximum context length is 5 tokens."),
    ),
    "responses": (
        lambda: wrap(openai.OpenAI(api_key="none"), PLAN),
        lambda c: c.responses.create(model="gpt-5.4", input=items(1), stream=True),
        (openai.BadRequestError, "Your input exceeds the context window of this model."),
    ),
    "messages": (
        lambda: wrap(anthropic.Anthropic(api_key="none"), PLAN),
        lambda c: c.messages.create(messages=claude(1), **ASKED),
        (anthropic.BadRequestError, "prompt is too long: "),
    ),
    "gemini": (
        lambda: gemini_client("http://127.0.0.1:9", PLAN),
        lambda c: c.models.generate_content(model="gemini-2.5-pro", contents=gemini(1)),
        (errors.ClientError, "The input token count ("),
    ),
    "bedrock": (
        lambda: wrap(boto3.client("bedrock-runtime", **KEYS), PLAN),
        lambda c: c.converse(modelId="amazon.nova-pro-v1:0", messages=bedrock(1)),
        (ClientError, "Input is too long for requested model"),
    ),
    "litellm": (
        lambda: wrap(litellm.completion, PLAN),
        lambda completion: completion(model="gpt-4o", messages=chat(1), api_key="none"),
        (litellm.ContextWindowExceededError, "This model's maximum context length is 5 tokens."),
    ),
}


def words_of(error):
    """The provider's sentence, as each SDK's error has it."""
    body = getattr(error, "body", None)
    if isinstance(body, dict):
        return body.get("error", body)["message"]
    if isinstance(error, ClientError):
        return error.response["Error"]["Message"]
    return error.message.removeprefix("litellm.ContextWindowExceededError: ").removeprefix("litellm.BadRequestError: ")


@pytest.mark.filterwarnings("ignore")  # LiteLLM warns of its own types
@pytest.mark.parametrize("api", CALLS)
def test_an_overflow_before_sending_is_the_sdks_own(api):
    """It begins with the provider's sentence, ends with ours, and leads to the ``ContextOverflow``."""
    make, call, (kind, sentence) = CALLS[api]
    client = make()
    with pytest.raises(kind) as raised:
        call(client)
    assert words_of(raised.value).startswith(sentence)
    assert "the request needs" in str(raised.value)
    overflow = agentctx.overflow_of(raised.value)
    assert isinstance(overflow, agentctx.ContextOverflow)
    assert overflow.limit == 5 < overflow.tokens
    assert overflow.biggest
    judged = agentctx.classify_error(raised.value)
    assert (judged.kind, judged.limit, judged.requested) == ("window", 5, overflow.tokens)
    told = agentctx.classify_error(words_of(raised.value))
    assert (told.kind, told.limit, told.requested) == ("window", 5, overflow.tokens)
    if hasattr(client, "close"):
        client.close()


def test_anthropics_error_is_built_as_the_api_writes_it():
    """What handlers read of it is there: the type, the message within the body, and the response."""
    make, call, _ = CALLS["messages"]
    with make() as client, pytest.raises(anthropic.BadRequestError) as raised:
        call(client)
    error = raised.value
    body = {"type": "error", "error": {"type": "invalid_request_error", "message": str(error)}}
    assert (error.type, error.body, error.response.json()) == ("invalid_request_error", body, body)
