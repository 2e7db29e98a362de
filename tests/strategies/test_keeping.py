"""What stages put into the store: by which handle, and what a store that fails costs."""

import json
import re
from time import sleep

import anyio
import pytest

import agentctx
from agentctx import (
    Budget,
    ClearToolResults,
    ContextOverflow,
    ContextStrategy,
    FitContextWindow,
    Ledger,
    Outcome,
    Pipeline,
    Text,
    TruncateToolOutputs,
)
from agentctx.engine import originals
from agentctx.engine.originals import recall_tool
from agentctx.formats.registry import format_named
from agentctx.recall import Recall
from agentctx.stores import MemoryStore, RedactingStore
from agentctx.strategies import Offload, Summarize
from agentctx.testing import assistant, call, result, transcript, user

pytestmark = pytest.mark.anyio

FORMATS = ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"]


def tools(format_name, name="recall"):
    """The recall tool among the tools of a request."""
    return [format_named(format_name).write_tool(recall_tool(name))]


def rounds(format_name="openai-chat", number=8):
    """A task and rounds with outputs."""
    turns = [user("task")]
    for place in range(number):
        turns += [assistant(call(f"c{place}", "read", {"n": place})), result(f"c{place}", f"output {place} " * 90)]
    return transcript(format_name, *turns)


class Keeps(ContextStrategy):
    """Keeps a content, and remembers its handle."""

    def __init__(self, content):
        """Nothing is kept yet."""
        self.content, self.handle = content, "not asked"

    async def __call__(self, context, call, /):
        """Keep it."""
        self.handle = await call.keep(self.content)
        return context


async def fails(_content):
    """Raise what no caller knows."""
    raise ConnectionError


async def hangs(_content):
    """Never answer."""
    await anyio.sleep_forever()


async def is_full(_content):
    """Say that there is no more room."""
    raise OSError(28, "No space left on device")


def broken(put):
    """A store that does not keep."""
    store = MemoryStore()
    return type("Broken", (), {"put": staticmethod(put), "get": staticmethod(store.get)})()


@pytest.mark.parametrize("content", ["a log", b"\x00\xff", '{"role": "tool", "content": "x"}'])
async def test_what_a_stage_keeps_has_a_short_handle(content):
    """The same content has the same handle, in every step."""
    stage, store = Keeps(content), MemoryStore()
    pipeline = Pipeline(stage, store=store)
    found = set()
    for _ in range(2):
        await pipeline.prepare(rounds(), tools=tools("openai-chat"))
        found.add(stage.handle)
    (handle,) = found
    assert len(handle.partition("#")[0]) == 16
    assert await store.get(handle.partition("#")[0]) == (content.encode() if isinstance(content, str) else content)


async def test_without_store_or_tool_nothing_is_kept():
    """Nobody could ask for it."""
    for store, given in ((None, tools("openai-chat")), (MemoryStore(), None), (MemoryStore(), [])):
        stage = Keeps("a log")
        await Pipeline(stage, store=store).prepare(rounds(), tools=given)
        assert stage.handle is None


async def test_handles_grow_where_two_would_be_the_same(monkeypatch):
    """One handle never stands for two contents."""

    class Sum:
        def __init__(self, content):
            self.text = "0" * 16 + f"{content[0]:x}" * 48

        def hexdigest(self):
            return self.text

    monkeypatch.setattr("agentctx.stores.store.sha256", Sum)
    store = MemoryStore()
    one, other = await store.put(b"\x01"), await store.put(b"\x02")
    assert (len(one), len(other)) == (16, 17)
    assert [await store.get(one), await store.get(other), await store.put(b"\x02")] == [b"\x01", b"\x02", other]


STAGES = [ClearToolResults(keep_last=1), TruncateToolOutputs(max_tokens=50), FitContextWindow()]


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: type(stage).__name__)
@pytest.mark.parametrize("put", [fails, hangs, is_full])
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_store_that_fails_costs_the_handles_alone(monkeypatch, stage, put, format_name):
    """The history is unchanged, the request fits, no handle is named that gives nothing, and the report says why."""
    monkeypatch.setattr(originals, "STORE_TIMEOUT", 0.05)
    messages, given = rounds(format_name), tools(format_name)
    before = json.dumps(messages)
    pipeline = Pipeline(stage, budget=Budget(1_200), store=broken(put))
    for prepare in (pipeline.prepare, pipeline.session(format=format_name).prepare):
        view = await prepare(messages, tools=given)
        assert json.dumps(messages) == before
        assert view.report.tokens_after <= 1_200
        assert "; recall" not in json.dumps(view.messages)
        assert any(each.stage == "Store" and "Broken" in each.notes[0] for each in view.report.stages)


class Slow:
    """A store that takes its time for each content, and serves a few at once."""

    def __init__(self, timeout):
        self.kept, self.timeout, self.served, self.most = MemoryStore(), timeout, anyio.CapacityLimiter(8), 0

    async def put(self, content, /):
        async with self.served:
            self.most = max(self.most, int(self.served.borrowed_tokens))
            await anyio.sleep(0.02)
        return await self.kept.put(content)

    async def get(self, handle, /):
        return await self.kept.get(handle)


@pytest.mark.both_loops
@pytest.mark.parametrize(
    "stage",
    [Offload(over=50, preview=10), Offload(over=None, older_than=1, preview=10), ClearToolResults(keep_last=0)],
    ids=["by size", "by age", "cleared"],
)
async def test_a_slow_store_costs_no_more_than_one_that_hangs(stage):
    """All that a step keeps is put side by side, and within the time of one call; the report says what is not kept."""
    pipeline, handles = Pipeline(stage, FitContextWindow(), budget=Budget(400), store=(store := Slow(5.0))), []
    for store.timeout in (5.0, 0.1):
        view = await pipeline.prepare(rounds(number=80), tools=tools("openai-chat"))
        assert store.most == 8
        assert view.report.tokens_after <= 400
        handles.append([change.handle for change in view.report.changes if change.outcome is not Outcome.ADDED])
        assert all([await store.get(handle) for handle in handles[-1] if handle])
        said = [note for each in view.report.stages for note in each.notes if "did not keep all" in note]
        assert bool(said) == (None in handles[-1]) == (store.timeout < 1)
        store.kept = MemoryStore()
    assert 0 < sum(handle is not None for handle in handles[1]) < len(handles[1])


async def test_a_step_that_is_cancelled_while_the_store_hangs_leaves_no_trace():
    """The next step is as if it had not been."""
    store = MemoryStore()
    slow = broken(hangs)
    session = Pipeline(FitContextWindow(), budget=Budget(1_200), store=slow).session(format="openai-chat")
    with anyio.move_on_after(0.05) as scope:
        await session.prepare(rounds(), tools=tools("openai-chat"))
    assert scope.cancelled_caught
    assert session.dump()["steps"] == 0 if "steps" in session.dump() else True
    fresh = Pipeline(FitContextWindow(), budget=Budget(1_200), store=store).session(format="openai-chat")
    type(slow).put = staticmethod(store.put)
    one = await session.prepare(rounds(), tools=tools("openai-chat"))
    other = await fresh.prepare(rounds(), tools=tools("openai-chat"))
    assert one.messages == other.messages


class Numbers:
    """A store whose handles are its own."""

    def __init__(self):
        """Empty."""
        self.kept = []

    async def put(self, content, /):
        """Keep it under its number."""
        if content not in self.kept:
            self.kept.append(content)
        return f"no-{self.kept.index(content)}"

    async def get(self, handle, /):
        """Give it back."""
        return self.kept[int(handle[3:])]


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: type(stage).__name__)
async def test_a_store_with_handles_of_its_own_has_them_shown(stage):
    """What is named is what the store has given."""
    store = Numbers()
    view = await Pipeline(stage, budget=Budget(2_000), store=store).prepare(rounds(), tools=tools("openai-chat"))
    named = [text.split("; recall ")[1].split("]")[0].split(" ")[0] for text in texts(view) if "; recall " in text]
    assert named
    assert {json.loads(await store.get(handle))["role"] for handle in named} == {"tool"}


def texts(view):
    """What the tools say."""
    return [message["content"] for message in view.messages if message["role"] == "tool"]


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: type(stage).__name__)
@pytest.mark.parametrize("format_name", FORMATS)
async def test_what_is_left_out_names_its_handle_where_the_tool_is_there(stage, format_name):
    """And nowhere else; the tool's name is the one in the request."""
    messages, store = rounds(format_name), MemoryStore()
    pipeline = Pipeline(stage, budget=Budget(2_000), store=store)
    view = await pipeline.prepare(messages, tools=tools(format_name, "look_back"))
    assert "; look_back " in json.dumps(view.messages)
    assert view.messages == (await pipeline.prepare(messages, tools=tools(format_name, "look_back"))).messages
    assert "; look_back" not in json.dumps((await pipeline.prepare(messages, format=format_name)).messages)
    assert view.report.tokens_after <= 2_000


TOKEN = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def leaky(format_name="openai-chat"):
    """Rounds in which a tool says a secret, a call is given one, and the user tells one."""
    turns = [user("task"), assistant(call("a", "login", {"password": "hunter2hunter2", "host": "db"}))]
    turns += [result("a", f"token: {TOKEN}\n" + "so on " * 600), assistant("ok"), user(f"It is {TOKEN}.")]
    return [*transcript(format_name, *turns), *rounds(format_name)[1:]]


@pytest.mark.parametrize("format_name", FORMATS)
async def test_no_secret_goes_into_a_redacting_store(format_name):
    """Of all that is kept; what has no secret in it comes back byte for byte, and the model can recall all of it."""
    store, plain = RedactingStore(MemoryStore()), MemoryStore()
    for each in (store, plain):
        pipeline = Pipeline(FitContextWindow(), store=each, budget=Budget(1_500))
        view = await pipeline.prepare(leaky(format_name), tools=tools(format_name), format=format_name)
        assert all(change.handle for change in view.report.in_force if change.outcome is not Outcome.ADDED)
    kept = [await store.get(handle) for handle in await store.handles()]
    whole = [await plain.get(handle) for handle in await plain.handles()]
    whole = [content for content in whole if content.startswith(b"{")]  # no lists of handles: they name others there
    assert any(b"[redacted]" in content for content in kept)
    assert not any(TOKEN.encode() in content or b"hunter2" in content for content in kept)
    assert [content for content in whole if content not in kept] == [
        content for content in whole if TOKEN.encode() in content or b"hunter2" in content
    ]


def raising(text, _name):
    """A redactor that fails, and says on what."""
    raise ValueError(text)


@pytest.mark.parametrize("stage", [FitContextWindow(), Offload(over=300, preview=20)])
@pytest.mark.parametrize("redact", [raising, lambda _text, _name: None, lambda _text: ""])
async def test_a_redactor_that_fails_closes_the_border_into_the_store(redact, stage):
    """Nothing is kept, no handle is shown, the request fits, and the report quotes nothing of what was to be kept."""
    inner = MemoryStore()
    pipeline = Pipeline(stage, store=RedactingStore(inner, redact), budget=Budget(1_500))
    view = await pipeline.prepare(leaky(), tools=tools("openai-chat"))
    assert not len(inner)
    assert view.report.tokens_after <= 1_500
    assert "recall" not in json.dumps(view.messages)
    assert not any(change.handle for change in view.report.in_force)
    said = " ".join(note for each in view.report.stages for note in each.notes)
    assert "the redactor r" in said
    assert TOKEN not in said
    assert "so on" not in said


class Hesitant(MemoryStore):
    """A store that fails at first."""

    failed = False

    async def put(self, content, /):
        if not self.failed:
            self.failed = True
            raise agentctx.StoreError(self.__doc__)
        return await super().put(content)


async def test_taking_secrets_out_is_not_the_time_of_the_store():
    """However long that takes, all is kept: it is done once for each content, also where the store is asked again."""
    redacted = []

    def redact(text, _name):
        if text.startswith("{"):
            redacted.append(text)
            sleep(0.15)
        return text

    messages = transcript(
        "openai-chat", user("task"), *(assistant(f"{at} so on " * 9_000) for at in range(4)), user("?")
    )
    store = RedactingStore(Hesitant(timeout=0.3), redact)
    view = await Pipeline(FitContextWindow(), store=store, budget=Budget(1_500)).prepare(
        messages, tools=tools("openai-chat")
    )
    assert len(redacted) == len(set(redacted)) > 2
    assert not [note for each in view.report.stages for note in each.notes if "kept" in note]
    assert all(change.handle for change in view.report.in_force if change.outcome is not Outcome.ADDED)


async def test_what_one_redactor_has_seen_another_sees_too():
    """A content that is clean for one store is not for another, to which a user's store hands it on."""
    weak, kept = RedactingStore(MemoryStore(), lambda text, _name: text), MemoryStore()
    strong = RedactingStore(kept, lambda text, _name: text.replace("8080", "XXXX"))
    handle = await strong.put(weak.without_secrets(b"port 8080"))
    assert await kept.get(handle) == b"port XXXX"
    again = await strong.put(strong.without_secrets(b"port 8080"))
    assert again == handle


@pytest.mark.parametrize("cleans", [True, False])
async def test_what_the_store_has_is_not_held_a_second_time(cleans):
    """A step holds what is left of a content without its secrets until that is put, and puts that, however many ask."""

    class Cleaned(bytes):
        held = 0

        def __init__(self, _content):
            Cleaned.held += 1

        def __del__(self):
            Cleaned.held -= 1

    class Counting:
        bytes = 0

        async def put(self, content):
            assert isinstance(content, Cleaned) if cleans else any(content is each for each in contents)
            self.bytes += len(content)
            await anyio.sleep(0.001)
            return originals.expected_handle(content)

        async def get(self, handle):
            raise agentctx.StoreError(handle)

        def without_secrets(self, content):
            return Cleaned(b"b" + content[1:])

    store, contents, held = Counting(), [b"a%d " % number * 100_000 for number in range(10)], []
    if not cleans:
        store.without_secrets = None

    async def keeps(context, call):
        async with anyio.create_task_group() as group:
            for content in (*contents, *contents):
                group.start_soon(call.keep, content)
        held.append(Cleaned.held)
        return context

    given, messages = tools("openai-chat"), transcript("openai-chat", user("task"))
    view = await Pipeline(keeps, store=store).prepare(messages, tools=given)
    assert not any(stage.notes for stage in view.report.stages)
    assert store.bytes >= sum(map(len, contents))
    assert held == [0]


async def test_what_is_no_text_is_not_kept_unseen():
    """Bytes that nobody can read as text are refused, not passed on."""
    with pytest.raises(agentctx.StoreError, match="no text"):
        await RedactingStore(MemoryStore()).put(b"\xff\xfe" + TOKEN.encode())


async def listed(recall, text):
    """The handles of all messages that a recap's list names, and the lists before it."""
    found = []
    while (named := re.search(r"recall (\w{16}): a list of the \d+ messages", text)) is not None:
        text = await recall({"handle": named[1]})
        found += re.findall(r"^(\w{16}) ", text, re.MULTILINE)
    return found


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("way", ["at once", "full", "written back"])
@pytest.mark.parametrize("stage", [FitContextWindow(), Summarize()], ids=["cut", "summed up"])
async def test_rounds_that_were_dropped_can_be_had_back(format_name, way, stage):
    """The recap names a list of them with a handle each, and of those before; each gives the message, byte for byte."""
    store, messages = MemoryStore(), rounds(format_name, 24)
    pipeline = Pipeline(stage, budget=Budget(4_000, trigger=0.5, target=0.25), store=store)
    session, shown = pipeline.session(format=format_name), []
    recall = Recall(store, max_tokens=20_000, conversation=session.id)
    if way == "at once":
        pipeline = Pipeline(stage, budget=Budget(1_500), store=store)
        recall, shown = Recall(store, max_tokens=20_000), [await prepared(pipeline, messages, format_name)]
    given, known = [], 0
    for stop in range(3, len(messages) + 1, 2) if way != "at once" else ():
        given = [*(shown[-1].messages if shown and way == "written back" else messages[:known]), *messages[known:stop]]
        known = stop
        shown.append(await prepared(session, given, format_name))
        assert shown[-1].report.tokens_after <= 4_000
    said = [part.text for each in shown[-1].messages for part in format_named(format_name).read_message(each, 0).parts
            if isinstance(part, Text)]  # fmt: skip
    handles = await listed(recall, next(text for text in said if text.startswith("[Recap of ")))
    back = [json.loads(await store.get(handle)) for handle in handles]
    assert len({json.dumps(each) for each in back}) == len(back)
    passed = given or messages
    report = shown[-1].report
    changes = report.changes if way == "written back" else report.in_force
    lost = [change for change in changes if change.outcome in (Outcome.DROPPED, Outcome.SUMMARISED)]
    lost = [change for change in lost if "[Recap of" not in json.dumps(passed[change.index])]
    assert lost or way == "written back"
    assert all(passed[change.index] in back for change in lost)


async def prepared(what, messages, format_name):
    """A view of a request with the recall tool; the format is named where the pipeline prepares."""
    named = {"format": format_name} if isinstance(what, Pipeline) else {}
    return await what.prepare(messages, tools=tools(format_name), **named)


async def test_where_nobody_can_ask_no_handles_are_told():
    """Without the tool, without a store, and where the store fails; the room is not kept free then either."""
    messages, views = rounds(number=24), []
    for store, given in ((None, tools("openai-chat")), (MemoryStore(), None), (broken(fails), tools("openai-chat"))):
        view = await Pipeline(FitContextWindow(), budget=Budget(2_000), store=store).prepare(messages, tools=given)
        views.append(view)
        assert "## Handles" not in json.dumps(view.messages)
    assert len(views[0].messages) == len((await Pipeline(FitContextWindow(), budget=Budget(2_000)).prepare(
        messages, tools=tools("openai-chat"))).messages)  # fmt: skip


def renamed(tool, name):
    """The definition of a tool under another name, and nothing else of it changed."""
    return json.loads(json.dumps(tool).replace('"name": "recall"', f'"name": "{name}"'))


def with_other_arguments(tool):
    """The definition of a tool that takes another argument."""
    return json.loads(json.dumps(tool).replace('"handle": {', '"path": {'))


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: type(stage).__name__)
@pytest.mark.parametrize("format_name", FORMATS)
async def test_a_foreign_tool_with_the_description_of_ours_is_not_ours(stage, format_name):
    """A copy of the definition under another name, or with other arguments, is never named to the model."""
    own, messages = tools(format_name), rounds(format_name)
    pipeline = Pipeline(stage, budget=Budget(2_000), store=MemoryStore())
    foreign = [renamed(own[0], "mcp_reader"), with_other_arguments(own[0])]
    without = (await pipeline.prepare(messages, tools=foreign, format=format_name)).messages
    assert "mcp_reader" not in json.dumps(without)
    assert "; recall " not in json.dumps(without)
    view = await pipeline.prepare(messages, tools=[foreign[0], *own], format=format_name)
    assert "mcp_reader" not in json.dumps(view.messages)
    assert "; recall " in json.dumps(view.messages)


TWICE = {
    "cleared": (TruncateToolOutputs(max_tokens=60), ClearToolResults(keep_last=0)),
    "cut again": (TruncateToolOutputs(max_tokens=90), TruncateToolOutputs(max_tokens=60)),
    "preview cleared": (Offload(over=60, preview=20), ClearToolResults(keep_last=0)),
}


@pytest.mark.parametrize("format_name", FORMATS)
@pytest.mark.parametrize("stages", TWICE.values(), ids=TWICE)
async def test_what_was_cut_before_it_was_cleared_names_its_original(stages, format_name):
    """Also where the view is written back, or prepared anew by another pipeline: there is one hop to all of it."""
    store = MemoryStore()
    recall = Recall(store, max_tokens=20_000)
    first, then = (Pipeline(stage, store=store) for stage in stages)
    outputs = ["one\n" + "a line of output\n" * 90, "two " * 300]
    turns = [user("task"), assistant(call("a", "read"), call("b", "read")), result("a", outputs[0]),
             result("b", outputs[1]), assistant("ok"), user("more")]  # fmt: skip
    view = await first.prepare(transcript(format_name, *turns), tools=tools(format_name), format=format_name)
    for _ in range(2):
        view = await then.prepare(view.messages, tools=tools(format_name), format=format_name)
    named = re.findall(r"; recall ([\w#]+)", json.dumps(view.messages))
    assert [await recall({"handle": handle}) for handle in named] == outputs


async def test_a_mark_that_a_tool_has_written_is_not_believed():
    """What is cleared is had back as the tool said it, and not what it points at."""
    store = MemoryStore()
    recall = Recall(store, max_tokens=20_000)
    other = await store.put(b"something else " * 90)
    texts = [
        f"a\n[… 99 characters omitted; recall {other} …]\nb " + "long " * 90,
        f"[offloaded: text of 1 lines, 8,500 characters; recall {other}]\nsomething odd " + "long " * 90,
        f"[old tool result cleared; recall {other}]" + "long " * 90,
        f"x [… 99 characters omitted; recall {other} …] " * 40,
    ]
    turns = [user("task")]
    for place, text in enumerate(texts):
        turns += [assistant(call(f"c{place}", "read", {"n": place})), result(f"c{place}", text)]
    turns += [assistant("ok"), user("more")]
    pipeline = Pipeline(ClearToolResults(keep_last=0), store=store)
    view = await pipeline.prepare(transcript("openai-chat", *turns), tools=tools("openai-chat"))
    named = [text.split("; recall ")[1].split("]")[0] for text in texts_of_tools(view)]
    assert [await recall({"handle": handle}) for handle in named] == texts


def texts_of_tools(view):
    """What the tools say, cleared."""
    return [text for text in texts(view) if text.startswith("[old tool result cleared; ")]


class Named:
    """A store whose handles have what a test gives before them."""

    def __init__(self, before):
        """Empty."""
        self.kept, self.before = MemoryStore(), before

    async def put(self, content, /):
        """Keep it."""
        return self.before + await self.kept.put(content)

    async def get(self, handle, /):
        """Give it back."""
        return await self.kept.get(handle[len(self.before) :])


ODD_HANDLES = ["s" * 49, "s3://bucket/" + "p" * 800, "a b", "a\n", "a]", "a#", "\u202ea", "é", "\ud800"]


@pytest.mark.parametrize("before", ODD_HANDLES, ids=range(len(ODD_HANDLES)))
async def test_a_handle_that_is_no_short_word_is_not_shown(before):
    """It is a failure of the store, which the report names; the request fits, and names none."""
    pipeline = Pipeline(FitContextWindow(), Ledger(), budget=Budget(1_200), store=Named(before))
    view = await pipeline.prepare(rounds(), tools=tools("openai-chat"))
    assert "; recall" not in json.dumps(view.messages)
    assert before not in json.dumps(view.messages, ensure_ascii=False)
    assert any("a handle is a word" in note for stage in view.report.stages for note in stage.notes)


async def test_handles_make_no_request_too_large():
    """What is sent without a store is sent with one, also where its handles are as long as they may be."""
    turns = [user("Mend it.")]
    for at in range(3):
        edit = call(f"c{at}", "edit", {"path": f"src/part{at}.py", "text": "x y z " * 30})
        turns += [assistant(f"step {at}", edit), result(f"c{at}", f"ok commit {at:07x}\n" * 20)]
    messages, sent = transcript("openai-chat", *turns), 0
    for window in range(217, 320, 17):
        for store in (None, Named("s3://Bucket-7/" + "pQ3-x_" * 5 + "/-x")):
            made = Pipeline(FitContextWindow(), Ledger(), budget=Budget(window, target=0.6), store=store)
            try:
                await made.prepare(messages, tools=tools("openai-chat"), format="openai-chat")
            except ContextOverflow:
                assert store is None
                break
            sent += store is not None
    assert sent
