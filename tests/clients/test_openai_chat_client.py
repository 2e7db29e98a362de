"""OpenAI's SDK, chat completions: the real client, over HTTP, to a local server."""

import openai
import pytest
from both_kinds import inside, listed, now
from client_histories import chat
from openai import AsyncAzureOpenAI, AsyncOpenAI, OpenAI
from pydantic import BaseModel
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

import agentctx
from agentctx import wrap
from agentctx.testing.servers import Said, chat_completions

pytestmark = pytest.mark.both_loops

MODEL = "gpt-4o"
WINDOW = 1_000
LONG = chat(20)
KINDS = pytest.mark.parametrize("kind", [AsyncOpenAI, OpenAI])


class Verdict(BaseModel):
    verdict: str


def pipeline(**options):
    return agentctx.Pipeline(agentctx.FitContextWindow(), **{"budget": agentctx.Budget(100_000), **options})


@pytest.fixture
def made(closing):
    def make(kind, url):
        return closing(kind(base_url=f"{url}/v1", api_key="none", max_retries=0))

    return make


def sent(desk):
    return [len(body["messages"]) for body in desk.requests]


def text(chunks):
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


@KINDS
@pytest.mark.anyio
async def test_what_is_sent_fits_the_budget(serve, made, kind):
    """A request that passes the pipeline's budget reaches the provider within it, whatever the client's kind."""
    desk, url = serve(chat_completions)
    client = wrap(made(kind, url), pipeline(budget=agentctx.Budget(WINDOW)))
    answer = await now(client.chat.completions.create(model=MODEL, messages=LONG))
    assert answer.choices[0].message.content == "Done."
    assert agentctx.count(desk.requests[0]["messages"], MODEL) <= WINDOW < agentctx.count(LONG, MODEL)


@KINDS
@pytest.mark.anyio
async def test_a_request_that_fits_is_sent_as_it_is(serve, made, kind):
    """What needs no preparing is sent byte for byte, tools and every other parameter included."""
    desk, url = serve(chat_completions)
    tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    request = {"model": MODEL, "messages": chat(1), "tools": [tool], "temperature": 0.5, "user": "someone"}
    await now(wrap(made(kind, url), pipeline()).chat.completions.create(**request))
    assert desk.requests == [request]


@KINDS
@pytest.mark.anyio
async def test_what_the_extra_body_brings_is_prepared_too(serve, made, kind):
    """Messages in ``extra_body`` replace the others when the SDK sends them, so they are what has to fit."""
    desk, url = serve(chat_completions)
    client = wrap(made(kind, url), pipeline(budget=agentctx.Budget(WINDOW)))
    extra = {"messages": LONG, "user": openai.omit}
    await now(client.chat.completions.create(model=MODEL, messages=chat(0), user="someone", extra_body=extra))
    assert 2 < len(desk.requests[0]["messages"]) < len(LONG)
    assert agentctx.count(desk.requests[0]["messages"], MODEL) <= WINDOW
    assert "user" not in desk.requests[0]


@KINDS
@pytest.mark.anyio
async def test_an_overflow_is_sent_again_smaller_once(serve, made, kind):
    """When the provider takes less than the budget says, a smaller request follows and its answer is the answer."""
    desk, url = serve(chat_completions, window=WINDOW)
    answer = await now(wrap(made(kind, url), pipeline()).chat.completions.create(model=MODEL, messages=LONG))
    assert answer.choices[0].message.content == "Done."
    assert len(desk.accepted) == 1
    first, second = sent(desk)
    assert second < first == len(LONG)


@KINDS
@pytest.mark.anyio
async def test_a_limit_is_learned_without_a_session(serve, made, kind):
    """What an overflow taught holds for later calls of that model: they are cut to it at once, and not far below."""
    desk, url = serve(chat_completions, window=WINDOW)
    client = wrap(made(kind, url), pipeline())
    for _ in range(3):
        await now(client.chat.completions.create(model=MODEL, messages=LONG))
    assert len(desk.requests) == 4
    sizes = [agentctx.count(body["messages"], MODEL) for body in desk.accepted]
    assert all(0.75 * WINDOW < size <= WINDOW for size in sizes)
    await now(client.chat.completions.create(model="gpt-4o-mini", messages=LONG))
    assert len(desk.requests) == 6


@KINDS
@pytest.mark.anyio
async def test_a_second_overflow_is_the_first_error(serve, made, kind):
    """Two overflows in a row: two requests were sent, and the first error is raised."""
    desk, url = serve(chat_completions, overflows=2, window=WINDOW)
    with pytest.raises(openai.BadRequestError) as raised:
        await now(wrap(made(kind, url), pipeline()).chat.completions.create(model=MODEL, messages=LONG))
    assert len(desk.requests) == 2
    assert f"{agentctx.count(LONG, MODEL)} tokens" in raised.value.message


@KINDS
@pytest.mark.anyio
async def test_another_error_is_raised_at_once(serve, made, kind):
    """An error that is no overflow is the SDK's own, after one request."""
    desk, url = serve(chat_completions)
    client = wrap(made(kind, url), pipeline())
    with pytest.raises(openai.BadRequestError, match="tool_choice"):
        await now(client.chat.completions.create(model=MODEL, messages=chat(1), tool_choice="bogus", tools=[]))
    assert len(desk.requests) == 1


@KINDS
@pytest.mark.anyio
async def test_what_cannot_be_smaller_is_not_sent_again(serve, made, kind):
    """A request without anything to leave out is sent once, and its overflow is raised."""
    desk, url = serve(chat_completions, window=1)
    with pytest.raises(openai.BadRequestError):
        await now(wrap(made(kind, url), pipeline()).chat.completions.create(model=MODEL, messages=chat(0)))
    assert len(desk.requests) == 1


@KINDS
@pytest.mark.parametrize("refuses", ["status", "stream"])
@pytest.mark.anyio
async def test_a_stream_restarts_before_its_first_content(serve, made, kind, refuses):
    """An overflow by status, or in the stream before any content, restarts it: the caller sees one whole answer."""
    desk, url = serve(chat_completions, window=WINDOW, refuses=refuses, answer=lambda _: Said("one two three"))
    client = wrap(made(kind, url), pipeline())
    chunks = await listed(await now(client.chat.completions.create(model=MODEL, messages=LONG, stream=True)))
    assert text(chunks) == "one two three"
    assert [chunk.choices[0].delta.role for chunk in chunks].count("assistant") == 1
    assert len(desk.requests) == 2


@KINDS
@pytest.mark.anyio
async def test_a_stream_never_restarts_after_content(serve, made, kind):
    """An overflow after the first content is raised where it stands, and nothing is sent again."""
    desk, url = serve(chat_completions, window=WINDOW, refuses="late", answer=lambda _: Said("one two three"))
    client = wrap(made(kind, url), pipeline())
    stream = await now(client.chat.completions.create(model=MODEL, messages=LONG, stream=True))
    seen = []
    with pytest.raises(openai.APIError, match="maximum context length"):
        await listed(stream, seen)
    assert text(seen) == "one"
    assert len(desk.requests) == 1


@KINDS
@pytest.mark.anyio
async def test_usage_is_recorded(serve, made, kind):
    """The session learns what was billed, from an answer and from the end of a stream."""
    _, url = serve(chat_completions)
    for streamed in ({}, {"stream": True, "stream_options": {"include_usage": True}}):
        session = pipeline().session(model=MODEL)
        client = wrap(made(kind, url), session.plan, session=session)
        answer = await now(client.chat.completions.create(model=MODEL, messages=chat(3), **streamed))
        if streamed:
            assert session.billed_tokens is None
            await listed(answer)
        assert session.billed_tokens == agentctx.count(chat(3), MODEL)


@KINDS
@pytest.mark.anyio
async def test_parse_and_stream_helpers_are_prepared(serve, made, kind):
    """``parse`` and the ``stream`` helper go through the pipeline like ``create``."""
    desk, url = serve(chat_completions, window=WINDOW, refuses="stream", answer=lambda _: Said('{"verdict": "good"}'))
    client = wrap(made(kind, url), pipeline())
    parsed = await now(client.chat.completions.parse(model=MODEL, messages=LONG, response_format=Verdict))
    assert parsed.choices[0].message.parsed == Verdict(verdict="good")
    client = wrap(made(kind, url), pipeline())  # which has learned nothing yet
    helper = client.chat.completions.stream(model=MODEL, messages=LONG, response_format=Verdict)
    final = await inside(helper, lambda stream: stream.get_final_completion())
    assert final.choices[0].message.parsed == Verdict(verdict="good")
    assert len(desk.accepted) == 2
    assert len(desk.requests) == 4


@KINDS
@pytest.mark.anyio
async def test_raw_and_derived_clients_are_prepared(serve, made, kind):
    """``with_raw_response`` and ``with_options`` of a wrapped client are wrapped too."""
    desk, url = serve(chat_completions, window=WINDOW, refuses="stream")
    client = wrap(made(kind, url), pipeline()).with_options(timeout=30)
    raw = client.chat.completions.with_raw_response
    assert (await now(raw.create(model=MODEL, messages=LONG))).parse().choices[0].message.content == "Done."
    response = await now(raw.create(model=MODEL, messages=LONG, stream=True))
    assert text(await listed(response.parse())) == "Done."
    assert len(desk.accepted) == 2


@pytest.mark.anyio
async def test_a_body_that_the_caller_reads_is_the_callers(serve, made):
    """``with_streaming_response`` hands the untouched body over, and a refusal by status is still recovered."""
    desk, url = serve(chat_completions, window=WINDOW)
    client = wrap(made(AsyncOpenAI, url), pipeline())
    streaming = client.chat.completions.with_streaming_response
    async with streaming.create(model=MODEL, messages=LONG, stream=True) as response:
        lines = [line async for line in response.iter_lines()]
    assert "data: [DONE]" in lines
    assert len(desk.requests) == 2


@KINDS
def test_the_type_survives_and_the_client_stays(kind):
    """The wrapped client is one of the same class, and the given one has not changed."""
    client = kind(base_url="http://127.0.0.1:9", api_key="none")
    resources, before = client.chat, dict(vars(client))
    wrapped = wrap(client, pipeline())
    assert isinstance(wrapped, kind)
    assert type(wrapped).__qualname__ == kind.__qualname__
    assert type(client) is kind
    assert vars(client) == before
    assert client.chat is resources is not wrapped.chat


class Named(OpenAI):
    """A client of the user's own, which the SDK cannot copy."""

    def __init__(self, name, **options):
        super().__init__(base_url="http://127.0.0.1:9", api_key="none", **options)
        self.name = name


def test_a_client_that_cannot_be_copied_is_made_with_the_http_client():
    """A class with arguments of its own is refused with the line to write instead, which prepares its calls."""
    with Named("mine") as given, pytest.raises(agentctx.ConfigError, match=r"http_client=agentctx\.http_client"):
        wrap(given, pipeline())
    plan = pipeline(budget=agentctx.Budget(5))
    with Named("mine", http_client=agentctx.http_client(plan)) as made, pytest.raises(openai.BadRequestError) as raised:
        made.chat.completions.create(model=MODEL, messages=chat(1))
    assert made.name == "mine"
    assert agentctx.overflow_of(raised.value).limit == 5


@pytest.mark.anyio
async def test_azure_is_wrapped_too(serve, closing):
    """A client of the SDK's own kinds, such as Azure's, is prepared like the plain one."""
    desk, url = serve(chat_completions, window=WINDOW)
    azure = AsyncAzureOpenAI(azure_endpoint=url, api_key="none", api_version="2024-10-21", max_retries=0)
    answer = await wrap(closing(azure), pipeline()).chat.completions.create(model=MODEL, messages=LONG)
    assert answer.choices[0].message.content == "Done."
    assert len(desk.requests) == 2


@pytest.mark.anyio
async def test_wrapping_twice_prepares_twice(serve, made):
    """A client wrapped by two pipelines sends what the inner one makes of what the outer one made, also as a stream."""
    desk, url = serve(chat_completions, answer=lambda _: Said("one two three"))
    client = wrap(wrap(made(AsyncOpenAI, url), agentctx.Pipeline(agentctx.TrimRounds(2))), pipeline())
    chunks = await listed(await client.chat.completions.create(model=MODEL, messages=LONG, stream=True))
    assert text(chunks) == "one two three"
    assert sent(desk)[0] < len(LONG)


@pytest.mark.anyio
async def test_a_gateways_error_with_status_200_is_an_overflow(serve, made):
    """What says in the words of an overflow that it failed is recovered even when the status says that all is well."""

    def gateway(desk):
        async def create(request):
            body = await request.json()
            desk.requests.append(body)
            if len(body["messages"]) == len(LONG):
                said = "This endpoint's maximum context length is 1000 tokens. However, you requested about 3000 tokens"
                return JSONResponse({"error": {"message": said, "code": 400}})
            return JSONResponse({"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": []})

        return Starlette(routes=[Route("/v1/chat/completions", create, methods=["POST"])])

    desk, url = serve(gateway)
    answer = await wrap(made(AsyncOpenAI, url), pipeline()).chat.completions.create(model=MODEL, messages=LONG)
    assert answer.id == "1"
    assert len(desk.requests) == 2
