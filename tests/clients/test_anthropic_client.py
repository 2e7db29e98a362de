"""Anthropic's SDK, messages: the real client, over HTTP, to a local server."""

import anthropic
import pytest
from anthropic import Anthropic, AsyncAnthropic
from both_kinds import inside, listed, now
from client_histories import claude

import agentctx
from agentctx import wrap
from agentctx.testing.servers import Said, messages

pytestmark = pytest.mark.both_loops

MODEL = "claude-sonnet-5-5"
WINDOW = 1_200
LONG = claude(20)
ROOM = 100
KINDS = pytest.mark.parametrize("kind", [AsyncAnthropic, Anthropic])


def pipeline(**options):
    return agentctx.Pipeline(agentctx.FitContextWindow(), **{"budget": agentctx.Budget(100_000), **options})


@pytest.fixture
def made(closing):
    def make(kind, url, **more):
        return closing(kind(base_url=url, api_key="none", max_retries=0, **more))

    return make


def asked(history, **more):
    return {"model": MODEL, "max_tokens": ROOM, "messages": history, "system": "Be brief.", **more}


def text(events):
    deltas = (event.delta for event in events if event.type == "content_block_delta")
    return "".join(delta.text for delta in deltas)


@KINDS
@pytest.mark.anyio
async def test_messages_that_fit_are_sent_as_they_are(serve, made, kind):
    """What needs no preparing is sent as it was, system prompt, tools and cache markers included."""
    desk, url = serve(messages)
    tool = {"name": "look", "input_schema": {"type": "object"}, "cache_control": {"type": "ephemeral"}}
    request = asked(claude(1), tools=[tool])
    answer = await now(wrap(made(kind, url), pipeline()).messages.create(**request))
    assert answer.content[0].text == "Done."
    assert desk.requests == [request]


@KINDS
@pytest.mark.anyio
async def test_what_claude_is_sent_fits_the_budget(serve, made, kind):
    """A request that passes the pipeline's budget reaches the provider within it."""
    desk, url = serve(messages)
    await now(wrap(made(kind, url), pipeline(budget=agentctx.Budget(WINDOW))).messages.create(**asked(LONG)))
    assert len(desk.requests[0]["messages"]) < len(LONG)


@KINDS
@pytest.mark.anyio
async def test_claudes_overflow_is_sent_again_smaller(serve, made, kind):
    """An overflow is answered by a smaller request, once, also when it is the room for the answer that is missing."""
    desk, url = serve(messages, window=WINDOW)
    client = wrap(made(kind, url), pipeline())
    assert (await now(client.messages.create(**asked(LONG)))).content[0].text == "Done."
    assert (await now(client.messages.create(**asked(claude(7), max_tokens=400)))).content[0].text == "Done."
    assert len(desk.accepted) == 2
    assert len(desk.requests) == 4


@KINDS
@pytest.mark.anyio
async def test_claudes_second_overflow_is_the_first_error(serve, made, kind):
    """Two overflows in a row: the SDK's own error about the first is raised."""
    desk, url = serve(messages, overflows=2, window=WINDOW)
    with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long") as raised:
        await now(wrap(made(kind, url), pipeline()).messages.create(**asked(LONG)))
    tokens = agentctx.count(LONG, MODEL, system="Be brief.", format="anthropic")
    assert f"{tokens} tokens >" in raised.value.message
    assert len(desk.requests) == 2


@KINDS
@pytest.mark.parametrize("refuses", ["status", "stream"])
@pytest.mark.anyio
async def test_claudes_stream_restarts_before_its_first_content(serve, made, kind, refuses):
    """An overflow by status, or by an ``error`` event after ``message_start``, restarts the stream unseen."""
    desk, url = serve(messages, window=WINDOW, refuses=refuses, answer=lambda _: Said("one two three"))
    client = wrap(made(kind, url), pipeline())
    events = await listed(await now(client.messages.create(**asked(LONG), stream=True)))
    assert text(events) == "one two three"
    assert [event.type for event in events].count("message_start") == 1
    client = wrap(made(kind, url), pipeline())  # which has learned nothing yet
    helper = client.messages.stream(**asked(LONG))
    assert await inside(helper, lambda stream: stream.get_final_text()) == "one two three"
    assert len(desk.requests) == 4


@KINDS
@pytest.mark.anyio
async def test_claudes_stream_never_restarts_after_content(serve, made, kind):
    """An overflow after the first content is raised where it stands, and nothing is sent again."""
    desk, url = serve(messages, window=WINDOW, refuses="late", answer=lambda _: Said("one two three"))
    stream = await now(wrap(made(kind, url), pipeline()).messages.create(**asked(LONG), stream=True))
    seen = []
    with pytest.raises(anthropic.APIStatusError, match="prompt is too long"):
        await listed(stream, seen)
    assert text(seen) == "one"
    assert len(desk.requests) == 1


@KINDS
@pytest.mark.anyio
async def test_claudes_usage_is_recorded(serve, made, kind):
    """The session learns what was billed, from an answer and at the end of a stream."""
    _, url = serve(messages)
    tokens = agentctx.count(claude(3), MODEL, system="Be brief.", format="anthropic")
    for streamed in ({}, {"stream": True}):
        session = pipeline().session(model=MODEL)
        client = wrap(made(kind, url), session.plan, session=session)
        answer = await now(client.messages.create(**asked(claude(3)), **streamed))
        if streamed:
            await listed(answer)
        assert session.billed_tokens == tokens


@KINDS
@pytest.mark.anyio
async def test_claudes_raw_and_beta_calls_are_prepared(serve, made, kind):
    """Raw responses, derived clients and the beta messages go through the pipeline too."""
    desk, url = serve(messages, window=WINDOW)
    client = wrap(made(kind, url), pipeline()).with_options(timeout=30)
    raw = await now(client.messages.with_raw_response.create(**asked(LONG)))
    assert (await now(raw.parse())).content[0].text == "Done."
    assert (await now(client.beta.messages.create(**asked(LONG)))).content[0].text == "Done."
    assert len(desk.accepted) == 2


@KINDS
@pytest.mark.anyio
async def test_cache_markers_on_system_prompt_and_tools_are_sent(serve, made, kind):
    """A stage that marks the system prompt or the tools for the provider's cache marks them in what is sent."""
    desk, url = serve(messages)
    client = wrap(made(kind, url), agentctx.Pipeline(agentctx.PlaceCacheMarkers(), budget=agentctx.Budget(100_000)))
    tool = {"name": "look", "description": "Look. " * 1_500, "input_schema": {"type": "object"}}
    system = "Be brief. " * 1_500
    long = {"model": MODEL, "max_tokens": ROOM, "messages": claude(0)}
    await now(client.messages.create(**long, system=system))
    await now(client.messages.create(**long, tools=[tool]))
    marked, with_tool = desk.accepted
    marker = {"type": "ephemeral"}
    assert marked["system"] == [{"type": "text", "text": system, "cache_control": marker}]
    assert with_tool["tools"] == [{**tool, "cache_control": marker}]
    assert tool.keys() == {"name", "description", "input_schema"}


@KINDS
@pytest.mark.anyio
async def test_the_callers_middleware_stays(serve, made, kind):
    """A client with middleware of its own keeps it, and the given client gets none."""
    _, url = serve(messages)
    client = made(kind, url)
    before = client.middleware
    wrapped = wrap(client, pipeline())
    assert isinstance(wrapped, kind)
    assert client.middleware == before
    assert wrapped.middleware[: len(before)] == before
    assert len(wrapped.middleware) == len(before) + 1
