# ruff: noqa: INP001 - a script, not a package
"""The environments that tests run in: what is in each, and how it is installed and tested.

They are listed in ``tests/frameworks/environments.toml`` and ``tests/sdks/environments.toml``; ``dev`` is the one of
``sh scripts/check``. Each is made in ``.frameworks/`` of the versions that its file in ``constraints/`` names.

Usage: ``python scripts/environments.py UV frameworks|sdks [NAME ...]``: tests the environments of a table, or some. As
many are installed and tested at once as there are processors; the output of each is printed when it is done.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from time import perf_counter

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".frameworks"
CONSTRAINTS = ROOT / "constraints"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
TESTING = ["hypothesis>=6.140", "pytest>=8.4", "pytest-asyncio>=0.25", "pytest-socket>=0.8", "trio>=0.35"]
"""What runs the tests, in each environment of the tables, with the extra ``testing``."""
LEFT_OPEN = ["-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning"]
"""Frameworks leave connections open when their event loops end."""
PYTEST = {
    "frameworks": ["-k", "frameworks", *LEFT_OPEN, Path("tests/package/test_docstring_examples.py")],
    "sdks": [],
}
"""Arguments of pytest for the environments of each table, before their test files."""


@dataclass(frozen=True)
class Environment:
    """An environment.

    Args:
        name: Its name; ``constraints/`` has a file of that name.
        extras: The project's extras that are installed in it,
        packages: and the other requirements.
        pytest: The arguments with which pytest runs its tests.
    """

    name: str
    extras: tuple[str, ...]
    packages: tuple[str, ...]
    pytest: tuple[str | Path, ...]

    def declared(self) -> Iterator[Requirement]:
        """All direct requirements: those of the project, of the extras, and the other packages."""
        yield from map(Requirement, (*PROJECT["dependencies"], *self.packages))
        extras = [*self.extras]
        for extra in extras:
            for requirement in map(Requirement, PROJECT["optional-dependencies"][extra]):
                if requirement.name == PROJECT["name"]:  # an extra that consists of others
                    extras += requirement.extras - {*extras}
                else:
                    yield requirement


def table(folder: str) -> dict[str, Environment]:
    """The environments of the table of a folder of tests, by name."""
    rows = tomllib.loads((ROOT / "tests" / folder / "environments.toml").read_text(encoding="utf-8"))
    return {
        name: Environment(
            name,
            ("testing", *row["extras"]),
            (*TESTING, *row["packages"]),
            ("-q", "-p", "no:cacheprovider", *PYTEST[folder], *(f"tests/{folder}/{file}" for file in row["tests"])),
        )
        for name, row in rows.items()
    }


DEV = Environment("dev", ("dev",), (), ("-n", str((os.cpu_count() or 1) + 1), "--dist", "worksteal"))
ALL = {**table("frameworks"), **table("sdks"), "dev": DEV}


def run(command: list[str | Path], given: str = "") -> tuple[int, str]:
    """Run a command in the project, with ``given`` as its input; its status, and its output."""
    done = subprocess.run(  # noqa: S603 - commands of these scripts
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        input=given,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def install(environment: Environment, uv: str, folder: Path, constraints: Path) -> tuple[int, str]:
    """Make an environment in a folder, unless it is there as it should be; the status, and what uv prints."""
    content = [constraints.read_text(encoding="utf-8"), PROJECT, environment.packages, environment.extras, sys.version]
    digest, stamp = sha256(json.dumps(content).encode()).hexdigest(), folder / "made-of"
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == digest:
        return 0, ""
    rmtree(folder, ignore_errors=True)
    project = f"-e.[{','.join(environment.extras)}]"
    into = ["--python", folder / "bin" / "python", "-c", constraints]
    for command in (
        [uv, "venv", "--quiet", "--python", sys.executable, folder],
        [uv, "pip", "install", "--quiet", *into, project, *environment.packages],
    ):
        status, printed = run(command)
        if status:
            return status, printed
    stamp.write_text(digest, encoding="utf-8")
    return 0, ""


def run_tests(environment: Environment, uv: str, folder: Path, constraints: Path, *options: str) -> tuple[int, str]:
    """Make an environment in a folder and run its tests there, with more options of pytest; the status, the output."""
    began = perf_counter()
    status, printed = install(environment, uv, folder, constraints)
    ready = perf_counter()
    if not status:
        command = [folder / "bin" / "python", "-m", "pytest", *environment.pytest, *options]
        status, printed = run(command)
    took = f"{ready - began:.1f} s to install, {perf_counter() - ready:.1f} s to run"
    return status, f"--- {environment.name}: {'failed' if status else 'passed'}, {took}\n{printed}"


def named(names: Iterable[str], among: dict[str, Environment]) -> list[Environment]:
    """The environments of these names, or all; ends the program where a name is not among them."""
    if unknown := {*names} - among.keys():
        sys.exit(f"no such environment: {', '.join(sorted(unknown))}; there are {', '.join(among)}")
    return [among[name] for name in names] or [*among.values()]


def at_once(work: Callable[[Environment], tuple[int, str]], environments: Iterable[Environment]) -> int:
    """Do the work for as many environments at once as there are processors; how many of them fail."""
    failed = 0
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for done in as_completed([pool.submit(work, environment) for environment in environments]):
            status, printed = done.result()
            failed += bool(status)
            sys.stdout.write(printed)
            sys.stdout.flush()
    return failed


def main(uv: str, folder: str, *names: str) -> int:
    """Test the environments of a table that have these names, or all; 1 when any fails."""

    def work(environment: Environment) -> tuple[int, str]:
        return run_tests(environment, uv, HOME / environment.name, CONSTRAINTS / f"{environment.name}.txt")

    return min(at_once(work, named(names, table(folder))), 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
