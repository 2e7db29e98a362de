"""What is made when it is first used: the public names of a package, patterns, and fields of a value.

Every part of the package imports this file, which looks first whether the package is ours: see ``mixed_up``.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar, cast

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


def worked_out_later(value: T, names: Iterable[str], how: Callable[[], T]) -> T:
    """A value that is worked out as a whole when somebody asks for anything in it.

    Args:
        value: Another one, which nobody else has yet.
        names: Its fields.
        how: Works it out. Threads that ask at once may both do so.
    """
    known = cache(how)
    return with_later(value, {name: partial(_field, known, name) for name in names})


def _field(value: Callable[[], object], name: str) -> object:
    return getattr(value(), name)
