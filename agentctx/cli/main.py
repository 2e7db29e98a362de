"""The command ``agentctx``: says what is missing when the extra ``cli`` is not installed, else runs the app."""

from __future__ import annotations

import io
import sys

_NEEDED = frozenset({"click", "rich", "typer"})


def main() -> None:
    """Run the command line and exit: 0 fine, 1 found something, 2 bad input or usage."""
    try:
        from agentctx.cli.app import app  # noqa: PLC0415 - typer and rich may be missing: that is what is asked here
    except ModuleNotFoundError as error:
        if error.name not in _NEEDED:
            raise
        sys.stderr.write("error: the command line needs typer and rich: pip install 'agentctx[cli]'\n")
        sys.exit(2)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # what a terminal cannot show becomes a question mark
    app(prog_name="agentctx")
