"""What a user names by ``module:name``: imported, called, and what it raises said in a sentence."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import TypeVar

from agentctx.errors import AgentctxError, ConfigError

T = TypeVar("T")

FAILURES = (Exception, SystemExit, GeneratorExit)
"""What code of a user's may raise where it is awaited, and is neither an interrupt nor a cancellation."""


def described(error: BaseException) -> str:
    """What was raised, in words: its type, what it says, and its notes.

    Args:
        error: What was raised.
    """
    if isinstance(error, SystemExit):
        said = f"it called sys.exit({'' if error.code is None else error.code!r})"
    else:
        said = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return "; ".join((said, *getattr(error, "__notes__", ())))


@contextmanager
def running(named: str) -> Iterator[None]:
    """Turn what code of a user's raises into one error that names it; what agentctx raises stays as it is.

    Args:
        named: What the user named.

    Raises:
        AgentctxError: If anything else was raised; says what.
    """
    try:
        yield
    except AgentctxError:
        raise
    except FAILURES as error:
        msg = f"{named}: {described(error)}"
        raise AgentctxError(msg) from error


def imported(named: str, where: str) -> object:
    """What a module has under a name; modules of the working directory are found.

    Args:
        named: ``module:name``.
        where: What asks for it, for the error: an option, or a table of a file.

    Raises:
        ConfigError: If it cannot be imported.
    """
    module, _, name = named.partition(":") if isinstance(named, str) else ("", "", "")
    if not module or not name:
        wanted = where[2:] if where.startswith("--") else "pipeline"
        msg = f"{where}: expected MODULE:NAME such as my_agent.context:{wanted}, got {named!r}"
        raise ConfigError(msg)
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: object = getattr(import_module(module), name)
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        msg = f"{where}: {named}: cannot be imported: {described(error)}"
        raise ConfigError(msg) from error
    return found


def pipeline_or_maker(named: str, where: str) -> Callable[..., object]:
    """What a module has under a name, and can be a pipeline, or a function that makes something.

    Args:
        named: ``module:name``.
        where: What asks for it, for the error.

    Raises:
        ConfigError: If it cannot be imported, or is nothing that can be called.
    """
    found = imported(named, where)
    if not callable(found):
        msg = f"{where}: {named}: expected a Pipeline, or a function that makes one, got {type(found).__name__}"
        raise ConfigError(msg)
    return found


def called(maker: Callable[..., T], named: str, where: str, *given: object, expects: str = "") -> T:
    """What a function or class of a user's makes; what agentctx raises in it stays as it is.

    Args:
        maker: The function.
        named: How the user named it: ``module:name``.
        where: What asks for it, for the error.
        given: What it is called with.
        expects: What it is called with and gives, for the error.

    Raises:
        ConfigError: If anything else was raised, also ``SystemExit``; says what. An interrupt passes.
    """
    try:
        return maker(*given)
    except (AgentctxError, KeyboardInterrupt):
        raise
    except BaseException as error:
        msg = f"{where}: calling {named} failed: {described(error)}{expects and f': {expects}'}"
        raise ConfigError(msg) from error
