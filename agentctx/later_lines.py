"""Which lines of texts stand in a later text once more, and whether they still do.

Lines are compared by what they say: the numbers that reading tools put before them are no part of it. It takes time
that grows with the number of lines: a line that stands nowhere else ends every run, and of the others all runs of one
length are kept, each with a few places.

The mark that stands for them has their checksum, by which they are found again in what is sent (``Later``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import count, groupby
from typing import NamedTuple
from zlib import crc32

from attrs import define, field

from agentctx.marks import (
    LATER,
    SHOWN_AGAIN,
    fold,
    has_marks,
    said,
    spans_of,
    stands_for_more,
    text_in,
    text_of,
    without_references,
)
from agentctx.message import Message, Part, Text, ToolResult

SHORT = range(2, 8)
"""Texts of so few lines are looked for as a whole; one line may stand in another text by chance."""


NEWEST = 4
"""Of so many places where lines stand later, the latest ones, the one is looked for where most of them do."""

_Windows = dict[tuple[int, ...], list[tuple[list[int], int]]]
"""Where lines of some number stand: in which texts, and from which line on."""


def later_runs(texts: Sequence[str], min_lines: int) -> list[list[range]]:
    r"""For each text the runs of its lines of which each stands together in a later text.

    Args:
        texts: The texts, oldest first.
        min_lines: The fewest lines of a run; a ``SHORT`` text of fewer lines is one where all of it is there.

    Example:
        >>> from agentctx.later_lines import later_runs
        >>> later_runs(["one\ntwo\nthree", "zero\none\ntwo"], 2)
        [[range(0, 2)], []]
    """
    numbers: dict[str, int] = {}
    apart = count(-1, -1)  # what stands for other lines stands nowhere else: there it might be for others
    read = [
        [
            next(apart) if stands_for_more(line) else numbers.setdefault(line, len(numbers))
            for line in said(_lines(text))
        ]
        for text in texts
    ]
    times = Counter(number for text in read for number in text)
    lengths = {min_lines, *(len(text) for text in read if len(text) in SHORT and len(text) < min_lines)}
    later: _Windows = {}
    found: list[list[range]] = []
    for text in read[::-1]:
        repeated = [times[number] > 1 for number in text]
        stretches = [list(run) for is_repeated, run in groupby(range(len(text)), repeated.__getitem__) if is_repeated]
        ranges = [range(places[0], places[-1] + 1) for places in stretches]
        found.append(_found(text, ranges, later, min_lines))
        for places in ranges:
            for length in lengths:
                for start in range(places.start, places.stop - length + 1):
                    known = later.setdefault(tuple(text[start : start + length]), [])
                    if len(known) < NEWEST:
                        known.append((text, start))
    return found[::-1]


def _lines(text: str) -> list[str]:
    """The lines of a text, but for blank ones at its end."""
    lines = text.split("\n")
    while len(lines) > 1 and not lines[-1]:
        lines.pop()
    return lines


def _found(text: list[int], stretches: list[range], later: _Windows, min_lines: int) -> list[range]:
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
    return [each for run in runs for each in _together(text, range(run[0], run[-1] + 1), later, min_lines)]


def _together(text: list[int], run: range, later: _Windows, length: int) -> Iterator[range]:
    """The lines of a run in pieces of which each stands together in a later text."""
    place = run.start
    while place < run.stop:
        start = next(at for at in range(place, run.start - 1, -1) if tuple(text[at : at + length]) in later)
        stop = max(_stop(text, start, run.stop, *where) for where in later[tuple(text[start : start + length])])
        yield range(place, stop)
        place = stop


def _stop(text: list[int], start: int, most: int, other: list[int], there: int) -> int:
    """Up to where a text says what another says from ``there`` on."""
    stop, most = start, min(most, start + len(other) - there)
    while stop < most and text[stop] == other[there + stop - start]:
        stop += 1
    return stop


class Meant(NamedTuple):
    """What a text stands for that says of it that it is shown again later.

    Args:
        lines: How many lines; 0: all that a result says.
        checksum: Of what is meant.
        reminder: Whether it is a reminder.
    """

    lines: int
    checksum: str
    reminder: bool = False

    @property
    def mark(self) -> str:
        """The text."""
        lines = f"{self.lines:,} line{'s' * (self.lines > 1)} "
        what = "reminder " if self.reminder else lines if self.lines else ""
        return f"[{what}{SHOWN_AGAIN} #{self.checksum}]"

    def gone(self, pointer: str) -> list[str]:
        """What stands for what is not shown any more, the longest first."""
        if self.lines:
            return [fold(self.lines, pointer), fold(self.lines), SHORTEST]
        what = "a reminder" if self.reminder else "an output"
        return [f"[{what} that is left out{pointer}]", f"[{what} that is left out]", SHORTEST]


SHORTEST = "[…]"
"""What stands for something that is left out where nothing else has as few tokens."""


class MarkPlace(NamedTuple):
    """Where a mark stands in a text for lines that are shown again later.

    Args:
        start: Its first character.
        stop: The first one after it.
        meant: What it stands for.
        pointer: How to get that back.
        length: How many characters that has.
    """

    start: int
    stop: int
    meant: Meant
    pointer: str
    length: int


def marks_in(text: Text) -> Iterator[MarkPlace]:
    """The marks in a text for what is shown again later, the last first; a text that is in no codes."""
    for start, stop, mark in reversed(spans_of(text)):
        found = LATER.fullmatch(mark.text)
        if found is not None:
            lines = int((found["lines"] or "0").replace(",", "") or 0)
            meant = Meant(lines, found["sum"], bool(found["reminder"]))
            yield MarkPlace(start, stop, meant, found["pointer"], mark.length)


def checksum_of(text: str) -> str:
    """A checksum of a text."""
    return f"{crc32(text.encode(errors='surrogatepass')) % 10**6:06}"  # few tokens


def content_checksum(text: str, result: ToolResult) -> str:
    """A checksum of what a result says, of which all text is ``text``."""
    return checksum_of("\0".join([text, *(repr(part) for part in result.content if not isinstance(part, Text))]))


def lines_checksum(lines: Sequence[str], read: Sequence[str]) -> str:
    """Checksums of the first of some lines, of all, and of the numbers before them.

    Args:
        lines: The lines as they stand.
        read: What they say.
    """
    return f"{_first(read[0])}{_Sums(read).of(0, len(read))}{_as_they_stand(lines)}"


def _as_they_stand(lines: Sequence[str]) -> str:
    return checksum_of("\n".join(lines))[-3:]


def _first(line: str) -> str:
    return f"{crc32(line.encode(errors='surrogatepass')) % 1_000:03}"


_PRIME, _BASE = 2**61 - 1, 1_000_003


class _Sums:
    """Checksums of any lines in a row of a text, each in the same time."""

    def __init__(self, lines: Iterable[str]) -> None:
        self.upto = [0]
        for line in lines:
            self.upto.append((self.upto[-1] * _BASE + crc32(line.encode(errors="surrogatepass")) + 1) % _PRIME)

    def of(self, start: int, length: int) -> str:
        """Of so many lines."""
        return f"{(self.upto[start + length] - self.upto[start] * _power(length)) % _PRIME % 10**6:06}"


@lru_cache(maxsize=4_096)
def _power(length: int) -> int:
    return pow(_BASE, length, _PRIME)


def texts_of(messages: Sequence[Message]) -> list[list[str]]:
    """The text of each result of each message, with codes and references in it written out."""
    if not has_marks(messages):
        return [[result.text for result in message.results] for message in messages]
    wholes = without_references(messages)
    return [
        [text_of(each).text if text_in(each) is None else "\n".join(next(wholes)) for each in message.results]
        for message in messages
    ]


@define(eq=False, repr=False)
class Later:
    """What some texts stand for, as far as it is found in the results that it is told of.

    Args:
        wanted: What is looked for.
        found: What was found: a text, or for all that a result says its parts; None where that cannot be put back.
    """

    wanted: Collection[Meant]
    found: dict[Meant, str | tuple[Part, ...] | None] = field(factory=dict)
    _starts: dict[str, dict[int, dict[str, list[Meant]]]] = field(factory=dict)

    def __attrs_post_init__(self) -> None:
        """Look for lines by the first of them, then by how many they are, then by what all say."""
        for meant in self.wanted:
            if meant.lines:
                lengths = self._starts.setdefault(meant.checksum[:3], {})
                lengths.setdefault(meant.lines, {}).setdefault(meant.checksum[3:9], []).append(meant)

    def add(self, result: ToolResult, text: str, reminders: Iterable[str]) -> None:
        """Be told of a result, its text, and the reminders in that."""
        for reminder in reminders:
            self._keep(Meant(0, checksum_of(reminder), reminder=True), reminder)
        is_text = len(result.content) == 1 and isinstance(result.content[0], Text)
        parts = (Text(text, marks=result.marks),) if is_text else result.content
        self._keep(Meant(0, content_checksum(text, result)), parts)
        if self._starts:
            self._look_for_lines(text.split("\n"))

    def _keep(self, meant: Meant, content: str | tuple[Part, ...]) -> None:
        if meant in self.wanted:
            self.found.setdefault(meant, content)

    def _look_for_lines(self, lines: list[str]) -> None:
        read, sums = said(lines), None
        for place, line in enumerate(read):
            for length, by_sum in self._starts.get(_first(line), {}).items():
                if place + length <= len(lines):
                    sums = sums or _Sums(read)
                    for meant in by_sum.get(sums.of(place, length), ()):
                        self._keep_lines(meant, lines[place : place + length], read[place : place + length])

    def _keep_lines(self, meant: Meant, lines: list[str], read: list[str]) -> None:
        """Keep lines; where those that were meant have other numbers before them, without a text."""
        texts = ("\n".join(each) for each in (lines, read) if _as_they_stand(each) == meant.checksum[9:])
        self.found[meant] = self.found.get(meant) or next(texts, None)
