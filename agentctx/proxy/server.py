"""Serving: a socket, an HTTP server, an orderly end. The one file for uvicorn."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Callable
from contextlib import ExitStack
from tempfile import TemporaryDirectory

import uvicorn
from attrs import frozen
from uvicorn.supervisors import Multiprocess

from agentctx.errors import ConfigError
from agentctx.proxy.app import Proxy

KEEP_ALIVE = 75
"""Seconds that a connection may wait for its next request: longer than clients keep one, so that none is just closed
when they use it."""


BACKLOG = 2_048
"""So many connections may wait to be accepted."""


@frozen
class Listening:
    """Where and how the proxy listens.

    Args:
        host: The address; one of this machine's own to itself unless others are to reach it.
        port: The port; 0: any that is free.
        most_connections: So many connections are held at once; further ones are answered with 503.
        grace: Seconds that requests under way may take to end once the proxy is told to stop.
        workers: So many processes serve.
    """

    host: str = "127.0.0.1"
    port: int = 8787
    most_connections: int = 2_000
    grace: float = 30.0
    workers: int = 1

    @property
    def on_loopback(self) -> bool:
        """Whether only this machine reaches it."""
        return self.host in ("localhost", "::1") or self.host.startswith("127.")


def bound(listening: Listening) -> socket.socket:
    """A socket that connections wait at from now on.

    Raises:
        ConfigError: If the address is not this machine's, or somebody listens there.
    """
    try:
        family = socket.getaddrinfo(listening.host, listening.port, type=socket.SOCK_STREAM)[0][0]
        with ExitStack() as closing:
            # asyncio sends small pieces at once where the socket says that it is TCP
            listener = closing.enter_context(socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP))
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((listening.host, listening.port))
            listener.listen(BACKLOG)
            closing.pop_all()
    except OSError as error:
        msg = f"cannot listen on {listening.host} port {listening.port}: {error.strerror or error}"
        raise ConfigError(msg) from None
    return listener


def address_of(listener: socket.socket) -> str:
    """The address of a socket, as clients write it."""
    host, port = listener.getsockname()[:2]
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)  # noqa: S104 - compared, not bound
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(make: Callable[[], Proxy], listener: socket.socket, listening: Listening) -> None:
    """Serve until the process is told to stop (SIGTERM, SIGINT); what is under way then may end within the grace.

    Args:
        make: Makes the application; with several workers each makes its own, so that it can be pickled.
        listener: Where it listens.
        listening: How.
    """
    if listening.workers == 1:
        uvicorn.Server(settings(make(), listening)).run(sockets=[listener])
        return
    with TemporaryDirectory(prefix="agentctx-proxy-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # which the workers inherit
        Multiprocess(settings(make, listening), sockets=[listener]).run()


def settings(app: Proxy | Callable[[], Proxy], listening: Listening) -> uvicorn.Config:
    """How the HTTP server is set up, for an application or what makes one."""
    quiet()
    return uvicorn.Config(
        app,
        factory=listening.workers > 1,
        workers=listening.workers,
        log_config=None,
        log_level="warning",
        access_log=False,  # an address may have a key in it
        proxy_headers=False,
        server_header=False,
        date_header=False,
        ws="none",
        timeout_keep_alive=KEEP_ALIVE,
        limit_concurrency=listening.most_connections,
        timeout_graceful_shutdown=max(1, round(listening.grace)),
    )


def quiet() -> None:
    """Leave it to the proxy to say what has happened to an answer; in each process that serves."""
    logging.getLogger("uvicorn.error").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    """Whether the proxy does not say it itself: it breaks off an answer that the provider has broken off."""
    return "without completing response" not in record.getMessage()
