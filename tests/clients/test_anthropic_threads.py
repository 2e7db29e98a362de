"""Conversations that Anthropic keeps: switched off where the SDK uses them by itself, refused where it is told to."""

import anthropic
import pytest
from anthropic import Anthropic, AsyncAnthropic, beta_async_tool, beta_tool
from both_kinds import now

import agentctx
from agentctx import wrap
from agentctx.testing.servers import Said, messages

pytestmark = pytest.mark.both_loops

MODEL = "claude-sonnet-5-5"
GO = [{"role": "user", "content": "Go."}]
KINDS = pytest.mark.parametrize("kind", [AsyncAnthropic, Anthropic])


@beta_tool
def look(place: str) -> str:
    """Look at a place.

    Args:
        place: The place.
    """
    return f"nothing at {place}"


@beta_async_tool
async def look_later(place: str) -> str:
    """Look at a place.

    Args:
        place: The place.
    """
    return f"nothing at {place}"


@pytest.fixture
def made(serve, closing):
    def make(kind, **behaviour):
        desk, url = serve(messages, **behaviour)
        plan = agentctx.Pipeline(agentctx.FitContextWindow(), budget=agentctx.Budget(100_000))
        given = closing(kind(base_url=url, api_key="none", max_retries=0))
        return desk, given, wrap(given, plan)

    return make


@pytest.mark.filterwarnings("ignore:a model call of a wrapped client goes on")
@KINDS
@pytest.mark.parametrize("derived", [False, True])
@pytest.mark.anyio
async def test_the_tool_runner_sends_the_whole_conversation(made, kind, derived):
    """Each step of the tool runner is a whole request that is prepared, also of a client derived from the wrapped."""

    def answer(body):
        name = body["tools"][0]["name"]
        return Said("Nothing.") if len(body["messages"]) > 3 else Said("Looking.", ((name, {"place": "here"}),))

    desk, given, client = made(kind, answer=answer)
    client = client.with_options(timeout=30) if derived else client
    tool = look if kind is Anthropic else look_later
    runner = client.beta.messages.tool_runner(model=MODEL, max_tokens=100, messages=GO, tools=[tool])
    final = await now(runner.until_done())
    assert final.content[0].text == "Nothing."
    assert [len(body["messages"]) for body in desk.accepted] == [1, 3, 5]
    assert not any("thread" in body for body in desk.requests)
    assert given._supports_message_threads


@KINDS
@pytest.mark.anyio
async def test_a_thread_is_refused(made, kind):
    """A request that goes on from what the provider keeps is refused with what to do instead; nothing is sent."""
    desk, _, client = made(kind)
    asked = {"model": MODEL, "max_tokens": 100, "messages": GO, "thread": {"type": "create"}}
    with pytest.raises(anthropic.BadRequestError, match="send all messages") as raised:
        await now(client.beta.messages.create(**asked))
    assert isinstance(raised.value.__cause__, agentctx.InvalidInput)
    with pytest.raises(anthropic.BadRequestError, match="send all messages"):
        await now(client.beta.messages.thread(model=MODEL, max_tokens=100).send(*GO))
    assert desk.requests == []


@KINDS
@pytest.mark.anyio
async def test_counting_tokens_is_left_alone(made, kind):
    """``count_tokens`` counts the messages that it is given, not those that would be sent."""
    desk, given, client = made(kind)
    client = wrap(given, agentctx.Pipeline(agentctx.TrimRounds(1)))
    history = [*GO, {"role": "assistant", "content": "Yes."}] * 5 + GO
    counted = await now(client.messages.count_tokens(model=MODEL, messages=history))
    assert counted.input_tokens == agentctx.count(history, MODEL, format="anthropic")
    assert desk.requests == []
