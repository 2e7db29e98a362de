"""Model calls that a pipeline's own parts make by the client that it is wrapped around, and who waits for them."""

import signal
from contextlib import nullcontext
from contextvars import copy_context
from functools import partial
from itertools import product
from threading import Barrier, Event, Thread

import anyio
import anyio.to_thread
import pytest
from anthropic import Anthropic, AsyncAnthropic
from both_kinds import now
from client_histories import chat
from openai import AsyncOpenAI, OpenAI

import agentctx
from agentctx import wrap
from agentctx.testing.servers import chat_completions, messages

pytestmark = pytest.mark.both_loops

BUDGET = agentctx.Budget(1_500, trigger=0.8, target=0.7)
PATIENCE = 60
NOTE = {"role": "user", "content": "Write a note."}


def of_openai(kind):
    return issubclass(kind, OpenAI | AsyncOpenAI)


def ask(client, said):
    if isinstance(client, OpenAI | AsyncOpenAI):
        return client.chat.completions.create(model="gpt-4o", messages=said)
    return client.messages.create(model="claude-sonnet-5-5", max_tokens=50, messages=said)


def long(kind):
    return chat(12)[1:] if of_openai(kind) else talk(12)


def talk(turns):
    """A conversation without tools."""
    return [
        {"role": role, "content": f"{role} {turn} " * 60} for turn in range(turns) for role in ("user", "assistant")
    ] + [{"role": "user", "content": "And now?"}]


async def asked(kind, client, said):
    """The answer, whichever kind of client; an error when it does not come."""
    with anyio.fail_after(PATIENCE):
        if kind in (AsyncOpenAI, AsyncAnthropic):
            return await ask(client, said)
        return await anyio.to_thread.run_sync(partial(ask, client, said), abandon_on_cancel=True)


class Asking:
    """A part of a pipeline, of any kind, that asks a model by a client which is wrapped later."""

    def __init__(self, part):
        self.part, self.client, self.calls, self.note = part, None, 0, [NOTE]

    async def ask(self):
        self.calls += 1
        await now(ask(self.client, self.note))

    async def stage(self, context, _call):
        await self.ask()
        return context

    async def summarizer(self, _messages, _most):
        await self.ask()
        return "a summary"

    def blocks(self, _event):
        self.calls += 1
        ask(self.client, self.note)

    async def listens(self, _event):
        await self.ask()

    async def put(self, content):
        if self.calls == 0:
            await self.ask()
        return str(len(content))

    async def get(self, handle):
        raise agentctx.StoreError(handle)

    def pipeline(self):
        stages = [self.stage] if self.part == "stage" else []
        options = {
            "summarizer": {"summarizer": self.summarizer},
            "listener": {"on_compact": self.listens},
            "plain listener": {"on_compact": self.blocks},
            "store": {"store": self},
        }
        return agentctx.Pipeline(*stages, agentctx.FitContextWindow(), budget=BUDGET, **options.get(self.part, {}))


PARTS = ["stage", "summarizer", "listener", "plain listener", "store"]


@pytest.fixture
def made(serve, closing):
    def make(kind, **behaviour):
        desk, url = serve(chat_completions if of_openai(kind) else messages, **behaviour)
        base = f"{url}/v1" if of_openai(kind) else url
        return desk, closing(kind(base_url=base, api_key="none", max_retries=0))

    return make


WHO_ASKS = [*product([OpenAI, AsyncOpenAI], PARTS), (Anthropic, "summarizer"), (AsyncAnthropic, "stage")]
WHO_ASKS.remove((AsyncOpenAI, "plain listener"))  # a plain function cannot wait for an async client


@pytest.mark.parametrize(("kind", "part"), WHO_ASKS)
@pytest.mark.anyio
async def test_a_part_of_the_pipeline_may_ask_by_the_same_client(made, kind, part):
    """Whoever asks within a step gets an answer to its own words, and the conversation is as if it had not asked."""
    desk, client = made(kind)
    for belonging in ("session", "with", "key", "nothing"):
        desk.requests.clear()
        asking = Asking(part)
        session = asking.pipeline().session()
        given = {"session": {"session": session}, "key": {"key": lambda _body: "one"}}.get(belonging, {})
        asking.client = wrap(client, session.plan, **given)
        with session if belonging == "with" else nullcontext():
            await asked(kind, asking.client, long(kind))
        notes = [body for body in desk.requests if body["messages"] == [NOTE]]
        assert len(notes) == asking.calls > 0
        assert len(desk.requests) == asking.calls + 1
        if belonging in ("session", "with"):
            assert session.steps == 1
            assert session.view.messages == next(body["messages"] for body in desk.requests if body not in notes)


@pytest.mark.parametrize("kind", [OpenAI, AsyncOpenAI])
@pytest.mark.anyio
async def test_what_a_summarizer_sends_fits_and_is_not_summarized_again(made, kind):
    """A part that sends more than the budget by the same client: its request is made to fit by none of the stages."""
    desk, client = made(kind)
    asking = Asking("summarizer")
    asking.note = long(kind)
    plan = asking.pipeline()
    asking.client = wrap(client, plan, session=plan.session(model="gpt-4o"))
    await asked(kind, asking.client, long(kind))
    assert asking.calls == 1
    assert len(desk.requests) == 2
    assert all(agentctx.count(body["messages"], "gpt-4o") <= BUDGET.limit for body in desk.requests)


@pytest.mark.anyio
async def test_a_counter_that_asks_gets_an_answer(made):
    """Even what is asked to count what is asked to count: that request goes out as it is."""
    desk, client = made(OpenAI)

    class Asks:
        def count(self, text, /):
            if text and len(desk.requests) < 2:
                ask(self.client, [NOTE])
            return len(text) // 4

    counter = Asks()
    plan = agentctx.Pipeline(agentctx.FitContextWindow(), budget=BUDGET, counter=counter)
    counter.client = wrap(client, plan, session=plan.session())
    await asked(OpenAI, counter.client, long(OpenAI))
    assert [NOTE] in [body["messages"] for body in desk.requests]


@pytest.mark.parametrize("handing", ["to_thread", "copied context"])
@pytest.mark.anyio
async def test_a_stage_may_ask_in_another_thread(made, handing):
    """A stage that calls the same sync client in a thread that has its context waits for no step of its own."""
    desk, client = made(OpenAI)
    asking = Asking("stage")

    async def hands_over(context, _call):
        if handing == "to_thread":
            await anyio.to_thread.run_sync(ask, asking.client, [NOTE])
        else:
            worker = Thread(target=copy_context().run, args=(ask, asking.client, [NOTE]))
            worker.start()
            worker.join(PATIENCE)
            assert not worker.is_alive()
        return context

    plan = agentctx.Pipeline(hands_over, agentctx.FitContextWindow(), budget=BUDGET)
    session = plan.session()
    asking.client = wrap(client, plan, session=session)
    await asked(OpenAI, asking.client, long(OpenAI))
    assert session.steps == 1
    assert len(desk.requests) == 2


@pytest.mark.anyio
async def test_another_session_may_be_asked_within_a_step(made):
    """A client with a conversation of its own has it also when a stage of another conversation asks."""
    _, client = made(OpenAI)
    plan = agentctx.Pipeline(agentctx.FitContextWindow(), budget=BUDGET)
    notes = plan.session()
    asking = Asking("stage")
    asking.client = wrap(client, plan, session=notes)
    outer = asking.pipeline().session()
    await asked(OpenAI, wrap(client, outer.plan, session=outer), long(OpenAI))
    assert (outer.steps, notes.steps) == (1, 1)


@pytest.mark.parametrize("belonging", ["session", "key"])
@pytest.mark.parametrize("kind", [OpenAI, AsyncOpenAI])
@pytest.mark.anyio
async def test_two_conversations_whose_stages_ask_each_other(made, caplog, kind, belonging):
    """Stages of two conversations ask by each other's clients at once: all calls are answered, one of them apart."""
    desk, client = made(kind)
    clients, both = {}, Barrier(2)

    def pipeline(other):
        asked = []

        async def stage(context, _call):
            if not asked:
                asked.append(other)
                await anyio.to_thread.run_sync(both.wait, PATIENCE)
                await now(ask(clients[other], chat(2, other)))
            return context

        return agentctx.Pipeline(stage, agentctx.FitContextWindow(), budget=BUDGET)

    for name, other in ("ab", "ba"):
        plan = pipeline(other)
        given = {"session": plan.session()} if belonging == "session" else {"key": lambda _body, name=name: name}
        clients[name] = wrap(client, plan, **given)
    async with anyio.create_task_group() as tasks:
        for name in "ab":
            tasks.start_soon(asked, kind, clients[name], chat(2, name))
    assert len(desk.requests) == 4
    assert "was prepared by itself" in caplog.text


@pytest.mark.anyio
async def test_a_stage_cannot_ask_for_the_step_that_it_is_part_of():
    """``session.prepare`` from a stage of the same session is an error that says so, and the session goes on."""
    inside = []

    async def asks(context, _call):
        if len(inside) == 1:
            await inside[0].prepare([NOTE])
        return context

    session = agentctx.Pipeline(asks, budget=BUDGET).session(format="openai-chat")
    inside.append(session)
    with anyio.fail_after(PATIENCE):
        with pytest.raises(agentctx.ConfigError, match="asked for a step of the session"):
            await session.prepare(chat(2))
        inside.clear()
        await session.prepare(chat(2))
    assert session.steps == 1


@pytest.mark.anyio
async def test_a_listener_may_ask_for_another_step():
    """Listeners are told when the step is done: one may prepare the next."""
    seen = []

    async def listens(event):
        seen.append(event.step)
        if len(seen) == 1:
            await session.prepare(chat(1))

    plan = agentctx.Pipeline(agentctx.FitContextWindow(), budget=BUDGET, on_compact=listens)
    session = plan.session(format="openai-chat")
    with anyio.fail_after(PATIENCE):
        await session.prepare(chat(12))
    assert session.steps == 2


@pytest.mark.parametrize("part", ["stage", "plain listener", "store"])
@pytest.mark.parametrize("shared", ["nothing", "the pipeline"])
@pytest.mark.anyio
async def test_what_blocks_in_one_sync_client_holds_no_other(made, part, shared):
    """While a stage, listener or store of one call blocks its thread, calls of other threads come to their end."""
    _, client = made(OpenAI)
    inside, release = Event(), Event()

    class Blocks(Asking):
        async def ask(self):
            self.blocks(None)

        def blocks(self, _event):
            self.calls += 1
            if self.calls == 1:
                inside.set()
                self.released = release.wait(PATIENCE)

    held = Blocks(part)
    plan = held.pipeline()
    other = plan if shared == "the pipeline" else agentctx.Pipeline(agentctx.FitContextWindow(), budget=BUDGET)
    worker = Thread(target=ask, args=(wrap(client, plan, session=plan.session()), long(OpenAI)))
    worker.start()
    assert await anyio.to_thread.run_sync(inside.wait, PATIENCE)
    await asked(OpenAI, wrap(client, other, session=other.session()), long(OpenAI))
    release.set()
    await anyio.to_thread.run_sync(worker.join, PATIENCE)
    assert held.released


def test_a_call_that_was_given_up_holds_nobody(interrupted_after):
    """An interrupt while a stage blocks its thread is raised at once, and the next call does not wait for the stage."""
    hold = Event()

    async def holds():
        return hold.wait(PATIENCE)

    async def answers():
        return "answer"

    interrupted_after(0.2)
    with pytest.raises(InterruptedError):
        agentctx.blocking(holds)
    assert agentctx.blocking(answers) == "answer"
    hold.set()


@pytest.fixture
def interrupted_after():
    """Raise an InterruptedError in the main thread, as a signal does, so many seconds from now."""

    def interrupt(_number, _frame):
        raise InterruptedError

    before = signal.signal(signal.SIGALRM, interrupt)
    yield partial(signal.setitimer, signal.ITIMER_REAL)
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


@pytest.mark.both_loops
@pytest.mark.anyio
async def test_the_bridge_for_callers_that_are_not_async():
    """``blocking`` gives what the async function gives, and raises what it raises, also where a loop is running."""
    session = agentctx.Pipeline(agentctx.FitContextWindow(), budget=BUDGET).session(format="openai-chat")
    view = agentctx.blocking(session.prepare, chat(12), model="gpt-4o")
    assert view is session.view
    assert agentctx.count(view.messages, "gpt-4o") <= BUDGET.limit
    with pytest.raises(agentctx.InvalidInput):
        agentctx.blocking(session.prepare, "no list")


class TakenMeanwhile(list):
    """A list that is not empty when it is looked at, and empty when something is taken: another thread was first."""

    def __bool__(self):
        return True


def test_threads_that_want_the_same_idle_loop_get_one_each(monkeypatch):
    """A call whose event loop another thread took in the moment between starts one of its own."""
    monkeypatch.setattr("agentctx.session.blocking._idle", TakenMeanwhile())
    assert agentctx.blocking(anyio.sleep, 0) is None


class Leaves:
    """A part of a pipeline that ends the program, or tries to."""

    def __init__(self, error):
        self.error = error

    def listener(self, *_given):
        raise self.error

    counter = listener

    async def stage(self, _context, _call):
        raise self.error


@pytest.mark.parametrize("error", [SystemExit, KeyboardInterrupt, GeneratorExit])
@pytest.mark.parametrize("part", ["listener", "counter", "stage"])
def test_an_exit_out_of_one_call_breaks_no_other(part, error):
    """What a stage, listener or counter raises that is no plain error reaches the caller; later calls work."""
    does = getattr(Leaves(error), part)
    fit = [agentctx.FitContextWindow()]
    leaving = agentctx.Pipeline(
        *([does, *fit] if part == "stage" else fit),
        budget=BUDGET,
        **{"listener": {"on_compact": does}, "counter": {"counter": does}}.get(part, {}),
    )
    said, sound = chat(12), agentctx.Pipeline(*fit, budget=BUDGET)
    for _ in range(2):
        with pytest.raises(error):
            agentctx.blocking(leaving.prepare, said, format="openai-chat")
        assert agentctx.blocking(sound.prepare, said, format="openai-chat").report.acted


def test_what_is_no_async_function_is_refused_in_words():
    """A coroutine in place of the function, and a plain function: the error shows how it is called."""
    pipeline = agentctx.Pipeline(budget=BUDGET)
    with pytest.raises(agentctx.ConfigError, match=r"got Pipeline.prepare\(...\), .* blocking\(session.prepare, mess"):
        agentctx.blocking(pipeline.prepare(chat(2)))
    with pytest.raises(agentctx.ConfigError, match="blocking: len is no async function: call it as it is"):
        agentctx.blocking(len, chat(2))
