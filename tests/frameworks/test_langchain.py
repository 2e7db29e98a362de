"""LangChain's agents fit their window."""

import pytest
from langchain.agents import create_agent
from langchain_openai import ChatOpenAI
from loop import MODEL, STEPS, SYSTEM, TASK, WINDOW, QuickDesk, beside, check, documented, pipeline, read_file, reading
from openai import BadRequestError

from agentctx.testing.servers import chat_completions

pytestmark = pytest.mark.anyio
LONG = {"recursion_limit": 200}


def model_at(url):
    return ChatOpenAI(model=MODEL, base_url=f"{url}/v1", api_key="none", max_retries=0)


def agent_of(url, window=WINDOW):
    """The agent as the README makes it."""
    names = {"model": model_at(url), "tools": [read_file], "prompt": SYSTEM, "pipeline": pipeline(window)}
    names["create_agent"] = create_agent
    exec(documented("LangChain"), names)  # noqa: S102 - the README's own code
    return names["agent"]


def plain_agent(url):
    return create_agent(model_at(url), [read_file], system_prompt=SYSTEM)


def task(text=TASK):
    return {"messages": [{"role": "user", "content": text}]}


def test_a_plain_agent_overflows(serve):
    """Thirty tool calls do not fit the window."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    with pytest.raises(BadRequestError, match="maximum context length"):
        plain_agent(url).invoke(task(), LONG)
    assert 10 < len(desk.accepted) < STEPS


def test_an_agent_fits(serve):
    """With the middleware they do, each request is legal, the prefix stays, and the state keeps all that was said."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    state = agent_of(url).invoke(task(), LONG)
    check(desk)
    assert len(state["messages"]) == 2 * STEPS + 2
    assert [message.content for message in state["messages"] if message.type == "tool"] == [
        read_file(f"alpha_{number}.py") for number in range(1, STEPS + 1)
    ]


async def test_an_async_agent_fits(serve):
    """The same for ``ainvoke``."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    await agent_of(url).ainvoke(task(), LONG)
    check(desk)


def test_what_a_call_costs(serve, measured):
    """Where nothing has to be cut."""
    _, url = serve(chat_completions, QuickDesk(answer=reading))
    plain, ours = plain_agent(url), agent_of(url, 1_000_000)
    measured(beside("LangChain", lambda: plain.invoke(task(), LONG), lambda: ours.invoke(task(), LONG)))
