"""To the provider and back: calls of a model prepared in their conversation, all else handed on as it is."""

from __future__ import annotations

import logging
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from hashlib import sha256
from http.cookiejar import CookieJar, DefaultCookiePolicy
from time import perf_counter
from typing import Self
from urllib.parse import urlsplit

import anyio.to_thread
import httpx
from attrs import define, field, frozen

from agentctx.clients.model_call import (
    PROVIDERS,
    SESSION_HEADER,
    Api,
    Conversations,
    Headers,
    Incoming,
    ModelCall,
    Provider,
    begin,
)
from agentctx.clients.over_http import (
    TOO_DEEP,
    Reply,
    Unreadable,
    Ways,
    answer,
    body_of,
    content_of,
    stays_packed,
    unpacked,
    with_betas,
)
from agentctx.errors import AgentctxError, ConfigError, InvalidInput
from agentctx.formats.registry import Body, RequestParts, format_named
from agentctx.message import Native
from agentctx.pipeline import Pipeline
from agentctx.protocols import StateStore
from agentctx.proxy.metrics import Metrics
from agentctx.session.conversations import Histories, History, SharedHistories, branch, history_of, holding
from agentctx.session.session import Session
from agentctx.session.sessions import Sessions
from agentctx.users_code import FAILURES, described
from agentctx.validators import a

for _name in ("httpx", "httpcore"):
    logging.getLogger(_name).setLevel(logging.WARNING)  # below that they write addresses and headers, with keys in them

_HOP_BY_HOP = frozenset(
    {b"connection", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te"}
    | {b"trailer", b"transfer-encoding", b"upgrade"}
)
"""Fields that concern one connection, and not the request (RFC 9110, 7.6.1)."""
_OURS = frozenset({b"host", b"expect", SESSION_HEADER})
_OF_THE_BODY = frozenset({b"content-length", b"content-encoding", b"content-md5", b"digest", b"content-digest"})

_DEFAULTS: Mapping[Provider, str] = {
    "openai": "https://api.openai.com",
    "anthropic": "https://api.anthropic.com",
    "gemini": "https://generativelanguage.googleapis.com",
    "bedrock": "https://bedrock-runtime.{region}.amazonaws.com",
}

UPSTREAM_ERRORS = (httpx.HTTPError, httpx.InvalidURL, httpx.StreamError)
"""What may happen on the way to the provider."""
IDLE = 4.0
"""Seconds that a connection to a provider is kept without a request: many servers close theirs after 5, and a request
that is on its way just then is lost."""


def explained(error: Exception, where: str) -> tuple[int, str]:
    """Return the status and the message for one of ``UPSTREAM_ERRORS`` on the way to a provider's host."""
    kind = type(error).__name__
    match error:
        case httpx.InvalidURL():
            return 414, f"what is asked for is too long, or makes no address at {where}"
        case httpx.TimeoutException():
            return 504, f"{where} did not answer in time ({kind})"
        case httpx.RemoteProtocolError() | httpx.ReadError():
            return 502, f"the answer of {where} broke off, or is no valid HTTP ({kind})"
        case httpx.DecodingError():
            return 502, f"the answer of {where} cannot be unpacked ({kind})"
    return 502, f"{where} could not be reached ({kind}): --upstream sets where requests go"


@frozen
class Upstreams:
    """Where the providers are.

    Args:
        of: The address for each provider that is not at its own, with the path that stands before the API's.
        everything: The address for all requests, whosever API they are for.

    Raises:
        ConfigError: If an address is none.

    Example:
        >>> from agentctx.proxy import Upstreams
        >>> Upstreams.parse(["openai=https://openrouter.ai/api"]).address("openai", "/v1/chat/completions")
        'https://openrouter.ai/api/v1/chat/completions'
    """

    of: Mapping[str, str] = field(factory=dict, validator=a(Mapping, "addresses by their providers"))
    everything: str | None = None

    def __attrs_post_init__(self) -> None:
        """Check the addresses."""
        for address in filter(None, (*self.of.values(), self.everything)):
            try:
                url = httpx.URL(address.replace("{region}", "region"))
            except Exception:  # noqa: BLE001 - whatever was passed
                url = httpx.URL()
            if url.scheme not in ("http", "https") or not url.host or url.query or url.fragment or url.userinfo:
                msg = f"--upstream: {address!r:.100} is no address such as https://api.openai.com"
                raise ConfigError(msg)

    @classmethod
    def parse(cls, written: Iterable[str]) -> Self:
        """Addresses as they are written: ``PROVIDER=URL`` for one provider, ``URL`` for all requests.

        Raises:
            ConfigError: If a provider is not known, or an address is none.
        """
        of, everything = dict[str, str](), None
        for option in written:
            name, is_named, address = option.partition("=")
            if name in PROVIDERS and is_named:
                of[name] = address
            elif "://" in name:
                everything = option
            else:
                msg = f"--upstream: {option!r:.100} is not PROVIDER=URL or URL; providers are {', '.join(PROVIDERS)}"
                raise ConfigError(msg)
        return cls(of, everything)

    def places(self) -> Iterator[tuple[str, str, int]]:
        """Each address that is given, with its host and its port."""
        for address in filter(None, (*self.of.values(), self.everything)):
            url = httpx.URL(address.replace("{region}", "region"))
            yield address, url.host, url.port or (443 if url.scheme == "https" else 80)

    def address(self, provider: Provider, path: str, region: str | None = None) -> str:
        """Return where a request for ``path`` of a ``provider`` goes, in an AWS ``region``.

        A version that the address ends with, and the path begins with, counts once: ``https://host/v1`` is as
        ``https://host``.
        """
        base = (self.of.get(provider) or self.everything or _DEFAULTS[provider]).rstrip("/")
        base = base.replace("{region}", region or "us-east-1")
        first = path[: path.find("/", 1)] if path.find("/", 1) > 0 else path
        if len(first) > 1 and httpx.URL(base).path.endswith(first):
            base = base[: -len(first)]
        return base + path


@frozen
class Timeouts:
    """How long the provider is waited for, and the client, in seconds.

    Args:
        connect: For a connection to the provider.
        read: For the next bytes of its answer.
        upload: For the body of a client's request, and one second more for each 1,000 bytes of it that have come; what
            the provider takes to read them is not counted.

    Example:
        >>> from agentctx.presets import coding_agent
        >>> from agentctx.proxy import Proxy, Timeouts
        >>> proxy = Proxy(coding_agent(64_000), timeouts=Timeouts(connect=5, read=120))
        >>> proxy.timeouts.read
        120
    """

    connect: float = 10.0
    read: float = 600.0
    upload: float = 60.0


@define(eq=False)
class Upstream:
    """Connections to the providers, which all requests share.

    Args:
        addresses: Where the providers are.
        timeouts: How long they are waited for.
        most: So many connections there are at once.
        name: What the header ``Via`` says of the one who passes requests on.
        signer: Signs for AWS; None: what is signed is refused.
    """

    addresses: Upstreams
    timeouts: Timeouts = field(factory=Timeouts)
    most: int = 1_000
    name: str = "agentctx"
    signer: Signer | None = None
    _client: httpx.AsyncClient = field(init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Open no connection yet."""
        waits = httpx.Timeout(self.timeouts.read, connect=self.timeouts.connect, pool=self.timeouts.connect)
        limits = httpx.Limits(
            max_connections=self.most, max_keepalive_connections=min(self.most, 100), keepalive_expiry=IDLE
        )
        nothing_kept = CookieJar(DefaultCookiePolicy(allowed_domains=()))  # one client's cookies are no other's
        self._client = httpx.AsyncClient(timeout=waits, limits=limits, cookies=nothing_kept, follow_redirects=False)

    def host(self, provider: Provider, request: Incoming) -> str:
        """The host and the port that a request goes to."""
        url = httpx.URL(self.addresses.address(provider, "/", request.region))
        port = "" if url.port is not None else ":443" if url.scheme == "https" else ":80"
        return f"{url.netloc.decode()}{port}"

    async def send(
        self, provider: Provider, request: Incoming, headers: Headers, content: bytes | AsyncIterator[bytes] | None
    ) -> httpx.Response:
        """Send a request, signed anew where its head is signed for AWS; the answer is still to be read and closed.

        Raises:
            CannotSign: If it is signed for AWS, and nothing here signs.
            httpx.HTTPError: If nothing answers, or with a status that HTTP does not have.
        """
        url = self.addresses.address(provider, request.path, request.region)
        url = f"{url}?{request.query.decode('latin-1')}" if request.query else url
        if request.signed and isinstance(content, bytes):
            if self.signer is None or request.region is None:
                raise CannotSign(_CANNOT_SIGN)
            signing = (request.method, url, headers, content, request.region)
            headers = await anyio.to_thread.run_sync(self.signer.signed, *signing)
        extensions = {"timeout": self._client.timeout.as_dict()}
        passed = [*headers, (b"via", f"1.1 {self.name}".encode())]
        sent = httpx.Request(request.method, url, headers=passed, content=content, extensions=extensions)
        answer = await self._client.send(sent, stream=True)
        if not 200 <= answer.status_code < 600:
            await answer.aclose()
            raise httpx.RemoteProtocolError(str(answer.status_code), request=sent)
        return answer

    async def aclose(self) -> None:
        """Close all connections."""
        await self._client.aclose()


class CannotSign(Exception):
    """A request is signed for AWS over this proxy's address, and nothing here can sign it for the provider's."""


_CANNOT_SIGN = (
    "this request is signed for AWS over the proxy's own address, so its signature does not hold for "
    "the provider's: start the proxy with --sign-aws, which signs with the AWS credentials of its machine"
)


@define(eq=False)
class Signer:
    """Signs requests with the credentials of this machine, as every AWS tool finds them.

    Where ``AWS_BEARER_TOKEN_BEDROCK`` has an API key, that goes in the place of a signature.

    Raises:
        ConfigError: If there is neither, or botocore is not installed.
    """

    _credentials: Native = field(init=False, default=None, repr=False)
    _bearer: str | None = field(init=False, factory=lambda: os.environ.get("AWS_BEARER_TOKEN_BEDROCK"), repr=False)

    def __attrs_post_init__(self) -> None:
        """Find the credentials."""
        if self._bearer:
            return
        try:
            from botocore.session import get_session  # type: ignore[import-untyped]  # noqa: PLC0415 - optional
        except ModuleNotFoundError:
            msg = "signing for AWS needs botocore: pip install botocore"
            raise ConfigError(msg) from None
        self._credentials = get_session().get_credentials()
        if self._credentials is None:
            msg = "no AWS credentials were found: set AWS_PROFILE, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"
            raise ConfigError(msg)

    def signed(self, method: str, url: str, headers: Headers, body: bytes, region: str) -> Headers:
        """The header fields with a signature over this address and this body, in the place of the one that came."""
        kept = [(name, value) for name, value in headers if name not in _REPLACED]
        if self._bearer:
            return [*kept, (b"authorization", f"Bearer {self._bearer}".encode())]
        from botocore.auth import SigV4Auth  # type: ignore[import-untyped]  # noqa: PLC0415 - optional
        from botocore.awsrequest import AWSRequest  # type: ignore[import-untyped]  # noqa: PLC0415 - optional

        content = {name.decode(): value.decode("latin-1") for name, value in kept if name == b"content-type"}
        request = AWSRequest(method, url, headers={"host": urlsplit(url).netloc, **content}, data=body)
        SigV4Auth(self._credentials.get_frozen_credentials(), "bedrock", region).add_auth(request)
        added = [(name.lower().encode(), value.encode()) for name, value in request.headers.items()]
        return [*kept, *((name, value) for name, value in added if name not in (b"content-type", b"host"))]


_REPLACED = frozenset({b"authorization", b"x-amz-date", b"x-amz-security-token", b"x-amz-content-sha256"})


def to_send(headers: Headers, *, whole: bytes | None = None, identity: bool = False) -> list[tuple[bytes, bytes]]:
    """The header fields of a request on its way to the provider.

    Args:
        headers: As they came.
        whole: The body, where it is another one than came.
        identity: Whether the answer is to come unpacked, since it is read on its way.
    """
    dropped = _OURS if whole is None else _OURS | _OF_THE_BODY
    if any(name == b"transfer-encoding" for name, _ in headers):  # then that says how long the body is, and no length
        dropped |= {b"content-length"}
    if identity:
        dropped |= {b"accept-encoding"}
    kept = _end_to_end(headers, dropped, whole)
    return [*kept, (b"accept-encoding", b"identity")] if identity else kept


def to_give(answer: httpx.Response, *, whole: bytes | None = None, relayed: bool = False) -> list[tuple[bytes, bytes]]:
    """The header fields of an answer on its way to the client.

    Args:
        answer: The provider's answer.
        whole: The body, where it was read as a whole.
        relayed: Whether the body is read on its way: then it is unpacked, and may go on with another answer's.
    """
    dropped = _OF_THE_BODY if whole is not None or relayed else frozenset()
    if stays_packed(answer):
        dropped -= {b"content-encoding"}
    return _end_to_end([(name.lower(), value) for name, value in answer.headers.raw], dropped, whole)


def _end_to_end(headers: Headers, dropped: frozenset[bytes], whole: bytes | None) -> list[tuple[bytes, bytes]]:
    """Header fields without those of one connection, some of which ``Connection`` names; with the length of a body."""
    values = (value for name, value in headers if name == b"connection")
    named = {name.strip().lower() for value in values for name in value.split(b",")}
    kept = [(name, value) for name, value in headers if name not in _HOP_BY_HOP | dropped | named]
    return kept if whole is None else [*kept, (b"content-length", str(len(whole)).encode())]


PipelineOf = Callable[[str | None], Pipeline]
"""The pipeline for a model, given its name."""

LONGEST_NAME = 200
"""Characters that are held of a session's name in a header."""


class PipelineFailed(Exception):
    """A stage, a store, or another part of the pipeline raised what it should not."""


@frozen(eq=False)
class Exchange:
    """One model call, from its body to the provider's answer.

    Args:
        api: What it is made by.
        request: Its head.
        raw: Its body, as it came: packed or not.
        most: So many bytes of it are taken, unpacked.
    """

    api: Api
    request: Incoming
    raw: bytes = field(repr=False)
    most: int
    upstream: Upstream
    known: Known
    metrics: Metrics

    async def answered(self) -> Reply:
        """What the provider answers to the prepared request.

        Raises:
            TooLarge: If its body is larger than is taken, unpacked.
            Unreadable: If it cannot be unpacked or prepared; nothing was sent.
            ContextOverflow: If it cannot be made to fit; nothing was sent.
            ConfigError: If the window of its model is not known.
            CannotSign: If it is signed for AWS, and nothing here can sign it anew.
        """
        plain = unpacked(self.raw, self.request.header(b"content-encoding"), self.most)
        begun = perf_counter()
        body = self.api.body(body_of(plain))
        call = await self._begun(body, len(plain))
        self.metrics.prepared(call.view.report, perf_counter() - begun)
        reply: Reply = await answer(call, partial(self._send, body, call), Ways((), Reply.opened, waits=True))
        return reply

    async def _begun(self, body: dict[str, Native], size: int) -> ModelCall:
        """Prepare a body in its conversation."""
        adapter, call = self.api.adapter, None
        try:
            request = adapter.read(body)
            if request is not None and isinstance(request.messages, list) and request.messages:
                pipeline = self.known.pipeline_for(request.model)
                sessions = self.known.sessions_of(pipeline)
                asked = Asked(pipeline, sessions=sessions, known=self.known, head=self.request, size=size)
                call = await begin(asked, adapter, body)
        except InvalidInput as error:
            raise Unreadable(error.where) from None
        except RecursionError:
            raise Unreadable(TOO_DEEP) from None
        except AgentctxError:
            raise
        except FAILURES as error:  # what the pipeline's own parts raise
            raise PipelineFailed(described(error)) from error
        if call is None:
            raise Unreadable(adapter.messages_key)
        return call

    async def _send(self, body: dict[str, Native], call: ModelCall, written: dict[str, Native]) -> Reply:
        """Send what was prepared; the client's own bytes where nothing has changed."""
        if call.recovered:
            self.metrics.recovered.inc()
        content, betas = content_of(self.api, body, written)
        self.metrics.requests.labels("unchanged" if content is None else "changed").inc()
        if content is None:
            content, headers = self.raw, to_send(self.request.headers, identity=True)
        else:
            headers = with_betas(to_send(self.request.headers, whole=content, identity=True), betas)
        return Reply(await self.upstream.send(self.api.provider, self.request, headers, content))


@define(eq=False)
class Asked(Conversations):
    """The conversation of one request.

    Args:
        known: All conversations.
        head: The head of the request: whose keys it has, and the conversation's name where it gives one.
        size: Bytes of the request.
    """

    known: Known = field(kw_only=True)
    head: Incoming = field(kw_only=True)
    size: int = field(kw_only=True)

    @asynccontextmanager
    async def of(self, _body: Body, request: RequestParts, format_name: str) -> AsyncIterator[Session | None]:
        """The session of a request, held while it is prepared."""
        caller, named = f"{self.head.caller()}-{format_name}", self.head.header(SESSION_HEADER)
        store, histories = self.known.store, self.known.histories
        if named is None:
            history = history_of(request, caller, format_named(format_name), self.size)
            shared = histories if store is None else SharedHistories(store, histories)
            conversation = await shared.find(history)
            name, forgotten = conversation.name, conversation.forgotten
            before = None if conversation.branches_off is None else self.sessions.get(conversation.branches_off)
            if before is not None and before.steps and name not in self.sessions:
                self.sessions[name] = branch(before, name)
        else:
            if len(named) > LONGEST_NAME:  # its beginning, and a digest that tells it from others that begin so
                digest = sha256(named.encode("utf-8", "surrogatepass")).hexdigest()
                named = f"{named[: LONGEST_NAME - len(digest)]}{digest}"
            name = f"{caller}/{named}"
            forgotten = histories.hold(name, History(caller, b"", (name.encode(),), self.size))
        await self.known.forget(forgotten)
        async with self.sessions.using(name, request.model, format_name) as session:
            yield session if named is None else holding(session, request, format_name)

    def say_once(self, what: str) -> None:
        """Say nothing: what it says is for whoever wraps a client."""

    def note_stateless(self, messages: object) -> None:
        """Warn of nothing: here every request has its session."""


@define(eq=False)
class Known:
    """What the proxy remembers: the conversations, found by their histories, and their sessions.

    Args:
        pipeline_of: The pipeline for each model.
        histories: The conversations, by what they have shown.
        store: Where the states of their sessions are kept; None: here alone.
    """

    pipeline_of: PipelineOf
    histories: Histories
    store: StateStore | None = None
    _pipelines: dict[str | None, Pipeline] = field(init=False, factory=dict, repr=False)
    _sessions: dict[int, Sessions] = field(init=False, factory=dict, repr=False)

    def pipeline_for(self, model: str | None) -> Pipeline:
        """The pipeline for a model.

        Raises:
            ConfigError: If the model's window is not known.
        """
        if model in self._pipelines:
            return self._pipelines[model]
        pipeline = self.pipeline_of(model)
        if len(self._pipelines) < MOST_MODELS:
            self._pipelines[model] = pipeline
        elif id(pipeline) not in self._sessions:
            msg = f"more than {MOST_MODELS} models were asked for: {model!r:.100} is one more"
            raise ConfigError(msg)
        return pipeline

    def sessions_of(self, pipeline: Pipeline) -> Sessions:
        """The sessions of a pipeline."""
        if id(pipeline) not in self._sessions:
            capacity = self.histories.most + IN_FLIGHT
            self._sessions[id(pipeline)] = Sessions(pipeline, self.store, capacity=capacity)
        return self._sessions[id(pipeline)]

    async def forget(self, names: Sequence[str]) -> None:
        """Forget conversations that there is no room for."""
        for name in names:
            for sessions in self._sessions.values():
                await sessions.close(name)


MOST_MODELS = 500
IN_FLIGHT = 100
