"""Files that are worth reading in most projects."""

from __future__ import annotations

from pathlib import Path

from agentctx.sources.read_file import is_file_below

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
    """
    return tuple(name for name in SUGGESTED if is_file_below(Path(folder), name))
