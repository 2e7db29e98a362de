"""Optional packages: which versions this distribution needs, which are installed, and what to say where they differ."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from operator import eq, ge, gt, le, lt, ne

from agentctx.lazy import OURS, lazy_pattern


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
