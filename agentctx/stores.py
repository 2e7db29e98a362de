"""Where what was left out is kept: stores that need no library."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from hashlib import sha256

from attrs import define, evolve, field, frozen

from agentctx.core.message import Native
from agentctx.core.secrets import Redactor, failing_closed, redact_secrets
from agentctx.engine.options import check_redactor, check_store
from agentctx.errors import StoreError
from agentctx.offload import offload
from agentctx.protocols import Store

__all__ = ["MemoryStore", "RedactingStore"]

_SHORTEST = 16


@define
class MemoryStore:
    """Keeps contents in memory, by their SHA-256; for tests, and for processes that keep nothing.

    It knows which conversation has left out what: a session puts its contents in by ``for_conversation``. What two
    have left out is kept once.

    Example:
        >>> from agentctx.stores import MemoryStore
        >>> store = MemoryStore()
        >>> await store.get(await store.put(b"a long log"))
        b'a long log'
        >>> handle = await store.for_conversation("thread-42").put(b"another log")
        >>> await store.for_conversation("thread-42").handles() == [handle]
        True
        >>> await store.for_conversation("thread-43").handles()
        []
    """

    _contents: dict[str, bytes] = field(factory=dict, init=False, repr=False)
    _left_by: dict[str, dict[str, None]] = field(factory=dict, init=False, repr=False)  # handles, by conversation

    async def put(self, content: bytes, /) -> str:
        """Keep ``content`` and return its handle: so much of its SHA-256 as no other content shares."""
        whole = sha256(content).hexdigest()
        for length in range(_SHORTEST, len(whole) + 1):
            if self._contents.setdefault(whole[:length], content) == content:
                return whole[:length]
        msg = "two contents have one SHA-256"
        raise StoreError(msg)

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

    async def handles(self) -> list[str]:
        """The handles of all that is kept, oldest first."""
        return list(self._contents)

    async def conversations(self) -> list[str | None]:
        """The conversations that have left something out; None among them where something is nobody's."""
        named: list[str | None] = [name for name, handles in self._left_by.items() if handles]
        known = {handle for handles in self._left_by.values() for handle in handles}
        return named if known.issuperset(self._contents) else [*named, None]

    def for_conversation(self, name: str, /) -> _Conversation:
        """The store as one conversation sees it: it has what was put in by it, and nothing else."""
        return _Conversation(self, name, self._left_by.setdefault(name, {}))

    def __bool__(self) -> bool:
        """A store is one even when it is empty."""
        return True

    def __len__(self) -> int:
        """How many contents are kept."""
        return len(self._contents)


@frozen
class RedactingStore:
    """Takes secrets out of all that goes into a store; what comes back is without them.

    It fails closed: where the redactor raises, or a content is no text, ``put`` raises ``StoreError``, which quotes
    nothing of it. Then the report says that it is not kept, and the step goes on.

    Args:
        store: The store that keeps the rest. Whatever else it can do, such as ``search``, this one can do, too.
        redact: Takes secrets out of a text: a plain function of a text and the name of its file, which is empty here.
            It is given each text within a message, and then all of it as JSON.

    Example:
        >>> from agentctx.stores import MemoryStore, RedactingStore
        >>> store = RedactingStore(MemoryStore())
        >>> await store.get(await store.put(b'{"role": "user", "content": "password=xk29-fj3n-QQ81"}'))
        b'{"role": "user", "content": "password=[redacted]"}'
    """

    store: Store
    redact: Redactor = redact_secrets

    def __attrs_post_init__(self) -> None:
        """Check the store and the redactor."""
        check_store(self.store)
        check_redactor("RedactingStore", self.redact)

    async def put(self, content: bytes, /) -> str:
        """Keep ``content`` without secrets, and return its handle.

        Raises:
            StoreError: If secrets cannot be taken out of it, or the store fails.
        """
        return await self.store.put(await offload(partial(self._without_secrets, content), 1, len(content)))

    async def get(self, handle: str, /) -> bytes:
        """What was put under ``handle``, without secrets.

        Raises:
            StoreError: If there is nothing under it.
        """
        return await self.store.get(handle)

    def __getattr__(self, name: str) -> Native:
        """What else the store can do."""
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self.store, name)
        return found if name != "for_conversation" else lambda whose: evolve(self, store=found(whose))

    def _without_secrets(self, content: bytes) -> bytes:
        redact = failing_closed(self.redact, StoreError)
        try:
            text = content.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            msg = "secrets cannot be taken out of what is no text"
            raise StoreError(msg) from None
        try:
            native = json.loads(text)
            told = _mapped(native, redact)
        except (ValueError, RecursionError):  # no JSON: it is one text
            native = told = None
        if told != native:
            text = json.dumps(told, ensure_ascii=False)
        return redact(text).encode("utf-8", "surrogatepass")


def _mapped(native: Native, redact: Callable[[str], str]) -> Native:
    """A value of JSON with each text in it written anew."""
    if isinstance(native, str):
        return redact(native)
    if isinstance(native, list):
        return [_mapped(each, redact) for each in native]
    return {key: _mapped(each, redact) for key, each in native.items()} if isinstance(native, dict) else native


@frozen
class _Conversation:
    """What one conversation has left out, in a store that others use too."""

    store: MemoryStore
    name: str
    left: dict[str, None] = field(repr=False)

    async def put(self, content: bytes, /) -> str:
        handle = await self.store.put(content)
        self.left[handle] = None
        return handle

    async def get(self, handle: str, /) -> bytes:
        if handle in self.left:
            return await self.store.get(handle)
        msg = f"conversation {self.name!r} keeps nothing under handle {handle!r}"
        raise StoreError(msg)

    async def handles(self) -> list[str]:
        return list(self.left)
