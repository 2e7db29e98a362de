"""What is below a folder: files are found and read, and no link, pipe or device leads out of it.

Patterns are those of ``.gitignore``. This is the one file that knows the library pathspec (extra ``sources``).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol, cast

import regex  # type: ignore[import-untyped]
from attrs import frozen

from agentctx.errors import SourceError
from agentctx.lazy import unmet
from agentctx.message import Native
from agentctx.sources.gathering import stop_when_abandoned

_BY_FOLDER = os.open in os.supports_dir_fd and os.stat in os.supports_dir_fd
"""Whether the system can open a name in an open folder, so that nobody can swap the folder meanwhile."""

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # what became a pipe since it was looked at is not waited for
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)


Stamp = tuple[int, int, int, int]
"""The time, size, device and number of a file: they change when a file does, in whatever direction its clock went."""


def stamp_of(path: Path) -> Stamp | None:
    """Return the stamp of a regular file, links followed; None when there is none."""
    try:
        status = path.stat()
    except (OSError, ValueError):
        return None
    return _stamp(status) if stat.S_ISREG(status.st_mode) else None


def _stamp(status: os.stat_result) -> Stamp:
    return status.st_mtime_ns, status.st_size, status.st_dev, status.st_ino


def read_text(path: Path, max_bytes: int, root: Path) -> tuple[str, Stamp]:
    """The text of a file, its links resolved, and its stamp: what has become a link since is not followed.

    A file in ``root`` must not lead out of it.
    """
    try:
        with opened(root if path.is_relative_to(root) else path.parent, str(path)) as file:
            stamp = _stamp(os.fstat(file.fileno()))
            size = stamp[1]
            data = file.read(max_bytes + 1) if size <= max_bytes else b""
    except SourceError as error:
        raise SourceError(str(path), error.what) from error
    except OSError as error:
        raise SourceError(str(path), f"cannot read it: {error.strerror}") from error
    if max(size, len(data)) > max_bytes:
        raise SourceError(str(path), f"{max(size, len(data)):,} bytes are more than the budget can hold")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(str(path), "is not text in UTF-8") from error
    if "\0" in text:
        raise SourceError(str(path), "is not text")
    return text, stamp


def is_file_below(folder: Path, name: str) -> bool:
    """Return whether there is such a regular file below a folder; no link out of the folder is followed."""
    try:
        with opened(folder, name):
            return True
    except (OSError, SourceError):
        return False


def read_below(folder: Path, name: str, max_bytes: int) -> bytes | None:
    """The content of a file below a folder; None when there is no such regular file, or it is larger."""
    try:
        with opened(folder, name) as file:
            data = file.read(max_bytes + 1)
    except (OSError, SourceError):
        return None
    return data if len(data) <= max_bytes else None


@contextmanager
def opened(folder: Path, name: str) -> Iterator[BinaryIO]:
    """A regular file below a folder, open for reading.

    Links are followed as long as they lead to a place below the folder. What is opened is the place that was found,
    folder by folder: what is made a link in between is refused.

    Raises:
        SourceError: If it leads out of the folder, or is a folder, pipe, socket or device.
        OSError: If it is not there or cannot be read.
    """
    root = os.path.realpath(folder)
    place = os.path.realpath(os.path.join(root, name))  # noqa: PTH118 - the name may be absolute, and is checked
    if not Path(place).is_relative_to(root):
        raise SourceError(name, "leads out of its folder")
    with ExitStack() as folders:
        number = _opened_folder(root, Path(place).relative_to(root), folders) if _BY_FOLDER else None
        last = place if number is None else Path(place).name
        if not stat.S_ISREG(os.stat(last, dir_fd=number, follow_symlinks=False).st_mode):
            raise SourceError(name, "cannot read it: it is no file")
        file = folders.enter_context(os.fdopen(os.open(last, _FILE, dir_fd=number), "rb"))
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise SourceError(name, "cannot read it: it is no file")
        yield file


def _opened_folder(root: str, inside: Path, folders: ExitStack) -> int:
    """The folder of a path below the root, opened step by step."""
    number = os.open(root, _FOLDER)
    folders.callback(os.close, number)
    for part in inside.parts[:-1]:
        number = os.open(part, _FOLDER, dir_fd=number)
        folders.callback(os.close, number)
    return number


_LONGEST_MATCH = 0.1
"""The most seconds in which a pattern is matched with one path: whoever writes an ignore file could need for ever."""


@frozen
class _TimedPattern:
    """The regular expression of a pattern, as pathspec uses one."""

    line: str
    expression: Native

    def search(self, path: str) -> re.Match[str] | None:
        """Search a path, and let other threads run meanwhile."""
        try:
            match: re.Match[str] | None = self.expression.search(path, timeout=_LONGEST_MATCH, concurrent=True)
        except TimeoutError as error:
            raise _wrong(self.line, f"takes too long to match {path!r:.80}") from error
        return match

    match = search


class _Spec(Protocol):
    def check_file(self, file: str) -> _Checked: ...


class _Checked(Protocol):
    @property
    def include(self) -> bool | None: ...


@frozen
class Patterns:
    """Patterns in the language of ``.gitignore``; the last one that fits a path decides."""

    spec: _Spec

    @classmethod
    def of(cls, lines: Iterable[str], *, lenient: bool = False) -> Patterns:
        """Read patterns, one a line.

        Args:
            lines: The patterns.
            lenient: Whether a pattern that makes no sense is passed over, as git does with an ignore file.

        Raises:
            SourceError: If a pattern makes no sense, or pathspec is not installed.
        """
        try:  # an extra: what needs no patterns works without it
            from pathspec import GitIgnoreSpec  # noqa: PLC0415
            from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern  # noqa: PLC0415
        except ImportError as error:
            raise SourceError("patterns", unmet("reading them", "sources", error)) from error
        patterns = []
        for line in lines:
            try:
                written, include = GitIgnoreSpecPattern.pattern_to_regex(line)
                if written is not None:
                    timed = _TimedPattern(line, regex.compile(written))
                    patterns.append(GitIgnoreSpecPattern(cast("re.Pattern[str]", timed), include))
                elif not lenient:
                    raise _wrong(line, "can fit no path")
            except (ValueError, regex.error) as error:
                if not lenient:
                    raise _wrong(line, str(error)) from error
        return cls(GitIgnoreSpec(patterns, backend="simple"))

    def fits(self, path: str) -> bool | None:
        """Return whether the path is meant: False if a pattern with ``!`` takes it out again, None if none fits.

        Raises:
            SourceError: If a pattern takes too long.
        """
        return self.spec.check_file(path).include


def _wrong(pattern: str, what: str) -> SourceError:
    where = f"pattern {pattern!r:.80}"
    return SourceError(where, what)


SKIPPED = frozenset({"__pycache__", "node_modules", "vendor", "venv", "build", "dist", "target"})
"""Folders that are not looked into."""

_LARGEST_IGNORE = 2**20


def walk(
    root: Path, *, gitignore: bool = True, hidden: bool = False, skipped: frozenset[str] = SKIPPED
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Yield every regular file below ``root``, as its path with slashes and its entry, in an order that is stable.

    Links are not followed, a folder that cannot be read is passed over. In a worker thread the walk ends when the
    task that waits for it is cancelled.

    Raises:
        SourceError: If ``.gitignore`` files are to be read and pathspec is not installed, or a pattern takes too long.
    """
    folders: list[tuple[str, tuple[_Ignored, ...]]] = [("", ())]
    while folders:
        stop_when_abandoned()
        inside, ignored = folders.pop()
        try:
            with os.scandir(root / inside) as listed:
                entries = sorted(listed, key=lambda entry: entry.name)
        except OSError:
            continue
        content = read_below(root, f"{inside}.gitignore", _LARGEST_IGNORE) if gitignore else None
        if content is not None:
            patterns = Patterns.of(content.decode("utf-8", "replace").splitlines(), lenient=True)
            ignored = ((inside, patterns), *ignored)
        below = []
        for entry in entries:
            path = inside + entry.name
            if entry.is_dir(follow_symlinks=False):
                looked_into = entry.name not in skipped and (hidden or not entry.name.startswith("."))
                if looked_into and not _is_ignored(f"{path}/", ignored):
                    below.append((f"{path}/", ignored))
            elif entry.is_file(follow_symlinks=False) and not _is_ignored(path, ignored):
                yield path, entry
        folders += reversed(below)


_Ignored = tuple[str, Patterns]
"""A folder, and the patterns of its ``.gitignore``."""


def _is_ignored(path: str, ignored: Iterable[_Ignored]) -> bool:
    """Return the answer of the nearest ``.gitignore`` that decides about the path; without any it is not ignored."""
    for folder, patterns in ignored:
        if (fits := patterns.fits(path[len(folder) :])) is not None:
            return fits
    return False
