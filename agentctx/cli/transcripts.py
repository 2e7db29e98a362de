"""What commands read and write: transcripts, with remarks on stderr; files that are there whole or not at all."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Annotated

import typer

from agentctx.cli.console import err
from agentctx.cli.options import parse_bytes
from agentctx.errors import ConfigError, InvalidInput
from agentctx.printable import on_one_line, printable
from agentctx.transcripts import Transcript
from agentctx.transcripts.local import local_sessions, session_named
from agentctx.transcripts.reading import Wrong, chosen as chosen_of

_LONGEST_NOTE = 300
_LONGEST_PATH = 400

SessionFile = Annotated[
    str | None,
    typer.Argument(
        metavar="FILE",
        show_default=False,
        help="A recorded session, a request or a list of messages, as JSON or JSON lines; - is stdin.",
    ),
]
SessionNumber = Annotated[
    str | None,
    typer.Option(
        "--session",
        metavar="N",
        show_default=False,
        help="In place of a file: a session on this machine, by its number in agentctx sessions, or how its id begins.",
    ),
]


def session_file(session: str | None, number: str | None) -> str:
    """The file to read: the one that is named, or that of a session on this machine; says which that is."""
    if number is None:
        if session is None:
            msg = "give a FILE, or --session with a number of agentctx sessions"
            raise ConfigError(msg)
        return session
    if session is not None:
        msg = "give a FILE or --session, not both"
        raise ConfigError(msg)
    found = session_named(local_sessions(), number)
    err().print(on_one_line(f"session {found.number}: {found.tool}, {found.path}", _LONGEST_PATH), style="dim")
    return str(found.path)


def chosen(source: str, wanted: str | None, max_bytes: str, *, wrong: Wrong | None = None) -> Iterator[Transcript]:
    """The recordings of a file, or only the one with the id ``wanted``; what there is to say of each goes to stderr.

    ``max_bytes`` is what was typed after ``--max-bytes``. ``wrong`` is told what is wrong with a line; without it, that
    ends the reading.
    """
    yield from noted(chosen_of(source, wanted, parse_bytes("--max-bytes", max_bytes), wrong=wrong))


def noted(found: Iterable[Transcript]) -> Iterator[Transcript]:
    """The transcripts; says on stderr what there is to say of each when it is taken."""
    for transcript in found:
        for note in transcript.notes:
            err().print(on_one_line(f"note: {transcript.source}: {note}", _LONGEST_NOTE), style="dim")
        yield transcript


def from_tool(transcript: Transcript) -> str:
    """What to add where a transcript is named: the tool that it is from, when it is from one."""
    return f", from {printable(transcript.source)}" if transcript.source else ""


def apart(option: str, target: str | None, read: Iterable[str]) -> None:
    """See to it that what is written does not take the place of what is read.

    Args:
        option: The option that names what is written, for the error.
        target: The file that will be written; None, ``-`` and a device are no file that could be lost.
        read: The files that the command reads.

    Raises:
        ConfigError: If it is one of them, under whatever name.
    """
    if target is None or target == "-" or not Path(target).is_file():
        return
    for source in read:
        with suppress(OSError):
            if Path(source).samefile(target):
                msg = f"{option}: {printable(target)} is read by this command: name another file to write"
                raise ConfigError(msg)


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
