"""What wrapped clients learn from answers that tell little, late or nonsense: the real SDKs, over HTTP."""

import pytest
from anthropic import Anthropic, AsyncAnthropic
from both_kinds import now
from client_histories import chat, claude
from openai import AsyncOpenAI, OpenAI
from starlette.applications import Starlette
from starlette.responses import JSONResponse
from starlette.routing import Route

import agentctx
from agentctx.clients import wrap

CHAT = {"id": "1", "object": "chat.completion", "created": 1, "model": "gpt-4o", "choices": []}
MESSAGE = {
    "id": "1",
    "type": "message",
    "role": "assistant",
    "model": "claude-sonnet-5-5",
    "content": [],
    "stop_reason": "end_turn",
    "stop_sequence": None,
}
KINDS = pytest.mark.parametrize("kind", [AsyncOpenAI, OpenAI, AsyncAnthropic, Anthropic])
NONSENSE = [None, {}, "much", {"prompt_tokens": -5, "input_tokens": -5}, {"prompt_tokens": 0, "input_tokens": 0}]


def pipeline(**options):
    return agentctx.Pipeline(agentctx.FitContextWindow(), **{"budget": agentctx.Budget(100_000), **options})


def billing(usages):
    """A server that puts these usages, one after the other, into its answers."""

    def app(desk):
        async def create(request):
            desk.requests.append(await request.json())
            whole = CHAT if "chat" in request.url.path else MESSAGE
            return JSONResponse({**whole, "usage": usages[len(desk.requests) - 1]})

        paths = ("/v1/chat/completions", "/v1/messages")
        return Starlette(routes=[Route(path, create, methods=["POST"]) for path in paths])

    return app


@KINDS
@pytest.mark.anyio
async def test_nonsense_in_a_bill_costs_no_answer(serve, closing, kind):
    """Whatever stands where the usage belongs, the answer reaches the caller, and nothing is learned from it."""
    _, url = serve(billing(NONSENSE))
    session = pipeline().session()
    openai = "openai" in kind.__module__
    client = wrap(closing(kind(base_url=f"{url}/v1" if openai else url, api_key="none")), session.plan, session=session)
    for _ in NONSENSE:
        if openai:
            answer = await now(client.chat.completions.create(model="gpt-4o", messages=chat(2)))
        else:
            asked = {"model": "claude-sonnet-5-5", "max_tokens": 10, "messages": claude(2)}
            answer = await now(client.messages.create(**asked))
        assert answer.id == "1"
    assert session.billed_tokens is None
    assert session.allowance.calibration.reports == 0
