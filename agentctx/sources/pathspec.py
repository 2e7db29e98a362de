"""Patterns as ``.gitignore`` has them. The one file that knows the library pathspec (extra ``sources``)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from attrs import frozen

from agentctx.errors import SourceError


class _Matcher(Protocol):
    def check_file(self, file: str) -> _Checked: ...


class _Checked(Protocol):
    @property
    def include(self) -> bool | None: ...


@frozen
class Patterns:
    """Patterns in the language of ``.gitignore``; the last one that fits a path decides.

    Args:
        matcher: Matches paths.
    """

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
        except ModuleNotFoundError as error:
            raise SourceError("patterns", "they need pathspec: pip install 'agentctx[sources]'") from error
        wanted = []
        for line in lines:
            try:
                read = GitIgnoreSpec.from_lines([line])
            except ValueError as error:
                if not lenient:
                    raise _wrong(line, str(error)) from error
                continue
            if not lenient and all(pattern.include is None for pattern in read.patterns):
                raise _wrong(line, "can fit no path")
            wanted.append(line)
        return cls(GitIgnoreSpec.from_lines(wanted))

    def fits(self, path: str) -> bool | None:
        """Whether the path is meant: False when a pattern with ``!`` takes it out again, None when no pattern fits.

        Args:
            path: A path below the folder of the patterns, with slashes; a folder ends with one.
        """
        return self.matcher.check_file(path).include


def _wrong(pattern: str, what: str) -> SourceError:
    where = f"pattern {pattern!r}"
    return SourceError(where, what)
