"""What the last builds and tests complained about."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import ClassVar

from attrs import field, frozen

from agentctx.protocols import ContextItem
from agentctx.sources.folder import opened
from agentctx.sources.secrets import Redactor, redact_secrets
from agentctx.sources.writing import amount

_WINDOW = 256 * 1024
"""How much of a log is read, in bytes from its end."""


def _folder(given: str | Path | None) -> Path | None:
    return Path(given) if given else None


@frozen
class BuildErrors:
    """The ends of the newest logs in a folder: files called ``*.log`` or ``*.err``, or with ``error`` in their name.

    Args:
        folder: The folder of logs; one that does not exist has none.
        limit: How many logs are told.
        max_tokens: The most tokens of it all.
        redact: Takes secrets out; None leaves them in.

    Raises:
        ConfigError: If a number makes no sense.

    Example:
        >>> from agentctx.sources import BuildErrors, gather
        >>> gathered = await gather([BuildErrors("logs", limit=3)])
    """

    name: ClassVar[str] = "errors"
    description: ClassVar[str] = "ends of the newest build and test logs"

    folder: Path | None = field(converter=_folder)
    limit: int = field(default=3, validator=amount(1), kw_only=True)
    max_tokens: int | None = field(default=1_000, validator=amount(0, optional=True), kw_only=True)
    redact: Redactor | None = field(default=redact_secrets, kw_only=True)

    def __call__(self, query: str, /) -> Sequence[ContextItem]:
        """An item for each log that says anything, the newest first; it is cut at its beginning."""
        del query
        return list(islice(self._said(), self.limit))

    def _said(self) -> Iterator[ContextItem]:
        """An item for each log that says anything; a log is read when it is asked for."""
        for _, name in sorted(self._logs()):
            said = _end(Path(self.folder or ""), name)
            title = name if self.redact is None else self.redact(name, "")
            content = said if self.redact is None else self.redact(said, f"{name}.log")
            if content.strip():
                yield ContextItem(title, content, 0.85, keep="tail")

    def _logs(self) -> Iterator[tuple[int, str]]:
        """Negative time of change and name of each log. Links are not followed: they may lead anywhere."""
        if self.folder is None or not self.folder.is_dir():
            return
        with os.scandir(self.folder) as entries:
            for entry in entries:
                low = entry.name.lower()
                if (low.endswith((".log", ".err")) or "error" in low) and entry.is_file(follow_symlinks=False):
                    yield -entry.stat(follow_symlinks=False).st_mtime_ns, entry.name


def _end(folder: Path, name: str) -> str:
    """The last lines of a file, whole: a secret that is cut in two is not recognised, nor is half a character."""
    with opened(folder, name) as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(0, size - _WINDOW))
        data = file.read(_WINDOW)
    if size > _WINDOW:
        data = data[data.find(b"\n") + 1 :] if b"\n" in data else b""
    return data.decode("utf-8", "replace")
