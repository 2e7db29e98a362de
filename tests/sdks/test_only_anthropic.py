"""Anthropic's SDK alone: messages, and the beta ones."""

import anthropic
import pytest
from anthropic import Anthropic, AsyncAnthropic, beta_async_tool, beta_tool
from pydantic import BaseModel
from small_window import (
    LONG,
    PARAMETERS,
    READ_FILE,
    ROOM,
    STEPS,
    SYSTEM,
    TASK,
    TINY,
    WINDOW,
    assert_recovered,
    assert_steps_fit,
    inside,
    listed,
    now,
    pipeline,
    read_file,
    reading,
)

import agentctx
from agentctx.testing.servers import Said, messages

pytestmark = [pytest.mark.both_loops, pytest.mark.anyio]

MODEL = "claude-sonnet-5-5"
KINDS = pytest.mark.parametrize("kind", [AsyncAnthropic, Anthropic])
REFUSED_BY = pytest.mark.parametrize("refuses", ["status", "stream"])
WORDS = Said("one two three")
ASKED = {"model": MODEL, "max_tokens": ROOM, "system": SYSTEM, "messages": LONG}
TOOL = {"name": "read_file", "description": READ_FILE, "input_schema": PARAMETERS}


class Verdict(BaseModel):
    verdict: str


@pytest.fixture
async def wrapped(anyio_backend):
    """Wrap a client of the server at an address; all of them are closed when the test ends."""
    clients = []

    def make(kind, url, window=100_000):
        client = kind(base_url=url, api_key="none", max_retries=0)
        clients.append(client)
        plan = pipeline(window)
        return agentctx.wrap(client, plan, session=plan.session(model=MODEL))

    yield make
    for client in clients:
        await now(client.close())


def text(events):
    deltas = (event.delta for event in events if event.type == "content_block_delta")
    return "".join(delta.text for delta in deltas)


@KINDS
async def test_what_fits_is_sent_as_it_is(serve, wrapped, kind):
    """A request within the budget reaches the provider as the caller wrote it."""
    desk, url = serve(messages)
    request = {**ASKED, "messages": LONG[:3], "tools": [TOOL], "stop_sequences": ["END"]}
    answer = await now(wrapped(kind, url).messages.create(**request))
    assert answer.content[0].text == "Done."
    assert desk.requests == [request]


@KINDS
async def test_what_is_sent_fits_the_budget(serve, wrapped, kind):
    """A request over the budget reaches the provider within it, as a stream too."""
    desk, url = serve(messages, window=WINDOW, answer=lambda _: WORDS)
    client = wrapped(kind, url, WINDOW)
    assert (await now(client.messages.create(**ASKED))).content[0].text == "one two three"
    assert text(await listed(await now(client.messages.create(**ASKED, stream=True)))) == "one two three"
    assert len(desk.accepted) == len(desk.requests) == 2


@KINDS
async def test_an_overflow_is_sent_again_smaller(serve, wrapped, kind):
    """The caller sees the answer to the smaller request alone."""
    desk, url = serve(messages, window=WINDOW)
    assert (await now(wrapped(kind, url).messages.create(**ASKED))).content[0].text == "Done."
    assert_recovered(desk)


@KINDS
@REFUSED_BY
async def test_an_overflow_of_a_stream_is_sent_again_smaller(serve, wrapped, kind, refuses):
    """By status, and in the stream before its first content; the caller sees one message from its beginning."""
    desk, url = serve(messages, window=WINDOW, refuses=refuses, answer=lambda _: WORDS)
    events = await listed(await now(wrapped(kind, url).messages.create(**ASKED, stream=True)))
    assert text(events) == "one two three"
    assert [event.type for event in events].count("message_start") == 1
    assert_recovered(desk)


@KINDS
@REFUSED_BY
async def test_the_stream_helper_is_prepared(serve, wrapped, kind, refuses):
    """``stream(...)`` goes through the pipeline, and its overflow is sent again smaller."""
    desk, url = serve(messages, window=WINDOW, refuses=refuses, answer=lambda _: WORDS)
    helper = wrapped(kind, url).messages.stream(**ASKED)
    assert await inside(helper, lambda stream: stream.get_final_text()) == "one two three"
    assert_recovered(desk)


@KINDS
async def test_a_parsed_message_is_prepared(serve, wrapped, kind):
    """``parse`` goes through the pipeline, and its overflow is sent again smaller."""
    desk, url = serve(messages, window=WINDOW, answer=lambda _: Said('{"verdict": "good"}'))
    parsed = await now(wrapped(kind, url).messages.parse(**ASKED, output_format=Verdict))
    assert parsed.parsed_output == Verdict(verdict="good")
    assert_recovered(desk)


@KINDS
async def test_raw_and_streaming_responses_are_prepared(serve, wrapped, kind):
    """Both have the answer to a smaller request."""
    desk, url = serve(messages, window=WINDOW)
    raw = await now(wrapped(kind, url).messages.with_raw_response.create(**ASKED))
    assert (await now(raw.parse())).content[0].text == "Done."
    assert_recovered(desk)
    streaming = wrapped(kind, url).messages.with_streaming_response.create(**ASKED, stream=True)
    lines = await inside(streaming, lambda response: listed(response.iter_lines()))
    assert "event: message_stop" in lines
    assert len(desk.accepted) == 2


@KINDS
async def test_beta_messages_are_prepared(serve, wrapped, kind):
    """An overflow of theirs is sent again smaller."""
    desk, url = serve(messages, window=WINDOW)
    assert (await now(wrapped(kind, url).beta.messages.create(**ASKED))).content[0].text == "Done."
    assert_recovered(desk)


@KINDS
async def test_twenty_steps_fit_a_small_window(serve, wrapped, kind):
    """An agent that keeps all its messages is never refused."""
    desk, url = serve(messages, window=WINDOW, answer=reading)
    client = wrapped(kind, url, WINDOW)
    history = [{"role": "user", "content": TASK}]
    calls = True
    while calls:
        answer = await now(client.messages.create(**{**ASKED, "messages": history}, tools=[TOOL]))
        history.append({"role": "assistant", "content": answer.content})
        calls = [block for block in answer.content if block.type == "tool_use"]
        results = [
            {"type": "tool_result", "tool_use_id": call.id, "content": read_file(**call.input)} for call in calls
        ]
        history.append({"role": "user", "content": results})
    assert answer.content[0].text == "All are read: done."
    assert_steps_fit(desk)


@KINDS
async def test_twenty_steps_of_the_tool_runner_fit_a_small_window(serve, wrapped, kind):
    """The SDK's own loop, which calls the tools and keeps all messages, is never refused."""
    desk, url = serve(messages, window=WINDOW, answer=reading)
    paths = []

    def look(path: str) -> str:
        paths.append(path)
        return read_file(path)

    async def look_async(path: str) -> str:
        return look(path)

    sync = kind is Anthropic
    described = {"name": "read_file", "description": READ_FILE, "input_schema": PARAMETERS}
    tool = beta_tool(look, **described) if sync else beta_async_tool(look_async, **described)
    history = {**ASKED, "messages": [{"role": "user", "content": TASK}]}
    runner = wrapped(kind, url, WINDOW).beta.messages.tool_runner(**history, tools=[tool])
    final = await now(runner.until_done())
    assert final.content[0].text == "All are read: done."
    assert paths == [f"alpha_{number}.py" for number in range(1, STEPS + 1)]
    assert_steps_fit(desk)


@KINDS
async def test_the_providers_second_refusal_is_the_sdks_error(serve, wrapped, kind):
    """Where the smaller request is refused as well, the SDK raises its own error about the first."""
    desk, url = serve(messages, window=WINDOW, overflows=2)
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
        await now(wrapped(kind, url).messages.create(**ASKED))
    assert len(desk.requests) == 2


@KINDS
async def test_a_refusal_before_sending_is_the_sdks_error(serve, wrapped, kind):
    """What cannot be made to fit is refused in the provider's words, nothing is sent, and the overflow can be had."""
    desk, url = serve(messages)
    with pytest.raises(anthropic.BadRequestError) as raised:
        await now(wrapped(kind, url, TINY).messages.create(**ASKED))
    assert raised.value.body["error"]["message"].startswith("prompt is too long")
    assert isinstance(agentctx.overflow_of(raised.value), agentctx.ContextOverflow)
    assert not desk.requests
