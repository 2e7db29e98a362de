"""Agents of any kind that speak to LiteLLM's proxy fit their window."""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import anyio
import httpx
import litellm
import pytest
import pytest_socket
from anthropic import Anthropic
from every_call import Exchange, every_call_goes_out
from loop import MODEL, STEPS, SYSTEM, TASK, WINDOW, QuickDesk, check, documented, read_file, reading
from openai import BadRequestError, OpenAI

from agentctx import Budget, FitContextWindow, Pipeline, Sessions
from agentctx.frameworks.litellm_proxy import ContextLogger
from agentctx.stores import MemoryStore
from agentctx.testing.servers import Desk, chat_completions, messages, serving

START = 240
KEY = "sk-0123456789abcdef0123456789abcdef"
HOOK = """
from agentctx import Budget, FitContextWindow, Pipeline
pipeline = Pipeline(FitContextWindow(), budget=Budget(window={window}, output_reserve=500, target=0.5))
{documented}
"""


def free_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return taken.getsockname()[1]


@pytest.fixture(scope="module")
def desks():
    """The providers behind the proxies."""
    pytest_socket.enable_socket()  # a module's fixtures come before those of its tests
    desk, claude = Desk(window=WINDOW, answer=reading), Desk(window=WINDOW, answer=reading)
    with serving(chat_completions(desk)) as url, serving(messages(claude)) as claude_url:
        yield {"openai": desk, "anthropic": claude, "url": url, "claude_url": claude_url}


@pytest.fixture(scope="module")
def proxies(desks, tmp_path_factory):
    """Two proxies: a plain one, and one as the documentation makes it."""
    folder = tmp_path_factory.mktemp("proxies")
    openai = {"model": f"openai/{MODEL}", "api_base": f"{desks['url']}/v1", "api_key": "none"}
    claude = {"model": "anthropic/claude-sonnet-5", "api_base": desks["claude_url"], "api_key": "none"}
    models = [
        {"model_name": MODEL, "litellm_params": openai},
        {"model_name": "again", "litellm_params": openai},
        {"model_name": "claude", "litellm_params": claude},
    ]
    running = {name: _start(folder / name, models, ours=name == "ours") for name in ("plain", "ours")}
    try:
        for name, (process, url) in running.items():
            _wait(process, url, folder / name)
        yield {name: url for name, (_, url) in running.items()}
    finally:
        for process, _ in running.values():
            process.terminate()
        for process, _ in running.values():
            process.wait()


def _start(folder, models, *, ours):
    folder.mkdir()
    settings = {"num_retries": 0, "context_window_fallbacks": [{MODEL: ["again"]}]}
    callbacks = {"callbacks": "hook.context"} if ours else {}
    config = {"model_list": models, "litellm_settings": {**settings, **callbacks}}
    (folder / "config.yaml").write_text(json.dumps(config), encoding="utf-8")
    hook = HOOK.format(window=WINDOW, documented=documented("LiteLLM's proxy"))
    (folder / "hook.py").write_text(hook, encoding="utf-8")
    port = free_port()
    root = str(Path(__file__).parents[2])
    more = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MASTER_KEY": KEY, "PYTHONPATH": root}
    with (folder / "log.txt").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            [
                Path(sys.executable).parent / "litellm",
                "--config",
                "config.yaml",
                "--host",
                "127.0.0.1",
                "--port",
                str(port),
            ],
            cwd=folder,
            env={**os.environ, **more},
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    return process, f"http://127.0.0.1:{port}"


def _wait(process, url, folder):
    late = time.monotonic() + START
    while time.monotonic() < late and process.poll() is None:
        try:
            if httpx.get(f"{url}/health/liveliness").is_success:
                return
        except httpx.HTTPError:
            time.sleep(0.2)
    raise TimeoutError((folder / "log.txt").read_text(encoding="utf-8")[-4_000:])


@pytest.fixture
def at(proxies, desks):
    """Where a proxy is; its providers have seen nothing yet."""
    for desk in (desks["openai"], desks["anthropic"]):
        desk.requests.clear()
        desk.accepted.clear()
    return proxies.__getitem__


TOOL = {
    "type": "function",
    "function": {
        "name": "read_file",
        "description": "Read a file.",
        "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    },
}


def loop(url, task=TASK, stream=False, **more):  # noqa: FBT002 - named where it is passed
    """An agent's loop that knows nothing of us; gives its history."""
    history = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": task}]
    with OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        while True:
            given = {"model": MODEL, "messages": history, "tools": [TOOL], **more}
            if stream:
                with client.chat.completions.stream(**given) as pieces:
                    answer = pieces.get_final_completion().choices[0].message
            else:
                answer = client.chat.completions.create(**given).choices[0].message
            said = {"role": "assistant", "content": answer.content}
            calls = [
                {
                    "id": call.id,
                    "type": "function",
                    "function": {"name": "read_file", "arguments": call.function.arguments},
                }
                for call in answer.tool_calls or ()
            ]
            history.append({**said, **({"tool_calls": calls} if calls else {})})
            if not calls:
                return history
            for call in calls:
                result = read_file(**json.loads(call["function"]["arguments"]))
                history.append({"role": "tool", "tool_call_id": call["id"], "content": result})


def test_a_plain_proxy_overflows(at, desks):
    """Thirty tool calls do not fit the window."""
    with pytest.raises(BadRequestError, match="maximum context length"):
        loop(at("plain"))
    assert 10 < len(desks["openai"].accepted) < STEPS


@pytest.mark.parametrize("more", [{}, {"stream": True}, {"extra_headers": {"x-litellm-session-id": "thread-42"}}])
def test_an_agent_fits(at, desks, more):
    """With the callback they do, each request is legal, the prefix stays: by a session id, or by how it begins."""
    history = loop(at("ours"), **more)
    check(desks["openai"])
    assert 2 * STEPS + 3 == len(history)


def test_after_an_overflow_litellm_sends_a_smaller_request(at, desks):
    """Where the provider says that its window is smaller, and LiteLLM knows a model to fall back to."""
    desk = desks["openai"]

    def refusing(body):
        desk.overflows = int(len(desk.requests) == 9)
        return reading(body)

    desk.answer = refusing
    try:
        loop(at("ours"), TASK.replace("alpha", "beta"))
    finally:
        desk.answer = reading
    assert STEPS + 1 == len(desk.accepted)
    assert STEPS + 2 == len(desk.requests)
    assert len(str(desk.requests[10])) < len(str(desk.requests[9]))


def test_anthropic_messages_fit_too(at, desks):
    """Of Anthropic's own SDK, to the same proxy."""
    tool = {"name": "read_file", "input_schema": TOOL["function"]["parameters"]}
    history = [{"role": "user", "content": TASK}]
    with Anthropic(base_url=at("ours"), api_key=KEY, max_retries=0) as client:
        while history[-1]["role"] == "user":
            answer = client.messages.create(
                model="claude", max_tokens=100, system=SYSTEM, messages=history, tools=[tool]
            ).model_dump(exclude_none=True)
            history.append({"role": "assistant", "content": answer["content"]})
            results = [
                {"type": "tool_result", "tool_use_id": block["id"], "content": read_file(**block["input"])}
                for block in answer["content"]
                if block["type"] == "tool_use"
            ]
            history += [{"role": "user", "content": results}] if results else []
    check(desks["anthropic"])


def test_what_cannot_fit_is_refused_as_litellm_refuses_it(at, desks):
    """Nothing is sent."""
    with pytest.raises(BadRequestError, match="ContextWindowExceeded"):
        loop(at("ours"), task=f"{TASK} {'Mind this. ' * 10_000}")
    assert [] == desks["openai"].requests


@pytest.mark.filterwarnings("ignore:Items? .*ReadOnly")  # LiteLLM's own types, as Pydantic sees them
@pytest.mark.anyio
async def test_the_last_bill_is_in_the_store(desks, monkeypatch):
    """What LiteLLM tells its callback of the last call is saved at once: another worker knows what was billed."""
    store, made = MemoryStore(), Pipeline(FitContextWindow(), budget=Budget(window=WINDOW))
    ours = ContextLogger(sessions=Sessions(made, store))
    monkeypatch.setattr(litellm, "callbacks", [ours])
    body = {"model": f"openai/{MODEL}", "messages": [{"role": "user", "content": TASK}], "litellm_call_id": "call-1"}
    body["litellm_session_id"] = "thread-42"
    sent = await ours.async_pre_call_hook({"api_key": KEY}, None, body, "acompletion")
    del sent["litellm_session_id"]
    answer = await litellm.acompletion(**sent, api_base=f"{desks['url']}/v1", api_key="none")
    (name,) = ours.agentctx.sessions
    with anyio.fail_after(20):
        while True:  # LiteLLM logs in a task of its own
            async with Sessions(made, store).using(name) as session:
                if session.billed_tokens is not None:
                    break
            await anyio.sleep(0.02)
    assert session.billed_tokens == answer.usage.prompt_tokens


@pytest.mark.filterwarnings("ignore:.*ReadOnly:UserWarning")
def test_every_call_goes_out(serve):
    """What LiteLLM sends are the calls and results of the view; nothing legal is spoilt."""
    desk, url = serve(chat_completions, QuickDesk())

    async def send(history, name, context):
        data = {"model": name, "messages": history}
        data = data if context is None else await context.async_pre_call_hook(None, None, data, "acompletion")
        given = {"api_base": f"{url}/v1", "api_key": "none", "num_retries": 0}
        await litellm.acompletion(**{**data, "model": f"openai/{name}"}, **given)

    def exchange(history, name, pipeline):
        context = None if pipeline is None else ContextLogger(pipeline)
        anyio.run(send, history, name, context)
        return Exchange(desk.accepted.pop()["messages"], context and context.agentctx.view)

    def takes(model, names):
        has_own = any(maker in model for maker in ("kimi", "mimo", "mistral"))
        return not has_own and max(map(len, names), default=0) <= 40

    every_call_goes_out(exchange, takes=takes)
