"""The standard streams as a command finds them: closed, or such that nothing more can be written to them."""

from __future__ import annotations

import os
import sys


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


def give_up_stdout() -> None:
    """Let what is still to be written to stdout go nowhere, so that the exit can flush it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
