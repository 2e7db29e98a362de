"""What happens, as JSON lines: one object for each event, to be read by machines."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from time import time
from typing import Protocol

from attrs import define, field

from agentctx.core.report import Event, StepPrepared
from agentctx.errors import ConfigError
from agentctx.printable import shown
from agentctx.sinks.facts import facts, saved


class Writable(Protocol):
    """What lines of text can be written to: an open file, ``sys.stdout``."""

    def write(self, text: str, /) -> object:
        """Take a line, with its end."""
        ...

    def flush(self) -> object:
        """Pass on what was taken."""
        ...


@define(eq=False)
class JsonLines:
    """Writes each event as one JSON object on a line of its own, with the time in seconds since 1970.

    It has names, sizes and times, and nothing of what was said, unless ``content`` asks for it. A file is made
    readable for its owner alone, and written behind what it has; several processes may write to one.

    Args:
        to: The path of a file, or something open.
        content: Whether to write also each change with its reason, and errors in their own words.
        clock: Seconds since 1970.

    Raises:
        ConfigError: If ``to`` is neither a path nor something that can be written to, or the file's
            folder is not there.

    Example:
        >>> import io, json
        >>> from agentctx import Pipeline
        >>> from agentctx.sinks import JsonLines
        >>> lines = io.StringIO()
        >>> view = await Pipeline(sinks=[JsonLines(lines)]).prepare([{"role": "user", "content": "Hello"}])
        >>> json.loads(lines.getvalue())["tokens_after"]
        8
    """

    to: str | os.PathLike[str] | Writable
    content: bool = field(default=False, kw_only=True)
    clock: Callable[[], float] = field(default=time, kw_only=True, repr=False)
    _guard: Lock = field(init=False, factory=Lock, repr=False)

    def __attrs_post_init__(self) -> None:
        """Check where it is to write to."""
        if not isinstance(self.to, (str, os.PathLike)) and not callable(getattr(self.to, "write", None)):
            msg = f"JsonLines: to is {self.to!r:.80}; it is the path of a file, or a file that is open for text"
            raise ConfigError(msg)
        if isinstance(self.to, (str, os.PathLike)) and not (folder := Path(self.to).parent).is_dir():
            msg = f"JsonLines: to is {shown(self.to)}; there is no folder {shown(str(folder))}: make it first"
            raise ConfigError(msg)
        if isinstance(self.to, (str, os.PathLike)) and Path(self.to).is_dir():
            msg = f"JsonLines: to is {shown(self.to)}, a folder; name a file in it"
            raise ConfigError(msg)

    def __call__(self, event: Event, /) -> None:
        """Write the event."""
        told = {"time": round(self.clock(), 3), **facts(event, content=self.content)}
        if isinstance(event, StepPrepared):
            less = saved(event)
            told |= {"saved_tokens": less.tokens, "saved_usd": less.usd}
        self._write(json.dumps(told, ensure_ascii=True, default=str) + "\n")

    def _write(self, line: str) -> None:
        if not isinstance(self.to, (str, os.PathLike)):
            with self._guard:
                self.to.write(line)
                self.to.flush()
            return
        file = os.open(Path(self.to), os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode())  # at once, so that lines of several processes do not mix
        finally:
            os.close(file)
