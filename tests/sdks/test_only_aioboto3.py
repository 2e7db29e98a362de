"""aioboto3 alone: Bedrock's Converse, async."""

from contextlib import asynccontextmanager, closing

import aioboto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
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
    pipeline,
    read_file,
    reading,
)

import agentctx
from agentctx.testing.servers import Said, converse

pytestmark = pytest.mark.anyio

MODEL = "us.anthropic.claude-sonnet-5-5"
MESSAGES = [{"role": message["role"], "content": [{"text": message["content"]}]} for message in LONG]
ASKED = {"modelId": MODEL, "messages": MESSAGES, "system": [{"text": SYSTEM}]}
TOOL = {"toolSpec": {"name": "read_file", "description": READ_FILE, "inputSchema": {"json": PARAMETERS}}}


@asynccontextmanager
async def wrapped(url, window=100_000):
    """A wrapped client of the server at an address, which is closed when the block ends."""
    keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
    session = aioboto3.Session(region_name="us-east-1", **keys)
    config = Config(retries={"total_max_attempts": 1})
    async with session.client("bedrock-runtime", endpoint_url=url, config=config) as client:
        plan = pipeline(window)
        yield agentctx.wrap(client, plan, session=plan.session(model=MODEL))


async def text(answer):
    events = [event async for event in answer["stream"]]
    deltas = (event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event)
    return "".join(delta["text"] for delta in deltas)


async def test_what_fits_is_sent_as_it_is(serve):
    """A request within the budget reaches the provider as the caller wrote it."""
    desk, url = serve(converse)
    request = {**ASKED, "messages": MESSAGES[:3], "toolConfig": {"tools": [TOOL]}}
    async with wrapped(url) as client:
        answer = await client.converse(**request)
    assert answer["output"]["message"]["content"] == [{"text": "Done."}]
    assert desk.requests == [request]


async def test_what_is_sent_fits_the_budget(serve):
    """A request over the budget reaches the provider within it, as a stream too."""
    desk, url = serve(converse, window=WINDOW, answer=lambda _: Said("one two three"))
    async with wrapped(url, WINDOW) as client:
        assert (await client.converse(**ASKED))["stopReason"] == "end_turn"
        assert await text(await client.converse_stream(**ASKED)) == "one two three"
    assert len(desk.accepted) == len(desk.requests) == 2


async def test_an_overflow_is_sent_again_smaller(serve):
    """The caller sees the answer to the smaller request alone."""
    desk, url = serve(converse, window=WINDOW)
    async with wrapped(url) as client:
        assert (await client.converse(**ASKED))["stopReason"] == "end_turn"
    assert_recovered(desk)


async def test_an_overflow_of_a_stream_by_status_is_sent_again_smaller(serve):
    """The caller sees the stream of the smaller request."""
    desk, url = serve(converse, window=WINDOW, answer=lambda _: Said("one two three"))
    async with wrapped(url) as client:
        assert await text(await client.converse_stream(**ASKED)) == "one two three"
    assert_recovered(desk)


@pytest.mark.parametrize("refuses", ["stream", "late"])
async def test_an_overflow_in_a_stream_is_the_sdks_error(serve, refuses):
    """It is raised where it is, and nothing is sent again."""
    desk, url = serve(converse, window=WINDOW, refuses=refuses)
    async with wrapped(url) as client:
        answer = await client.converse_stream(**ASKED)
        with closing(answer["stream"]), pytest.raises(ClientError, match="prompt is too long"):
            await text(answer)
    assert len(desk.requests) == 1


async def test_twenty_steps_fit_a_small_window(serve):
    """An agent that keeps all its messages is never refused."""
    desk, url = serve(converse, window=WINDOW, answer=reading)
    messages = [{"role": "user", "content": [{"text": TASK}]}]
    calls = True
    async with wrapped(url, WINDOW) as client:
        while calls:
            answer = await client.converse(**{**ASKED, "messages": messages}, toolConfig={"tools": [TOOL]})
            messages.append(answer["output"]["message"])
            calls = [block["toolUse"] for block in messages[-1]["content"] if "toolUse" in block]
            results = [
                {"toolResult": {"toolUseId": call["toolUseId"], "content": [{"text": read_file(**call["input"])}]}}
                for call in calls
            ]
            messages.append({"role": "user", "content": results})
    assert answer["output"]["message"]["content"] == [{"text": "All are read: done."}]
    assert_steps_fit(desk)


async def test_a_refusal_before_sending_is_the_sdks_error(serve):
    """What cannot be made to fit is refused in the provider's words, nothing is sent, and the overflow can be had."""
    desk, url = serve(converse)
    async with wrapped(url, TINY) as client:
        with pytest.raises(client.exceptions.ValidationException) as raised:
            await client.converse(**ASKED)
    assert raised.value.response["Error"]["Message"].startswith("Input is too long for requested model")
    assert isinstance(agentctx.overflow_of(raised.value), agentctx.ContextOverflow)
    assert not desk.requests
