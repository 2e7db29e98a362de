"""Pydantic AI's agents fit their window."""

import pytest
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
from openai import AsyncOpenAI
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.usage import UsageLimits

from agentctx.testing.servers import chat_completions

pytestmark = pytest.mark.anyio
LONG = UsageLimits(request_limit=200)


def model_at(url):
    client = kept(AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0))
    return OpenAIChatModel(MODEL, provider=OpenAIProvider(openai_client=client))


def agent_of(url, window=WINDOW):
    """The agent as the README makes it."""
    names = {"model": model_at(url), "tools": [read_file], "prompt": SYSTEM, "pipeline": pipeline(window)}
    names["Agent"] = Agent
    exec(documented("Pydantic AI"), names)  # noqa: S102 - the README's own code
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


def test_what_a_call_costs(serve, measured):
    """Where nothing has to be cut."""
    _, url = serve(chat_completions, QuickDesk(answer=reading))
    plain, ours = plain_agent(url), agent_of(url, 1_000_000)
    runs = [lambda agent=agent: agent.run_sync(TASK, usage_limits=LONG) for agent in (plain, ours)]
    measured(beside("Pydantic AI", *runs))
