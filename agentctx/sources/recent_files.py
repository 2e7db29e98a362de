"""The files that were worked on last."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from heapq import nsmallest
from pathlib import Path, PurePath
from typing import ClassVar

from attrs import field, frozen

from agentctx.protocols import ContextItem
from agentctx.sources.folder import SKIPPED, is_file_below, walk
from agentctx.sources.secrets import Redactor, redact_secrets
from agentctx.sources.writing import amount, one_line, several

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


def _extensions(given: object) -> frozenset[str]:
    return frozenset(several("RecentFiles: extensions", given))


def _skipped(given: object) -> frozenset[str]:
    return frozenset(several("RecentFiles: skipped", given))


@frozen
class RecentFiles:
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

    root: Path = field(default=Path(), converter=Path)
    limit: int = field(default=10, validator=amount(1), kw_only=True)
    extensions: frozenset[str] = field(default=EXTENSIONS, converter=_extensions, kw_only=True)
    gitignore: bool = field(default=True, kw_only=True)
    skipped: frozenset[str] = field(default=SKIPPED, converter=_skipped, kw_only=True)
    max_tokens: int | None = field(default=300, validator=amount(0, optional=True), kw_only=True)
    redact: Redactor | None = field(default=redact_secrets, kw_only=True)

    def __call__(self, query: str, /) -> Sequence[ContextItem]:
        """One item, or none when there are no such files.

        Raises:
            SourceError: If ``.gitignore`` files are to be read and pathspec is not installed.
        """
        del query
        newest = nsmallest(self.limit, self._files())
        lines = [
            f"{one_line(path)} (modified {datetime.fromtimestamp(-age / 1e9, UTC):%Y-%m-%d %H:%M})"
            for age, path in newest
        ]
        told = lines if self.redact is None else [self.redact(line, "") for line in lines]
        return [ContextItem("recently modified files", "\n".join(told), 0.6)] if told else []

    def _files(self) -> Iterator[tuple[int, str]]:
        """Negative time of change and path of each file, so that the smallest is the newest."""
        for path, entry in walk(self.root, gitignore=self.gitignore, skipped=self.skipped):
            if PurePath(path).suffix.lower() in self.extensions:
                try:
                    yield -entry.stat(follow_symlinks=False).st_mtime_ns, path
                except OSError:
                    continue  # it went away while we looked
