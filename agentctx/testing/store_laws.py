"""The laws that hold for every store, for your own as well.

Example::

    async def test_my_store(tmp_path):
        await check_store(lambda place: MyStore(tmp_path / place))
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any
from uuid import uuid4

import anyio

from agentctx.characters import said_by
from agentctx.errors import AgentctxError, StoreConflict, StoreError
from agentctx.message import Native

Make = Callable[..., Any]
"""Given the name of a place, a store there, empty when the place is new; named again, what is kept there is there."""

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
    await hold_to({name: law for name, law in STORE_LAWS.items() if laws is None or name in laws}, make)


async def hold_to(laws: Mapping[str, Callable[[Make], Awaitable[None]]], make: Make) -> None:
    """Hold a store to laws by their names."""
    for name, law in laws.items():
        try:
            await law(make)
        except AssertionError:
            raise
        except Exception as error:  # a store that breaks a law may raise anything
            msg = f"{name}: an error that was not expected: {said_by(error)}"
            raise AssertionError(msg) from error


@asynccontextmanager
async def at(make: Make, place: str | None = None, **options: object) -> Native:  # whatever store it is
    """Open the store at a place, a new one if none is named, and close it."""
    store = make(place or f"p{uuid4().hex}", **options)
    try:
        yield store
    finally:
        if callable(close := getattr(store, "aclose", None)):
            await close()


def hold(expected: object, found: object, what: str) -> None:
    """Hold that what was found is what was expected."""
    if found != expected:
        msg = f"{what}: expected {expected!r:.400}, got {found!r:.400}"
        raise AssertionError(msg)


def hold_that(found: bool, what: str) -> None:  # noqa: FBT001 - what is expected to be true
    """Hold that something is true."""
    hold(expected=True, found=found, what=what)


async def refused(kind: type[AgentctxError], call: Awaitable[object], what: str) -> Native:  # the error
    """Hold that a call raises an error of this kind, and return the error."""
    try:
        answer = await call
    except kind as error:
        return error
    msg = f"{what}: expected {kind.__name__}, got {answer!r:.200}"
    raise AssertionError(msg)


def can(store: object, *names: str) -> bool:
    """Tell whether a store has methods of these names."""
    return all(callable(getattr(store, name, None)) for name in names)


async def contents_come_back(make: Make) -> None:
    """What was put comes back byte for byte, for every worker; the same content has one handle; others are refused."""
    place = f"p{uuid4().hex}"
    async with at(make, place) as store, at(make, place) as other:
        contents = [b"", b"\0", bytes(range(256)) * 40, "\ud800".encode("utf-8", "surrogatepass"), b"x" * 300_000]
        contents += [b"y" + b"x" * 299_999, b"x" * 299_999 + b"y", b" \n\tblanks\r\n ", b"\xef\xbb\xbfmark", b"\xe9"]
        handles = [await store.put(content) for content in contents]
        hold(len(contents), len(set(handles)), "handles of different contents")
        for content, handle in zip(contents, handles, strict=True):
            hold(content, await store.get(handle), f"the content under {handle}")
            hold(content, await other.get(handle), f"the content under {handle}, for another worker")
            hold(handle, await other.put(content), "the handle of the same content")
        for handle in ("", "x", "\0", "\ud800", "0" * 16, handles[0][:-1], handles[0] + "0", "%", "'"):
            await refused(StoreError, store.get(handle), f"get({handle!r})")
        if can(store, "handles"):
            hold(handles, await store.handles(), "the handles of all that is kept, oldest first")


async def many_at_once(make: Make) -> None:
    """Whatever many put at once is all kept, each under its handle."""
    handles: dict[bytes, str] = {}
    async with at(make) as store:

        async def put(content: bytes) -> None:
            handles[content] = await store.put(content)

        async with anyio.create_task_group() as group:
            for number in range(3 * WRITERS):
                group.start_soon(put, b"content %d" % number)
        for content, handle in handles.items():
            hold(content, await store.get(handle), f"the content under {handle}, of many that were put at once")


async def one_copy(make: Make) -> None:
    """What many put at once is kept once, and each gets its handle."""
    place, handles = f"p{uuid4().hex}", list[str]()
    async with at(make, place) as store, at(make, place) as other:
        async with anyio.create_task_group() as group:
            for number in range(WRITERS):
                group.start_soon(_put_into, (store, other)[number % 2], b"the same" * 1_000, handles)
        hold(1, len(set(handles)), "handles of one content")
        hold(WRITERS, len(handles), "answers")
        if can(store, "handles"):
            hold(handles[:1], await store.handles(), "the handles of one content")


async def _put_into(store: Native, content: bytes, handles: list[str]) -> None:  # a store
    handles.append(await store.put(content))


async def conversations_apart(make: Make) -> None:
    """A conversation finds and reads what it has left out, and nothing else; what two have left out, both find."""
    async with at(make) as store:
        if not can(store, "for_conversation"):
            return
        hold([], await store.conversations(), "conversations of an empty store")
        handles = {}
        for name in ODD_NAMES:
            part = store.for_conversation(name)
            handles[name] = [await part.put(name.encode("utf-8", "surrogatepass") + b"!"), await part.put(b"shared")]
        for name in ODD_NAMES:
            part = store.for_conversation(name)
            hold(handles[name], await part.handles(), f"the handles of conversation {name!r}")
            hold(b"shared", await part.get(handles[name][1]), "what several have left out")
            for other in ODD_NAMES:
                if other != name:
                    await refused(StoreError, part.get(handles[other][0]), f"{name!r} reading what {other!r} has")
        hold(sorted(ODD_NAMES), sorted(await store.conversations()), "the conversations")
        handle = await store.put(b"nobody's")
        hold_that(None in await store.conversations(), "None among the conversations where something is nobody's")
        await refused(StoreError, store.for_conversation("x").get(handle), "a conversation reading what is nobody's")
        hold(b"nobody's", await store.get(handle), "what is nobody's")


async def histories_are_logs(make: Make) -> None:
    """Messages come back in order and as they were; each write gives the version; nothing to append is no write."""
    place = f"p{uuid4().hex}"
    async with at(make, place) as store, at(make, place) as other:
        if not can(store, "load", "append", "save", "clear"):
            return
        first = await store.load("x")
        hold([], list(first.messages), "the history of a conversation that was never written")
        hold(0, first.version, "its version in a new store")
        version, written = 0, list[object]()
        for message in ODD_MESSAGES:
            version = later(await store.append("x", [message, message], version), version)
            written += [message, message]
        _same(written, (await other.load("x")).messages)
        hold(version, await store.append("x", [], 12_345), "the version, where nothing is appended")
        hold(version, (await other.load("x")).version, "the version that was loaded")
        version = later(await other.append("x", [{"n": 1}], None), version)
        version = later(await store.save("x", [{"n": 2}], version), version)
        _same([{"n": 2}], (await store.load("x")).messages)
        version = later(await store.save("x", [], version), version)
        for expected in (version, None):
            hold((0, version), await shape(store, "x"), "how many messages, and the version, of a history cleared")
            version = later(await store.clear("x", expected), version)


def later(version: int, before: int) -> int:
    """Hold that a version is later than the one before, and return it."""
    if version <= before:
        msg = f"a version: expected one that grows with each write, after {before} got {version}"
        raise AssertionError(msg)
    return version


def _same(expected: list[object], found: Native) -> None:  # messages
    hold(list(map(repr, expected)), list(map(repr, found)), "the messages")


async def shape(store: Native, name: str) -> tuple[int, int]:  # a store
    """Load how many messages a history has, and its version."""
    known = await store.load(name)
    return len(known.messages), known.version


async def stale_writers_are_refused(make: Make) -> None:
    """Who goes on from another version is refused, told the version, and has changed nothing; also after a clear."""
    async with at(make) as store:
        if not can(store, "load", "append", "save", "clear"):
            return
        first = await store.append("x", [{"n": 0}], 0)
        version = await store.clear("x", first)
        for stale in (0, first, version + 1):
            for write in (
                partial(store.append, "x", [{"n": 1}]),
                partial(store.save, "x", [{"n": 1}]),
                partial(store.clear, "x"),
            ):
                error = await refused(StoreConflict, write(stale), f"a write from version {stale}")
                hold(version, error.version, "the version that the error tells")
        hold((0, version), await shape(store, "x"), "what is there after writes that were refused")


async def keys_write_once(make: Make) -> None:
    """A write that is repeated with its key is done once, also after others, and after a clear."""
    async with at(make) as store:
        if not can(store, "load", "append", "save", "clear"):
            return
        version = await store.append("x", [{"n": 0}], 0, key="a")
        for _ in range(2):
            hold(version, await store.append("x", [{"n": 0}], 0, key="a"), "the version of a write that is repeated")
        last = await store.append("x", [{"n": 1}], version, key="\0\ud800")
        hold(version, await store.append("x", [{"n": 0}], last, key="a"), "the version of a write that is repeated")
        hold(last, await store.append("x", [{"n": 1}], None, key="\0\ud800"), "the version of a repeated write")
        _same([{"n": 0}, {"n": 1}], (await store.load("x")).messages)
        later(await store.append("y", [{"n": 0}], 0, key="a"), 0)
        hold(1, (await shape(store, "y"))[0], "messages of another conversation with the same key")
        last = await store.clear("x", last, key="c")
        hold(last, await store.clear("x", 0, key="c"), "the version of a clear that is repeated")
        hold(version, await store.append("x", [{"n": 0}], 0, key="a"), "the version of a write before a clear")
        hold((0, last), await shape(store, "x"), "what is there after a clear")


async def writers_lose_nothing(make: Make) -> None:
    """Twenty writers at once to one conversation, each trying again after a conflict: nothing is lost or doubled."""
    place, versions = f"p{uuid4().hex}", list[int]()
    async with at(make, place) as store, at(make, place) as other:
        if not can(store, "load", "append"):
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
                        later(known.version + 1, conflict.version)

        async with anyio.create_task_group() as group:
            for number in range(WRITERS):
                group.start_soon(write, number)
        messages = [(each["n"], each["turn"]) for each in (await store.load("x")).messages]
        expected = sorted((number, turn) for number in range(WRITERS) for turn in range(2))
        hold(expected, sorted(messages), "what twenty writers have written")
        hold(len(expected), len(set(versions)), "different versions")
        hold_that(all(messages.index((n, 0)) < messages.index((n, 1)) for n in range(WRITERS)), "each writer's order")


async def states_change_in_pieces(make: Make) -> None:
    """Pieces that are saved stand in the place of those of their name, the others stay; stale ones are refused."""
    place = f"p{uuid4().hex}"
    async with at(make, place) as store, at(make, place) as other:
        if not can(store, "load_state", "save_state"):
            return
        hold({}, dict((await store.load_state("x")).pieces), "the state of a session that was never saved")
        version = await store.save_state("x", {"head": b"\0\xff", "view/1": b"", "view/2": b"2"}, 0)
        version = later(await other.save_state("x", {"head": b"new", "view/2": None, "none": None}, version), version)
        known = await store.load_state("x")
        hold({"head": b"new", "view/1": b""}, dict(known.pieces), "the pieces of a state")
        hold(version, known.version, "its version")
        error = await refused(StoreConflict, store.save_state("x", {"head": b""}, version - 1), "a stale state")
        hold(version, error.version, "the version that the error tells")
        for odd in (2**63, "1", 1.0, True):
            await refused(StoreError, store.save_state("x", {"head": b"2"}, odd), f"version {odd!r}")
        for name, content in (*((name, b"") for name in ODD_PIECES), ("head", "text"), ("head", bytearray(b"1"))):
            await refused(StoreError, store.save_state("x", {"head": b"2", name: content}, version), f"piece {name!r}")
        await refused(StoreError, store.save_state("x", [("head", b"2")], version), "pieces that are no mapping")
        hold(version, (await store.load_state("x")).version, "the version after pieces that were refused")
        again = await store.save_state("x", {"more": b"1"}, version, key="k")
        hold(again, await other.save_state("x", {"more": b"2"}, version, key="k"), "a save that is repeated")
        hold(b"1", (await other.load_state("x")).pieces["more"], "the piece of a save that was repeated")
        if can(store, "load", "append"):
            hold((0, 0), await shape(store, "x"), "the history of a session of which only the state was saved")
            await store.append("x", [{"n": 1}], 0, key="k")
            hold(again, (await store.load_state("x")).version, "the version of a state after a write to the history")


async def cancelled_writes_are_whole(make: Make) -> None:
    """A write that is cancelled is done or not, and never half; the store goes on."""
    async with at(make) as store:
        if not can(store, "load", "append"):
            return
        batch = [{"n": number} for number in range(3)]
        for wait in (0, 0, 0.0005, 0.001, 0.003):
            with anyio.move_on_after(wait):
                await store.append("x", batch, None)
        await store.append("x", batch, None)
        await anyio.sleep(0.05)
        found = [each["n"] for each in (await store.load("x")).messages]
        hold([0, 1, 2] * (len(found) // 3), found, "whole batches")
        hold_that(3 <= len(found) <= 18, "as many as were written, at most")


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
    "cancellation": cancelled_writes_are_whole,
}
"""Each law by its name."""
