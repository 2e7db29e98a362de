"""Anthropic's SDK: messages (create, parse, stream, and the beta ones with the tool runner), sync and async.

The SDK has a seam for this, its middleware: it sees each attempt of each request, with the body that is about to be
sent, and the response before any error is raised. See https://github.com/anthropics/anthropic-sdk-python.

Message threads, where the provider keeps the conversation and is sent what is new, are refused as a server refuses that
cannot keep one: what is kept there can be neither counted nor cut. The tool runner then sends all messages.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from inspect import iscoroutinefunction
from typing import Any, TypeVar

import anthropic
import httpx2
from anthropic import APIRequest, AsyncCallNext, CallNext
from attrs import field, frozen

from agentctx.clients.http import handed_on
from agentctx.clients.model_call import Conversations, ModelCall, too_large_text
from agentctx.clients.over_http import Answer, Reply, Ways, answer, begun, note_unanswered, unanswered
from agentctx.errors import ConfigError, ContextOverflow, InvalidInput
from agentctx.formats.anthropic import Messages
from agentctx.formats.registry import api_path
from agentctx.lazy import unmet
from agentctx.message import Native
from agentctx.session.blocking import drive

T = TypeVar("T")

_ADAPTER = Messages()
_PATH = "/v1/messages"
_ERRORS = (anthropic.APIError,)
_BETAS = "anthropic-beta"


def wrap(client: T, conversations: Conversations) -> T:
    """Return the client with one more middleware, the innermost, as the SDK derives it.

    Raises:
        ConfigError: If it is no client, or one of an SDK without middleware.
    """
    given: Native = client
    if not hasattr(type(given), "default_headers"):
        msg = f"wrap: {type(client).__qualname__} of anthropic is no client; pass an Anthropic or AsyncAnthropic"
        raise ConfigError(msg)
    try:
        kind = _Async if iscoroutinefunction(given.post) else _Sync
        wrapped: Native = given.with_middleware(kind(conversations, _asked(given.default_headers) or ""))
    except AttributeError as error:
        raise ConfigError(unmet("wrap", "anthropic", error)) from error
    wrapped.agentctx = conversations
    result: T = wrapped
    return result


def preparing(client: Native) -> Preparing | None:
    """Return the middleware that prepares a client's calls; None where there is none."""
    mine = [middleware for middleware in getattr(client, "middleware", ()) if isinstance(middleware, Preparing)]
    return mine[-1] if mine else None


@frozen(eq=False)
class Preparing:
    """The middleware that prepares each model call.

    Args:
        agentctx: The conversations of the client.
        betas: The beta features that the client asks for in every request, as its header has them.
    """

    agentctx: Conversations = field(repr=False)
    betas: str = ""

    async def answered(self, request: APIRequest, call_next: Callable[[APIRequest], Native], ways: Ways) -> Native:
        """Prepare and send a request; return the SDK's answer."""

        async def send(prepared: dict[str, Native]) -> Native:
            return await ways.sent(call_next(_with_body(request, prepared, self.betas)))

        body = _body_of(request)
        if body is None:
            return await ways.sent(call_next(request))
        call = unanswered(self.agentctx, body, body) if request.retries_taken else None
        call = call or await begun(self.agentctx, _ADAPTER, body, ways, _refuse)
        if call is None:
            return await ways.sent(call_next(request))
        answered = False
        try:
            value = await answer(call, send, ways)
            answered = value.http_response.is_success
        finally:
            note_unanswered(body, call, answered=answered)
        return value


class _Sync(Preparing):
    def __call__(self, request: APIRequest, call_next: CallNext) -> Native:
        """Prepare and send a request of a sync client."""
        return drive(self.answered(request, call_next, _SYNC))


class _Async(Preparing):
    async def __call__(self, request: APIRequest, call_next: AsyncCallNext) -> Native:
        """Prepare and send a request of an async client."""
        return await self.answered(request, call_next, _ASYNC)


def _body_of(request: APIRequest) -> Mapping[str, Any] | None:
    """Return the body of a model call; None for every other request.

    Raises:
        BadRequestError: If the provider is to keep the conversation; caused by the ``InvalidInput``.
    """
    if request.method.lower() != "post" or api_path(request.url, (_PATH,)) != _PATH:
        return None
    body = request.json
    if not isinstance(body, Mapping):
        return None
    if body.get("thread") is not None:
        try:
            _ADAPTER.read(body)
        except InvalidInput as error:
            details = {"error_code": "thread_unsupported_request", "unsupported": ["agentctx"]}
            raise _refusal(str(error), details=details) from error
    return body


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
    """Look into an answer; where it is a stream, the response that its reader reads is handed on."""
    reply = Reply(value.http_response)
    opened = await reply.opened(call, ways)
    value.http_response = handed_on(reply, waits=ways.waits)
    opened.value = value
    return opened


def _refuse(error: ContextOverflow) -> Exception:
    return _refusal(too_large_text(_ADAPTER, error))


def _refusal(message: str, **more: object) -> anthropic.BadRequestError:
    """Return the SDK's error for a request that the provider would refuse; it was not sent."""
    error = {"type": "error", "error": {"type": "invalid_request_error", "message": message, **more}}
    request = httpx2.Request("POST", "https://request.was.not.sent")
    response = httpx2.Response(400, request=request, json=error)
    return anthropic.BadRequestError(message, response=response, body=error)


_SYNC, _ASYNC = (Ways(_ERRORS, _open, waits) for waits in (False, True))
