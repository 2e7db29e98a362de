"""``agentctx store`` and ``agentctx recall``, over a real file and a real server."""

import importlib.util
import json
import os
import pty
import re
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import anyio
import pytest
import redis

from agentctx.stores import RedisStore, SQLiteStore

LOG = b"a long log, port 8080\n" * 20
PICTURE = bytes(range(256))
PRIVATE = "what was said in private"

spec = importlib.util.spec_from_file_location("servers", Path(__file__).parents[1] / "stores" / "servers.py")
servers = importlib.util.module_from_spec(spec)
spec.loader.exec_module(servers)


async def fill(store):
    """Two conversations and something that is nobody's; the handles of what was left out."""
    await store.append("thread-42", [{"role": "user", "content": PRIVATE}, {"role": "assistant", "content": "Yes."}], 0)
    await store.save_state("thread-42", {"head": b"x" * 100, "tail": b"y" * 11}, 0)
    log = await store.for_conversation("thread-42").put(LOG)
    picture = await store.for_conversation("thread-42").put(PICTURE)
    await store.for_conversation("thread-43").put(LOG)
    await store.put(b"nobody's")
    return log, picture


@pytest.fixture
def file(tmp_path):
    """A store in a file, and what was left out in it."""

    async def make():
        async with SQLiteStore(tmp_path / "context.db") as store:
            return await fill(store)

    return tmp_path / "context.db", *anyio.run(make)


@pytest.fixture(scope="module")
def valkey():
    """A Valkey server of these tests."""
    folder = servers.short_folder()
    process, url = servers.valkey(folder)
    yield url
    process.kill()
    process.wait()
    servers.remove(folder)


def lines(shown):
    return [json.loads(line) for line in shown.stdout.splitlines()]


def test_the_conversations_are_named_the_largest_first(run, file):
    """A line for each, with its size and what there is of it; what is nobody's is one, too."""
    named = lines(run("store", "ls", "--store", file[0], "--json"))
    assert [each["name"] for each in named] == ["thread-42", "thread-43", None]
    assert named[0]["contents"] == 2
    assert all(abs(named[0][each] / 1e6 - time.time()) < 3600 for each in ("history", "state"))
    assert named[0]["bytes"] > len(LOG) + len(PICTURE) + 111
    shown = run("store", "ls", env={"AGENTCTX_STORE": str(file[0])})
    assert [line.split()[0] for line in shown.stdout.splitlines()[3:6]] == ["thread-42", "thread-43", "(unowned)"]


def test_how_much_there_is_is_told(run, file):
    """The sums, for people and for machines."""
    shown = run("store", "stats", "--store", file[0]).stdout.splitlines()
    assert shown[0].startswith("conversations  2, the largest of ")
    assert shown[4].endswith("; 1 unowned")
    assert shown[5] == "expires first  never"
    told = json.loads(run("store", "stats", "--store", file[0], "--json").stdout)
    assert (told["conversations"], told["histories"], told["states"], told["contents"]) == (2, 1, 1, 3)


def test_a_store_of_a_hundred_thousand_is_named_in_part(run, file):
    """The list ends at a limit, and a note says how many more there are; machines get all."""
    with sqlite3.connect(file[0]) as connection:
        rows = ((b"cmany-%d" % number, 1) for number in range(100_000))
        connection.executemany("INSERT INTO owners (name, size) VALUES (?, ?)", rows)
    connection.close()
    shown = run("store", "ls", "--store", file[0])
    assert len(shown.stdout.splitlines()) == 50 + 4
    assert "note: 99,953 more" in shown.stderr
    assert "empty" not in run("store", "ls", "--limit", "0", "--store", file[0]).stdout
    assert run("store", "ls", "--store", file[0], "--json").stdout.count("\n") == 100_003
    assert json.loads(run("store", "stats", "--store", file[0], "--json").stdout)["conversations"] == 100_002


def test_what_was_said_is_printed_when_it_is_asked_for(run, file):
    """Sizes, times and handles are shown; messages and contents with --content only."""
    path, log, picture = file
    shown = run("store", "show", "thread-42", "--store", path)
    assert re.search(r"history    written [-0-9]{10} [:0-9]{5} UTC, 2 messages: 1 assistant, 1 user", shown.stdout)
    assert re.search(r"state      written [-0-9]{10} [:0-9]{5} UTC, 2 pieces, 111 bytes", shown.stdout)
    assert all(handle in shown.stdout for handle in (log, picture))
    told = json.loads(run("store", "show", "thread-42", "--store", path, "--json").stdout)
    assert told["handles"] == [{"handle": log, "bytes": len(LOG)}, {"handle": picture, "bytes": 256}]
    for command in (["show", "thread-42"], ["ls"], ["stats"], ["show", "thread-42", "--json"]):
        assert PRIVATE not in run("store", *command, "--store", path).output
    for more in ([], ["--json"]):
        said = run("store", "show", "thread-42", "--content", "--store", path, *more).stdout
        assert PRIVATE in said
        assert "port 8080" in said


def test_what_was_left_out_is_recalled_to_the_byte(run, file):
    """The bytes go to stdout as they are, by the handle or by how it begins."""
    path, log, picture = file
    assert run("recall", log, "--store", path).stdout_bytes == LOG
    assert run("recall", picture[:6], "--store", path, "--conversation", "thread-42").stdout_bytes == PICTURE
    assert lines(run("recall", log, "--store", path, "--json"))[0]["text"] == LOG.decode()
    assert "base64" in lines(run("recall", picture, "--store", path, "--json"))[0]


def test_a_terminal_obeys_nothing_that_is_recalled(tmp_path):
    """What a tool has said is shown there without the characters that a terminal takes for commands."""
    path = tmp_path / "context.db"
    handle = anyio.run(SQLiteStore(path).put, b"red \x1b[31m and \x1b]0;a title\x07 \xff")
    ours, terminal = pty.openpty()
    asked = [sys.executable, "-c", "from agentctx.cli import main; main()", "recall", handle, "--store", str(path)]
    with subprocess.Popen(asked, stdout=terminal, stderr=terminal) as process:
        assert process.wait(60) == 0
    os.close(terminal)
    shown = os.read(ours, 1_000).decode()
    os.close(ours)
    assert "red \u241b[31m and \u241b]0;a title\u2407 \ufffd" in shown


def test_the_results_of_a_message_are_recalled_one_by_one(run, tmp_path):
    """A handle with the number of a result gives what that says, as the recall tool does."""
    results = [{"type": "tool_result", "tool_use_id": str(at), "content": f"result {at}"} for at in (1, 2)]
    message = json.dumps({"role": "user", "content": results}).encode()

    async def make():
        async with SQLiteStore(tmp_path / "context.db") as store:
            return await store.put(message)

    handle, place = anyio.run(make), ("--store", tmp_path / "context.db")
    assert run("recall", f"{handle}#2", *place).stdout == "result 2\n"
    assert run("recall", handle, *place).stdout_bytes == run("recall", f"{handle}#0", *place).stdout_bytes == message
    assert run("recall", handle, "--text", *place).stdout == "[result 1]\nresult 1\n\n[result 2]\nresult 2\n"


def test_words_are_found_in_what_a_conversation_left_out(run, file):
    """A search answers with handles and the lines around; a store of several conversations asks which."""
    path, log, _ = file
    shown = run("recall", "--search", "port", "--conversation", "thread-43", "--store", path)
    assert shown.stdout.startswith("Found in 1")
    assert log in shown.stdout
    assert "1: a long log, port 8080" in run("recall", log, "--search", "8080", "--store", path).stdout
    for more, said in (([], "pass --conversation"), (["--conversation", "x"], "'x' has left nothing out")):
        shown = run("recall", "--search", "port", "--store", path, *more)
        assert (shown.exit_code, shown.stdout) == (2, "")
        assert said in shown.stderr


def test_nothing_is_deleted_without_a_yes(run, file):
    """The command asks first; no answer and a no leave everything where it is, and what others left out stays."""
    path, log, _ = file
    purge = ("store", "purge", "thread-42", "--store", path)
    for answer, code in (("n\n", 1), ("", 2)):
        shown = run(*purge, "--json", stdin=answer)
        assert not shown.stdout
        assert shown.exit_code == code
        assert "nothing was deleted" in shown.stderr
    assert len(lines(run("store", "ls", "--store", path, "--json"))) == 3
    assert "deleted 1 conversation: " in run(*purge, stdin="y\n").stdout
    assert [each["name"] for each in lines(run("store", "ls", "--store", path, "--json"))] == ["thread-43", None]
    assert run("recall", log, "--store", path).stdout_bytes == LOG
    rest = run("store", "purge", "thread-43", "--unowned", "--expired", "--yes", "--store", path, "--json")
    assert lines(rest) == [{"conversations": 1, "bytes": len(LOG) + 10, "expired": 0}]
    assert run("store", "ls", "--store", path).stdout == "the store is empty\n"


def test_what_sub_agents_left_out_is_deleted_with_their_conversation(run, tmp_path):
    """The question names them, and they are counted, also where their parent has nothing itself; others stay."""

    async def make():
        async with SQLiteStore(tmp_path / "context.db") as store:
            for name in ("thread-4", "thread-4/1", "thread-4/1/1", "thread-42", "thread-5/1"):
                await store.for_conversation(name).put(name.encode())

    anyio.run(make)
    place = ("--store", tmp_path / "context.db")
    shown = run("store", "purge", "thread-4", *place, stdin="y\n")
    assert "Delete 3 conversations ('thread-4', 'thread-4/1', 'thread-4/1/1') (" in shown.stderr
    assert "deleted 3 conversations: " in shown.stdout
    (told,) = lines(run("store", "purge", "thread-5", "thread-5/1", "--yes", *place, "--json"))
    assert told["conversations"] == 1
    assert [each["name"] for each in lines(run("store", "ls", *place, "--json"))] == ["thread-42"]


def test_what_cannot_be_opened_is_said_in_one_line_and_not_made(run, tmp_path):
    """No file, no database, another program's, a server that is down: exit code 2, one sentence, nothing is written."""
    (tmp_path / "text.db").write_text("no database, but a text " * 100)
    (tmp_path / "empty.db").touch()
    with sqlite3.connect(tmp_path / "other.db") as connection:
        connection.execute("CREATE TABLE own (n)")
    connection.close()
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    cases = {
        tmp_path / "none" / "context.db": "there is no such file",
        tmp_path / "text.db": "file is not a database",
        tmp_path / "empty.db": "is no store",
        tmp_path / "other.db": "is no store",
        tmp_path: "directory",
        "mongodb://here": "mongodb:// is no store",
        f"unix://{tmp_path}/no.sock": "Redis: ConnectionError",
        f"postgresql://me:hush-hush@/db?host={tmp_path}": "PostgreSQL: connection",
        "postgresql://me:hush hush@127.0.0.1:1/db": "PostgreSQL: ",
        "redis://me:hush/hush@host:1/0": "is no port",
        "unix://me:hush/hush@host": "is no port",
    }
    for place, said in cases.items():
        shown = run("store", "ls", "--store", place)
        assert (shown.exit_code, shown.stdout, shown.stderr.count("\n")) == (2, "", 1), shown.output
        assert said in shown.stderr
        assert "hush" not in shown.stderr
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_what_is_not_in_the_store_is_said_in_one_line(run, file):
    """A handle that is not there, one that is ambiguous, a conversation that is not there, and nothing asked for."""
    path, log, _ = file
    with sqlite3.connect(path) as connection:
        connection.execute("INSERT INTO contents VALUES (?, x'00', x'0000')", (log[:8] + "0" * 8,))
        connection.execute("INSERT INTO refs (owner, handle) VALUES (1, ?)", (log[:8] + "0" * 8,))
    connection.close()
    cases = {
        ("recall", "f" * 16): "nothing is kept under handle",
        ("recall", log[:3]): "at least 4 characters",
        ("recall", log[:8]): f"is the beginning of 2: {log}",
        ("recall", log, "--conversation", "thread-44"): "nothing is kept by conversation 'thread-44'",
        ("recall",): "pass a HANDLE, or --search",
        ("store", "show", "thread-44"): "nothing of conversation 'thread-44'",
        ("store", "purge", "thread-44", "--yes"): "nothing of conversation 'thread-44'",
        ("store", "purge", "--yes"): "pass a NAME",
        ("store", "ls", "--namespace", "x"): "a SQLite file has none",
        ("store", "ls", "--limit", "x"): "--limit: 'x'",
    }
    for command, said in cases.items():
        shown = run(*command, "--store", path)
        assert (shown.exit_code, shown.stdout, shown.stderr.count("\n")) == (2, "", 1), shown.output
        assert said in shown.stderr
    shown = run("store", "ls", env={"AGENTCTX_STORE": ""})
    assert (shown.exit_code, shown.stderr) == (
        2,
        "error: which store? pass --store PATH_OR_URL, or set AGENTCTX_STORE\n",
    )


def test_what_is_encrypted_is_told_by_its_size_only(run, tmp_path):
    """Without the key a conversation is named and shown, and what cannot be read is said to be so."""

    class Upside:
        def encrypt(self, content):
            return content[::-1]

        decrypt = encrypt

    async def make():
        async with SQLiteStore(tmp_path / "context.db", cipher=Upside()) as store:
            return await fill(store)

    log, _ = anyio.run(make)
    shown = run("store", "show", "thread-42", "--store", tmp_path / "context.db", "--content")
    assert shown.exit_code == 0
    assert "it is encrypted" in shown.stdout
    assert PRIVATE not in shown.stdout
    shown = run("recall", log, "--store", tmp_path / "context.db")
    assert (shown.exit_code, shown.stdout) == (2, "")
    assert "it is encrypted" in shown.stderr


def test_a_server_s_store_is_the_same(run, valkey):
    """What is said of a store in Valkey is what is said of a file; no store is made where there is none."""

    async def make():
        async with RedisStore(valkey, prefix="own") as store:
            return await fill(store)

    log, picture = anyio.run(make)
    place = ("--store", valkey, "--namespace", "own")
    assert [each["name"] for each in lines(run("store", "ls", *place, "--json"))] == ["thread-42", "thread-43", None]
    assert run("recall", picture[:8], *place).stdout_bytes == PICTURE
    assert "2 messages" in run("store", "show", "thread-42", *place).stdout
    assert "deleted 1 conversation: " in run("store", "purge", "thread-42", *place, "--yes").stdout
    assert run("recall", log, *place).stdout_bytes == LOG
    for _ in range(2):
        shown = run("store", "stats", "--store", valkey)
        assert (shown.exit_code, shown.stderr) == (2, "error: Redis: there is no store under the prefix agentctx\n")


def test_a_server_with_many_conversations_is_asked_bit_by_bit(run, valkey):
    """All are named, each once, and no question keeps the server from others for long."""

    async def make():
        async with RedisStore(valkey, prefix="many") as store:
            return await fill(store)

    anyio.run(make)
    with redis.Redis.from_url(valkey) as client:
        client.hset("{many}:o", mapping={f"cmore-{number}": 1 for number in range(5_000)})
        client.config_resetstat()
        named = [each["name"] for each in lines(run("store", "ls", "--json", "--store", valkey, "--namespace", "many"))]
        asked = client.info("commandstats")["cmdstat_evalsha"]["calls"]
    assert named[:2] == ["thread-42", "thread-43"]
    assert len(set(named)) == len(named) == 5_003
    assert asked >= 10


def test_an_encrypted_store_is_read_with_its_cipher(run, tmp_path, monkeypatch):
    """--cipher names an object or what makes one; another key, or what is no cipher, is one line."""
    (tmp_path / "keys.py").write_text(
        "class Shift:\n"
        "    def __init__(self, by=1):\n"
        "        self.by = by\n"
        "    def encrypt(self, content):\n"
        "        return bytes((each + self.by) % 256 for each in content)\n"
        "    def decrypt(self, content):\n"
        "        return bytes((each - self.by) % 256 for each in content)\n"
        "cipher, other, number = Shift(), Shift(2), 1\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    keys = importlib.import_module("keys")

    async def make():
        async with SQLiteStore(tmp_path / "context.db", cipher=keys.cipher) as store:
            return await fill(store)

    handle, _ = anyio.run(make)
    for named in ("keys:cipher", "keys:Shift"):
        options = ("--store", "context.db", "--cipher", named)
        assert run("recall", handle, *options).stdout == LOG.decode()
        assert PRIVATE in run("store", "show", "thread-42", "--content", *options).stdout
    for named, said in (
        ("keys:other", "Shift gave other bytes"),
        ("keys:number", "must be an object"),
        ("x", "MODULE:NAME"),
    ):
        refused = run("recall", handle, "--store", "context.db", "--cipher", named)
        assert refused.exit_code
        assert said in " ".join(refused.stderr.split())


def test_nothing_is_no_word_to_search(run, file):
    """--search with nothing in it is an error, and no answer."""
    for words in ("", " "):
        refused = run("recall", "--search", words, "--conversation", "thread-42", "--store", file[0])
        assert refused.exit_code
        assert "--search" in refused.stderr
