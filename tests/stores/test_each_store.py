"""What is special of each store: files and folders, schemas, processes, options; and all behave as the memory store."""

import multiprocessing
import os
import sqlite3
import stat
import threading
from importlib import import_module

import anyio
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from redis import Redis
from store_laws import LAWS_OF_OURS

from agentctx import Budget, ConfigError, FitContextWindow, Pipeline, Sessions
from agentctx.builder import Block, ContextBuilder, Thread
from agentctx.errors import StoreConflict, StoreError, StoreFull, StoreUnavailable
from agentctx.recall import Recall
from agentctx.session.keeping import BEGUN_ANEW, LOST
from agentctx.stores import (
    ConversationStore,
    MemoryStore,
    PostgresStore,
    RedactingStore,
    RedisStore,
    SQLiteStore,
    store as store_module,
    tables,
)
from agentctx.strategies import TruncateOldest
from agentctx.testing import assistant, call, result, transcript, user
from agentctx.testing.store_laws import hold_to

pytestmark = pytest.mark.anyio


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


async def test_files_are_the_owners_alone(tmp_path):
    """The file and those beside it are 0600, a folder that is made for it 0700, whatever the umask."""
    before = os.umask(0)
    try:
        async with SQLiteStore(tmp_path / "agents" / "deep" / "context.db") as store:
            await store.put(b"a long log")
            folder = tmp_path / "agents" / "deep"
            assert mode(folder) == mode(folder.parent) == 0o700
            assert {path.name for path in folder.iterdir()} == {"context.db", "context.db-wal", "context.db-shm"}
            assert {mode(path) for path in folder.iterdir()} == {0o600}
    finally:
        os.umask(before)


async def test_a_file_that_others_can_read_is_made_the_owners(tmp_path, caplog):
    """A file of 0644 that is a store, or becomes one, is 0600, with those beside it; another program's stays so."""
    path, other = tmp_path / "context.db", tmp_path / "other.db"
    path.touch()
    path.chmod(0o644)
    async with SQLiteStore(path) as store:
        await store.put(b"a long log")
        assert {mode(each) for each in tmp_path.iterdir()} == {0o600}
        assert "could be read by others" in caplog.text
        await store.aclose()
        for each in tmp_path.iterdir():
            each.chmod(0o644)
        await store.handles()
        assert {mode(each) for each in tmp_path.iterdir()} == {0o600}
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE own (n)")
    connection.close()
    other.chmod(0o644)
    with pytest.raises(StoreError, match="another program"):
        await SQLiteStore(other).handles()
    assert mode(other) == 0o644


async def test_a_newer_schema_is_refused(tmp_path):
    """What a newer release has written is not touched."""
    path = tmp_path / "context.db"
    async with SQLiteStore(path) as store:
        await store.put(b"a long log")
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match="version 99"):
        await SQLiteStore(path).handles()


@pytest.mark.parametrize("kind", ["redis", "postgres"])
async def test_a_newer_schema_of_a_server_is_refused(make, kind):
    """What a newer release has written is not touched."""
    async with make() as store:
        await store.put(b"a long log")
        if kind == "redis":
            store.backend._client.hset(f"{store.backend.prefix}n", "schema", 99)
        else:
            with store.backend._connected() as connection:
                connection.run("UPDATE numbers SET value = 99 WHERE name = 'schema'")
    with pytest.raises(StoreError, match="version 99"):
        await make().handles()


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
async def test_a_newer_schema_is_refused_by_workers_that_are_open(make, kind):
    """A worker that has the store open writes and reads nothing any more once a newer release has migrated it."""
    async with make() as store:
        handle = await store.put(b"a long log")
        for _ in range(2):  # as for a small write without a thread
            await store.save_state("x", {"head": b"1"}, None)
        if kind == "sqlite":
            with sqlite3.connect(store.path) as connection:
                connection.execute("PRAGMA user_version = 99")
            connection.close()
        elif kind == "redis":
            store.backend._client.hset(f"{store.backend.prefix}n", "schema", 99)
        else:
            with psycopg.connect(store.url, autocommit=True) as connection:
                connection.execute(f"SET search_path = {store.schema}")
                connection.execute("UPDATE numbers SET value = 99 WHERE name = 'schema'")
        writes = store.save_state("x", {"head": b"2"}, None), store.append("x", [{}], None), store.put(b"more")
        for asked in (*writes, store.get(handle), store.load_state("x"), store.purge("x")):
            with pytest.raises(StoreError, match="version 99"):
                await asked


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
async def test_a_store_that_is_only_to_be_read_is_not_made(make, kind):
    """With ``create=False`` there is an error where there is no store, as often as one asks, else it is read."""
    for _ in range(2):
        with pytest.raises(StoreError, match=r"no such file|there is no store"):
            await make(create=False).stored()
    async with make() as store:
        handle = await store.put(b"a long log")
    async with make(create=False) as store:
        assert await store.get(handle) == b"a long log"


async def test_a_session_keeps_what_it_leaves_out(make):
    """Each store gives back by handle and by search what a session has left out, to its own conversation only."""
    turns = [user("task")]
    for place in range(8):
        turns += [assistant(call(f"c{place}", "read", {"n": place})), result(f"c{place}", f"output{place} " * 90)]
    async with make() as store:
        recall, other = (Recall(store, conversation=name) for name in ("t", "u"))
        pipeline = Pipeline(FitContextWindow(), budget=Budget(1_200), store=store)
        view = await pipeline.session(id="t").prepare(
            transcript("openai-chat", *turns), tools=[recall.definition("openai-chat")]
        )
        handles = [change.handle for change in view.report.changes if change.handle]
        assert "output0" in " ".join([await recall({"handle": handle}) for handle in handles])
        assert "output1" in await recall({"search": "output1"})
        assert "Nothing is kept" in await other({"handle": handles[0]})
        assert "was not found" in await other({"search": "output1"})
        assert await store.purge("t") > 0
        assert "Nothing is kept" in await recall({"handle": handles[0]})


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_store_of_another_release_is_refused(make, kind, monkeypatch):
    """Tables of another version are not touched; many that make the tables at once make them once."""
    stores = [make() for _ in range(5)]
    async with anyio.create_task_group() as group:
        for each in stores:
            group.start_soon(each.put, b"a long log")
    handle = (await stores[0].handles())[0]
    for each in stores:
        await each.aclose()
    for module in (import_module(f"agentctx.stores.{kind}"), tables):
        monkeypatch.setattr(module, "VERSION", 9)
    with pytest.raises(StoreError, match="version 1"):
        await make().get(handle)
    monkeypatch.undo()
    async with make() as store:
        assert await store.get(handle) == b"a long log"


async def test_writers_that_fill_a_store_at_once_stay_within_its_bound(make):
    """Each makes room for itself, also while others do, and what is newest is there."""
    stores = [make(max_bytes=10_000) for _ in range(4)]

    async def fill(number):
        for place in range(6):
            part = stores[number].for_conversation(f"t{number}-{place}")
            await part.put(bytes([number, place]) * 500)

    async with anyio.create_task_group() as group:
        for number in range(4):
            group.start_soon(fill, number)
    for store in stores:
        await store.put(b"x" * 2_000)
    assert sum(each.bytes for each in await stores[0].stored()) <= 10_000
    assert await stores[1].get((await stores[0].handles())[-1]) == b"x" * 2_000
    for store in stores:
        await store.aclose()


async def test_a_disk_that_is_full_is_told(tmp_path):
    """What there is no room for is refused as such, and what is there stays."""
    async with SQLiteStore(tmp_path / "context.db") as store:
        handle = await store.put(b"a long log")
        with store.backend._connections.one() as connection:
            connection.execute("PRAGMA max_page_count = 50")
        with pytest.raises(StoreFull):
            await store.put(b"x" * 1_000_000)
        with pytest.raises(StoreFull):
            await store.append("x", [{"n": "x" * 1_000_000}], 0)
        assert await store.get(handle) == b"a long log"
        assert await store.append("x", [{"n": 1}], 0)


async def test_another_programs_database_is_refused(tmp_path):
    """A file that is a database of something else, or none, is not written to, and stays readable for whom it was."""
    path = tmp_path / "other.db"
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE own (n)")
    connection.close()
    (tmp_path / "text.db").write_text("no database, but a text " * 100)
    os.mkfifo(tmp_path / "pipe")
    for name in ("other.db", "text.db", "pipe", "."):
        (tmp_path / name).chmod(0o755)
        with pytest.raises(StoreError) as caught:
            await SQLiteStore(tmp_path / name).put(b"a long log")
        assert not isinstance(caught.value, StoreUnavailable)
        assert mode(tmp_path / name) == 0o755


async def test_a_file_that_somebody_holds_is_busy(tmp_path):
    """A writer that holds the file for too long is told as transient, in time; readers go on."""
    path = tmp_path / "context.db"
    async with SQLiteStore(path, timeout=1) as store:
        handle = await store.put(b"a long log")
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailable), anyio.fail_after(60):
            await store.put(b"another")
        assert await store.get(handle) == b"a long log"
        other.execute("ROLLBACK")
        other.close()
        await store.put(b"another")


async def test_many_open_at_once(make):
    """Twenty stores on a place that is new make the schema once."""
    stores = [make() for _ in range(20)]
    async with anyio.create_task_group() as group:
        for number, store in enumerate(stores):
            group.start_soon(store.append, "x", [{"n": number}], None)
    assert sorted(each["n"] for each in (await stores[0].load("x")).messages) == list(range(20))
    for store in stores:
        await store.aclose()


def append_in_a_fork(store, number):
    anyio.run(store.append, "x", [{"n": number}], None)
    os._exit(0)


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
def test_a_fork_opens_connections_of_its_own(make):
    """A store that was used before a fork can be used on both sides of it."""
    store, fork = make(), multiprocessing.get_context("fork")
    anyio.run(store.append, "x", [{"n": 0}], None)
    processes = [fork.Process(target=append_in_a_fork, args=(store, number)) for number in (1, 2)]
    for process in processes:
        process.start()
    anyio.run(store.append, "x", [{"n": 3}], None)
    for process in processes:
        process.join(30)
        assert process.exitcode == 0
    assert sorted(each["n"] for each in anyio.run(store.load, "x").messages) == [0, 1, 2, 3]
    anyio.run(store.aclose)


def test_a_store_is_used_from_several_loops(make):
    """One store, one loop after another, on asyncio and trio."""
    store = make()
    for number, loop in enumerate(["asyncio", "trio", "asyncio"]):

        async def use(number=number):
            await store.append("x", [{"n": number}], None)
            return len((await store.load("x")).messages)

        assert anyio.run(use, backend=loop) == number + 1
    anyio.run(store.aclose)


@pytest.mark.parametrize(
    "option", [{"ttl": 0}, {"ttl": "1"}, {"max_bytes": -1}, {"max_bytes": 0}, {"timeout": 0}, {"max_bytes": True}]
)
def test_options_that_make_no_sense(option):
    """A number that is none is refused when the store is made."""
    with pytest.raises(ConfigError, match=next(iter(option))):
        MemoryStore(**option)


def test_places_that_make_no_sense():
    """A schema and a prefix that could be something else are refused when the store is made."""
    for schema in ("", "a;b", "A", "a" * 64, 1):
        with pytest.raises(ConfigError):
            PostgresStore("postgresql://", schema=schema)
    for prefix in ("", "a b", "{a}", 1):
        with pytest.raises(ConfigError):
            RedisStore("redis://", prefix=prefix)
    with pytest.raises(ConfigError):
        SQLiteStore("context.db", synchronous="OFF")
    for path in (None, 1, "a\0b", "\ud800"):
        with pytest.raises(ConfigError):
            SQLiteStore(path)


async def test_names_that_are_none_are_refused(make):
    """A conversation has a name of at most a thousand bytes."""
    async with make() as store:
        for name in ("", "x" * 1_001, None, 1, b"x"):
            with pytest.raises(StoreError):
                await store.load(name)
            with pytest.raises(StoreError):
                await store.append(name, [{}], 0)
            with pytest.raises(StoreError):
                store.for_conversation(name)
        with pytest.raises(StoreError):
            await store.append("x", [{}], 0, key="")
        assert await store.append("x" * 1_000, [{}], 0, key="k" * 1_000)


async def test_secrets_are_taken_out_of_histories():
    """Messages go into the store without secrets; the state of a session, which tells them, is refused."""
    store = MemoryStore()
    redacting = RedactingStore(store)
    version = await redacting.append("x", [{"role": "user", "content": "password=xk29-fj3n-QQ81"}], 0, key="k")
    assert [each["content"] for each in (await store.load("x")).messages] == ["password=[redacted]"]
    await redacting.save("x", [{"role": "user", "content": "again password=xk29-fj3n-QQ81"}], version)
    assert [each["content"] for each in (await redacting.load("x")).messages] == ["again password=[redacted]"]
    with pytest.raises(StoreError):
        await redacting.append("x", {"role": "user", "content": "one"}, None)
    with pytest.raises(StoreError):
        await redacting.save_state("x", {"head": b"1"}, 0)


@pytest.mark.both_loops
async def test_twenty_writers_of_one_thread(make):
    """Twenty build requests of one thread at once, by two stores on one place: each message is there once."""
    stores = make(), make()
    builder = ContextBuilder(Budget(200), format="openai-chat").add(Block("history", [], evict=TruncateOldest()))

    async def write(number):
        text = f"message {number} " + "word " * 20
        built = await Thread(stores[number % 2], "t").build(builder, [{"role": "user", "content": text}])
        assert built.messages[-1]["content"] == text

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(write, number)
    told = [each["content"].split()[1] for each in (await stores[0].load("t")).messages]
    assert sorted(map(int, told)) == list(range(20))
    for store in stores:
        await store.aclose()


async def test_a_node_of_a_cluster_takes_all_scripts(servers_module):
    """All keys of a store are of one slot, so that a server in cluster mode refuses nothing."""
    folder = servers_module.short_folder()
    process, url = servers_module.valkey(folder, "--cluster-enabled", "yes")
    try:
        client = Redis.from_url(url)
        client.execute_command("CLUSTER", "ADDSLOTSRANGE", 0, 16_383)
        with anyio.fail_after(60):
            while "cluster_state:ok" not in str(client.execute_command("CLUSTER", "INFO")):  # noqa: ASYNC110
                await anyio.sleep(0.05)
        client.close()
        laws = ("contents", "conversations", "keys", "states", "purge", "sub-agents", "expiry", "oldest first")
        chosen = {law: LAWS_OF_OURS[law] for law in laws}
        await hold_to(chosen, lambda place, **options: RedisStore(url, prefix=place, **options))
    finally:
        process.kill()
        process.wait()
        servers_module.remove(folder)


def wipe(kind, store):
    """Take away all that a store has, behind its back."""
    if kind == "redis":
        with Redis.from_url(store.url) as client:
            client.delete(*client.keys(f"{{{store.prefix}}}:*"))
    elif kind == "sqlite":
        for path in store.path.parent.iterdir():
            path.unlink()
    else:
        with psycopg.connect(store.url, autocommit=True) as connection:
            connection.execute(f"DROP SCHEMA {store.schema} CASCADE")


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
async def test_a_store_that_loses_everything_under_live_sessions(make, kind):
    """A worker begins cleanly, and says so; where another was first, also with as many steps, it takes over."""
    turns = [user("task")]
    for place in range(6):
        turns += [assistant(call(f"c{place}", "read", {"n": place})), result(f"c{place}", f"output {place} " * 90)]
    messages, plan = transcript("openai-chat", *turns), Pipeline(FitContextWindow(), budget=Budget(1_500))

    async def step(worker, length):
        async with worker.using("x") as session:
            view = await session.prepare(messages[:length])
        return [note for stage in view.report.stages if stage.stage == "Sessions" for note in stage.notes]

    first, second = Sessions(plan, make()), Sessions(plan, make())
    assert [await step(first, length) for length in (1, 3, 5)] == [[], [], []]
    wipe(kind, first.store)
    assert await step(first, 7) == [LOST]
    wipe(kind, first.store)
    assert [await step(second, length) for length in (3, 5, 7, 9)] == [[BEGUN_ANEW], [], [], []]
    assert await step(first, 9) == []
    assert first["x"].steps == 5
    assert await step(second, 11) == []
    assert second["x"].steps == 6
    async with Sessions(plan, make()).open("x") as session:
        assert session.steps == 6
    for worker in (first, second):
        await worker.store.aclose()


async def test_a_file_that_is_put_back_to_an_older_copy(tmp_path, caplog):
    """A worker notices that its file is another one, and goes on from what stands there; a damaged one is an error."""
    path, copy = tmp_path / "context.db", tmp_path / "copy.db"
    async with SQLiteStore(path) as store, SQLiteStore(path) as other:
        await store.append("x", [{"n": 0}], 0)
        with sqlite3.connect(path) as source, sqlite3.connect(copy) as target:
            source.backup(target)
        source.close()
        target.close()
        last = await store.append("x", [{"n": 1}], None)
        state = [await each.save_state("y", {"head": b"1"}, None) for each in (store, store, other)]
        for each in tmp_path.glob("context.db*"):
            each.unlink()
        copy.rename(path)
        with pytest.raises(StoreConflict):
            await other.append("x", [{"n": 2}], last)
        with pytest.raises(StoreConflict):
            await store.save_state("y", {"head": b"2"}, state[-1])
        assert len((await store.load("x")).messages) == 1
        assert "was deleted, or replaced" in caplog.text
        with path.open("r+b") as written:
            written.seek(4096)
            written.write(b"\xff" * 4096)
        path.replace(copy)
        copy.with_suffix(".again").write_bytes(copy.read_bytes())
        copy.with_suffix(".again").rename(path)
        with pytest.raises(StoreError):
            await store.load("x")


NAMES = st.sampled_from(["x", "y", "x/1"])
CONTENTS = st.sampled_from([b"", b"a" * 60, b"b" * 90])
KEYS = st.sampled_from([None, "k", "l"])
CALLS = st.one_of(
    st.tuples(st.just("put"), st.none() | NAMES, CONTENTS),
    st.tuples(st.just("get"), st.none() | NAMES, st.integers(0, 2)),
    st.tuples(st.just("append"), NAMES, st.integers(0, 2), st.integers(-1, 3), KEYS),
    st.tuples(st.just("save"), NAMES, st.integers(0, 2), st.integers(-1, 3), KEYS),
    st.tuples(st.just("clear"), NAMES, st.integers(-1, 3), KEYS),
    st.tuples(st.just("save_state"), NAMES, st.dictionaries(st.sampled_from("ab"), st.none() | CONTENTS), KEYS),
    st.tuples(st.just("purge"), st.none() | NAMES),
    st.tuples(st.just("pass"), st.integers(1, 60)),
)


async def answer(store, call, handles, clock):
    """What a store answers to a call, or which error it raises."""
    what, *rest = call
    try:
        match what:
            case "put":
                part = store if rest[0] is None else store.for_conversation(rest[0])
                handle = await part.put(rest[1])
                handles.setdefault(handle)
                return handle
            case "get":
                part = store if rest[0] is None else store.for_conversation(rest[0])
                return await part.get([*handles, "0" * 16, "0" * 16, "0" * 16][rest[1]])
            case "append" | "save":
                known = await store.load(rest[0])
                messages = [{"n": number} for number in range(rest[1])]
                version = None if rest[2] < 0 else known.version + min(rest[2], 1) * (rest[2] - 1)
                return await getattr(store, what)(rest[0], messages, version, key=rest[3])
            case "clear":
                return await store.clear(rest[0], None if rest[1] < 0 else rest[1], key=rest[2])
            case "save_state":
                return await store.save_state(rest[0], rest[1], None, key=rest[2])
            case "purge":
                return await store.purge(rest[0])
            case "pass":
                clock[0] += rest[0]
    except (StoreConflict, StoreFull) as error:
        return type(error).__name__, str(error)
    except StoreError:
        return "StoreError"


async def looked_at(store):
    """All that can be seen of a store."""
    seen = [sorted(map(repr, await store.stored())), sorted(await store.handles())]
    for name in ("x", "y", "x/1"):
        seen += [await store.load(name), await store.for_conversation(name).handles()]
        state = await store.load_state(name)
        seen.append((state.version, sorted(state.pieces.items())))
    return seen


@pytest.mark.parametrize("kind", ["sqlite", "redis", "postgres"])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(calls=st.lists(CALLS, max_size=25))
def test_all_stores_answer_as_the_memory_store(make, calls):
    """Whatever is called, in whatever order, with a clock, a bound and keys: they answer and keep the same.

    Time stands still, so that all of them count versions alike.
    """
    clock = [1_000.0]
    options = {"ttl": 100.0, "clock": lambda: clock[0], "max_bytes": 400}

    async def compare():
        told, store_module._microseconds = store_module._microseconds, lambda: 0
        try:
            await compare_at_one_moment()
        finally:
            store_module._microseconds = told

    async def compare_at_one_moment():
        expected, handles = MemoryStore(**options), {}
        async with make(f"p{os.urandom(6).hex()}", **options) as store:
            for call in calls:
                before = clock[0]
                wanted = await answer(expected, call, dict(handles), clock)
                clock[0] = before
                assert wanted == await answer(store, call, handles, clock), call
            assert await looked_at(expected) == await looked_at(store)

    anyio.run(compare)


@pytest.mark.both_loops
async def test_sessions_are_handed_over_and_shared(make):
    """In each store: another worker goes on as one that never moved; twenty at once lose and double no step."""
    turns = [user("task")]
    for place in range(20):
        turns += [assistant(call(f"c{place}", "read", {"n": place})), result(f"c{place}", f"output {place} " * 90)]
    messages, plan = transcript("openai-chat", *turns), Pipeline(FitContextWindow(), budget=Budget(1_500))
    alone = plan.session()
    for length in range(1, 42, 4):
        expected = await alone.prepare(messages[:length])
        async with Sessions(plan, make()).open("x") as session:
            assert (await session.prepare(messages[:length])).messages == expected.messages
    steps, workers = alone.steps, [Sessions(plan, make()) for _ in range(5)]

    async def work(number):
        async with workers[number % 5].using("x") as session:
            view = await session.prepare(messages[: 2 * number + 1])
            assert "Sessions" not in {stage.stage for stage in view.report.stages}

    async with anyio.create_task_group() as group:
        for number in range(20):
            group.start_soon(work, number)
    async with Sessions(plan, make()).open("x") as session:
        assert session.steps == steps + 20
    for worker in workers:
        await worker.store.aclose()


async def test_a_content_in_memory_that_another_thread_puts_meanwhile():
    """Who reads what several conversations have left out gets it, while other threads leave out the same."""
    store, threads = MemoryStore(), []
    handle = await store.put(b"a long log")

    class Moment(float):
        """While it is compared, another thread puts the content for a conversation of its own."""

        def __lt__(self, _expires):
            other = store.for_conversation(f"thread-{len(threads)}")
            threads.append(threading.Thread(target=anyio.run, args=(other.put, b"a long log")))
            threads[-1].start()
            threads[-1].join(0.2)
            return False

    assert store.backend.get(handle, None, Moment()) is None
    for thread in threads:
        thread.join()
    assert len(threads) == 1
    assert await store.for_conversation("thread-0").get(handle) == b"a long log"


async def test_what_has_expired_goes_after_a_clock_was_put_back():
    """Writing takes it away, also where the clock was far ahead for a while."""
    store = MemoryStore(ttl=10)
    for now, name in ((1_000_000.0, "ahead"), (100.0, "expires"), (200.0, "stays")):
        store.clock = lambda now=now: now
        await store.for_conversation(name).put(name.encode())
    assert len(store) == 2


class WithoutBackend(ConversationStore):
    """A store of one's own that is not done."""


def test_a_store_without_a_back_end_is_told_what_it_lacks():
    """The class that all stores derive from when it is made, one that derives from it when it is used."""
    with pytest.raises(ConfigError, match=r"ConversationStore has no back end .* use MemoryStore, .* or set _backend"):
        ConversationStore()
    with pytest.raises(ConfigError, match="WithoutBackend has no back end"):
        anyio.run(WithoutBackend().put, b"a long log")
