"""A second client of the same class and state, with one method in front of it; the first stays as it is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from inspect import getattr_static
from typing import Any, TypeVar

T = TypeVar("T")


def twin(client: T, methods: Mapping[str, Callable[..., Any]]) -> T:
    """An object of a class derived from the client's, in which some methods are replaced.

    What the client opened (connections, credentials) is used by both, and closing one closes the other. Clients
    derived from the twin (``with_options``) have the methods too.

    Args:
        client: The client; it is not changed.
        methods: The methods, by name; each is called with the twin first.
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
