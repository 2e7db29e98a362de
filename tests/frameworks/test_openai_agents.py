"""Agents of OpenAI's Agents SDK fit their window."""

from functools import partial

import anyio
import pytest
from agents import (
    Agent,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunConfig,
    Runner,
    SQLiteSession,
    function_tool as tool,
)
from agents.exceptions import ModelBehaviorError
from agents.run import CallModelData, ModelInputData
from every_call import Exchange, every_call_goes_out
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
    kept,
    pipeline,
    prefix_share,
    read_file,
    reading,
)
from openai import AsyncOpenAI, BadRequestError
from pydantic import BaseModel

from agentctx import ConfigError
from agentctx.frameworks.openai_agents import ContextFilter, ContextModel
from agentctx.testing.servers import Said, chat_completions, responses

pytestmark = pytest.mark.anyio
TOOLS = [tool(read_file)]
LONG = 200


def model_at(url, kind=OpenAIResponsesModel):
    return kind(MODEL, kept(AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)))


def agent_of(url, window=WINDOW, kind=OpenAIResponsesModel):
    """The agent as the documentation makes it."""
    names = {"model": model_at(url, kind), "tools": TOOLS, "prompt": SYSTEM, "pipeline": pipeline(window)}
    names["Agent"] = Agent
    exec(documented("OpenAI Agents SDK"), names)  # noqa: S102 - the documentation's own code
    return names["agent"]


def plain_agent(url):
    return Agent("reader", instructions=SYSTEM, tools=TOOLS, model=model_at(url))


async def test_a_plain_agent_overflows(serve):
    """Thirty tool calls do not fit the window."""
    desk, url = serve(responses, window=WINDOW, answer=reading)
    with pytest.raises(BadRequestError, match="context window"):
        await Runner.run(plain_agent(url), TASK, max_turns=LONG)
    assert 10 < len(desk.accepted) < STEPS


@pytest.mark.parametrize(
    ("app", "kind"), [(responses, OpenAIResponsesModel), (chat_completions, OpenAIChatCompletionsModel)]
)
async def test_an_agent_fits(serve, app, kind):
    """With the model they do, each request is legal, the prefix stays, and the result keeps all that was said."""
    desk, url = serve(app, window=WINDOW, answer=reading)
    agent = agent_of(url, kind=kind)
    done = await Runner.run(agent, TASK, max_turns=LONG)
    check(desk)
    assert len(done.to_input_list()) == 2 * STEPS + 2
    [session] = agent.model.agentctx.sessions.values()
    assert session.billed_tokens > WINDOW / 3


def test_a_sync_run_fits(serve):
    """The same for ``run_sync``, in a session of the SDK: the second run goes on in the same conversation."""
    desk, url = serve(responses, window=WINDOW, answer=reading)
    agent, session = agent_of(url), SQLiteSession("thread-1")
    Runner.run_sync(agent, TASK, max_turns=LONG, session=session)
    check(desk)
    Runner.run_sync(agent, "Thank you.", max_turns=LONG, session=session)
    check(desk, STEPS + 2)
    assert len(agent.model.agentctx.sessions) == 1


async def test_a_streamed_run_fits(serve):
    """The same for a stream; what was billed is read off its end."""
    desk, url = serve(responses, window=WINDOW, answer=reading)
    agent = agent_of(url)
    async for _ in Runner.run_streamed(agent, TASK, max_turns=LONG).stream_events():
        pass
    check(desk)
    [session] = agent.model.agentctx.sessions.values()
    assert session.billed_tokens > WINDOW / 3


async def test_a_run_with_the_filter_fits(serve):
    """As a filter and hooks of the run, whose conversation is the session's."""
    desk, url = serve(responses, window=WINDOW, answer=reading)
    names = {"agent": plain_agent(url), "task": TASK, "session": SQLiteSession("thread-1"), "pipeline": pipeline()}
    runner = type("Runner", (), {"run": lambda *given, **more: Runner.run(*given, **more, max_turns=LONG)})
    names |= {"Runner": runner, "RunConfig": RunConfig}
    exec(documented("OpenAI Agents SDK, a run's filter"), names)  # noqa: S102 - the documentation's own code
    await names["run"]
    check(desk)
    [(name, session)] = names["context"].agentctx.sessions.items()
    assert name == "thread-1"
    assert session.billed_tokens > WINDOW / 3


@pytest.mark.parametrize("streams", [False, True])
async def test_an_overflow_is_recovered(serve, streams):
    """Where the provider's window is smaller than was thought, what it refuses is cut and sent again."""
    desk, url = serve(responses, window=WINDOW, answer=reading)
    agent = agent_of(url, 20_000)
    if streams:
        async for _ in Runner.run_streamed(agent, TASK, max_turns=LONG).stream_events():
            pass
    else:
        await Runner.run(agent, TASK, max_turns=LONG)
    assert len(desk.accepted) == STEPS + 1
    assert 1 <= len(desk.requests) - len(desk.accepted) <= 3


async def test_runs_at_once_are_apart(serve):
    """Each run of one agent reads its own files, and is a conversation, though two have the same task."""
    desk, url = serve(responses, window=WINDOW, answer=reading)
    agent = agent_of(url)
    async with anyio.create_task_group() as group:
        for name in ("alpha", "beta", "alpha"):
            group.start_soon(partial(Runner.run, agent, TASK.replace("alpha", name), max_turns=LONG))
    assert len(agent.model.agentctx.sessions) == 3
    assert len(desk.accepted) == len(desk.requests) == 3 * (STEPS + 1)
    for body in desk.accepted:
        told = str(body["input"])
        assert sum(f"{name}_" in told or f"Read {name}" in told for name in ("alpha", "beta")) == 1


async def test_an_agent_that_was_handed_to_fits(serve):
    """After a handoff the other agent's requests are legal, and its instructions, tools and handoffs are counted."""

    def handing_over(body):
        names = [each["name"] for each in body.get("tools", ())]
        return Said("", calls=(("transfer_to_reader", {}),)) if "transfer_to_reader" in names else reading(body)

    desk, url = serve(responses, window=WINDOW, answer=handing_over)
    context = ContextModel(model_at(url), pipeline())
    reader = Agent("reader", instructions=SYSTEM, tools=TOOLS, model=context, output_type=Found)
    desk_agent = Agent("desk", instructions="Hand over.", handoffs=[reader], model=context)
    with pytest.raises(ModelBehaviorError):  # it says "done", which is no Found
        await Runner.run(desk_agent, TASK, max_turns=LONG)
    assert len(desk.accepted) == len(desk.requests) == STEPS + 2
    assert [len(body["tools"]) for body in desk.accepted[:2]] == [1, 1]
    assert prefix_share(desk.accepted[1:]) >= 0.9


@pytest.mark.parametrize("kept_there", [{"previous_response_id": "resp_1"}, {"conversation_id": "conv_1"}])
async def test_a_conversation_that_the_server_keeps_is_refused(serve, kept_there):
    """What is only new cannot be prepared: the model says so before anything is sent."""
    desk, url = serve(responses, window=WINDOW, answer=reading)
    with pytest.raises(ConfigError, match="only what is new"):
        await Runner.run(agent_of(url), TASK, **kept_there)
    assert not desk.requests


async def test_the_filter_refuses_results_without_their_calls():
    """They tell that the server keeps the conversation."""
    items = [{"type": "function_call_output", "call_id": "call_1", "output": "42"}]
    data = CallModelData(ModelInputData(items, None), Agent("reader"), None)
    with pytest.raises(ConfigError, match="only what is new"):
        await ContextFilter(pipeline())(data)


class Found(BaseModel):
    """What the files have in common."""

    summary: str


def test_what_a_call_costs(serve, measured):
    """Where nothing has to be cut."""
    _, url = serve(responses, QuickDesk(answer=reading))
    agents = plain_agent(url), agent_of(url, 1_000_000)
    runs = [lambda agent=agent: Runner.run_sync(agent, TASK, max_turns=LONG) for agent in agents]
    measured(beside("OpenAI Agents SDK", *runs))


@pytest.mark.parametrize("model", ["gpt-5.4", None])
def test_a_model_s_name_is_no_model(model):
    """What it cannot call it says at once, and what it is to be given."""
    with pytest.raises(ConfigError, match=r"^\w+\.\w+ must be the framework's own object, which has \w+\(\), got "):
        ContextModel(model, pipeline())


def items_of(history):
    """The SDK's items of a history of Chat Completions, which are those of Responses."""
    made = []
    for each in history:
        if each["role"] == "tool":
            named = {"call_id": each["tool_call_id"], "output": each["content"]}
            made.append({"type": "function_call_output", **named})
            continue
        made += [{"role": each["role"], "content": each["content"]}] if each["content"] else []
        for call in each.get("tool_calls", ()):
            named = {"call_id": call["id"], "name": "read", "arguments": call["function"]["arguments"]}
            made.append({"type": "function_call", **named})
    return made


@pytest.mark.parametrize(
    ("app", "kind", "key"),
    [(responses, OpenAIResponsesModel, "input"), (chat_completions, OpenAIChatCompletionsModel, "messages")],
)
def test_every_call_goes_out(serve, app, kind, key):
    """What the SDK's models send are the calls and results of the view; nothing legal is spoilt."""
    desk, url = serve(app, QuickDesk())
    spoken = "openai-responses" if key == "input" else "openai-chat"

    async def run(history, name, pipeline):
        async with AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
            model = kind(name, client)
            model = model if pipeline is None else ContextModel(model, pipeline)
            await Runner.run(Agent("reader", model=model), items_of(history))
            return pipeline and model.agentctx.view

    def exchange(history, name, pipeline):
        view = anyio.run(run, history, name, pipeline)
        return Exchange(desk.accepted.pop()[key], view)

    def takes(_model, names):
        """What Responses takes."""
        return len(set(names)) == len(names) and max(map(len, names), default=0) <= 64

    every_call_goes_out(exchange, spoken=spoken, viewed="openai-responses", takes=takes)
