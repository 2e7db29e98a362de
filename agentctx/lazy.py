"""What is made when it is first used, so that importing is cheap: the public names of a package, and patterns."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import cast

if not hasattr(sys.modules["agentctx"], "__distribution__"):  # every part imports this file
    from agentctx.distribution import mixed_up

    raise mixed_up(sys.modules["agentctx"])

Exports = tuple[list[str], Callable[[str], object], Callable[[], list[str]]]


def lazily(package: str, homes: Mapping[str, str]) -> Exports:
    """A package's ``__all__``, ``__getattr__`` and ``__dir__``: each name is imported when it is first used.

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


class _Pattern:
    """Stands for a compiled pattern, and compiles it when it is asked for anything."""

    def __init__(self, source: str, flags: int) -> None:
        self._source, self._flags = source, flags

    def __getattr__(self, name: str) -> object:
        found: object = getattr(re.compile(self._source, self._flags), name)
        setattr(self, name, found)
        return found


def lazy_pattern(source: str, flags: int = 0) -> re.Pattern[str]:
    """As ``re.compile``, at the first use; what is wrong with ``source`` is said then."""
    return cast("re.Pattern[str]", _Pattern(source, flags))
