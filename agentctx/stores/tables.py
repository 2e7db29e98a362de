"""A store in tables: what SQLite and PostgreSQL do, each function within one transaction."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from attrs import define, frozen

from agentctx.errors import StoreConflict, StoreError
from agentctx.stores.store import REMEMBERED, Claim, Kind, NoRoom, Owned, Write, span_below

T = TypeVar("T")
Rows = list[tuple[Any, ...]]

SCHEMA = """
CREATE TABLE numbers (name TEXT PRIMARY KEY, value BIGINT NOT NULL);
INSERT INTO numbers VALUES ('floor', 0);
CREATE TABLE owners (
    id {identity}, name {bytes} NOT NULL UNIQUE, size BIGINT NOT NULL, expires DOUBLE PRECISION,
    written DOUBLE PRECISION NOT NULL DEFAULT 0
);
CREATE INDEX owners_expires ON owners (expires);
CREATE TABLE contents (handle TEXT PRIMARY KEY, digest {bytes} NOT NULL, body {bytes} NOT NULL);
CREATE TABLE refs (
    id {identity}, owner BIGINT NOT NULL REFERENCES owners, handle TEXT NOT NULL REFERENCES contents,
    UNIQUE (owner, handle)
);
CREATE INDEX refs_handle ON refs (handle);
CREATE TABLE documents (
    owner BIGINT NOT NULL REFERENCES owners, kind TEXT NOT NULL, version BIGINT NOT NULL, PRIMARY KEY (owner, kind)
);
CREATE TABLE pieces (
    owner BIGINT NOT NULL REFERENCES owners, kind TEXT NOT NULL, piece TEXT NOT NULL, version BIGINT NOT NULL,
    place BIGINT NOT NULL, body {bytes} NOT NULL, PRIMARY KEY (owner, kind, piece)
);
CREATE TABLE keys (
    owner BIGINT NOT NULL REFERENCES owners, kind TEXT NOT NULL, key {bytes} NOT NULL, version BIGINT NOT NULL,
    PRIMARY KEY (owner, kind, key)
);
"""
"""The tables of a store."""

VERSION = 1
"""The version of the tables, and of what PostgreSQL has of functions."""


def check_schema(version: int, where: str) -> None:
    """Refuse a store of a version that is not known.

    Raises:
        StoreError: If another release has written it; 0 is a store that is still to be made.
    """
    if version not in (0, VERSION):
        msg = f"{where} has version {version} of the schema; this release knows {VERSION}: use another release"
        raise StoreError(msg)


class Taken(Exception):
    """Another content has this handle."""


class Run(Protocol):
    """Runs one statement within the transaction, and gives its rows. A place for a value is a question mark."""

    def __call__(self, statement: str, /, *values: object) -> Rows:
        """The rows."""
        ...


@frozen
class Tables:
    """The tables within one transaction.

    ``put`` and ``write`` are SQLite's, which lets one write at a time; PostgreSQL has them as functions of its own.

    Args:
        run: Runs a statement.
        lock: What a SELECT ends with that is to lock its rows.
        lock_contents: Keeps others from writing contents to the end of the transaction.
    """

    run: Run
    lock: str = ""
    lock_contents: Callable[[], object] = lambda: None

    def put(self, claim: Claim, handle: str, digest: bytes, body: bytes) -> None:
        owner = self._owner(claim)
        self.run("INSERT INTO contents VALUES (?, ?, ?) ON CONFLICT (handle) DO NOTHING", handle, digest, body)
        if self.run("SELECT digest FROM contents WHERE handle = ?", handle) != [(digest,)]:
            raise Taken
        added = self.run(
            "INSERT INTO refs (owner, handle) VALUES (?, ?) ON CONFLICT DO NOTHING RETURNING id", owner.id, handle
        )
        self._keep(claim, owner, len(body) if added else 0)

    def get(self, handle: str, owner: bytes | None, now: float) -> bytes | None:
        rows = self.run(
            "SELECT body FROM contents WHERE handle = ? AND EXISTS ("
            "SELECT 1 FROM refs JOIN owners ON owners.id = owner "
            f"WHERE refs.handle = contents.handle AND {_ALIVE} AND {_OF[owner is None]})",
            *(handle, now, owner or b""),
        )
        return rows[0][0] if rows else None

    def handles(self, owner: bytes | None, now: float) -> list[str]:
        rows = self.run(
            f"SELECT handle, min(refs.id) FROM refs JOIN owners ON owners.id = owner "
            f"WHERE {_ALIVE} AND {_OF[owner is None]} GROUP BY handle ORDER BY 2",
            *(now, owner or b""),
        )
        return [handle for handle, _ in rows]

    def version(self, owner: bytes, kind: Kind, now: float) -> tuple[int, bool]:
        """A document's version, and whether it is there."""
        rows = self.run(
            "SELECT version, expires FROM owners LEFT JOIN documents ON owner = owners.id AND kind = ? WHERE name = ?",
            *(kind, owner),
        )
        if not rows or rows[0][0] is None:
            return 0, False
        version, expires = rows[0]
        if expires is not None and expires <= now:
            return 0, False
        return version, True

    def read(self, owner: bytes, kind: Kind, now: float) -> tuple[int, list[tuple[str, bytes]]]:
        version, there = self.version(owner, kind, now)
        if not there:
            return version, []
        pieces = self.run(
            "SELECT piece, body FROM pieces WHERE owner = (SELECT id FROM owners WHERE name = ?) AND kind = ? "
            "ORDER BY version, place",
            *(owner, kind),
        )
        return version, pieces

    def write(self, claim: Claim, write: Write) -> int:
        kind = write.kind
        found = self.run(_BEFORE, kind, write.key, kind, claim.owner, claim.now)
        if found:
            id_, size, done, known, floor = found[0]
            owner = _Owner(id_, size)
        else:
            owner, done, known, floor = self._owner(claim), None, None, self._floor()
        if done is not None:
            return int(done)
        mine = owner.id, kind
        if write.version is not None and write.version != (known or 0):
            raise StoreConflict(claim.name, known or 0)
        version = write.after(int(floor if known is None else known))
        grown = -self._drop(mine, write)
        rows = [(*mine, piece, version, at, body) for at, (piece, body) in enumerate(write.put.items())]
        for start in range(0, len(rows), _AT_ONCE):
            some = rows[start : start + _AT_ONCE]
            places = ", ".join(["(?, ?, ?, ?, ?, ?)"] * len(some))
            self.run(f"INSERT INTO pieces VALUES {places}{_REPLACE}", *[value for row in some for value in row])
        grown += sum(map(len, write.put.values()))
        self.run(
            "INSERT INTO documents VALUES (?, ?, ?) ON CONFLICT (owner, kind) DO UPDATE SET version = excluded.version",
            *(*mine, version),
        )
        self.run("INSERT INTO keys VALUES (?, ?, ?, ?)", *mine, write.key, version)
        if version % (REMEMBERED // 10) == 0:  # of about a hundred writes one
            self.run(_FORGET, *mine, *mine)
        self._keep(claim, owner, grown)
        return version

    def make_room(self, claim: Claim, grown: int) -> None:
        rows = self.alive(claim)
        owner, size = rows[0][:2] if rows else (0, 0)
        mine = self.run(
            "SELECT handle, length(body) FROM refs JOIN contents USING (handle) WHERE owner = ? ORDER BY refs.id", owner
        )
        claim.check_alone(size - sum(length for _, length in mine) + grown)
        over = self._size() + grown - claim.most
        skip = f"{self.lock} SKIP LOCKED" if self.lock else ""
        oldest = f"SELECT id, size FROM owners WHERE name <> ? ORDER BY written, name LIMIT ?{skip}"
        while over > 0 and (others := self.run(oldest, claim.owner, _AT_ONCE)):
            for other, length in others:
                if over > 0:
                    self._remove([other])
                    over -= length
        for handle, length in mine:
            if over > 0:
                self.lock_contents()
                self.run("DELETE FROM refs WHERE owner = ? AND handle = ?", owner, handle)
                self.run(_FORGET_CONTENT, handle, handle)
                self.run("UPDATE owners SET size = size - ? WHERE id = ?", length, owner)
                over -= length

    def owned(self, now: float) -> list[Owned]:
        rows = self.run(
            "SELECT name, size, (SELECT count(*) FROM refs WHERE owner = owners.id), "
            "(SELECT version FROM documents WHERE owner = owners.id AND kind = 'history'), "
            "(SELECT version FROM documents WHERE owner = owners.id AND kind = 'state'), expires "
            f"FROM owners WHERE {_ALIVE} ORDER BY owners.id",
            now,
        )
        return [
            Owned(bytes(name), size, contents, history, state, math.inf if until is None else float(until))
            for name, size, contents, history, state, until in rows
        ]

    def purge(self, owners: Sequence[bytes]) -> int:
        rows = [row for name in sorted(owners) for row in self.run(_WITH_BELOW + self.lock, name, *span_below(name))]
        self._remove([row[0] for row in rows])
        return sum(row[1] for row in rows)

    def sweep(self, now: float, most: int) -> int:
        skip = f"{self.lock} SKIP LOCKED" if self.lock else ""
        rows = self.run(f"SELECT id FROM owners WHERE expires <= ? LIMIT ?{skip}", now, most)
        self._remove([row[0] for row in rows])
        return len(rows)

    def _floor(self) -> int:
        return int(self.run("SELECT value FROM numbers WHERE name = 'floor'")[0][0])

    def _owner(self, claim: Claim) -> _Owner:
        """The owner to write for; one that has expired begins anew."""
        rows = self.alive(claim) or self.run(
            "INSERT INTO owners (name, size) VALUES (?, 0) RETURNING id, size", claim.owner
        )
        return _Owner(rows[0][0], rows[0][1])

    def alive(self, claim: Claim) -> Rows:
        """The row of an owner that has not expired, locked; one that has is taken away."""
        rows = self.run(_OWNER + self.lock, claim.owner)
        if rows and rows[0][2] is not None and rows[0][2] <= claim.now:
            self._remove([rows[0][0]])
            return []
        return rows

    def _drop(self, mine: tuple[int, Kind], write: Write) -> int:
        """Take pieces away, and tell their bytes, and those of the pieces that are written over."""
        if write.drop is None:
            return sum(size for (size,) in self.run(f"DELETE FROM pieces{_MINE} RETURNING length(body)", *mine))
        gone = 0
        for statement, pieces in ((_SIZES, list(write.put)), (_DELETE, list(write.drop))):
            for start in range(0, len(pieces), _AT_ONCE):
                some = pieces[start : start + _AT_ONCE]
                rows = self.run(statement.format(", ".join("?" * len(some))), *mine, *some)
                gone += sum([size for (size,) in rows])
        return gone

    def _keep(self, claim: Claim, owner: _Owner, grown: int) -> None:
        """Write down how large the owner is now, and until when it is kept."""
        if grown > 0 and claim.most < math.inf and self._size() + grown > claim.most:
            raise NoRoom(claim, grown)
        expires = None if claim.expires == math.inf else claim.expires
        self.run(
            "UPDATE owners SET size = size + ?, expires = ?, written = ? WHERE id = ?",
            *(grown, expires, claim.now, owner.id),
        )

    def _size(self) -> int:
        return int(self.run("SELECT sum(size) FROM owners")[0][0] or 0)

    def _remove(self, owners: Sequence[int]) -> None:
        """Take owners away that are locked, and the contents that nobody has then."""
        if owners:
            self.lock_contents()
        for owner in owners:
            last = self.run("SELECT max(version) FROM documents WHERE owner = ?", owner)[0][0]
            if last is not None:
                self.run("UPDATE numbers SET value = ? WHERE name = 'floor' AND value <= ?", last + 1, last)
            handles = self.run("DELETE FROM refs WHERE owner = ? RETURNING handle", owner)
            for (handle,) in handles:
                self.run(_FORGET_CONTENT, handle, handle)
            for table in ("pieces", "keys", "documents"):
                self.run(f"DELETE FROM {table} WHERE owner = ?", owner)
            self.run("DELETE FROM owners WHERE id = ?", owner)


@define(eq=False)
class InTables:
    """A back end in tables: each function as one transaction."""

    waits = True

    def reading(self, work: Callable[[Tables], T]) -> T:
        """Do work that reads all of it as it was at one moment."""
        raise NotImplementedError

    def writing(self, work: Callable[[Tables], T]) -> T:
        """Do work that writes: all of it, or nothing where it raises."""
        raise NotImplementedError

    def put(self, claim: Claim, handle: str, digest: bytes, body: bytes) -> bool:
        try:
            self.writing(lambda tables: tables.put(claim, handle, digest, body))
        except Taken:
            return False
        return True

    def get(self, handle: str, owner: bytes | None, now: float) -> bytes | None:
        return self.reading(lambda tables: tables.get(handle, owner, now))

    def handles(self, owner: bytes | None, now: float) -> list[str]:
        return self.reading(lambda tables: tables.handles(owner, now))

    def read(self, owner: bytes, kind: Kind, now: float) -> tuple[int, list[tuple[str, bytes]]]:
        return self.reading(lambda tables: tables.read(owner, kind, now))

    def version(self, owner: bytes, kind: Kind, now: float) -> int:
        return self.reading(lambda tables: tables.version(owner, kind, now)[0])

    def write(self, claim: Claim, write: Write) -> int:
        return self.writing(lambda tables: tables.write(claim, write))

    def make_room(self, claim: Claim, grown: int) -> None:
        self.writing(lambda tables: tables.make_room(claim, grown))

    def owned(self, now: float) -> list[Owned]:
        return self.reading(lambda tables: tables.owned(now))

    def purge(self, owners: Sequence[bytes]) -> int:
        return self.writing(lambda tables: tables.purge(owners))

    def sweep(self, now: float, most: int) -> int:
        return self.writing(lambda tables: tables.sweep(now, most))


@define
class _Owner:
    """An owner in the tables."""

    id: int
    size: int


_AT_ONCE = 100
"""So many pieces are written with one statement."""

_MINE = " WHERE owner = ? AND kind = ?"
_SIZES = f"SELECT length(body) FROM pieces{_MINE} AND piece IN ({{}})"
_DELETE = f"DELETE FROM pieces{_MINE} AND piece IN ({{}}) RETURNING length(body)"
_REPLACE = (
    " ON CONFLICT (owner, kind, piece) DO UPDATE SET version = excluded.version, place = excluded.place, "
    "body = excluded.body"
)
_OWNER = "SELECT id, size, expires FROM owners WHERE name = ?"
_WITH_BELOW = f"{_OWNER} OR (name >= ? AND name < ?) ORDER BY name"
_BEFORE = (
    "SELECT id, size, (SELECT version FROM keys WHERE owner = owners.id AND kind = ? AND key = ?), "
    "(SELECT version FROM documents WHERE owner = owners.id AND kind = ?), "
    "(SELECT value FROM numbers WHERE name = 'floor') "
    "FROM owners WHERE name = ? AND (expires IS NULL OR expires > ?)"
)
_FORGET = (
    "DELETE FROM keys WHERE owner = ? AND kind = ? AND version <= ("
    "SELECT version FROM keys WHERE owner = ? AND kind = ? "
    f"ORDER BY version DESC LIMIT 1 OFFSET {REMEMBERED})"
)
_FORGET_CONTENT = "DELETE FROM contents WHERE handle = ? AND NOT EXISTS (SELECT 1 FROM refs WHERE handle = ?)"
_ALIVE = "(expires IS NULL OR expires > ?)"
_OF = {False: "owners.name = ?", True: "? IS NOT NULL"}
