"""A conversation that many workers build requests of: its history is loaded, assembled and written on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from random import random
from uuid import uuid4

import anyio
from attrs import field, frozen

from agentctx.builder.builder import Assembled, ContextBuilder
from agentctx.errors import ConfigError, InvalidInput, StoreConflict, StoreUnavailable
from agentctx.message import Native
from agentctx.protocols import HistorySnapshot, HistoryStore

ATTEMPTS = 32
"""So often a build is tried where others write to the conversation meanwhile."""

AGAIN = 4
"""So often a write is tried again where the store does not answer."""

_MOMENT = 0.05
"""Seconds to the first time; each further time it is twice as long."""


def _a_history_store(_thread: object, _attribute: object, store: Native) -> None:
    missing = [name for name in ("load", "append") if not callable(getattr(store, name, None))]
    if missing:
        msg = f"Thread: store is {store!r:.80}; it has no {' and no '.join(missing)}"
        raise ConfigError(msg)


def _a_name(_thread: object, attribute: object, name: Native) -> None:
    if not isinstance(name, str) or not name:
        msg = f"Thread: {getattr(attribute, 'name', 'name')} is a text, and not empty; got {name!r:.80}"
        raise ConfigError(msg)


@frozen
class Thread:
    """A conversation in a store, of which requests are built.

    The store has all that was ever said: what one request leaves out to fit its budget is left out of that request
    only.

    Args:
        store: Keeps the history.
        name: The conversation.
        block: The block of the builder whose messages are the history.

    Raises:
        ConfigError: If an argument makes no sense.

    Example:
        >>> from agentctx.builder import Block, ContextBuilder, Thread
        >>> from agentctx.stores import MemoryStore
        >>> from agentctx.strategies import TruncateOldest
        >>> builder = ContextBuilder(8_000, format="openai-chat").add(Block("history", [], evict=TruncateOldest()))
        >>> thread = Thread(MemoryStore(), "thread-42")
        >>> built = await thread.build(builder, [{"role": "user", "content": "Why does the build fail?"}])
        >>> built = await thread.build(builder, [{"role": "assistant", "content": "A comma is missing."}])
        >>> [message["role"] for message in built.messages]
        ['user', 'assistant']
    """

    store: HistoryStore = field(validator=_a_history_store)
    name: str = field(validator=_a_name)
    block: str = field(default="history", validator=_a_name)

    async def build(
        self, builder: ContextBuilder, new_messages: Sequence[Native] = (), *, key: str | None = None
    ) -> Assembled:
        """Build a request of the history and what is new, and write on the history.

        Where others have written meanwhile, it is loaded and built again. Where the store does not answer, the write is
        repeated a few times; nothing is stored twice. A build that fails writes nothing.

        Args:
            builder: The blocks, one of which is the history; it is not changed.
            new_messages: What was said since.
            key: What tells these messages from all others of the conversation: whoever builds again with the same one,
                for example after a crash, does not store them again.

        Raises:
            ConfigError: If the builder has no such block.
            StoreConflict: If others were first so often that it was given up.
            StoreUnavailable: If the store does not answer. With a ``key`` it may be tried again.
            ContextOverflow: If it cannot be made to fit.
            InvalidInput: If what is new is no list of messages, or one of them cannot be read.
        """
        given: object = new_messages
        if isinstance(given, (str, bytes, Mapping)) or not isinstance(given, Iterable):
            raise InvalidInput("new_messages", f"expected a list of messages, got {type(given).__name__}")
        told, new = key or uuid4().hex, list(new_messages)
        for attempt in range(ATTEMPTS):
            known = await self.store.load(self.name)
            built = await self._built(builder, [*known.messages, *new])
            try:
                version = known.version if not new else await self._append(new, known.version, told)
            except StoreConflict as error:
                conflict = error
                await anyio.sleep(random() * 0.001 * attempt)  # noqa: S311 - so that not all come back at once
                continue
            if new and version <= known.version:  # it was written before, and is among what was loaded
                return await self._built(builder, known.messages)
            return built
        conflict.add_note(f"given up after {ATTEMPTS} attempts")
        raise conflict

    async def load(self) -> HistorySnapshot:
        """All that was ever said, and the version."""
        return await self.store.load(self.name)

    async def _built(self, builder: ContextBuilder, messages: Sequence[Native]) -> Assembled:
        return await builder.clone().replace(self.block, messages).build()

    async def _append(self, new: Sequence[Native], version: int, key: str) -> int:
        for again in range(AGAIN):
            try:
                return await self.store.append(self.name, new, version, key=key)
            except StoreUnavailable:
                await anyio.sleep(_MOMENT * 2**again)
        return await self.store.append(self.name, new, version, key=key)
