"""A store in PostgreSQL, by psycopg 3, whose plain connections are used in threads."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from functools import lru_cache
from time import monotonic
from typing import Any, TypeVar

import anyio
from attrs import define, field, frozen

from agentctx.core.message import Native
from agentctx.errors import ConfigError, StoreConflict, StoreError, StoreFull, StoreUnavailable
from agentctx.extras import unmet
from agentctx.stores.store import REMEMBERED, Claim, Connections, ConversationStore, Write
from agentctx.stores.tables import MIGRATIONS, InTables, Rows, Tables, check_schema

try:
    import psycopg
    from psycopg import errors, generators, pq
except ImportError as error:  # also where libpq is missing
    raise ConfigError(unmet("PostgresStore", "postgres", error)) from error

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
        url: Where it is, as for psycopg: ``"postgresql://user:password@host/database"``.
        schema: The schema of the tables; stores in several schemas know nothing of each other.
        create: Whether a store is made where there is none; without it, that is a ``StoreError``.
        ttl: Seconds after the last write for a conversation after which all of it is taken away; None: never.
        max_bytes: The most bytes that the store keeps; what expired goes first, then ``StoreFull`` is raised.
        max_conversation_bytes: The most bytes of one conversation.
        max_content: The most bytes of one content, one append or one piece of a state.
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
    schema: str = field(default="agentctx", kw_only=True)
    create: bool = field(default=True, kw_only=True)

    @schema.validator
    def _check_schema(self, _attribute: Native, value: object) -> None:
        if not isinstance(value, str) or not _NAME.fullmatch(value):
            msg = f"PostgresStore: schema is a word of small letters, digits and _, got {value!r:.80}"
            raise ConfigError(msg)

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
        return self._call(_PUT, claim, [*_limits(claim), handle.encode(), digest, body]) > 0

    def write(self, claim: Claim, write: Write) -> int:
        return self._call(_WRITE, claim, _parameters(claim, write))

    async def write_on_loop(self, claim: Claim, write: Write) -> int | None:
        connection = self._connections.take()
        if connection is None:
            return None
        with self._connections.lent(connection), _translating():
            if _WRITE not in connection.prepared:  # a thread lets it, which may wait
                return None
            connection.send(_WRITE, _parameters(claim, write))
            return _number_in(claim, await connection.answer())

    def _call(self, function: _Function, claim: Claim, parameters: Parameters) -> int:
        """The number that a function of the server answers."""
        while True:
            with self._connected() as connection:
                connection.send(function, parameters)
                number = _number_in(claim, connection.wait(generators.execute(connection.pgconn))[-1])
            if number is not None:
                return number
            self.writing(lambda tables: tables.forget_expired(claim))

    def close(self) -> None:
        self._connections.drop()

    @contextmanager
    def _connected(self) -> Iterator[_Connection]:
        with _translating(), self._connections.one() as connection, _translating():
            connection.begin(self.timeout)
            yield connection

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
                f"SET idle_in_transaction_session_timeout = {milliseconds}; SET search_path = {self.schema}; "
                "SET default_transaction_isolation = 'read committed'"
            )
            try:
                version = connection.version()
            except errors.UndefinedTable:
                version = 0
            if version != len(MIGRATIONS):
                self._migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection

    def _migrate(self, connection: _Connection) -> None:
        connection.run("SELECT pg_advisory_lock(?)", _MIGRATING)  # ahead of the transaction, which sees what others did
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
                for migration in MIGRATIONS[version:]:
                    identity = "BIGINT GENERATED BY DEFAULT AS IDENTITY PRIMARY KEY"
                    connection.run(migration.format(identity=identity, bytes="BYTEA", functions=_FUNCTIONS))
                connection.run(_NOW_AT, len(MIGRATIONS))
        finally:
            connection.run("SELECT pg_advisory_unlock(?)", _MIGRATING)


_SCHEMA = "SELECT value FROM numbers WHERE name = 'schema'"
_NOW_AT = "INSERT INTO numbers VALUES ('schema', ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value"


class _Connection(psycopg.Connection[tuple[Any, ...]]):
    """A connection whose server may take only so long, also where it says nothing any more."""

    until: float = math.inf

    def __init__(self, *arguments: Native) -> None:  # as psycopg has it
        """Nothing is prepared yet."""
        super().__init__(*arguments)
        self.prepared = set[_Function]()

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
            if cursor.fetchall() != [(len(MIGRATIONS),)]:
                raise _another_schema()
            yield

    @contextmanager
    def whole(self) -> Iterator[None]:
        """What is begun in it is committed, or taken back without a word where the server is gone."""
        try:
            yield
            self.execute("COMMIT")
        except BaseException:
            self._take_back()
            raise

    def _take_back(self) -> None:
        """End a transaction that failed; where the server is gone, it has ended it."""
        with suppress(psycopg.Error):
            if self.pgconn.transaction_status in _OPEN:
                self.execute("ROLLBACK")

    def send(self, function: _Function, parameters: Parameters) -> None:
        """Begin to call a function of the server; to it, it is one statement, which it knows."""
        if function not in self.prepared:
            self.pgconn.send_prepare(function.name, function.call)
            answer = self.wait(generators.execute(self.pgconn))[-1]
            _check(answer)
            self.prepared.add(function)
        self.pgconn.send_query_prepared(function.name, parameters, function.formats)

    async def answer(self) -> pq.abc.PGresult:
        """What the server answers, without a thread."""
        server, last = self.pgconn, None
        while server.flush():
            await anyio.wait_writable(server.socket)
        while True:
            while server.is_busy():
                await anyio.wait_readable(server.socket)
                server.consume_input()
            answer = server.get_result()
            if answer is None:
                break
            last = answer
        if last is None:
            msg = "the server did not answer"
            raise psycopg.OperationalError(msg)
        return last

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
    IF _grown > 0 AND _size + _grown > _most THEN
        RAISE EXCEPTION USING ERRCODE = 'AC001', MESSAGE = (_size + _grown) || ' 0';
    END IF;
    IF _grown > 0 AND _of_all IS NOT NULL THEN
        SELECT sum(size) + _grown INTO _all FROM owners;
        IF _all > _of_all THEN
            RAISE EXCEPTION USING ERRCODE = 'AC001', MESSAGE = (_size + _grown) || ' ' || _all;
        END IF;
    END IF;
"""
"""What is too much is refused."""

_CLAIM = """
    _schema BIGINT, _name BYTEA, _now DOUBLE PRECISION, _expires DOUBLE PRECISION, _most DOUBLE PRECISION,
    _of_all DOUBLE PRECISION,"""

_FUNCTIONS = """
DROP FUNCTION IF EXISTS write_document;
CREATE FUNCTION put_content(CLAIM
    _handle TEXT, _digest BYTEA, _body BYTEA
) RETURNS TEXT LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _owner BIGINT; _size BIGINT; _until DOUBLE PRECISION; _grown BIGINT := 0; _all BIGINT; _made BOOLEAN := FALSE;
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
    UPDATE owners SET size = size + _grown, expires = _expires WHERE id = _owner;
    RETURN 'done 1';
END $$;
CREATE FUNCTION write_document(CLAIM
    _kind TEXT, _key BYTEA, _expected BIGINT, _stamp BIGINT,
    _dropped JSONB, _put JSONB, _sizes BIGINT[], _bodies BYTEA
) RETURNS TEXT LANGUAGE plpgsql AS $$
#variable_conflict use_column
DECLARE
    _owner BIGINT; _size BIGINT; _until DOUBLE PRECISION; _known BIGINT; _version BIGINT; _grown BIGINT; _all BIGINT;
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
    UPDATE owners SET size = size + _grown, expires = _expires WHERE id = _owner;
    RETURN 'done ' || _version;
END $$;
"""
_FUNCTIONS = _FUNCTIONS.replace("CLAIM", _CLAIM).replace("OWNER", _OWNER.strip()).replace("ROOM", _ROOM.strip())
_FUNCTIONS = _FUNCTIONS.replace("SOMETIMES", str(REMEMBERED // 10)).replace("REMEMBERED", str(REMEMBERED))
"""``Tables.put`` and ``Tables.write`` in the server, for many writers at once: one statement instead of nine, each of
which the client would wait for."""

_FULL = b"AC001"
"""What the functions raise where it is too much."""

Parameters = list[bytes | None]


@frozen
class _Function:
    """A function of the server.

    Args:
        name: What it is called, as a prepared statement.
        types: Those of its arguments.
    """

    name: bytes
    types: tuple[str, ...]
    call: bytes = field(init=False, eq=False)
    formats: list[int] = field(init=False, eq=False)

    @call.default
    def _make_call(self) -> bytes:
        places = ", ".join(f"${n}::{each}" for n, each in enumerate(self.types, 1))
        return b"SELECT %b(%b)" % (self.name, places.encode())

    @formats.default
    def _make_formats(self) -> list[int]:
        return [int(each == "BYTEA") for each in self.types]


_OF_CLAIM = "INT8", "BYTEA", *["FLOAT8"] * 4
_PUT = _Function(b"put_content", (*_OF_CLAIM, "TEXT", "BYTEA", "BYTEA"))
_WRITE = _Function(
    b"write_document", (*_OF_CLAIM, "TEXT", "BYTEA", "INT8", "INT8", "JSONB", "JSONB", "INT8[]", "BYTEA")
)


def _limits(claim: Claim) -> Parameters:
    """What each function is called with."""
    limits = (claim.now, claim.expires, claim.most, claim.most_of_all)
    return [b"%d" % len(MIGRATIONS), claim.owner, *(None if each == math.inf else b"%r" % each for each in limits)]


def _parameters(claim: Claim, write: Write) -> Parameters:
    """What ``write_document`` is called with."""
    bodies = write.put.values()
    return [
        *_limits(claim),
        write.kind.encode(),
        write.key,
        None if write.version is None else b"%d" % write.version,
        b"%d" % write.stamp,
        None if write.drop is None else json.dumps(list(write.drop)).encode(),
        json.dumps(list(write.put)).encode(),
        b"{%b}" % b",".join([b"%d" % len(body) for body in bodies]),
        b"".join(bodies),
    ]


def _check(answer: pq.abc.PGresult) -> None:
    if answer.status not in _WELL:
        raise errors.error_from_result(answer)


_WELL = frozenset({pq.ExecStatus.TUPLES_OK, pq.ExecStatus.COMMAND_OK})


def _number_in(claim: Claim, answer: pq.abc.PGresult) -> int | None:
    """The number that a function has answered; None: what the owner had has expired.

    Raises:
        StoreConflict: If the document has another version.
        StoreFull: If it is too much.
        StoreUnavailable: If the tables have another version.
    """
    if answer.status not in _WELL and answer.error_field(pq.DiagnosticField.SQLSTATE) == _FULL:
        owned, stored = map(int, (answer.error_field(pq.DiagnosticField.MESSAGE_PRIMARY) or b"").split())
        claim.check(1, owned, lambda: stored)
    _check(answer)
    how, *number = (answer.get_value(0, 0) or b"").split()
    if how == b"conflict":
        raise StoreConflict(claim.name, int(number[0]))
    if how == b"schema":
        raise _another_schema()
    return int(number[0]) if number else None


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
