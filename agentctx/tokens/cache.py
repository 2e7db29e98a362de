"""What texts were counted to: a cache bounded by bytes, shared by all threads."""

from __future__ import annotations

import sys
from threading import Lock

from attrs import define, field

ENTRY_BYTES = 200
"""What an entry costs beside its text: two dictionary slots and a number, in bytes."""


@define(eq=False)
class TextCache:
    """Remembers the count of each text, the text itself being the key, and forgets what was not asked for lately.

    Two generations stand in for an order of use: what is asked for moves to the young one, and when that is full it
    becomes the old one, whose leftovers go. A hit takes no lock, so it costs what a dictionary costs.

    Args:
        max_bytes: The most memory that texts and entries may take, in bytes.
        max_text: Longer texts are not kept, in bytes of memory.
    """

    max_bytes: int = 16 * 2**20
    max_text: int = 2**20
    _young: dict[str, int] = field(factory=dict, init=False, repr=False)
    _old: dict[str, int] = field(factory=dict, init=False, repr=False)
    _young_bytes: int = field(default=0, init=False)
    _old_bytes: int = field(default=0, init=False)
    _lock: Lock = field(factory=Lock, init=False, repr=False)

    def get(self, text: str) -> int | None:
        """The count of ``text``, or None when it is not known."""
        count = self._young.get(text)
        if count is None:
            count = self._old.get(text)
            if count is not None:
                self.put(text, count)
        return count

    def put(self, text: str, count: int) -> None:
        """Remember the count of ``text``, unless the text is too long to keep."""
        size = sys.getsizeof(text) + ENTRY_BYTES
        if size > self.max_text + ENTRY_BYTES:
            return
        with self._lock:
            if text in self._young:
                return
            if self._young_bytes + size > self.max_bytes // 2:
                self._old, self._old_bytes = self._young, self._young_bytes
                self._young, self._young_bytes = {}, 0
            self._young[text] = count
            self._young_bytes += size

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._young, self._old = {}, {}
            self._young_bytes = self._old_bytes = 0

    @property
    def bytes(self) -> int:
        """The memory in use, in bytes."""
        return self._young_bytes + self._old_bytes

    def __len__(self) -> int:
        """How many texts are remembered."""
        return len(self._young.keys() | self._old.keys())
