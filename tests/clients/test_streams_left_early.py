"""Streams that their reader leaves before the end: what was billed is recorded as far as it is known, once."""

import boto3
import pytest
from anthropic import Anthropic, AsyncAnthropic
from both_kinds import now
from botocore.config import Config
from client_histories import chat, claude, converse as bedrock, gemini
from geminis import end, gemini_client
from openai import AsyncOpenAI, OpenAI

import agentctx
from agentctx import wrap
from agentctx.testing.servers import Said, chat_completions, converse, generate_content, messages

pytestmark = pytest.mark.both_loops

CLAUDE, GEMINI, NOVA = "claude-sonnet-5-5", "gemini-3.5-flash", "us.amazon.nova-pro-v1:0"


@pytest.fixture
def session():
    return agentctx.Pipeline(agentctx.FitContextWindow(), budget=agentctx.Budget(100_000)).session()


async def first(stream, wanted):
    """Read a stream of either kind up to the first event that is wanted, and leave it."""
    if hasattr(stream, "__aiter__") and not hasattr(stream, "__next__"):
        async for event in stream:
            if wanted(event):
                break
    else:
        for event in stream:
            if wanted(event):
                break


def says(event):
    return getattr(event, "type", "") in {"content_block_delta", "text"}


@pytest.mark.parametrize("kind", [AsyncAnthropic, Anthropic])
@pytest.mark.parametrize("helper", [False, True])
@pytest.mark.anyio
async def test_claudes_prompt_is_known_from_the_start(serve, closing, session, kind, helper):
    """Anthropic tells the prompt's size first: it is recorded when the stream is closed in its midst."""
    _, url = serve(messages, answer=lambda _: Said("one two three"))
    client = wrap(closing(kind(base_url=url, api_key="none")), session.plan, session=session)
    asked = {"model": CLAUDE, "max_tokens": 9, "messages": claude(2)}
    manager = client.messages.stream(**asked) if helper else await now(client.messages.create(**asked, stream=True))
    if kind is AsyncAnthropic:
        async with manager as stream:
            await first(stream, says)
    else:
        with manager as stream:
            await first(stream, says)
    assert session.billed_tokens == agentctx.count(claude(2), CLAUDE, format="anthropic")
    assert stream.response.is_closed


@pytest.mark.parametrize("kind", [AsyncOpenAI, OpenAI])
@pytest.mark.anyio
async def test_openais_prompt_is_known_at_the_end_only(serve, closing, session, kind):
    """OpenAI tells the size last: a stream that is left early records nothing, and the session goes on."""
    _, url = serve(chat_completions, answer=lambda _: Said("one two three"))
    client = wrap(closing(kind(base_url=f"{url}/v1", api_key="none")), session.plan, session=session)
    asked = {"model": "gpt-4o", "stream": True, "stream_options": {"include_usage": True}}
    stream = await now(client.chat.completions.create(messages=chat(2), **asked))
    await first(stream, lambda chunk: chunk.choices[0].delta.content)
    await now(stream.close())
    assert session.billed_tokens is None
    assert stream.response.is_closed
    await first(await now(client.chat.completions.create(messages=chat(3), **asked)), lambda _: False)
    assert session.billed_tokens == agentctx.count(chat(3), "gpt-4o")


@pytest.mark.anyio
async def test_geminis_prompt_is_known_from_each_chunk(serve, session):
    """Gemini tells the size in each chunk; leaving the iterator closes it."""
    _, url = serve(generate_content, answer=lambda _: Said("one two three"))
    client = gemini_client(url, session.plan, session=session)
    stream = client.models.generate_content_stream(model=GEMINI, contents=gemini(2))
    await first(stream, lambda _: True)
    stream.close()
    assert session.billed_tokens == agentctx.count(gemini(2), GEMINI, format="gemini")
    await end(client)


def test_converses_stream_is_let_go_of(serve, session):
    """Converse tells the size last: a stream that is left early records nothing and can be closed."""
    _, url = serve(converse, answer=lambda _: Said("one two three"))
    keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
    config = Config(retries={"total_max_attempts": 1})
    given = boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=url, config=config, **keys)
    stream = wrap(given, session.plan, session=session).converse_stream(modelId=NOVA, messages=bedrock(2))["stream"]
    for event in stream:
        if "contentBlockDelta" in event:
            break
    stream.close()
    assert session.billed_tokens is None
    given.close()
