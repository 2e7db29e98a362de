"""Calls that a framework gives no name go on with the conversation whose history they show."""

import anyio
import pytest
from hypothesis import example, given, settings, strategies as st

from agentctx import Budget, FitContextWindow, Pipeline, Sessions
from agentctx.formats.openai_chat import ChatCompletions
from agentctx.frameworks.calls import UNNAMED, ModelCalls, Request
from agentctx.stores import MemoryStore
from agentctx.testing import assistant, call, result, system, transcript, user

pytestmark = pytest.mark.anyio
ROUNDS = 12


def pipeline():
    return Pipeline(FitContextWindow(), budget=Budget(window=900, trigger=0.9, target=0.4))


def told(who, rounds, task="Read all of it.", prompt="You read."):
    """An agent's history after so many calls: all have the same task, and the same calls at the same places."""
    said = [system(prompt), user(task)]
    for number in range(rounds):
        lines = "\n".join(f"{who} says line {line} of part {number}" for line in range(8))
        said += [assistant(call(f"c{number}", "read", {"part": number})), result(f"c{number}", lines)]
    return transcript("openai-chat", *said)


async def sent(calls, messages, **more):
    """What a call of a hook sends."""
    request = Request(
        UNNAMED, ChatCompletions(), messages, [[each] for each in messages], lambda _, left: left[0].message, **more
    )
    return (await calls.begin(request)).messages


async def alone(who, rounds=ROUNDS):
    """What is sent for an agent that has a session to itself."""
    session = pipeline().session()
    return [(await session.prepare(told(who, number))).messages for number in range(rounds)]


@settings(max_examples=12)
@given(turns=st.lists(st.integers(0, 2), max_size=60))
def test_agents_with_the_same_task_are_kept_apart(turns):
    """In whatever order their calls come, each is sent what it would be sent alone: nothing is cut twice."""

    async def run():
        calls, views = ModelCalls("Hook", pipeline(), None), {0: [], 1: [], 2: []}
        for turn in [*turns, *(who for who in views for _ in range(ROUNDS))]:
            if len(views[turn]) < ROUNDS:
                views[turn].append(await sent(calls, told(f"agent {turn}", len(views[turn]))))
        assert views == {who: await alone(f"agent {who}") for who in views}

    anyio.run(run)


async def test_what_is_said_to_each_of_them_tells_none_from_another():
    """Where each is told the same after its own words ("Go on.", "ok"), it is sent what it would be sent alone."""

    def said(who, rounds):
        own = ["\n".join(f"{who} says line {line} of part {part}" for line in range(8)) for part in range(rounds)]
        rounds = [each for words in own for each in (assistant(words), user("Go on."))]
        return transcript("openai-chat", user("Read all of it."), *rounds)

    calls, sessions = ModelCalls("Hook", pipeline(), None), [pipeline().session() for _ in range(3)]
    for number in range(ROUNDS):
        for who, session in enumerate(sessions):
            expected = (await session.prepare(said(f"agent {who}", number))).messages
            assert expected == await sent(calls, said(f"agent {who}", number))
    assert len(expected) < 2 * ROUNDS - 1
    assert 3 == len(calls.sessions)


async def test_in_a_block_they_are_the_block_s():
    """``with session:`` says which conversation it is."""
    calls, session = ModelCalls("Hook", pipeline(), None), pipeline().session()
    for number in range(2):
        with session:
            await sent(calls, told("agent", number))
    assert (2, 0) == (session.steps, len(calls.sessions))


async def test_those_of_two_owners_are_apart():
    """Also where they say the same."""
    calls = ModelCalls("Hook", pipeline(), None)
    for number in range(3):
        for owner in ("one", "other"):
            await sent(calls, told("agent", number), owner=owner)
    assert [3, 3] == [session.steps for session in calls.sessions.values()]


async def test_more_than_a_few_at_once():
    """A hundred conversations of one hook, in turns: none is forgotten."""
    calls = ModelCalls("Hook", pipeline(), None)
    for number in range(3):
        for who in range(100):
            await sent(calls, told(f"agent {who}", number, task=f"Task {who}."))
    assert {3} == {session.steps for session in calls.sessions.values()}
    assert 100 == len(calls.sessions)


async def test_those_that_there_is_no_room_for_are_forgotten(monkeypatch):
    """The histories that are held together are bounded; the one that goes on is never forgotten."""
    monkeypatch.setattr("agentctx.session.conversations.MOST_TOKENS", 2_000)
    calls = ModelCalls("Hook", pipeline(), None)
    for who in range(20):
        for number in range(3):
            await sent(calls, told(f"agent {who}", number, task=f"Task {who}."))
    assert 1 < len(calls.sessions) < 20
    assert [3] == [session.steps for session in calls.sessions.values()][-1:]


def for_one_call(history, kind, number):
    """A history as a client shows it that says something for this call alone, or marks its last message."""
    now = transcript("openai-chat", user(f"This is step {number}."))
    if kind == "reminder":
        return [*history, *now]
    if kind == "found":  # for a question, which stays
        return [*history[:-1], *now, history[-1]]
    if kind == "marker":
        mark = {"type": "text", "text": history[-1]["content"], "cache_control": {"type": "ephemeral"}}
        return [*history[:-1], {**history[-1], "content": [mark]}]
    said = [{"type": "text", "text": history[-1]["content"]}]
    return [*history[:-1], {**history[-1], "content": [*said, {"type": "text", "text": now[0]["content"]}]}]


@settings(max_examples=8)
@given(turns=st.lists(st.integers(0, 2), max_size=40), kinds=st.permutations(["reminder", "found", "marker", "block"]))
@example(turns=[1, 1, 2, 2, 1, 0, 1, 2, 1], kinds=["found", "marker", "reminder", "block"])
def test_what_is_said_for_one_call_alone_makes_no_other_conversation(turns, kinds):
    """Each of three that take turns is sent what it would be sent alone, and has one session to the end."""

    def asked(who, number):
        rounds = [each for part in range(number) for each in (assistant(f"{who} says {part}. " * 40), user("Go on."))]
        history = transcript("openai-chat", user("Read all of it."), *rounds)
        return for_one_call(history, kinds[who], number) if number else history

    async def run():
        calls, sessions, steps = ModelCalls("Hook", pipeline(), None), [pipeline().session() for _ in range(3)], [0] * 3
        for who in [*turns, *(who for who in range(3) for _ in range(ROUNDS))]:
            if steps[who] < ROUNDS:
                expected = (await sessions[who].prepare(asked(who, steps[who]))).messages
                assert expected == await sent(calls, asked(who, steps[who]))
                steps[who] += 1
        assert 3 == len(calls.sessions)

    anyio.run(run)


@pytest.mark.parametrize("change", ["clock", "middle", "start", "views"])
async def test_a_history_that_was_edited_is_the_same_conversation(change):
    """Under a system prompt that tells the time, with a message less, without its start, and where views came back."""
    calls, view = ModelCalls("Hook", pipeline(), None), []
    for number in range(4, ROUNDS):
        history = told("agent", number, prompt=f"It is {number}:00." if change == "clock" else "You read.")
        history[8:8] = transcript("openai-chat", user("Go on."))
        if change == "middle" and number > 5:
            del history[4:6]
        if change == "start" and number > 5:
            del history[1:8]
        if change == "views" and number > 4:
            history = [*view, *history[-2:]]
        view = await sent(calls, history)
    assert [ROUNDS - 4] == [session.steps for session in calls.sessions.values()]


async def test_a_branch_begins_with_what_both_share():
    """Where a caller goes back and on another way, the prefix of what was sent stays; so does the way that was left."""
    calls = ModelCalls("Hook", pipeline(), None)
    views = [await sent(calls, told("agent", number)) for number in range(ROUNDS)]
    back = told("agent", ROUNDS - 2) + transcript("openai-chat", user("Now the rest."))
    branch = await sent(calls, back)
    assert branch[:3] == views[-1][:3] != back[:3]
    on = await sent(calls, told("agent", ROUNDS))
    assert on[: len(views[-1])] == views[-1]
    assert 2 == len(calls.sessions)


async def test_what_a_model_takes_is_known_to_the_next():
    """A limit that one conversation has learned holds in those that begin after it."""
    calls = ModelCalls("Hook", pipeline(), None)
    await sent(calls, told("agent", 3))
    (session,) = calls.sessions.values()
    await session.recover(Exception("This model's maximum context length is 600 tokens."))
    await sent(calls, told("another", 0, task="Write."))
    assert session.budget.limit == [*calls.sessions.values()][1].budget.limit < 900


async def test_with_a_store_they_are_in_memory():
    """A store keeps what has a name."""
    calls = ModelCalls("Hook", None, Sessions(pipeline(), MemoryStore()))
    assert (await sent(calls, told("agent", 1))) == told("agent", 1)
    assert 0 == len(calls.sessions)
