"""``with session:``: who is in the block, in tasks, threads, pools and generators."""

import asyncio
import contextlib
import queue
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Event, Thread, Timer

import anyio
import anyio.lowlevel
import anyio.to_thread
import pytest

from agentctx import FitContextWindow, Pipeline
from agentctx.session.current import current

PLAN = Pipeline(FitContextWindow(), budget=1_000)
PATIENCE = 20


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
            assert pool.submit(int, "7", base=8).result(PATIENCE) == 7
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
