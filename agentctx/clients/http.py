"""An HTTP client in front of another one, of httpx or httpx2: what it sends to a model is prepared before."""

from __future__ import annotations

import re
import sys
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache, partial
from importlib import import_module
from importlib.util import find_spec
from operator import attrgetter
from types import ModuleType
from typing import Any

from attrs import Factory, define, field, frozen

from agentctx.clients.model_call import (
    Api,
    Conversations,
    Incoming,
    Key,
    ModelCall,
    api_of,
    begin,
    conversations_of,
    too_large,
)
from agentctx.clients.over_http import (
    LIBRARIES,
    Answer,
    Reply,
    Started,
    Unreadable,
    Ways,
    answer,
    body_of,
    content_of,
    library_of,
    note_unanswered,
    object_in,
    stays_packed,
    unanswered,
    unpacked,
    with_betas,
)
from agentctx.errors import AgentctxError, ConfigError, ContextOverflow
from agentctx.formats.overflow import OVERFLOW
from agentctx.formats.registry import get
from agentctx.message import Native
from agentctx.pipeline import Pipeline
from agentctx.session.blocking import drive
from agentctx.session.session import Session
from agentctx.session.sessions import Sessions

MOST_UNFINISHED = 64
"""So many responses in the background are waited for; the oldest is forgotten first."""


@frozen(eq=False)
class Background:
    """The calls of one client that are answered in the background.

    Args:
        conversations: The conversations of the client.
        calls: The calls, by the ids of the responses that will answer them.
    """

    conversations: Conversations
    calls: OrderedDict[str, ModelCall] = field(factory=OrderedDict)

    def follow(self, response: Native, call: ModelCall) -> None:
        """Remember the call that a response will answer, until it is answered."""
        name = get(response, "id")
        if not call.body.get("background") or not isinstance(name, str):
            return
        if call.adapter.usage(response) is None and get(response, "status") in {"queued", "in_progress"}:
            self.calls[name] = call
        else:
            self.calls.pop(name, None)
        if len(self.calls) > MOST_UNFINISHED:
            self.calls.popitem(last=False)
            self.conversations.say_once(_NEVER_RETRIEVED)

    def retrieved_by(self, request: Incoming) -> ModelCall | None:
        """Return the call whose response a request retrieves; None for every other request."""
        before, _, name = request.path.rpartition("/")
        return self.calls.get(name) if request.method == "GET" and before.endswith("/responses") else None


_NEVER_RETRIEVED = (
    "responses in the background were never retrieved by the client that asked for them, so the session does not know "
    "their cost: call responses.retrieve(id) of the same client"
)


def http_client(
    pipeline: Pipeline,
    client: Native = None,
    *,
    session: Session | None = None,
    key: Key | None = None,
    sessions: Sessions | None = None,
) -> Any:  # noqa: ANN401 - a Client of httpx or httpx2, whichever is installed
    """Return an HTTP client that prepares model calls, for whatever takes one: an SDK, a framework, a program.

    It prepares Chat Completions, Responses, Messages, ``generateContent`` and Converse, by the paths of their requests,
    as ``agentctx.wrap`` does; every other request is sent as it is. ``agentctx.of(http_client)`` has the sessions and
    the last view.

    Args:
        pipeline: Prepares the requests.
        client: The ``httpx.Client`` or ``httpx2.Client`` that sends them; closing this one closes it. Without it, one
            is made of the library that is installed. Where both are, that is the one that OpenAI's SDK speaks with:
            httpx2 since its version 3, and httpx before, or without that SDK.
        session: As in ``agentctx.wrap``.
        key: As in ``agentctx.wrap``.
        sessions: As in ``agentctx.wrap``.

    Raises:
        ConfigError: If ``client`` is no sync client of these libraries, none of them is installed, or ``key`` and
            ``sessions`` are refused.

    Example:
        >>> import agentctx
        >>> pipeline = agentctx.Pipeline(agentctx.FitContextWindow(), budget=agentctx.Budget(window=128_000))
        >>> with agentctx.http_client(pipeline) as client:
        ...     agentctx.of(client).view is None
        True
    """
    conversations = conversations_of("http_client", pipeline, session, key, sessions)
    return in_front_of(_inner(client, "Client"), conversations)


def async_http_client(
    pipeline: Pipeline,
    client: Native = None,
    *,
    session: Session | None = None,
    key: Key | None = None,
    sessions: Sessions | None = None,
) -> Any:  # noqa: ANN401 - an AsyncClient of httpx or httpx2, whichever is installed
    """Return an async HTTP client that prepares model calls, as ``agentctx.http_client`` returns a sync one.

    Args:
        pipeline: Prepares the requests.
        client: The ``httpx.AsyncClient`` or ``httpx2.AsyncClient`` that sends them.
        session: As in ``agentctx.wrap``.
        key: As in ``agentctx.wrap``.
        sessions: As in ``agentctx.wrap``.

    Example:
        >>> import agentctx
        >>> pipeline = agentctx.Pipeline(agentctx.FitContextWindow(), budget=agentctx.Budget(window=128_000))
        >>> client = agentctx.async_http_client(pipeline)
        >>> await client.aclose()
    """
    conversations = conversations_of("async_http_client", pipeline, session, key, sessions)
    return in_front_of(_inner(client, "AsyncClient"), conversations)


def in_front_of(inner: Native, conversations: Conversations) -> Native:
    """Return an HTTP client in front of another one, of the same library and kind."""
    http = library_of(inner)
    kinds = {True: (_AsyncClient, http.AsyncClient), False: (_Client, http.Client)}
    waits = isinstance(inner, http.AsyncClient)
    return _derived(*kinds[waits])(Passage(inner, conversations, http, waits=waits))


def _inner(client: Native, kind: str) -> Native:
    """Return the HTTP client that requests are sent with: the one that is passed, else a new one."""
    if client is not None:
        modules = [module for name in LIBRARIES if (module := sys.modules.get(name)) is not None]
        if not isinstance(client, tuple(getattr(module, kind) for module in modules)):
            name = "http_client" if kind == "Client" else "async_http_client"
            msg = (
                f"{name}: client is a {type(client).__module__}.{type(client).__qualname__}; pass a {kind} of httpx or "
                "httpx2. http_client takes sync ones, async_http_client async ones, and wrap the clients of SDKs"
            )
            raise ConfigError(msg)
        return client
    http = _installed()
    limits = http.Limits(max_connections=1_000, max_keepalive_connections=100)
    return getattr(http, kind)(timeout=http.Timeout(600, connect=10), limits=limits, follow_redirects=True)


def _installed() -> ModuleType:
    """Return the HTTP library that is installed; of both, the one that OpenAI's SDK speaks with."""
    names = [name for name in LIBRARIES if find_spec(name) is not None]
    if not names:
        msg = "an HTTP client needs httpx or httpx2: pip install httpx"
        raise ConfigError(msg)
    if len(names) > 1 and find_spec("openai") is not None:
        from openai import DefaultHttpxClient  # noqa: PLC0415 - the SDK is loaded where it is asked for alone

        names = [kind.__module__.partition(".")[0] for kind in DefaultHttpxClient.__mro__]
    return import_module(next(name for name in names if name in LIBRARIES))


@define(eq=False)
class Passage:
    """The way of requests through an HTTP client that prepares them.

    Args:
        inner: The client that sends them.
        conversations: The conversations that they belong to.
        http: The library of that client.
        waits: Whether that client is async.
    """

    inner: Native
    conversations: Conversations
    http: ModuleType
    waits: bool
    background: Background = field(
        init=False, default=Factory(lambda self: Background(self.conversations), takes_self=True)
    )

    async def answered(self, request: Native, options: Mapping[str, Any]) -> Native:
        """Send a request, prepared where it is a model call; return the response, which is still to be read."""
        path = request.url.raw_path.partition(b"?")[0].decode("latin-1")
        headers = tuple((name.lower(), value) for name, value in request.headers.raw)
        head = Incoming(request.method.upper(), path, request.url.query, headers)
        try:
            _refuse(head)
            api = api_of(head)
            if api is None:
                return await self._retrieved(request, head, options)
            if head.signed:
                raise ConfigError(_SIGNED)
            return await self._prepared(api, request, head, options)
        except _Raised as raised:
            return self._raised(raised.error, request, head)
        except AgentctxError as error:
            return self._raised(error, request, head)

    async def _prepared(self, api: Api, request: Native, head: Incoming, options: Mapping[str, Any]) -> Native:
        raw: bytes = await self._value(request.aread() if self.waits else request.read())
        ways = Ways((), self._opened, self.waits)
        try:
            body = api.body(body_of(unpacked(raw, head.header(b"content-encoding"))))
        except Unreadable:
            return await self._value(self.inner.send(request, **options))
        is_first = head.header(RETRIES) == "0"  # an SDK that counts its tries; others are known by the body alone
        call = None if is_first else unanswered(self.conversations, raw, body)
        try:
            call = call or await ways.wait(begin, self.conversations, api.adapter, body)
        except ContextOverflow as error:
            refusal = too_large(api, error)
            more = {"content": refusal.body, "request": request, "extensions": {OVERFLOW: error}}
            return self.http.Response(refusal.status, headers=list(refusal.headers), **more)
        except Exception as error:  # noqa: BLE001 - whatever a stage raises: an SDK would take it for a broken connection
            raise _Raised(error) from None
        if call is None:
            return await self._value(self.inner.send(request, **options))

        async def send(written: dict[str, Native]) -> Native:
            try:
                content, betas = content_of(api, body, written)
            except Unreadable:  # the provider judges what cannot be written
                content, betas = None, ()
            sent = request
            if content is not None:
                headers = with_betas([field for field in head.headers if field[0] not in _OF_THE_BODY], betas)
                more = {"headers": headers, "content": content, "extensions": request.extensions}
                sent = self.http.Request(request.method, request.url, **more)
            reply = Reply(await self._value(self.inner.send(sent, **options)))
            if (error := reply.response.extensions.get(RAISED)) is not None:  # of a client that was wrapped before
                raise _Raised(error)
            return reply

        answered = False
        try:
            response = await answer(call, send, ways)
            answered = response.is_success
        finally:
            note_unanswered(raw, call, answered=answered)
        return response

    async def _opened(self, reply: Reply, call: ModelCall, ways: Ways, /) -> Answer:
        """Look into an answer; what is handed on is a response with the same head."""
        opened = await reply.opened(call, ways)
        if reply.whole is not None:
            self.background.follow(object_in(reply.whole), call)
        opened.value = handed_on(reply, waits=self.waits)
        return opened

    async def _retrieved(self, request: Native, head: Incoming, options: Mapping[str, Any]) -> Native:
        """Send a request that is no model call; one may retrieve what a call in the background was answered."""
        response = await self._value(self.inner.send(request, **options))
        call = self.background.retrieved_by(head)
        if call is None or not response.is_success or "json" not in response.headers.get("content-type", ""):
            return response
        whole: bytes = await self._value(response.aread() if self.waits else response.read())
        await self._value(response.aclose() if self.waits else response.close())
        body = object_in(whole)
        call.learn(call.adapter.usage(body))
        self.background.follow(body, call)
        await call.kept(waits=self.waits)
        return handed_on(Reply(response, whole), waits=self.waits)

    async def _value(self, result: Native) -> Native:
        """Return what a method of the client behind gives; an async client's is awaited."""
        return await result if self.waits else result

    def _raised(self, error: Exception, request: Native, head: Incoming) -> Native:
        """Raise an error of ours; for an SDK that tries again, return a response whose status check raises it.

        Such an SDK takes an error that is raised here for a broken connection.
        """
        if head.header(RETRIES) is None:
            raise error
        response = self.http.Response(
            400, request=request, headers={"x-should-retry": "false"}, json={"error": None}, extensions={RAISED: error}
        )

        def raise_for_status() -> Native:
            raise error

        response.raise_for_status = raise_for_status
        return response


def handed_on(reply: Reply, *, waits: bool) -> Native:
    """Return the response that a caller reads: the provider's head, and the body as it was read or is relayed.

    Args:
        reply: The provider's answer, looked into.
        waits: Whether the caller's client is async.
    """
    response, http = reply.response, library_of(reply.response)
    changed = _OF_THE_BODY - ({b"content-encoding"} if stays_packed(response) else set())
    headers = [(name, value) for name, value in response.headers.raw if name.lower() not in changed]
    if reply.whole is not None:
        headers.append((b"content-length", str(len(reply.whole)).encode()))
    if reply.stream is None:
        body = http.ByteStream(reply.whole)
    else:
        body = _derived(*((_AsyncBody, http.AsyncByteStream) if waits else (_Body, http.SyncByteStream)))(reply.stream)
    result = http.Response(
        response.status_code,
        headers=headers,
        stream=body,
        request=response.request,
        extensions=response.extensions,
        history=response.history,
        default_encoding=response.default_encoding,
    )
    result.next_request = response.next_request
    if reply.stream is None:
        _tell_elapsed(result, response)
    else:
        body.closed = partial(_tell_elapsed, result, response)
    return result


def _tell_elapsed(result: Native, response: Native) -> None:
    with suppress(RuntimeError):  # a transport of the user's own need not measure it
        result.elapsed = response.elapsed


RAISED = "agentctx_raised"
"""The extension of a response in which an error of ours travels to another client in front."""


class _Raised(Exception):
    """A part of the pipeline raised something, or a client that was wrapped before."""

    def __init__(self, error: Exception) -> None:
        super().__init__(str(error))
        self.error = error


RETRIES = b"x-stainless-retry-count"
"""How often OpenAI's and Anthropic's SDKs have sent a request before."""
_OF_THE_BODY = frozenset({b"content-length", b"content-encoding", b"transfer-encoding"})
_REFUSED: Mapping[str, str] = {
    r"(?<!/chat)/completions$": "call chat.completions.create or responses.create",
    r"/responses/compact$": "the pipeline makes room itself; call responses.create",
    r"/interactions$": "the provider keeps the conversation; send all contents by models.generate_content",
    r":(rawPredict|streamRawPredict)$": "wrap the client of Anthropic's SDK",
    r"/model/[^/]+/invoke(-with-response-stream)?$": "call converse, or wrap the client of Anthropic's SDK",
}
"""The paths of model calls whose bodies cannot be prepared, and what to do instead."""
_SIGNED = (
    "the body of this model call is signed for AWS before it is prepared, so a prepared one would be refused: use a "
    "bearer token (AWS_BEARER_TOKEN_BEDROCK), or Converse by boto3"
)


def _refuse(request: Incoming) -> None:
    """Refuse a model call whose body cannot be prepared, by its path."""
    path = request.path.rstrip("/")
    instead = next((instead for end, instead in _REFUSED.items() if re.search(end, path)), None)
    if request.method == "POST" and instead is not None:
        msg = f"POST {path} is a model call that cannot be prepared: {instead}"
        raise ConfigError(msg)


class _InFront:
    """The HTTP client that a caller has: requests are built and sent by the one behind it."""

    def __init__(self, passage: Passage) -> None:
        self.passage = passage
        self.agentctx = passage.conversations

    def __getattr__(self, name: str) -> Native:
        if name == "passage" or name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.passage.inner, name)

    def build_request(self, *args: Native, **options: Native) -> Native:
        """Build a request."""
        return self.passage.inner.build_request(*args, **options)


class _Client(_InFront):
    def send(self, request: Native, *, stream: bool = False, **options: Native) -> Native:
        """Send a request."""
        response = drive(self.passage.answered(request, {**options, "stream": True}))
        if not stream:
            response.read()
        return response

    def close(self) -> None:
        """Close the connections."""
        self.passage.inner.close()

    def __enter__(self) -> Native:
        self.passage.inner.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self.passage.inner.__exit__(*error)


class _AsyncClient(_InFront):
    async def send(self, request: Native, *, stream: bool = False, **options: Native) -> Native:
        """Send a request."""
        response = await self.passage.answered(request, {**options, "stream": True})
        if not stream:
            await response.aread()
        return response

    async def aclose(self) -> None:
        """Close the connections."""
        await self.passage.inner.aclose()

    async def __aenter__(self) -> Native:
        await self.passage.inner.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.passage.inner.__aexit__(*error)


class _Stream:
    """The body of a response that is read on its way."""

    def __init__(self, started: Started) -> None:
        self.started = started
        self.closed: Callable[[], None]


class _Body(_Stream):
    def __iter__(self) -> Iterator[bytes]:
        try:
            while True:
                try:
                    piece = drive(self.started.next())
                except StopAsyncIteration:
                    return
                yield piece.data
        finally:  # not every SDK closes the response of a stream that its reader leaves
            drive(self.started.held.let_go())

    def close(self) -> None:
        """Let go of the body."""
        drive(self.started.drop())
        self.closed()


class _AsyncBody(_Stream):
    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while True:
                try:
                    piece = await self.started.next()
                except StopAsyncIteration:
                    return
                yield piece.data
        finally:
            await self.started.held.let_go()

    async def aclose(self) -> None:
        """Let go of the body."""
        await self.started.drop()
        self.closed()


_OF_THE_INNER = ("auth", "base_url", "cookies", "event_hooks", "headers", "is_closed", "params", "timeout", "trust_env")
"""The properties of an HTTP client; they are those of the one behind."""


@cache
def _derived(kind: type, base: type) -> Native:
    """Return a class that is one of an HTTP library, too, as SDKs ask for it."""
    shared = {name: _of_the_inner(name) for name in _OF_THE_INNER} if issubclass(kind, _InFront) else {}
    return type(base.__name__, (kind, base), shared)


def _of_the_inner(name: str) -> property:
    read = attrgetter(f"passage.inner.{name}")
    return property(read, lambda client, value: setattr(client.passage.inner, name, value))
