"""boto3's bedrock-runtime client, converse: the real client, over HTTP, to a local server."""

import json

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError, EndpointConnectionError
from client_histories import converse as history

import agentctx
from agentctx import wrap
from agentctx.testing.servers import Said, converse

MODEL = "us.anthropic.claude-sonnet-5-5"
WINDOW = 1_000
LONG = history(20)
SYSTEM = [{"text": "Be brief."}]


def pipeline(**options):
    return agentctx.Pipeline(agentctx.FitContextWindow(), **{"budget": agentctx.Budget(100_000), **options})


@pytest.fixture
def client():
    kept = []

    def make(url, service="bedrock-runtime"):
        config = Config(retries={"total_max_attempts": 1})
        keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
        kept.append(boto3.client(service, region_name="us-east-1", endpoint_url=url, config=config, **keys))
        return kept[-1]

    yield make
    for each in kept:
        each.close()


def text(events):
    deltas = (event["contentBlockDelta"]["delta"] for event in events if "contentBlockDelta" in event)
    return "".join(delta["text"] for delta in deltas)


def test_converse_messages_that_fit_are_sent_as_they_are(serve, client):
    """What needs no preparing is sent as it was, system prompt and tools included."""
    desk, url = serve(converse)
    tool = {"toolSpec": {"name": "look", "inputSchema": {"json": {"type": "object"}}}}
    request = {"messages": history(1), "system": SYSTEM, "toolConfig": {"tools": [tool]}}
    answer = wrap(client(url), pipeline()).converse(modelId=MODEL, **request)
    assert answer["output"]["message"]["content"] == [{"text": "Done."}]
    assert desk.requests == [{**request, "modelId": MODEL}]


def test_what_converse_is_sent_fits_the_budget(serve, client):
    """Messages that pass the pipeline's budget reach the provider within it."""
    desk, url = serve(converse)
    wrap(client(url), pipeline(budget=agentctx.Budget(WINDOW))).converse(modelId=MODEL, messages=LONG)
    assert len(desk.requests[0]["messages"]) < len(LONG)


def test_converses_overflow_is_sent_again_smaller(serve, client):
    """An overflow is answered by a smaller request; two in a row are the SDK's own error about the first."""
    desk, url = serve(converse, window=WINDOW)
    wrapped = wrap(client(url), pipeline())
    assert wrapped.converse(modelId=MODEL, messages=LONG, system=SYSTEM)["stopReason"] == "end_turn"
    assert [len(body["messages"]) < len(LONG) for body in desk.requests] == [False, True]
    desk.overflows = 2
    with pytest.raises(ClientError, match="prompt is too long"):
        wrapped.converse(modelId=MODEL, messages=LONG, system=SYSTEM)
    assert len(desk.requests) == 4


@pytest.mark.parametrize("refuses", ["status", "stream"])
def test_converses_stream_restarts_before_its_first_content(serve, client, refuses):
    """An overflow by status, or by an exception within the stream, restarts it unseen."""
    desk, url = serve(converse, window=WINDOW, refuses=refuses, answer=lambda _: Said("one two three"))
    answer = wrap(client(url), pipeline()).converse_stream(modelId=MODEL, messages=LONG)
    events = list(answer["stream"])
    assert text(events) == "one two three"
    assert sum("messageStart" in event for event in events) == 1
    assert len(desk.requests) == 2


def test_converses_stream_never_restarts_after_content(serve, client):
    """An overflow after the first content is raised where it stands."""
    desk, url = serve(converse, window=WINDOW, refuses="late", answer=lambda _: Said("one two three"))
    stream = wrap(client(url), pipeline()).converse_stream(modelId=MODEL, messages=LONG)["stream"]
    seen = []
    with pytest.raises(ClientError, match="prompt is too long"):
        seen.extend(stream)
    stream.close()
    assert text(seen) == "one"
    assert len(desk.requests) == 1


def test_converses_usage_is_recorded(serve, client):
    """The session learns what was billed, from an answer and at the end of a stream."""
    _, url = serve(converse)
    session = pipeline().session(model=MODEL)
    wrapped = wrap(client(url), session.plan, session=session)
    tokens = agentctx.count(history(3), MODEL, format="bedrock")
    wrapped.converse(modelId=MODEL, messages=history(3))
    assert session.billed_tokens == tokens
    session.billed_tokens = None
    list(wrapped.converse_stream(modelId=MODEL, messages=history(3))["stream"])
    assert session.billed_tokens == tokens


def test_only_bedrock_runtime_is_wrapped(client):
    """A client of another service is refused by name; one of bedrock-runtime keeps its type and the given one stays."""
    with pytest.raises(agentctx.ConfigError, match="sts"):
        wrap(client("http://127.0.0.1:9", "sts"), pipeline())
    given = client("http://127.0.0.1:9")
    kind = type(given)
    assert isinstance(wrap(given, pipeline()), kind)
    assert type(given) is kind


def test_converses_overflow_before_sending_is_the_clients_own(client):
    """It is the client's own ``ValidationException``, of the operation that was called."""
    wrapped = wrap(client("http://127.0.0.1:9"), pipeline(budget=agentctx.Budget(5)))
    for name, call in {"Converse": wrapped.converse, "ConverseStream": wrapped.converse_stream}.items():
        with pytest.raises(wrapped.exceptions.ValidationException) as raised:
            call(modelId=MODEL, messages=history(1))
        assert raised.value.operation_name == name
        assert isinstance(raised.value, agentctx.ContextOverflow)


PROMPTS = {
    "meta.llama3-3-70b-instruct-v1:0": {"prompt": "Go on.", "max_gen_len": 9},
    "mistral.mistral-7b-instruct-v0:2": {"prompt": "Go on."},
    "anthropic.claude-v2": {"prompt": "Human: Go on.", "max_tokens_to_sample": 9},
    "cohere.command-r-v1:0": {"message": "Go on.", "chat_history": []},
    "amazon.titan-text-express-v1": {"inputText": "Go on.", "textGenerationConfig": {}},
    "arn:aws:bedrock:us-east-1:123456789012:imported-model/abc": {"prompt": "Go on."},
}
MAKES_NO_TEXT = {
    "stability.sd3-5-large-v1:0": {"prompt": "A house."},
    "amazon.nova-canvas-v1:0": {"taskType": "TEXT_IMAGE", "textToImageParams": {"text": "A house."}},
    "amazon.titan-embed-text-v2:0": {"inputText": "A house."},
    "cohere.embed-english-v3": {"texts": ["A house."], "input_type": "search_query"},
}


@pytest.mark.parametrize("name", PROMPTS)
def test_prompts_of_language_models_are_refused(client, name):
    """A body with a bare prompt asks a language model as one with messages does."""
    wrapped = wrap(client("http://127.0.0.1:9"), pipeline())
    with pytest.raises(agentctx.ConfigError, match="call converse"):
        wrapped.invoke_model(modelId=name, body=json.dumps(PROMPTS[name]))


@pytest.mark.parametrize("name", MAKES_NO_TEXT)
def test_what_makes_no_text_goes_through(client, name):
    """Pictures and embeddings are nothing to prepare: the call reaches the network."""
    wrapped = wrap(client("http://127.0.0.1:9"), pipeline())
    with pytest.raises(EndpointConnectionError):
        wrapped.invoke_model(modelId=name, body=json.dumps(MAKES_NO_TEXT[name]))


def test_model_calls_with_a_body_of_the_models_own_are_refused(client):
    """What asks a chat model without Converse goes out unprepared by no way, and says what to call instead."""
    wrapped, asked = wrap(client("http://127.0.0.1:9"), pipeline()), {"messages": history(1)}
    place = {"s3OutputDataConfig": {"s3Uri": "s3://none/none"}}
    for call in (
        lambda: wrapped.invoke_model(modelId=MODEL, body=json.dumps(asked)),
        lambda: wrapped.invoke_model_with_response_stream(modelId=MODEL, body=json.dumps(asked).encode()),
        lambda: wrapped.start_async_invoke(modelId=MODEL, modelInput=asked, outputDataConfig=place),
    ):
        with pytest.raises(agentctx.ConfigError, match="call converse"):
            call()
