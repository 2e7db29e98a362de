"""Inspect's agents fit their window."""

import json

import anyio
import pytest
import tiktoken.registry
from every_call import BROKEN, MODELS, Exchange, every_call_goes_out
from inspect_ai import Task, eval as evaluate
from inspect_ai.agent import as_solver, react
from inspect_ai.dataset import Sample
from inspect_ai.model import (
    ChatMessageAssistant,
    ChatMessageTool,
    ChatMessageUser,
    ContentImage,
    ContentReasoning,
    ContentText,
    get_model,
)
from inspect_ai.tool import ToolCall, tool
from loop import MODEL, STEPS, SYSTEM, TASK, WINDOW, QuickDesk, beside, check, documented, pipeline, read_file, reading

from agentctx import Budget, ConfigError, FitContextWindow, Pipeline, Sessions
from agentctx.frameworks.calls import Piece
from agentctx.frameworks.inspect_ai import ContextCompaction, ContextModel, _pieces_of, _write
from agentctx.stores import MemoryStore
from agentctx.testing.servers import Said, chat_completions
from agentctx.tokens.tiktoken import encoding

# What Inspect does by itself: an older name of tenacity's, and streams that it leaves open.
pytestmark = [
    pytest.mark.filterwarnings("ignore:The 'initial' parameter is deprecated:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:Unclosed <Memory:ResourceWarning"),
]


@tool(name="read_file")
def reader():
    async def execute(path: str) -> str:
        """Read a file.

        Args:
            path: Where it stands.
        """
        return read_file(path)

    return execute


def answering(body):
    """As ``reading``, with the tool that ends a sample."""
    said = reading(body)
    return said if said.calls else Said("", calls=(("submit", {"answer": said.text}),))


def agent_of(window=WINDOW):
    """The agent as the documentation makes it, and its hook."""
    names = {"tools": [reader()], "prompt": SYSTEM, "pipeline": pipeline(window), "react": react}
    exec(documented("Inspect"), names)  # noqa: S102 - the documentation's own code
    return names["agent"], names["model"]


def run(agent, url, folder, samples=1):
    """Evaluate samples; gives them."""
    model = get_model(f"openai/{MODEL}", base_url=f"{url}/v1", api_key="none", responses_api=False, max_retries=0)
    task = Task(dataset=[Sample(input=TASK) for _ in range(samples)], solver=as_solver(agent))
    (log,) = evaluate(task, model=model, log_dir=str(folder), display="none")
    assert log.status == "success", log.error
    return log.samples


def plain_agent(**more):
    return react(tools=[reader()], prompt=SYSTEM, **more)


def test_a_plain_agent_overflows(serve, tmp_path):
    """Thirty tool calls do not fit the window."""
    desk, url = serve(chat_completions, window=WINDOW, answer=answering)
    (sample,) = run(plain_agent(), url, tmp_path)
    assert "model_length" == sample.output.stop_reason
    assert 10 < len(desk.accepted) < STEPS


def test_an_agent_fits(serve, tmp_path):
    """With the model they do, each request is legal, the prefix stays, and the sample keeps all that was said."""
    desk, url = serve(chat_completions, window=WINDOW, answer=answering)
    agent, model = agent_of()
    (sample,) = run(agent, url, tmp_path)
    check(desk)
    assert [read_file(f"alpha_{number}.py") for number in range(1, STEPS + 1)] == [
        message.text for message in sample.messages if message.role == "tool"
    ]
    ((name, session),) = model.agentctx.sessions.items()
    assert sample.uuid == name
    assert session.billed_tokens


def test_what_was_billed_is_kept(serve, tmp_path):
    """With the sessions in a store, also what was billed for the last call."""
    _, url = serve(chat_completions, answer=answering)
    store = MemoryStore()
    model = ContextModel(sessions=Sessions(pipeline(), store))
    (sample,) = run(react(tools=[reader()], prompt=SYSTEM, model=model.agent()), url, tmp_path)
    kept = Sessions(pipeline(), store)

    async def billed():
        async with kept.open(sample.uuid) as session:
            return session.billed_tokens

    assert anyio.run(billed) == model.agentctx.sessions[sample.uuid].billed_tokens > 0


def test_samples_at_once(serve, tmp_path):
    """Each in a session of its own, also where all begin alike."""
    desk, url = serve(chat_completions, window=WINDOW, answer=answering)
    agent, model = agent_of()
    samples = run(agent, url, tmp_path, 3)
    assert 3 * (STEPS + 1) == len(desk.accepted) == len(desk.requests)
    assert {sample.uuid: STEPS + 1 for sample in samples} == {
        name: session.steps for name, session in model.agentctx.sessions.items()
    }


def test_after_an_overflow_a_smaller_request_is_sent(serve, tmp_path):
    """Where the model's window is smaller than the pipeline believes."""
    desk, url = serve(chat_completions, window=WINDOW, answer=answering)
    agent, _ = agent_of(10 * WINDOW)
    run(agent, url, tmp_path)
    assert STEPS + 1 == len(desk.accepted)
    assert STEPS + 2 == len(desk.requests)


@pytest.mark.parametrize(("window", "threshold"), [(WINDOW, 0.8 * WINDOW), (10 * WINDOW, 0.8 * WINDOW)])
def test_a_compaction_fits(serve, tmp_path, monkeypatch, window, threshold):
    """When Inspect asks for it, also where the pipeline itself has room; Inspect's log tells of it."""
    monkeypatch.setitem(tiktoken.registry.ENCODINGS, "o200k_base", encoding("o200k_base"))  # else it is downloaded
    desk, url = serve(chat_completions, window=WINDOW, answer=answering)
    budget = Budget(window=window, output_reserve=2_000, target=0.5)
    compaction = ContextCompaction(Pipeline(FitContextWindow(), budget=budget), threshold=int(threshold))
    (sample,) = run(plain_agent(compaction=compaction), url, tmp_path)
    check(desk)
    assert "compaction" in {event.event for event in sample.events}
    (session,) = compaction.agentctx.sessions.values()
    assert 0.9 * threshold < session.budget.limit <= threshold  # what Inspect counts is the prompt, without the answer


@pytest.mark.parametrize("threshold", [0, -1, float("nan"), "0.9", True])
def test_a_threshold_is_a_number_above_0(threshold):
    """Anything else is refused at once."""
    with pytest.raises(
        ConfigError,
        match=r"^ContextCompaction\.threshold must be a number of tokens, or a share of the window, above 0, got ",
    ):
        ContextCompaction(pipeline(), threshold=threshold)


def test_blocks_come_back_as_they_were():
    """Of a message that is changed, what no stage touched stays, under another id."""
    call, other = ToolCall(id="call_1", function="look", arguments={"path": "a"}), ToolCall("call_2", "look", {})
    image, thought = ContentImage(image="http://127.0.0.1/a.png"), ContentReasoning(reasoning="Hm.")
    said = ChatMessageAssistant(content=[thought, ContentText(text="I look.")], tool_calls=[call, other])
    result = ChatMessageTool(content="word " * 500, tool_call_id="call_1", function="look")
    asked = ChatMessageUser(content=[ContentText(text="Look."), image])

    (native,) = _pieces_of(said)
    left = _write(said, [Piece(0, {**native, "tool_calls": native["tool_calls"][:1]}, native)])
    assert [call] == left.tool_calls
    assert left.content == said.content
    assert left.id != said.id
    (native,) = _pieces_of(result)
    short = _write(result, [Piece(0, {**native, "content": "short"}, native)])
    assert ("short", "call_1", "look") == (short.text, short.tool_call_id, short.function)
    (native,) = _pieces_of(asked)
    changed = _write(
        asked, [Piece(0, {**native, "content": [{"type": "text", "text": "Look!"}, native["content"][1]]}, native)]
    )
    assert {"Look!", image.image} == {getattr(block, "text", None) or block.image for block in changed.content}


def messages_of(history):
    """Inspect's messages of a history of Chat Completions."""
    made = []
    for each in history:
        if each["role"] == "user":
            made.append(ChatMessageUser(content=each["content"]))
        elif each["role"] == "tool":
            made.append(ChatMessageTool(content=each["content"], tool_call_id=each["tool_call_id"], function="read"))
        else:
            calls = [call_of(call["id"], call["function"]["arguments"]) for call in each["tool_calls"]]
            made.append(ChatMessageAssistant(content=each["content"] or "", tool_calls=calls))
    return made


def call_of(name, arguments):
    """A call; where the arguments are not JSON, Inspect notes the error and keeps none."""
    if arguments == BROKEN:
        return ToolCall(id=name, function="read", arguments={}, parse_error="no JSON")
    return ToolCall(id=name, function="read", arguments=json.loads(arguments))


def test_every_call_goes_out(serve):
    """What Inspect sends are the calls and results of the view; nothing legal is spoilt."""
    desk, url = serve(chat_completions, QuickDesk())

    def exchange(history, name, pipeline):
        given = {"api_key": "none", "max_retries": 0, "memoize": False}
        model = get_model(f"openai-api/local/{name}", base_url=f"{url}/v1", **given)
        context = model if pipeline is None else ContextModel(pipeline, model=model)
        anyio.run(context.generate, messages_of(history))
        return Exchange(desk.accepted.pop()["messages"], pipeline and context.agentctx.view)

    every_call_goes_out(exchange, models=[name for name in MODELS if "/" not in name])


def test_what_a_call_costs(serve, tmp_path, measured):
    """Where nothing has to be cut."""
    _, url = serve(chat_completions, QuickDesk(answer=answering))
    loops = [lambda: run(plain_agent(), url, tmp_path), lambda: run(agent_of(1_000_000)[0], url, tmp_path)]
    measured(beside("Inspect", *loops))
