"""Which conversation a wrapped client's call belongs to, one at a time and many at once."""

import json
import re
import subprocess
import sys
from functools import partial

import anyio
import httpx
import pytest
from anthropic import AsyncAnthropic
from both_kinds import now
from client_histories import chat
from openai import AsyncOpenAI, DefaultAsyncHttpxClient, OpenAI

import agentctx
from agentctx import wrap
from agentctx.testing.servers import Said, chat_completions, messages

pytestmark = pytest.mark.both_loops

MODEL = "gpt-4o"
CANARY = re.compile(r"canary-\d+")
MANY = 200


def pipeline(*stages, **options):
    return agentctx.Pipeline(*stages, agentctx.FitContextWindow(), **{"budget": agentctx.Budget(100_000), **options})


def canaries(body):
    return set(CANARY.findall(json.dumps(body)))


@pytest.fixture
def made(closing):
    def make(url, kind=AsyncOpenAI, **more):
        return closing(kind(base_url=f"{url}/v1", api_key="none", max_retries=0, **more))

    return make


def ask(client, messages, **more):
    return client.chat.completions.create(model=MODEL, messages=messages, **more)


@pytest.mark.no_cover  # the same lines over and over
@pytest.mark.anyio
async def test_two_hundred_conversations_never_mix(serve, made, anyio_backend):
    """200 conversations at once on one client and one pipeline, overflows included: each sees its own words alone.

    Every other one has a ``with`` block, the rest are told apart by the key.
    """
    many = MANY if anyio_backend == "asyncio" else MANY // 5
    desk, url = serve(chat_completions, window=900, answer=lambda body: Said(" ".join(canaries(body))))
    plan = pipeline()
    few = DefaultAsyncHttpxClient(limits=httpx.Limits(max_connections=20))
    client = wrap(made(url, http_client=few), plan, key=lambda body: body["user"])

    async def converse(number):
        own = f"canary-{number}"
        session = plan.session(model=MODEL) if number % 2 else None
        for rounds in (2, 8):
            history = chat(rounds, own)
            if session is None:
                answer = await ask(client, history, user=own)
            else:
                with session:
                    answer = await ask(client, history, user=own)
                assert session.billed_tokens == answer.usage.prompt_tokens
            assert answer.choices[0].message.content == own

    async with anyio.create_task_group() as tasks:
        for number in range(many):
            tasks.start_soon(converse, number)
    assert len(desk.accepted) == 2 * many
    assert len(desk.requests) > 2 * many
    assert all(canaries(body) == {body["user"]} for body in desk.requests)


@pytest.mark.anyio
async def test_calls_of_one_conversation_at_once_get_their_own_words_back(serve, made):
    """When two calls of one session overflow at once, each is sent again with its own messages."""
    desk, url = serve(chat_completions, window=900, pause=0.02, answer=lambda body: Said(" ".join(canaries(body))))
    plan = pipeline()
    client = wrap(made(url), plan, session=plan.session(model=MODEL))
    seen = {}

    async def go(number):
        answer = await ask(client, chat(8, f"canary-{number}"))
        seen[number] = answer.choices[0].message.content

    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(go, number)
    assert seen == {number: f"canary-{number}" for number in range(8)}
    assert all(len(canaries(body)) == 1 for body in desk.requests)


@pytest.mark.anyio
async def test_the_clients_own_session_comes_first(serve, made):
    """The session given to ``wrap`` wins over a ``with`` block, that over the key, and none means none."""
    _, url = serve(chat_completions)
    plan = pipeline()
    own, block, keyed = (plan.session(model=MODEL) for _ in range(3))
    calls = []

    def key(body):
        calls.append(body["model"])

    async def billed(client):
        for each in (own, block, keyed):
            each.billed_tokens = None
        await ask(client, chat(1))
        return [each.billed_tokens is not None for each in (own, block, keyed)]

    given = made(url)
    with block:
        assert await billed(wrap(given, plan, session=own, key=key)) == [True, False, False]
        assert await billed(wrap(given, plan, key=key)) == [False, True, False]
        with keyed:
            assert await billed(wrap(given, plan, key=key)) == [False, False, True]
    assert calls == []
    assert await billed(wrap(given, plan, key=key)) == [False, False, False]
    assert calls == [MODEL]


@pytest.mark.anyio
async def test_a_session_sticks_to_what_it_decided(serve, made):
    """Two steps of one conversation share their prefix byte for byte after a cut; a new conversation starts anew."""
    desk, url = serve(chat_completions)
    plan = pipeline(budget=agentctx.Budget(1_500, trigger=0.8, target=0.4))
    session = plan.session(model=MODEL)
    client = wrap(made(url), plan)
    with session:
        await ask(client, chat(12))
        await ask(client, chat(13))
    first, second = (body["messages"] for body in desk.requests)
    assert len(first) < len(chat(12))
    assert second == [*first, *chat(13)[len(chat(12)) :]]


@pytest.mark.anyio
async def test_a_session_learns_its_model_from_the_request(serve, made):
    """A session made without a model, of a pipeline without a budget, takes the window of the model that is called."""
    desk, url = serve(chat_completions)
    plan = agentctx.Pipeline(agentctx.FitContextWindow())
    with plan.session() as session:
        await ask(wrap(made(url), plan), chat(2))
    assert session.model == MODEL
    assert session.budget == agentctx.Budget.for_model(MODEL)
    assert len(desk.accepted) == 1


@pytest.mark.parametrize("belonging", ["with", "key"])
@pytest.mark.anyio
async def test_a_conversation_goes_on_with_another_model_and_provider(serve, made, closing, belonging):
    """The window is that of the model of each call; a smaller one is kept at its first call, and reports stay apart."""
    desk, url = serve(chat_completions)
    claude_desk, claude_url = serve(messages)
    plan = agentctx.Pipeline(agentctx.FitContextWindow())
    session = plan.session()
    key = None if belonging == "with" else lambda _body: "one"
    openai, anthropic = made(url), closing(AsyncAnthropic(base_url=claude_url, api_key="none"))
    history = chat(700)
    assert 16_385 < agentctx.count(history, MODEL) < 128_000

    async def go():
        client = wrap(openai, plan, key=key)
        await ask(client, history)
        await client.chat.completions.create(model="gpt-3.5-turbo", messages=history, max_tokens=100)
        asked = {"model": "claude-sonnet-5-5", "max_tokens": 100, "messages": history[1:]}
        await wrap(anthropic, plan, key=key).messages.create(**asked)

    if belonging == "with":
        with session:
            await go()
        assert session.steps == 3
        assert session.model == "claude-sonnet-5-5"
    else:
        await go()
    whole, small = (body["messages"] for body in desk.accepted)
    assert whole == history
    assert agentctx.count(small, "gpt-3.5-turbo") <= agentctx.Budget.for_model("gpt-3.5-turbo").limit
    assert len(claude_desk.accepted) == 1


@pytest.mark.anyio
async def test_a_deployments_name_leaves_the_sessions_model(serve, made):
    """A name that the model table does not know does not replace the model that the session was told."""
    desk, url = serve(chat_completions)
    plan = agentctx.Pipeline(agentctx.FitContextWindow())
    session = plan.session(model=MODEL)
    client = wrap(made(url), plan, session=session)
    await client.chat.completions.create(model="our-deployment", messages=chat(2))
    assert session.model == MODEL
    assert session.budget == agentctx.Budget.for_model(MODEL)
    assert len(desk.accepted) == 1


@pytest.mark.anyio
async def test_the_named_conversations_are_bounded(serve, made):
    """Only so many conversations of a key are remembered; the one unused for longest is forgotten."""
    _, url = serve(chat_completions)
    plan, begun = pipeline(), []
    sessions = agentctx.Sessions(plan, capacity=2, load=begun.append)
    client = wrap(made(url), plan, key=lambda body: body["user"], sessions=sessions)
    for name in "abacab":
        await ask(client, chat(1), user=name)
    assert begun == ["a", "b", "c", "b"]


@pytest.mark.parametrize("kind", [AsyncOpenAI, OpenAI])
@pytest.mark.anyio
async def test_calls_within_a_pipeline_are_no_part_of_the_conversation(serve, made, kind):
    """A stage that asks a model itself, by a wrapped client of either kind, neither hangs nor speaks in the session."""
    desk, url = serve(chat_completions)
    inner = wrap(made(url, kind), pipeline())

    async def asks(context, _call):
        await now(ask(inner, [{"role": "user", "content": "inner"}]))
        return context

    for outer_kind in (AsyncOpenAI, OpenAI):
        session = pipeline(asks).session(model=MODEL)
        outer = wrap(made(url, outer_kind), session.plan)
        if (kind, outer_kind) == (AsyncOpenAI, OpenAI):
            continue  # an async client belongs to one event loop, and a sync client's pipeline has its own
        with session:
            with anyio.fail_after(60):
                await now(ask(outer, chat(2)))
        assert session.steps == 1
        assert session.billed_tokens == agentctx.count(chat(2), MODEL)
    assert {len(body["messages"]) for body in desk.requests} == {1, len(chat(2))}


@pytest.mark.parametrize("refuses", ["status", "stream"])
@pytest.mark.anyio
async def test_a_cancelled_call_leaves_the_session_as_it_was(serve, made, refuses):
    """A call that is cancelled at any moment keeps nobody out, and the next one sends what it would have sent."""
    desk, url = serve(chat_completions, window=900, refuses=refuses, pause=0.01)
    plan = pipeline()
    session, client = plan.session(model=MODEL), wrap(made(url), plan)
    with session:
        for patience in (0.0, 0.005, 0.012, 0.02, 0.03, 0.05):
            with anyio.move_on_after(patience):
                await ask(client, chat(8), stream=refuses == "stream")
    with session, anyio.fail_after(60):
        await ask(client, chat(8))
    fresh = plan.session(model=MODEL)
    with fresh:
        await ask(client, chat(8))
    assert len(desk.accepted) >= 2
    assert desk.accepted[-2]["messages"][:2] == desk.accepted[-1]["messages"][:2] == chat(8)[:2]
    assert agentctx.count(desk.accepted[-2]["messages"], MODEL) <= 900


@pytest.mark.anyio
async def test_a_stream_that_is_left_early_is_closed(serve, made):
    """Leaving a restarted stream in the middle closes it, and the client goes on."""
    desk, url = serve(chat_completions, window=900, refuses="stream", answer=lambda _: Said("one two three"))
    client = wrap(made(url), pipeline())
    stream = await ask(client, chat(8), stream=True)
    async with stream:
        async for chunk in stream:
            if chunk.choices[0].delta.content:
                break
    assert stream.response.is_closed
    assert (await ask(client, chat(1))).choices[0].message.content == "one two three"
    assert len(desk.requests) == 3


@pytest.mark.no_cover  # the same lines over and over
@pytest.mark.anyio
async def test_threads_share_a_sync_client(serve, made):
    """Conversations in threads, on one sync client, each in their own ``with`` block, keep to themselves."""
    desk, url = serve(chat_completions, window=900, answer=lambda body: Said(" ".join(canaries(body))))
    plan = pipeline()
    client = wrap(made(url, OpenAI), plan)

    def converse(number):
        own = f"canary-{number}"
        with plan.session(model=MODEL) as session:
            for rounds in (2, 8):
                assert ask(client, chat(rounds, own)).choices[0].message.content == own
            assert session.billed_tokens < 900

    async with anyio.create_task_group() as tasks:
        for number in range(60):  # more than there are threads
            tasks.start_soon(partial(anyio.to_thread.run_sync, converse, number))
    assert all(len(canaries(body)) == 1 for body in desk.requests)


def test_wrapping_imports_no_sdk_by_itself():
    """``agentctx.clients`` loads no SDK: which file is needed is told by the client's class."""
    sdks = ("openai", "anthropic", "google.genai", "litellm", "botocore")
    code = f"import sys, agentctx.clients; print([name for name in {sdks!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("thing", [object(), "client", AsyncOpenAI, print, json])
def test_what_is_no_client_is_refused(thing):
    """What cannot be wrapped is named, with what can be."""
    with pytest.raises(agentctx.ConfigError, match="openai"):
        wrap(thing, pipeline())
