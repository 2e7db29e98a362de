"""A plain stage in a worker thread may ask the event loop for whatever it wants, and wait for it."""

import anyio
import anyio.from_thread
import pytest

from agentctx import FitContextWindow, Pipeline
from agentctx.offload import MUCH, VERY_MUCH

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]

PATIENCE = 60


def messages(count):
    return [{"role": ("user", "assistant")[at % 2], "content": f"message {at}"} for at in range(count)]


@pytest.mark.parametrize(("outer", "inner"), [(VERY_MUCH, VERY_MUCH), (MUCH, VERY_MUCH), (VERY_MUCH, MUCH)])
async def test_a_stage_has_another_request_prepared(outer, inner):
    """As large as both are: what it asks for waits for no turn that its own thread has."""
    budget, asked = 10 * VERY_MUCH**2, []

    def stage(context, _call):
        asked.append(anyio.from_thread.run(Pipeline(FitContextWindow(), budget=budget).prepare, messages(inner + 1)))
        return context

    with anyio.fail_after(PATIENCE):
        view = await Pipeline(stage, budget=budget).prepare(messages(outer + 1))
    assert [len(view.messages), *(len(each.messages) for each in asked)] == [outer + 1, inner + 1]


async def test_two_at_once_that_ask_across():
    """Neither of two stages in the two workers waits for the other one's."""
    arrived, both = [], anyio.Event()

    async def meet_and_prepare(count):
        arrived.append(count)
        if len(arrived) == 2:
            both.set()
        await both.wait()
        await Pipeline(FitContextWindow(), budget=10**7).prepare(messages(count))

    def asking(count):
        def stage(context, _call):
            anyio.from_thread.run(meet_and_prepare, count)
            return context

        return Pipeline(stage, budget=10**7)

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(asking(MUCH + 1).prepare, messages(VERY_MUCH + 1))
            group.start_soon(asking(VERY_MUCH + 1).prepare, messages(MUCH + 1))
    assert len(arrived) == 2


async def test_a_stage_waits_for_what_another_task_prepares():
    """Also where nothing tells that a work in a thread waits for it: a silent one does not keep its turn."""
    asked, answered = anyio.Event(), anyio.Event()

    async def serve():
        await asked.wait()
        await Pipeline(FitContextWindow(), budget=10**7).prepare(messages(VERY_MUCH + 1))
        answered.set()

    def stage(context, _call):
        anyio.from_thread.run_sync(asked.set)
        anyio.from_thread.run(answered.wait)
        return context

    with anyio.fail_after(PATIENCE):
        async with anyio.create_task_group() as group:
            group.start_soon(serve)
            view = await Pipeline(stage, budget=10**7).prepare(messages(VERY_MUCH + 1))
    assert len(view.messages) == VERY_MUCH + 1
