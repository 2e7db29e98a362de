"""Files that the model may read and must not change, as many as there is room for."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable
from pathlib import Path, PurePath

from anyio import Lock, to_thread
from attrs import define, evolve, field, frozen

from agentctx.budget import each_that_fits
from agentctx.errors import SourceError
from agentctx.protocols import TokenCounter
from agentctx.secrets import Redactor, redact_secrets
from agentctx.sources.folder import SKIPPED, Patterns, Stamp, read_text, stamp_of, walk
from agentctx.sources.gathering import section
from agentctx.tokens.counting import counter_of_texts
from agentctx.validators import must_be, whole_number


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
    return Path(os.path.realpath(path))


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
    redact: Redactor | None = field(default=redact_secrets, kw_only=True)
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
            return self._changed({key: file})

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
            files, failed = await self._read_all(await to_thread.run_sync(self._keys_of, rule), rule)
            return self._changed(files, failed=failed)

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
            refreshed: list[str] = []
            vanished: list[str] = []
            failed: list[tuple[str, str]] = []
            for key, file in list(self._files.items()):
                stamp = await to_thread.run_sync(stamp_of, file.path)
                if not file.refresh or stamp == file.stamp:
                    continue
                fresh, problem = await to_thread.run_sync(self._read, key, file.pinned, file.refresh)
                if key not in self._files:  # it was removed meanwhile
                    continue
                self._files[key] = fresh
                if not problem:
                    refreshed.append(file.name)
                elif fresh.stamp is None:
                    vanished.append(file.name)
                else:
                    failed.append((file.name, problem))
            files: dict[str, ReadOnlyFile] = {}
            for rule in [rule for rule in self._rules.values() if rule.refresh]:
                keys = await to_thread.run_sync(self._keys_of, rule)
                new = [key for key in keys if key not in self._files and key not in files]
                read, unread = await self._read_all(new, rule)
                files |= read
                failed += unread
            return self._changed(files, refreshed=refreshed, vanished=vanished, failed=failed)

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

    def _changed(
        self,
        files: dict[str, ReadOnlyFile],
        *,
        refreshed: Iterable[str] = (),
        vanished: Iterable[str] = (),
        failed: Iterable[tuple[str, str]] = (),
    ) -> FilesChanged:
        """Take up files, the first as the one that was used last, and show what fits now."""
        for key in reversed(files):
            self._files.pop(key, None)
            self._files[key] = files[key]
        before, self._shown = self._shown, set(that_fit(self._files, self._room, self._shown))
        failures = tuple(failed)
        told = {*vanished, *(name for name, _ in failures)}
        added = self._names(key for key in (*files, *self._files) if key in self._shown - before)
        gone = self._names(key for key in (*files, *self._files) if key in (before | files.keys()) - self._shown)
        left_out = tuple(name for name in gone if name not in told)
        return FilesChanged(added, tuple(refreshed), left_out, tuple(vanished), failures)

    def _names(self, keys: Iterable[str]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(self._files[key].name for key in keys))

    async def _read_all(
        self, keys: Iterable[str], rule: _Rule
    ) -> tuple[dict[str, ReadOnlyFile], list[tuple[str, str]]]:
        """Read the files that a pattern brings; those that were removed by hand stay so."""
        files: dict[str, ReadOnlyFile] = {}
        failed: list[tuple[str, str]] = []
        for key in keys:
            file, problem = await to_thread.run_sync(self._read, key, rule.pinned, rule.refresh)
            files[key] = file
            failed += [(file.name, problem)] if problem else []
        return {key: file for key, file in files.items() if key not in self._removed}, failed

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
