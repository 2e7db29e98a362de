"""Sessions of all formats on one pipeline, tasks that share one session, and what is asked of it meanwhile."""

from __future__ import annotations

import json

import anyio
import anyio.lowlevel
import pytest
from histories import FORMATS
from reachable import reachable

from agentctx import (
    Budget,
    ClearToolResults,
    CollapseRepeats,
    FitContextWindow,
    Pipeline,
    Session,
    TruncateToolOutputs,
    When,
)
from agentctx.stores import MemoryStore
from agentctx.testing import assistant, call, result, transcript, user
from agentctx.tokens import FixedCounter

pytestmark = pytest.mark.anyio


class Waits:
    """A stage that lets others go on in the middle of a step."""

    def __init__(self, scope):
        self.scope = scope

    async def __call__(self, context, _call, /):
        await anyio.lowlevel.checkpoint()
        return context


class SlowStore(MemoryStore):
    async def put(self, content, /):
        await anyio.lowlevel.checkpoint()
        return await super().put(content)


def pipeline(**options):
    """Every built-in kind of stage, with others that wait between them."""
    stages = (TruncateToolOutputs(100), CollapseRepeats(), ClearToolResults(3), FitContextWindow())
    between = (Waits(When.ON_ARRIVAL), Waits(When.ALWAYS), Waits(When.UNDER_PRESSURE))
    return Pipeline(*between, *stages, budget=Budget(1_500, trigger=0.8), **options)


def conversation(canary, rounds, format_name="openai-chat"):
    turns = [user(f"the task of {canary}")]
    for number in range(rounds):
        turns += [assistant(call(f"c{number}", "read", {"who": canary})), result(f"c{number}", f"{canary} " * 60)]
    return transcript(format_name, *turns)


@pytest.mark.no_cover  # the same lines over and over
@pytest.mark.both_loops
async def test_two_hundred_sessions_of_all_formats_do_not_mix(anyio_backend):
    """200 sessions of five formats at once, restarted, recorded and recovered: no word of one is in another's view."""
    store, told, many = SlowStore(), {}, 200 if anyio_backend == "asyncio" else 40

    async def listen(event):
        await anyio.lowlevel.checkpoint()
        told.setdefault(event.session, []).append(event.step)

    shared = pipeline(store=store, on_compact=listen)

    async def converse(number):
        canary, format_name = f"canary{number:03}", FORMATS[number % len(FORMATS)]
        session = shared.session(format=format_name, id=canary)
        messages = conversation(canary, 10, format_name)
        for length in range(1, len(messages) + 1, 3):
            view = await session.prepare(messages[:length])
            said = json.dumps(view.messages)
            assert canary in said
            assert said.count("canary") == said.count(canary)
            originals = [await store.get(change.handle) for change in view.report.in_force if change.handle]
            assert all(canary.encode() in original for original in originals)
            session.record({"prompt_tokens": view.report.tokens_after + number})
            if length % 9 == 1:
                session = Session.load(shared, session.dump())
        error = RuntimeError(f"prompt is too long: {view.report.tokens_after} tokens > {400 + number} maximum")
        smaller = await session.recover(error)
        assert smaller is None or canary in json.dumps(smaller.messages)

    async with anyio.create_task_group() as tasks:
        for number in range(many):
            tasks.start_soon(converse, number)
    assert set(told) == {f"canary{number:03}" for number in range(many)}


@pytest.mark.both_loops
async def test_concurrent_steps_of_one_session_are_steps_of_one_conversation():
    """Tasks with the same and with longer histories: each gets the view that it would have got in its turn."""
    messages = conversation("one", 14)
    lengths = [5, 9, 9, 13, 17, 17, 21, 25, 29]
    calm = pipeline().session(format="openai-chat")
    expected = [(await calm.prepare(messages[:length])).messages for length in lengths]
    session, found = pipeline().session(format="openai-chat"), {}

    async def step(place):
        found[place] = (await session.prepare(messages[: lengths[place]])).messages

    async with anyio.create_task_group() as tasks:
        for place in range(len(lengths)):
            tasks.start_soon(step, place)
            await anyio.lowlevel.checkpoint()
    assert [found[place] for place in range(len(lengths))] == expected
    assert session.steps == len(lengths)


@pytest.mark.both_loops
async def test_a_message_that_comes_while_a_step_is_prepared_is_in_the_next():
    """A user's message that is appended to the list in the middle of a step is not lost."""
    session, messages = pipeline().session(format="openai-chat"), conversation("one", 9)

    async def interrupt():
        await anyio.lowlevel.checkpoint()
        messages.extend(transcript("openai-chat", user("wait, one more thing")))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(interrupt)
        await session.prepare(messages)
    view = await session.prepare(messages)
    assert view.messages[-1] is messages[-1]
    assert view.messages[-1]["content"] == "wait, one more thing"


@pytest.mark.both_loops
async def test_what_is_asked_in_the_middle_of_a_step():
    """Dumped, recorded, asked for a child or for recovery while a step waits: all is that of the step before."""
    gate, release = anyio.Event(), anyio.Event()

    async def holds(context, _call):
        if len(context.messages) > 12:
            gate.set()
            await release.wait()
        return context

    plan = Pipeline(holds, FitContextWindow(), budget=Budget(50_000))
    session, messages = plan.session(format="openai-chat"), conversation("one", 9)
    first = await session.prepare(messages[:11])
    before, found = session.dump(), []

    async def step():
        found.append(await session.prepare(messages))

    async def recover():
        error = RuntimeError("prompt is too long: 9000 tokens > 1000 maximum")
        found.append(await session.recover(error))

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(step)
        await gate.wait()
        assert session.dump() == before
        session.record({"prompt_tokens": first.report.tokens_after + 400})
        assert session.billed_tokens == first.report.tokens_after + 400
        assert (await session.child(Budget(900)).prepare(messages[:3])).messages == messages[:3]
        loaded = Session.load(plan, session.dump())
        assert (await loaded.prepare(messages[:11])).messages == first.messages
        tasks.start_soon(recover)
        await anyio.wait_all_tasks_blocked()
        assert not found
        release.set()
    view, smaller = found
    assert view.messages == messages
    assert smaller.report.tokens_after < view.report.tokens_after


@pytest.mark.no_cover  # the same lines over and over
async def test_a_loop_that_writes_the_view_back_does_not_grow():
    """Over 900 steps with many compactions a session that goes on from its views holds no more objects."""
    plan = Pipeline(ClearToolResults(3), FitContextWindow(), budget=Budget(900), counter=FixedCounter(10))
    session, messages = plan.session(format="openai-chat"), conversation("long", 0)
    held = []
    for number in range(1_200):
        turns = assistant(call(f"c{number}", "read", {"n": number})), result(f"c{number}", f"line {number} " * 20)
        view = await session.prepare([*messages, *transcript("openai-chat", *turns)])
        session.record({"prompt_tokens": view.report.tokens_after})
        messages = view.messages
        held.append(len(reachable(session, messages)) if number % 900 >= 270 and number % 900 < 300 else 0)
    assert max(held[900:]) <= 1.2 * max(held[:900])


@pytest.mark.no_cover  # the same lines over and over
async def test_sessions_that_ended_leave_nothing_behind():
    """After hundreds of short sessions, children and restarts, the pipeline holds no more objects than before."""
    plan = Pipeline(TruncateToolOutputs(50), FitContextWindow(), budget=Budget(400), counter=FixedCounter(10))
    held = []
    for number in range(300):
        session = plan.session(format="openai-chat", id=str(number))
        messages = conversation(f"canary{number}", 3)
        await session.prepare(messages[:3])
        await Session.load(plan, session.dump()).prepare(messages)
        await session.child(Budget(300)).prepare(messages)
        held.append(len(reachable(plan)))
    assert held[299] <= held[9]
