"""Wherever a step is cancelled or fails, the session is as it was or as it would be, and the next step is right."""

from __future__ import annotations

import contextlib
import json
import types
from itertools import count

import anyio
import anyio.lowlevel
import pytest
from attrs import define, field
from histories import FORMATS

from agentctx import (
    Budget,
    ClearToolResults,
    CollapseRepeats,
    ConfigError,
    ContextStrategy,
    FitContextWindow,
    Pipeline,
    Session,
    StoreError,
    TruncateToolOutputs,
    When,
)
from agentctx.stores import MemoryStore
from agentctx.testing import assistant, call, result, transcript, user
from agentctx.testing.assertions import texts_of


class BoomError(Exception):
    """What a part raises that fails."""


@define
class Fuse:
    """Makes the parts of a pipeline fail: the part that asks for the ``at``-th time raises.

    Args:
        at: Which time; 0 for never.
        asked: How often it was asked.
    """

    at: int = 0
    asked: int = 0

    def burn(self):
        """Raise when it is time."""
        self.asked += 1
        if self.asked == self.at:
            raise BoomError


@define
class SlowStage(ContextStrategy):
    """Waits and may fail before and after the work of another stage."""

    stage: object
    fuse: Fuse

    @property
    def when(self):
        return getattr(self.stage, "when", When.ALWAYS)

    async def __call__(self, context, call, /):
        await anyio.lowlevel.checkpoint()
        self.fuse.burn()
        made = await self.stage(context, call)
        await anyio.lowlevel.checkpoint()
        self.fuse.burn()
        return made


@define
class SlowStore:
    """Waits and may fail before and after it keeps something."""

    fuse: Fuse
    store: MemoryStore = field(factory=MemoryStore)

    async def put(self, content, /):
        await anyio.lowlevel.checkpoint()
        self.fuse.burn()
        handle = await self.store.put(content)
        await anyio.lowlevel.checkpoint()
        self.fuse.burn()
        return handle

    async def get(self, handle, /):
        return await self.store.get(handle)


@define(eq=False)
class FailingCounter:
    """A counter that may fail."""

    fuse: Fuse

    def count(self, text, /):
        self.fuse.burn()
        return len(text) // 4 + 1


@define
class SlowListener:
    """Waits, and may fail."""

    fuse: Fuse
    told: int = 0

    async def __call__(self, _event):
        await anyio.lowlevel.checkpoint()
        self.told += 1
        self.fuse.burn()
        await anyio.lowlevel.checkpoint()


@types.coroutine
def counting(coroutine, scope, at, seen):
    """Run a coroutine, and cancel ``scope`` when it waits for the ``at``-th time."""
    value = error = None
    while True:
        try:
            waits_for = coroutine.send(value) if error is None else coroutine.throw(error)
        except StopIteration as stop:
            return stop.value
        seen.append(waits_for)
        if len(seen) == at:
            scope.cancel()
        value = error = None
        try:
            value = yield waits_for
        except BaseException as raised:  # noqa: BLE001 - it is thrown into the coroutine
            error = raised


async def killed(coroutine, at):
    """Cancel a coroutine when it waits for the ``at``-th time; whether it waited so often."""
    seen = []
    with anyio.CancelScope() as scope:
        await counting(coroutine, scope, at, seen)
    return len(seen) >= at


def pipeline(fuse, **options):
    """Stages of every scope, all of which wait and may fail, and a store and a listener that do too."""
    stages = (TruncateToolOutputs(100), CollapseRepeats(), ClearToolResults(2), FitContextWindow())
    return Pipeline(
        *(SlowStage(stage, fuse) for stage in stages),
        budget=Budget(1_500, trigger=1_200, target=700),
        store=SlowStore(fuse),
        on_compact=SlowListener(fuse),
        **options,
    )


def history(format_name, rounds=14):
    """Long results, and some that repeat."""
    turns = [user("the task")]
    for number in range(rounds):
        turns += [assistant(call(f"c{number}", "read", {"n": number})), result(f"c{number}", f"{number % 5} a\n" * 80)]
    return transcript(format_name, *turns, user("go on"))


def state(session):
    """What the session holds."""
    return session.dump()


def known(dumped):
    """A state as text, but for the number of steps: one that was done and told of is taken again."""
    return json.dumps({name: value for name, value in dumped.items() if name != "steps"})


class Pair:
    """A session that fails, and one that never does and shows what is right."""

    def __init__(self, format_name, **options):
        self.fuse = Fuse()
        self.plan, calm = pipeline(self.fuse, **options), pipeline(Fuse(), **options)
        self.session, self.right = (each.session(format=format_name) for each in (self.plan, calm))
        self.session.internals.clock = self.right.internals.clock = lambda: 1.0

    async def step(self, messages):
        """One step of the one that shows what is right: its bytes, and the states before and after."""
        before = state(self.right)
        view = await self.right.prepare(messages)
        return texts_of(view.messages), (before, state(self.right))

    def restart(self):
        """Let the session be the one that was dumped last."""
        self.session = Session.load(self.plan, state(self.session))
        self.session.internals.clock = lambda: 1.0


LENGTHS = (3, 5, 7, 8, 11, 15, 17, 20, 22, 26, 29, 30)
"""Steps with nothing new, little new and much new, with and without a compaction, in open rounds and closed ones."""


@pytest.mark.no_cover  # the same lines over and over
@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("restarts", [False, True])
@pytest.mark.both_loops
async def test_a_step_that_is_cancelled_at_any_point(format_name, restarts):
    """Cancelled where it waits for the k-th time, for every k, a step leaves the old state or the new, and no other."""
    messages, pair, points = history(format_name), Pair(format_name), 0
    for length in LENGTHS:
        given = messages[:length]
        expected, states = await pair.step(given)
        for at in count(1):
            if not await killed(pair.session.prepare(given), at):
                break
            points += 1
            assert known(state(pair.session)) in map(known, states)
            if restarts:
                pair.restart()
        assert texts_of((await pair.session.prepare(given)).messages) == expected
    assert points > 40  # what is put into the store waits side by side


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.both_loops
async def test_a_step_in_which_any_part_fails(format_name):
    """Whichever stage, store, listener fails, and when: the old state or the new, and the next step is right."""
    messages, pair, failures = history(format_name), Pair(format_name), 0
    for length in LENGTHS:
        given = messages[:length]
        expected, states = await pair.step(given)
        for at in count(1):
            pair.fuse.at, pair.fuse.asked = at, 0
            with contextlib.suppress(BoomError, StoreError):
                await pair.session.prepare(given)
            if pair.fuse.asked < at:
                break
            failures += 1
            assert known(state(pair.session)) in map(known, states)
        pair.fuse.at = 0
        assert texts_of((await pair.session.prepare(given)).messages) == expected
    assert failures > 40


@pytest.mark.anyio
@pytest.mark.both_loops
async def test_a_step_in_which_the_counter_fails():
    """Whichever text the counter fails at, the step fails as a whole, and the next one is right."""
    messages, failures = history("openai-chat"), 0
    calm, fuse = pipeline(Fuse(), counter=FailingCounter(Fuse())).session(format="openai-chat"), Fuse()
    session = pipeline(Fuse(), counter=FailingCounter(fuse)).session(format="openai-chat")
    for length in LENGTHS:
        given = messages[:length]
        expected = texts_of((await calm.prepare(given)).messages)
        fuse.asked, fuse.at = 0, 1
        while True:
            before = known(state(session))
            try:
                view = await session.prepare(given)
            except ConfigError:
                failures += 1
                assert known(state(session)) == before
                fuse.asked, fuse.at = 0, fuse.at + 1
            else:
                break
        assert texts_of(view.messages) == expected
    assert failures > 10


@pytest.mark.no_cover  # the same lines over and over
@pytest.mark.anyio
@pytest.mark.parametrize(("anyio_backend", "format_name"), [("asyncio", "openai-chat"), ("trio", "anthropic")])
async def test_a_recovery_that_is_cancelled_or_fails(format_name):
    """A recovery that was cancelled or failed at any point has taught nothing, and can be tried again."""
    messages = history(format_name)
    for at in count(1):
        pair = Pair(format_name)
        for session in (pair.session, pair.right):
            await session.prepare(messages)
        error = RuntimeError("prompt is too long: 900 tokens > 600 maximum")
        before = known(state(pair.session))
        expected = await pair.right.recover(error)
        reached = await killed(pair.session.recover(error), at)
        now = known(state(pair.session))
        assert now in (before, known(state(pair.right)))
        if now == before:
            again = await pair.session.recover(error)
            assert texts_of(again.messages) == texts_of(expected.messages)
        assert known(state(pair.session)) == known(state(pair.right))
        if not reached:
            break
    assert at > 6


@pytest.mark.no_cover  # the same lines over and over
@pytest.mark.anyio
@pytest.mark.both_loops
async def test_a_large_step_that_is_cancelled_in_its_threads():
    """A step that reads, counts and commits in worker threads leaves the old state or the new when it is cancelled."""
    messages = [{"role": "user", "content": "task"}]
    for number in range(450):
        messages += transcript("openai-chat", assistant(call(f"c{number}", "read")), result(f"c{number}", "x " * 40))
    pair, points = Pair("openai-chat"), 0
    first, second = messages[:3], messages
    await pair.step(first)
    await pair.session.prepare(first)
    expected, states = await pair.step(second)
    for at in count(1):
        session = Session.load(pair.plan, state(pair.session))
        session.internals.clock = lambda: 1.0
        if not await killed(session.prepare(second), at):
            break
        points += 1
        assert known(state(session)) in map(known, states)
        if known(state(session)) == known(states[0]) and at % 7 == 1:
            assert texts_of((await session.prepare(second)).messages) == expected
        if points > 30:
            break
    assert points > 5
