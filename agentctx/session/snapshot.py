"""Remember what a native message looked like, so that an edit in place is noticed later."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any


def snapshot(native: Any) -> Any:  # noqa: ANN401 - a native message may be any JSON value or SDK object
    """A copy that equals ``native`` until someone edits it: containers are copied, strings are shared."""
    if type(native) is dict:
        return {key: snapshot(value) if isinstance(value, (dict, list)) else value for key, value in native.items()}
    if type(native) is list:
        return [snapshot(value) if isinstance(value, (dict, list)) else value for value in native]
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
