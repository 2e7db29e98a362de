"""Which session speaks now: the one whose ``with`` block the running task is in."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from agentctx.session.session import Session

_ENTERED: ContextVar[tuple[Session | None, ...]] = ContextVar("agentctx_sessions", default=())
"""The sessions entered, innermost last. Each task and thread has its own view of it, so nothing leaks across."""


def current() -> Session | None:
    """The session of the innermost ``with session:`` around the running code; None when there is none."""
    entered = _ENTERED.get()
    return entered[-1] if entered else None


def enter(session: Session | None) -> None:
    """Let ``session`` speak from here on; None means that nobody does."""
    _ENTERED.set((*_ENTERED.get(), session))


def leave() -> None:
    """Let the one speak that did before."""
    _ENTERED.set(_ENTERED.get()[:-1])


@contextmanager
def nobody() -> Iterator[None]:
    """No session speaks inside: model calls that a pipeline makes itself are no part of the conversation."""
    enter(None)
    try:
        yield
    finally:
        leave()
