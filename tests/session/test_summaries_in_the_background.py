"""A summary that is written in the background, while the model answers, is there when the cut comes."""

import json
from asyncio import CancelledError

import anyio
import pytest

from agentctx import (
    Budget,
    ClearToolResults,
    ConfigError,
    FitContextWindow,
    Ledger,
    Pipeline,
    PlaceCacheMarkers,
    Session,
    over,
    when,
)
from agentctx.core.recap import recap_of
from agentctx.engine.summary import SummaryRecord
from agentctx.strategies import Summarize
from agentctx.testing import assistant, call, result, transcript, user

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]
BUDGET = Budget(4_000, trigger=0.9, target=0.6)
FORMATS = ["openai-chat", "anthropic", "gemini"]


class Writer:
    """A summarizer that waits until it may answer, and remembers what it was told and by when it was cancelled."""

    def __init__(self, *, open_=True):
        self.told, self.cancelled, self.fault = [], 0, None
        self.gate = anyio.Event()
        if open_:
            self.gate.set()

    async def __call__(self, messages, _most):
        number = len(self.told) + 1
        self.told.append(list(messages))
        try:
            await self.gate.wait()
        except anyio.get_cancelled_exc_class():
            self.cancelled += 1
            raise
        if isinstance(self.fault, BaseException):
            raise self.fault
        return f"Decisions:\n- d{number}\nNext step: n{number}" if self.fault is None else self.fault


def rounds(first, last, words=60):
    """Rounds with results."""
    for place in range(first, last):
        yield assistant(f"{place} " * words, call(f"c{place}", "read", {"n": place}))
        yield result(f"c{place}", "ok")


def history(format_name="openai-chat", number=90):
    """A task and many rounds."""
    return transcript(format_name, user("the task"), *rounds(0, number))


def pipeline(writer, *more, **options):
    """A summary from two thirds of the trigger on."""
    return Pipeline(Summarize(writer, background=0.67, **options), *more, budget=BUDGET)


def recaps(view):
    return [recap for recap in map(recap_of, view.context.messages) if recap]


def said(view):
    return " ".join(note for stage in view.report.stages for note in stage.notes)


def is_cut(view):
    return any(stage.stage == "Summarize" and stage.changes for stage in view.report.stages)


async def until(session, whole, wanted, start=1, stride=2):
    """Go on, a round at a time, until a view is as wanted; the view and how many messages it was made of."""
    for stop in range(start, len(whole) + 1, stride):
        view = await session.prepare(whole[:stop])
        await anyio.wait_all_tasks_blocked()
        if wanted(view):
            return view, stop
    raise AssertionError


def begun(writer):
    return lambda _view: bool(writer.told)


@pytest.mark.parametrize("format_name", FORMATS)
async def test_what_is_ready_is_swapped_in_with_no_wait(anyio_backend, format_name):
    """The cut asks nobody, stands for what the summarizer was told, and keeps all that came since word for word."""
    writer, whole = Writer(), history(format_name)
    async with pipeline(writer).session(format=format_name) as session:
        early, stop = await until(session, whole, begun(writer))
        assert 0.67 * BUDGET.trigger_tokens < early.report.tokens_after < BUDGET.trigger_tokens
        assert not early.report.stages
        writer.gate = anyio.Event()  # who asks from here on waits for ever
        with anyio.fail_after(60):
            view, stop = await until(session, whole, is_cut, stop + 2)
    assert len(writer.told) == 1
    [recap] = recaps(view)
    assert recap.sections["Summary"] == "Decisions:\n- d1\nNext step: n1"
    assert recap.messages == len(writer.told[0])
    assert len(view.messages) == stop - recap.messages + 1
    assert view.report.tokens_after <= BUDGET.target_tokens
    assert not said(view)


async def test_the_record_goes_on_from_cut_to_cut(anyio_backend):
    """The next one in the background is told the record that stands there; every cut finds one that is ready."""
    writer, whole = Writer(), history(number=200)
    async with pipeline(writer).session(format="openai-chat") as session:
        cuts, stop = [], 1
        while len(cuts) < 3:
            view, stop = await until(session, whole, is_cut, stop)
            cuts.append(recaps(view)[0])
            stop += 2
    assert len(writer.told) in (3, 4)  # the next one may have begun
    for number, told in enumerate(writer.told[1:3], 1):
        assert recap_of(told[0]) == cuts[number - 1]
    assert [SummaryRecord.read(cut.sections["Summary"]).next_step for cut in cuts] == ["n1", "n2", "n3"]
    assert cuts[0].messages < cuts[1].messages < cuts[2].messages


async def test_what_is_under_way_is_waited_for(anyio_backend):
    """The step that needs it does not ask a second time."""
    writer, whole, views = Writer(open_=False), history(), []
    async with pipeline(writer).session(format="openai-chat") as session:
        _, stop = await until(session, whole, begun(writer))

        async def cut():
            views.append((await until(session, whole, is_cut, stop + 2))[0])

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(cut)
            await anyio.wait_all_tasks_blocked()
            assert not views
            writer.gate.set()
    assert len(writer.told) == 1
    assert recaps(views[0])[0].messages == len(writer.told[0])


def edited(whole, place):
    """The history with another word at a place."""
    changed = json.loads(json.dumps(whole))
    changed[place]["content"] = f"something else {changed[place]['content']}"
    return changed


@pytest.mark.parametrize("gate", ["open", "shut"])
async def test_a_prefix_that_has_changed_is_not_stood_for(anyio_backend, gate):
    """What was written of it is discarded, whether it is ready or not; what is said was told of what is there."""
    writer, whole = Writer(open_=gate == "open"), history()
    async with pipeline(writer).session(format="openai-chat") as session:
        _, stop = await until(session, whole, begun(writer))
        changed = edited(whole, 3)
        writer.gate.set()
        view, _ = await until(session, changed, is_cut, stop + 2)
    assert len(writer.told) >= 2
    assert all(changed[3]["content"] in [message.text for message in told] for told in writer.told[1:])
    assert recaps(view)[0].sections["Summary"].endswith(f"n{len(writer.told)}")


async def test_a_prefix_that_changes_at_the_cut_itself_is_said(anyio_backend):
    """The step writes its summary anew, as it would without the background, and the report says why."""
    writer, whole = Writer(), history()
    session = pipeline(writer).session(format="openai-chat")
    async with session:
        await until(session, whole, begun(writer))
        changed = edited(whole, 3)
        view = await session.prepare(changed[:81])
    plain = await Pipeline(Summarize(Writer()), budget=BUDGET).session(format="openai-chat").prepare(changed[:81])
    assert is_cut(view)
    assert "what it was made of has changed" in said(view)
    assert len(writer.told) == 2
    assert [recap.messages for recap in recaps(view)] == [recap.messages for recap in recaps(plain)]
    assert view.messages[2:] == plain.messages[2:]


@pytest.mark.parametrize("back", [2, 21])
async def test_going_back_leaves_nothing_of_what_is_gone(anyio_backend, back):
    """Behind the caller's shorter history no summary speaks of what was taken back."""
    writer, whole = Writer(), history()
    async with pipeline(writer).session(format="openai-chat") as session:
        _, stop = await until(session, whole, begun(writer))
        other = [*whole[: stop - back - (stop - back + 1) % 2], *transcript("openai-chat", *rounds(500, 590))]
        view, _ = await until(session, other, is_cut, stop)
    there = {message["content"] for message in other if message["content"]}
    last = [message.text for message in writer.told[-1] if message.role == "assistant"]
    assert set(last) <= there
    assert recaps(view)[0].sections["Summary"].endswith(f"n{len(writer.told)}")


@pytest.mark.parametrize(
    "fault",
    [OSError("down"), SystemExit(3), GeneratorExit(), CancelledError(), "", "I'm sorry, but I can't help with that."],
)
async def test_a_failure_in_the_background_costs_nothing(anyio_backend_name, fault):
    """The cut asks for itself, as without the background, and the report says what was wrong."""
    if isinstance(fault, CancelledError) and anyio_backend_name == "trio":  # where nobody but the loop can raise it
        return
    writer, whole = Writer(), history()
    writer.fault = fault
    async with pipeline(writer).session(format="openai-chat") as session:
        early, stop = await until(session, whole, lambda view: writer.told and view.report)
        await until(session, whole, lambda _view: True, stop + 2)
        assert len(writer.told) == 1  # it is not tried again and again
        writer.fault = None
        view, _ = await until(session, whole, is_cut, stop + 4)
    assert not early.report.stages
    assert "not from the background: " in said(view)
    assert len(writer.told) == 2
    assert recaps(view)[0].sections["Summary"].endswith("n2")


async def test_what_does_not_fit_beside_it_is_told_with_the_record(anyio_backend):
    """Where the target leaves no room for what came since, the summarizer is told that alone, and the record so far."""
    budget = Budget(4_000, trigger=0.9, target=0.15)
    writer, whole = Writer(), history()
    async with Pipeline(Summarize(writer, background=0.7), budget=budget).session(format="openai-chat") as session:
        view, _ = await until(session, whole, is_cut)
    first, second = writer.told
    assert recap_of(second[0]).sections["Summary"].endswith("n1")
    assert {message.text for message in second[1:]}.isdisjoint(message.text for message in first if message.calls)
    assert len(second) < len(first)
    [recap] = recaps(view)
    assert recap.messages == len(first) + len(second) - 1
    assert recap.sections["Summary"] == "Decisions:\n- d2\nNext step: n2"


async def test_a_session_is_dumped_and_loaded_while_it_runs(anyio_backend):
    """The dump has nothing of it; the loaded session writes its summary at its cut; the other one's is still of use."""
    writer, whole = Writer(open_=False), history()
    planned = pipeline(writer)
    async with planned.session(format="openai-chat") as session:
        _, stop = await until(session, whole, begun(writer))
        state = json.loads(json.dumps(session.dump()))
        loaded = Session.load(planned, state)
        writer.gate.set()
        view, _ = await until(loaded, whole, is_cut, stop + 2)
        assert "async with session" in said(view)
        assert len(writer.told) == 2
        mine, _ = await until(session, whole, is_cut, stop + 2)
    assert len(writer.told) == 2
    assert recaps(mine)[0].sections["Summary"].endswith("n1")
    assert recaps(view)[0].sections["Summary"].endswith("n2")


async def test_what_runs_ends_with_the_block(anyio_backend):
    """It is cancelled; the error of the block comes out as it is; and the session goes on as if nothing had been."""
    writer, whole = Writer(open_=False), history()
    session = pipeline(writer).session(format="openai-chat")
    stops = []

    async def turn():
        async with session:
            stops.append((await until(session, whole, begun(writer)))[1])
            raise KeyError(stops[0])

    with pytest.raises(KeyError):
        await turn()
    assert writer.cancelled == 1
    writer.gate.set()
    view, _ = await until(session, whole, is_cut, stops[0] + 2)
    assert "async with session" in said(view)
    assert len(writer.told) == 2
    fresh = pipeline(Writer()).session(format="openai-chat")
    plain, _ = await until(fresh, whole, is_cut)
    assert recaps(view)[0].messages == recaps(plain)[0].messages


async def test_what_was_finished_in_one_block_counts_in_the_next(anyio_backend):
    """Each turn may have a block of its own."""
    writer, whole = Writer(), history()
    session, views = pipeline(writer).session(format="openai-chat"), []
    for stop in range(1, len(whole), 2):
        async with session:
            views.append(await session.prepare(whole[:stop]))
            await anyio.wait_all_tasks_blocked()
        if is_cut(views[-1]):
            break
    assert len(writer.told) == 1
    assert recaps(views[-1])[0].sections["Summary"].endswith("n1")


async def test_a_cancelled_step_that_waits_for_it_costs_nothing(anyio_backend):
    """What is under way goes on, and the step that is taken again finds it."""
    writer, whole = Writer(open_=False), history()
    async with pipeline(writer).session(format="openai-chat") as session:
        _, stop = await until(session, whole, begun(writer))
        given, before = whole[: stop + 30], session.dump()
        with anyio.move_on_after(0.1) as scope:
            await session.prepare(given)
        assert scope.cancelled_caught
        assert session.dump() == before
        writer.gate.set()
        view = await session.prepare(given)
    assert is_cut(view)
    assert not writer.cancelled


async def test_a_cancelled_block_is_left_at_once(anyio_backend):
    """A scope around it takes the block, the step and the background with it."""
    writer, whole = Writer(open_=False), history()
    async with anyio.create_task_group() as tasks:

        async def leave():
            while not writer.told:  # noqa: ASYNC110 - a list tells nobody
                await anyio.sleep(0.001)
            scope.cancel()

        tasks.start_soon(leave)
        with anyio.CancelScope() as scope:
            async with pipeline(writer).session(format="openai-chat") as session:
                await until(session, whole, is_cut)
    assert scope.cancelled_caught
    assert writer.cancelled == 1


async def test_without_a_block_the_step_waits(anyio_backend, preparing):
    """Nothing is begun early; in a session the report of the cut says what it takes."""
    writer, whole = Writer(), history()
    view = await preparing(pipeline(writer), "openai-chat")(whole)
    assert len(writer.told) >= 1
    assert recaps(view)
    session = pipeline(writer).session(format="openai-chat")
    before = len(writer.told)
    view, _ = await until(session, whole, is_cut)
    assert len(writer.told) == before + 1
    assert "`async with session:`" in said(view)


class Misused(Writer):
    """A summarizer that asks for a step of the session that it writes for."""

    def __init__(self):
        super().__init__()
        self.session = None

    async def __call__(self, messages, most):
        made = await super().__call__(messages, most)
        if len(self.told) == 1:
            await self.inner.wait()
            await self.session.prepare([{"role": "user", "content": "Hi"}])
        return made


async def test_nobody_waits_for_ever(anyio_backend):
    """A summarizer that asks for a step of the very session whose step waits for it is told so, and the cut is made."""
    writer, whole = Misused(), history()
    writer.inner = anyio.Event()
    async with pipeline(writer).session(format="openai-chat") as session:
        writer.session = session
        _, stop = await until(session, whole, begun(writer))
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(session.prepare, whole[: stop + 30])
                await anyio.wait_all_tasks_blocked()
                writer.inner.set()
        assert is_cut(session.view)
        assert "asked for a step of the session" in said(session.view)


STAGES = {
    "edits before it": lambda stage: (ClearToolResults(keep_last=3), stage),
    "a condition": lambda stage: (when(over(0.5), stage),),
    "a ledger and a cut behind it": lambda stage: (stage, FitContextWindow(), Ledger(), PlaceCacheMarkers()),
    "a pipeline": lambda stage: (Pipeline(stage, FitContextWindow()),),
}


@pytest.mark.parametrize("kind", STAGES)
@pytest.mark.parametrize("format_name", FORMATS)
async def test_it_is_of_use_among_other_stages(anyio_backend, format_name, kind):
    """Whatever they change at the cut, and wherever cache markers stand, the prefix is what it was."""
    writer, whole = Writer(), history(format_name)
    plan = Pipeline(*STAGES[kind](Summarize(writer, background=0.67)), budget=BUDGET)
    async with plan.session(format=format_name, model={"anthropic": "claude-sonnet-4-5"}.get(format_name)) as session:
        view, _ = await until(session, whole, lambda view: bool(recaps(view)))
    assert len(writer.told) == 1
    assert recaps(view)[0].sections["Summary"].endswith("n1")
    assert "not from the background" not in said(view)


@pytest.mark.parametrize("mode", ["full", "rebuilt", "rolling"])
async def test_it_is_of_use_however_the_caller_goes_on(anyio_backend, mode):
    """With the same objects, with rebuilt ones, and with views written back."""
    writer, whole, given = Writer(), history(), []
    async with pipeline(writer).session(format="openai-chat") as session:
        for stop in range(1, len(whole), 2):
            given = [*given, *whole[max(0, stop - 2) : stop]]
            given = json.loads(json.dumps(given)) if mode == "rebuilt" else given
            view = await session.prepare(given)
            await anyio.wait_all_tasks_blocked()
            given = list(view.messages) if mode == "rolling" else given
            if is_cut(view):
                break
    assert len(writer.told) == 1
    assert recaps(view)[0].sections["Summary"].endswith("n1")


@pytest.mark.parametrize("share", [0, 1, -0.5, True, "0.5"])
def test_a_share_of_the_trigger(anyio_backend, share):
    """Anything else is refused when the stage is made."""
    with pytest.raises(ConfigError, match="background"):
        Summarize(background=share)
