"""OpenAI's SDK alone: chat completions and Responses."""

import json

import openai
import pytest
from openai import AsyncOpenAI, OpenAI
from pydantic import BaseModel
from small_window import (
    LONG,
    PARAMETERS,
    READ_FILE,
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
from agentctx.testing.servers import Said, chat_completions, responses

pytestmark = [pytest.mark.both_loops, pytest.mark.anyio]

MODEL = "gpt-4o"
KINDS = pytest.mark.parametrize("kind", [AsyncOpenAI, OpenAI])
REFUSED_BY = pytest.mark.parametrize("refuses", ["status", "stream"])
WORDS = Said("one two three")
GOOD = Said('{"verdict": "good"}')
CHAT = {"model": MODEL, "messages": LONG}
ITEMS = {"model": MODEL, "input": LONG}


class Verdict(BaseModel):
    verdict: str


@pytest.fixture
async def wrapped(anyio_backend):
    """Wrap a client of the server at an address; all of them are closed when the test ends."""
    clients = []

    def make(kind, url, window=100_000):
        client = kind(base_url=f"{url}/v1", api_key="none", max_retries=0)
        clients.append(client)
        plan = pipeline(window)
        return agentctx.wrap(client, plan, session=plan.session(model=MODEL))

    yield make
    for client in clients:
        await now(client.close())


def chunks_text(chunks):
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def events_text(events):
    return "".join(event.delta for event in events if event.type == "response.output_text.delta")


@KINDS
async def test_a_chat_that_fits_is_sent_as_it_is(serve, wrapped, kind):
    """A request within the budget reaches the provider as the caller wrote it."""
    desk, url = serve(chat_completions)
    tool = {"type": "function", "function": {"name": "read_file", "parameters": PARAMETERS}}
    request = {"model": MODEL, "messages": LONG[:3], "tools": [tool], "temperature": 0.5}
    answer = await now(wrapped(kind, url).chat.completions.create(**request))
    assert answer.choices[0].message.content == "Done."
    assert desk.requests == [request]


@KINDS
async def test_a_chat_is_cut_to_the_budget(serve, wrapped, kind):
    """A request over the budget reaches the provider within it, as a stream too."""
    desk, url = serve(chat_completions, window=WINDOW, answer=lambda _: WORDS)
    client = wrapped(kind, url, WINDOW)
    assert (await now(client.chat.completions.create(**CHAT))).choices[0].message.content == "one two three"
    stream = await now(client.chat.completions.create(**CHAT, stream=True))
    assert chunks_text(await listed(stream)) == "one two three"
    assert len(desk.accepted) == len(desk.requests) == 2


@KINDS
async def test_an_overflow_of_a_chat_is_sent_again_smaller(serve, wrapped, kind):
    """The caller sees the answer to the smaller request alone."""
    desk, url = serve(chat_completions, window=WINDOW)
    answer = await now(wrapped(kind, url).chat.completions.create(**CHAT))
    assert answer.choices[0].message.content == "Done."
    assert_recovered(desk)


@KINDS
@REFUSED_BY
async def test_an_overflow_of_a_chats_stream_is_sent_again_smaller(serve, wrapped, kind, refuses):
    """By status, and in the stream before its first content."""
    desk, url = serve(chat_completions, window=WINDOW, refuses=refuses, answer=lambda _: WORDS)
    stream = await now(wrapped(kind, url).chat.completions.create(**CHAT, stream=True))
    assert chunks_text(await listed(stream)) == "one two three"
    assert_recovered(desk)


@KINDS
async def test_a_parsed_chat_is_prepared(serve, wrapped, kind):
    """``parse`` goes through the pipeline, and its overflow is sent again smaller."""
    desk, url = serve(chat_completions, window=WINDOW, answer=lambda _: GOOD)
    parsed = await now(wrapped(kind, url).chat.completions.parse(**CHAT, response_format=Verdict))
    assert parsed.choices[0].message.parsed == Verdict(verdict="good")
    assert_recovered(desk)


@KINDS
@REFUSED_BY
async def test_the_stream_helper_of_chats_is_prepared(serve, wrapped, kind, refuses):
    """``stream(...)`` goes through the pipeline, and its overflow is sent again smaller."""
    desk, url = serve(chat_completions, window=WINDOW, refuses=refuses, answer=lambda _: GOOD)
    helper = wrapped(kind, url).chat.completions.stream(**CHAT, response_format=Verdict)
    final = await inside(helper, lambda stream: stream.get_final_completion())
    assert final.choices[0].message.parsed == Verdict(verdict="good")
    assert_recovered(desk)


@KINDS
async def test_a_raw_chat_is_prepared(serve, wrapped, kind):
    """``with_raw_response`` has the answer to the smaller request."""
    desk, url = serve(chat_completions, window=WINDOW)
    raw = await now(wrapped(kind, url).chat.completions.with_raw_response.create(**CHAT))
    assert raw.status_code == 200
    assert json.loads(raw.text if isinstance(raw.text, str) else await now(raw.text()))["object"] == "chat.completion"
    assert raw.parse().choices[0].message.content == "Done."
    assert_recovered(desk)


@KINDS
async def test_a_streaming_chat_is_prepared(serve, wrapped, kind):
    """``with_streaming_response`` hands over the lines of the smaller request's answer."""
    desk, url = serve(chat_completions, window=WINDOW)
    streaming = wrapped(kind, url).chat.completions.with_streaming_response
    lines = await inside(streaming.create(**CHAT, stream=True), lambda response: listed(response.iter_lines()))
    assert "data: [DONE]" in lines
    assert_recovered(desk)


@KINDS
async def test_twenty_steps_of_chat_fit_a_small_window(serve, wrapped, kind):
    """An agent that keeps all its messages is never refused."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    client = wrapped(kind, url, WINDOW)
    tool = {"type": "function", "function": {"name": "read_file", "description": READ_FILE, "parameters": PARAMETERS}}
    messages = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": TASK}]
    calls = True
    while calls:
        answer = await now(client.chat.completions.create(model=MODEL, messages=messages, tools=[tool]))
        message = answer.choices[0].message
        messages.append(message)
        calls = message.tool_calls or []
        for call in calls:
            content = read_file(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": content})
    assert message.content == "All are read: done."
    assert_steps_fit(desk)


@KINDS
async def test_items_that_fit_are_sent_as_they_are(serve, wrapped, kind):
    """A request of Responses within the budget reaches the provider as the caller wrote it."""
    desk, url = serve(responses)
    request = {"model": MODEL, "input": LONG[:3], "instructions": SYSTEM, "temperature": 0.5}
    assert (await now(wrapped(kind, url).responses.create(**request))).output_text == "Done."
    assert desk.requests == [request]


@KINDS
async def test_an_overflow_of_responses_is_sent_again_smaller(serve, wrapped, kind):
    """The caller sees the answer to the smaller request alone."""
    desk, url = serve(responses, window=WINDOW)
    assert (await now(wrapped(kind, url).responses.create(**ITEMS))).output_text == "Done."
    assert_recovered(desk, "input")


@KINDS
@REFUSED_BY
async def test_an_overflow_of_a_responses_stream_is_sent_again_smaller(serve, wrapped, kind, refuses):
    """By status, and in the stream before its first content; the caller sees one response from its beginning."""
    desk, url = serve(responses, window=WINDOW, refuses=refuses, answer=lambda _: WORDS)
    events = await listed(await now(wrapped(kind, url).responses.create(**ITEMS, stream=True)))
    assert events_text(events) == "one two three"
    assert [event.type for event in events].count("response.created") == 1
    assert len({event.response.id for event in events if hasattr(event, "response")}) == 1
    assert_recovered(desk, "input")


@KINDS
async def test_a_parsed_response_is_prepared(serve, wrapped, kind):
    """``parse`` goes through the pipeline, and its overflow is sent again smaller."""
    desk, url = serve(responses, window=WINDOW, answer=lambda _: GOOD)
    parsed = await now(wrapped(kind, url).responses.parse(**ITEMS, text_format=Verdict))
    assert parsed.output_parsed == Verdict(verdict="good")
    assert_recovered(desk, "input")


@KINDS
@REFUSED_BY
async def test_the_stream_helper_of_responses_is_prepared(serve, wrapped, kind, refuses):
    """``stream(...)`` goes through the pipeline, and its overflow is sent again smaller."""
    desk, url = serve(responses, window=WINDOW, refuses=refuses, answer=lambda _: GOOD)
    helper = wrapped(kind, url).responses.stream(**ITEMS, text_format=Verdict)
    final = await inside(helper, lambda stream: stream.get_final_response())
    assert final.output_parsed == Verdict(verdict="good")
    assert_recovered(desk, "input")


@KINDS
async def test_raw_and_streaming_responses_are_prepared(serve, wrapped, kind):
    """Both have the answer to a smaller request."""
    desk, url = serve(responses, window=WINDOW)
    raw = await now(wrapped(kind, url).responses.with_raw_response.create(**ITEMS))
    assert raw.parse().output_text == "Done."
    assert_recovered(desk, "input")
    streaming = wrapped(kind, url).responses.with_streaming_response.create(**ITEMS, stream=True)
    lines = await inside(streaming, lambda response: listed(response.iter_lines()))
    assert "event: response.completed" in lines
    assert len(desk.accepted) == 2


@KINDS
async def test_twenty_steps_of_responses_fit_a_small_window(serve, wrapped, kind):
    """An agent that keeps all its items is never refused."""
    desk, url = serve(responses, window=WINDOW, answer=reading)
    client = wrapped(kind, url, WINDOW)
    tool = {"type": "function", "name": "read_file", "description": READ_FILE, "parameters": PARAMETERS, "strict": True}
    items = [{"role": "user", "content": TASK}]
    calls = True
    while calls:
        answer = await now(client.responses.create(model=MODEL, input=items, instructions=SYSTEM, tools=[tool]))
        items += answer.output
        calls = [item for item in answer.output if item.type == "function_call"]
        for call in calls:
            output = read_file(**json.loads(call.arguments))
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": output})
    assert answer.output_text == "All are read: done."
    assert_steps_fit(desk, "input")


@KINDS
async def test_the_providers_second_refusal_is_the_sdks_error(serve, wrapped, kind):
    """Where the smaller request is refused as well, the SDK raises its own error about the first, and it is told."""
    desk, url = serve(chat_completions, window=WINDOW, overflows=2)
    with pytest.raises(openai.BadRequestError, match="maximum context length") as raised:
        await now(wrapped(kind, url).chat.completions.create(**CHAT))
    assert raised.value.code == "context_length_exceeded"
    assert len(desk.requests) == 2


@KINDS
async def test_a_refusal_before_sending_is_the_sdks_error(serve, wrapped, kind):
    """What cannot be made to fit is refused in the provider's words, nothing is sent, and the overflow can be had."""
    desk, url = serve(chat_completions)
    with pytest.raises(openai.BadRequestError) as raised:
        await now(wrapped(kind, url, TINY).chat.completions.create(**CHAT))
    assert raised.value.body["message"].startswith("This model's maximum context length is")
    assert raised.value.code == "context_length_exceeded"
    assert isinstance(agentctx.overflow_of(raised.value), agentctx.ContextOverflow)
    assert not desk.requests


@KINDS
async def test_the_http_client_is_wrapped_by_itself(serve, kind):
    """``http_client`` and ``async_http_client`` are of the HTTP library that the SDK has, and prepare the same."""
    desk, url = serve(chat_completions, window=WINDOW)
    make = agentctx.http_client if kind is OpenAI else agentctx.async_http_client
    client = kind(base_url=f"{url}/v1", api_key="none", max_retries=0, http_client=make(pipeline()))
    answer = await now(client.chat.completions.create(**CHAT))
    await now(client.close())
    assert answer.choices[0].message.content == "Done."
    assert_recovered(desk)
