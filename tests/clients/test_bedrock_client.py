"""boto3's bedrock-runtime client, converse: the real client, over HTTP, to a local server."""

import json
import pickle

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError, EndpointConnectionError
from botocore.stub import Stubber
from client_histories import converse as history
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

import agentctx
from agentctx import wrap
from agentctx.reports import UsageRecorded
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

    def make(url, service="bedrock-runtime", **retries):
        config = Config(retries={"total_max_attempts": 1, **retries})
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


def test_converses_stream_is_sent_again_smaller(serve, client):
    """An overflow that the status tells of is answered by a smaller request, whose stream is read."""
    desk, url = serve(converse, window=WINDOW, answer=lambda _: Said("one two three"))
    answer = wrap(client(url), pipeline()).converse_stream(modelId=MODEL, messages=LONG)
    assert text(answer["stream"]) == "one two three"
    assert [len(body["messages"]) < len(LONG) for body in desk.requests] == [False, True]


def test_an_overflow_in_converses_stream_is_the_clients_own(serve, client):
    """An overflow that the stream tells of is botocore's error, and nothing is sent again."""
    desk, url = serve(converse, window=WINDOW, refuses="stream")
    stream = wrap(client(url), pipeline()).converse_stream(modelId=MODEL, messages=LONG)["stream"]
    with pytest.raises(ClientError, match="prompt is too long") as raised:
        list(stream)
    stream.close()
    assert agentctx.classify_error(raised.value).limit == WINDOW
    assert len(desk.requests) == 1


def test_a_smaller_request_is_signed_anew(serve, client):
    """Each of the two requests carries the signature of its own body."""
    _, url = serve(converse, window=WINDOW)
    given, sent = client(url), []
    given.meta.events.register("before-send.bedrock-runtime", lambda request, **_: sent.append(request))
    wrap(given, pipeline()).converse(modelId=MODEL, messages=LONG)
    assert len(sent) == 2
    assert len(sent[1].body) < len(sent[0].body)
    for request in sent:
        authorization = request.headers["Authorization"].decode()
        names = authorization.partition("SignedHeaders=")[2].partition(",")[0].split(";")
        headers = {name: request.headers[name].decode() for name in names if name != "host"}
        signed = AWSRequest("POST", request.url, headers, request.body)
        signed.context["timestamp"] = headers["x-amz-date"]
        v4 = SigV4Auth(Credentials("none", "none"), "bedrock", "us-east-1")
        signature = v4.signature(v4.string_to_sign(signed, v4.canonical_request(signed)), signed)
        assert authorization.endswith(f"Signature={signature}")


ANSWER = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Done."}]}},
    "stopReason": "end_turn",
    "usage": {"inputTokens": 9, "outputTokens": 1, "totalTokens": 10},
    "metrics": {"latencyMs": 1},
}


@pytest.mark.parametrize("mode", ["legacy", "standard", "adaptive"])
def test_botocores_retries_are_one_call(serve, client, mode):
    """A request that botocore tries again has the same bytes, is one step of the session, and is billed once."""
    bodies, seen = [], []

    def app(desk):
        async def create(request):
            bodies.append(await request.body())
            if len(bodies) < 3:
                refusal = {"message": "Too many requests"}
                return JSONResponse(refusal, 429, {"x-amzn-ErrorType": "ThrottlingException"})
            return JSONResponse(ANSWER)

        return Starlette(routes=[Route("/model/{model}/converse", create, methods=["POST"])])

    _, url = serve(app)
    plan = pipeline(budget=agentctx.Budget(WINDOW), subscribers=[seen.append])
    session = plan.session(model=MODEL)
    given = client(url, mode=mode, total_max_attempts=3)
    answer = wrap(given, plan, session=session).converse(modelId=MODEL, messages=LONG)
    assert answer["ResponseMetadata"]["RetryAttempts"] == 2
    assert len(bodies) == 3
    assert len(set(bodies)) == 1
    assert session.steps == 1
    assert [event.billed for event in seen if isinstance(event, UsageRecorded)] == [9]


def test_handlers_of_a_wrapped_client_see_its_calls(serve, client):
    """Handlers that are registered with either client get the prepared request, and botocore's stubs answer it."""
    desk, url = serve(converse)
    given, seen = client(url), []
    wrapped = wrap(given, pipeline(budget=agentctx.Budget(WINDOW)))
    for each in (given, wrapped):
        each.meta.events.register("provide-client-params.bedrock-runtime", lambda params, **_: seen.append(params))
    wrapped.meta.events.register("before-send.bedrock-runtime", lambda request, **_: seen.append(request))
    wrapped.converse(modelId=MODEL, messages=LONG)
    assert [len(params["messages"]) < len(LONG) for params in seen[:2]] == [True, True]
    assert len(seen) == 3
    with Stubber(wrapped) as stub:
        stub.add_response("converse", ANSWER)
        assert wrapped.converse(modelId=MODEL, messages=LONG)["usage"]["inputTokens"] == 9
    assert len(desk.requests) == 1


def test_what_breaks_converses_recovery_names_the_overflow(serve, client):
    """An error of ours while a smaller request is prepared is raised, caused by the provider's."""
    _, url = serve(converse, window=WINDOW)
    steps = []

    async def breaks(context, _call):
        steps.append(context)
        if len(steps) > 1:
            raise agentctx.ConfigError("broken")
        return context

    plan = agentctx.Pipeline(breaks, agentctx.FitContextWindow(), budget=agentctx.Budget(100_000))
    with pytest.raises(agentctx.ConfigError, match="broken") as raised:
        wrap(client(url), plan).converse(modelId=MODEL, messages=LONG)
    assert isinstance(raised.value.__cause__, ClientError)


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


def test_a_converse_stream_left_at_its_last_event_is_billed(serve, client):
    """The last event tells the usage: a reader that stops there has had it recorded."""
    _, url = serve(converse)
    session = pipeline().session(model=MODEL)
    answer = wrap(client(url), session.plan, session=session).converse_stream(modelId=MODEL, messages=history(3))
    for event in answer["stream"]:
        if "metadata" in event:
            break
    assert session.billed_tokens == agentctx.count(history(3), MODEL, format="bedrock")
    answer["stream"].close()


def test_only_bedrock_runtime_is_wrapped(client):
    """A client of another service is refused by name; one of bedrock-runtime keeps its type and the given one stays."""
    with pytest.raises(agentctx.ConfigError, match="sts"):
        wrap(client("http://127.0.0.1:9", "sts"), pipeline())
    given = client("http://127.0.0.1:9")
    kind = type(given)
    wrapped = wrap(given, pipeline())
    assert type(wrapped) is type(given) is kind
    assert wrapped.agentctx.view is None
    assert not hasattr(given, "agentctx")


def test_converses_overflow_before_sending_is_the_clients_own(client):
    """It is the client's own ``ValidationException`` in Bedrock's words, caused by the ``ContextOverflow``."""
    given = client("http://127.0.0.1:9")
    wrapped = wrap(given, pipeline(budget=agentctx.Budget(5)))
    for name, call in {"Converse": wrapped.converse, "ConverseStream": wrapped.converse_stream}.items():
        with pytest.raises(given.exceptions.ValidationException) as raised:
            call(modelId=MODEL, messages=history(1))
        error, overflow = raised.value, raised.value.__cause__
        assert error.operation_name == name
        assert isinstance(overflow, agentctx.ContextOverflow)
        assert error.response["Error"]["Message"].startswith("Input is too long for requested model. ")
        assert error.response["Error"]["Message"].endswith(f"(agentctx: {overflow})")
        assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 400
        assert agentctx.classify_error(error).kind == "window"
        assert str(pickle.loads(pickle.dumps(error))) == str(error)  # noqa: S301 - our own


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
