"""Wrapped clients of several workers whose sessions are kept in one store."""

import anyio
import pytest
from anthropic import Anthropic, AsyncAnthropic
from both_kinds import listed, now
from client_histories import chat, claude
from openai import AsyncOpenAI, OpenAI

from agentctx import Budget, FitContextWindow, Pipeline, Sessions, validate, wrap
from agentctx.stores import MemoryStore, SQLiteStore
from agentctx.testing.servers import chat_completions, messages

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

MODEL = "gpt-4o"
CLAUDE = "claude-opus-5-5"


def pipeline():
    return Pipeline(FitContextWindow(), budget=Budget(1_500, trigger=0.8, target=0.4))


def by_user(body):
    return body.get("user") or (body.get("metadata") or {}).get("user_id")


@pytest.fixture
def worker(serve, closing):
    """Make wrapped clients of one server, each with sessions of its own in one store."""
    desks = {}

    def make(kind, store):
        api = messages if kind in {Anthropic, AsyncAnthropic} else chat_completions
        desk, url = desks.setdefault(api, serve(api))
        base = url if api is messages else f"{url}/v1"
        plan = pipeline()
        client = wrap(
            closing(kind(base_url=base, api_key="none", max_retries=0)),
            plan,
            key=by_user,
            sessions=Sessions(plan, store),
        )
        return desk, client

    return make


@pytest.mark.parametrize("kind", [AsyncOpenAI, OpenAI])
async def test_workers_that_take_turns_send_what_one_would(worker, kind, tmp_path):
    """Three workers serve one conversation in turns: each request is that of a session that never moved."""
    workers = [worker(kind, SQLiteStore(tmp_path / "context.db")) for _ in range(3)]
    alone = pipeline().session()
    for number in range(1, 13):
        desk, client = workers[number % 3]
        answer = await now(client.chat.completions.create(model=MODEL, messages=chat(number), user="a"))
        view = await alone.prepare(chat(number), format="openai-chat", model=MODEL)
        alone.record(answer.usage)
        assert desk.requests[-1]["messages"] == view.messages
        assert client.agentctx.report.to_dict().keys() == view.report.to_dict().keys()
    assert view.report.in_force


async def test_many_workers_at_once(worker, tmp_path):
    """Eight workers that serve one conversation at once raise nothing, and every request is legal."""
    workers = [worker(AsyncOpenAI, SQLiteStore(tmp_path / "context.db", timeout=30))[1] for _ in range(8)]
    desk, first = worker(AsyncOpenAI, SQLiteStore(tmp_path / "context.db", timeout=30))
    await first.chat.completions.create(model=MODEL, messages=chat(1), user="a")

    async def ask(client, rounds):
        await client.chat.completions.create(model=MODEL, messages=chat(rounds), user="a")

    async with anyio.create_task_group() as group:
        for number, client in enumerate(workers):
            group.start_soon(ask, client, number + 2)
    assert len(desk.requests) == 9
    for request in desk.requests:
        assert validate(request, format="openai-chat") == ()
    for client in workers:
        assert not [stage for stage in client.agentctx.report.stages if stage.stage == "Sessions"]


@pytest.mark.parametrize(
    ("kind", "streamed"),
    [(kind, how) for kind in (AsyncOpenAI, OpenAI, AsyncAnthropic, Anthropic) for how in (None, "read")]
    + [(AsyncAnthropic, "closed"), (Anthropic, "closed")],
)
async def test_what_a_call_cost_is_kept_when_it_is_known(worker, kind, streamed):
    """Another worker knows what was billed as soon as the answer is there, or its stream has ended, or is closed."""
    store = MemoryStore()
    _, client = worker(kind, store)
    if kind in {OpenAI, AsyncOpenAI}:
        more = {"stream": True, "stream_options": {"include_usage": True}} if streamed else {}
        asked = client.chat.completions.create(model=MODEL, messages=chat(3), user="a", **more)
    else:
        more = {"max_tokens": 50, "metadata": {"user_id": "a"}, "stream": streamed is not None}
        asked = client.messages.create(model=CLAUDE, messages=claude(3), **more)
    answer = await now(asked)
    if streamed == "read":
        await listed(answer)
    if streamed == "closed":
        await now(anext(answer) if kind is AsyncAnthropic else next(answer))
        await now(answer.close())
    async with Sessions(pipeline(), store).open("a") as session:
        assert session.billed_tokens == client.agentctx.sessions["a"].billed_tokens > 0
        assert session.steps == 1
