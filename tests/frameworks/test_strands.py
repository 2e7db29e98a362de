"""Strands' agents fit their window."""

import json
import re

import pytest
from every_call import BROKEN, Exchange, every_call_goes_out
from loop import MODEL, STEPS, SYSTEM, TASK, WINDOW, QuickDesk, beside, check, documented, pipeline, read_file, reading
from strands import Agent, tool
from strands.agent.conversation_manager import NullConversationManager
from strands.models.openai import OpenAIModel
from strands.session import FileSessionManager
from strands.types.exceptions import ContextWindowOverflowException

from agentctx import Sessions
from agentctx.frameworks.strands import ContextConversationManager
from agentctx.stores import MemoryStore
from agentctx.testing.servers import chat_completions


def model_at(url):
    return OpenAIModel(client_args={"base_url": f"{url}/v1", "api_key": "none", "max_retries": 0}, model_id=MODEL)


def agent_of(url, window=WINDOW, **more):
    """The agent as the documentation makes it."""
    names = {"model": model_at(url), "tools": [tool(read_file)], "prompt": SYSTEM, "pipeline": pipeline(window)}
    names["Agent"] = lambda *args, **given: Agent(*args, callback_handler=None, **given, **more)
    exec(documented("Strands"), names)  # noqa: S102 - the documentation's own code
    return names["agent"]


def plain_agent(url):
    kept = NullConversationManager()
    given = {"system_prompt": SYSTEM, "tools": [tool(read_file)], "callback_handler": None}
    return Agent(model_at(url), conversation_manager=kept, **given)


def test_a_plain_agent_overflows(serve):
    """Thirty tool calls do not fit the window."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    with pytest.raises(ContextWindowOverflowException, match="maximum context length"):
        plain_agent(url)(TASK)
    assert 10 < len(desk.accepted) < STEPS


def test_an_agent_fits(serve):
    """With the conversation manager they do, each request is legal, the prefix stays, and the agent keeps all."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    agent = agent_of(url)
    agent(TASK)
    check(desk)
    assert 2 * STEPS + 2 == len(agent.messages)
    results = [
        block["toolResult"] for message in agent.messages for block in message["content"] if "toolResult" in block
    ]
    assert [result["content"][0]["text"] for result in results] == [
        read_file(f"alpha_{number}.py") for number in range(1, STEPS + 1)
    ]


def test_after_an_overflow_a_smaller_request_is_sent(serve):
    """Where the model's window is smaller than the pipeline believes."""
    desk, url = serve(chat_completions, window=WINDOW, answer=reading)
    agent = agent_of(url, 10 * WINDOW)
    agent(TASK)
    assert STEPS + 1 == len(desk.accepted)
    assert STEPS + 2 == len(desk.requests)
    (session,) = agent.conversation_manager.agentctx.sessions.values()
    assert session.budget.limit <= WINDOW


def test_a_conversation_is_named_as_its_session(serve, tmp_path):
    """An agent with a session manager goes on where another one of that session stopped."""
    _, url = serve(chat_completions, answer=reading)
    manager = FileSessionManager("thread-42", storage_dir=str(tmp_path))
    agent = agent_of(url, session_manager=manager)
    agent(TASK)
    assert ["thread-42/default"] == list(agent.conversation_manager.agentctx.sessions)


@pytest.mark.anyio
async def test_what_was_billed_is_kept(serve, tmp_path):
    """With the sessions in a store, also what was billed for the last call."""
    _, url = serve(chat_completions, answer=reading)
    store, manager = MemoryStore(), FileSessionManager("thread-42", storage_dir=str(tmp_path))
    context = ContextConversationManager(sessions=Sessions(pipeline(), store))
    given = {"tools": [tool(read_file)], "callback_handler": None, "session_manager": manager}
    await Agent(model_at(url), conversation_manager=context, **given).invoke_async(TASK)
    (session,) = context.agentctx.sessions.values()
    async with Sessions(pipeline(), store).open("thread-42/default") as kept:
        assert kept.billed_tokens == session.billed_tokens > 0


def test_what_a_call_costs(serve, measured):
    """Where nothing has to be cut."""
    _, url = serve(chat_completions, QuickDesk(answer=reading))
    measured(beside("Strands", lambda: plain_agent(url)(TASK), lambda: agent_of(url, 1_000_000)(TASK)))


def messages_of(history):
    """Strands' messages of a history of Chat Completions: results that follow each other are one message."""
    made = []
    for each in history:
        if each["role"] == "tool":
            content = [{"text": each["content"]}]
            block = {"toolResult": {"toolUseId": each["tool_call_id"], "status": "success", "content": content}}
            if made[-1]["role"] == "user" and "toolResult" in made[-1]["content"][-1]:
                made[-1]["content"].append(block)
            else:
                made.append({"role": "user", "content": [block]})
            continue
        words = [{"text": each["content"]}] if each["content"] else []
        made.append({"role": each["role"], "content": [*words, *map(use_of, each.get("tool_calls", ()))]})
    return made


def use_of(call):
    """A call; Strands reads arguments that are not JSON as none."""
    arguments = call["function"]["arguments"]
    given = {} if arguments == BROKEN else json.loads(arguments)
    return {"toolUse": {"toolUseId": call["id"], "name": "read", "input": given}}


def test_every_call_goes_out(serve):
    """What Strands' model for OpenAI sends are the calls and results of the view; nothing legal is spoilt."""
    desk, url = serve(chat_completions, QuickDesk())

    def exchange(history, name, pipeline):
        client = {"base_url": f"{url}/v1", "api_key": "none", "max_retries": 0}
        manager = NullConversationManager() if pipeline is None else ContextConversationManager(pipeline)
        model, messages = OpenAIModel(client_args=client, model_id=name), messages_of(history)
        Agent(model, messages=messages, conversation_manager=manager, callback_handler=None)()
        return Exchange(desk.accepted.pop()["messages"], pipeline and manager.agentctx.view)

    def takes(_model, names):
        return len(set(names)) == len(names) and all(re.fullmatch("[a-zA-Z0-9_-]{1,64}", name) for name in names)

    every_call_goes_out(exchange, viewed="bedrock", takes=takes)
