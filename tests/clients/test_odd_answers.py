"""Answers of gateways that do not keep to the letter, and clients in odd places, over HTTP with the real SDK."""

import copy
import json
from threading import Event

import anyio
import httpx
import httpx2
import openai
import pytest
from both_kinds import listed, now
from client_histories import chat, items
from openai import AsyncOpenAI, OpenAI
from starlette.applications import Starlette
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

import agentctx
from agentctx import wrap

pytestmark = pytest.mark.both_loops

LONG = chat(20)
KINDS = pytest.mark.parametrize("kind", [AsyncOpenAI, OpenAI])
TOO_LONG = "This model's maximum context length is 1000 tokens. However, your messages resulted in 3000 tokens."
OVERFLOW = {"error": {"message": TOO_LONG, "type": "invalid_request_error", "code": "context_length_exceeded"}}
ANSWER = {"id": "1", "object": "chat.completion", "created": 1, "model": "gpt-4o", "choices": []}


def pipeline(window=100_000):
    return agentctx.Pipeline(agentctx.FitContextWindow(), budget=agentctx.Budget(window))


def chunk(name, text=None, *, end=None):
    delta = {"role": "assistant"} if text is None else {"content": text}
    body = {"id": name, "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}
    return {**body, "choices": [{"index": 0, "delta": delta, "finish_reason": end}]}


def events(*bodies):
    return [f"data: {json.dumps(body)}\n\n".encode() for body in bodies]


def spoken(chunks):
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


@pytest.fixture
def made(serve, closing):
    """A wrapped client, given the answers of its server, one for each request, and what the server was asked."""

    def make(kind, *answers, plan=None, http_client=None):
        left, bodies = [*answers], []

        async def create(request):
            bodies.append(await request.json())
            return left.pop(0)

        paths = ("/v1/chat/completions", "/v1/responses")
        _, url = serve(lambda _desk: Starlette(routes=[Route(path, create, methods=["POST"]) for path in paths]))
        given = closing(kind(base_url=f"{url}/v1", api_key="none", max_retries=0, http_client=http_client))
        return wrap(given, pipeline() if plan is None else plan), bodies

    return make


def streamed(*pieces, kind="text/event-stream"):
    return StreamingResponse(iter(pieces), media_type=kind)


@KINDS
@pytest.mark.anyio
async def test_a_pool_of_one_connection_is_enough_for_an_overflow_in_the_stream(made, kind):
    """The first stream is closed before the smaller request is sent, so the connection that it held is free."""
    limits = httpx2.Limits(max_connections=1)
    http = openai.DefaultAsyncHttpxClient if kind is AsyncOpenAI else openai.DefaultHttpxClient
    refused = streamed(*events(chunk("a"), OVERFLOW))
    answered = streamed(*events(chunk("b"), chunk("b", "fine", end="stop")), b"data: [DONE]\n\n")
    client, bodies = made(kind, refused, answered, http_client=http(limits=limits, timeout=30))
    chunks = await listed(await now(client.chat.completions.create(model="gpt-4o", messages=LONG, stream=True)))
    assert spoken(chunks) == "fine"
    assert len(bodies) == 2


@KINDS
@pytest.mark.anyio
async def test_what_the_model_says_is_never_taken_for_an_id(made, kind):
    """A stream that goes on under the first id has the second answer's words, also where they are its id."""
    words = ["2", " ", '"2"', "1"]
    refused = streamed(*events(chunk("1"), OVERFLOW))
    answered = streamed(*events(chunk("2"), *(chunk("2", word) for word in words)), b"data: [DONE]\n\n")
    client, _ = made(kind, refused, answered)
    chunks = await listed(await now(client.chat.completions.create(model="gpt-4o", messages=LONG, stream=True)))
    assert [each.choices[0].delta.content for each in chunks if each.choices[0].delta.content] == words
    assert {each.id for each in chunks} == {"1"}


@pytest.mark.parametrize("said", ["text/plain", "application/octet-stream", "application/json", None])
@KINDS
@pytest.mark.anyio
async def test_a_stream_is_one_whatever_its_content_type(made, kind, said):
    """What was asked for as a stream starts at once, and is restarted after an overflow."""
    go_on = Event()

    async def slowly():
        for piece in events(chunk("b"), chunk("b", "one ")):
            yield piece
        await anyio.to_thread.run_sync(go_on.wait, 60)
        usage = {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10}
        for piece in events(chunk("b", "two", end="stop"), {**chunk("b"), "choices": [], "usage": usage}):
            yield piece
        yield b"data: [DONE]\n\n"

    refused, answered = streamed(*events(chunk("a"), OVERFLOW), kind=said), StreamingResponse(slowly(), media_type=said)
    client, bodies = made(kind, refused, answered)
    stream = await now(client.chat.completions.create(model="gpt-4o", messages=LONG, stream=True))
    seen = []
    try:
        with anyio.fail_after(60):
            while spoken(seen) != "one ":
                seen.append(await anext(stream) if kind is AsyncOpenAI else next(stream))
            assert not go_on.is_set()
    finally:
        go_on.set()
    await listed(stream, seen)
    assert spoken(seen) == "one two"
    assert len(bodies) == 2


@KINDS
@pytest.mark.anyio
async def test_a_document_in_the_place_of_a_stream_is_read(made, kind):
    """A refusal with status 200 in one JSON document, asked for as a stream or not, is sent again smaller."""
    response = {"id": "r", "object": "response", "created_at": 1, "model": "gpt-5.4", "output": [], "tools": []}
    client, bodies = made(kind, JSONResponse(OVERFLOW), JSONResponse({**response, "status": "completed"}))
    assert (await now(client.responses.create(model="gpt-5.4", input=items(20)))).id == "r"
    assert len(bodies[1]["input"]) < len(bodies[0]["input"])
    answered = streamed(*events(chunk("b", "fine", end="stop")), b"data: [DONE]\n\n")
    client, bodies = made(kind, JSONResponse(OVERFLOW), answered)
    chunks = await listed(await now(client.chat.completions.create(model="gpt-4o", messages=LONG, stream=True)))
    assert spoken(chunks) == "fine"
    assert len(bodies) == 2


@KINDS
@pytest.mark.anyio
async def test_an_error_of_a_client_wrapped_before_comes_out_as_it_is(made, kind):
    """The outer client hands on what the inner one raises."""
    client, bodies = made(kind)
    twice = wrap(wrap(client, pipeline(), key=lambda _: {}["no name"]), pipeline())
    with pytest.raises(agentctx.ConfigError, match="no name"):
        await now(twice.chat.completions.create(model="gpt-4o", messages=LONG))
    assert not bodies


@pytest.mark.anyio
async def test_tasks_that_begin_after_a_failed_call_are_calls_of_their_own(serve):
    """One of them may be its second try; the others, though they ask the same, are steps of their own."""
    statuses = [503, 200, 200, 200]

    async def create(_request):
        return JSONResponse(ANSWER, statuses.pop(0))

    _, url = serve(lambda _desk: Starlette(routes=[Route("/v1/chat/completions", create, methods=["POST"])]))
    plan = pipeline()
    session = plan.session(model="gpt-4o")
    body = {"model": "gpt-4o", "messages": LONG}
    async with agentctx.async_http_client(plan, client=httpx.AsyncClient(), session=session) as client:

        async def ask():
            await client.post(f"{url}/v1/chat/completions", json=body)

        await ask()
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(ask)
    assert session.steps == 3


@pytest.mark.anyio
async def test_the_head_of_an_answer_is_handed_on(serve):
    """The head is true of the body that is handed on, and a redirect can be followed."""

    async def create(_request):
        return JSONResponse(ANSWER)

    async def elsewhere(_request):
        return Response(status_code=307, headers={"location": "/v1/chat/completions"})

    async def packed(_request):
        return Response(b"packed", headers={"content-encoding": "br"}, media_type="application/json")

    paths = {"/v1/chat/completions": create, "/a/chat/completions": elsewhere, "/b/chat/completions": packed}
    _, url = serve(lambda _desk: Starlette(routes=[Route(path, do, methods=["POST"]) for path, do in paths.items()]))
    body = {"model": "gpt-4o", "messages": LONG}
    async with agentctx.async_http_client(pipeline(), client=httpx.AsyncClient()) as client:
        whole = await client.post(f"{url}/v1/chat/completions", json=body)
        assert int(whole.headers["content-length"]) == len(whole.content)
        moved = await client.post(f"{url}/a/chat/completions", json=body)
        assert (await client.send(moved.next_request)).json()["id"] == "1"
        left = await client.post(f"{url}/b/chat/completions", json=body)
        assert (left.headers["content-encoding"], left.content) == ("br", b"packed")


def test_an_http_client_can_be_copied():
    """``copy.copy`` gives another one of the same client."""
    with agentctx.http_client(pipeline()) as client:
        assert copy.copy(client).passage is client.passage
