"""How a command ends when something is wrong: one line on stderr and an exit code, never a traceback."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import NoReturn, ParamSpec

import typer
from attrs import define

from agentctx.cli.console import err
from agentctx.core.printable import printable
from agentctx.errors import AgentctxError, AmbiguousFormat, ConfigError, ContextOverflow, InvalidInput

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
            fail(str(error), _code(error))
        except RecursionError:
            fail("something in the input is nested too deep to be worked on")
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
    _say(what)
    raise typer.Exit(code)


def _say(what: str) -> None:
    err().print(f"error: {printable(' '.join(what.split()))}", style="red")


def _code(error: AgentctxError) -> int:
    return FOUND if isinstance(error, ContextOverflow) else BAD_INPUT


@define
class Tally:
    """The exit code of a command that goes through several recordings; the worst one counts.

    Args:
        code: The exit code so far.
    """

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
            _say(str(error) if isinstance(error, InvalidInput) else f"{place}: {error}")
            self.code = max(self.code, _code(error))

    def end(self) -> None:
        """End the command with the exit code.

        Raises:
            typer.Exit: If it is not 0.
        """
        if self.code:
            raise typer.Exit(self.code)


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
    except RecursionError as error:
        raise InvalidInput(place, "nested too deep to be worked on") from error
