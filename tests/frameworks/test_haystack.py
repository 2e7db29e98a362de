"""Haystack's agents fit their window."""

import json

import pytest
from every_call import BROKEN, Exchange, every_call_goes_out
from haystack import Pipeline as HaystackPipeline
from haystack.components.agents import Agent
from haystack.components.builders import ChatPromptBuilder
from haystack.components.generators.chat import OpenAIChatGenerator
from haystack.dataclasses import ChatMessage, ImageContent, TextContent, ToolCall, ToolCallResult
from haystack.dataclasses.chat_message import ReasoningContent
from haystack.tools import create_tool_from_function
from haystack.utils import Secret
from loop import (
    MODEL,
    STEPS,
    SYSTEM,
    TASK,
    WINDOW,
    QuickDesk,
    beside,
    check,
    documented,
    pipeline,
    read_file as read,
    reading,
)
from openai import BadRequestError

from agentctx import Budget, ConfigError, Pipeline, TruncateToolOutputs
from agentctx.frameworks.haystack import ContextChatGenerator
from agentctx.testing.servers import Said, chat_completions

pytestmark = pytest.mark.anyio


def read_file(path: str) -> str:
    """Read a file."""
    return read(path)


def generator_at(url, model=MODEL):
    given = {"api_key": Secret.from_token("none"), "api_base_url": f"{url}/v1", "max_retries": 0}
    return OpenAIChatGenerator(model=model, **given)


def agent_of(url, window=WINDOW, **more):
    """The agent as the documentation makes it."""
    names = {"generator": generator_at(url), "tools": [create_tool_from_function(read_file)], "prompt": SYSTEM}
    names.update(pipeline=pipeline(window), Agent=lambda **given: Agent(max_agent_steps=STEPS + 10, **given, **more))
    exec(documented("Haystack"), names)  # noqa: S102 - the documentation's own code
    return names["agent"]


def plain_agent(url):
    given = {"tools": [create_tool_from_function(read_file)], "system_prompt": SYSTEM, "max_agent_steps": STEPS + 10}
    return Agent(chat_generator=generator_at(url), **given)


def task():
    return [ChatMessage.from_user(TASK)]


def test_a_plain_agent_overflows(serve):
    """Thirty tool calls do not fit the window."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    with pytest.raises(BadRequestError, match="maximum context length"):
        plain_agent(url).run(task())
    assert 10 < len(desk.accepted) < STEPS


def test_an_agent_fits(serve):
    """With the generator they do, each request is legal, the prefix stays, and the state keeps all that was said."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    agent = agent_of(url)
    messages = agent.run(task())["messages"]
    check(desk)
    assert [read(f"alpha_{number}.py") for number in range(1, STEPS + 1)] == [
        message.tool_call_result.result for message in messages if message.tool_call_result
    ]
    (session,) = agent.chat_generator.agentctx.sessions.values()
    assert session.billed_tokens


async def test_an_async_agent_fits(serve):
    """The same for ``run_async``, in pieces."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    seen = []

    async def listen(chunk):
        seen.append(chunk)

    agent = agent_of(url)
    await agent.run_async(task(), streaming_callback=listen)
    await agent.close_async()
    check(desk)
    assert seen


def test_after_an_overflow_a_smaller_request_is_sent(serve):
    """Where the model's window is smaller than the pipeline believes."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    agent_of(url, 10 * WINDOW).run(task())
    assert STEPS + 1 == len(desk.accepted)
    assert STEPS + 2 == len(desk.requests)


def test_it_stands_in_a_pipeline(serve):
    """As any chat generator does; it says why it cannot be written down."""
    desk, url = serve(chat_completions, answer=lambda _body: Said("Yes."))
    whole = HaystackPipeline()
    whole.add_component("prompt", ChatPromptBuilder(template=[ChatMessage.from_user("Well, {{name}}?")]))
    whole.add_component("llm", ContextChatGenerator(generator_at(url), pipeline()))
    whole.connect("prompt.prompt", "llm.messages")
    assert "Yes." == whole.run({"prompt": {"name": "Anna"}})["llm"]["replies"][0].text
    assert "Well, Anna?" == desk.accepted[0]["messages"][0]["content"]
    with pytest.raises(ConfigError, match="consists of code"):
        whole.dumps()


class Noting:
    """A chat generator that notes what it is called with."""

    model = MODEL

    def run(self, messages, **_more):
        self.seen = messages
        return {"replies": [ChatMessage.from_assistant("Yes.")]}


def test_contents_come_back_as_they_were():
    """Of a message that is changed, what no stage touched stays; the others are the same objects."""
    call, other = ToolCall("look", {"path": "a"}, "call_1"), ToolCall("look", {"path": "b"}, "call_2")
    image = ImageContent("aGVsbG8=", "image/png", validation=False)
    short = ToolCallResult("short", other, error=True)
    messages = [
        ChatMessage.from_user(content_parts=[TextContent("Look."), image]),
        ChatMessage.from_assistant("I look.", tool_calls=[call, other], reasoning=ReasoningContent("Hm.")),
        ChatMessage.from_tool("word " * 500, call),
    ]
    messages[2]._content.append(short)
    generator = Noting()
    cut = Pipeline(TruncateToolOutputs(max_tokens=50), budget=Budget(window=WINDOW))
    ContextChatGenerator(generator, cut).run(messages)
    assert messages[0] is generator.seen[0]
    assert messages[1] is generator.seen[1]
    first, second = generator.seen[2].tool_call_results
    assert call is first.origin
    assert len(first.result) < 500
    assert short is second


def messages_of(history):
    """Haystack's messages of a history of Chat Completions; a result holds the call that it answers."""
    made, calls = [], {}
    for each in history:
        if each["role"] == "user":
            made.append(ChatMessage.from_user(each["content"]))
        elif each["role"] == "tool":
            name = each["tool_call_id"]
            made.append(ChatMessage.from_tool(each["content"], origin=calls.get(name, ToolCall("read", {}, id=name))))
        else:
            called = [call_of(call) for call in each["tool_calls"]]
            calls.update((call.id, call) for call in called)
            made.append(ChatMessage.from_assistant(each["content"], tool_calls=called))
    return made


def call_of(call):
    """Haystack leaves out calls whose arguments are not JSON: no message holds one."""
    arguments = call["function"]["arguments"]
    return ToolCall("read", {"broken": BROKEN} if arguments == BROKEN else json.loads(arguments), id=call["id"])


def test_every_call_goes_out(serve):
    """What a generator sends are the calls and results of the view; nothing legal is spoilt."""
    desk, url = serve(chat_completions, QuickDesk())

    def exchange(history, name, pipeline):
        generator = generator_at(url, name)
        generator = generator if pipeline is None else ContextChatGenerator(generator, pipeline)
        generator.run(messages_of(history))
        generator.close()
        return Exchange(desk.accepted.pop()["messages"], pipeline and generator.agentctx.view)

    every_call_goes_out(exchange)


def test_what_a_call_costs(serve, measured):
    """Where nothing has to be cut."""
    _, url = serve(chat_completions, QuickDesk(answer=reading))
    plain, ours = plain_agent(url), agent_of(url, 1_000_000)
    measured(beside("Haystack", lambda: plain.run(task()), lambda: ours.run(task())))


@pytest.mark.parametrize("model", ["gpt-5.4", None])
def test_a_model_s_name_is_no_model(model):
    """What it cannot call it says at once, and what it is to be given."""
    with pytest.raises(ConfigError, match=r"^\w+\.\w+ must be the framework's own object, which has \w+\(\), got "):
        ContextChatGenerator(model, pipeline())
