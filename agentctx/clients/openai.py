"""OpenAI's SDK: chat completions (create, parse, stream) and responses (create, parse, stream), sync and async.

Every call of the SDK's resources goes through the client's ``request``; that is where requests are prepared, so that
raw responses, ``with_options`` and the helpers for streams are prepared too.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import httpx
import openai
from attrs import field, frozen
from openai import AsyncOpenAI, AsyncStream, OpenAI, Stream

from agentctx.clients.answers import Answer, NotSent, Ways, exchange, hold, opened, proxy, watch
from agentctx.clients.model_call import Conversations, ModelCall
from agentctx.core.message import Native
from agentctx.errors import ConfigError
from agentctx.providers.adapter import Adapter, api_path, get
from agentctx.providers.openai_chat.format import ChatCompletions
from agentctx.providers.openai_responses.format import Responses

T = TypeVar("T")

_ADAPTERS: Mapping[str, Adapter] = {"/chat/completions": ChatCompletions(), "/responses": Responses()}
_REFUSED = {
    "/completions": "call chat.completions.create or responses.create",
    "/responses/compact": "the pipeline makes room itself; call responses.create",
}
_ERRORS = (openai.APIError,)


def wrap(client: T, conversations: Conversations) -> T:
    """The client's proxy whose model calls are prepared.

    Raises:
        ConfigError: If it is something else of this SDK.
    """
    if isinstance(client, AsyncOpenAI | OpenAI):
        background = _Background(conversations)
        ways = Ways(_ERRORS, partial(_open, background), OverflowBeforeSending.of, isinstance(client, AsyncOpenAI))
        return proxy(client, {"request": _request(type(client), background, ways)})
    msg = f"wrap: {type(client).__qualname__} of openai is no client; pass an OpenAI or AsyncOpenAI"
    raise ConfigError(msg)


MOST_UNFINISHED = 64
"""So many responses in the background are waited for; the oldest is forgotten first."""


@frozen(eq=False)
class _Background:
    """The calls of one wrapped client that are answered in the background: usage comes when they are retrieved."""

    conversations: Conversations
    calls: OrderedDict[str, ModelCall] = field(factory=OrderedDict)

    def follow(self, name: str, call: ModelCall) -> None:
        """Remember the call that this response will answer."""
        self.calls[name] = call
        if len(self.calls) > MOST_UNFINISHED:
            self.calls.popitem(last=False)
            self.conversations.say_once(_NEVER_RETRIEVED)

    def retrieved_by(self, options: Native) -> ModelCall | None:
        """The call whose response a request retrieves; None for every other request."""
        before, _, name = options.url.partition("?")[0].rpartition("/")
        return self.calls.get(name) if options.method.lower() == "get" and before == "/responses" else None

    def forget(self, name: str) -> None:
        """Its usage is known."""
        self.calls.pop(name, None)


_NEVER_RETRIEVED = (
    "responses in the background were never retrieved by the wrapped client that sent them, so what they cost is not "
    "known to the session: call responses.retrieve(id) of the same client"
)


def _request(kind: Native, background: _Background, ways: Ways) -> Callable[..., Native]:
    """The ``request`` that prepares, in front of a client's own."""

    async def request(client: Native, cast_to: Native, options: Native, **more: Native) -> Native:
        adapter = _adapter_of(options)
        if adapter is None:
            value = await ways.sent(kind.request(client, cast_to, options, **more))
            call = background.retrieved_by(options)
            if call is None:
                return value
            came = await ways.open(value, call, ways)
            await call.kept(waits=ways.waits)
            return came.value

        async def send(body: dict[str, Native]) -> Native:
            return await ways.sent(kind.request(client, cast_to, _with_body(options, body), **more))

        return await exchange(background.conversations, adapter, _body_of(options), send, ways)

    return ways.plain(request)


def _adapter_of(options: Native) -> Adapter | None:
    """The API that a request is for; None when it is no model call."""
    if options.method.lower() != "post" or not isinstance(options.json_data, Mapping):
        return None
    path = api_path(options.url, (*_ADAPTERS, *_REFUSED))
    if path in _REFUSED:
        msg = f"POST {path} of a wrapped client is a model call that cannot be prepared: {_REFUSED[path]}"
        raise ConfigError(msg)
    return _ADAPTERS.get(path)


def _body_of(options: Native) -> Mapping[str, Native]:
    """The body that the SDK would send: what stands in ``extra_body`` is part of it, and goes first."""
    if options.extra_json is None:
        body: Mapping[str, Any] = options.json_data
        return body
    both = {**options.json_data, **options.extra_json}
    return {name: value for name, value in both.items() if not isinstance(value, openai.Omit)}


def _with_body(options: Native, body: dict[str, Native]) -> Native:
    return options.model_copy(update={"json_data": body, "extra_json": None})


async def _open(background: _Background, value: Native, call: ModelCall, ways: Ways, /) -> Answer:
    if _is_the_callers(value):
        return watch(value, value.http_response, call, waits=ways.waits)
    inner = _inner(value)
    if not isinstance(inner, AsyncStream | Stream):
        _follow_background(inner, call, background)
        return opened(value, inner, call)
    return hold(inner, call, ways, value)


def _is_the_callers(value: object) -> bool:
    """Whether only the caller may read the body: it asked for it with ``with_streaming_response``."""
    return isinstance(value, openai.AsyncAPIResponse | openai.APIResponse) and not value.http_response.is_closed


def _inner(value: Native) -> Native:
    """The answer, or what a raw response holds."""
    if isinstance(value, openai.BaseModel | AsyncStream | Stream):
        return value
    http = getattr(value, "http_response", None)
    if http is None:
        return None
    if "text/event-stream" in http.headers.get("content-type", ""):
        return value.parse()
    return http.json() if http.is_closed and "json" in http.headers.get("content-type", "") else None


def _follow_background(inner: Native, call: ModelCall, background: _Background) -> None:
    """Of a response in the background the usage comes when it is retrieved at its end."""
    name = get(inner, "id")
    if not call.body.get("background") or not isinstance(name, str):
        return
    if call.adapter.usage(inner) is None and get(inner, "status") in {"queued", "in_progress"}:
        background.follow(name, call)
    else:
        background.forget(name)


class OverflowBeforeSending(NotSent, openai.BadRequestError):
    """A request that cannot be made to fit: nothing was sent."""

    def tell(self, message: str) -> None:
        """Be built as the SDK builds its error."""
        said = {"message": message, "type": "invalid_request_error", "param": None, "code": "context_length_exceeded"}
        request = httpx.Request("POST", "https://request.was.not.sent")
        response = httpx.Response(400, request=request, json={"error": said})
        openai.BadRequestError.__init__(self, message, response=response, body=said)
