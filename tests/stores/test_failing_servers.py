"""Servers that are down, slow, full, or answer nonsense: each error says whether to try again, and in time."""

import socket
import threading
import time
from contextlib import contextmanager, suppress

import anyio
import pytest
import pytest_socket
from redis import Redis

from agentctx import Budget, FitContextWindow, Pipeline, Sessions, validate
from agentctx.errors import StoreConflict, StoreError, StoreFull, StoreUnavailable
from agentctx.recall import Recall
from agentctx.session import keeping
from agentctx.stores import PostgresStore, RedisStore
from agentctx.stores.store import CONNECTIONS
from agentctx.testing import assistant, call, result, transcript, user

pytestmark = pytest.mark.anyio

TIMEOUT = 1.0
NONSENSE = b"\xffHTTP/1.1 400 Bad Request\r\n\r\n"


def hang_up(end):
    """Close a socket, also one that another thread reads from."""
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()


class Proxy:
    """Passes bytes between a client and a server's unix socket, and can go wrong in several ways."""

    def __init__(self, path, where):
        self.path, self.where, self.how, self.ends = str(path), where, "well", []
        self.trips, self.told, self.nonsense = 0, True, NONSENSE
        self.accepted = 0
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.listener.bind(self.path)
        self.listener.listen()
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.accepted += 1
            if self.how == "down":
                client.close()
                continue
            server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            server.connect(self.where)
            self.ends += [client, server]
            threading.Thread(target=self.pump, args=(client, server, False), daemon=True).start()
            threading.Thread(target=self.pump, args=(server, client, True), daemon=True).start()

    def pump(self, source, target, answers):
        try:
            while data := source.recv(65_536):
                self.trips += self.told and not answers
                self.told = answers
                if self.how == "silent" and answers:
                    continue
                if self.how == "slow" and answers:
                    time.sleep(0.05)
                if self.how == "nonsense" and answers:
                    data = self.nonsense
                if self.how == "cut" and answers:
                    break
                for number in range(len(data) - 1 if self.how == "bits" and answers else 0):
                    target.sendall(data[number : number + 1])
                    time.sleep(0.0005)
                data = data[-1:] if self.how == "bits" and answers else data
                target.sendall(data)
        except OSError:
            pass
        finally:
            for each in (source, target):
                hang_up(each)

    def close(self):
        self.listener.close()
        for each in self.ends:
            hang_up(each)


async def make_tables(store):
    """Let the server make the tables, for which a busy machine takes its time."""
    async with store:
        await store.handles()


@contextmanager
def proxied(kind, servers, tmp_path_factory, timeout=TIMEOUT, **options):
    """A store of that kind behind a proxy."""
    folder = tmp_path_factory.mktemp("p")
    if kind == "redis":
        proxy = Proxy(folder / "s", servers["redis"].removeprefix("unix://"))
        store = RedisStore(f"unix://{proxy.path}", prefix=folder.name + str(time.time_ns()), timeout=timeout, **options)
    else:
        real = servers["postgres"].split("host=")[1]
        proxy = Proxy(folder / ".s.PGSQL.5432", f"{real}/.s.PGSQL.5432")
        url = servers["postgres"].replace(real, str(folder))
        schema = f"s{time.time_ns()}"
        anyio.run(make_tables, PostgresStore(servers["postgres"], schema=schema, timeout=30))
        store = PostgresStore(url, schema=schema, timeout=timeout, **options)
    try:
        yield store, proxy
    finally:
        proxy.close()


@pytest.fixture(params=["redis", "postgres"])
def failing(request, servers, tmp_path_factory):
    """A store behind a proxy, and the proxy."""
    with proxied(request.param, servers, tmp_path_factory) as both:
        yield both


@pytest.fixture(params=["redis", "postgres"])
def patient(request, servers, tmp_path_factory):
    """The same with a store that waits for long: one wait and two can be told apart also on a busy machine."""
    with proxied(request.param, servers, tmp_path_factory, timeout=5.0) as both:
        yield both


async def answers_again(store, proxy, handle, error):
    """Let the server do its work again, and wait until the store gives back what it had kept."""
    proxy.how = "well"
    with anyio.fail_after(60):
        while True:
            try:
                assert await store.get(handle) == b"kept"
                break
            except error:
                await anyio.sleep(0.1)


@pytest.mark.both_loops
@pytest.mark.parametrize("how", ["down", "silent", "cut"])
async def test_a_server_that_is_away_is_told_in_time_and_found_again(failing, how, caplog):
    """Each call raises StoreUnavailable within its time limit; when the server is back, the next call succeeds."""
    store, proxy = failing
    handle = await store.put(b"kept")
    version = await store.append("x", [{"n": 1}], 0)
    proxy.how = how
    if how == "down":
        for each in proxy.ends:
            hang_up(each)
    calls = store.put(b"more"), store.get(handle), store.append("x", [{"n": 2}], version), store.load("x")
    for asked in calls:
        with anyio.fail_after(60), pytest.raises(StoreUnavailable):
            await asked
    await answers_again(store, proxy, handle, StoreUnavailable)
    assert [each["n"] for each in (await store.load("x")).messages] in ([1], [1, 2])
    assert not [record for record in caplog.records if record.name.startswith(("psycopg", "redis"))]
    await store.aclose()


async def test_a_slow_server_is_waited_for(failing):
    """Answers that are late, but in time, are answers."""
    store, proxy = failing
    await store.put(b"kept")
    proxy.how = "slow"
    with anyio.fail_after(60):
        for _ in range(3):
            try:
                assert await store.get(await store.put(b"more")) == b"more"
                break
            except StoreUnavailable:
                pass
        else:
            pytest.fail("never in time")
    await store.aclose()


async def test_what_a_far_server_is_asked(failing):
    """Where a connection is known, a content, messages and a saved step each take one round trip, and a read a few."""
    store, proxy = failing
    part = store.for_conversation("x")

    async def trips(call):
        before = proxy.trips
        await call
        return proxy.trips - before

    for number in range(2):
        writes = part.put(b"%d" % number), store.append("x", [{}], None), store.save_state("x", {"p": b"1"}, None)
        found = [await trips(each) for each in (*writes, store.load("x"), store.load_state("x"))]
    assert found[:3] == [1, 1, 1]
    assert max(found) <= 4
    await store.aclose()


async def test_an_answer_that_comes_in_bits_is_read_whole(failing):
    """A write whose answer comes byte by byte: the right version, conflict or want of room."""
    store, proxy = failing
    store.max_bytes = 1_000
    for _ in range(3):
        version = await store.save_state("x", {"head": b"1"}, None)
    proxy.how, before = "bits", proxy.trips
    again = await store.save_state("x", {"head": b"2"}, version)
    assert again > version
    with pytest.raises(StoreConflict) as caught:
        await store.save_state("x", {"head": b"3"}, version)
    assert caught.value.version == again
    assert proxy.trips - before == 2
    with pytest.raises(StoreFull, match=r"would have 1,\d{3} bytes"):
        await store.save_state("x", {"head": b"4" * 1_100}, again)
    await store.aclose()


async def test_nonsense_is_an_error_of_the_store(failing):
    """A server that answers something else is a StoreError, and no other error; afterwards the store goes on."""
    store, proxy = failing
    handle = await store.put(b"kept")
    listed = [b"+OK\r\n", b":7\r\n", b"*1\r\n$1\r\nx\r\n"] if isinstance(store, RedisStore) else []
    for proxy.nonsense in [NONSENSE, *listed]:
        proxy.how = "nonsense"
        for asked in (
            store.get,
            store.load,
            store.state_version,
            lambda _: store.put(b"more"),
            lambda _: store.stored(),
        ):
            with pytest.raises(StoreError) as caught:
                await asked(handle)
            assert not isinstance(caught.value, (StoreConflict, StoreFull))
        await answers_again(store, proxy, handle, StoreError)
    await store.aclose()


@pytest.mark.parametrize("how", ["size", "expires"])
async def test_what_somebody_has_garbled_can_be_purged(servers, how):
    """A number that is none is a StoreError, and no other error; purging and sweeping come to an end, and mend it."""
    async with RedisStore(servers["redis"], prefix=f"g{time.time_ns()}", ttl=100.0) as store:
        await store.append("x", [{"n": 1}], 0)
        with Redis.from_url(store.url) as client:
            if how == "size":
                client.hset(f"{{{store.prefix}}}:o", "cx", b"\xff")
                with pytest.raises(StoreError):
                    await store.stored()
            else:
                client.zadd(f"{{{store.prefix}}}:e", {b"\xff": 1})
                with anyio.fail_after(60):
                    await store.sweep()
        await store.purge("x")
        assert await store.stored() == []
        await store.append("x", [{"n": 1}], 0)


async def test_closing_leaves_calls_that_are_under_way(failing):
    """They get their answers from a server that takes its time, and leave no connection behind."""
    store, proxy = failing
    handle, answers = await store.put(b"kept"), []

    async def ask():
        answers.append(await store.get(handle))

    proxy.how = "slow"
    for _ in range(3):
        async with anyio.create_task_group() as group:
            for _ in range(4):
                group.start_soon(ask)
            await anyio.sleep(0.03)
            await store.aclose()
    assert answers == [b"kept"] * 12
    await store.aclose()
    with anyio.fail_after(60):
        while any(end.fileno() >= 0 for end in proxy.ends):  # noqa: ASYNC110 - it is closed by a thread
            await anyio.sleep(0.01)


@pytest.mark.both_loops
async def test_calls_that_are_given_up_leave_few_connections(failing):
    """However many are cancelled while a server says nothing: so many connections are open as there are places."""
    store, proxy = failing
    handle = await store.put(b"kept")
    proxy.how, before = "silent", proxy.accepted
    for _ in range(8):
        with anyio.move_on_after(0.05):
            async with anyio.create_task_group() as group:
                for _ in range(CONNECTIONS):
                    group.start_soon(store.put, b"more")
    assert proxy.accepted - before <= CONNECTIONS
    await answers_again(store, proxy, handle, StoreUnavailable)
    await store.aclose()


async def test_many_calls_to_a_silent_server_end_in_time(patient):
    """Forty at once to a server that says nothing: all wait for it at the same time, and none hangs later."""
    store, proxy = patient
    handle, told = await store.put(b"kept"), []
    proxy.how = "silent"

    async def ask():
        with pytest.raises(StoreUnavailable):
            await store.get(handle)
        told.append(1)

    begun = time.monotonic()
    async with anyio.create_task_group() as group:
        for _ in range(40):
            group.start_soon(ask)
    assert time.monotonic() - begun < 3 * store.timeout  # in turns, by as many as there are connections, it is 5
    assert len(told) == 40
    await answers_again(store, proxy, handle, StoreUnavailable)
    await store.aclose()


async def fill(store):
    """Put one content after another into a store."""
    for number in range(100):
        await store.put(bytes([number]) * 1_000_000)


async def fill_history(store):
    """Append one long message after another."""
    for _ in range(100):
        await store.append("x", [{"n": "much " * 200_000}], None)


async def test_a_server_without_memory_is_full(servers_module, caplog):
    """Valkey that has no memory left is StoreFull; what it has stays there; one that would throw it away is named."""
    folder = servers_module.short_folder()
    process, url = servers_module.valkey(folder, "--maxmemory", "8mb", "--maxmemory-policy", "noeviction")
    try:
        async with RedisStore(url) as store:
            handle = await store.put(b"kept")
            with pytest.raises(StoreFull):
                await fill(store)
            with pytest.raises(StoreFull):
                await fill_history(store)
            assert await store.get(handle) == b"kept"
            assert "evicts" not in caplog.text
            store.backend._client.config_set("maxmemory-policy", "allkeys-lru")
        await store.handles()
        assert "evicts keys where memory is short (allkeys-lru)" in caplog.text
        await store.aclose()
    finally:
        process.kill()
        process.wait()
        servers_module.remove(folder)


async def test_what_will_not_succeed_is_told_from_what_may(servers, tmp_path):
    """A database that is not there and a server that refuses are permanent; a server that is not there is transient.

    So is one that is written to elsewhere, until somebody is made the one that is written to.
    """
    pytest_socket.enable_socket()
    try:
        with pytest.raises(StoreError, match="does not exist") as caught:
            await PostgresStore(servers["postgres"].replace("/postgres?", "/nowhere?")).load("x")
        assert not isinstance(caught.value, StoreUnavailable)
        for store in (
            PostgresStore(f"postgresql://postgres@/postgres?host={tmp_path}"),
            PostgresStore(with_setting(servers["postgres"], "default_transaction_read_only=on"), schema="only_read"),
            RedisStore(f"unix://{tmp_path}/no.sock"),
            RedisStore("redis://127.0.0.1:1"),
        ):
            with pytest.raises(StoreUnavailable):
                await store.load("x")
    finally:
        pytest_socket.disable_socket(allow_unix_socket=True)


def with_setting(url, setting):
    """The address of a server, with a setting of the database's."""
    return f"{url}&options=-c%20{setting.replace('=', '%3D')}"


async def test_a_database_with_another_isolation(servers):
    """Where transactions are serializable by default, writers at once get in each other's way no more than else."""
    url = with_setting(servers["postgres"], "default_transaction_isolation=serializable")
    async with PostgresStore(url, schema=f"s{time.time_ns()}", timeout=30) as store:
        await store.append("x", [{"n": 0}], 0)
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(store.append, "x", [{"n": number}], None)
        assert len((await store.load("x")).messages) == 21


TURNS = [user("task")]
for place in range(8):
    TURNS += [assistant(call(f"c{place}", "read", {"n": place})), result(f"c{place}", f"output {place} " * 90)]


@pytest.mark.parametrize("how", ["down", "silent", "nonsense", "cut"])
async def test_a_step_goes_on_without_its_store(failing, how):
    """The view is legal and in time; what was not kept has no handle, and the report says why."""
    store, proxy = failing
    recall = Recall(store)
    messages, tools = transcript("openai-chat", *TURNS), [recall.definition("openai-chat")]
    pipeline = Pipeline(FitContextWindow(), budget=Budget(1_200), store=store)
    await Pipeline(FitContextWindow(), budget=Budget(1_200)).prepare(messages, tools=tools)  # loads what counts tokens
    await store.put(b"connected")
    proxy.how = how
    if how == "down":
        for each in proxy.ends:
            hang_up(each)
    with anyio.fail_after(60):
        view = await pipeline.prepare(messages, tools=tools)
    assert not validate({"messages": view.messages, "tools": tools}, format="openai-chat")
    assert not any(change.handle for change in view.report.changes)
    assert "could be kept" in " ".join(note for stage in view.report.stages for note in stage.notes)
    assert "cannot" in await recall({"search": "output"})
    await store.aclose()


async def test_a_step_waits_for_a_silent_store_once(patient, monkeypatch):
    """A store that says nothing is waited for once in a step, for contents and for the state, and soon asked again."""
    (store, proxy), later = patient, 0.0
    monkeypatch.setattr(keeping, "monotonic", lambda: time.monotonic() + later)
    tools = [Recall(store).definition("openai-chat")]
    messages = transcript("openai-chat", *TURNS)
    sessions = Sessions(Pipeline(FitContextWindow(), budget=Budget(1_200), store=store), store)
    async with sessions.open("x") as session:
        await session.prepare(messages[:3], tools=tools)
        proxy.how, begun = "silent", time.monotonic()
        view = await session.prepare(messages[:-2], tools=tools)
        told = {stage.stage for stage in view.report.stages if stage.notes}
        assert {"Sessions", "Store"} <= told
        assert time.monotonic() - begun < 2 * store.timeout
        begun = time.monotonic()
        await session.prepare(messages, tools=tools)
        assert time.monotonic() - begun < store.timeout
        proxy.how, later = "well", keeping.PAUSE * store.timeout
        with anyio.fail_after(60):
            while any(stage.stage == "Sessions" for stage in view.report.stages):
                await anyio.sleep(0.2)
                view = await session.prepare(messages, tools=tools)
    await store.aclose()


@pytest.mark.parametrize("how", ["down", "silent", "slow", "nonsense", "cut"])
async def test_a_session_goes_on_without_its_store(failing, how):
    """Each step of a session is legal and in time; what was not kept is said, and kept with the next step that can."""
    store, proxy = failing
    messages = transcript("openai-chat", *TURNS)
    sessions = Sessions(Pipeline(FitContextWindow(), budget=Budget(1_200)), store, timeout=TIMEOUT)
    async with sessions.open("x") as session:
        await session.prepare(messages[:3])
        proxy.how = how
        if how == "down":
            for each in proxy.ends:
                hang_up(each)
        with anyio.fail_after(60):
            view = await session.prepare(messages[:9])
        assert not validate({"messages": view.messages}, format="openai-chat")
        notes = [note for stage in view.report.stages if stage.stage == "Sessions" for note in stage.notes]
        assert how == "slow" or "the step is not kept" in " ".join(notes)
        proxy.how = "well"
        with anyio.fail_after(60):
            while any(stage.stage == "Sessions" for stage in view.report.stages) or view.origins[-1] != 16:
                await anyio.sleep(0.1)
                view = await session.prepare(messages)
    async with Sessions(session.plan, store).open("x") as again:
        assert again.steps == session.steps
    await store.aclose()
