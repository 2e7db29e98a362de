"""Files that the model may read and must not change, as many as there is room for."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from pathlib import Path, PurePath

from anyio import Lock, to_thread
from attrs import define, evolve, field, frozen

from agentctx.budget import each_that_fits, until_full
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
        title: The same as the model reads it, secrets taken out.
        path: Where it is, links resolved.
        content: What the model reads, secrets taken out.
        tokens: What it costs where it stands, heading and fence included, in tokens.
        stamp: What the file looked like when it was read; None when it is gone.
        pinned: Whether it is never evicted.
        refresh: Whether it is read again when it has changed.
    """

    name: str
    title: str = field(repr=False)
    path: Path = field(repr=False)
    content: str = field(repr=False)
    tokens: int
    stamp: Stamp | None = field(repr=False)
    pinned: bool = False
    refresh: bool = True


@frozen
class PatternRule:
    """Files that are read-only because a pattern fits them."""

    pattern: str
    patterns: Patterns = field(repr=False)
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
    """What is shown.

    Args:
        files: How many files.
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


@define
class FileCache:
    """Files within a budget, in the order of their last use."""

    room: int
    shown: dict[str, ReadOnlyFile] = field(factory=dict)
    hidden: dict[str, ReadOnlyFile] = field(factory=dict)
    used: int = 0

    def get(self, key: str) -> ReadOnlyFile | None:
        """The file, whether it is there or not."""
        return self.shown.get(key) or self.hidden.get(key)

    def use(self, key: str) -> None:
        """Let a file that is there be the one that was used last."""
        self.shown[key] = self.shown.pop(key)

    def take(self, key: str) -> ReadOnlyFile | None:
        """Take a file away."""
        hidden, shown = self.hidden.pop(key, None), self.shown.pop(key, None)
        self.used -= shown.tokens if shown else 0
        return shown or hidden

    def hide(self, key: str) -> str:
        """Take a file out of the room and remember it; its name."""
        file = self.shown.pop(key)
        self.used -= file.tokens
        self.hidden[key] = file
        return file.name

    def put(self, key: str, file: ReadOnlyFile, spare: Collection[str] = ()) -> tuple[str, ...] | None:
        """Show a file, or its new content, in place of what was used least; the names of those that had to go.

        None, and nothing changes, when there is no room even without all that may go: what is pinned or in
        ``spare`` stays.
        """
        there = self.shown.get(key)
        excess = self.used - (there.tokens if there else 0) + file.tokens - self.room
        going = self._to_free(excess, {key, *spare})
        if sum(self.shown[each].tokens for each in going) < excess:
            return None
        names = tuple(map(self.hide, going))
        self.hidden.pop(key, None)
        self.used += file.tokens - (there.tokens if there else 0)
        self.shown[key] = file
        return names

    def shrink(self, room: int) -> tuple[str, ...]:
        """Hide what was used least until the rest has at most ``room`` tokens, or only pinned files are left."""
        return tuple(map(self.hide, self._to_free(self.used - room, ())))

    def _to_free(self, excess: int, spare: Collection[str]) -> list[str]:
        """The files, used least first, that have to go so that ``excess`` tokens are free; all that may go at most."""
        loose = [key for key, file in self.shown.items() if not file.pinned and key not in spare]
        sizes = {key: self.shown[key].tokens for key in loose}
        kept = until_full(reversed(loose), sizes.__getitem__, sum(sizes.values()) - excess)
        return loose[: len(loose) - len(kept)]


HEADING = "## Read-only files (do not modify these)\n\n"
"""What stands above the files."""

_LONGEST_TOKEN = 128
"""No token stands for more bytes than this: a larger file cannot fit, and need not be read."""


def _real(path: str | Path) -> Path:
    return Path(os.path.realpath(path))


@define(eq=False)
class ReadOnlyFiles:
    """Files that the model may read and must not change, within a budget of tokens.

    What does not fit pushes out what was used least, pinned files excepted; a file that was pushed out is no longer
    shown and still read-only. What changed on disk is read again by ``refresh``, and patterns are matched anew.

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
    _cache: FileCache = field(init=False, repr=False)
    _rules: dict[str, PatternRule] = field(factory=dict, init=False, repr=False)
    _removed: set[str] = field(factory=set, init=False, repr=False)
    _unreadable: dict[str, Stamp | None] = field(factory=dict, init=False, repr=False)
    _lock: Lock = field(factory=Lock, init=False, repr=False)

    def __attrs_post_init__(self) -> None:
        """Check the budget."""
        self._cache = FileCache(self.budget - self.counter.count(HEADING))
        if self._cache.room < 1:
            raise must_be("ReadOnlyFiles.budget", "so many tokens that there is room for a file", self.budget)

    @property
    def files(self) -> tuple[ReadOnlyFile, ...]:
        """The files that are shown, by name."""
        return tuple(sorted(self._cache.shown.values(), key=lambda file: file.name))

    @property
    def left_out(self) -> tuple[str, ...]:
        """The names of files that are read-only and not shown."""
        return tuple(sorted(file.name for file in self._cache.hidden.values()))

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
            self._check_place(path, key)
            file = await to_thread.run_sync(self._read, key, pinned, refresh)
            gone = self._cache.put(key, file)
            if gone is None:
                fixed = sum(each.tokens for each in self._cache.shown.values() if each.pinned)
                too_large = f"adding {file.tokens:,} tokens would exceed the budget of {self.budget:,} tokens"
                raise SourceError(file.name, f"{too_large} for read-only files, of which {fixed:,} are pinned")
            self._cache.use(key)
            self._removed.discard(key)
            return FilesChanged(added=(file.name,), left_out=gone)

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
        rule = PatternRule(pattern, Patterns.of([pattern]), pinned, refresh)
        async with self._lock:
            self._rules[pattern] = rule
            found = await to_thread.run_sync(self._found_by, rule)
            return await self._show([key for key in found if key not in self._removed], rule)

    def remove(self, path: str | Path) -> bool:
        """Let a file be changed again, also when a pattern fits it; whether it was read-only.

        Args:
            path: The file: an absolute path, or one relative to the root.

        Raises:
            SourceError: If no file can have this name.
        """
        was = self.is_read_only(path)
        key = self._key(path)
        self._cache.take(key)
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
        if self._cache.get(key) is not None:
            return True
        if key in self._removed:
            return False
        stamp = stamp_of(Path(key))
        known = (*self._cache.shown.values(), *self._cache.hidden.values())
        if stamp is not None and any(file.stamp is not None and file.stamp.file == stamp.file for file in known):
            return True
        written = os.path.normcase(os.path.abspath(self.root / path))  # noqa: PTH100 - it resolves no links, and is to
        below = (Path(each) for each in dict.fromkeys((key, written)))
        names = tuple(each.relative_to(self.root).as_posix() for each in below if each.is_relative_to(self.root))
        return any(rule.patterns.fits(name) for rule in self._rules.values() for name in names)

    def content(self, path: str | Path) -> str | None:
        """What is shown of a file, which is thereby used; None when it is not shown.

        Args:
            path: The file: an absolute path, or one relative to the root.

        Raises:
            SourceError: If no file can have this name.
        """
        key = self._key(path)
        if key not in self._cache.shown:
            return None
        self._cache.use(key)
        return self._cache.shown[key].content

    async def refresh(self) -> FilesChanged:
        """Read again what has changed on disk, match patterns anew, and show what there is room for again."""
        async with self._lock:
            changed = await self._reread()
            for rule in [rule for rule in self._rules.values() if rule.refresh]:
                found = await to_thread.run_sync(self._found_by, rule)
                fresh = await to_thread.run_sync(self._fresh, found)
                changed = _both(changed, await self._show(fresh, rule))
            hidden, room, back = self._cache.hidden, self._cache.room - self._cache.used, list[str]()
            for key in each_that_fits(hidden, lambda key: hidden[key].tokens, room):
                back.append(hidden[key].name)
                self._cache.put(key, hidden[key])
            left_out = tuple(name for name in changed.left_out if name not in back)
            return evolve(changed, added=(*changed.added, *back), left_out=left_out)

    def evict(self, max_tokens: int | None = None) -> tuple[str, ...]:
        """Push out what was used least until the block has at most ``max_tokens``; the names of what went."""
        room = self._cache.room if max_tokens is None else max_tokens - (self.budget - self._cache.room)
        return self._cache.shrink(room)

    def render(self) -> str:
        """The files as text for the model, by name; empty when there are none. Nothing in a file can end its fence."""
        files = self.files
        return HEADING + "".join(section(file.title, file.content) for file in files) if files else ""

    def stats(self) -> ReadOnlyStats:
        """What is shown."""
        shown = self._cache.shown
        tokens = self._cache.used + (self.budget - self._cache.room) if shown else 0
        pinned = sum(file.pinned for file in shown.values())
        return ReadOnlyStats(len(shown), pinned, len(self._cache.hidden), tokens, self.budget)

    async def _show(self, keys: Sequence[str], rule: PatternRule) -> FilesChanged:
        """Show files that a pattern found; the order of names decides who comes first."""
        added: list[str] = []
        left_out: list[str] = []
        failed: list[tuple[str, str]] = []
        shown: set[str] = set()
        for key in keys:
            try:
                file = await to_thread.run_sync(self._read, key, rule.pinned, rule.refresh)
            except SourceError as error:
                failed.append((self._name(key), error.what))
                self._unreadable[key] = stamp_of(Path(key))
                continue
            if key in self._removed:  # meanwhile
                continue
            gone = self._cache.put(key, file, shown)
            if gone is None:
                self._cache.hidden[key] = file
                left_out.append(file.name)
            else:
                shown.add(key)
                added.append(file.name)
                left_out.extend(gone)
        return FilesChanged(tuple(added), (), tuple(left_out), (), tuple(failed))

    async def _reread(self) -> FilesChanged:
        refreshed: list[str] = []
        left_out: list[str] = []
        vanished: list[str] = []
        failed: list[tuple[str, str]] = []
        for key, file in [*self._cache.shown.items(), *self._cache.hidden.items()]:
            stamp = await to_thread.run_sync(stamp_of, file.path)
            if not file.refresh or stamp == file.stamp:
                continue
            fresh, problem = None, ""
            if stamp is not None:
                try:
                    fresh = await to_thread.run_sync(self._read, key, file.pinned, file.refresh)
                except SourceError as error:
                    problem = error.what
            if self._cache.get(key) is None:  # it was removed meanwhile
                continue
            if fresh is not None:
                refreshed.append(file.name)
                left_out.extend(self._replace(key, fresh))
                continue
            if key in self._cache.shown:  # it is not shown any more; whoever writes it anew still must not
                self._cache.hide(key)
            self._cache.hidden[key] = evolve(self._cache.hidden[key], tokens=self._cache.room + 1, stamp=stamp)
            if problem:
                failed.append((file.name, problem))
            else:
                vanished.append(file.name)
        return FilesChanged((), tuple(refreshed), tuple(left_out), tuple(vanished), tuple(failed))

    def _replace(self, key: str, fresh: ReadOnlyFile) -> tuple[str, ...]:
        """New content of a file; the names of those that it left no room for, which may be its own."""
        if key in self._cache.hidden:
            self._cache.hidden[key] = fresh
            return ()
        gone = self._cache.put(key, fresh)
        if gone is not None:
            return gone
        name = self._cache.hide(key)
        self._cache.hidden[key] = fresh
        return (name,)

    def _fresh(self, keys: Sequence[str]) -> list[str]:
        """Those of the files that are not known yet; one that could not be read is new when it has changed."""
        return [
            key
            for key in keys
            if self._cache.get(key) is None
            and key not in self._removed
            and (key not in self._unreadable or self._unreadable[key] != stamp_of(Path(key)))
        ]

    def _found_by(self, rule: PatternRule) -> list[str]:
        parts = PurePath(rule.pattern).parts
        hidden = any(part.startswith(".") for part in parts)
        found = walk(self.root, gitignore=False, hidden=hidden, skipped=(SKIPPED | {".git"}) - set(parts))
        return [self._key(path) for path, _ in found if rule.patterns.fits(path)]

    def _read(self, key: str, pinned: bool, refresh: bool) -> ReadOnlyFile:  # noqa: FBT001 - called by a thread
        name = self._name(key)
        try:
            text, stamp = read_text(Path(key), self._cache.room * _LONGEST_TOKEN, self.root)
        except SourceError as error:
            raise SourceError(name, error.what) from error
        title, shown = (name, text) if self.redact is None else (self.redact(name, ""), self.redact(text, name))
        tokens = self.counter.count(section(title, shown))
        return ReadOnlyFile(name, title, Path(key), shown, tokens, stamp, pinned, refresh)

    def _key(self, path: str | Path) -> str:
        try:
            return os.path.normcase(os.path.realpath(self.root / path))
        except ValueError as error:
            raise SourceError(repr(str(path)), "cannot read it: no file can have this name") from error

    def _check_place(self, path: str | Path, key: str) -> None:
        """Refuse a name below the root that leads out of it: whoever made the link chose what the model reads."""
        written = os.path.normcase(os.path.abspath(self.root / path))  # noqa: PTH100 - it resolves no links, and is to
        if Path(written).is_relative_to(self.root) and not Path(key).is_relative_to(self.root):
            raise SourceError(str(path), "is a link that leads out of the root")

    def _name(self, key: str) -> str:
        path = Path(key)
        return path.relative_to(self.root).as_posix() if path.is_relative_to(self.root) else path.as_posix()


def _both(one: FilesChanged, other: FilesChanged) -> FilesChanged:
    return FilesChanged(
        (*one.added, *other.added),
        (*one.refreshed, *other.refreshed),
        (*one.left_out, *other.left_out),
        (*one.vanished, *other.vanished),
        (*one.failed, *other.failed),
    )
