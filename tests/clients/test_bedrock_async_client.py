"""aioboto3's bedrock-runtime client, converse: the real client, over HTTP, to a local server.

aioboto3 asks for a botocore of its own, so it is installed in an environment without the newest boto3.
"""

import pytest
from client_histories import converse as history

import agentctx
from agentctx import wrap
from agentctx.reports import UsageRecorded
from agentctx.testing.servers import Said, converse

aioboto3 = pytest.importorskip("aioboto3", reason="it has an environment of its own")
ClientError = pytest.importorskip("botocore.exceptions").ClientError

MODEL = "us.anthropic.claude-sonnet-5-5"
WINDOW = 1_000
LONG = history(20)


@pytest.fixture
def anyio_backend():
    """aioboto3 runs on asyncio alone."""
    return "asyncio"


def pipeline(*stages, **options):
    return agentctx.Pipeline(*stages, agentctx.FitContextWindow(), **{"budget": agentctx.Budget(100_000), **options})


def client(url):
    """A client's context manager, as aioboto3 makes it."""
    keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
    return aioboto3.Session().client("bedrock-runtime", region_name="us-east-1", endpoint_url=url, **keys)


def text(events):
    deltas = (event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event)
    return "".join(delta["text"] for delta in deltas)


@pytest.mark.anyio
async def test_async_converse_is_sent_again_smaller_and_recorded(serve):
    """``converse`` of an async client is prepared, sent again smaller after an overflow, and its usage is recorded."""
    desk, url = serve(converse, window=WINDOW)
    session = pipeline().session(model=MODEL)
    async with client(url) as given:
        kind, wrapped = type(given), wrap(given, session.plan, session=session)
        answer = await wrapped.converse(modelId=MODEL, messages=LONG)
        assert answer["output"]["message"]["content"] == [{"text": "Done."}]
        assert session.billed_tokens == answer["usage"]["inputTokens"]
        assert [len(body["messages"]) < len(LONG) for body in desk.requests] == [False, True]
        assert type(wrapped) is type(given) is kind
        assert wrapped.agentctx.view is session.view
        assert not hasattr(given, "agentctx")
        with pytest.raises(ClientError, match="prompt is too long"):
            await given.converse(modelId=MODEL, messages=LONG)


@pytest.mark.anyio
async def test_async_converses_second_overflow_is_raised(serve):
    """Two overflows in a row are the client's own error about the first."""
    desk, url = serve(converse, window=WINDOW, overflows=2)
    async with client(url) as given:
        with pytest.raises(given.exceptions.ValidationException, match="prompt is too long") as raised:
            await wrap(given, pipeline()).converse(modelId=MODEL, messages=LONG)
    assert len(desk.requests) == 2
    assert raised.value.__cause__ is None


@pytest.mark.anyio
async def test_async_converses_stream_is_sent_again_smaller_and_recorded(serve):
    """``converse_stream`` is sent again smaller; its usage is recorded once, also where its last event is the end."""
    desk, url = serve(converse, window=WINDOW, answer=lambda _: Said("one two three"))
    seen, events = [], []
    plan = pipeline(subscribers=[seen.append])
    async with client(url) as given:
        wrapped = wrap(given, plan, session=plan.session(model=MODEL))
        stream = (await wrapped.converse_stream(modelId=MODEL, messages=LONG))["stream"]
        async for event in stream:
            events.append(event)
            if "metadata" in event:
                break
        stream.close()
    assert text(events) == "one two three"
    assert len(desk.requests) == 2
    billed = [event.billed for event in seen if isinstance(event, UsageRecorded)]
    assert billed == [events[-1]["metadata"]["usage"]["inputTokens"]]


@pytest.mark.parametrize("refuses", ["stream", "late"])
@pytest.mark.anyio
async def test_an_overflow_in_async_converses_stream_is_the_clients_own(serve, refuses):
    """An overflow that the stream tells of is botocore's error, and nothing is sent again."""
    desk, url = serve(converse, window=WINDOW, refuses=refuses)
    async with client(url) as given:
        stream = (await wrap(given, pipeline()).converse_stream(modelId=MODEL, messages=LONG))["stream"]
        with pytest.raises(ClientError, match="prompt is too long"):
            [event async for event in stream]
        stream.close()
    assert len(desk.requests) == 1


@pytest.mark.anyio
async def test_async_converses_overflow_before_sending_is_the_clients_own(serve):
    """It is the client's own ``ValidationException`` in Bedrock's words, caused by the ``ContextOverflow``."""
    desk, url = serve(converse)
    async with client(url) as given:
        with pytest.raises(given.exceptions.ValidationException, match="Input is too long for requested") as raised:
            await wrap(given, pipeline(budget=agentctx.Budget(5))).converse(modelId=MODEL, messages=history(1))
    assert isinstance(raised.value.__cause__, agentctx.ContextOverflow)
    assert desk.requests == []


@pytest.mark.anyio
async def test_an_async_client_is_wrapped_by_two_pipelines(serve):
    """What the inner pipeline makes of what the outer made is sent, and other model calls are refused."""
    desk, url = serve(converse)
    async with client(url) as given:
        twice = wrap(wrap(given, pipeline(budget=agentctx.Budget(WINDOW // 5))), pipeline())
        await twice.converse(modelId=MODEL, messages=LONG)
        with pytest.raises(agentctx.ConfigError, match="call converse"):
            await twice.invoke_model(modelId=MODEL, body='{"messages": []}')
    assert len(desk.requests) == 1
    assert agentctx.count(desk.requests[0]["messages"], MODEL, format="bedrock") <= WINDOW // 5


@pytest.mark.anyio
async def test_handlers_that_are_awaited_see_a_wrapped_clients_calls(serve):
    """A coroutine function that is registered as a handler gets the prepared request."""
    _, url = serve(converse)
    seen = []

    async def look(params, **_):
        seen.append(params)

    async with client(url) as given:
        wrapped = wrap(given, pipeline(budget=agentctx.Budget(WINDOW)))
        wrapped.meta.events.register("provide-client-params.bedrock-runtime.Converse", look)
        await wrapped.converse(modelId=MODEL, messages=LONG)
    assert len(seen) == 1
    assert len(seen[0]["messages"]) < len(LONG)
