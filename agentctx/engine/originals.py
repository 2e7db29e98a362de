"""Put the originals of what a step left out into the store: side by side, and each once."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from inspect import isawaitable

import anyio
from attrs import frozen

from agentctx.core.compare import Change, Outcome
from agentctx.core.message import Message, Native
from agentctx.core.pace import paced
from agentctx.errors import StoreError
from agentctx.offload import offload
from agentctx.printable import shown
from agentctx.protocols import Store
from agentctx.wire_format import WireFormat

AT_ONCE = 16
"""So many contents are put into a store at the same time."""

_ELSEWHERE = frozenset({Outcome.MOVED, Outcome.ADDED, Outcome.KEPT})
"""What became of messages of which nothing was left out."""


@frozen(eq=False, repr=False)
class Originals:
    """What a stage changed, as it was before.

    Args:
        messages: The message of each change: as it was, or the added one.
        store: Where they are kept.
        wire: The format of the messages.
    """

    messages: Sequence[Message]
    store: Store
    wire: WireFormat

    def contents(self, changes: Iterable[Change]) -> list[bytes | None]:
        """What to keep for each change; None where nothing was left out."""
        pairs = paced(zip(changes, self.messages, strict=True))
        return [None if change.outcome in _ELSEWHERE else self._content(old) for change, old in pairs]

    def _content(self, old: Message) -> bytes:
        native = old.payload
        made = native is None or isinstance(native, Message)
        return original_bytes(self.wire.write_message(old) if made else native)


async def kept(
    changes: Sequence[Change], originals: Originals, known: dict[tuple[int, bytes], str]
) -> Sequence[Change]:
    """The changes, each with the handle of its original.

    Args:
        changes: What a stage did.
        originals: What it did it to.
        known: The handles of what was put in this step already, by store and content; brought up to date.

    Raises:
        StoreError: If the store fails; what it raised is the cause.
    """
    contents = await offload(partial(originals.contents, changes), len(changes))
    store = originals.store
    wanted = dict.fromkeys(content for content in contents if content is not None)
    await _put_all(store, [content for content in wanted if (id(store), content) not in known], known)
    pairs = zip(changes, contents, strict=True)
    return [change if content is None else change.with_handle(known[id(store), content]) for change, content in pairs]


async def _put_all(store: Store, contents: Sequence[bytes], known: dict[tuple[int, bytes], str]) -> None:
    """Put contents into a store, some at a time; the first failure ends it."""
    waiting = iter(contents)
    failed: list[StoreError] = []

    async def work() -> None:
        for content in waiting:
            try:
                known[id(store), content] = await put(store, content)
            except StoreError as error:
                failed.append(error)
                group.cancel_scope.cancel()

    async with anyio.create_task_group() as group:
        for _ in range(min(AT_ONCE, len(contents))):
            group.start_soon(work)
    if failed:
        raise failed[0]


async def put(store: Store, content: bytes) -> str:
    """Put one content into a store.

    Raises:
        StoreError: If the store raises, or gives back something else than a handle.
    """
    name = f"the store {type(store).__name__}"
    with _Failing(f"{name} could not keep {len(content):,} bytes"):
        answer: object = store.put(content)
        if not isawaitable(answer):
            msg = f"{name}: put is not async: it gave {type(answer).__name__}, which cannot be awaited"
            raise StoreError(msg)
        handle = await answer
    if not isinstance(handle, str) or not handle or not _is_utf8(handle):
        msg = f"{name}: put gave {shown(handle)} as a handle; a handle is a text, not empty, in UTF-8"
        raise StoreError(msg)
    return handle


def _is_utf8(text: str) -> bool:
    return not any("\ud800" <= character <= "\udfff" for character in text)


@frozen(eq=False, repr=False)
class _Failing:
    """Any error of a store that passes through it becomes a ``StoreError``."""

    what: str

    def __enter__(self) -> None:
        """Nothing to prepare."""

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        """Say which store, and what it was asked for."""
        if isinstance(error, Exception) and not isinstance(error, StoreError):
            msg = f"{self.what}: {type(error).__name__}: {error}"
            raise StoreError(msg) from error


def original_bytes(native: Native) -> bytes:
    """A native message as the JSON bytes that the store keeps.

    Raises:
        StoreError: If it cannot be written as JSON.
    """
    try:
        return json.dumps(native, ensure_ascii=False, default=_as_sent).encode("utf-8", "surrogatepass")
    except (TypeError, ValueError) as error:
        msg = f"a {type(native).__name__} that is to be kept in the store cannot be written as JSON: {error}"
        raise StoreError(msg) from error


def _as_sent(value: object) -> Native:
    """What a client sends for it: bytes as base64, an object as its fields; anything else as its text."""
    if isinstance(value, (bytes, bytearray)):
        return b64encode(value).decode()
    if callable(dump := getattr(value, "model_dump", None)) and not isinstance(value, type):
        return dump(mode="json", exclude_unset=True)
    return dict(value) if isinstance(value, Mapping) else str(value)
