"""The sessions of coding agents that lie on this machine: where Claude Code and Codex keep them."""

from __future__ import annotations

import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BufferedReader
from itertools import islice
from pathlib import Path
from stat import S_ISREG
from typing import IO

from attrs import evolve, field, frozen

from agentctx.errors import InvalidInput
from agentctx.replay import Billed
from agentctx.transcripts import claude_code, codex
from agentctx.transcripts.files import MAX_BYTES, Glance, object_of, tool_of, unpacked

_AGENT = "agent-"
_SUBAGENTS = "subagents"


@frozen
class LocalSession:
    """A session that lies on this machine, newest first.

    Args:
        number: Its place, from 1: the newest.
        tool: The tool that wrote it, such as ``"Claude Code"``.
        path: Its file.
        id: What the tool calls it.
        modified: When it was written to last, in seconds since 1970.
        size: Its size with that of its sub-agents, in bytes.
        agents: The files of its sub-agents.
        project: The folder that was worked in; until it was looked into, what its place says of that.
        model: The model that was called last, once it was looked into.
        billed: What was billed for each call, sub-agents' included, once it was looked into.
        readable: Whether it can be read: no longer once it was looked into and no line was one that the tool writes.

    Example:
        >>> from pathlib import Path
        >>> from agentctx.transcripts import LocalSession
        >>> found = LocalSession(1, "Codex", Path("rollout.jsonl"), "0199-5d31", modified=1_790_000_000.0, size=48_000)
        >>> found.billed, found.readable
        ((), True)
    """

    number: int
    tool: str
    path: Path
    id: str
    modified: float
    size: int
    agents: tuple[Path, ...] = ()
    project: str | None = None
    model: str | None = None
    billed: tuple[Billed, ...] = field(default=(), repr=False)
    readable: bool = True


def local_sessions(environment: Mapping[str, str] = os.environ) -> list[LocalSession]:
    """The sessions of Claude Code and Codex on this machine, newest first; no file is opened.

    Args:
        environment: Where ``CLAUDE_CONFIG_DIR`` and ``CODEX_HOME`` may say which folders to look into.

    Example:
        >>> from agentctx.transcripts import local_sessions
        >>> local_sessions({"CLAUDE_CONFIG_DIR": "/nowhere", "CODEX_HOME": "/nowhere"})
        []
    """
    found = [*_of_claude_code(environment), *_of_codex(environment)]
    found.sort(key=lambda session: (-session.modified, str(session.path)))
    return [evolve(session, number=number) for number, session in enumerate(found, 1)]


def folders(environment: Mapping[str, str] = os.environ) -> list[Path]:
    """The folders that are looked into."""
    return [*_claude_folders(environment), *_codex_folders(environment)]


def looked_into(session: LocalSession, max_bytes: int = MAX_BYTES) -> LocalSession:
    """A session with what its files say of project, model and bills: a few of their lines are parsed.

    Args:
        session: The session.
        max_bytes: No more is read of each file.
    """
    look = {claude_code.NAME: claude_code.glance, codex.NAME: codex.glance}[session.tool]
    if not _is_log(session, max_bytes):
        return evolve(session, readable=False)
    own, *others = (_glance(look, path, max_bytes) for path in (session.path, *session.agents))
    if own is None:
        return evolve(session, readable=False)
    billed = (*own.billed, *(one for glance in others if glance is not None for one in glance.billed))
    return evolve(session, project=own.project or session.project, model=own.model, billed=billed)


def session_named(sessions: Sequence[LocalSession], wanted: str) -> LocalSession:
    """The session with a number, or with an id that begins so.

    Raises:
        InvalidInput: If there is none, or several begin so.
    """
    if wanted.isdecimal() and 0 < int(wanted) <= len(sessions):
        return sessions[int(wanted) - 1]
    found = [session for session in sessions if session.id.startswith(wanted)]
    if len(found) == 1:
        return found[0]
    where = f"session {wanted}"
    if found:
        raise InvalidInput(where, f"the ids of {len(found)} sessions begin so: give more of it")
    many = "is 1 session" if len(sessions) == 1 else f"are {len(sessions)} sessions"
    there = f"there {many}, and none has this number, or an id that begins so" if sessions else "there is no session"
    raise InvalidInput(where, f"{there}: agentctx sessions lists those of this machine")


_LOOKED_AT = 500
"""So many lines at the beginning of a file are looked at for one that its tool writes."""


def _is_log(session: LocalSession, max_bytes: int) -> bool:
    """Whether a line of a session's file is one that its tool writes."""
    try:
        with _opened(session.path) as file:
            lines = islice(_lines(file, max_bytes), _LOOKED_AT)
            found = (tool_of(object_of(line)) for line in lines)
            return any(tool is not None and tool.name == session.tool for tool in found)
    except _UNREADABLE:  # as below
        return False


@contextmanager
def _opened(path: Path) -> Iterator[IO[bytes]]:
    with path.open("rb", buffering=0) as raw:
        yield unpacked(BufferedReader(raw))


_UNREADABLE = (OSError, EOFError, zlib.error)


def _glance(look: Callable[[Iterable[bytes]], Glance], path: Path, max_bytes: int) -> Glance | None:
    try:
        with _opened(path) as file:
            return look(_lines(file, max_bytes))
    except _UNREADABLE:  # it went away, or may not be read: the list goes on without what it says
        return None


def _lines(file: IO[bytes], most: int) -> Iterator[bytes]:
    while line := file.readline(most + 1):
        most -= len(line)
        if most < 0:
            return
        yield line


def _claude_folders(environment: Mapping[str, str]) -> list[Path]:
    if named := environment.get("CLAUDE_CONFIG_DIR"):
        return [Path(named).expanduser() / "projects"]
    home = Path(environment.get("HOME") or Path.home())
    return [home / ".claude" / "projects", home / ".config" / "claude" / "projects"]


def _codex_folders(environment: Mapping[str, str]) -> list[Path]:
    named = environment.get("CODEX_HOME")
    home = Path(named).expanduser() if named else Path(environment.get("HOME") or Path.home()) / ".codex"
    return [home / "sessions", home / "archived_sessions"]


def _of_claude_code(environment: Mapping[str, str]) -> Iterator[LocalSession]:
    for folder in _claude_folders(environment):
        agents: dict[str, list[Path]] = {}
        own: list[Path] = []
        for path in _files(folder):
            if path.parent.name == _SUBAGENTS:
                agents.setdefault(path.parent.parent.name, []).append(path)
            elif not path.name.startswith(_AGENT):
                own.append(path)
        for path in own:
            stem = _stem(path)
            yield from _session(claude_code.NAME, path, stem, tuple(agents.get(stem, ())), path.parent.name)


def _of_codex(environment: Mapping[str, str]) -> Iterator[LocalSession]:
    for folder in _codex_folders(environment):
        for path in _files(folder):
            if path.name.startswith("rollout-"):
                stem = _stem(path)  # as in rollout-2026-01-05T10-00-00-019a...: the id comes after the date
                yield from _session(codex.NAME, path, "-".join(stem.split("-")[6:]) or stem, (), None)


def _session(tool: str, path: Path, name: str, agents: tuple[Path, ...], project: str | None) -> Iterator[LocalSession]:
    own = _stat_of_file(path)
    if own is None:
        return
    others = {agent: found for agent in agents if (found := _stat_of_file(agent)) is not None}
    size = own.st_size + sum(one.st_size for one in others.values())
    yield LocalSession(0, tool, path, name, own.st_mtime, size, tuple(others), project)


def _stat_of_file(path: Path) -> os.stat_result | None:
    """What is known of a regular file; None where it went away meanwhile, and for a pipe, which may never end."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found if S_ISREG(found.st_mode) else None


_LOGS = (".jsonl", ".jsonl.gz")


def _stem(path: Path) -> str:
    return path.name.removesuffix(".gz").removesuffix(".jsonl")


def _files(folder: Path) -> Iterator[Path]:
    for where, _, names in os.walk(folder):
        for name in names:
            if name.endswith(_LOGS):
                yield Path(where, name)
