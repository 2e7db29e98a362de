"""Google's SDK, generate_content: the real client, over HTTP, to a local server."""

import pytest
from both_kinds import listed, now
from client_histories import gemini
from geminis import end, gemini_client
from google import genai
from google.genai import errors, types

import agentctx
from agentctx.testing.servers import Said, generate_content

MODEL = "gemini-3.5-flash"
WINDOW = 1_000
LONG = gemini(20)
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning")
KINDS = pytest.mark.parametrize("kind", ["async", "sync"])


@pytest.fixture
def anyio_backend():
    """This SDK's async client runs on asyncio alone."""
    return "asyncio"


def pipeline(**options):
    return agentctx.Pipeline(agentctx.FitContextWindow(), **{"budget": agentctx.Budget(100_000), **options})


@pytest.fixture
async def client():
    kept = []

    def make(url, plan=None):
        kept.append(gemini_client(url, plan))
        return kept[-1]

    yield make
    for each in kept:
        await end(each)


def models(client, kind):
    return client.aio.models if kind == "async" else client.models


@KINDS
@pytest.mark.anyio
async def test_contents_that_fit_are_sent_as_they_are(serve, client, kind):
    """What needs no preparing reaches the provider as the SDK writes it."""
    desk, url = serve(generate_content)
    config = types.GenerateContentConfig(system_instruction="Be brief.", temperature=0.5)
    for each in (client(url), client(url, pipeline())):
        answer = await now(models(each, kind).generate_content(model=MODEL, contents=gemini(1), config=config))
        assert answer.text == "Done."
    assert desk.requests[0] == desk.requests[1]


@KINDS
@pytest.mark.anyio
async def test_what_gemini_is_sent_fits_the_budget(serve, client, kind):
    """Contents that pass the pipeline's budget reach the provider within it."""
    desk, url = serve(generate_content)
    wrapped = client(url, pipeline(budget=agentctx.Budget(WINDOW)))
    await now(models(wrapped, kind).generate_content(model=MODEL, contents=LONG))
    assert len(desk.requests[0]["contents"]) < len(LONG)


@KINDS
@pytest.mark.anyio
async def test_geminis_overflow_is_sent_again_smaller(serve, client, kind):
    """An overflow is answered by a smaller request; two in a row are the SDK's own error about the first."""
    desk, url = serve(generate_content, window=WINDOW)
    wrapped = client(url, pipeline())
    assert (await now(models(wrapped, kind).generate_content(model=MODEL, contents=LONG))).text == "Done."
    assert [len(body["contents"]) < len(LONG) for body in desk.requests] == [False, True]
    desk.overflows = 2
    with pytest.raises(errors.ClientError, match="input token count"):
        await now(models(wrapped, kind).generate_content(model=MODEL, contents=LONG))
    assert len(desk.requests) == 4


@KINDS
@pytest.mark.parametrize("refuses", ["status", "stream"])
@pytest.mark.anyio
async def test_geminis_stream_restarts_before_its_first_content(serve, client, kind, refuses):
    """An overflow before the first parts restarts the stream unseen."""
    desk, url = serve(generate_content, window=WINDOW, refuses=refuses, answer=lambda _: Said("one two three"))
    wrapped = client(url, pipeline())
    chunks = await listed(await now(models(wrapped, kind).generate_content_stream(model=MODEL, contents=LONG)))
    assert "".join(chunk.text or "" for chunk in chunks) == "one two three"
    assert len(desk.requests) == 2


@KINDS
@pytest.mark.anyio
async def test_geminis_stream_never_restarts_after_content(serve, client, kind):
    """An overflow after the first parts is raised where it stands."""
    desk, url = serve(generate_content, window=WINDOW, refuses="late", answer=lambda _: Said("one two three"))
    wrapped = client(url, pipeline())
    stream = await now(models(wrapped, kind).generate_content_stream(model=MODEL, contents=LONG))
    seen = []
    with pytest.raises(errors.ClientError, match="input token count"):
        await listed(stream, seen)
    assert [chunk.text for chunk in seen] == ["one"]
    assert len(desk.requests) == 1


@KINDS
@pytest.mark.anyio
async def test_geminis_usage_is_recorded(serve, client, kind):
    """The session learns what was billed, from an answer and at the end of a stream."""
    _, url = serve(generate_content)
    tokens = agentctx.count(gemini(3), MODEL, format="gemini")
    session = pipeline().session(model=MODEL)
    wrapped = client(url, session.plan)
    with session:
        await now(models(wrapped, kind).generate_content(model=MODEL, contents=gemini(3)))
        assert session.billed_tokens == tokens
        session.billed_tokens = None
        await listed(await now(models(wrapped, kind).generate_content_stream(model=MODEL, contents=gemini(3))))
        assert session.billed_tokens == tokens


@pytest.mark.filterwarnings("ignore:a model call of a wrapped client goes on")
@pytest.mark.anyio
async def test_chats_and_function_calls_are_prepared(serve, client):
    """Each model call of a chat that calls functions by itself goes through the pipeline."""
    asked = []

    def look(place: str) -> str:
        """Look at a place."""
        asked.append(place)
        return "nothing there"

    def answer(body):
        answered = any("functionResponse" in part for content in body["contents"] for part in content["parts"])
        return Said("Nothing.") if answered else Said("Looking.", calls=(("look", {"place": "here"}),))

    desk, url = serve(generate_content, window=WINDOW, answer=answer)
    wrapped = client(url, pipeline())
    config = types.GenerateContentConfig(tools=[look])
    history = [types.Content.model_validate(each) for each in LONG]
    chat = wrapped.aio.chats.create(model="gemini-2.5-flash", history=history[:-1], config=config)
    said = await chat.send_message("What is there?")
    assert said.text == "Nothing."
    assert asked == ["here"]
    assert len(desk.accepted) == 2


def test_a_google_client_is_refused_with_the_line_to_write():
    """A client of Google's SDK cannot be copied, so wrapping one says how to make it."""
    with (
        genai.Client(api_key="none") as given,
        pytest.raises(agentctx.ConfigError, match=r"httpx_client=agentctx\.http_client\(pipeline\)"),
    ):
        agentctx.wrap(given, pipeline())


@KINDS
@pytest.mark.anyio
async def test_the_manual_function_calling_of_the_sdks_readme(serve, client, kind):
    """The answer to a function call that the SDK's README makes, by the role of a tool, is sent as it is written."""
    desk, url = serve(generate_content)
    asked = types.Content(role="user", parts=[types.Part.from_text(text="What is the weather like in Boston?")])
    call = types.Part.from_function_call(name="get_current_weather", args={"location": "Boston"})
    answer = types.Part.from_function_response(name="get_current_weather", response={"result": "sunny " * 2_000})
    contents = [asked, types.Content(role="model", parts=[call]), types.Content(role="tool", parts=[answer])]
    cut = pipeline(budget=agentctx.Budget(WINDOW))
    for each in (client(url), client(url, pipeline()), client(url, cut)):
        await now(models(each, kind).generate_content(model="gemini-2.5-flash", contents=contents))
    assert desk.requests[0] == desk.requests[1]
    assert [each["role"] for each in desk.requests[2]["contents"]] == ["user", "model", "tool"]
    assert len(str(desk.requests[2])) < 6_000
