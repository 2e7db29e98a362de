"""Anthropic's SDK: messages (create, parse, stream, and the beta ones with the tool runner), sync and async.

The SDK has a seam for this, its middleware: it sees each attempt of each request, with the body that is about to be
sent, and the response before any error is raised. See https://github.com/anthropics/anthropic-sdk-python.

Message threads, where the provider keeps the conversation and is sent what is new, are switched off by the SDK's own
switch: what is kept there can be neither counted nor cut. The tool runner then sends all messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from copy import copy
from typing import Any, TypeVar

import anthropic
import httpx2
from anthropic import APIRequest, AsyncCallNext, AsyncStream, CallNext, Middleware, Stream
from attrs import field, frozen

from agentctx.clients.answers import (
    Answer,
    NotSent,
    RequestRefused,
    Send,
    Ways,
    answer,
    begun,
    derived,
    hold,
    opened,
    watch,
)
from agentctx.clients.bridge import drive
from agentctx.clients.model_call import Conversations, ModelCall
from agentctx.core.message import Native
from agentctx.errors import ConfigError
from agentctx.providers.adapter import api_path
from agentctx.providers.anthropic.format import Messages

T = TypeVar("T")

_ADAPTER = Messages()
_PATH = "/v1/messages"
_ERRORS = (anthropic.APIError,)
_BETAS = "anthropic-beta"

_UNANSWERED: ContextVar[ModelCall | None] = ContextVar("agentctx_unanswered", default=None)
"""The call that failed last in this task: the SDK may try it again, which makes no second call of it."""


def wrap(client: T, conversations: Conversations) -> T:
    """The client with one more middleware, the innermost, as the SDK derives it.

    Raises:
        ConfigError: If it is no client, or one of an SDK without middleware.
    """
    derive = getattr(client, "with_middleware", None)
    if derive is None:
        msg = f"wrap: {type(client).__qualname__} of anthropic has no with_middleware(); pass a client of anthropic 2"
        raise ConfigError(msg)
    given: Native = client
    wrapped: Native = derive(Preparing(conversations, _asked(given.default_headers) or ""))
    wrapped.__class__ = derived(type(wrapped), {"_supports_message_threads": False})
    result: T = wrapped
    return result


@frozen(eq=False)
class Preparing(Middleware):
    """The middleware that prepares each model call.

    Args:
        betas: The beta features that the client asks for in every request, as its header has them.
    """

    conversations: Conversations = field(repr=False)
    betas: str = ""

    def handle(self, request: APIRequest, call_next: CallNext) -> Native:
        """Prepare a sync client's request."""
        return drive(self._handled(request, call_next, _SYNC))

    async def handle_async(self, request: APIRequest, call_next: AsyncCallNext) -> Native:
        """Prepare an async client's request."""
        return await self._handled(request, call_next, _ASYNC)

    async def _handled(self, request: APIRequest, call_next: Callable[[APIRequest], Native], ways: Ways) -> Native:
        async def send(prepared: dict[str, Native]) -> Native:
            return await ways.sent(call_next(_with_body(request, prepared, self.betas)))

        body = _body_of(request)
        call = None if body is None else _again(request) or await begun(self.conversations, _ADAPTER, body, ways)
        return await (ways.sent(call_next(request)) if call is None else _answered(call, send, ways))


def _body_of(request: APIRequest) -> Mapping[str, Any] | None:
    """The body of a model call; None for every other request."""
    if request.method.lower() != "post" or api_path(request.url, (_PATH,)) != _PATH:
        return None
    return request.json if isinstance(request.json, Mapping) else None


def _again(request: APIRequest) -> ModelCall | None:
    """The call that the SDK tries again, as it was prepared for its first attempt."""
    call = _UNANSWERED.get()
    return call if call is not None and request.retries_taken > 0 and call.body is request.json else None


async def _answered(call: ModelCall, send: Send, ways: Ways) -> Native:
    _UNANSWERED.set(call)
    value = await answer(call, send, ways)
    http = getattr(value, "http_response", None)
    if http is None or http.is_success:
        _UNANSWERED.set(None)
    return value


def _with_body(request: APIRequest, body: dict[str, Any], betas: str) -> APIRequest:
    """The same request with another body; the beta features that it needs are added to those asked for anyway."""
    needed = body.pop("betas", ())
    update: dict[str, Any] = {"json_data": body}
    if needed:
        others = {name: text for name, text in request.headers.items() if name.lower() != _BETAS}
        asked = _asked(request.headers) or betas
        features = dict.fromkeys([*filter(None, (each.strip() for each in asked.split(","))), *needed])
        update["headers"] = {**others, _BETAS: ",".join(features)}
    other = copy(request)  # its own ``copy`` would copy the whole transcript first
    other.options = request.options.model_copy(update=update)
    return other


def _asked(headers: Mapping[str, Any]) -> str | None:
    """The beta features that some headers ask for; None when they say nothing of them."""
    found = (text for name, text in headers.items() if name.lower() == _BETAS and isinstance(text, str))
    return next(found, None)


async def _open(value: Native, call: ModelCall, ways: Ways, /) -> Answer:
    http = getattr(value, "http_response", None)
    if http is None:
        return Answer(value)
    if _is_the_callers(http):
        return watch(value, http, call, waits=ways.waits)
    if not http.is_success:
        await ways.sent(http.aread() if ways.waits else http.read())
        return Answer(value, refusal=RequestRefused(http.status_code, http.text))
    inner = await ways.sent(value.parse())
    if isinstance(inner, AsyncStream | Stream):
        return hold(inner, call, ways, value)
    return opened(value, inner, call)


def _is_the_callers(http: Native) -> bool:
    """Whether only the caller may read the body: it asked for it with ``with_streaming_response``."""
    return bool(http.is_success and http.request.headers.get("X-Stainless-Raw-Response") == "stream")


class OverflowBeforeSending(NotSent, anthropic.BadRequestError):
    """A request that cannot be made to fit: nothing was sent."""

    def tell(self, message: str) -> None:
        """Be built as the SDK builds its error."""
        request = httpx2.Request("POST", "https://request.was.not.sent")
        said = {"type": "error", "error": {"type": "invalid_request_error", "message": message}}
        response = httpx2.Response(400, request=request, json=said)
        anthropic.BadRequestError.__init__(self, message, response=response, body=said)


_SYNC, _ASYNC = (Ways(_ERRORS, _open, OverflowBeforeSending.of, waits) for waits in (False, True))
