"""A plain stage in a worker thread may ask the event loop for whatever it wants, and wait for it."""

import anyio
import anyio.from_thread
import pytest

from agentctx import FitContextWindow, Pipeline
from agentctx.users_code import MUCH, THREADS

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

PATIENCE = 60


def messages(count):
    return [{"role": ("user", "assistant")[at % 2], "content": f"message {at}"} for at in range(count)]


@pytest.mark.parametrize("at_once", [1, 2 * THREADS])
async def test_a_stage_has_another_request_prepared(at_once):
    """As large as both are, and as many as there are: what it asks for waits for no thread that waits for it."""
    asked = []

    def stage(context, _call):
        asked.append(anyio.from_thread.run(Pipeline(FitContextWindow(), budget=10**7).prepare, messages(MUCH + 1)))
        return context

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            for _ in range(at_once):
                group.start_soon(Pipeline(stage, budget=10**7).prepare, messages(MUCH + 1))
    assert [len(each.messages) for each in asked] == [MUCH + 1] * at_once


async def test_two_at_once_that_ask_across():
    """Neither of two stages in worker threads waits for the other one's."""
    arrived, both = [], anyio.Event()

    async def meet_and_prepare():
        arrived.append(1)
        if len(arrived) == 2:
            both.set()
        await both.wait()
        await Pipeline(FitContextWindow(), budget=10**7).prepare(messages(MUCH + 1))

    def stage(context, _call):
        anyio.from_thread.run(meet_and_prepare)
        return context

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            for _ in range(2):
                group.start_soon(Pipeline(stage, budget=10**7).prepare, messages(MUCH + 1))
    assert len(arrived) == 2


async def test_a_stage_waits_for_what_another_task_prepares():
    """Also where nothing tells that a work in a thread waits for it: there are several threads."""
    asked, answered = anyio.Event(), anyio.Event()

    async def serve():
        await asked.wait()
        await Pipeline(FitContextWindow(), budget=10**7).prepare(messages(MUCH + 1))
        answered.set()

    def stage(context, _call):
        anyio.from_thread.run_sync(asked.set)
        anyio.from_thread.run(answered.wait)
        return context

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            view = await Pipeline(stage, budget=10**7).prepare(messages(MUCH + 1))
    assert len(view.messages) == MUCH + 1
