"""Google's SDK: generate_content and generate_content_stream, sync and async, and the chats built on them.

Both go through the SDK's API client, in JSON as the API takes it; that is where requests are prepared: once for each
model call, also within automatic function calling.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from typing import Any, NoReturn, TypeVar

from attrs import frozen
from google.genai import Client, errors
from google.genai.client import AsyncClient

from agentctx.clients.answers import Answer, NotSent, Ways, derived, exchange, follow, opened
from agentctx.clients.bridge import drive
from agentctx.clients.model_call import Conversations, ModelCall
from agentctx.core.message import Native
from agentctx.errors import ConfigError
from agentctx.providers.adapter import get
from agentctx.providers.gemini.format import GenerateContent

T = TypeVar("T")

_WHOLE, _STREAMED = ":generateContent", ":streamGenerateContent"
_ERRORS = (errors.APIError,)


def wrap(client: T, conversations: Conversations) -> T:
    """The client's proxy whose model calls are prepared.

    Raises:
        ConfigError: If it is something else of this SDK.
    """
    given: Native = client
    if not isinstance(given, Client | AsyncClient):
        msg = f"wrap: {type(client).__qualname__} of google.genai is no client; pass a Client or its aio"
        raise ConfigError(msg)
    wrapped: T = _over(given, _api(given._api_client, conversations))  # noqa: SLF001 - the SDK has no other seam
    return wrapped


def _over(client: Native, api: Native) -> Native:
    """A client of the same state that calls models through ``api``; it keeps the given one alive, and so open."""
    other: Native = object.__new__(
        derived(type(client), {"__del__": _nothing, "interactions": property(_refuse_interactions)})
    )
    other.__dict__.update(vars(client), _api_client=api, _agentctx_of=client, _models=copy(client._models))  # noqa: SLF001
    other._models._api_client = api  # noqa: SLF001 - the SDK has no other seam
    if isinstance(client, Client):
        other._aio = _over(client.aio, api)  # noqa: SLF001 - as above
    return other


def _api(api: Native, conversations: Conversations) -> Native:
    """A copy of the SDK's API client with the same state: both share connections and credentials."""

    def request(_proxy: object, *args: Native, **more: Native) -> Native:
        call = _Call(api.request, args, more)
        return drive(call.prepared(conversations, _SYNC)) if call.asks(_WHOLE) else call.plainly()

    def request_streamed(_proxy: object, *args: Native, **more: Native) -> Iterator[Native]:
        call = _Call(api.request_streamed, args, more)
        yield from drive(call.prepared(conversations, _STREAM)) if call.asks(_STREAMED) else call.plainly()

    async def async_request(_proxy: object, *args: Native, **more: Native) -> Native:
        call = _Call(api.async_request, args, more)
        return await (call.prepared(conversations, _ASYNC) if call.asks(_WHOLE) else call.plainly())

    async def async_request_streamed(_proxy: object, *args: Native, **more: Native) -> Native:
        call = _Call(api.async_request_streamed, args, more)
        return await (call.prepared(conversations, _ASYNC_STREAM) if call.asks(_STREAMED) else call.plainly())

    methods = (request, request_streamed, async_request, async_request_streamed)
    named: dict[str, Callable[..., Any]] = {method.__name__: method for method in methods}
    proxy: Native = object.__new__(derived(type(api), {**named, "__del__": _nothing}))
    proxy.__dict__ = vars(api)
    return proxy


@frozen
class _Call:
    """One call of the SDK's API client."""

    method: Callable[..., Any]
    args: tuple[Any, ...]
    more: Mapping[str, Any]

    def asks(self, operation: str) -> bool:
        """Whether the path is that of a model call."""
        return operation in self.args[1]

    def plainly(self) -> Native:
        """What the client itself makes of the call."""
        return self.method(*self.args, **self.more)

    async def prepared(self, known: Conversations, ways: Ways) -> Native:
        """The answer to the prepared request."""
        http_method, path, body, *options = self.args
        _refuse_added(options[0] if options else self.more.get("http_options"))

        async def send(prepared: dict[str, Native]) -> Native:
            return await ways.sent(self.method(http_method, path, prepared, *options, **self.more))

        model = path.partition(":")[0].rpartition("/")[2]
        return await exchange(known, GenerateContent(model), body, send, ways)


_READ = frozenset({"contents", "systemInstruction", "system_instruction", "tools", "cachedContent", "cached_content"})


def _refuse_added(options: Native) -> None:
    added = get(options, "extra_body") or {}
    if found := sorted(_READ & {*added}):
        msg = (
            f"extra_body of a wrapped client has {found[0]}, which cannot be prepared there; pass it in the call itself"
        )
        raise ConfigError(msg)


def _refuse_interactions(_client: object) -> NoReturn:
    msg = (
        "interactions of a wrapped client are model calls that cannot be prepared: the provider keeps them, "
        "which can be neither counted nor cut; call models.generate_content with all contents"
    )
    raise ConfigError(msg)


async def _open(value: object, call: ModelCall, _ways: Ways, /) -> Answer:
    return opened(value, value, call)


async def _open_stream(value: Native, call: ModelCall, ways: Ways, /) -> Answer:
    return follow(value, call, ways)


def _nothing(_object: object) -> None:
    """In place of a destructor that closes what another object still uses."""


class OverflowBeforeSending(NotSent, errors.ClientError):
    """A request that cannot be made to fit: nothing was sent."""

    def tell(self, message: str) -> None:
        """Be built as the SDK builds its error."""
        said = {"error": {"code": 400, "message": message, "status": "INVALID_ARGUMENT"}}
        errors.ClientError.__init__(self, 400, said)


_SYNC, _ASYNC = (Ways(_ERRORS, _open, OverflowBeforeSending.of, waits) for waits in (False, True))
_STREAM, _ASYNC_STREAM = (Ways(_ERRORS, _open_stream, OverflowBeforeSending.of, waits) for waits in (False, True))
