"""Where commands write and how they end: tables and JSON to stdout, remarks to stderr, files whole or not at all."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from functools import wraps
from pathlib import Path
from typing import IO, NoReturn, ParamSpec

import typer
from attrs import define, field
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from agentctx.characters import IN_ASCII, escaped, on_one_line, printable
from agentctx.errors import AgentctxError, AmbiguousFormat, ConfigError, ContextOverflow, InvalidInput
from agentctx.models.table import encoding_for, find, percent_for
from agentctx.reports import Report, report_text

NARROW = 70
"""A terminal of fewer columns has no room for words beside numbers: they stand on a line of their own."""

_PIPE_WIDTH = 100
_LONGEST_NOTE = 300
_MOST_CHANGES = 5
_ALIKE = 100
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
    text = captured.get().translate(IN_ASCII if console.options.ascii_only else {})
    sys.stdout.write(text if console.is_terminal else _TRAILING.sub("", text))
    sys.stdout.flush()


def give_up_stdout() -> None:
    """Let what is still to be written to stdout go nowhere, so that the exit can flush it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def err() -> Console:
    """The console on stderr."""
    return Console(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)


def to_json(value: object) -> bytes:
    """A JSON value as UTF-8; what a terminal would obey and UTF-8 cannot hold is written as a JSON escape."""
    return escaped(json.dumps(value, ensure_ascii=False)).encode()


def print_json(value: object, stream: IO[bytes] | None = None) -> None:
    """Write one JSON document on one line of stdout, or of ``stream``."""
    if stream is None:
        sys.stdout.flush()
        stream = sys.stdout.buffer
    stream.write(to_json(value) + b"\n")
    stream.flush()


@contextmanager
def prints_on_stderr() -> Iterator[IO[bytes]]:
    """Send what code of a user's prints to stderr, that of other processes begun here too.

    Yields:
        What still goes to stdout.
    """
    sys.stdout.flush()
    try:
        number = sys.stdout.fileno()
    except OSError:  # stdout is no file, but somebody's object
        stream = sys.stdout.buffer
        with redirect_stdout(sys.stderr):
            yield stream
        return
    kept = os.dup(number)
    try:
        os.dup2(2, number)
        with open(kept, "wb", closefd=False) as stream, redirect_stdout(sys.stderr):
            yield stream
    finally:
        os.dup2(kept, number)
        os.close(kept)


def report_json(report: tuple[str, Report]) -> bytes:
    """A named report as one line of JSON."""
    name, made = report
    return to_json({"id": name, **made.to_dict()})


def tell_reports(reports: Iterable[tuple[str, Report]], *, json: bool) -> None:
    """Write named reports to stderr: for people, or as JSON, one document a line."""
    if json:
        typer.echo(b"\n".join(map(report_json, reports)), err=True)
        return
    for name, made in reports:
        err().print(printable(f"{name}: {report_text(made, most=_MOST_CHANGES)}"))


@contextmanager
def progress(label: str, total: int | None) -> Iterator[Callable[[], None]]:
    """A progress bar on stderr, on a terminal only; call what is given back once for each thing done."""
    console = err()
    if not console.is_terminal:  # a bar that is disabled still ends with an empty line in older versions of rich
        yield lambda: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task(label, total=total)
        yield lambda: bar.advance(task)


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
            try:
                with path.open("wb") as device:  # a pipe waits for its reader
                    _pour(stream, device)
            except OSError as error:
                raise InvalidInput(str(path), f"cannot be written: {error.strerror or error}") from None
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


@define
class UnknownModels:
    """Says on stderr, once for each, that a model is not known and how its tokens are counted then."""

    _told: set[str] = field(factory=set)

    def tell(self, model: str | None, *, otherwise: str = "--model") -> None:
        """Say so, unless the model is known."""
        if model is None or model in self._told or find(model) is not None:
            return
        self._told.add(model)
        percent = percent_for(model)
        counted = encoding_for(model) + (f" times {percent / 100:g}" if percent != _ALIKE else "")
        said = f"note: model {model!r} is not known: counted as {counted}; {otherwise} or register_model says more"
        err().print(on_one_line(said, _LONGEST_NOTE), style="dim")


FOUND = 1
"""Exit code: something was found (violations, or a request that cannot be made to fit)."""

BAD_INPUT = 2
"""Exit code: the input or the usage is wrong."""

_PIPE_CLOSED = 128 + 13
INTERRUPTED = 128 + 2
TERMINATED = 128 + 15

P = ParamSpec("P")


def in_one_line(command: Callable[P, None]) -> Callable[P, None]:
    """Turn what agentctx raises into one line on stderr and exit code 2 (1 for an overflow).

    A reader that closes the pipe (``| head``) ends the command quietly, with the exit code of a closed pipe.
    """

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            command(*args, **kwargs)
        except AgentctxError as error:
            fail(str(error), _code(error))
        except RecursionError:
            fail("something in the input is nested too deep to be worked on")
        except BrokenPipeError:
            give_up_stdout()
            raise typer.Exit(_PIPE_CLOSED) from None
        except OSError as error:  # reading names its file itself: this is stdout
            give_up_stdout()
            fail(f"cannot write: {error.strerror or error}")
        except KeyboardInterrupt as signal:
            say("interrupted")
            raise typer.Exit(ended_by(signal)) from None

    return run


class Terminated(KeyboardInterrupt):
    """The process was asked to end (SIGTERM)."""


def ended_by(signal: KeyboardInterrupt) -> int:
    """The exit code of what was asked to end."""
    return TERMINATED if isinstance(signal, Terminated) else INTERRUPTED


@contextmanager
def ending_in_order() -> Iterator[None]:
    """Let SIGTERM end what is done here as an interrupt does: with ``Terminated``, and not at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def end(_number: int, _frame: object) -> NoReturn:
        raise Terminated

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def fail(what: str, code: int = BAD_INPUT) -> NoReturn:
    """Say what is wrong in one line on stderr and end with ``code``."""
    say(what)
    raise typer.Exit(code)


def _code(error: AgentctxError) -> int:
    return FOUND if isinstance(error, ContextOverflow) else BAD_INPUT


def say(what: str) -> None:
    """Say what is wrong in one line on stderr."""
    err().print(f"error: {printable(' '.join(what.split()))}", style="red")


@define
class Tally:
    """The exit code of a command that goes through several recordings; the worst one counts."""

    code: int = 0

    def found(self) -> None:
        """Remember that something was found."""
        self.code = max(self.code, FOUND)

    @contextmanager
    def at(self, place: str) -> Iterator[None]:
        """Say in one line what is wrong with the recording at ``place``, and let the command go on with the next."""
        try:
            with at(place):
                yield
        except ConfigError:  # an option is wrong: that holds for every recording
            raise
        except AgentctxError as error:
            say(str(error) if isinstance(error, InvalidInput) else f"{place}: {error}")
            self.code = max(self.code, _code(error))

    @contextmanager
    def named(self) -> Iterator[None]:
        """As ``at``, where an error names its own place."""
        try:
            yield
        except ConfigError:
            raise
        except AgentctxError as error:
            self.wrong(error)

    def wrong(self, error: AgentctxError) -> None:
        """Say what is wrong where an error names its own place."""
        say(str(error))
        self.code = max(self.code, _code(error))

    def end(self) -> None:
        """End the command with the exit code."""
        if self.code:
            raise typer.Exit(self.code)


@contextmanager
def at(place: str) -> Iterator[None]:
    """Put the place in the file before an error in what was read from there."""
    try:
        yield
    except AmbiguousFormat as error:
        what = f"{error.where}: they could be {error.which}: pass --format, or a --model that decides it"
        raise InvalidInput(place, what) from error
    except InvalidInput as error:
        raise InvalidInput(place, str(error)) from error
    except RecursionError as error:
        raise InvalidInput(place, "nested too deep to be worked on") from error
