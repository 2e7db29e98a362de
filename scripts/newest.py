# ruff: noqa: INP001 - a script, not a package
"""Whether the tests pass with the newest versions of all declared requirements, and with the oldest.

Usage: ``python scripts/newest.py UV [NAME ...] [--only newest|floors] [--resolve]``, for the environments of these
names, or all. They are made in ``.frameworks/newest/`` and ``.frameworks/floors/``; ``constraints/`` stays as it is.

A declared package that does not reach the newest version of the index fails, unless ``constraints/lags.toml`` has it
with the version that it reaches and the reason. An entry there that is no longer true fails, too.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from environments import ALL, CONSTRAINTS, DEV, HOME, Environment, at_once, named, run, run_tests
from packaging.utils import canonicalize_name
from packaging.version import Version
from pins import resolve, versions

Work = Callable[[Environment, str], tuple[int, str]]
Versions = Mapping[str, Version]
Lags = Mapping[str, Mapping[str, str]]
OPTIONS = {"newest": (), "floors": ("-W", "ignore::DeprecationWarning")}
"""Options of pytest: an old package may use what the newest of another one deprecates."""
LAGS: Mapping[str, Lags] = tomllib.loads((CONSTRAINTS / "lags.toml").read_text(encoding="utf-8"))


def newest_of_index(environment: Environment, uv: str, target: Path) -> Versions:
    """The newest version on the index of each declared package, whatever else is declared.

    A requirement like ``==2.*`` asks for one line of versions on purpose: it gets the newest of that line.
    """
    asked = []
    for each in environment.declared():
        line = each.specifier if str(each.specifier).endswith(".*") else ""
        asked.append(f"{each.name}{line}{f' ; {each.marker}' if each.marker else ''}")
    command = [uv, "pip", "compile", "--quiet", "--no-deps", "--upgrade", "--output-file", target, "-"]
    status, printed = run(command, given="\n".join(asked))
    if status:
        sys.exit(f"the index does not answer for {environment.name}:\n{printed}")
    return versions(target.read_text(encoding="utf-8"))


def lag_errors(name: str, reached: Versions, newest: Versions, lags: Lags) -> Iterator[tuple[str, str]]:
    """The declared packages of an environment whose lag is not in the table as it is; each with a sentence."""
    for package, version in sorted(newest.items()):
        lags_behind, entry = reached[package] < version, lags.get(package)
        if lags_behind and entry is None:
            entry = f'[{name}] {package} = {{ version = "{reached[package]}", reason = "…" }}'
            words = "Move what holds it back, or write into constraints/lags.toml"
            yield package, f"stops at {reached[package]}, and the index has {version}. {words}: {entry}"
        elif lags_behind and entry.get("version") != str(reached[package]):
            yield package, f"stops at {reached[package]}, and constraints/lags.toml has {entry.get('version')}"
        elif lags_behind and not entry.get("reason"):
            yield package, "has no reason in constraints/lags.toml"
        elif entry is not None and not lags_behind:
            yield package, f"reaches the newest, {version}: take it out of constraints/lags.toml"
    for package in lags.keys() - newest.keys():
        yield package, "is not declared: take it out of constraints/lags.toml"


def moves(pinned: Versions, reached: Versions, declared: frozenset[str]) -> Iterator[str]:
    """What is not as ``constraints/`` has it: a line for each declared package, and one for all others."""
    others = []
    for package in sorted(pinned.keys() | reached.keys()):
        before, now = pinned.get(package, "-"), reached.get(package, "-")
        if before != now and package in declared:
            yield f"  {package} {before} -> {now}"
        elif before != now:
            others.append(f"{package} {before} -> {now}")
    if others:
        yield f"  and of what they need: {', '.join(others)}"


def look(environment: Environment, uv: str) -> tuple[int, str]:
    """Resolve the newest versions of an environment; whether a lag is wrong, and what moved."""
    name, target = environment.name, HOME / "newest" / f"{environment.name}.txt"
    status, printed = resolve(environment, uv, target)
    if status:
        return status, f"--- {name}: no versions fit\n{printed}"
    reached = versions(target.read_text(encoding="utf-8"))
    newest = newest_of_index(environment, uv, target.with_suffix(".index"))
    lags = LAGS.get(name, {})
    lines = [*moves(versions((CONSTRAINTS / f"{name}.txt").read_text(encoding="utf-8")), reached, frozenset(newest))]
    lines += [f"  {package} stays at {entry.get('version')}: {entry.get('reason')}" for package, entry in lags.items()]
    errors = dict(lag_errors(name, reached, newest, lags))
    for package, sentence in errors.items():
        lines.append(f"  error: {package} {sentence}")
        if package not in lags:  # uv says why
            wished = replace(environment, packages=(*environment.packages, f"{package}=={newest[package]}"))
            lines.append(resolve(wished, uv, target.with_suffix(".wished"))[1].rstrip())
    return len(errors), "\n".join([f"--- {name}: {'a package lags' if errors else 'newest'}", *lines, ""])


def floors(environment: Environment, uv: str) -> tuple[int, str]:
    """Resolve the oldest versions that an environment declares; the status, and these versions."""
    target = HOME / "floors" / f"{environment.name}.txt"
    status, printed = resolve(environment, uv, target, "--resolution", "lowest-direct")
    if status:
        return status, f"--- {environment.name}: no versions fit\n{printed}"
    reached = versions(target.read_text(encoding="utf-8"))
    names = sorted({canonicalize_name(each.name) for each in environment.declared()} & reached.keys())
    return 0, f"--- {environment.name}: floors\n  {', '.join(f'{name} {reached[name]}' for name in names)}\n"


def types(_: Environment) -> tuple[int, str]:
    """Check the types with the newest SDKs."""
    folder = HOME / "newest" / DEV.name
    status, printed = run([folder / "bin" / "mypy", "--cache-dir", folder / "types"])
    return status, f"--- types: {'failed' if status else 'passed'}\n{printed}"


def run_all(kind: str, resolved: Work, chosen: list[Environment], uv: str, *, tests: bool) -> int:
    """Resolve some environments with the newest versions or the oldest, report and test them; how many fail."""
    folder = HOME / kind
    folder.mkdir(parents=True, exist_ok=True)
    failed = at_once(lambda environment: resolved(environment, uv), chosen)
    there = [environment for environment in chosen if (folder / f"{environment.name}.txt").is_file()]
    if not tests:
        return failed

    def work(environment: Environment) -> tuple[int, str]:
        constraints = folder / f"{environment.name}.txt"
        return run_tests(environment, uv, folder / environment.name, constraints, *OPTIONS[kind])

    failed += at_once(work, [environment for environment in there if environment != DEV])
    failed += at_once(work, [environment for environment in there if environment == DEV])  # which takes all processors
    return failed + (at_once(types, [DEV]) if DEV in there and kind == "newest" else 0)


def main() -> int:
    """Test with the newest versions, and with the oldest; 1 when anything fails."""
    parser = argparse.ArgumentParser(prog="sh scripts/newest", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("uv", help=argparse.SUPPRESS)
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"environment: {', '.join(ALL)} (default: all)")
    parser.add_argument("--only", choices=["newest", "floors"], help="only the newest versions, or only the oldest")
    parser.add_argument("--resolve", action="store_true", help="report the versions, and run no tests")
    asked = parser.parse_intermixed_args()
    chosen, failed = named(asked.names, ALL), 0
    for kind, resolved in (("newest", look), ("floors", floors)):
        if asked.only in (None, kind):
            failed += run_all(kind, resolved, chosen, asked.uv, tests=not asked.resolve)
    sys.stdout.write(f"{failed or 'none'} failed\n")
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main())
