"""Agents of OpenAI's Agents SDK fit their window."""

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
    read_file,
    reading,
)
from openai import AsyncOpenAI, BadRequestError

from agentctx.testing.servers import chat_completions, responses

pytestmark = pytest.mark.anyio
TOOLS = [tool(read_file)]
LONG = 200


def model_at(url, kind=OpenAIResponsesModel):
    return kind(MODEL, kept(AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0)))


def agent_of(url, window=WINDOW, kind=OpenAIResponsesModel):
    """The agent as the README makes it."""
    names = {"model": model_at(url, kind), "tools": TOOLS, "prompt": SYSTEM, "pipeline": pipeline(window)}
    names["Agent"] = Agent
    exec(documented("OpenAI Agents SDK"), names)  # noqa: S102 - the README's own code
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
    exec(documented("OpenAI Agents SDK, a run's filter"), names)  # noqa: S102 - the README's own code
    await names["run"]
    check(desk)
    [(name, session)] = names["context"].agentctx.sessions.items()
    assert name == "thread-1"
    assert session.billed_tokens > WINDOW / 3


def test_what_a_call_costs(serve, measured):
    """Where nothing has to be cut."""
    _, url = serve(responses, QuickDesk(answer=reading))
    agents = plain_agent(url), agent_of(url, 1_000_000)
    runs = [lambda agent=agent: Runner.run_sync(agent, TASK, max_turns=LONG) for agent in agents]
    measured(beside("OpenAI Agents SDK", *runs))
