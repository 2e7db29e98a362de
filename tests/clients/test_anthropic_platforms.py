"""Anthropic's clients for Vertex, Bedrock, Foundry and AWS: the real clients, over HTTP, to a local server."""

import anthropic
import pytest
from both_kinds import listed, now
from client_histories import claude

import agentctx
from agentctx import wrap
from agentctx.testing.servers import Said, messages

MODEL = "claude-sonnet-5-5"
WINDOW = 1_200
LONG = claude(20)
AWS = {"aws_region": "us-east-1", "aws_access_key": "none", "aws_secret_key": "none"}
PLATFORMS = {
    "Vertex": {"region": "us-east5", "project_id": "none", "access_token": "none"},
    "Bedrock": AWS,
    "BedrockMantle": {"aws_region": "us-east-1", "api_key": "none"},
    "Foundry": {"api_key": "none"},
    "AWS": {"aws_region": "us-east-1", "api_key": "none", "workspace_id": "none"},
}
KINDS = pytest.mark.parametrize("kind", [f"{way}Anthropic{name}" for name in PLATFORMS for way in ("", "Async")])


def pipeline(**options):
    return agentctx.Pipeline(agentctx.FitContextWindow(), **{"budget": agentctx.Budget(100_000), **options})


@pytest.fixture
def made(closing):
    def make(kind, url):
        how = PLATFORMS[kind.removeprefix("Async").removeprefix("Anthropic")]
        return closing(getattr(anthropic, kind)(base_url=url, max_retries=0, **how))

    return make


def asked(history, **more):
    return {"model": MODEL, "max_tokens": 100, "messages": history, "system": "Be brief.", **more}


def text(events):
    return "".join(event.delta.text for event in events if event.type == "content_block_delta")


@KINDS
@pytest.mark.anyio
async def test_each_platforms_overflow_is_sent_again_smaller(serve, made, kind):
    """Each platform's client is prepared, recovered and recorded like Anthropic's own, and keeps its class."""
    desk, url = serve(messages, window=WINDOW)
    given, session = made(kind, url), pipeline().session(model=MODEL)
    client = wrap(given, session.plan, session=session)
    assert isinstance(client, type(given))
    answer = await now(client.messages.create(**asked(LONG)))
    assert answer.content[0].text == "Done."
    assert session.billed_tokens == answer.usage.input_tokens < WINDOW
    assert [len(body["messages"]) < len(LONG) for body in desk.requests] == [False, True]


@KINDS
@pytest.mark.parametrize("refuses", ["status", "stream"])
@pytest.mark.anyio
async def test_each_platforms_stream_restarts_before_its_first_content(serve, made, kind, refuses):
    """An overflow before the first content restarts each platform's stream unseen."""
    desk, url = serve(messages, window=WINDOW, refuses=refuses, answer=lambda _: Said("one two three"))
    client = wrap(made(kind, url), pipeline())
    events = await listed(await now(client.messages.create(**asked(LONG), stream=True)))
    assert text(events) == "one two three"
    assert [event.type for event in events].count("message_start") == 1
    assert len(desk.requests) == 2


@KINDS
@pytest.mark.anyio
async def test_each_platforms_second_overflow_is_its_own_error(serve, made, kind):
    """Two overflows in a row: the SDK's own error about the first."""
    desk, url = serve(messages, window=WINDOW, overflows=2)
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long"):
        await now(wrap(made(kind, url), pipeline()).messages.create(**asked(LONG)))
    assert len(desk.requests) == 2
