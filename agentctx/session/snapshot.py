"""Remember what a native message looked like, so that an edit in place is noticed later."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from agentctx.core.pace import paced
from agentctx.errors import InvalidInput

_PLAIN = (str, int, float, type(None))


def snapshots(natives: Iterable[Any], first: int) -> list[Any]:
    """A snapshot of each message.

    Args:
        natives: The native messages.
        first: The index of the first one, for the error.

    Raises:
        InvalidInput: If a message contains itself, or is nested so deep that it cannot be looked at; names it.
    """
    seen: list[Any] = []
    try:
        for native in paced(natives):
            seen.append(snapshot(native))  # noqa: PERF401 - its length tells which message failed
    except RecursionError:
        where = f"messages[{first + len(seen)}]"
        raise InvalidInput(where, "it is nested too deep, or contains itself") from None
    return seen


def snapshot(native: Any) -> Any:  # noqa: ANN401 - a native message may be any JSON value or SDK object
    """A copy that equals ``native`` until someone edits it: containers are copied, strings are shared."""
    if isinstance(native, dict):
        return {key: value if isinstance(value, _PLAIN) else snapshot(value) for key, value in native.items()}
    if isinstance(native, list):
        return [value if isinstance(value, _PLAIN) else snapshot(value) for value in native]
    if isinstance(native, type):
        return native
    copy = getattr(native, "model_copy", None)
    return native if copy is None else copy(deep=True)


def begins_with(messages: Sequence[Any], known: list[Any]) -> bool:
    """Whether ``messages`` begins with ``known``: the same object, or an equal one, at every place."""
    if len(messages) < len(known):
        return False
    if type(messages) is not list:
        return list(messages[: len(known)]) == known
    try:
        # Lists are ordered by their first different items; when there is none before the shorter one ends, by their
        # length. Messages have no order, so a difference raises. Comparing a slice would say the same, but it would
        # touch every old message to count references, which costs several times as much when there are thousands.
        return known <= messages
    except TypeError:
        return False


def shared_length(messages: Sequence[Any], known: list[Any]) -> int:
    """How many messages at the start are the same in both."""
    low, high = 0, min(len(messages), len(known))
    while low < high:
        middle = (low + high + 1) // 2
        if begins_with(messages[low:middle], known[low:middle]):
            low = middle
        else:
            high = middle - 1
    return low
