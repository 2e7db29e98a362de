"""Transcripts that other tools keep in a shape of their own, told by that shape, so that none is taken for a request.

Some of them look like a provider's messages (LangChain's have a ``type`` as items of Responses do, pydantic-ai's have
``parts`` as Gemini's contents do), and reading them as such would lose what they say.
"""

from __future__ import annotations

import gzip
import json
import sys
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, Any, TypeGuard, cast

from attrs import define, field, frozen

from agentctx.characters import on_one_line
from agentctx.errors import InvalidInput
from agentctx.formats.native import fields_or_none
from agentctx.lazy import data_file
from agentctx.message import Native
from agentctx.replay import Billed, Recording

LOOKED_AT = 8
"""How many messages at the start are looked at: tools keep all their messages in one shape, but some show it only
where a tool is called."""

Fields = Mapping[str, Native]


@frozen(eq=False, repr=False)
class OtherTool:
    """How one tool keeps its messages.

    Args:
        name: The tool.
        shapes: The shapes of its messages, as ``shapes.toml`` describes them.
        instead: What holds, or makes, messages of a provider in its place, if anything does.
        document: Whether its shapes are those of whole files.
    """

    name: str
    shapes: Sequence[Mapping[str, Any]]
    instead: str = ""
    document: bool = False


_data = partial(data_file, "agentctx.transcripts", "shapes.toml")
"""The shapes of transcripts, and how files of other kinds begin."""


@cache
def _tools() -> tuple[OtherTool, ...]:
    return tuple(OtherTool(**tool) for tool in _data()["tool"])


def _items(value: object) -> list[Fields]:
    """The objects of a list; empty when it is none."""
    objects = map(fields_or_none, value) if isinstance(value, (list, tuple)) else ()
    return [item for item in objects if item is not None]


def _begins(value: Native, name: str) -> bool:
    """Whether a list begins with a message of a tool, or with a list that does."""
    first = value[0] if isinstance(value, (list, tuple)) and value else None
    first = first[0] if isinstance(first, (list, tuple)) and first else first
    tool = tool_of(first, document=False) if isinstance(first, Mapping) else None
    return tool is not None and tool.name == name


def _holds(value: object, keys: Iterable[str]) -> bool:
    return isinstance(value, Mapping) and all(key in value for key in keys)


_CONDITIONS: Mapping[str, Callable[[Fields, Any], bool]] = {
    "has": _holds,
    "lacks": lambda fields, keys: not any(key in fields for key in keys),
    "any": lambda fields, keys: any(key in fields for key in keys),
    "only": lambda fields, keys: all(key in keys for key in fields),
    "values": lambda fields, values: all(fields.get(key) in among for key, among in values.items()),
    "texts": lambda fields, keys: all(isinstance(fields.get(key), str) for key in keys),
    "lists": lambda fields, keys: all(isinstance(fields.get(key), (list, tuple)) for key in keys),
    "objects": lambda fields, objects: all(_holds(fields.get(key), keys) for key, keys in objects.items()),
    "some": lambda fields, lists: all(
        any(_fits(shape, item) for item in _items(fields.get(key))) for key, shape in lists.items()
    ),
    "every": lambda fields, lists: all(
        all(_fits(shape, item) for item in _items(fields.get(key))) for key, shape in lists.items()
    ),
    "begins": lambda fields, lists: all(_begins(fields.get(key), name) for key, name in lists.items()),
}
"""The conditions of which a shape is made, by name."""


def _fits(shape: Mapping[str, Any], fields: Fields) -> bool:
    """Whether an object has a shape."""
    return all(_CONDITIONS[name](fields, wanted) for name, wanted in shape.items())


def tool_of(value: object, *, document: bool = True) -> OtherTool | None:
    """Find the tool in whose shape an object is.

    Args:
        value: A message, or a document.
        document: Whether the object may be a whole document as well as a message.

    Returns:
        The tool; None when the object is in no shape that is known.
    """
    fields = fields_or_none(value)
    if fields is None:
        return None
    tools = (tool for tool in _tools() if document or not tool.document)
    return next((tool for tool in tools if any(_fits(shape, fields) for shape in tool.shapes)), None)


def described(tool: OtherTool) -> str:
    """A sentence that says whose shape it is, and what to take in its place."""
    how = f" (take {tool.instead})" if tool.instead else ""
    whose = (
        tool.name
        if tool.name.startswith(("a ", "an ", "the output", "the list"))
        else f"a transcript of {tool.name} in its own shape"
    )
    return f"this is {whose}, and not messages of a model's provider{how}"


MAX_BYTES = 256_000_000
"""What is read of a file without being asked for more, in bytes, unpacked."""

Line = tuple[int, bytes]
"""A line of a file with its number, from 1."""

_GZIP = b"\x1f\x8b"
_LONGEST_START = 64
_LONGEST_HEADING = 500

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
    if start.startswith(b"# ") and b"from Cursor" in start[:_LONGEST_HEADING]:
        raise InvalidInput(name, "this is an export of Cursor as Markdown, which no longer holds the messages")
    start = start[:_LONGEST_START]
    text = start.lstrip(b"\xef\xbb\xbf \r\n\t").lower()
    for begins, kinds in ((start, _data()["binary"]), (text, _data()["text"])):
        for magic, kind in kinds.items():
            if begins.startswith(magic.encode("latin-1")):
                raise InvalidInput(name, kind)


def parse(name: str, line: Line) -> Native:
    """The JSON value of a line.

    Raises:
        InvalidInput: If it is none; names file and line.
    """
    number, content = line
    try:
        return json.loads(content.decode().rstrip())
    except json.JSONDecodeError as error:
        what = f"not JSON: {error.msg.removesuffix(' at')} at column {error.colno}"
        cut = error.pos >= len(error.doc) or error.msg.startswith("Unterminated string")
        raise InvalidInput(place(name, number + error.lineno - 1), what + (" (cut short?)" if cut else "")) from None
    except UnicodeDecodeError:
        raise InvalidInput(place(name, number), "not UTF-8 text; expected JSON or JSON lines") from None
    except RecursionError:
        raise InvalidInput(place(name, number), "nested too deep to be read") from None
    except ValueError:  # the only other one that ``json`` raises
        raise InvalidInput(place(name, number), "holds a whole number of more digits than are read") from None


def object_of(line: bytes) -> Fields:
    """The object that a line holds; an empty one when it holds none."""
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def text_in(value: Native, *keys: str) -> str | None:
    """Return the first field of these keys that is a string; None where no field is, or the value is no object."""
    return next((value[key] for key in keys if isinstance(value.get(key), str)), None) if _is_object(value) else None


def object_in(value: Native, *keys: str) -> Fields:
    """Go down an object by these keys, and return the object there; an empty one where there is none."""
    for key in keys:
        value = value.get(key) if _is_object(value) else None
    return value if _is_object(value) else {}


def list_in(value: Native, *keys: str) -> Sequence[Native]:
    """Return the first field of these keys that is a list; an empty one where no field is."""
    return next((value[key] for key in keys if isinstance(value.get(key), list)), ()) if _is_object(value) else ()


def objects_in(value: Native, key: str) -> list[Fields]:
    """Return the objects in the list of a field."""
    return [item for item in list_in(value, key) if _is_object(item)]


def _is_object(value: Native) -> TypeGuard[Fields]:
    return isinstance(value, Mapping)


def place(name: str, line: int) -> str:
    """A line of a file, for errors."""
    return f"{name}, line {line}"


_NAMED = 8
_LONGEST_KIND = 40


def left_out(others: Iterable[Fields], what: str = "line") -> tuple[str, ...]:
    """What there is to say of lines that a log of this kind does not have, with how many there are of each kind.

    Args:
        others: The lines.
        what: What they are called.
    """
    kinds = Counter(_kind(other) for other in others)
    if not kinds:
        return ()
    named = [f"{kind} {count:,}" for kind, count in kinds.most_common(_NAMED)]
    more = ", …" if len(kinds) > _NAMED else ""
    many = kinds.total()
    begins = f"1 {what} of another kind was" if many == 1 else f"{many:,} {what}s of other kinds were"
    return (f"{begins} left out: {', '.join(named)}{more}",)


def _kind(fields: Fields) -> str:
    names = (fields.get(key) for key in ("type", "kind", "role"))
    return next((on_one_line(name, _LONGEST_KIND) for name in names if isinstance(name, str) and name), "nameless")


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


@contextmanager
def _open(source: str) -> Iterator[IO[bytes]]:
    if source == "-":
        if sys.stdin is None:
            raise InvalidInput("stdin", "is closed")
        buffered = BufferedReader(cast("RawIOBase", sys.stdin.buffer))
        yield unpacked(buffered)
        buffered.detach()  # stdin is not ours to close
        return
    with Path(source).open("rb", buffering=0) as raw:
        yield unpacked(BufferedReader(raw))


def unpacked(stream: BufferedReader[RawIOBase]) -> IO[bytes]:
    """A stream, unpacked when it is gzip."""
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
