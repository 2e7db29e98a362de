"""boto3 alone: Bedrock's Converse."""

from contextlib import closing

import boto3
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

MODEL = "us.anthropic.claude-sonnet-5-5"
MESSAGES = [{"role": message["role"], "content": [{"text": message["content"]}]} for message in LONG]
ASKED = {"modelId": MODEL, "messages": MESSAGES, "system": [{"text": SYSTEM}]}
TOOL = {"toolSpec": {"name": "read_file", "description": READ_FILE, "inputSchema": {"json": PARAMETERS}}}


@pytest.fixture
def wrapped():
    """Wrap a client of the server at an address; all of them are closed when the test ends."""
    clients = []

    def make(url, window=100_000):
        config = Config(retries={"total_max_attempts": 1})
        keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
        client = boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=url, config=config, **keys)
        clients.append(client)
        plan = pipeline(window)
        return agentctx.wrap(client, plan, session=plan.session(model=MODEL))

    yield make
    for client in clients:
        client.close()


def text(events):
    deltas = (event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event)
    return "".join(delta["text"] for delta in deltas)


def test_what_fits_is_sent_as_it_is(serve, wrapped):
    """A request within the budget reaches the provider as the caller wrote it."""
    desk, url = serve(converse)
    request = {**ASKED, "messages": MESSAGES[:3], "toolConfig": {"tools": [TOOL]}}
    answer = wrapped(url).converse(**request)
    assert answer["output"]["message"]["content"] == [{"text": "Done."}]
    assert desk.requests == [request]


def test_what_is_sent_fits_the_budget(serve, wrapped):
    """A request over the budget reaches the provider within it, as a stream too."""
    desk, url = serve(converse, window=WINDOW, answer=lambda _: Said("one two three"))
    client = wrapped(url, WINDOW)
    assert client.converse(**ASKED)["stopReason"] == "end_turn"
    assert text(client.converse_stream(**ASKED)["stream"]) == "one two three"
    assert len(desk.accepted) == len(desk.requests) == 2


def test_an_overflow_is_sent_again_smaller(serve, wrapped):
    """The caller sees the answer to the smaller request alone."""
    desk, url = serve(converse, window=WINDOW)
    assert wrapped(url).converse(**ASKED)["stopReason"] == "end_turn"
    assert_recovered(desk)


def test_an_overflow_of_a_stream_by_status_is_sent_again_smaller(serve, wrapped):
    """The caller sees the stream of the smaller request."""
    desk, url = serve(converse, window=WINDOW, answer=lambda _: Said("one two three"))
    assert text(wrapped(url).converse_stream(**ASKED)["stream"]) == "one two three"
    assert_recovered(desk)


@pytest.mark.parametrize("refuses", ["stream", "late"])
def test_an_overflow_in_a_stream_is_the_sdks_error(serve, wrapped, refuses):
    """It is raised where it is, and nothing is sent again."""
    desk, url = serve(converse, window=WINDOW, refuses=refuses)
    with (
        closing(wrapped(url).converse_stream(**ASKED)["stream"]) as stream,
        pytest.raises(ClientError, match="prompt is too long"),
    ):
        list(stream)
    assert len(desk.requests) == 1


def test_twenty_steps_fit_a_small_window(serve, wrapped):
    """An agent that keeps all its messages is never refused."""
    desk, url = serve(converse, window=WINDOW, answer=reading)
    client = wrapped(url, WINDOW)
    messages = [{"role": "user", "content": [{"text": TASK}]}]
    calls = True
    while calls:
        answer = client.converse(**{**ASKED, "messages": messages}, toolConfig={"tools": [TOOL]})
        messages.append(answer["output"]["message"])
        calls = [block["toolUse"] for block in messages[-1]["content"] if "toolUse" in block]
        results = [
            {"toolResult": {"toolUseId": call["toolUseId"], "content": [{"text": read_file(**call["input"])}]}}
            for call in calls
        ]
        messages.append({"role": "user", "content": results})
    assert answer["output"]["message"]["content"] == [{"text": "All are read: done."}]
    assert_steps_fit(desk)


def test_the_providers_second_refusal_is_the_sdks_error(serve, wrapped):
    """Where the smaller request is refused as well, the SDK raises its own error about the first."""
    desk, url = serve(converse, window=WINDOW, overflows=2)
    with pytest.raises(ClientError, match="prompt is too long"):
        wrapped(url).converse(**ASKED)
    assert len(desk.requests) == 2


def test_a_refusal_before_sending_is_the_sdks_error(serve, wrapped):
    """What cannot be made to fit is refused in the provider's words, nothing is sent, and the overflow can be had."""
    desk, url = serve(converse)
    client = wrapped(url, TINY)
    with pytest.raises(client.exceptions.ValidationException) as raised:
        client.converse(**ASKED)
    assert raised.value.response["Error"]["Message"].startswith("Input is too long for requested model")
    assert isinstance(agentctx.overflow_of(raised.value), agentctx.ContextOverflow)
    assert not desk.requests
