"""Long work in a worker thread lets the event loop's thread have the interpreter now and then.

Python takes the interpreter from a thread that computes only every 5 ms (``sys.setswitchinterval``), and an event loop
needs it twice to run one task. So the loops over many messages give way of their own accord: ``paced`` ones, and those
of a stage that anybody writes, which is given the messages as a ``Paced`` tuple. Giving way takes a tenth of the time
that it leaves in between, so they hardly do while nothing else goes on in the process: a thread that wakes up takes
processor time before it waits for the interpreter, and that can be read.

What a step does on the loop's thread goes ahead of them altogether: tiktoken lets go of the interpreter for each text
that it counts, and a step that counts sixty would wait sixty times.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from threading import get_ident, local
from time import perf_counter, process_time, sleep, thread_time
from typing import TypeVar

T = TypeVar("T")

AT_MOST = 0.001
"""Seconds for which a worker thread computes at a time, about, while other threads have something to do."""

AT_MOST_ALONE = 0.005
"""Seconds for which it computes while none seems to: where they can not be seen to wait, they wait no longer than for a
thread that does not give way."""

STIRRED = 0.000002
"""Seconds of processor time. A thread that wakes up, to wait for the interpreter, takes ten millionths or more."""

PAUSE = 0.00001
"""Seconds that it asks to pause then. Linux adds some seventy microseconds: enough for a thread that waits to go on."""

LONGEST_PAUSE = 0.05
"""Seconds for which it stands back at most while others go ahead: it ends also in a service that never rests."""

EVERY = 8
"""Items of a loop between two looks at the clock."""


class Progress:
    """Says to other threads when a thread last gave way: one that has not for long may wait for something.

    Args:
        at: When it did, by ``perf_counter``.
    """

    __slots__ = ("at",)

    def __init__(self) -> None:
        """It begins now."""
        self.at = perf_counter()


class _Thread(local):
    """What a thread knows.

    Args:
        since: When it last looked whether others have something to do; None in a thread that need not give way.
        until: When it gives way, whether they have or not.
        others: What the other threads had computed when it last gave way, in seconds.
        progress: Whom it tells that it gave way.
    """

    since: float | None = None
    until: float = 0.0
    others: float = 0.0
    progress: Progress | None = None


_thread = _Thread()
AHEAD: set[int] = set()
"""The threads whose work goes ahead now, by ``get_ident``."""


@contextmanager
def giving_way(progress: Progress | None = None) -> Iterator[None]:
    """Within it the loops of this thread give way, and say so by ``progress``."""
    _thread.progress = progress
    _begin()
    try:
        yield
    finally:
        _thread.since = _thread.progress = None


def _begin() -> None:
    _thread.since = now = perf_counter()
    _thread.until, _thread.others = now + AT_MOST_ALONE, _computed_by_others()


def _computed_by_others() -> float:
    """Seconds of processor time."""
    return process_time() - thread_time()


def breathe() -> None:
    """Give way when it is time to, in a thread that does."""
    since = _thread.since
    if since is None:
        return
    now = perf_counter()
    if _others_are_ahead() or (now - since > AT_MOST and _is_wanted(now)):
        _stand_back(now + LONGEST_PAUSE)


def _is_wanted(now: float) -> bool:
    """Whether another thread has done something since this one gave way, or may wait unseen."""
    _thread.since = now
    return now > _thread.until or _computed_by_others() - _thread.others > STIRRED


def _others_are_ahead() -> bool:
    """Whether work of another thread goes ahead; this one's own does where a stage has an event loop of its own."""
    return bool(AHEAD) and {get_ident()} != AHEAD


def _stand_back(until: float) -> None:
    sleep(PAUSE)
    while _others_are_ahead() and perf_counter() < until:
        sleep(PAUSE)
    _begin()
    if _thread.progress is not None:
        _thread.progress.at = perf_counter()


def paced(items: Iterable[T]) -> Iterable[T]:
    """The items as they are; in a thread that gives way, one that does so between them, and may fetch some ahead."""
    return items if _thread.since is None else chain.from_iterable(_breathing(iter(items)))


def _breathing(items: Iterator[T]) -> Iterator[tuple[T, ...]]:
    while some := tuple(islice(items, EVERY)):
        breathe()
        yield some


class Paced(tuple[T, ...]):
    """A tuple; in a thread that gives way, who iterates over it does so between the items.

    Example:
        >>> Paced((1, 2)) == (1, 2), [*Paced("ab")]
        (True, ['a', 'b'])
    """

    __slots__ = ()

    def __iter__(self) -> Iterator[T]:
        """Its items, one after the other."""
        items = super().__iter__()
        return items if _thread.since is None else chain.from_iterable(_breathing(items))

    def __reduce__(self) -> tuple[type[tuple[T, ...]], tuple[list[T]]]:
        """Pickled and copied, it is the plain tuple that it equals."""
        return tuple, ([*self],)
