"""Where the agent works: the machine, the project's manifests, the files worked on last, the ends of logs."""

from __future__ import annotations

import json
import os
import platform
import tomllib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from heapq import nsmallest
from pathlib import Path, PurePath
from subprocess import DEVNULL
from typing import Any, ClassVar

import anyio
from anyio import to_thread
from attrs import field, frozen

from agentctx.characters import calendar_time
from agentctx.sources.files import SKIPPED, as_root, is_file_below, opened, read_below, walk
from agentctx.sources.gathering import ContextItem, Redacting, one_line
from agentctx.sources.git import head_branch, installed
from agentctx.validators import NAMES, TEXTS, TRUTH, a, as_names, as_tuple, whole_number

_versions: dict[tuple[str, int], str] = {}
"""What tools said of themselves, by their file and its time of change: a tool that was not replaced is asked once."""


_LIKE = "environment.log"
"""Environments are redacted as logs are: every value that a secret's name is given to goes."""

_OWN_VERSION = {"GOTOOLCHAIN": "local"}
"""Asked elsewhere than in the project, and so, a tool tells of itself: rustup and go run what a project names."""


@frozen
class Environment(Redacting):
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

    root: Path = field(default=Path(), converter=as_root)
    tools: tuple[str, ...] = field(
        default=("git", "node", "go", "cargo"), converter=as_tuple, validator=TEXTS, kw_only=True
    )
    variables: tuple[str, ...] = field(default=(), converter=as_tuple, validator=TEXTS, kw_only=True)
    full_path: bool = field(default=False, validator=TRUTH, kw_only=True)
    max_tokens: int | None = field(default=300, validator=whole_number(0).or_none, kw_only=True)
    environ: Mapping[str, str] | None = field(
        default=None, validator=a(Mapping, "a mapping of names to values").or_none, kw_only=True, repr=False
    )

    async def __call__(self, query: str, /) -> Sequence[ContextItem]:
        """One item."""
        del query
        system = f"OS: {platform.system()} {platform.release()} ({platform.machine()})"
        lines = [system, f"Python: {platform.python_version()}"]
        root = await to_thread.run_sync(self.root.resolve)
        branch = await to_thread.run_sync(head_branch, root)
        versions: dict[str, str] = dict.fromkeys(self.tools, "")
        async with anyio.create_task_group() as tasks:
            for tool in versions:
                tasks.start_soon(_ask_version, tool, versions)
        lines += [f"{tool}: {version}" for tool, version in versions.items() if version]
        lines += [f"Git branch: {branch}"] if branch else []
        lines.append(f"Working directory: {root if self.full_path else root.name or root}")
        environ = os.environ if self.environ is None else self.environ
        names = sorted(name for name in environ if any(fnmatchcase(name, each) for each in self.variables))
        lines += [f"{one_line(name)}={one_line(environ[name])}" for name in names]
        text = "\n".join(lines)
        return [ContextItem("environment", self.redacted(text, _LIKE), 0.4)]


async def _ask_version(tool: str, versions: dict[str, str]) -> None:
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
        lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
        _versions[key] = lines[0] if done.returncode == 0 and lines else ""
    versions[tool] = _versions[key]


_LARGEST = 2**20
"""Larger manifests are no manifests, in bytes."""


@frozen
class Dependencies(Redacting):
    """What the project's manifests say about dependencies, each an item: of long ones only that part.

    A manifest that is a link out of the folder is not read.

    Args:
        root: The project's folder.
        max_tokens: The most tokens of it all.
        redact: Takes secrets out (an index with a password, for example); None leaves them in.

    Raises:
        ConfigError: If a number makes no sense.

    Example:
        >>> from agentctx.sources import Dependencies, gather
        >>> gathered = await gather([Dependencies(".")])
    """

    name: ClassVar[str] = "dependencies"
    description: ClassVar[str] = "what the project's manifests depend on"

    root: Path = field(default=Path(), converter=as_root)
    max_tokens: int | None = field(default=600, validator=whole_number(0).or_none, kw_only=True)

    def __call__(self, query: str, /) -> Sequence[ContextItem]:
        """An item for each manifest that there is."""
        del query
        items = []
        for name, (load, wanted) in _MANIFESTS.items():
            data = read_below(self.root, name, _LARGEST)
            if data is not None:
                content = data.decode("utf-8", "replace")
                with suppress(ValueError, RecursionError):  # of no JSON or TOML, or a number that Python does not read
                    if wanted and (part := _part(load(content), wanted)):
                        content = json.dumps(part, indent=1, ensure_ascii=False, default=str)
                        content = content.encode("utf-8", "replace").decode()  # half a character cannot be sent
                items.append(ContextItem(name, self.redacted(content, name), 0.5))
        return [item for item in items if item.content.strip()]


def _part(whole: object, wanted: Mapping[str, str]) -> dict[str, Any]:
    """Collect the wanted entries of a manifest: by the name of their table, the patterns of their keys."""
    part: dict[str, Any] = {}
    for path, keys in wanted.items():
        table: Any = whole
        for name in filter(None, path.split(".")):
            table = table.get(name) if isinstance(table, Mapping) else None
        for key, value in table.items() if isinstance(table, Mapping) else ():
            if any(fnmatchcase(key.lower(), pattern) for pattern in keys.split()):
                part[f"{path}.{key}" if key in part else key] = value
    return part


_OF_NODE = {"": "name version type engines packagemanager scripts *dependencies"}
_OF_PYTHON = {
    "project": "name version requires-python dependencies optional-dependencies",
    "": "dependency-groups",
    "tool.poetry": "dependencies group",
}

_MANIFESTS: Mapping[str, tuple[Callable[[str], object], Mapping[str, str]]] = {
    "go.mod": (str, {}),
    "package.json": (json.loads, _OF_NODE),
    "requirements.txt": (str, {}),
    "pyproject.toml": (tomllib.loads, _OF_PYTHON),
    "Cargo.toml": (tomllib.loads, {"": "package *dependencies"}),
    "Gemfile": (str, {}),
    "composer.json": (json.loads, _OF_NODE),
    "build.gradle": (str, {}),
    "pom.xml": (str, {}),
}
"""How each manifest is read, and which of its entries are shown; all of it where none are named."""


SUGGESTED = (
    "go.mod",
    "package.json",
    "pyproject.toml",
    "Cargo.toml",
    "README.md",
    "ARCHITECTURE.md",
    "AGENTS.md",
    ".env.example",
    "Makefile",
    "Dockerfile",
)


def suggest_files(folder: str | Path) -> tuple[str, ...]:
    """The names of those files in a folder that tell most about a project, in the order in which they do.

    Links that lead out of the folder are none of them.

    Example:
        >>> from agentctx.sources import suggest_files
        >>> suggest_files("no-such-folder")
        ()
    """
    return tuple(name for name in SUGGESTED if is_file_below(Path(folder), name))


EXTENSIONS = frozenset(
    {".c", ".cpp", ".go", ".h", ".java", ".js", ".jsx", ".py", ".rb", ".rs", ".ts", ".tsx"}
    | {".cs", ".kt", ".php", ".scala", ".sh", ".sql", ".svelte", ".swift", ".vue"}
)
"""Source files."""


@frozen
class RecentFiles(Redacting):
    """The names of the source files that were changed last, newest first, with the time (UTC) of the change.

    Args:
        root: The folder.
        limit: How many files are told.
        extensions: Which files count.
        gitignore: Whether what ``.gitignore`` files take out is left out; needs the extra ``sources``.
        skipped: Names of folders that are not looked into, beside those that begin with a dot.
        max_tokens: The most tokens of it all.
        redact: Takes secrets out of names; None leaves them in.

    Raises:
        ConfigError: If a number makes no sense.

    Example:
        >>> from agentctx.sources import RecentFiles, gather
        >>> gathered = await gather([RecentFiles(".", limit=5)])
    """

    name: ClassVar[str] = "files"
    description: ClassVar[str] = "source files that were changed last"

    root: Path = field(default=Path(), converter=as_root)
    limit: int = field(default=10, validator=whole_number(1), kw_only=True)
    extensions: frozenset[str] = field(default=EXTENSIONS, converter=as_names, validator=NAMES, kw_only=True)
    gitignore: bool = field(default=True, validator=TRUTH, kw_only=True)
    skipped: frozenset[str] = field(default=SKIPPED, converter=as_names, validator=NAMES, kw_only=True)
    max_tokens: int | None = field(default=300, validator=whole_number(0).or_none, kw_only=True)

    def __call__(self, query: str, /) -> Sequence[ContextItem]:
        """One item, or none when there are no such files.

        Raises:
            SourceError: If ``.gitignore`` files are to be read and pathspec is not installed.
        """
        del query
        ages = []
        for path, entry in walk(self.root, gitignore=self.gitignore, skipped=self.skipped):
            if PurePath(path).suffix.lower() in self.extensions:
                with suppress(OSError):  # it went away meanwhile
                    ages.append((-entry.stat(follow_symlinks=False).st_mtime_ns, path))
        lines = [
            self.redacted(f"{one_line(path)} (modified {calendar_time(-age / 1e9):%Y-%m-%d %H:%M})")
            for age, path in nsmallest(self.limit, ages)
        ]
        return [ContextItem("recently modified files", "\n".join(lines), 0.6)] if lines else []


_WINDOW = 256 * 1024
"""How much of a log is read, in bytes from its end."""


def _folder(path: str | Path | None) -> Path | None:
    return Path(path) if path else None


@frozen
class BuildErrors(Redacting):
    """The ends of the newest logs in a folder: files called ``*.log`` or ``*.err``, or with ``error`` in their name.

    Args:
        folder: The folder of logs; one that does not exist has none.
        limit: How many logs are told.
        max_tokens: The most tokens of it all.
        redact: Takes secrets out; None leaves them in.

    Raises:
        ConfigError: If a number makes no sense.

    Example:
        >>> from agentctx.sources import BuildErrors, gather
        >>> gathered = await gather([BuildErrors("logs", limit=3)])
    """

    name: ClassVar[str] = "errors"
    description: ClassVar[str] = "ends of the newest build and test logs"

    folder: Path | None = field(converter=_folder)
    limit: int = field(default=3, validator=whole_number(1), kw_only=True)
    max_tokens: int | None = field(default=1_000, validator=whole_number(0).or_none, kw_only=True)

    def __call__(self, query: str, /) -> Sequence[ContextItem]:
        """An item for each log that says anything, the newest first; it is cut at its beginning."""
        del query
        if self.folder is None or not self.folder.is_dir():
            return []
        logs = []
        with os.scandir(self.folder) as entries:
            for entry in entries:
                low = entry.name.lower()
                is_log = low.endswith((".log", ".err")) or "error" in low
                if is_log and entry.is_file(follow_symlinks=False):  # a link may lead anywhere
                    logs.append((-entry.stat(follow_symlinks=False).st_mtime_ns, entry.name))
        items: list[ContextItem] = []
        for _, name in sorted(logs):
            if len(items) == self.limit:
                break
            with opened(self.folder, name) as file:
                size = file.seek(0, os.SEEK_END)
                file.seek(max(0, size - _WINDOW))
                data = file.read(_WINDOW)
            if size > _WINDOW:  # whole lines: a secret that is cut in two is not recognised
                data = data[data.find(b"\n") + 1 :] if b"\n" in data else b""
            content = self.redacted(data.decode("utf-8", "replace"), f"{name}.log")
            if content.strip():
                items.append(ContextItem(self.redacted(name), content, 0.85, keep="tail"))
        return items
