"""A conversation in a store: many workers build requests of it, and its history is the full log."""

import anyio
import pytest

from agentctx import Budget, ConfigError
from agentctx.builder import Block, ContextBuilder, Thread
from agentctx.errors import ContextOverflow, InvalidInput, StoreConflict, StoreUnavailable
from agentctx.stores import MemoryStore
from agentctx.strategies import Strict, TruncateOldest

pytestmark = pytest.mark.anyio


def says(text, role="user"):
    return {"role": role, "content": text}


def builder(budget=8_000, evict=None, block="history"):
    return ContextBuilder(Budget(budget), format="openai-chat").add(Block(block, [], evict=evict or TruncateOldest()))


class Store:
    """A memory store of which some appends fail in a way of their own."""

    def __init__(self, *failures):
        self.store, self.failures, self.appends = MemoryStore(), list(failures), 0

    async def load(self, name):
        return await self.store.load(name)

    async def append(self, name, messages, version, *, key=None):
        self.appends += 1
        failure = self.failures.pop(0) if self.failures else None
        if failure == "lost":
            raise StoreUnavailable
        if failure == "conflict":
            await self.store.append(name, [says("somebody else's")], None)
        done = await self.store.append(name, messages, version, key=key)
        if failure == "ambiguous":
            raise StoreUnavailable
        if failure == "ambiguous, then others":
            await self.store.append(name, [says("somebody else's")], None)
            raise StoreUnavailable
        return done


async def stored(thread):
    return [each["content"] for each in (await thread.load()).messages]


async def test_the_stored_history_is_the_full_log():
    """A build with a small budget leaves out old messages, and the store keeps them."""
    thread = Thread(MemoryStore(), "t")
    texts = [f"message {number} " + "word " * 50 for number in range(20)]
    for text in texts:
        built = await thread.build(builder(300), [says(text)])
        assert built.messages[-1]["content"] == text
    assert len(built.messages) < 6
    assert texts == await stored(thread)
    assert len((await thread.build(builder(100_000))).messages) == 20


async def test_a_conflict_is_built_again_with_what_others_wrote():
    """The request that comes back holds what somebody else has written meanwhile."""
    store = Store("conflict")
    built = await Thread(store, "t").build(builder(), [says("mine")])
    assert [each["content"] for each in built.messages] == ["somebody else's", "mine"]
    assert await stored(Thread(store, "t")) == ["somebody else's", "mine"]


@pytest.mark.parametrize("failure", ["lost", "ambiguous", "ambiguous, then others"])
async def test_a_retry_stores_nothing_twice(failure):
    """Whether a write that failed was done or not, it is repeated, and its messages are there once."""
    store = Store(failure)
    built = await Thread(store, "t").build(builder(), [says("mine")])
    assert [each["content"] for each in built.messages] == ["mine"]
    assert (await stored(Thread(store, "t"))).count("mine") == 1
    assert store.appends == 2


async def test_who_builds_again_with_the_same_key_adds_nothing():
    """After a crash the same call gives the request again, with its messages once."""
    thread = Thread(MemoryStore(), "t")
    first = await thread.build(builder(), [says("one")], key="k")
    await thread.build(builder(), [says("two")])
    again = await thread.build(builder(), [says("one")], key="k")
    assert [each["content"] for each in first.messages] == ["one"]
    assert [each["content"] for each in again.messages] == ["one", "two"]
    assert await stored(thread) == ["one", "two"]


async def test_a_build_that_fails_writes_nothing():
    """What cannot be sent is not stored."""
    thread = Thread(MemoryStore(), "t")
    with pytest.raises(ContextOverflow):
        await thread.build(builder(20, Strict()), [says("word " * 100)])
    assert await stored(thread) == []


@pytest.mark.parametrize("odd", [None, 5, "text", {"role": "user", "content": "one"}], ids=repr)
async def test_what_is_no_list_of_messages_is_refused(odd):
    """One message, or a text, is not taken apart; nothing is written."""
    thread = Thread(MemoryStore(), "x")
    with pytest.raises(InvalidInput, match="new_messages"):
        await thread.build(builder(), odd)
    assert await stored(thread) == []


async def test_a_store_that_stays_away_is_told():
    """After a few times the error comes out; so does a conflict that never ends."""
    with pytest.raises(StoreUnavailable):
        await Thread(Store(*["lost"] * 40), "t").build(builder(), [says("mine")])
    with pytest.raises(StoreConflict) as caught:
        await Thread(Store(*["conflict"] * 40), "t").build(builder(), [says("mine")])
    assert "32 attempts" in caught.value.__notes__[0]


async def test_what_makes_no_sense_is_refused():
    """A thread needs a store of histories, a name, and a block that is there."""
    for arguments in ((None, "t"), (object(), "t"), (MemoryStore(), ""), (MemoryStore(), "t", "")):
        with pytest.raises(ConfigError):
            Thread(*arguments)
    with pytest.raises(ConfigError):
        await Thread(MemoryStore(), "t", "no such block").build(builder(), [says("mine")])


@pytest.mark.both_loops
async def test_twenty_writers_lose_nothing():
    """Twenty build at once: each message is there once, and each request ends with its own."""
    thread, common = Thread(MemoryStore(), "t"), builder()

    async def write(number):
        built = await thread.build(common, [says(f"message {number}")])
        assert built.messages[-1]["content"] == f"message {number}"

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(write, number)
    assert sorted(await stored(thread)) == sorted(f"message {number}" for number in range(20))
