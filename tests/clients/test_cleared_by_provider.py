"""Clearing that is left to Anthropic, with its real SDK over HTTP: a server says what it has cleared."""

import anthropic
import pytest
from anthropic import Anthropic, AsyncAnthropic, AsyncAnthropicBedrock
from both_kinds import now

from agentctx import Budget, FitContextWindow, Pipeline, wrap
from agentctx.strategies import ClearByProvider
from agentctx.testing.servers import Said, messages

MODEL, BOUND = "claude-opus-4-8", "claude-opus-5-5"
TOOL = {"name": "read", "description": "Read a page.", "input_schema": {"type": "object"}}
WINDOW, STEPS, CLEARED = 20_000, 16, 300
EDITS = {"edits": [{"type": "clear_tool_uses_20250919"}]}
BETA = "context-management-2025-06-27"


def calls(body):
    """A model that thinks where it is bound to, and reads the next page; the provider clears what was read before."""
    page = len(body["messages"])
    thinking = f"Page {page} is next." if body["model"] == BOUND else None
    return Said("", (("read", {"page": page}),), thinking=thinking, cleared=CLEARED if page > 8 else 0)


def plan(**more):
    stage = ClearByProvider(1_500, 2, **more)
    return Pipeline(stage, FitContextWindow(), budget=Budget(WINDOW, 100, trigger=0.9, target=0.4))


@pytest.fixture
def made(closing):
    def make(kind, url):
        keys = {"aws_region": "us-east-1", "aws_access_key": "none", "aws_secret_key": "none"}
        how = keys if kind is AsyncAnthropicBedrock else {"api_key": "none"}
        return closing(kind(base_url=url, max_retries=0, **how))

    return make


async def whole(client, asked):
    return await now(client.messages.create(**asked))


async def beta(client, asked):
    return await now(client.beta.messages.create(**asked))


async def events(client, asked):
    async with client.messages.stream(**asked) as stream:
        return await stream.get_final_message()


async def raw(client, asked):
    async with client.messages.with_streaming_response.create(**asked) as response:
        return await response.parse()


async def walk(client, model=MODEL, way=whole, **more):
    """A tool loop whose history is never cut by the caller."""
    history = [{"role": "user", "content": "Read the book."}]
    for number in range(STEPS):
        asked = {"model": model, "max_tokens": 100, "messages": history, "tools": [TOOL]}
        said = [block.model_dump(exclude_none=True) for block in (await way(client, {**asked, **more})).content]
        found = {"type": "tool_result", "tool_use_id": said[-1]["id"], "content": f"Words of page {number}. " * 60}
        history = [*history, {"role": "assistant", "content": said}, {"role": "user", "content": [found]}]
    return history


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("kind", "way"),
    [
        (AsyncAnthropic, whole), (Anthropic, whole), (AsyncAnthropicBedrock, whole), (AsyncAnthropic, beta),
        (AsyncAnthropic, events), (AsyncAnthropic, raw),
    ],
)  # fmt: skip
async def test_what_was_cleared_is_understood(serve, made, kind, way):
    """Each request is sent whole, and a bill without what was cleared teaches how the provider counts."""
    desk, url = serve(messages, answer=calls, window=WINDOW)
    session = plan().session(model=MODEL)
    await walk(wrap(made(kind, url), session.plan, session=session), way=way)
    assert len(desk.accepted) == len(desk.requests) == STEPS
    assert len(desk.requests[-1]["messages"]) == 2 * STEPS - 1
    size = session.view.report.tokens_after
    assert session.billed_tokens == size - CLEARED
    assert session.internals.limits.calibration.reports > 0
    assert session.internals.limits.calibration.estimate(size) == size
    assert session.internals.limits.truncation is None


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_the_options_go_with_a_request_of_ones_own(serve, made):
    """Without a wrapped client the view's options are parameters of the SDK's own call, and its edits are recorded."""
    desk, url = serve(messages, answer=calls, window=WINDOW)
    session, client = plan().session(model=MODEL), made(AsyncAnthropic, url)
    history = [{"role": "user", "content": "Read the book."}]
    for number in range(STEPS):
        view = await session.prepare(history, tools=[TOOL])
        asked = {"model": MODEL, "max_tokens": 100, "messages": view.messages, "tools": view.tools}
        answer = await client.beta.messages.create(**asked, **view.options)
        session.record(answer.usage, answer.context_management.applied_edits)
        said = [block.model_dump(exclude_none=True) for block in answer.content]
        found = {"type": "tool_result", "tool_use_id": said[-1]["id"], "content": f"Words of page {number}. " * 60}
        history = [*history, {"role": "assistant", "content": said}, {"role": "user", "content": [found]}]
    assert len(desk.accepted) == STEPS
    assert answer.context_management.applied_edits[0].cleared_input_tokens == CLEARED
    assert answer.usage.input_tokens == view.report.tokens_after - CLEARED
    assert session.internals.limits.calibration.estimate(1_000) == 1_000


@pytest.mark.anyio
async def test_bound_reasoning_is_taken_whole(serve, made):
    """A server that checks what each thought stood behind takes all of it, without being asked to drop any."""
    desk, url = serve(messages, answer=calls, window=WINDOW)
    session = plan(thinking=1).session(model=BOUND)
    thinking = {"type": "adaptive"}
    history = await walk(wrap(made(AsyncAnthropic, url), session.plan, session=session), BOUND, thinking=thinking)
    assert len(desk.accepted) == STEPS
    assert desk.requests[-1]["messages"] == history[:-2]
    assert [each["type"][:14] for each in desk.requests[-1]["context_management"]["edits"]] == [
        "clear_thinking",
        "clear_tool_use",
    ]
    assert all(body["thinking"] == thinking for body in desk.requests)


@pytest.mark.anyio
async def test_what_the_caller_asks_for_stays(serve, made):
    """Of a kind of edit that the caller asks for the caller's own goes out, behind no other header than is needed."""
    desk, url = serve(messages, answer=calls)
    own = {"edits": [{"type": "clear_tool_uses_20250919", "keep": {"type": "tool_uses", "value": 1}}]}
    session = plan().session(model=MODEL)
    client = wrap(made(AsyncAnthropic, url), session.plan, session=session)
    await walk(client, way=beta, context_management=own)
    assert all(body["context_management"] == own for body in desk.requests)


@pytest.mark.anyio
async def test_the_server_is_strict(serve, made):
    """It refuses the edits without their header, in the wrong order, and without thinking."""
    desk, url = serve(messages, answer=calls, window=WINDOW)
    client = made(AsyncAnthropic, url)
    history = await walk(wrap(client, plan(), session=plan().session(model=MODEL)))
    asked = {"model": MODEL, "max_tokens": 100, "messages": history}
    with pytest.raises(anthropic.BadRequestError, match="context_management: Extra inputs are not permitted"):
        await client.messages.create(**asked, extra_body={"context_management": EDITS})
    thinking = {"type": "clear_thinking_20251015"}
    for edits, says in (([thinking], "requires `thinking`"), ([*EDITS["edits"], thinking], "requires `thinking`")):
        with pytest.raises(anthropic.BadRequestError, match=says):
            await client.beta.messages.create(**asked, betas=[BETA], context_management={"edits": edits})
    assert desk.accepted


@pytest.mark.anyio
async def test_headers_and_options_of_the_caller_s_are_sent_along(serve, closing):
    """The caller's own thinking and its beta features, of the client and of the call, are sent along with ours."""
    seen = []

    def app(desk):
        inner = messages(desk)

        async def noting(scope, receive, send):
            seen.append(dict(scope["headers"]).get(b"anthropic-beta", b"").decode())
            await inner(scope, receive, send)

        return noting

    desk, url = serve(app, answer=calls)
    headers = {"Anthropic-Beta": "of-the-client"}
    given = closing(AsyncAnthropic(base_url=url, api_key="none", max_retries=0, default_headers=headers))
    session = plan().session(model=BOUND)
    client = wrap(given, session.plan, session=session)
    thinking = {"type": "enabled", "budget_tokens": 2_048, "display": "omitted"}
    history = await walk(client, model=BOUND, thinking=thinking)
    assert [body["thinking"] for body in desk.requests] == [thinking] * STEPS
    assert desk.requests[-1]["context_management"]["edits"]
    assert seen[-1] == f"of-the-client,{BETA}"
    more = {"messages": history, "tools": [TOOL], "thinking": thinking, "betas": ["of-the-call"]}
    await client.beta.messages.create(model=BOUND, max_tokens=100, **more)
    assert seen[-1] == f"of-the-call,{BETA}"
