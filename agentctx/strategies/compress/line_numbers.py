"""Line numbers, as reading tools put them before lines: where they count on, every tenth tells what the others are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import groupby, pairwise

_NUMBERED = re.compile(r"\n( {1,5}\d{1,5})[→\t]")
_BEFORE_NUMBERS = re.compile(r"\n {1,5}(?=\d{1,5}[→\t])")
_HEAD = re.compile(r"([1-9]\d{0,4})([→\t])")
_EACH = 10
_FEWEST = 4
"""Lines; in fewer all but one keep their number."""


def without_blanks(text: str) -> str:
    """A text without the blanks before its line numbers, where these count on from line to line as ``cat -n`` does."""
    if "→" not in text and "\t" not in text:
        return text
    behind = f"\n{text}"  # each line has an end before it: that is looked for faster than where a line begins
    found = _NUMBERED.findall(behind)
    if len(found) < 3 or set(map(len, found)) != {6}:
        return text
    steps = [after - before for before, after in pairwise(map(int, found))]
    return _BEFORE_NUMBERS.sub("\n", behind)[1:] if steps.count(1) * 10 >= len(steps) * 9 else text


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
    bare = without_blanks(text)
    if bare is text:
        return text
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
