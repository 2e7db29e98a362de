"""Fold what tools print, by its kind: what an agent needs stays.

A kind is a function that takes a text for its own by what stands in it, or gives it as it is. ``tenths``, ``numbers``,
``hits`` and ``paths`` leave nothing out, but for the folded contents of ``node_modules`` and the like; ``headers``
leaves out ids and counts that no call asks for, ``terminal`` what was written over, ``html`` the markup. The others
leave lines out, and say how many.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from html import unescape
from itertools import groupby, pairwise
from operator import eq, lt
from posixpath import split as split_path
from typing import ClassVar, NamedTuple
from unicodedata import combining, east_asian_width

from attrs import field, frozen

from agentctx.engine.tool_calls import command_of, is_search, names_file
from agentctx.lazy import lazy_pattern
from agentctx.line_numbers import few_numbers, without_blanks
from agentctx.marks import marked, with_pointer
from agentctx.message import Mark, Text
from agentctx.protocols import Call, library_stage
from agentctx.strategies.fit import AnsweredCall, Pointer, RewriteResults
from agentctx.validators import NAMES, as_names, must_be, whole_number

Marking = Callable[[str], str]
"""What stands for lines that are left out, given what they were."""

Fold = Callable[[str, Marking], str]
"""Gives a text folded, or as it is where it is of another kind."""

_SHORTEST = 100
"""Characters; a shorter text without control characters has nothing to fold."""

_MOST_TOKENS = 4
"""So many tokens a character has at most, or nearly so."""


@library_stage
@frozen
class FoldOutput(RewriteResults):
    """Fold what tools print, when it arrives: of each kind of output, what an agent needs stays.

    A kind is known by what stands in the text; what is not surely of one stays as it is:

    - ``terminal``: what a terminal shows in the end, without colours; progress bars as they ended.
    - ``headers``: what Codex says of a command before its output: how it ended stays, and how long that took, from a
      second on. The command itself goes where it is the one that the call names. A file may begin so, too: what a call
      shows that names one stays.
    - ``tenths``: line numbers as ``cat -n`` prints them: only those of the first line, the last and each tenth.
    - ``numbers``: such line numbers without the blanks before them.
    - ``hits``: what a search found, or a linter, by file: each path once.
    - ``matches``: what a search found, by file: of many lines of one file the first two and the last; where the call
      is a search, since of what a linter says each line counts.
    - ``paths``: lists of paths by folder; what is in ``node_modules`` and the like is folded among others.
    - ``tests``: tests in a row that passed; failures, summaries and all else stay.
    - ``progress``: what installers and compilers print as they go on.
    - ``traces``: frames that repeat, frames of libraries in a row, a log's line that repeats.
    - ``diffs``: long contexts in unified diffs.
    - ``html``: a page becomes its text, with where its links lead; where the call names an address, since a file may
      be read to be edited.

    Of what is folded the first and the last line stay, with how many there were between, and with a store and the
    recall tool in the request the handle of the original. ``tenths``, ``numbers``, ``hits`` and ``paths`` by folder say
    the same shorter and leave nothing out; ``headers`` leaves out ids and counts that no call asks for. Each does
    something only where the tokenizer says that the text gets smaller.

    Args:
        kinds: Which of these are folded; all, when not given.
        exclude: Names of tools whose results stay.
        over: Tokens; a text that has no more stays as it is.

    Raises:
        ConfigError: If a kind is unknown, ``exclude`` has anything but names, or ``over`` is no number of tokens.

    Example:
        >>> from agentctx import Pipeline
        >>> from agentctx.strategies import FoldOutput
        >>> from agentctx.testing import assistant, call, result, transcript, user
        >>> passed = [f"tests/test_api.py::test_{number} PASSED" for number in range(90)]
        >>> said = [*passed, "tests/test_api.py::test_last FAILED", "=== 1 failed, 90 passed in 2.1s ==="]
        >>> turns = user("Test it."), assistant(call("a", "bash")), result("a", chr(10).join(said))
        >>> view = await Pipeline(FoldOutput()).prepare(transcript("openai-chat", *turns))
        >>> print(view.messages[2]["content"])
        tests/test_api.py::test_0 PASSED
        [… 88 more lines, passed or without tests …]
        tests/test_api.py::test_89 PASSED
        tests/test_api.py::test_last FAILED
        === 1 failed, 90 passed in 2.1s ===
    """

    kinds: frozenset[str] = field(factory=lambda: frozenset(FOLDS), converter=as_names, kw_only=True)
    over: int = field(default=0, validator=whole_number(0), kw_only=True)
    why: ClassVar[str] = "output folded by its kind"

    @kinds.validator
    def _check(self, _attribute: object, kinds: frozenset[str]) -> None:
        NAMES.check("FoldOutput.kinds", kinds)
        if not kinds <= FOLDS.keys():
            raise must_be("FoldOutput.kinds", f"among {', '.join(sorted(FOLDS))}", sorted(kinds - FOLDS.keys()))

    def concerns_text(self, text: str, /) -> bool:
        """Whether it is long enough to be folded, or has control characters."""
        if len(text) * _MOST_TOKENS <= self.over:
            return False
        return len(text) >= _SHORTEST or "\x1b" in text or "\r" in text or "\b" in text

    @property
    def _folds(self) -> Sequence[Fold]:
        """What folds each kind, in the order in which they are looked for."""
        return [fold for kind, fold in FOLDS.items() if kind in self.kinds]

    def rewritten(self, text: Text, call: Call, pointer: Pointer, asked: AnsweredCall, /) -> Text:
        """The text with each kind folded that gets smaller by it.

        Args:
            text: The output.
            call: The call, whose counter decides what is smaller.
            pointer: Says how to get the whole output back.
            asked: Says which call the output answers.
        """
        count = call.meter.counter.count
        if self.over and count(text.text) <= self.over:
            return text
        for fold in self._folds:
            marks = _Marks(pointer)
            made = _as_asked(fold, text.text, marks, asked)
            if made != text.text and count(made) < count(text.text):
                text = marked(text, made, map(Mark, marks.written))
        return text


def _as_asked(fold: Fold, text: str, mark: Marking, asked: AnsweredCall) -> str:
    """A text folded, where the call that it answers does not tell that it is of another kind."""
    made = fold(text, mark)
    if made == text or fold not in (headers, html, matches):
        return made
    call = asked()
    if fold is html:
        return made if call is not None and "://" in call.arguments else text
    if fold is matches:
        return made if call is not None and is_search(call) else text
    if call is None:
        return made
    return text if names_file(call) else without_header(text, command_of(call))


class _Marks:
    """What stands for lines that are left out; the first says how to get the whole back."""

    def __init__(self, pointer: Pointer) -> None:
        self.pointer: Pointer | None = pointer
        self.written: list[str] = []

    def __call__(self, what: str) -> str:
        mark = f"[… {what} …]"
        pointer, self.pointer = self.pointer, None
        self.written.append(mark if pointer is None else with_pointer(mark, pointer()))
        return self.written[-1]


_TALK = lazy_pattern(
    r"\x1b(?:\[[0-9;:]*m|\[\?(?:25|7|12|1004|2004|2026)[hl]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>])"
)
"""Colours, titles, links, and whether the cursor shows: nothing that a reader of the text would see."""

_MOVES = lazy_pattern(r"\x1b\[(\d*)([A-GK])|([\r\n\b\t])|([^\x1b\r\n\b\t]+)|(.)", re.DOTALL)

_REDRAWN = lazy_pattern(
    r"\d ?%|\d/\d|\d ?[kKMG]i?B|\[[=#>. -]*\]|[\u2800-\u28ff]|[\u2588-\u258f]|^[|/\\-] |[|/\\-]$|\.\.\.|^\s*$"
)
"""What stands in a line that a program draws again and again."""

_UP_OR_DOWN = lazy_pattern(r"\x1b\[\d*[ABEF]")

_MOVED = lazy_pattern(r"[\x1b\b]|\r[^\r]")

_TAB = 8

_WIDEST = 200
"""Columns; a cursor that goes further beyond what is written is not followed."""


def terminal(text: str, _mark: Marking) -> str:
    """What a terminal of any width and length shows in the end.

    Colours, titles and links go; what returns to the start of a line, moves the cursor within lines, or up, and
    erases, is carried out. A text that does more, such as one of a full-screen program, is given as it is, and so is
    one whose carriage returns look like ends of lines.

    Example:
        >>> from agentctx.strategies.fold_output import terminal
        >>> terminal(" 10%" + chr(13) + " 55%" + chr(13) + "100%", str)
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


_HEADER = lazy_pattern(
    r"\A(?:Command: (?P<command>.{1,20000}?)\n)?Chunk ID: [0-9a-f]{4,16}\n"
    r"Wall time: (?P<seconds>\d{1,9}\.\d+) seconds\n(?P<ended>Process [^\n]{1,200}\n)?"
    r"(?P<count>Original token count: \d+\n)?(?=Output:\n)",
    re.DOTALL,
)
_NOT_SAID = lazy_pattern(r"[\s'\"\\]+")
_SHELL = lazy_pattern(r"(?:\S*/)?(?:ba|z|da)?sh-l?c")
_LONG = 1.0
"""Seconds; what took less is not said to have taken so long."""


def headers(text: str, _mark: Marking) -> str:
    """What Codex says of a command before its output: how it ended, and how long that took if it took long."""
    return without_header(text, "")


def without_header(text: str, command: str) -> str:
    r"""The same, and the command itself goes where it is the one that the call names.

    Example:
        >>> from agentctx.strategies.fold_output import without_header
        >>> head = "Command: /bin/zsh -lc 'ls -l'\nChunk ID: dd327a\nWall time: 0.0021 seconds\n"
        >>> print(without_header(f"{head}Process exited with code 0\nOriginal token count: 1\nOutput:\na.py", "ls -l"))
        Process exited with code 0
        Output:
        a.py
    """
    head = _HEADER.match(text) if text.startswith(("Chunk ID: ", "Command: ")) else None
    if head is None:
        return text
    kept = [head["ended"] or ""]
    if head["count"] is not None and "Total output lines: " in text[head.end() : head.end() + 50]:
        kept.append(head["count"])
    if float(head["seconds"]) >= _LONG:
        kept.insert(0, f"Wall time: {head['seconds']} seconds\n")
    if head["command"] is not None and not _is_named(head["command"], command):
        kept.insert(0, f"Command: {head['command']}\n")
    return "".join([*kept, text[head.end() :]])


def _is_named(said: str, command: str) -> bool:
    """Whether a command as it ran, in quotes and in a shell, is the one that a call names."""
    ran, named = (_NOT_SAID.sub("", each) for each in (said, command))
    return bool(named) and ran.endswith(named) and (ran == named or bool(_SHELL.fullmatch(ran[: -len(named)])))


def tenths(text: str, _mark: Marking) -> str:
    """Line numbers that count on as ``cat -n`` does: of the first line, of the last, and of each tenth of the file."""
    return few_numbers(text)


def numbers(text: str, _mark: Marking) -> str:
    """Line numbers without the blanks before them, where they count on from line to line as ``cat -n`` does."""
    return without_blanks(text)


_HIT = lazy_pattern(r"([\w./@+~-]++):(\d+):(.*)", re.DOTALL)
_BESIDE = lazy_pattern(r"([\w./@+~-]*?\w\.\w+)-(\d+)-(.*)", re.DOTALL)
_NAMED = lazy_pattern(r"[A-Za-z][^/]*\.|\.[^/]*[A-Za-z]|/.*[A-Za-z]|[A-Za-z].*/")
_SHORT_HIT = lazy_pattern(r"(?m)^\d+[:-]")
_AT_LINE = lazy_pattern(r"\n[\w./@+~]*+(?:-(?!\d++-)[\w./@+~]*+)*+(?::\d++:|-\d++-)")
"""What every hit begins with."""
_FEWEST_HITS = 3


@frozen
class _Hit:
    """A line of a file that was found, or one beside it."""

    path: str
    line: int
    said: str
    beside: bool

    def follows(self, other: _Hit | None) -> bool:
        """Whether it is of the same file as another; beside a hit in it, some searches call that by its whole path."""
        if other is None or self.path == other.path:
            return other is not None
        beside, hit = sorted((self, other), key=lambda each: not each.beside)
        is_whole = beside.beside and not hit.beside and beside.path.startswith("/") and hit.path[:1] != "/"
        return is_whole and beside.path.endswith(f"/{hit.path}") and abs(self.line - other.line) == 1


def hits(text: str, _mark: Marking) -> str:
    """What a search found, by file: the path once, then its lines with their numbers; other lines as they are."""
    if len(_AT_LINE.findall(f"\n{text}")) < _FEWEST_HITS or _SHORT_HIT.search(text):
        return text
    lines = text.split("\n")
    found = [_hit(line) for line in lines]
    if sum(each is not None for each in found) < _FEWEST_HITS:
        return text
    return "\n".join(_by_file(lines, found))


def _hit(line: str) -> _Hit | None:
    made = _HIT.fullmatch(line) if ":" in line else None
    if made is not None and _NAMED.search(made[1]):
        return _Hit(made[1], int(made[2][-9:]), f"{made[2]}:{made[3]}", beside=False)
    made = _BESIDE.fullmatch(line) if "-" in line else None
    return None if made is None else _Hit(made[1], int(made[2][-9:]), f"{made[2]}-{made[3]}", beside=True)


def _by_file(lines: Sequence[str], found: Sequence[_Hit | None]) -> list[str]:
    """The lines, those of one file below its path, said whole; what looks like a line beside a hit needs one there."""
    before: _Hit | None = None
    out: list[str] = []
    head = 0
    for line, each, after in zip(lines, found, [*found[1:], None], strict=True):
        if each is None:
            before = before if line == "--" else None
            out.append(line)
        elif before is not None and each.follows(before):
            before = each
            out[head] = max(out[head], each.path, key=len)
            out.append(each.said)
        elif after is not None and after.follows(each) and (not each.beside or abs(after.line - each.line) == 1):
            before, head = each, len(out)
            out += each.path, each.said
        else:
            before = None
            out.append(line)
    return out


_FOUND = lazy_pattern(r"([1-9]\d{0,8})(?::(?!\d| *(?i:fatal|error|warning|note|info)\b)|-)")
"""A line of a file; a linter or a compiler says a column, or what is wrong, behind its number: that is not left out."""
_MANY_HITS, _FIRST_HITS = 6, 2
_APART = 1.25
"""Of so many lines of a file for each line found, or more: lines that stand together are read rather than found."""


def matches(text: str, mark: Marking) -> str:
    """What a search found, by file: of many lines of one the first two and the last, with how many were between."""
    lines = hits(text, mark).split("\n")
    found = [_FOUND.match(line) for line in lines]
    if sum(each is not None for each in found) < _MANY_HITS:
        return text
    out: list[str] = []
    for is_found, run in groupby(range(len(lines)), lambda place: found[place] is not None):
        inside = [lines[place] for place in run]
        if is_found and len(inside) >= _MANY_HITS and _are_apart(inside):
            left_out = f"{len(inside) - _FIRST_HITS - 1:,} more lines found in this file"
            inside = [*inside[:_FIRST_HITS], mark(left_out), inside[-1]]
        out += inside
    return "\n".join(out)


def _are_apart(lines: Sequence[str]) -> bool:
    """Whether numbers before lines grow as those of hits in one file do."""
    found = [int(found[1]) for line in lines if (found := _FOUND.match(line)) is not None]
    return all(map(lt, found, found[1:])) and found[-1] - found[0] >= _APART * len(found)


_PATH = lazy_pattern(r"(?=.*[A-Za-z])(?:\.{1,2}/|/)?(?:[\w.@+~-]+/)+[\w.@+~-]+/?")
_MADE = lazy_pattern(r"(?:^|/)(?:node_modules|\.git|__pycache__|\.venv|venv|site-packages|\.tox|\.mypy_cache|\.cache)/")


def paths(text: str, mark: Marking) -> str:
    """A list of paths: a folder once, then what is in it; of what tools have made, the first and the last."""
    lines = text.split("\n")
    if "/" not in text or len(lines) < FEWEST or not _PATH.fullmatch(lines[len(lines) // 2]):
        return text
    others = sum(bool(line) and not _PATH.fullmatch(line) for line in lines)
    if others > 2:
        return text
    made = sum(_MADE.search(line) is not None for line in lines)
    if made < len(lines) - others - 2:
        lines = list(_folded(lines, lambda line: "made" if _MADE.search(line) else "", "paths in such folders", mark))
    return "\n".join(_by_folder(lines))


def _by_folder(lines: Sequence[str]) -> Iterator[str]:
    def folder(line: str) -> str:
        return split_path(line.rstrip("/"))[0] if _PATH.fullmatch(line) else ""

    for name, run in groupby(lines, key=folder):
        inside = list(run)
        if name and len(inside) >= 3:
            yield f"{name}/"
            yield from (f" {line[len(name) + 1 :]}" for line in inside)
        else:
            yield from inside


class _Runner(NamedTuple):
    """What a runner of tests prints.

    Args:
        passed: Lines of what passed, as a pattern.
        summary: What says that it was this runner.
        words: Of these one stands in each summary: a glance.
    """

    passed: str
    summary: re.Pattern[str]
    words: tuple[str, ...]


_RUNNERS = {
    "pytest": _Runner(
        r"\S+::\S.* PASSED(?: +\[ *\d+%\])?\s*|PASSED \S+::\S+.*",
        lazy_pattern(r" PASSED|^PASSED ", re.MULTILINE),
        ("PASSED",),
    ),
    "dots": _Runner(
        r"\S+\.py \.+ *(?:\[ *\d+%\])?\s*",
        lazy_pattern(
            r"^=+ .{0,200}\d (?:passed|failed|error).{0,200}=\s*$|^\d+ (?:passed|failed).{0,200} in [\d.]+",
            re.MULTILINE,
        ),
        ("passed", "failed", "error"),
    ),
    "unittest": _Runner(
        r"\w+ \([\w.]+\)(?: \.\.\.|\n.*\.\.\.) ok|test\w* \([\w.]+\) \.\.\. ok",
        lazy_pattern(r"^Ran \d+ tests? in ", re.MULTILINE),
        ("Ran ",),
    ),
    "go": _Runner(
        r"=== (?:RUN|PAUSE|CONT|NAME) .*|\s*--- PASS: .*|ok  \t\S+\t(?!.*coverage: ).*|PASS"
        r"|\?   \t\S+\t\[no test files\]",
        lazy_pattern(r"^(?:ok  \t|--- (?:PASS|FAIL): |FAIL\t|=== RUN )", re.MULTILINE),
        ("ok  \t", "--- ", "FAIL\t", "=== RUN "),
    ),
    "js": _Runner(
        r"\s*[✓✔√] .+|PASS \S+.*",
        lazy_pattern(r"^\s*(?:Tests:? +\d|Test Files +\d|\d+ passing|# pass \d|\u2139 pass \d)", re.MULTILINE),
        ("Test", "passing", "pass "),
    ),
    "cargo": _Runner(
        r"test \S.* \.\.\. ok(?: <[\d.]+s>)?",
        lazy_pattern(r"^test result: |^running \d+ tests?$", re.MULTILINE),
        ("test result: ", "running "),
    ),
    "tap": _Runner(
        r"ok \d+ (?!.*# (?i:skip|todo)).*",
        lazy_pattern(r"^1\.\.\d+|^# (?:pass|tests) +\d", re.MULTILINE),
        ("1..", "# pass", "# tests"),
    ),
    "gradle": _Runner(
        r"\S.* > .* PASSED\s*",
        lazy_pattern(r"^(?:BUILD (?:SUCCESSFUL|FAILED)|> Task :)", re.MULTILINE),
        ("BUILD ", "> Task :"),
    ),
    "ctest": _Runner(
        r"\s*\d+/\d+ Test +#\d+: .* Passed +[\d.]+ sec|\s+Start +\d+: .*",
        lazy_pattern(r"^\d+% tests passed", re.MULTILINE),
        ("% tests passed",),
    ),
}
_TEST_WORDS = ("PASS", "ok", "passed", "passing", "Passed", "pass ", "FAIL")


def tests(text: str, mark: Marking) -> str:
    """The output of a test run: of tests in a row that passed the first and the last; all else stays."""
    if not any(map(text.__contains__, _TEST_WORDS)):
        return text
    passed = [
        runner.passed
        for runner in _RUNNERS.values()
        if any(map(text.__contains__, runner.words)) and runner.summary.search(text)
    ]
    if not passed:
        return text
    return "\n".join(_folded(text.split("\n"), _kind_of(passed), "lines, passed or without tests", mark))


_MADE_PROGRESS = (
    r" +(?:Compiling|Checking|Downloaded|Downloading|Documenting|Fresh) \S+ v\d\S*.*",
    r"(?:Collecting| *Downloading| *Using cached|Requirement already satisfied:) \S.*",
    r"(?:Get|Hit|Ign):\d+ .*|(?:Preparing to unpack|Unpacking|Setting up|Selecting previously) .*",
    r"[0-9a-f]{12}: (?:Pulling|Waiting|Verifying|Download|Extracting|Pull|Already|Pushed|Layer).*",
    r"go: (?:downloading|extracting|finding) \S+ v\S+",
    r"(?:\[INFO\] )?Download(?:ing|ed) from \S+: .*",
)
_IN_PROGRESS = lazy_pattern(rf"\n(?:{'|'.join(_MADE_PROGRESS)})(?=\n|\Z)")
_BEGINS_PROGRESS = lazy_pattern(
    r"\n *+[CDFURGHIPSg\[0-9a-f](?:o(?:mpil|llect|wnload|cument|: )|heck|resh |sing |equire|et|it:|gn:|repar|npack"
    r"|elect|INFO\] D|[0-9a-f]{11}: )"
)
"""What every line of progress begins with: a glance, since most texts have no such line."""
_PROGRESS_WORDS = ("ompiling", "ownload", "ollecting", "already", "Checking", "Get:", "Hit:", "npack", "Pull")


def progress(text: str, mark: Marking) -> str:
    """What installers and compilers print as they go on: of each in a row the first and the last."""
    behind = f"\n{text}"
    if (
        _BEGINS_PROGRESS.search(behind) is None
        or not any(map(text.__contains__, _PROGRESS_WORDS))
        or len(_IN_PROGRESS.findall(behind)) < FEWEST
    ):
        return text
    return "\n".join(_folded(text.split("\n"), _kind_of(_MADE_PROGRESS), "lines of this kind", mark))


FEWEST = 4
"""Lines of a kind in a row, below which nothing is left out."""

_LONGEST = 500
"""Characters; a longer line is of no kind."""


def _kind_of(patterns: Iterable[str]) -> Callable[[str], str]:
    any_of = _any_of(tuple(patterns))

    def kind(line: str) -> str:
        found = None if len(line) > _LONGEST else any_of.fullmatch(line)
        return "" if found is None else str(found.lastindex)

    return kind


@cache
def _any_of(patterns: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern that says by the group which of these, of which none has a group, is the first that matches."""
    return re.compile("|".join(f"({each})" for each in patterns))


def _folded(lines: Sequence[str], kind: Callable[[str], str], what: str, mark: Marking) -> Iterator[str]:
    """The lines; of several of a kind in a row only the first and the last, with how many there were between."""
    for name, run in groupby(lines, key=kind):
        inside = list(run)
        if name and len(inside) >= FEWEST:
            yield from (inside[0], mark(f"{len(inside) - 2:,} more {what}"), inside[-1])
        else:
            yield from inside


_FRAME = lazy_pattern(r'\s*File "[^"]*", line \d+(?:, in .*)?|\s+at .*[:(].*\)?|\tat [\w.$/<>]+\(.*\)')
_LIBRARY = lazy_pattern(
    r"site-packages/|dist-packages/|/lib/python\d|File \"<frozen |node_modules/|[( ]node:|[( ]internal/"
    r"|\bat (?:java|javax|jdk|sun|kotlin|scala|org\.junit|org\.gradle|org\.springframework|org\.apache)[./]"
)
_LONGEST_CYCLE = 12
_SAME = 20


def traces(text: str, mark: Marking) -> str:
    """Stack traces: frames that come again and again once, of frames of libraries in a row the first and the last.

    A long line that a log says again and again is said once, too.
    """
    lines = text.split("\n")
    if len(lines) < FEWEST:
        return text
    repeats = any(map(eq, lines, lines[1:]))
    traced = 'File "' in text or " at " in text or "\tat " in text
    if not repeats and not traced:
        return text
    made = list(_once(lines, mark)) if repeats else lines
    if not traced:
        return "\n".join(made) if len(made) < len(lines) else text
    frames = list(_frames(made))
    out: list[str] = []
    for is_frame, run in groupby(frames, key=lambda frame: bool(_FRAME.fullmatch(frame[0]))):
        chain = list(run)
        out += _told(chain, mark) if is_frame and len(chain) >= FEWEST else [line for each in chain for line in each]
    return "\n".join(out) if len(out) < len(lines) else text


def _once(lines: Sequence[str], mark: Marking) -> Iterator[str]:
    for line, run in groupby(lines):
        times = sum(1 for _ in run)
        if times >= FEWEST and len(line.strip()) >= _SAME:
            yield from (line, mark(f"the line above {times - 1:,} times more"))
        else:
            yield from [line] * times


def _frames(lines: Sequence[str]) -> Iterator[tuple[str, ...]]:
    """Frames with the code that Python shows below them; other lines each by itself."""
    place = 0
    while place < len(lines):
        end = place + 1
        if lines[place].lstrip().startswith('File "') and _FRAME.fullmatch(lines[place]):
            indent = len(lines[place]) - len(lines[place].lstrip())
            while end < min(len(lines), place + 3) and lines[end].startswith(" " * (indent + 1)):
                end += 1
        yield tuple(lines[place:end])
        place = end


def _told(chain: Sequence[tuple[str, ...]], mark: Marking) -> list[str]:
    out: list[str] = []
    place = 0
    while place < len(chain):
        cycle, times = _cycle(chain, place)
        if times > 2:
            out += [line for frame in chain[place : place + cycle] for line in frame]
            what = "frame above" if cycle == 1 else f"{cycle} frames above"
            out.append(mark(f"the {what} {times - 1:,} times more"))
            place += cycle * times
            continue
        end = place
        while end < len(chain) and _LIBRARY.search(chain[end][0]):
            end += 1
        if end - place >= FEWEST:
            out += [*chain[place], mark(f"{end - place - 2:,} more frames of libraries"), *chain[end - 1]]
        else:
            out += [line for frame in chain[place : max(end, place + 1)] for line in frame]
        place = max(end, place + 1)
    return out


def _cycle(chain: Sequence[tuple[str, ...]], place: int) -> tuple[int, int]:
    """How many frames come again from here on, and how often: those that cover most."""
    best = (1, 1)
    for size in range(1, _LONGEST_CYCLE + 1):
        end = place + size
        while end < len(chain) and chain[end] == chain[end - size]:
            end += 1
        times = (end - place) // size
        if times > 2 and times * size > best[0] * best[1]:
            best = (size, times)
    return best


_HUNK = lazy_pattern(r"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@.*")
_CONTEXT = 3
_LONG_CONTEXT = 10


def diffs(text: str, mark: Marking) -> str:
    """Unified diffs: of a long context the three lines beside each change."""
    if "@@ -" not in text:
        return text
    out: list[str] = []
    context: list[str] = []
    old = new = 0
    for line in text.split("\n"):
        inside = old > 0 or new > 0
        if inside and line[:1] in (" ", ""):
            context.append(line)
            old, new = old - 1, new - 1
            continue
        out += _near(context, mark)
        context = []
        out.append(line)
        if inside:
            old, new = old - line.startswith("-"), new - line.startswith("+")
            if line[:1] not in ("+", "-", "\\"):
                old = new = 0
        elif (hunk := _HUNK.fullmatch(line)) is not None:
            old, new = (int(count if count is not None else 1) for count in hunk.groups())
    return "\n".join([*out, *_near(context, mark)])


def _near(context: list[str], mark: Marking) -> list[str]:
    if len(context) < _LONG_CONTEXT:
        return context
    left_out = len(context) - 2 * _CONTEXT
    return [*context[:_CONTEXT], mark(f"{left_out:,} lines that are the same"), *context[-_CONTEXT:]]


_PAGE = lazy_pattern(r"\s*(?:<\?xml[^>]*>\s*)?(?:<!doctype html[^>]*>|<html[\s>])", re.IGNORECASE)


def html(text: str, mark: Marking) -> str:
    """A page: its title and text, a block a line, with where its links lead; scripts and styles go."""
    if not _PAGE.match(text) or "</" not in text:
        return text
    words = "\n".join(_tidied("".join(_words(text)).split("\n")))
    if not words or len(words) * 2 > len(text):
        return text
    return f"{mark(f'the text of a page of HTML, {len(text):,} characters')}\n{words}"


_AS_IT_STANDS = "\x01"
"""What a line of preformatted text begins with."""


def _tidied(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if line.startswith(_AS_IT_STANDS):
            yield line.replace(_AS_IT_STANDS, "").rstrip()
        elif (tidy := re.sub(r" +", " ", line.replace(_AS_IT_STANDS, "")).strip(" |")) not in ("", "-"):
            yield tidy


_BLOCKS = lazy_pattern(
    r"address|article|aside|blockquote|body|br|d[dlt]|div|fieldset|fig(caption|ure)|footer|form|h[1-6r]|head(er)?|html|li"
    r"|main|nav|[ou]l|option|p|pre|section|summary|table|t(body|foot|head|itle|r)"
)
_UNSEEN = {
    name: lazy_pattern(f"</{name}", re.IGNORECASE) for name in ("script", "style", "template", "svg", "noscript")
}
_TAG = lazy_pattern(
    r"<(?:(?P<end>/?)(?P<name>[a-zA-Z][\w:-]*+)(?P<given>(?:[^<>\"']++|\"[^\"]{0,2000}+\"|'[^']{0,2000}+')*+)>"
    r"|(?P<comment>!--)|[!?][^<>]*+>)"
)
_GIVEN = lazy_pattern(r"\b(href|alt|value|placeholder)\s*+=\s*+(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE)


def _words(page: str) -> Iterator[str]:
    """The words of a page, with ends of lines where blocks begin and end, and those of preformatted text."""
    place, link, end_of_line = 0, "", "\n"
    while (tag := _TAG.search(page, place)) is not None:
        said = unescape(page[place : tag.start()])
        yield re.sub(r"\s+", " ", said) if end_of_line == "\n" else said.replace("\n", end_of_line)
        place, name = tag.end(), (tag["name"] or "").lower()
        given = {key.lower(): unescape("".join(values)) for key, *values in _GIVEN.findall(tag["given"] or "")}
        if tag["comment"]:
            end = page.find("-->", place)
            place = len(page) if end < 0 else end + 3
        elif name in _UNSEEN and not tag["end"]:
            closed = _UNSEEN[name].search(page, place)
            place = len(page) if closed is None else closed.start()
        elif _BLOCKS.fullmatch(name):
            if name == "pre":
                end_of_line = "\n" if tag["end"] else f"\n{_AS_IT_STANDS}"
            yield "\n- " if name == "li" and not tag["end"] else end_of_line
        elif name == "a":
            leads = link and tag["end"] and not link.startswith(("#", "javascript:"))
            yield f" ({link})" if leads else ""
            link = "" if tag["end"] else given.get("href", "")
        elif name in ("td", "th", "img", "input"):
            yield " | " if name in ("td", "th") else f" {given.get('alt') or given.get('value') or ''} "
    yield re.sub(r"\s+", " ", unescape(page[place:]))


FOLDS: dict[str, Fold] = {
    fold.__name__: fold
    for fold in (terminal, html, headers, tenths, numbers, hits, matches, paths, tests, progress, traces, diffs)
}
"""All kinds by name, in the order in which they are looked for."""
