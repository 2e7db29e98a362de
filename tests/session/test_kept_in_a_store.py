"""Sessions in a store: whoever goes on with a conversation does what one worker would have done that never moved."""

import gzip
import json
import tracemalloc
from copy import deepcopy
from hashlib import blake2b
from pathlib import Path
from statistics import median
from time import monotonic

import anyio
import anyio.lowlevel
import pytest
from attrs import define
from histories import broken_histories, budgets, histories, stages
from hypothesis import given, settings, strategies as st

from agentctx import (
    AgentctxError,
    Budget,
    ClearToolResults,
    ConfigError,
    FitContextWindow,
    InvalidInput,
    Ledger,
    Pipeline,
    PlaceCacheMarkers,
    Session,
    Sessions,
    TruncateToolOutputs,
    UnknownModel,
    validate,
)
from agentctx.errors import StoreFull, StoreUnavailable
from agentctx.formats.registry import RequestParts
from agentctx.models import register_model, table
from agentctx.presets import coding_agent
from agentctx.recall import Recall
from agentctx.replay import Recording, calls_of
from agentctx.session import keeping
from agentctx.session.conversations import holding
from agentctx.session.keeping import BEGUN_ANEW, LOST, PAUSE
from agentctx.sources import redact_secrets
from agentctx.stores import MemoryStore, RedactingStore, SQLiteStore
from agentctx.testing import assistant, call, result, transcript, user
from agentctx.testing.assertions import texts_of

MODELS = st.sampled_from([None, "claude-opus-5-5", "claude-sonnet-4-5", "gpt-5.4"])
EXAMPLE = Path(__file__).parents[2] / "examples" / "sessions" / "coding_agent.jsonl"
FORMATS = "openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"


PATIENCE = 60
"""Seconds after which nobody need hope any more."""


def rounds(count, format_name="openai-chat", size=60):
    """A task and rounds of one call each."""
    turns = [user("the task")]
    for number in range(count):
        turns += [assistant(call(f"c{number}", "read", {"n": number})), result(f"c{number}", f"line {number}\n" * size)]
    return transcript(format_name, *turns)


def pipeline(**options):
    return Pipeline(
        TruncateToolOutputs(150), ClearToolResults(4), FitContextWindow(), Ledger(),
        budget=Budget(2_000, trigger=1_600, target=800), **options,
    )  # fmt: skip


def told(view):
    """Everything that a view says, but for how long it took, and that a conversation began with words of the model."""
    report = view.report.to_dict()
    report["stages"] = [stage for stage in report["stages"] if stage["notes"] != (BEGUN_ANEW,)]
    for timed in (report, *report["stages"]):
        del timed["seconds"]
    return texts_of(view.messages), view.system, view.tools, view.options, view.origins, report


def without_handles(said):
    """The same without handles, which stand for what only a caller has that keeps its history."""
    for change in (*said[-1]["in_force"], *(each for stage in said[-1]["stages"] for each in stage["changes"])):
        del change["handle"]
    return said


def notes(view):
    return [note for stage in view.report.stages if stage.stage == "Sessions" for note in stage.notes]


async def step(session, messages, history):
    """The view of a step, and what it says; None and the error."""
    try:
        view = await session.prepare(messages, history.system, history.tools, format=history.format)
    except AgentctxError as error:
        return None, (type(error), str(error))
    return view, told(view)


@settings(max_examples=40)
@given(
    history=st.one_of(histories(max_rounds=8), broken_histories(max_rounds=8)),
    stage=st.one_of(stages(), st.just(PlaceCacheMarkers())),
    budget=st.one_of(st.none(), budgets(3_000)),
    model=MODELS,
    every=st.integers(1, 4),
    loop=st.sampled_from(["keeps", "writes back", "goes back"]),
    billing=st.sampled_from([None, 0.8, 1.3]),
)
def test_handing_over_changes_nothing(both_loops, *, history, stage, budget, model, every, loop, billing):
    """However often another worker goes on, every view and every report is that of a session that never moved."""

    async def walk():
        plans = [Pipeline(stage, budget=budget, store=MemoryStore()) for _ in range(2)]
        alone, store = plans[0].session(model=model), MemoryStore()
        sessions, lengths = Sessions(plans[1], store), []
        for number in range(1, len(history.messages) + 1):
            lengths += [number, max(1, number - 3)] if loop == "goes back" and number % 3 == 0 else [number]
        known, views = 0, [[], []]
        for number, length in enumerate(lengths, 1):
            if number % every == 0:
                sessions = Sessions(plans[1], store)
            given = [history.messages[:length]] * 2
            if loop == "writes back":
                given = [[*view, *history.messages[known:length]] for view in views]
                known = length
            one = await step(alone, deepcopy(given[0]), history)
            async with sessions.open("x", model) as session:
                other = await step(session, deepcopy(given[1]), history)
                if loop == "writes back":
                    views = [
                        list(given[at] if view is None else view.messages) for at, (view, _) in enumerate((one, other))
                    ]
                for each, (view, _) in ((alone, one), (session, other)):
                    if billing is not None and view is not None:
                        each.record({"prompt_tokens": int(view.report.tokens_after * billing) + 7})
                assert alone.budget == session.budget
            if loop == "writes back" and one[0] is not None and other[0] is not None:
                assert without_handles(one[1]) == without_handles(other[1])
            else:
                assert one[1] == other[1]

    both_loops(walk)


def recordings(shared):
    """Recorded sessions: one of each kind where they are at hand, else the one that comes with the project."""
    paths = sorted((shared / "transcripts").glob("*.jsonl.gz")) if shared else []
    for path in paths or [EXAMPLE]:
        with (gzip.open if path.suffix == ".gz" else open)(path, "rt", encoding="utf-8") as lines:
            known = json.loads(next((line for line in lines if path is EXAMPLE or len(line) < 150_000), "null"))
        if known is None:  # all of them are long
            continue
        messages, system = known["messages"], known.get("system")
        if system is not None and known["format"] == "openai-chat":
            messages, system = [{"role": "system", "content": system}, *messages], None
        yield Recording(messages, system, known.get("tools"), known["format"], id=known["id"], pending=False)


@pytest.mark.anyio
async def test_recorded_sessions_are_handed_over(shared, tmp_path):
    """A hand-over at every tenth step of recorded sessions: byte-identical views and reports."""
    stores = MemoryStore(), SQLiteStore(tmp_path / "context.db")
    cuts = 0
    for at, recording in enumerate(recordings(shared)):
        store = stores[at % 2]
        budget = Budget(12_000)
        alone, sessions = coding_agent(budget).session(), Sessions(coding_agent(budget), store)
        for number, length in enumerate(calls_of(recording)[:21], 1):
            if number % 10 == 0:
                sessions = Sessions(coding_agent(budget), store)
            given = recording.messages[:length]
            one, said = await step(alone, given, recording)
            async with sessions.open(recording.id) as session:
                _, also_said = await step(session, given, recording)
                for each in (alone, session):
                    if one is not None:
                        each.record({"prompt_tokens": int(one.report.tokens_after * 1.1) + 7})
            assert said == also_said
            cuts += one is not None and one.report.first_changed is not None
    assert cuts


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.both_loops
@pytest.mark.anyio
async def test_each_format_is_handed_over(format_name):
    """In each format a hand-over at every step, after going back and to another branch too, changes no view."""
    messages, other = rounds(14, format_name), rounds(14, format_name, size=40)
    alone, store = pipeline().session(), MemoryStore()
    walk = [messages[:1], *(messages[:length] for length in range(3, 26, 2)), messages[:11], other[:13], messages[:29]]
    for passed in walk:
        expected = await alone.prepare(passed, format=format_name)
        async with Sessions(pipeline(), store).open("x") as session:
            assert told(await session.prepare(deepcopy(passed), format=format_name)) == told(expected)


@pytest.mark.both_loops
@pytest.mark.anyio
async def test_workers_take_turns(tmp_path):
    """Two workers that serve one conversation in turns, each with its session in memory, go on as one would."""
    messages, alone = rounds(20), pipeline().session()
    workers = [Sessions(pipeline(), SQLiteStore(tmp_path / "context.db")) for _ in range(2)]
    for number, length in enumerate(range(1, 42, 2)):
        async with workers[number % 2].using("x") as session:
            view = await session.prepare(messages[:length])
        assert told(view) == told(await alone.prepare(messages[:length]))


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
@pytest.mark.both_loops
@pytest.mark.anyio
async def test_many_at_once(kind, tmp_path):
    """Twenty tasks at once on one conversation, of ten workers: each gets a legal view, and each step is kept once."""
    memory = MemoryStore()
    stores = [memory if kind == "memory" else SQLiteStore(tmp_path / "context.db", timeout=30) for _ in range(10)]
    workers, messages, views = [Sessions(pipeline(), store, timeout=30) for store in stores], rounds(25), []

    async def work(number):
        async with workers[number % 10].open("x") as session:
            views.append(await session.prepare(messages[: 2 * number + 1]))

    async with workers[0].open("x") as session:
        await session.prepare(messages[:1])
    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(work, number)
    assert len(views) == 20
    for view in views:
        assert validate({"messages": view.messages}, format="openai-chat") == ()
        assert not notes(view)
    async with Sessions(pipeline(), stores[0]).open("x") as session:
        assert session.steps == 21


class Faulty:
    """A store that can go wrong in several ways."""

    def __init__(self, store, how="well"):
        self.store, self.how, self.asked = store, how, 0

    async def load_state(self, name):
        return await self._do(lambda: self.store.load_state(name))

    async def save_state(self, name, changed, version, *, key=None):
        return await self._do(lambda: self.store.save_state(name, changed, version, key=key))

    async def _do(self, call):
        self.asked += 1
        if self.how == "unanswered":  # what was asked is done
            await call()
        if self.how in {"down", "unanswered"}:
            raise StoreUnavailable(self.how)
        if self.how == "full":
            raise StoreFull(self.how)
        if self.how == "broken":
            raise OSError(self.how)
        if self.how == "hangs":
            await anyio.sleep_forever()
        return "nonsense" if self.how == "nonsense" else await call()


@pytest.mark.parametrize("begun", [True, False])
@pytest.mark.parametrize("how", ["down", "unanswered", "full", "broken", "hangs", "nonsense"])
@pytest.mark.both_loops
@pytest.mark.anyio
async def test_a_store_that_fails_costs_no_step(monkeypatch, how, begun):
    """The step gives in time the view that it would give, says what is not kept, and the next one that can saves it."""
    events, messages, alone = [], rounds(12), pipeline().session()
    now, store = [monotonic()], Faulty(MemoryStore(), "well" if begun else how)
    monkeypatch.setattr(keeping, "monotonic", lambda: now[0])
    sessions = Sessions(pipeline(on_compact=events.append), store, timeout=0.2 if how == "hangs" else PATIENCE)
    async with sessions.open("x") as session:
        for length in (1, 3, 15, 17):
            store.how = "well" if begun and length == 1 else how
            told_before = len(events)
            with anyio.fail_after(PATIENCE):
                view = await session.prepare(messages[:length])
            expected = await alone.prepare(messages[:length])
            assert view.messages == expected.messages
            if length > 1 or not begun:
                assert len(notes(view)) == 1
                assert len(events) == told_before + 1
        store.how = "well"
        now[0] += PAUSE * sessions.timeout
        view = await session.prepare(messages[:19])
        assert notes(view) == []
        assert view.messages == (await alone.prepare(messages[:19])).messages
    async with Sessions(pipeline(), store).open("x") as session:
        assert session.steps == 5
        assert told(await session.prepare(messages[:21])) == told(await alone.prepare(messages[:21]))


@pytest.mark.both_loops
@pytest.mark.anyio
async def test_a_store_that_hangs_is_waited_for_once(monkeypatch):
    """Not at each call of each step: once, and again after a while."""
    now, store, messages = [monotonic()], Faulty(MemoryStore(), "hangs"), rounds(12)
    monkeypatch.setattr(keeping, "monotonic", lambda: now[0])
    sessions = Sessions(pipeline(), store, timeout=0.2)
    for length in (1, 3, 5):
        async with sessions.open("x") as session:
            assert len(notes(await session.prepare(messages[:length]))) == 1
    assert store.asked == 1
    now[0] += PAUSE * sessions.timeout
    store.how = "well"
    async with sessions.open("x") as session:
        assert notes(await session.prepare(messages[:7])) == []
    assert store.asked > 1


@pytest.fixture
async def kept():
    """The state of a conversation with all kinds of pieces, in a store, and the history."""
    store, messages = MemoryStore(), rounds(60)
    async with Sessions(pipeline(store=MemoryStore()), store).open("x") as session:
        for length in range(1, 120, 2):
            await session.prepare(messages[:length])
    return store, messages


@pytest.mark.anyio
async def test_damage_is_noticed_and_costs_only_what_was_decided(kept):
    """Whatever piece is lost, changed or another's: the session begins again and says so, and is saved anew."""
    store, messages = kept
    known = await store.load_state("x")
    assert {name.partition("/")[0] for name in known.pieces} == {"head", "rows", "said", "gone", "edited", "made"}
    first = {name.partition("/")[0]: name for name in reversed(known.pieces)}.values()  # of each kind one
    broken = [{name: known.pieces[name][:-3] + b"?" + known.pieces[name][-2:]} for name in first]
    broken += [{name: None} for name in first]
    broken += [{"rows/0": known.pieces["rows/1"]}, {"head": b""}, {"head": known.pieces["gone"]}, {"edited/0": b"x"}]
    for number, damage in enumerate(broken):
        name = f"x{number}"
        await store.save_state(name, known.pieces, None)
        await store.save_state(name, damage, None)
        async with Sessions(pipeline(), store).open(name) as session:
            view = await session.prepare(messages)
            (note,) = notes(view)
            assert "damaged" in note
            assert validate({"messages": view.messages}, format="openai-chat") == ()
        async with Sessions(pipeline(), store).open(name) as session:
            assert (await session.prepare(messages)).messages == view.messages
            assert session.steps == 2


def with_content(pieces, name, change):
    """The pieces with another content of one, and the checksums that belong to it."""

    def signed(name, plain):
        body = json.dumps(plain, separators=(",", ":")).encode()
        return blake2b(name.encode() + b"\0" + body, digest_size=8).digest() + body

    plain = json.loads(pieces[name][8:])
    change(plain)
    pieces = {**pieces, name: signed(name, plain)}
    head = json.loads(pieces["head"][8:])
    head["sum"] = sum(int.from_bytes(body[:8], "big") for each, body in pieces.items() if each != "head")
    return {**pieces, "head": signed("head", head)}


MOST = 2**32 - 1


@pytest.mark.parametrize(
    ("path", "number"),
    [("tail", MOST), ("tail", 200), ("runs", [[0, MOST]]), ("runs", [[None, MOST]]), ("runs", [[0, 9], [9, 10**9]])],
    ids=str,
)
@pytest.mark.anyio
async def test_a_number_in_a_state_takes_no_memory(kept, path, number):
    """More messages than the state has digests of are refused, by the place, before room is made for them."""
    store, messages = kept
    known = (await store.load_state("x")).pieces
    pieces = with_content(known, "head", lambda head: head["head"].update({path: number}))
    tracemalloc.start()
    try:
        with pytest.raises(InvalidInput, match=rf"^state\.(head\.{path}|record\.{path}): "):
            keeping.read(pipeline(), pieces)
        assert tracemalloc.get_traced_memory()[1] < 2**22
    finally:
        tracemalloc.stop()
    await store.save_state("y", pieces, None)
    async with Sessions(pipeline(), store).open("y") as session:
        assert "damaged" in notes(await session.prepare(messages))[0]


@pytest.mark.parametrize("wrong", [7, {}, [7], True], ids=str)
@pytest.mark.anyio
async def test_a_message_in_a_state_that_cannot_be_read_is_given_up_with_it(kept, wrong):
    """The caller's own messages are not blamed for it, and the next step is as good as a first one."""
    store, messages = kept
    known = (await store.load_state("x")).pieces
    for number, kind in enumerate(("edited", "made")):
        name = next(name for name in known if name.startswith(kind))
        pieces = with_content(known, name, lambda piece: piece["native"].update(content=wrong))
        await store.save_state(f"y{number}", pieces, None)
        async with Sessions(pipeline(), store).open(f"y{number}") as session:
            view = await session.prepare(messages)
        (note,) = notes(view)
        assert "damaged, and was given up: state.record.out[" in note
        assert validate({"messages": view.messages}, format="openai-chat") == ()


@pytest.mark.anyio
async def test_a_damaged_head_names_its_place_once(kept):
    """The path stands before the sentence, and not within it."""
    pieces = (await kept[0].load_state("x")).pieces
    with pytest.raises(InvalidInput, match=r"^state\.head: its checksum is another$"):
        keeping.read(pipeline(), {**pieces, "head": b"?" + pieces["head"][1:]})


@pytest.mark.anyio
async def test_what_a_newer_release_has_saved_is_left_alone(kept):
    """A state that this release cannot read is not written over; the steps go on, and say so."""
    store, messages = kept
    known = await store.load_state("x")
    head = known.pieces["head"][8:].replace(b'"version":7', b'"version":8')
    checksum = blake2b(b"head\0" + head, digest_size=8).digest()
    version = await store.save_state("x", {"head": checksum + head}, None)
    async with Sessions(pipeline(), store).open("x") as session:
        assert "newer release" in notes(await session.prepare(messages))[0]
    assert (await store.load_state("x")).version == version


@pytest.mark.anyio
async def test_what_is_lost_is_saved_anew(kept):
    """Where the state is taken away while a worker goes on, that worker's is saved; a new one begins again."""
    store, messages = kept
    worker = Sessions(pipeline(), store)
    async with worker.open("x") as session:
        await session.prepare(messages[:119])
        await store.purge("x")
        assert notes(await session.prepare(messages[:121])) == [LOST]
    async with Sessions(pipeline(), store).open("x") as session:
        assert session.steps == 62
    await store.purge("x")
    async with Sessions(pipeline(), store).open("x") as session:
        assert notes(await session.prepare(messages)) == [BEGUN_ANEW]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.anyio
async def test_originals_that_are_lost_are_put_in_again(monkeypatch, full):
    """The next step does it, and says what is missing then; no other step says or does anything of it."""
    store, messages = MemoryStore(), rounds(40)
    put = type(store.backend).put

    def refuse(backend, *what):
        if len(backend.contents) >= 10:
            raise StoreFull(str(len(what)))
        return put(backend, *what)

    worker, tools = Sessions(pipeline(store=store), store), [Recall(store).definition("openai-chat")]

    async def step(stop):
        view = await session.prepare(messages[:stop], tools=tools)
        handles = {change.handle.partition("#")[0] for change in view.report.in_force if change.handle}
        return handles.difference(await store.for_conversation("x").handles()), notes(view)

    async with worker.open("x") as session:
        assert await step(61) == (set(), [BEGUN_ANEW])
        await store.purge("x")
        if full:
            monkeypatch.setattr(type(store.backend), "put", refuse)
        gone, said = await step(63)
        assert bool(gone) == full
        missing = [f"{len(gone)} originals of what was left out are in the store no more"] if full else []
        of_a_list = "1 other contents that the request has handles of are in the store no more"
        assert said == [LOST, *missing, of_a_list]
        monkeypatch.undo()
        assert await step(65) == (gone, [])


class Part(Faulty):
    """What one conversation has of a store that can go wrong."""

    async def handles(self):
        return await self._do(self.store.handles)

    async def put(self, content):
        return await self._do(lambda: self.store.put(content))

    async def get(self, handle):
        return await self.store.get(handle)


class Shelf(Faulty):
    """A store of originals that can go wrong."""

    def for_conversation(self, name):
        return Part(self.store.for_conversation(name), self.how)

    put, get = Part.put, Part.get


@pytest.mark.parametrize("how", ["down", "hangs", "broken", "cancelled"])
@pytest.mark.anyio
async def test_a_store_that_is_down_when_it_has_lost_originals_gets_them_later(how):
    """Each step says that they may not be there, until one can put them in; also where a step is cancelled over it."""
    states, store, messages = MemoryStore(), MemoryStore(timeout=0.3), rounds(40)
    shelf = Shelf(store)
    shelf.timeout = 0.3
    worker, tools = Sessions(pipeline(store=shelf), states), [Recall(store).definition("openai-chat")]
    async with worker.open("x") as session:

        async def step(stop):
            view = await session.prepare(messages[:stop], tools=tools)
            handles = {change.handle.partition("#")[0] for change in view.report.in_force if change.handle}
            kept = await store.for_conversation("x").handles()
            return len(handles.difference(kept)), [note.partition(":")[0] for note in notes(view)]

        assert await step(61) == (0, [BEGUN_ANEW.partition(":")[0]])
        await store.purge("x")
        await states.purge("x")
        shelf.how, lost = how, LOST.partition(":")[0]
        if how == "cancelled":
            shelf.how, shelf.timeout = "hangs", PATIENCE
            with anyio.move_on_after(0.05):
                await step(61)
            shelf.how = "well"
            assert (await step(63))[0] == 0
            return
        missing, said = await step(63)
        assert missing
        unsure = "originals of what was left out may be in the store no more"
        assert said == [lost, unsure]
        if how == "broken":  # it may never tell what it has
            return
        assert (await step(64))[1] == [unsure]
        shelf.how = "well"
        assert await step(65) == (0, ["1 other contents that the request has handles of are in the store no more"])
        assert await step(67) == (0, [])


@pytest.mark.anyio
async def test_originals_are_put_in_again_by_another_worker_too():
    """Who has saved a lost state anew may be stopped before the originals are there again: whoever goes on does it."""
    states, store, messages = MemoryStore(), MemoryStore(), rounds(40)
    shelf = Shelf(store)
    async with Sessions(pipeline(store=shelf), states).open("x") as session:
        await session.prepare(messages[:61])
        for each in (store, states):
            await each.purge("x")
        shelf.how = "hangs"
        with anyio.move_on_after(1):
            await session.prepare(messages[:61])
    shelf.how = "well"
    async with Sessions(pipeline(store=shelf), states).open("x") as session:
        view = await session.prepare(messages[:61])
    handles = {change.handle.partition("#")[0] for change in view.report.in_force if change.handle}
    assert session.steps > 1
    assert handles
    assert handles <= set(await store.for_conversation("x").handles())


@pytest.mark.anyio
async def test_originals_with_secrets_are_put_in_again_without_them():
    """They have the handles of what is left of them; secrets are taken out of each once."""
    kept, messages, redacted = MemoryStore(), [user("Mend it.")], []

    def redact(text, name):
        redacted.append(text)
        return redact_secrets(text, name)

    for number in range(30):
        told = f"password=xk29-fj3n-QQ{number} " + "word " * 150
        messages += [assistant(call(f"c{number}", "read", {})), result(f"c{number}", told)]
    store, messages = RedactingStore(kept, redact), transcript("openai-chat", *messages)
    async with Sessions(pipeline(store=store), kept).open("x") as session:
        await session.prepare(messages[:-2])
        await kept.purge("x")
        lost = {text for text in redacted if text.startswith('{"role"')}
        redacted.clear()
        view = await session.prepare(messages)
        assert {redacted.count(text) for text in lost} == {1}
        handles = {change.handle.partition("#")[0] for change in view.report.in_force if change.handle}
        assert handles
        assert handles <= set(await kept.for_conversation("x").handles())


@pytest.mark.anyio
async def test_what_is_said_of_a_recap_after_another_model_was_called():
    """Its tokens are those of the model that is called now, for the next worker too."""
    store, messages, alone = MemoryStore(), rounds(40), pipeline().session()
    async with Sessions(pipeline(), store).open("x") as session:
        for model in (None, "claude-opus-5-5"):
            view = await session.prepare(messages[:61], model=model)
            assert told(view) == told(await alone.prepare(messages[:61], model=model))
    async with Sessions(pipeline(), store).open("x") as session:
        assert told(await session.prepare(messages[:61])) == told(await alone.prepare(messages[:61]))


class Cancelling(Faulty):
    """A store that has whoever asks it to save cancelled, before or after it has saved."""

    scope = None

    async def save_state(self, name, changed, version, *, key=None):
        if self.scope is None:
            return await self.store.save_state(name, changed, version, key=key)
        if self.how == "after":
            await self.store.save_state(name, changed, version, key=key)
        self.scope.cancel()
        return await anyio.sleep_forever()


class Interrupted(Faulty):
    """A store that answers, and whoever asked is cancelled before it can take the answer in."""

    scope = None

    async def load_state(self, name):
        snapshot = await self.store.load_state(name)
        if self.scope is not None:
            self.scope.cancel()
            await anyio.lowlevel.checkpoint()  # where the caller is told
        return snapshot


@pytest.mark.both_loops
@pytest.mark.anyio
async def test_a_worker_that_is_cancelled_while_it_takes_over_writes_nothing_over():
    """Its next step goes on from what the other worker has saved, as a session does that never moved."""
    messages, alone, store = rounds(40), pipeline().session(), MemoryStore()
    interrupted = Interrupted(store)
    ours, other = Sessions(pipeline(), interrupted), Sessions(pipeline(), store)

    async def step(worker, length):
        async with worker.open("x") as session:
            return await session.prepare(messages[:length])

    for length in range(1, 61, 2):
        await alone.prepare(messages[:length])
        await step(ours if length < 20 or length == 41 else other, length)
    with anyio.CancelScope() as interrupted.scope:
        await step(ours, 61)
    assert interrupted.scope.cancelled_caught
    interrupted.scope = None
    for worker, length in ((ours, 63), (other, 65), (Sessions(pipeline(), store), 67)):
        assert told(await step(worker, length)) == told(await alone.prepare(messages[:length]))


@pytest.mark.anyio
async def test_a_worker_that_does_not_know_the_model_writes_nothing_over(monkeypatch):
    """Until it knows it, it raises, and what others have saved stays."""
    messages, store = rounds(40), MemoryStore()
    plan = Pipeline(FitContextWindow(), Ledger())
    ours, other = Sessions(plan, store), Sessions(plan, store)
    async with ours.open("x", "gpt-5.4") as session:
        await session.prepare(messages[:3])
    with monkeypatch.context() as known:
        known.setattr(table, "_registered", {})
        register_model("only-there", like="gpt-5.4")
        for length in (5, 7):
            async with other.open("x") as session:
                await session.prepare(messages[:length], model="only-there")
    for _ in range(2):
        with pytest.raises(UnknownModel):
            async with ours.open("x") as session:
                await session.prepare(messages[:9], model="gpt-5.4")
    monkeypatch.setattr(table, "_registered", {})
    register_model("only-there", like="gpt-5.4")
    async with ours.open("x") as session:
        assert session.steps == 3


@pytest.mark.parametrize("how", ["before", "after"])
@pytest.mark.both_loops
@pytest.mark.anyio
async def test_a_step_that_is_cancelled_while_it_is_saved(how):
    """Whether it was saved or not, nothing is lost or doubled: what comes next is what a session does alone."""
    messages, alone, store = rounds(12), pipeline().session(), Cancelling(MemoryStore(), how)
    async with Sessions(pipeline(), store).open("x") as session:
        for length in (1, 9, 11, 13):
            with anyio.CancelScope() as store.scope:
                await session.prepare(messages[:length])
            assert store.scope.cancelled_caught
            store.scope = None
            await alone.prepare(messages[:length])
            view = await session.prepare(messages[: length + 2])
            assert told(view) == told(await alone.prepare(messages[: length + 2]))
    async with Sessions(pipeline(), store).open("x") as session:
        assert session.steps == 8


@pytest.mark.both_loops
@pytest.mark.anyio
async def test_more_conversations_than_places():
    """What there is no room for in memory comes back from the store; where the store is down, it is held on."""
    store = Faulty(MemoryStore())
    sessions = Sessions(pipeline(), store, capacity=2, timeout=PATIENCE)
    alone = {name: pipeline().session() for name in "abcde"}
    for length in (1, 5, 9, 21, 23):
        for name, session in alone.items():
            async with sessions.using(name) as kept_session:
                view = await kept_session.prepare(rounds(12)[:length])
                kept_session.record({"prompt_tokens": view.report.tokens_after})
            expected = await session.prepare(rounds(12)[:length])
            session.record({"prompt_tokens": expected.report.tokens_after})
            assert told(view) == told(expected)
    assert len(sessions) == 2
    store.how = "down"
    async with sessions.using("d") as session:
        await session.prepare(rounds(12))
    for name in "xy":
        async with sessions.using(name):
            pass
    assert "d" in sessions


class Noting:
    """A store that notes what is saved."""

    def __init__(self):
        self.store, self.saved = MemoryStore(), []

    async def load_state(self, name):
        return await self.store.load_state(name)

    async def save_state(self, name, changed, version, *, key=None):
        self.saved.append(sum(len(body or b"") for body in changed.values()))
        return await self.store.save_state(name, changed, version, key=key)


@pytest.mark.anyio
async def test_a_step_saves_what_is_new():
    """At 500 messages a saved step is at most 10 KB, and no more at 1,000; what goes out as it came is not in it."""
    store, messages = Noting(), rounds(510, size=30)
    plan = Pipeline(FitContextWindow(), budget=Budget(1_000_000))
    typical = []
    async with Sessions(plan, store).open("x") as session:
        for start in (461, 961):
            await session.prepare(messages[:start])
            store.saved.clear()
            for length in range(start + 2, start + 66, 2):
                view = await session.prepare(messages[:length])
                session.record({"prompt_tokens": view.report.tokens_after + 5})
            assert len(store.saved) == 32
            typical.append(median(store.saved))
    assert typical[0] < 10_000
    assert typical[1] < typical[0] * 1.25
    pieces = b"".join((await store.load_state("x")).pieces.values())
    assert b"the task" not in pieces
    assert b"line 500" not in pieces
    assert len(pieces) < 100_000


@pytest.mark.anyio
async def test_a_worker_that_was_overtaken_recovers():
    """After an overflow, the smaller view of a worker that another one has overtaken is prepared from what is kept."""
    messages, store = rounds(12), MemoryStore()
    one, other = Sessions(pipeline(), store), Sessions(pipeline(), store)
    error = OverflowedError("This model's maximum context length is 900 tokens, however you requested 1200 tokens")
    async with one.using("x") as session:
        before = await session.prepare(messages[:13])
        async with other.open("x") as overtaking:
            await overtaking.prepare(messages[:15])
        view = await session.recover(error)
        assert view.report.tokens_after < min(900, before.report.tokens_after)
    async with other.open("x") as session:
        assert session.budget.limit <= 900
        assert await session.recover(error) is None  # it has no step of its own yet


class OverflowedError(Exception):
    """A refusal in a provider's words."""

    code = "context_length_exceeded"


@pytest.mark.anyio
async def test_two_conversations_of_one_name_are_told_apart_by_a_worker_that_loads():
    """A guardrail's call that comes first to a new worker does not go on from the agent's state."""
    messages, store = rounds(10), MemoryStore()
    guard = [{"role": "system", "content": "Judge."}, {"role": "user", "content": "Is this safe?"}]
    async with Sessions(pipeline(), store).open("x") as session:
        await holding(session, RequestParts(messages[:13]), "openai-chat").prepare(messages[:13])
    async with Sessions(pipeline(), store).open("x") as session:
        assert holding(session, RequestParts(guard), "openai-chat") is not session
        assert holding(session, RequestParts(messages[:15]), "openai-chat") is session


@pytest.mark.anyio
async def test_a_loaded_state_can_be_dumped_before_its_next_step(kept):
    """What was loaded, and not gone on with, dumps to a state that goes on in the same way."""
    store, messages = kept
    async with Sessions(pipeline(), store).open("x") as session:
        state = json.loads(json.dumps(session.dump()))
        expected = await session.prepare(messages)
    view = await Session.load(pipeline(), state).prepare(messages)
    assert told(view) == told(expected)


@pytest.mark.parametrize("name", [None, 7, "", "\ud800"], ids=ascii)
@pytest.mark.anyio
async def test_names_in_a_store_are_texts(name):
    """Another name is refused before anything is done."""
    with pytest.raises(
        ConfigError,
        match=r"^Sessions\.name must be a text that is not empty, and has no lone surrogates, where there is a store",
    ):
        async with Sessions(pipeline(), MemoryStore()).open(name):
            pass


def test_what_is_no_store_is_refused():
    """A store that keeps no states is refused where it is passed, and so are two ways to have states back."""
    with pytest.raises(
        ConfigError, match=r"^Sessions\.store must be a store of states, with load_state and save_state "
    ):
        Sessions(pipeline(), "context.db")
    with pytest.raises(
        ConfigError, match=r"^Sessions\.load must be left out beside a store, which has the states, got "
    ):
        Sessions(pipeline(), MemoryStore(), load={}.get)
    with pytest.raises(
        ConfigError, match=r"\(of a RedactingStore, the store within it\), or None, got RedactingStore\("
    ):
        Sessions(pipeline(), RedactingStore(MemoryStore()))


@define(eq=False)
class Counting(MemoryStore):
    """A store that counts how often a state was loaded."""

    loaded: int = 0

    async def load_state(self, name):
        self.loaded += 1
        return await super().load_state(name)


@pytest.mark.anyio
async def test_a_state_that_is_known_is_not_loaded_again():
    """Opening a session asks for the version; the state is loaded where another worker has written."""
    store, messages = Counting(), rounds(6)
    first, second = Sessions(pipeline(), store), Sessions(pipeline(), store)
    for length in (3, 5, 7):
        async with first.open("x") as session:
            await session.prepare(messages[:length])
    assert store.loaded == 1
    async with second.open("x") as session:
        await session.prepare(messages[:9])
    async with first.open("x") as session:
        await session.prepare(messages[:11])
        assert session.steps == 5
    assert store.loaded == 3


class Broken:
    """A cipher that does not what it should."""

    def __init__(self, encrypt, decrypt):
        self.encrypt, self.decrypt = encrypt, decrypt


@pytest.mark.anyio
@pytest.mark.parametrize("cipher", [
    Broken(lambda _content: {}["key"], bytes), Broken(lambda _content: "text", bytes),
    Broken(bytes, lambda _content: {}["key"]), Broken(bytes, lambda content: content[1:]),
], ids=["raises", "text", "cannot-decrypt", "loses-a-byte"])  # fmt: skip
async def test_a_broken_cipher_costs_no_step(cipher):
    """The step is taken without the store, and the report names the cipher; what the store has is not written over."""
    store, messages = MemoryStore(cipher=Broken(bytes, bytes)), rounds(3)
    async with Sessions(pipeline(), store).open("x") as session:
        await session.prepare(messages[:3])
    before = await store.load_state("x")
    store.cipher = cipher
    async with Sessions(pipeline(), store).open("x") as session:
        view = await session.prepare(messages)
    assert view.messages == (await pipeline().prepare(messages)).messages
    assert any("Broken" in note and "crypted" in note for note in notes(view))
    store.cipher = Broken(bytes, bytes)
    assert (await store.load_state("x")).version == before.version


@pytest.mark.anyio
async def test_odd_messages_cost_no_step():
    """What JSON cannot hold, or only nested too deep, is said in the report at most; the next step is kept."""
    deep = {}
    for _ in range(700):
        deep = {"n": deep}
    for odd in (deep, {1, 2}, b"\0", float("nan"), object()):
        messages, store = rounds(2), MemoryStore()
        messages[1]["odd"] = odd
        async with Sessions(pipeline(), store).open("x") as session:
            try:
                view = await session.prepare(messages)
            except AgentctxError as error:  # it cannot be looked at, with a store or without one
                with pytest.raises(type(error)):
                    await pipeline().session().prepare(messages)
                continue
            assert len([note for note in notes(view) if note != BEGUN_ANEW]) <= 1
            del messages[1]["odd"]
            assert "not kept" not in " ".join(notes(await session.prepare(messages)))
        assert await store.append("x", [{"n": 1}], None)
        if isinstance(odd, (dict, set)):
            with pytest.raises(AgentctxError):
                await store.append("x", [{"n": {1} if odd is not deep else nested(100_000)}], None)


def nested(levels):
    """A message that is nested so deep."""
    made = {}
    for _ in range(levels):
        made = {"n": made}
    return made
