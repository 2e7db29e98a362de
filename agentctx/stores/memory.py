"""A store in memory: for tests, and for processes that keep nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import count
from threading import Lock

from attrs import define, field

from agentctx.errors import StoreConflict
from agentctx.stores.store import (
    REMEMBERED,
    Claim,
    ConversationStore,
    Kind,
    NoRoom,
    Owned,
    Write,
    conversation_of,
    span_below,
)


@define(eq=False)
class MemoryStore(ConversationStore):
    """Keeps all in memory; for tests, and for processes that keep nothing.

    It knows which conversation has left out what: a session puts its contents in by ``for_conversation``. What two
    have left out is kept once.

    Args:
        ttl: Seconds after the last write for a conversation after which all of it is taken away; None: never.
        max_bytes: The most bytes that the store keeps; what is oldest goes first.
        cipher: Encrypts contents, messages and states.
        timeout: Seconds that one call may take.
        clock: Tells seconds since 1970, by which conversations expire.

    Raises:
        ConfigError: If an option makes no sense.

    Example:
        >>> from agentctx.stores import MemoryStore
        >>> store = MemoryStore()
        >>> await store.get(await store.put(b"a long log"))
        b'a long log'
        >>> handle = await store.for_conversation("thread-42").put(b"another log")
        >>> await store.for_conversation("thread-42").handles() == [handle]
        True
        >>> await store.for_conversation("thread-43").handles()
        []
    """

    _backend: _Memory = field(init=False, factory=lambda: _Memory(), repr=False)  # noqa: PLW0108 - it is below

    def __len__(self) -> int:
        """How many contents are kept."""
        return len(self._backend.contents)


@define(eq=False)
class _Document:
    """A document: its version, its pieces with the version and the place at which each was put, and the keys."""

    version: int
    pieces: dict[str, tuple[int, int, bytes]] = field(factory=dict)
    keys: dict[bytes, int] = field(factory=dict)


@define(eq=False)
class _Owner:
    """What an owner has: contents by handle, in order, and documents."""

    expires: float = math.inf
    written: float = 0.0
    bytes: int = 0
    handles: dict[str, int] = field(factory=dict)
    documents: dict[Kind, _Document] = field(factory=dict)

    def version(self, kind: Kind) -> int | None:
        """The version of a document; None where it has none."""
        document = self.documents.get(kind)
        return None if document is None else document.version


@define(eq=False)
class _Memory:
    """A back end in dictionaries.

    Args:
        contents: Digest and body, by handle.
        owners: By name.
    """

    waits = False
    contents: dict[str, tuple[bytes, bytes]] = field(init=False, factory=dict)
    owners: dict[bytes, _Owner] = field(init=False, factory=dict)
    _having: dict[str, set[bytes]] = field(init=False, factory=dict)
    _floor: int = field(init=False, default=0)
    _order: count[int] = field(init=False, factory=count)
    _guard: Lock = field(init=False, factory=Lock)

    def put(self, claim: Claim, handle: str, digest: bytes, body: bytes) -> bool:
        with self._guard:
            known = self.contents.get(handle)
            if known is not None and known[0] != digest:
                return False
            owner = self._owner(claim)
            if handle not in owner.handles:
                self._check(claim, len(body))
                owner.handles[handle] = next(self._order)
                owner.bytes += len(body)
            self._having.setdefault(handle, set()).add(claim.owner)
            self.contents.setdefault(handle, (digest, body))
            self._keep(claim, owner)
            return True

    def get(self, handle: str, owner: bytes | None, now: float) -> bytes | None:
        with self._guard:
            having = self._having.get(handle, set())
            alive = any(map(self._alive(now), having)) if owner is None else owner in having and self._alive(now)(owner)
            return self.contents[handle][1] if alive else None

    def handles(self, owner: bytes | None, now: float) -> list[str]:
        with self._guard:
            alive = filter(self._alive(now), self.owners) if owner is None else [owner] * self._alive(now)(owner)
            numbered = [(number, handle) for each in alive for handle, number in self.owners[each].handles.items()]
        return list(dict.fromkeys(handle for _, handle in sorted(numbered)))

    def version(self, owner: bytes, kind: Kind, now: float) -> int:
        return self.read(owner, kind, now)[0]

    def read(self, owner: bytes, kind: Kind, now: float) -> tuple[int, list[tuple[str, bytes]]]:
        with self._guard:
            known = self.owners.get(owner)
            document = None if known is None else known.documents.get(kind)
            if document is None or not self._alive(now)(owner):
                return 0, []
            pieces = sorted((*place, piece) for piece, place in document.pieces.items())
            return document.version, [(piece, body) for _, _, body, piece in pieces]

    def write(self, claim: Claim, write: Write) -> int:
        with self._guard:
            owner = self._owner(claim)
            known = owner.documents.get(write.kind)
            document = _Document(self._floor) if known is None else known
            if write.key in document.keys:
                return document.keys[write.key]
            before = 0 if known is None else known.version
            if write.version is not None and write.version != before:
                raise StoreConflict(claim.name, before)
            gone = {*write.put, *(document.pieces if write.drop is None else write.drop)}
            left = {piece: document.pieces[piece] for piece in gone if piece in document.pieces}
            version = write.after(document.version)
            added = {piece: (version, next(self._order), body) for piece, body in write.put.items()}
            grown = _size(added) - _size(left)
            self._check(claim, grown)
            document.version = version
            for piece in left:
                del document.pieces[piece]
            document.pieces |= added
            document.keys[write.key] = document.version
            if len(document.keys) > REMEMBERED:
                del document.keys[next(iter(document.keys))]
            owner.documents[write.kind] = document
            owner.bytes += grown
            self._keep(claim, owner)
            return document.version

    def make_room(self, claim: Claim, grown: int) -> None:
        with self._guard:
            owner = self._owner(claim)
            sizes = {handle: len(self.contents[handle][1]) for handle in owner.handles}
            claim.check_alone(owner.bytes - sum(sizes.values()) + grown)
            over = self._size() + grown - claim.most
            for _, name in sorted((each.written, name) for name, each in self.owners.items() if name != claim.owner):
                if over <= 0:
                    return
                over -= self._remove(name)
            for handle, size in sizes.items():
                if over <= 0:
                    return
                del owner.handles[handle]
                self._forget(claim.owner, handle)
                owner.bytes -= size
                over -= size

    def owned(self, now: float) -> list[Owned]:
        with self._guard:
            return [
                Owned(name, each.bytes, len(each.handles), each.version("history"), each.version("state"), each.expires)
                for name, each in self.owners.items()
                if each.expires > now
            ]

    def purge(self, owners: Sequence[bytes]) -> int:
        spans = [span_below(owner) for owner in owners if conversation_of(owner) is not None]
        with self._guard:
            below = [name for name in self.owners if any(first <= name < end for first, end in spans)]
            return sum(map(self._remove, (*owners, *below)))

    def sweep(self, now: float, most: int) -> int:
        with self._guard:
            expired = [name for name, each in self.owners.items() if each.expires <= now][:most]
            for name in expired:
                self._remove(name)
            return len(expired)

    def close(self) -> None:
        pass

    def _alive(self, now: float) -> Callable[[bytes], bool]:
        return lambda owner: owner in self.owners and self.owners[owner].expires > now

    def _owner(self, claim: Claim) -> _Owner:
        """The owner to write for; one that has expired begins anew."""
        known = self.owners.get(claim.owner)
        if known is not None and known.expires <= claim.now:
            self._remove(claim.owner)
        return self.owners.get(claim.owner) or _Owner()

    def _keep(self, claim: Claim, owner: _Owner) -> None:
        self.owners[claim.owner], owner.expires, owner.written = owner, claim.expires, claim.now

    def _check(self, claim: Claim, grown: int) -> None:
        if grown > 0 and claim.most < math.inf and self._size() + grown > claim.most:
            raise NoRoom(claim, grown)

    def _size(self) -> int:
        return sum(each.bytes for each in self.owners.values())

    def _remove(self, name: bytes) -> int:
        owner = self.owners.pop(name, None)
        if owner is None:
            return 0
        versions = [document.version + 1 for document in owner.documents.values()]
        self._floor = max([self._floor, *versions])
        for handle in owner.handles:
            self._forget(name, handle)
        return owner.bytes

    def _forget(self, name: bytes, handle: str) -> None:
        self._having[handle].discard(name)
        if not self._having[handle]:
            del self._having[handle], self.contents[handle]


def _size(pieces: dict[str, tuple[int, int, bytes]]) -> int:
    return sum(len(body) for _, _, body in pieces.values())
