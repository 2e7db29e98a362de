"""The files below a folder, without what nobody wrote by hand."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from attrs import frozen

from agentctx.sources.asking import stop_when_left_behind
from agentctx.sources.pathspec import Patterns
from agentctx.sources.read_file import read_below

SKIPPED = frozenset({"__pycache__", "node_modules", "vendor", "venv", "build", "dist", "target"})
"""Folders that are not looked into."""

_LARGEST_IGNORE = 2**20


def walk(
    root: Path, *, gitignore: bool = True, hidden: bool = False, skipped: frozenset[str] = SKIPPED
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every regular file below ``root``, as its path with slashes and its entry, in an order that does not change.

    Links are not followed, a folder that cannot be read is passed over. In a worker thread the walk ends when the
    task that waits for it is cancelled.

    Args:
        root: The folder.
        gitignore: Whether what ``.gitignore`` files take out is left out.
        hidden: Whether folders are looked into whose name begins with a dot.
        skipped: Names of folders that are not looked into.
    """
    open_folders = [_Folder.read(root, "", (), gitignore=gitignore)]
    while open_folders:
        folder = open_folders[-1]
        entry = next(folder.entries, None)
        if entry is None:
            open_folders.pop()
        elif entry.is_dir(follow_symlinks=False):
            path = f"{folder.inside}{entry.name}/"
            looked_into = entry.name not in skipped and (hidden or not entry.name.startswith("."))
            if looked_into and not folder.ignores(path):
                open_folders.append(_Folder.read(root, path, folder.ignored, gitignore=gitignore))
        elif entry.is_file(follow_symlinks=False) and not folder.ignores(folder.inside + entry.name):
            yield folder.inside + entry.name, entry


@frozen
class _Ignored:
    """The patterns of one ``.gitignore``, for what is below its folder."""

    folder: str
    patterns: Patterns


@frozen
class _Folder:
    """A folder that is being looked through; ``inside`` is its path with a slash at the end, empty for the root."""

    inside: str
    entries: Iterator[os.DirEntry[str]]
    ignored: tuple[_Ignored, ...]

    @classmethod
    def read(cls, root: Path, inside: str, ignored: tuple[_Ignored, ...], *, gitignore: bool) -> _Folder:
        """List a folder; one that cannot be read is empty."""
        stop_when_left_behind()
        try:
            with os.scandir(root / inside) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            found = []
        if gitignore:
            ignored = (*ignored, *_ignore_file(root, inside, found))
        return cls(inside, iter(found), ignored)

    def ignores(self, path: str) -> bool:
        """What the nearest ``.gitignore`` that says anything about the path says."""
        for each in reversed(self.ignored):
            said = each.patterns.fits(path[len(each.folder) :])
            if said is not None:
                return said
        return False


def _ignore_file(root: Path, inside: str, found: Sequence[os.DirEntry[str]]) -> Iterator[_Ignored]:
    if not any(entry.name == ".gitignore" and entry.is_file(follow_symlinks=False) for entry in found):
        return
    content = read_below(root, f"{inside}.gitignore", _LARGEST_IGNORE)
    if content is not None:
        yield _Ignored(inside, Patterns.of(content.decode("utf-8", "replace").splitlines(), lenient=True))
