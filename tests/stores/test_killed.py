"""Processes and servers that are killed under load: what was acknowledged is there, nothing is half-written."""

import os
import random
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest

from agentctx import Sessions
from agentctx.errors import StoreUnavailable
from agentctx.stores import PostgresStore, RedisStore, SQLiteStore

pytestmark = pytest.mark.anyio

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE))
from session_writer import history, pipeline  # noqa: E402 - as the next
from writer import record, sum_of  # noqa: E402 - it stands beside this file

KILLS = int(os.environ.get("AGENTCTX_KILLS", "3"))
PROCESSES = 8


def started(path, number, told):
    """A process that writes, and tells what was acknowledged at the end of a file."""
    with told.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, HERE / "writer.py", path, str(number)], stdout=out, stderr=subprocess.PIPE
        )


def wait_for(told, number):
    """Wait until a process has written something."""
    until = time.monotonic() + 120
    while not any(line.startswith(f"{number} ") for line in told.read_text().splitlines()):
        assert time.monotonic() < until
        time.sleep(0.01)


async def test_processes_that_are_killed_leave_all_that_was_acknowledged(tmp_path):
    """Eight processes write to one SQLite file and are killed, each in the middle: a record is whole or not there."""
    path, told, chosen = tmp_path / "agents" / "context.db", tmp_path / "told", random.Random(1)  # noqa: S311 - when to kill which
    running = {number: started(path, number, told) for number in range(PROCESSES)}
    last = PROCESSES
    try:
        wait_for(told, 0)
        for _ in range(KILLS):
            await anyio.sleep(chosen.random() * 0.05)
            victim = chosen.choice(sorted(running))
            killed = running.pop(victim)
            killed.kill()
            assert killed.communicate()[1] == b""
            running[last] = started(path, last, told)
            wait_for(told, chosen.choice(sorted(set(running) - {last}) or [last]))
            last += 1
        wait_for(told, last - 1)
    finally:
        for process in running.values():
            process.kill()
        errors = b"".join(process.communicate()[1] for process in running.values())
    assert errors == b""

    async with SQLiteStore(path) as store:
        await store.append("shared", [{"the": "end"}], None)  # no lock was left
        messages = (await store.load("shared")).messages[:-1]
        there = {}
        for at in range(0, len(messages), 3):
            first = messages[at]
            assert messages[at : at + 3] == record(first["n"], first["turn"])
            assert all(each["sum"] == sum_of(each["text"]) for each in messages[at : at + 3])
            assert (first["n"], first["turn"]) not in there
            there[first["n"], first["turn"]] = at
        for line in told.read_text().splitlines():
            number, turn, handle = line.split()
            assert (int(number), int(turn)) in there
            assert (await store.get(handle)).decode() == record(int(number), int(turn))[0]["text"]
            own = await store.load_state(f"own-{number}")
            assert int(own.pieces["turn"]) >= int(turn)
            assert len([name for name in own.pieces if name.startswith("turn/")]) <= 3
    with sqlite3.connect(path) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    connection.close()


async def test_a_session_that_is_saved_by_a_process_that_is_killed(tmp_path):
    """Workers are killed while they save a session: the next one goes on after the last step that was acknowledged."""
    path, told, chosen = tmp_path / "context.db", tmp_path / "told", random.Random(2)  # noqa: S311 - when to kill
    alone, steps = pipeline().session(), 0
    for _ in range(KILLS):
        told.write_bytes(b"")
        with told.open("ab") as out:
            command = [sys.executable, HERE / "session_writer.py", path]
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.PIPE)  # noqa: ASYNC220 - it only starts
        wait_for(told, 0)
        await anyio.sleep(0.2 + chosen.random() * 0.1)
        process.kill()
        assert process.communicate()[1] == b""
        acknowledged = int(told.read_text().split("\n")[-2].split()[1])
        async with Sessions(pipeline(), SQLiteStore(path)).open("shared") as session:
            assert steps < acknowledged <= session.steps <= acknowledged + 1
            for step in range(steps, session.steps):
                await alone.prepare(history(step))
            view = await session.prepare(history(session.steps))
            assert view.messages == (await alone.prepare(history(alone.steps))).messages
            assert "Sessions" not in {stage.stage for stage in view.report.stages}
            steps = session.steps


async def load(store, acknowledged, done):
    """Write messages, each until the store says that it has it, with one key for all attempts."""

    async def write(number):
        turn = 0
        while not done.is_set():
            message = {"n": number, "turn": turn}
            while True:
                try:
                    await store.append("shared", [message], None, key=f"{number}:{turn}")
                    break
                except StoreUnavailable:
                    await anyio.sleep(0.02)
            acknowledged.append((number, turn))
            turn += 1

    async with anyio.create_task_group() as group:
        for number in range(8):
            group.start_soon(write, number)


async def check(store, acknowledged):
    """Every record that was acknowledged is there, each once, and in its writer's order."""
    found = [(each["n"], each["turn"]) for each in (await store.load("shared")).messages]
    assert len(found) == len(set(found))
    assert sorted(found) == sorted(acknowledged)
    for number in range(8):
        turns = [turn for each, turn in found if each == number]
        assert turns == list(range(len(turns)))


async def more_of(acknowledged):
    """Wait until twenty more records were acknowledged."""
    before = len(acknowledged)
    with anyio.fail_after(60):
        while len(acknowledged) < before + 20:  # noqa: ASYNC110 - a list tells nobody
            await anyio.sleep(0.01)


async def under_load(store, restart):
    """Restart a server a few times while it is written to."""
    acknowledged, done = [], anyio.Event()
    async with anyio.create_task_group() as group:
        group.start_soon(load, store, acknowledged, done)
        for _ in range(KILLS):
            await more_of(acknowledged)
            await anyio.to_thread.run_sync(restart)
        await more_of(acknowledged)
        done.set()
    await check(store, acknowledged)


async def test_valkey_that_is_killed_leaves_all_that_was_acknowledged(tmp_path_factory, servers_module):
    """With appendfsync, a server that is killed with kill -9 and started again has lost and doubled nothing."""
    folder = servers_module.short_folder()
    options = "--appendonly", "yes", "--appendfsync", "always"
    process, url = servers_module.valkey(folder, *options)

    def restart():
        nonlocal process
        process.kill()
        process.wait()
        Path(url.removeprefix("unix://")).unlink(missing_ok=True)
        process, _ = servers_module.valkey(folder, *options)

    try:
        async with RedisStore(url, timeout=20) as store:
            await under_load(store, restart)
    finally:
        process.kill()
        process.wait()
        servers_module.remove(folder)


async def test_postgres_that_is_restarted_leaves_all_that_was_acknowledged(servers_module):
    """A server that is stopped at once, as by a crash, and started again has lost and doubled nothing."""
    folder = servers_module.short_folder()
    server = servers_module.postgres(folder)
    try:
        async with PostgresStore(server.get_uri(), timeout=20) as store:
            await under_load(store, lambda: servers_module.tell(server, "restart"))
    finally:
        servers_module.stop(server)
        servers_module.remove(folder)
