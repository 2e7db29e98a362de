"""The SDKs' own retries: they stay as many as they were, and a call stays one call."""

import anthropic
import openai
import pytest
from anthropic import Anthropic, AsyncAnthropic
from both_kinds import now
from client_histories import chat, claude
from openai import AsyncOpenAI, OpenAI
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

import agentctx
from agentctx import wrap

pytestmark = pytest.mark.both_loops

CHAT, CLAUDE = chat(20), claude(20)
TOO_LARGE = {
    OpenAI: {
        "message": "Request too large for gpt-4o on tokens per min (TPM): Limit 1000, Requested 3000.",
        "type": "tokens",
        "code": "rate_limit_exceeded",
    },
    Anthropic: {"type": "rate_limit_error", "message": "prompt is too long: 3000 tokens > 1000 maximum"},
}
BUSY = {"type": "overloaded_error", "message": "Overloaded"}
ANSWERS = {
    OpenAI: {"id": "1", "object": "chat.completion", "created": 1, "model": "gpt-4o", "choices": []},
    Anthropic: {
        "id": "1",
        "type": "message",
        "role": "assistant",
        "model": "claude-sonnet-5-5",
        "content": [],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {"input_tokens": 9, "output_tokens": 1},
    },
}
FAMILY = {OpenAI: OpenAI, AsyncOpenAI: OpenAI, Anthropic: Anthropic, AsyncAnthropic: Anthropic}
KINDS = pytest.mark.parametrize("kind", FAMILY)


@pytest.fixture
def calling(serve, closing):
    """Call a wrapped client of a kind whose server gives these answers, the last one for ever."""

    def make(kind, answers):
        family = FAMILY[kind]
        left = [*answers]

        def app(desk):
            async def create(request):
                body = await request.json()
                desk.requests.append(body)
                status = left.pop(0) if len(left) > 1 else left[0]
                error = TOO_LARGE[family] if status == 429 else BUSY
                content = ANSWERS[family] if status == 200 else {"type": "error", "error": error}
                return JSONResponse(content, status, {"retry-after-ms": "1"})

            paths = ("/v1/chat/completions", "/v1/messages")
            return Starlette(routes=[Route(path, create, methods=["POST"]) for path in paths])

        desk, url = serve(app)
        session = agentctx.Pipeline(agentctx.FitContextWindow(), budget=agentctx.Budget(100_000)).session()
        base = f"{url}/v1" if family is OpenAI else url
        client = wrap(closing(kind(base_url=base, api_key="none", max_retries=2)), session.plan, session=session)
        if family is OpenAI:
            return desk, session, lambda: client.chat.completions.create(model="gpt-4o", messages=CHAT)
        asked = {"model": "claude-sonnet-5-5", "max_tokens": 10, "messages": CLAUDE}
        return desk, session, lambda: client.messages.create(**asked)

    return make


@KINDS
@pytest.mark.anyio
async def test_a_request_that_is_tried_again_is_one_step(calling, kind):
    """Two failures that have nothing to do with the size: three equal requests, and one step of the session."""
    desk, session, call = calling(kind, [503, 503, 200])
    await now(call())
    assert len(desk.requests) == 3
    assert desk.requests[0] == desk.requests[1] == desk.requests[2]
    assert session.steps == 1


@KINDS
@pytest.mark.anyio
async def test_a_failure_after_the_recovery_is_tried_again_as_it_is(calling, kind):
    """A smaller request that fails for another reason is retried by the SDK, and made no smaller again."""
    desk, _, call = calling(kind, [429, 503, 200])
    await now(call())
    sizes = [len(body["messages"]) for body in desk.requests]
    assert sizes[-1] == sizes[-2] < sizes[0]
    assert len(sizes) == 3


@KINDS
@pytest.mark.anyio
async def test_an_overflow_that_the_sdk_retries_is_recovered_once(calling, kind):
    """Where the SDK retries the status of an overflow, there is still one smaller request, not one for each retry."""
    desk, _, call = calling(kind, [429])
    with pytest.raises((openai.RateLimitError, anthropic.RateLimitError)):
        await now(call())
    sizes = [len(body["messages"]) for body in desk.requests]
    assert len(set(sizes)) == 2
    assert sizes == sorted(sizes, reverse=True)
    assert len(sizes) == 3 + 1


@KINDS
@pytest.mark.anyio
async def test_the_next_call_is_prepared_anew(calling, kind):
    """A call that failed for good leaves nothing behind: the next one is a step of its own."""
    desk, session, call = calling(kind, [503, 503, 503, 200])
    with pytest.raises((openai.InternalServerError, anthropic.InternalServerError)):
        await now(call())
    await now(call())
    assert session.steps == 2
    assert len(desk.requests) == 4
