# ruff: noqa: INP001 - a script, not a package
"""Makes the environments of ``tests/frameworks/environments.toml`` and runs their tests, for ``sh scripts/frameworks``.

They are installed and run at once, as many as there are processors; what one prints comes when it is done. Each
installs the versions that its file in ``constraints/`` names. ``sh scripts/pins`` writes these files anew.
"""

import json
import os
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor, as_completed
from hashlib import sha256
from pathlib import Path
from shutil import rmtree
from time import perf_counter

ROOT = Path(__file__).parents[1]
HOME = ROOT / ".frameworks"
PINS = ROOT / "constraints"
TESTS = Path("tests/frameworks")
EXAMPLES = Path("tests/package/test_docstring_examples.py")
TABLE = tomllib.loads((ROOT / TESTS / "environments.toml").read_text(encoding="utf-8"))
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LEFT_OPEN = ["-W", "ignore::ResourceWarning", "-W", "ignore::pytest.PytestUnraisableExceptionWarning"]
"""Frameworks leave connections open when their event loops end."""
ALWAYS = ["pytest>=8.3", "pytest-asyncio>=0.25", "pytest-socket>=0.7", "trio>=0.28"]


def run(command: list[str | Path], *, given: str = "", **more: str) -> tuple[int, str]:
    """Run a command in the project, with ``given`` as its input; its status, and its output."""
    done = subprocess.run(  # noqa: S603 - commands of this file
        command,
        cwd=ROOT,
        env={**os.environ, **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        input=given,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout


def installed(name: str, uv: str) -> tuple[int, str]:
    """Make an environment, unless it is there as the table has it."""
    folder, asked, pins = HOME / name, TABLE[name], PINS / f"{name}.txt"
    extras = {extra: PROJECT["optional-dependencies"][extra] for extra in ["testing", *asked["extras"]]}
    wanted = json.dumps(
        [asked["packages"], ALWAYS, extras, PROJECT["dependencies"], pins.read_text("utf-8"), sys.version]
    )
    stamp = folder / "made-of"
    digest = sha256(wanted.encode()).hexdigest()
    if stamp.is_file() and stamp.read_text(encoding="utf-8") == digest:
        return 0, ""
    rmtree(folder, ignore_errors=True)
    python = asked.get("python", sys.executable)
    project = f"-e.[{','.join(['testing', *asked['extras']])}]"
    into = folder / "bin" / "python"
    for command in (
        [uv, "venv", "--quiet", "--python", python, folder],
        [uv, "pip", "install", "--quiet", "--python", into, "-c", pins, project, *ALWAYS, *asked["packages"]],
    ):
        status, printed = run(command)
        if status:
            return status, printed
    stamp.write_text(digest, encoding="utf-8")
    return 0, ""


def tested(name: str, uv: str) -> tuple[int, str]:
    """Make an environment and run its tests: the status, and what to print."""
    began = perf_counter()
    status, printed = installed(name, uv)
    ready = perf_counter()
    if not status:
        files = [EXAMPLES, *(TESTS / file for file in TABLE[name]["tests"])]
        which = ["-k", "frameworks", *LEFT_OPEN]
        command = [HOME / name / "bin" / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", *which, *files]
        status, printed = run(command, AGENTCTX_FRAMEWORKS=name)
    took = f"{ready - began:.1f} s to install, {perf_counter() - ready:.1f} s to run"
    return status, f"--- {name}: {'failed' if status else 'passed'}, {took}\n{printed}"


def pinned(name: str, uv: str) -> tuple[int, str]:
    """Write the newest versions that an environment may have into its file; the status, and what to print."""
    asked = TABLE.get(name, {"extras": ["dev"], "packages": []})
    extras = [option for extra in {"testing": 0, **dict.fromkeys(asked["extras"])} for option in ("--extra", extra)]
    packages = "\n".join([] if name == "dev" else [*ALWAYS, *asked["packages"]])
    shape = ["--universal", "--python-version", "3.11", "--no-header", "--no-annotate", "--no-emit-index-url"]
    command = [uv, "pip", "compile", "--quiet", "--upgrade", *shape, *extras, "pyproject.toml", "-"]
    status, printed = run([*command, "--output-file", PINS / f"{name}.txt"], given=packages)
    return status, f"--- {name}: {'no versions fit' if status else 'pinned'}\n{printed if status else ''}"


def main(uv: str, *names: str) -> int:
    """Test the environments of these names, or all; 1 when any fails. ``--pin`` before the names pins them instead."""
    work, every = tested, [*TABLE]
    if names[:1] == ("--pin",):
        work, every, names = pinned, [*TABLE, "dev"], names[1:]
    unknown = set(names) - {*every}
    if unknown:
        sys.stderr.write(f"no such environment: {', '.join(sorted(unknown))}; there are {', '.join(every)}\n")
        return 2
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        running = [pool.submit(work, name, uv) for name in names or every]
        failed = 0
        for done in as_completed(running):
            status, printed = done.result()
            failed += bool(status)
            sys.stdout.write(printed)
            sys.stdout.flush()
    return min(failed, 1)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
