"""Line numbers, as reading tools put them before lines: where they count on, every tenth tells what the others are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby
from operator import sub

_NUMBERED = re.compile(r"\n( {1,5}\d{1,5})[→\t]")
_BEFORE_NUMBERS = re.compile(r"\n {1,5}(?=\d{1,5}[→\t])")
_UNTOLD = re.compile(r"\n\d*+(?<=[1-9])[→\t]")
_TWICE = re.compile(r"\n\d++[→\t][1-9]\d{0,4}[→\t]")
_HEAD = re.compile(r"([1-9]\d{0,4})([→\t])")
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
    found = _NUMBERED.findall(f"\n{text}")  # each line has an end before it, which is looked for faster than its start
    if len(found) < 3 or set(map(len, found)) != {6}:
        return []
    numbers = list(map(int, found))
    steps = list(map(sub, numbers[1:], numbers))
    return numbers if steps.count(1) * 10 >= len(steps) * 9 else []


def _bare(text: str) -> str:
    return _BEFORE_NUMBERS.sub("\n", f"\n{text}")[1:]


def tenths(text: str) -> str:
    r"""The same, and of lines in a row only the first, the last and each tenth line of the file with their numbers.

    ``all_numbers`` gives the others theirs again: no text is made shorter so that would read in another way then.

    Example:
        >>> from agentctx.strategies.compress.line_numbers import all_numbers, tenths
        >>> lines = [f"{number:>6}\tline" for number in range(8, 14)]
        >>> tenths("\n".join(lines)).split("\n")
        ['8\tline', 'line', '10\tline', 'line', 'line', '13\tline']
        >>> all_numbers(tenths("\n".join(lines))).split("\n")[-2]
        '12\tline'
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
        said = {
            place: lines[place][head.end() :]
            for place in places[1:-1]
            if (head := heads[place]) is not None and head[1][-1] != "0"
        }
        if not any(map(_HEAD.match, said.values())):
            for place, line in said.items():
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


def all_numbers(text: str) -> str:
    """A text with a number before each line whose number others tell."""
    lines = text.split("\n")
    for places in list(between(lines)):
        head = _HEAD.match(lines[places.start - 1])
        if head is not None:
            for place in places:
                lines[place] = f"{int(head[1]) + place - places.start + 1}{head[2]}{lines[place]}"
    return "\n".join(lines)
