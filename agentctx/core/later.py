"""Fields of a value that are worked out when somebody first asks for them; ``lazy.py`` is about names of a module."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, TypeVar

T = TypeVar("T", bound="Later")


class Later:
    """A value of which some fields may not be worked out yet. Whoever reads them, prints it or compares it has them."""

    __slots__ = ("_later",)
    _later: Mapping[str, Callable[[], object]]

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> object:
            """What a field holds that is read for the first time."""
            known = name != "_later" and name in getattr(self, "_later", ())
            if not known:
                msg = f"{type(self).__name__!r} object has no attribute {name!r}"
                raise AttributeError(msg)
            found = self._later[name]()
            object.__setattr__(self, name, found)
            return found


def with_later(value: T, later: Mapping[str, Callable[[], object]]) -> T:
    """The value, which nobody else has yet, with fields that are worked out later.

    Args:
        value: The value; what it holds in these fields is forgotten.
        later: What works out a field, by its name.
    """
    for name in later:
        object.__delattr__(value, name)
    object.__setattr__(value, "_later", later)
    return value
