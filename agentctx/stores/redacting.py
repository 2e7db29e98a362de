"""Secrets taken out of what goes into a store."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from attrs import evolve, field, frozen

from agentctx.engine.originals import original_bytes
from agentctx.engine.plan import REDACTOR, STORE
from agentctx.errors import StoreError
from agentctx.formats.native import from_json, to_json
from agentctx.message import Native
from agentctx.protocols import Store
from agentctx.secrets import Redactor, failing_closed, redact_secrets
from agentctx.stores.store import check_messages
from agentctx.users_code import offload


class _Clean(bytes):
    """A content without what one redactor takes for secrets; another may take more for them."""

    redact: Redactor | None = None


@frozen
class RedactingStore:
    """Takes secrets out of all that goes into a store; what comes back is without them.

    Messages of histories are stored without secrets, too. The state of a session is refused: without them it would be
    another. So this is for ``Pipeline(store=...)``; ``Sessions`` takes the store itself, best with a ``cipher``.

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

    store: Store = field(validator=STORE)
    redact: Redactor = field(default=redact_secrets, validator=REDACTOR)

    async def put(self, content: bytes, /) -> str:
        """Keep ``content`` without secrets, and return its handle.

        Raises:
            StoreError: If secrets cannot be taken out of it, or the store fails.
        """
        if not (isinstance(content, _Clean) and content.redact is self.redact):
            content = await offload(partial(self.without_secrets, content), 1, len(content))
        return await self.store.put(bytes(content))

    async def get(self, handle: str, /) -> bytes:
        """What was put under ``handle``, without secrets.

        Raises:
            StoreError: If there is nothing under it.
        """
        return await self.store.get(handle)

    def without_secrets(self, content: bytes, /) -> bytes:
        """What is left of ``content``; ``put`` takes it as it is. A step calls this first: it is not the store's time.

        Raises:
            StoreError: If secrets cannot be taken out of it.
        """
        clean = _Clean(_redacted(content, failing_closed(self.redact, StoreError)))
        clean.redact = self.redact
        return clean

    def __getattr__(self, name: str) -> Native:
        """What else the store can do."""
        if name.startswith("_"):
            raise AttributeError(name)
        found = getattr(self.store, name)
        if name == "for_conversation":
            return lambda whose: evolve(self, store=found(whose))
        if name == "save_state":
            return self._refuse_state
        return partial(self._write, found) if name in ("append", "save") else found

    async def _write(
        self, write: Callable[..., Awaitable[int]], name: str, messages: Sequence[Native], *rest: object, **key: object
    ) -> int:
        """Write messages to a history, without secrets."""
        check_messages(messages)
        contents = [original_bytes(to_json(each, f"messages[{at}]")) for at, each in enumerate(messages)]
        told = [await offload(partial(self.without_secrets, each), 1, len(each)) for each in contents]
        clean = [from_json(json.loads(each.decode("utf-8", "surrogatepass"))) for each in told]
        return await write(name, clean, *rest, **key)

    async def _refuse_state(self, name: str, *_arguments: object, **_key: object) -> int:
        """A session's state tells what its messages are, secrets and all: it cannot be kept without them."""
        msg = f"the state of conversation {name!r:.200} cannot be kept in a store that takes secrets out"
        raise StoreError(msg)


def _redacted(content: bytes, redact: Callable[[str], str]) -> bytes:
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
