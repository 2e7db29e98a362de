"""Law 10: a stage, store, summarizer or listener that fails costs the user nothing that was there before."""

import asyncio
import contextlib
import json
import logging
from itertools import product

import anyio
import pytest
from attrs import field, frozen
from histories import broken_histories, budgets, histories, stages
from hypothesis import given

from agentctx import Budget, ContextStrategy, FitContextWindow, Pipeline, TrimRounds, TruncateToolOutputs, When
from agentctx.stores import MemoryStore
from agentctx.testing import FlakyStore, Recorder, assistant, call, result, transcript, user
from agentctx.testing.laws import Scenario, failures_cost_nothing

pytestmark = pytest.mark.both_loops

FORMATS = ["openai-chat", "anthropic", "gemini", "bedrock"]
SCOPES = pytest.mark.parametrize("scope", list(When))


class BoomError(Exception):
    """What the failing parts of these tests raise."""


class Switch(ContextStrategy):
    """A stage that does what it is told to: nothing, raise, or wait for ever."""

    def __init__(self, when, mode="idle"):
        self.at = when
        self.mode = mode

    @property
    def when(self):
        return self.at

    async def __call__(self, context, _call):
        if self.mode == "raise":
            raise BoomError
        if self.mode == "hang":
            await anyio.sleep_forever()
        return context


def rounds(format_name, number):
    """A task and rounds with long outputs."""
    turns = [user("task")]
    for place in range(number):
        turns += [assistant(call(f"c{place}", "read", {"n": place})), result(f"c{place}", f"output {place} " * 60)]
    return transcript(format_name, *turns)


def pressed(*stages, **services):
    """A pipeline that acts often."""
    budget = Budget(100_000, trigger=1_000, target=500)
    return Pipeline(TruncateToolOutputs(max_tokens=50), *stages, FitContextWindow(), budget=budget, **services)


async def sent(session, messages):
    """What a session sends, to the byte."""
    return json.dumps((await session.prepare(messages)).messages)


@given(histories(), budgets(), stages())
def test_failures_cost_legal_histories_nothing(both_loops, history, budget, stage):
    """With a stage, a store or a listener that fails first, a session sends in the end what it would have sent."""
    both_loops(failures_cost_nothing, Scenario.of(stage, history, budget))


@given(broken_histories(), budgets(), stages())
def test_failures_cost_broken_histories_nothing(both_loops, history, budget, stage):
    """The same holds when the history has to be repaired."""
    both_loops(failures_cost_nothing, Scenario.of(stage, history, budget))


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
@SCOPES
async def test_a_stage_s_own_error_comes_through_with_a_note(format_name, scope, preparing):
    """What a stage raises is raised as it is, with a note that names the stage; the input is unharmed."""
    pipeline = pressed(Switch(scope, "raise"))
    messages = rounds(format_name, 40)
    before = json.dumps(messages)
    prepare = preparing(pipeline, format_name)
    with pytest.raises(BoomError) as caught:
        await prepare(messages)
    assert any("Switch" in note for note in caught.value.__notes__)
    assert json.dumps(messages) == before


@pytest.mark.anyio
async def test_the_innermost_stage_is_named():
    """A stage that fails within a nested pipeline is named itself, or within the name of what holds it."""
    with pytest.raises(BoomError) as caught:
        await Pipeline(Pipeline(Switch(When.ALWAYS, "raise"))).prepare(rounds("openai-chat", 1), format="openai-chat")
    assert "Switch" in "".join(caught.value.__notes__)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
@SCOPES
@pytest.mark.parametrize("mode", ["raise", "hang"])
async def test_a_session_goes_on_after_a_failed_or_cancelled_step(format_name, scope, mode):
    """Steps that failed or were cancelled leave no trace: the session sends what one without them sends."""
    switch = Switch(scope)
    session, other = pressed(switch).session(format=format_name), pressed(Switch(scope)).session(format=format_name)
    messages = rounds(format_name, 20)
    for stop in range(3, len(messages) + 1, 2):
        switch.mode = mode
        with anyio.move_on_after(0.001):
            with contextlib.suppress(BoomError):
                await session.prepare(messages[:stop])
        switch.mode = "idle"
        assert await sent(session, messages[:stop]) == await sent(other, messages[:stop])


@frozen
class Leaves:
    """A stage that raises what it is told to, awaited or as a plain function, in a thread for long histories."""

    scope: When
    waits: bool
    errors: list[type[BaseException]] = field(factory=list)

    def __call__(self, context, _call):
        return self._later(context) if self.waits else self._now(context)

    async def _later(self, context):
        await anyio.lowlevel.checkpoint()
        return self._now(context)

    def _now(self, context):
        if self.errors:
            raise self.errors.pop()
        return context


@pytest.mark.anyio
@pytest.mark.parametrize("waits", [True, False])
@SCOPES
async def test_an_exit_comes_through_and_leaves_no_trace(scope, waits):
    """``sys.exit`` in a stage is the caller's to hear of, with the stage's name; the session is as before it."""
    stage, messages = Leaves(scope, waits), rounds("openai-chat", 40 if waits else 220)
    session, other = (pressed(stage).session(format="openai-chat") for _ in range(2))
    for prepare, error in product((pressed(stage).prepare, session.prepare), (SystemExit, GeneratorExit)):
        stage.errors.append(error)
        with pytest.raises(error) as caught:
            await prepare(messages, format="openai-chat")
        assert any("Leaves" in note for note in caught.value.__notes__)
    assert await sent(session, messages) == await sent(other, messages)


class Leaving:
    """A store that raises what it is told to, when something is put into it."""

    def __init__(self):
        self.store, self.error = MemoryStore(), None

    async def put(self, content):
        await anyio.lowlevel.checkpoint()
        if self.error is not None:
            raise self.error
        return await self.store.put(content)

    async def get(self, handle):
        return await self.store.get(handle)


@pytest.mark.anyio
@pytest.mark.parametrize("error", [SystemExit, GeneratorExit])
async def test_an_exit_in_a_store_comes_through_and_leaves_no_trace(error):
    """It comes as it is, in no group, though several contents are put at a time; the session is as before it."""
    store, messages = Leaving(), rounds("openai-chat", 40)
    session, other = (pressed(store=each).session(format="openai-chat") for each in (store, MemoryStore()))
    for prepare in (pressed(store=store).prepare, session.prepare):
        store.error = error("now")
        with pytest.raises(error) as caught:
            await prepare(messages, format="openai-chat")
        assert caught.value is store.error
    store.error = None
    assert await sent(session, messages) == await sent(other, messages)


@pytest.mark.anyio
async def test_a_store_that_waited_for_what_was_cancelled_has_failed(anyio_backend_name):
    """Nobody has cancelled the step: the report says that not all is kept."""
    if anyio_backend_name == "trio":  # where nobody but the loop can raise it
        return
    store = Leaving()
    store.error = asyncio.CancelledError()
    view = await pressed(store=store).prepare(rounds("openai-chat", 40), format="openai-chat")
    assert "was cancelled" in " ".join(note for stage in view.report.stages for note in stage.notes)


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_listener_that_raises_is_logged(format_name, caplog):
    """A listener that raises is logged by the logger "agentctx", and the request is as without it."""

    def grumpy(_event):
        raise BoomError

    messages = rounds(format_name, 10)
    with caplog.at_level(logging.ERROR, logger="agentctx"):
        view = await Pipeline(TrimRounds(2), on_compact=grumpy).prepare(messages, format=format_name)
    quiet = await Pipeline(TrimRounds(2)).prepare(messages, format=format_name)
    assert view.messages == quiet.messages
    (record,) = caplog.records
    assert record.name == "agentctx"
    assert record.exc_info[0] is BoomError


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_listener_that_raises_later_is_logged_too(format_name, caplog):
    """An async listener that raises costs nothing, and the session's other listener is told all the same."""

    async def grumpy(_event):
        await anyio.lowlevel.checkpoint()
        raise BoomError

    told = Recorder()
    session = pressed(on_compact=grumpy).session(format=format_name, on_compact=told)
    with caplog.at_level(logging.ERROR, logger="agentctx"):
        view = await session.prepare(rounds(format_name, 20))
    assert view.report.acted
    assert len(told.events) == 1
    assert [record.exc_info[0] for record in caplog.records] == [BoomError]


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_store_that_fails_loses_nothing(format_name):
    """What a store refuses once is kept all the same, and no step fails."""
    store = MemoryStore()
    flaky = FlakyStore(store)
    session = pressed(store=flaky).session(format=format_name)
    messages = rounds(format_name, 12)
    before = json.dumps(messages)
    view = await session.prepare(messages)
    assert json.dumps(messages) == before
    assert flaky.failures
    for change in view.report.in_force:
        assert change.handle is not None
        assert json.loads(await store.get(change.handle)) == messages[change.index]


@pytest.mark.anyio
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_session_is_safe_to_share(format_name):
    """Two tasks that prepare in one session at the same time both get the view that one alone gets."""
    messages = rounds(format_name, 20)
    expected = await sent(pressed().session(format=format_name), messages)
    session, found = pressed().session(format=format_name), []

    async def prepare():
        found.append(await sent(session, messages))

    async with anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(prepare)
    assert found == [expected] * 5
