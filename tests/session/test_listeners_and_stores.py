"""Listeners, stores, counters and clocks that are several, slow, cancelled, or talk nonsense."""

import contextlib
import json
import threading
from functools import partial

import anyio
import pytest
from attrs import define, field

from agentctx import (
    AgentctxError,
    Budget,
    ConfigError,
    FitContextWindow,
    Pipeline,
    PlaceCacheMarkers,
    TrimRounds,
    TruncateToolOutputs,
    convert,
    count,
)
from agentctx.builder import Block, ContextBuilder
from agentctx.economics import SilentTruncationSuspected
from agentctx.engine import plan as telling
from agentctx.stores import MemoryStore
from agentctx.testing import Recorder, assistant, call, result, transcript, user
from agentctx.tokens.counting import remembering

PATIENCE = 60
"""Seconds after which nobody need hope any more."""

pytestmark = [pytest.mark.anyio, pytest.mark.both_loops]


def rounds(number, form="openai-chat", words=60):
    """A task and rounds whose results differ."""
    turns = [user("task")]
    for place in range(number):
        turns += [assistant(call(f"c{place}", "read", {"n": place})), result(f"c{place}", f"{place} " + "w " * words)]
    return transcript(form, *turns)


def state(session):
    """What the session holds."""
    return json.dumps(session.dump())


async def test_several_listeners_are_told_and_none_holds_up_another(monkeypatch):
    """One that waits for ever, one that blocks and one that raises cost no more than the time that each may take."""
    monkeypatch.setattr(telling, "SECONDS", 1.0)
    heard, release = Recorder(), threading.Event()

    async def waits(_event):
        await anyio.sleep_forever()

    def blocks(_event):
        release.wait(300)

    def raises(_event):
        raise ValueError

    pipeline = Pipeline(TrimRounds(1), on_compact=[waits, blocks, raises, heard])
    try:
        with anyio.fail_after(PATIENCE):
            await pipeline.prepare(rounds(4), format="openai-chat")
    finally:
        release.set()
    assert len(heard.events) == 1


async def test_a_plain_listener_that_blocks_lets_the_event_loop_turn():
    """It runs in a thread of its own: another task ends what it waits for."""
    listening, turned, waited = threading.Event(), threading.Event(), []

    async def turns():
        while not listening.is_set():  # noqa: ASYNC110 - a thread sets it
            await anyio.sleep(0.001)
        turned.set()

    def listen(_event):
        listening.set()
        waited.append(turned.wait(telling.SECONDS))

    async with anyio.create_task_group() as group:
        group.start_soon(turns)
        await Pipeline(TrimRounds(1), on_compact=listen).prepare(rounds(4), format="openai-chat")
    assert waited == [True]


class EndError(BaseException):
    """No plain error."""


@pytest.mark.parametrize("how", ["cancelled", "ended"])
async def test_a_step_whose_listener_is_cancelled_is_taken(how):
    """The same messages give the bytes of a session that nobody has cancelled, and nobody hears of the step again."""
    heard, steps = [], []
    plan = Pipeline(TrimRounds(1), subscribers=[steps.append])

    async def hangs(event):
        heard.append(event)
        if how == "ended":
            raise EndError
        scope.cancel()
        await anyio.sleep_forever()

    session, calm = plan.session(format="openai-chat", on_compact=hangs), Pipeline(TrimRounds(1)).session()
    for each in (session, calm):
        each.internals.clock = lambda: 1.0
        await each.prepare(rounds(2)[:1], format="openai-chat")
    with anyio.CancelScope() as scope, contextlib.suppress(EndError):
        await session.prepare(rounds(6))
    assert scope.cancelled_caught is (how == "cancelled")
    expected = (await calm.prepare(rounds(6))).messages
    assert state(session) == state(calm)
    assert (len(heard), [event.step for event in steps if event.compaction]) == (1, [1])
    for number in (2, 3):
        view = await session.prepare(rounds(6))
        assert (json.dumps(view.messages), view.report.acted) == (json.dumps(expected), False)
        assert view.messages == steps[1].view.messages
        assert (len(heard), session.steps, len(steps)) == (1, number + 1, number + 1)


async def test_a_recovery_whose_listener_is_cancelled_is_taken():
    """What it has taught holds, and the next step gives the smaller view."""
    heard, messages = [], rounds(30)

    async def hangs(event):
        heard.append(event)
        scope.cancel()
        await anyio.sleep_forever()

    session = Pipeline(FitContextWindow(), budget=Budget(50_000)).session(format="openai-chat", on_compact=hangs)
    sent = (await session.prepare(messages)).report.tokens_after
    with anyio.CancelScope() as scope:
        await session.recover(ValueError("maximum context length is 1500 tokens"))
    assert scope.cancelled_caught
    smaller = session.view
    assert smaller.report.tokens_after <= session.budget.limit <= 1_500 < sent
    assert (await session.prepare(messages)).messages == smaller.messages
    assert len(heard) == 1


async def test_an_event_says_whether_the_prefix_moved():
    """Of many events only the real cuts moved it, and those are as many as the view says."""
    heard = Recorder()
    stages = TruncateToolOutputs(max_tokens=40), FitContextWindow()
    session = Pipeline(*stages, budget=Budget(1_500)).session(format="openai-chat", on_compact=heard)
    history, moved, before = rounds(40), 0, []
    for stop in range(1, len(history) + 1):
        view = await session.prepare(history[:stop])
        moved += view.messages[: len(before)] != before
        before = list(view.messages)
    assert sum(event.prefix_moved for event in heard.events) == moved
    assert 0 < moved < len(heard.events)
    assert {str(event).split()[0] for event in heard.events} == {"compaction", "arrivals"}
    assert all(("prefix moved" in str(event)) is event.prefix_moved for event in heard.events)


async def test_cache_markers_are_no_compaction():
    """What got a marker is in the report; listeners are told of cuts only."""
    heard = Recorder()
    session = Pipeline(PlaceCacheMarkers()).session(model="claude-sonnet-4-5", format="anthropic", on_compact=heard)
    view = await session.prepare(rounds(6, "anthropic", 900))
    assert view.report.acted
    assert not heard.events


@pytest.mark.parametrize(
    ("form", "model"),
    [("anthropic", "claude-sonnet-4-5"), ("bedrock", "anthropic.claude-sonnet-4-5-20250929-v1:0")],
)
async def test_what_carries_a_marker_is_named_and_what_carries_none_is_the_callers_own(form, model):
    """At every step exactly the messages that are not the caller's own objects are in force."""
    session = Pipeline(PlaceCacheMarkers(), store=MemoryStore()).session(model=model, format=form)
    history = rounds(12, form, 500)
    for stop in range(3, len(history) + 1, 2):
        view = await session.prepare(history[:stop])
        touched = [place for place, native in enumerate(view.messages) if native is not history[place]]
        assert touched == sorted(change.index for change in view.report.in_force)
        assert view.report.tokens_before == view.report.tokens_after == count(view.messages, format=form, model=model)
    assert touched


async def test_what_was_added_and_dropped_again_is_not_in_force():
    """The changes in force add up to what went out, without a session too."""
    history = transcript(
        "openai-chat", user("task"), assistant(call("a", "f")), user("q2"), assistant("a2"), user("q3")
    )
    report = (await Pipeline(TrimRounds(1)).prepare(history, format="openai-chat")).report
    saved = sum(change.tokens_before - change.tokens_after for change in report.in_force)
    assert report.tokens_before - saved == report.tokens_after
    assert {change.outcome for change in report.in_force} == {"dropped"}


@define
class Slow:
    """A store that takes a while, and remembers how many it served at once."""

    kept: MemoryStore = field(factory=MemoryStore)
    now: int = 0
    most: int = 0

    async def put(self, content, /):
        """Keep it."""
        self.now += 1
        self.most = max(self.most, self.now)
        await anyio.sleep(0.002)
        self.now -= 1
        return await self.kept.put(content)

    async def get(self, handle, /):
        """Give it back."""
        return await self.kept.get(handle)


async def test_originals_are_kept_side_by_side_with_a_limit():
    """Many changes wait for the store together, but never all of them at once."""
    store = Slow()
    view = await Pipeline(TrimRounds(1), store=store).prepare(rounds(200), format="openai-chat")
    assert len(view.report.changes) == len(store.kept)
    assert 8 <= store.most <= 16


def store_that(put):
    """A store that keeps in its own way."""
    return type("Odd", (), {"put": put, "get": MemoryStore.get})()


async def fails(_self, _content):
    """Raise what no caller of agentctx knows."""
    raise ConnectionError


async def no_text(_self, _content):
    """Give a handle that is none."""
    return b"handle"


async def no_unicode(_self, _content):
    """Give a handle that no file holds."""
    return "h\ud800"


@pytest.mark.parametrize(
    "put",
    [fails, no_text, no_unicode, lambda _self, _content: "handle"],
    ids=["raises", "bytes", "surrogate", "plain"],
)
async def test_a_store_that_fails_costs_no_more_than_its_handles(put):
    """The request is what it is without a store, and the report names the store and what it did."""
    messages = rounds(5)
    view = await Pipeline(TrimRounds(1), store=store_that(put)).session(format="openai-chat").prepare(messages)
    without = await Pipeline(TrimRounds(1)).session(format="openai-chat").prepare(messages)
    assert view.messages == without.messages
    assert {change.handle for change in view.report.changes} == {None}
    (note,) = [note for stage in view.report.stages if stage.stage == "Store" for note in stage.notes]
    assert "Odd" in note


async def later(_text):
    """Count, asynchronously."""
    return 1


@pytest.mark.parametrize("tokens", [float("nan"), -1, None, "3", 1.5, True], ids=repr)
async def test_a_counter_that_talks_nonsense_is_named(tokens):
    """When it says it, by one error."""

    def odd(_text):
        return tokens

    with pytest.raises(ConfigError, match="counter odd"):
        await Pipeline(counter=odd).prepare(rounds(1), format="openai-chat")


async def test_a_plain_function_counts():
    """And an async one is refused by its name."""
    view = await Pipeline(counter=len).prepare(rounds(1), format="openai-chat")
    assert view.report.tokens_after > 100
    with pytest.raises(
        ConfigError, match=r"counter must be a plain function of a text, and not async, got <function .*later"
    ):
        Pipeline(counter=later)
    with pytest.raises(ConfigError, match="coroutine"):
        await Pipeline(counter=lambda text: later(text + "")).prepare(rounds(1), format="openai-chat")


@pytest.mark.parametrize(
    "now",
    [float("nan"), float("inf"), None, "12", 10**400, -(10**5000)],
    ids=["nan", "inf", "None", "12", "large", "huge"],
)
async def test_a_clock_that_talks_nonsense_is_named(now):
    """When it says it, and the session is as it was."""
    session = Pipeline(TrimRounds(1)).session(format="openai-chat")
    session.internals.clock = lambda: now
    before = state(session)
    with pytest.raises(AgentctxError, match="clock"):
        await session.prepare(rounds(2))
    assert before == state(session)


async def test_a_summarizer_that_no_stage_asks_is_refused():
    """An argument that nobody uses is an error; a stage of the user's own may use it."""

    async def shorten(_messages, _max_tokens):
        return "short"

    async def own(context, _call):
        return context

    with pytest.raises(ConfigError, match="no stage asks"):
        Pipeline(TrimRounds(2), summarizer=shorten)
    assert Pipeline(own, summarizer=shorten).summarizer is shorten


async def test_plain_listeners_of_what_was_recorded_cost_no_more_than_their_time(monkeypatch):
    """Where nothing can be awaited: one that blocks, one that raises, one that answers with something to wait for."""
    monkeypatch.setattr(telling, "SECONDS", 1.0)
    heard, waited, release, blocked = Recorder(), [], threading.Event(), []

    async def answer(event):
        waited.append(event)

    def raises(_event):
        raise ValueError

    def ends(_event):
        raise EndError

    event = SilentTruncationSuspected((), 2, 1, 20, 10, why="the server has a small window")
    plain = [lambda _: blocked.append(release.wait(PATIENCE)), raises, partial(answer), heard.events.append]
    later = telling.finish_plain(telling.tell(telling.on_compact_subscribers("Pipeline", [answer, *plain]), event))
    assert blocked == []  # nobody has waited for it
    release.set()
    assert (heard.events, waited, len(later)) == ([event], [], 2)
    await telling.finish(later)
    assert waited == [event, event]
    with pytest.raises(EndError):
        telling.finish_plain(telling.tell(telling.on_compact_subscribers("Pipeline", ends), event))


@pytest.mark.parametrize("wrong", [3, str, "len", [], [1], (1, 2), b"x"], ids=repr)
async def test_a_plain_function_counts_everywhere(wrong):
    """Wherever a counter may be passed it may be a function of a text; what is none is refused everywhere."""
    messages = rounds(2)

    async def waits(_text):
        return 1

    def entries(counter):
        return (
            lambda: count(messages, format="openai-chat", counter=counter),
            lambda: convert(messages, "anthropic", counter=counter).report.tokens_before,
            lambda: ContextBuilder(Budget(5_000), counter=counter),
            lambda: Pipeline(counter=counter),
        )

    assert entries(len)[0]() == entries(len)[1]() > count(messages, format="openai-chat")
    built = await entries(len)[2]().add(Block("a", messages)).build()
    assert built.report.tokens == count(built.messages, format="openai-chat", counter=len)
    for counter in (wrong, waits):
        for entry in entries(counter):
            with pytest.raises(ConfigError, match="counter"):
                entry()


class Raises:
    """A counter that raises at its work, in one of the ways to ask it."""

    def __init__(self, *names):
        self.names = names

    def __getattr__(self, name):
        if name not in self.names:
            raise AttributeError(name)
        return lambda *_: 1 / 0 if name == self.names[-1] else 9


@pytest.mark.parametrize(
    "counter",
    [lambda _text: 1 / 0, Raises("count"), Raises("count", "count_message"), Raises("count", "count_part")],
)
async def test_a_counter_that_raises_is_named(counter):
    """Whatever a counter raises is the cause of one error that names the counter."""
    pipeline = Pipeline(TruncateToolOutputs(5), FitContextWindow(), budget=Budget(1_000), counter=counter)
    with pytest.raises(ConfigError, match=r"counter (<lambda>|Raises) raised ZeroDivisionError") as caught:
        await pipeline.prepare(rounds(3), format="openai-chat")
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


class CutsBadly:
    """A counter that counts and cannot cut."""

    def count(self, text, /):
        return len(text)

    def exceeds(self, text, tokens, /):
        return len(text) / 0 > tokens

    def head(self, text, tokens, /):
        return text[: tokens // 0]

    tail = head


@pytest.mark.parametrize("way", ["exceeds", "head", "tail"])
async def test_a_counter_that_raises_when_it_cuts_is_named(way):
    """The same where it cuts text."""
    counter = remembering(CutsBadly())
    with pytest.raises(ConfigError, match=r"counter CutsBadly raised ZeroDivisionError"):
        getattr(counter, way)("text", 1)


async def test_a_counter_that_takes_no_text_is_named():
    """A function that cannot be asked is named; the session goes on as if the step had not been."""
    session = Pipeline(counter=lambda: 1).session(format="openai-chat")
    before = state(session)
    with pytest.raises(ConfigError, match=r"counter <lambda> raised TypeError"):
        await session.prepare(rounds(1))
    assert state(session) == before
