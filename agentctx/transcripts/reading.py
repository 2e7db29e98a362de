"""Where recorded sessions lie, and how a file of them is read."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from functools import cache
from io import BufferedReader
from itertools import chain, islice, starmap
from pathlib import Path
from stat import S_ISREG
from typing import IO, Any

from attrs import evolve, field, frozen

from agentctx.characters import escaped
from agentctx.engine.reading import found_format
from agentctx.errors import InvalidInput
from agentctx.formats.registry import FORMATS, format_named
from agentctx.message import Native
from agentctx.replay import Billed, Recording
from agentctx.transcripts import claude_code, codex, exchanges, frameworks
from agentctx.transcripts.files import (
    LOOKED_AT,
    MAX_BYTES,
    ZIP,
    Fields,
    Glance,
    Line,
    LogLines,
    Read,
    described,
    name_of,
    object_of,
    opened,
    parse,
    place,
    refuse_other_kinds,
    tool_of,
    translated,
    unpacked,
)

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


LogReader = Callable[[LogLines], Iterator[Read]]
MessagesReader = Callable[[Sequence[Native], Fields], Read]
DocumentReader = Callable[[Fields, str], Iterator[Read]]
Wrong = Callable[[InvalidInput], None]
"""Is told what is wrong with one line; the lines after it are read."""

_EXPECTED = "expected a list of messages, or an object with 'messages' (or 'input', 'contents')"
_BOM = b"\xef\xbb\xbf"


@frozen(eq=False, repr=False)
class ToolReader:
    """How the files of one tool are read.

    Args:
        log: Reads a log of one session, line by line.
        messages: Reads a list, or JSON lines, of what has the tool's shape, with what stands beside it in its document.
        document: Reads one document, which holds a conversation or several.
    """

    log: LogReader | None = None
    messages: MessagesReader | None = None
    document: DocumentReader | None = None


_LANGGRAPH = ToolReader(document=frameworks.read_langgraph_state, messages=frameworks.read_langgraph_history)

READERS: Mapping[str, ToolReader] = {
    claude_code.NAME: ToolReader(log=claude_code.read),
    codex.NAME: ToolReader(log=codex.read),
    frameworks.LANGCHAIN: ToolReader(messages=frameworks.read_langchain),
    frameworks.LANGGRAPH_STATE: _LANGGRAPH,
    frameworks.LANGGRAPH_CHECKPOINT: _LANGGRAPH,
    frameworks.PYDANTIC_AI: ToolReader(messages=frameworks.read_pydantic_ai),
    frameworks.AGENTS_ITEMS: ToolReader(messages=frameworks.read_run_items),
    frameworks.AGENTS_STATE: ToolReader(document=frameworks.read_run_state),
    frameworks.INSPECT_LOG: ToolReader(document=frameworks.read_inspect_log),
    frameworks.INSPECT: ToolReader(messages=frameworks.read_inspect),
    frameworks.OPENHANDS: ToolReader(messages=frameworks.read_openhands),
    frameworks.OPENHANDS_TRAJECTORY: ToolReader(document=frameworks.read_openhands_trajectory),
}
"""The tools whose files are read, by the name that ``agentctx.transcripts.files`` knows their shape by."""


def read_transcripts(source: str, max_bytes: int = MAX_BYTES, *, wrong: Wrong | None = None) -> Iterator[Transcript]:
    """Read the recorded conversations of a file one by one; JSON lines are never held in memory as a whole.

    Args:
        source: Path of the file, or ``-`` for stdin.
        max_bytes: No more of it is read, in bytes, unpacked.
        wrong: Called with what is wrong with a line, where each line is a conversation of its own; the others are
            read. Without it, the first such line ends the reading.

    Yields:
        Each conversation. A log of one session, such as Claude Code's, is one, and one for each sub-agent.

    Raises:
        InvalidInput: If the file cannot be read, or is in no shape that is known; names file and line.

    Example:
        >>> from tempfile import NamedTemporaryFile
        >>> from agentctx.transcripts import read_transcripts
        >>> with NamedTemporaryFile("w", suffix=".jsonl") as file:
        ...     _ = file.write('{"model": "gpt-5.4", "messages": [{"role": "user", "content": "Hi"}]}')
        ...     file.flush()
        ...     [found.recording.model for found in read_transcripts(file.name)]
        ['gpt-5.4']
    """
    name = name_of(source)
    if source != "-" and Path(source).is_dir():
        with translated(name):
            for read in frameworks.read_openhands_folder(Path(source), max_bytes):
                yield _of_a_tool(read, frameworks.OPENHANDS, name)
        return
    with opened(source, max_bytes) as stream:
        tell = _raised if wrong is None else wrong
        start = stream.peek()
        if start.startswith(ZIP):
            if source == "-":
                raise InvalidInput(name, "this is a zip archive: give the file by its name")
            with Path(source).open("rb") as file:
                for number, read in enumerate(frameworks.read_inspect_archive(file, name, max_bytes), 1):
                    yield _of_a_tool(read, frameworks.INSPECT_LOG, f"{name}, sample {number}")
            return
        refuse_other_kinds(name, start)
        lines = ((number, line) for number, line in enumerate(stream, 1) if line.strip())
        first = next(lines, None)
        if first is None:
            raise InvalidInput(name, f"is empty; {_EXPECTED}")
        first = (first[0], first[1].removeprefix(_BOM))
        second = next(lines, None)
        yield from _one(name, first) if second is None else _many(name, first, second, lines, stream, tell)


def _raised(error: InvalidInput) -> None:
    raise error


def chosen(
    source: str, wanted: str | None, max_bytes: int = MAX_BYTES, *, wrong: Wrong | None = None
) -> Iterator[Transcript]:
    """The recordings of a file, or only the one with the id ``wanted``; ``wrong`` as of ``read_transcripts``.

    Raises:
        InvalidInput: If none has that id.
    """
    for transcript in read_transcripts(source, max_bytes, wrong=wrong):
        if wanted is None:
            yield transcript
        elif transcript.recording.id == wanted:
            yield transcript
            return
    if wanted is not None:
        raise InvalidInput(source, f"no recording in it has the id {wanted!r}")


class Layout(Enum):
    """How a file lays its content out, so that it can be written the same way."""

    LINE = "a line of JSON lines"
    MESSAGE_LINES = "JSON lines, each one message"
    DOCUMENT = "one JSON document on one line"
    PRETTY = "one JSON document, indented"


_ENVELOPE = frozenset({"id", "source", "license", "format", "meta"})


@frozen
class Transcript:
    """One recorded conversation of a file.

    Args:
        recording: What can be replayed.
        document: The JSON value it was read from: a list of messages, or an object that holds one. A transcript of
            another tool is an object as agentctx itself writes recorded sessions.
        key: Where the object keeps its messages; None when the value is the list.
        layout: How the file writes it.
        place: File and line, for messages to people.
        source: The tool whose shape it was in, such as ``"Claude Code"``; empty for messages and requests of a
            provider.
        notes: What a person should know: what was left out, what the log does not hold.

    Example:
        >>> from tempfile import NamedTemporaryFile
        >>> from agentctx.transcripts import read_transcripts
        >>> with NamedTemporaryFile("w", suffix=".json") as file:
        ...     _ = file.write('[{"type": "human", "data": {"content": "Hi"}}]')
        ...     file.flush()
        ...     (found,) = read_transcripts(file.name)
        >>> found.source, found.recording.format, found.recording.messages
        ('LangChain', 'openai-chat', [{'role': 'user', 'content': 'Hi'}])
    """

    recording: Recording
    document: Native = field(repr=False)
    key: str | None
    layout: Layout
    place: str
    source: str = ""
    notes: tuple[str, ...] = ()

    def with_messages(self, messages: Sequence[Native]) -> Native:
        """The same document with other messages."""
        return list(messages) if self.key is None else {**self.document, self.key: list(messages)}

    def write(self, document: Native, stream: IO[bytes]) -> None:
        """Write a document as the file wrote this one.

        Args:
            document: What ``with_messages`` returned.
            stream: A binary stream, which stays open.
        """
        if self.layout is Layout.MESSAGE_LINES and isinstance(document, list):
            stream.writelines(_as_json(message) + b"\n" for message in document)
        else:
            stream.write(_as_json(document, indent=2 if self.layout is Layout.PRETTY else None) + b"\n")

    @property
    def recorded(self) -> bool:
        """Whether this is a recorded session, and not a request or a list of messages."""
        return self.key is not None and not self.recording.pending

    def request(self) -> dict[str, Native]:
        """The document as a request object: without what only describes the recording."""
        if self.key is None:
            return {"messages": self.document}
        return {key: value for key, value in self.document.items() if key not in _ENVELOPE and value is not None}


def _as_json(value: Native, *, indent: int | None = None) -> bytes:
    return escaped(json.dumps(value, ensure_ascii=False, indent=indent)).encode()


def _one(name: str, line: Line) -> Iterator[Transcript]:
    value = parse(name, line)
    where = place(name, line[0])
    tool, how = _reader_of(value)
    if how.log is not None:
        yield from _logged(tool, how.log, LogLines(name, [line]))
    elif _is_message(value):
        yield _own([value], Layout.MESSAGE_LINES, where)
    else:
        yield from _document(value, Layout.DOCUMENT, where)


def _many(
    name: str, first: Line, second: Line, lines: Iterator[Line], stream: IO[bytes], wrong: Wrong
) -> Iterator[Transcript]:
    try:
        value = parse(name, first)
    except InvalidInput as error:
        after: Native = None
        with suppress(InvalidInput):
            after = parse(name, second)
        tool, how = _reader_of(after)
        if how.log is not None:  # a log whose first line is damaged
            yield from _logged(tool, how.log, LogLines(name, chain((first, second), lines)))
        elif isinstance(after, dict) and any(key in after for key in _keys()) and first[1].strip() != b"[":
            wrong(error)  # lines of which the first is damaged
            yield from _each(name, chain((second,), lines), wrong)
        else:  # a document over several lines begins with half a value
            gap = b"\n" * (second[0] - first[0] - 1)
            value = parse(name, (first[0], first[1] + gap + second[1] + stream.read()))
            yield from _document(value, Layout.PRETTY, place(name, first[0]))
        return
    where, rest = place(name, first[0]), chain((second,), lines)
    every = LogLines(name, chain((first,), rest))
    tool, how = _reader_of(value)
    if how.log is not None:
        yield from _logged(tool, how.log, every)
    elif how.messages is not None:
        messages = [fields for _, fields in every]
        yield from _noted([_messages(tool, how.messages, messages, {}, where)], every)
    elif _is_message(value):
        messages = [value, *(parse(name, line) for line in rest)]
        yield _own(messages, Layout.MESSAGE_LINES, where)
    elif isinstance(value, dict) and exchanges.name_of(value) is not None:
        yield from _noted(starmap(_of_a_tool, exchanges.joined(_exchanges(name, every, wrong))), every)
    else:
        yield from _each(name, chain((first,), rest), wrong)


def _each(name: str, lines: Iterable[Line], wrong: Wrong) -> Iterator[Transcript]:
    """Lines that are conversations of their own."""
    for line in lines:
        try:
            yield from _document(parse(name, line), Layout.LINE, place(name, line[0]))
        except InvalidInput as error:
            wrong(error)


def _exchanges(name: str, lines: LogLines, wrong: Wrong) -> Iterator[exchanges.Exchange]:
    """Lines that are requests, with their answers."""
    for number, fields in lines:
        where, kind = place(name, number), exchanges.name_of(fields)
        if kind is None:
            wrong(InvalidInput(where, "this line holds no request, as the lines before it do"))
            continue
        try:
            yield exchanges.read(fields, where), kind, where
        except InvalidInput as error:
            wrong(error)


def _document(value: Native, layout: Layout, where: str) -> Iterator[Transcript]:
    """The conversations of one JSON value."""
    if isinstance(value, dict) and (kind := exchanges.name_of(value)) is not None:
        yield _of_a_tool(exchanges.read(value, where), kind, where)
        return
    tool, how = _reader_of(value)
    if isinstance(value, dict) and how.document is not None:
        yield from (_of_a_tool(found, tool, where) for found in how.document(value, where))
        return
    messages, beside = _listed(value)
    tool, how = next((found for each in messages[:LOOKED_AT] if (found := _reader_of(each))[0]), _NO_TOOL)
    if how.messages is not None:
        yield _messages(tool, how.messages, messages, beside, where)
    elif isinstance(value, list) and exchanges.is_list(value):
        asked = ((exchanges.read(each, where), exchanges.LOG, where) for each in value)
        yield from starmap(_of_a_tool, exchanges.joined(asked))
    else:
        yield _own(value, layout, where)


def _listed(value: Native) -> tuple[Sequence[Native], Fields]:
    """The messages of a document, with what stands beside them."""
    if isinstance(value, list):
        return value, {}
    if not isinstance(value, dict):
        return (), {}
    found = next((value[key] for key in _keys() if isinstance(value.get(key), list)), ())
    return found, value


def _reader_of(value: Native) -> tuple[str, ToolReader]:
    """The name of the tool in whose shape a value is, and how it is read; an empty name when none reads it."""
    found = tool_of(value)
    return (found.name, READERS[found.name]) if found is not None and found.name in READERS else _NO_TOOL


_NO_TOOL = ("", ToolReader())


def _logged(tool: str, read: LogReader, lines: LogLines) -> Iterator[Transcript]:
    yield from (_of_a_tool(found, tool, lines.name) for found in read(lines))


def _messages(tool: str, read: MessagesReader, messages: Sequence[Native], beside: Fields, where: str) -> Transcript:
    try:
        return _of_a_tool(read(messages, beside), tool, where)
    except InvalidInput as error:
        raise InvalidInput(where, str(error)) from None


def _noted(found: Iterable[Transcript], lines: LogLines) -> Iterator[Transcript]:
    """The transcripts, the last one with what there is to say of lines that were left out."""
    last = None
    for transcript in found:
        if last is not None:
            yield last
        last = transcript
    if last is not None:
        yield evolve(last, notes=(*last.notes, *lines.notes))


@cache
def _keys() -> Mapping[str, str]:
    """Where the providers' requests keep their messages, with the format that this tells; "" where it tells none."""
    keys = [wire.keys.messages for wire in FORMATS.values()]
    return {wire.keys.messages: name if keys.count(wire.keys.messages) == 1 else "" for name, wire in FORMATS.items()}


def _is_message(value: object) -> bool:
    """Whether this is one message by itself, and not a request or a list."""
    return isinstance(value, dict) and "role" in value and not any(key in value for key in _keys())


def _own(value: Native, layout: Layout, where: str) -> Transcript:
    """Messages, or a request, of a provider; or a recorded session of ours."""
    whole = value[0] if isinstance(value, list) and value else value
    shapes = (tool_of(whole), *(tool_of(message, document=False) for message in _listed(value)[0][:LOOKED_AT]))
    if (shape := next(filter(None, shapes), None)) is not None:
        raise InvalidInput(where, described(shape))
    if isinstance(value, list):
        return Transcript(Recording(value), value, None, layout, where)
    if not isinstance(value, dict):
        raise InvalidInput(where, f"this is {_kind(value)}; {_EXPECTED}")
    key = next((key for key in _keys() if key in value), None)
    if key is None:
        raise InvalidInput(where, f"the object has no messages; {_EXPECTED}")
    if not isinstance(value[key], list):
        raise InvalidInput(where, f"{key!r} is {_kind(value[key])}, not a list of messages")
    return Transcript(_recording(value, key, where), value, key, layout, where)


def _recording(value: Mapping[str, Any], key: str, where: str) -> Recording:
    meta = value.get("meta")
    model = value.get("model") or value.get("modelId") or (meta.get("model") if isinstance(meta, dict) else None)
    tools = exchanges.tools_of(value)
    if tools is not None and not isinstance(tools, list):
        raise InvalidInput(where, f"'tools' is {_kind(tools)}, not a list")
    return Recording(
        value[key],
        system=exchanges.system_of(value),
        tools=tools or None,
        format=_word(value, "format", where) or _keys()[key] or None,
        model=model if isinstance(model, str) else None,
        id=_word(value, "id", where),
        pending="format" not in value,
    )


def _word(value: Mapping[str, Any], key: str, where: str) -> str | None:
    word = value.get(key)
    if word is not None and not isinstance(word, str):
        raise InvalidInput(where, f"{key!r} is {_kind(word)}, not a string")
    return word


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", int: "a number"}
    return "null" if value is None else kinds.get(type(value), "a number")


def _of_a_tool(read: Read, source: str, place: str) -> Transcript:
    """What was read from another tool's shape: a recorded session of ours, or a request that was about to be sent."""
    recording = with_format(read.recording)
    if recording.pending and recording.format is not None:
        wire = format_named(recording.format, recording.model)
        asked = wire.keys.request(recording.messages, recording.system, recording.tools, recording.model)
        named = {} if recording.id is None else {"id": recording.id}
        return Transcript(recording, {**named, **asked}, wire.keys.messages, Layout.LINE, place, source, read.notes)
    document = {
        "id": recording.id,
        "source": source,
        "format": recording.format,
        "system": recording.system,
        "tools": recording.tools,
        "messages": recording.messages,
        "meta": {"model": recording.model},
    }
    return Transcript(recording, document, "messages", Layout.LINE, place, source, read.notes)


def with_format(recording: Recording, model: str | None = None) -> Recording:
    """The recording with its format found out, where nothing names it and one fits.

    Args:
        recording: The recording.
        model: The model, when it is not the recorded one.
    """
    if recording.format is not None:
        return recording
    try:
        found = found_format(recording.messages, recording.system, recording.tools, None, model or recording.model)
    except InvalidInput:  # nothing fits, or several do: whoever replays it says so
        return recording
    return evolve(recording, format=found.wire.name)
