"""Agents of Google's Agent Development Kit fit their window."""

import asyncio
import json
import logging
from operator import is_

import pytest
from every_call import BROKEN, Exchange, every_call_goes_out
from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.run_config import StreamingMode
from google.adk.apps import App
from google.adk.models.google_llm import Gemini
from google.adk.models.llm_request import LlmRequest
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import InMemoryRunner
from google.adk.sessions import InMemorySessionService, Session
from google.genai.errors import ClientError
from google.genai.types import Content, FunctionCall, FunctionResponse, GenerateContentConfig, Part
from loop import STEPS, SYSTEM, TASK, WINDOW, QuickDesk, beside, check, documented, pipeline, read_file, reading

from agentctx import Sessions
from agentctx.frameworks.google_adk import ContextPlugin
from agentctx.stores import MemoryStore
from agentctx.testing.servers import generate_content

pytestmark = pytest.mark.anyio
MODEL = "gemini-3-pro"


@pytest.fixture(autouse=True)
def key(monkeypatch):
    monkeypatch.setenv("GOOGLE_API_KEY", "none")


def agent_at(url):
    return LlmAgent(name="reader", model=Gemini(model=MODEL, base_url=url), instruction=SYSTEM, tools=[read_file])


def app_of(url, window=WINDOW):
    """The app as the documentation makes it."""
    names = {"agent": agent_at(url), "pipeline": pipeline(window), "App": App}
    exec(documented("Google ADK"), names)  # noqa: S102 - the documentation's own code
    return names["app"]


def plain_app(url):
    return App(name="reading", root_agent=agent_at(url))


async def run(app, mode=StreamingMode.NONE):
    """Run the task to its end; gives the session."""
    runner = InMemoryRunner(app=app)
    named = {"app_name": app.name, "user_id": "anna"}
    session = await runner.session_service.create_session(**named, session_id="thread-42")
    message = Content(role="user", parts=[Part(text=TASK)])
    config = RunConfig(streaming_mode=mode)
    try:
        async for _ in runner.run_async(user_id="anna", session_id=session.id, new_message=message, run_config=config):
            pass
    finally:
        await app.root_agent.model.api_client.aio.aclose()
    return await runner.session_service.get_session(**named, session_id=session.id)


async def test_a_plain_agent_overflows(serve):
    """Thirty tool calls do not fit the window."""
    desk, url = serve(generate_content, window=WINDOW, answer=reading)
    with pytest.raises(ClientError, match="exceeds the maximum number of tokens"):
        await run(plain_app(url))
    assert 10 < len(desk.accepted) < STEPS


@pytest.mark.parametrize("mode", [StreamingMode.NONE, StreamingMode.SSE])
async def test_an_agent_fits(serve, mode):
    """With the plugin they do, each request is legal, the prefix stays, and the session keeps all that was said."""
    desk, url = serve(generate_content, window=WINDOW, answer=reading)
    app = app_of(url)
    session = await run(app, mode)
    check(desk)
    results = [answer.response for event in session.events for answer in event.get_function_responses()]
    assert [{"result": read_file(f"alpha_{number}.py")} for number in range(1, STEPS + 1)] == results
    assert ["reading/anna/thread-42/reader"] == list(app.plugins[0].agentctx.sessions)


async def test_after_an_overflow_a_smaller_request_is_sent(serve):
    """Where the model's window is smaller than the pipeline believes."""
    desk, url = serve(generate_content, window=WINDOW, answer=reading)
    app = app_of(url, 10 * WINDOW)
    await run(app)
    assert STEPS + 1 == len(desk.accepted)
    assert STEPS + 2 == len(desk.requests)
    (session,) = app.plugins[0].agentctx.sessions.values()
    assert session.budget.limit <= WINDOW


async def test_what_was_billed_is_kept(serve):
    """With the sessions in a store, also what was billed for the last call."""
    _, url = serve(generate_content, answer=reading)
    store = MemoryStore()
    app = App(name="reading", root_agent=agent_at(url), plugins=[ContextPlugin(sessions=Sessions(pipeline(), store))])
    await run(app)
    (session,) = app.plugins[0].agentctx.sessions.values()
    async with Sessions(pipeline(), store).open("reading/anna/thread-42/reader") as kept:
        assert kept.billed_tokens == session.billed_tokens > 0


class Look(BasePlugin):
    """Notes what each request holds."""

    def __init__(self, name):
        super().__init__(name)
        self.seen = []

    async def before_model_callback(self, *, llm_request, **_more):
        self.seen.append(list(llm_request.contents))


async def test_what_nobody_touched_is_the_same_object(serve):
    """Contents that no stage changed are those that ADK made."""
    _, url = serve(generate_content, window=WINDOW, answer=reading)
    before, after = Look("before"), Look("after")
    ours = app_of(url)
    await run(App(name="reading", root_agent=ours.root_agent, plugins=[before, *ours.plugins, after]))
    pairs = list(zip(before.seen, after.seen, strict=True))
    first_cut = next(place for place, (given, sent) in enumerate(pairs) if given != sent)
    assert all(all(map(is_, given, sent)) for given, sent in pairs[:first_cut])
    given, sent = pairs[-1]
    kept = [content for content in sent if content in given]
    assert len(kept) > 4
    assert all(any(content is each for each in given) for content in kept)


async def test_what_the_provider_keeps_is_sent_as_it_is(caplog):
    """And the log says so."""
    caplog.set_level(logging.WARNING, "agentctx")
    request = LlmRequest(contents=[Content(role="user", parts=[Part(text=TASK)])], previous_interaction_id="before")
    plugin = app_of("http://127.0.0.1").plugins[0]
    await plugin.before_model_callback(callback_context=None, llm_request=request)
    assert "the provider keeps" in caplog.text
    assert plugin.agentctx.view is None


def test_what_a_call_costs(serve, measured):
    """Where nothing has to be cut."""
    _, url = serve(generate_content, QuickDesk(answer=reading))
    loops = [lambda: asyncio.run(run(plain_app(url))), lambda: asyncio.run(run(app_of(url, 1_000_000)))]
    measured(beside("Google ADK", *loops))


def contents_of(history):
    """ADK's contents of a history of Chat Completions: results that follow each other are one content."""
    made = []
    for each in history:
        if each["role"] == "tool":
            response = {"name": "read", "response": {"result": each["content"]}}
            part = Part(function_response=FunctionResponse(id=each["tool_call_id"], **response))
            if made[-1].role == "user" and made[-1].parts[-1].function_response:
                made[-1].parts.append(part)
            else:
                made.append(Content(role="user", parts=[part]))
            continue
        words = [Part(text=each["content"])] if each["content"] else []
        role = "model" if each["role"] == "assistant" else "user"
        made.append(Content(role=role, parts=[*words, *map(part_of, each.get("tool_calls", ()))]))
    return made


def part_of(call):
    """A call; Gemini has none whose arguments are not JSON."""
    arguments = call["function"]["arguments"]
    given = {"broken": BROKEN} if arguments == BROKEN else json.loads(arguments)
    return Part(function_call=FunctionCall(id=call["id"], name="read", args=given))


def test_every_call_goes_out(serve):
    """What ADK's ``Gemini`` sends are the calls and results of the view; nothing legal is spoilt."""
    desk, url = serve(generate_content, QuickDesk())

    async def send(history, name, plugin):
        model = Gemini(model=name, base_url=url)
        session = Session(id="thread-42", app_name="reading", user_id="anna")
        asked = {"session_service": InMemorySessionService(), "invocation_id": "one", "session": session}
        context = CallbackContext(InvocationContext(agent=LlmAgent(name="reader"), **asked))
        request = LlmRequest(model=name, contents=contents_of(history), config=GenerateContentConfig())
        try:
            if plugin is not None:
                await plugin.before_model_callback(callback_context=context, llm_request=request)
            async for _ in model.generate_content_async(request):
                pass
        finally:
            await model.api_client.aio.aclose()

    def exchange(history, name, pipeline):
        plugin = None if pipeline is None else ContextPlugin(pipeline)
        asyncio.run(send(history, name, plugin))
        return Exchange(desk.accepted.pop()["contents"], plugin and plugin.agentctx.view)

    every_call_goes_out(exchange, spoken="gemini", models=["gemini-2.5-pro", "gemini-3-pro"])
