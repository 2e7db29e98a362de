"""The laws of stores that derive from ``ConversationStore``: what is purged, expires, goes first or is encrypted.

Those of every store are in ``agentctx.testing.store_laws``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from uuid import uuid4

from attrs import define, frozen

from agentctx.errors import StoreConflict, StoreError, StoreFull
from agentctx.message import Native
from agentctx.testing.store_laws import STORE_LAWS, Make, at, hold, hold_that, later, refused, shape


@define
class _Clock:
    """Seconds that pass when they are told to."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


async def odd_values_are_refused(make: Make) -> None:
    """What is no content, and one message or a text in the place of a list of messages, is refused and not written."""
    async with at(make) as store:
        for odd in ("text", None, 5):
            await refused(StoreError, store.put(odd), f"{odd!r} in the place of bytes")
        version = await store.append("x", [{"n": 1}], 0)
        for odd in ({"role": "user", "content": "one"}, "text", b"bytes", None, 5):
            for write in (store.append, store.save):
                await refused(StoreError, write("x", odd, None), f"{odd!r} in the place of messages")
        hold((1, version), await shape(store, "x"), "messages, and the version, after writes that were refused")


async def purge_takes_all_of_one(make: Make) -> None:
    """Purging a conversation takes all of it away and nothing of others; its versions do not begin again."""
    async with at(make) as store:
        parts = [store.for_conversation(name) for name in ("x", "y")]
        shared = await parts[0].put(b"shared")
        await parts[1].put(b"shared")
        own = await parts[0].put(b"x's own")
        versions = []
        for name in ("x", "y"):
            versions += [await store.append(name, [{"n": number}], None) for number in range(2)]
            await store.save_state(name, {"head": b"1"}, None)
        hold_that(await store.purge("x") > 0, "how much purging takes away")
        hold(0, await store.purge("x"), "how much purging takes away when it is done")
        hold([], await parts[0].handles(), "the handles of a conversation that was purged")
        await refused(StoreError, store.get(own), "reading what only a purged conversation had")
        hold(b"shared", await parts[1].get(shared), "what another conversation has left out too")
        await refused(StoreError, parts[0].get(shared), "a purged conversation reading")
        hold({}, dict((await store.load_state("x")).pieces), "the state of a session that was purged")
        hold((0, 0), await shape(store, "x"), "messages, and the version, of a conversation that was purged")
        for stale in versions[:2]:
            await refused(StoreConflict, store.append("x", [{"n": 3}], stale), "a writer from before the purge")
        for name, last in (("x", versions[1]), ("never", 0)):
            later(await store.append(name, [{"n": 3}], 0, key="k"), last)
            later(await store.save_state(name, {"head": b"1"}, 0), 0)
            for write in (store.append(name, [{}], 0), store.save_state(name, {}, 0), store.clear(name, 0)):
                await refused(StoreConflict, write, "one that begins anew where something is")
        await store.purge("never")
        hold((2, versions[3]), await shape(store, "y"), "the history of another conversation")
        await store.put(b"nobody's")
        hold_that(await store.purge(None) > 0, "how much purging takes away that is nobody's")
        hold(["y", "x"], [each.name for each in await store.stored()], "what is left")


async def purge_takes_those_of_sub_agents(make: Make) -> None:
    """With a conversation go those below it, at all depths, and none whose name only looks like that."""
    async with at(make) as store:
        above, below = "a_%*[x]", ("/1", "/1/2", "/22/1/\0", "/\ud800", "/\U0010ffff", "/", "/\uffff")
        beside = ("", "2", "\0", ".", "0", "0/1", "\\/1", " /1", "\U0010ffff/1")  # some sort next to a slash
        kept = [*(above + each for each in beside[1:]), "ab%*[x]/1", "a_%*x/1", "a_/1", "A_%*[x]/1", f"x/{above}/1"]
        for number, name in enumerate([above, *kept, *(above + each for each in below)]):
            part = store.for_conversation(name)
            await part.put(b"shared")
            await part.put(b"own %d" % number)
            await store.append(name, [{"n": number}], 0)
            await store.save_state(name, {"head": b"1"}, 0)
        sizes = {each.name: each.bytes for each in await store.stored()}
        gone = sum(sizes[above + each] for each in ("", *below))
        hold(gone, await store.purge(above), "how much purging takes away with those of sub-agents")
        hold(sorted(kept), sorted(each.name for each in await store.stored()), "what is left beside them")
        hold(1 + len(kept), len(await store.handles()), "how many contents are left")
        await store.purge("x")
        hold(len(kept) - 1, len(await store.stored()), "what is left where only a sub-agent's was there")


async def versions_belong_to_one_store(make: Make) -> None:
    """A store that has lost all that it had gives no version again: who goes on from before is refused."""
    async with at(make) as lost, at(make) as store:
        for write, said in (("append", [{"n": 1}]), ("save_state", {"head": b"1"})):
            go_on, begin_again = (partial(getattr(each, write), "x", said) for each in (lost, store))
            before, after = [0], [0]
            for _ in range(4):
                before.append(await go_on(before[-1]))
            for version in before[1:]:
                await refused(StoreConflict, begin_again(version), "a writer whose store has lost everything")
            for _ in range(6):
                after.append(await begin_again(after[-1]))
                for version in before:
                    await refused(StoreConflict, begin_again(version), "a writer from before the loss")
            hold({0}, {*before} & {*after}, "versions of a store, and of the one that it was before it lost all")


async def what_expires_is_gone(make: Make) -> None:
    """What was not written to for longer than ``ttl`` is gone, as if purged; a write renews all of a conversation."""
    clock = _Clock()
    async with at(make, ttl=100.0, clock=clock) as store:
        old, new = (store.for_conversation(name) for name in ("old", "new"))
        own, shared = await old.put(b"own"), await old.put(b"shared")
        version = await store.append("old", [{"n": 1}], 0)
        await store.save_state("old", {"head": b"1"}, None)
        nobodys = await store.put(b"nobody's")
        clock.now += 60
        await new.put(b"shared")
        await store.append("new", [{"n": 1}], None)
        clock.now += 30
        hold(b"own", await old.get(own), "what has not expired yet")
        clock.now += 30
        for part, handle in ((old, own), (store, own), (old, shared), (store, nobodys)):
            await refused(StoreError, part.get(handle), "reading what has expired")
        hold(b"shared", await store.get(shared), "what another conversation keeps alive")
        hold([shared], await store.handles(), "the handles of what has not expired")
        hold({}, dict((await store.load_state("old")).pieces), "a state that has expired")
        hold((0, 0), await shape(store, "old"), "messages, and the version, of a history that has expired")
        await refused(StoreConflict, store.append("old", [{"n": 2}], version), "a writer from before it expired")
        hold(["new"], [each.name for each in await store.stored()], "what is kept")
        await store.sweep()
        await refused(StoreConflict, store.append("old", [{"n": 2}], version), "a writer from before it was swept")
        again = await store.append("old", [{"n": 3}], 0)
        later(again, version)
        await refused(StoreConflict, store.append("old", [{"n": 2}], version), "a writer from before it expired")
        hold(1, (await shape(store, "old"))[0], "messages of a history that has begun again")
        clock.now += 99
        await new.put(b"more")
        clock.now += 60
        hold(b"more", await new.get(await new.put(b"more")), "what was renewed")


async def the_oldest_goes_first(make: Make) -> None:
    """A full store loses the conversation that was not written for longest, at last the oldest contents of this one.

    What alone is larger than the store may be is refused, and changes nothing.
    """
    clock = _Clock()
    async with at(make, max_bytes=4_000, clock=clock) as store:

        async def put(name: str, letter: bytes) -> str:
            clock.now += 1
            handle: str = await store.for_conversation(name).put(letter * 1_200)
            return handle

        await put("x", b"a")
        await put("y", b"b")
        version = await store.append("y", [{"n": 1}], 0)
        clock.now += 1
        await store.append("x", [{"n": 1}], 0)
        kept = [await put("z", b"c"), await put("z", b"d")]
        hold(["x", "z"], sorted(each.name for each in await store.stored()), "what is kept beside a newer content")
        hold((0, 0), await shape(store, "y"), "the history of the conversation that went")
        await refused(StoreConflict, store.append("y", [{"n": 2}], version), "a writer from before it went")
        kept.append(await put("z", b"e"))
        hold(["z"], [each.name for each in await store.stored()], "what is kept beside two newer contents")
        kept.append(await put("z", b"f"))
        hold(kept[1:], await store.for_conversation("z").handles(), "the newest contents of one that fills the store")
        await store.save_state("z", {"head": b"g" * 1_000}, 0)
        hold(kept[2:], await store.for_conversation("z").handles(), "the newest contents beside a state")
        await refused(StoreFull, store.put(b"h" * 4_000), "a content larger than the store may be")
        await refused(
            StoreFull, store.append("z", [{"n": "i" * 3_500}], 0), "messages that have no room beside the state"
        )
        await refused(
            StoreFull, store.save_state("w", {"head": b"j" * 4_000}, 0), "a state larger than the store may be"
        )
        hold(kept[2:], await store.for_conversation("z").handles(), "the contents after a write was refused")
        hold(["z"], [each.name for each in await store.stored()], "what is kept after a write was refused")
        hold(1_000, len((await store.load_state("z")).pieces["head"]), "the state after a write was refused")


@frozen
class _Broken:
    """A cipher that raises, or gives something else than it should."""

    how: str

    def encrypt(self, content: bytes) -> Native:  # also what is no bytes
        if self.how == "raises":
            msg = "no key"
            raise KeyError(msg)
        return content.hex() if self.how == "text" else content

    def decrypt(self, content: bytes) -> Native:  # also what is no bytes
        flipped = content[:-1] + bytes([content[-1] ^ 1])
        return {"short": content[:-1], "other": content[::-1], "flipped": flipped}.get(self.how)


@frozen
class _Mirror:
    """A cipher of which everybody sees that it was at work."""

    key: int = 1

    def encrypt(self, content: bytes) -> bytes:
        return bytes([self.key]) + content[::-1]

    def decrypt(self, content: bytes) -> bytes:
        if content[0] != self.key:
            msg = "another key"
            raise ValueError(msg)
        return content[:0:-1]


async def ciphers_are_used(make: Make) -> None:
    """With a cipher all comes back; without it, with another key or a broken one it is an error, never other bytes."""
    place = f"p{uuid4().hex}"
    async with at(make, place, cipher=_Mirror()) as store:
        handle = await store.put(b"a secret")
        await store.append("x", [{"n": "secret"}], 0)
        await store.save_state("x", {"head": b"secret"}, 0)
        hold(b"a secret", await store.get(handle), "a content that was encrypted")
        hold([{"n": "secret"}], list((await store.load("x")).messages), "messages that were encrypted")
        hold(b"secret", (await store.load_state("x")).pieces["head"], "a state that was encrypted")
    for cipher in (None, _Mirror(2)):
        async with at(make, place, cipher=cipher) as store:
            for read, name in ((store.get, handle), (store.load, "x"), (store.load_state, "x")):
                await refused(StoreError, read(name), f"reading with {cipher}")
    for how in ("raises", "text", "none", "short", "other", "flipped"):
        async with at(make, cipher=_Broken(how)) as store:
            if how in {"raises", "text"}:
                for write in (store.put(b"1"), store.append("x", [{"n": 1}], 0), store.save_state("x", {"h": b"1"}, 0)):
                    await refused(StoreError, write, f"writing with a cipher that is broken: {how}")
                hold([], list(await store.stored()), "what is kept of what cannot be encrypted")
            else:
                handle = await store.put(b"1")
                error = await refused(StoreError, store.get(handle), f"reading with a cipher that is broken: {how}")
                named = handle if how == "flipped" else "_Broken"
                hold_that(named in str(error), "an error that names the cipher, or the content that is damaged")


LAWS_OF_OURS: dict[str, Callable[[Make], Awaitable[None]]] = {
    **STORE_LAWS,
    "odd values": odd_values_are_refused,
    "losses": versions_belong_to_one_store,
    "purge": purge_takes_all_of_one,
    "sub-agents": purge_takes_those_of_sub_agents,
    "expiry": what_expires_is_gone,
    "oldest first": the_oldest_goes_first,
    "ciphers": ciphers_are_used,
}
"""Each law of the package's own stores by its name."""
