"""Serving: a socket, an HTTP server, an orderly end. The one file for uvicorn."""

from __future__ import annotations

import logging
import os
import signal
import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from ipaddress import ip_address
from tempfile import TemporaryDirectory

import uvicorn
from attrs import frozen
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.supervisors import Multiprocess

from agentctx.errors import ConfigError
from agentctx.message import Native
from agentctx.proxy.app import CONNECTION, Proxy
from agentctx.proxy.upstream import Upstreams

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
        grace: Seconds that requests under way may take to end once the proxy is told to stop.
        workers: So many processes serve.
    """

    host: str = "127.0.0.1"
    port: int = 8787
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


def refuse_itself(upstreams: Upstreams, listener: socket.socket) -> None:
    """See that no provider's address is the one that the proxy listens on: each request would come back to it.

    Raises:
        ConfigError: If one is.
    """
    own_host, own_port = listener.getsockname()[:2]
    for upstream, host, port in upstreams.places():
        addresses = set[str]()
        with suppress(OSError):  # a name without an address is none of ours
            if port == own_port:
                addresses = {str(info[4][0]) for info in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
        if any(_is_same_place(address, own_host) for address in addresses):
            msg = f"--upstream: {upstream} is where the proxy itself listens: name the provider's address"
            raise ConfigError(msg)


def _is_same_place(address: str, own: str) -> bool:
    """Whether who connects to an address reaches what listens on ``own``."""
    if not ip_address(own).is_unspecified:
        return address == own or (ip_address(address).is_unspecified and ip_address(own).is_loopback)
    try:
        with socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET) as tried:
            tried.bind((address, 0))  # which this machine allows for its own addresses alone
    except OSError:
        return False
    return True


def serve(make: Callable[[], Proxy], listener: socket.socket, listening: Listening) -> None:
    """Serve until the process is told to stop (SIGTERM, SIGINT); what is under way then may end within the grace.

    With several workers each makes its own application: ``make`` is pickled.
    """
    if listening.workers == 1:
        server = uvicorn.Server(settings(make(), listening))

        def end(_number: int, _frame: object) -> None:
            if not server.should_exit:  # else it has shut down as it was asked to, and tells of the signal once more
                raise SystemExit(0)

        signal.signal(signal.SIGTERM, end)
        server.run(sockets=[listener])
        return
    with TemporaryDirectory(prefix="agentctx-proxy-") as folder:
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder  # which the workers inherit
        Multiprocess(settings(make, listening), sockets=[listener]).run()


class Connection(AutoHTTPProtocol):  # type: ignore[misc, valid-type]  # which one it is is found out at runtime
    """A connection that says in each request how many were open when it was made, itself among them."""

    app_state: dict[str, Native]

    def connection_made(self, transport: Native) -> None:
        """Count."""
        super().connection_made(transport)
        self.app_state = {**self.app_state, CONNECTION: len(self.connections)}


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
        http=Connection,
        timeout_graceful_shutdown=max(1, round(listening.grace)),
    )


def quiet() -> None:
    """Leave it to the proxy to say what has happened to an answer; in each process that serves."""
    logging.getLogger("uvicorn.error").addFilter(_is_news)


def _is_news(record: logging.LogRecord) -> bool:
    """Whether the proxy does not say it itself: it breaks off an answer that the provider has broken off.

    Nor is it news that an answer ended that outlasted the grace, which uvicorn has said before.
    """
    ended = record.exc_info is not None and type(record.exc_info[1]).__name__ == "CancelledError"
    return not ended and "without completing response" not in record.getMessage()
