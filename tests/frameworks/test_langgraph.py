"""LangGraph's agents fit their window."""

from contextlib import suppress

import pytest
from every_call import MODELS, PIPELINES, Exchange, calls_and_results, every_call_goes_out, histories, refused
from hypothesis import given, settings, strategies as st
from langchain_messages import messages_of
from langchain_openai import ChatOpenAI
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, create_react_agent, tools_condition
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
    prefix_share,
    read_file,
    reading,
)
from openai import BadRequestError

from agentctx import ContextOverflow
from agentctx.frameworks.langgraph import ContextHook
from agentctx.testing.servers import chat_completions

pytestmark = [pytest.mark.anyio, pytest.mark.filterwarnings("ignore:create_react_agent has been moved")]
LONG = {"recursion_limit": 200}


def model_at(url):
    return ChatOpenAI(model=MODEL, base_url=f"{url}/v1", api_key="none", max_retries=0)


def agent_of(url, window=WINDOW):
    """The agent as the documentation makes it."""
    names = {"model": model_at(url), "tools": [read_file], "prompt": SYSTEM, "pipeline": pipeline(window)}
    names["create_react_agent"] = create_react_agent
    exec(documented("LangGraph"), names)  # noqa: S102 - the documentation's own code
    return names["agent"], names["hook"]


def plain_agent(url):
    return create_react_agent(model_at(url), [read_file], prompt=SYSTEM)


def task(text=TASK):
    return {"messages": [{"role": "user", "content": text}]}


def test_a_plain_agent_overflows(serve):
    """Thirty tool calls do not fit the window."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    with pytest.raises(BadRequestError, match="maximum context length"):
        plain_agent(url).invoke(task(), LONG)
    assert 10 < len(desk.accepted) < STEPS


def test_an_agent_fits(serve):
    """With the hook they do, each request is legal, the prefix stays, and the state keeps all that was said."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    agent, hook = agent_of(url)
    state = agent.invoke(task(), LONG)
    check(desk)
    assert len(state["messages"]) == 2 * STEPS + 2
    [session] = hook.agentctx.sessions.values()
    assert session.billed_tokens > WINDOW / 3


async def test_an_async_agent_fits(serve):
    """The same for ``ainvoke``, in a thread that is checkpointed after each step."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    agent, hook = agent_of(url)
    agent.checkpointer = InMemorySaver()
    await agent.ainvoke(task(), {**LONG, "configurable": {"thread_id": "thread-1"}})
    check(desk)
    assert list(hook.agentctx.sessions) == ["thread-1"]


class State(MessagesState):
    """What a graph of one's own keeps."""

    llm_input_messages: list


def test_a_graph_of_ones_own_fits(serve):
    """The hook is a node before the model's, and threads that run one after another are apart."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    model = model_at(url).bind_tools([read_file])
    hook = ContextHook(pipeline(), tools=[read_file], model=model)
    graph = StateGraph(State)
    graph.add_node("context", hook)
    graph.add_node("model", lambda state: {"messages": [model.invoke(state["llm_input_messages"])]})
    graph.add_node("tools", ToolNode([read_file]))
    graph.set_entry_point("context")
    graph.add_edge("context", "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "context")
    runs = graph.compile()
    for thread in (1, 2):
        given = {"messages": [{"role": "system", "content": SYSTEM}, *task()["messages"]]}
        runs.invoke(given, {**LONG, "configurable": {"thread_id": thread}})
    assert len(desk.accepted) == len(desk.requests) == 2 * (STEPS + 1)
    assert list(hook.agentctx.sessions) == ["1", "2"]
    assert prefix_share(desk.accepted[: STEPS + 1]) >= 0.9
    assert {session.model for session in hook.agentctx.sessions.values()} == {MODEL}


def test_every_call_goes_out(serve):
    """What ``ChatOpenAI`` sends are the calls and results of the view; nothing legal is spoilt."""
    desk, url = serve(chat_completions, QuickDesk())

    def exchange(history, name, pipeline):
        model, messages = ChatOpenAI(model=name, base_url=f"{url}/v1", api_key="none"), messages_of(history)
        hook = None if pipeline is None else ContextHook(pipeline, model=model)
        model.invoke(messages if hook is None else hook.invoke({"messages": messages})["llm_input_messages"])
        return Exchange(desk.accepted.pop()["messages"], hook and hook.agentctx.view)

    every_call_goes_out(exchange)


def test_every_call_goes_out_at_each_step(serve):
    """The same with one hook for all steps of a thread, and with what the steps before have decided."""
    desk, url = serve(chat_completions, QuickDesk())
    chat = ChatOpenAI(model=MODEL, base_url=f"{url}/v1", api_key="none")
    config = {"configurable": {"thread_id": "thread-1"}}

    @settings(max_examples=40)
    @given(histories(), st.sampled_from(MODELS), st.sampled_from(sorted(PIPELINES)))
    def law(history, model, name):
        hook, messages = ContextHook(PIPELINES[name](), model=model), messages_of(history)
        steps = [stop for stop, each in enumerate(history, 1) if each["role"] != "assistant"]
        with suppress(ContextOverflow):
            for stop in steps:
                chat.invoke(hook.invoke({"messages": messages[:stop]}, config)["llm_input_messages"])
                sent, shown = desk.accepted.pop()["messages"], hook.agentctx.view.messages
                assert calls_and_results(shown, "openai-chat") == calls_and_results(sent, "openai-chat")
                assert not refused(sent, "openai-chat")

    law()


def test_what_a_call_costs(serve, measured):
    """Where nothing has to be cut."""
    _, url = serve(chat_completions, QuickDesk(answer=reading))
    plain, (ours, _) = plain_agent(url), agent_of(url, 1_000_000)
    measured(beside("LangGraph", lambda: plain.invoke(task(), LONG), lambda: ours.invoke(task(), LONG)))
