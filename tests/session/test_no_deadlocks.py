"""Sessions whose parts ask for each other's steps: nobody waits for ever."""

from functools import partial
from threading import Barrier, Thread

import anyio
import anyio.from_thread
import anyio.to_thread
import pytest
from hypothesis import given, strategies as st

from agentctx import AgentctxError, Budget, FitContextWindow, Pipeline, Sessions, blocking
from agentctx.testing import transcript, user

pytestmark = pytest.mark.both_loops

BUDGET, PATIENCE = Budget(1_500), 60
SAID = transcript("openai-chat", user("Begin."))


class Meeting:
    """Sessions whose stages wait until all are within their steps, and then ask for steps of others."""

    def __init__(self, asks, ask):
        self.arrived, self.all, self.ask, self.errors = 0, None, ask, []
        self.sessions = [self.pipeline(others).session(format="openai-chat") for others in asks]

    def pipeline(self, others):
        async def stage(context, _call):
            self.arrived += 1
            if self.arrived == len(self.sessions):
                self.all.set()
            if not self.all.is_set():
                await self.all.wait()
            for other in others:
                await self.ask(self.sessions[other])
            return context

        return Pipeline(stage, FitContextWindow(), budget=BUDGET)

    async def step(self, session):
        try:
            await session.prepare(SAID)
        except AgentctxError as error:
            self.errors.append(error)

    async def hold(self):
        self.all = anyio.Event()
        with anyio.fail_after(PATIENCE):
            async with anyio.create_task_group() as tasks:
                for session in self.sessions:
                    tasks.start_soon(self.step, session)


async def waits(session):
    await session.prepare(SAID)


async def waits_in_a_task(session):
    failed = []

    async def go():
        try:
            await session.prepare(SAID)
        except AgentctxError as error:
            failed.append(error)

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(go)
    for error in failed:
        raise error


async def blocks_the_loop(session):
    blocking(session.prepare, SAID)


async def blocks_a_thread(session):
    await anyio.to_thread.run_sync(blocking, partial(session.prepare, SAID))


ASKING = [waits, waits_in_a_task, blocks_the_loop, blocks_a_thread]


@pytest.mark.parametrize("asks", [[[1], [0]], [[1], [2], [0]], [[0]], [[1, 2], [], [0]]], ids=str)
@pytest.mark.parametrize("ask", ASKING)
@pytest.mark.anyio
async def test_steps_that_wait_for_each_other_end(ask, asks):
    """Where stages of sessions ask for steps in a circle, one is told so by an error that says it, and all end."""
    meeting = Meeting(asks, ask)
    await meeting.hold()
    assert meeting.errors
    assert all("neither would ever end" in str(error) for error in meeting.errors)
    assert not any(session.internals.lock.holder for session in meeting.sessions)


@pytest.mark.anyio
async def test_sync_code_that_holds_the_loop_of_a_step_is_told():
    """``blocking`` in a loop that runs is no deadlock: at once where nobody has the session, else an error says why."""
    inside, go_on = anyio.Event(), anyio.Event()

    async def stage(context, _call):
        inside.set()
        if not go_on.is_set():
            await go_on.wait()
        return context

    session = Pipeline(stage, FitContextWindow(), budget=BUDGET).session(format="openai-chat")
    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(session.prepare, SAID)
            await inside.wait()
            with pytest.raises(AgentctxError, match="holds the event loop"):
                blocking(session.prepare, SAID)
            go_on.set()
        assert blocking(session.prepare, SAID).messages == SAID


@given(st.lists(st.lists(st.integers(0, 3), max_size=2), min_size=4, max_size=4))
def test_whoever_asks_whom_all_end(asks):
    """Whatever sessions ask for steps of whichever others, all come to an end, without an error where none wait."""
    for backend in ("asyncio", "trio"):
        meeting = Meeting(asks, waits)
        anyio.run(meeting.hold, backend=backend)
        if not any(asks):
            assert not meeting.errors


@pytest.mark.anyio
async def test_waiting_for_a_step_that_ends_is_no_error():
    """Stages that ask for one session, which asks for none, take turns there."""
    quiet = Pipeline(FitContextWindow(), budget=BUDGET).session(format="openai-chat")
    meeting = Meeting([[], [], []], lambda _session: quiet.prepare(SAID))
    meeting.sessions = [meeting.pipeline([0]).session(format="openai-chat") for _ in range(3)]
    await meeting.hold()
    assert not meeting.errors
    assert quiet.steps == 3


@pytest.mark.anyio
async def test_what_a_step_left_running_waits_as_anyone_does():
    """A task that a stage started, and that outlives the step, may ask for another step of the session."""
    async with anyio.create_task_group() as tasks:
        gate = anyio.Event()

        async def later():
            await gate.wait()
            await session.prepare(SAID)

        async def stage(context, _call):
            if session.steps == 0 and not gate.is_set():
                tasks.start_soon(later)
            return context

        session = Pipeline(stage, budget=BUDGET).session(format="openai-chat")
        await session.prepare(SAID)
        gate.set()
    assert session.steps == 2


@pytest.mark.parametrize("hook", ["plain", "async"])
@pytest.mark.anyio
async def test_a_load_that_asks_for_what_it_loads_is_told(hook):
    """``load`` cannot open the conversation that it is asked for; the error says so, and later calls work."""
    asked = []

    async def find(name):
        asked.append(name)
        if len(asked) == 1:
            async with sessions.open(name):
                pass

    def find_plain(name):
        return anyio.from_thread.run(find, name)

    sessions = Sessions(Pipeline(budget=BUDGET), load=find if hook == "async" else find_plain)
    with anyio.fail_after(PATIENCE):
        with pytest.raises(AgentctxError, match="neither would ever end"):
            async with sessions.open("one"):
                pass
        async with sessions.open("one") as session:
            assert session.steps == 0


def test_threads_whose_steps_wait_for_each_other():
    """The same between threads that block, each with a loop of its own."""
    both, arrived, errors = Barrier(2), [], []

    def pipeline(other):
        async def stage(context, _call):
            arrived.append(other)
            if len(arrived) <= 2:
                both.wait(PATIENCE)
            blocking(sessions[other].prepare, SAID)
            return context

        return Pipeline(stage, budget=BUDGET)

    def step(session):
        try:
            blocking(session.prepare, SAID)
        except AgentctxError as error:
            errors.append(error)

    sessions = [pipeline(other).session(format="openai-chat") for other in (1, 0)]
    threads = [Thread(target=step, args=(session,), daemon=True) for session in sessions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in threads)
    assert errors
