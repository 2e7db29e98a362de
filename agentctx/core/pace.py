"""Long work in a worker thread lets the event loop's thread have the interpreter now and then.

Python takes the interpreter from a thread that computes only every 5 ms (``sys.setswitchinterval``), and an event loop
needs it twice to run one task. So the loops over many messages give way of their own accord.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from threading import local
from time import perf_counter, sleep
from typing import TypeVar

T = TypeVar("T")

AT_MOST = 0.001
"""Seconds for which a worker thread computes at a time, about. A step on the loop may wait that long for each text that
it counts: tiktoken lets go of the interpreter meanwhile."""

PAUSE = 0.00005
"""Seconds that it pauses then: enough for a thread that waits to go on."""

EVERY = 8
"""Items of a loop between two looks at the clock."""


class _Thread(local):
    """What a thread knows: since when it computes; None in a thread that need not give way."""

    since: float | None = None


_thread = _Thread()


@contextmanager
def giving_way() -> Iterator[None]:
    """Within it the loops of this thread give way."""
    _thread.since = perf_counter()
    try:
        yield
    finally:
        _thread.since = None


def breathe() -> None:
    """Give way when it is time to, in a thread that does."""
    since = _thread.since
    if since is not None and perf_counter() - since > AT_MOST:
        sleep(PAUSE)
        _thread.since = perf_counter()


def paced(items: Iterable[T]) -> Iterable[T]:
    """The items as they are; in a thread that gives way, one that does so between them."""
    return items if _thread.since is None else _breathing(items)


def _breathing(items: Iterable[T]) -> Iterator[T]:
    for number, item in enumerate(items):
        if number % EVERY == 0:
            breathe()
        yield item
