"""aioboto3's kind of client: boto3's own class with an async ``_make_api_call`` and async streams, over HTTP."""

import boto3
import pytest
from anyio import to_thread
from botocore.config import Config
from botocore.exceptions import ClientError
from client_histories import converse as history

import agentctx
from agentctx import wrap
from agentctx.testing.servers import Said, converse

pytestmark = pytest.mark.both_loops

MODEL = "us.anthropic.claude-sonnet-5-5"
WINDOW = 1_000
LONG = history(20)


class AioEventStream:
    """A stream as aiobotocore has it: ``aiter`` of it is an async generator."""

    def __init__(self, stream):
        self.stream = stream

    def close(self):
        self.stream.close()

    async def __aiter__(self):
        for event in self.stream:
            yield event


@pytest.fixture
def client():
    kept = []

    def make(url):
        keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
        config = Config(retries={"total_max_attempts": 1})
        made = boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=url, config=config, **keys)
        blocking = type(made)

        class BedrockRuntime(blocking):
            async def _make_api_call(self, operation, params):
                value = await to_thread.run_sync(blocking._make_api_call, self, operation, params)
                return {**value, "stream": AioEventStream(value["stream"])} if "stream" in value else value

        made.__class__ = BedrockRuntime
        kept.append(made)
        return made

    yield make
    for each in kept:
        each.close()


def wrapped(client):
    plan = agentctx.Pipeline(agentctx.FitContextWindow(), budget=agentctx.Budget(100_000))
    session = plan.session(model=MODEL)
    return session, wrap(client, plan, session=session)


@pytest.mark.parametrize("refuses", ["status", "stream"])
@pytest.mark.anyio
async def test_async_converse_is_prepared_recovered_and_recorded(serve, client, refuses):
    """``converse`` and ``converse_stream`` of an async client are sent again smaller, and their usage is recorded."""
    desk, url = serve(converse, window=WINDOW, refuses=refuses, answer=lambda _: Said("one two three"))
    given = client(url)
    session, aio = wrapped(given)
    answer = await aio.converse(modelId=MODEL, messages=LONG)
    assert answer["output"]["message"]["content"] == [{"text": "one two three"}]
    assert session.billed_tokens == answer["usage"]["inputTokens"]
    session, aio = wrapped(given)
    stream = (await aio.converse_stream(modelId=MODEL, messages=LONG))["stream"]
    assert isinstance(stream, AioEventStream)
    events = [event async for event in stream]
    deltas = [event["contentBlockDelta"]["delta"]["text"] for event in events if "contentBlockDelta" in event]
    assert "".join(deltas) == "one two three"
    assert session.billed_tokens == events[-1]["metadata"]["usage"]["inputTokens"]
    assert len(desk.requests) == 4


@pytest.mark.anyio
async def test_async_converse_never_restarts_after_content(serve, client):
    """An overflow after the first content is raised where it stands."""
    desk, url = serve(converse, window=WINDOW, refuses="late")
    _, aio = wrapped(client(url))
    stream = (await aio.converse_stream(modelId=MODEL, messages=LONG))["stream"]
    with pytest.raises(ClientError, match="prompt is too long"):
        [event async for event in stream]
    stream.close()
    assert len(desk.requests) == 1
