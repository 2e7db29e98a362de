"""The public names of a package, each imported when it is first used, so that importing the package is cheap."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module

Exports = tuple[list[str], Callable[[str], object], Callable[[], list[str]]]


def lazily(package: str, homes: Mapping[str, str]) -> Exports:
    """A package's ``__all__``, ``__getattr__`` and ``__dir__``.

    Args:
        package: Its name.
        homes: The module of each name: names apart by blanks. For type checkers the package imports them as well.
    """
    home_of = {name: home for home, names in homes.items() for name in names.split()}
    names = sorted(home_of)

    def find(name: str) -> object:
        if name not in home_of:
            msg = f"module {package!r} has no attribute {name!r}"
            raise AttributeError(msg)
        value: object = getattr(import_module(home_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return names, find, lambda: names
