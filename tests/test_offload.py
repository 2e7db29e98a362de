"""Work on little is done at once, work on much in one of a few worker threads."""

from __future__ import annotations

import threading
from functools import partial
from threading import get_ident

import anyio
import anyio.from_thread
import pytest

from agentctx import Pipeline
from agentctx.users_code import MUCH, MUCH_TEXT, THREADS, offload

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

PATIENCE = 60


class Gate:
    """Work that goes on until it is let go."""

    def __init__(self):
        """Closed."""
        self.began, self.open = anyio.Event(), threading.Event()

    def __call__(self):
        """Wait in the worker thread."""
        anyio.from_thread.run_sync(self.began.set)
        assert self.open.wait(2 * PATIENCE)


@pytest.mark.parametrize("size", [(MUCH - 1, MUCH_TEXT - 1), (0, 0)])
async def test_little_work_stays_on_the_thread_of_the_event_loop(size):
    """What is about few messages and little text is done where it is asked for."""
    assert get_ident() == await offload(get_ident, *size)


@pytest.mark.parametrize("size", [(MUCH, 0), (0, MUCH_TEXT)])
async def test_what_is_about_much_is_done_in_a_thread(size):
    """Many messages or much text, either is enough."""
    assert get_ident() != await offload(get_ident, *size)


async def test_a_few_works_go_on_at_once():
    """One more than there are threads waits for its turn; one that is cancelled meanwhile leaves it to others."""
    gates, done = [Gate() for _ in range(THREADS)], []
    async with anyio.create_task_group() as group:
        for gate in gates:
            group.start_soon(offload, gate, MUCH)
        for gate in gates:
            await gate.began.wait()
        async with anyio.create_task_group() as impatient:
            impatient.start_soon(offload, partial(done.append, "cancelled"), MUCH)
            await anyio.wait_all_tasks_blocked()
            group.start_soon(offload, partial(done.append, "next"), MUCH)
            await anyio.wait_all_tasks_blocked()
            impatient.cancel_scope.cancel()
        assert done == []
        for gate in gates:
            gate.open.set()
    assert done == ["next"]


async def test_cancelled_work_holds_nobody():
    """What goes on in a thread after its step was cancelled does not keep others from theirs."""
    gate = Gate()
    async with anyio.create_task_group() as group:
        group.start_soon(offload, gate, MUCH)
        await gate.began.wait()
        group.cancel_scope.cancel()
    with anyio.fail_after(PATIENCE):
        assert await offload(lambda: "done", MUCH) == "done"
    gate.open.set()


async def test_an_error_lets_the_next_one_in():
    """The error goes to whoever asked for the work."""
    for _ in range(THREADS + 1):
        with pytest.raises(ZeroDivisionError):
            await offload(lambda: 1 // 0, MUCH)
    assert await offload(lambda: "done", MUCH) == "done"


async def test_a_generator_exit_closes_no_coroutine():
    """It is raised where the work was asked for, as any other error, and can be handled there."""
    gone_on = []

    def leaves():
        raise GeneratorExit

    try:
        await offload(leaves, MUCH)
    except GeneratorExit:
        gone_on.append(await offload(lambda: "handled", MUCH))
    assert gone_on == ["handled"]


async def test_a_coroutine_comes_out_of_a_thread():
    """Work may return what has to be awaited, on trio, too."""

    async def answer():
        return "done"

    assert await (await offload(answer, MUCH)) == "done"


async def test_more_stages_than_threads_may_wait_for_one_task():
    """A user's plain stage may wait for a task that prepares a large request itself: the limiter is not for it."""
    messages = [{"role": "user", "content": f"word {number}"} for number in range(MUCH)]
    send, receive = anyio.create_memory_object_stream(THREADS + 1)

    async def prepares_for_all():
        async for prepared in receive:
            await Pipeline(budget=500_000).prepare(messages)
            prepared.set()

    async def ask():
        prepared = anyio.Event()
        await send.send(prepared)
        await prepared.wait()

    def waits(context, call):
        anyio.from_thread.run(ask)
        return context

    with anyio.fail_after(60):
        async with send, receive, anyio.create_task_group() as tasks:
            tasks.start_soon(prepares_for_all)
            async with anyio.create_task_group() as conversations:
                for _ in range(THREADS + 1):
                    conversations.start_soon(Pipeline(waits, budget=500_000).prepare, messages)
            tasks.cancel_scope.cancel()


async def test_stages_that_hang_take_no_thread_of_other_conversations():
    """They were given up; whoever comes later is served."""
    messages = [{"role": "user", "content": f"word {number}"} for number in range(MUCH)]
    released = threading.Event()

    def hangs(context, call):
        released.wait(60)
        return context

    try:
        for _ in range(THREADS + 1):
            with anyio.move_on_after(0.05):
                await Pipeline(hangs, budget=500_000).prepare(messages)
        with anyio.fail_after(60):
            assert (await Pipeline(budget=500_000).prepare(messages)).messages == messages
    finally:
        released.set()
