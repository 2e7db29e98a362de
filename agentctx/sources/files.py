"""Files below a folder: how they are found and read, and those that the model may read and must not change.

No link, pipe or device leads out of the folder. Patterns are those of ``.gitignore``. This is the one file that knows
the library pathspec (extra ``sources``).
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePath
from typing import BinaryIO, cast

import regex  # type: ignore[import-untyped]
from anyio import Lock, to_thread
from attrs import define, evolve, field, frozen

from agentctx.budget import each_that_fits
from agentctx.engine.plan import REDACTOR
from agentctx.errors import SourceError
from agentctx.lazy import unmet
from agentctx.message import Native
from agentctx.protocols import TokenCounter
from agentctx.secrets import Redactor, redact_secrets
from agentctx.sources.gathering import section, stop_when_abandoned
from agentctx.tokens.counting import counter_of_texts
from agentctx.validators import must_be, whole_number

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


def as_root(root: str | Path) -> Path:
    """Return the path of a source's folder.

    Args:
        root: What was passed.

    Raises:
        ConfigError: If it is no path.
    """
    try:
        os.fsencode(root)
        return Path(root)
    except (TypeError, ValueError):
        raise must_be("root", "the path of a folder", root) from None


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
    """Open a regular file below a folder for reading.

    Links are followed as long as they lead to a place below the folder. A file or folder that is replaced while the
    file is opened is refused.

    Raises:
        SourceError: If it leads out of the folder, or is a folder, pipe, socket or device.
        OSError: If it is not there or cannot be read.
    """
    root = os.path.realpath(folder)
    place = os.path.realpath(os.path.join(root, name))  # noqa: PTH118 - the name may be absolute, and is checked
    if not Path(place).is_relative_to(root):
        raise SourceError(name, "leads out of its folder")
    if not stat.S_ISREG(os.lstat(place).st_mode):
        raise SourceError(name, "cannot read it: it is no file")
    with os.fdopen(os.open(place, _FILE), "rb") as file:
        status = os.fstat(file.fileno())
        if os.path.realpath(place) != place or not os.path.samestat(status, os.lstat(place)):
            raise SourceError(name, "cannot read it: it was replaced meanwhile")
        if not stat.S_ISREG(status.st_mode):
            raise SourceError(name, "cannot read it: it is no file")
        yield file


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


@frozen
class Patterns:
    """Patterns in the language of ``.gitignore``; the last one that fits a path decides."""

    spec: Native

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
        include: bool | None = self.spec.check_file(path).include
        return include


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
        has_patterns = gitignore and any(entry.name == ".gitignore" for entry in entries)
        content = read_below(root, f"{inside}.gitignore", _LARGEST_IGNORE) if has_patterns else None
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


@frozen
class ReadOnlyFile:
    """A file that the model may read and must not change.

    Args:
        name: Its path, below the root with slashes, else in full.
        path: Where it is, links resolved.
        content: What the model reads, secrets taken out; empty where it cannot be read.
        tokens: The cost of heading, fence and content; more than all the room where it cannot be read.
        stamp: The state of the file when it was read; None when it is gone.
        pinned: Whether it is never evicted.
        refresh: Whether it is read again when it has changed.
    """

    name: str
    path: Path = field(repr=False)
    content: str = field(repr=False)
    tokens: int
    stamp: Stamp | None = field(repr=False)
    pinned: bool = False
    refresh: bool = True


@frozen
class FilesChanged:
    """What became of files; their names.

    Args:
        added: Files that are shown now and were not.
        refreshed: Files that were read again, because they had changed.
        left_out: Files that are not shown because there is no room for them; they stay read-only.
        vanished: Files that are no longer there.
        failed: Files that could not be read, and why.
    """

    added: tuple[str, ...] = ()
    refreshed: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    vanished: tuple[str, ...] = ()
    failed: tuple[tuple[str, str], ...] = ()


@frozen
class ReadOnlyStats:
    """Numbers of the files.

    Args:
        files: How many files are shown.
        pinned: How many of them are pinned.
        left_out: How many files are read-only and not shown.
        tokens: Tokens of the block.
        budget: The most that it may have.
    """

    files: int
    pinned: int
    left_out: int
    tokens: int
    budget: int

    @property
    def used(self) -> float:
        """The share of the budget that is used, 0 to 1."""
        return self.tokens / self.budget


@frozen
class _Rule:
    """Files that are read-only because a pattern fits them."""

    pattern: str
    patterns: Patterns
    pinned: bool
    refresh: bool


HEADING = "## Read-only files (do not modify these)\n\n"
"""The line above the files."""

_LONGEST_TOKEN = 128
"""No token stands for more bytes than this: a larger file cannot fit, and need not be read."""


def that_fit(files: dict[str, ReadOnlyFile], room: int, shown: Collection[str] = ()) -> list[str]:
    """Choose files that fit together: the pinned first, then those that were used last; files are in order of use.

    Of the pinned, those come first that are shown already: no other file pushes them out.
    """

    def rank(key: str) -> int:
        return (0 if key in shown else 1) if files[key].pinned else 2

    latest_first = reversed(files)
    return each_that_fits(sorted(latest_first, key=rank), lambda key: files[key].tokens, room)


def _real(path: str | Path) -> Path:
    return Path(os.path.realpath(as_root(path)))


@define(eq=False)
class ReadOnlyFiles:
    """Files that the model may read and must not change, within a budget of tokens.

    When files are added or read again, those that were used last are shown, and pinned files before others. A file
    for which there is no room is not shown and still read-only. ``refresh`` reads again what changed on disk, and
    matches patterns with new files.

    Args:
        budget: The most tokens of the block that ``render`` writes, headings and fences included.
        root: The folder that paths and patterns are relative to.
        counter: Counts tokens; a plain function of a text counts, too. Without it, tiktoken's ``o200k_base``.
        redact: Takes secrets out of what is shown; None leaves them in.

    Raises:
        ConfigError: If the budget has no room for anything.

    Example:
        >>> import tempfile, pathlib
        >>> from agentctx.sources import ReadOnlyFiles
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     _ = pathlib.Path(folder, "notes.md").write_text("Builds are logged in build.log.")
        ...     files = ReadOnlyFiles(2_000, root=folder)
        ...     changed = await files.add("notes.md")
        ...     files.is_read_only("notes.md"), "build.log" in files.render()
        (True, True)
    """

    budget: int = field(validator=whole_number(1))
    root: Path = field(default=Path(), converter=_real, kw_only=True)
    counter: TokenCounter = field(default=None, converter=counter_of_texts, kw_only=True)
    redact: Redactor | None = field(default=redact_secrets, validator=REDACTOR.or_none, kw_only=True)
    _room: int = field(init=False, repr=False)
    _files: dict[str, ReadOnlyFile] = field(factory=dict, init=False, repr=False)
    """All files that are read-only by name, in the order of their last use."""
    _shown: set[str] = field(factory=set, init=False, repr=False)
    _rules: dict[str, _Rule] = field(factory=dict, init=False, repr=False)
    _removed: set[str] = field(factory=set, init=False, repr=False)
    _lock: Lock = field(factory=Lock, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Check the budget."""
        self._room = self.budget - self.counter.count(HEADING)
        if self._room < 1:
            raise must_be("ReadOnlyFiles.budget", "so many tokens that there is room for a file", self.budget)

    @property
    def files(self) -> tuple[ReadOnlyFile, ...]:
        """The files that are shown, by name."""
        return tuple(sorted((self._files[key] for key in self._shown), key=lambda file: file.name))

    @property
    def left_out(self) -> tuple[str, ...]:
        """The names of files that are read-only and not shown."""
        return tuple(sorted(self._names(self._files.keys() - self._shown)))

    @property
    def patterns(self) -> tuple[str, ...]:
        """The patterns, in the order in which they were added."""
        return tuple(self._rules)

    async def add(self, path: str | Path, *, pinned: bool = False, refresh: bool = True) -> FilesChanged:
        """Add a file, or add it again with other options; it is now the one that was used last.

        Args:
            path: The file.
            pinned: Whether it is never pushed out.
            refresh: Whether it is read again when it has changed on disk.

        Raises:
            SourceError: If it cannot be read, is no text, does not fit beside what is pinned, or is a link out of the
                root. A file elsewhere is added by its own path.
        """
        async with self._lock:
            key = self._key(path)
            if Path(self._written(path)).is_relative_to(self.root) and not Path(key).is_relative_to(self.root):
                raise SourceError(str(path), "is a link that leads out of the root")  # whoever made it would choose
            file, problem = await to_thread.run_sync(self._read, key, pinned, refresh)
            if problem:
                raise SourceError(file.name, problem)
            fixed = sum(self._files[each].tokens for each in self._shown if self._files[each].pinned and each != key)
            if fixed + file.tokens > self._room:
                too_large = f"adding {file.tokens:,} tokens would exceed the budget of {self.budget:,} tokens"
                raise SourceError(file.name, f"{too_large} for read-only files, of which {fixed:,} are pinned")
            self._removed.discard(key)
            return self._show({key: file})

    async def add_pattern(self, pattern: str, *, pinned: bool = False, refresh: bool = True) -> FilesChanged:
        """Add the files that a pattern fits, now and, with ``refresh``, those that come later.

        A file that cannot be read costs only itself. Files of one pattern do not push each other out: those that do
        not fit are left out.

        Args:
            pattern: A pattern in the language of ``.gitignore``. Folders whose name begins with a dot, and those of
                installed packages, are looked into when the pattern names them.
            pinned: Whether they are never pushed out.
            refresh: Whether they are read again when they have changed on disk.

        Raises:
            SourceError: If the pattern makes no sense.
        """
        rule = _Rule(pattern, Patterns.of([pattern]), pinned, refresh)
        async with self._lock:
            self._rules[pattern] = rule
            return await self._update(dict.fromkeys(await to_thread.run_sync(self._keys_of, rule), rule))

    def remove(self, path: str | Path) -> bool:
        """Let a file be changed again, also when a pattern fits it; whether it was read-only.

        Args:
            path: The file: an absolute path, or one relative to the root.

        Raises:
            SourceError: If no file can have this name.
        """
        was = self.is_read_only(path)
        key = self._key(path)
        self._files.pop(key, None)
        self._shown.discard(key)
        self._removed.add(key)
        return was

    def remove_pattern(self, pattern: str) -> bool:
        """Forget a pattern; the files that it brought stay. Whether it was there."""
        return self._rules.pop(pattern, None) is not None

    def is_read_only(self, path: str | Path) -> bool:
        """Whether a file must not be changed, by whatever name it goes: relative, absolute, a link, another case.

        A file that a pattern fits is read-only even before it exists, and so is a link that a pattern fits, wherever
        it leads. Patterns say nothing of files outside of the root.

        Args:
            path: The file: an absolute path, or one relative to the root.

        Raises:
            SourceError: If no file can have this name.
        """
        key = self._key(path)
        if key in self._files or key in self._removed:
            return key in self._files
        stamp = stamp_of(Path(key))
        stamps = (file.stamp for file in self._files.values())
        if stamp is not None and any(each is not None and each[2:] == stamp[2:] for each in stamps):
            return True
        below = (Path(each) for each in dict.fromkeys((key, self._written(path))))
        names = tuple(each.relative_to(self.root).as_posix() for each in below if each.is_relative_to(self.root))
        return any(rule.patterns.fits(name) for rule in self._rules.values() for name in names)

    def content(self, path: str | Path) -> str | None:
        """Return the shown content of a file, which is thereby used; None when it is not shown.

        Args:
            path: The file: an absolute path, or one relative to the root.

        Raises:
            SourceError: If no file can have this name.
        """
        key = self._key(path)
        if key not in self._shown:
            return None
        self._files[key] = self._files.pop(key)
        return self._files[key].content

    async def refresh(self) -> FilesChanged:
        """Read again what has changed on disk, look for new files of patterns, and show what there is room for."""
        async with self._lock:
            wanted: dict[str, ReadOnlyFile | _Rule] = {
                key: file
                for key, file in list(self._files.items())
                if file.refresh and await to_thread.run_sync(stamp_of, file.path) != file.stamp
            }
            for rule in [rule for rule in self._rules.values() if rule.refresh]:
                keys = await to_thread.run_sync(self._keys_of, rule)
                wanted |= {key: rule for key in keys if key not in self._files and key not in wanted}
            return await self._update(wanted)

    def evict(self, max_tokens: int | None = None) -> tuple[str, ...]:
        """Push out what was used least until the block has at most ``max_tokens``; the names of what went."""
        room = self._room if max_tokens is None else max_tokens - (self.budget - self._room)
        shown = {key: file for key, file in self._files.items() if key in self._shown}
        kept = {key for key in shown if shown[key].pinned}.union(that_fit(shown, room))
        self._shown = kept
        return self._names(key for key in shown if key not in kept)

    def render(self) -> str:
        """The files as text for the model, by name; empty when there are none. Nothing in a file can end its fence."""
        return HEADING + "".join(self._section(file.name, file.content) for file in self.files) if self._shown else ""

    def stats(self) -> ReadOnlyStats:
        """Count files and tokens."""
        files = self.files
        tokens = sum(file.tokens for file in files) + (self.budget - self._room) if files else 0
        pinned = sum(file.pinned for file in files)
        return ReadOnlyStats(len(files), pinned, len(self._files) - len(files), tokens, self.budget)

    async def _update(self, wanted: Mapping[str, ReadOnlyFile | _Rule]) -> FilesChanged:
        """Read files, pinned and refreshed as their rule or they themselves are, and show what fits then."""
        new: dict[str, ReadOnlyFile] = {}
        refreshed: list[str] = []
        vanished: list[str] = []
        failed: list[tuple[str, str]] = []
        for key, options in wanted.items():
            file, problem = await to_thread.run_sync(self._read, key, options.pinned, options.refresh)
            if key in self._removed:  # meanwhile
                continue
            before = self._files.get(key)
            if before is None:
                new[key] = file
            else:
                self._files[key] = file
            if problem and file.stamp is None:
                vanished.append(file.name)
            elif problem:
                failed.append((file.name, problem))
            elif before is not None and before.stamp != file.stamp:
                refreshed.append(file.name)
        changed = self._show(new)
        unread = {*vanished, *(name for name, _ in failed)}
        left_out = tuple(name for name in changed.left_out if name not in unread)
        return FilesChanged(changed.added, tuple(refreshed), left_out, tuple(vanished), tuple(failed))

    def _show(self, new: dict[str, ReadOnlyFile]) -> FilesChanged:
        """Take up files, the first as the one that was used last, and show what fits now."""
        for key in reversed(new):
            self._files.pop(key, None)
            self._files[key] = new[key]
        before, self._shown = self._shown, set(that_fit(self._files, self._room, self._shown))
        in_order = (*new, *self._files)
        added = self._names(key for key in in_order if key in self._shown - before)
        gone = (before | new.keys()) - self._shown
        return FilesChanged(added, left_out=self._names(key for key in in_order if key in gone))

    def _names(self, keys: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._files[key].name for key in keys))

    def _keys_of(self, rule: _Rule) -> list[str]:
        parts = PurePath(rule.pattern).parts
        hidden = any(part.startswith(".") for part in parts)
        below = walk(self.root, gitignore=False, hidden=hidden, skipped=(SKIPPED | {".git"}) - set(parts))
        keys = (self._key(path) for path, _ in below if rule.patterns.fits(path))
        return [key for key in keys if key not in self._removed]

    def _read(self, key: str, pinned: bool, refresh: bool) -> tuple[ReadOnlyFile, str]:  # noqa: FBT001 - by a thread
        """Read a file, and say why it cannot be read; such a file fits no room."""
        path = Path(key)
        name = path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else path.as_posix()
        unread = ReadOnlyFile(name, path, "", self._room + 1, stamp_of(path), pinned, refresh)
        try:
            text, stamp = read_text(path, self._room * _LONGEST_TOKEN, self.root)
        except SourceError as error:
            return unread, error.what
        content = text if self.redact is None else self.redact(text, name)
        tokens = self.counter.count(self._section(name, content))
        return evolve(unread, content=content, tokens=tokens, stamp=stamp), ""

    def _section(self, name: str, content: str) -> str:
        return section(name if self.redact is None else self.redact(name, ""), content)

    def _key(self, path: str | Path) -> str:
        try:
            return os.path.normcase(os.path.realpath(self.root / path))
        except ValueError as error:
            raise SourceError(repr(str(path)), "cannot read it: no file can have this name") from error

    def _written(self, path: str | Path) -> str:
        """The place that a path names, without following links."""
        return os.path.normcase(os.path.abspath(self.root / path))  # noqa: PTH100 - it resolves no links, and is to
