"""How long a step waits for stores: one that has not answered in time is not asked again in that step.

What a step asks a store for is asked in several places: the state of its session is loaded and saved, what it leaves
out is put in. Each keeps to a time limit of its own; that a store has let one of them pass is known to all.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from time import monotonic

SILENT = 0.8
"""Of a time limit: from when on a store that fails has not answered."""

AGAIN_LATER = "did not answer in time, and is asked again in a while"

_silent: ContextVar[dict[int, object] | None] = ContextVar("agentctx.engine.store_waits", default=None)


@contextmanager
def waiting_once() -> Iterator[None]:
    """One step: what is given up in it is not asked again until it ends."""
    token = _silent.set({})
    try:
        yield
    finally:
        _silent.reset(token)


def give_up(store: object) -> None:
    """The store has not answered in time: it is not asked again in this step."""
    known = _silent.get()
    if known is not None:
        known[id(store)] = store


def is_given_up(store: object) -> bool:
    """Whether the store has not answered in time in this step."""
    known = _silent.get()
    return known is not None and id(store) in known


def limit_of(store: object, most: float) -> float:
    """Seconds that one call of a store may take: as it says itself, and no more than ``most``."""
    told: object = getattr(store, "timeout", None)
    if isinstance(told, bool) or not isinstance(told, (int, float)) or not told > 0:
        return most
    return min(most, told)


def took_too_long(begun: float, limit: float) -> bool:
    """Whether what failed now, and began then, has not answered within its limit."""
    return monotonic() - begun > SILENT * limit
