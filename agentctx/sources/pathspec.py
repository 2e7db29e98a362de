"""Patterns as ``.gitignore`` has them. The one file that knows the library pathspec (extra ``sources``)."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache
from typing import Protocol

from attrs import frozen

from agentctx.core.message import Native
from agentctx.errors import SourceError

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
        except ModuleNotFoundError as error:
            raise SourceError("patterns", "they need pathspec: pip install 'agentctx[sources]'") from error
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
            chunk += ("(?!/)" if found.lastgroup == "set" else "") + found[0]
    return whole + ("[^/]*" if star else "") + chunk
