"""Pydantic AI's agents fit their window."""

import base64
import json

import anyio
import pytest
from anthropic import AsyncAnthropic
from attrs import evolve
from every_call import Exchange, every_call_goes_out
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
    kept,
    pipeline,
    read_file,
    reading,
)
from openai import AsyncOpenAI
from pydantic import BaseModel
from pydantic_ai import Agent, BinaryContent, Tool
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import ModelRequest, ModelResponse, TextPart, ToolCallPart, ToolReturnPart, UserPromptPart
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

import agentctx
from agentctx import Budget, ClearToolResults, FitContextWindow, Pipeline, TruncateToolOutputs, count
from agentctx.frameworks.pydantic_ai import ContextCapability
from agentctx.presets import coding_agent
from agentctx.testing.servers import Said, chat_completions, messages

pytestmark = pytest.mark.anyio
LONG = UsageLimits(request_limit=200)
PICTURE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg=="


def model_at(url):
    client = kept(AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0))
    return OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))


def agent_of(url, window=WINDOW):
    """The agent as the documentation makes it."""
    names = {"model": model_at(url), "tools": [read_file], "prompt": SYSTEM, "pipeline": pipeline(window)}
    names["Agent"] = Agent
    exec(documented("Pydantic AI"), names)  # noqa: S102 - the documentation's own code
    return names["agent"]


def plain_agent(url):
    return Agent(model_at(url), tools=[read_file], instructions=SYSTEM)


async def test_a_plain_agent_overflows(serve):
    """Thirty tool calls do not fit the window."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    with pytest.raises(ModelHTTPError, match="maximum context length"):
        await plain_agent(url).run(TASK, usage_limits=LONG)
    assert 10 < len(desk.accepted) < STEPS


async def test_an_agent_fits(serve):
    """With the capability they do, each request is legal, the prefix stays, and the history keeps all that was said."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    done = await agent_of(url).run(TASK, usage_limits=LONG)
    check(desk)
    assert len(done.all_messages()) == 2 * STEPS + 2


def test_a_sync_run_fits(serve):
    """The same for ``run_sync``."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    agent_of(url).run_sync(TASK, usage_limits=LONG)
    check(desk)


async def test_a_streamed_run_fits(serve):
    """The same for a stream, of which is billed what its end tells."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    context = ContextCapability(pipeline())
    agent = Agent(model_at(url), tools=[read_file], instructions=SYSTEM, capabilities=[context])
    async with agent.run_stream(TASK, usage_limits=LONG) as done:
        assert await done.get_output() == "All are read: done."
    check(desk)
    [session] = context.agentctx.sessions.values()
    assert session.billed_tokens > WINDOW / 3


@pytest.mark.parametrize("streams", [False, True])
async def test_an_overflow_is_recovered(serve, streams):
    """Where the provider's window is smaller than was thought, what it refuses is cut and sent again."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    agent = agent_of(url, 20_000)
    if streams:
        async with agent.run_stream(TASK, usage_limits=LONG) as done:
            await done.get_output()
    else:
        await agent.run(TASK, usage_limits=LONG)
    assert len(desk.accepted) == STEPS + 1
    assert 1 <= len(desk.requests) - len(desk.accepted) <= 3


async def test_runs_at_once_are_apart(serve):
    """Each run of one agent reads its own files, two of them the same; what goes on with one is in its session."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    context = ContextCapability(pipeline())
    agent = Agent(model_at(url), tools=[read_file], instructions=SYSTEM, capabilities=[context])
    done = {}

    async def run(number, name):
        done[number] = await agent.run(TASK.replace("alpha", name), usage_limits=LONG)

    async with anyio.create_task_group() as group:
        for number, name in enumerate(("alpha", "beta", "gamma", "alpha")):
            group.start_soon(run, number, name)
    assert len(context.agentctx.sessions) == 4
    await agent.run("Thank you.", message_history=done[1].all_messages(), usage_limits=LONG)
    assert len(desk.accepted) == len(desk.requests) == 4 * (STEPS + 1) + 1
    assert len(context.agentctx.sessions) == 4
    for body in desk.accepted:
        told = str(body["messages"][1:])
        assert sum(f"{name}_" in told or f"Read {name}" in told for name in ("alpha", "beta", "gamma")) == 1


def thinking(body):
    """The model, thinking before it reads."""
    said = reading(body)
    return evolve(said, thinking=f"What is in {said.calls[0][1]['path']}? " * 6 if said.calls else None)


@pytest.mark.parametrize("model", ["claude-sonnet-5", "claude-fable-5-1"])
async def test_signed_reasoning_is_taken(serve, model):
    """Claude's thinking goes back as it came, or not at all where it is bound to what was cut."""
    desk, url = serve(messages, window=WINDOW, answer=thinking)
    client = kept(AsyncAnthropic(base_url=url, api_key="none", max_retries=0))
    how = {"max_tokens": 1500, "anthropic_thinking": {"type": "adaptive"}}
    claude = AnthropicModel(model, provider=AnthropicProvider(anthropic_client=client), settings=how)
    context = ContextCapability(coding_agent(Budget(window=WINDOW, output_reserve=2_000), model))
    await Agent(claude, tools=[read_file], instructions=SYSTEM, capabilities=[context]).run(TASK, usage_limits=LONG)
    assert len(desk.accepted) == len(desk.requests) == STEPS + 1
    assert all('"thinking"' in json.dumps(body["messages"]) for body in desk.accepted[1:10])


class Found(BaseModel):
    """What the files have in common."""

    summary: str


async def test_a_picture_and_a_structured_answer(serve):
    """What is said with a picture, and an answer that a tool of its own brings, are counted and sent as before."""
    desk, url = serve(chat_completions, answer=lambda _: Said("", calls=(("final_result", {"summary": "Red."}),)))
    context = ContextCapability(pipeline())
    agent = Agent(model_at(url), output_type=Found, capabilities=[context])
    picture = BinaryContent(base64.b64decode(PICTURE), media_type="image/png")
    assert (await agent.run(["What is on it?", picture])).output == Found(summary="Red.")
    [body] = desk.accepted
    assert [block["type"] for block in body["messages"][0]["content"]] == ["text", "image_url"]
    assert abs(context.agentctx.report.tokens_after - count(body["messages"], MODEL, body["tools"])) < 20


@pytest.mark.parametrize("stage", [TruncateToolOutputs(10), ClearToolResults(1), FitContextWindow()])
async def test_what_pydantic_ai_reads_itself_is_left(stage):
    """The result of a tool search names the tools that it found: no stage shortens it, and the run ends well."""
    numbers = iter(range(20))

    def answer(_messages, _info):
        number = next(numbers)
        if number == 0:
            return ModelResponse(parts=[ToolCallPart("search_tools", {"queries": ["mortgage"]})])
        return ModelResponse(parts=[ToolCallPart("fetch", {"number": number}) if number < 8 else TextPart("done")])

    def fetch(number: int) -> str:
        """Fetch a page."""
        return "word " * 4_000

    def mortgage(amount: int) -> str:
        """Reckon a mortgage."""
        return "fine"

    hook = ContextCapability(Pipeline(stage, budget=Budget(window=16_000)))
    tools = [Tool(fetch), Tool(mortgage, defer_loading=True)]
    agent = Agent(FunctionModel(answer, model_name=MODEL), tools=tools, capabilities=[hook])
    assert "done" == (await agent.run("Reckon.")).output


def messages_of(history):
    """Pydantic AI's messages of a history of Chat Completions: what follows an answer is one request."""
    made = []
    for each in history:
        if each["role"] == "assistant":
            words = [TextPart(each["content"])] if each["content"] else []
            calls = [ToolCallPart("read", call["function"]["arguments"], call["id"]) for call in each["tool_calls"]]
            made.append(ModelResponse(parts=[*words, *calls]))
            continue
        if not made or isinstance(made[-1], ModelResponse):
            made.append(ModelRequest(parts=[]))
        if each["role"] == "tool":
            made[-1].parts.append(ToolReturnPart("read", each["content"], each["tool_call_id"]))
        else:
            made[-1].parts.append(UserPromptPart(each["content"]))
    return made


def test_every_call_goes_out(serve):
    """What ``OpenAIChatModel`` sends are the calls and results of the view; nothing legal is spoilt."""
    desk, url = serve(chat_completions, QuickDesk())

    async def run(history, name, hooks):
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            model = OpenAIChatModel(name, provider=OpenAIProvider(openai_client=client))
            await Agent(model, capabilities=hooks).run(message_history=messages_of(history))

    def exchange(history, name, pipeline):
        hooks = [] if pipeline is None else [ContextCapability(pipeline)]
        anyio.run(run, history, name, hooks)
        return Exchange(desk.accepted.pop()["messages"], hooks and hooks[0].agentctx.view)

    every_call_goes_out(exchange)


def test_what_a_call_costs(serve, measured):
    """Where nothing has to be cut."""
    _, url = serve(chat_completions, QuickDesk(answer=reading))
    plain, ours = plain_agent(url), agent_of(url, 1_000_000)
    runs = [lambda agent=agent: agent.run_sync(TASK, usage_limits=LONG) for agent in (plain, ours)]
    measured(beside("Pydantic AI", *runs))


@pytest.mark.anyio
async def test_a_provider_takes_the_http_client(serve):
    """``OpenAIProvider`` that is given the HTTP client sends what fits, with no hook at all."""
    desk, url = serve(chat_completions, window=WINDOW)
    history = [
        message
        for question, answer in zip(TOO_LONG[1::2], TOO_LONG[2::2], strict=False)
        for message in (
            ModelRequest(parts=[UserPromptPart(question["content"])]),
            ModelResponse(parts=[TextPart(answer["content"])]),
        )
    ]
    async with agentctx.async_http_client(pipeline(WINDOW)) as client:
        provider = OpenAIProvider(base_url=f"{url}/v1", api_key="none", http_client=client)
        result = await Agent(OpenAIChatModel(MODEL, provider=provider)).run("Go on.", message_history=history)
    assert result.output == "Done."
    assert len(desk.accepted[0]["messages"]) < len(history)
    assert len(desk.requests) == 1
