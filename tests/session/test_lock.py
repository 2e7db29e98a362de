"""One at a time, also between event loops."""

from threading import Thread

import anyio
import anyio.lowlevel
import pytest

from agentctx.session.lock import SessionLock

pytestmark = pytest.mark.both_loops


@pytest.mark.anyio
async def test_tasks_go_in_the_order_in_which_they_came():
    """Tasks of one loop are let in one at a time, first come first served."""
    lock, seen = SessionLock(), []

    async def go(number):
        async with lock:
            seen.append(number)
            await anyio.lowlevel.checkpoint()
            seen.append(number)

    async with anyio.create_task_group() as tasks, lock:
        for number in range(5):
            tasks.start_soon(go, number)
            await anyio.wait_all_tasks_blocked()
    assert seen == [number for number in range(5) for _ in range(2)]


@pytest.mark.anyio
async def test_a_cancelled_task_leaves_the_others_their_turn():
    """A task that is cancelled while it waits, or just as its turn comes, does not keep the next one out."""
    lock, seen = SessionLock(), []

    async def go(number):
        async with lock:
            seen.append(number)

    async with anyio.create_task_group() as tasks:
        given_up = anyio.CancelScope()

        async def wait_in_vain():
            with given_up:
                await go("never")

        await lock.__aenter__()
        tasks.start_soon(wait_in_vain)
        await anyio.wait_all_tasks_blocked()
        tasks.start_soon(go, "next")
        await anyio.wait_all_tasks_blocked()
        await lock.__aexit__(None, None, None)
        given_up.cancel()
    assert seen in (["next"], ["never", "next"])
    async with lock:
        seen.append("after")
    assert seen[-1] == "after"


def test_loops_of_several_threads_exclude_each_other():
    """Tasks of asyncio and trio loops in several threads are never in at the same time."""
    lock, inside, most = SessionLock(), [0], [0]

    async def go():
        for _ in range(50):
            async with lock:
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
    """The turn of a task whose loop has ended goes to the next task."""
    lock = SessionLock()

    async def take():
        await lock.__aenter__()

    async def come_and_go():
        with anyio.move_on_after(0.05):
            await lock.__aenter__()

    async def leave_and_take():
        await lock.__aexit__(None, None, None)
        async with lock:
            return "in"

    anyio.run(take)
    anyio.run(come_and_go)
    assert anyio.run(leave_and_take) == "in"
