"""A format from outside that cannot work is refused when it is registered; one that can costs the others nothing."""

import json

import pytest

from agentctx import (
    Budget,
    ConfigError,
    ContextOverflow,
    FitContextWindow,
    InvalidInput,
    Message,
    Pipeline,
    Text,
    ToolCall,
    ToolResult,
    TrimRounds,
    convert,
    validate,
)
from agentctx.engine.originals import content_of
from agentctx.formats import WireFormat, register_format, registry
from agentctx.recall import Recall
from agentctx.stores import MemoryStore

pytestmark = pytest.mark.anyio


class Pairs(WireFormat):
    """Messages are pairs of a role and a text."""

    name = "pairs"

    def read_message(self, native, _index, /):
        """A pair as a value."""
        role, text = native
        return Message.read(role, (Text(str(text)),), native)

    def write_message(self, message, /):
        """A value as a pair."""
        return message.source if message.as_read else (message.role, message.text)


@pytest.fixture(autouse=True)
def unregistered():
    """What a test registers is gone after it."""
    known = dict(registry._formats._loaded)
    yield
    registry._formats._loaded.clear()
    registry._formats._loaded.update(known)


class Odd:
    """An object that JSON does not know."""

    def __str__(self):
        """What stands for it."""
        return "odd"


SHAPES = [("word " * 200, "word " * 200), (b"www" * 200, "d3d3" * 200), (Odd(), "odd")]


@pytest.mark.parametrize(("said", "kept"), SHAPES, ids=["text", "bytes", "object"])
async def test_a_store_keeps_messages_of_any_shape(preparing, said, kept):
    """What was left out can be had back as JSON, whatever the format's messages are."""
    register_format(Pairs())
    talk = [("user", "task"), *[("assistant", said), ("user", "more " * 20)] * 20]
    store = MemoryStore()
    view = await preparing(Pipeline(FitContextWindow(), budget=Budget(300), store=store), "pairs")(talk)
    (handle,) = {change.handle for change in view.report.changes if change.role == "assistant"}
    assert json.loads(await store.get(handle)) == ["assistant", kept]


async def test_recall_reads_what_is_kept_as_it_was_meant_beside_it():
    """A format that would read anything is asked whether it knows a message before it is read that way."""
    register_format(Pairs())
    store = MemoryStore()
    said = [{"type": "text", "text": "look"}, {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBO"}}]
    handle = await store.put(json.dumps({"role": "user", "content": said}).encode())
    assert (await Recall(store)({"handle": handle})).startswith("look\n[image")


async def test_what_is_no_json_at_all_fails_no_step():
    """A message that contains itself cannot be kept, and the report says so."""
    register_format(Pairs())
    around = []
    around.append(around)
    talk = [("user", "task"), *[("assistant", around), ("user", "on")] * 3]
    view = await Pipeline(TrimRounds(1), store=MemoryStore()).prepare(talk, format="pairs")
    assert view.messages[-2:] == talk[-2:]
    assert "cannot be written as JSON" in view.report.stages[-1].notes[0]


class Lists(Pairs):
    """Messages are lists of a role and a text."""

    name = "lists"

    def write_message(self, message, /):
        """A value as a list."""
        return message.source if message.as_read else [message.role, message.text]


class Lines(WireFormat):
    """Messages are lines: the first letter of a role, and a text."""

    name = "lines"

    def read_message(self, native, _index, /):
        """A line as a value."""
        return Message.read({"u": "user", "a": "assistant"}[native[0]], (Text(native[2:]),), native)

    def write_message(self, message, /):
        """A value as a line."""
        return message.source if message.as_read else f"{message.role[0]} {message.text}"


@pytest.mark.parametrize(
    ("wire", "made"),
    [(Pairs(), lambda *said: said), (Lists(), lambda *said: [*said]), (Lines(), lambda who, said: f"{who[0]} {said}")],
    ids=["tuples", "lists", "texts"],
)
async def test_a_changed_message_is_seen_whatever_its_shape(wire, made):
    """A session takes in what the caller has changed: it is shown, counted, and held to the budget."""
    register_format(wire)
    session = Pipeline(FitContextWindow(), budget=Budget(500)).session(format=wire.name)
    await session.prepare([made("user", "Hi"), made("assistant", "Yes?")])
    changed = [made("user", "Zzz, I changed my task"), made("assistant", "Yes?"), made("user", "Go on")]
    view = await session.prepare(changed)
    assert (view.messages, view.context.messages[0].text) == (changed, "Zzz, I changed my task")
    assert view.report.first_changed == 0
    with pytest.raises(ContextOverflow):
        await session.prepare([made("user", "zzz " * 10_000), *changed[1:]])


async def test_what_is_edited_within_a_tuple_is_seen():
    """A message that holds something that can be edited is compared to what it looked like."""
    register_format(
        type(
            "Held",
            (Pairs,),
            {"read_message": lambda _self, native, _: Message.read(native[0], (Text(native[1]["text"]),), native)},
        )()
    )
    session, said = Pipeline().session(format="pairs"), {"text": "Hi"}
    talk = [("user", said), ("assistant", {"text": "Yes?"})]
    await session.prepare(talk)
    said["text"] = "Hi again"
    assert (await session.prepare(talk)).context.messages[0].text == "Hi again"


class Single(WireFormat):
    """A message is a text, calls or a result; it writes no message that has two texts or two results."""

    name = "single"

    def read_message(self, native, _index, /):
        """A dict with a part as a value."""
        if "calls" in native:
            return Message.read("assistant", tuple(ToolCall(each, "look", "{}") for each in native["calls"]), native)
        if "answers" in native:
            return Message.read("tool", (ToolResult(native["answers"], (Text(native["said"]),)),), native)
        return Message.read(native["who"], (Text(native["said"]),), native)

    def write_message(self, message, /):
        """A value as a dict."""
        if message.as_read:
            return message.source
        if message.calls:
            return {"calls": [each.id for each in message.calls]}
        (part,) = message.parts
        if isinstance(part, ToolResult):
            return {"answers": part.call_id, "said": part.content[0].text}
        return {"who": message.role, "said": part.text}


OPEN = [{"who": "user", "said": "Go"}, {"calls": ["c1", "c2"]}, {"who": "user", "said": "And?"}]


async def test_a_message_that_cannot_be_written_is_named(preparing):
    """The error says whose writer failed, how, and at which message."""
    register_format(Single())
    where = r"view\.messages\[2\]: the format 'single' could not write it: ValueError: too many values"
    with pytest.raises(InvalidInput, match=where):
        await preparing(Pipeline(), "single")(OPEN)
    twice = lambda context, _call: context.with_messages(  # noqa: E731 - a stage that doubles what is said
        tuple(each.with_parts((*each.parts, Text("!"))) if each.text == "And" else each for each in context.messages)
    )
    with pytest.raises(InvalidInput, match=r"^messages\[1\]: the format 'single' could not write it"):
        await preparing(Pipeline(twice), "single")([OPEN[0], {"who": "assistant", "said": "And"}])


async def test_a_step_that_cannot_be_written_loses_nothing():
    """The session stands where it stood: once the caller passes what can be written, it goes on as if nothing was."""
    register_format(Single())
    session, other = (Pipeline(TrimRounds(1)).session(format="single") for _ in range(2))
    begun = [OPEN[0], {"calls": ["c0"]}, {"answers": "c0", "said": "x"}, {"who": "user", "said": "More"}]
    for each in (session, other):
        await each.prepare(begun)
    before = session.dump()
    with pytest.raises(InvalidInput, match="could not write it"):
        await session.prepare([*begun, *OPEN])
    assert session.dump() == before
    whole = [*begun, *OPEN[:2], {"answers": "c1", "said": "1"}, {"answers": "c2", "said": "2"}]
    assert (await session.prepare(whole)).messages == (await other.prepare(whole)).messages


def test_of_what_cannot_be_written_the_store_gets_nothing():
    """A message that a stage made costs its handle then, and not the step."""
    register_format(Single())
    assert content_of(Message("assistant", (Text("a"), Text("b"))), Single()) is None


async def test_what_cannot_be_written_is_named_where_its_bytes_are_counted():
    """So it is when a request is converted."""
    register_format(Single())
    with pytest.raises(InvalidInput, match="could not write it"):
        await Pipeline(budget=Budget(10_000, request_bytes=10_000)).prepare(OPEN, format="single")
    said = {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    with pytest.raises(InvalidInput, match=r"converted messages\[0\]: the format 'single' could not write it"):
        convert([said], "single", format="anthropic")


@pytest.mark.parametrize("member", ["read_message", "write_message"])
def test_a_format_without_reader_or_writer_is_refused(member):
    """The error names what is missing."""
    half = type("Half", (Pairs,), {member: getattr(WireFormat, member)})
    with pytest.raises(ConfigError, match=f"'pairs' has no {member}"):
        register_format(half())


@pytest.mark.parametrize("name", ["", " pairs", "my pairs", "a/b", 3, None])
def test_a_name_that_cannot_be_written_is_refused(name):
    """A name has no blanks and no slash."""
    with pytest.raises(ConfigError, match=r"^register_format\.wire\.name must be a name without '/' and blanks, got "):
        register_format(type("Named", (Pairs,), {"name": name})())


@pytest.mark.parametrize(
    "name", ["claude", "openai", "OpenAI", "google", "aws", "converse", "vertex", "Anthropic", "gemini"]
)
def test_a_name_that_means_a_format_of_the_library_is_refused(name):
    """What people call a built-in format stays free; the error says what to do."""
    with pytest.raises(ConfigError, match=r"^register_format\.wire\.name must be a name of its own, and no name of '"):
        register_format(type("Named", (Pairs,), {"name": name})())


@pytest.mark.parametrize("answer", [None, "10", -1, ZeroDivisionError])
def test_one_that_cannot_say_what_it_recognises_is_refused(answer):
    """A raise, or something else than a number, is found when it is registered."""

    def recognises(_self, _request, /):
        if answer is ZeroDivisionError:
            raise answer
        return answer

    with pytest.raises(ConfigError, match=r"recognises of the format 'pairs' (gave|raised)"):
        register_format(type("Unsure", (Pairs,), {"recognises": recognises})())


@pytest.mark.parametrize("talk", [[("user", "x")], [{"who": "user"}]], ids=["tuples", "dicts"])
async def test_one_that_recognises_nothing_has_to_be_named(talk):
    """The error about a request that is in no format says so."""
    register_format(Pairs())
    with pytest.raises(InvalidInput, match=r"'pairs' recognises no request: to mean it, pass format=$"):
        await Pipeline().prepare(talk)


class Raising(Pairs):
    """Raises for every request that has messages."""

    def recognises(self, request, /):
        """Nothing that can be used."""
        return request["messages"][0]["no such key"] if request else 0


async def test_one_that_raises_later_costs_other_formats_nothing():
    """Their requests are found out as before; where none fits, the error names the one that raised."""
    register_format(Raising())
    talk = [{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "a", "content": "y"}]
    assert (await Pipeline().prepare(talk)).messages[0] == talk[0]
    assert validate({"messages": talk})
    with pytest.raises(InvalidInput, match="recognises of the format 'pairs' raised TypeError"):
        await Pipeline().prepare([("user", "x")])


async def test_one_that_takes_what_it_cannot_read_is_named():
    """An error of its reader says which message, and whose reader it was."""
    register_format(type("Greedy", (Pairs,), {"recognises": lambda _self, _request: 10})())
    with pytest.raises(InvalidInput, match=r"messages\[1\]: the format 'pairs' could not read it: ValueError"):
        await Pipeline().prepare([("user", "x"), ("user", "x", "y")], format="pairs")
    chat = [{"role": "user", "content": "x"}, {"role": "tool", "tool_call_id": "a", "content": "y"}]
    with pytest.raises(InvalidInput, match="pass format="):
        await Pipeline().prepare(chat)
