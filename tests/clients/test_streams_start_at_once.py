"""A stream starts as soon as the plain client's would, and is restarted all the same: the real SDKs, over HTTP."""

import json
from threading import Event

import anyio
import pytest
from anthropic import Anthropic, AsyncAnthropic
from both_kinds import listed, now
from client_histories import chat, claude, items
from openai import AsyncOpenAI, OpenAI
from starlette.applications import Starlette
from starlette.responses import StreamingResponse
from starlette.routing import Route

import agentctx
from agentctx import wrap

pytestmark = pytest.mark.both_loops

RESPONSE = {"id": "r", "object": "response", "created_at": 1, "model": "gpt-5.4", "output": [], "tools": []}
CHUNK = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}
MESSAGE = {"id": "m", "type": "message", "role": "assistant", "model": "claude-sonnet-5-5", "content": []}
STARTS = {
    "/v1/chat/completions": {**CHUNK, "choices": [{"index": 0, "delta": {"role": "assistant"}, "finish_reason": None}]},
    "/v1/responses": {"type": "response.created", "sequence_number": 0, "response": {**RESPONSE, "status": "queued"}},
    "/v1/messages": {
        "type": "message_start",
        "message": {**MESSAGE, "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 9}},
    },
}
KINDS = pytest.mark.parametrize(
    ("kind", "path"),
    [
        (kind, path)
        for path in STARTS
        for kind in ((AsyncAnthropic, Anthropic) if "me" in path else (AsyncOpenAI, OpenAI))
    ],
)


def waiting(go_on):
    """A server whose streams say who speaks, and nothing more until they are told to go on."""

    def app(_desk):
        async def create(request):
            start = STARTS[request.url.path]

            async def said():
                yield f"event: {start.get('type', 'message')}\ndata: {json.dumps(start)}\n\n"
                with anyio.move_on_after(30):
                    await anyio.to_thread.run_sync(go_on.wait, abandon_on_cancel=True)

            return StreamingResponse(said(), media_type="text/event-stream")

        return Starlette(routes=[Route(path, create, methods=["POST"]) for path in STARTS])

    return app


@KINDS
@pytest.mark.anyio
async def test_a_stream_is_there_before_its_first_content(serve, closing, kind, path):
    """The call returns, and its first event can be read, while the model has not said anything yet."""
    go_on = Event()
    _, url = serve(waiting(go_on))
    plan = agentctx.Pipeline(agentctx.FitContextWindow(), budget=agentctx.Budget(100_000))
    given = closing(kind(base_url=url if "me" in path else f"{url}/v1", api_key="none", max_retries=0))
    client = wrap(given, plan)
    try:
        with anyio.fail_after(60):
            if "chat" in path:
                stream = await now(client.chat.completions.create(model="gpt-4o", messages=chat(1), stream=True))
            elif "responses" in path:
                stream = await now(client.responses.create(model="gpt-5.4", input=items(1), stream=True))
            else:
                asked = {"model": "claude-sonnet-5-5", "max_tokens": 9, "messages": claude(1)}
                stream = await now(client.messages.create(**asked, stream=True))
            first = await anext(stream) if hasattr(stream, "__anext__") else next(stream)
            assert not go_on.is_set()
    finally:
        go_on.set()
    assert getattr(first, "type", None) == STARTS[path].get("type")
    await listed(stream)
