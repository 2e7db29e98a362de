"""Line numbers, as reading tools put them before lines: what lines say without them, and how few of them tell all."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import sub

from agentctx.lazy import lazy_pattern

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
        in_a_row = first is not None and len(places) >= IN_A_ROW
        bare += (lines[place][mark.end() if in_a_row and (mark := marks[place]) else 0 :] for place in places)
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


_CAT_N = lazy_pattern(r"\n( {1,5}\d{1,5})[→\t]")
_BEFORE_NUMBERS = lazy_pattern(r"\n {1,5}(?=\d{1,5}[→\t])")
_UNTOLD = lazy_pattern(r"\n\d*+(?<=[1-9])[→\t]")
_TWICE = lazy_pattern(r"\n\d++[→\t][1-9]\d{0,4}[→\t]")
_HEAD = lazy_pattern(r"([1-9]\d{0,4})([→\t])")
_EACH = 10
_FEWEST = 4
"""Lines; in fewer all but one keep their number."""


def without_blanks(text: str) -> str:
    """A text without the blanks before its line numbers, where these count on from line to line as ``cat -n`` does."""
    return _bare(text) if _numbers(text) else text


def _numbers(text: str) -> list[int]:
    """The line numbers of a text that is numbered as ``cat -n`` does; else none."""
    if "→" not in text and "\t" not in text:
        return []
    found = _CAT_N.findall(f"\n{text}")  # each line has an end before it, which is looked for faster than its start
    if len(found) < 3 or set(map(len, found)) != {6}:
        return []
    numbers = list(map(int, found))
    steps = list(map(sub, numbers[1:], numbers))
    return numbers if steps.count(1) * 10 >= len(steps) * 9 else []


def _bare(text: str) -> str:
    return _BEFORE_NUMBERS.sub("\n", f"\n{text}")[1:]


def few_numbers(text: str) -> str:
    r"""A text as ``without_blanks`` gives it; of lines in a row only the first, the last and each tenth have numbers.

    These tell the others' (``between``): no text is made shorter that would read in another way then.

    Example:
        >>> from agentctx.core.numbered_lines import few_numbers
        >>> lines = [f"{number:>6}\tline" for number in range(8, 14)]
        >>> few_numbers("\n".join(lines)).split("\n")
        ['8\tline', 'line', '10\tline', 'line', 'line', '13\tline']
    """
    numbers = _numbers(text)
    if not numbers:
        return text
    bare = _bare(text)
    if _is_one_run(bare, numbers):  # as most are: the same, quicker
        start, stop = bare.index("\n"), bare.rindex("\n")
        return bare[:start] + _UNTOLD.sub("\n", bare[start:stop]) + bare[stop:]
    lines = bare.split("\n")
    heads = list(map(_HEAD.match, lines))
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
        if not any(map(_HEAD.match, bare_lines.values())):
            for place, line in bare_lines.items():
                lines[place] = line
    return "\n".join(lines)


def _is_one_run(bare: str, numbers: Sequence[int]) -> bool:
    """Whether all lines are numbered in a row, and none looks numbered without its number."""
    if not _FEWEST <= len(numbers) == bare.count("\n") + 1 or ("→" in bare and "\t" in bare) or numbers[0] < 1:
        return False
    return numbers == list(range(numbers[0], numbers[-1] + 1)) and _TWICE.search(bare) is None


def between(lines: Sequence[str]) -> Iterator[range]:
    """The places of lines without a number whose number those before and behind them tell."""
    before, number, sign = -1, 0, ""
    for place, line in enumerate(lines):
        head = _HEAD.match(line)
        if head is None:
            continue
        now = int(head[1])
        if 1 < place - before == now - number and sign == head[2] and number // _EACH == (now - 1) // _EACH:
            yield range(before + 1, place)
        before, number, sign = place, now, head[2]
