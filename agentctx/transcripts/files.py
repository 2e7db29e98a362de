"""Read a file or stdin: unpacked, never more than was allowed, and whatever is wrong said in one sentence."""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, cast

from attrs import define, field

from agentctx.core.message import Native
from agentctx.errors import InvalidInput

MAX_BYTES = 256_000_000
"""What is read of a file without being asked for more, in bytes, unpacked."""

Line = tuple[int, bytes]
"""A line of a file with its number, from 1."""

Fields = Mapping[str, Native]

_GZIP = b"\x1f\x8b"
_LONGEST_START = 64

_BINARY = {
    b"SQLite format 3\x00": "this is an SQLite database: export the messages of one conversation from it as JSON",
    b"PAR1": "this is a Parquet file: write its messages as JSON lines",
    b"\x89PNG": "this is a PNG image, and not JSON or JSON lines",
    b"\xff\xd8\xff": "this is a JPEG image, and not JSON or JSON lines",
    b"%PDF": "this is a PDF document, and not JSON or JSON lines",
    b"ARROW1": "this is an Arrow file: write its messages as JSON lines",
    b"\x28\xb5\x2f\xfd": "this is packed with zstd: unpack it first",
    b"BZh": "this is packed with bzip2: unpack it first",
    b"\xfd7zXZ": "this is packed with xz: unpack it first",
    b"\x1f\x9d": "this is packed with compress: unpack it first",
    b"\x80\x04\x95": "this is a Python pickle: it is not read, since reading one runs it",
    b"\x80\x05\x95": "this is a Python pickle: it is not read, since reading one runs it",
}
"""How files of other kinds begin, and what is said of them."""

_TEXT = {
    b"<?xml": "this is XML, and not JSON or JSON lines",
    b"<!doctype": "this is a web page, and not JSON or JSON lines: a shared chat has to be exported as JSON",
    b"<html": "this is a web page, and not JSON or JSON lines: a shared chat has to be exported as JSON",
    b"_**user": "this is SpecStory's Markdown: give the session that it was made from",
    b"---\n": "this is YAML or Markdown, and not JSON or JSON lines",
    b"# ": "this is Markdown or a script, and not JSON or JSON lines: export the session as JSON",
    b"data: ": "this is a recorded stream of server-sent events, and not JSON or JSON lines: give the whole answers",
    b"event: ": "this is a recorded stream of server-sent events, and not JSON or JSON lines: give the whole answers",
}

ZIP = b"PK\x03\x04"
"""How a zip archive begins."""


@contextmanager
def opened(source: str, max_bytes: int) -> Iterator[BufferedReader[RawIOBase]]:
    """A file as a stream of bytes, unpacked when it is gzip; ``-`` is stdin.

    Args:
        source: Path, or ``-``.
        max_bytes: More than these is an error, unpacked.

    Raises:
        InvalidInput: If it cannot be read; names the file.
    """
    name = name_of(source)
    with translated(name), _open(source) as stream:
        yield BufferedReader(cast("RawIOBase", _Limited(stream, name, max_bytes)))


def name_of(source: str) -> str:
    """What errors call a source."""
    return "stdin" if source == "-" else source


def refuse_other_kinds(name: str, start: bytes) -> None:
    """Check that a file is not of a kind that is no JSON at all.

    Raises:
        InvalidInput: If it is; says which kind, and what to do.
    """
    start = start[:_LONGEST_START]
    found = next((said for magic, said in _BINARY.items() if start.startswith(magic)), None)
    if found is None:
        words = start.lstrip(b"\xef\xbb\xbf \r\n\t").lower()
        found = next((said for magic, said in _TEXT.items() if words.startswith(magic)), None)
    if found is not None:
        raise InvalidInput(name, found)


def parse(name: str, line: Line) -> Native:
    """The JSON value of a line.

    Raises:
        InvalidInput: If it is none; names file and line.
    """
    number, content = line
    try:
        return json.loads(content.decode().rstrip())
    except json.JSONDecodeError as error:
        what = f"not JSON: {error.msg} at column {error.colno}"
        cut = error.pos >= len(error.doc) or error.msg.startswith("Unterminated string")
        raise InvalidInput(place(name, number + error.lineno - 1), what + (" (cut short?)" if cut else "")) from None
    except UnicodeDecodeError:
        raise InvalidInput(place(name, number), "not UTF-8 text; expected JSON or JSON lines") from None
    except RecursionError:
        raise InvalidInput(place(name, number), "nested too deep to be read") from None
    except ValueError as error:  # a whole number with more digits than Python reads
        raise InvalidInput(place(name, number), f"not JSON: {error}") from None


def object_of(line: bytes) -> Fields:
    """The object that a line holds; an empty one when it holds none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def place(name: str, line: int) -> str:
    """A line of a file, for errors."""
    return f"{name}, line {line}"


@define
class LogLines:
    """The objects that a log holds, a line each, read one by one.

    A program may be writing the log: a last line that is cut short is left out, as a damaged one is, and ``notes``
    say so when all lines are read.

    Args:
        name: What errors call the file.
        lines: Its lines.
    """

    name: str
    lines: Iterable[Line]
    _damaged: list[int] = field(factory=list, init=False)
    _last: int = field(default=0, init=False)

    def __iter__(self) -> Iterator[tuple[int, Fields]]:
        """The objects, each with the number of its line."""
        for number, content in self.lines:
            self._last = number
            try:
                value = parse(self.name, (number, content))
            except InvalidInput:
                self._damaged.append(number)
                continue
            if isinstance(value, dict):
                yield number, value
            else:
                self._damaged.append(number)

    @property
    def notes(self) -> tuple[str, ...]:
        """What there is to say of the lines that were left out."""
        notes, damaged = [], list(self._damaged)
        if damaged and damaged[-1] == self._last:
            notes.append(f"line {damaged.pop()} is cut short and left out: the log may still be written")
        if damaged:
            many = f"{len(damaged)} damaged lines are left out, the first: line {damaged[0]}"
            notes.append(many if len(damaged) > 1 else f"1 damaged line is left out: line {damaged[0]}")
        return tuple(notes)


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
def translated(name: str) -> Iterator[None]:
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
