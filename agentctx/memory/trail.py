"""The trail of artifacts: which files were read, written, edited, created, deleted and renamed, and what ran."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import evolve, field, frozen

from agentctx.core.recap import OPEN_QUOTE, TERM, quoted, unquoted
from agentctx.engine.tool_calls import Artifact, Did, FileEvent, RunEvent
from agentctx.protocols import TokenCounter

LONGEST_RUN = 160
"""Characters of a command that are told; the rest is said to be left out."""


@frozen
class FileTrail:
    """What is known of a file.

    Args:
        path: The file.
        did: What was last done to it; reading, and a failed edit, are told only while nothing else was done.
        times: How often it was changed; 1 for a file that was only read.
        to: Its new name, when it was renamed.
    """

    path: str
    did: Did
    times: int = 1
    to: str = ""


@frozen
class RunTrail:
    """What is known of a command.

    Args:
        command: The command, on one line.
        ended: How it ended when it last ran; empty when that is not known.
        times: How often it ran, beside what is still to be seen; 0 when only its end is told.
    """

    command: str
    ended: str = ""
    times: int = 1


@frozen
class ArtifactTrail:
    """What was done to files, and what ran: the latest of each, oldest first.

    Args:
        files: By path.
        runs: By command.
        left_out: How many changed files were too many to be named.

    Example:
        >>> from agentctx.memory import Did, FileEvent, RunEvent, ArtifactTrail
        >>> trail = ArtifactTrail().after([FileEvent("a.py", Did.EDITED), RunEvent("pytest -q", "failed")])
        >>> print(trail.text())
        edited: a.py
        ran: "pytest -q" failed
    """

    files: Mapping[str, FileTrail] = field(factory=dict)
    runs: Mapping[str, RunTrail] = field(factory=dict)
    left_out: int = 0

    def after(self, done: Iterable[Artifact]) -> ArtifactTrail:
        """The trail with what was done since."""
        files, runs = dict(self.files), dict(self.runs)
        for each in done:
            if isinstance(each, FileEvent):
                known = files.pop(each.path, None)
                files[each.path] = _after(known, each)
            else:
                _run(runs, each)
        return ArtifactTrail(files, runs, self.left_out)

    @property
    def changed(self) -> tuple[FileTrail, ...]:
        """The files that were changed, or should have been, oldest first."""
        return tuple(file for file in self.files.values() if file.did.changes)

    def text(self, tokens: int | None = None, counter: TokenCounter | None = None, most: int | None = None) -> str:
        """The trail on a few lines, which ``trail_in`` reads back.

        Files that were changed are always named; what ran, and what was read, as far as there is room.

        Args:
            tokens: The room; None: everything is told.
            counter: Counts tokens; needed when there is a limit.
            most: The room when changed files alone need more than ``tokens``; None: they take what they need.
        """
        if tokens is None or counter is None:
            return "\n".join((*_file_lines(self.changed, self.left_out), *self._run_lines(), *_file_lines(self._read)))
        return _fitted(self, tokens, counter, most)

    @property
    def _read(self) -> tuple[FileTrail, ...]:
        return tuple(file for file in self.files.values() if not file.did.changes)

    @property
    def changes(self) -> str:
        """All files that were changed, on lines that ``trail_in`` reads back."""
        return "\n".join(_file_lines(self.changed, self.left_out))

    def knowing(self, changes: str) -> ArtifactTrail:
        """The trail with all files of which it names some; ``changes`` are those of a trail that named them all."""
        if not changes:
            return self
        whole = trail_in(changes)
        read = {path: file for path, file in self.files.items() if not file.did.changes}
        return ArtifactTrail({**read, **whole.files}, self.runs, whole.left_out)

    def _run_lines(self) -> list[str]:
        return [_run_line(run) for run in reversed(tuple(self.runs.values()))]


def _after(known: FileTrail | None, event: FileEvent) -> FileTrail:
    """What is known of a file after something else was done to it."""
    if known is None or (event.did.changes and not known.did.changes):
        return FileTrail(event.path, event.did, 1, event.to)
    if not event.did.changes:
        return known
    if event.did is Did.FAILED:
        return evolve(known, times=known.times + (known.did is Did.FAILED))
    new = known.did is Did.CREATED and event.did in (Did.EDITED, Did.WRITTEN)
    return FileTrail(event.path, Did.CREATED if new else event.did, known.times + 1, event.to)


def _run(runs: dict[str, RunTrail], event: RunEvent) -> None:
    command = _told(event.command)
    known = runs.pop(command, None)
    times = event.times + (0 if known is None else known.times)
    runs[command] = RunTrail(command, event.ended or ("" if known is None else known.ended), times)


_BESIDES = re.compile(r"\A(?:cd [\w./~-]{1,200} && )+|(?: 2>&1)?(?: ?\| ?(?:tail|head)(?: -n)?(?: ?-?\d{1,6})?)*\Z")
"""What stands around a command and is not part of what it does."""


def _told(command: str) -> str:
    """A command on one line, cut to what is told of it."""
    line = _BESIDES.sub("", " ".join(command[: 4 * LONGEST_RUN].split()))
    return line if len(line) <= LONGEST_RUN else f"{line[: LONGEST_RUN - 1]}…"


_IMPORTANT = re.compile(
    r"\b(?:test|tests|pytest|jest|vitest|tox|nox|unittest|lint|check|build|make|mypy|ruff|tsc|clippy|vet|commit|push|"
    r"merge|rebase|install|deploy|migrate)\b"
)


def _run_line(run: RunTrail) -> str:
    times = f" x{run.times}" if run.times > 1 else ""
    return f"{'ran' if run.times else 'ended'}: {_in_quotes(run.command)}{run.ended and ' ' + run.ended}{times}"


def _in_quotes(text: str) -> str:
    term = quoted(text)
    return term if term.startswith('"') else f'"{term}"'


_ORDER = (Did.CREATED, Did.WRITTEN, Did.EDITED, Did.RENAMED, Did.DELETED, Did.FAILED, Did.READ)


def _file_lines(files: Sequence[FileTrail], left_out: int = 0, *, shared: bool = False) -> list[str]:
    """A line for each thing that was done, the latest file first."""
    lines = []
    for did in _ORDER:
        found = [file for file in reversed(files) if file.did is did]
        if found:
            lines.append(f"{did.value}: {', '.join(_shared(found) if shared else map(_file_term, found))}")
    return [*lines, f"and {left_out} more changed files"] if left_out else lines


def _file_term(file: FileTrail, path: str | None = None) -> str:
    times = f" x{file.times}" if file.times > 1 and file.did.changes else ""
    to = f" -> {quoted(file.to)}" if file.to else ""
    return f"{quoted(file.path if path is None else path)}{to}{times}"


def _shared(files: Sequence[FileTrail]) -> Iterator[str]:
    """Terms in which files of one folder share its name: ``src/{a.py, b.py x2}``."""
    folders: dict[str, list[FileTrail]] = {}
    for file in files:
        folders.setdefault(_folder(file), []).append(file)
    for folder, inside in folders.items():
        if folder and len(inside) > 1:
            yield f"{folder}{{{', '.join(_file_term(file, file.path[len(folder) :]) for file in inside)}}}"
        else:
            yield from map(_file_term, inside)


def _folder(file: FileTrail) -> str:
    """The folder that a file may share with others; empty when its name has to be quoted."""
    before, slash, name = file.path.rpartition("/")
    return f"{before}/" if slash and name and quoted(file.path) == file.path and not file.to else ""


def _fitted(trail: ArtifactTrail, tokens: int, counter: TokenCounter, most: int | None) -> str:
    changed, lines = _changed_lines(trail, tokens, counter, most)
    room = tokens - sum(counter.count(f"{line}\n") for line in lines)
    for run in _by_weight(trail):
        line = _run_line(run)
        cost = counter.count(f"{line}\n")
        if cost <= room:
            lines.append(line)
            room -= cost
    lines += _read_lines(trail, room, counter)
    while len(lines) > changed and counter.count("\n".join(lines)) > tokens:
        lines.pop()
    return "\n".join(lines)


def _changed_lines(trail: ArtifactTrail, tokens: int, counter: TokenCounter, most: int | None) -> tuple[int, list[str]]:
    """The lines of changed files: whole names when they take half of the room, else with shared folders."""
    files = trail.changed
    lines = _file_lines(files, trail.left_out)
    if counter.count("\n".join(lines)) > tokens // 2:
        lines = _file_lines(files, trail.left_out, shared=True)
    limit = None if most is None else max(most, tokens)
    while limit is not None and files and counter.count("\n".join(lines)) > limit:
        files = files[max(1, len(files) // 8) :]
        left_out = trail.left_out + len(trail.changed) - len(files)
        lines = _file_lines(files, left_out, shared=True)
    return len(lines), lines


def _by_weight(trail: ArtifactTrail) -> list[RunTrail]:
    """What ran: tests, builds and what changes the history first, the latest first."""
    latest = tuple(trail.runs.values())[::-1]
    return sorted(latest, key=lambda run: not _IMPORTANT.search(run.command))


def _read_lines(trail: ArtifactTrail, room: int, counter: TokenCounter) -> list[str]:
    taken: list[FileTrail] = []
    room -= counter.count("read: \n")
    for file in reversed(trail._read):  # noqa: SLF001 - of this file
        cost = counter.count(f", {_file_term(file)}")
        if cost > room:
            break
        room -= cost
        taken.append(file)
    return _file_lines(taken[::-1]) if taken else []


_FILES = re.compile(rf"(?P<did>{'|'.join(did.value for did in Did)}): (?P<files>.+)")
_RAN = re.compile(
    r"(?P<what>ran|ended): (?P<command>\"(?:[^\"\\\n]|\\.)*+\")"
    r"(?: (?P<ended>ok|failed|exit -?\d{1,3}|running \w{1,40}))?"
    r"(?: x(?P<times>\d{1,6}))?"
)
_MORE = re.compile(r"and (?P<more>\d{1,9}) more changed files")
_TERM = re.compile(
    rf"(?P<open>[\w./~@+%:#$€£-]+/)\{{|(?P<close>\}})|(?P<path>{TERM})(?: -> (?P<to>{TERM}))?"
    rf"(?: x(?P<times>\d{{1,6}})(?=[,}}]|$))?|{OPEN_QUOTE}"
)


def trail_in(text: str) -> ArtifactTrail:
    """The trail that a text tells; lines that are none of its own say nothing.

    Example:
        >>> from agentctx.memory import trail_in
        >>> sorted(trail_in("edited: src/{app.py, view.py}").files)
        ['src/app.py', 'src/view.py']
    """
    files: list[FileTrail] = []
    runs: list[RunTrail] = []
    left_out = 0
    for line in text.splitlines():
        if found := _FILES.fullmatch(line):
            files += _files_in(Did(found["did"]), found["files"])
        elif found := _RAN.fullmatch(line):
            times = 0 if found["what"] == "ended" else int(found["times"] or 1)
            runs.append(RunTrail(unquoted(found["command"]), found["ended"] or "", times))
        elif found := _MORE.fullmatch(line):
            left_out += int(found["more"])
    return ArtifactTrail(
        {file.path: file for file in reversed(files)}, {run.command: run for run in reversed(runs)}, left_out
    )


def _files_in(did: Did, text: str) -> Iterator[FileTrail]:
    folder = ""
    for found in _TERM.finditer(text):
        if found["open"]:
            folder = found["open"]
        elif found["close"]:
            folder = ""
        elif found["path"]:
            yield FileTrail(
                folder + unquoted(found["path"]), did, int(found["times"] or 1), unquoted(found["to"] or "")
            )
