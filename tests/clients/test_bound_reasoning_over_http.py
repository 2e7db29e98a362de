"""Reasoning that is bound to what stands before it, with real SDKs and servers that check each signature."""

import json

import anthropic
import boto3
import pytest
from anthropic import Anthropic, AsyncAnthropic, AsyncAnthropicBedrock
from anyio import to_thread
from both_kinds import now
from botocore.config import Config
from botocore.exceptions import ClientError

import agentctx
from agentctx import wrap
from agentctx.testing.servers import Said, converse, messages

BOUND = "claude-opus-5-5"
ROOM = agentctx.Budget(3_000, trigger=0.5, target=0.2)
TOOL = {"name": "read", "description": "Read a page.", "input_schema": {"type": "object"}}
STEPS = 12


def plan(thinking):
    return agentctx.Pipeline(agentctx.TrimRounds(2), budget=ROOM, thinking=thinking)


def thinks(body):
    return Said("", (("read", {"page": len(body["messages"])}),), thinking=f"Page {len(body['messages'])} is next.")


async def walk(client, **more):
    """A long tool round: each answer thinks and calls, and is sent back as it came."""
    history = [{"role": "user", "content": "Read the book."}]
    for number in range(STEPS):
        asked = {"model": BOUND, "max_tokens": 100, "messages": history, "tools": [TOOL]}
        answer = await now(client.messages.create(**asked, **more))
        said = [block.model_dump(exclude_none=True) for block in answer.content]
        assert [block["type"] for block in said] == ["thinking", "tool_use"]
        found = {"type": "tool_result", "tool_use_id": said[1]["id"], "content": f"Words of page {number}. " * 40}
        history = [*history, {"role": "assistant", "content": said}, {"role": "user", "content": [found]}]
    return history


@pytest.fixture
def made(closing):
    def make(kind, url, **more):
        keys = {"aws_region": "us-east-1", "aws_access_key": "none", "aws_secret_key": "none"}
        how = keys if kind is AsyncAnthropicBedrock else {"api_key": "none"}
        return closing(kind(base_url=url, max_retries=0, **how, **more))

    return make


@pytest.mark.parametrize("kind", [AsyncAnthropic, Anthropic, AsyncAnthropicBedrock])
@pytest.mark.parametrize("thinking", ["postpone", "drop"])
@pytest.mark.anyio
async def test_no_signature_is_refused_whatever_the_policy(serve, made, kind, thinking):
    """A tool round that is cut in its midst is taken by a server that checks what each thought stood behind."""
    desk, url = serve(messages, answer=thinks)
    session = plan(thinking).session(model=BOUND)
    await walk(wrap(made(kind, url), session.plan, session=session))
    assert len(desk.accepted) == STEPS
    cut = len(desk.requests[-1]["messages"]) < 2 * STEPS - 1
    assert cut or thinking == "postpone"


LATE = [
    {"role": "user", "content": "task"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}]},
    {"role": "user", "content": "Wait."},
    {"role": "assistant", "content": "I wait."},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "late"}]},
]
BLANK = [LATE[0], {"role": "assistant", "content": "Here."}, {"role": "user", "content": " "}]


@pytest.mark.parametrize("mode", ["stateless", "full", "load", "rolling"])
@pytest.mark.parametrize("begun", [LATE, BLANK], ids=["late result", "blank question"])
@pytest.mark.anyio
async def test_reasoning_stands_behind_what_it_was_made_behind(serve, made, begun, mode):
    """An answer to what stands further up, or was left out, is sent again behind the words that it was asked with."""
    desk, url = serve(messages, answer=lambda body: Said("So it is.", thinking=f"Of {len(body['messages'])}."))
    client, pipeline = made(AsyncAnthropic, url), agentctx.Pipeline()
    session, history = pipeline.session(model=BOUND, format="anthropic"), begun
    for _ in range(3):
        if mode == "stateless":
            view = await pipeline.prepare(history, tools=[TOOL], model=BOUND, format="anthropic")
        else:
            view = await session.prepare(history, tools=[TOOL])
        answer = await client.messages.create(model=BOUND, max_tokens=100, messages=view.messages, tools=[TOOL])
        said = [block.model_dump(exclude_none=True) for block in answer.content]
        asked = list(view.messages) if mode == "rolling" else history
        history = [*asked, {"role": "assistant", "content": said}, {"role": "user", "content": "And now?"}]
        if mode == "load":
            session = agentctx.Session.load(pipeline, json.loads(json.dumps(session.dump())))
    assert len(desk.accepted) == 3
    assert json.dumps(desk.requests[-1]).count("[go on]") == 1


@pytest.mark.anyio
async def test_the_server_would_have_refused_it(serve, made):
    """Without a pipeline the same cut is refused: the server does check."""
    desk, url = serve(messages, answer=thinks)
    history = await walk(made(AsyncAnthropic, url))
    cut = [history[0], *history[-4:]]
    asked = {"model": BOUND, "max_tokens": 100, "messages": cut, "tools": [TOOL]}
    client = made(AsyncAnthropic, url)
    with pytest.raises(anthropic.BadRequestError, match="bound to a different conversation"):
        await client.messages.create(**asked)
    dropping = {"type": "adaptive", "block_binding": {"prefix_mismatch_behavior": "drop_block"}}
    with pytest.raises(anthropic.BadRequestError, match="Extra inputs"):  # the header is missing
        await client.messages.create(**asked, thinking=dropping)
    forged = json.loads(json.dumps(cut).replace("is next", "was last"))
    with pytest.raises(anthropic.BadRequestError, match="Invalid `signature`"):
        await client.messages.create(**{**asked, "messages": forged, "model": "claude-opus-4-8"})
    assert len(desk.accepted) == STEPS


@pytest.mark.anyio
async def test_converse_takes_what_is_left_of_the_reasoning(serve):
    """With Converse no signature is refused either, and what the caller asks of the model stays as it is."""
    desk, url = serve(converse, answer=thinks)
    keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
    config = Config(retries={"total_max_attempts": 1})
    given = boto3.client("bedrock-runtime", region_name="us-east-1", endpoint_url=url, config=config, **keys)
    session = plan("drop").session(model=BOUND)
    client = wrap(given, session.plan, session=session)
    tool = {"toolSpec": {"name": "read", "inputSchema": {"json": {"type": "object"}}}}
    own = {"thinking": {"type": "adaptive", "display": "omitted"}, "anthropic_beta": ["own"]}
    history = [{"role": "user", "content": [{"text": "Read the book."}]}]
    for number in range(STEPS):
        asked = {"messages": history, "toolConfig": {"tools": [tool]}, "additionalModelRequestFields": own}
        answer = await to_thread.run_sync(lambda asked=asked: client.converse(modelId=BOUND, **asked))
        said = answer["output"]["message"]
        found = {
            "toolUseId": said["content"][1]["toolUse"]["toolUseId"],
            "content": [{"text": f"Page {number}. " * 60}],
        }
        history = [*history, said, {"role": "user", "content": [{"toolResult": found}]}]
    assert len(desk.accepted) == STEPS
    assert desk.requests[-1]["additionalModelRequestFields"] == own
    with pytest.raises(ClientError, match="Invalid `signature`"):
        given.converse(modelId=BOUND, messages=[history[0], *history[-4:]], toolConfig={"tools": [tool]})
    given.close()
