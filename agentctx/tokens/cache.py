"""What texts were counted to: a bounded cache, shared by all threads, that holds none of the texts."""

from __future__ import annotations

from threading import Lock

from attrs import define, field

ENTRY_BYTES = 140
"""What an entry costs at most: two numbers and their place in a dictionary, in bytes of memory."""

_LENGTHS = 40
"""Bits for the length of a text."""


@define(eq=False)
class TextCache:
    """Remembers the count of each text, and forgets what was not asked for lately.

    A text is known by its length and by the hash of 64 bits that Python keeps of it, so that a cache of any texts is
    small and keeps none of them alive. Two texts of one length and one hash would be taken for the same: among the
    texts that it remembers at a time, the chance that a new one meets such a twin is about one in 10**14.

    Two generations stand in for an order of use: what is asked for moves to the young one, and when that is full it
    becomes the old one, whose leftovers go. A hit takes no lock, so it costs what a dictionary costs.

    Args:
        most: How many texts are remembered at most.
    """

    most: int = 40_000
    _young: dict[int, int] = field(factory=dict, init=False, repr=False)
    _old: dict[int, int] = field(factory=dict, init=False, repr=False)
    _lock: Lock = field(factory=Lock, init=False, repr=False)

    def get(self, text: str) -> int | None:
        """The count of ``text``, or None when it is not known."""
        key = (hash(text) << _LENGTHS) + len(text)
        count = self._young.get(key)
        if count is None:
            count = self._old.get(key)
            if count is not None:
                self._put(key, count)
        return count

    def put(self, text: str, count: int) -> None:
        """Remember the count of ``text``."""
        self._put((hash(text) << _LENGTHS) + len(text), count)

    def _put(self, key: int, count: int) -> None:
        with self._lock:
            if len(self._young) >= max(1, self.most // 2) and key not in self._young:
                self._old, self._young = self._young, {}
            self._young[key] = count

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._young, self._old = {}, {}

    @property
    def bytes(self) -> int:
        """The memory in use, at most."""
        return ENTRY_BYTES * (len(self._young) + len(self._old))

    def __len__(self) -> int:
        """How many texts are remembered."""
        return len(self._young.keys() | self._old.keys())
