"""A store in PostgreSQL, by psycopg 3, whose plain connections are used in threads."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import lru_cache
from time import monotonic
from typing import Any, TypeVar

from attrs import define, field

from agentctx.core.message import Native
from agentctx.errors import ConfigError, StoreError, StoreFull, StoreUnavailable
from agentctx.stores.store import Backend, Connections, ConversationStore
from agentctx.stores.tables import MIGRATIONS, InTables, Rows, Tables, check_schema

try:
    import psycopg
    from psycopg import errors
except ImportError as error:  # also where libpq is missing
    _needed = "PostgresStore needs psycopg: pip install 'agentctx-middleware[postgres]'"
    raise ConfigError(_needed) from error

T = TypeVar("T")

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_REFUSED = re.compile(r"authentication failed|no pg_hba|permission denied|does not exist|password")
"""What a server says that will say so again."""

_MIGRATING = 0x61_67_65_6E_74_63_74_78
"""The advisory lock of who brings the tables up to date."""


@define(eq=False)
class PostgresStore(ConversationStore):
    """Keeps all in tables of PostgreSQL, for any number of workers on any number of machines.

    The schema and its tables are made, and brought up to date, when the first connection is made: let it be done by
    a user who may, then one who may read and write them suffices.
    Needs ``pip install 'agentctx-middleware[postgres]'``.

    Args:
        url: Where it is, as for psycopg: ``"postgresql://user:password@host/database"``. Further options are those of
            every store (``ConversationStore``).
        schema: The schema of the tables; stores in several schemas know nothing of each other.
        create: Whether a store is made where there is none; without it, that is a ``StoreError``.

    Example:
        >>> from agentctx.stores import PostgresStore
        >>> store = PostgresStore("postgresql://agents@localhost/agents", ttl=30 * 24 * 3600)
    """

    url: str = field(repr=False)
    schema: str = field(default="agentctx", kw_only=True)
    create: bool = field(default=True, kw_only=True)
    _server: _Server = field(init=False, repr=False)

    @schema.validator
    def _check_schema(self, _attribute: Native, value: object) -> None:
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            msg = f"PostgresStore: schema is a word of small letters, digits and _, got {value!r:.80}"
            raise ConfigError(msg)

    def __attrs_post_init__(self) -> None:
        """Nothing is opened yet."""
        self._server = _Server(self.url, self.schema, self.timeout, self.create)

    @property
    def backend(self) -> Backend:
        """What keeps the bytes."""
        return self._server


@define(eq=False)
class _Server(InTables):
    """A back end in one schema of a server.

    Args:
        url: Where it is.
        schema: The schema.
        timeout: Seconds that a statement may take.
        create: Whether the schema is made where there is none.
    """

    url: str
    schema: str
    timeout: float
    create: bool
    _connections: Connections[_Connection] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Nothing is opened yet."""
        self._connections = Connections(self._open, _Connection.close)

    def reading(self, work: Callable[[Tables], T]) -> T:
        with self._connected() as connection, connection.transaction():
            connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            return work(Tables(connection.run))

    def writing(self, work: Callable[[Tables], T]) -> T:
        with self._connected() as connection, connection.transaction():
            return work(Tables(connection.run, " FOR UPDATE", connection.lock_contents))

    def close(self) -> None:
        self._connections.drop()

    @contextmanager
    def _connected(self) -> Iterator[_Connection]:
        try:
            with self._connections.one() as connection:
                try:
                    connection.begin(self.timeout)
                    yield connection
                except psycopg.Error as error:
                    raise _translated(error) from error
        except psycopg.Error as error:  # of what opens it
            raise _translated(error) from error

    def _open(self) -> _Connection:
        """A connection to the schema, which is made, and brought up to date, where that is needed."""
        seconds, milliseconds = max(2, math.ceil(self.timeout)), max(1, int(self.timeout * 1_000))
        connection = _Connection.connect(
            self.url, autocommit=True, connect_timeout=seconds, application_name="agentctx", client_encoding="utf8"
        )
        try:
            connection.begin(self.timeout)
            connection.run(
                f"SET statement_timeout = {milliseconds}; SET lock_timeout = {milliseconds}; "
                f"SET idle_in_transaction_session_timeout = {milliseconds}; SET search_path = {self.schema}"
            )
            if _version(connection) != len(MIGRATIONS):
                self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _migrate(self, connection: _Connection) -> None:
        connection.run("SELECT pg_advisory_lock(?)", _MIGRATING)  # ahead of the transaction, which sees what others did
        try:
            with connection.transaction():
                version = _version(connection)
                check_schema(version, f"schema {self.schema}")
                if not version and not self.create:
                    msg = f"PostgreSQL: there is no store in schema {self.schema}"
                    raise StoreError(msg)
                if not version:
                    connection.run(f"CREATE SCHEMA IF NOT EXISTS {self.schema}")
                for migration in MIGRATIONS[version:]:
                    identity = "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"
                    connection.run(migration.format(identity=identity, bytes="BYTEA"))
                connection.run(_NOW_AT, len(MIGRATIONS))
        finally:
            connection.run("SELECT pg_advisory_unlock(?)", _MIGRATING)


_NOW_AT = "INSERT INTO numbers VALUES ('schema', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"


class _Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose server may take only so long, also where it says nothing any more."""

    until: float = math.inf

    def begin(self, seconds: float) -> None:
        """What follows may take so many seconds."""
        self.until = monotonic() + seconds

    def run(self, statement: str, /, *values: object) -> Rows:
        """Run one statement, and give its rows."""
        cursor = self.execute(_written(statement), values or None)
        return [] if cursor.description is None else cursor.fetchall()

    def lock_contents(self) -> None:
        """Keep others from writing contents to the end of the transaction."""
        self.execute("LOCK TABLE contents IN SHARE ROW EXCLUSIVE MODE")

    def wait(self, gen: Generator[Any, Any, T], *args: Any, **kwargs: Any) -> T:  # noqa: ANN401 - as psycopg has it
        """Wait for the server, but not for ever."""
        return super().wait(self._limited(gen), *args, **kwargs)

    def _limited(self, work: Generator[Any, Any, T]) -> Generator[Any, Any, T]:
        try:
            wanted = next(work)
            while True:
                ready = yield wanted
                if monotonic() > self.until + _GRACE:
                    self.pgconn.finish()  # whatever it may still answer, nobody waits for it
                    msg = "the server does not answer"
                    raise psycopg.OperationalError(msg)
                wanted = work.send(ready)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]


_GRACE = 1.0
"""Seconds in which the server may still say by itself that it was too slow."""


@lru_cache(maxsize=256)
def _written(statement: str) -> bytes:
    return statement.replace("?", "%s").encode()


def _version(connection: _Connection) -> int:
    there = connection.run("SELECT to_regclass('numbers') IS NOT NULL")[0][0]
    rows = connection.run("SELECT value FROM numbers WHERE name = 'schema'") if there else []
    return int(rows[0][0]) if rows else 0


def _translated(error: psycopg.Error) -> StoreError:
    text = str(error).strip()
    if isinstance(error, (errors.DiskFull, errors.OutOfMemory, errors.ConfigurationLimitExceeded)):
        return StoreFull(f"PostgreSQL: {text}")
    lasting = error.sqlstate is None and _REFUSED.search(text) is not None
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) and not lasting:
        return StoreUnavailable(f"PostgreSQL: {text}")
    return StoreError(f"PostgreSQL: {text}")
