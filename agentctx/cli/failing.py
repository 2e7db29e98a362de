"""How a command ends when something is wrong: one line on stderr and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import NoReturn, ParamSpec

import typer

from agentctx.cli.console import err
from agentctx.errors import AgentctxError, AmbiguousFormat, ContextOverflow, InvalidInput
from agentctx.show.printable import printable

FOUND = 1
"""Exit code: something was found (violations, or a request that cannot be made to fit)."""

BAD_INPUT = 2
"""Exit code: the input or the usage is wrong."""

_PIPE_CLOSED = 128 + 13
_INTERRUPTED = 128 + 2

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
            fail(str(error), FOUND if isinstance(error, ContextOverflow) else BAD_INPUT)
        except BrokenPipeError:
            _give_up_stdout()
            raise typer.Exit(_PIPE_CLOSED) from None
        except OSError as error:  # reading names its file itself: this is stdout
            _give_up_stdout()
            fail(f"cannot write: {error.strerror or error}")
        except KeyboardInterrupt:
            raise typer.Exit(_INTERRUPTED) from None

    return run


def _give_up_stdout() -> None:
    """Let what is still to be written to stdout go nowhere, so that the exit can flush it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def fail(what: str, code: int = BAD_INPUT) -> NoReturn:
    """Say what is wrong in one line on stderr and end with ``code``."""
    err().print(f"error: {printable(' '.join(what.split()))}", style="red")
    raise typer.Exit(code)


@contextmanager
def at(place: str) -> Iterator[None]:
    """Put the place in the file before an error in what was read from there."""
    try:
        yield
    except AmbiguousFormat as error:
        said = error.what.partition(": pass format=")[0]
        raise InvalidInput(place, f"{error.where}: {said}: pass --format, or a --model that decides it") from error
    except InvalidInput as error:
        raise InvalidInput(place, str(error)) from error
