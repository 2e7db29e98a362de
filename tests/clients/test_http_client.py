"""An HTTP client in front of another: what the user's own client does with a request still happens to it."""

import json
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module

import anthropic
import anyio
import httpx
import httpx2
import openai
import pytest
import trustme
from attrs import evolve
from both_kinds import listed, now
from client_histories import chat, items
from openai import AsyncOpenAI, OpenAI
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.responses import JSONResponse, RedirectResponse, StreamingResponse
from starlette.routing import Route

import agentctx
from agentctx import validate, wrap
from agentctx.formats.registry import format_named
from agentctx.testing.servers import Said, chat_completions, responses

WINDOW = 1_000
LONG = chat(20)
ANSWER = {"id": "1", "object": "chat.completion", "created": 1, "model": "gpt-4o", "choices": []}
KINDS = pytest.mark.parametrize("kind", [AsyncOpenAI, OpenAI])
LIBRARIES = pytest.mark.parametrize("library", ["httpx", "httpx2"])


def pipeline(window=100_000):
    return agentctx.Pipeline(agentctx.FitContextWindow(), budget=agentctx.Budget(window))


def http_client(kind, **options):
    """A client of the SDK's own HTTP library, of one kind."""
    return (openai.DefaultAsyncHttpxClient if kind is AsyncOpenAI else openai.DefaultHttpxClient)(**options)


@pytest.fixture
def wrapped(closing):
    """A wrapped client whose own HTTP client has these options."""

    def make(kind, url, plan=None, *, inner=None, **options):
        inner = http_client(kind, **options) if inner is None else inner
        client = closing(kind(base_url=f"{url}/v1", api_key="none", max_retries=0, http_client=inner))
        return wrap(client, pipeline() if plan is None else plan)

    return make


async def ask(client, messages=LONG):
    return await now(client.chat.completions.create(model="gpt-4o", messages=messages))


def application(create, *more):
    """A server that answers chat completions by one function."""

    def app(_desk):
        return Starlette(routes=[Route("/v1/chat/completions", create, methods=["POST"]), *more])

    return app


@KINDS
@pytest.mark.anyio
async def test_event_hooks_see_what_is_sent(serve, wrapped, kind):
    """Hooks of the given HTTP client see the prepared request, and the smaller one; one may read the answer."""
    desk, url = serve(chat_completions, window=WINDOW)
    sizes, statuses = [], []

    def request_hook(request):
        sizes.append(len(request.content))

    async def request_hook_async(request):
        sizes.append(len(request.content))

    def response_hook(response):
        response.read()
        statuses.append(response.status_code)

    async def response_hook_async(response):
        await response.aread()
        statuses.append(response.status_code)

    waits = kind is AsyncOpenAI
    hooks = {
        "request": [request_hook_async if waits else request_hook],
        "response": [response_hook_async if waits else response_hook],
    }
    answer = await ask(wrapped(kind, url, event_hooks=hooks))
    assert answer.choices[0].message.content == "Done."
    assert statuses == [400, 200]
    assert sizes[1] < sizes[0]
    assert len(desk.requests) == 2


@KINDS
@pytest.mark.anyio
async def test_cookies_are_kept_and_sent(serve, wrapped, kind):
    """A cookie that a gateway sets comes back with the next call, beside those and the headers that the client has."""
    seen = []

    async def create(request):
        seen.append((request.cookies, request.headers.get("x-team")))
        return JSONResponse(ANSWER, headers={"set-cookie": "route=b"})

    _, url = serve(application(create))
    client = wrapped(kind, url, cookies={"tenant": "a"}, headers={"x-team": "mine"})
    await ask(client)
    await ask(client)
    assert seen == [({"tenant": "a"}, "mine"), ({"tenant": "a", "route": "b"}, "mine")]


@KINDS
@pytest.mark.anyio
async def test_redirects_are_followed(serve, wrapped, kind):
    """A gateway that sends a call elsewhere gets the prepared body there; who follows no redirects is told of one."""
    bodies = []

    async def create(request):
        bodies.append(await request.json())
        return JSONResponse(ANSWER)

    async def elsewhere(_request):
        return RedirectResponse("/other/chat/completions", 307)

    _, url = serve(application(elsewhere, Route("/other/chat/completions", create, methods=["POST"])))
    assert (await ask(wrapped(kind, url, pipeline(WINDOW)))).id == "1"
    assert 2 < len(bodies[0]["messages"]) < len(LONG)
    with pytest.raises(openai.APIStatusError):
        await ask(wrapped(kind, url, follow_redirects=False))
    assert len(bodies) == 1


@KINDS
@pytest.mark.anyio
async def test_limits_of_the_pool_hold(serve, wrapped, kind):
    """A client of one connection has one call under way, however many are made at once."""
    under_way, most = 0, 0

    async def create(_request):
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        await anyio.sleep(0.02)
        under_way -= 1
        return JSONResponse(ANSWER)

    _, url = serve(application(create))
    http = import_module("httpx2")
    client = wrapped(kind, url, limits=http.Limits(max_connections=1))
    async with anyio.create_task_group() as tasks:
        for _ in range(4):
            tasks.start_soon(ask, client) if kind is AsyncOpenAI else tasks.start_soon(
                anyio.to_thread.run_sync, client_asks, client
            )
    assert most == 1


def client_asks(client):
    return client.chat.completions.create(model="gpt-4o", messages=LONG)


class Forwarding(BaseHTTPRequestHandler):
    """An HTTP proxy that answers by itself, and notes what it was asked for."""

    asked: list

    def do_POST(self):
        self.asked.append(self.path)
        self.rfile.read(int(self.headers["content-length"]))
        body = b'{"id": "by the proxy", "object": "chat.completion", "created": 1, "model": "m", "choices": []}'
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_args):
        pass


@pytest.fixture
def forwarding():
    """A proxy on this machine: its address, and what it was asked for."""
    handler = type("Handler", (Forwarding,), {"asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", handler.asked
        server.shutdown()
        thread.join()


@KINDS
@pytest.mark.parametrize("told", ["by argument", "by the environment"])
@pytest.mark.anyio
async def test_proxies_hold(wrapped, forwarding, monkeypatch, kind, told):
    """A proxy of the given HTTP client, or of the environment, is what the call goes through."""
    address, asked = forwarding
    if told == "by the environment":
        monkeypatch.setenv("HTTP_PROXY", address)
        monkeypatch.delenv("NO_PROXY", raising=False)
    options = {} if told == "by the environment" else {"proxy": address}
    answer = await ask(wrapped(kind, "http://provider.invalid", **options))
    assert answer.id == "by the proxy"
    assert asked == ["http://provider.invalid/v1/chat/completions"]


class Secured(Forwarding):
    """The same as a provider behind TLS."""


@KINDS
@pytest.mark.anyio
async def test_certificates_hold(wrapped, kind):
    """An authority that the given HTTP client trusts is trusted, and no other is."""
    authority = trustme.CA()
    serving, trusting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), ssl.create_default_context()
    authority.issue_cert("127.0.0.1").configure_cert(serving)
    authority.configure_trust(trusting)
    handler = type("Handler", (Secured,), {"asked": []})
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        server.socket = serving.wrap_socket(server.socket, server_side=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        url = f"https://127.0.0.1:{server.server_port}"
        try:
            assert (await ask(wrapped(kind, url, verify=trusting))).id == "by the proxy"
            with pytest.raises(openai.APIConnectionError):
                await ask(wrapped(kind, url))
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
@pytest.mark.anyio
async def test_the_aiohttp_transport_holds(serve, wrapped):
    """OpenAI's client by aiohttp goes on sending by it: a call, an overflow, a stream."""
    desk, url = serve(chat_completions, window=WINDOW, answer=lambda _: Said("one two three"))
    inner = openai.DefaultAioHttpClient()
    client = wrapped(AsyncOpenAI, url, inner=inner)
    assert (await ask(client)).choices[0].message.content == "one two three"
    stream = await client.chat.completions.create(model="gpt-4o", messages=LONG, stream=True)
    chunks = await listed(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "one two three"
    assert len(desk.accepted) == 2


@KINDS
@pytest.mark.anyio
async def test_options_of_one_call_hold(serve, wrapped, kind):
    """Headers, a query and a timeout of one call reach the provider, also with the request that is sent again."""
    seen = []

    async def create(request):
        body = await request.json()
        seen.append((request.headers.get("x-trace"), request.query_params.get("tag"), len(body["messages"])))
        if len(body["messages"]) == len(LONG):
            said = "This model's maximum context length is 1000 tokens. However, your messages resulted in 3000 tokens."
            return JSONResponse({"error": {"message": said, "code": "context_length_exceeded"}}, 400)
        return JSONResponse(ANSWER)

    _, url = serve(application(create))
    client = wrapped(kind, url)
    options = {"extra_headers": {"x-trace": "7"}, "extra_query": {"tag": "x"}, "timeout": 20}
    await now(client.chat.completions.create(model="gpt-4o", messages=LONG, **options))
    assert [row[:2] for row in seen] == [("7", "x")] * 2
    assert seen[1][2] < seen[0][2]


@KINDS
@pytest.mark.anyio
async def test_a_packed_answer_is_read(serve, wrapped, kind):
    """An answer that the provider packs, whole or as a stream, is unpacked once."""
    from starlette.middleware.gzip import GZipMiddleware  # noqa: PLC0415 - used here alone

    def app(_desk):
        async def create(request):
            if not (await request.json()).get("stream"):
                return JSONResponse(ANSWER)
            chunk = (
                b'data: {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": []}\n\n'
            )
            return StreamingResponse(iter([chunk, b"data: [DONE]\n\n"]), media_type="text/event-stream")

        routes = [Route("/v1/chat/completions", create, methods=["POST"])]
        return Starlette(routes=routes, middleware=[Middleware(GZipMiddleware, minimum_size=1)])

    _, url = serve(app)
    client = wrapped(kind, url)
    assert (await ask(client)).id == "1"
    chunks = await listed(await now(client.chat.completions.create(model="gpt-4o", messages=LONG, stream=True)))
    assert [chunk.id for chunk in chunks] == ["c"]


@KINDS
@pytest.mark.anyio
async def test_the_elapsed_time_is_told(serve, wrapped, kind):
    """A raw answer tells how long it took, a stream when it was read."""
    _, url = serve(chat_completions)
    raw = wrapped(kind, url).chat.completions.with_raw_response
    assert (await now(raw.create(model="gpt-4o", messages=LONG))).elapsed.total_seconds() > 0
    stream = await now(raw.create(model="gpt-4o", messages=LONG, stream=True))
    await listed(stream.parse())
    assert stream.elapsed.total_seconds() > 0


@KINDS
@pytest.mark.anyio
async def test_a_stream_left_at_its_last_event_is_billed(serve, closing, kind):
    """Who leaves a stream at its last event, and does not close it, has been told what it cost."""
    _, url = serve(responses)
    plan = pipeline()
    session = plan.session(model="gpt-5.4")
    client = wrap(closing(kind(base_url=f"{url}/v1", api_key="none")), plan, session=session)
    stream = await now(client.responses.create(model="gpt-5.4", input=items(3), stream=True))
    if kind is AsyncOpenAI:
        async for event in stream:
            if event.type == "response.completed":
                break
    else:
        for event in stream:
            if event.type == "response.completed":
                break
    assert session.billed_tokens == event.response.usage.input_tokens
    await now(stream.close())


@KINDS
@pytest.mark.anyio
async def test_errors_of_ours_come_out_as_they_are_and_once(serve, closing, kind):
    """An error of a key or of the pipeline is no broken connection: the SDK tries nothing again."""
    desk, url = serve(chat_completions)
    calls = []

    def key(body):
        calls.append(body)
        return {}["no name"]

    given = closing(kind(base_url=f"{url}/v1", api_key="none", max_retries=3))
    with pytest.raises(agentctx.ConfigError, match="no name"):
        await ask(wrap(given, pipeline(), key=key))
    assert len(calls) == 1
    assert not desk.requests


@KINDS
@pytest.mark.anyio
async def test_an_error_of_a_stage_comes_out_as_it_is_and_once(serve, closing, kind):
    """Whatever a stage raises reaches the caller: the SDK tries nothing again."""
    desk, url = serve(chat_completions)
    calls = []

    def stage(context, _call):
        calls.append(context)
        return {}["no such thing"]

    given = closing(kind(base_url=f"{url}/v1", api_key="none", max_retries=3))
    with pytest.raises(KeyError, match="no such thing"):
        await ask(wrap(given, agentctx.Pipeline(stage, budget=agentctx.Budget(100_000))))
    assert len(calls) == 1
    assert not desk.requests


@KINDS
def test_web_sockets_are_refused_by_name(kind):
    """What passes the HTTP client by cannot be prepared: the wrapped client says so, and the given one goes on."""
    given = kind(api_key="none", base_url="http://127.0.0.1:9")
    client = wrap(given, pipeline())
    for name, call in {
        "responses.connect": client.responses.connect,
        "realtime.connect": lambda: client.realtime.connect(model="gpt-realtime"),
        "beta.responses.connect": client.beta.responses.connect,
        "beta.realtime.connect": lambda: client.beta.realtime.connect(model="gpt-realtime"),
        "live.sideband": lambda: client.live.sideband.connect(session_id="1"),
    }.items():
        with pytest.raises(agentctx.ConfigError, match=name):
            call()
    assert client.realtime.client_secrets is not None
    assert client.beta.chat is not None
    assert given.responses.connect() is not None


@LIBRARIES
@pytest.mark.anyio
async def test_each_library_has_its_client(serve, library):
    """The client is of the library of the one that is passed; sync and async, and closing it closes that one."""
    http = import_module(library)
    desk, url = serve(chat_completions, window=WINDOW)
    body = {"model": "gpt-4o", "messages": LONG}
    inner = http.Client()
    with agentctx.http_client(pipeline(), client=inner) as client:
        assert isinstance(client, http.Client)
        assert (
            client.post(f"{url}/v1/chat/completions", json=body).json()["choices"][0]["message"]["content"] == "Done."
        )
        assert agentctx.of(client).report.acted
    assert inner.is_closed
    assert client.is_closed
    inner = http.AsyncClient(timeout=17)
    async with agentctx.async_http_client(pipeline(), client=inner) as client:
        assert isinstance(client, http.AsyncClient)
        assert client.timeout == inner.timeout
        async with client.stream("POST", f"{url}/v1/chat/completions", json={**body, "stream": True}) as response:
            assert [line async for line in response.aiter_lines()][-2] == "data: [DONE]"
    assert inner.is_closed
    assert len(desk.requests) == 4


def test_the_library_is_the_one_that_openai_speaks_with():
    """Where both are installed, and none is passed, it is that of OpenAI's SDK, which takes it."""
    with agentctx.http_client(pipeline()) as client:
        assert isinstance(client, httpx2.Client)
        assert OpenAI(api_key="none", http_client=client).chat is not None


@pytest.mark.parametrize("client", [5, httpx.AsyncClient(), object()])
def test_what_is_no_http_client_is_named(client):
    """Another object, or a client of the other kind, is refused with its class."""
    with pytest.raises(agentctx.ConfigError, match=type(client).__qualname__):
        agentctx.http_client(pipeline(), client=client)


@pytest.mark.anyio
async def test_a_body_that_is_signed_is_refused(serve):
    """A request that is signed for AWS before it is prepared would be refused by the provider: it is not sent."""
    desk, url = serve(chat_completions)
    headers = {"authorization": "AWS4-HMAC-SHA256 Credential=A/20261123/eu-west-1/bedrock/aws4_request, Signature=0"}
    with (
        agentctx.http_client(pipeline(), client=httpx.Client()) as client,
        pytest.raises(agentctx.ConfigError, match="bearer token"),
    ):
        client.post(f"{url}/v1/chat/completions", json={"model": "gpt-4o", "messages": LONG}, headers=headers)
    assert not desk.requests


@pytest.mark.anyio
async def test_a_call_that_is_tried_again_by_hand_is_one_step(serve):
    """The same body, with no answer between, is the same step, whoever tries it again; an answer ends that."""
    statuses = [503, 200, 200]

    async def create(_request):
        return JSONResponse(ANSWER, statuses.pop(0))

    _, url = serve(application(create))
    plan = pipeline()
    session = plan.session(model="gpt-4o")
    async with agentctx.async_http_client(plan, client=httpx.AsyncClient(), session=session) as client:
        for steps in (1, 1, 2):
            await client.post(f"{url}/v1/chat/completions", json={"model": "gpt-4o", "messages": LONG})
            assert session.steps == steps


@pytest.mark.anyio
async def test_a_call_of_another_conversation_is_no_retry(serve):
    """The same body in another session, or under another name, is a step of its own, though the first has no answer."""
    statuses = [500, 200, 500, 200]

    async def create(_request):
        return JSONResponse(ANSWER, statuses.pop(0))

    _, url = serve(application(create))
    plan, tenant = pipeline(), ["ann"]
    body = {"model": "gpt-4o", "messages": LONG}
    one, two = plan.session(model="gpt-4o"), plan.session(model="gpt-4o")
    async with agentctx.async_http_client(plan, client=httpx.AsyncClient()) as client:
        for session in (one, two):
            with session:
                await client.post(f"{url}/v1/chat/completions", json=body)
    assert (one.steps, two.steps) == (1, 1)
    async with agentctx.async_http_client(plan, client=httpx.AsyncClient(), key=lambda _: tenant[0]) as client:
        await client.post(f"{url}/v1/chat/completions", json=body)
        tenant[0] = "bob"
        await client.post(f"{url}/v1/chat/completions", json=body)
        assert {name: agentctx.of(client).sessions[name].steps for name in ("ann", "bob")} == {"ann": 1, "bob": 1}


@pytest.mark.anyio
async def test_what_is_nested_too_deep_is_sent_as_it_came(serve):
    """A body that cannot be read, or not be written anew, goes to the provider, who judges it."""
    bodies = []

    async def create(request):
        bodies.append(await request.body())
        return JSONResponse(ANSWER)

    _, url = serve(application(create))
    body = json.dumps({"model": "gpt-4o", "messages": LONG})
    depths = range(900, 1_000, 5)
    async with agentctx.async_http_client(pipeline(WINDOW), client=httpx.AsyncClient()) as client:
        for depth in depths:
            deep = f'{body[:-1]}, "metadata": {"[" * depth}{"]" * depth}}}'
            await client.post(f"{url}/v1/chat/completions", content=deep)
    assert all(sent.count(b"[") >= depth for sent, depth in zip(bodies, depths, strict=True))


def test_anthropics_client_by_its_http_client(serve):
    """A client of Anthropic's SDK that is given the HTTP client prepares as well."""
    from agentctx.testing.servers import messages  # noqa: PLC0415 - used here alone

    desk, url = serve(messages, window=WINDOW)
    with agentctx.http_client(pipeline(), client=httpx2.Client()) as http:
        client = anthropic.Anthropic(base_url=url, api_key="none", http_client=http)
        answer = client.messages.create(model="claude-sonnet-5-5", max_tokens=50, messages=LONG[1:])
    assert answer.content[0].text == "Done."
    assert len(desk.requests) == 2


@KINDS
@pytest.mark.anyio
async def test_a_stage_that_leaves_out_the_tool_to_use_is_named(wrapped, serve, kind):
    """The provider would refuse the request; another tool may go."""

    def without(name):
        def stage(context, _call):
            return evolve(context, tools=tuple(each for each in context.tools if each.name != name))

        return agentctx.Pipeline(stage)

    desk, url = serve(chat_completions)
    functions = [{"name": name, "parameters": {"type": "object"}} for name in ("read", "bash")]
    asked = {
        "tools": [{"type": "function", "function": function} for function in functions],
        "tool_choice": {"type": "function", "function": {"name": "bash"}},
    }
    client = wrapped(kind, url, without("bash"))
    with pytest.raises(agentctx.StageError, match=r"stage stage: tools: tool_choice: .*'bash'"):
        await now(client.chat.completions.create(model="gpt-4o", messages=LONG, **asked))
    assert not desk.requests
    client = wrapped(kind, url, without("read"))
    await now(client.chat.completions.create(model="gpt-4o", messages=LONG, **asked))
    assert [each["function"]["name"] for each in desk.requests[0]["tools"]] == ["bash"]


APIS = {
    "openai-chat": ("/v1/chat/completions", {"model": "gpt-5.4", "messages": LONG}),
    "openai-responses": ("/v1/responses", {"model": "gpt-5.4", "input": items(2), "store": False}),
    "anthropic": ("/v1/messages", {"model": "claude-sonnet-4-5", "max_tokens": 9, "messages": LONG[1:]}),
    "gemini": (
        "/v1beta/models/gemini-2.5-pro:generateContent",
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
    ),
    "bedrock": (
        "/model/anthropic.claude-sonnet-4-5/converse",
        {"messages": [{"role": "user", "content": [{"text": "Hi"}]}]},
    ),
}


def gemini(**config):
    return {"toolConfig": {"functionCallingConfig": config}}


def bedrock(**choice):
    return {"toolConfig": {"toolChoice": choice}}


def posted(api, stage, options):
    """What is sent of a request with the tools ``read`` and ``edit``, when a stage has done something to its tools."""
    path, body = APIS[api]
    sent = []

    def answer(request):
        sent.append(json.loads(request.content))
        return httpx.Response(200, json={})

    wire = format_named(api)
    tools = [wire.write_tool(agentctx.Tool(name, "d", {"type": "object"})) for name in ("read", "edit")]
    asked = {**body, **options}
    if api == "bedrock":
        asked["toolConfig"] = {"tools": tools, **options.get("toolConfig", {})}
    else:
        asked["tools"] = tools
    plan = agentctx.Pipeline(stage, budget=agentctx.Budget(100_000))
    with agentctx.http_client(plan, client=httpx.Client(transport=httpx.MockTransport(answer))) as client:
        client.post(f"https://host{path}", json=asked)
    assert validate(sent[0], api, sent[0].get("model") or path.split("/")[-1].split(":")[0]) == ()
    return sent[0]


def without_tools(context, _call):
    return evolve(context, tools=())


def without_edit(context, _call):
    return evolve(context, tools=tuple(tool for tool in context.tools if tool.name != "edit"))


@pytest.mark.parametrize(
    ("api", "stage", "options"),
    [
        ("openai-chat", without_tools, {"tool_choice": "required"}),
        ("openai-chat", without_tools, {"tool_choice": {"type": "function", "function": {"name": "edit"}}}),
        ("openai-responses", without_tools, {"tool_choice": "required"}),
        ("openai-responses", without_tools, {"tool_choice": {"type": "function", "name": "edit"}}),
        ("openai-responses", without_tools, {"tool_choice": {"type": "file_search"}}),
        ("openai-responses", without_edit, {"tool_choice": {"type": "function", "name": "edit"}}),
        ("anthropic", without_tools, {"tool_choice": {"type": "any"}}),
        ("anthropic", without_tools, {"tool_choice": {"type": "tool", "name": "edit"}}),
        ("anthropic", without_edit, {"tool_choice": {"type": "tool", "name": "edit"}}),
        ("gemini", without_tools, gemini(mode="ANY")),
        ("gemini", without_tools, gemini(mode="ANY", allowedFunctionNames=["edit"])),
        ("gemini", without_edit, gemini(mode="ANY", allowedFunctionNames=["edit"])),
        ("gemini", without_edit, {"tool_config": {"function_calling_config": {"allowed_function_names": ["edit"]}}}),
        ("bedrock", without_tools, bedrock(any={})),
        ("bedrock", without_tools, bedrock(tool={"name": "edit"})),
        ("bedrock", without_edit, bedrock(tool={"name": "edit"})),
    ],
)
def test_a_tool_that_is_demanded_must_stay(api, stage, options):
    """A stage that leaves no tool to call, where the caller demands a call, is named; nothing is sent."""
    with pytest.raises(agentctx.StageError, match=f"stage {stage.__name__}: tools: "):
        posted(api, stage, options)


@pytest.mark.parametrize(
    ("api", "options"),
    [
        ("openai-chat", {"tool_choice": "auto", "parallel_tool_calls": False}),
        ("openai-chat", {"tool_choice": "none"}),
        ("openai-responses", {"tool_choice": "none", "parallel_tool_calls": True}),
        ("anthropic", {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}}),
        ("anthropic", {"tool_choice": {"type": "none"}}),
        ("gemini", gemini(mode="AUTO")),
        ("gemini", gemini(mode="NONE")),
        ("gemini", {"tool_config": {"function_calling_config": {"mode": "AUTO"}}}),
        ("bedrock", bedrock(auto={})),
        ("bedrock", {}),
    ],
)
def test_without_tools_what_is_only_about_tools_goes(api, options):
    """A choice that demands nothing means nothing where no tools are left, and some providers refuse it."""
    assert posted(api, without_tools, options).keys() == APIS[api][1].keys()


@pytest.mark.parametrize("api", APIS)
def test_a_choice_stays_with_a_tool_that_stays(api):
    """A choice of another tool is sent as it is."""
    options = {
        "openai-chat": {"tool_choice": "none", "parallel_tool_calls": False},
        "openai-responses": {"tool_choice": {"type": "function", "name": "read"}},
        "anthropic": {"tool_choice": {"type": "tool", "name": "read"}},
        "gemini": gemini(mode="ANY", allowedFunctionNames=["read"]),
        "bedrock": bedrock(tool={"name": "read"}),
    }[api]
    sent = posted(api, without_edit, options)
    for key, said in options.items():
        assert sent[key] == (said if api != "bedrock" else {**said, "tools": sent[key]["tools"]})


@pytest.mark.parametrize("api", APIS)
def test_a_tool_whose_name_the_provider_refuses_is_its_stages_error(api):
    """The stage that made it is named, and nothing is sent; a name that the provider takes goes out."""

    def adding(name):
        def add(context, _call):
            tool = agentctx.Tool(name, "d", {"type": "object"})
            return evolve(context, tools=(*context.tools, tool))

        return add

    with pytest.raises(agentctx.StageError, match="stage add: tools: "):
        posted(api, adding("ex tra!"), {})
    assert '"extra"' in json.dumps(posted(api, adding("extra"), {}))
