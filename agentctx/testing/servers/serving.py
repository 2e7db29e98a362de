"""Run an application on a free port of this machine for as long as a test lasts."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Thread
from time import monotonic, sleep

import uvicorn
from starlette.applications import Starlette

START = 10.0
"""So long a server may take to start, in seconds."""


@contextmanager
def serving(app: Starlette) -> Iterator[str]:
    """Serve an application in a thread of its own; gives its address, for example ``http://127.0.0.1:40123``.

    Args:
        app: The application.

    Raises:
        TimeoutError: If it does not start within ``START`` seconds.
    """
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    settings = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=1, ws="none")
    server = uvicorn.Server(settings)
    thread = Thread(target=server.run, args=([listening],), name="agentctx-server", daemon=True)
    thread.start()
    try:
        _wait_for(server)
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


def _wait_for(server: uvicorn.Server) -> None:
    late = monotonic() + START
    while not server.started:
        if monotonic() > late:
            msg = f"the server did not start within {START} seconds"
            raise TimeoutError(msg)
        sleep(0.005)
