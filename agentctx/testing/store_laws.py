"""The laws that hold for every store, for your own as well.

Example::

    async def test_my_store(tmp_path):
        await check_store(lambda place, **options: MyStore(tmp_path / place, **options))
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import anyio
from attrs import define, frozen

from agentctx.characters import said_by
from agentctx.errors import AgentctxError, StoreConflict, StoreError, StoreFull
from agentctx.message import Native

Make = Callable[..., Any]
"""Given the name of a place, a store there, empty when the place is new; named again, what is kept there is there.

Options are those of ``agentctx.stores.ConversationStore``.
"""

WRITERS = 20
"""So many write to one conversation at once."""

ODD_NAMES = "x", "x:ver", "x}", "{x", "c:x", "\0", "\ud800", "ü" * 100, "a b\nc", "'; --", "%s ? $1"
"""Names of conversations that must not be taken for another."""

ODD_PIECES = "", "\0", "a\0", "\ud800", "ü" * 501, 5, None, b"head"
"""What no piece of a state is named."""

ODD_MESSAGES = (
    {"role": "user", "content": "\0 and \ud800 and \ude00\ud83d and \ud83d\ude00"},
    {"role": "user", "content": "\u2028 ' \" \\ %s ? $1 \U0001f600"},
    {"n": 2**63, "f": 1.0, "i": 1, "none": None, "yes": True, "list": [[], {}, ""], "1e300": 1e300},
    {"bytes": b"\x00\xff", "$bytes": "no bytes", "deep": {"$bytes": "nor these"}},
)
"""Messages that must come back as they were, to the character."""


async def check_store(make: Make, laws: Collection[str] | None = None) -> None:
    """Hold a store to the laws, as far as it does what they are about: contents, histories, states.

    Args:
        make: Gives a store at a place.
        laws: Names of those to check, of ``STORE_LAWS``; None: all.

    Raises:
        AssertionError: If a law is broken; the message says what was expected.

    Example:
        >>> from agentctx.stores import MemoryStore
        >>> from agentctx.testing import check_store
        >>> places = {}
        >>> await check_store(lambda place: places.setdefault(place, MemoryStore()), {"contents", "conversations"})
    """
    for name, law in STORE_LAWS.items():
        if laws is None or name in laws:
            try:
                await law(make)
            except AssertionError:
                raise
            except Exception as error:  # a store that breaks a law may raise anything
                msg = f"{name}: an error that was not expected: {said_by(error)}"
                raise AssertionError(msg) from error


_ALL = "purge", "sweep", "stored", "for_conversation", "load", "append", "load_state", "save_state"
"""What a store does that takes the options of ``ConversationStore``."""


@define
class _Clock:
    """Seconds that pass when they are told to."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def _at(make: Make, place: str | None = None, **options: object) -> Native:  # whatever store it is
    store = make(place or f"p{uuid4().hex}", **options)
    try:
        yield store
    finally:
        if callable(close := getattr(store, "aclose", None)):
            await close()


def _hold(expected: object, found: object, what: str) -> None:
    if found != expected:
        msg = f"{what}: expected {expected!r:.400}, got {found!r:.400}"
        raise AssertionError(msg)


def _hold_that(found: bool, what: str) -> None:  # noqa: FBT001 - what is expected to be true
    _hold(expected=True, found=found, what=what)


async def _refused(kind: type[AgentctxError], call: Awaitable[object], what: str) -> Native:  # the error
    try:
        answer = await call
    except kind as error:
        return error
    msg = f"{what}: expected {kind.__name__}, got {answer!r:.200}"
    raise AssertionError(msg)


def _can(store: object, *names: str) -> bool:
    return all(callable(getattr(store, name, None)) for name in names)


async def contents_come_back(make: Make) -> None:
    """What was put comes back byte for byte, for every worker; the same content has one handle; others are refused."""
    place = f"p{uuid4().hex}"
    async with _at(make, place) as store, _at(make, place) as other:
        contents = [b"", b"\0", bytes(range(256)) * 40, "\ud800".encode("utf-8", "surrogatepass"), b"x" * 300_000]
        contents += [b"y" + b"x" * 299_999, b"x" * 299_999 + b"y", b" \n\tblanks\r\n ", b"\xef\xbb\xbfmark", b"\xe9"]
        handles = [await store.put(content) for content in contents]
        _hold(len(contents), len(set(handles)), "handles of different contents")
        for content, handle in zip(contents, handles, strict=True):
            _hold(content, await store.get(handle), f"the content under {handle}")
            _hold(content, await other.get(handle), f"the content under {handle}, for another worker")
            _hold(handle, await other.put(content), "the handle of the same content")
        for odd in ("text", None, 5) if _can(store, *_ALL) else ():
            await _refused(StoreError, store.put(odd), f"{odd!r} in the place of bytes")
        for handle in ("", "x", "\0", "\ud800", "0" * 16, handles[0][:-1], handles[0] + "0", "%", "'"):
            await _refused(StoreError, store.get(handle), f"get({handle!r})")
        if _can(store, "handles"):
            _hold(handles, await store.handles(), "the handles of all that is kept, oldest first")


async def many_at_once(make: Make) -> None:
    """Whatever many put at once is all kept, each under its handle."""
    handles: dict[bytes, str] = {}
    async with _at(make) as store:

        async def put(content: bytes) -> None:
            handles[content] = await store.put(content)

        async with anyio.create_task_group() as group:
            for number in range(3 * WRITERS):
                group.start_soon(put, b"content %d" % number)
        for content, handle in handles.items():
            _hold(content, await store.get(handle), f"the content under {handle}, of many that were put at once")


async def one_copy(make: Make) -> None:
    """What many put at once is kept once, and each gets its handle."""
    place, handles = f"p{uuid4().hex}", list[str]()
    async with _at(make, place) as store, _at(make, place) as other:
        async with anyio.create_task_group() as group:
            for number in range(WRITERS):
                group.start_soon(_put_into, (store, other)[number % 2], b"the same" * 1_000, handles)
        _hold(1, len(set(handles)), "handles of one content")
        _hold(WRITERS, len(handles), "answers")
        if _can(store, "handles"):
            _hold(handles[:1], await store.handles(), "the handles of one content")


async def _put_into(store: Native, content: bytes, handles: list[str]) -> None:  # a store
    handles.append(await store.put(content))


async def conversations_apart(make: Make) -> None:
    """A conversation finds and reads what it has left out, and nothing else; what two have left out, both find."""
    async with _at(make) as store:
        if not _can(store, "for_conversation"):
            return
        _hold([], await store.conversations(), "conversations of an empty store")
        handles = {}
        for name in ODD_NAMES:
            part = store.for_conversation(name)
            handles[name] = [await part.put(name.encode("utf-8", "surrogatepass") + b"!"), await part.put(b"shared")]
        for name in ODD_NAMES:
            part = store.for_conversation(name)
            _hold(handles[name], await part.handles(), f"the handles of conversation {name!r}")
            _hold(b"shared", await part.get(handles[name][1]), "what several have left out")
            for other in ODD_NAMES:
                if other != name:
                    await _refused(StoreError, part.get(handles[other][0]), f"{name!r} reading what {other!r} has")
        _hold(sorted(ODD_NAMES), sorted(await store.conversations()), "the conversations")
        handle = await store.put(b"nobody's")
        _hold_that(None in await store.conversations(), "None among the conversations where something is nobody's")
        await _refused(StoreError, store.for_conversation("x").get(handle), "a conversation reading what is nobody's")
        _hold(b"nobody's", await store.get(handle), "what is nobody's")


async def histories_are_logs(make: Make) -> None:
    """Messages come back in order and as they were; each write gives the version; nothing to append is no write.

    One message, or a text, in the place of a list of messages is refused.
    """
    place = f"p{uuid4().hex}"
    async with _at(make, place) as store, _at(make, place) as other:
        if not _can(store, "load", "append", "save", "clear"):
            return
        first = await store.load("x")
        _hold([], list(first.messages), "the history of a conversation that was never written")
        _hold(0, first.version, "its version in a new store")
        version, written = 0, list[object]()
        for message in ODD_MESSAGES:
            version = _later(await store.append("x", [message, message], version), version)
            written += [message, message]
        _same(written, (await other.load("x")).messages)
        _hold(version, await store.append("x", [], 12_345), "the version, where nothing is appended")
        for odd in ({"role": "user", "content": "one"}, "text", b"bytes", None, 5) if _can(store, *_ALL) else ():
            for write in (store.append, store.save):
                await _refused(StoreError, write("x", odd, None), f"{odd!r} in the place of messages")
        _hold(version, (await other.load("x")).version, "the version that was loaded")
        version = _later(await other.append("x", [{"n": 1}], None), version)
        version = _later(await store.save("x", [{"n": 2}], version), version)
        _same([{"n": 2}], (await store.load("x")).messages)
        version = _later(await store.save("x", [], version), version)
        for expected in (version, None):
            _hold((0, version), await _shape(store, "x"), "how many messages, and the version, of a history cleared")
            version = _later(await store.clear("x", expected), version)


def _later(version: int, before: int) -> int:
    if version <= before:
        msg = f"a version: expected one that grows with each write, after {before} got {version}"
        raise AssertionError(msg)
    return version


def _same(expected: list[object], found: Native) -> None:  # messages
    _hold(list(map(repr, expected)), list(map(repr, found)), "the messages")


async def _shape(store: Native, name: str) -> tuple[int, int]:  # a store
    known = await store.load(name)
    return len(known.messages), known.version


async def stale_writers_are_refused(make: Make) -> None:
    """Who goes on from another version is refused, told the version, and has changed nothing; also after a clear."""
    async with _at(make) as store:
        if not _can(store, "load", "append", "save", "clear"):
            return
        first = await store.append("x", [{"n": 0}], 0)
        version = await store.clear("x", first)
        for stale in (0, first, version + 1):
            for write in (
                partial(store.append, "x", [{"n": 1}]),
                partial(store.save, "x", [{"n": 1}]),
                partial(store.clear, "x"),
            ):
                error = await _refused(StoreConflict, write(stale), f"a write from version {stale}")
                _hold(version, error.version, "the version that the error tells")
        _hold((0, version), await _shape(store, "x"), "what is there after writes that were refused")


async def keys_write_once(make: Make) -> None:
    """A write that is repeated with its key is done once, also after others, and after a clear."""
    async with _at(make) as store:
        if not _can(store, "load", "append", "save", "clear"):
            return
        version = await store.append("x", [{"n": 0}], 0, key="a")
        for _ in range(2):
            _hold(version, await store.append("x", [{"n": 0}], 0, key="a"), "the version of a write that is repeated")
        last = await store.append("x", [{"n": 1}], version, key="\0\ud800")
        _hold(version, await store.append("x", [{"n": 0}], last, key="a"), "the version of a write that is repeated")
        _hold(last, await store.append("x", [{"n": 1}], None, key="\0\ud800"), "the version of a repeated write")
        _same([{"n": 0}, {"n": 1}], (await store.load("x")).messages)
        _later(await store.append("y", [{"n": 0}], 0, key="a"), 0)
        _hold(1, (await _shape(store, "y"))[0], "messages of another conversation with the same key")
        last = await store.clear("x", last, key="c")
        _hold(last, await store.clear("x", 0, key="c"), "the version of a clear that is repeated")
        _hold(version, await store.append("x", [{"n": 0}], 0, key="a"), "the version of a write before a clear")
        _hold((0, last), await _shape(store, "x"), "what is there after a clear")


async def writers_lose_nothing(make: Make) -> None:
    """Twenty writers at once to one conversation, each trying again after a conflict: nothing is lost or doubled."""
    place, versions = f"p{uuid4().hex}", list[int]()
    async with _at(make, place) as store, _at(make, place) as other:
        if not _can(store, "load", "append"):
            return

        async def write(number: int) -> None:
            mine = (store, other)[number % 2]
            for turn in range(2):
                known = await mine.load("x")
                while True:
                    try:
                        versions.append(await mine.append("x", [{"n": number, "turn": turn}], known.version))
                        break
                    except StoreConflict as conflict:
                        known = await mine.load("x")
                        _later(known.version + 1, conflict.version)

        async with anyio.create_task_group() as group:
            for number in range(WRITERS):
                group.start_soon(write, number)
        messages = [(each["n"], each["turn"]) for each in (await store.load("x")).messages]
        expected = sorted((number, turn) for number in range(WRITERS) for turn in range(2))
        _hold(expected, sorted(messages), "what twenty writers have written")
        _hold(len(expected), len(set(versions)), "different versions")
        _hold_that(all(messages.index((n, 0)) < messages.index((n, 1)) for n in range(WRITERS)), "each writer's order")


async def states_change_in_pieces(make: Make) -> None:
    """Pieces that are saved stand in the place of those of their name, the others stay; stale ones are refused."""
    place = f"p{uuid4().hex}"
    async with _at(make, place) as store, _at(make, place) as other:
        if not _can(store, "load_state", "save_state"):
            return
        _hold({}, dict((await store.load_state("x")).pieces), "the state of a session that was never saved")
        version = await store.save_state("x", {"head": b"\0\xff", "view/1": b"", "view/2": b"2"}, 0)
        version = _later(await other.save_state("x", {"head": b"new", "view/2": None, "none": None}, version), version)
        known = await store.load_state("x")
        _hold({"head": b"new", "view/1": b""}, dict(known.pieces), "the pieces of a state")
        _hold(version, known.version, "its version")
        error = await _refused(StoreConflict, store.save_state("x", {"head": b""}, version - 1), "a stale state")
        _hold(version, error.version, "the version that the error tells")
        for odd in (2**63, "1", 1.0, True):
            await _refused(StoreError, store.save_state("x", {"head": b"2"}, odd), f"version {odd!r}")
        for name, content in (*((name, b"") for name in ODD_PIECES), ("head", "text"), ("head", bytearray(b"1"))):
            await _refused(StoreError, store.save_state("x", {"head": b"2", name: content}, version), f"piece {name!r}")
        await _refused(StoreError, store.save_state("x", [("head", b"2")], version), "pieces that are no mapping")
        _hold(version, (await store.load_state("x")).version, "the version after pieces that were refused")
        again = await store.save_state("x", {"more": b"1"}, version, key="k")
        _hold(again, await other.save_state("x", {"more": b"2"}, version, key="k"), "a save that is repeated")
        _hold(b"1", (await other.load_state("x")).pieces["more"], "the piece of a save that was repeated")
        if _can(store, "load", "append"):
            _hold((0, 0), await _shape(store, "x"), "the history of a session of which only the state was saved")
            await store.append("x", [{"n": 1}], 0, key="k")
            _hold(again, (await store.load_state("x")).version, "the version of a state after a write to the history")


async def purge_takes_all_of_one(make: Make) -> None:
    """Purging a conversation takes all of it away and nothing of others; its versions do not begin again."""
    async with _at(make) as store:
        if not _can(store, *_ALL):
            return
        parts = [store.for_conversation(name) for name in ("x", "y")]
        shared = await parts[0].put(b"shared")
        await parts[1].put(b"shared")
        own = await parts[0].put(b"x's own")
        versions = []
        for name in ("x", "y"):
            versions += [await store.append(name, [{"n": number}], None) for number in range(2)]
            await store.save_state(name, {"head": b"1"}, None)
        _hold_that(await store.purge("x") > 0, "how much purging takes away")
        _hold(0, await store.purge("x"), "how much purging takes away when it is done")
        _hold([], await parts[0].handles(), "the handles of a conversation that was purged")
        await _refused(StoreError, store.get(own), "reading what only a purged conversation had")
        _hold(b"shared", await parts[1].get(shared), "what another conversation has left out too")
        await _refused(StoreError, parts[0].get(shared), "a purged conversation reading")
        _hold({}, dict((await store.load_state("x")).pieces), "the state of a session that was purged")
        _hold((0, 0), await _shape(store, "x"), "messages, and the version, of a conversation that was purged")
        for stale in versions[:2]:
            await _refused(StoreConflict, store.append("x", [{"n": 3}], stale), "a writer from before the purge")
        for name, last in (("x", versions[1]), ("never", 0)):
            _later(await store.append(name, [{"n": 3}], 0, key="k"), last)
            _later(await store.save_state(name, {"head": b"1"}, 0), 0)
            for write in (store.append(name, [{}], 0), store.save_state(name, {}, 0), store.clear(name, 0)):
                await _refused(StoreConflict, write, "one that begins anew where something is")
        await store.purge("never")
        _hold((2, versions[3]), await _shape(store, "y"), "the history of another conversation")
        await store.put(b"nobody's")
        _hold_that(await store.purge(None) > 0, "how much purging takes away that is nobody's")
        _hold(["y", "x"], [each.name for each in await store.stored()], "what is left")


async def purge_takes_those_of_sub_agents(make: Make) -> None:
    """With a conversation go those below it, at all depths, and none whose name only looks like that."""
    async with _at(make) as store:
        if not _can(store, *_ALL):
            return
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
        _hold(gone, await store.purge(above), "how much purging takes away with those of sub-agents")
        _hold(sorted(kept), sorted(each.name for each in await store.stored()), "what is left beside them")
        _hold(1 + len(kept), len(await store.handles()), "how many contents are left")
        await store.purge("x")
        _hold(len(kept) - 1, len(await store.stored()), "what is left where only a sub-agent's was there")


async def versions_belong_to_one_store(make: Make) -> None:
    """A store that has lost all that it had gives no version again: who goes on from before is refused."""
    async with _at(make) as lost, _at(make) as store:
        if not _can(store, *_ALL):
            return
        for write, said in (("append", [{"n": 1}]), ("save_state", {"head": b"1"})):
            go_on, begin_again = (partial(getattr(each, write), "x", said) for each in (lost, store))
            before, after = [0], [0]
            for _ in range(4):
                before.append(await go_on(before[-1]))
            for version in before[1:]:
                await _refused(StoreConflict, begin_again(version), "a writer whose store has lost everything")
            for _ in range(6):
                after.append(await begin_again(after[-1]))
                for version in before:
                    await _refused(StoreConflict, begin_again(version), "a writer from before the loss")
            _hold({0}, {*before} & {*after}, "versions of a store, and of the one that it was before it lost all")


async def what_expires_is_gone(make: Make) -> None:
    """What was not written to for longer than ``ttl`` is gone, as if purged; a write renews all of a conversation."""
    clock = _Clock()
    async with _at(make, ttl=100.0, clock=clock) as store:
        if not _can(store, *_ALL):
            return
        old, new = (store.for_conversation(name) for name in ("old", "new"))
        own, shared = await old.put(b"own"), await old.put(b"shared")
        version = await store.append("old", [{"n": 1}], 0)
        await store.save_state("old", {"head": b"1"}, None)
        nobodys = await store.put(b"nobody's")
        clock.now += 60
        await new.put(b"shared")
        await store.append("new", [{"n": 1}], None)
        clock.now += 30
        _hold(b"own", await old.get(own), "what has not expired yet")
        clock.now += 30
        for part, handle in ((old, own), (store, own), (old, shared), (store, nobodys)):
            await _refused(StoreError, part.get(handle), "reading what has expired")
        _hold(b"shared", await store.get(shared), "what another conversation keeps alive")
        _hold([shared], await store.handles(), "the handles of what has not expired")
        _hold({}, dict((await store.load_state("old")).pieces), "a state that has expired")
        _hold((0, 0), await _shape(store, "old"), "messages, and the version, of a history that has expired")
        await _refused(StoreConflict, store.append("old", [{"n": 2}], version), "a writer from before it expired")
        _hold(["new"], [each.name for each in await store.stored()], "what is kept")
        await store.sweep()
        await _refused(StoreConflict, store.append("old", [{"n": 2}], version), "a writer from before it was swept")
        again = await store.append("old", [{"n": 3}], 0)
        _later(again, version)
        await _refused(StoreConflict, store.append("old", [{"n": 2}], version), "a writer from before it expired")
        _hold(1, (await _shape(store, "old"))[0], "messages of a history that has begun again")
        clock.now += 99
        await new.put(b"more")
        clock.now += 60
        _hold(b"more", await new.get(await new.put(b"more")), "what was renewed")


async def the_oldest_goes_first(make: Make) -> None:
    """A full store loses the conversation that was not written for longest, at last the oldest contents of this one.

    What alone is larger than the store may be is refused, and changes nothing.
    """
    clock = _Clock()
    async with _at(make, max_bytes=4_000, clock=clock) as store:
        if not _can(store, *_ALL):
            return

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
        _hold(["x", "z"], sorted(each.name for each in await store.stored()), "what is kept beside a newer content")
        _hold((0, 0), await _shape(store, "y"), "the history of the conversation that went")
        await _refused(StoreConflict, store.append("y", [{"n": 2}], version), "a writer from before it went")
        kept.append(await put("z", b"e"))
        _hold(["z"], [each.name for each in await store.stored()], "what is kept beside two newer contents")
        kept.append(await put("z", b"f"))
        _hold(kept[1:], await store.for_conversation("z").handles(), "the newest contents of one that fills the store")
        await store.save_state("z", {"head": b"g" * 1_000}, 0)
        _hold(kept[2:], await store.for_conversation("z").handles(), "the newest contents beside a state")
        await _refused(StoreFull, store.put(b"h" * 4_000), "a content larger than the store may be")
        await _refused(
            StoreFull, store.append("z", [{"n": "i" * 3_500}], 0), "messages that have no room beside the state"
        )
        await _refused(
            StoreFull, store.save_state("w", {"head": b"j" * 4_000}, 0), "a state larger than the store may be"
        )
        _hold(kept[2:], await store.for_conversation("z").handles(), "the contents after a write was refused")
        _hold(["z"], [each.name for each in await store.stored()], "what is kept after a write was refused")
        _hold(1_000, len((await store.load_state("z")).pieces["head"]), "the state after a write was refused")


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
    async with _at(make, place, cipher=_Mirror()) as store:
        if not _can(store, *_ALL):
            return
        handle = await store.put(b"a secret")
        await store.append("x", [{"n": "secret"}], 0)
        await store.save_state("x", {"head": b"secret"}, 0)
        _hold(b"a secret", await store.get(handle), "a content that was encrypted")
        _hold([{"n": "secret"}], list((await store.load("x")).messages), "messages that were encrypted")
        _hold(b"secret", (await store.load_state("x")).pieces["head"], "a state that was encrypted")
    for cipher in (None, _Mirror(2)):
        async with _at(make, place, cipher=cipher) as store:
            for read, name in ((store.get, handle), (store.load, "x"), (store.load_state, "x")):
                await _refused(StoreError, read(name), f"reading with {cipher}")
    for how in ("raises", "text", "none", "short", "other", "flipped"):
        async with _at(make, cipher=_Broken(how)) as store:
            if how in {"raises", "text"}:
                for write in (store.put(b"1"), store.append("x", [{"n": 1}], 0), store.save_state("x", {"h": b"1"}, 0)):
                    await _refused(StoreError, write, f"writing with a cipher that is broken: {how}")
                _hold([], list(await store.stored()), "what is kept of what cannot be encrypted")
            else:
                handle = await store.put(b"1")
                error = await _refused(StoreError, store.get(handle), f"reading with a cipher that is broken: {how}")
                named = handle if how == "flipped" else "_Broken"
                _hold_that(named in str(error), "an error that names the cipher, or the content that is damaged")


async def cancelled_writes_are_whole(make: Make) -> None:
    """A write that is cancelled is done or not, and never half; the store goes on."""
    async with _at(make) as store:
        if not _can(store, "load", "append"):
            return
        batch = [{"n": number} for number in range(3)]
        for wait in (0, 0, 0.0005, 0.001, 0.003):
            with anyio.move_on_after(wait):
                await store.append("x", batch, None)
        await store.append("x", batch, None)
        await anyio.sleep(0.05)
        found = [each["n"] for each in (await store.load("x")).messages]
        _hold([0, 1, 2] * (len(found) // 3), found, "whole batches")
        _hold_that(3 <= len(found) <= 18, "as many as were written, at most")


STORE_LAWS: dict[str, Callable[[Make], Awaitable[None]]] = {
    "contents": contents_come_back,
    "many at once": many_at_once,
    "one copy": one_copy,
    "conversations": conversations_apart,
    "histories": histories_are_logs,
    "conflicts": stale_writers_are_refused,
    "keys": keys_write_once,
    "writers": writers_lose_nothing,
    "states": states_change_in_pieces,
    "losses": versions_belong_to_one_store,
    "purge": purge_takes_all_of_one,
    "sub-agents": purge_takes_those_of_sub_agents,
    "expiry": what_expires_is_gone,
    "oldest first": the_oldest_goes_first,
    "ciphers": ciphers_are_used,
    "cancellation": cancelled_writes_are_whole,
}
"""Each law by its name. Those from ``losses`` on are about stores that take the options of ``ConversationStore``."""
