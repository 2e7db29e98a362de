"""What is made when it is first used: the public names of a package and patterns.

Every part of the package imports this file, which looks first whether the package is ours: see ``mixed_up``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from types import ModuleType
from typing import cast

OTHER = "agentctx"
OURS = "agentctx-middleware"


def mixed_up(package: ModuleType) -> ImportError:
    """The error that says what stands in the place of our package, and what to do.

    What is installed as ``agentctx-middleware`` is imported as ``agentctx``. On the package index there is an
    ``agentctx`` of somebody else, a command that switches profiles, with the same import name. Where both are installed
    in one environment their files lie in one folder, and the last one's ``__init__.py`` is there; where one of them is
    taken away again, none is. Nothing of ours can be told then from ``import agentctx``; but each of its parts, the
    command line too, finds what our ``__init__.py`` defines, or not.
    """
    from importlib import metadata  # noqa: PLC0415 - takes longer to load than all else here

    try:
        what = f"{OTHER} {metadata.version(OTHER)}, another program of that import name, is installed beside {OURS}"
        remedy = f"pip uninstall {OTHER}, then "
    except metadata.PackageNotFoundError:
        what, remedy = f"files of {OURS} are missing", ""
    where = ", ".join(getattr(package, "__path__", ())) or "agentctx"
    return ImportError(
        f"{what}: the __init__.py in {where} is not that of {OURS}; {remedy}pip install --force-reinstall {OURS}",
        name="agentctx",
    )


if not hasattr(sys.modules["agentctx"], "__distribution__"):
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
