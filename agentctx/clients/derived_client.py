"""A second client of the same class and state, with one method in front of it; the first stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from inspect import getattr_static
from typing import Any, TypeVar

from agentctx.errors import BigItem, ContextOverflow

T = TypeVar("T")


def proxy(client: T, methods: Mapping[str, Callable[..., Any]]) -> T:
    """An object of a class derived from the client's, in which some methods are replaced.

    What the client opened (connections, credentials) is used by both, and closing one closes the other. Clients
    derived from the proxy (``with_options``) have the methods too.
    """
    other: Any = object.__new__(derived(type(client), methods))
    for name, value in vars(client).items():
        # A cached resource calls the client that it was made by.
        if not isinstance(getattr_static(type(client), name, None), cached_property):
            other.__dict__[name] = value
    result: T = other
    return result


def derived(kind: type, attributes: Mapping[str, Any]) -> type:
    """A class of the same name and origin in which some attributes, mostly methods, are replaced."""
    names = {"__module__": kind.__module__, "__qualname__": kind.__qualname__, "__doc__": kind.__doc__}
    return type(kind.__name__, (kind,), {**names, **attributes})


class NotSent(ContextOverflow):
    """A ``ContextOverflow`` that is the SDK's own error for a request that is too large, too.

    Each SDK's file derives its class from this and from the SDK's, so that both ``except`` clauses catch it. It can be
    pickled, and it has the attributes that the SDK's error has: status 400, a message, a body, a response.
    """

    status_code: Any = 400

    def __init__(self, tokens: int, limit: int, biggest: Sequence[BigItem] = ()) -> None:
        self.tell(str(ContextOverflow(tokens, limit, biggest)))
        self.tokens = tokens
        self.limit = limit
        self.biggest = tuple(biggest)

    def tell(self, message: str) -> None:
        """Be built as the SDK builds its error."""
        raise NotImplementedError

    def __reduce__(self) -> tuple[Any, ...]:
        """What it is pickled as."""
        return type(self), (self.tokens, self.limit, self.biggest)

    @classmethod
    def of(cls, error: ContextOverflow) -> NotSent:
        """The same overflow as the SDK's error."""
        return cls(error.tokens, error.limit, error.biggest)


def body_of(message: str) -> dict[str, Any]:
    """An error body as most providers write it."""
    return {"message": message, "type": "invalid_request_error", "param": None, "code": "context_length_exceeded"}
