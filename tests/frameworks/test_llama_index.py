"""LlamaIndex' agents fit their window."""

import asyncio
import gc
import json
from operator import is_
from warnings import catch_warnings

import anyio
import pytest
from every_call import BROKEN, Exchange, every_call_goes_out
from llama_index.core.agent.workflow import FunctionAgent, ReActAgent
from llama_index.core.base.llms.types import ChatMessage, ImageBlock, TextBlock, ThinkingBlock, ToolCallBlock
from llama_index.core.chat_engine import SimpleChatEngine
from llama_index.core.llms.function_calling import FunctionCallingLLM
from llama_index.core.workflow import Context
from llama_index.llms.openai_like import OpenAILike
from loop import (
    MODEL,
    STEPS,
    SYSTEM,
    TASK,
    TOO_LONG,
    WINDOW,
    QuickDesk,
    beside,
    check,
    documented,
    pipeline,
    read_file,
    reading,
)
from openai import BadRequestError

import agentctx
from agentctx import Budget, ConfigError, Pipeline, Sessions, TruncateToolOutputs
from agentctx.frameworks.llama_index import ContextLLM
from agentctx.testing.servers import Said, chat_completions

# What LlamaIndex does by itself: old names of pydantic's, and connections that it leaves to the garbage collector.
ITS_OWN = ("ignore::DeprecationWarning", "ignore::ResourceWarning")
pytestmark = [pytest.mark.anyio, *map(pytest.mark.filterwarnings, ITS_OWN)]


@pytest.fixture(autouse=True, scope="module")
def nothing_left():
    """Collect what LlamaIndex left open while that is overlooked."""
    yield
    with catch_warnings(action="ignore"):
        gc.collect()


def model_at(url, **more):
    known = {"is_chat_model": True, "is_function_calling_model": True, "context_window": WINDOW, "max_retries": 0}
    return OpenAILike(**{"model": MODEL, "api_base": f"{url}/v1", "api_key": "none", **known, **more})


def agent_of(url, window=WINDOW, **more):
    """The agent as the documentation makes it."""
    names = {"model": model_at(url), "tools": [read_file], "prompt": SYSTEM, "pipeline": pipeline(window)}
    names["FunctionAgent"] = lambda **given: FunctionAgent(**{"streaming": False, **more}, **given)
    exec(documented("LlamaIndex"), names)  # noqa: S102 - the documentation's own code
    return names["agent"]


def plain_agent(url):
    return FunctionAgent(tools=[read_file], llm=model_at(url), system_prompt=SYSTEM, streaming=False)


async def run(agent, task=TASK):
    """Run a task to its end; gives what the memory holds."""
    context = Context(agent)
    try:
        await agent.run(task, ctx=context, max_iterations=STEPS + 10)
    finally:
        await getattr(agent.llm, "llm", agent.llm)._get_aclient().close()
    memory = await context.store.get("memory")
    return await memory.aget_all()


async def test_a_plain_agent_overflows(serve):
    """Thirty tool calls do not fit the window."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    with pytest.raises(BadRequestError, match="maximum context length"):
        await run(plain_agent(url))
    assert 10 < len(desk.accepted) < STEPS


@pytest.mark.parametrize("streaming", [False, True])
async def test_an_agent_fits(serve, streaming):
    """With the model they do, each request is legal, the prefix stays, and the memory keeps all that was said."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    agent = agent_of(url, streaming=streaming)
    messages = await run(agent)
    check(desk)
    assert [read_file(f"alpha_{number}.py") for number in range(1, STEPS + 1)] == [
        message.content for message in messages if message.role == "tool"
    ]
    (session,) = agent.llm.agentctx.sessions.values()
    assert streaming or session.billed_tokens


async def test_after_an_overflow_a_smaller_request_is_sent(serve):
    """Where the model's window is smaller than the pipeline believes."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    await run(agent_of(url, 10 * WINDOW, streaming=True))
    assert STEPS + 1 == len(desk.accepted)
    assert STEPS + 2 == len(desk.requests)


async def test_two_conversations_at_once(serve):
    """Each in the session that the block around it opens, also where both begin alike."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    sessions = Sessions(pipeline())
    agent = FunctionAgent(tools=[read_file], llm=ContextLLM(model_at(url), sessions=sessions), system_prompt=SYSTEM)

    async def talk(name):
        async with sessions.open(name):
            await agent.run(TASK, max_iterations=STEPS + 10)

    async with anyio.create_task_group() as group:
        for name in ("thread-1", "thread-2"):
            group.start_soon(talk, name)
    assert {"thread-1": STEPS + 1, "thread-2": STEPS + 1} == {name: each.steps for name, each in sessions.items()}
    assert 2 * (STEPS + 1) == len(desk.accepted) == len(desk.requests)


async def test_agents_without_tool_calls_fit_too(serve):
    """A ReAct agent's thoughts and observations are text."""

    def thinking(body):
        said = reading(body)
        if not said.calls:
            return Said(f"Thought: I can answer without using any more tools.\nAnswer: {said.text}")
        ((name, arguments),) = said.calls
        path = arguments["path"]
        return Said(f'Thought: I need a tool.\nAction: {name}\nAction Input: {{"path": "{path}"}}')

    desk, url = serve(chat_completions, window=WINDOW, answer=thinking)
    llm = ContextLLM(model_at(url, is_function_calling_model=False), pipeline())
    agent = ReActAgent(tools=[read_file], llm=llm, system_prompt=SYSTEM, streaming=False)
    await agent.run(TASK, max_iterations=STEPS + 10)
    assert STEPS + 1 == len(desk.accepted) == len(desk.requests)


def test_chat_engines_fit_too(serve):
    """As a plain model does for a chat engine, whole and in pieces."""
    desk, url = serve(chat_completions, window=WINDOW, answer=lambda _body: Said("Yes."))
    engine = SimpleChatEngine.from_defaults(llm=ContextLLM(model_at(url), pipeline()), system_prompt=SYSTEM)
    assert "Yes." == engine.chat("Well?").response
    assert "Yes." == "".join(engine.stream_chat("And?").response_gen)
    assert 2 == len(desk.accepted)


def test_blocks_come_back_as_they_were():
    """Of a message that is changed, what no stage touched stays: reasoning, calls, images, the id that it answers."""
    call = ToolCallBlock(tool_call_id="call_1", tool_name="look", tool_kwargs={"path": "a"})
    thought = ThinkingBlock(content="Hm.", additional_information={"signature": "c2ln"})
    image = ImageBlock(url="http://127.0.0.1/a.png")
    messages = [
        ChatMessage(role="user", blocks=[TextBlock(text="Look."), image]),
        ChatMessage(role="assistant", blocks=[thought, TextBlock(text="I look."), call]),
        ChatMessage(role="tool", content="word " * 500, additional_kwargs={"tool_call_id": "call_1"}),
    ]
    seen = []

    class Model(FunctionCallingLLM):
        metadata = property(lambda _self: model_at("http://127.0.0.1").metadata)

        def chat(self, messages, **_kwargs):
            seen.extend(messages)
            raise NotImplementedError

        achat = stream_chat = astream_chat = complete = acomplete = stream_complete = astream_complete = chat
        _prepare_chat_with_tools = chat

    short = Pipeline(TruncateToolOutputs(max_tokens=50), budget=Budget(window=WINDOW))
    with pytest.raises(NotImplementedError):
        ContextLLM(Model(), short).chat(messages)
    assert [True, True, False] == list(map(is_, messages, seen))
    assert {"tool_call_id": "call_1"} == seen[2].additional_kwargs
    assert len(seen[2].content) < 500


def messages_of(history):
    """LlamaIndex's messages of a history of Chat Completions."""
    made = []
    for each in history:
        if each["role"] == "tool":
            beside = {"tool_call_id": each["tool_call_id"]}
            made.append(ChatMessage(each["content"], role="tool", additional_kwargs=beside))
            continue
        said = [TextBlock(text=each["content"])] if each["content"] else []
        calls = [
            ToolCallBlock(tool_call_id=call["id"], tool_name="read", tool_kwargs=kwargs_of(call))
            for call in each.get("tool_calls", ())
        ]
        made.append(ChatMessage(role=each["role"], blocks=[*said, *calls]))
    return made


def kwargs_of(call):
    """The arguments; those that are not JSON stay text."""
    arguments = call["function"]["arguments"]
    return arguments if arguments == BROKEN else json.loads(arguments)


def test_every_call_goes_out(serve):
    """What ``OpenAILike`` sends are the calls and results of the view; nothing legal is spoilt."""
    desk, url = serve(chat_completions, QuickDesk())

    def exchange(history, name, pipeline):
        model = model_at(url, model=name)
        model = model if pipeline is None else ContextLLM(model, pipeline)
        model.chat(messages_of(history))
        return Exchange(desk.accepted.pop()["messages"], pipeline and model.agentctx.view)

    every_call_goes_out(exchange)


def test_what_a_call_costs(serve, measured):
    """Where nothing has to be cut."""
    _, url = serve(chat_completions, QuickDesk(answer=reading))
    loops = [lambda: asyncio.run(run(plain_agent(url))), lambda: asyncio.run(run(agent_of(url, 1_000_000)))]
    measured(beside("LlamaIndex", *loops))


@pytest.mark.parametrize("model", ["gpt-5.4", None])
def test_a_model_s_name_is_no_model(model):
    """What it cannot call it says at once, and what it is to be given."""
    with pytest.raises(ConfigError, match=r"^\w+\.\w+ must be the framework's own object, which has \w+\(\), got "):
        ContextLLM(model, pipeline())


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.anyio
async def test_a_model_takes_the_http_client(serve, waits):
    """``OpenAILike`` that is given the HTTP clients sends what fits, with no hook at all."""
    desk, url = serve(chat_completions, window=WINDOW)
    plan, history = pipeline(WINDOW), [ChatMessage(role=each["role"], content=each["content"]) for each in TOO_LONG]
    with agentctx.http_client(plan) as client:
        async with agentctx.async_http_client(plan) as async_client:
            llm = model_at(url, http_client=client, async_http_client=async_client)
            answer = await llm.achat(history) if waits else llm.chat(history)
    assert answer.message.content == "Done."
    assert len(desk.accepted[0]["messages"]) < len(history)
    assert len(desk.requests) == 1
