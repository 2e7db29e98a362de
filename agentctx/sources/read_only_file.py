"""A file that the model may read and must not change, and what became of several."""

from __future__ import annotations

from pathlib import Path

from attrs import field, frozen

from agentctx.sources.pathspec import Patterns
from agentctx.sources.read_file import Stamp


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
    """Files that are read-only because a pattern fits them.

    Args:
        pattern: The pattern, as it was given.
        patterns: The same, read.
        pinned: Whether they are never evicted.
        refresh: Whether they are read again when they have changed.
    """

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
