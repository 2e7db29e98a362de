"""Load once what workers need to measure a session: they are forked from a process that has imported this module."""

import sys
from importlib import import_module
from types import TracebackType

from agentctx import warmup


def _told(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    """Tell of what a worker that begins fails with, but where nobody waits for it any more: what it shares is gone."""
    if not isinstance(error, EOFError) and not (isinstance(error, FileNotFoundError) and error.filename is None):
        sys.__excepthook__(kind, error, where)


sys.excepthook = _told

import_module("agentctx.comparison.run")
import_module("anyio._backends._asyncio")  # anyio imports it when an event loop begins
warmup()
