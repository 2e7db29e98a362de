"""Originals that a store has lost, put into it again as far as the caller still shows them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from agentctx.core.compare import Change
from agentctx.core.message import Native
from agentctx.core.pace import paced
from agentctx.engine.originals import StoreShelf, answer_of, expected_handle, of_conversation, original_bytes
from agentctx.errors import StoreError
from agentctx.offload import offload


async def put_again(shelf: StoreShelf, changes: Iterable[Change], messages: Sequence[Native]) -> int:
    """Put what a store has lost into it again; how much of it the caller does not show, or the store does not take.

    Args:
        shelf: The store, which tells what it has.
        changes: The changes in force, with the handles of what they have left out.
        messages: What the caller shows.
    """
    handles = {change.handle.partition("#")[0] for change in changes if change.handle}
    part = of_conversation(shelf.store, shelf.conversation)
    tells = getattr(part, "handles", None)
    if not handles or tells is None:
        return 0
    try:
        there: object = await answer_of(part, tells, shelf.store)
    except StoreError:  # the report says so where something is to be kept
        return 0
    lost = handles.difference(there) if isinstance(there, Iterable) else handles
    shown = await offload(lambda: _contents(messages, lost), len(messages)) if lost else {}
    return len(lost) - len(await shelf.keep_all(shown.values()))


def _contents(messages: Sequence[Native], handles: set[str]) -> dict[str, bytes]:
    """What is to be put under these handles, of those messages that are as they were."""
    found = {}
    for native in paced(messages):
        try:
            content = original_bytes(native)
        except StoreError:  # nor was it put in then
            continue
        if (handle := expected_handle(content)) in handles:
            found[handle] = content
    return found
