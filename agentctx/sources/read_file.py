"""One text file, read safely."""

from __future__ import annotations

import os
import stat
from pathlib import Path

from attrs import frozen

from agentctx.errors import SourceError


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
    if not stat.S_ISREG(found.st_mode):
        return None
    return Stamp(found.st_mtime_ns, found.st_size, (found.st_dev, found.st_ino))


def read_text(path: Path, max_bytes: int) -> tuple[str, Stamp]:
    """The text of a file and its stamp.

    Raises:
        SourceError: If it cannot be read, is no text in UTF-8, or is larger than ``max_bytes``.
    """
    stamp = stamp_of(path)
    if stamp is None:
        raise SourceError(str(path), "cannot read it: it is no file")
    if stamp.size > max_bytes:
        raise SourceError(str(path), f"{stamp.size:,} bytes are more than the budget can hold")
    try:
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
            found = os.fstat(file.fileno())
    except OSError as error:
        raise SourceError(str(path), f"cannot read it: {error.strerror}") from error
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SourceError(str(path), "is not text in UTF-8") from error
    if "\0" in text:
        raise SourceError(str(path), "is not text")
    return text, Stamp(found.st_mtime_ns, found.st_size, (found.st_dev, found.st_ino))
