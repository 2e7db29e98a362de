"""The locks that SQLite keeps other processes off with: a process has them as long as it has the file open."""

import os
import sqlite3
import subprocess
import sys
from contextlib import closing

import anyio
import pytest

from agentctx.errors import StoreError
from agentctx.stores import SQLiteStore

pytestmark = pytest.mark.anyio

WORKER = """
import sys, anyio
from agentctx.stores import SQLiteStore

async def work(path):
    store = SQLiteStore(path)
    for turn in range(3):
        await store.save_state("x", {"turn": b"%d" % turn}, None)
    print("ready", flush=True)
    for line in sys.stdin:
        await store.save_state("x", {"turn": line.strip().encode()}, None)
        print(await store.append("x", [{"turn": line.strip()}], None), flush=True)

anyio.run(work, sys.argv[1])
"""


def started(path):
    return subprocess.Popen(
        [sys.executable, "-c", WORKER, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


async def test_a_process_that_comes_and_goes_takes_nothing_from_another(tmp_path):
    """A worker has several connections; another process opens the file and closes it: what the worker writes stays."""
    path = tmp_path / "context.db"
    with started(path) as worker:
        try:
            assert worker.stdout.readline() == "ready\n"
            for turn in range(3):
                async with SQLiteStore(path) as store, SQLiteStore(path) as other:
                    await store.save_state("y", {"turn": b"%d" % turn}, None)
                    assert len((await other.load("x")).messages) == turn
                assert (tmp_path / "context.db-wal").exists()
                worker.stdin.write(f"told {turn}\n")
                assert worker.stdout.readline().strip().isdigit()
        finally:
            worker.kill()
    async with SQLiteStore(path) as store:
        assert (await store.load_state("x")).pieces == {"turn": b"told 2"}
        assert len((await store.load("x")).messages) == 3
        assert (await store.load_state("y")).pieces == {"turn": b"2"}


def saved_in_a_fork(store, told, goes_on):
    """Begin with a read, and write after the other process has closed the file."""

    async def work():
        await store.load_state("x")
        await store.save_state("x", {"before": b"1"}, None)
        os.write(told, b"1")
        os.read(goes_on, 1)
        await store.save_state("x", {"after": b"1"}, None)

    try:
        anyio.run(work)
        os._exit(0)
    finally:
        os._exit(1)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_keeps_what_it_writes_when_the_other_process_closes(tmp_path):
    """It has locks of its own, whatever it does first."""
    store = SQLiteStore(tmp_path / "context.db")
    for _ in range(3):
        anyio.run(store.save_state, "x", {"head": b"1"}, None)
    told, tells = os.pipe()
    waits, goes_on = os.pipe()
    if not (child := os.fork()):
        saved_in_a_fork(store, tells, waits)
    assert os.read(told, 1) == b"1"
    anyio.run(store.aclose)
    os.write(goes_on, b"1")
    assert os.waitpid(child, 0)[1] == 0
    assert set(anyio.run(SQLiteStore(store.path).load_state, "x").pieces) == {"head", "before", "after"}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_in_the_middle_of_a_call_is_told(tmp_path):
    """Where a call was at work when the process was forked, the new one gets an error; the old one goes on."""
    store = SQLiteStore(tmp_path / "context.db")
    anyio.run(store.save_state, "x", {"head": b"1"}, None)
    with store.backend._connections.one():
        if not (child := os.fork()):
            try:
                anyio.run(SQLiteStore(store.path).load_state, "x")
            except StoreError as error:
                os._exit(7 if "fork while no call" in str(error) else 8)
            finally:
                os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    anyio.run(store.save_state, "x", {"head": b"2"}, None)
    assert anyio.run(store.load_state, "x").pieces == {"head": b"2"}
    anyio.run(store.aclose)


@pytest.mark.skipif(os.name == "nt", reason="an open file cannot be taken away there")
async def test_a_copy_that_is_written_into_the_file_is_noticed(tmp_path, caplog):
    """The log of the file was taken away, and the file is the same: other processes see the next write."""
    path, copy = tmp_path / "context.db", tmp_path / "copy.db"
    async with SQLiteStore(path) as store, SQLiteStore(path) as other:
        for _ in range(3):
            await store.save_state("x", {"copied": b"1"}, None)
        await other.load_state("x")
        with closing(sqlite3.connect(path)) as source, closing(sqlite3.connect(copy)) as target:
            source.backup(target)
        for end in ("-wal", "-shm"):
            path.with_name(path.name + end).unlink()
        await anyio.run_process(["cp", str(copy), str(path)])
        await store.save_state("x", {"told": b"1"}, None)
        assert "was deleted, or replaced" in caplog.text
        assert set((await other.load_state("x")).pieces) == {"copied", "told"}
        look = "import sqlite3, sys; print(sqlite3.connect(sys.argv[1]).execute(sys.argv[2]).fetchall())"
        for query, answer in (("PRAGMA integrity_check", "ok"), ("SELECT count(*) FROM pieces", 2)):
            ran = await anyio.run_process([sys.executable, "-c", look, str(path), query])
            assert ran.stdout.decode().strip() == repr([(answer,)])
