"""``with session:``: what is in the block, in tasks, threads, pools and generators."""

import asyncio
import contextlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from functools import partial
from multiprocessing.pool import ThreadPool
from threading import Event, Thread

import anyio
import anyio.from_thread
import anyio.lowlevel
import anyio.to_thread
import pytest

from agentctx import Budget, FitContextWindow, Pipeline, Sessions, blocking
from agentctx.session.session import current

pytestmark = pytest.mark.both_loops

PLAN = Pipeline(FitContextWindow(), budget=Budget(1_000))
PATIENCE = 60
BEGIN = [{"role": "user", "content": "Begin."}]


def in_thread(function):
    """What ``function`` gives in a thread that is started here."""
    answers = []
    worker = Thread(target=lambda: answers.append(function()))
    worker.start()
    worker.join(PATIENCE)
    return answers[0]


def test_a_thread_is_in_the_block_where_it_is_given_the_context():
    """``copy_context().run`` takes the block along, also beyond its end; without it a thread is in no block."""
    go, seen = Event(), []
    with PLAN.session() as session:
        assert in_thread(current) is None
        assert in_thread(partial(copy_context().run, current)) is session
        worker = Thread(target=copy_context().run, args=(lambda: (go.wait(PATIENCE), seen.append(current())),))
        worker.start()
    go.set()
    worker.join(PATIENCE)
    assert seen == [session]
    assert current() is None


def test_a_thread_that_was_started_before_is_not_in_the_block():
    """A thread that runs already has no part in a block that another thread enters."""
    go, seen = Event(), []
    worker = Thread(target=copy_context().run, args=(lambda: (go.wait(PATIENCE), seen.append(current())),))
    worker.start()
    with PLAN.session():
        go.set()
        worker.join(PATIENCE)
    assert seen == [None]


@pytest.mark.parametrize("pool_of", [ThreadPoolExecutor, ThreadPool])
def test_a_pool_that_one_conversation_made_takes_no_other_into_it(pool_of):
    """Work that is handed to a pool is in no block, whichever block the pool was made in, and in which it has begun."""
    apply = {ThreadPool: "apply", ThreadPoolExecutor: "submit"}[pool_of]

    def asked(pool, function):
        answer = getattr(pool, apply)(function)
        return answer if pool_of is ThreadPool else answer.result(PATIENCE)

    one, two = PLAN.session(), PLAN.session()
    with contextlib.ExitStack() as closing:
        with one:
            pool = closing.enter_context(pool_of(1))
            assert asked(pool, current) is None
            assert asked(pool, partial(copy_context().run, current)) is one
        with two:
            assert asked(pool, current) is None
            assert asked(pool, partial(copy_context().run, current)) is two
        assert asked(pool, current) is None


def test_what_asyncio_runs_in_threads():
    """``asyncio.to_thread`` hands the block on, and ``run_in_executor`` does not."""

    async def go():
        with PLAN.session() as session:
            assert await asyncio.to_thread(current) is session
            assert await asyncio.get_running_loop().run_in_executor(None, current) is None

    asyncio.run(go())


@pytest.mark.anyio
async def test_what_runs_in_a_thread_of_anyio_is_in_the_block():
    """``anyio.to_thread`` hands the block on, there and back again, and so does ``blocking``."""

    async def look():
        return current()

    with PLAN.session() as session:
        assert await anyio.to_thread.run_sync(current) is session
        assert await anyio.to_thread.run_sync(anyio.from_thread.run, look) is session
        assert await anyio.to_thread.run_sync(blocking, look) is session
        assert blocking(look) is session
    assert blocking(look) is None


def test_blocks_of_many_threads_do_not_mix():
    """Threads with blocks of their own, which make calls by the same event loops: nobody is in another's block."""

    async def look():
        await anyio.lowlevel.checkpoint()
        return current()

    def converse():
        with PLAN.session() as session:
            return all(blocking(look) is session and current() is session for _ in range(20))

    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(converse) for _ in range(8)]
        assert all(each.result(PATIENCE) for each in asked)


@pytest.mark.anyio
async def test_a_task_is_in_the_block_that_it_was_started_in():
    """Also when the block has ended; other tasks are not, and one that enters a block is in that one."""
    seen = {}

    async def look(name, entering=None):
        await anyio.lowlevel.checkpoint()
        with entering or contextlib.nullcontext():
            seen[name] = current()

    own = PLAN.session()
    async with anyio.create_task_group() as tasks:
        with PLAN.session() as session:
            tasks.start_soon(look, "child")
            tasks.start_soon(look, "own", own)
        tasks.start_soon(look, "later")
    assert seen == {"child": session, "own": own, "later": None}


def test_a_generator_is_in_the_context_of_its_reader():
    """A block that it enters is its reader's until it leaves it, also where it is read to its end elsewhere."""

    def speaks(session):
        with session:
            yield current()
            yield current()
        yield current()

    session, other = PLAN.session(), PLAN.session()
    generator = speaks(session)
    assert next(generator) is session
    assert current() is session
    assert in_thread(partial(next, generator)) is None
    with other:
        assert copy_context().run(next, generator) is other
        assert current() is other
    session.__exit__()
    assert list(speaks(session)) == [session, session, None]
    assert current() is None


@pytest.mark.anyio
async def test_a_generator_that_one_task_reads_is_in_its_block():
    """As a stream of a web framework is read: a block of ``Sessions`` holds between its items."""
    sessions = Sessions(PLAN)

    async def speaks():
        async with sessions.open("one") as session:
            for _ in range(3):
                await anyio.lowlevel.checkpoint()
                yield current() is session

    assert [each async for each in speaks()] == [True] * 3
    assert current() is None


@pytest.mark.anyio
async def test_a_step_in_a_block_is_no_part_of_its_conversation():
    """What a stage asks for, in a thread or a block of its own too, is not asked in the block of its step."""
    seen, notes = [], PLAN.session()

    async def stage(context, _call):
        seen.extend([current(), await anyio.to_thread.run_sync(current)])
        with notes:
            seen.append(current())
        seen.append(current())
        return context

    session = Pipeline(stage, budget=Budget(1_000)).session(format="openai-chat")
    with session:
        await session.prepare(BEGIN)
        assert current() is session
    assert seen == [None, None, notes, None]


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_after_a_blocking_call_ends_and_may_block_itself():
    """The child has none of the threads whose event loops its parent keeps for the next calls."""
    program = """if True:
        import os, subprocess
        from agentctx import Pipeline, blocking
        messages = [{"role": "user", "content": "hi"}]
        blocking(Pipeline(budget=8000).prepare, messages)
        if os.fork() == 0:
            blocking(Pipeline(budget=8000).prepare, messages)
            os._exit(0)
        print(os.wait()[1], subprocess.Popen(["true"], preexec_fn=lambda: None).wait(20))
    """
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert ran.stdout.strip() == "0 0", ran.stderr
