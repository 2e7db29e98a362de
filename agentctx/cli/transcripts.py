"""Read recorded sessions and requests from a file or from stdin, without ever showing a traceback.

What a file may hold:

* JSON lines, each a recorded session ``{"id", "format", "system", "tools", "messages", "meta"}``, a request
  ``{"model", "messages", "system", "tools"}`` or a list of messages; read line by line;
* JSON lines, each one message of the same session;
* one JSON document: a list of messages, or a request object.

Any of them may be compressed with gzip. ``-`` is stdin.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import sys
import tempfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from functools import cache
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, Any, cast

from attrs import field, frozen

from agentctx.cli.console import to_json
from agentctx.core.message import Native
from agentctx.errors import InvalidInput
from agentctx.providers.other_tools import described, tool_of
from agentctx.providers.registry import FORMATS
from agentctx.replay import Recording


@contextmanager
def written(target: str | None) -> Iterator[IO[bytes]]:
    """A stream whose content becomes the file ``target`` when the block ends well, and vanishes when it does not.

    The content goes to a temporary file in the same folder, which is renamed at the end: readers see the old file or
    the whole new one. Without a target (or with ``-``) it goes to stdout at the end.

    Args:
        target: Path of the file; an existing file is replaced and keeps its permissions. A pipe or a device is
            written into at the end and never replaced.
    """
    if target is None or target == "-":
        with tempfile.TemporaryFile() as stream:
            yield stream
            sys.stdout.flush()
            _pour(stream, sys.stdout.buffer)
        return
    path = Path(target)
    if path.exists() and not path.is_file() and not path.is_dir():
        with tempfile.TemporaryFile() as stream:
            yield stream
            _into(stream, path)
        return
    try:
        path = path.resolve() if path.is_symlink() else path
        handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise InvalidInput(target, f"cannot be written: {error.strerror or error}") from None
    try:
        with os.fdopen(handle, "wb") as stream:
            yield stream
            _take_place(stream, temporary, path)
    finally:
        with suppress(FileNotFoundError):  # it has taken its place, unless something went wrong
            Path(temporary).unlink()


def _pour(stream: IO[bytes], into: IO[bytes]) -> None:
    stream.seek(0)
    shutil.copyfileobj(stream, into, 1 << 20)
    into.flush()


def _into(stream: IO[bytes], path: Path) -> None:
    """Write into a pipe, a terminal or another device; a pipe waits for its reader."""
    try:
        with path.open("wb") as device:
            _pour(stream, device)
    except OSError as error:
        raise InvalidInput(str(path), f"cannot be written: {error.strerror or error}") from None


def _take_place(stream: IO[bytes], temporary: str, path: Path) -> None:
    try:
        stream.flush()
        os.fsync(stream.fileno())
        Path(temporary).chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        Path(temporary).replace(path)
    except OSError as error:
        raise InvalidInput(str(path), f"cannot be written: {error.strerror or error}") from None


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@cache
def _formats() -> Mapping[str, str]:
    """Where the providers' requests keep their messages, with the format that this tells; "" where it tells none."""
    keys = [wire.messages_key for wire in FORMATS.values()]
    return {wire.messages_key: name if keys.count(wire.messages_key) == 1 else "" for name, wire in FORMATS.items()}


@cache
def _system_keys() -> tuple[str, ...]:
    return (*dict.fromkeys(wire.system_key for wire in FORMATS.values()), "systemInstruction")


_EXPECTED = "expected a list of messages, or an object with 'messages' (or 'input', 'contents')"
_ENVELOPE = frozenset({"id", "source", "license", "format", "meta"})
_GZIP = b"\x1f\x8b"
_BOM = b"\xef\xbb\xbf"

Line = tuple[int, bytes]


class Layout(Enum):
    """How a file lays its content out, so that it can be written the same way."""

    LINE = "a line of JSON lines"
    MESSAGE_LINES = "JSON lines, each one message"
    DOCUMENT = "one JSON document on one line"
    PRETTY = "one JSON document, indented"


@frozen
class Entry:
    """One recording of a file.

    Args:
        recording: What can be replayed.
        document: The JSON value it was read from: a list of messages, or an object that holds one.
        key: Where the object keeps its messages; None when the value is the list.
        layout: How the file writes it.
        place: File and line, for messages to people.
    """

    recording: Recording
    document: Any = field(repr=False)
    key: str | None
    layout: Layout
    place: str

    def with_messages(self, messages: Sequence[Native]) -> Native:
        """The same document with other messages."""
        return list(messages) if self.key is None else {**self.document, self.key: list(messages)}

    def write(self, document: Native, stream: IO[bytes]) -> None:
        """Write a document as the file wrote this one."""
        if self.layout is Layout.MESSAGE_LINES and isinstance(document, list):
            stream.writelines(to_json(message) + b"\n" for message in document)
        else:
            stream.write(to_json(document, indent=2 if self.layout is Layout.PRETTY else None) + b"\n")

    @property
    def recorded(self) -> bool:
        """Whether this is a recorded session, and not a request or a list of messages."""
        return self.key is not None and not self.recording.pending

    def request(self) -> dict[str, Any]:
        """The document as a request object: without what only describes the recording."""
        if self.key is None:
            return {"messages": self.document}
        return {key: value for key, value in self.document.items() if key not in _ENVELOPE and value is not None}


MAX_BYTES = 256_000_000
"""What is read of a file without being asked for more, in bytes, unpacked."""


def entries(source: str, max_bytes: int = MAX_BYTES) -> Iterator[Entry]:
    """Read the recordings of a file one by one; a file of JSON lines is never held in memory as a whole."""
    name = "stdin" if source == "-" else source
    with _translated(name), _open(source) as opened:
        stream = cast("IO[bytes]", BufferedReader(_Limited(opened, name, max_bytes)))
        lines = ((number, line) for number, line in enumerate(stream, 1) if line.strip())
        first = next(lines, None)
        if first is None:
            raise InvalidInput(name, f"is empty; {_EXPECTED}")
        first = (first[0], first[1].removeprefix(_BOM))
        second = next(lines, None)
        yield from _one(name, first) if second is None else _many(name, first, second, lines, stream)


def chosen(source: str, wanted: str | None, max_bytes: int = MAX_BYTES) -> Iterator[Entry]:
    """The recordings of a file, or only the one with the id ``wanted``."""
    found = False
    for entry in entries(source, max_bytes):
        if wanted is None or entry.recording.id == wanted:
            found = True
            yield entry
            if wanted is not None:
                return
    if not found:
        raise InvalidInput(source, f"no recording in it has the id {wanted!r}")


def _one(name: str, line: Line) -> Iterator[Entry]:
    value = _parse(name, line)
    if _is_message(value):
        yield _entry([value], Layout.MESSAGE_LINES, _place(name, line[0]))
    else:
        yield _entry(value, Layout.DOCUMENT, _place(name, line[0]))


def _many(name: str, first: Line, second: Line, lines: Iterator[Line], stream: IO[bytes]) -> Iterator[Entry]:
    try:
        value = _parse(name, first)
    except InvalidInput:  # a document over several lines begins with half a value
        yield _pretty(name, first, second, stream)
        return
    if _is_message(value):
        rest = [_parse(name, line) for line in (second, *lines)]
        yield _entry([value, *rest], Layout.MESSAGE_LINES, _place(name, first[0]))
        return
    yield _entry(value, Layout.LINE, _place(name, first[0]))
    yield _entry(_parse(name, second), Layout.LINE, _place(name, second[0]))
    for line in lines:
        yield _entry(_parse(name, line), Layout.LINE, _place(name, line[0]))


def _pretty(name: str, first: Line, second: Line, stream: IO[bytes]) -> Entry:
    gap = b"\n" * (second[0] - first[0] - 1)
    value = _parse(name, (first[0], first[1] + gap + second[1] + stream.read()))
    return _entry(value, Layout.PRETTY, _place(name, first[0]))


def _is_message(value: object) -> bool:
    """Whether this is one message by itself, and not a request or a list."""
    return isinstance(value, dict) and "role" in value and not any(key in value for key in _formats())


def _entry(value: object, layout: Layout, place: str) -> Entry:
    shape = next(filter(None, map(tool_of, value[:1] if isinstance(value, list) else (value,))), None)
    if shape is not None:
        raise InvalidInput(place, described(shape))
    if isinstance(value, list):
        return Entry(Recording(value), value, None, layout, place)
    if not isinstance(value, dict):
        raise InvalidInput(place, f"this is {_kind(value)}; {_EXPECTED}")
    key = next((key for key in _formats() if key in value), None)
    if key is None:
        raise InvalidInput(place, f"the object has no messages; {_EXPECTED}")
    if not isinstance(value[key], list):
        raise InvalidInput(place, f"{key!r} is {_kind(value[key])}, not a list of messages")
    return Entry(_recording(value, key, place), value, key, layout, place)


def _recording(value: Mapping[str, Any], key: str, place: str) -> Recording:
    meta = value.get("meta")
    model = value.get("model") or (meta.get("model") if isinstance(meta, dict) else None)
    tools = value.get("tools")
    if tools is not None and not isinstance(tools, list):
        raise InvalidInput(place, f"'tools' is {_kind(tools)}, not a list")
    return Recording(
        value[key],
        system=next((value[name] for name in _system_keys() if value.get(name) is not None), None),
        tools=tools or None,
        format=_word(value, "format", place) or _formats()[key] or None,
        model=model if isinstance(model, str) else None,
        id=_word(value, "id", place),
        pending="format" not in value,
    )


def _word(value: Mapping[str, Any], key: str, place: str) -> str | None:
    word = value.get(key)
    if word is not None and not isinstance(word, str):
        raise InvalidInput(place, f"{key!r} is {_kind(word)}, not a string")
    return word


def _kind(value: object) -> str:
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", int: "a number"}
    return "null" if value is None else kinds.get(type(value), "a number")


def _place(name: str, line: int) -> str:
    return f"{name}, line {line}"


def _parse(name: str, line: Line) -> Native:
    number, content = line
    try:
        return json.loads(content.decode().rstrip())
    except json.JSONDecodeError as error:
        what = f"not JSON: {error.msg} at column {error.colno}"
        cut = error.pos >= len(error.doc) or error.msg.startswith("Unterminated string")
        raise InvalidInput(_place(name, number + error.lineno - 1), what + (" (cut short?)" if cut else "")) from None
    except UnicodeDecodeError:
        raise InvalidInput(_place(name, number), "not UTF-8 text; expected JSON or JSON lines") from None
    except RecursionError:
        raise InvalidInput(_place(name, number), "nested too deep to be read") from None
    except ValueError as error:  # a whole number with more digits than Python reads
        raise InvalidInput(_place(name, number), f"not JSON: {error}") from None


@contextmanager
def _open(source: str) -> Iterator[IO[bytes]]:
    if source == "-":
        if sys.stdin is None:
            raise InvalidInput("stdin", "is closed")
        buffered = BufferedReader(cast("RawIOBase", sys.stdin.buffer))
        yield _unpacked(buffered)
        buffered.detach()  # stdin is not ours to close
        return
    with Path(source).open("rb", buffering=0) as raw:
        yield _unpacked(BufferedReader(raw))


def _unpacked(stream: BufferedReader[RawIOBase]) -> IO[bytes]:
    return cast("IO[bytes]", gzip.GzipFile(fileobj=stream) if stream.peek(2)[:2] == _GZIP else stream)


class _Limited(RawIOBase):
    """A stream that is not read beyond a number of bytes."""

    def __init__(self, stream: IO[bytes], name: str, max_bytes: int) -> None:
        self._stream = stream
        self._name = name
        self._most = self._left = max_bytes

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: Native, /) -> int:
        """Read into ``buffer`` and return the number of bytes."""
        content = self._stream.read(min(len(buffer), self._left + 1))
        if len(content) > self._left:
            what = f"has more than {self._most:,} bytes, unpacked: pass --max-bytes to read more of it"
            raise InvalidInput(self._name, what)
        self._left -= len(content)
        buffer[: len(content)] = content
        return len(content)


@contextmanager
def _translated(name: str) -> Iterator[None]:
    """Turn what the operating system and gzip raise into an error that names the file."""
    try:
        yield
    except IsADirectoryError:
        raise InvalidInput(name, "is a directory, not a file") from None
    except FileNotFoundError:
        raise InvalidInput(name, "there is no such file") from None
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidInput(name, f"damaged gzip: {error}") from None
    except BrokenPipeError:
        raise
    except OSError as error:
        raise InvalidInput(name, f"cannot be read: {error.strerror or error}") from None
