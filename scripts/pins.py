# ruff: noqa: INP001 - a script, not a package
"""Which versions an environment gets: resolved by uv from its declared requirements.

Usage: ``python scripts/pins.py UV [NAME ...]``: writes the newest that are possible into ``constraints/``, for the
environments of these names, or all.
"""

from __future__ import annotations

import sys
from pathlib import Path

from environments import ALL, CONSTRAINTS, Environment, at_once, named, run
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version


def resolve(environment: Environment, uv: str, target: Path, *options: str) -> tuple[int, str]:
    """Write versions that all requirements of an environment allow into a file; the status, and what uv prints."""
    extras = [option for extra in environment.extras for option in ("--extra", extra)]
    shape = ["--quiet", "--no-header", "--no-annotate", "--no-emit-index-url", "--upgrade", "--output-file", target]
    command = [uv, "pip", "compile", *shape, *options, *extras, "pyproject.toml", "-"]
    return run(command, given="\n".join(environment.packages))


def versions(text: str) -> dict[str, Version]:
    """The versions in a file of constraints, as they are for this Python."""
    pins = [Requirement(line) for line in text.splitlines() if "==" in line]
    return {
        canonicalize_name(pin.name): Version(str(pin.specifier).removeprefix("=="))
        for pin in pins
        if pin.marker is None or pin.marker.evaluate()
    }


def main(uv: str, *names: str) -> int:
    """Pin the environments of these names, or all; 1 when there are no versions for one of them."""

    def pin(environment: Environment) -> tuple[int, str]:
        target = CONSTRAINTS / f"{environment.name}.txt"
        status, printed = resolve(environment, uv, target, "--universal", "--python-version", "3.11")
        return status, f"--- {environment.name}: {'no versions fit' if status else 'pinned'}\n{printed}"

    return min(at_once(pin, named(names, ALL)), 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
