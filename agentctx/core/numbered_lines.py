"""Lines with numbers before them, as reading tools put them there, and what the lines say without."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby

_NUMBER = r"[ \t]{0,12}(\d{1,7})(?:→|\t|:(?!\d)| ?\| ?)"
_NUMBERED = re.compile(_NUMBER)
"""The number that a tool puts before a line; a time of day is none."""
_TWO = re.compile(rf"\n{_NUMBER}[^\n]*\n{_NUMBER}")
"""Two such lines, looked for in a text at a glance."""

IN_A_ROW = 3
"""So many lines with numbers that follow each other are taken for numbered."""

_FORMS = tuple((behind, width) for behind in ("→", "\t", ":", "| ", "|", " | ") for width in (0, 6))
"""What tools put behind a number, and how many characters it has with the blanks before it, or more."""


def said(lines: list[str]) -> list[str]:
    r"""What lines say without the numbers before them, where so many in a row are numbered; else the lines themselves.

    Example:
        >>> from agentctx.core.numbered_lines import said
        >>> said(["4\tdef f():", "5\t    return 1", "6\t", "7 files"])
        ['def f():', '    return 1', '', '7 files']
    """
    if _TWO.search("\n".join(("", *lines))) is None:
        return lines
    return _all_numbered(lines) or _some_numbered(lines)


def _all_numbered(lines: list[str]) -> list[str]:
    """The same where each line is numbered as reading tools do it: most are, and it takes a third of the time."""
    first = _NUMBERED.match(lines[0])
    behind = "" if first is None else lines[0][first.end(1) : first.end()]
    if first is None or behind not in ("→", "\t") or len(lines) < IN_A_ROW:
        return []
    parts = [line.partition(behind) for line in lines]
    number = int(first[1])
    if [part[0].lstrip(" ") for part in parts] != list(map(str, range(number, number + len(lines)))):
        return []
    return [part[2] for part in parts]


def _some_numbered(lines: list[str]) -> list[str]:
    """The same where some are, with what stands before and behind them."""
    marks = list(map(_NUMBERED.match, lines))
    firsts = [None if mark is None else int(mark[1]) - place for place, mark in enumerate(marks)]
    bare: list[str] = []
    for first, run in groupby(range(len(lines)), firsts.__getitem__):
        places = list(run)
        numbered = first is not None and len(places) >= IN_A_ROW
        bare += (lines[place][mark.end() if numbered and (mark := marks[place]) else 0 :] for place in places)
    return bare


def number_of(line: str) -> int | None:
    """The number that stands before a line, if one does."""
    mark = _NUMBERED.match(line)
    return None if mark is None else int(mark[1])


def numbered(lines: Sequence[str], first: int | None, like: str | None = None) -> Iterator[list[str]]:
    r"""What lines may look like in a tool's output that numbers them, or that does not.

    Args:
        lines: The lines, with numbers or without.
        first: The number of the first; None: without numbers.
        like: A line that is numbered as they are, if one is known.

    Example:
        >>> from agentctx.core.numbered_lines import numbered
        >>> list(numbered(["4: a", "5: b", "6: c"], 41))[2]
        ['41\ta', '42\tb', '43\tc']
    """
    bare = said(list(lines))
    if first is None:
        yield bare
        return
    for behind, width in _FORMS if like is None else _form_of(like):
        yield [f"{number:>{width}}{behind}{line}" for number, line in enumerate(bare, first)]


def _form_of(line: str) -> Iterator[tuple[str, int]]:
    """What stands behind the number of a line, and how wide that is; nothing where no tool that is known does it so."""
    mark = _NUMBERED.match(line)
    if mark is not None:
        form = line[mark.end(1) : mark.end()], 0 if mark.start(1) == 0 else mark.end(1)
        yield from (form,) if form in _FORMS else ()
