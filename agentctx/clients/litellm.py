"""LiteLLM: its functions for chat completions, responses and messages, and ``Router``.

LiteLLM takes and answers every provider's calls in the shape of three APIs: OpenAI's Chat Completions and Responses and
Anthropic's Messages. A router's other ways to call a model are refused, so that none goes out unprepared.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from functools import partial, wraps
from inspect import iscoroutinefunction, signature
from types import FunctionType, MethodType
from typing import Any, TypeVar

import litellm
from attrs import frozen
from litellm import exceptions
from litellm.router import Router

from agentctx.clients.model_call import Conversations, ModelCall, too_large_text
from agentctx.clients.over_http import (
    Answer,
    Held,
    Started,
    Ways,
    answer,
    begun,
    opened,
    pulling,
    said_in,
    whole_events,
)
from agentctx.errors import ConfigError, ContextOverflow
from agentctx.formats.anthropic import Messages
from agentctx.formats.openai_chat import ChatCompletions
from agentctx.formats.openai_responses import Responses
from agentctx.formats.registry import Adapter
from agentctx.message import Native
from agentctx.session.blocking import drive

T = TypeVar("T")

_CHAT, _RESPONSES, _MESSAGES = ChatCompletions(), Responses(), Messages()
PREPARED: Mapping[str, Adapter] = {
    "completion": _CHAT,
    "acompletion": _CHAT,
    "responses": _RESPONSES,
    "aresponses": _RESPONSES,
    "anthropic_messages": _MESSAGES,
    "aanthropic_messages": _MESSAGES,
}
"""The functions of LiteLLM, and of a router, that are prepared, and the API of each."""
REFUSED: Mapping[str, str] = {
    "completion": "call completion or acompletion with messages",
    "generate_content": "call completion or acompletion with messages",
    "compact_responses": "call responses or aresponses with all items in input",
    "create_interaction": "call responses or aresponses with all items in input",
    "passthrough_route": "call completion, responses or anthropic_messages",
}
"""Words in the names of a router's other functions that call a model, and what to call instead."""
_ERRORS = (
    exceptions.BadRequestError,  # context windows too: its ContextWindowExceededError
    exceptions.RateLimitError,
    exceptions.APIError,
    exceptions.APIConnectionError,
    exceptions.InternalServerError,
    exceptions.ServiceUnavailableError,
    exceptions.UnprocessableEntityError,
)


def wrap(client: T, conversations: Conversations) -> T:
    """The function or the router whose model calls are prepared.

    Raises:
        ConfigError: If it is something else of LiteLLM; says what to wrap.
    """
    given: Native = client
    name = getattr(given, "__name__", type(given).__qualname__)
    wrapped: Native
    if isinstance(given, FunctionType | MethodType) and name in PREPARED:
        wrapped = _prepared(given, name, conversations)
        wrapped.agentctx = conversations
    elif isinstance(given, Router):
        wrapped = _Router(given, conversations)
    else:
        what = "the litellm module" if given is litellm else f"{name} of litellm"
        msg = (
            f"wrap: {what} cannot be wrapped; wrap the function that you call, as wrap(litellm.completion, pipeline) "
            f"(one of {', '.join(PREPARED)}), or a litellm.Router"
        )
        raise ConfigError(msg)
    result: T = wrapped
    return result


class _Router:
    """Stands in front of a router, which cannot be subclassed: its model calls are prepared or refused.

    Everything else is read from, and set in, the router itself.
    """

    def __init__(self, router: Native, conversations: Conversations) -> None:
        vars(self).update(_router=router, agentctx=conversations)

    @property  # type: ignore[misc]  # mypy takes it for an attribute
    def __class__(self) -> type:
        """The router's own class."""
        kind: type = self._router.__class__
        return kind

    def __getattr__(self, name: str) -> Native:
        if name.startswith("__"):
            raise AttributeError(name)
        value = getattr(self._router, name)
        if name in PREPARED:
            return _prepared(value, name, self.agentctx)
        if name == "chat":
            return litellm.Chat(params=value.params, router_obj=self)  # type: ignore[arg-type]  # as good as a router
        instead = next((instead for word, instead in REFUSED.items() if word in name), None)
        return value if instead is None or name.startswith("_") else partial(_refuse, name, instead)

    def __setattr__(self, name: str, value: object) -> None:
        setattr(self._router, name, value)


def _refuse(name: str, instead: str, *_args: Native, **_more: Native) -> Native:
    """Stands in the place of a model call that cannot be prepared."""
    msg = f"{name} of a wrapped litellm.Router is a model call that cannot be prepared: {instead}"
    raise ConfigError(msg)


def _prepared(function: Callable[..., Any], name: str, conversations: Conversations) -> Callable[..., Any]:
    """The function in front of which requests are prepared."""
    adapter = PREPARED[name]
    ways = Ways(_ERRORS, _open, iscoroutinefunction(function))
    parameters = signature(function).parameters
    if any(each.kind is each.VAR_POSITIONAL for each in parameters.values()):  # a router may not name what it takes
        parameters = signature(getattr(litellm, name, function)).parameters

    @wraps(function)
    async def call(*args: Native, **more: Native) -> Native:
        async def send(body: dict[str, Native]) -> Native:
            return await ways.sent(function(**body))

        body = {**dict(zip(parameters, args, strict=False)), **more}
        prepared = await begun(conversations, adapter, body, ways, partial(too_long, adapter))
        return await (send(body) if prepared is None else answer(prepared, send, ways))

    return ways.plain(call)


def too_long(adapter: Adapter, overflow: ContextOverflow) -> Exception:
    """Return LiteLLM's own error for a request that is too large; it begins as that of the API does."""
    return exceptions.ContextWindowExceededError(too_large_text(adapter, overflow), "", "agentctx")


async def _open(value: Native, call: ModelCall, ways: Ways, /) -> Answer:
    if not hasattr(value, "__anext__" if ways.waits else "__next__"):
        return opened(value, value, call)
    pull = value.__anext__ if ways.waits else pulling(value.__next__)
    close = getattr(value, "aclose" if ways.waits else "close", lambda: None)
    held = Held(call, ways.errors, ways.waits)
    if ways.waits and call.adapter is _MESSAGES:  # bytes, as the HTTP response has them
        held.read, pull = said_in, whole_events(pull)
    started = Started(held, pull, close)
    return Answer((_AsyncStream if ways.waits else _Stream)(value, started), close=started.drop, stream=started)


@frozen
class _Delegate:
    """Stands in front of a stream of LiteLLM's: what it yields is read through ``started``."""

    stream: Native
    started: Started

    def __getattr__(self, name: str) -> Native:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.stream, name)


class _Stream(_Delegate):
    """A stream that is iterated over."""

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Native:
        try:
            return drive(self.started.next())
        except StopAsyncIteration:
            raise StopIteration from None

    def close(self) -> None:
        """Let go of the stream."""
        drive(self.started.drop())


class _AsyncStream(_Delegate):
    """A stream that is iterated over with ``async for``."""

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    async def __anext__(self) -> Native:
        return await self.started.next()

    async def aclose(self) -> None:
        """Let go of the stream."""
        await self.started.drop()
