"""LangChain's agents fit their window."""

import json

import anyio
import pytest
from attrs import evolve
from every_call import Exchange, calls_and_results, every_call_goes_out
from langchain.agents import create_agent
from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse
from langchain.agents.structured_output import ToolStrategy
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.tools import tool
from langchain_messages import as_claude_makes_them, messages_of
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.errors import GraphRecursionError
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
    prefix_share,
    read_file,
    reading,
)
from openai import BadRequestError
from pydantic import BaseModel, Field

import agentctx
from agentctx import Budget, Sessions, count
from agentctx.frameworks.langchain import ContextMiddleware
from agentctx.presets import coding_agent
from agentctx.stores import MemoryStore
from agentctx.testing.servers import chat_completions, messages

pytestmark = pytest.mark.anyio
LONG = {"recursion_limit": 200}


def model_at(url):
    return ChatOpenAI(model=MODEL, base_url=f"{url}/v1", api_key="none", max_retries=0)


def agent_of(url, window=WINDOW):
    """The agent as the documentation makes it."""
    names = {"model": model_at(url), "tools": [read_file], "prompt": SYSTEM, "pipeline": pipeline(window)}
    names["create_agent"] = create_agent
    exec(documented("LangChain"), names)  # noqa: S102 - the documentation's own code
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


class Looking(AgentMiddleware):
    """Sees what goes to the model, behind the middleware that is tested."""

    def __init__(self):
        super().__init__()
        self.shown = []

    def wrap_model_call(self, request, handler):
        self.shown.append((request.messages, request.state["messages"]))
        return handler(request)


def test_untouched_messages_are_the_same_objects(serve):
    """What is sent are the messages of the state, but for those that were cut or put in."""
    _, url = serve(chat_completions, window=WINDOW, answer=reading)
    looking = Looking()
    agent = create_agent(
        model_at(url), [read_file], system_prompt=SYSTEM, middleware=[ContextMiddleware(pipeline()), looking]
    )
    agent.invoke(task(), LONG)
    cut = []
    for shown, state in looking.shown:
        given = {message.id: message for message in state}
        cut += [message for message in shown if message is not given.get(message.id)]
    assert {message.type for message in cut} == {"tool"}
    assert len(cut) < sum(len(shown) for shown, _ in looking.shown) / 3


@pytest.mark.parametrize("is_async", [False, True])
async def test_an_overflow_is_recovered(serve, is_async):
    """Where the provider's window is smaller than was thought, what it refuses is cut and sent again."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    agent = agent_of(url, 20_000)
    if is_async:
        await agent.ainvoke(task(), LONG)
    else:
        agent.invoke(task(), LONG)
    assert len(desk.accepted) == STEPS + 1
    assert 1 <= len(desk.requests) - len(desk.accepted) <= 3


async def test_runs_at_once_are_apart(serve):
    """Six runs of one agent, some of the same task in threads of their own: each reads its own files, and fits."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    agent = agent_of(url)
    names = ["alpha", "beta", "gamma"]
    async with anyio.create_task_group() as group:
        for thread in range(2):
            for name in names:
                config = {**LONG, "configurable": {"thread_id": f"{name} {thread}"}} if thread else LONG
                group.start_soon(agent.ainvoke, task(TASK.replace("alpha", name)), config)
    assert len(desk.accepted) == len(desk.requests) == 6 * (STEPS + 1)
    for body in desk.accepted:
        told = str(body["messages"][1:])
        assert sum(f"{name}_" in told or f"Read {name}" in told for name in names) == 1


def test_a_sub_agent_is_another_conversation(serve):
    """An agent that a tool runs in the same thread, with the same middleware, disturbs no prefix of the one outside."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    context = [ContextMiddleware(pipeline())]
    inner = create_agent(model_at(url), [read_file], system_prompt=f"Help.\n{SYSTEM}", middleware=context)
    asked = []

    @tool("read_file")
    def read_with_help(path: str) -> str:
        """Read a file."""
        if not asked:
            asked.append(path)
            inner.invoke(task(TASK.replace("alpha", "beta")), LONG)
        return read_file(path)

    outer = create_agent(model_at(url), [read_with_help], system_prompt=SYSTEM, middleware=context)
    outer.invoke(task(), {**LONG, "configurable": {"thread_id": "thread-1"}})
    assert len(desk.accepted) == len(desk.requests) == 2 * (STEPS + 1)
    for name in ("alpha", "beta"):
        assert prefix_share([body for body in desk.accepted if f"Read {name}" in str(body)]) >= 0.9


def sent_by(model, messages, pipeline, desk):
    """What a chat model sends, with the middleware or without."""
    request = ModelRequest(model=model, messages=messages)

    def handler(asked):
        return ModelResponse(result=[asked.model.invoke(asked.messages)])

    context = None if pipeline is None else ContextMiddleware(pipeline)
    handler(request) if context is None else context.wrap_model_call(request, handler)
    return Exchange(desk.accepted.pop()["messages"], context and context.agentctx.view)


def test_every_call_goes_out(serve):
    """What ``ChatOpenAI`` sends are the calls and results of the view; nothing legal is spoilt."""
    desk, url = serve(chat_completions, QuickDesk())

    def exchange(history, name, pipeline):
        model = ChatOpenAI(model=name, base_url=f"{url}/v1", api_key="none", max_retries=0)
        return sent_by(model, messages_of(history), pipeline, desk)

    every_call_goes_out(exchange)


def test_every_call_of_claude_goes_out(serve):
    """The same for ``ChatAnthropic``, where a call stands in the content and beside it."""
    desk, url = serve(messages, QuickDesk())

    def exchange(history, name, pipeline):
        model = ChatAnthropic(model=name, base_url=url, api_key="none", max_retries=0, max_tokens=1500)
        return sent_by(model, as_claude_makes_them(history), pipeline, desk)

    def read(natives, spoken):
        """Without the ids, which ``ChatAnthropic`` spells anew, in calls and results, as Claude's API takes them."""
        return [(kind, "", said) for kind, _, said in calls_and_results(natives, spoken)]

    given = {"models": ["claude-sonnet-5", "claude-opus-4-1"], "takes": lambda _model, _names: False}
    every_call_goes_out(exchange, spoken="anthropic", viewed="openai-chat", read=read, **given)


@pytest.mark.parametrize(
    ("model", "name"),
    [("kimi-k3", "read:0"), ("mistral-small3.2", "0b9c1d6e-7f"), ("kimi-k2.6", f"functions.{'mcp__' * 10}read:0")],
)
def test_what_a_model_s_own_server_made_is_left(serve, model, name):
    """Ids that come again, or are not spelled as the maker's API does, go out as they came, and nothing is reported."""
    desk, url = serve(chat_completions, QuickDesk())
    history = [HumanMessage("Read all.")]
    for number in range(3):
        call = {"id": name, "name": "read", "args": {"number": number}}
        history += [AIMessage("", tool_calls=[call]), ToolMessage("x", tool_call_id=name)]
    chat = ChatOpenAI(model=model, base_url=f"{url}/v1", api_key="none", max_retries=0)
    exchange = sent_by(chat, history, pipeline(), desk)
    assert exchange.sent == sent_by(chat, history, None, desk).sent
    assert not exchange.view.report.changes


def test_a_message_under_another_role_goes_out_under_it(serve):
    """Where the model's template takes a system message at the start alone, a later one is the user's."""
    desk, url = serve(chat_completions, QuickDesk())
    history = [SystemMessage("Mend."), HumanMessage("Go."), AIMessage("Done."), SystemMessage("Be brief.")]
    chat = ChatOpenAI(model="vllm/x", base_url=f"{url}/v1", api_key="none", max_retries=0)
    sent = sent_by(chat, history, pipeline(), desk).sent
    assert [("system", "Mend."), ("user", "Be brief.")] == [
        (message["role"], message["content"]) for message in (sent[0], sent[-1])
    ]


def test_a_call_that_is_no_json_is_counted_and_answered(serve):
    """Its arguments take room; in a thread where nothing answers it, a result that says so is put in."""
    desk, url = serve(chat_completions, QuickDesk())
    invalid = {"type": "invalid_tool_call", "id": "call_1", "name": "read", "args": "x " * 6_000, "error": "no JSON"}
    history = [HumanMessage("Read all."), AIMessage("", invalid_tool_calls=[invalid]), HumanMessage("And?")]
    chat = ChatOpenAI(model=MODEL, base_url=f"{url}/v1", api_key="none", max_retries=0)
    exchange = sent_by(chat, history, pipeline(100_000), desk)
    assert ["user", "assistant", "tool", "user"] == [message["role"] for message in exchange.sent]
    assert exchange.view.report.tokens_after > 5_000


class Found(BaseModel):
    """What the files have in common."""

    summary: str = Field(description="In one sentence. " * 100)


def test_the_schema_of_an_answer_is_counted(serve):
    """A structured answer is a tool among others, and takes room."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    looking = ContextMiddleware(pipeline())
    agent = create_agent(model_at(url), [read_file], middleware=[looking], response_format=ToolStrategy(Found))
    with pytest.raises(GraphRecursionError):  # the model never calls it
        agent.invoke(task(), {"recursion_limit": 3})
    body = desk.accepted[-1]
    assert len(body["tools"]) == 2
    assert abs(looking.agentctx.report.tokens_after - count(body["messages"], MODEL, body["tools"])) < 20


def test_a_thread_is_gone_back_in(serve):
    """From an earlier checkpoint, and after an interrupt, the thread goes on with legal requests that fit."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    agent = agent_of(url)
    agent.checkpointer = InMemorySaver()
    config = {**LONG, "configurable": {"thread_id": "thread-1"}}
    agent.invoke(task(), config)
    check(desk)
    early = [each for each in agent.get_state_history(config) if len(each.values["messages"]) == 30][-1]
    agent.invoke(None, {**early.config, **LONG})
    assert len(desk.requests) == len(desk.accepted) > STEPS + 10
    agent.interrupt_before_nodes = ["tools"]
    for given in (task("Read beta files until there are no more, then say done."), *([None] * 5)):
        agent.invoke(given, config)
    assert len(desk.requests) == len(desk.accepted)
    assert len(agent.get_state(config).values["messages"]) > 2 * STEPS


def test_another_worker_goes_on(serve):
    """With the sessions in a store, a worker that has never seen the thread goes on with its prefix."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    store, saver, config = MemoryStore(), InMemorySaver(), {"configurable": {"thread_id": "thread-1"}}

    def worker():
        context = ContextMiddleware(sessions=Sessions(pipeline(), store))
        return create_agent(model_at(url), [read_file], system_prompt=SYSTEM, middleware=[context], checkpointer=saver)

    with pytest.raises(GraphRecursionError):
        worker().invoke(task(), {**config, "recursion_limit": 56})
    assert STEPS / 2 < len(desk.accepted) < STEPS
    worker().invoke(None, {**config, **LONG})
    check(desk)


HOW = {"type": "adaptive"}


def thinking(body):
    """The model, thinking before it reads."""
    said = reading(body)
    return evolve(said, thinking=f"What is in {said.calls[0][1]['path']}? " * 6 if said.calls else None)


@pytest.mark.parametrize("model", ["claude-sonnet-5", "claude-fable-5-1"])
def test_signed_reasoning_is_taken(serve, model):
    """Claude's thinking goes back as it came, or not at all where it is bound to what was cut; markers may be set."""
    desk, url = serve(messages, window=WINDOW, answer=thinking)
    claude = ChatAnthropic(model=model, base_url=url, api_key="none", max_retries=0, max_tokens=1500, thinking=HOW)
    context = ContextMiddleware(coding_agent(Budget(window=WINDOW, output_reserve=2_000), model))
    create_agent(claude, [read_file], system_prompt=SYSTEM, middleware=[context]).invoke(task(), LONG)
    assert len(desk.accepted) == len(desk.requests) == STEPS + 1
    assert all('"thinking"' in json.dumps(body["messages"]) for body in desk.accepted[1:10])
    assert '"cache_control"' in json.dumps(desk.accepted[-1]["messages"])


def test_what_a_call_costs(serve, measured):
    """Where nothing has to be cut."""
    _, url = serve(chat_completions, QuickDesk(answer=reading))
    plain, ours = plain_agent(url), agent_of(url, 1_000_000)
    measured(beside("LangChain", lambda: plain.invoke(task(), LONG), lambda: ours.invoke(task(), LONG)))


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.anyio
async def test_a_model_takes_the_http_client(serve, waits):
    """``ChatOpenAI`` that is given the HTTP clients sends what fits, with no hook at all."""
    desk, url = serve(chat_completions, window=WINDOW)
    plan = pipeline(WINDOW)
    with agentctx.http_client(plan) as client:
        async with agentctx.async_http_client(plan) as async_client:
            chat = ChatOpenAI(
                model=MODEL, base_url=f"{url}/v1", api_key="none", http_client=client, http_async_client=async_client
            )
            answer = await chat.ainvoke(TOO_LONG) if waits else chat.invoke(TOO_LONG)
    assert answer.content == "Done."
    assert len(desk.accepted[0]["messages"]) < len(TOO_LONG)
    assert len(desk.requests) == 1
