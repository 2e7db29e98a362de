"""Where the agent runs."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from pathlib import Path
from subprocess import DEVNULL
from typing import ClassVar

import anyio
from anyio import to_thread
from attrs import field, frozen

from agentctx.core.secrets import Redactor, redact_secrets
from agentctx.protocols import ContextItem
from agentctx.sources.git import head_branch, installed
from agentctx.sources.writing import amount, one_line, several

_versions: dict[tuple[str, int], str] = {}
"""What tools said of themselves, by their file and its time of change: a tool that was not replaced is asked once."""


_LIKE = "environment.log"
"""Environments are redacted as logs are: every value that a secret's name is given to goes."""

_OWN_VERSION = {"GOTOOLCHAIN": "local"}
"""Asked elsewhere than in the project, and so, a tool tells of itself: rustup and go run what a project names."""


def _tools(given: object) -> tuple[str, ...]:
    return several("Environment: tools", given)


def _variables(given: object) -> tuple[str, ...]:
    return several("Environment: variables", given)


@frozen
class Environment:
    """System, Python, tools, git branch and working folder; environment variables only when they are named.

    Args:
        root: The working folder.
        tools: Programs whose versions are told, those that are installed. They are asked outside of the project: what
            it pins is not run.
        variables: Environment variables that are told, by name or pattern (``CI``, ``LC_*``). None are by default.
        full_path: Whether the whole path of the working folder is told; else its name: a path tells who the user is.
        max_tokens: The most tokens of it all.
        environ: The environment; without it, the process's own.
        redact: Takes secrets out; None leaves them in.

    Raises:
        ConfigError: If a number makes no sense.

    Example:
        >>> from agentctx.sources import Environment, gather
        >>> gathered = await gather([Environment(".", tools=())])
        >>> gathered.sources[0].problem
        ''
    """

    name: ClassVar[str] = "environment"
    description: ClassVar[str] = "system, versions of tools, working folder"

    root: Path = field(default=Path(), converter=Path)
    tools: tuple[str, ...] = field(default=("git", "node", "go", "cargo"), converter=_tools, kw_only=True)
    variables: tuple[str, ...] = field(default=(), converter=_variables, kw_only=True)
    full_path: bool = field(default=False, kw_only=True)
    max_tokens: int | None = field(default=300, validator=amount(0, optional=True), kw_only=True)
    environ: Mapping[str, str] | None = field(default=None, kw_only=True, repr=False)
    redact: Redactor | None = field(default=redact_secrets, kw_only=True)

    async def __call__(self, query: str, /) -> Sequence[ContextItem]:
        """One item."""
        del query
        system = f"OS: {platform.system()} {platform.release()} ({platform.machine()})"
        places = await to_thread.run_sync(self._places)
        told = [system, f"Python: {platform.python_version()}", *await self._tools(), *places, *self._variables()]
        text = "\n".join(told)
        return [ContextItem("environment", text if self.redact is None else self.redact(text, _LIKE), 0.4)]

    def _places(self) -> list[str]:
        root = self.root.resolve()
        branch = head_branch(root)
        shown = f"Working directory: {root if self.full_path else root.name or root}"
        return [f"Git branch: {branch}", shown] if branch else [shown]

    def _variables(self) -> list[str]:
        environ = os.environ if self.environ is None else self.environ
        names = sorted(name for name in environ if any(fnmatchcase(name, each) for each in self.variables))
        return [f"{one_line(name)}={one_line(environ[name])}" for name in names]

    async def _tools(self) -> list[str]:
        found: dict[str, str] = dict.fromkeys(self.tools, "")
        async with anyio.create_task_group() as tasks:
            for tool in found:
                tasks.start_soon(_ask_version, tool, found)
        return [f"{tool}: {said}" for tool, said in found.items() if said]


async def _ask_version(tool: str, found: dict[str, str]) -> None:
    """The first line that a tool prints of its version; nothing when it is not installed or does not say."""
    path = installed(tool)
    if path is None:
        return
    key = (path, (await anyio.Path(path).stat()).st_mtime_ns)
    if key not in _versions:
        option = "version" if tool == "go" else "--version"
        try:
            done = await anyio.run_process(
                [path, option], stdin=DEVNULL, check=False, cwd=Path(path).anchor, env=os.environ | _OWN_VERSION
            )
        except OSError:
            return  # it is there and cannot be run
        said = done.stdout.decode("utf-8", "replace").strip().splitlines()
        _versions[key] = said[0] if done.returncode == 0 and said else ""
    found[tool] = _versions[key]
