"""smolagents' agents fit their window."""

import json
import re
from ast import literal_eval
from functools import partial
from operator import is_

import pytest
from every_call import BROKEN, Exchange, every_call_goes_out
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
from PIL import Image
from smolagents import CodeAgent, OpenAIModel, ToolCallingAgent, tool
from smolagents.models import ChatMessage, MessageRole
from smolagents.utils import AgentGenerationError

import agentctx
from agentctx import Budget, ConfigError, Pipeline
from agentctx.frameworks.smolagents import ContextModel
from agentctx.strategies import ShrinkArguments
from agentctx.testing.servers import Said, chat_completions


def model_at(url, name=MODEL):
    return OpenAIModel(name, api_base=f"{url}/v1", api_key="none", client_kwargs={"max_retries": 0})


def answering(body):
    """As ``reading``, with the tool that ends a run of smolagents."""
    said = reading(body)
    return said if said.calls else Said("", calls=(("final_answer", {"answer": said.text}),))


def agent_of(url, window=WINDOW, **more):
    """The agent as the documentation makes it."""
    names = {"model": model_at(url), "tools": [tool(read_file)], "prompt": SYSTEM, "pipeline": pipeline(window)}
    names["ToolCallingAgent"] = lambda *args, **given: ToolCallingAgent(*args, **given, **quiet(more))
    exec(documented("smolagents"), names)  # noqa: S102 - the documentation's own code
    return names["agent"]


def plain_agent(url):
    return ToolCallingAgent([tool(read_file)], model_at(url), instructions=SYSTEM, **quiet({}))


def quiet(more):
    return {"max_steps": STEPS + 10, "verbosity_level": -1, **more}


def test_a_plain_agent_overflows(serve):
    """Thirty tool calls do not fit the window."""
    desk, url = serve(chat_completions, window=WINDOW, answer=answering)
    with pytest.raises(AgentGenerationError, match="maximum context length"):
        plain_agent(url).run(TASK)
    assert 10 < len(desk.accepted) < STEPS


@pytest.mark.parametrize("stream", [False, True])
def test_an_agent_fits(serve, stream):
    """With the model they do, each request is legal, the prefix stays, and the memory keeps all that was said."""
    desk, url = serve(chat_completions, window=WINDOW, answer=answering)
    agent = agent_of(url, stream_outputs=stream)
    assert agent.run(TASK) == "All are read: done."
    check(desk)
    assert [read_file(f"alpha_{number}.py") for number in range(1, STEPS + 1)] == [
        step.observations for step in agent.memory.steps[1 : STEPS + 1]
    ]


def test_old_observations_go_and_the_task_stays(serve):
    """Observations are known as results of tools: the task, sent under the same role, is never among what is cut."""
    desk, url = serve(chat_completions, window=WINDOW, answer=answering)
    agent_of(url).run(TASK)
    last = desk.accepted[-1]["messages"]
    assert TASK in str(last[1])
    assert read_file(f"alpha_{STEPS}.py") in last[-1]["content"][0]["text"]
    assert read_file("alpha_1.py") not in str(last)


def test_what_nobody_touched_is_the_same_object(serve):
    """Messages that no stage changed are those that the agent made."""
    _, url = serve(chat_completions, window=WINDOW, answer=answering)
    agent = agent_of(url)
    seen = []
    plain, agent.model.model.generate = agent.model.model.generate, None
    agent.model.model.generate = lambda messages, **more: (seen.append(messages), plain(messages, **more))[1]
    agent.run(TASK)
    given = [step.model_input_messages for step in agent.memory.steps[1:]]
    kept = [
        sum(any(map(partial(is_, each), before)) for each in sent) for before, sent in zip(given, seen, strict=True)
    ]
    assert len(given[3]) == kept[3] == len(seen[3])
    assert len(seen[-1]) > kept[-1] > 4


def test_after_an_overflow_a_smaller_request_is_sent(serve):
    """Where the model's window is smaller than the pipeline believes."""
    desk, url = serve(chat_completions, window=WINDOW, answer=answering)
    agent = agent_of(url, 10 * WINDOW)
    agent.run(TASK)
    assert STEPS + 1 == len(desk.accepted)
    assert STEPS + 2 == len(desk.requests)


def coding(body):
    """A model that writes code instead of calling tools."""
    said = answering(body)
    name, arguments = said.calls[0]
    values = ", ".join(map(repr, arguments.values()))
    code = f"look({values})" if name == "read_file" else f"final_answer({values})"
    return Said(f"Thought: I look.\n<code>\n{code}\n</code>")


def test_code_agents_fit_too(serve):
    """With errors and pictures among what they observe."""
    desk, url = serve(chat_completions, window=WINDOW, answer=coding)

    @tool
    def look(path: str) -> str:
        """Look into a file.

        Args:
            path: Where it stands.
        """
        if path == "alpha_3.py":
            raise ValueError(path)
        print(read_file(path))  # noqa: T201 - what a code agent observes
        return ""

    def picture(step, agent):
        step.observations_images = [Image.new("RGB", (64, 64), step.step_number)] if step.step_number == 2 else None

    ours = agent_of(url)
    agent = CodeAgent([look], ours.model, instructions=SYSTEM, step_callbacks=[picture], **quiet({}))
    assert "All are read: done." == agent.run(TASK)
    assert STEPS + 1 == len(desk.accepted) == len(desk.requests)
    assert 1 == str(desk.accepted[4]).count("'type': 'image_url'")


def test_long_arguments_of_old_calls_are_cut(serve):
    """And written as smolagents writes a call: of one that it calls by name, and of code."""
    _, url = serve(chat_completions, answer=lambda _body: Said("Yes."))
    seen, model = [], model_at(url)

    def said(role, text):
        return ChatMessage(role, [{"type": "text", "text": text}])

    messages = [said(MessageRole.SYSTEM, "You write."), said(MessageRole.USER, "Write.")]
    for number, arguments in enumerate([{"path": "a.py", "content": "line\n" * 400}, "x = 1\n" * 400] * 3):
        call = {"id": f"call_{number}", "type": "function", "function": {"name": "write", "arguments": arguments}}
        messages += [said(MessageRole.TOOL_CALL, f"Calling tools:\n{[call]}"), said(MessageRole.TOOL_RESPONSE, "ok")]
    generate, model.generate = model.generate, lambda sent, **_more: (seen.extend(sent), generate(sent))[1]
    ContextModel(model, Pipeline(ShrinkArguments(1), budget=Budget(window=5_000, trigger=0.5))).generate(messages)
    calls = [message.content[0]["text"] for message in seen if message.role == MessageRole.TOOL_CALL]
    assert len(calls[-1]) > 2_000 > len(calls[0])
    assert all(call.startswith("Calling tools:\n[{'id': 'call_") for call in calls)
    assert "a.py" == literal_eval(calls[0].partition("\n")[2])[0]["function"]["arguments"]["path"]
    assert messages[-1] is seen[-1]


def test_what_a_call_costs(serve, measured):
    """Where nothing has to be cut."""
    _, url = serve(chat_completions, QuickDesk(answer=answering))
    measured(beside("smolagents", lambda: plain_agent(url).run(TASK), lambda: agent_of(url, 1_000_000).run(TASK)))


@pytest.mark.parametrize("model", ["gpt-5.4", None])
def test_a_model_s_name_is_no_model(model):
    """What it cannot call it says at once, and what it is to be given."""
    with pytest.raises(ConfigError, match=r"^\w+\.\w+ must be the framework's own object, which has \w+\(\), got "):
        ContextModel(model, pipeline())


def messages_of(history):
    """Smolagents' messages of a history of Chat Completions: the results of a turn are one observation."""
    made = []
    for each in history:
        if each["role"] == "user":
            made.append(ChatMessage(MessageRole.USER, [{"type": "text", "text": each["content"]}]))
        elif each["role"] == "tool":
            if made[-1].role is MessageRole.TOOL_RESPONSE:
                made[-1].content[0]["text"] += "\n" + each["content"]
            else:
                made.append(ChatMessage(MessageRole.TOOL_RESPONSE, [{"type": "text", "text": each["content"]}]))
        else:
            calls = "Calling tools:\n" + str([call_of(call) for call in each["tool_calls"]])
            said = ChatMessage(MessageRole.ASSISTANT, [{"type": "text", "text": each["content"] or ""}])
            made += [said, ChatMessage(MessageRole.TOOL_CALL, [{"type": "text", "text": calls}])]
    return made


def call_of(call):
    arguments = call["function"]["arguments"]
    given = arguments if arguments == BROKEN else json.loads(arguments)
    return {"id": call["id"], "type": "function", "function": {"name": "read", "arguments": given}}


def test_every_call_goes_out(serve):
    """Smolagents sends calls and observations as text: it is that of the view, and nothing is lost of it."""
    desk, url = serve(chat_completions, QuickDesk())

    def exchange(history, name, pipeline):
        model = model_at(url, name)
        model = model if pipeline is None else ContextModel(model, pipeline)
        model.generate(messages_of(history))
        return Exchange(desk.accepted.pop()["messages"], pipeline and model.agentctx.view)

    def read(natives, _spoken):
        marks = re.findall(r"(file|result) (\d+\.\d+)", json.dumps(natives))
        return [(kind, number, "") for kind, number in marks]

    every_call_goes_out(exchange, read=read)


def test_a_model_takes_the_http_client(serve):
    """``OpenAIModel`` that is given the HTTP client sends what fits, with no hook at all."""
    desk, url = serve(chat_completions, window=WINDOW)
    with agentctx.http_client(pipeline(WINDOW)) as client:
        model = OpenAIModel(MODEL, api_base=f"{url}/v1", api_key="none", client_kwargs={"http_client": client})
        history = [ChatMessage(MessageRole(message["role"]), message["content"]) for message in TOO_LONG]
        answer = model.generate(history)
    assert answer.content == "Done."
    assert len(desk.accepted[0]["messages"]) < len(history)
    assert len(desk.requests) == 1
