"""Conversations by name: held, put away and had back; and what is reachable of a wrapped client."""

import copy
import json
import logging
from contextlib import nullcontext
from threading import Event, Thread

import anyio
import anyio.lowlevel
import boto3
import litellm
import pytest
from anthropic import AsyncAnthropic
from both_kinds import now
from client_histories import chat
from hypothesis import given, strategies as st
from openai import AsyncOpenAI, OpenAI

import agentctx
from agentctx import Budget, ConfigError, Pipeline, Session, Sessions, wrap
from agentctx.session.sessions import PAUSE
from agentctx.testing.servers import chat_completions

pytestmark = pytest.mark.both_loops

MODEL = "gpt-4o"
PLAN = Pipeline(agentctx.FitContextWindow(), budget=agentctx.Budget(1_500, trigger=0.8, target=0.4))


def by_user(body):
    return body.get("user")


def ask(client, said, **more):
    return client.chat.completions.create(model=MODEL, messages=said, **more)


async def eventually(holds):
    for _ in range(1_000):
        if holds():
            return
        await anyio.sleep(0.01)
    assert holds()


class Shelf:
    """Keeps states as JSON text, and can be told to fail."""

    def __init__(self, *, fails=""):
        self.kept, self.told, self.fails = {}, [], fails

    async def keep(self, event):
        await anyio.lowlevel.checkpoint()
        self.told.append((event.name, event.why))
        if self.fails:
            raise OSError(self.fails)
        self.kept[event.name] = json.dumps(event.session.dump())

    async def find(self, name):
        await anyio.lowlevel.checkpoint()
        return self.kept.get(name)

    def sessions(self, **options):
        return Sessions(PLAN, load=self.find, on_evict=self.keep, **options)


@pytest.fixture
def client(serve, closing):
    def make(kind=AsyncOpenAI):
        desk, url = serve(chat_completions)
        return desk, closing(kind(base_url=f"{url}/v1", api_key="none", max_retries=0))

    return make


@pytest.mark.parametrize("kind", [AsyncOpenAI, OpenAI])
@pytest.mark.anyio
async def test_more_conversations_than_places(client, kind):
    """Seven conversations in three places, put away and had back: each is sent what it would be sent alone."""
    desk, given = client(kind)
    shelf = Shelf()
    wrapped = wrap(given, PLAN, key=by_user, sessions=shelf.sessions(capacity=3))
    alone = {name: PLAN.session() for name in "abcdefg"}
    for rounds in (2, 6, 7, 9):
        for name, session in alone.items():
            await now(ask(wrapped, chat(rounds, name), user=name))
            view = await session.prepare(chat(rounds, name), format="openai-chat", model=MODEL)
            session.record({"prompt_tokens": agentctx.count(view.messages, MODEL)})
            assert desk.requests[-1]["messages"] == view.messages
    assert len(wrapped.agentctx.sessions) == 3
    assert {why for _, why in shelf.told} == {"capacity"}


@pytest.mark.anyio
async def test_idle_sessions_are_put_away():
    """What is unused for longer than ``idle`` is evicted when another is asked for; what is in use is not."""
    shelf, clock = Shelf(), [0.0]
    sessions = shelf.sessions(idle=10, clock=lambda: clock[0])
    async with sessions.open("held"), sessions.open("left"):
        pass
    async with sessions.open("held") as held:
        clock[0] = 11
        async with sessions.open("new"):
            assert set(sessions) == {"held", "new"}
            assert sessions["held"] is held
    assert shelf.told == [("left", "idle")]


@pytest.mark.parametrize("options", [{"capacity": 2}, {"idle": 10}])
@pytest.mark.anyio
async def test_what_was_in_use_last_stays(options):
    """A session counts as unused from when its use ended: one that was opened first, and left last, is not evicted."""
    shelf, clock = Shelf(), [0.0]
    sessions = shelf.sessions(**options, clock=lambda: clock[0])
    async with sessions.open("long"):
        async with sessions.open("short"):
            pass
        clock[0] = 100
    clock[0] = 101
    async with sessions.open("new"):
        assert set(sessions) == {"long", "new"}
    assert [name for name, _ in shelf.told] == ["short"]


@given(st.lists(st.tuples(st.sampled_from(["enter", "leave", "set", "close"]), st.sampled_from("abc")), max_size=20))
def test_names_stand_in_the_order_of_their_last_use(events):
    """Whatever is opened, left, put in, or fails to be put away: the name that is unused for longest comes first."""

    async def go():
        clock, used, inside = [0], {}, []
        sessions = Shelf(fails="the shelf is full").sessions(clock=lambda: clock[0])
        for clock[0], (event, name) in enumerate(events):
            if event == "enter":
                inside.append((name, sessions.using(name)))
                await inside[-1][1].__aenter__()
            elif event == "set":
                sessions[name] = PLAN.session()
                inside = [each for each in inside if each[0] != name]
            elif event == "close":
                await sessions.close(name)
            elif name in dict(inside):
                mine = next(each for each in inside if each[0] == name)
                inside.remove(mine)
                await mine[1].__aexit__(None, None, None)
            else:
                continue
            if event != "close":
                used[name] = clock[0]
            assert list(sessions) == sorted(used, key=used.get)

    anyio.run(go)


PICKED = st.tuples(st.sampled_from(["enter", "enter", "leave", "leave", "wait"]), st.integers(0, 4))


@given(st.lists(PICKED, min_size=12, max_size=25), st.integers(1, 3), st.sampled_from([None, 1]))
def test_what_is_evicted_is_unused_for_longest_and_no_more(events, capacity, idle):
    """Evicted is what is idle, and of the others as many as are too many, those unused for longest; none in use."""

    async def go():
        clock, used, inside, shelf = [0], {}, [], Shelf()
        sessions = shelf.sessions(capacity=capacity, idle=idle, clock=lambda: clock[0])
        for event, pick in events:
            if event == "wait":
                clock[0] += 1
            elif event == "enter":
                inside.append((f"c{pick}", sessions.using(f"c{pick}")))
                await inside[-1][1].__aenter__()
                used[f"c{pick}"] = clock[0]
                told, shelf.told = dict(shelf.told), []
                unused = {name: clock[0] - since for name, since in used.items() if name not in dict(inside)}
                assert told == expected(unused, len(used) - capacity, idle)
                used = {name: since for name, since in used.items() if name in sessions}
                assert len(sessions) == len(used)
            elif inside:
                name, mine = inside.pop(pick % len(inside))
                await mine.__aexit__(None, None, None)
                used.pop(name)  # and behind the others
                used[name] = clock[0]

    def expected(unused, too_many, idle):
        """Why each that is evicted is; the one that is unused for longest comes first in ``unused``."""
        late = {name: "idle" for name, seconds in unused.items() if idle is not None and seconds > idle}
        rest = [name for name in unused if name not in late]
        return late | dict.fromkeys(rest[: max(too_many - len(late), 0)], "capacity")

    anyio.run(go)


@pytest.mark.anyio
async def test_an_open_session_speaks_and_stays(client):
    """Within ``open`` wrapped clients speak in the session, and it is not evicted for want of room."""
    _, given = client()
    shelf = Shelf()
    sessions = shelf.sessions(capacity=1)
    wrapped = wrap(given, PLAN)
    async with sessions.open("one") as one:
        async with sessions.open("two") as two:
            await ask(wrapped, chat(1))
        await ask(wrapped, chat(2))
        assert (one.steps, two.steps) == (1, 1)
        assert sessions["one"] is one
    await sessions.close("one")
    assert ("one", "closed") in shelf.told
    async with sessions.open("one") as again:
        assert again is not one
        assert again.steps == 1


@pytest.mark.anyio
async def test_a_listener_that_fails_costs_no_session(caplog):
    """While ``on_evict`` raises, what should be put away is held on, and the failure is logged."""
    shelf = Shelf(fails="the shelf is full")
    sessions = shelf.sessions(capacity=1)
    async with sessions.open("one") as one:
        pass
    async with sessions.open("two"):
        pass
    assert sessions["one"] is one
    assert "the shelf is full" in caplog.text
    shelf.fails = ""
    async with sessions.open("two"):
        pass
    assert list(sessions) == ["two"]


@pytest.mark.anyio
async def test_plain_hooks_do_not_stop_the_event_loop():
    """A plain ``on_evict`` and a plain ``load`` wait for what only the event loop can do: it goes on meanwhile."""
    gates, states = {"evict": Event(), "load": Event()}, {}

    def keep(event):
        assert gates["evict"].wait(20)
        states[event.name] = event.session.dump()

    def find(name):
        assert name != "slow" or gates["load"].wait(120)
        return states.get(name)

    sessions = Sessions(PLAN, capacity=2, load=find, on_evict=keep)
    async with sessions.open("one"):
        pass

    async def go(name):
        async with sessions.open(name):
            pass

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(go, "slow")
            await anyio.sleep(0.05)
            await go("two")
            tasks.start_soon(go, "three")
            await anyio.sleep(0.05)
            await go("two")
            for gate in gates.values():
                gate.set()
    assert states


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.anyio
async def test_an_eviction_that_hangs_holds_nobody_for_long(plain, monkeypatch, caplog):
    """It has the listeners' time; then the session is held on, and no call waits for the hook for a minute."""
    monkeypatch.setattr("agentctx.session.sessions.SECONDS", 0.1)
    clock, done, asked = [0.0], Event(), []

    def hang(event):
        asked.append(event.name)
        done.wait(300)

    async def hang_async(event):
        asked.append(event.name)
        if not done.is_set():
            await anyio.sleep(300)

    sessions = Sessions(PLAN, capacity=1, on_evict=hang if plain else hang_async, clock=lambda: clock[0])
    with anyio.fail_after(60):
        for name in "abcab":
            async with sessions.open(name):
                pass
        assert asked == ["a"]
        assert set(sessions) == {"a", "b", "c"}
        assert "more than 0.1 seconds" in caplog.text
        clock[0] = PAUSE + 1
        done.set()
        await anyio.sleep(0.05)
        async with sessions.open("d"):
            assert list(sessions) == ["d"]


@pytest.mark.parametrize("plain", [True, False])
@pytest.mark.anyio
async def test_calls_do_not_wait_for_evictions(plain):
    """While ``on_evict`` is at work, calls of all names go on, also of the session that is to go; it is not lost."""
    gate, kept, waited = Event(), {}, []

    def keep(event):
        assert gate.wait(120)
        kept[event.name] = event.session.dump()

    async def keep_async(event):
        await eventually(gate.is_set)
        kept[event.name] = event.session.dump()

    sessions = Sessions(PLAN, capacity=2, load=kept.get, on_evict=keep if plain else keep_async)
    for name in "abcdeab":
        begun = anyio.current_time()
        async with sessions.open(name) as session:
            await session.prepare(chat(1), format="openai-chat")
        waited.append(anyio.current_time() - begun)
    assert sum(waited) < 20  # and an eviction waits for a gate
    assert not kept
    gate.set()
    await eventually(lambda: len(sessions) <= 2)
    states = {name: kept.get(name) or sessions[name].dump() for name in "abcde"}
    assert {name: state["steps"] for name, state in states.items()} == {**dict.fromkeys("cde", 1), "a": 2, "b": 2}


@pytest.mark.parametrize("cancelled", [False, True])
@pytest.mark.parametrize("backend", ["asyncio", "trio"])
def test_evictions_outlive_their_calls_and_not_their_loops(backend, cancelled):
    """An eviction goes on when the call that caused it is cancelled; where its loop ends, the session is held."""
    told, sessions = [], None

    async def keep(event):
        told.append(event.name)
        await anyio.sleep(0.5 if len(told) == 1 else 0)

    async def go(*names):
        for name in names:
            with anyio.move_on_after(0.1) if cancelled else nullcontext():
                async with sessions.open(name):
                    pass

    async def wait():
        await go("three")
        await eventually(lambda: len(sessions) <= 1)

    sessions = Sessions(PLAN, capacity=1, on_evict=keep)
    anyio.run(go, "one", "two", backend=backend)
    assert set(sessions) == {"one", "two"}
    anyio.run(wait, backend=backend)
    assert told[:2] == ["one", "one"]


@pytest.mark.anyio
async def test_an_eviction_may_ask_for_the_session_that_goes():
    """A hook that opens the very session holds nobody: the session was used, and stays."""

    async def keep(event):
        told.append(event.name)
        if len(told) == 1:
            async with sessions.open(event.name) as session:
                assert session is event.session

    told, sessions = [], Sessions(PLAN, capacity=1, on_evict=keep)
    with anyio.fail_after(60):
        for name in "abb":
            async with sessions.open(name):
                pass
    assert told[0] == "a"
    assert set(sessions) <= {"a", "b"}


@pytest.mark.anyio
async def test_without_a_listener_the_first_eviction_is_said(caplog):
    """A conversation that is forgotten for want of room is said once, with what to do about it."""
    sessions = Sessions(PLAN, capacity=1)
    with caplog.at_level(logging.WARNING, "agentctx"):
        for name in "abc":
            async with sessions.open(name):
                pass
    assert [record.getMessage().startswith("session 'a' is forgotten") for record in caplog.records] == [True]


@pytest.mark.anyio
async def test_one_name_asked_for_at_once_is_one_session():
    """Tasks that ask for one name while it is loaded get one session, and loading it holds no other name."""
    gate, loads = anyio.Event(), []

    async def load(name):
        loads.append(name)
        if name == "slow":
            await gate.wait()

    sessions, found = Sessions(PLAN, load=load), []

    async def go():
        async with sessions.open("slow") as session:
            found.append(session)

    with anyio.fail_after(60):
        async with anyio.create_task_group() as tasks:
            for _ in range(5):
                tasks.start_soon(go)
            await anyio.wait_all_tasks_blocked()
            async with sessions.open("quick"):
                gate.set()
    assert loads == ["slow", "quick"]
    assert len(found) == 5
    assert len(set(map(id, found))) == 1


def test_threads_share_names(client):
    """Threads with one sync client and few places: each conversation has its own words alone, and all its steps."""
    desk, given = client(OpenAI)
    shelf = Shelf()
    wrapped = wrap(given, PLAN, key=by_user, sessions=shelf.sessions(capacity=2))

    def converse(name):
        for rounds in (1, 3, 5):
            ask(wrapped, chat(rounds, name), user=name)

    names = [f"canary-{number}" for number in range(8)]
    threads = [Thread(target=converse, args=(name,)) for name in names]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert all(sum(name in json.dumps(body["messages"]) for name in names) == 1 for body in desk.requests)
    for name in [*wrapped.agentctx.sessions]:
        agentctx.blocking(wrapped.agentctx.sessions.close, name)
    assert {name: json.loads(shelf.kept[name])["steps"] for name in names} == dict.fromkeys(names, 3)


@pytest.mark.anyio
async def test_what_was_prepared_is_reachable(client):
    """``wrapped.agentctx`` has the sessions by key, the last view of each and of the client, also for its copies."""
    desk, given = client()
    wrapped = wrap(given, PLAN, key=by_user)
    await ask(wrapped, chat(12), user="one")
    one = wrapped.agentctx.sessions["one"]
    assert one.view.messages == desk.requests[-1]["messages"]
    assert one.view.report.acted
    await ask(wrapped, chat(1))
    assert wrapped.agentctx.view.messages == chat(1)
    assert wrapped.agentctx.report is wrapped.agentctx.view.report
    assert set(wrapped.agentctx.sessions) == {"one"}
    assert agentctx.of(wrapped.with_options(timeout=9)) is agentctx.of(wrapped) is wrapped.agentctx
    wrapped.agentctx.sessions["two"] = Session.load(PLAN, one.dump())
    await ask(wrapped, chat(13), user="two")
    assert wrapped.agentctx.sessions["two"].steps == 2


@pytest.mark.filterwarnings("ignore")  # LiteLLM warns of its own types
def test_every_kind_of_client_has_it():
    """The sessions and the last view are reachable whatever was wrapped, and each wrapping has its own."""
    keys = {"aws_access_key_id": "none", "aws_secret_access_key": "none"}
    clients = [
        OpenAI(api_key="none"),
        AsyncAnthropic(api_key="none"),
        boto3.client("bedrock-runtime", region_name="us-east-1", **keys),
        litellm.completion,
        litellm.Router(model_list=[]),
    ]
    for each in clients:
        one, two = wrap(each, PLAN, session=PLAN.session()), wrap(each, PLAN)
        assert one.agentctx is not two.agentctx
        assert one.agentctx.session is not None
        assert two.agentctx.session is None
        assert two.agentctx.view is None
        assert agentctx.of(one) is one.agentctx
        with pytest.raises(agentctx.ConfigError, match="was not wrapped"):
            agentctx.of(each)
    assert copy.copy(one).agentctx is one.agentctx


@pytest.mark.parametrize(
    "options",
    [{"capacity": 0}, {"capacity": 1.5}, {"idle": 0}, {"idle": "1h"}],
)
def test_numbers_that_make_no_sense(options):
    """A capacity below one, or an idle time that is none, is refused by name."""
    with pytest.raises(ConfigError, match=rf"^Sessions\.{next(iter(options))} must be a "):
        Sessions(PLAN, **options)


def test_sessions_without_a_key_or_of_another_pipeline():
    """Sessions that nothing could ever be put into are refused, and so are those of another pipeline."""
    given, other = OpenAI(api_key="none"), Pipeline(agentctx.FitContextWindow(), budget=Budget(1_000))
    with pytest.raises(ConfigError, match=r"^wrap\.key must be a function where there are sessions="):
        wrap(given, PLAN, sessions=Sessions(PLAN))
    with pytest.raises(ConfigError, match=r"^wrap\.sessions must be made with the same pipeline, got "):
        wrap(given, PLAN, key=by_user, sessions=Sessions(other))


@pytest.mark.parametrize("kind", [AsyncOpenAI, OpenAI])
@pytest.mark.anyio
async def test_a_conversation_without_a_session_is_said_once(client, kind):
    """The second call that goes on from one without a session warns, once; calls that have nothing in common do not."""
    _, given = client(kind)
    wrapped = wrap(given, PLAN)
    for mark in "ab":
        await now(ask(wrapped, chat(1, mark)))
        await now(ask(wrapped, chat(1, mark)))
    with pytest.warns(UserWarning, match="without a session"):
        await now(ask(wrapped, chat(2, "a")))
    await now(ask(wrapped, chat(3, "a")))
    with PLAN.session():
        for rounds in (1, 2):
            await now(ask(wrap(given, PLAN), chat(rounds)))
    await now(ask(wrap(given, PLAN, session=PLAN.session()), chat(2)))
