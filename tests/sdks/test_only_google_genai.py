"""Google's SDK alone: its HTTP clients are those of the pipeline."""

import pytest
from google import genai
from google.genai import errors, types
from pydantic import BaseModel
from small_window import (
    LONG,
    PARAMETERS,
    READ_FILE,
    STEPS,
    SYSTEM,
    TASK,
    TINY,
    WINDOW,
    assert_recovered,
    assert_steps_fit,
    listed,
    now,
    pipeline,
    read_file,
    reading,
)

import agentctx
from agentctx.testing.servers import Said, generate_content

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.filterwarnings("ignore:Inheritance class AiohttpClientSession:DeprecationWarning"),
]

MODEL = "gemini-2.5-flash"
KINDS = pytest.mark.parametrize("kind", ["async", "sync"])
REFUSED_BY = pytest.mark.parametrize("refuses", ["status", "stream"])
ROLES = {"user": "user", "assistant": "model"}
CONTENTS = [{"role": ROLES[message["role"]], "parts": [{"text": message["content"]}]} for message in LONG]
ASKED = {"model": MODEL, "contents": CONTENTS}


class Verdict(BaseModel):
    verdict: str


@pytest.fixture
async def made(anyio_backend):
    """Make a client of the server at an address, of either kind; what it sends with is closed when the test ends."""
    clients = []

    def make(kind, url, window=100_000):
        plan = pipeline(window)
        session = plan.session(model=MODEL)
        http = agentctx.http_client(plan, session=session)
        async_http = agentctx.async_http_client(plan, session=session)
        clients.append((http, async_http))
        options = types.HttpOptions(base_url=url, httpx_client=http, httpx_async_client=async_http)
        client = genai.Client(api_key="none", http_options=options)
        return client.aio if kind == "async" else client

    yield make
    for http, async_http in clients:
        http.close()
        await async_http.aclose()


@KINDS
async def test_contents_that_fit_are_sent_as_they_are(serve, made, kind):
    """A request within the budget reaches the provider as a client without the pipeline sends it."""
    desk, url = serve(generate_content)
    config = types.GenerateContentConfig(system_instruction=SYSTEM, temperature=0.5)
    plain = genai.Client(api_key="none", http_options=types.HttpOptions(base_url=url))
    for client in (plain, made(kind, url)):
        answer = await now(client.models.generate_content(model=MODEL, contents=CONTENTS[:3], config=config))
        assert answer.text == "Done."
    plain.close()
    assert desk.requests[0] == desk.requests[1]


@KINDS
async def test_what_is_sent_fits_the_budget(serve, made, kind):
    """Contents over the budget reach the provider within it, as a stream too."""
    desk, url = serve(generate_content, window=WINDOW, answer=lambda _: Said("one two three"))
    client = made(kind, url, WINDOW)
    assert (await now(client.models.generate_content(**ASKED))).text == "one two three"
    chunks = await listed(await now(client.models.generate_content_stream(**ASKED)))
    assert "".join(chunk.text or "" for chunk in chunks) == "one two three"
    assert len(desk.accepted) == len(desk.requests) == 2


@KINDS
async def test_an_overflow_is_sent_again_smaller(serve, made, kind):
    """The caller sees the answer to the smaller request alone."""
    desk, url = serve(generate_content, window=WINDOW)
    assert (await now(made(kind, url).models.generate_content(**ASKED))).text == "Done."
    assert_recovered(desk, "contents")


@KINDS
@REFUSED_BY
async def test_an_overflow_of_a_stream_is_sent_again_smaller(serve, made, kind, refuses):
    """By status, and in the stream before its first content."""
    desk, url = serve(generate_content, window=WINDOW, refuses=refuses, answer=lambda _: Said("one two three"))
    chunks = await listed(await now(made(kind, url).models.generate_content_stream(**ASKED)))
    assert "".join(chunk.text or "" for chunk in chunks) == "one two three"
    assert_recovered(desk, "contents")


@KINDS
async def test_a_parsed_answer_is_prepared(serve, made, kind):
    """A response schema's answer is parsed, and the request went through the pipeline."""
    desk, url = serve(generate_content, window=WINDOW, answer=lambda _: Said('{"verdict": "good"}'))
    config = types.GenerateContentConfig(response_mime_type="application/json", response_schema=Verdict)
    assert (await now(made(kind, url).models.generate_content(**ASKED, config=config))).parsed == Verdict(
        verdict="good"
    )
    assert_recovered(desk, "contents")


@KINDS
async def test_a_chat_is_prepared(serve, made, kind):
    """A chat's history goes through the pipeline with each message."""
    desk, url = serve(generate_content, window=WINDOW)
    history = [types.Content.model_validate(content) for content in CONTENTS[:-1]]
    chat = made(kind, url).chats.create(model=MODEL, history=history)
    assert (await now(chat.send_message("Question 40?"))).text == "Done."
    assert_recovered(desk, "contents")


@KINDS
async def test_twenty_steps_fit_a_small_window(serve, made, kind):
    """An agent that keeps all its contents is never refused."""
    desk, url = serve(generate_content, window=WINDOW, answer=reading)
    client = made(kind, url, WINDOW)
    declaration = {"name": "read_file", "description": READ_FILE, "parameters_json_schema": PARAMETERS}
    config = types.GenerateContentConfig(system_instruction=SYSTEM, tools=[{"function_declarations": [declaration]}])
    contents = [types.Content(role="user", parts=[types.Part.from_text(text=TASK)])]
    calls = True
    while calls:
        answer = await now(client.models.generate_content(model=MODEL, contents=contents, config=config))
        contents.append(answer.candidates[0].content)
        calls = answer.function_calls or []
        parts = [
            types.Part.from_function_response(name=call.name, response={"result": read_file(**call.args)})
            for call in calls
        ]
        contents.append(types.Content(role="user", parts=parts))
    assert answer.text == "All are read: done."
    assert_steps_fit(desk, "contents")


@KINDS
async def test_twenty_automatic_function_calls_fit_a_small_window(serve, made, kind):
    """The SDK's own loop, which calls the function and keeps all contents, is never refused."""
    desk, url = serve(generate_content, window=WINDOW, answer=reading)
    automatic = types.AutomaticFunctionCallingConfig(maximum_remote_calls=STEPS + 1)
    config = types.GenerateContentConfig(
        system_instruction=SYSTEM, tools=[read_file], automatic_function_calling=automatic
    )
    answer = await now(made(kind, url, WINDOW).models.generate_content(model=MODEL, contents=TASK, config=config))
    assert answer.text == "All are read: done."
    assert_steps_fit(desk, "contents")


@KINDS
async def test_the_providers_second_refusal_is_the_sdks_error(serve, made, kind):
    """Where the smaller request is refused as well, the SDK raises its own error about the first."""
    desk, url = serve(generate_content, window=WINDOW, overflows=2)
    with pytest.raises(errors.ClientError, match="input token count"):
        await now(made(kind, url).models.generate_content(**ASKED))
    assert len(desk.requests) == 2


@KINDS
async def test_a_refusal_before_sending_is_the_sdks_error(serve, made, kind):
    """What cannot be made to fit is refused in the provider's words, nothing is sent, and the overflow can be had."""
    desk, url = serve(generate_content)
    with pytest.raises(errors.ClientError) as raised:
        await now(made(kind, url, TINY).models.generate_content(**ASKED))
    assert raised.value.message.startswith("The input token count")
    assert isinstance(agentctx.overflow_of(raised.value), agentctx.ContextOverflow)
    assert not desk.requests


def test_a_client_that_exists_is_refused(serve):
    """``wrap`` says how the client is made instead."""
    _, url = serve(generate_content)
    client = genai.Client(api_key="none", http_options=types.HttpOptions(base_url=url))
    with pytest.raises(agentctx.ConfigError, match=r"agentctx\.http_client\(pipeline"):
        agentctx.wrap(client, pipeline())
    client.close()
