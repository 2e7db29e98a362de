"""A store in one file: SQLite, which Python brings along; for many processes of one machine."""

from __future__ import annotations

import logging
import os
import sqlite3
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import TypeVar
from weakref import WeakSet

from attrs import define, field

from agentctx.errors import StoreError, StoreFull, StoreUnavailable
from agentctx.stores.store import Connections, ConversationStore
from agentctx.stores.tables import SCHEMA, VERSION, InTables, Rows, Tables, check_schema
from agentctx.validators import must_be, one_of

T = TypeVar("T")

logger = logging.getLogger("agentctx")

_BUSY = frozenset({sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL, sqlite3.SQLITE_INTERRUPT})
_FULL = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_TOOBIG})


def _path(value: str | os.PathLike[str]) -> Path:
    try:
        if b"\0" not in os.fsencode(value):
            return Path(value).expanduser().absolute()
    except (TypeError, ValueError):
        pass
    raise must_be("SQLiteStore.path", "a text or a Path that names a file", value)


@define(eq=False)
class SQLiteStore(ConversationStore):
    """Keeps all in one file, for any number of processes of this machine.

    The file and those beside it are readable by their owner only (0600), also where the file was there before and
    others could read it (the log says so; of a file that is another user's it says that they can), and so is a folder
    that is made for it (0700). What was written is there after a crash of the process, also one in the middle of a
    write; with ``synchronous="FULL"`` also after a loss of power. The file is on a disk of this machine, not of
    another. A file that is deleted or replaced is noticed at the next call, logged, and opened anew. A process that
    forks closes the file before, and both sides open it anew; where another thread is at a call meanwhile, the new
    process cannot use the file, and says so. A copy is put in its place with ``mv``, after its ``-wal`` and ``-shm``
    were taken away, and never with ``cp``: that writes into the file that others have open.

    Args:
        path: The file; it is made where it is not there.
        synchronous: How a write is made safe: ``"NORMAL"`` or ``"FULL"``, as SQLite calls them.
        create: Whether a store is made where there is none; without it, that is a ``StoreError``.
        ttl: Seconds after the last write for a conversation after which all of it is taken away; None: never.
        max_bytes: The most bytes that the store keeps; what is oldest goes first.
        cipher: Encrypts contents, messages and states.
        timeout: Seconds that one call may take.
        clock: Tells seconds since 1970, by which conversations expire.

    Raises:
        ConfigError: If an option makes no sense.

    Example:
        >>> from tempfile import mkdtemp
        >>> from agentctx.stores import SQLiteStore
        >>> async with SQLiteStore(f"{mkdtemp()}/agents/context.db", ttl=30 * 24 * 3600) as store:
        ...     await store.get(await store.put(b"a long log"))
        b'a long log'
    """

    path: Path = field(converter=_path)
    synchronous: str = field(default="NORMAL", validator=one_of(("NORMAL", "FULL")), kw_only=True)
    create: bool = field(default=True, kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Nothing is opened yet."""
        self._backend = _File(self.path, self.timeout, self.synchronous, self.create)


@define(eq=False)
class _File(InTables):
    """A back end in one file; its options are those of the store."""

    path: Path
    timeout: float
    synchronous: str
    create: bool
    _connections: Connections[_Connection] = field(init=False)
    # Whether the file was seen to be another one, which may be damaged.
    _replaced: bool = field(init=False, default=False)
    # Whether it was said that others may read the file.
    _said: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        """Nothing is opened yet."""
        self._connections = Connections(self._open, _Connection.close, self.timeout)
        _process.files.add(self)

    def close(self) -> None:
        self._connections.drop()

    def _look(self, connection: _Connection) -> None:
        """See that the file is still the one that the connection is to.

        Raises:
            StoreUnavailable: If it is not: it is opened anew then, or made.
        """
        if _identity(self.path) != connection.identity or _identity(connection.log) != connection.log_identity:
            self._replaced = True
            for file in list(_process.files):
                if file.path == self.path:  # SQLite shares what it knows of a file among all connections of a process
                    file.close()
            msg = f"{self.path.name} was deleted, or replaced by another file"
            logger.warning("%s: it is opened anew", msg)
            raise StoreUnavailable(msg)

    def reading(self, work: Callable[[Tables], T]) -> T:
        with self._connected() as connection, self._within(connection, "BEGIN") as tables:
            return work(tables)

    def writing(self, work: Callable[[Tables], T]) -> T:
        writing = self._connections.writing  # SQLite lets writers wait without an order: so one of a process does
        if not writing.acquire(timeout=self.timeout):
            msg = f"{self.path.name} is busy"
            raise StoreUnavailable(msg)
        try:
            with self._connected() as connection, self._within(connection, "BEGIN IMMEDIATE") as tables:
                return work(tables)
        finally:
            writing.release()

    @contextmanager
    def _within(self, connection: _Connection, begin: str) -> Iterator[Tables]:
        """The tables within one transaction, if they are still of the version that this release knows.

        Raises:
            StoreUnavailable: If they are not: a new connection makes them, or says that it cannot.
        """
        with _transaction(connection, begin):
            if _version(connection) != VERSION:
                self.close()
                msg = f"{self.path.name} has another version of the schema by now"
                raise StoreUnavailable(msg)
            yield Tables(_running(connection))

    @contextmanager
    def _connected(self) -> Iterator[_Connection]:
        try:
            with self._connections.one() as connection:
                self._look(connection)
                try:
                    yield connection
                except sqlite3.Error as error:
                    raise self._translated(error) from error
        except (OSError, sqlite3.Error) as error:  # of what opens it
            raise self._translated(error) from error

    def _translated(self, error: Exception) -> StoreError:
        code = int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
        kind = StoreUnavailable if code in _BUSY else StoreFull if code in _FULL else StoreError
        return kind(f"{self.path.name}: {error}")

    def _open(self) -> _Connection:
        """A connection to the file, which is made, with its tables, where that is needed."""
        if self.path.exists() and not self.path.is_file():
            what = "a directory" if self.path.is_dir() else "a device, a pipe or a socket, and no file"
            msg = f"{self.path}: it is {what}"
            raise StoreError(msg)
        if self.create:
            missing = [folder for folder in self.path.parents if not folder.exists()]
            for folder in reversed(missing):
                folder.mkdir(mode=0o700, exist_ok=True)
        elif not self.path.exists():
            msg = f"{self.path}: there is no such file"
            raise StoreError(msg)
        connection = self._connect()
        try:
            if self._replaced:
                self._check_whole(connection)
            if not self.create:
                self._check(connection)
            self._tighten(connection)
            connection.execute(f"PRAGMA synchronous = {self.synchronous}")
            if _version(connection) != VERSION:
                connection.execute("PRAGMA journal_mode = WAL").close()
                self._make_tables(connection)
            connection.log_identity = _identity(connection.log)
        except BaseException:
            connection.close()
            raise
        return connection

    def _connect(self) -> _Connection:
        with _process.opening:  # one at a time: see `_make_file`
            if self.create:
                self._make_file()
            identity = _identity(self.path)
            if identity in _process.lost:
                msg = (
                    f"{self.path.name} was in use by another thread when this process was forked, so SQLite cannot "
                    "lock it here: fork while no call of a store is at work, or start processes with 'spawn'"
                )
                raise StoreError(msg)
            connection = sqlite3.connect(
                self.path,
                timeout=self.timeout,
                isolation_level=None,
                check_same_thread=False,
                cached_statements=64,
                factory=_Connection,
            )
            connection.identity, connection.log = identity, f"{self.path}-wal"
            _process.connections.add(connection)
        return connection

    def _make_file(self) -> None:
        """Make an empty file where there is none.

        One that is there is never opened but by SQLite: a process that closes any descriptor of a file loses all its
        locks on it, those of its other connections too.
        """
        with suppress(FileExistsError):
            os.close(os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))

    def _tighten(self, connection: sqlite3.Connection) -> None:
        """Let nobody but its owner read the file of a store, or one that is to be one, nor those beside it."""
        for path in (self.path, *(self.path.with_name(self.path.name + end) for end in ("-wal", "-shm"))):
            found = path.stat() if path.exists() else None
            if found is None or not found.st_mode & _OTHERS or not hasattr(os, "geteuid"):
                continue
            if _tables_in(connection) and not _is_store(connection):
                return
            if found.st_uid == os.geteuid():
                path.chmod(stat.S_IMODE(found.st_mode) & ~_OTHERS)
                logger.warning("%s could be read by others: now its owner alone can", path.name)
            elif not self._said:
                self._said = True
                logger.warning("%s can be read by others, and belongs to another user: chmod 600 it", path.name)

    def _check_whole(self, connection: sqlite3.Connection) -> None:
        """See that what was put in the place of the file is not damaged."""
        found = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
        if found != "ok":
            msg = (
                f"{self.path.name} was replaced, and is damaged: {found:.200}; take away the files -wal and -shm "
                "beside it before a copy is put in its place, and put it there "
                "with mv, never with cp"
            )
            raise StoreError(msg)
        self._replaced = False

    def _check(self, connection: sqlite3.Connection) -> None:
        """See that the file is a store, before anything is written to it."""
        if not _is_store(connection):
            msg = f"{self.path.name} is no store: it is a database of another program, or an empty one"
            raise StoreError(msg)

    def _make_tables(self, connection: sqlite3.Connection) -> None:
        with _transaction(connection, "BEGIN IMMEDIATE"):
            version = _version(connection)  # another process may have been first
            check_schema(version, self.path.name)
            if version:
                return
            if _tables_in(connection):
                msg = f"{self.path.name} is a database of another program"
                raise StoreError(msg)
            for statement in SCHEMA.format(identity="INTEGER PRIMARY KEY", bytes="BLOB").split(";"):
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {VERSION}")


class _Connection(sqlite3.Connection):
    """A connection that knows which file it is to: another may stand at the path by now."""

    identity: tuple[int, int] | None = None
    log = ""  # the path of the file -wal
    log_identity: tuple[int, int] | None = None

    def close(self) -> None:
        super().close()
        with _process.opening:
            _process.connections.discard(self)


@define
class _Process:
    """What this process has open of SQLite, which must not be carried across a fork.

    SQLite keeps in the memory of a process which locks that process has. A fork copies that memory, and none of the
    locks: so whatever can be closed is closed before, and files of which something was still open are not used after.
    """

    # Held while a connection is opened, and while the process forks.
    opening: RLock = field(factory=RLock)
    files: WeakSet[_File] = field(factory=WeakSet)
    connections: WeakSet[_Connection] = field(factory=WeakSet)
    # Those that were open in the process that this one was forked from: never used, and never closed.
    inherited: list[_Connection] = field(factory=list)
    # The files that they are to.
    lost: set[tuple[int, int] | None] = field(factory=set)

    def before_fork(self) -> None:
        self.opening.acquire()
        for file in list(self.files):
            file.close()

    def after_in_parent(self) -> None:
        self.opening.release()

    def after_in_child(self) -> None:
        self.opening = RLock()
        self.inherited.extend(self.connections)
        self.lost.update(each.identity for each in self.inherited if each.identity)
        self.connections = WeakSet()


_process = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_process.before_fork,
        after_in_parent=_process.after_in_parent,
        after_in_child=_process.after_in_child,
    )


def _identity(path: Path | str) -> tuple[int, int] | None:
    """What tells the file at a path from others that stood there."""
    try:
        found = os.stat(path)  # noqa: PTH116 - twice as fast, once for each write
    except OSError:
        return None
    return found.st_dev, found.st_ino


_OTHERS = 0o077
"""What the mode of a file lets others than its owner do."""


def _tables_in(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0])


def _is_store(connection: sqlite3.Connection) -> bool:
    there = "SELECT count(*) FROM sqlite_master WHERE name IN ('numbers', 'owners', 'contents', 'refs')"
    return bool(connection.execute(there).fetchone()[0] == 4)


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


@contextmanager
def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[None]:
    connection.execute(begin)
    try:
        yield
    except BaseException:
        if connection.in_transaction:  # else SQLite itself has taken it back
            connection.execute("ROLLBACK")
        raise
    try:
        connection.execute("COMMIT")
    except sqlite3.Error:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _running(connection: sqlite3.Connection) -> Callable[..., Rows]:
    def run(statement: str, *values: object) -> Rows:
        return connection.execute(statement, values).fetchall()

    return run
