"""Files, read safely: no link out of a folder is followed, no pipe or device opened, no more read than asked for."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

from attrs import frozen

from agentctx.errors import SourceError

_BY_FOLDER = os.open in os.supports_dir_fd and os.stat in os.supports_dir_fd
"""Whether the system can open a name in an open folder, so that nobody can swap the folder meanwhile."""

_FOLDER = os.O_RDONLY | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_NOFOLLOW", 0)
_FILE = (
    os.O_RDONLY
    | getattr(os, "O_NOFOLLOW", 0)
    | getattr(os, "O_NONBLOCK", 0)  # what became a pipe since it was looked at is not waited for
    | getattr(os, "O_NOCTTY", 0)
    | getattr(os, "O_BINARY", 0)
)


@frozen
class Stamp:
    """What changes when a file does, in whatever direction its clock went.

    Args:
        changed: Time of change, in nanoseconds.
        size: Size in bytes.
        file: Device and number of the file, the same for all its names.
    """

    changed: int
    size: int
    file: tuple[int, int]


def stamp_of(path: Path) -> Stamp | None:
    """The stamp of a regular file, links followed; None when there is none."""
    try:
        found = path.stat()
    except (OSError, ValueError):
        return None
    return _stamp(found) if stat.S_ISREG(found.st_mode) else None


def _stamp(found: os.stat_result) -> Stamp:
    return Stamp(found.st_mtime_ns, found.st_size, (found.st_dev, found.st_ino))


def read_text(path: Path, max_bytes: int, root: Path) -> tuple[str, Stamp]:
    """The text of a file and its stamp.

    Args:
        path: The file, links resolved: what has become a link since is not followed.
        max_bytes: The most bytes that it may have.
        root: The folder that a file in it is not to lead out of.

    Raises:
        SourceError: If it cannot be read, is no text in UTF-8, or is larger than ``max_bytes``.
    """
    try:
        with opened(root if path.is_relative_to(root) else path.parent, str(path)) as file:
            stamp = _stamp(os.fstat(file.fileno()))
            data = file.read(max_bytes + 1) if stamp.size <= max_bytes else b""
    except SourceError as error:
        raise SourceError(str(path), error.what) from error
    except OSError as error:
        raise SourceError(str(path), f"cannot read it: {error.strerror}") from error
    if max(stamp.size, len(data)) > max_bytes:
        raise SourceError(str(path), f"{max(stamp.size, len(data)):,} bytes are more than the budget can hold")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(str(path), "is not text in UTF-8") from error
    if "\0" in text:
        raise SourceError(str(path), "is not text")
    return text, stamp


def is_file_below(folder: Path, name: str) -> bool:
    """Whether there is such a regular file below a folder; no link out of the folder is followed."""
    place = Path(os.path.realpath(folder / name))
    return place.is_relative_to(os.path.realpath(folder)) and stamp_of(place) is not None


def read_below(folder: Path, name: str, max_bytes: int) -> bytes | None:
    """The content of a file below a folder; None when there is no such regular file, or it is larger.

    Args:
        folder: The folder that nothing is read out of.
        name: The file's path below it.
        max_bytes: The most bytes that it may have.
    """
    try:
        with opened(folder, name) as file:
            data = file.read(max_bytes + 1)
    except (OSError, SourceError):
        return None
    return data if len(data) <= max_bytes else None


@contextmanager
def opened(folder: Path, name: str) -> Iterator[BinaryIO]:
    """A regular file below a folder, open for reading.

    Links are followed as long as they lead to a place below the folder. What is opened is the place that was found,
    folder by folder: what is made a link in between is refused.

    Args:
        folder: The folder.
        name: The file's path below it.

    Raises:
        SourceError: If it leads out of the folder, or is a folder, pipe, socket or device.
        OSError: If it is not there or cannot be read.
    """
    root = os.path.realpath(folder)
    place = os.path.realpath(os.path.join(root, name))  # noqa: PTH118 - the name may be absolute, and is checked
    if not Path(place).is_relative_to(root):
        raise SourceError(name, "leads out of its folder")
    with ExitStack() as folders:
        number = _opened_folder(root, Path(place).relative_to(root), folders) if _BY_FOLDER else None
        last = place if number is None else Path(place).name
        if not stat.S_ISREG(os.stat(last, dir_fd=number, follow_symlinks=False).st_mode):
            raise SourceError(name, "cannot read it: it is no file")
        file = folders.enter_context(os.fdopen(os.open(last, _FILE, dir_fd=number), "rb"))
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise SourceError(name, "cannot read it: it is no file")
        yield file


def _opened_folder(root: str, inside: Path, folders: ExitStack) -> int:
    """The folder of a path below the root, opened step by step."""
    number = os.open(root, _FOLDER)
    folders.callback(os.close, number)
    for part in inside.parts[:-1]:
        number = os.open(part, _FOLDER, dir_fd=number)
        folders.callback(os.close, number)
    return number
