"""OpenAI's SDK, sync and async: a copy of the client that sends by an HTTP client in front of the given client's own.

The copy is the SDK's own (``with_options``), so every resource and every helper of it is prepared: model calls are read
and written as JSON, below the SDK.
"""

from __future__ import annotations

from functools import cached_property
from typing import NoReturn, TypeVar

import openai

from agentctx.clients.http import in_front_of
from agentctx.clients.model_call import Conversations
from agentctx.errors import ConfigError
from agentctx.message import Native

T = TypeVar("T")


def wrap(client: T, conversations: Conversations) -> T:
    """Return a copy of a client whose model calls are prepared; closing it closes the given one's connections.

    Raises:
        ConfigError: If it is no client, or one that the SDK cannot copy.
    """
    if not isinstance(client, openai.OpenAI | openai.AsyncOpenAI):
        msg = f"wrap: {type(client).__qualname__} of openai is no client; pass an OpenAI or AsyncOpenAI"
        raise ConfigError(msg)
    try:
        wrapped: Native = client.with_options(http_client=in_front_of(own_http_client(client), conversations))
    except TypeError as error:
        msg = f"wrap: a {type(client).__qualname__} cannot be copied ({error}): {_INSTEAD}"
        raise ConfigError(msg) from error
    wrapped.agentctx = conversations
    _refuse_sockets(wrapped)
    result: T = wrapped
    return result


def own_http_client(client: Native) -> Native:
    """Return the HTTP client that a client of the SDK sends by; the one private name of the SDK that is read.

    Raises:
        ConfigError: If it is not where it has been since 2023.
    """
    inner: Native = getattr(client, "_client", None)
    if not hasattr(inner, "build_request"):
        msg = f"wrap: the HTTP client of openai {openai.__version__} was not found: {_INSTEAD}"
        raise ConfigError(msg)
    return inner


_INSTEAD = (
    "pass it the HTTP client when it is made, http_client=agentctx.http_client(pipeline, client=...), or "
    "agentctx.async_http_client for an async one"
)


def _refuse_sockets(client: Native) -> None:
    """Refuse the calls of this client that speak to a model over a web socket, past its HTTP client."""
    if hasattr(client.responses, "connect"):
        client.responses.connect = _refused("responses.connect")
    for name in ("realtime", "live", "beta"):
        if hasattr(type(client), name):
            setattr(client, name, _Resource(client, name))


class _Resource:
    """Stands for a resource of a client, which is loaded when it is used; its ``connect`` is refused."""

    def __init__(self, client: Native, name: str) -> None:
        self._agentctx_client = client
        self._agentctx_name = name

    @cached_property
    def _agentctx_resource(self) -> Native:
        return getattr(type(self._agentctx_client), self._agentctx_name).func(self._agentctx_client)

    def __getattr__(self, name: str) -> Native:
        own = self._agentctx_name
        if own == "live" and not name.startswith("__"):
            return _refused(f"{own}.{name}")()
        if name == "connect":
            return _refused(f"{own}.{name}")
        value = getattr(self._agentctx_resource, name)
        if hasattr(value, "connect"):
            value.connect = _refused(f"{own}.{name}.connect")
        return value


def _refused(name: str) -> Native:
    def refuse(*_args: Native, **_options: Native) -> NoReturn:
        msg = f"{name} of a wrapped client passes its HTTP client by, so nothing can be prepared: call responses.create"
        raise ConfigError(msg)

    return refuse
