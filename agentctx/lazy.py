"""What is loaded when it is first used: public names, patterns, data files, and the packages of extras."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from functools import cache
from importlib import import_module
from operator import eq, ge, gt, le, lt, ne
from types import ModuleType
from typing import Any, cast

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


@cache
def data_file(package: str, name: str) -> Mapping[str, Any]:
    """Read a data file of a package, in TOML."""
    import tomllib  # noqa: PLC0415 - slow to load, and not needed by all
    from pkgutil import get_data  # noqa: PLC0415 - as above

    return tomllib.loads((get_data(package, name) or b"").decode("utf-8"))


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


def unmet(what: str, extra: str, error: Exception, *packages: str) -> str:
    """Say why an optional package cannot be used, with the installed version and the one that is needed.

    The package may not be installed; its version may be too old or too new; or the version is accepted, and lacks
    something that is asked of it.

    Args:
        what: What needs the package; the sentence begins with it.
        extra: The extra of this distribution that installs the package.
        error: What the package, or its import, has raised.
        packages: Which packages of the extra are needed. Default: all.
    """
    from importlib import metadata  # noqa: PLC0415 - slow to load

    refused, accepted = [], []
    for name, versions in _requirements(extra):
        if packages and name not in packages:
            continue
        try:
            installed = metadata.version(name)
        except metadata.PackageNotFoundError:
            refused.append(f"{name}{versions} (not installed)")
            continue
        if _is_in(versions, installed):
            accepted.append(f"{name} {installed} (tested: {versions})")
        else:
            refused.append(f"{name}{versions} ({installed} is installed)")
    if refused or not accepted:
        return f"{what} needs {' and '.join(refused) or f'more packages ({error})'}: pip install '{OURS}[{extra}]'"
    return f"{what} does not work with the installed {' and '.join(accepted)}: {error}"


def too_old(what: str, extra: str) -> str | None:
    """Say that an installed package of an extra is older than every version that is needed; None where none is.

    Args:
        what: What needs the package; the sentence begins with it.
        extra: The extra of this distribution that installs the package.
    """
    from importlib import metadata  # noqa: PLC0415 - slow to load

    for name, versions in _requirements(extra):
        with suppress(metadata.PackageNotFoundError):
            installed = metadata.version(name)
            floors = (bound for bound in versions.split(",") if bound.strip().startswith(">"))
            if not all(_is_in(floor, installed) for floor in floors):
                return f"{what} needs {name}{versions} ({installed} is installed): pip install '{OURS}[{extra}]'"
    return None


def _requirements(extra: str) -> Iterator[tuple[str, str]]:
    """The packages of an extra, each with the versions that are needed; none if this is not installed but a folder."""
    from importlib import metadata  # noqa: PLC0415 - slow to load

    try:
        lines = metadata.requires(OURS) or []
    except metadata.PackageNotFoundError:
        return
    for line in lines:
        if (match := _REQUIREMENT.match(line)) and match["extra"] == extra:
            yield match["name"], match["versions"].strip()


def _is_in(versions: str, version: str) -> bool:
    """Whether a version is one of these: ``>=1.109,<4``. A pre-release comes before its release."""
    bounds = (_BOUND.fullmatch(bound) for bound in versions.split(",") if bound)
    return all(bound is None or _COMPARED[bound[1]](_order(version), _order(bound[2])) for bound in bounds)


def _order(version: str) -> tuple[tuple[int, ...], bool]:
    match = _VERSION.match(version)
    numbers = [int(number) for number in match["release"].split(".")] if match else []
    while numbers and not numbers[-1]:
        numbers.pop()
    return tuple(numbers), not (match and match["early"])


_REQUIREMENT = lazy_pattern(
    r"(?P<name>[\w.-]+)\s*(?:\[[^\]]*\])?\s*\(?(?P<versions>[^;()]*)\)?\s*;.*\bextra\s*==\s*['\"](?P<extra>[\w.-]+)"
)
_BOUND = lazy_pattern(r"\s*(>=|<=|==|!=|>|<)\s*(\S+)\s*")
_COMPARED = {">=": ge, "<=": le, "==": eq, "!=": ne, ">": gt, "<": lt}
_VERSION = lazy_pattern(r"(?:\d+!)?(?P<release>\d+(?:\.\d+)*)[._-]?(?P<early>a|b|c|rc|pre|dev)?", re.IGNORECASE)
