"""The command ``agentctx``: says what is missing when the extra ``cli`` is not installed, else runs the app."""

from __future__ import annotations

import io
import os
import sys

try:
    from agentctx.characters import visible
    from agentctx.lazy import unmet
except ImportError as error:  # the files of two packages are mixed up; the command of either begins at this name
    sys.stderr.write(f"error: {error}\n")
    sys.exit(2)
except KeyboardInterrupt:
    sys.stderr.write("error: interrupted\n")
    sys.exit(130)

_NEEDED = frozenset({"click", "rich", "typer"})


def main() -> None:
    """Run the command line and exit: 0 fine, 1 found something, 2 bad input or usage."""
    try:
        from agentctx.cli.app import app  # noqa: PLC0415 - typer and rich may be missing: that is what is asked here
        from agentctx.cli.console import give_up_stdout  # noqa: PLC0415 - as above
    except KeyboardInterrupt:
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
    except ImportError as error:
        if (error.name or "").partition(".")[0] not in _NEEDED:
            raise
        sys.stderr.write(f"error: {unmet('the command line', 'cli', error)}\n")
        sys.exit(2)
    take_closed_places()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # what a terminal cannot show becomes a question mark
    if isinstance(sys.stderr, io.TextIOWrapper):
        encoding = sys.stderr.encoding
        sys.stderr = _Visible(sys.stderr.detach(), encoding, errors="replace", line_buffering=True)
    try:
        app(prog_name="agentctx")
    except KeyboardInterrupt:  # before a command has begun, which says so itself
        sys.stderr.write("error: interrupted\n")
        sys.exit(130)
    except OSError as error:  # help and version are no commands, which say so themselves
        give_up_stdout()
        sys.stderr.write(f"error: cannot write: {error.strerror or error}\n")
        sys.exit(2)


class _Visible(io.TextIOWrapper):
    """Standard error without characters that hide, or turn the text around them: errors quote what was typed."""

    def write(self, text: str, /) -> int:
        """Write what can be seen of the text."""
        super().write(visible(text))
        return len(text)


def take_closed_places() -> None:
    """Take the places of the standard streams that are closed: the next file that is opened would get them.

    What is written to a closed stdout is an error of writing, as any other.
    """
    for number, mode in ((0, os.O_RDONLY), (1, os.O_RDONLY), (2, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest number that is free: this one
    sys.stdout = sys.stdout or open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - till the end
    sys.stderr = sys.stderr or open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115 - till the end
