"""Agents of Microsoft's Agent Framework fit their window."""

import asyncio
import logging
from operator import is_

import anyio
import pytest
from agent_framework import Agent, ChatMiddleware, ChatResponse, Content, Message, tool
from agent_framework.exceptions import ChatClientException
from agent_framework.openai import OpenAIChatClient, OpenAIChatCompletionClient
from every_call import Exchange, every_call_goes_out
from loop import MODEL, STEPS, SYSTEM, TASK, WINDOW, QuickDesk, beside, check, documented, pipeline, read_file, reading

from agentctx import Budget, Pipeline, Sessions, TruncateToolOutputs
from agentctx.frameworks.agent_framework import ContextMiddleware
from agentctx.stores import MemoryStore
from agentctx.testing.servers import chat_completions, responses

pytestmark = pytest.mark.anyio
LONG = {"max_iterations": STEPS + 10}


def client_at(url, kind=OpenAIChatCompletionClient, model=MODEL):
    return kind(model=model, api_key="none", base_url=f"{url}/v1", function_invocation_configuration=LONG)


def agent_of(url, window=WINDOW, client=None, **more):
    """The agent as the documentation makes it."""
    names = {"client": client or client_at(url), "tools": [tool(read_file)], "prompt": SYSTEM}
    names.update(pipeline=pipeline(window), Agent=lambda *args, **given: Agent(*args, **given, **more))
    exec(documented("Microsoft Agent Framework"), names)  # noqa: S102 - the documentation's own code
    return names["agent"]


def plain_agent(url):
    return Agent(client_at(url), SYSTEM, tools=[tool(read_file)])


async def run(agent, *, stream=False):
    """Run the task to its end; gives what the session keeps."""
    session = agent.create_session(session_id="thread-42")
    try:
        if stream:
            answer = agent.run(TASK, session=session, stream=True)
            async for _ in answer:
                pass
            await answer.get_final_response()
        else:
            await agent.run(TASK, session=session)
    finally:
        await agent.client.client.close()
    return session.state["in_memory"]["messages"]


async def test_a_plain_agent_overflows(serve):
    """Thirty tool calls do not fit the window."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    with pytest.raises(ChatClientException, match="maximum context length"):
        await run(plain_agent(url))
    assert 10 < len(desk.accepted) < STEPS


@pytest.mark.parametrize("stream", [False, True])
async def test_an_agent_fits(serve, stream):
    """With the middleware they do, each request is legal, the prefix stays, and the session keeps all that was said."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    agent = agent_of(url)
    messages = await run(agent, stream=stream)
    check(desk)
    assert [read_file(f"alpha_{number}.py") for number in range(1, STEPS + 1)] == [
        content.result for message in messages for content in message.contents if content.type == "function_result"
    ]
    ((name, session),) = agent.middleware[0].agentctx.sessions.items()
    assert "thread-42" == name
    assert session.billed_tokens


async def test_an_agent_of_the_responses_api_fits(serve):
    """Where the provider keeps nothing."""
    desk, url = serve(responses, window=WINDOW, answer=reading)
    await run(agent_of(url, client=client_at(url, OpenAIChatClient), default_options={"store": False}))
    check(desk)


async def test_what_the_provider_keeps_is_sent_as_it_is(serve, caplog):
    """And the log says so."""
    _, url = serve(responses, answer=reading)
    caplog.set_level(logging.WARNING, "agentctx")
    agent = agent_of(url, client=client_at(url, OpenAIChatClient))
    with pytest.raises(ChatClientException):  # the local server keeps nothing
        await run(agent)
    assert "the provider keeps" in caplog.text


@pytest.mark.parametrize("stream", [False, True])
async def test_what_was_billed_is_kept(serve, stream):
    """With the sessions in a store, also what was billed for the last call."""
    _, url = serve(chat_completions, answer=reading)
    store = MemoryStore()
    context = ContextMiddleware(sessions=Sessions(pipeline(), store))
    await run(Agent(client_at(url), SYSTEM, tools=[tool(read_file)], middleware=[context]), stream=stream)
    (session,) = context.agentctx.sessions.values()
    async with Sessions(pipeline(), store).open("thread-42") as kept:
        assert kept.billed_tokens == session.billed_tokens > 0


@pytest.mark.parametrize("stream", [False, True])
async def test_after_an_overflow_a_smaller_request_is_sent(serve, stream):
    """Where the model's window is smaller than the pipeline believes."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    await run(agent_of(url, 10 * WINDOW), stream=stream)
    assert STEPS + 1 == len(desk.accepted)
    assert STEPS + 2 == len(desk.requests)


class Looking(ChatMiddleware):
    """Notes what is sent; the last one sends nothing."""

    def __init__(self, *, last):
        self.last = last

    async def process(self, context, call_next):
        self.seen = list(context.messages)
        if not self.last:
            await call_next()
        else:
            context.result = ChatResponse(messages=[Message("assistant", ["Yes."])])


async def test_contents_come_back_as_they_were():
    """Of a message that is changed, what no stage touched stays; the others are the same objects."""
    short = Content.from_function_result("call_2", result="short")
    messages = [
        Message(
            "user", [Content.from_text("Look."), Content.from_uri("http://127.0.0.1/a.png", media_type="image/png")]
        ),
        Message(
            "assistant",
            [
                Content.from_text_reasoning(text="Hm."),
                Content.from_text("I look."),
                Content.from_function_call("call_1", "look", arguments={"path": "a"}),
                Content.from_function_call("call_2", "look", arguments={"path": "b"}),
            ],
        ),
        Message("tool", [Content.from_function_result("call_1", result="word " * 500), short], message_id="third"),
    ]
    cut = ContextMiddleware(Pipeline(TruncateToolOutputs(max_tokens=50), budget=Budget(window=WINDOW)))
    before, after = Looking(last=False), Looking(last=True)
    await client_at("http://127.0.0.1").get_response(messages, client_kwargs={"middleware": [before, cut, after]})
    assert [True, True, False] == list(map(is_, before.seen, after.seen))
    first, second = after.seen[2].contents
    assert "call_1" == first.call_id
    assert len(first.result) < 500
    assert second is before.seen[2].contents[1]
    assert "third" == after.seen[2].message_id


def test_what_a_call_costs(serve, measured):
    """Where nothing has to be cut."""
    _, url = serve(chat_completions, QuickDesk(answer=reading))
    loops = [lambda: asyncio.run(run(plain_agent(url))), lambda: asyncio.run(run(agent_of(url, 1_000_000)))]
    measured(beside("Agent Framework", *loops))


def messages_of(history):
    """Agent Framework's messages of a history of Chat Completions."""
    made = []
    for each in history:
        if each["role"] == "tool":
            made.append(Message("tool", [Content.from_function_result(each["tool_call_id"], result=each["content"])]))
            continue
        calls = [
            Content.from_function_call(call["id"], "read", arguments=call["function"]["arguments"])
            for call in each.get("tool_calls", ())
        ]
        made.append(Message(each["role"], [*([each["content"]] if each["content"] else []), *calls]))
    return made


def test_every_call_goes_out(serve):
    """What a client of Chat Completions sends are the calls and results of the view; nothing legal is spoilt."""
    desk, url = serve(chat_completions, QuickDesk())

    async def run_agent(history, name, hooks):
        agent = Agent(client_at(url, model=name), middleware=hooks)
        try:
            await agent.run(messages_of(history))
        finally:
            await agent.client.client.close()

    def exchange(history, name, pipeline):
        hooks = [] if pipeline is None else [ContextMiddleware(pipeline)]
        anyio.run(run_agent, history, name, hooks)
        return Exchange(desk.accepted.pop()["messages"], hooks and hooks[0].agentctx.view)

    every_call_goes_out(exchange)
