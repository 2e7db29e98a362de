"""What all stores have in common: contents, histories and states of conversations, over what a back end does."""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from threading import Lock, Semaphore
from typing import Generic, Literal, Protocol, Self, TypeVar, runtime_checkable
from uuid import uuid4

import anyio
import anyio.to_thread
from anyio.lowlevel import RunVar
from attrs import define, evolve, field, frozen

from agentctx.characters import said_by
from agentctx.errors import AgentctxError, ConfigError, StoreError, StoreFull, StoreUnavailable
from agentctx.formats.native import from_json, to_json
from agentctx.message import Native
from agentctx.protocols import HistorySnapshot, StateSnapshot
from agentctx.users_code import FAILURES, described, time_of
from agentctx.validators import CLOCK, POSITIVE, methods

T = TypeVar("T")
C = TypeVar("C")

Kind = Literal["history", "state"]

LONGEST = 1_000
"""Bytes that the name of a conversation may have, and a key."""

REMEMBERED = 1_000
"""A key is remembered for so many further writes of its conversation."""

SWEPT = 100
"""So many conversations that have expired are taken away at once."""


_SHORTEST = 16
_HEXADECIMAL = frozenset("0123456789abcdef")


@runtime_checkable
class Cipher(Protocol):
    """Encrypts what a store keeps. A ``Fernet`` of the library ``cryptography`` is one.

    Example:
        >>> from agentctx.stores import MemoryStore
        >>> class Upside:  # use a real one
        ...     def encrypt(self, content):
        ...         return content[::-1]
        ...     def decrypt(self, content):
        ...         return content[::-1]
        >>> store = MemoryStore(cipher=Upside())
        >>> await store.get(await store.put(b"a long log"))
        b'a long log'
    """

    def encrypt(self, content: bytes, /) -> bytes:
        """What is kept for ``content``."""
        ...

    def decrypt(self, content: bytes, /) -> bytes:
        """What was encrypted; raises where it is damaged or the key is another.

        Args:
            content: Bytes that ``encrypt`` gave.
        """
        ...


@frozen
class Claim:
    """For whom something is written.

    Args:
        owner: Whose it is: a conversation, or a content that is nobody's.
        name: How an error names it.
        now: Seconds since 1970.
        expires: When all that the owner has is taken away, unless something is written for it before.
        most: The most bytes of the store.
    """

    owner: bytes
    name: str
    now: float
    expires: float = math.inf
    most: float = math.inf

    def check_alone(self, size: int) -> None:
        """Refuse a write that does not fit into an otherwise empty store.

        Args:
            size: Bytes that the owner would have after the write, without the contents that may be evicted.

        Raises:
            StoreFull: If that is more than the store may have.
        """
        if size > self.most:
            msg = f"{self.name!r:.200} alone would have {size:,} bytes, and the store may have {self.most:,.0f}"
            raise StoreFull(msg)


class NoRoom(StoreFull):
    """A write does not fit into the store as it is; back ends raise it, and ``Backend.make_room`` helps.

    Args:
        claim: For whom something is written.
        grown: By how many bytes the write makes the store grow.
    """

    def __init__(self, claim: Claim, grown: int) -> None:
        super().__init__(f"the store has no room for {grown:,} more bytes of its {claim.most:,.0f}")
        self.claim = claim
        self.grown = grown


@frozen
class Write:
    """A change of a document.

    Args:
        kind: Which document of the owner.
        version: What it goes on from; None: whatever it is.
        key: What tells this write from others.
        put: The pieces to keep, by name.
        drop: The pieces to take away; None: all that were there.
        stamp: The least version that the document has then: microseconds since 1970. A store that has lost what it
            had, or was put back to a copy of it, gives no version again that it has given before.
    """

    kind: Kind
    version: int | None
    key: bytes
    put: Mapping[str, bytes]
    drop: Collection[str] | None = ()
    stamp: int = field(factory=lambda: _microseconds())  # noqa: PLW0108 - it is below

    def after(self, version: int) -> int:
        """The version that this gives to a document that has another."""
        return max(version + 1, self.stamp)


def _microseconds() -> int:
    return time.time_ns() // 1_000


@frozen
class Stored:
    """What a store has of one conversation.

    Args:
        name: The conversation; None: contents that are nobody's.
        bytes: How much it is.
        contents: How many contents it has left out.
        history: The version of its history; None where it has none.
        state: The version of its session's state; None where it has none.
        expires: When it expires, in seconds since 1970; None: never.

    Example:
        >>> from agentctx.stores import MemoryStore
        >>> store = MemoryStore()
        >>> handle = await store.for_conversation("thread-42").put(b"a long log")
        >>> [(each.name, each.contents) for each in await store.stored()]
        [('thread-42', 1)]
    """

    name: str | None
    bytes: int
    contents: int = 0
    history: int | None = None
    state: int | None = None
    expires: float | None = None


@frozen
class Owned:
    """What a back end has of one owner."""

    owner: bytes
    bytes: int
    contents: int
    history: int | None
    state: int | None
    expires: float


class Backend(Protocol):
    """What keeps bytes, each function as one transaction. They wait, and are called in threads.

    What has expired is not there for any of them. A document that is not there has version 0; the first one that it is
    given is above the store's floor, and taking one away raises the floor above its version, so that no version is
    given twice.

    Args:
        waits: Whether its functions may wait; those of one that does not are called at once.
    """

    waits: bool

    def put(self, claim: Claim, handle: str, digest: bytes, body: bytes, /) -> bool:
        """Let the owner have a content under this handle; False: another content has it.

        Raises:
            NoRoom: If the store would have too many bytes.
        """
        ...

    def get(self, handle: str, owner: bytes | None, now: float, /) -> bytes | None:
        """The body under a handle, if the owner has it (None: if anybody has)."""
        ...

    def handles(self, owner: bytes | None, now: float, /) -> list[str]:
        """The handles that the owner has (None: all), oldest first."""
        ...

    def read(self, owner: bytes, kind: Kind, now: float, /) -> tuple[int, list[tuple[str, bytes]]]:
        """A document's version, and its pieces in the order in which they were put."""
        ...

    def version(self, owner: bytes, kind: Kind, now: float, /) -> int:
        """A document's version."""
        ...

    def write(self, claim: Claim, write: Write, /) -> int:
        """Change a document, and give its version; where the key is known, change nothing and give that of then.

        Raises:
            NoRoom: If the store would have too many bytes.
            StoreConflict: If it has another version.
        """
        ...

    def make_room(self, claim: Claim, grown: int, /) -> None:
        """Take away what is oldest, until so many bytes more fit.

        First other owners go, by their last write and by name; then the owner's own contents, in the order in which
        they were put.

        Raises:
            StoreFull: If they do not fit even then; nothing was taken away.
        """
        ...

    def owned(self, now: float, /) -> list[Owned]:
        """What each owner has."""
        ...

    def purge(self, owners: Sequence[bytes], /) -> int:
        """Take away all that these owners and those below them have (``span_below``); how many bytes that were.

        With it go the contents that nobody has then.
        """
        ...

    def sweep(self, now: float, most: int, /) -> int:
        """Take away all that some of the expired owners have; how many owners."""
        ...

    def close(self) -> None:
        """Give back connections and files; used again, it opens them anew."""
        ...


_CIPHER = methods("an object", "encrypt", "decrypt").or_none


@define(eq=False)
class ConversationStore:
    """Keeps what conversations left out, their histories and the states of their sessions; for many workers at once.

    The sub-agents of a conversation (``Session.child``) are conversations of their own, below it by name:
    ``"thread-42/1"`` is one of ``"thread-42"``. Only ``purge`` takes them with it; whatever else a store does is done
    for the one that is named.

    Args:
        ttl: Seconds after the last write for a conversation after which all of it is taken away; None: never. A content
            that is put for no conversation expires by itself, and so does the conversation of a sub-agent.
        max_bytes: The most bytes that the store keeps; a content that several conversations left out counts once for
            each. When a write would exceed the bound, the oldest go first: whole conversations by their last write,
            then the oldest contents of the conversation that is written. ``StoreFull`` is raised where that makes no
            room. None: there is no bound.
        cipher: Encrypts contents, messages and states; names of conversations and handles stay readable. What it raises
            or damages is a ``StoreError`` that names the cipher and the content, and a step goes on without the store.
        timeout: Seconds that one call may take. A step asks no store again that has not answered in time (at most ten
            seconds, for what is left out): it waits so long once, however much it has to keep. One that is slow has so
            long for all that a step leaves out, and the report says that not all was kept.
        clock: Seconds since 1970, by which conversations expire.

    Raises:
        ConfigError: If an option makes no sense; if there is no back end, as in this class itself.

    Example:
        >>> from agentctx.stores import ConversationStore, MemoryStore
        >>> store: ConversationStore = MemoryStore(ttl=3600, max_bytes=10_000_000)
        >>> version = await store.append("thread-42", [{"role": "user", "content": "Hi"}], 0)
        >>> (await store.load("thread-42")).messages
        [{'role': 'user', 'content': 'Hi'}]
        >>> await store.purge("thread-42") > 0
        True
    """

    ttl: float | None = field(default=None, kw_only=True, validator=POSITIVE.or_none)
    max_bytes: float | None = field(default=None, kw_only=True, validator=POSITIVE.or_none)
    cipher: Cipher | None = field(default=None, kw_only=True, repr=False, validator=_CIPHER)
    timeout: float = field(default=5.0, kw_only=True, validator=POSITIVE)
    clock: Callable[[], float] = field(default=time.time, validator=CLOCK, kw_only=True, repr=False)
    _threads: RunVar[anyio.CapacityLimiter] = field(
        init=False, factory=lambda: RunVar("agentctx.stores.threads"), repr=False
    )
    _swept: float = field(init=False, default=-math.inf, repr=False)
    _backend: Backend = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Have a back end, where this is no class that is still to make its own."""
        if type(self) is ConversationStore:
            self.backend  # noqa: B018 - it raises

    @property
    def backend(self) -> Backend:
        """What keeps the bytes; each store makes its own.

        Raises:
            ConfigError: If there is none.
        """
        found: Backend | None = getattr(self, "_backend", None)
        if found is None:
            msg = (
                f"{type(self).__name__} has no back end that keeps anything: use MemoryStore, SQLiteStore, RedisStore "
                "or PostgresStore of agentctx.stores, or set _backend in a class of your own that derives from it"
            )
            raise ConfigError(msg)
        return found

    async def put(self, content: bytes, /) -> str:
        """Keep ``content`` and return its handle: so much of its SHA-256 as no other content shares.

        Raises:
            StoreFull: If it alone is larger than the store may be, or the server has no room.
            StoreUnavailable: If the store does not answer.
            StoreError: If it cannot be encrypted.
        """
        return await self._put(content, None)

    async def get(self, handle: str, /) -> bytes:
        """What was put under ``handle``.

        Raises:
            StoreUnavailable: If the store does not answer.
            StoreError: If there is nothing under it, or it is damaged.
        """
        return await self._get(handle, None)

    async def handles(self) -> list[str]:
        """The handles of all that is kept, oldest first."""
        return await self._handles(None)

    def for_conversation(self, name: str, /) -> _Conversation:
        """The contents as one conversation sees them: it has what was put in by it, and nothing else.

        Args:
            name: The name of the conversation: 1 to 1,000 bytes of UTF-8.

        Raises:
            StoreError: If no conversation can have this name.
        """
        owner_of(name)
        return _Conversation(self, name)

    async def conversations(self) -> list[str | None]:
        """The conversations that have left something out; None among them where something is nobody's."""
        return [each.name for each in await self.stored() if each.contents]

    async def load(self, name: str, /) -> HistorySnapshot:
        """The history of a conversation; of one that was never written an empty one.

        Args:
            name: The name of the conversation: 1 to 1,000 bytes of UTF-8.

        Raises:
            StoreUnavailable: If the store does not answer.
            StoreError: If it is damaged.
        """
        owner, now = owner_of(name), self._now()

        def read(backend: Backend) -> HistorySnapshot:
            version, pieces = backend.read(owner, "history", now)
            return HistorySnapshot([message for _, body in pieces for message in self._messages(body, name)], version)

        return await self._run(read)

    async def append(
        self, name: str, messages: Sequence[Native], version: int | None, /, *, key: str | None = None
    ) -> int:
        """Put messages behind the others, and return the new version: see ``HistoryStore``.

        Args:
            name: The name of the conversation: 1 to 1,000 bytes of UTF-8.
            messages: JSON values; bytes and SDK objects in them are written as such values.
            version: The version that was loaded, 0 for what was never written; None: whatever it is now.
            key: What tells this write from any other of the conversation, so that repeating it stores nothing twice.

        Raises:
            StoreConflict: If it has another version.
            StoreUnavailable: If the store does not answer; repeat it with the same key.
            StoreFull: If it alone is larger than the store may be, or the server has no room.
            StoreError: If a name, or what is given, is nothing that a store can keep.
        """
        check_messages(messages)
        if not messages:
            return (await self.load(name)).version
        return await self._write(name, "history", version, key, put=partial(self._batch, name, messages))

    async def save(
        self, name: str, messages: Sequence[Native], version: int | None, /, *, key: str | None = None
    ) -> int:
        """Put messages in the place of all that are there, and return the new version: see ``HistoryStore``.

        Args:
            name: The name of the conversation: 1 to 1,000 bytes of UTF-8.
            messages: JSON values; bytes and SDK objects in them are written as such values.
            version: The version that was loaded, 0 for what was never written; None: whatever it is now.
            key: What tells this write from any other of the conversation, so that repeating it stores nothing twice.

        Raises:
            StoreConflict: If it has another version.
            StoreUnavailable: If the store does not answer; repeat it with the same key.
            StoreFull: If it alone is larger than the store may be, or the server has no room.
            StoreError: If a name, or what is given, is nothing that a store can keep.
        """
        check_messages(messages)
        put = partial(self._batch, name, messages) if messages else dict
        return await self._write(name, "history", version, key, put=put, drop=None)

    async def clear(self, name: str, version: int | None = None, /, *, key: str | None = None) -> int:
        """Take all messages away, and return the new version: see ``HistoryStore``.

        Args:
            name: The name of the conversation: 1 to 1,000 bytes of UTF-8.
            version: The version that was loaded, 0 for what was never written; None: whatever it is now.
            key: What tells this write from any other of the conversation, so that repeating it stores nothing twice.

        Raises:
            StoreConflict: If it has another version.
            StoreUnavailable: If the store does not answer; repeat it with the same key.
            StoreError: If a name, or what is given, is nothing that a store can keep.
        """
        return await self._write(name, "history", version, key, put=dict, drop=None)

    async def load_state(self, name: str, /) -> StateSnapshot:
        """The state of a session; of one that was never saved no pieces.

        Args:
            name: The name of the conversation: 1 to 1,000 bytes of UTF-8.

        Raises:
            StoreUnavailable: If the store does not answer.
            StoreError: If it is damaged.
        """
        owner, now = owner_of(name), self._now()

        def read(backend: Backend) -> StateSnapshot:
            version, pieces = backend.read(owner, "state", now)
            return StateSnapshot({piece: self._opened(body, name) for piece, body in pieces}, version)

        return await self._run(read)

    async def state_version(self, name: str, /) -> int:
        """The version that the state of a session has: whoever knows it need not load the state.

        Args:
            name: The name of the conversation: 1 to 1,000 bytes of UTF-8.

        Raises:
            StoreUnavailable: If the store does not answer.
        """
        owner, now = owner_of(name), self._now()
        return await self._run(lambda backend: backend.version(owner, "state", now))

    async def save_state(
        self, name: str, changed: Mapping[str, bytes | None], version: int | None, /, *, key: str | None = None
    ) -> int:
        """Keep those pieces that have changed, and return the new version: see ``StateStore``.

        Args:
            name: The name of the conversation: 1 to 1,000 bytes of UTF-8.
            changed: Pieces by name, in bytes, to put in the place of those of the same name; None takes one away.
            version: The version that was loaded, 0 for what was never written; None: whatever it is now.
            key: What tells this write from any other of the conversation, so that repeating it stores nothing twice.

        Raises:
            StoreConflict: If it has another version.
            StoreUnavailable: If the store does not answer; repeat it with the same key.
            StoreFull: If it alone is larger than the store may be, or the server has no room.
            StoreError: If a name, or what is given, is nothing that a store can keep.
        """
        _check_given("what has changed of a state", changed, Mapping, "a mapping of names to bytes")
        for piece, content in changed.items():
            _check_piece(piece, content)
        drop = [piece for piece, content in changed.items() if content is None]

        def put() -> dict[str, bytes]:
            return {piece: self._closed(content, name) for piece, content in changed.items() if content is not None}

        return await self._write(name, "state", version, key, put=put, drop=drop)

    async def stored(self) -> list[Stored]:
        """What is kept of each conversation, and, if there is something, of nobody."""
        now = self._now()
        owned = await self._run(lambda backend: backend.owned(now))
        named = [
            Stored(name, *_sizes(each), each.history, each.state, each.expires if each.expires < math.inf else None)
            for each in owned
            if (name := conversation_of(each.owner)) is not None
        ]
        nobodys = [_sizes(each) for each in owned if conversation_of(each.owner) is None]
        return [*named, Stored(None, *map(sum, zip(*nobodys, strict=True)))] if nobodys else named

    async def purge(self, name: str | None, /) -> int:
        """Take away all that a conversation has: contents that no other has left out, history and state.

        So it is with those of its sub-agents, and of theirs: whatever has a name that begins with this one and a slash,
        such as ``"thread-42/1"``. What is written for it afterwards, as by a session that is still at work, is kept.

        Args:
            name: The conversation; None: the contents that are nobody's.

        Returns:
            How many bytes they had.
        """
        if name is not None:
            owner = owner_of(name)
            return await self._run(lambda backend: backend.purge([owner]))
        now = self._now()
        owned = await self._run(lambda backend: backend.owned(now))
        nobodys = [each.owner for each in owned if conversation_of(each.owner) is None]
        return await self._run(lambda backend: backend.purge(nobodys))

    async def sweep(self) -> int:
        """Take away what has expired, and return how many conversations and contents of nobody that were.

        Writing does that by itself, a hundred at a time and once a minute.
        """
        swept, now = 0, self._now()
        while (some := await self._run(lambda backend: backend.sweep(now, SWEPT))) > 0:
            swept += some
        return swept

    async def aclose(self) -> None:
        """Give back connections and files; used again, the store opens them anew."""
        await self._run(lambda backend: backend.close())

    async def __aenter__(self) -> Self:
        """The store itself."""
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close it."""
        await self.aclose()

    def __bool__(self) -> bool:
        """A store is one even when it is empty."""
        return True

    async def _put(self, content: bytes, conversation: str | None) -> str:
        _check_given("a content", content, (bytes, bytearray, memoryview), "bytes")
        owner, claim = None if conversation is None else owner_of(conversation), self._claim()

        def put(backend: Backend) -> str:
            whole, body = sha256(content).hexdigest(), self._closed(content, conversation or "nobody")
            digest = bytes.fromhex(whole)
            for length in range(_SHORTEST, len(whole) + 1):
                handle = whole[:length]
                whose = evolve(claim, owner=owner or b"n" + handle.encode(), name=conversation or handle)
                if backend.put(whose, handle, digest, body):
                    return handle
            msg = "two contents have one SHA-256"
            raise StoreError(msg)

        return await self._grow(put)

    async def _get(self, handle: str, conversation: str | None) -> bytes:
        owner, now = None if conversation is None else owner_of(conversation), self._now()

        def get(backend: Backend) -> bytes | None:
            body = backend.get(handle, owner, now)
            content = None if body is None else self._opened(body, handle)
            if content is not None and not sha256(content).hexdigest().startswith(handle):
                msg = f"what is kept under handle {handle!r:.200} is damaged: it is not what was put there"
                raise StoreError(msg)
            return content

        known = isinstance(handle, str) and len(handle) >= _SHORTEST and _HEXADECIMAL.issuperset(handle)
        content = await self._run(get) if known else None
        if content is None:
            whose = "" if conversation is None else f" by conversation {conversation!r:.200}"
            msg = f"nothing is kept{whose} under handle {handle!r:.200}"
            raise StoreError(msg)
        return content

    async def _handles(self, conversation: str | None) -> list[str]:
        owner, now = None if conversation is None else owner_of(conversation), self._now()
        return await self._run(lambda backend: backend.handles(owner, now))

    async def _write(
        self,
        name: str,
        kind: Kind,
        version: int | None,
        key: str | None,
        *,
        put: Callable[[], Mapping[str, bytes]],
        drop: Collection[str] | None = (),
    ) -> int:
        _check_version(version)
        claim = self._claim(owner_of(name), name)
        told = _as_bytes("a key", uuid4().hex if key is None else key)  # so that it may be tried twice
        return await self._grow(lambda backend: backend.write(claim, Write(kind, version, told, put(), drop)))

    async def _grow(self, work: Callable[[Backend], T]) -> T:
        """Write; what has expired is taken away now and then, and what is oldest where there is no room."""
        now = self._now()
        if self.ttl is not None and not 0 <= now - self._swept <= min(60.0, self.ttl):  # a clock may be put back
            self._swept = now
            await self._run(lambda backend: backend.sweep(now, SWEPT))
        swept = False
        while True:  # others may fill the store again while room is made: then they have written, and it goes on
            try:
                return await self._run(work)
            except NoRoom as lack:
                claim, grown = lack.claim, lack.grown
                await self._run(lambda backend: backend.make_room(claim, grown))  # noqa: B023 - it is awaited here
            except StoreFull:  # the server's memory, or its disk
                if swept or self.ttl is None or not await self.sweep():
                    raise
                swept = True

    async def _run(self, work: Callable[[Backend], T]) -> T:
        """Let the back end work, in a thread of its own where it may wait; once more where it was not there."""
        backend = self.backend
        if not backend.waits and self.cipher is None:
            return work(backend)
        try:
            with anyio.fail_after(self.timeout), self._understood():
                try:
                    return await self._in_thread(work, backend)
                except StoreUnavailable:  # a connection that was lost while nobody used it, mostly
                    return await self._in_thread(work, backend)
        except TimeoutError:
            msg = f"the {type(self).__name__} did not answer within {self.timeout:g} seconds"
            raise StoreUnavailable(msg) from None

    @contextmanager
    def _understood(self) -> Iterator[None]:
        """What is no answer, or was not written by this library, is an error of the store."""
        try:
            yield
        except AgentctxError:
            raise
        except (TypeError, ValueError, LookupError, ArithmeticError, AttributeError) as error:
            msg = f"the {type(self).__name__} gave something else than was written: {said_by(error)}"
            raise StoreError(msg) from error

    async def _in_thread(self, work: Callable[[Backend], T], backend: Backend) -> T:
        try:
            threads = self._threads.get()
        except LookupError:
            self._threads.set(threads := anyio.CapacityLimiter(CONNECTIONS))
        return await anyio.to_thread.run_sync(work, backend, abandon_on_cancel=True, limiter=threads)

    def _claim(self, owner: bytes = b"", name: str = "") -> Claim:
        now = self._now()
        expires = math.inf if self.ttl is None else now + self.ttl
        return Claim(owner, name, now, expires, math.inf if self.max_bytes is None else self.max_bytes)

    def _now(self) -> float:
        return time_of(self.clock, type(self).__name__)

    def _batch(self, name: str, messages: Sequence[Native]) -> dict[str, bytes]:
        """Messages as one piece of a history; it has a name of its own, and stands behind those of earlier versions."""
        try:
            plain = [to_json(message, f"messages[{place}]") for place, message in enumerate(messages)]
            content = json.dumps(plain, ensure_ascii=False).encode("utf-8", "surrogatepass")
        except RecursionError as error:
            msg = f"messages of conversation {name!r:.200} are nested too deep, or contain themselves"
            raise StoreError(msg) from error
        except (TypeError, ValueError) as error:
            msg = f"messages of conversation {name!r:.200} cannot be written as JSON: {error}"
            raise StoreError(msg) from error
        return {uuid4().hex: self._closed(content, name)}

    def _messages(self, body: bytes, name: str) -> list[Native]:
        try:
            told = json.loads(self._opened(body, name).decode("utf-8", "surrogatepass"))
            return [from_json(each) for each in told]
        except (TypeError, ValueError, RecursionError) as error:
            msg = f"the history of conversation {name!r:.200} is damaged: {error}"
            raise StoreError(msg) from error

    def _closed(self, content: bytes, whose: str) -> bytes:
        """What is kept for a content: whether it is encrypted, and it."""
        if self.cipher is None:
            return _PLAIN + content
        return _ENCRYPTED + self._ciphered("encrypt", _marked(content), f"to be kept for {whose!r:.200}")

    def _opened(self, body: bytes, where: str) -> bytes:
        if body[:1] == _PLAIN:
            return body[1:]
        said = f"kept for {where!r:.200}"
        if body[:1] != _ENCRYPTED or self.cipher is None:
            why = "it is encrypted: pass the cipher" if body[:1] == _ENCRYPTED else "it was not written by this library"
            msg = f"what is {said} cannot be read: {why}"
            raise StoreError(msg)
        content = self._ciphered("decrypt", body[1:], said)
        if content[:_MARKED] != _marked(content[_MARKED:])[:_MARKED]:
            msg = (
                f"what is {said} cannot be decrypted: {type(self.cipher).__name__} gave other bytes, as by another key"
            )
            raise StoreError(msg)
        return content[_MARKED:]

    def _ciphered(self, how: Literal["encrypt", "decrypt"], content: bytes, said: str) -> bytes:
        """What the user's cipher makes of a content.

        Raises:
            StoreError: If it raises, or makes no bytes of it.
        """
        cipher = type(self.cipher).__name__
        try:
            made: object = getattr(self.cipher, how)(content)
        except FAILURES as error:
            msg = f"what is {said} cannot be {how}ed: {cipher} raised {described(error):.200}"
            raise StoreError(msg) from error
        if not isinstance(made, (bytes, bytearray)):
            msg = f"what is {said} cannot be {how}ed: {cipher} gave {type(made).__name__}, and no bytes"
            raise StoreError(msg)
        return bytes(made)


_PLAIN, _ENCRYPTED = b"\0", b"\1"
"""How what is kept begins: as it is; encrypted together with a mark and its length."""

_MARK = b"actx"
_MARKED = len(_MARK) + 8


def _marked(content: bytes) -> bytes:
    return _MARK + len(content).to_bytes(8, "big") + content


@frozen
class _Conversation:
    """The contents of one conversation, in a store that others use too."""

    store: ConversationStore
    name: str

    async def put(self, content: bytes, /) -> str:
        """Keep ``content`` for the conversation and return its handle."""
        return await self.store._put(content, self.name)  # noqa: SLF001 - a part of the store

    async def get(self, handle: str, /) -> bytes:
        """What the conversation has put under ``handle``.

        Raises:
            StoreError: If it has put nothing under it.
        """
        return await self.store._get(handle, self.name)  # noqa: SLF001 - a part of the store

    async def handles(self) -> list[str]:
        """The handles of what the conversation has left out, oldest first."""
        return await self.store._handles(self.name)  # noqa: SLF001 - a part of the store


CONNECTIONS = 8
"""So many threads of an event loop may be at work for a store, each with a connection of its own."""


@define(eq=False)
class Places:
    """Bounds how many threads of one process are at work for a store at the same time.

    A thread whose caller has given up keeps its place until its call ends: without a bound, each such call would hold
    one more connection to a server that does not answer.

    Args:
        timeout: Seconds that a thread waits for a place.
    """

    timeout: float
    _free: Semaphore = field(init=False, factory=lambda: Semaphore(CONNECTIONS), repr=False)
    _process: int = field(init=False, factory=os.getpid, repr=False)

    @contextmanager
    def one(self) -> Iterator[None]:
        """Have one of the places.

        Raises:
            StoreUnavailable: If all places are taken for too long.
        """
        if self._process != os.getpid():  # a fork: the threads of the other process hold its places, not these
            self._process, self._free = os.getpid(), Semaphore(CONNECTIONS)
        free = self._free
        if not free.acquire(timeout=self.timeout):
            msg = f"all {CONNECTIONS} connections are in use"
            raise StoreUnavailable(msg)
        try:
            yield
        finally:
            free.release()


@define(eq=False)
class Connections(Generic[C]):
    """Connections of one process: those that are free are used again; one that failed is not.

    Args:
        make: Makes one.
        close: Closes one.
        timeout: Seconds that a thread waits until one of the connections is free.
    """

    make: Callable[[], C]
    close: Callable[[C], None]
    timeout: float
    _free: list[C] = field(init=False, factory=list, repr=False)
    _places: Places = field(init=False, repr=False)
    _guard: Lock = field(init=False, factory=Lock, repr=False)
    _writing: Lock = field(init=False, factory=Lock, repr=False)
    _process: int = field(init=False, factory=os.getpid, repr=False)

    def __attrs_post_init__(self) -> None:
        """Make no connection yet."""
        self._places = Places(self.timeout)

    @contextmanager
    def one(self) -> Iterator[C]:
        """A connection that nobody else has meanwhile: free again afterwards, or closed where it was lost.

        Raises:
            StoreUnavailable: If all are in use for too long.
        """
        with self._places.one():
            free = self._of_this_process()
            with self._guard:
                connection = free.pop() if free else None
            connection = self.make() if connection is None else connection
            try:
                yield connection
            except StoreUnavailable:
                self.close(connection)
                self.drop()  # the others are lost with it, mostly
                raise
            except StoreError:
                self._give_back(connection, free)
                raise
            except BaseException:
                self.close(connection)
                raise
            self._give_back(connection, free)

    def _give_back(self, connection: C, free: list[C]) -> None:
        with self._guard:
            if len(free) < CONNECTIONS:
                free.append(connection)
                return
        self.close(connection)

    def drop(self) -> None:
        """Close those that are free."""
        free = self._of_this_process()
        with self._guard:
            dropped = free[:]
            free.clear()
        for each in dropped:
            self.close(each)

    def _of_this_process(self) -> list[C]:
        """The free ones; those of a process that this one was forked from are its own, and are left to it."""
        if self._process != os.getpid():
            self._process, self._free, self._guard, self._writing = os.getpid(), [], Lock(), Lock()
        return self._free

    @property
    def writing(self) -> Lock:
        """Held by the one of this process that writes, where one at a time may."""
        self._of_this_process()
        return self._writing

    def __del__(self) -> None:
        """Close those that are free."""
        if self._process == os.getpid():
            for each in self._free:
                self.close(each)


def owner_of(name: str) -> bytes:
    """A conversation as an owner.

    Raises:
        StoreError: If it has no name that a store can keep.
    """
    return b"c" + _as_bytes("the name of a conversation", name)


def span_below(owner: bytes) -> tuple[bytes, bytes]:
    """The owners below one, as ``thread/1`` is below ``thread``: their names sort from the first of these on.

    None of them sorts as high as the second.
    """
    return owner + b"/", owner + b"0"  # which follows the slash


def is_below(name: str | None, above: str | None) -> bool:
    """Whether a conversation is one of a sub-agent of another, or of a sub-agent of that.

    Args:
        name: The conversation; None: nobody's contents.
        above: The other.
    """
    return name is not None and above is not None and name.startswith(f"{above}/")


def _as_bytes(what: str, text: str) -> bytes:
    given = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else b""
    if not 0 < len(given) <= LONGEST:
        size = f"{len(given):,} bytes: " if len(given) > LONGEST else ""
        msg = f"{what} is a text of 1 to {LONGEST:,} bytes, got {size}{text!r:.80}"
        raise StoreError(msg)
    return given


def _check_version(version: object) -> None:
    """Refuse what no store has ever given as a version.

    Raises:
        StoreError: If it is no number, or none of 64 bits.
    """
    if version is not None and (type(version) is not int or not -(2**63) <= version < 2**63):
        msg = f"a version is the number that was loaded, 0 or None; got {version!r:.80}"
        raise StoreError(msg)


def check_messages(messages: object) -> None:
    """Refuse one message, or a text, in the place of a list of messages: it would be taken apart.

    Raises:
        StoreError: If it is that, or nothing that has messages.
    """
    _check_given("what is written to a history", messages, Iterable, "a list of messages", but=(str, bytes, Mapping))


def _check_given(
    what: str, value: object, kind: type | tuple[type, ...], named: str, *, but: tuple[type, ...] = ()
) -> None:
    if not isinstance(value, kind) or isinstance(value, but):
        msg = f"{what} is {named}; got {type(value).__name__}"
        raise StoreError(msg)


def _check_piece(name: object, content: object) -> None:
    """Refuse a piece of a state that not every back end can keep.

    Raises:
        StoreError: If it has no name, or one that is no text of Unicode without NUL, or no bytes.
    """
    try:
        size = len(name.encode()) if isinstance(name, str) and "\0" not in name else 0
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= LONGEST:
        msg = (
            f"the name of a piece is a text of 1 to {LONGEST:,} bytes without NUL and lone surrogates, got {name!r:.80}"
        )
        raise StoreError(msg)
    if content is not None and not isinstance(content, bytes):
        msg = f"piece {name!r:.200} is bytes, or None where it is to be taken away; got {type(content).__name__}"
        raise StoreError(msg)


def conversation_of(owner: bytes) -> str | None:
    """The conversation that an owner is; None: it is a content that is nobody's."""
    return owner[1:].decode("utf-8", "surrogatepass") if owner[:1] == b"c" else None


def _sizes(owned: Owned) -> tuple[int, int]:
    return owned.bytes, owned.contents
