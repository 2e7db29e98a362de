"""Law 11 through wrapped clients: composing stages changes nothing of what is sent, reported and told."""

from contextlib import nullcontext

import anthropic
import boto3
import openai
import pytest
from both_kinds import now
from client_histories import FILLER, chat, claude, converse, gemini, items
from geminis import gemini_client
from google import genai
from google.genai import types

import agentctx
from agentctx import Budget, ClearToolResults, FitContextWindow, Pipeline, TruncateToolOutputs, first_of, when, wrap
from agentctx.testing import Recorder, servers as at

BUDGET = Budget(1_500, trigger=0.9, target=0.4)
STEPS = (4, 9, 12, 3, 14)
STAGES = TruncateToolOutputs(max_tokens=60), ClearToolResults(2), FitContextWindow()


def yes(_context, _call):
    """Always."""
    return True


COMPOSED = {
    "nested": [Pipeline(Pipeline(*STAGES))],
    "all of them": [when(yes, Pipeline(STAGES[0])), when(yes, first_of(STAGES[1]), Pipeline(STAGES[2]))],
}


def called(client, form, history):
    """One model call in the words of the client's SDK."""
    if form == "openai-chat":
        return client.chat.completions.create(model="gpt-5.4", messages=with_tools(history))
    if form == "openai-responses":
        return client.responses.create(model="gpt-5.4", input=history)
    if form == "anthropic":
        return client.messages.create(model="claude-sonnet-5-5", max_tokens=50, messages=history)
    if form == "gemini":
        return client.models.generate_content(model="gemini-2.5-pro", contents=history)
    return client.converse(modelId="us.anthropic.claude-sonnet-5-5", messages=history)


def with_tools(history):
    """The same with a call and its result after each answer."""
    messages = []
    for place, message in enumerate(history):
        messages.append(message)
        if message["role"] == "assistant":
            name = f"c{place}"
            call = {"id": name, "type": "function", "function": {"name": "read", "arguments": f'{{"n": {place}}}'}}
            messages[-1] = {**message, "tool_calls": [call]}
            messages.append({"role": "tool", "tool_call_id": name, "content": FILLER})
    return messages


FORMS = {
    "openai-chat": (at.chat_completions, chat),
    "openai-responses": (at.responses, items),
    "anthropic": (at.messages, claude),
    "gemini": (at.generate_content, gemini),
    "bedrock": (at.converse, converse),
}


def clients(form, url):
    """The SDK's clients of both kinds, where there are two."""
    options = {"api_key": "none", "max_retries": 0}
    if form.startswith("openai"):
        return [kind(base_url=f"{url}/v1", **options) for kind in (openai.OpenAI, openai.AsyncOpenAI)]
    if form == "anthropic":
        return [kind(base_url=url, **options) for kind in (anthropic.Anthropic, anthropic.AsyncAnthropic)]
    if form == "gemini":
        return [gemini_client(url)]
    keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
    return [boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=url, **keys)]


def preparing(client, form, url, closing, pipeline, **belonging):
    """A client whose calls are prepared, and what belongs to it."""
    if form != "gemini":
        wrapped = wrap(client, pipeline, **belonging)
        return wrapped, agentctx.of(wrapped)
    http_client = closing(agentctx.http_client(pipeline, **belonging))
    options = types.HttpOptions(base_url=url, httpx_client=http_client)
    return genai.Client(api_key="none", http_options=options), agentctx.of(http_client)


async def told(pipeline, client, desk, url, closing, form, belonging):
    """What is sent in some calls of a growing history that goes back once, and what is said of each."""
    heard, seen, make = Recorder(), [], FORMS[form][1]
    session = pipeline.session(on_compact=heard) if belonging != "nothing" else None
    wrapped, prepared = preparing(
        client, form, url, closing, pipeline, **({"session": session} if belonging == "session" else {})
    )
    desk.requests.clear()
    with session if belonging == "block" else nullcontext():
        for rounds in STEPS:
            await now(called(wrapped, form, make(rounds)))
            report = prepared.report
            stages = [(stage.stage, stage.notes, stage.changes) for stage in report.stages]
            seen.append((stages, report.changes, report.in_force, report.tokens_after))
    return [*desk.requests], seen, [str(event) for event in heard.events]


@pytest.mark.filterwarnings("ignore:a model call of a wrapped client goes on")
@pytest.mark.parametrize(
    ("form", "belonging", "anyio_backend"),
    [
        *((form, belonging, "asyncio") for form in FORMS for belonging in ("session", "nothing")),
        ("openai-chat", "block", "trio"),
        ("anthropic", "session", "trio"),
    ],
)
async def test_composed_pipelines_send_what_flat_ones_send(serve, closing, form, belonging):
    """However stages are put together: the same requests, reports and events, of sync and async clients."""
    desk, url = serve(FORMS[form][0])
    for client in clients(form, url):
        closing(client)
        alone = await told(Pipeline(*STAGES, budget=BUDGET), client, desk, url, closing, form, belonging)
        assert len(alone[0]) == len(STEPS)
        assert any(changes for _, changes, _, _ in alone[1])
        for name, stages in COMPOSED.items():
            assert alone == await told(Pipeline(*stages, budget=BUDGET), client, desk, url, closing, form, belonging), (
                name
            )


@pytest.mark.anyio
@pytest.mark.parametrize("form", FORMS)
async def test_the_last_view_tells_where_its_messages_came_from(serve, closing, form):
    """``origins`` of a wrapped client's last view are places in the list that its method was called with."""
    _desk, url = serve(FORMS[form][0])
    client, *_ = clients(form, url)
    closing(client)
    pipeline = Pipeline(*STAGES, budget=BUDGET)
    wrapped, prepared = preparing(client, form, url, closing, pipeline, session=pipeline.session())
    for rounds in STEPS:
        history = FORMS[form][1](rounds)
        await now(called(wrapped, form, history))
        view = prepared.view
        touched = {change.index for change in view.report.in_force}
        passed = with_tools(history) if form == "openai-chat" else history
        pairs = [*zip(view.messages, view.origins, strict=True)]
        assert [message for message, origin in pairs if origin not in touched] == [
            passed[origin] for _, origin in pairs if origin not in touched
        ]
        assert {*range(len(passed))} - {*view.origins} <= touched
    assert len(view.origins) < len(passed)
