"""LiteLLM: ``acompletion`` and ``completion``, as functions, in the module, or of a ``Router``.

LiteLLM takes and answers every provider's calls in the shape of OpenAI's Chat Completions.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from inspect import iscoroutinefunction, signature
from types import FunctionType, MethodType, ModuleType
from typing import Any, TypeVar

import litellm
from litellm import exceptions
from litellm.router import Router

from agentctx.clients.conversations import Conversations
from agentctx.clients.exchange import Answer, Refused, Ways, blocked, exchange, waiting
from agentctx.clients.not_sent import NotSent
from agentctx.clients.portal import drive
from agentctx.clients.shape_openai_chat import ChatCompletions
from agentctx.clients.streams import hold, hold_async
from agentctx.clients.turn import Turn
from agentctx.clients.twin import derived
from agentctx.errors import ConfigError

T = TypeVar("T")

_SHAPE = ChatCompletions()
_NAMES = ("acompletion", "completion")
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
    """The module, the function or the router whose model calls are prepared.

    Raises:
        ConfigError: If it is something else of LiteLLM.
    """
    given: Any = client
    wrapped: Any = None
    if given is litellm:
        wrapped = _Module(given, {name: _prepared(getattr(given, name), conversations) for name in _NAMES})
    elif isinstance(given, FunctionType | MethodType) and given.__name__ in _NAMES:
        wrapped = _prepared(given, conversations)
    elif isinstance(given, Router):
        wrapped = _router(given, conversations)
    if wrapped is None:
        name = getattr(given, "__name__", type(given).__qualname__)
        msg = f"wrap: {name} of litellm makes no chat completions; pass the module, one of {_NAMES}, or a Router"
        raise ConfigError(msg)
    result: T = wrapped
    return result


class _Module(ModuleType):
    """A module in which some functions are replaced; everything else is read from, and set in, the real one."""

    def __init__(self, real: ModuleType, functions: Mapping[str, Callable[..., Any]]) -> None:
        super().__init__(real.__name__, real.__doc__)
        vars(self).update(functions, _agentctx_of=real)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the module has
        return getattr(self._agentctx_of, name)

    def __setattr__(self, name: str, value: Any) -> None:  # noqa: ANN401 - whatever the module takes
        setattr(self._agentctx_of, name, value)


def _router(router: Any, conversations: Conversations) -> Any:  # noqa: ANN401 - LiteLLM's own
    """A twin of a router on the same state: cooldowns and counters are shared."""
    own = {name: _prepared(getattr(router, name), conversations) for name in _NAMES}
    methods = {name: _without_self(function) for name, function in own.items()}
    twin: Any = object.__new__(derived(type(router), methods))
    twin.__dict__ = vars(router)
    return twin


def _without_self(function: Callable[..., Any]) -> Callable[..., Any]:
    def method(_self: object, *args: Any, **more: Any) -> Any:  # noqa: ANN401 - the function's own
        return function(*args, **more)

    return method


def _prepared(function: Callable[..., Any], conversations: Conversations) -> Callable[..., Any]:
    """The function in front of which requests are prepared."""
    names = tuple(signature(function).parameters)

    @wraps(function)
    async def waits(*args: Any, **more: Any) -> Any:  # noqa: ANN401 - the function's own
        async def send(body: dict[str, Any]) -> Any:  # noqa: ANN401 - LiteLLM's own
            return await function(**body)

        return await exchange(conversations, _SHAPE, _body(names, args, more), send, _ASYNC)

    @wraps(function)
    def blocks(*args: Any, **more: Any) -> Any:  # noqa: ANN401 - the function's own
        async def send(body: dict[str, Any]) -> Any:  # noqa: ANN401 - LiteLLM's own
            return function(**body)

        return drive(exchange(conversations, _SHAPE, _body(names, args, more), send, _SYNC))

    return waits if iscoroutinefunction(function) else blocks


def _body(names: tuple[str, ...], args: tuple[Any, ...], more: Mapping[str, Any]) -> dict[str, Any]:
    return {**dict(zip(names, args, strict=False)), **more}


async def _open_async(value: Any, turn: Turn, /) -> Answer:  # noqa: ANN401 - LiteLLM's own
    return hold_async(value, turn, _ERRORS) if hasattr(value, "__anext__") else _opened(value, turn)


async def _open(value: Any, turn: Turn, /) -> Answer:  # noqa: ANN401 - LiteLLM's own
    return hold(value, turn, _ERRORS) if hasattr(value, "__next__") else _opened(value, turn)


def _opened(value: Any, turn: Turn) -> Answer:  # noqa: ANN401 - LiteLLM's own
    refused = turn.shape.failure(value)
    if refused is None:
        turn.learn(turn.shape.usage(value))
        return Answer(value)
    return Answer(value, refusal=Refused(refused))


class OverflowBeforeSending(NotSent, exceptions.ContextWindowExceededError):
    """A request that cannot be made to fit: nothing was sent."""

    def tell(self, message: str) -> None:
        """Be built as LiteLLM builds its error."""
        exceptions.ContextWindowExceededError.__init__(self, message, "", "agentctx")


_ASYNC = Ways(_ERRORS, _open_async, waiting, OverflowBeforeSending)
_SYNC = Ways(_ERRORS, _open, blocked, OverflowBeforeSending)
