"""The commands, gathered."""

from __future__ import annotations

from typing import Annotated

import typer

from agentctx import __version__
from agentctx.cli.compare import compare
from agentctx.cli.proxy import proxy
from agentctx.cli.replay import replay, report, sessions
from agentctx.cli.request import compact, convert, count, validate, window
from agentctx.cli.store import recall, store_app

_EXITS = "Exit codes: 0 fine; 1 found something (violations, or a request that cannot fit); 2 bad input or usage."
_EXITS_OF_COMPARE = (
    "Exit codes: 0 fine, also where requests were too large or refused, which the table counts; "
    "1 a session or a pipeline failed; 2 bad input or usage."
)

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EXITS,
)
for command in (replay, report, compare, compact, convert, count, window, validate):
    app.command(no_args_is_help=True, epilog=_EXITS_OF_COMPARE if command is compare else _EXITS)(command)
app.command(epilog=_EXITS)(sessions)
app.command(epilog=_EXITS)(proxy)
app.add_typer(store_app, name="store", epilog=_EXITS)
app.command(no_args_is_help=True, epilog=_EXITS)(recall)


def _print_version(wanted: bool) -> None:  # noqa: FBT001 - the shape of a typer callback
    if wanted:
        typer.echo(f"agentctx {__version__}")
        raise typer.Exit


@app.callback()
def agentctx(
    *,
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """See what an LLM agent sees: replay, compact, convert, count and check recorded agent sessions."""
