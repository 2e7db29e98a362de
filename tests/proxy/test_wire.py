"""What goes through is what came: bytes, header fields, streams, errors, cut connections."""

import gzip
import json
import re
import select
import socket
import time
from contextlib import asynccontextmanager, suppress
from functools import partial
from importlib.util import find_spec, module_from_spec
from threading import Event, Thread
from types import SimpleNamespace

import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from conftest import WINDOW, pipeline, proxying
from starlette.applications import Starlette
from starlette.routing import Mount
from talks import plain, rounds

from agentctx import Budget, ConfigError, FitContextWindow, Pipeline
from agentctx.clients import over_http
from agentctx.proxy import Proxy, Timeouts, Upstreams
from agentctx.stores import MemoryStore
from agentctx.strategies import ClearByProvider
from agentctx.testing.servers import serving

KEYS = {"authorization": "Bearer sk-one"}


@pytest.fixture(scope="module")
def upstream(running):
    """A provider that notes each request and answers as ``seen.answer`` says: status, header fields, pieces."""
    seen = SimpleNamespace(requests=[], answer=None, gone=Event())

    async def app(scope, receive, send):
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        seen.requests.append(SimpleNamespace(scope=scope, headers=scope["headers"], body=body))
        status, headers, pieces = seen.answer
        await send({"type": "http.response.start", "status": status, "headers": headers})
        for piece in pieces:
            if callable(piece):
                if await piece(receive):
                    return
            else:
                await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    seen.url = running(serving(app))
    seen.proxy = Proxy(pipeline(), Upstreams(everything=seen.url), max_body=300_000, timeouts=Timeouts(read=2.0))
    seen.through = running(proxying(seen.proxy))
    return seen


@pytest.fixture
def given(upstream):
    """Let the provider answer so from now on; gives it."""

    def give(status=200, headers=(), pieces=(b"{}",)):
        upstream.requests.clear()
        upstream.gone.clear()
        upstream.answer = status, list(headers), pieces
        return upstream

    return give


def chunk(**delta):
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": delta}]}).encode() + b"\n\n"


def chat(number=1, **more):
    return {"model": "gpt-5.4", "messages": plain(rounds(number)), **more}


def test_every_other_request_passes_through_as_it_is(given):
    """Of what is no model call all that the client wrote reaches the provider, and all of its answer the client."""
    coded = gzip.compress(b'{"data": []}')
    at = given(
        418,
        [(b"content-encoding", b"gzip"), (b"x-request-id", b"r1"), (b"connection", b"x-hop"), (b"x-hop", b"1")],
        [coded],
    )
    sent = {
        **KEYS,
        "accept-encoding": "gzip",
        "x-mine": "yes",
        "connection": "keep-alive, x-only-here",
        "x-only-here": "1",
    }
    path = "/v1/files/a%2Fb?limit=3&after=%20x"
    with httpx.stream("PATCH", f"{at.through}{path}", headers=sent, content=b"\x00raw") as answer:
        raw = b"".join(answer.iter_raw())
    request = at.requests[0]
    assert (answer.status_code, raw, answer.headers["x-request-id"]) == (418, coded, "r1")
    assert "x-hop" not in answer.headers
    assert (request.scope["method"], request.scope["raw_path"], request.scope["query_string"]) == (
        "PATCH", b"/v1/files/a%2Fb", b"limit=3&after=%20x",
    )  # fmt: skip
    assert request.body == b"\x00raw"
    headers = dict(request.headers)
    assert (headers[b"authorization"], headers[b"x-mine"], headers[b"accept-encoding"]) == (
        b"Bearer sk-one",
        b"yes",
        b"gzip",
    )
    assert headers[b"host"].decode() == at.url.removeprefix("http://")
    assert b"x-only-here" not in headers


def test_a_body_that_is_changed_has_its_own_length_and_no_encoding(given):
    """A packed request that must be cut goes out unpacked, with the right length; one that fits goes out as it came."""
    at = given()
    for number, coding in ((1, "gzip"), (30, "GZIP")):
        packed = gzip.compress(json.dumps(chat(number)).encode())
        headers = {**KEYS, "content-encoding": coding, "x-agentctx-session": "mine"}
        httpx.post(f"{at.through}/v1/chat/completions", content=packed, headers=headers).raise_for_status()
    untouched, cut = at.requests
    assert json.loads(gzip.decompress(untouched.body)) == chat(1)
    assert len(json.loads(cut.body)["messages"]) < len(chat(30)["messages"])
    headers = dict(cut.headers)
    assert int(headers[b"content-length"]) == len(cut.body)
    assert b"content-encoding" not in headers
    assert b"x-agentctx-session" not in headers


def test_long_names_that_begin_alike_are_of_two_conversations(given):
    """However long the name in the header is, no other one is taken for it."""
    at = given()
    for end in "aab":
        headers = {**KEYS, "x-agentctx-session": "n" * 1_500 + end}
        httpx.post(f"{at.through}/v1/chat/completions", json=chat(), headers=headers).raise_for_status()
    held = [each for sessions in at.proxy.known._sessions.values() for each in sessions.items()]
    assert sorted(session.steps for name, session in held if "/nnn" in name) == [1, 2]


@pytest.mark.parametrize(
    "body",
    [b"not json", b"[1]", b'{"model": "gpt-5.4"}', b'{"model": "m", "messages": [{"role": "nobody"}]}', b"[" * 100_000],
    ids=["text", "a list", "no messages", "unknown role", "too deep"],
)
def test_what_cannot_be_read_passes_through(given, body):
    """The provider itself judges a body that is no model call that can be prepared."""
    at = given(400, [(b"content-type", b"application/json")], [b'{"error": {"message": "theirs"}}'])
    answer = httpx.post(f"{at.through}/v1/chat/completions", content=body, headers=KEYS)
    assert (answer.status_code, answer.json()["error"]["message"], at.requests[0].body) == (400, "theirs", body)


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_an_answer_packed_in_an_unknown_way_is_handed_on(given, kind):
    """An answer that the provider packs in a way that nobody here unpacks comes as it is, at once, and says so."""
    half = Event()

    async def wait(_receive):
        return "event" in kind and not half.wait(2)

    at = given(200, [(b"content-type", kind.encode()), (b"content-encoding", b"ours")], [b"pa", wait, b"cked"])
    got = b""
    with httpx.stream("POST", f"{at.through}/v1/chat/completions", json=chat(), headers=KEYS) as answer:
        for piece in answer.iter_raw():
            got += piece
            half.set()
    assert (got, answer.headers["content-encoding"]) == (b"packed", "ours")


def test_what_can_be_read_and_not_written_passes_through(given):
    """However deep something is nested in a request that must be cut, the provider gets it: cut, or as it came."""
    at = given()
    body = json.dumps(chat(30))
    for depth in range(900, 1_000, 5):
        deep = f'{body[:-1]}, "metadata": {"[" * depth}{"]" * depth}}}'
        httpx.post(f"{at.through}/v1/chat/completions", content=deep.encode(), headers=KEYS).raise_for_status()
    assert all(request.body.count(b"[") >= 900 for request in at.requests)


def test_a_number_that_no_float_holds_is_one_to_the_provider(given):
    """A request that must be cut is JSON all the same; one that says ``NaN``, which is none, goes out as it came."""
    at = given()
    huge, lone = '{"a": [1e999, -1e400, 1e308], "b": "Infinity NaN"}', r'"\ud800"'
    for said in (huge, f"[{huge}, {lone}]", "NaN", "-Infinity"):
        body = f'{json.dumps(chat(30))[:-1]}, "metadata": {said}}}'.encode()
        httpx.post(f"{at.through}/v1/chat/completions", content=body, headers=KEYS).raise_for_status()
        read = [json.loads(each, parse_constant=str) for each in (at.requests[-1].body, body)]
        assert read[0]["metadata"] == read[1]["metadata"]
        assert (at.requests[-1].body == body) == (said in ("NaN", "-Infinity"))


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_a_packed_answer_is_unpacked(given, kind):
    """An answer that the provider packs although it was not to comes unpacked, and says so."""
    said = chunk(content="word") if "event" in kind else b'{"choices": [], "usage": {"prompt_tokens": 3}}'
    at = given(200, [(b"content-type", kind.encode()), (b"content-encoding", b"gzip")], [gzip.compress(said)])
    url, asked = f"{at.through}/v1/chat/completions", {"json": chat(), "headers": KEYS}
    with httpx.stream("POST", url, **asked) as answer:
        assert b"".join(answer.iter_raw()) == said
    assert "content-encoding" not in answer.headers
    assert dict(at.requests[0].headers)[b"accept-encoding"] == b"identity"


def test_a_signature_holds_for_the_providers_address(given, aws):
    """What is signed anew carries the proxy's own key, over the provider's host and what is sent, and nothing else."""
    at = given()
    signed = {
        "authorization": "AWS4-HMAC-SHA256 Credential=AKIAONE/20261123/eu-west-1/bedrock/aws4_request, Signature=0"
    }
    body = {"messages": [{"role": "user", "content": [{"text": text}]} for text in ("Hello", "again")]}
    with proxying(Proxy(pipeline(), Upstreams(everything=at.url), sign_aws=True)) as url:
        httpx.post(f"{url}/model/amazon.nova-pro-v1%3A0/converse?x=1", json=body, headers=signed).raise_for_status()
    request = at.requests[0]
    headers = {name.decode(): value.decode() for name, value in request.headers}
    checked = AWSRequest("POST", f"{at.url}/model/amazon.nova-pro-v1%3A0/converse?x=1", data=request.body)
    checked.headers["host"], checked.headers["content-type"] = headers["host"], headers["content-type"]
    checked.headers["X-Amz-Date"] = checked.context["timestamp"] = headers["x-amz-date"]
    signer = SigV4Auth(Credentials("AKIAPROXY", "the proxy's"), "bedrock", "eu-west-1")
    expected = signer.signature(signer.string_to_sign(checked, signer.canonical_request(checked)), checked)
    assert headers["authorization"].startswith("AWS4-HMAC-SHA256 Credential=AKIAPROXY/")
    assert headers["authorization"].endswith(f"Signature={expected}")


def test_a_beta_feature_of_a_stage_is_asked_for(given):
    """What a stage asks of Anthropic goes into the header, beside what the client asks for, and not into the body."""
    at = given()
    clearing = Pipeline(ClearByProvider(1_500, 2), FitContextWindow(), budget=Budget(3_000))
    body = {**chat(30), "model": "claude-opus-4-8", "max_tokens": 100}
    with proxying(Proxy(clearing, Upstreams(everything=at.url))) as url:
        httpx.post(f"{url}/v1/messages", json=body, headers={**KEYS, "anthropic-beta": "mine"}).raise_for_status()
    sent = json.loads(at.requests[0].body)
    assert dict(at.requests[0].headers)[b"anthropic-beta"] == b"mine,context-management-2025-06-27"
    assert ("context_management" in sent, "betas" in sent) == (True, False)


def test_what_a_pipeline_raises_is_said(given):
    """A stage that raises or exits, and a model of no known window, are errors in the API's shape; nothing is sent."""

    async def broken(_context, _call):
        what = "a mistake of the stage's author"
        raise RuntimeError(what)

    def leaving(_context, _call):
        raise SystemExit(3)

    def unknown(model):
        what = f"the window of {model} is not known"
        raise ConfigError(what)

    at = given()
    stages = [(Pipeline(stage, budget=Budget(1_000)), 500) for stage in (broken, leaving)]
    for made, status in (*stages, (unknown, 400)):
        with proxying(Proxy(made, Upstreams(everything=at.url))) as url:
            answer = httpx.post(f"{url}/v1/messages", json=chat(), headers=KEYS)
        assert (answer.status_code, answer.json()["type"], answer.headers["x-should-retry"]) == (
            status,
            "error",
            "false",
        )
    assert at.requests == []


def test_a_branch_keeps_what_its_conversation_decided(given):
    """A history that leaves a conversation that was cut begins as that one's requests do, so that the cache is read."""
    at = given()
    url = f"{at.through}/v1/chat/completions"
    asked = [rounds(number, "branch") for number in (14, 15)]
    asked.append([*rounds(15, "branch")[:-1], ("user", "Something else?")])
    for said in asked:
        httpx.post(url, json={"model": "gpt-5.4", "messages": plain(said)}, headers=KEYS).raise_for_status()
    sent = [json.loads(request.body)["messages"] for request in at.requests]
    assert len(sent[0]) < len(asked[0])
    assert sent[1][: len(sent[0])] == sent[0]
    assert sent[2][:-1] == sent[1][:-1]
    kept = [(name, session.id) for each in at.proxy.known._sessions.values() for name, session in each.items()]
    assert all(name == identity for name, identity in kept)  # by which a store tells their contents apart


SHAPES = {
    "/v1/chat/completions": ("code", "context_length_exceeded", "This model's maximum context length is"),
    "/v1/responses": ("type", "invalid_request_error", "Your input exceeds the context window of this model."),
    "/v1/messages": ("type", "invalid_request_error", "prompt is too long: "),
    "/v1beta/models/gemini-2.5-flash:generateContent": ("status", "INVALID_ARGUMENT", "The input token count ("),
    "/model/amazon.nova-pro-v1%3A0/converse": ("kind", None, "Input is too long for requested model."),
}


def huge(path):
    text = "far too long " * 2_000
    if path.endswith("converse"):
        return {"messages": [{"role": "user", "content": [{"text": text}]}]}
    if path.endswith("generateContent"):
        return {"contents": [{"role": "user", "parts": [{"text": text}]}]}
    key = "input" if path.endswith("responses") else "messages"
    return {"model": "claude-sonnet-5-5", key: [{"role": "user", "content": text}]}


@pytest.mark.parametrize("path", SHAPES)
def test_what_cannot_fit_is_refused_in_the_providers_words(given, path):
    """A request that cannot be made to fit is answered with 400 in the provider's shape and words; nothing is sent."""
    at = given()
    answer = httpx.post(f"{at.through}{path}", json=huge(path), headers=KEYS)
    name, kind, sentence = SHAPES[path]
    error = answer.json().get("error", answer.json())
    assert (answer.status_code, error.get(name)) == (400, kind)
    assert error["message"].startswith(sentence)
    assert f"{WINDOW:,}" in answer.text
    assert at.requests == []


@pytest.mark.parametrize("declared", [True, False], ids=["with its length", "in chunks"])
def test_a_huge_body_is_refused(given, declared):
    """A model call with more bytes than are taken is answered with 413, packed or not; other bodies pass through."""
    at = given()
    body = json.dumps(chat(1)).encode() + b" " * 400_000
    url = f"{at.through}/v1/messages"
    answer = httpx.post(url, content=body if declared else iter([body[:200_000], body[200_000:]]), headers=KEYS)
    assert (answer.status_code, answer.json()["error"]["type"]) == (413, "request_too_large")
    packed = httpx.post(url, content=gzip.compress(body), headers={**KEYS, "content-encoding": "gzip"})
    assert packed.status_code == 413
    assert at.requests == []
    assert httpx.post(f"{at.through}/v1/files", content=body, headers=KEYS).status_code == 200
    assert at.requests[0].body == body


def test_a_stream_is_passed_on_byte_by_byte_as_it_comes(given):
    """Odd line ends, comments and halves of events come as they were sent, and when: none waits for an event's end."""
    arrived = Event()

    async def wait(_receive):
        from anyio import to_thread  # noqa: PLC0415 - used here alone

        await to_thread.run_sync(arrived.wait, 5)

    half = chunk(content="second")
    pieces = [
        b": ping\r\n\r\n",
        chunk(role="assistant"),
        chunk(content="first") + half[:9],
        wait,
        half[9:],
        b"data: [DONE]\n\n",
    ]
    at = given(200, [(b"content-type", b"text/event-stream")], pieces)
    got = b""
    with httpx.stream("POST", f"{at.through}/v1/chat/completions", json=chat(stream=True), headers=KEYS) as answer:
        for piece in answer.iter_raw():
            got += piece
            if got.endswith(half[:9]):
                arrived.set()
    assert arrived.is_set()
    assert got == b"".join(piece for piece in pieces if isinstance(piece, bytes))


def test_small_pieces_are_sent_at_once(given):
    """No piece of an answer waits 40 ms until the client has acknowledged the one before: each call would take them."""
    at = given(200, [(b"content-type", b"text/event-stream")], [chunk(content="first")])
    with httpx.Client() as client:
        for _ in range(500):  # on a busy machine many take longer
            begun = time.perf_counter()
            client.post(f"{at.through}/v1/chat/completions", json=chat(stream=True), headers=KEYS)
            if time.perf_counter() - begun < 0.04:
                return
    pytest.fail("each call took 40 ms")


def test_a_client_that_leaves_ends_the_call(given):
    """When a client closes its connection in mid-stream, the provider's is closed as well: nobody pays for the rest."""
    at = given()

    async def until_gone(receive):
        while (await receive())["type"] != "http.disconnect":
            pass
        at.gone.set()
        return True

    at.answer = 200, [(b"content-type", b"text/event-stream")], [chunk(content="first"), until_gone]
    for path in ("chat/completions", "completions"):
        at.gone.clear()
        with httpx.stream("POST", f"{at.through}/v1/{path}", json=chat(stream=True), headers=KEYS) as answer:
            next(answer.iter_raw())
        assert at.gone.wait(60)
    assert b'broken_streams_total{by="client"} 2.0' in _soon(at.through, b'by="client"} 2')


def test_a_client_that_leaves_behind_the_last_event_breaks_nothing(given):
    """Who hangs up when it has read the last event has read the answer: no stream is counted as broken."""
    at, left = given(), Event()

    async def once_left(_receive):
        from anyio import to_thread  # noqa: PLC0415 - used here alone

        await to_thread.run_sync(left.wait, 60)

    at.answer = 200, [(b"content-type", b"text/event-stream")], [chunk(content="first"), b"data: [DONE]\n\n", once_left]
    before = _counted(at.through)
    with httpx.stream("POST", f"{at.through}/v1/chat/completions", json=chat(stream=True), headers=KEYS) as answer:
        pieces = answer.iter_raw()
        while b"[DONE]" not in next(pieces):
            pass
    time.sleep(0.3)  # the server is told of it
    left.set()
    for _ in range(3_000):
        if (after := _counted(at.through))["answers"] > before["answers"]:
            break
        time.sleep(0.02)
    assert after == {"answers": before["answers"] + 1, "broken": before["broken"]}


def _counted(url):
    """How many answers of success the proxy has given, and how many streams their clients have broken."""
    text = httpx.get(f"{url}/metrics").text
    rows = {"answers": r'answers_total\{status="2xx"\} (\S+)', "broken": r'broken_streams_total\{by="client"\} (\S+)'}
    return {name: float(row[1]) if (row := re.search(pattern, text)) else 0.0 for name, pattern in rows.items()}


def _soon(url, text):
    for _ in range(3_000):
        counted = httpx.get(f"{url}/metrics").content
        if text in counted:
            return counted
        time.sleep(0.02)
    return counted


async def _cut(_receive):
    return True


def test_a_stream_that_the_provider_cuts_is_cut(given):
    """The client sees a broken stream after what had come, and nothing else: no error is written into it."""
    at = given(200, [(b"content-type", b"text/event-stream")], [chunk(content="first"), _cut])
    got = []
    asked = {"json": chat(stream=True), "headers": KEYS}
    with httpx.stream("POST", f"{at.through}/v1/chat/completions", **asked) as answer:
        read = partial(got.extend, answer.iter_raw())
        with pytest.raises(httpx.RemoteProtocolError):
            read()
    assert b"".join(got) == chunk(content="first")


def test_a_provider_that_is_not_there_or_silent_is_said_in_its_words(given):
    """Without a provider the answer is 502, of one that says nothing 504, in the API's shape."""

    async def silence(receive):
        await receive()
        return True

    at = given(200, [], [])
    slow = Proxy(pipeline(), Upstreams(everything=at.url), timeouts=Timeouts(read=0.2))
    nobody = socket.socket()
    nobody.bind(("127.0.0.1", 0))
    place = f"127.0.0.1:{nobody.getsockname()[1]}"
    address = f"http://{place}"
    with proxying(Proxy(pipeline(), Upstreams(everything=address))) as url:
        answer = httpx.post(f"{url}/v1/messages", json=chat(), headers=KEYS)
    nobody.close()
    assert (answer.status_code, answer.json()["error"]["type"]) == (502, "api_error")
    assert re.search(rf"{place} could not be reached .*--upstream", answer.json()["error"]["message"])
    at.answer = 200, [(b"content-length", b"9")], [silence]
    with proxying(slow) as url:
        answer = httpx.post(f"{url}/v1/messages", json=chat(), headers=KEYS)
    assert (answer.status_code, answer.json()["error"]["type"]) == (504, "timeout_error")


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/files"])
def test_an_upload_that_comes_too_slowly_is_broken_off(given, path):
    """One that stops, or trickles, is answered with 408 and its place is free; a steady one may take longer."""
    at = given()
    proxy = Proxy(pipeline(), Upstreams(everything=at.url), timeouts=Timeouts(upload=1.5))
    with proxying(proxy) as url:

        def pieces(count, size, pause):
            for _ in range(count):
                yield b" " * size
                time.sleep(pause)

        steady = httpx.post(f"{url}{path}", content=pieces(7, 1_000, 0.3), headers=KEYS)
        assert (steady.status_code, len(at.requests[0].body)) == (200, 7_000)
        for count, pause in ((1_000, 0.1), (1, 0)):
            with socket.create_connection(url.removeprefix("http://").split(":"), timeout=60) as raw:
                raw.sendall(f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 99\r\n\r\n".encode())
                with suppress(OSError):
                    for piece in pieces(count, 1, pause):
                        raw.sendall(piece)
                        if select.select([raw], [], [], 0)[0]:
                            break
                assert raw.recv(1_000).startswith(b"HTTP/1.1 408")
        until = time.monotonic() + 60
        while proxy._active:
            assert time.monotonic() < until
            time.sleep(0.01)


@pytest.mark.parametrize("dots", ["/..", "/a/../b", "/./a", "/%2e%2E/a", "/a/.%2e"])
def test_a_path_that_leads_elsewhere_is_refused(given, dots):
    """Nothing is asked of a provider's address above the one that was named for it."""
    at = given()
    with socket.create_connection(at.through.removeprefix("http://").split(":")) as raw:
        raw.sendall(f"GET {dots} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n".encode())
        assert raw.recv(1_000).startswith(b"HTTP/1.1 400")
    assert at.requests == []
    httpx.get(f"{at.through}/v1/..a/b.%2e.c/...", headers=KEYS).raise_for_status()


@pytest.mark.anyio
async def test_a_mounted_proxy_is_closed_by_its_host(given):
    """An application that passes no lifespan on serves it all the same, and ``async with`` in its own closes it."""
    at = given()
    proxy = Proxy(pipeline(), Upstreams(everything=at.url), store=MemoryStore())

    @asynccontextmanager
    async def lifespan(_app):
        async with proxy:
            yield

    host = Starlette(routes=[Mount("/llm", proxy)], lifespan=lifespan)
    for _ in range(2):  # used again, it opens its connections anew
        async with host.router.lifespan_context(host), _client_of(host) as client:
            answer = await client.post("/llm/v1/chat/completions", json=chat(), headers=KEYS)
            assert answer.status_code == 200
            held = proxy._upstream._client
        assert held.is_closed
    assert len(at.requests) == 2
    async with _client_of(Starlette(routes=[Mount("/llm", proxy)])) as client:
        assert (await client.get("/llm/healthz")).text == "ok\n"
        assert (await client.get("/llm/v1/models")).status_code == 200
    await proxy.__aexit__(None, None, None)


def _client_of(application):
    return httpx.AsyncClient(transport=httpx.ASGITransport(application), base_url="http://host")


def test_no_client_is_made_by_an_import(monkeypatch):
    """What httpx unpacks is asked when an answer is to be unpacked."""
    monkeypatch.setattr(httpx, "Client", None)
    spec = find_spec("agentctx.proxy.upstream")
    spec.loader.exec_module(module_from_spec(spec))


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/models"])
def test_what_makes_no_address_is_said(given, path):
    """A path that is too long for an address is refused in the API's words, and nothing is sent."""
    at = given()
    with proxying(Proxy(pipeline(), Upstreams(everything=f"{at.url}/{'a' * 60_000}"))) as url:
        answer = httpx.post(f"{url}/{'b' * 6_000}{path}", json=chat(), headers=KEYS)
    assert (answer.status_code, at.requests) == (414, [])
    assert "too long" in answer.json()["error"]["message"]


def test_an_answer_that_breaks_off_is_said(given):
    """An answer that is no stream and ends in its midst is no provider that cannot be reached."""
    at = given(200, [(b"content-length", b"9")], [b'{"id":', _cut])
    answer = httpx.post(f"{at.through}/v1/messages", json=chat(), headers=KEYS)
    assert answer.status_code == 502
    assert "broke off" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "said", [b"HTTP/1.1 999 No\r\ncontent-length: 0\r\n\r\n", b"\x00 no HTTP\r\n\r\n"], ids=["status", "bytes"]
)
@pytest.mark.parametrize("path", ["/v1/messages", "/v1/models"])
def test_an_answer_that_is_no_http_is_said(path, said):
    """A status that HTTP does not have, and what is no HTTP at all, is an answer in the API's words that says so."""
    with socket.create_server(("127.0.0.1", 0)) as there:

        def answer():
            with there.accept()[0] as client:
                client.recv(100_000)
                client.sendall(said)

        Thread(target=answer).start()
        upstreams = Upstreams(everything=f"http://127.0.0.1:{there.getsockname()[1]}")
        with proxying(Proxy(pipeline(), upstreams)) as url:
            got = httpx.post(f"{url}{path}", json=chat(), headers={**KEYS, "anthropic-version": "2023-06-01"})
    assert got.status_code == 502
    assert "no valid HTTP" in got.json()["error"]["message"]


def test_a_stream_that_goes_on_with_another_answer_has_no_length(given):
    """Of a stream that says how long it is, and that the request was too large, the client reads all of the second."""
    said = {"error": {"message": "maximum context length is 400 tokens", "code": "context_length_exceeded"}}
    first, second = b"data: " + json.dumps(said).encode() + b"\n\n", chunk(content="word " * 100)
    head = [(b"content-type", b"text/event-stream"), (b"content-length", str(len(first)).encode())]

    async def then(_receive):
        at.answer = 200, head[:1], [second]

    at = given(200, head, [then, first])
    answer = httpx.post(f"{at.through}/v1/chat/completions", json=chat(8, stream=True), headers=KEYS)
    assert (answer.content, len(at.requests)) == (second, 2)


@pytest.mark.parametrize(("number", "stream"), [(0, False), (8, False), (8, True)])
def test_what_is_sent_once_more_is_counted(given, number, stream):
    """The metric counts the requests that were sent again, smaller, of streams too, and no overflow that stays one."""
    said = {"error": {"message": "maximum context length is 400 tokens", "code": "context_length_exceeded"}}
    at = given(400, [], [json.dumps(said).encode()])
    if stream:
        at = given(200, [(b"content-type", b"text/event-stream")], [b"data: " + json.dumps(said).encode() + b"\n\n"])
    counted = at.proxy.metrics.recovered._value
    before = counted.get()
    asked = {"model": "gpt-5.4", "messages": plain(rounds(number, f"again {stream}")), "stream": stream}
    httpx.post(f"{at.through}/v1/chat/completions", json=asked, headers=KEYS)
    assert (1 if number else 0) == len(at.requests) - 1 == counted.get() - before


@pytest.mark.anyio
async def test_an_event_without_an_end_is_handed_on(monkeypatch):
    """A stream that ends no event is kept up to a size and then handed on, and looked through once."""
    monkeypatch.setattr(over_http, "LARGEST_EVENT", 4_000_000)
    pulled = 0

    async def source():
        nonlocal pulled
        for _ in range(1_000):
            pulled += 1
            yield b"x" * 8_000

    pieces, got = over_http.Pieces(source().__anext__, over_http.SERVER_SENT_EVENTS, lambda: False), 0
    while got < 8_000_000:
        got += len((await pieces.next()).data)
        assert pulled * 8_000 - got <= 4_008_000


@pytest.mark.parametrize("left_out", [set(), {"raw_path"}], ids=["as written", "decoded"])
@pytest.mark.parametrize("path", ["/v1/models/a%20b", "/v1beta/models/gemini-2.5-flash:generateContent"])
def test_a_proxy_within_another_application_asks_for_what_is_below_it(given, left_out, path):
    """Where the proxy is mounted is no part of what the provider is asked for; some servers tell a decoded path."""
    at = given()
    proxy = Proxy(pipeline(), Upstreams(everything=at.url))

    async def around(scope, receive, send):
        within = {"root_path": "/llm"} if scope["type"] == "http" else {}
        await proxy({name: scope[name] for name in scope if name not in left_out} | within, receive, send)

    with proxying(around) as url:
        httpx.post(f"{url}/llm{path}", json=chat(), headers=KEYS).raise_for_status()
        assert httpx.get(f"{url}/llm/healthz").text == "ok\n"
    assert [path.encode()] == [request.scope["raw_path"] for request in at.requests]


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/files"])
def test_a_length_beside_chunks_means_nothing(given, path):
    """A body in chunks is passed on as a whole, whatever length its head gives as well."""
    at = given()
    body = json.dumps(chat()).encode()
    with socket.create_connection(at.through.removeprefix("http://").split(":")) as raw:
        head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ntransfer-encoding: chunked\r\n"
        raw.sendall(f"{head}content-length: 9999\r\n\r\n{len(body):x}\r\n".encode() + body + b"\r\n0\r\n\r\n")
        assert raw.recv(100_000).startswith(b"HTTP/1.1 200")
    assert [body] == [request.body for request in at.requests]


def test_a_way_in_a_circle_is_found(given):
    """Proxies that pass on to each other answer with an error that says so, after one round."""
    at = given(200, [], [])
    there = Upstreams.parse([f"openai={at.url}", "anthropic=http://127.0.0.1:1"])
    with proxying(Proxy(pipeline(), there)) as second, proxying(first := Proxy(pipeline(), there)) as url:
        there.of["anthropic"], first.upstreams = url, Upstreams(everything=second)
        answer = httpx.post(f"{url}/v1/messages", json=chat(), headers={**KEYS, "via": "1.1 theirs"})
        assert (answer.status_code, answer.json()["type"]) == (508, "error")
        assert "has come back to this proxy" in answer.json()["error"]["message"]
        assert httpx.post(f"{url}/v1/responses", content=b"{}", headers={"via": "1.1 theirs"}).status_code == 200
    vias = [value for name, value in at.requests[0].headers if name == b"via"]
    assert (vias[:2], len(vias)) == ([b"1.1 theirs", f"1.1 {first.name}".encode()], 3)


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("POST http://{own}/v1/chat/completions", 200),
        ("POST http://evil.example/v1/chat/completions", 400),
        ("POST http://127.0.0.1:1/v1/chat/completions", 400),
        ("CONNECT evil.example:443", 400),
    ],
    ids=["own", "other", "other port", "connect"],
)
def test_a_request_line_with_a_host(given, line, status):
    """An address of the proxy's own is served; any other is refused in words, and nothing is sent."""
    at = given()
    own = at.through.removeprefix("http://")
    body = json.dumps(chat()).encode()
    with socket.create_connection(own.split(":")) as raw:
        line = line.format(own=own)
        raw.sendall(f"{line} HTTP/1.1\r\nhost: {own}\r\nconnection: close\r\n".encode())
        raw.sendall(b"content-length: %d\r\n\r\n" % len(body) + body)
        said = b"".join(iter(lambda: raw.recv(65_536), b""))
    assert int(said.split()[1]) == status
    assert (b"it is a base URL, and no HTTP_PROXY" in said, len(at.requests)) == (status == 400, int(status == 200))


def test_a_page_in_a_browser_does_not_reach_it(given):
    """On loopback the proxy answers to loopback names only, so that no web page reaches it under a name of its own."""
    at = given()
    with proxying(Proxy(pipeline(), Upstreams(everything=at.url), on_loopback=True)) as url:
        names = {"evil.example": 400, "127.evil.example": 400, "localhost:80": 200, "[::1]:1": 200, "127.0.0.1": 200}
        found = {name: httpx.get(f"{url}/v1/models", headers={"host": name}).status_code for name in names}
    assert found == names


def test_a_request_without_a_signature_that_holds_is_refused(given):
    """What is signed for AWS over the proxy's address is refused in words that say what to do, unless it may sign."""
    at = given()
    signed = {
        "authorization": "AWS4-HMAC-SHA256 Credential=AKIAONE/20261123/eu-west-1/bedrock/aws4_request, Signature=0"
    }
    body = {"messages": [{"role": "user", "content": [{"text": "Hello"}]}]}
    answer = httpx.post(f"{at.through}/model/amazon.nova-pro-v1%3A0/converse", json=body, headers=signed)
    assert (answer.status_code, at.requests) == (403, [])
    assert "--sign-aws" in answer.json()["message"]
    bearer = httpx.post(f"{at.through}/model/amazon.nova-pro-v1%3A0/converse", json=body, headers=KEYS)
    assert (bearer.status_code, at.requests[0].scope["raw_path"]) == (200, b"/model/amazon.nova-pro-v1%3A0/converse")


def test_gemini_without_events_passes_through_and_is_read(given):
    """A stream in one JSON document, and a body in snake case, are read like any other."""
    usage = {"promptTokenCount": 60, "candidatesTokenCount": 2, "totalTokenCount": 62}
    document = json.dumps(
        [{"candidates": [{"content": {"parts": [{"text": "Hi"}]}}]}, {"usageMetadata": usage}]
    ).encode()
    at = given(200, [(b"content-type", b"application/json")], [document[:20], document[20:]])
    body = {
        "system_instruction": {"parts": [{"text": "Brief."}]},
        "contents": [{"role": "user", "parts": [{"text": "Hello"}]}],
    }
    url = f"{at.through}/v1beta/models/gemini-2.5-flash:streamGenerateContent"
    answer = httpx.post(url, json=body, headers={**KEYS, "x-agentctx-session": "gemini"})
    assert answer.content == document
    assert json.loads(at.requests[0].body) == body
    sessions = next(iter(at.proxy.known._sessions.values()))
    assert next(each for name, each in sessions.items() if name.endswith("/gemini")).billed_tokens == 60
