"""What is below a folder: files are found and read, and no link, pipe or device leads out of it.

Patterns are those of ``.gitignore``. This is the one file that knows the library pathspec (extra ``sources``).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from functools import cache
from pathlib import Path
from typing import BinaryIO, Protocol

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


@frozen
class Stamp:
    """What changes when a file does, in whatever direction its clock went."""

    changed: int
    size: int
    file: tuple[int, int]


def stamp_of(path: Path) -> Stamp | None:
    """The stamp of a regular file, links followed; None when there is none."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return _stamp(found) if stat.S_ISREG(found.st_mode) else None


def _stamp(found: os.stat_result) -> Stamp:
    return Stamp(found.st_mtime_ns, found.st_size, (found.st_dev, found.st_ino))


def read_text(path: Path, max_bytes: int, root: Path) -> tuple[str, Stamp]:
    """The text of a file, its links resolved, and its stamp: what has become a link since is not followed.

    A file in ``root`` must not lead out of it.
    """
    try:
        with opened(root if path.is_relative_to(root) else path.parent, str(path)) as file:
            stamp = _stamp(os.fstat(file.fileno()))
            data = file.read(max_bytes + 1) if stamp.size <= max_bytes else b""
    except SourceError as error:
        raise SourceError(str(path), error.what) from error
    except OSError as error:
        raise SourceError(str(path), f"cannot read it: {error.strerror}") from error
    if max(stamp.size, len(data)) > max_bytes:
        raise SourceError(str(path), f"{max(stamp.size, len(data)):,} bytes are more than the budget can hold")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(str(path), "is not text in UTF-8") from error
    if "\0" in text:
        raise SourceError(str(path), "is not text")
    return text, stamp


def is_file_below(folder: Path, name: str) -> bool:
    """Whether there is such a regular file below a folder; no link out of the folder is followed."""
    place = Path(os.path.realpath(folder / name))
    return place.is_relative_to(os.path.realpath(folder)) and stamp_of(place) is not None


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


_TOKENS = re.compile(
    r"(?P<star>\[\^/\]\*)|(?P<any>\(\?:/\.\+\)\?|\(\?:\.\+/\)\?)|(?P<end>\(\?:\(\?P<ps_d>/\)\|\$\)|\(\?P<ps_d>/\))"
    r"|(?P<slash>/)|(?P<set>\[\^?\]?[^\]]*\]\+?)|\\.|.",
    re.DOTALL,
)
"""What pathspec makes patterns of: ``*``, ``**``, the end, a slash, a set, and characters."""


class _Matcher(Protocol):
    def check_file(self, file: str) -> _Checked: ...


class _Checked(Protocol):
    @property
    def include(self) -> bool | None: ...


@frozen
class Patterns:
    """Patterns in the language of ``.gitignore``; the last one that fits a path decides."""

    matcher: _Matcher

    @classmethod
    def of(cls, lines: Iterable[str], *, lenient: bool = False) -> Patterns:
        """Read patterns, one a line.

        Args:
            lines: The patterns.
            lenient: Whether a pattern that makes no sense is passed over, as git does with an ignore file.

        Raises:
            SourceError: If a pattern makes no sense, or pathspec is not installed.
        """
        try:
            from pathspec import GitIgnoreSpec  # noqa: PLC0415 - an extra: what needs no patterns works without it

            pattern = _linear_pattern()
        except ImportError as error:
            raise SourceError("patterns", unmet("reading them", "sources", error)) from error
        wanted = []
        for line in lines:
            try:
                read = GitIgnoreSpec.from_lines([line], pattern, backend="simple")
            except ValueError as error:
                if not lenient:
                    raise _wrong(line, str(error)) from error
                continue
            if not lenient and all(each.include is None for each in read.patterns):
                raise _wrong(line, "can fit no path")
            wanted.append(line)
        return cls(GitIgnoreSpec.from_lines(wanted, pattern, backend="simple"))

    def fits(self, path: str) -> bool | None:
        """Whether the path is meant: False when a pattern with ``!`` takes it out again, None when no pattern fits."""
        return self.matcher.check_file(path).include


def _wrong(pattern: str, what: str) -> SourceError:
    where = f"pattern {pattern!r}"
    return SourceError(where, what)


@cache
def _linear_pattern() -> Native:
    """Pathspec's pattern, matched without going back: whoever writes an ignore file could make it take for ever."""
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern  # noqa: PLC0415 - as above

    class LinearPattern(GitIgnoreSpecPattern):
        @classmethod
        def pattern_to_regex(cls, pattern: object) -> Native:
            regex, include = super().pattern_to_regex(pattern)
            return (None if regex is None else linear(regex)), include

    return LinearPattern


def linear(regex: str) -> str:
    """A pattern's regular expression, in which every wildcard but the last takes the first place that fits, for good.

    A later wildcard of the same kind makes up for what an earlier one has passed over: nothing else would ever fit.
    """
    whole, run, leading = "", "", ""
    for found in _TOKENS.finditer(regex):
        if found.lastgroup != "any":
            run += found[0]
        else:
            whole += f"(?>{leading}{_within(run)}(?=/))" if leading else _within(run)
            leading, run = ("(?:/[^/]+)*?" if found[0].startswith("(?:/") else "(?:[^/]+/)*?"), ""
            last = found[0]
    return whole + (last if leading else "") + _within(run)


def _within(regex: str) -> str:
    """The same for the wildcards within each name of a path; no set of characters takes a slash."""
    whole, star, chunk = "", False, ""
    for found in _TOKENS.finditer(regex):
        if found.lastgroup == "star":
            whole += f"(?>[^/]*?{chunk})" if star and chunk else chunk
            star, chunk = True, ""
        elif found.lastgroup in ("slash", "end"):
            whole += ("[^/]*" if star else "") + chunk + found[0]
            star, chunk = False, ""
        else:
            chunk += f"(?!/){_set(found[0])}" if found.lastgroup == "set" else found[0]
    return whole + ("[^/]*" if star else "") + chunk


_OPERATORS = frozenset("[-&~|")
"""What would mean something in a set of Python's, or will: there it is written with a backslash."""

_ITEM = re.compile(r"(?P<first>\\?.)(?:-(?P<last>\\?.))?", re.DOTALL)


def _set(written: str) -> str:
    """A set of characters as Python reads it; of a range that ends before it begins the first is in it, as for git."""
    inner = written.rstrip("+")[1:-1]
    outside = inner.startswith("^")
    items = []
    for found in _ITEM.finditer(inner[outside:]):
        ends = [end for end in found.groups() if end is not None]
        ends = ends[:1] if ends[-1][-1] < ends[0][-1] else ends
        items.append("-".join(f"\\{end}" if end in _OPERATORS else end for end in ends))
    return f"[{'^' * outside}{''.join(items)}]{'+' * written.endswith('+')}"


SKIPPED = frozenset({"__pycache__", "node_modules", "vendor", "venv", "build", "dist", "target"})
"""Folders that are not looked into."""

_LARGEST_IGNORE = 2**20


def walk(
    root: Path, *, gitignore: bool = True, hidden: bool = False, skipped: frozenset[str] = SKIPPED
) -> Iterator[tuple[str, os.DirEntry[str]]]:
    """Every regular file below ``root``, as its path with slashes and its entry, in an order that does not change.

    Links are not followed, a folder that cannot be read is passed over. In a worker thread the walk ends when the
    task that waits for it is cancelled.
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
        stop_when_abandoned()
        try:
            with os.scandir(root / inside) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            found = []
        if gitignore and any(each.name == ".gitignore" and each.is_file(follow_symlinks=False) for each in found):
            content = read_below(root, f"{inside}.gitignore", _LARGEST_IGNORE)
            if content is not None:
                patterns = Patterns.of(content.decode("utf-8", "replace").splitlines(), lenient=True)
                ignored = (*ignored, _Ignored(inside, patterns))
        return cls(inside, iter(found), ignored)

    def ignores(self, path: str) -> bool:
        """What the nearest ``.gitignore`` that says anything about the path says."""
        for each in reversed(self.ignored):
            said = each.patterns.fits(path[len(each.folder) :])
            if said is not None:
                return said
        return False
