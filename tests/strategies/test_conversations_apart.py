"""Conversations that share a store: each gets back what it has left out, and nothing of another."""

import json

import pytest
from hypothesis import given, strategies as st

from agentctx import Budget, ClearToolResults, ConfigError, Pipeline, Session, Sessions
from agentctx.errors import StoreUnavailable
from agentctx.recall import Recall
from agentctx.stores import MemoryStore, RedactingStore
from agentctx.strategies import Offload
from agentctx.testing import assistant, call, result, transcript, user

pytestmark = pytest.mark.anyio

FORMATS = ["openai-chat", "openai-responses", "anthropic", "gemini", "bedrock"]
SHARED = "the manual says: restart the pump. " * 20


def turns(secret):
    """A task, one output that every conversation reads, and one of its own."""
    shared, own = assistant(call("a", "read", {"n": 1})), assistant(call("b", "read", {"n": 2}))
    return user("task"), shared, result("a", SHARED), own, result("b", f"{secret} " * 60), assistant("ok"), user("more")


async def left_out(pipeline, format_name, name, secret, recall):
    """A session that has left out two results, and their handles."""
    session = pipeline.session(format=format_name, id=name)
    view = await session.prepare(transcript(format_name, *turns(secret)), tools=[recall.definition(format_name)])
    return session, [change.handle for change in view.report.in_force]


@pytest.mark.parametrize("stage", [ClearToolResults(keep_last=0), Offload(over=20, preview=4)], ids=["C", "O"])
@pytest.mark.parametrize("format_name", FORMATS)
async def test_each_conversation_finds_its_own_and_what_it_shares(format_name, stage):
    """Search and handles give what this one left out; of another they give nothing, whatever handle is named."""
    store = MemoryStore()
    pipeline = Pipeline(stage, store=store)
    one, other = Recall(store, conversation="one"), Recall(store, conversation="other")
    _, mine = await left_out(pipeline, format_name, "one", "zebra-stripes", one)
    _, theirs = await left_out(pipeline, format_name, "other", "lion-mane", other)
    assert mine[0] == theirs[0]
    for recall, own, foreign in ((one, "zebra-stripes", "lion-mane"), (other, "lion-mane", "zebra-stripes")):
        assert own in await recall({"search": own})
        assert "was not found" in await recall({"search": foreign})
        assert foreign not in await recall({"search": "lion zebra mane stripes"})
        assert mine[0] in await recall({"search": "restart the pump"})
    assert await one({"handle": mine[1]}) == "zebra-stripes " * 60
    refused = await other({"handle": mine[1]})
    assert refused.startswith(f"Nothing is kept under the handle {mine[1]}")
    assert "zebra" not in refused
    assert await other({"handle": mine[1], "search": "zebra"}) == refused


async def test_a_tool_that_was_not_told_searches_for_one_conversation_only():
    """With a second one, or with what is nobody's, it says why it does not search; handles are read on."""
    for second in ("session", "nobody"):
        store = MemoryStore()
        pipeline, recall = Pipeline(ClearToolResults(keep_last=0), store=store), Recall(store)
        _, handles = await left_out(pipeline, "openai-chat", None, "zebra-stripes", recall)
        assert handles[1] in await recall({"search": "zebra-stripes"})
        if second == "session":
            await left_out(pipeline, "openai-chat", None, "lion-mane", recall)
        else:
            messages = transcript("openai-chat", *turns("lion-mane"))
            await pipeline.prepare(messages, tools=[recall.definition("openai-chat")])
        assert "Several conversations share this store" in await recall({"search": "zebra-stripes"})
        assert "Several conversations share this store" in await recall({"search": "lion-mane"})
        assert await recall({"handle": handles[1]}) == "zebra-stripes " * 60


async def test_a_session_without_a_name_has_one_of_its_own_and_keeps_it():
    """In a store that tells conversations apart; also over a dump. With another store it has none."""
    pipeline = Pipeline(ClearToolResults(keep_last=0), store=MemoryStore())
    session = pipeline.session()
    assert session.id != pipeline.session().id
    assert Session.load(pipeline, json.loads(json.dumps(session.dump()))).id == session.id
    assert Pipeline(ClearToolResults(keep_last=0)).session().id is None


async def test_a_conversation_goes_on_under_its_name_after_a_load():
    """What it has left out before, it finds."""
    store = MemoryStore()
    pipeline, recall = Pipeline(ClearToolResults(keep_last=0), store=store), Recall(store, conversation="one")
    session, _ = await left_out(pipeline, "anthropic", "one", "zebra-stripes", recall)
    loaded = Session.load(pipeline, json.loads(json.dumps(session.dump())))
    added = assistant(call("c", "read", {"n": 3})), result("c", "giraffe " * 60), assistant("ok"), user("and?")
    messages = transcript("anthropic", *turns("zebra-stripes"), *added)
    await loaded.prepare(messages, tools=[recall.definition("anthropic")])
    assert "zebra-stripes" in await recall({"search": "zebra-stripes"})
    assert (await recall({"search": "zebra giraffe"})).count("characters)") == 2


async def test_sessions_by_name_and_sub_agents_are_conversations():
    """Each by its own id."""
    store = MemoryStore()
    sessions = Sessions(Pipeline(ClearToolResults(keep_last=0), store=store))
    tools = [Recall(store).definition("openai-chat")]
    async with sessions.open("thread-1") as session, sessions.open("thread-2") as other:
        await session.prepare(transcript("openai-chat", *turns("zebra-stripes")), tools=tools)
        await other.prepare(transcript("openai-chat", *turns("lion-mane")), tools=tools)
        child = session.child(Budget(8_000, trigger=200, target=100))
        await child.prepare(transcript("openai-chat", *turns("a hyena")), tools=tools)
    found = {name: await Recall(store, conversation=name)({"search": "zebra lion hyena"}) for name in
             ("thread-1", "thread-2", child.id)}  # fmt: skip
    assert [word for word in ("zebra", "lion", "hyena") if word in found["thread-1"]] == ["zebra"]
    assert [word for word in ("zebra", "lion", "hyena") if word in found["thread-2"]] == ["lion"]
    assert [word for word in ("zebra", "lion", "hyena") if word in found[child.id]] == ["hyena"]


async def test_what_sub_agents_left_out_is_purged_with_their_conversation():
    """Of all depths, named or not; a sub-agent of another conversation that is called alike keeps its own."""
    store = MemoryStore()
    plan = Pipeline(ClearToolResults(keep_last=0), store=RedactingStore(store))
    tools, small = [Recall(store).definition("openai-chat")], Budget(8_000, trigger=200, target=100)
    for name in ("thread-1", "thread-2"):
        session = plan.session(format="openai-chat", id=name)
        helper = session.child(small, id="helper")
        for each in (session, session.child(small), helper, helper.child(small)):
            await each.prepare(transcript("openai-chat", *turns(f"zebra of {each.id}")), tools=tools)
    first, second = ([name, f"{name}/2", f"{name}/helper", f"{name}/helper/1"] for name in ("thread-1", "thread-2"))
    assert sorted(await store.conversations()) == [*first, *second]
    await plan.originals.purge("thread-1")
    assert sorted(await store.conversations()) == second
    assert helper.child(small, id="thread-2/helper/x").id == "thread-2/helper/x"


async def test_a_name_that_no_store_keeps_is_refused_when_a_session_gets_it():
    """One error that says how long a name may be, and not a report at each step; also for those of sub-agents."""
    longest, small = "n" * 1_000, Budget(8_000)
    plain, kept = Pipeline(), Pipeline(store=RedactingStore(MemoryStore()))
    parent = kept.session(id=longest)
    dumped = plain.session(id=longest + "n").dump()
    for begin in (
        lambda: kept.session(id=longest + "n"),
        lambda: kept.session(id="ü" * 501),
        lambda: parent.child(small),
        lambda: Session.load(kept, dumped),
    ):
        with pytest.raises(ConfigError, match=r"1 to 1,000 bytes, got 1,00[12] bytes"):
            begin()
    for sessions in (Sessions(kept), Sessions(plain, MemoryStore())):
        async with sessions.open(longest) as session:
            await session.prepare([{"role": "user", "content": "task"}])
        with pytest.raises(ConfigError, match="1 to 1,000 bytes"):
            async with sessions.open(longest + "n"):
                raise AssertionError
        assert list(sessions) == [longest]
    with pytest.raises(ConfigError, match="1 to 1,000 bytes"):
        sessions[longest + "n"] = plain.session()
    assert plain.session(id=longest).child(small).id == longest + "/1"


class _Fails(MemoryStore):
    error: type[Exception] = RuntimeError

    def for_conversation(self, name, /):
        raise self.error(name)


@pytest.mark.parametrize("error", [RuntimeError, StoreUnavailable])
async def test_a_store_that_fails_to_tell_conversations_apart_costs_no_session(error):
    """Only a store that says that it can keep nothing under a name has it refused; the report tells of the rest."""
    store = _Fails()
    store.error = error
    session = Pipeline(ClearToolResults(keep_last=0), store=store).session(format="openai-chat", id="x")
    tools = [Recall(store).definition("openai-chat")]
    view = await session.prepare(transcript("openai-chat", *turns("zebra")), tools=tools)
    assert "not all that was left out could be kept" in str(view.report.stages)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), max_size=20))
def test_whatever_was_left_out_by_whom_search_gives_exactly_ones_own(both_loops, left):
    """Contents of four conversations in any order, many of them shared: each finds all that are its own, no other."""

    async def walk():
        store = MemoryStore()
        for who, what in left:
            await store.for_conversation(f"c{who}").put(f"content about topic{what}".encode())
        for who in range(4):
            found = await Recall(store, conversation=f"c{who}")({"search": "content"})
            for what in range(6):
                assert (f"topic{what}" in found) == ((who, what) in left)

    both_loops(walk)


@pytest.mark.parametrize("conversation", ["", 3, b"x"])
def test_a_conversation_that_is_no_name_is_refused(conversation):
    """When the tool is built."""
    with pytest.raises(ConfigError, match="conversation"):
        Recall(MemoryStore(), conversation=conversation)


def test_a_store_that_does_not_tell_conversations_apart_serves_one():
    """To name one is an error then: nothing would be kept apart."""

    class Plain:
        async def put(self, _content, /):
            return "x"

        async def get(self, _handle, /):
            return b""

    with pytest.raises(ConfigError, match="for_conversation"):
        Recall(Plain(), conversation="one")


async def test_what_has_expired_is_gone_also_after_a_search():
    """Nothing of it is answered any more, by handle or by search, and the answer says so."""

    class Forgetful(MemoryStore):
        gone = False

        async def get(self, handle, /):
            return await MemoryStore.get(self, "expired" if self.gone else handle)

        async def handles(self):
            return [] if self.gone else await MemoryStore.handles(self)

    store = Forgetful()
    recall, handle = Recall(store), await store.put(b"the port is 8080")
    assert handle in await recall({"search": "8080"})
    store.gone = True
    assert "it has expired" in await recall({"handle": handle})
    assert "was not found" in await recall({"search": "8080"})
    assert "it has expired" in await recall({"handle": handle, "search": "8080"})


async def test_secrets_are_taken_out_of_what_a_conversation_leaves_out():
    """A store that redacts does so for each conversation, too."""
    store = RedactingStore(MemoryStore())
    recall = Recall(store, conversation="one")
    pipeline = Pipeline(ClearToolResults(keep_last=0), store=store)
    await left_out(pipeline, "openai-chat", "one", "the password=xk29-fj3n-QQ81 here", recall)
    assert "the password=[redacted] here" in await recall({"search": "password"})
    assert "fj3n" not in await recall({"search": "here"})
