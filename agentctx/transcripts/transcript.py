"""One conversation that was read from a file, with the document that it stood in."""

from __future__ import annotations

import json
from collections.abc import Sequence
from enum import Enum
from typing import IO

from attrs import evolve, field, frozen

from agentctx.core.message import Native
from agentctx.engine.reading import found_format
from agentctx.errors import InvalidInput
from agentctx.printable import escaped
from agentctx.providers.registry import format_named
from agentctx.replay import Billed, Recording

_ENVELOPE = frozenset({"id", "source", "license", "format", "meta"})


class Layout(Enum):
    """How a file lays its content out, so that it can be written the same way."""

    LINE = "a line of JSON lines"
    MESSAGE_LINES = "JSON lines, each one message"
    DOCUMENT = "one JSON document on one line"
    PRETTY = "one JSON document, indented"


@frozen
class Read:
    """A conversation as the reader of one tool's shape gives it.

    Args:
        recording: What can be replayed.
        notes: What a person should know: what was left out, what the log does not hold.
    """

    recording: Recording
    notes: tuple[str, ...] = ()


@frozen
class Glance:
    """What a session's log says of it without being read as a conversation.

    Args:
        project: The folder that was worked in, when the log says so.
        model: The model that was called last, when the log says so.
        billed: What was billed for each call; the indexes mean nothing.
    """

    project: str | None = None
    model: str | None = None
    billed: tuple[Billed, ...] = ()


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


def of_a_tool(read: Read, source: str, place: str) -> Transcript:
    """What was read from another tool's shape: a recorded session of ours, or a request that was about to be sent."""
    recording = with_format(read.recording)
    if recording.pending and recording.format is not None:
        wire = format_named(recording.format, recording.model)
        asked = wire.request(recording.messages, recording.system, recording.tools, recording.model)
        named = {} if recording.id is None else {"id": recording.id}
        return Transcript(recording, {**named, **asked}, wire.messages_key, Layout.LINE, place, source, read.notes)
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
