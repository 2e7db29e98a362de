"""Two conversations in one block, or of one client: told apart by how they begin, and never mixed."""

import json

import anyio
import openai
import pytest
from both_kinds import now
from client_histories import FILLER, chat
from openai import AsyncOpenAI, OpenAI

import agentctx
from agentctx import Pipeline, Session, wrap
from agentctx.testing import Recorder
from agentctx.testing.servers import chat_completions, responses

MODEL, SMALL = "gpt-4o", "gpt-4o-mini"
STEPS = range(2, 16, 2)


def pipeline():
    return Pipeline(agentctx.FitContextWindow(), budget=agentctx.Budget(1_500, trigger=0.8, target=0.4))


def agent(name, rounds, task="Begin."):
    """The history of an agent with a system prompt of its own; both agents have the same task."""
    return [
        {"role": "system", "content": f"You are {name}."},
        {"role": "user", "content": task},
        *(
            {"role": role, "content": f"{name} says {number}. {FILLER}"}
            for number in range(rounds)
            for role in ("assistant", "user")
        ),
    ]


def guard(text):
    return [{"role": "system", "content": "Answer yes or no."}, {"role": "user", "content": text}]


async def ask(client, said, model=MODEL):
    await now(client.chat.completions.create(model=model, messages=said))


@pytest.fixture
def client(serve, closing):
    def make(kind=AsyncOpenAI):
        desk, url = serve(chat_completions)
        return desk, closing(kind(base_url=f"{url}/v1", api_key="none", max_retries=0))

    return make


async def alone(client, histories):
    """What is sent for a conversation that has a block to itself."""
    desk, given = client()
    session = pipeline().session()
    wrapped = wrap(given, session.plan, session=session)
    for history in histories:
        await ask(wrapped, history)
    return [body["messages"] for body in desk.requests], session


@pytest.mark.parametrize("kind", [AsyncOpenAI, OpenAI])
@pytest.mark.parametrize("task", ["Begin.", "Do something else."])
@pytest.mark.anyio
async def test_two_agents_in_one_block_send_what_each_would_send_alone(client, kind, task):
    """Two agents with prompts of their own take turns in one block: each has its own prefix and its own cuts."""
    one = [agent("Ann", rounds) for rounds in STEPS]
    two = [agent("Bob", rounds, task) for rounds in STEPS]
    desk, given = client(kind)
    session = pipeline().session()
    wrapped = wrap(given, session.plan)
    with session:
        for mine, its in zip(one, two, strict=True):
            await ask(wrapped, mine)
            await ask(wrapped, its)
    sent = [body["messages"] for body in desk.requests]
    assert sent[::2] == (await alone(client, one))[0]
    assert sent[1::2] == (await alone(client, two))[0]
    assert session.steps == len(one)
    assert len(sent[-1]) < len(two[-1])


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_listeners_hear_both_conversations(client):
    """What a conversation beside the session's own had cut is told to the session's listeners, by a name of its own."""
    told = Recorder()
    _, given = client()
    session = pipeline().session(id="main", on_compact=told)
    wrapped = wrap(given, session.plan)
    with session:
        for rounds in STEPS:
            for name in ("Ann", "Bob"):
                await ask(wrapped, agent(name, rounds))
    assert [event.session for event in told.events][:2] == ["main", "main+"]
    assert {event.session for event in told.events} == {"main", "main+"}


@pytest.mark.parametrize("first", ["agent", "guardrail"])
@pytest.mark.anyio
async def test_a_guardrail_among_an_agents_calls(client, first):
    """A guardrail's calls by another model change nothing of the agent's conversation, whichever comes first."""
    histories = [agent("Ann", rounds) for rounds in STEPS]
    expected, calm = await alone(client, histories)
    desk, given = client()
    session = pipeline().session()
    wrapped = wrap(given, session.plan)
    with session:
        for number, history in enumerate(histories):
            asked = guard(history[-1]["content"] if number else "Begin.")
            if number % 3 == 0 and first == "guardrail":
                await ask(wrapped, asked, SMALL)
            await ask(wrapped, history)
            if number % 3 == 0 and first == "agent":
                await ask(wrapped, asked, SMALL)
    assert [body["messages"] for body in desk.requests if body["model"] == MODEL] == expected
    assert session.model == MODEL
    assert session.steps == calm.steps
    assert json.dumps(session.dump()["record"]) == json.dumps(calm.dump()["record"])


@pytest.mark.parametrize("changing", ["prompt", "rolling", "window", "start", "loaded"])
@pytest.mark.anyio
async def test_what_stays_one_conversation(client, changing):
    """A prompt that tells the time, views written back, a window over the history, a return to the start, a load."""
    desk, given = client()
    session = pipeline().session()
    wrapped, history = wrap(given, session.plan), []
    for number, rounds in enumerate(STEPS if changing == "window" else (*STEPS, *STEPS)):
        if changing == "loaded":
            session = Session.load(session.plan, session.dump())
        told = agent("Ann", rounds)
        if changing == "prompt":
            told[0] = {"role": "system", "content": f"It is {number} o'clock."}
        if changing == "window":
            told = [told[0], *told[1:][-9:]]
        if changing == "rolling" and history and number < len(STEPS):
            told = [*history, *told[-4:]]
        with session:
            await ask(wrapped, told)
        history = desk.requests[-1]["messages"]
    assert session.steps == number + 1


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_agents_that_ask_at_once_do_not_mix(client):
    """Eight agents start at the same moment in one block: every request has one agent's words alone."""
    desk, given = client()
    session = pipeline().session()
    wrapped = wrap(given, session.plan)

    async def converse(name):
        for rounds in (1, 6, 9):
            await ask(wrapped, agent(name, rounds))

    names = [f"Agent{number}" for number in range(8)]
    with session:
        async with anyio.create_task_group() as tasks:
            for name in names:
                tasks.start_soon(converse, name)
    for body in desk.requests:
        said = json.dumps(body["messages"])
        assert sum(name in said for name in names) == 1
    assert len(desk.requests) == 24
    assert session.steps == 3


@pytest.mark.anyio
async def test_what_failed_leaves_the_session_to_the_next(client):
    """A first call that cannot be prepared (nothing in it, or too much) does not keep the session for itself."""
    _, given = client()
    session = pipeline().session()
    wrapped = wrap(given, session.plan, session=session)
    for impossible in ([], guard("word " * 9_000), [{"role": "user", "content": "hi"}, {"role": "nobody"}]):
        with pytest.raises((agentctx.AgentctxError, openai.BadRequestError)):
            await ask(wrapped, impossible)
    await ask(wrapped, agent("Ann", 2))
    await ask(wrapped, agent("Ann", 3))
    assert session.steps == 2


@pytest.mark.anyio
async def test_an_agent_goes_on_in_another_format(serve, closing):
    """A conversation that goes on by another API is the same one, and the agent beside it stays another."""
    desk, url = serve(chat_completions)
    items_desk, items_url = serve(responses)
    session = pipeline().session()
    how = {"api_key": "none", "max_retries": 0}
    by_chat = wrap(closing(AsyncOpenAI(base_url=f"{url}/v1", **how)), session.plan)
    by_items = wrap(closing(AsyncOpenAI(base_url=f"{items_url}/v1", **how)), session.plan)
    with session:
        await ask(by_chat, chat(2))
        await ask(by_chat, agent("Bob", 2))
        await by_items.responses.create(model=MODEL, instructions="Be brief.", input=chat(3)[1:])
    assert session.steps == 2
    assert len(desk.requests) + len(items_desk.requests) == 3
