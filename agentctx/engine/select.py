"""Select under a token limit: what is taken, in order, into the room that there is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import takewhile
from typing import TypeVar

T = TypeVar("T")


def each_that_fits(items: Iterable[T], size: Callable[[T], int], room: int) -> list[T]:
    """Each item in order for which there is still room; one that does not fit is passed over.

    Args:
        items: The items, in the order in which they are taken.
        size: The tokens of one.
        room: The most tokens of all that are taken.
    """
    return list(filter(_taking(size, room), items))


def until_full(items: Iterable[T], size: Callable[[T], int], room: int) -> list[T]:
    """The items in order, up to the first that does not fit; the items behind it are not looked at."""
    return list(takewhile(_taking(size, room), items))


def _taking(size: Callable[[T], int], room: int) -> Callable[[T], bool]:
    """Whether an item fits into what those before it have left; when it does, it is taken."""
    left = room

    def takes(item: T) -> bool:
        nonlocal left
        tokens = size(item)
        if tokens > left:
            return False
        left -= tokens
        return True

    return takes
