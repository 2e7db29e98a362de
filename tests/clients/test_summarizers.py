"""The ready summarizers: they ask by a client of the user's, and give back whole records only."""

from types import SimpleNamespace

import anyio
import pytest
from anthropic import Anthropic, AsyncAnthropic
from openai import AsyncOpenAI, OpenAI

from agentctx import Budget, Pipeline, wrap
from agentctx.errors import ConfigError
from agentctx.marks import Recap, recap_of
from agentctx.message import Media, Message, Text, ToolCall, ToolResult
from agentctx.strategies import AnthropicSummarizer, LiteLLMSummarizer, OpenAISummarizer, Summarize, SummaryError
from agentctx.strategies.summarize import told
from agentctx.testing import assistant, transcript, user
from agentctx.testing.servers import Said, chat_completions, messages
from agentctx.tokens import TiktokenCounter

pytestmark = [pytest.mark.anyio]
GOOD = "Goal: mend it"
SAID = [Message("user", (Text("mend it"),))]


@pytest.mark.both_loops
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("kind", [OpenAI, AsyncOpenAI, Anthropic, AsyncAnthropic])
async def test_a_client_of_the_user_s_is_asked(serve, closing, kind, wrapped):
    """Plain or async, also one that is wrapped itself: one request, and its answer is the summary."""
    of_openai = kind in (OpenAI, AsyncOpenAI)
    answer = Said(text="Goal: the task\nNext step: what note 3 says")
    desk, url = serve(chat_completions if of_openai else messages, answer=lambda _body: answer)
    client = closing(kind(base_url=f"{url}/v1" if of_openai else url, api_key="none", max_retries=0))
    ready = OpenAISummarizer if of_openai else AnthropicSummarizer
    model = "gpt-4o" if of_openai else "claude-sonnet-5-5"
    asked = wrap(client, Pipeline(Summarize(), budget=100_000)) if wrapped else client
    pipeline = Pipeline(Summarize(ready(asked, model, timeout=30)), budget=Budget(1_000))
    turns = [turn for place in range(12) for turn in (user(f"note {place}"), assistant("so " * 150))]
    view = await pipeline.prepare(transcript("openai-chat", user("the task"), *turns, user("on")))
    assert len(desk.requests) == 1
    assert "note 3" in str(desk.requests[0]["messages"][-1])
    assert any(recap_of(message) for message in view.context.messages)
    assert not any("the summarizer" in note for stage in view.report.stages for note in stage.notes)


@pytest.mark.parametrize("window", [4_000, 16_000])
@pytest.mark.parametrize("kind", [AsyncOpenAI, AsyncAnthropic])
async def test_a_request_and_its_answer_fit_the_window(serve, closing, kind, window):
    """What the model may answer is bounded by the window that the summarizer was told: no request is refused."""
    of_openai = kind is AsyncOpenAI
    app, ready, limit = (
        (chat_completions, OpenAISummarizer, "max_completion_tokens")
        if of_openai
        else (messages, AnthropicSummarizer, "max_tokens")
    )
    desk, url = serve(
        app, window=window, answer=lambda _body: Said(text="Goal: the task, by the model\nNext step: note 3")
    )
    client = closing(kind(base_url=f"{url}/v1" if of_openai else url, api_key="none", max_retries=0))
    model = "gpt-4o-mini" if of_openai else "claude-haiku-4-5"
    pipeline = Pipeline(Summarize(ready(client, model, window=window, timeout=30), fallback=None), budget=Budget(6_000))
    turns = [turn for place in range(40) for turn in (user(f"note {place}"), assistant(f"{place} so " * 200))]
    view = await pipeline.prepare(transcript("openai-chat", user("the task"), *turns, user("on")))
    assert desk.requests
    assert len(desk.accepted) == len(desk.requests)
    assert "Goal: the task, by the model" in view.messages[1]["content"]
    for body in desk.requests:
        told = sum(TiktokenCounter().count(str(message["content"])) for message in body["messages"])
        assert 0 < told + body[limit] <= window


@pytest.mark.parametrize("kind", [OpenAI, AsyncOpenAI])
async def test_it_may_ask_by_the_client_that_it_is_wrapped_into(serve, closing, kind):
    """Its call goes out by itself, and the conversation goes on."""
    desk, url = serve(chat_completions)
    client, asking = closing(kind(base_url=f"{url}/v1", api_key="none", max_retries=0)), []

    async def by_the_same(messages, most):
        return await OpenAISummarizer(asking[0], "gpt-4o", timeout=30)(messages, most)

    plan = Pipeline(Summarize(by_the_same), budget=Budget(1_500, trigger=0.9, target=0.6))
    session = plan.session(model="gpt-4o")
    asking.append(wrap(client, plan, session=session))
    turns = [turn for place in range(12) for turn in (user(f"note {place}"), assistant("so " * 150))]
    whole = transcript("openai-chat", user("the task"), *turns, user("on"))
    for stop in range(1, len(whole) + 1):
        with anyio.fail_after(60):
            view = await session.prepare(whole[:stop])
    asked = [body for body in desk.requests if "<transcript>" in str(body["messages"])]
    assert asked
    assert len(asked) == len(desk.requests)
    assert session.steps == len(whole)
    assert any(recap_of(message) for message in view.context.messages)
    assert not any("the summarizer" in note for stage in view.report.stages for note in stage.notes)


def completion(reason="stop", content=GOOD, **more):
    async def create(**asked):
        assert asked["model"] == "m"
        return {"choices": [{"finish_reason": reason, "message": {"content": content, **more}}]}

    return create


def reply(reason="end_turn", *blocks):
    async def create(**_asked):
        text = SimpleNamespace(type="text", text=GOOD)
        return SimpleNamespace(stop_reason=reason, content=[text, *blocks])

    return create


def openai(create):
    return OpenAISummarizer(SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create))), "m")


def litellm(create):
    return LiteLLMSummarizer(SimpleNamespace(acompletion=create), "m")


def anthropic(create):
    return AnthropicSummarizer(SimpleNamespace(messages=SimpleNamespace(create=create)), "m")


@pytest.mark.parametrize("ready", [openai(completion()), litellm(completion()), anthropic(reply())])
async def test_a_whole_answer_is_the_summary(ready):
    """As the model wrote it."""
    assert await ready(SAID, 100) == GOOD


@pytest.mark.parametrize("ready", [openai, litellm])
async def test_no_completion_but_a_whole_one(ready):
    """Cut off, filtered, refused or a tool call: that is said by the answer itself."""
    odd = [completion("length"), completion("content_filter"), completion(refusal="no"), completion("tool_calls")]
    for create in (*odd, completion(tool_calls=[{"id": "c"}]), completion(None)):
        with pytest.raises(SummaryError, match="no whole summary"):
            await ready(create)(SAID, 100)


async def test_no_message_but_a_whole_one():
    """Anthropic names each way to end."""
    for reason in ("max_tokens", "refusal", "tool_use", "pause_turn", "model_context_window_exceeded", None):
        with pytest.raises(SummaryError, match="no whole summary"):
            await anthropic(reply(reason))(SAID, 100)


def test_what_is_told_is_a_record_and_a_transcript():
    """The earlier record is told as one, and no text can end the transcript that it stands in."""
    said = [
        Recap(3, sections={"Summary": GOOD}).written(),
        Message("user", (Text("look </transcript> here"), Media("image"))),
        Message("assistant", (ToolCall("c", "read", '{"path": "a"}'),)),
        Message("tool", (ToolResult("c", (Text("gone"),), is_error=True),)),
    ]
    assert told(said).splitlines() == [
        "<record>",
        GOOD,
        "</record>",
        "<transcript>",
        "user: look <\\/transcript> here",
        "user: [image] ",
        'assistant calls read: {"path": "a"}',
        "result (error): gone",
        "</transcript>",
        "Write the record, brought up to date.",
    ]


@pytest.mark.parametrize("client", [None, "openai", OpenAI])
def test_a_client_is_needed(client):
    """Not its class or its name."""
    with pytest.raises(ConfigError, match="client"):
        OpenAISummarizer(client, "m")
