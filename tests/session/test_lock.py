"""One at a time, also between event loops."""

import asyncio
from contextvars import copy_context
from threading import Thread

import anyio
import anyio.lowlevel
import pytest

from agentctx.session.step_context import SessionLock, Work

pytestmark = pytest.mark.both_loops


@pytest.mark.anyio
async def test_tasks_go_in_the_order_in_which_they_came():
    """Tasks of one loop are let in one at a time, first come first served."""
    lock, seen = SessionLock(), []

    async def go(number):
        async with lock.during(Work()):
            seen.append(number)
            await anyio.lowlevel.checkpoint()
            seen.append(number)

    outside = copy_context()
    async with anyio.create_task_group() as tasks, lock.during(Work()):
        for number in range(5):
            outside.run(tasks.start_soon, go, number)
            await anyio.wait_all_tasks_blocked()
    assert seen == [number for number in range(5) for _ in range(2)]


@pytest.mark.anyio
async def test_a_cancelled_task_leaves_the_others_their_turn():
    """A task that is cancelled while it waits, or just as its turn comes, does not keep the next one out."""
    lock, seen = SessionLock(), []

    async def go(number):
        async with lock.during(Work()):
            seen.append(number)

    async with anyio.create_task_group() as tasks:
        given_up, outside = anyio.CancelScope(), copy_context()

        async def wait_in_vain():
            with given_up:
                await go("never")

        async with lock.during(Work()):
            outside.run(tasks.start_soon, wait_in_vain)
            await anyio.wait_all_tasks_blocked()
            outside.run(tasks.start_soon, go, "next")
            await anyio.wait_all_tasks_blocked()
        given_up.cancel()
    assert seen in (["next"], ["never", "next"])
    async with lock.during(Work()):
        seen.append("after")
    assert seen[-1] == "after"


def test_loops_of_several_threads_exclude_each_other():
    """Tasks of asyncio and trio loops in several threads are never in at the same time."""
    lock, inside, most = SessionLock(), [0], [0]

    async def go():
        for _ in range(50):
            async with lock.during(Work()):
                inside[0] += 1
                most[0] = max(most[0], inside[0])
                await anyio.sleep(0.0001)
                inside[0] -= 1

    threads = [Thread(target=anyio.run, args=(go,), kwargs={"backend": backend}) for backend in ("asyncio", "trio") * 3]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert not any(thread.is_alive() for thread in threads)
    assert most == [1]


def test_a_loop_that_ended_does_not_keep_the_next_one_out():
    """The turn of a task whose loop has ended without it goes to the next task, which then is alone in it."""
    lock, ended, loop, seen = SessionLock(), asyncio.new_event_loop(), asyncio.new_event_loop(), []

    async def go(name):
        async with lock.during(Work()):
            seen.append(name)

    holding = lock.during(Work())
    loop.run_until_complete(holding.__aenter__())
    left = ended.create_task(go("left"))
    ended.run_until_complete(asyncio.sleep(0))
    ended.set_exception_handler(lambda *_given: None)  # which is told of the task that it leaves behind
    ended.close()
    waits = loop.create_task(go("next"))
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(holding.__aexit__(None, None, None))
    loop.run_until_complete(waits)
    assert seen == ["next"]
    again = lock.during(Work())
    loop.run_until_complete(again.__aenter__())
    left.get_coro().close()
    assert lock.holder is not None
    loop.run_until_complete(again.__aexit__(None, None, None))
    loop.close()
