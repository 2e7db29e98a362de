"""Short work is done at once, long work in a worker thread and in its turn."""

from __future__ import annotations

import threading
from functools import partial
from itertools import count
from time import sleep

import anyio
import anyio.from_thread
import pytest
from anyio.lowlevel import checkpoint

from agentctx.core.pace import EVERY, paced
from agentctx.offload import MUCH, MUCH_TEXT, VERY_MUCH, VERY_MUCH_TEXT, begin_step, offload

pytestmark = pytest.mark.anyio

LITTLE, SHORT, LONG = (1, 0), (MUCH, 0), (VERY_MUCH, 0)


class Gate:
    """Work that goes on until it is let go."""

    def __init__(self):
        """Closed."""
        self.began, self.open = anyio.Event(), threading.Event()

    def __call__(self):
        """Wait in the worker thread."""
        anyio.from_thread.run_sync(self.began.set)
        assert self.open.wait(120)


@pytest.mark.parametrize("size", [(MUCH - 1, MUCH_TEXT - 1), (0, 0)])
async def test_little_work_stays_on_the_thread_of_the_event_loop(size):
    """What is about few messages and little text is done where it is asked for."""
    assert threading.get_ident() == await offload(threading.get_ident, *size)


@pytest.mark.parametrize("size", [(MUCH, 0), (0, MUCH_TEXT), (VERY_MUCH, 0), (0, VERY_MUCH_TEXT)])
async def test_what_is_about_much_is_done_in_a_thread(size):
    """Many messages or much text, either is enough."""
    assert threading.get_ident() != await offload(threading.get_ident, *size)


async def test_short_work_does_not_wait_for_long_work():
    """Work of a few milliseconds has a worker of its own."""
    gate = Gate()
    async with anyio.create_task_group() as group:
        group.start_soon(offload, gate, *LONG)
        await gate.began.wait()
        with anyio.fail_after(60):
            assert await offload(lambda: "done", *SHORT) == "done"
        gate.open.set()


async def test_one_step_after_the_other_gets_done():
    """Of steps that begin together, each does all of its long works before the next one does any."""
    done = []

    async def step(number):
        begin_step()
        for _ in range(3):
            await offload(partial(done.append, number), *LONG)
            await checkpoint()

    async with anyio.create_task_group() as group:
        for number in range(5):
            group.start_soon(step, number)
    assert [[number] * 3 for number in done[::3]] == [done[at : at + 3] for at in range(0, 15, 3)]


async def test_an_older_step_goes_before_those_that_wait_already():
    """The age of a step decides, not when it asked."""
    gate, done = Gate(), []

    async def step(number):
        begin_step()
        await offload(partial(done.append, number), *LONG)

    async with anyio.create_task_group() as group:
        group.start_soon(offload, gate, *LONG)
        await gate.began.wait()
        begin_step()
        group.start_soon(step, "younger")
        await anyio.wait_all_tasks_blocked()
        group.start_soon(offload, partial(done.append, "older"), *LONG)
        await anyio.wait_all_tasks_blocked()
        gate.open.set()
    assert done == ["older", "younger"]


async def test_one_that_gives_up_waiting_lets_the_next_one_in():
    """A cancelled step leaves nobody waiting."""
    gate, done = Gate(), []
    async with anyio.create_task_group() as group:
        group.start_soon(offload, gate, *LONG)
        await gate.began.wait()
        async with anyio.create_task_group() as impatient:
            impatient.start_soon(offload, partial(done.append, "given up"), *LONG)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(offload, partial(done.append, "next"), *LONG)
            await anyio.wait_all_tasks_blocked()
            impatient.cancel_scope.cancel()
        gate.open.set()
    assert done == ["next"]


async def test_cancelled_work_holds_nobody():
    """What goes on in a thread after its step was cancelled does not keep others from theirs."""
    gate = Gate()
    async with anyio.create_task_group() as group:
        group.start_soon(offload, gate, *LONG)
        await gate.began.wait()
        group.cancel_scope.cancel()
    with anyio.fail_after(60):
        assert await offload(lambda: "done", *LONG) == "done"
    gate.open.set()


async def test_an_error_lets_the_next_one_in():
    """The error goes to whoever asked for the work."""
    with pytest.raises(ZeroDivisionError):
        await offload(lambda: 1 // 0, *LONG)
    assert await offload(lambda: "done", *LONG) == "done"


async def test_long_work_stands_back_for_work_on_the_event_loop():
    """Also when that lets go of the interpreter again and again, as tiktoken does for each text that it counts."""
    gate, done = Gate(), threading.Event()
    looked = count()

    def long_work():
        gate()
        for _ in paced(count()):
            next(looked)
            if done.is_set():
                return

    def counting():
        before = next(looked)
        for _ in range(20):
            sleep(0.0005)
        return next(looked) - before

    async with anyio.create_task_group() as group:
        group.start_soon(offload, long_work, *LONG)
        await gate.began.wait()
        gate.open.set()
        gone_on = [await offload(counting, *LITTLE) for _ in range(5)]
        done.set()
    assert min(gone_on) <= 3 * EVERY


async def test_long_work_comes_to_an_end_where_the_event_loop_never_rests():
    """It stands back for a while at most."""
    done = threading.Event()

    def long_work():
        for number in paced(count()):
            if number > 3 * EVERY:
                break
        done.set()

    async with anyio.create_task_group() as group:
        group.start_soon(offload, long_work, *LONG)
        await anyio.wait_all_tasks_blocked()
        assert await offload(partial(done.wait, 120), *LITTLE)
