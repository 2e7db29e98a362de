# ruff: noqa: PLC0415 - each framework is imported where it is used
"""Write the frameworks' fixtures anew, by the frameworks themselves: each runs an agent with a tool, scripted.

In an environment of its own, without a network: ``uv venv DUMPS``, ``uv pip install --python DUMPS/bin/python
langchain-core langgraph pydantic-ai-slim openai-agents inspect-ai``, ``DUMPS/bin/python make_dumps.py``.
"""

import asyncio
import json
import os
import shutil
import tempfile
from pathlib import Path

FIXTURES = Path(__file__).parent / "fixtures"
TASK = "Find out why the build fails."
ANSWER = "A comma is missing in a.py."
PROMPT = "You mend software."


def write(name, value):
    """Write a fixture as one document."""
    text = value if isinstance(value, str) else json.dumps(value)
    (FIXTURES / name).write_text(text + "\n", encoding="utf-8")


def langchain():
    """``messages_to_dict`` and ``dumpd`` of one conversation, and one with Claude's content blocks."""
    from langchain_core.load import dumpd
    from langchain_core.messages import AIMessage, HumanMessage, SystemMessage, ToolMessage, messages_to_dict

    usage = {"input_tokens": 90, "output_tokens": 12, "total_tokens": 102, "input_token_details": {"cache_read": 64}}
    calls = [{"name": "read", "args": {"path": name}, "id": f"call_{name}"} for name in ("a.py", "b.py")]
    named = {"model_name": "gpt-5.4", "finish_reason": "stop"}
    messages = [
        SystemMessage(PROMPT),
        HumanMessage(TASK),
        AIMessage("", tool_calls=calls, usage_metadata=usage, response_metadata=named),
        ToolMessage("print('a' 'b'", tool_call_id="call_a.py", name="read"),
        ToolMessage("import a", tool_call_id="call_b.py", name="read"),
        AIMessage(ANSWER, usage_metadata=usage, response_metadata=named),
    ]
    write("langchain.json", messages_to_dict(messages))
    write("langchain_dumpd.json", dumpd(messages))
    blocks = [
        {"type": "thinking", "thinking": "One file.", "signature": "c2lnbmVk"},
        {"type": "text", "text": "I look."},
        {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {"path": "a.py"}},
    ]
    call = {"name": "read", "args": {"path": "a.py"}, "id": "toolu_1"}
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
    write(
        "langchain_claude.json",
        messages_to_dict(
            [
                HumanMessage([{"type": "text", "text": TASK}, image]),
                AIMessage(blocks, tool_calls=[call], response_metadata={"model_name": "claude-opus-4-5"}),
                ToolMessage("print('a' 'b'", tool_call_id="toolu_1", status="error"),
                AIMessage([{"type": "text", "text": ANSWER}]),
            ]
        ),
    )
    return messages


def langgraph(messages):
    """A state as a snapshot and as a checkpoint, from a graph that ran."""
    from langchain_core.load import dumpd
    from langgraph.checkpoint.memory import InMemorySaver
    from langgraph.graph import START, MessagesState, StateGraph

    graph = StateGraph(MessagesState)
    graph.add_node("agent", lambda _: {"messages": messages[2:]})
    graph.add_edge(START, "agent")
    saver = InMemorySaver()
    compiled = graph.compile(checkpointer=saver)
    config = {"configurable": {"thread_id": "thread-42"}}
    compiled.invoke({"messages": messages[:2]}, config)
    state = compiled.get_state(config)
    values = {"messages": [message.model_dump() for message in state.values["messages"]]}
    write("langgraph_state.json", {**state._asdict(), "values": values, "tasks": [], "interrupts": []})
    checkpoint = saver.get(config)
    held = {"messages": dumpd(checkpoint["channel_values"]["messages"])}
    write("langgraph_checkpoint.json", {**checkpoint, "channel_values": held})
    history = [
        {**one._asdict(), "values": dumpd(one.values), "tasks": []} for one in compiled.get_state_history(config)
    ]
    write("langgraph_history.json", history)


def pydantic_ai():
    """All messages of a run with a tool that asks to be called again, as JSON."""
    from pydantic_ai import (
        Agent,
        BinaryContent,
        ModelResponse,
        ModelRetry,
        RequestUsage,
        TextPart,
        ThinkingPart,
        ToolCallPart,
    )
    from pydantic_ai.models.function import FunctionModel

    usage = RequestUsage(input_tokens=90, cache_read_tokens=64, output_tokens=12)

    def answer(messages, _info):
        if len(messages) == 1:
            calls = [ToolCallPart("read", {"path": name}, tool_call_id=f"call_{name}") for name in ("a.py", "b.py")]
            return ModelResponse(
                [ThinkingPart("Two files."), TextPart("I look."), *calls], usage=usage, model_name="gpt-5.4"
            )
        if len(messages) == 3:
            again = ToolCallPart("read", '{"path": "b.py"}', tool_call_id="call_again")
            return ModelResponse([again], usage=usage, model_name="gpt-5.4")
        return ModelResponse([TextPart(ANSWER)], usage=usage, model_name="gpt-5.4")

    agent = Agent(FunctionModel(answer), system_prompt=PROMPT, instructions="Be brief.")
    tries = []

    @agent.tool_plain(retries=2)
    def read(path: str) -> str:
        tries.append(path)
        if path == "b.py" and tries.count(path) == 1:
            raise ModelRetry("try again")  # noqa: TRY003 - as its documentation does
        return f"import {path}"

    picture = BinaryContent(b"\x89PNG\r\n\x1a\n", media_type="image/png")
    result = agent.run_sync([TASK, picture])
    write("pydantic_ai.json", result.all_messages_json().decode())


async def openai_agents():
    """``to_input_list()`` of a run, and the items of a session as the session gives them."""
    from agents import Agent, Model, ModelResponse, RunConfig, Runner, SQLiteSession, Usage, function_tool
    from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

    class Scripted(Model):
        answers = 0

        async def get_response(self, *_args, **_kwargs):
            self.answers += 1
            if self.answers == 1:
                call = {"call_id": "call_1", "name": "read", "arguments": '{"path": "a.py"}', "type": "function_call"}
                return ModelResponse([ResponseFunctionToolCall(**call, id="fc_1")], Usage(), "resp_1")
            text = ResponseOutputText(text=ANSWER, type="output_text", annotations=[])
            said = {"id": "msg_1", "role": "assistant", "type": "message", "status": "completed"}
            return ModelResponse([ResponseOutputMessage(**said, content=[text])], Usage(), "resp_2")

        def stream_response(self, *_args, **_kwargs):
            raise NotImplementedError

    @function_tool
    def read(path: str) -> str:
        """Read a file."""
        return f"import {path}"

    agent = Agent("mender", instructions=PROMPT, tools=[read], model=Scripted())
    session = SQLiteSession("thread-42")
    result = await Runner.run(agent, TASK, session=session, run_config=RunConfig(tracing_disabled=True))
    write("openai_agents.json", result.to_input_list())
    write("openai_agents_session.json", await session.get_items())
    write("openai_agents_state.json", result.to_state().to_json())
    items = [
        {"agent": item.agent.name, "raw_item": _plain(item.raw_item), "type": item.type} for item in result.new_items
    ]
    write("openai_agents_items.json", items)


def _plain(item):
    return item.model_dump(exclude_unset=True) if hasattr(item, "model_dump") else item


def inspect():
    """A log of two samples in both formats, with a tool call, reasoning, and a long text kept apart."""
    from inspect_ai import Task, eval as evaluate
    from inspect_ai.dataset import Sample
    from inspect_ai.log import write_eval_log
    from inspect_ai.model import ChatMessageAssistant, ContentReasoning, ContentText, ModelOutput, ModelUsage, get_model
    from inspect_ai.solver import generate, system_message, use_tools
    from inspect_ai.tool import tool

    @tool
    def read():
        async def execute(path: str):
            """Read a file.

            Args:
                path: Which.
            """
            return f"import {path}\n" + "x = 1\n" * 20

        return execute

    def outputs():
        for _ in range(2):
            call = ModelOutput.for_tool_call("mockllm/model", "read", {"path": "a.py"}, content="I look.")
            call.usage = ModelUsage(input_tokens=90, output_tokens=12, total_tokens=102)
            yield call
            parts = [ContentReasoning(reasoning="One file.", signature="c2lnbmVk"), ContentText(text=ANSWER)]
            done = ModelOutput.from_message(ChatMessageAssistant(content=parts, model="mockllm/model"))
            done.usage = ModelUsage(input_tokens=190, output_tokens=9, total_tokens=199)
            yield done

    task = Task(
        dataset=[Sample(input=TASK, target="a comma"), Sample(input=TASK, target="a comma")],
        solver=[system_message(PROMPT), use_tools(read()), generate()],
        name="builds",
    )
    with tempfile.TemporaryDirectory() as folder:
        model = get_model("mockllm/model", custom_outputs=list(outputs()))
        options = {"display": "none", "log_realtime": False, "max_samples": 1, "max_connections": 1}
        (log,) = evaluate(task, model=model, log_dir=folder, log_format="eval", **options)
        shutil.copy(log.location.removeprefix("file://"), FIXTURES / "inspect.eval")
        write_eval_log(log, str(FIXTURES / "inspect.json"), format="json")


if __name__ == "__main__":
    os.environ["OPENAI_AGENTS_DISABLE_TRACING"] = "1"
    FIXTURES.mkdir(exist_ok=True)
    langgraph(langchain())
    pydantic_ai()
    asyncio.run(openai_agents())
    inspect()
