"""OpenAI's SDK: chat completions (create, parse, stream) and responses (create, parse, stream), sync and async.

Every call of the SDK's resources goes through the client's ``request``; that is where requests are prepared, so that
raw responses, ``with_options`` and the helpers for streams are prepared too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import httpx
import openai
from openai import AsyncOpenAI, AsyncStream, OpenAI, Stream

from agentctx.clients.bodies import watch, watch_async
from agentctx.clients.conversations import Conversations
from agentctx.clients.exchange import Answer, Refused, Ways, blocked, exchange, waiting
from agentctx.clients.not_sent import NotSent, body_of
from agentctx.clients.portal import drive
from agentctx.clients.shape import Shape
from agentctx.clients.shape_openai_chat import ChatCompletions
from agentctx.clients.shape_openai_responses import Responses
from agentctx.clients.streams import hold, hold_async
from agentctx.clients.turn import Turn
from agentctx.clients.twin import twin
from agentctx.errors import ConfigError

T = TypeVar("T")

_SHAPES: Mapping[str, Shape] = {"/chat/completions": ChatCompletions(), "/responses": Responses()}
_ERRORS = (openai.APIError,)


def wrap(client: T, conversations: Conversations) -> T:
    """The client's twin whose model calls are prepared.

    Raises:
        ConfigError: If it is something else of this SDK.
    """
    if isinstance(client, AsyncOpenAI):
        return twin(client, {"request": _async_request(type(client), conversations)})
    if isinstance(client, OpenAI):
        return twin(client, {"request": _request(type(client), conversations)})
    msg = f"wrap: {type(client).__qualname__} of openai is no client; pass an OpenAI or AsyncOpenAI"
    raise ConfigError(msg)


def _async_request(kind: Any, conversations: Conversations) -> Callable[..., Any]:  # noqa: ANN401 - the SDK's own class
    """The ``request`` that prepares, in front of an async client's own."""

    async def request(client: Any, cast_to: Any, options: Any, **more: Any) -> Any:  # noqa: ANN401 - the SDK's own
        shape = _shape_of(options)
        if shape is None:
            return await kind.request(client, cast_to, options, **more)

        async def send(body: dict[str, Any]) -> Any:  # noqa: ANN401 - the SDK's own
            return await kind.request(client, cast_to, _with_body(options, body), **more)

        return await exchange(conversations, shape, _body_of(options), send, _ASYNC)

    return request


def _request(kind: Any, conversations: Conversations) -> Callable[..., Any]:  # noqa: ANN401 - the SDK's own class
    """The ``request`` that prepares, in front of a sync client's own."""

    def request(client: Any, cast_to: Any, options: Any, **more: Any) -> Any:  # noqa: ANN401 - the SDK's own
        shape = _shape_of(options)
        if shape is None:
            return kind.request(client, cast_to, options, **more)

        async def send(body: dict[str, Any]) -> Any:  # noqa: ANN401 - the SDK's own
            return kind.request(client, cast_to, _with_body(options, body), **more)

        return drive(exchange(conversations, shape, _body_of(options), send, _SYNC))

    return request


def _shape_of(options: Any) -> Shape | None:  # noqa: ANN401 - the SDK's own
    """The API that a request is for; None when it is no model call."""
    if options.method.lower() != "post" or not isinstance(options.json_data, Mapping):
        return None
    return _SHAPES.get(options.url.partition("?")[0])


def _body_of(options: Any) -> Mapping[str, Any]:  # noqa: ANN401 - the SDK's own
    """The body that the SDK would send: what stands in ``extra_body`` is part of it, and goes first."""
    if options.extra_json is None:
        body: Mapping[str, Any] = options.json_data
        return body
    both = {**options.json_data, **options.extra_json}
    return {name: value for name, value in both.items() if not isinstance(value, openai.Omit)}


def _with_body(options: Any, body: dict[str, Any]) -> Any:  # noqa: ANN401 - the SDK's own
    return options.model_copy(update={"json_data": body, "extra_json": None})


async def _open_async(value: Any, turn: Turn, /) -> Answer:  # noqa: ANN401 - whatever the SDK returns
    if _is_the_callers(value):
        return watch_async(value, value.http_response, turn)
    inner = _inner(value)
    if not isinstance(inner, AsyncStream):
        return _opened(value, inner, turn)
    answer = hold_async(inner, turn, _ERRORS)
    answer.value = value
    return answer


async def _open(value: Any, turn: Turn, /) -> Answer:  # noqa: ANN401 - whatever the SDK returns
    if _is_the_callers(value):
        return watch(value, value.http_response, turn)
    inner = _inner(value)
    if not isinstance(inner, Stream):
        return _opened(value, inner, turn)
    answer = hold(inner, turn, _ERRORS)
    answer.value = value
    return answer


def _is_the_callers(value: Any) -> bool:  # noqa: ANN401 - whatever the SDK returns
    """Whether only the caller may read the body: it asked for it with ``with_streaming_response``."""
    return isinstance(value, openai.AsyncAPIResponse | openai.APIResponse) and not value.http_response.is_closed


def _inner(value: Any) -> Any:  # noqa: ANN401 - whatever the SDK returns
    """The answer, or what a raw response holds."""
    if isinstance(value, openai.BaseModel | AsyncStream | Stream):
        return value
    http = getattr(value, "http_response", None)
    if http is None:
        return None
    if "text/event-stream" in http.headers.get("content-type", ""):
        return value.parse()
    return http.json() if http.is_closed and "json" in http.headers.get("content-type", "") else None


def _opened(value: Any, inner: Any, turn: Turn) -> Answer:  # noqa: ANN401 - whatever the SDK returns
    refused = None if inner is None else turn.shape.failure(inner)
    if refused is None:
        turn.learn(None if inner is None else turn.shape.usage(inner))
        return Answer(value)
    return Answer(value, refusal=Refused(refused))


class OverflowBeforeSending(NotSent, openai.BadRequestError):
    """A request that cannot be made to fit: nothing was sent."""

    def tell(self, message: str) -> None:
        """Be built as the SDK builds its error."""
        request = httpx.Request("POST", "https://request.was.not.sent")
        response = httpx.Response(400, request=request, json={"error": body_of(message)})
        openai.BadRequestError.__init__(self, message, response=response, body=body_of(message))


_ASYNC = Ways(_ERRORS, _open_async, waiting, OverflowBeforeSending)
_SYNC = Ways(_ERRORS, _open, blocked, OverflowBeforeSending)
