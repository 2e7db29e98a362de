"""A temporary clone to work in, and a record that does not tell on which machine it was made."""

from __future__ import annotations

import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from attrs import frozen

IDENTITY = {
    "GIT_AUTHOR_NAME": "dev",
    "GIT_AUTHOR_EMAIL": "dev@example.com",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05+00:00",
    "GIT_COMMITTER_NAME": "dev",
    "GIT_COMMITTER_EMAIL": "dev@example.com",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05+00:00",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_PAGER": "cat",
}
LEFT_OUT = shutil.ignore_patterns(".git", ".venv", "__pycache__", ".*_cache", ".hypothesis", "build", "dist")
VARYING = (
    (re.compile(r"\bin \d+\.\d+s(?: \(\d+:\d\d:\d\d\))?"), "in 1.00s"),
    (re.compile(r"=+ (.* in 1\.00s) =+"), r"=== \1 ==="),  # pytest pads the line by the length of the time
    (re.compile(r"\b0x[0-9a-f]{6,16}\b"), "0x7f0000000000"),
    (re.compile(r"pytest-of-\w+/pytest-\d+"), "pytest-of-dev/pytest-0"),
)
"""What differs from run to run: durations, addresses, numbered directories."""


@frozen
class Workspace:
    """Where the agent works.

    Args:
        clone: The clone's directory; the record calls it ``/repo``.
        environment: The whole environment of the tools; nothing is taken over from the caller's.
        rewrites: Machine paths and what the record says instead, longest first.
        secrets: What must not stand in the record.
    """

    clone: Path
    environment: Mapping[str, str]
    rewrites: tuple[tuple[str, str], ...]
    secrets: tuple[str, ...]

    def scrub(self, text: str) -> str:
        """``text`` without machine paths and without what differs from run to run."""
        for found, instead in self.rewrites:
            text = text.replace(found, instead)
        for pattern, instead in VARYING:
            text = pattern.sub(instead, text)
        return text

    def check(self, text: str) -> None:
        """Make sure that ``text`` does not tell on which machine it was made.

        Raises:
            ValueError: If it does; names what it found.
        """
        if told := [secret for secret in self.secrets if secret in text]:
            message = f"the record still says {told}"
            raise ValueError(message)


@contextmanager
def workspace(checkout: Path) -> Iterator[Workspace]:
    """A clone of ``checkout`` in a temporary directory that is gone afterwards; ``checkout`` stays as it is."""
    with tempfile.TemporaryDirectory(prefix="agentctx-session-") as made:
        root = Path(made).resolve()
        for name in ("bin", "home", "tmp"):
            (root / name).mkdir()
        clone, environment = root / "repo", _environment(root)
        _clone(checkout, clone, environment)
        yield Workspace(clone, environment, _rewrites(root, checkout), _secrets(root, checkout))


def _environment(root: Path) -> dict[str, str]:
    """What the tools find: this interpreter as ``python``, git with a fixed identity, the clone to import from."""
    python = root / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n', encoding="utf-8")
    python.chmod(0o755)
    return {
        "PATH": f"{root / 'bin'}:/usr/local/bin:/usr/bin:/bin",
        "HOME": str(root / "home"),
        "TMPDIR": str(root / "tmp"),
        "PYTHONPATH": str(root / "repo"),
        "PYTHONHASHSEED": "0",
        "COLUMNS": "100",
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        **IDENTITY,
    }


def _clone(checkout: Path, clone: Path, environment: Mapping[str, str]) -> None:
    """What is committed in ``checkout``; a copy of its files in a fresh repository when it is not one itself."""

    def git(*words: str) -> None:
        subprocess.run(["git", *words], check=True, env=dict(environment), capture_output=True)  # noqa: S603, S607 - fixed words

    if (checkout / ".git").exists():
        git("clone", "--quiet", "--no-hardlinks", str(checkout), str(clone))
        git("-C", str(clone), "remote", "remove", "origin")
        git("-C", str(clone), "checkout", "--quiet", "-B", "main")
        return
    shutil.copytree(checkout, clone, ignore=LEFT_OUT)
    git("init", "--quiet", "--initial-branch=main", str(clone))
    git("-C", str(clone), "add", "--all")
    git("-C", str(clone), "commit", "--quiet", "--message", "Take in the sources")


def _rewrites(root: Path, checkout: Path) -> tuple[tuple[str, str], ...]:
    """Longest first, so that a directory within another is met before it."""
    pairs = {
        str(root / "repo"): "/repo",
        str(root / "home"): "/home/dev",
        str(root / "tmp"): "/tmp",  # noqa: S108 - a name in the record, not a place that is written to
        str(root): "/workspace",
        str(checkout): "/repo",
    }
    if len(Path.home().parts) > 1:
        pairs[f"{Path.home()}/"] = "/home/dev/"
    if not sys.prefix.startswith("/usr"):
        pairs[sys.prefix] = "/venv"
    return tuple(sorted(pairs.items(), key=lambda pair: -len(pair[0])))


def _secrets(root: Path, checkout: Path) -> tuple[str, ...]:
    """Paths, host and user; a host or user with an everyday name is looked for where only a name can stand."""
    user, host = os.environ.get("USER", Path.home().name or "root"), socket.gethostname()
    secrets = [str(root), str(checkout), f"/home/{user}/", f"{user}@{host}", f"pytest-of-{user}", f"{sys.prefix}/bin"]
    if len(Path.home().parts) > 1:
        secrets.append(f"{Path.home()}/")
    if re.fullmatch(r"(?=.*\d)[\w.-]{8,}", host):
        secrets.append(host)
    allowed = ("/repo", "/home/dev/", "pytest-of-dev", "/usr/bin", "/usr/local/bin", "/venv/bin")
    return tuple(secret for secret in secrets if secret not in allowed)
