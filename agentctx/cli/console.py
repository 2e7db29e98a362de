"""Where the commands write: tables to stdout, remarks and progress to stderr, JSON as UTF-8 bytes."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from attrs import define, field
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from agentctx.core.printable import escaped, on_one_line
from agentctx.tokens.models import encoding_for, find, percent_for

NARROW = 70
"""A terminal of fewer columns has no room for words beside numbers: they stand on a line of their own."""

_PIPE_WIDTH = 100
_LONGEST_NOTE = 300
_ALIKE = 100
_PLAIN = str.maketrans("→━─▼✗…", ">#.vx~")
_TRAILING = re.compile(r"[ ]+$", re.MULTILINE)


@contextmanager
def printing() -> Iterator[Console]:
    """A console for stdout; what is printed on it is written when the block ends well.

    It is 100 columns wide when stdout is no terminal and ``COLUMNS`` says nothing else; blanks at the ends of lines
    are left out then.
    """
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal and "COLUMNS" not in os.environ:
        console.width = _PIPE_WIDTH
    with console.capture() as captured:
        yield console
    text = captured.get().translate(_PLAIN if console.options.ascii_only else {})
    sys.stdout.write(text if console.is_terminal else _TRAILING.sub("", text))
    sys.stdout.flush()


def err() -> Console:
    """The console on stderr."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def to_json(value: Any, *, indent: int | None = None) -> bytes:  # noqa: ANN401 - any JSON value
    """A JSON value as UTF-8; what a terminal would obey and UTF-8 cannot hold is written as a JSON escape."""
    return escaped(json.dumps(value, ensure_ascii=False, indent=indent)).encode()


def print_json(value: Any) -> None:  # noqa: ANN401 - any JSON value
    """Write one JSON document on one line of stdout."""
    sys.stdout.flush()
    sys.stdout.buffer.write(to_json(value) + b"\n")
    sys.stdout.buffer.flush()


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Callable[[], None]]:
    """A progress bar on stderr, on a terminal only; call what is given back once for each thing done."""
    console = err()
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)


@define
class UnknownModels:
    """Says on stderr, once for each, that a model is not known and how its tokens are counted then."""

    _told: set[str] = field(factory=set)

    def tell(self, model: str | None, *, otherwise: str = "--model") -> None:
        """Say so, unless the model is known.

        Args:
            model: Its name; None when there is none.
            otherwise: The options that say more of it.
        """
        if model is None or model in self._told or find(model) is not None:
            return
        self._told.add(model)
        percent = percent_for(model)
        counted = encoding_for(model) + (f" times {percent / 100:g}" if percent != _ALIKE else "")
        said = f"note: model {model!r} is not known: counted as {counted}; {otherwise} or register_model says more"
        err().print(on_one_line(said, _LONGEST_NOTE), style="dim")
