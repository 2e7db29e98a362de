"""Which reader for which file: one table, and what providers and agentctx itself write, which needs none.

What a file may hold:

* JSON lines, each a recorded session ``{"id", "format", "system", "tools", "messages", "meta"}``, a request
  ``{"model", "messages", "system", "tools"}`` or a list of messages; read line by line;
* JSON lines, each one message of the same session;
* one JSON document: a list of messages, or a request object;
* a session, a log or a dump of a tool in the table ``READERS``;
* an ``.eval`` file of Inspect, which is a zip archive;
* a folder of OpenHands' events, a file each.

Any of them may be compressed with gzip. What is in no shape that is known is refused, by name where the name is known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import IO, Any

from attrs import evolve, frozen

from agentctx.core.message import Native
from agentctx.errors import InvalidInput
from agentctx.providers.other_tools import LOOKED_AT, described, tool_of
from agentctx.providers.registry import FORMATS
from agentctx.replay import Recording
from agentctx.transcripts import (
    claude_code,
    codex,
    exchanges,
    inspect_ai,
    langchain,
    openai_agents,
    openhands,
    pydantic_ai,
)
from agentctx.transcripts.files import (
    MAX_BYTES,
    ZIP,
    Fields,
    Line,
    LogLines,
    name_of,
    opened,
    parse,
    place,
    refuse_other_kinds,
    translated,
)
from agentctx.transcripts.transcript import Layout, Read, Transcript, of_a_tool

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


READERS: Mapping[str, ToolReader] = {
    claude_code.NAME: ToolReader(log=claude_code.read),
    codex.NAME: ToolReader(log=codex.read),
    langchain.NAME: ToolReader(messages=langchain.read),
    langchain.STATE: ToolReader(document=langchain.read_state, messages=langchain.read_history),
    langchain.CHECKPOINT: ToolReader(document=langchain.read_state, messages=langchain.read_history),
    pydantic_ai.NAME: ToolReader(messages=pydantic_ai.read),
    openai_agents.ITEMS: ToolReader(messages=openai_agents.read_items),
    openai_agents.STATE: ToolReader(document=openai_agents.read_state),
    inspect_ai.NAME: ToolReader(document=inspect_ai.read_log),
    inspect_ai.MESSAGES: ToolReader(messages=inspect_ai.read),
    openhands.NAME: ToolReader(messages=openhands.read),
    openhands.TRAJECTORY: ToolReader(document=openhands.read_trajectory),
}
"""The tools whose files are read, by the name that ``agentctx.providers.other_tools`` knows their shape by."""


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
            yield from (
                of_a_tool(read, openhands.NAME, name) for read in openhands.read_folder(Path(source), max_bytes)
            )
        return
    with opened(source, max_bytes) as stream:
        tell = _raised if wrong is None else wrong
        start = stream.peek()
        if start.startswith(ZIP):
            yield from _archive(source, name, max_bytes)
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
    found = False
    for transcript in read_transcripts(source, max_bytes, wrong=wrong):
        if wanted is None or transcript.recording.id == wanted:
            found = True
            yield transcript
            if wanted is not None:
                return
    if not found and wanted is not None:
        raise InvalidInput(source, f"no recording in it has the id {wanted!r}")


def _archive(source: str, name: str, max_bytes: int) -> Iterator[Transcript]:
    """The samples of an ``.eval`` file; it is opened again, since an archive is read from its end."""
    if source == "-":
        raise InvalidInput(name, "this is a zip archive: give the file by its name")
    with Path(source).open("rb") as file:
        for number, read in enumerate(inspect_ai.read_archive(file, name, max_bytes), 1):
            yield of_a_tool(read, inspect_ai.NAME, f"{name}, sample {number}")


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
        after = _parsed(name, second)
        tool, how = _reader_of(after)
        if how.log is not None:  # a log whose first line is damaged
            yield from _logged(tool, how.log, LogLines(name, chain((first, second), lines)))
        elif isinstance(after, dict) and any(key in after for key in _keys()) and first[1].strip() != b"[":
            wrong(error)  # lines of which the first is damaged
            yield from _each(name, chain((second,), lines), wrong)
        else:  # a document over several lines begins with half a value
            yield from _pretty(name, first, second, stream)
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
        yield from _noted(_joined(_exchanges(name, every, wrong)), every)
    else:
        yield from _each(name, chain((first,), rest), wrong)


def _each(name: str, lines: Iterable[Line], wrong: Wrong) -> Iterator[Transcript]:
    """Lines that are conversations of their own."""
    for line in lines:
        try:
            yield from _document(parse(name, line), Layout.LINE, place(name, line[0]))
        except InvalidInput as error:
            wrong(error)


def _exchanges(name: str, lines: LogLines, wrong: Wrong) -> Iterator[tuple[Read, str, str]]:
    """Lines that are requests, with their answers."""
    for number, fields in lines:
        try:
            yield _exchange(place(name, number), fields)
        except InvalidInput as error:
            wrong(error)


def _parsed(name: str, line: Line) -> Native:
    """The value of a line, None when it is none."""
    try:
        return parse(name, line)
    except InvalidInput:
        return None


def _pretty(name: str, first: Line, second: Line, stream: IO[bytes]) -> Iterator[Transcript]:
    gap = b"\n" * (second[0] - first[0] - 1)
    value = parse(name, (first[0], first[1] + gap + second[1] + stream.read()))
    yield from _document(value, Layout.PRETTY, place(name, first[0]))


def _document(value: Native, layout: Layout, where: str) -> Iterator[Transcript]:
    """The conversations of one JSON value."""
    if isinstance(value, dict) and (kind := exchanges.name_of(value)) is not None:
        yield of_a_tool(exchanges.read(value, where), kind, where)
        return
    tool, how = _reader_of(value)
    if isinstance(value, dict) and how.document is not None:
        yield from (of_a_tool(found, tool, where) for found in how.document(value, where))
        return
    messages, beside = _listed(value)
    tool, how = next((found for each in messages[:LOOKED_AT] if (found := _reader_of(each))[0]), _NO_TOOL)
    if how.messages is not None:
        yield _messages(tool, how.messages, messages, beside, where)
    elif isinstance(value, list) and exchanges.is_list(value):
        yield from _joined((exchanges.read(each, where), where, exchanges.LOG) for each in value)
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
    yield from (of_a_tool(found, tool, lines.name) for found in read(lines))


def _messages(tool: str, read: MessagesReader, messages: Sequence[Native], beside: Fields, where: str) -> Transcript:
    try:
        return of_a_tool(read(messages, beside), tool, where)
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


def _exchange(where: str, fields: Fields) -> tuple[Read, str, str]:
    kind = exchanges.name_of(fields)
    if kind is None:
        raise InvalidInput(where, "this line holds no request, as the lines before it do")
    return exchanges.read(fields, where), where, kind


def _joined(found: Iterable[tuple[Read, str, str]]) -> Iterator[Transcript]:
    """Requests that go on with a conversation, as one: the longest, with what was billed for all; not in batches."""
    waiting: list[tuple[Read, str, str]] = []
    for read, where, kind in found:
        if kind in (exchanges.OPENAI_BATCH, exchanges.ANTHROPIC_BATCH):
            yield of_a_tool(read, kind, where)
            continue
        before = next((one for one in waiting if exchanges.continues(one[0].recording, read.recording)), None)
        if before is not None:
            waiting.remove(before)
            billed = exchanges.joined(before[0].recording, read.recording)
            waiting.append((evolve(read, recording=evolve(read.recording, billed=billed)), before[1], kind))
            continue
        waiting.append((read, where, kind))
        if len(waiting) > _MOST_OPEN:
            yield of_a_tool(waiting[0][0], waiting[0][2], waiting.pop(0)[1])
    for read, where, kind in waiting:
        yield of_a_tool(read, kind, where)


_MOST_OPEN = 16
"""How many conversations of a log may go on at once."""


@cache
def _keys() -> Mapping[str, str]:
    """Where the providers' requests keep their messages, with the format that this tells; "" where it tells none."""
    keys = [wire.messages_key for wire in FORMATS.values()]
    return {wire.messages_key: name if keys.count(wire.messages_key) == 1 else "" for name, wire in FORMATS.items()}


@cache
def _system_keys() -> tuple[str, ...]:
    return (*dict.fromkeys(wire.system_key for wire in FORMATS.values()), "systemInstruction")


def _is_message(value: object) -> bool:
    """Whether this is one message by itself, and not a request or a list."""
    return isinstance(value, dict) and "role" in value and not any(key in value for key in _keys())


def _own(value: Native, layout: Layout, where: str) -> Transcript:
    """Messages, or a request, of a provider; or a recorded session of ours."""
    shape = next(filter(None, map(tool_of, value[:1] if isinstance(value, list) else (value,))), None)
    if shape is not None:
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
    config = value.get("toolConfig")  # where Bedrock has them
    tools = config.get("tools") if isinstance(config, dict) and "tools" not in value else value.get("tools")
    if tools is not None and not isinstance(tools, list):
        raise InvalidInput(where, f"'tools' is {_kind(tools)}, not a list")
    return Recording(
        value[key],
        system=next((value[name] for name in _system_keys() if value.get(name) is not None), None),
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
