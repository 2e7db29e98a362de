"""The numbers that tools put before the lines of their output: read, written in another form, and left out."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import sub

from agentctx.lazy import lazy_pattern

_NUMBERED = re.compile(r"[ \t]{0,12}(\d{1,7})(?:→|\t|:(?!\d)| ?\| ?)")
"""The number that a tool puts before a line; a time of day is none."""


IN_A_ROW = 3
"""So many lines with numbers that follow each other are taken for numbered."""


_FORMS = tuple((behind, width) for behind in ("→", "\t", ":", "| ", "|", " | ") for width in (0, 6))
"""What tools put behind a number, and how many characters it has with the blanks before it, or more."""


def unnumbered(lines: list[str]) -> list[str]:
    r"""What lines say without the numbers before them, where so many in a row are numbered; else the lines themselves.

    Example:
        >>> from agentctx.line_numbers import unnumbered
        >>> unnumbered(["4\tdef f():", "5\t    return 1", "6\t", "7 files"])
        ['def f():', '    return 1', '', '7 files']
    """
    marks = list(map(_NUMBERED.match, lines))
    firsts = [None if mark is None else int(mark[1]) - place for place, mark in enumerate(marks)]
    bare: list[str] = []
    for first, run in groupby(range(len(lines)), firsts.__getitem__):
        places = list(run)
        in_a_row = first is not None and len(places) >= IN_A_ROW
        bare += (lines[place][number.end() if in_a_row and (number := marks[place]) else 0 :] for place in places)
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
        >>> from agentctx.line_numbers import numbered
        >>> list(numbered(["4: a", "5: b", "6: c"], 41))[2]
        ['41\ta', '42\tb', '43\tc']
    """
    bare = unnumbered(list(lines))
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


_CAT_N = lazy_pattern(r"\n( {1,5}\d{1,5})[→\t]")


_BEFORE_NUMBERS = lazy_pattern(r"\n {1,5}(?=\d{1,5}[→\t])")


_NUMBERS_HEAD = lazy_pattern(r"([1-9]\d{0,4})([→\t])")


_EACH = 10


_FEWEST = 4
"""Lines; in fewer all but one keep their number."""


def without_blanks(text: str) -> str:
    """Return a text without the blanks before its line numbers, where these count from line to line as of ``cat -n``.

    Args:
        text: Any text; one that is numbered otherwise, or not at all, is returned as it is.
    """
    heads = _CAT_N.findall(f"\n{text}")  # each line has an end before it, which is looked for faster than its start
    if len(heads) < 3 or set(map(len, heads)) != {6}:
        return text
    numbers = list(map(int, heads))
    steps = list(map(sub, numbers[1:], numbers))
    if steps.count(1) * 10 < len(steps) * 9:
        return text
    return _BEFORE_NUMBERS.sub("\n", f"\n{text}")[1:]


def few_numbers(text: str) -> str:
    r"""A text as ``without_blanks`` gives it; of lines in a row only the first, the last and each tenth have numbers.

    These tell the others' (``between``): no text is made shorter that would read in another way then.

    Example:
        >>> from agentctx.line_numbers import few_numbers
        >>> lines = [f"{number:>6}\tline" for number in range(8, 14)]
        >>> few_numbers("\n".join(lines)).split("\n")
        ['8\tline', 'line', '10\tline', 'line', 'line', '13\tline']
    """
    bare = without_blanks(text)
    if bare == text:  # a line of ``cat -n`` has blanks before its number
        return text
    lines = bare.split("\n")
    heads = list(map(_NUMBERS_HEAD.match, lines))
    if any(between(lines)):
        return bare
    firsts = [None if head is None else (int(head[1]) - place, head[2]) for place, head in enumerate(heads)]
    for first, run in groupby(range(len(lines)), firsts.__getitem__):
        places = list(run)
        if first is None or len(places) < _FEWEST:
            continue
        bare_lines = {
            place: lines[place][head.end() :]
            for place in places[1:-1]
            if (head := heads[place]) is not None and head[1][-1] != "0"
        }
        if not any(map(_NUMBERS_HEAD.match, bare_lines.values())):
            for place, line in bare_lines.items():
                lines[place] = line
    return "\n".join(lines)


def between(lines: Sequence[str]) -> Iterator[range]:
    """The places of lines without a number whose number those before and behind them tell."""
    before, number, sign = -1, 0, ""
    for place, line in enumerate(lines):
        head = _NUMBERS_HEAD.match(line)
        if head is None:
            continue
        now = int(head[1])
        if 1 < place - before == now - number and sign == head[2] and number // _EACH == (now - 1) // _EACH:
            yield range(before + 1, place)
        before, number, sign = place, now, head[2]
