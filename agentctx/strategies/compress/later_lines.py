"""Which lines of texts stand in a later text once more.

Lines are compared by what they say: the numbers that reading tools put before them are no part of it. It takes time
that grows with the number of lines: a line that stands nowhere else ends every run, and of the others all runs of one
length are kept in a set.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from agentctx.core.pace import paced

_NUMBERED = re.compile(r"[ \t]{0,12}(\d{1,7})(?:→|\t|:(?!\d)| ?\| ?)")
"""The number that a tool puts before a line; a time of day is none."""

IN_A_ROW = 3
"""So many lines with numbers that follow each other are taken for numbered."""

SHORT = range(2, 8)
"""Texts of so few lines are looked for as a whole; one line may stand in another text by chance."""


def said(lines: Sequence[str]) -> list[str]:
    """What lines say without the numbers before them, where so many in a row are numbered."""
    marks = [_NUMBERED.match(line) for line in lines]
    firsts = [None if mark is None else int(mark[1]) - place for place, mark in enumerate(marks)]
    found: list[str] = []
    for first, run in groupby(range(len(lines)), firsts.__getitem__):
        places = list(run)
        numbered = first is not None and len(places) >= IN_A_ROW
        found += (lines[place][mark.end() if numbered and (mark := marks[place]) else 0 :] for place in places)
    return found


def later_runs(texts: Sequence[str], min_lines: int) -> list[list[range]]:
    r"""For each text the runs of its lines that stand together in later texts.

    Args:
        texts: The texts, oldest first.
        min_lines: The fewest lines of a run; a ``SHORT`` text of fewer lines is one where all of it is there.

    Example:
        >>> from agentctx.strategies.compress.later_lines import later_runs
        >>> later_runs(["one\ntwo\nthree", "zero\none\ntwo"], 2)
        [[range(0, 2)], []]
    """
    numbers: dict[str, int] = {}
    read = [[numbers.setdefault(line, len(numbers)) for line in said(_lines(text))] for text in paced(texts)]
    times = Counter(number for text in read for number in text)
    lengths = {min_lines, *(len(text) for text in read if len(text) in SHORT and len(text) < min_lines)}
    later: set[tuple[int, ...]] = set()
    found: list[list[range]] = []
    for text in paced(read[::-1]):
        repeated = [times[number] > 1 for number in text]
        stretches = [list(run) for is_repeated, run in groupby(range(len(text)), repeated.__getitem__) if is_repeated]
        ranges = [range(places[0], places[-1] + 1) for places in stretches]
        found.append(_found(text, ranges, later, min_lines))
        for places in ranges:
            later.update(
                tuple(text[start : start + length])
                for length in lengths
                for start in range(places.start, places.stop - length + 1)
            )
    return found[::-1]


def _lines(text: str) -> list[str]:
    """The lines of a text, but for blank ones at its end."""
    lines = text.split("\n")
    while len(lines) > 1 and not lines[-1]:
        lines.pop()
    return lines


def _found(text: list[int], stretches: list[range], later: set[tuple[int, ...]], min_lines: int) -> list[range]:
    """The runs of a text that are among those of later ones."""
    if len(text) < min_lines:
        return [range(len(text))] if len(text) in SHORT and tuple(text) in later else []
    there = bytearray(len(text))
    whole = b"\1" * min_lines
    for places in stretches:
        for start in range(places.start, places.stop - min_lines + 1):
            if tuple(text[start : start + min_lines]) in later:
                there[start : start + min_lines] = whole
    runs = [list(run) for is_there, run in groupby(range(len(text)), there.__getitem__) if is_there]
    return [range(run[0], run[-1] + 1) for run in runs]
