"""Where what was left out is kept: stores that need no library."""

from __future__ import annotations

from hashlib import sha256

from attrs import define, field

from agentctx.errors import StoreError

__all__ = ["MemoryStore"]

_SHORTEST = 16


@define
class MemoryStore:
    """Keeps contents in memory, by their SHA-256; for tests, and for processes that keep nothing.

    Example:
        >>> from agentctx.stores import MemoryStore
        >>> store = MemoryStore()
        >>> await store.get(await store.put(b"a long log"))
        b'a long log'
    """

    _contents: dict[str, bytes] = field(factory=dict, init=False, repr=False)

    async def put(self, content: bytes, /) -> str:
        """Keep ``content`` and return its handle: so much of its SHA-256 as no other content shares."""
        whole = sha256(content).hexdigest()
        for length in range(_SHORTEST, len(whole) + 1):
            if self._contents.setdefault(whole[:length], content) == content:
                return whole[:length]
        msg = "two contents have one SHA-256"
        raise StoreError(msg)

    async def handles(self) -> list[str]:
        """The handles of all that is kept, oldest first."""
        return list(self._contents)

    async def get(self, handle: str, /) -> bytes:
        """What was put under ``handle``.

        Raises:
            StoreError: If there is nothing under it.
        """
        try:
            return self._contents[handle]
        except KeyError:
            msg = f"nothing is kept under handle {handle!r}"
            raise StoreError(msg) from None

    def __bool__(self) -> bool:
        """A store is one even when it is empty."""
        return True

    def __len__(self) -> int:
        """How many contents are kept."""
        return len(self._contents)
