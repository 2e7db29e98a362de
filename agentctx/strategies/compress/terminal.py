"""What a terminal shows of an output: colours gone, and lines that were written over as they ended up."""

from __future__ import annotations

import re
from itertools import pairwise
from unicodedata import combining, east_asian_width

_TALK = re.compile(
    r"\x1b(?:\[[0-9;:]*m|\[\?(?:25|7|12|1004|2004|2026)[hl]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>])"
)
"""Colours, titles, links, and whether the cursor shows: nothing that a reader of the text would see."""

_MOVES = re.compile(r"\x1b\[(\d*)([A-GK])|([\r\n\b\t])|([^\x1b\r\n\b\t]+)|(.)", re.DOTALL)

_REDRAWN = re.compile(
    r"\d ?%|\d/\d|\d ?[kKMG]i?B|\[[=#>. -]*\]|[\u2800-\u28ff]|[\u2588-\u258f]|^[|/\\-] |[|/\\-]$|\.\.\.|^\s*$"
)
"""What stands in a line that a program draws again and again."""

_UP_OR_DOWN = re.compile(r"\x1b\[\d*[ABEF]")

_MOVED = re.compile(r"[\x1b\b]|\r[^\r]")

_TAB = 8

_WIDEST = 200
"""Columns; a cursor that goes further beyond what is written is not followed."""


def shown(text: str) -> str:
    """The text as a terminal of any width and length shows it in the end.

    Colours, titles and links go; what returns to the start of a line, moves the cursor within lines, or up, and
    erases, is carried out. A text that does more, such as one of a full-screen program, is given as it is, and so is
    one whose carriage returns look like ends of lines.

    Example:
        >>> from agentctx.strategies.compress.terminal import shown
        >>> shown(" 10%" + chr(13) + " 55%" + chr(13) + "100%")
        '100%'
    """
    plain = _TALK.sub("", text) if "\x1b" in text else text
    if "\x1b" not in plain and "\b" not in plain and not _is_drawn_over(plain):
        return plain
    drawn = _drawn(plain)
    return drawn if drawn and len(drawn) <= 2 * len(text) else text


def _drawn(plain: str) -> str | None:
    """A text with its moves of the cursor carried out; None where they are not known here."""
    if _UP_OR_DOWN.search(plain):
        return _Screen().after(plain.replace("\r\n", "\n"))
    drawn = [_Screen().after(line) if _MOVED.search(line) else line for line in plain.split("\n")]
    known = [line for line in drawn if line is not None]
    return "\n".join(known) if len(known) == len(drawn) else None


def _is_drawn_over(text: str) -> bool:
    """Whether some line has carriage returns in it, and all such lines look as if they were drawn again and again."""
    if "\r" not in text:
        return False
    inside = [line for line in text.replace("\r\n", "\n").split("\n") if "\r" in line.rstrip("\r")]
    return bool(inside) and all(map(_looks_redrawn, inside))


def _looks_redrawn(line: str) -> bool:
    states = line.strip("\r").split("\r")
    alike = all(one[:4] == other[:4] for one, other in pairwise(states))
    return alike or sum(_REDRAWN.search(state) is not None for state in states) * 2 >= len(states)


class _Screen:
    """Lines of cells, and a cursor."""

    def __init__(self) -> None:
        self.lines: list[list[str]] = [[]]
        self.row = self.column = 0

    def after(self, text: str) -> str | None:
        """What is to be seen after a text; None where that does what is not known here."""
        for found in _MOVES.finditer(text):
            number, move, blank, words, unknown = found.groups()
            if unknown or not (self.go(number, move) if move else True):
                return None
            if blank:
                self.blank(blank)
            elif words:
                self.write(words)
        return "\n".join("".join(line).rstrip(" ") if line else "" for line in self.lines)

    def blank(self, blank: str) -> None:
        if blank == "\n":
            self.row, self.column = self.row + 1, 0
            if self.row == len(self.lines):
                self.lines.append([])
        elif blank == "\r":
            self.column = 0
        elif blank == "\b":
            self.column = max(0, self.column - 1)
        elif self.column == len(self.lines[self.row]):
            self.write(" " * (_TAB - self.column % _TAB))
        else:
            self.column += _TAB - self.column % _TAB

    def go(self, number: str, move: str) -> bool:
        """Move the cursor, or erase; whether that is known here."""
        steps = max(1, int(number[:6] or 1))
        if move == "K":
            return self.erase(number or "0")
        if move in "AEFB":
            self.row += steps if move in "EB" else -steps
            self.column = self.column if move in "AB" else 0
        else:
            self.column = {"C": self.column + steps, "D": max(0, self.column - steps), "G": steps - 1}[move]
        return 0 <= self.row < len(self.lines) and self.column <= max(len(self.lines[self.row]), _WIDEST)

    def erase(self, what: str) -> bool:
        line = self.lines[self.row]
        if what == "0":
            del line[self.column :]
        elif what == "1":
            line[: self.column + 1] = [" "] * min(len(line), self.column + 1)
        else:
            line.clear()
        return what in ("0", "1", "2")

    def write(self, words: str) -> None:
        line = self.lines[self.row]
        if len(line) < self.column:
            line.extend(" " * (self.column - len(line)))
        cells = list(words) if words.isascii() else _cells(words, line)
        end = self.column + len(cells)
        if self.column < len(line) and not line[self.column]:
            line[self.column - 1] = " "
        if end < len(line) and not line[end]:
            line[end] = " "
        line[self.column : end] = cells
        self.column = end


def _cells(words: str, line: list[str]) -> list[str]:
    """A cell a column: an empty one behind what is two columns wide; what combines is with what is before it."""
    cells: list[str] = []
    for character in words:
        if combining(character) or character in "\u200d\ufe0f":
            before = cells or line
            if before:
                before[-1] += character
            continue
        cells.append(character)
        if east_asian_width(character) in "WF":
            cells.append("")
    return cells
