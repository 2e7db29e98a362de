"""What wrapped clients learn from answers that tell little, late or nonsense: the real SDKs, over HTTP."""

import pytest
from anthropic import Anthropic, AsyncAnthropic
from both_kinds import inside, listed, now
from client_histories import chat, claude, items
from openai import AsyncOpenAI, OpenAI
from starlette.applications import Starlette
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

import agentctx
from agentctx import wrap
from agentctx.reports import UsageRecorded
from agentctx.testing.servers import Said, chat_completions, messages, responses

CHAT = {"id": "1", "object": "chat.completion", "created": 1, "model": "gpt-4o", "choices": []}
MESSAGE = {
    "id": "1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-5-5",
    "content": [],
    "stop_reason": "end_turn",
    "stop_sequence": None,
}
KINDS = pytest.mark.parametrize("kind", [AsyncOpenAI, OpenAI, AsyncAnthropic, Anthropic])
NONSENSE = [None, {}, "much", {"prompt_tokens": -5, "input_tokens": -5}, {"prompt_tokens": 0, "input_tokens": 0}]


def pipeline(**options):
    return agentctx.Pipeline(agentctx.FitContextWindow(), **{"budget": agentctx.Budget(100_000), **options})


def billing(usages):
    """A server that puts these usages, one after the other, into its answers."""

    def app(desk):
        async def create(request):
            desk.requests.append(await request.json())
            whole = CHAT if "chat" in request.url.path else MESSAGE
            return JSONResponse({**whole, "usage": usages[len(desk.requests) - 1]})

        paths = ("/v1/chat/completions", "/v1/messages")
        return Starlette(routes=[Route(path, create, methods=["POST"]) for path in paths])

    return app


@KINDS
@pytest.mark.anyio
async def test_nonsense_in_a_bill_costs_no_answer(serve, closing, kind):
    """Whatever stands where the usage belongs, the answer reaches the caller, and nothing is learned from it."""
    _, url = serve(billing(NONSENSE))
    session = pipeline().session()
    openai = "openai" in kind.__module__
    client = wrap(closing(kind(base_url=f"{url}/v1" if openai else url, api_key="none")), session.plan, session=session)
    for _ in NONSENSE:
        if openai:
            answer = await now(client.chat.completions.create(model="gpt-4o", messages=chat(2)))
        else:
            asked = {"model": "claude-sonnet-5-5", "max_tokens": 10, "messages": claude(2)}
            answer = await now(client.messages.create(**asked))
        assert answer.id == "1"
    assert session.billed_tokens is None
    assert session.internals.limits.calibration.reports == 0


WINDOW = 1_000
APIS = {
    "chat": (chat_completions, chat, {"model": "gpt-4o"}),
    "responses": (responses, items, {"model": "gpt-5.4"}),
    "messages": (messages, claude, {"model": "claude-sonnet-5-5", "max_tokens": 50}),
}
BODIES = pytest.mark.parametrize(
    ("api", "kind"),
    [
        (api, kind)
        for api in APIS
        for kind in ((AsyncAnthropic, Anthropic) if api == "messages" else (AsyncOpenAI, OpenAI))
    ],
)


def streaming(client, api, given, **more):
    """The call of an API that hands the body over to the caller."""
    resource = {"chat": lambda: client.chat.completions, "responses": lambda: client.responses}
    found = resource[api]() if api in resource else client.messages
    name = "input" if api == "responses" else "messages"
    return found.with_streaming_response.create(**{**APIS[api][2], **more, name: given})


async def lines(response):
    return await listed(response.iter_lines())


async def at_once(response):
    return await now(response.read())


async def in_pieces(response):
    pieces = await listed(response.iter_bytes(7))
    assert {len(piece) for piece in pieces[:-1]} == {7}
    return b"".join(pieces)


async def raw(response):
    http = response.http_response
    return await listed(http.aiter_raw() if "Async" in type(response).__name__ else http.iter_raw())


async def parsed(response):
    return await now(response.parse())


async def parsed_events(response):
    return await listed(await now(response.parse()))


@pytest.fixture
def bodies(serve, closing):
    """A wrapped client of a kind and its session, and what the server saw."""

    def make(api, kind, *, subscribers=(), **behaviour):
        desk, url = serve(APIS[api][0], **behaviour)
        session = pipeline(subscribers=subscribers).session(model=APIS[api][2]["model"])
        base = url if api == "messages" else f"{url}/v1"
        given = closing(kind(base_url=base, api_key="none", max_retries=0))
        return desk, session, wrap(given, session.plan, session=session)

    return make


@BODIES
@pytest.mark.anyio
async def test_a_body_that_the_caller_reads_is_billed(bodies, api, kind):
    """However the caller reads a body of ``with_streaming_response``, whole or as events, its usage is recorded."""
    _, session, client = bodies(api, kind)
    told = {"stream_options": {"include_usage": True}} if api == "chat" else {}
    rounds = 2
    for streamed, ways in (
        ({}, [parsed, at_once, lines, in_pieces, raw]),
        ({"stream": True, **told}, [parsed_events, lines, raw]),
    ):
        for read in ways:
            history, rounds = APIS[api][1](rounds), rounds + 1
            await inside(streaming(client, api, history, **streamed), read)
            size = agentctx.count(history, session.model, format=session.format or FORMATS[api])
            assert (read, session.billed_tokens) == (read, size)


FORMATS = {"chat": "openai-chat", "responses": "openai-responses", "messages": "anthropic"}


@pytest.mark.parametrize("kind", [AsyncOpenAI, OpenAI])
@pytest.mark.anyio
async def test_a_body_of_a_client_wrapped_twice_is_billed_twice(bodies, kind):
    """A body that the caller reads goes through both layers, whole and as events, and each records what it cost."""
    _, inner, client = bodies("chat", kind)
    outer = pipeline().session(model="gpt-4o")
    twice = wrap(client, outer.plan, session=outer)
    told = {"stream": True, "stream_options": {"include_usage": True}}
    for rounds, read, streamed in ((2, at_once, {}), (3, lines, told)):
        history = chat(rounds)
        await inside(streaming(twice, "chat", history, **streamed), read)
        assert inner.billed_tokens == outer.billed_tokens == agentctx.count(history, "gpt-4o", format="openai-chat")


@BODIES
@pytest.mark.parametrize("read", [parsed_events, lines])
@pytest.mark.anyio
async def test_an_overflow_within_a_body_restarts_it(bodies, api, kind, read):
    """An overflow that a body of events tells before its first content is answered by a smaller request."""
    desk, session, client = bodies(api, kind, window=WINDOW, refuses="stream", answer=lambda _: Said("one two three"))
    told = {"stream_options": {"include_usage": True}} if api == "chat" else {}
    seen = await inside(streaming(client, api, APIS[api][1](20), stream=True, **told), read)
    whole = str(seen)
    assert len(desk.requests) == 2
    assert len(desk.accepted) == 1
    assert all(word in whole for word in ("one", "two", "three"))
    assert "context_length_exceeded" not in whole
    assert "prompt is too long" not in whole
    assert session.billed_tokens is not None


def test_a_large_event_of_a_body_is_looked_through_once(serve, ends):
    """Of an event of 32 MB, a picture say, the caller of ``with_streaming_response`` gets all."""
    picture = b'data: {"type": "response.image_generation_call.partial_image", "partial_image_b64": "'

    def app(_desk):
        async def create(_request):
            pieces = [picture, *[b"x" * 8_000] * 4_000, b'"}\n\n', b"data: [DONE]\n\n"]
            return StreamingResponse(iter(pieces), media_type="text/event-stream")

        return Starlette(routes=[Route("/responses", create, methods=["POST"])])

    _, url = serve(app)
    with OpenAI(base_url=url, api_key="none", max_retries=0) as client:
        asked = wrap(client, pipeline()).responses.with_streaming_response.create
        with asked(model="gpt-5.4", input="Draw.", stream=True) as answer:
            assert ends(lambda: sum(map(len, answer.iter_bytes()))) > 32_000_000


def usage_messages(caplog):
    return [each.getMessage() for each in caplog.records if "include_usage" in each.getMessage()]


@pytest.mark.parametrize("kind", [AsyncOpenAI, OpenAI])
@pytest.mark.anyio
async def test_a_stream_without_usage_is_said_once(bodies, kind, caplog):
    """The first chat stream of a client that ends without usage says what to pass; with it, nothing is said."""
    _, session, client = bodies("chat", kind)
    for rounds in (2, 3):
        await listed(await now(client.chat.completions.create(model="gpt-4o", messages=chat(rounds), stream=True)))
    assert len(usage_messages(caplog)) == 1
    assert session.billed_tokens is None
    caplog.clear()
    _, session, client = bodies("chat", kind)
    told = {"stream": True, "stream_options": {"include_usage": True}}
    await listed(await now(client.chat.completions.create(model="gpt-4o", messages=chat(2), **told)))
    await now(client.chat.completions.create(model="gpt-4o", messages=chat(3)))
    assert not usage_messages(caplog)
    assert session.billed_tokens is not None


@pytest.mark.parametrize("raw", [False, True], ids=["parsed", "raw"])
@pytest.mark.parametrize("kind", [AsyncOpenAI, OpenAI])
@pytest.mark.anyio
async def test_a_response_in_the_background_is_billed_when_it_is_retrieved(bodies, kind, raw):
    """What a response in the background cost is recorded, for the session that sent it, once it is retrieved."""
    _, session, client = bodies("responses", kind)
    sent = await now(client.responses.create(model="gpt-5.4", input=items(3), background=True))
    assert sent.status == "queued"
    assert session.billed_tokens is None
    resource = client.responses.with_raw_response if raw else client.responses
    for _ in range(2):
        found = await now(resource.retrieve(sent.id))
        assert (found.parse() if raw else found).output_text == "Done."
        assert session.billed_tokens == agentctx.count(items(3), "gpt-5.4", format="openai-responses")
    assert session.internals.limits.calibration.reports == 1


def test_responses_that_nobody_retrieves_are_forgotten_and_said_once(bodies, caplog, monkeypatch):
    """Only so many responses in the background are waited for; that the oldest is forgotten is said once."""
    monkeypatch.setattr("agentctx.clients.http.MOST_UNFINISHED", 1)
    events = []
    _, _, client = bodies("responses", OpenAI, subscribers=[events.append])
    ids = [client.responses.create(model="gpt-5.4", input=items(n), background=True).id for n in (1, 2, 3)]
    billed = []
    for each in ids:
        client.responses.retrieve(each)
        billed.append(len([event for event in events if isinstance(event, UsageRecorded)]))
    assert billed == [0, 0, 1]
    assert len([each for each in caplog.records if "never retrieved" in each.getMessage()]) == 1
    client.close()
