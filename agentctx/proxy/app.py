"""The proxy as an ASGI application: model calls are prepared, everything else passes through."""

from __future__ import annotations

import math
import re
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from ipaddress import ip_address
from secrets import token_hex
from time import perf_counter
from typing import Self
from urllib.parse import quote, unquote, urlsplit

import anyio
from attrs import define, field
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.types import Receive, Scope, Send

from agentctx.clients.model_call import (
    Api,
    Failure,
    Headers,
    Incoming,
    Provider,
    api_of,
    failure,
    provider_of,
    too_large,
)
from agentctx.clients.over_http import Reply, TooLarge, Unreadable
from agentctx.engine.plan import logger
from agentctx.errors import AgentctxError, ConfigError, ContextOverflow
from agentctx.pipeline import Pipeline
from agentctx.proxy.metrics import CONTENT_TYPE, Metrics
from agentctx.proxy.upstream import (
    UPSTREAM_ERRORS,
    CannotSign,
    Exchange,
    Known,
    PipelineFailed,
    PipelineOf,
    Signer,
    Timeouts,
    Upstream,
    Upstreams,
    explained,
    to_give,
    to_send,
)
from agentctx.session.conversations import Histories
from agentctx.stores import ConversationStore
from agentctx.strategies.fit import FitContextWindow

MOST_REASONS = 50
"""For so many reasons the log says why a model call was not prepared."""
_NUMBERS = re.compile(r"\[\d+\]")

CLEAN_UP = 5.0
"""Seconds that letting go of a connection may take."""

CONNECTION = "agentctx.connection"
"""Where the server says in a request's state which one of the open connections its own is: the first is 1."""


class Gone(Exception):
    """The client has closed its connection."""


class TooSlow(Exception):
    """The client takes too long to send its request."""


SLOWEST = 1_000
"""Bytes of a request in a second that are no reason to break it off."""


@define(eq=False)
class Client:
    """The connection to a client, for one request.

    Args:
        patience: Seconds for which its body is waited, and one more for each ``SLOWEST`` bytes that have come.
        started: Whether the head of the answer was sent.
        ended: Whether its end was.
        read: Set when there is nothing left of the body.
    """

    receive: Receive
    send: Send
    patience: float = math.inf
    started: bool = False
    ended: bool = False
    _more: bool = field(init=False, default=True, repr=False)
    read: anyio.Event = field(init=False, factory=anyio.Event, repr=False)

    async def pieces(self) -> AsyncGenerator[bytes]:
        """The body, as it comes.

        Raises:
            Gone: If the client goes before its end.
            TooSlow: If it takes too long; what others take for the pieces is not counted.
        """
        while self._more:
            begun = perf_counter()
            with anyio.move_on_after(max(0.0, self.patience)) as waiting:
                message = await self.receive()
            if waiting.cancelled_caught:
                raise TooSlow
            if message["type"] != "http.request":
                raise Gone
            self._more, piece = message.get("more_body", False), message.get("body", b"")
            self.patience += len(piece) / SLOWEST - (perf_counter() - begun)
            if piece:
                yield piece
        self.read.set()

    async def body(self, most: int, declared: str | None) -> bytes:
        """The body as a whole.

        Raises:
            TooLarge: If it is larger than ``most`` bytes.
            Gone: If the client goes before its end.
            TooSlow: If it takes too long.
        """
        if (declared or "").isdecimal() and int(declared or 0) > most:
            raise TooLarge
        whole = bytearray()
        async for piece in self.pieces():
            whole += piece
            if len(whole) > most:
                whole.clear()
                raise TooLarge
        return bytes(whole)

    async def gone(self) -> None:
        """Wait until the client goes, once its body was read."""
        await self.read.wait()
        while (await self.receive())["type"] != "http.disconnect":
            pass

    async def start(self, status: int, headers: Headers) -> None:
        """Send the head of the answer."""
        self.started = True
        await self.send({"type": "http.response.start", "status": status, "headers": list(headers)})

    async def give(self, data: bytes, *, more: bool = True) -> None:
        """Send bytes of the answer."""
        self.ended = not more
        await self.send({"type": "http.response.body", "body": data, "more_body": more})

    async def whole(self, status: int, headers: Headers, body: bytes) -> None:
        """Send the answer."""
        await self.start(status, headers)
        await self.give(body, more=False)


@define(eq=False)
class Proxy:
    """An ASGI application that prepares model calls of any client and passes them on to their providers.

    It speaks OpenAI's chat completions and responses, Anthropic's messages, Gemini's generateContent and Bedrock's
    Converse, whole and as streams. Each model call belongs to a conversation, which is found by its history, or named
    by the header ``x-agentctx-session``; conversations of different API keys are different ones. What cannot be read as
    a model call, and everything else, passes through as it came.

    A server closes its connections when it ends, by ASGI's lifespan. An application that it is mounted in passes that
    on to nobody, mostly: then ``async with proxy:`` within that application's own lifespan does it.

    Args:
        pipeline: Prepares the requests; or a function that gives the pipeline for a model's name.
        upstreams: Where the providers are.
        max_body: So many bytes of a model call's body are taken, packed and unpacked.
        max_requests: So many requests are under way at once; further ones are told to come again.
        timeouts: How long providers and clients are waited for.
        histories: The conversations that are remembered.
        store: Keeps the sessions, and what finds them, so that several workers serve the same conversations.
        sign_aws: Sign requests to Bedrock with the AWS credentials of this machine, where clients sign them.
        on_loopback: It answers to names of this machine only: a web page in a browser must not reach it under a name
            of its own.
        name: Its name in the header ``Via`` of what it passes on, by which it knows a request that has come back.
            Workers that serve together have the same.

    Raises:
        ConfigError: If signing for AWS is asked for and not possible.

    Example:
        >>> from agentctx import Budget
        >>> from agentctx.presets import coding_agent
        >>> from agentctx.proxy import Proxy
        >>> app = Proxy(coding_agent(Budget(window=200_000)))  # uvicorn module:app
    """

    pipeline: Pipeline | PipelineOf
    upstreams: Upstreams = field(factory=Upstreams)
    max_body: int = field(default=64_000_000, kw_only=True)
    max_requests: int = field(default=1_000, kw_only=True)
    timeouts: Timeouts = field(factory=Timeouts, kw_only=True)
    histories: Histories = field(factory=Histories, kw_only=True)
    store: ConversationStore | None = field(default=None, kw_only=True)
    sign_aws: bool = field(default=False, kw_only=True)
    on_loopback: bool = field(default=False, kw_only=True)
    name: str = field(factory=lambda: f"agentctx-{token_hex(8)}", kw_only=True)
    metrics: Metrics = field(init=False, factory=Metrics, repr=False)
    known: Known = field(init=False, repr=False)
    _signer: Signer | None = field(init=False, repr=False)
    _upstream: Upstream | None = field(init=False, default=None, repr=False)
    _active: int = field(init=False, default=0, repr=False)
    _app: Starlette = field(init=False, repr=False)
    _said: set[tuple[str, Provider]] = field(init=False, factory=set, repr=False)

    def __attrs_post_init__(self) -> None:
        """Open no connection yet."""
        pipeline = self.pipeline
        pipeline_of = (lambda _model: pipeline) if isinstance(pipeline, Pipeline) else pipeline
        self.known = Known(pipeline_of, self.histories, self.store)
        self._signer = Signer() if self.sign_aws else None
        healthy = Route("/healthz", PlainTextResponse("ok\n"), methods=["GET"])
        routes = [healthy, Route("/metrics", self._measured), Mount("/", self._forward)]
        self._app = Starlette(routes=routes, lifespan=self._lifespan)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        if scope["type"] == "http" and (path := _path_here(scope)) is not None:
            scope = {**scope, "path": path, "raw_path": path.encode("latin-1")}
        routed = scope["type"] != "http" or scope["path"].startswith("/")
        await (self._app if routed else self._forward)(scope, receive, send)

    async def __aenter__(self) -> Self:
        """Load what the first request needs."""
        first = Pipeline(FitContextWindow(), budget=1_000).session(format="openai-chat")
        await first.prepare([{"role": "user", "content": "What is loaded at the first request is loaded now."}])
        return self

    async def __aexit__(self, *_error: object) -> None:
        """Close the connections to the providers, and the store; used again, it opens them anew."""
        upstream, self._upstream = self._upstream, None
        if upstream is not None:
            await upstream.aclose()
        if self.store is not None:
            await self.store.aclose()

    @asynccontextmanager
    async def _lifespan(self, _app: object) -> AsyncIterator[None]:
        async with self:
            yield

    async def _measured(self, _request: Request) -> Response:
        return Response(self.metrics.text(), media_type=CONTENT_TYPE)

    async def _forward(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = _raw_path(scope)
        below = path.removeprefix(quote(scope.get("root_path", "")))  # the path that the application is mounted at
        path = below if below.startswith("/") else path
        request = Incoming(scope["method"], path, scope["query_string"], tuple(scope["headers"]))
        if self._upstream is None:
            self._upstream = Upstream(self.upstreams, self.timeouts, self.max_requests, self.name, self._signer)
        self._active += 1
        self.metrics.active.inc()
        try:
            busy = max(self._active, scope.get("state", {}).get(CONNECTION, 0)) > self.max_requests
            client = Client(receive, send, self.timeouts.upload)
            await _Passage(self, self._upstream, request, api_of(request), client, busy).take()
        finally:
            self._active -= 1
            self.metrics.active.dec()
            self.metrics.conversations.set(len(self.histories))

    def say_unread(self, why: str, provider: Provider) -> None:
        """Log that a call to ``provider`` is passed on as it came, once for each ``why`` but for its numbers."""
        reason = _NUMBERS.sub("[…]", why), provider
        if reason not in self._said and len(self._said) < MOST_REASONS:
            self._said.add(reason)
            logger.warning(
                "a model call to %s is passed on as it came, since %s cannot be prepared (said once)", provider, why
            )


@define(eq=False)
class _Passage:
    """One request on its way through.

    Args:
        api: The API that it is a model call of; None for everything else.
        busy: Whether more requests are under way, or more connections open, than may be.
    """

    proxy: Proxy
    upstream: Upstream
    request: Incoming
    api: Api | None
    client: Client
    busy: bool
    began: float = field(factory=perf_counter)

    @property
    def provider(self) -> Provider:
        """Whose API it is for."""
        return provider_of(self.request) if self.api is None else self.api.provider

    @property
    def where(self) -> str:
        """The host that it goes to."""
        return self.upstream.host(self.provider, self.request)

    async def take(self) -> None:
        """Answer it, whatever happens."""
        refusal = self._refusal()
        if refusal is not None:
            await self._fail(*refusal)
            return
        try:
            await self._while_the_client_waits()
        except Gone:
            self.proxy.metrics.broken.labels("client").inc()
        except TooLarge:
            await self._fail(413, f"the body is larger than {self.proxy.max_body:,} bytes (--max-body)")
        except TooSlow:
            if self.client.started:  # the provider has answered before it had all
                self.proxy.metrics.broken.labels("client").inc()
            else:
                await self._fail(408, "the request's body took too long to come")
        except CannotSign as error:
            await self._fail(403, str(error))
        except UPSTREAM_ERRORS as error:
            logger.warning("%s: %s", self.where, type(error).__name__)
            if self.client.started:  # the answer is broken off
                self.proxy.metrics.broken.labels("provider").inc()
            else:
                await self._fail(*explained(error, self.where))

    def _refusal(self) -> tuple[int, str] | None:
        """The status and the reason with which a request is not taken at all."""
        request = self.request
        if self.proxy.on_loopback and not _is_this_machine(host := request.header(b"host") or ""):
            return 400, f"it answers to localhost and loopback addresses only, not to {host!r:.100}"
        if not request.path.startswith("/"):
            line = f"{request.method} {request.path}"
            return 400, f"it is a base URL, and no HTTP_PROXY: it does not pass on {line!r:.100}"
        if any(unquote(segment) in (".", "..") for segment in request.path.split("/")):
            return 400, f"{request.path!r:.100} leads elsewhere by its dots: write the path without them"
        if any(self.proxy.name in value.decode("latin-1") for name, value in request.headers if name == b"via"):
            return 508, f"the request has come back to this proxy from {self.where}: --upstream is a way in a circle"
        if self.busy:
            return 503, f"too many requests are under way (--max-connections is {self.proxy.max_requests:,}); try again"
        return None

    async def _while_the_client_waits(self) -> None:
        """Answer the client until it goes: then the provider's answer is wanted by nobody."""
        request, client = self.request, self.client
        if self.api is not None or request.signed:
            raw = await client.body(self.proxy.max_body, request.header(b"content-length"))
            work = partial(self._through, raw) if self.api is None else partial(self._model_call, self.api, raw)
        elif (request.header(b"content-length") or "0") != "0" or request.header(b"transfer-encoding") is not None:
            work = partial(self._through, client.pieces())
        else:
            client.read.set()
            work = partial(self._through, None)
        errors: list[Exception] = []

        async def watch() -> None:
            await client.gone()
            if not client.ended:
                self.proxy.metrics.broken.labels("client").inc()
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(watch)
            try:
                await work()
            except (Gone, TooLarge, TooSlow, CannotSign, *UPSTREAM_ERRORS) as error:
                errors.append(error)
            tasks.cancel_scope.cancel()
        if errors:
            raise errors[0]

    async def _model_call(self, api: Api, raw: bytes) -> None:
        proxy = self.proxy
        exchange = Exchange(api, self.request, raw, proxy.max_body, self.upstream, proxy.known, proxy.metrics)
        try:
            reply = await exchange.answered()
        except Unreadable as error:
            proxy.say_unread(str(error), api.provider)
            await self._through(raw)
        except ContextOverflow as error:
            await self._refuse(too_large(api, error))
        except ConfigError as error:
            await self._fail(400, str(error))
        except (AgentctxError, PipelineFailed) as error:
            logger.warning("a model call could not be prepared: %s", type(error).__name__)
            await self._fail(500, str(error))
        else:
            await self._give(reply)

    async def _give(self, reply: Reply) -> None:
        response, stream = reply.response, reply.stream
        if reply.whole is not None:
            self._first_byte()
            await self.client.whole(response.status_code, to_give(response, whole=reply.whole), reply.whole)
            self._answered(response.status_code)
            return
        assert stream is not None  # noqa: S101 - an answer has one or the other

        async def pieces() -> AsyncIterator[bytes]:
            with suppress(StopAsyncIteration):
                while True:
                    yield (await stream.next()).data
                    self.client.ended = stream.held.ended  # who hangs up behind the last event has all

        await self._relay(response.status_code, to_give(response, relayed=True), pieces(), stream.drop)

    async def _through(self, content: bytes | AsyncIterator[bytes] | None) -> None:
        """Pass on what is not prepared, both ways, byte by byte."""
        headers = to_send(self.request.headers)
        response = await self.upstream.send(self.provider, self.request, headers, content)
        await self._relay(response.status_code, to_give(response), response.aiter_raw(), response.aclose)
        self.proxy.metrics.requests.labels("passed").inc()

    async def _relay(
        self, status: int, headers: Headers, pieces: AsyncIterator[bytes], close: Callable[[], Awaitable[None]]
    ) -> None:
        """Give an answer on as it comes, and let go of it."""
        try:
            await self.client.start(status, headers)
            async for piece in pieces:
                self._first_byte()
                await self.client.give(piece)
            await self.client.give(b"", more=False)
            self._answered(status)
        finally:
            with anyio.move_on_after(CLEAN_UP, shield=True):
                await close()

    async def _fail(self, status: int, message: str) -> None:
        await self._refuse(failure(self.provider, status, f"agentctx proxy: {message}"))

    async def _refuse(self, refusal: Failure) -> None:
        """Answer in the provider's place."""
        self.proxy.metrics.requests.labels("failed" if refusal.status in _FAILED else "refused").inc()
        headers = [*refusal.headers, (b"content-length", str(len(refusal.body)).encode())]
        if refusal.status in _CLOSING:
            with suppress(Gone, TooSlow), anyio.move_on_after(CLEAN_UP):
                async for _ in self.client.pieces():  # a client that is still sending would not read the answer
                    pass
            headers.append((b"connection", b"close"))
        await self.client.whole(refusal.status, headers, refusal.body)
        self._answered(refusal.status)

    def _first_byte(self) -> None:
        if self.began:
            self.proxy.metrics.first_byte.observe(perf_counter() - self.began)
            self.began = 0.0

    def _answered(self, status: int) -> None:
        self.proxy.metrics.answers.labels(f"{status // 100}xx").inc()


_FAILED = frozenset({500, 502, 504})
"""With these something went wrong behind the client's request."""
_CLOSING = frozenset({400, 408, 413, 503, 508})
"""With these the body may not have been read."""


def _raw_path(scope: Scope) -> str:
    """The whole path as the client wrote it; some servers do not tell it: then as it would be written."""
    raw: bytes | None = scope.get("raw_path")
    return quote(scope["path"], safe=_UNQUOTED) if raw is None else raw.decode("latin-1")


_UNQUOTED = "/:@!$&'()*+,;="
"""What stands in a path as it is (RFC 3986, 3.3)."""


def _path_here(scope: Scope) -> str | None:
    """The path of a target with scheme and host, as clients of an HTTP proxy write it, that is this server's."""
    host, own_port = scope.get("server") or ("", None)
    try:
        target = urlsplit(_raw_path(scope))
        port = target.port or 80
    except ValueError:
        return None
    is_named = _is_this_machine(target.netloc) or target.hostname == host
    return (target.path or "/") if target.scheme in ("http", "https") and is_named and port == own_port else None


def _is_this_machine(host: str) -> bool:
    """Whether a ``Host`` field is a name of this machine to itself, with or without a port."""
    name, _, port = host.rpartition(":")
    name = (name if port.isdecimal() and name else host).strip("[]")
    try:
        return name.lower() == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False
