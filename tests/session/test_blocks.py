"""``with session:``: who is in the block, in tasks, threads, pools and generators."""

import asyncio
import contextlib
import queue
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from threading import Event, Thread, Timer

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from agentctx import FitContextWindow, Pipeline, Sessions, blocking
from agentctx.session.session import current

pytestmark = pytest.mark.both_loops

PLAN = Pipeline(FitContextWindow(), budget=1_000)
PATIENCE = 60


def in_thread(function, kind=Thread):
    """What ``function`` gives in a thread that is started here."""
    found = queue.Queue()

    def put():
        found.put(function())

    worker = Timer(0, put) if kind is Timer else Thread(target=put)
    worker.start()
    worker.join(PATIENCE)
    return found.get_nowait()


class Subclass(Thread):
    def run(self):
        self.found = current()


def test_threads_started_in_a_block_are_in_it():
    """A thread, a timer and a thread of a class of its own speak in the block; one within a thread does, too."""
    with PLAN.session() as session:
        assert in_thread(current) is session
        assert in_thread(current, Timer) is session
        assert in_thread(partial(in_thread, current)) is session
        own = Subclass()
        own.start()
        own.join(PATIENCE)
        assert own.found is session
    assert in_thread(current) is None


def test_a_thread_that_was_started_before_is_not_in_the_block():
    """A thread that runs already has no part in a block that another thread enters."""
    go, found = Event(), queue.Queue()
    worker = Thread(target=lambda: (go.wait(PATIENCE), found.put(current())))
    worker.start()
    with PLAN.session():
        go.set()
        assert found.get(timeout=PATIENCE) is None
    worker.join(PATIENCE)


def test_a_thread_that_outlives_the_block_stays_in_it():
    """What was started within the block is in it to its end."""
    go, found = Event(), queue.Queue()
    with PLAN.session() as session:
        worker = Thread(target=lambda: (go.wait(PATIENCE), found.put(current())))
        worker.start()
    go.set()
    assert found.get(timeout=PATIENCE) is session
    worker.join(PATIENCE)


def test_a_pool_works_for_the_block_that_hands_work_over():
    """Two blocks share a pool's one thread: each work is in the block that it comes from, and none without a block."""
    with ThreadPoolExecutor(1) as pool:
        one, two = PLAN.session(), PLAN.session()
        with one:
            assert pool.submit(current).result(PATIENCE) is one
            assert list(pool.map(lambda _: current(), range(3))) == [one] * 3
        assert pool.submit(current).result(PATIENCE) is None
        with two:
            assert pool.submit(current).result(PATIENCE) is two
            assert pool.submit(int, "11", base=8).result(PATIENCE) == 9
        assert pool.submit(current).result(PATIENCE) is None


def test_an_executor_of_the_loop_is_in_the_block():
    """``run_in_executor`` and ``to_thread`` hand the block on."""

    async def go():
        with PLAN.session() as session:
            loop = asyncio.get_running_loop()
            return [
                found is session
                for found in (
                    await loop.run_in_executor(None, current),
                    await asyncio.to_thread(current),
                    await anyio.to_thread.run_sync(current),
                )
            ]

    assert asyncio.run(go()) == [True] * 3


def test_blocks_of_many_threads_do_not_mix():
    """Threads with blocks of their own, each with threads and work for one pool: nobody is in another's block."""
    with ThreadPoolExecutor(4) as pool:

        def converse():
            with PLAN.session() as session:
                for _ in range(20):
                    assert in_thread(current) is session
                    assert pool.submit(current).result(PATIENCE) is session
                return current() is session

        with ThreadPoolExecutor(8) as others:
            asked = [others.submit(converse) for _ in range(8)]
            assert all(each.result(60) for each in asked)


@pytest.mark.anyio
async def test_a_task_is_in_the_block_that_it_was_started_in():
    """Also when the block has ended; other tasks are not, and one that enters a block is in that one."""
    found = {}

    async def look(name, entering=None):
        await anyio.lowlevel.checkpoint()
        with entering or contextlib.nullcontext():
            found[name] = current()

    own = PLAN.session()
    async with anyio.create_task_group() as tasks:
        with PLAN.session() as session:
            tasks.start_soon(look, "child")
            tasks.start_soon(look, "own", own)
        tasks.start_soon(look, "later")
    assert found == {"child": session, "own": own, "later": None}


@pytest.mark.anyio
async def test_a_generator_that_another_task_closes_ends_its_block():
    """A block in a generator that is closed elsewhere is over for the task that read it, and only that block."""
    other = PLAN.session()

    async def speaks(session):
        with session:
            yield current()

    for around in (None, other):
        with around or contextlib.nullcontext():
            session = PLAN.session()
            generator = speaks(session)
            assert await anext(generator) is session
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(partial(close_within, generator, other))
            assert current() is around


async def close_within(generator, session):
    """Close it in a block of another session, which goes on."""
    with session:
        await generator.aclose()
        assert current() is session


def test_a_generator_that_another_thread_closes_ends_its_block():
    """The same for a plain generator that a thread reads to its end."""

    def speaks(session):
        with session:
            yield current()

    session = PLAN.session()
    generator = speaks(session)
    assert next(generator) is session
    in_thread(generator.close)
    assert current() is None
    assert session.blocks == []


def plain(session, **around):
    """A generator that says thrice who speaks in it; in the middle within another block, too."""
    with session:
        yield current()
        with around["inner"]:
            yield current()
        yield said_below()


def said_below():
    """Who speaks in a function that a generator calls."""
    return current()


async def waiting(session):
    """The same, async."""
    with session:
        yield current()
        await anyio.lowlevel.checkpoint()
        with session:
            yield await said_later()
        yield said_below()


async def said_later():
    """Who speaks in an async function that a generator waits for."""
    await anyio.lowlevel.checkpoint()
    return said_below()


async def from_open(session):
    """The same for a block of ``Sessions``."""
    sessions = Sessions(PLAN)
    sessions["one"] = session
    async with sessions.open("one"):
        for _ in range(3):
            yield await said_later()


def stacked(session, **around):
    """The same by a stack of contexts."""
    with contextlib.ExitStack() as stack:
        stack.enter_context(session)
        yield current()
        with contextlib.ExitStack() as further:
            further.enter_context(around["inner"])
            yield current()
        yield current()


@contextlib.contextmanager
def managed(session):
    with session:
        yield


def from_manager(session, **around):
    """The same by a context manager that is a generator itself."""
    with managed(session):
        yield current()
        with managed(around["inner"]):
            yield current()
        yield current()


@pytest.mark.parametrize("around", [False, True])
@pytest.mark.parametrize("kind", [plain, stacked, from_manager])
def test_a_generator_that_threads_read_is_in_its_block(kind, around):
    """Whichever thread reads the next item, in a block of its own or not: the generator is in its own block."""
    other, inner, session = PLAN.session(), PLAN.session(), PLAN.session()

    def read(generator):
        with other if around else contextlib.nullcontext():
            found = next(generator)
            spoke.append(current())
        return found

    generator, spoke = kind(session, inner=inner), []
    with ThreadPoolExecutor(1) as pool:
        seen = [in_thread(partial(read, generator)), pool.submit(read, generator).result(PATIENCE)]
        seen.append(in_thread(partial(read, generator)))
    in_thread(generator.close)
    assert seen == [session, inner, session]
    assert spoke[2] is (other if around else None)  # it entered nothing
    assert current() is None
    assert session.blocks == inner.blocks == []


@pytest.mark.parametrize("kind", [waiting, from_open])
@pytest.mark.anyio
async def test_a_generator_that_tasks_read_is_in_its_block(kind):
    """Whichever task reads the next item, as ``wait_for`` makes one for each; two generators at once do not mix."""
    sessions = [PLAN.session() for _ in range(3)]
    generators = [kind(each) for each in sessions]
    seen = [[], [], []]

    async def read(number):
        seen[number].append(await anext(generators[number]))

    for _ in range(3):
        async with anyio.create_task_group() as tasks:
            for number in range(3):
                tasks.start_soon(read, number)
        assert current() is None
    for generator in generators:
        await generator.aclose()
    assert seen == [[session] * 3 for session in sessions]
    assert not any(session.blocks for session in sessions)


def test_generators_that_one_thread_reads_by_turns():
    """Each is in its own block, also where it hands work to a pool, starts a thread or blocks for what is async."""

    def speaks(session):
        async def look():
            return current()

        with session, ThreadPoolExecutor(1) as pool:
            while True:
                yield [current(), in_thread(current), pool.submit(current).result(PATIENCE), blocking(look)]

    sessions = [PLAN.session(), PLAN.session()]
    generators = [speaks(each) for each in sessions]
    for _ in range(2):
        for session, generator in zip(sessions, generators, strict=True):
            assert next(generator) == [session] * 4
    for generator in generators:
        generator.close()
    assert current() is None


def test_a_step_in_a_generator_is_no_part_of_its_conversation():
    """What a generator's own step asks for speaks for nobody, as anywhere else."""
    found = []

    async def stage(context, _call):
        found.append(current())
        return context

    plan = Pipeline(stage, budget=1_000)

    def speaks(session):
        with session:
            while True:
                yield blocking(session.prepare, [{"role": "user", "content": "Begin."}], format="openai-chat")

    generator = speaks(plan.session())
    in_thread(partial(next, generator))
    next(generator)
    in_thread(generator.close)
    assert found == [None, None]


def test_a_block_that_a_function_leaves_open_is_further_in():
    """A function that a generator calls may enter a block for it, and leave it in another one."""
    inner, session = PLAN.session(), PLAN.session()

    def speaks():
        with session:
            begin(inner)
            yield current()
            end(inner)
            yield current()

    def begin(entered):
        entered.__enter__()

    def end(entered):
        entered.__exit__(None, None, None)

    assert list(speaks()) == [inner, session]
    assert current() is None


def test_blocks_end_in_any_order():
    """A block that a generator holds open may end within another one that began later."""

    def speaks(session):
        with session:
            yield

    outer, inner = PLAN.session(), PLAN.session()
    generator = speaks(outer)
    next(generator)
    with inner:
        generator.close()
        assert current() is inner
    assert current() is None


def test_a_generator_goes_on_after_its_block():
    """A generator that has left its block speaks for whoever reads it."""

    def speaks(session):
        with session:
            yield current()
        yield current()

    outer, inner = PLAN.session(), PLAN.session()
    with outer:
        assert list(speaks(inner)) == [inner, outer]


def test_each_leaves_its_own_block_of_a_session():
    """Of two that have entered one session, the first may leave first."""
    session, elsewhere = PLAN.session(), copy_context()
    with session:
        elsewhere.run(session.__enter__)
    assert current() is None
    assert elsewhere.run(current) is session
    elsewhere.run(session.__exit__, None, None, None)
    assert elsewhere.run(current) is None


def test_a_session_may_be_entered_twice():
    """The block ends with its outermost ``with``."""
    session = PLAN.session()
    with session:
        with session:
            assert current() is session
        assert current() is session
    assert current() is None


def test_another_library_may_do_the_same(monkeypatch):
    """Where another library has wrapped how threads start, before or since, threads start and blocks reach them."""
    with PLAN.session() as session:
        ours, started = Thread.start, []

        def theirs(thread):
            started.append(thread)
            ours(thread)

        monkeypatch.setattr(Thread, "start", theirs)
        with PLAN.session() as inner:
            seen = []
            thread = Thread(target=lambda: seen.append(current()))
            thread.start()
            thread.join()
    assert seen == [inner]
    assert started == [thread]
    assert session is not inner
