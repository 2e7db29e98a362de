"""A store in PostgreSQL, by psycopg 3, whose plain connections are used in threads."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from time import monotonic
from typing import Any, LiteralString, TypeVar

from attrs import define, field
from attrs.validators import matches_re

from agentctx.errors import ConfigError, StoreConflict, StoreError, StoreFull, StoreUnavailable
from agentctx.lazy import unmet
from agentctx.message import Native
from agentctx.stores.store import REMEMBERED, Claim, Connections, ConversationStore, NoRoom, Write
from agentctx.stores.tables import SCHEMA, VERSION, InTables, Rows, Tables, check_schema
from agentctx.validators import MustBe

try:
    import psycopg
    from psycopg import errors, pq
except ImportError as error:  # also where libpq is missing
    raise ConfigError(unmet("PostgresStore", "postgres", error)) from error

T = TypeVar("T")

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,62}")
_REFUSED = re.compile(r"authentication failed|no pg_hba|permission denied|does not exist|password")
"""What a server says that will say so again."""

_MAKING = 0x61_67_65_6E_74_63_74_78
"""The advisory lock of who makes the tables."""


_WORD = MustBe("a word of small letters, digits and _", matches_re(_NAME))


@define(eq=False)
class PostgresStore(ConversationStore):
    """Keeps all in tables of PostgreSQL, for any number of workers on any number of machines.

    The schema and its tables are made when the first connection is made: let it be done by a user who may, then one
    who may read and write them suffices.
    Needs ``pip install 'agentctx-middleware[postgres]'``.

    Args:
        url: Where it is, as for psycopg: ``"postgresql://user:password@host/database"``.
        schema: The schema of the tables; stores in several schemas know nothing of each other.
        create: Whether a store is made where there is none; without it, that is a ``StoreError``.
        ttl: Seconds after the last write for a conversation after which all of it is taken away; None: never.
        max_bytes: The most bytes that the store keeps; what is oldest goes first.
        cipher: Encrypts contents, messages and states.
        timeout: Seconds that one call may take.
        clock: Tells seconds since 1970, by which conversations expire.

    Raises:
        ConfigError: If an option makes no sense.

    Example:
        >>> from agentctx.stores import PostgresStore
        >>> store = PostgresStore("postgresql://agents@localhost/agents", ttl=30 * 24 * 3600)
    """

    url: str = field(repr=False)
    schema: str = field(default="agentctx", validator=_WORD, kw_only=True)
    create: bool = field(default=True, kw_only=True)

    def __attrs_post_init__(self) -> None:
        """Nothing is opened yet."""
        self._backend = _Server(self.url, self.schema, self.timeout, self.create)


@define(eq=False)
class _Server(InTables):
    """A back end in one schema of a server; its options are those of the store."""

    url: str
    schema: str
    timeout: float
    create: bool
    _connections: Connections[_Connection] = field(init=False)

    def __attrs_post_init__(self) -> None:
        """Nothing is opened yet."""
        self._connections = Connections(self._open, _Connection.close, self.timeout)

    def reading(self, work: Callable[[Tables], T]) -> T:
        with self._connected() as connection, connection.within("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"):
            return work(Tables(connection.run))

    def writing(self, work: Callable[[Tables], T]) -> T:
        with self._connected() as connection, connection.within("BEGIN"):
            return work(Tables(connection.run, " FOR UPDATE", connection.lock_contents))

    def put(self, claim: Claim, handle: str, digest: bytes, body: bytes) -> bool:
        return self._call(_PUT, claim, [*_limits(claim), handle, digest, body]) > 0

    def write(self, claim: Claim, write: Write) -> int:
        parameters = [
            *_limits(claim),
            write.kind,
            write.key,
            None if write.version is None else str(write.version),
            str(write.stamp),
            None if write.drop is None else json.dumps(list(write.drop)),
            json.dumps(list(write.put)),
            f"{{{','.join(str(len(body)) for body in write.put.values())}}}",
            b"".join(write.put.values()),
        ]
        return self._call(_WRITE, claim, parameters)

    def _call(self, statement: LiteralString, claim: Claim, parameters: Parameters) -> int:
        """Return the number that a function of the server answers.

        Raises:
            StoreConflict: If the document has another version.
            NoRoom: If the store would have too many bytes.
            StoreUnavailable: If the tables have another version.
        """
        while True:
            with self._connected() as connection:
                try:
                    rows = connection.execute(statement, parameters, prepare=True).fetchall()
                except psycopg.Error as error:
                    if error.sqlstate == _FULL:
                        raise NoRoom(claim, int(error.diag.message_primary or 0)) from None
                    raise
                how, *number = rows[0][0].split()
                if how == "conflict":
                    raise StoreConflict(claim.name, int(number[0]))
                if how == "schema":
                    raise _another_schema()
            if how == "done":
                return int(number[0])
            self.writing(lambda tables: tables.alive(claim))  # the answer is "expired"

    def close(self) -> None:
        self._connections.drop()

    @contextmanager
    def _connected(self) -> Iterator[_Connection]:
        with _translating(), self._connections.one() as connection, _translating():
            connection.begin(self.timeout)
            yield connection

    def _open(self) -> _Connection:
        """A connection to the schema, which is made, with its tables, where that is needed."""
        seconds, milliseconds = max(2, math.ceil(self.timeout)), max(1, int(self.timeout * 1_000))
        connection = _Connection.connect(
            self.url, autocommit=True, connect_timeout=seconds, application_name="agentctx", client_encoding="utf8"
        )
        try:
            connection.begin(self.timeout)
            connection.run(
                f"SET statement_timeout = {milliseconds}; SET lock_timeout = {milliseconds}; "
                f"SET idle_in_transaction_session_timeout = {milliseconds}; SET search_path = {self.schema}; "
                "SET default_transaction_isolation = 'read committed'"
            )
            try:
                version = connection.version()
            except errors.UndefinedTable:
                version = 0
            if version != VERSION:
                self._make_tables(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _make_tables(self, connection: _Connection) -> None:
        connection.run("SELECT pg_advisory_lock(?)", _MAKING)  # ahead of the transaction, which sees what others did
        try:
            with connection.whole():
                connection.run("BEGIN")
                there = connection.run("SELECT to_regclass('numbers') IS NOT NULL")[0][0]
                version = connection.version() if there else 0
                check_schema(version, f"schema {self.schema}")
                if not version and not self.create:
                    msg = f"PostgreSQL: there is no store in schema {self.schema}"
                    raise StoreError(msg)
                if not version:
                    connection.run(f"CREATE SCHEMA IF NOT EXISTS {self.schema}")
                    identity = "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"
                    connection.run(SCHEMA.format(identity=identity, bytes="BYTEA"))
                    connection.run(_FUNCTIONS)
                    connection.run("INSERT INTO numbers VALUES ('schema', ?)", VERSION)
        finally:
            connection.run("SELECT pg_advisory_unlock(?)", _MAKING)


_SCHEMA = "SELECT value FROM numbers WHERE name = 'schema'"


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

    def version(self) -> int:
        """The version of the schema."""
        rows = self.run(_SCHEMA)
        return int(rows[0][0]) if rows else 0

    @contextmanager
    def within(self, begin: str) -> Iterator[None]:
        """A transaction, of a store of the version that this release knows.

        Raises:
            StoreUnavailable: If it has another by now: a new connection says what is to be done.
        """
        with self.whole():
            cursor = self.execute(f"{begin}; {_SCHEMA}".encode(), prepare=False)  # in one go, as it may be far away
            cursor.nextset()
            if cursor.fetchall() != [(VERSION,)]:
                raise _another_schema()
            yield

    @contextmanager
    def whole(self) -> Iterator[None]:
        """What is begun in it is committed, or taken back without a word where the server is gone."""
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            with suppress(psycopg.Error):  # where the server is gone, it has ended the transaction
                if self.pgconn.transaction_status in _OPEN:
                    self.execute("ROLLBACK")
            raise

    def lock_contents(self) -> None:
        """Keep others from writing contents to the end of the transaction."""
        self.execute("LOCK TABLE contents IN SHARE ROW EXCLUSIVE MODE")

    def wait(self, gen: Generator[Any, Any, T], *args: Native, **kwargs: Native) -> T:  # as psycopg has it
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


_OPEN = frozenset({pq.TransactionStatus.INTRANS, pq.TransactionStatus.INERROR})


def _another_schema() -> StoreUnavailable:
    return StoreUnavailable("PostgreSQL: the tables have another version now")


_OWNER = """
    IF (SELECT value FROM numbers WHERE name = 'schema') IS DISTINCT FROM _schema THEN
        RETURN 'schema';
    END IF;
    LOOP
        SELECT id, size, expires INTO _owner, _size, _until FROM owners WHERE name = _name FOR UPDATE;
        EXIT WHEN FOUND;
        INSERT INTO owners (name, size) VALUES (_name, 0) ON CONFLICT (name) DO NOTHING
            RETURNING id, 0 INTO _owner, _size;
        _made := FOUND;
        EXIT WHEN _made;
    END LOOP;
    IF _until <= _now THEN
        RETURN 'expired';
    END IF;
"""
"""What a function of the server begins with: the owner is locked, and made where it is not there."""

_ROOM = """
    IF _grown > 0 AND _most IS NOT NULL AND (SELECT sum(size) FROM owners) + _grown > _most THEN
        RAISE EXCEPTION USING ERRCODE = 'AC001', MESSAGE = _grown;
    END IF;
"""
"""What is too much is refused."""

_CLAIM = """
    _schema BIGINT, _name BYTEA, _now DOUBLE PRECISION, _expires DOUBLE PRECISION, _most DOUBLE PRECISION,"""

_FUNCTIONS = """
CREATE FUNCTION put_content(CLAIM
    _handle TEXT, _digest BYTEA, _body BYTEA
) RETURNS TEXT LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _owner BIGINT; _size BIGINT; _until DOUBLE PRECISION; _grown BIGINT := 0; _made BOOLEAN := FALSE;
BEGIN
    OWNER
    INSERT INTO contents VALUES (_handle, _digest, _body) ON CONFLICT (handle) DO NOTHING;
    IF (SELECT digest FROM contents WHERE handle = _handle) <> _digest THEN
        IF _made THEN
            DELETE FROM owners WHERE id = _owner;
        END IF;
        RETURN 'done 0';
    END IF;
    INSERT INTO refs (owner, handle) VALUES (_owner, _handle) ON CONFLICT DO NOTHING;
    IF FOUND THEN
        _grown := length(_body);
    END IF;
    ROOM
    UPDATE owners SET size = size + _grown, expires = _expires, written = _now WHERE id = _owner;
    RETURN 'done 1';
END $$;
CREATE FUNCTION write_document(CLAIM
    _kind TEXT, _key BYTEA, _expected BIGINT, _stamp BIGINT,
    _dropped JSONB, _put JSONB, _sizes BIGINT[], _bodies BYTEA
) RETURNS TEXT LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _owner BIGINT; _size BIGINT; _until DOUBLE PRECISION; _known BIGINT; _version BIGINT; _grown BIGINT;
    _made BOOLEAN := FALSE;
BEGIN
    OWNER
    SELECT version INTO _version FROM keys WHERE owner = _owner AND kind = _kind AND key = _key;
    IF FOUND THEN
        RETURN 'done ' || _version;
    END IF;
    SELECT version INTO _version FROM documents WHERE owner = _owner AND kind = _kind;
    _known := coalesce(_version, 0);
    IF _expected <> _known THEN
        IF _made THEN
            DELETE FROM owners WHERE id = _owner;
        END IF;
        RETURN 'conflict ' || _known;
    END IF;
    _version := greatest(coalesce(_version, (SELECT value FROM numbers WHERE name = 'floor')) + 1, _stamp);
    WITH gone AS (
        DELETE FROM pieces WHERE owner = _owner AND kind = _kind AND (
            _dropped IS NULL OR piece IN (SELECT jsonb_array_elements_text(_dropped || _put))
        ) RETURNING length(body) AS size
    ) SELECT length(_bodies) - coalesce(sum(size), 0) INTO _grown FROM gone;
    ROOM
    INSERT INTO pieces (owner, kind, piece, version, place, body)
        SELECT _owner, _kind, told.piece, _version, told.place, substring(_bodies FROM told.start FOR told.size) FROM (
            SELECT piece, place, size::INT AS size, (1 + sum(size) OVER (ORDER BY place) - size)::INT AS start
            FROM ROWS FROM (jsonb_array_elements_text(_put), unnest(_sizes)) WITH ORDINALITY
            AS put (piece, size, place)
        ) AS told;
    INSERT INTO documents VALUES (_owner, _kind, _version)
        ON CONFLICT (owner, kind) DO UPDATE SET version = excluded.version;
    INSERT INTO keys VALUES (_owner, _kind, _key, _version);
    IF _version % SOMETIMES = 0 THEN
        DELETE FROM keys WHERE owner = _owner AND kind = _kind AND version <= (
            SELECT version FROM keys WHERE owner = _owner AND kind = _kind
            ORDER BY version DESC LIMIT 1 OFFSET REMEMBERED
        );
    END IF;
    UPDATE owners SET size = size + _grown, expires = _expires, written = _now WHERE id = _owner;
    RETURN 'done ' || _version;
END $$;
"""
_FUNCTIONS = _FUNCTIONS.replace("CLAIM", _CLAIM).replace("OWNER", _OWNER.strip()).replace("ROOM", _ROOM.strip())
_FUNCTIONS = _FUNCTIONS.replace("SOMETIMES", str(REMEMBERED // 10)).replace("REMEMBERED", str(REMEMBERED))
"""``Tables.put`` and ``Tables.write`` in the server, for many writers at once: one statement instead of nine, each of
which the client would wait for."""

_FULL = "AC001"
"""What the functions raise where it is too much."""

Parameters = list[str | bytes | None]
"""Numbers as text: so the server has one prepared statement, whatever their size."""

_OF_CLAIM = "%s::INT8, %s::BYTEA, %s::FLOAT8, %s::FLOAT8, %s::FLOAT8"
_PUT: LiteralString = f"SELECT put_content({_OF_CLAIM}, %s::TEXT, %s::BYTEA, %s::BYTEA)"
_WRITE: LiteralString = (
    f"SELECT write_document({_OF_CLAIM}, "
    "%s::TEXT, %s::BYTEA, %s::INT8, %s::INT8, %s::JSONB, %s::JSONB, %s::INT8[], %s::BYTEA)"
)


def _limits(claim: Claim) -> Parameters:
    """The arguments that both functions begin with."""
    limits = (claim.now, claim.expires, claim.most)
    return [str(VERSION), claim.owner, *(None if each == math.inf else repr(float(each)) for each in limits)]


_GONE = (errors.UndefinedTable, errors.UndefinedFunction, errors.InvalidSchemaName, errors.ReadOnlySqlTransaction)
"""Of tables that somebody has dropped or restored, a new connection makes new ones, or says so; a server that may only
be read is not, or not yet, the one that is written to."""


@contextmanager
def _translating() -> Iterator[None]:
    """Errors of psycopg as ours."""
    try:
        yield
    except psycopg.Error as error:
        raise _translated(error) from error


def _translated(error: psycopg.Error) -> StoreError:
    text = str(error).strip()
    if isinstance(error, (errors.DiskFull, errors.OutOfMemory, errors.ConfigurationLimitExceeded)):
        return StoreFull(f"PostgreSQL: {text}")
    if isinstance(error, _GONE):
        return StoreUnavailable(f"PostgreSQL: {text}")
    lasting = error.sqlstate is None and _REFUSED.search(text) is not None
    if isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)) and not lasting:
        return StoreUnavailable(f"PostgreSQL: {text}")
    return StoreError(f"PostgreSQL: {text}")
